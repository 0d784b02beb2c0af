// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flush of migrated pages: batches.
 *
 * migrate_pages() unmaps up to 512 pages, flushes once, and moves them. What is
 * deferred of such a batch is collected here until all are unmapped, and noted in
 * the address spaces it is of, so that nobody changes an entry in between. Then
 *
 *   no flush is due		it is sealed, and its frames will wait;
 *   a flush is due for others	it goes along on the CPUs that this reaches. If these
 *				are all, nothing is sealed, and no frame waits: the
 *				batch costs what it would cost with the switch off.
 *
 * One page in 512 that cannot wait costs as many interrupts as 512 of them. So
 * where more batches follow, such pages are set aside, mapped as they were, and
 * migrate together at the end. A batch that has more than a few of them takes them
 * back, and nothing is set aside any more: each is unmapped twice, and there would
 * soon be as many flushes as without.
 *
 * Locks: a batch belongs to the task that migrates. Folio lock -> page table lock
 * -> the engine's.
 */
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/tlb_defer_pte.h>
#include <linux/vmstat.h>
#include <asm/tlbflush.h>

#include "../internal.h"
#include "tlb_defer.h"

/* Most folios of a batch that are set aside: one in 32 */
#define TLB_DEFER_ASIDE		16

/* ---- migrations ---- */

/*
 * D4: who takes these very frames, or memory out of use, does not wait for it. Whether
 * somebody is waiting for any free frame of the node is asked later, of the node. Compaction
 * takes these very frames as well, but block by block: see tlb_defer_compacted().
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

/**
 * __tlb_defer_begin() - A migration starts
 * @reason: why it migrates
 * @from: what migrates after the batch in hand
 *
 * Return: the migration it is part of, for __tlb_defer_end().
 */
struct tlb_defer_batch *__tlb_defer_begin(int reason,
					  const struct list_head *from)
{
	struct tlb_defer_batch *outer = current->tlb_defer, *batch = NULL;

	if (!takes_the_frames(reason) && tlb_defer_enter()) {
		batch = kzalloc(sizeof(*batch), GFP_NOWAIT | __GFP_NOWARN);
		if (batch) {
			batch->from = from;
			batch->nid = NUMA_NO_NODE;
			INIT_LIST_HEAD(&batch->aside);
			INIT_LIST_HEAD(&batch->of_batch);
		} else {
			tlb_defer_leave();
		}
	}
	/* Also without one: what is nested does not use what is around it. */
	current->tlb_defer = batch;
	return outer;
}

/* What was noted in address spaces is sealed, flushed, or mapped again. */
static void forget_mms(struct tlb_defer_batch *batch)
{
	while (batch->nr_mms)
		mmdrop(batch->mms[--batch->nr_mms]);
}

/**
 * __tlb_defer_end() - A migration is over
 * @outer: of __tlb_defer_begin()
 * @left: gets what is still set aside
 */
void __tlb_defer_end(struct tlb_defer_batch *outer, struct list_head *left)
{
	struct tlb_defer_batch *batch = current->tlb_defer;

	current->tlb_defer = outer;
	if (!batch)
		return;
	list_splice(&batch->of_batch, left);
	list_splice(&batch->aside, left);
	/*
	 * A batch of which nothing could be unmapped is not settled. Its entries
	 * lead to the same frames again.
	 */
	if (batch->nr_mms)
		tlb_defer_close(batch->mms, batch->nr_mms);
	forget_mms(batch);
	kfree(batch);
	tlb_defer_leave();
}

/* ---- what is set aside ---- */

/**
 * __tlb_defer_pass() - The folios of a batch are unmapped next
 * @folios: those that are not unmapped yet; gets those that were set aside, if the
 *	batch has too many
 * @first: none is, and there is another pass for those that remain
 */
void __tlb_defer_pass(struct list_head *folios, bool first)
{
	struct tlb_defer_batch *batch = current->tlb_defer;

	if (!batch)
		return;
	if (first)
		batch->nr_aside = 0;
	batch->may_set_aside = first && !batch->all_in &&
			       !(list_empty(batch->from) &&
				 list_empty(&batch->aside));
	if (batch->all_in)
		list_splice_init(&batch->of_batch, folios);
}

/**
 * tlb_defer_put_aside() - Have the folio in hand migrate later
 * @batch: the batch, of which folios may be set aside
 *
 * Return: false if too many are: then none of this call is any more.
 */
bool tlb_defer_put_aside(struct tlb_defer_batch *batch)
{
	if (batch->nr_aside == TLB_DEFER_ASIDE) {
		batch->all_in = true;
		batch->may_set_aside = false;
		return false;
	}
	batch->put_aside = batch->folio;
	return true;
}

/**
 * __tlb_defer_set_aside() - A folio was not unmapped
 * @src: it, on the list of its batch; taken from there if that was because
 *	__tlb_defer_aside() wanted it so
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

/* The batch is unmapped: what it has set aside stays there. */
static void settle_aside(struct tlb_defer_batch *batch)
{
	struct folio *folio;

	list_for_each_entry(folio, &batch->of_batch, lru)
		count_vm_events(TLB_DEFER_ASIDE_PAGES, folio_nr_pages(folio));
	list_splice_tail_init(&batch->of_batch, &batch->aside);
}

/**
 * __tlb_defer_again() - Migrate what was set aside
 * @from: empty list that gets it
 *
 * Return: true if that is something.
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

/* ---- what is collected ---- */

static void seal(struct tlb_defer_batch *batch)
{
	batch->waits_for = tlb_defer_seal(batch->mms, batch->nr_mms,
					  &batch->cpus.cpumask);
	forget_mms(batch);
}

/**
 * tlb_defer_collect() - Take the flush of an entry that was cleared
 * @batch: the batch
 * @mm: whose entry; its page table lock is held
 * @address: where
 */
void tlb_defer_collect(struct tlb_defer_batch *batch, struct mm_struct *mm,
		       unsigned long address)
{
	unsigned int i;

	batch->deferred = true;
	/* Increments tlb_gen, a full barrier: the entry is clear before. */
	arch_tlbbatch_add_pending(&batch->cpus, mm, address);
	for (i = 0; i < batch->nr_mms; i++) {
		if (batch->mms[i] != mm)
			continue;
		/* See tlb_defer_mm_flush() */
		if (unlikely(READ_ONCE(mm->tlb_defer.epoch) != batch->epochs[i]))
			batch->epochs[i] = tlb_defer_open(mm, true);
		return;
	}
	/* Early, for want of room; its CPUs are still those of the batch. */
	if (batch->nr_mms == TLB_DEFER_MMS)
		seal(batch);
	mmgrab(mm);
	batch->epochs[batch->nr_mms] = tlb_defer_open(mm, false);
	batch->mms[batch->nr_mms++] = mm;
}

/**
 * __tlb_defer_settle() - All entries of a batch are cleared
 *
 * Return: true if what had to be flushed now was.
 */
bool __tlb_defer_settle(void)
{
	struct tlb_defer_batch *batch = current->tlb_defer;
	struct tlbflush_unmap_batch *now = &current->tlb_ubc;

	if (!batch)
		return false;
	settle_aside(batch);
	batch->settled = true;
	if (now->flush_required)
		count_vm_event(TLB_DEFER_BATCH_FLUSHED);
	else if (batch->deferred)
		count_vm_event(TLB_DEFER_BATCH_CLEAN);
	if (!batch->deferred)
		return false;
	tlb_defer_race_window();
	/* Whom the flush reaches needs no other. */
	cpumask_andnot(&batch->cpus.cpumask, &batch->cpus.cpumask,
		       &now->arch.cpumask);
	try_to_unmap_flush();
	if (!cpumask_empty(&batch->cpus.cpumask)) {
		seal(batch);
		cpumask_clear(&batch->cpus.cpumask);
	} else {
		batch->waits_for = 0;
		tlb_defer_close(batch->mms, batch->nr_mms);
		forget_mms(batch);
		count_vm_events(TLB_DEFER_JOINED, batch->pages);
	}
	batch->deferred = false;
	return true;
}
