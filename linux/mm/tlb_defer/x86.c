// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flush of migrated pages: TLB state of x86.
 *
 * Unmapping for migration increments mm->context.tlb_gen, also if its flush is deferred.
 * A CPU compares that with the generation it has flushed to whenever it loads the mm or
 * leaves lazy mode. So a CPU that does not use an mm now catches up by itself before it
 * does. See arch/x86/mm/tlb.c.
 */
#include <linux/percpu.h>
#include <linux/sched.h>
#include <asm/tlbflush.h>

#include "tlb_defer.h"

/**
 * tlb_defer_arch_catch_up() - Flush this CPU if it is behind
 *
 * Interrupts are off, as for flush_tlb_func(), because it accesses the same state. On
 * return this CPU uses no translation whose removal incremented tlb_gen before the call.
 *
 * Return: true if a flush was needed.
 */
bool tlb_defer_arch_catch_up(void)
{
	struct mm_struct *mm = this_cpu_read(cpu_tlbstate.loaded_mm);
	u16 asid = this_cpu_read(cpu_tlbstate.loaded_mm_asid);
	u64 gen;

	lockdep_assert_irqs_disabled();

	/* No user translations, or none until switch_mm_irqs_off() compares tlb_gen. */
	if (mm == &init_mm || this_cpu_read(cpu_tlbstate_shared.is_lazy))
		return false;
	/*
	 * This value exists only while interrupts are off, so it cannot be seen here. If
	 * it is, the address space of the loaded translations is not known: flush all of
	 * them, or frames would be freed that are still read.
	 */
	if (WARN_ON_ONCE(mm == LOADED_MM_SWITCHING)) {
		__flush_tlb_all();
		return true;
	}
	/* Read before the flush, which does not cover later increments. */
	gen = atomic64_read(&mm->context.tlb_gen);
	if (this_cpu_read(cpu_tlbstate.ctxs[asid].tlb_gen) == gen)
		return false;
	flush_tlb_local();
	this_cpu_write(cpu_tlbstate.ctxs[asid].tlb_gen, gen);
	return true;
}

/**
 * tlb_defer_arch_changed() - Note that translations of an address space are stale
 * @mm: address space whose entries were changed before
 *
 * Later, each CPU that uses @mm flushes, in its tick or when it loads @mm. A full barrier.
 */
void tlb_defer_arch_changed(struct mm_struct *mm)
{
	inc_mm_tlb_gen(mm);
	mmu_notifier_arch_invalidate_secondary_tlbs(mm, 0, -1UL);
}

/**
 * tlb_defer_arch_idle() - Check whether another CPU needs no flush
 * @cpu: the CPU
 *
 * The caller has a full barrier between the removal of the translations (tlb_gen) and
 * this call. Either this call observes the mm that the CPU loads, or the CPU observes the
 * new tlb_gen: switch_mm_irqs_off() has a full barrier between its write of is_lazy or
 * loaded_mm and its read of tlb_gen. The rule is that of should_flush_tlb().
 *
 * Return: true if the CPU uses no translation that was removed before the call.
 */
bool tlb_defer_arch_idle(int cpu)
{
	return !cpu_online(cpu) ||
	       READ_ONCE(per_cpu(cpu_tlbstate_shared.is_lazy, cpu)) ||
	       READ_ONCE(per_cpu(cpu_tlbstate.loaded_mm, cpu)) == &init_mm;
}
