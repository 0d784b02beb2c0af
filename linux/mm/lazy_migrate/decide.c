// SPDX-License-Identifier: GPL-2.0
/*
 * Lazy migration: what is decided without looking at a page, a lock or a clock.
 *
 * Which requests make sense, which pages are worth a fault, and which of its
 * neighbours a page takes along.  All of it is tested by itself in
 * tests/decide_kunit.c.
 */
#include <linux/align.h>
#include <linux/mempolicy.h>
#include <linux/minmax.h>
#include <linux/mm.h>

#include "decide.h"

/**
 * lazy_request_fits - Can MPOL_MF_LAZY be done with the rest of a request?
 * @mode: of the policy
 * @mode_flags: of the policy
 * @flags: of the call
 *
 * It says how pages move, so something has to say that they do; nobody can tell
 * now whether all of them will, as MPOL_MF_STRICT would have it; and the policy
 * has to be one that a fault can go by: neither the lack of one, nor one that
 * leaves the choice to NUMA balancing.
 *
 * Return: true if it can.
 */
bool lazy_request_fits(unsigned short mode, unsigned short mode_flags,
		       unsigned long flags)
{
	if (!(flags & (MPOL_MF_MOVE | MPOL_MF_MOVE_ALL)))
		return false;
	if (flags & MPOL_MF_STRICT)
		return false;
	return mode != MPOL_DEFAULT && !(mode_flags & MPOL_F_NUMA_BALANCING);
}

/**
 * lazy_verdict - What becomes of a page that mbind() comes across?
 * @page: what is known of it
 * @move_all: MPOL_MF_MOVE_ALL was given
 *
 * What cannot move when it is used is not worth a fault.
 *
 * Return: LAZY_MARK, LAZY_LEAVE, or the lazy_reason why it is refused.
 */
int lazy_verdict(const struct lazy_page *page, bool move_all)
{
	if (!page->policy)
		return LAZY_LEAVE;
	if (!page->local && !page->misplaced)
		return LAZY_LEAVE;
	if (page->held)
		return LAZY_BUSY;
	if (page->shared && !move_all)
		return LAZY_SHARED;
	if (page->dirty)
		return LAZY_DIRTY;
	return LAZY_MARK;
}

/**
 * lazy_batch - Where does a fault look for more pages to pull?
 * @addr: address of the fault
 * @vm_start: start of its VMA
 * @vm_end: end of its VMA
 *
 * Aligned, so that it stays in one page table, and memory that is used from one
 * end to the other is pulled by the smallest number of faults.
 *
 * Return: at most LAZY_BATCH_PAGES pages, the one of @addr among them.
 */
struct lazy_window lazy_batch(unsigned long addr, unsigned long vm_start,
			      unsigned long vm_end)
{
	unsigned long bytes = LAZY_BATCH_PAGES * PAGE_SIZE;
	unsigned long start = ALIGN_DOWN(addr, bytes);

	return (struct lazy_window) {
		.start = max(start, vm_start),
		.end = min(start + bytes, vm_end),
	};
}
