// SPDX-License-Identifier: GPL-2.0
/*
 * NUMA scanning: one slice of a walk, in whatever thread.
 *
 * The walk itself is in fair.c. It asks here how far it may go: a slice ends
 * when its time is over or somebody waits for mmap_lock, one page table (2 MB)
 * being the smallest step. What it changed is flushed once, at the end of the
 * slice, before mmap_lock is dropped.
 *
 * Locking: numa_scan_slice() takes mmap_lock for read and only if it is free;
 * see numa_scan.h.
 */
#include <linux/memcontrol.h>
#include <linux/mm_inline.h>
#include <linux/mmap_lock.h>
#include <linux/sched.h>
#include <linux/timekeeping.h>
#include <linux/vmstat.h>

#include <asm/tlb.h>

#include "numa_scan.h"

#define CREATE_TRACE_POINTS
#include <trace/events/numa_scan.h>

/* Skipped VMAs between two looks at the clock. */
#define NUMA_SCAN_VMAS	32

/**
 * numa_scan_begin() - a slice starts
 * @scan: the visit, its mode set
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
 * numa_scan_end() - a slice has ended
 * @scan: the visit
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
 * numa_scan_over() - is the slice over, in the middle of the walk?
 * @scan: the visit
 * @vma: the VMA being walked
 * @end: the walk is done up to here
 *
 * Return: true if it is; then the walk goes on at @end another time.
 */
bool numa_scan_over(struct numa_scan *scan, struct vm_area_struct *vma,
		    unsigned long end)
{
	if (!numa_scan_time_over(scan))
		return false;
	/* As the walk does when it goes on to the next one. */
	if (end == vma->vm_end)
		vma->numab_state->prev_scan_seq = scan->mm->numa_scan_seq;
	scan->paused = true;
	return true;
}

/**
 * numa_scan_pause() - is the slice over, between two VMAs?
 * @scan: the visit
 * @vma: the next VMA
 *
 * The mm's own offset stays: VMAs that were left out may be forced from there.
 *
 * Return: true if it is; then the walk goes on at @vma another time.
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
 * @scan: the visit
 * @start: first address of the chunk
 * @end: end of the chunk that a walk in sync mode would take
 *
 * A walk in sync mode takes steps that are as large as what is left of the visit,
 * and all of a step counts if one entry was changed. Slices go through the same
 * steps in chunks, so that a sparse heap has the same budget in every mode.
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
 * @scan: the visit
 * @start: first address of the chunk
 * @end: its end, from numa_scan_step()
 * @nr: number of entries changed in it
 *
 * The first change pays for the step from its start on.
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
 * numa_scan_vma_mof() - may pages of a VMA be migrated on a fault?
 * @scan: the visit, for the policy of the task it serves
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
 * numa_scan_protect() - make a range fault on its next access
 * @scan: the visit
 * @vma: the VMA
 * @start: where
 * @end: up to where; nothing is done if it is @start
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
		/* Its cgroup gets them with the slice. */
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
 * numa_scan_slice() - do the next part of a visit
 * @scan: the visit, NUMA_SCAN_ACTIVE
 * @mode: how
 *
 * Context: takes mmap_lock if it is free.
 * Return: what became of it.
 */
enum numa_scan_verdict numa_scan_slice(struct numa_scan *scan,
				       enum numa_scan_mode mode)
{
	struct mm_struct *mm = scan->mm;
	struct mem_cgroup *memcg;
	struct mmu_gather tlb;

	scan->took_ns = 0;
	if (!mmap_read_trylock(mm))
		return NUMA_SCAN_LOCKED;
	/* Its exit waits for mmap_lock, once, before it tears anything down. */
	if (!atomic_read(&mm->mm_users) || READ_ONCE(scan->task->mm) != mm) {
		mmap_read_unlock(mm);
		return NUMA_SCAN_GONE;
	}
	if (numa_scan_opted_out(mm)) {
		mmap_read_unlock(mm);
		return NUMA_SCAN_GONE;
	}
	/* Before its owner is gone, which does not wait for the slice. */
	memcg = get_mem_cgroup_from_mm(mm);

	scan->mode = mode;
	scan->node = cpu_to_node(task_cpu(scan->task));
	scan->deadline_ns = ktime_get_ns() +
		(u64)READ_ONCE(numa_scan_conf.slice_us) * NSEC_PER_USEC;
	numa_scan_begin(scan);
	tlb_gather_mmu(&tlb, mm);
	scan->tlb = &tlb;
	numa_scan_walk(scan);
	scan->tlb = NULL;
	tlb_finish_mmu(&tlb);
	count_memcg_events(memcg, NUMA_PTE_UPDATES, scan->nr_updates);
	mem_cgroup_put(memcg);
	numa_scan_end(scan);
	mmap_read_unlock(mm);
	return scan->paused ? NUMA_SCAN_MORE : NUMA_SCAN_DONE;
}
