/* SPDX-License-Identifier: GPL-2.0 */
/* Deferred TLB flush of migrated pages: a part of struct mm_struct. */
#ifndef _LINUX_TLB_DEFER_TYPES_H
#define _LINUX_TLB_DEFER_TYPES_H

#include <linux/limits.h>
#include <linux/types.h>

/* In place of a generation: translations were cleared and are not sealed yet */
#define TLB_DEFER_UNSEALED	U64_MAX

/**
 * struct tlb_defer_mm - what an address space remembers of deferred flushes
 * @gen: newest generation that one of its translations waits for, 0 for none, or
 *	TLB_DEFER_UNSEALED while a batch collects some
 * @sealed: newest generation it has had translations sealed in, if not flushed since
 * @resume: when migration may defer again, in jiffies; 0 for now
 * @epoch: counts flushes that were forced; a batch that has seen another one notes
 *	itself again with its next translation
 * @noted: @epoch when a batch noted itself last
 * @open: batches that collect translations of it
 * @counted: generation that @batches counted last, its lower half
 * @switched_on: how often deferring had been switched on when there was no fork
 *	under way that had begun before
 * @batches: generations it had translations in
 * @forced: flushes that writes and unmaps forced
 *
 * All of it changes under the engine's lock; @gen and @epoch are read without.
 * @switched_on has no lock: everybody writes the same.
 */
struct tlb_defer_mm {
	u64 gen;
	u64 sealed;
	unsigned long resume;
	u32 epoch;
	u32 noted;
	u32 open;
	u32 counted;
	u32 switched_on;
	u16 batches;
	u16 forced;
};

#endif /* _LINUX_TLB_DEFER_TYPES_H */
