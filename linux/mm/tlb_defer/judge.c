// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flush of migrated pages: whose flush can wait.
 *
 * A folio is deferred whole or not at all (D3): if one of its entries is
 * writable (D1), or may be so in a TLB (D2, D7), then those that were
 * cleared before it join the flush that migration does before it copies, for
 * else it would cost both an interrupt and a frame that waits. Every folio that
 * is not deferred is counted under the first reason. What becomes of the batch is
 * decided when all of it is unmapped (batch.c).
 *
 * Reclaim, too, clears entries and flushes them later in a batch, without any
 * sign of D2, and the page can be mapped again in between. But until it has
 * flushed it keeps the folio isolated, so nobody can migrate that one.
 *
 * Secondary MMUs are told as always, when the entry is cleared (D6): KVM by the
 * notifiers in try_to_migrate_one(), an IOMMU by arch_tlbbatch_add_pending().
 *
 * Locks: the batch belongs to the task that migrates; folio lock -> page table
 * lock -> the engine's.
 */
#include <linux/fs.h>
#include <linux/ksm.h>
#include <linux/magic.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/pagemap.h>
#include <linux/sched.h>
#include <linux/tlb_defer_pte.h>
#include <linux/vmstat.h>
#include <asm/tlbflush.h>
#include <trace/events/tlb_defer.h>

#include "tlb_defer.h"

/* Magic numbers that have no header of their own */
#define GFS2_MAGIC	0x01161970

/* ---- folios ---- */

/*
 * B1: the bytes of a page cache folio are only changed by those who have write
 * access to the inode, which is so for local file systems on a block device.
 */
static bool content_is_local(struct inode *inode)
{
	struct super_block *sb = inode->i_sb;

	return S_ISREG(inode->i_mode) && sb->s_bdev &&
	       sb->s_magic != FUSE_SUPER_MAGIC &&
	       sb->s_magic != OCFS2_SUPER_MAGIC && sb->s_magic != GFS2_MAGIC;
}

static bool has_writers(struct address_space *mapping)
{
	return inode_is_open_for_write(mapping->host) ||
	       mapping_writably_mapped(mapping);
}

static enum vm_event_item judge_file(struct folio *src)
{
	struct address_space *mapping = src->mapping;

	if (!mapping || !mapping->host || mapping->host->i_mapping != mapping ||
	    folio_test_swapbacked(src) || !content_is_local(mapping->host))
		return TLB_DEFER_REFUSED_FILE;
	/* Writeback may still zero what lies behind the end of the file. */
	if (has_writers(mapping) || folio_test_dirty(src) ||
	    folio_test_writeback(src))
		return TLB_DEFER_REFUSED_OPEN;
	set_bit(AS_TLB_DEFER, &mapping->flags);
	/* B3: before entries are cleared */
	smp_mb__after_atomic();
	return 0;
}

/* Each entry is flushed when it is cleared, so that nothing is left to defer. */
static bool flushed_at_once(struct folio *src, bool batched)
{
	return !batched || (folio_test_large(src) && folio_entire_mapcount(src));
}

/* Asked once a batch and node: what the batch itself holds is in tlb_defer_room(). */
static bool node_is_short(struct tlb_defer_batch *batch, int nid)
{
	if (batch->nid != nid) {
		batch->nid = nid;
		batch->is_short = tlb_defer_short(nid);
	}
	return batch->is_short;
}

static enum vm_event_item judge_folio(struct tlb_defer_batch *batch,
				      struct folio *src, bool batched)
{
	long nr = folio_nr_pages(src);

	if (flushed_at_once(src, batched))
		return TLB_DEFER_REFUSED_KIND;
	if (folio_test_ksm(src) || folio_is_zone_device(src) ||
	    folio_test_hugetlb(src) || folio_contain_hwpoisoned_page(src))
		return TLB_DEFER_REFUSED_KIND;
	if (tlb_defer_paused() || node_is_short(batch, folio_nid(src)))
		return TLB_DEFER_REFUSED_PRESSURE;
	if (!tlb_defer_room(folio_nid(src), batch->pages + nr))
		return TLB_DEFER_REFUSED_FULL;
	return folio_test_anon(src) ? 0 : judge_file(src);
}

/**
 * __tlb_defer_folio_begin() - Look at a folio whose entries will be cleared
 * @src: locked folio
 * @batched: its entries are flushed with those of others, not one by one
 */
void __tlb_defer_folio_begin(struct folio *src, bool batched)
{
	struct tlb_defer_batch *batch = current->tlb_defer;

	if (!batch)
		return;
	/* What the last batch accepted is held by now, or did not move. */
	if (batch->settled) {
		batch->pages = 0;
		batch->nid = NUMA_NO_NODE;
	}
	batch->settled = false;
	batch->folio = src;
	batch->put_aside = NULL;
	batch->entries = 0;
	batch->refused = judge_folio(batch, src, batched);
	tlb_defer_race_window();
}

/* What was deferred of a refused folio is flushed with the rest of it. */
static void fold(struct tlb_defer_batch *batch)
{
	struct tlbflush_unmap_batch *now = &current->tlb_ubc;

	if (!batch->entries)
		return;
	cpumask_or(&now->arch.cpumask, &now->arch.cpumask, &batch->cpus.cpumask);
	now->flush_required = true;
}

/* B3: did a writer come while entries were cleared, or come and go? */
static bool writer_came(struct address_space *mapping)
{
	/* Pairs with the full barrier in get_write_access() */
	smp_mb();
	if (has_writers(mapping))
		return true;
	/* Pairs with __tlb_defer_write_access() */
	smp_rmb();
	return !test_bit(AS_TLB_DEFER, &mapping->flags);
}

/**
 * __tlb_defer_folio_end() - All entries that could be cleared are
 * @src: the folio of __tlb_defer_folio_begin(), still locked
 *
 * Return: PAGE_TLB_DEFERRED or 0.
 */
int __tlb_defer_folio_end(struct folio *src)
{
	struct tlb_defer_batch *batch = current->tlb_defer;
	long nr = folio_nr_pages(src);
	int state = 0;

	if (!batch || !batch->folio)
		return 0;
	tlb_defer_race_window();
	if (!batch->refused && batch->entries && !folio_test_anon(src) &&
	    writer_came(src->mapping))
		batch->refused = TLB_DEFER_REFUSED_OPEN;
	if (batch->put_aside) {
		/* Those of its entries that were cleared are set again. */
		batch->refused = 0;
		batch->folio = NULL;
		return 0;
	}
	if (batch->refused) {
		fold(batch);
		count_vm_events(batch->refused, nr);
	} else if (batch->entries) {
		batch->pages += nr;
		state = PAGE_TLB_DEFERRED;
	} else {
		/* No other CPU could have a translation: nothing to flush. */
		count_vm_events(TLB_DEFER_NO_NEED, nr);
	}
	trace_tlb_defer_folio(folio_pfn(src), nr, batch->entries,
			      batch->refused ? batch->refused -
			      TLB_DEFER_REFUSED_WRITE + 1 : 0);
	batch->folio = NULL;
	return state;
}

/**
 * __tlb_defer_keep() - Hold the frame of a folio that was moved (C)
 * @src: source folio of a migration; its translations are sealed, or flushed
 */
void __tlb_defer_keep(struct folio *src)
{
	struct tlb_defer_batch *batch = current->tlb_defer;

	/* Or it went along with a flush that was due anyway. */
	if (!batch->waits_for)
		return;
	tlb_defer_hold(src, batch->waits_for);
	/* Now the engine counts it. */
	batch->pages -= folio_nr_pages(src);
}

/* ---- entries ---- */

static enum vm_event_item judge_pte(struct mm_struct *mm, pte_t pte)
{
	/* D1: another CPU could store through the new entry without a fault. */
	if (pte_write(pte))
		return TLB_DEFER_REFUSED_WRITE;
	/*
	 * D2: write protected, but maybe not flushed yet: mprotect and the like
	 * flush when they are through; D7: so does fork.
	 */
	if (mm_tlb_flush_pending(mm) || !tlb_defer_forks_known(mm))
		return TLB_DEFER_REFUSED_PENDING;
	if (time_before(jiffies, READ_ONCE(mm->tlb_defer.resume)) &&
	    READ_ONCE(mm->tlb_defer.resume))
		return TLB_DEFER_REFUSED_BACKOFF;
	return 0;
}

/**
 * __tlb_defer_aside() - Look at an entry that is about to be cleared
 * @mm: its address space
 * @pte: what it is
 *
 * Return: true if its folio shall stay as it is, since it migrates later.
 */
bool __tlb_defer_aside(struct mm_struct *mm, pte_t pte)
{
	struct tlb_defer_batch *batch = current->tlb_defer;

	if (!batch || !batch->folio || !batch->may_set_aside ||
	    !pte_accessible(mm, pte))
		return false;
	if (!batch->refused)
		batch->refused = judge_pte(mm, pte);
	return batch->refused && tlb_defer_put_aside(batch);
}

/**
 * __tlb_defer_pte() - Look at an entry that has just been cleared
 * @mm: its address space
 * @pte: what it was, accessible
 * @address: where; the page table lock is held
 *
 * Return: true if its flush is deferred, at least until the folio's end.
 */
bool __tlb_defer_pte(struct mm_struct *mm, pte_t pte, unsigned long address)
{
	struct tlb_defer_batch *batch = current->tlb_defer;

	/* Reclaim comes here, too. */
	if (!batch || !batch->folio)
		return false;
	if (!batch->refused)
		batch->refused = judge_pte(mm, pte);
	tlb_defer_judged();
	if (batch->refused)
		return false;
	/* Under the page table lock, so that A finds it in the mm */
	tlb_defer_collect(batch, mm, address);
	batch->entries++;
	return true;
}
