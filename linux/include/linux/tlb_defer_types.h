/* SPDX-License-Identifier: GPL-2.0 */
/* Deferred TLB flush of migrated pages: a part of struct mm_struct. */
#ifndef _LINUX_TLB_DEFER_TYPES_H
#define _LINUX_TLB_DEFER_TYPES_H

#include <linux/types.h>

/**
 * struct tlb_defer_mm - what an address space remembers of deferred flushes
 * @gen: newest generation that one of its translations waits for, 0 for none
 * @resume: when migration may defer again, in jiffies; 0 for now
 * @seq: counts deferred translations, so that a flush knows what it covered
 * @counted: generation that @batches counted last, its lower half
 * @switched_on: how often deferring had been switched on when there was no fork
 *	under way that had begun before
 * @batches: generations it had translations in
 * @forced: flushes that writes and unmaps forced
 *
 * All of it changes under the engine's lock; @gen is read without. @switched_on has
 * no lock: everybody writes the same.
 */
struct tlb_defer_mm {
	u64 gen;
	unsigned long resume;
	u32 seq;
	u32 counted;
	u32 switched_on;
	u16 batches;
	u16 forced;
};

#endif /* _LINUX_TLB_DEFER_TYPES_H */
