// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flush of migrated pages: who has to wait for a flush first.
 *
 * A: an entry of an address space is about to become more permissive, to go, or
 * to be written through. Another CPU may still read the old frame at that
 * address, which showed the same bytes until now, so the mm is flushed first. The
 * caller holds the page table lock of the entry, under which the deferral was
 * noted in the mm.
 *
 * B: somebody may write to a file whose pages migrated. The migrator marks the
 * mapping, clears entries, and then looks for writers (judge.c). The writer
 * counts itself in i_writecount, then looks for the mark. With a full barrier on
 * either side one of them sees the other:
 *
 *	migrator			writer
 *	AS_TLB_DEFER set, or set it	i_writecount++
 *	smp_mb				(full barrier)
 *	clear entries			AS_TLB_DEFER set?
 *	smp_mb				  flush all that is deferred
 *	i_writecount > 0?		  clear AS_TLB_DEFER
 *	AS_TLB_DEFER cleared?
 *	  flush at once
 *	seal entries
 *
 * What is deferred is sealed, or belongs to a migration that is under way: if
 * there is one, all CPUs are flushed. (It cannot be waited for: it may want memory
 * for which somebody waits who opens files.) A folio whose entries are cleared only
 * after that is none of a file without a writer.
 *
 * The mark goes only after the flush, so that a second writer does not overtake
 * the first. The migrator looks for the mark last: a writer that came and went
 * in between took it along. If another migrator has set it again since, it does not
 * matter: the folios are locked from before their entries are cleared until they are
 * moved, so that this writer wrote to none of them.
 *
 * The migrator looks once for all folios of a file that are unmapped together, when the
 * last of their entries is clear. One that finds the mark set needs no barrier of its
 * own before it clears entries: whoever set it had one, and what counts is that the mark
 * is there before the migrator looks for writers.
 *
 * Locks: none of its own; see engine.c.
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
 * __tlb_defer_flush_mm() - Flush an address space if translations of it wait
 * @mm: it; the caller holds the page table lock of the entry in question
 * @site: why
 */
void __tlb_defer_flush_mm(struct mm_struct *mm, enum tlb_defer_site site)
{
	/* Every write fault that takes a page as it is comes here. */
	if (unlikely(READ_ONCE(mm->tlb_defer.gen)))
		flush_mm(mm, site);
}

/**
 * __tlb_defer_fork_begin() - Entries will be write protected for a child (D7)
 * @mm: the parent's; its mmap_lock is held for writing
 */
void __tlb_defer_fork_begin(struct mm_struct *mm)
{
	inc_tlb_flush_pending(mm);
}

/**
 * __tlb_defer_fork_flush() - Flush entries that were write protected (D7)
 * @mm: the parent's
 * @begun: of __tlb_defer_fork_begin()
 */
void __tlb_defer_fork_flush(struct mm_struct *mm, bool begun)
{
	tlb_defer_fork_window();
	flush_tlb_mm(mm);
	if (begun)
		dec_tlb_flush_pending(mm);
}

/**
 * __tlb_defer_write_access() - Let a writer of a file wait for a flush (B2)
 * @inode: the file, i_writecount of which has just been incremented
 */
void __tlb_defer_write_access(struct inode *inode)
{
	struct address_space *mapping = inode->i_mapping;
	bool unsealed;

	/* Incrementing i_writecount was a full barrier. */
	if (likely(!test_bit(AS_TLB_DEFER, &mapping->flags)))
		return;
	/* Asked first: a migration that ends now has sealed what comes next. */
	unsealed = tlb_defer_batches();
	tlb_defer_flush_all(TLB_DEFER_OPEN);
	if (unsealed)
		tlb_defer_flush_unsealed(TLB_DEFER_OPEN);
	clear_bit(AS_TLB_DEFER, &mapping->flags);
	/* Before i_writecount is decremented: see the migrator's last look. */
	smp_mb__after_atomic();
}
EXPORT_SYMBOL(__tlb_defer_write_access);
