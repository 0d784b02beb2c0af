// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flush of migrated pages: eligibility.
 *
 * A folio is deferred whole or not at all (D3). If one of its entries is writable (D1),
 * or may be writable in a TLB (D2, D7), the entries that were cleared before are merged
 * into the flush that migration does before the copy. Otherwise the folio would cost an
 * interrupt and a deferred frame as well. Later entries of the same address space are
 * merged too. Every folio that is not deferred is counted under the first reason. The
 * result of the batch, and the check for a new writer of a file (B3), wait until the
 * whole batch is unmapped (batch.c).
 *
 * Reclaim also clears entries and flushes them later in a batch, without a pending flush
 * as in D2, and the page can be mapped again in between. But reclaim keeps the folio
 * isolated until the flush, so the folio cannot be migrated.
 *
 * Secondary MMUs are notified when the entry is cleared, as always (D6): KVM by the
 * notifiers in try_to_migrate_one(), an IOMMU by arch_tlbbatch_add_pending().
 *
 * Locking: the batch belongs to the task that migrates; folio lock -> page table lock ->
 * tlb_defer_lock.
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

/* Magic numbers without a header */
#define GFS2_MAGIC	0x01161970

/* ---- folios ---- */

/*
 * B1: only holders of write access to the inode change the bytes of a page cache folio.
 * This is true for local file systems on a block device.
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

/* Check whether the pages of a file can be deferred at all. */
static bool file_can_wait(struct folio *src, struct address_space *mapping)
{
	return mapping && mapping->host && mapping->host->i_mapping == mapping &&
	       !folio_test_swapbacked(src) && content_is_local(mapping->host);
}

static enum vm_event_item judge_file(struct address_space *mapping,
				     struct folio *src)
{
	if (!file_can_wait(src, mapping))
		return TLB_DEFER_REFUSED_FILE;
	if (has_writers(mapping))
		return TLB_DEFER_REFUSED_OPEN;
	if (!test_bit(AS_TLB_DEFER, &mapping->flags)) {
		set_bit(AS_TLB_DEFER, &mapping->flags);
		/* B3: before entries are cleared */
		smp_mb__after_atomic();
	}
	return 0;
}

/* Done once per batch and node: get the number of frames that may be deferred. */
static void look_at_node(struct tlb_defer_batch *batch, int nid)
{
	batch->nid = nid;
	batch->room = 0;
	batch->full = TLB_DEFER_REFUSED_PRESSURE;
	if (tlb_defer_paused() || tlb_defer_short(nid))
		return;
	batch->full = TLB_DEFER_REFUSED_FULL;
	batch->room = tlb_defer_room(nid);
}

/* Called before the first entry of the folio is cleared, under its page table lock. */
static enum vm_event_item judge_folio(struct tlb_defer_batch *batch,
				      struct folio *src)
{
	struct address_space *mapping = src->mapping;

	if (folio_test_ksm(src) || folio_is_zone_device(src) ||
	    folio_contain_hwpoisoned_page(src))
		return TLB_DEFER_REFUSED_KIND;
	if (batch->nid != folio_nid(src))
		look_at_node(batch, folio_nid(src));
	if (folio_nr_pages(src) > batch->room)
		return batch->full;
	if (folio_test_anon(src))
		return 0;
	/* Writeback may still zero the bytes after the end of the file. */
	if (folio_test_dirty(src) || folio_test_writeback(src))
		return TLB_DEFER_REFUSED_OPEN;
	return mapping == batch->mapping ? 0 : judge_file(mapping, src);
}

/*
 * B3: check for a writer since the first entry was cleared, also for one that has left.
 */
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
 * tlb_defer_writer_came() - Check whether a file of the batch has got a writer (B3)
 * @batch: the batch
 * @next: the next file of the batch, or NULL
 *
 * Called for each file after the last entry of its pages is cleared. The folios are
 * unmapped and stay locked until they are moved, which keeps the inode.
 *
 * Return: true if this file or an earlier one has a writer, or had one since its pages
 * were accepted.
 */
bool tlb_defer_writer_came(struct tlb_defer_batch *batch,
			   struct address_space *next)
{
	if (batch->mapping && writer_came(batch->mapping))
		batch->writer_came = true;
	batch->mapping = next;
	return batch->writer_came;
}

/**
 * tlb_defer_refusal() - Get the result of a folio or a flight, for tracepoints
 * @end: its counter, or 0 if it is deferred
 *
 * Return: one of TLB_DEFER_REFUSAL_NAMES.
 */
unsigned int tlb_defer_refusal(enum vm_event_item end)
{
	if (end == TLB_DEFER_JOINED)
		return TLB_DEFER_REFUSAL_JOINED;
	if (!end || end == TLB_DEFER_NO_NEED)
		return 0;
	return end - TLB_DEFER_REFUSED_WRITE + 1;
}

static void trace_folio(struct folio *src, unsigned int entries,
			enum vm_event_item end)
{
	if (trace_tlb_defer_folio_enabled())
		trace_tlb_defer_folio(folio_pfn(src), folio_nr_pages(src),
				      entries, tlb_defer_refusal(end));
}

static int accept_folio(struct tlb_defer_batch *batch, struct folio *src)
{
	long nr = folio_nr_pages(src);

	if (!folio_test_anon(src) && src->mapping != batch->mapping)
		tlb_defer_writer_came(batch, src->mapping);
	batch->room -= nr;
	batch->pages += nr;
	trace_folio(src, batch->entries, 0);
	return PAGE_TLB_DEFERRED;
}

/* The entries were flushed at once, or no other CPU could have a translation. */
static enum vm_event_item nothing_seen(struct folio *src, bool batched)
{
	return !batched || folio_test_pmd_mappable(src) ? TLB_DEFER_REFUSED_KIND :
							  TLB_DEFER_NO_NEED;
}

/**
 * __tlb_defer_folio_end() - Decide about a folio after its entries were cleared
 * @src: the folio, still locked
 * @batched: its entries are flushed in a batch, not one by one
 *
 * Return: PAGE_TLB_DEFERRED or 0.
 */
int __tlb_defer_folio_end(struct folio *src, bool batched)
{
	struct tlb_defer_batch *batch = current->tlb_defer;
	unsigned int entries = 0;
	enum vm_event_item end;

	tlb_defer_race_window();
	if (batch->folio == src) {
		batch->folio = NULL;
		/* Its cleared entries are mapped again. */
		if (batch->put_aside || folio_mapped(src))
			return 0;
		if (!batch->refused)
			return accept_folio(batch, src);
		tlb_defer_fold(batch);
		end = batch->refused;
		entries = batch->entries;
	} else {
		end = nothing_seen(src, batched);
	}
	count_vm_events(end, folio_nr_pages(src));
	trace_folio(src, entries, end);
	return 0;
}

/* ---- entries ---- */

static enum vm_event_item judge_mm(struct tlb_defer_batch *batch,
				   struct mm_struct *mm)
{
	unsigned long resume = READ_ONCE(mm->tlb_defer.resume);

	/*
	 * D2: the entry is write protected, but maybe not flushed yet: mprotect and
	 * others flush at their end; D7: so does fork.
	 */
	if (mm_tlb_flush_pending(mm) || !tlb_defer_forks_known(mm))
		return TLB_DEFER_REFUSED_PENDING;
	if (resume && time_before(jiffies, resume))
		return TLB_DEFER_REFUSED_BACKOFF;
	/* Another entry of this address space could not be deferred. */
	if (batch->due == mm)
		return TLB_DEFER_JOINED;
	return 0;
}

/* The rare cases of refuse() */
static noinline
enum tlb_defer_when refuse_or_aside(struct tlb_defer_batch *batch,
				    struct folio *folio, struct mm_struct *mm)
{
	if (batch->may_set_aside && tlb_defer_put_aside(batch))
		return TLB_DEFER_ASIDE;
	batch->due = mm;
	if (batch->entries)
		return TLB_DEFER_NOW;
	count_vm_events(batch->refused, folio_nr_pages(folio));
	trace_folio(folio, 0, batch->refused);
	return TLB_DEFER_NOW;
}

/*
 * The entry is flushed now, or its folio migrates later. The folio is counted here if
 * none of its entries was deferred before, otherwise at its end.
 */
static __always_inline
enum tlb_defer_when refuse(struct tlb_defer_batch *batch, struct folio *folio,
			   struct mm_struct *mm, enum vm_event_item why)
{
	batch->refused = why;
	if (batch->may_set_aside || batch->entries ||
	    trace_tlb_defer_folio_enabled())
		return refuse_or_aside(batch, folio, mm);
	batch->due = mm;
	count_vm_events(why, folio_nr_pages(folio));
	return TLB_DEFER_NOW;
}

/* Decide about an entry that is not writable. */
static noinline
enum tlb_defer_when judge(struct tlb_defer_batch *batch, struct folio *folio,
			  struct mm_struct *mm)
{
	enum vm_event_item why = judge_mm(batch, mm);

	if (!why && !batch->entries)
		why = judge_folio(batch, folio);
	if (!why && !batch->collected && !tlb_defer_ready(batch))
		why = TLB_DEFER_REFUSED_PRESSURE;
	return why ? refuse(batch, folio, mm, why) : TLB_DEFER_LATER;
}

/*
 * An entry that a hint scan has made inaccessible, and that a TLB may have writable: one
 * flush for all entries of the scan. Returns whether no TLB has it now; not while a scan
 * is under way, or another flush is pending.
 */
static bool hints_flushed(struct mm_struct *mm)
{
	if (READ_ONCE(mm->tlb_defer.hints.gen) == TLB_DEFER_UNSEALED ||
	    mm_tlb_flush_pending(mm))
		return false;
	tlb_defer_hints_flush(mm);
	return !tlb_defer_hinted(mm);
}

/**
 * __tlb_defer_entry() - Decide about an entry that is about to be cleared
 * @folio: the locked folio that it maps
 * @mm: its address space; the page table lock is held until the entry is cleared
 * @pte: value of the entry
 *
 * Return: whether to flush it now, to defer it, or to set the folio aside.
 */
enum tlb_defer_when __tlb_defer_entry(struct folio *folio, struct mm_struct *mm,
				      pte_t pte)
{
	struct tlb_defer_batch *batch = current->tlb_defer;

	if (!batch || !pte_accessible(mm, pte))
		return TLB_DEFER_NOW;
	if (pte_protnone(pte) && pte_write(pte) && hints_flushed(mm))
		return TLB_DEFER_NOW;
	tlb_defer_judged();
	if (batch->folio != folio) {
		batch->folio = folio;
		batch->put_aside = NULL;
		batch->entries = 0;
	} else if (batch->refused) {
		batch->due = mm;
		return TLB_DEFER_NOW;
	}
	/* D1: another CPU could store through the new entry without a fault. */
	if (pte_write(pte))
		return refuse(batch, folio, mm, TLB_DEFER_REFUSED_WRITE);
	batch->refused = 0;
	return judge(batch, folio, mm);
}
