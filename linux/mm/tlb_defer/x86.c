// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flush of migrated pages: what x86 knows of its TLBs.
 *
 * Unmapping for migration increments mm->context.tlb_gen, also if its flush is
 * deferred. A CPU compares that with the generation it has flushed to whenever
 * it loads the mm or leaves lazy mode, so a CPU that does not use an mm right
 * now catches up by itself before it does. See arch/x86/mm/tlb.c.
 */
#include <linux/percpu.h>
#include <linux/sched.h>
#include <asm/tlbflush.h>

#include "tlb_defer.h"

/**
 * tlb_defer_arch_catch_up() - Flush this CPU if it is behind
 *
 * Interrupts are off, as flush_tlb_func() needs it for the same accesses. On
 * return this CPU uses no translation of whose removal tlb_gen told before.
 *
 * Return: true if there was something to flush.
 */
bool tlb_defer_arch_catch_up(void)
{
	struct mm_struct *mm = this_cpu_read(cpu_tlbstate.loaded_mm);
	u16 asid = this_cpu_read(cpu_tlbstate.loaded_mm_asid);
	u64 gen;

	lockdep_assert_irqs_disabled();

	/* No user translations, or none before switch_mm_irqs_off() looks. */
	if (mm == &init_mm || this_cpu_read(cpu_tlbstate_shared.is_lazy))
		return false;
	/*
	 * Only seen with interrupts off; nobody can be in the middle of it. If
	 * somebody is all the same, we do not know whose translations there
	 * are: none of them may stay, or frames would go that are still read.
	 */
	if (WARN_ON_ONCE(mm == LOADED_MM_SWITCHING)) {
		__flush_tlb_all();
		return true;
	}
	/* Read before the flush: what comes later is not covered by it. */
	gen = atomic64_read(&mm->context.tlb_gen);
	if (this_cpu_read(cpu_tlbstate.ctxs[asid].tlb_gen) == gen)
		return false;
	flush_tlb_local();
	this_cpu_write(cpu_tlbstate.ctxs[asid].tlb_gen, gen);
	return true;
}

/**
 * tlb_defer_arch_idle() - Does another CPU need no flush?
 * @cpu: it
 *
 * The caller has a full barrier between the translations' removal (tlb_gen) and
 * this. Either we see what the CPU loads, or it sees the new tlb_gen: there is
 * a full barrier in switch_mm_irqs_off() between its write of is_lazy or
 * loaded_mm and its read of tlb_gen. It is the rule of should_flush_tlb().
 *
 * Return: true if it uses no translation whose removal came before the call.
 */
bool tlb_defer_arch_idle(int cpu)
{
	return !cpu_online(cpu) ||
	       READ_ONCE(per_cpu(cpu_tlbstate_shared.is_lazy, cpu)) ||
	       READ_ONCE(per_cpu(cpu_tlbstate.loaded_mm, cpu)) == &init_mm;
}
