// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic NUMA migration by mbind(): MPOL_MF_LAZY marks pages instead of moving them.
 *
 * mbind() sets the policy first. Then, without the write lock, every page that the policy
 * places on another node is marked, and moves at its next access (pull.c). follow_node()
 * decides here and in the fault, so marked pages are pages that will move.
 *
 * Locking: mmap_lock for read, for a slice at a time; in it, the locks of walk.c.
 */
#include <linux/hugetlb.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/swap.h>

#include "../internal.h"
#include "follow.h"

/*
 * A slice: walked before mmap_lock is dropped and the TLB flushed; about a millisecond in
 * base pages
 */
#define SLICE_BYTES	(16UL << 20)

/**
 * __numa_follow_request() - Check a request with MPOL_MF_LAZY
 * @mode: mode of the policy
 * @mode_flags: mode flags of the policy; MPOL_F_LAZY is added, and MPOL_F_LAZY_ALL
 *	if requested
 * @flags: flags of the call; the flags that move pages at once are removed
 *
 * Return: false if the request is not allowed.
 */
bool __numa_follow_request(unsigned short mode, unsigned short *mode_flags,
			   unsigned long *flags)
{
	if (!follow_request_fits(mode, *mode_flags, *flags))
		return false;
	*mode_flags |= MPOL_F_LAZY;
	if (*flags & MPOL_MF_MOVE_ALL)
		*mode_flags |= MPOL_F_LAZY_ALL;
	*flags &= ~(MPOL_MF_LAZY | MPOL_MF_MOVE | MPOL_MF_MOVE_ALL);
	return true;
}

/**
 * __numa_follow_takes() - Check whether the pages of a range can be marked
 * @mm: address space, locked for writing
 * @start: first byte
 * @end: end of the range
 *
 * hugetlbfs pages cannot: their faults do not handle hint faults.
 *
 * Return: 0 or -EINVAL.
 */
int __numa_follow_takes(struct mm_struct *mm, unsigned long start,
			unsigned long end)
{
	VMA_ITERATOR(vmi, mm, start);
	struct vm_area_struct *vma;

	mmap_assert_write_locked(mm);
	for_each_vma_range(vmi, vma, end)
		if (is_vm_hugetlb_page(vma))
			return -EINVAL;
	return 0;
}

static enum follow_verdict judge(const struct follow_walk *walk,
				 struct vm_area_struct *vma,
				 unsigned long addr, struct folio *folio)
{
	struct follow_said said = follow_said_at(vma, addr, folio);
	struct follow_seen seen = {
		.misplaced = said.local || said.to != folio_nid(folio),
	};

	if (!seen.misplaced)
		return FOLLOW_LEAVE;
	seen.shared = !said.all && folio_likely_mapped_shared(folio);
	follow_see(&seen, folio);
	return follow_verdict(&seen);
}

/* Returns the start of the next slice. */
static unsigned long mark_slice(struct mm_struct *mm, unsigned long start,
				unsigned long end)
{
	struct vm_area_struct *vma = find_vma(mm, start);
	struct follow_walk walk = { .judge = judge };

	if (!vma || vma->vm_start >= end)
		return end;
	start = max(start, vma->vm_start);
	end = min(end, vma->vm_end);
	if (!follow_walkable(vma))
		return end;
	if (end - start > SLICE_BYTES)
		end = start + SLICE_BYTES;
	follow_walk(&walk, vma, start, end);
	follow_account(&walk, false, start, NUMA_NO_NODE, NUMA_NO_NODE, 0);
	return end;
}

/**
 * __numa_follow_mark() - Mark misplaced pages for migration at their next access
 * @mm: address space, not locked
 * @start: first byte
 * @end: end of the range
 *
 * Uses the present policies: another thread may have changed them since the caller did.
 * Pages in the LRU batches of CPUs are put on their lists first, because a fault cannot
 * isolate them from a batch.
 */
void __numa_follow_mark(struct mm_struct *mm, unsigned long start,
			unsigned long end)
{
	/* Only now: the call can no longer fail. */
	follow_marks_begin();
	lru_add_drain_all();
	while (start < end) {
		/* The task is dying and will not use these pages. */
		if (mmap_read_lock_killable(mm))
			return;
		start = mark_slice(mm, start, end);
		mmap_read_unlock(mm);
		cond_resched();
	}
}
