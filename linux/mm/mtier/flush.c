// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: TLB flushes after Accessed bits were cleared.
 *
 * A CPU does not set a bit again while it has the translation cached. So an address space
 * is flushed once after a scan or a sweep that cleared bits of it. The list holds address
 * spaces with mmgrab(), which does not keep a process from exiting.
 *
 * Locking: none; each list belongs to kmtierd.
 */
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>

#include <asm/tlbflush.h>

#include "burst.h"

/**
 * mtier_flush_now() - Flush the address spaces in a list, and empty the list.
 * @f: list of address spaces
 * @seen: statistics that the flushes are added to
 */
void mtier_flush_now(struct mtier_flush *f, struct mtier_seen *seen)
{
	while (f->nr) {
		struct mm_struct *mm = f->mm[--f->nr];
		u64 start_ns = ktime_get_ns();

		flush_tlb_mm(mm);
		seen->flushed_ns += ktime_get_ns() - start_ns;
		seen->flushes++;
		mmdrop(mm);
	}
}

/**
 * mtier_flush_later() - Note an address space whose Accessed bits were cleared.
 * @f: list of address spaces
 * @mm: the address space
 * @seen: statistics of the flushes, if the list is full and flushed now
 */
void mtier_flush_later(struct mtier_flush *f, struct mm_struct *mm,
		       struct mtier_seen *seen)
{
	unsigned int i;

	for (i = f->nr; i-- > 0;)
		if (f->mm[i] == mm)
			return;
	if (f->nr == MTIER_FLUSH_MMS)
		mtier_flush_now(f, seen);
	mmgrab(mm);
	f->mm[f->nr++] = mm;
}
