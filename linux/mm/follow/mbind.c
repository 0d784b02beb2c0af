// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that follow, by mbind(): MPOL_MF_LAZY marks pages instead of moving them.
 *
 * The policy is set first, as always.  Then, no longer under the write lock, every page
 * that it wants elsewhere is marked, for its next use to move (pull.c).  Whether a page
 * is misplaced is asked of follow_node(), which the fault will ask again: what is
 * marked is what will move.
 *
 * Locks: mmap_lock for read, a slice at a time; in it, what walk.c takes.
 */
#include <linux/hugetlb.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/swap.h>

#include "../internal.h"
#include "follow.h"

/*
 * What is walked before others may have mmap_lock, and the TLB is flushed: about a
 * millisecond in base pages
 */
#define SLICE_BYTES	(16UL << 20)

/**
 * __numa_follow_request - Check a request that has MPOL_MF_LAZY
 * @mode: of the policy
 * @mode_flags: of the policy; MPOL_F_LAZY is added, and MPOL_F_LAZY_ALL
 * @flags: of the call; what would move pages now is removed
 *
 * Return: false if it cannot be done.
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
 * __numa_follow_takes - Can the pages of a range be marked?
 * @mm: address space, locked for writing
 * @start: first byte
 * @end: end of the range
 *
 * Huge pages of hugetlbfs cannot: their faults know no hint faults.
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

/* Returns where the next slice begins. */
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
 * __numa_follow_mark - Have misplaced pages move when they are used next
 * @mm: address space, not locked
 * @start: first byte
 * @end: end of the range
 *
 * By the policies that hold by now: others may have changed them since the
 * caller did.  Pages that were allocated a moment ago are put on their lists, or a
 * fault could not take them from there.
 */
void __numa_follow_mark(struct mm_struct *mm, unsigned long start,
			unsigned long end)
{
	/* Not before the call is known to succeed. */
	follow_marks_begin();
	lru_add_drain_all();
	while (start < end) {
		/* Dying: nobody will use these pages. */
		if (mmap_read_lock_killable(mm))
			return;
		start = mark_slice(mm, start, end);
		mmap_read_unlock(mm);
		cond_resched();
	}
}
