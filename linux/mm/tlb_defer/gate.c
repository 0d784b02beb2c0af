// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flush of migrated pages: forced flushes.
 *
 * A: an entry of an address space becomes more permissive, is removed, or is written
 * through. Another CPU may still read the old frame at that address, which had the same
 * bytes until now. So the mm is flushed first. The caller holds the page table lock of
 * the entry, under which the batch registered itself in the mm.
 *
 * B: a task may write to a file whose pages migrated. The migrator sets a mark in the
 * mapping, clears entries, and then checks for writers (judge.c). The writer increments
 * i_writecount, then checks the mark. With a full barrier on both sides, at least one of
 * them observes the other:
 *
 *	migrator			writer
 *	AS_TLB_DEFER set, or set it	i_writecount++
 *	smp_mb				(full barrier)
 *	clear entries			AS_TLB_DEFER set?
 *	smp_mb				  flush all deferred entries
 *	i_writecount > 0?		  clear AS_TLB_DEFER
 *	AS_TLB_DEFER cleared?
 *	  flush at once
 *	commit entries
 *
 * Deferred entries are committed, or belong to a migration in progress. If there is such
 * a migration, all CPUs are flushed. (Waiting for it could deadlock: it may wait for
 * memory that a task frees only after it opens a file.) A folio whose entries are cleared
 * after that flush finds the writer of its file.
 *
 * The mark is cleared only after the flush, so that a second writer does not skip the
 * flush of the first. The migrator checks the mark last: a writer that came and left in
 * between has cleared it. Another migrator may have set it again since, which does no
 * harm: the folios are locked from before their entries are cleared until they are moved,
 * so the writer wrote to none of them.
 *
 * The migrator checks once for all folios of a file that are unmapped together, after the
 * last of their entries is cleared. A migrator that finds the mark set needs no barrier
 * before it clears entries: the task that set the mark had one, and the mark only has to
 * be set before the migrator checks for writers.
 *
 * Locking: no locks here; see engine.c.
 */
#include <linux/export.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/pagemap.h>
#include <linux/vmstat.h>
#include <asm/tlbflush.h>

#include "tlb_defer.h"

static noinline void flush_mm(struct mm_struct *mm, enum tlb_defer_site site)
{
	u32 epoch;

	if (tlb_defer_mm_done(mm))
		return;
	epoch = tlb_defer_mm_flush(mm);
	flush_tlb_mm(mm);
	tlb_defer_mm_flushed(mm, epoch);
	count_vm_event(site == TLB_DEFER_SITE_UNMAP ? TLB_DEFER_FORCED_UNMAP :
		       TLB_DEFER_FORCED_WRITE);
}

/**
 * __tlb_defer_flush_mm() - Flush an address space that has deferred entries
 * @mm: address space; the caller holds the page table lock of the entry in
 *	question
 * @site: reason
 */
void __tlb_defer_flush_mm(struct mm_struct *mm, enum tlb_defer_site site)
{
	/* Every write fault that reuses a page gets here. */
	if (unlikely(READ_ONCE(mm->tlb_defer.gen)))
		flush_mm(mm, site);
}

/**
 * __tlb_defer_fork_begin() - Start to write protect entries for a child (D7)
 * @mm: address space of the parent; its mmap_lock is held for writing
 */
void __tlb_defer_fork_begin(struct mm_struct *mm)
{
	inc_tlb_flush_pending(mm);
}

/**
 * __tlb_defer_fork_flush() - Flush entries that were write protected (D7)
 * @mm: address space of the parent
 * @begun: __tlb_defer_fork_begin() was called
 */
void __tlb_defer_fork_flush(struct mm_struct *mm, bool begun)
{
	tlb_defer_fork_window();
	flush_tlb_mm(mm);
	if (begun)
		dec_tlb_flush_pending(mm);
}

/**
 * __tlb_defer_write_access() - Flush deferred entries before a write to a file (B2)
 * @inode: the file, i_writecount of which has just been incremented
 */
void __tlb_defer_write_access(struct inode *inode)
{
	struct address_space *mapping = inode->i_mapping;
	bool unsealed;

	/* The increment of i_writecount was a full barrier. */
	if (likely(!test_bit(AS_TLB_DEFER, &mapping->flags)))
		return;
	/*
	 * Checked first: a migration that ends after the check has committed its entries
	 * before the next flush.
	 */
	unsealed = tlb_defer_batches();
	tlb_defer_flush_all(TLB_DEFER_OPEN);
	if (unsealed)
		tlb_defer_flush_unsealed(TLB_DEFER_OPEN);
	clear_bit(AS_TLB_DEFER, &mapping->flags);
	/* Before i_writecount is decremented: see the last check of the migrator. */
	smp_mb__after_atomic();
}
EXPORT_SYMBOL(__tlb_defer_write_access);
