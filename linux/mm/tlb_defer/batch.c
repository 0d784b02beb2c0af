// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flush of migrated pages: batches.
 *
 * migrate_pages() unmaps up to 512 pages, flushes once, and moves them. The deferred
 * entries of such a batch are collected here until all pages are unmapped. The batch
 * registers itself in their address spaces, so that no task changes an entry in between
 * without a flush. Then there are three cases:
 *
 *   no flush is due		the batch is committed, and its frames are deferred;
 *   a flush is due for other	the collected entries are merged into it on the CPUs
 *   entries			that it reaches. If these are all CPUs, the batch is
 *				not committed and no frame is deferred: the cost is
 *				that of the mode off;
 *   no other CPU is affected	the batch is flushed at once, without an interrupt.
 *
 * One page in 512 that cannot be deferred causes as many interrupts as 512 of them. So
 * where more batches follow, such pages are set aside (postponed): they stay mapped, and
 * migrate together at the end. A batch with more than a few of them takes them back, and
 * the rest of the call sets no page aside: each such page is unmapped twice, and soon
 * there would be as many flushes as without.
 *
 * Locking: a batch belongs to the task that migrates. Folio lock -> page table lock ->
 * tlb_defer_lock.
 */
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/tlb_defer_pte.h>
#include <linux/vmstat.h>
#include <asm/tlbflush.h>
#include <kunit/static_stub.h>

#include "../internal.h"
#include "tlb_defer.h"

/* Most folios that a batch sets aside: one in 32 */
#define TLB_DEFER_ASIDE		16

/* ---- migrations ---- */

/*
 * D4: callers that need these very frames, or memory taken out of use, do not defer.
 * Memory pressure on the node is checked later, for each node. Compaction needs these
 * very frames as well, but block by block: see tlb_defer_compacted().
 */
static bool takes_the_frames(int reason)
{
	switch (reason) {
	case MR_SYSCALL:
	case MR_MEMPOLICY_MBIND:
	case MR_NUMA_MISPLACED:
	case MR_DAMON:
	case MR_DEMOTION:
	case MR_COMPACTION:
#ifdef CONFIG_MTIER
	case MR_TIER_PROMOTE:
#endif
		return false;
	default:
		return true;
	}
}

/* Pages that a user moves, or compaction, are likely to stay where they are then. */
static bool moves_again(int reason)
{
	switch (reason) {
	case MR_NUMA_MISPLACED:
	case MR_DAMON:
	case MR_DEMOTION:
#ifdef CONFIG_MTIER
	case MR_TIER_PROMOTE:
#endif
		return true;
	default:
		return false;
	}
}

/**
 * __tlb_defer_begin() - Start a migration
 * @batch: initialized by tlb_defer_begin(), without a current batch
 * @reason: reason of the migration
 * @from: folios that migrate after the current batch
 */
void __tlb_defer_begin(struct tlb_defer_batch *batch, int reason,
		       const struct list_head *from)
{
	if (takes_the_frames(reason))
		return;
	*batch = (struct tlb_defer_batch){
		.outer = batch->outer,
		.from = from,
		.aside = LIST_HEAD_INIT(batch->aside),
		.of_batch = LIST_HEAD_INIT(batch->of_batch),
		.nid = NUMA_NO_NODE,
		.moves_again = moves_again(reason),
	};
	current->tlb_defer = batch;
}

/**
 * tlb_defer_ready() - Prepare for the first entry whose flush can be deferred
 * @batch: the batch; the caller may hold a page table lock
 *
 * Return: false if the mode is being switched off, or without memory.
 */
bool tlb_defer_ready(struct tlb_defer_batch *batch)
{
	struct tlb_defer_collected *c;

	if (!tlb_defer_enter())
		return false;
	c = kmalloc(sizeof(*c), GFP_NOWAIT | __GFP_NOWARN);
	if (!c) {
		tlb_defer_leave();
		return false;
	}
	cpumask_clear(&c->cpus.cpumask);
	c->nr_mms = 0;
	c->waits_for = 0;
	INIT_LIST_HEAD(&c->kept);
	c->nid = NUMA_NO_NODE;
	c->nr_folios = 0;
	c->nr_pages = 0;
	batch->collected = c;
	return true;
}

/* Called after the entries were committed, flushed, or mapped again. */
static void forget_mms(struct tlb_defer_collected *c)
{
	while (c->nr_mms)
		mmdrop(c->mms[--c->nr_mms]);
}

/* Pass the kept folios to engine.c. */
static void hand_over(struct tlb_defer_collected *c)
{
	if (!c->nr_folios)
		return;
	count_vm_events(TLB_DEFER_FOLIOS, c->nr_folios);
	count_vm_events(TLB_DEFER_PAGES, c->nr_pages);
	tlb_defer_hold(&c->kept, c->nid, c->nr_pages, c->waits_for);
	c->nr_folios = 0;
	c->nr_pages = 0;
}

/**
 * __tlb_defer_end() - End a migration
 * @batch: the batch of __tlb_defer_begin()
 * @left: gets the folios that are still set aside
 */
void __tlb_defer_end(struct tlb_defer_batch *batch, struct list_head *left)
{
	struct tlb_defer_collected *c = batch->collected;

	list_splice(&batch->of_batch, left);
	list_splice(&batch->aside, left);
	if (!c)
		return;
	hand_over(c);
	/*
	 * A batch of which no folio could be unmapped is not settled. Its entries map the
	 * same frames again.
	 */
	if (c->nr_mms)
		tlb_defer_close(c->mms, c->nr_mms);
	forget_mms(c);
	kfree(c);
	tlb_defer_leave();
}

/* ---- folios set aside ---- */

/**
 * __tlb_defer_pass() - Start a pass that unmaps the folios of a batch
 * @folios: folios not unmapped yet; gets the folios that were set aside, if the
 *	batch has too many of them
 * @first: no folio is unmapped yet, and another pass follows for those that remain
 */
void __tlb_defer_pass(struct list_head *folios, bool first)
{
	struct tlb_defer_batch *batch = current->tlb_defer;
	struct folio *folio;

	if (!batch)
		return;
	/* The kept folios of the last batch count towards the limit from here on. */
	if (batch->collected)
		hand_over(batch->collected);
	if (first)
		batch->nr_aside = 0;
	batch->may_set_aside = first && !batch->all_in &&
			       !(list_empty(batch->from) &&
				 list_empty(&batch->aside));
	if (batch->all_in)
		list_splice_init(&batch->of_batch, folios);
	/*
	 * Nearly all batches are of one node. In a mixed batch, the folios of a full node
	 * are not deferred.
	 */
	folio = list_first_entry_or_null(folios, struct folio, lru);
	if (folio)
		tlb_defer_make_room(folio_nid(folio));
	tlb_defer_race_window();
}

/**
 * tlb_defer_put_aside() - Set the current folio aside
 * @batch: the batch, which may set folios aside
 *
 * Return: false if too many are; then this call sets no further folio aside.
 */
bool tlb_defer_put_aside(struct tlb_defer_batch *batch)
{
	/* @collected keeps the mode on: switching off would lose the folios set aside. */
	if (!batch->collected && !tlb_defer_ready(batch))
		return false;
	if (batch->nr_aside == TLB_DEFER_ASIDE) {
		batch->all_in = true;
		batch->may_set_aside = false;
		return false;
	}
	batch->put_aside = batch->folio;
	return true;
}

/**
 * __tlb_defer_set_aside() - Handle a folio that was not unmapped
 * @src: the folio, on the list of its batch; removed from the list if
 *	__tlb_defer_entry() decided to set it aside
 */
void __tlb_defer_set_aside(struct folio *src)
{
	struct tlb_defer_batch *batch = current->tlb_defer;

	if (!batch || batch->put_aside != src)
		return;
	batch->put_aside = NULL;
	batch->nr_aside++;
	list_move_tail(&src->lru, &batch->of_batch);
}

/* The batch is unmapped: keep its folios aside until the end of the call. */
static void settle_aside(struct tlb_defer_batch *batch)
{
	struct folio *folio;

	list_for_each_entry(folio, &batch->of_batch, lru)
		count_vm_events(TLB_DEFER_ASIDE_PAGES, folio_nr_pages(folio));
	list_splice_tail_init(&batch->of_batch, &batch->aside);
}

/**
 * __tlb_defer_again() - Start to migrate the folios that were set aside
 * @from: empty list that gets them
 *
 * Return: true if there are any.
 */
bool __tlb_defer_again(struct list_head *from)
{
	struct tlb_defer_batch *batch = current->tlb_defer;

	if (!batch || list_empty(&batch->aside))
		return false;
	list_splice_init(&batch->aside, from);
	batch->all_in = true;
	return true;
}

/* ---- collected entries ---- */

static void seal(struct tlb_defer_collected *c)
{
	c->waits_for = tlb_defer_seal(c->mms, c->nr_mms, &c->cpus.cpumask);
	forget_mms(c);
}

/* Register the batch in an address space. */
static void note_mm(struct tlb_defer_collected *c, struct mm_struct *mm)
{
	unsigned int i;

	for (i = c->nr_mms; i-- > 0;) {
		if (c->mms[i] != mm)
			continue;
		/* See tlb_defer_mm_flush() */
		if (unlikely(READ_ONCE(mm->tlb_defer.epoch) != c->epochs[i]))
			c->epochs[i] = tlb_defer_open(mm, true);
		return;
	}
	/*
	 * Commit early, for lack of room. The mask of CPUs stays that of the whole batch.
	 */
	if (c->nr_mms == TLB_DEFER_MMS)
		seal(c);
	mmgrab(mm);
	c->epochs[c->nr_mms] = tlb_defer_open(mm, false);
	c->mms[c->nr_mms++] = mm;
}

/**
 * __tlb_defer_collect() - Defer the flush of a cleared entry
 * @mm: its address space; the page table lock has been held since
 *	__tlb_defer_entry()
 * @address: its address
 */
void __tlb_defer_collect(struct mm_struct *mm, unsigned long address)
{
	struct tlb_defer_batch *batch = current->tlb_defer;

	batch->entries++;
	batch->deferred = true;
	/* Increments tlb_gen, a full barrier after the entry was cleared. */
	arch_tlbbatch_add_pending(&batch->collected->cpus, mm, address);
	/*
	 * Under the page table lock, so that changes of entries (A) find the batch in @mm
	 */
	note_mm(batch->collected, mm);
}

/**
 * tlb_defer_fold() - Merge the collected entries into the flush of the batch
 * @batch: the batch
 */
void tlb_defer_fold(struct tlb_defer_batch *batch)
{
	struct tlbflush_unmap_batch *now = &current->tlb_ubc;

	cpumask_or(&now->arch.cpumask, &now->arch.cpumask,
		   &batch->collected->cpus.cpumask);
	now->flush_required = true;
}

/**
 * tlb_defer_nobody_else() - Check whether a flush interrupts no CPU
 * @cpus: CPUs that may hold translations
 *
 * Return: true if no CPU but this one uses them. An idle CPU flushes before its next use.
 */
bool tlb_defer_nobody_else(const struct cpumask *cpus)
{
	int cpu;

	KUNIT_STATIC_STUB_REDIRECT(tlb_defer_nobody_else, cpus);
	for_each_cpu(cpu, cpus)
		if (cpu != raw_smp_processor_id() && !tlb_defer_arch_idle(cpu))
			return false;
	return true;
}

/*
 * Do the flush that is due. Commit if it does not reach all CPUs of the collected
 * entries.
 */
static void settle(struct tlb_defer_batch *batch)
{
	struct tlbflush_unmap_batch *now = &current->tlb_ubc;
	struct tlb_defer_collected *c = batch->collected;
	enum vm_event_item end = now->flush_required ? TLB_DEFER_JOINED :
						       TLB_DEFER_NO_NEED;
	bool waits;

	tlb_defer_race_window();
	/* CPUs that this flush reaches need no other one. */
	cpumask_andnot(&c->cpus.cpumask, &c->cpus.cpumask, &now->arch.cpumask);
	waits = !tlb_defer_nobody_else(&c->cpus.cpumask);
	if (!waits)
		tlb_defer_fold(batch);
	else if (end == TLB_DEFER_NO_NEED)
		count_vm_event(TLB_DEFER_BATCH_CLEAN);
	try_to_unmap_flush();
	if (waits) {
		seal(c);
	} else {
		c->waits_for = 0;
		tlb_defer_close(c->mms, c->nr_mms);
		forget_mms(c);
		count_vm_events(end, batch->pages);
	}
	cpumask_clear(&c->cpus.cpumask);
}

/*
 * Whether entries stay write-protected: see protect.c. If no flush is due, hint faults
 * have made the entries inaccessible before, and their writable bit costs nothing.
 */
static bool worth_protecting(const struct tlb_defer_batch *batch)
{
	const struct tlbflush_unmap_batch *now = &current->tlb_ubc;

	return batch->moves_again &&
	       !(now->flush_required &&
		 tlb_defer_nobody_else(&now->arch.cpumask));
}

/**
 * __tlb_defer_settle() - End the unmap phase of a batch
 *
 * Return: true if the flush that was due is done.
 */
bool __tlb_defer_settle(void)
{
	struct tlb_defer_batch *batch = current->tlb_defer;
	bool deferred;

	if (!batch)
		return false;
	settle_aside(batch);
	deferred = batch->deferred;
	if (tlb_defer_writer_came(batch, NULL))
		tlb_defer_fold(batch);
	if (current->tlb_ubc.flush_required)
		count_vm_event(TLB_DEFER_BATCH_FLUSHED);
	batch->protect = worth_protecting(batch);
	if (deferred)
		settle(batch);
	/* The next folio starts a new batch. */
	batch->deferred = false;
	batch->due = NULL;
	batch->writer_came = false;
	batch->pages = 0;
	batch->nid = NUMA_NO_NODE;
	return deferred;
}

/**
 * __tlb_defer_keep() - Hold the frame of a moved folio (C)
 * @src: source folio of a migration; its translations are committed, or flushed
 */
void __tlb_defer_keep(struct folio *src)
{
	struct tlb_defer_collected *c = current->tlb_defer->collected;

	/* 0: its entries were merged into a flush. */
	if (!c->waits_for)
		return;
	if (folio_nid(src) != c->nid)
		hand_over(c);
	c->nid = folio_nid(src);
	c->nr_folios++;
	c->nr_pages += folio_nr_pages(src);
	folio_get(src);
	list_add_tail(&src->lru, &c->kept);
}
