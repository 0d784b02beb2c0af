// SPDX-License-Identifier: GPL-2.0
/*
 * NUMA scanning: one slice of a walk, in any thread.
 *
 * The walk itself is in fair.c, and calls this file to limit it. A slice ends when its
 * time is over or a task waits for mmap_lock; the smallest step is one page table (2 MB).
 * The changed entries are flushed once, at the end of the slice, before mmap_lock is
 * dropped.
 *
 * Locking: numa_scan_slice() takes mmap_lock for read, by trylock; see numa_scan.h.
 */
#include <linux/memcontrol.h>
#include <linux/mm_inline.h>
#include <linux/mmap_lock.h>
#include <linux/sched.h>
#include <linux/timekeeping.h>
#include <linux/tlb_defer_hint.h>
#include <linux/vmstat.h>

#include <asm/tlb.h>

#include "numa_scan.h"

#define CREATE_TRACE_POINTS
#include <trace/events/numa_scan.h>

/* Number of skipped VMAs between two checks of the time. */
#define NUMA_SCAN_VMAS	32

/**
 * numa_scan_begin() - Start a slice
 * @scan: the scan pass, its mode set
 */
void numa_scan_begin(struct numa_scan *scan)
{
	mmap_assert_locked(scan->mm);

	scan->paused = false;
	scan->nr_vmas = 0;
	scan->nr_ptes = 0;
	scan->nr_updates = 0;
	scan->nr_skipped = 0;
	scan->began_ns = ktime_get_ns();
	trace_numa_scan_begin(scan->task->pid, scan->mode,
			      raw_smp_processor_id());
}

/**
 * numa_scan_end() - End a slice
 * @scan: the scan pass
 */
void numa_scan_end(struct numa_scan *scan)
{
	u64 ns = ktime_get_ns() - scan->began_ns;

	scan->took_ns = ns;
	count_vm_event(NUMA_SCAN_SLICES_SYNC + scan->mode);
	count_vm_events(NUMA_SCAN_NS_SYNC + scan->mode, ns);
	count_vm_events(NUMA_SCAN_PTES, scan->nr_ptes);
	count_vm_events(NUMA_SCAN_SKIPPED, scan->nr_skipped);
	trace_numa_scan_end(scan->task->pid, scan->mode, raw_smp_processor_id(),
			    scan->nr_ptes, scan->nr_updates, scan->nr_skipped,
			    ns);
}

static bool numa_scan_time_over(struct numa_scan *scan)
{
	if (!scan->deadline_ns)
		return false;
	return ktime_get_ns() >= scan->deadline_ns ||
	       mmap_lock_is_contended(scan->mm);
}

/**
 * numa_scan_over() - Check inside a VMA whether the slice is over
 * @scan: the scan pass
 * @vma: the VMA being walked
 * @end: the walk is done up to this address
 *
 * Return: true if it is; then the next slice starts at @end.
 */
bool numa_scan_over(struct numa_scan *scan, struct vm_area_struct *vma,
		    unsigned long end)
{
	if (!numa_scan_time_over(scan))
		return false;
	/* The walk does this when it continues with the next VMA. */
	if (end == vma->vm_end)
		vma->numab_state->prev_scan_seq = scan->mm->numa_scan_seq;
	scan->paused = true;
	return true;
}

/**
 * numa_scan_pause() - Check between two VMAs whether the slice is over
 * @scan: the scan pass
 * @vma: the next VMA
 *
 * The offset of the mm does not change: skipped VMAs may be forced from there.
 *
 * Return: true if it is; then the next slice starts at @vma.
 */
bool numa_scan_pause(struct numa_scan *scan, struct vm_area_struct *vma)
{
	if (++scan->nr_vmas % NUMA_SCAN_VMAS || !numa_scan_time_over(scan))
		return false;
	scan->resume = vma->vm_start;
	scan->paused = true;
	return true;
}

/**
 * numa_scan_step() - Limit a chunk of a slice to one page table
 * @scan: the scan pass
 * @start: first address of the chunk
 * @end: end of the chunk in sync mode
 *
 * A walk in sync mode takes steps as large as the rest of the pass, and the whole step
 * counts if one entry was changed. Slices divide the same steps into chunks, so that a
 * sparse heap has the same budget in every mode.
 *
 * Return: end of the chunk.
 */
unsigned long numa_scan_step(struct numa_scan *scan, unsigned long start,
			     unsigned long end)
{
	if (start < scan->step_start || start >= scan->step_end) {
		scan->step_start = start;
		scan->step_end = end;
		scan->step_paid = false;
	}
	return min3(end, scan->step_end, ALIGN(start + 1, PMD_SIZE));
}

/**
 * numa_scan_step_cost() - Get the part of the budget that a chunk of a step uses up
 * @scan: the scan pass
 * @start: first address of the chunk
 * @end: its end, from numa_scan_step()
 * @nr: number of entries changed in it
 *
 * The first change pays for the step from its start.
 *
 * Return: number of pages.
 */
long numa_scan_step_cost(struct numa_scan *scan, unsigned long start,
			 unsigned long end, unsigned long nr)
{
	if (!scan->step_paid && !nr)
		return 0;
	if (!scan->step_paid)
		start = scan->step_start;
	scan->step_paid = true;
	return (end - start) >> PAGE_SHIFT;
}

/**
 * numa_scan_vma_mof() - Check whether pages of a VMA may migrate on a fault
 * @scan: the scan pass, for the policy of the scanned task
 * @vma: the VMA
 *
 * Return: true if its policy allows it.
 */
bool numa_scan_vma_mof(struct numa_scan *scan, struct vm_area_struct *vma)
{
	struct mempolicy *pol;
	pgoff_t ilx;
	bool mof;

	pol = __get_vma_policy(vma, vma->vm_start, &ilx);
	if (!pol)
		return scan->mof;
	mof = pol->flags & MPOL_F_MOF;
	mpol_cond_put(pol);
	return mof;
}

/**
 * numa_scan_protect() - Make a range fault on its next access
 * @scan: the scan pass
 * @vma: the VMA
 * @start: first address
 * @end: end; nothing is done if equal to @start
 *
 * Return: the number of entries changed.
 */
unsigned long numa_scan_protect(struct numa_scan *scan,
				struct vm_area_struct *vma,
				unsigned long start, unsigned long end)
{
	long nr;

	if (start >= end)
		return 0;
	scan->nr_ptes += (end - start) >> PAGE_SHIFT;
	if (scan->tlb) {
		nr = change_protection(scan->tlb, vma, start, end,
				       MM_CP_PROT_NUMA |
				       numa_scan_cp_node(scan->node));
		/* The cgroup is charged at the end of the slice. */
		if (nr > 0)
			count_vm_numa_events(NUMA_PTE_UPDATES, nr);
	} else {
		nr = change_prot_numa(vma, start, end);
	}
	if (nr > 0)
		scan->nr_updates += nr;
	return nr;
}

/**
 * numa_scan_slice() - Do the next slice of a scan pass
 * @scan: the scan pass, NUMA_SCAN_ACTIVE
 * @mode: context of the slice
 *
 * Context: takes mmap_lock by trylock.
 *
 * Return: result of the slice.
 */
enum numa_scan_verdict numa_scan_slice(struct numa_scan *scan,
				       enum numa_scan_mode mode)
{
	struct mm_struct *mm = scan->mm;
	struct mem_cgroup *memcg;
	struct mmu_gather tlb;
	bool deferred;

	scan->took_ns = 0;
	if (!mmap_read_trylock(mm))
		return NUMA_SCAN_LOCKED;
	/* exit takes mmap_lock once before it tears down the address space. */
	if (!atomic_read(&mm->mm_users) || READ_ONCE(scan->task->mm) != mm) {
		mmap_read_unlock(mm);
		return NUMA_SCAN_GONE;
	}
	if (numa_scan_opted_out(mm)) {
		mmap_read_unlock(mm);
		return NUMA_SCAN_GONE;
	}
	/* Before the owner exits, which does not wait for the slice. */
	memcg = get_mem_cgroup_from_mm(mm);

	scan->mode = mode;
	scan->node = cpu_to_node(task_cpu(scan->task));
	scan->deadline_ns = ktime_get_ns() +
		(u64)READ_ONCE(numa_scan_conf.slice_us) * NSEC_PER_USEC;
	numa_scan_begin(scan);
	tlb_gather_mmu(&tlb, mm);
	deferred = tlb_defer_hints_begin(&tlb);
	scan->tlb = &tlb;
	numa_scan_walk(scan);
	scan->tlb = NULL;
	tlb_defer_hints_end(&tlb, deferred);
	tlb_finish_mmu(&tlb);
	count_memcg_events(memcg, NUMA_PTE_UPDATES, scan->nr_updates);
	mem_cgroup_put(memcg);
	numa_scan_end(scan);
	mmap_read_unlock(mm);
	return scan->paused ? NUMA_SCAN_MORE : NUMA_SCAN_DONE;
}
