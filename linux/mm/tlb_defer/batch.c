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
 *				batch costs what it would cost with the switch off;
 *   nobody else uses it	it is flushed at once: that interrupts nobody.
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
#include <kunit/static_stub.h>

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
 * @batch: of tlb_defer_begin(), which has left it without one in hand
 * @reason: why it migrates
 * @from: what migrates after the batch in hand
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
	};
	current->tlb_defer = batch;
}

/**
 * tlb_defer_ready() - Get ready for the first entry whose flush can wait
 * @batch: the batch; the caller may hold a page table lock
 *
 * Return: false if it is about to be switched off, or there is no memory.
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

/* What was noted in address spaces is sealed, flushed, or mapped again. */
static void forget_mms(struct tlb_defer_collected *c)
{
	while (c->nr_mms)
		mmdrop(c->mms[--c->nr_mms]);
}

/* Have the engine hold what was kept. */
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
 * __tlb_defer_end() - A migration is over
 * @batch: of __tlb_defer_begin()
 * @left: gets what is still set aside
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
	 * A batch of which nothing could be unmapped is not settled. Its entries
	 * lead to the same frames again.
	 */
	if (c->nr_mms)
		tlb_defer_close(c->mms, c->nr_mms);
	forget_mms(c);
	kfree(c);
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
	struct folio *folio;

	if (!batch)
		return;
	/* What the last batch kept counts from now on. */
	if (batch->collected)
		hand_over(batch->collected);
	if (first)
		batch->nr_aside = 0;
	batch->may_set_aside = first && !batch->all_in &&
			       !(list_empty(batch->from) &&
				 list_empty(&batch->aside));
	if (batch->all_in)
		list_splice_init(&batch->of_batch, folios);
	/* Nearly all batches are of one node; in others those of a full one do not wait. */
	folio = list_first_entry_or_null(folios, struct folio, lru);
	if (folio)
		tlb_defer_make_room(folio_nid(folio));
	tlb_defer_race_window();
}

/**
 * tlb_defer_put_aside() - Have the folio in hand migrate later
 * @batch: the batch, of which folios may be set aside
 *
 * Return: false if too many are: then none of this call is any more.
 */
bool tlb_defer_put_aside(struct tlb_defer_batch *batch)
{
	/* What is set aside is lost if it is switched off meanwhile. */
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
 * __tlb_defer_set_aside() - A folio was not unmapped
 * @src: it, on the list of its batch; taken from there if that was because
 *	__tlb_defer_entry() wanted it so
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

static void seal(struct tlb_defer_collected *c)
{
	c->waits_for = tlb_defer_seal(c->mms, c->nr_mms, &c->cpus.cpumask);
	forget_mms(c);
}

/* Have an address space know that entries of it are collected. */
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
	/* Early, for want of room; its CPUs are still those of the batch. */
	if (c->nr_mms == TLB_DEFER_MMS)
		seal(c);
	mmgrab(mm);
	c->epochs[c->nr_mms] = tlb_defer_open(mm, false);
	c->mms[c->nr_mms++] = mm;
}

/**
 * __tlb_defer_collect() - Take the flush of an entry that was cleared
 * @mm: whose entry; its page table lock is held, since __tlb_defer_entry()
 * @address: where
 */
void __tlb_defer_collect(struct mm_struct *mm, unsigned long address)
{
	struct tlb_defer_batch *batch = current->tlb_defer;

	batch->entries++;
	batch->deferred = true;
	/* Increments tlb_gen, a full barrier: the entry is clear before. */
	arch_tlbbatch_add_pending(&batch->collected->cpus, mm, address);
	/* Under the page table lock, so that A finds it in the mm */
	note_mm(batch->collected, mm);
}

/**
 * tlb_defer_fold() - Flush what is collected of a batch with the rest of it
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
 * tlb_defer_nobody_else() - Is there no interrupt to be saved?
 * @cpus: CPUs that may hold translations
 *
 * Return: true if only this one uses them. One that is idle flushes before it does.
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

/* Flush what is due; the rest is sealed, if that does not reach all of it. */
static void settle(struct tlb_defer_batch *batch)
{
	struct tlbflush_unmap_batch *now = &current->tlb_ubc;
	struct tlb_defer_collected *c = batch->collected;
	enum vm_event_item end = now->flush_required ? TLB_DEFER_JOINED :
						       TLB_DEFER_NO_NEED;
	bool waits;

	tlb_defer_race_window();
	/* Whom the flush reaches needs no other. */
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

/**
 * __tlb_defer_settle() - All entries of a batch are cleared
 *
 * Return: true if what had to be flushed now was.
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
	if (deferred)
		settle(batch);
	/* The next folio is the first of another batch. */
	batch->deferred = false;
	batch->due = NULL;
	batch->writer_came = false;
	batch->pages = 0;
	batch->nid = NUMA_NO_NODE;
	return deferred;
}

/**
 * __tlb_defer_keep() - Hold the frame of a folio that was moved (C)
 * @src: source folio of a migration; its translations are sealed, or flushed
 */
void __tlb_defer_keep(struct folio *src)
{
	struct tlb_defer_collected *c = current->tlb_defer->collected;

	/* Or it went along with a flush that was due anyway. */
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
