/* SPDX-License-Identifier: GPL-2.0 */
/* Deferred TLB flush of migrated pages: member of struct mm_struct. */
#ifndef _LINUX_TLB_DEFER_TYPES_H
#define _LINUX_TLB_DEFER_TYPES_H

#include <linux/compiler.h>
#include <linux/limits.h>
#include <linux/types.h>

/* In place of a generation: entries were cleared and are not committed yet */
#define TLB_DEFER_UNSEALED	U64_MAX

/**
 * struct tlb_defer_protect - entries of an address space that stay write-protected
 * @resume: end of the time in which no entry stays write-protected, in jiffies; 0 for
 *	none
 * @saved: number of batches without a flush, which pay for @stored
 * @stored: number of write faults on write-protected pages
 * @shift: the next such time is 2 to the power of this times backoff_ms
 * @used: an entry stayed write-protected since the end of that time
 *
 * @stored and @used are written under the page table lock of an entry, so some counts
 * can be lost; all others are written under tlb_defer_lock. All are read without it.
 */
struct tlb_defer_protect {
	unsigned long resume;
	u32 saved;
	u32 stored;
	u8 shift;
	bool used;
};

/**
 * struct tlb_defer_hints - hint scans of an address space without a flush
 * @gen: generation after which no CPU has a translation from before a scan, 0 for none, or
 *	TLB_DEFER_UNSEALED during a scan
 * @sealed: newest generation of a scan that has ended
 * @scans: number of scans under way
 *
 * Protected by hints_lock (mm/tlb_defer/hint.c); @gen is also read without it.
 */
struct tlb_defer_hints {
	u64 gen;
	u64 sealed;
	u32 scans;
};

/**
 * struct tlb_defer_mm - state of deferred flushes of an address space
 * @gen: newest generation that one of its translations depends on, 0 for none, or
 *	TLB_DEFER_UNSEALED while a batch is registered
 * @sealed: newest generation with committed translations of it, if not flushed
 *	since
 * @resume: end of the back-off, in jiffies; 0 for none
 * @epoch: number of forced flushes; a batch that finds it changed registers itself
 *	again with its next entry
 * @noted: @epoch when a batch registered itself last
 * @open: number of registered batches
 * @counted: last generation counted in @batches, its lower half
 * @switched_on: value of tlb_defer_switched_on at a time without a fork from
 *	before the mode
 * @batches: number of generations with translations of it
 * @forced: number of flushes forced by writes and unmaps
 * @protect: entries that stay write-protected
 * @hints: hint scans without a flush
 *
 * Protected by tlb_defer_lock; @gen and @epoch are also read without it.
 *
 * @switched_on needs no lock: all writers write the same value.
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
	struct tlb_defer_protect protect;
	struct tlb_defer_hints hints;
};

struct mm_struct;

#ifdef CONFIG_TLB_DEFER
bool __tlb_defer_hinted(struct mm_struct *mm);

/*
 * True if a CPU may have a translation from before a hint scan whose entry the scan has
 * made inaccessible. A macro: used where struct mm_struct is complete.
 */
#define tlb_defer_hinted(mm)					\
({								\
	struct mm_struct *__mm = (mm);				\
								\
	unlikely(READ_ONCE(__mm->tlb_defer.hints.gen)) &&	\
		__tlb_defer_hinted(__mm);			\
})
#else
#define tlb_defer_hinted(mm)	false
#endif

#endif /* _LINUX_TLB_DEFER_TYPES_H */
