/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Deferred TLB flush of migrated pages: calls of mm/migrate.c. See <linux/tlb_defer.h>.
 */
#ifndef _LINUX_TLB_DEFER_MIGRATE_H
#define _LINUX_TLB_DEFER_MIGRATE_H

#include <linux/list.h>
#include <linux/sched.h>
#include <linux/tlb_defer.h>
#include <linux/vm_event_item.h>

struct folio;
struct mm_struct;
struct tlb_defer_collected;

#ifdef CONFIG_TLB_DEFER

/* State of the source folio that migration keeps in dst->private */
#define PAGE_TLB_DEFERRED	BIT(2)

/**
 * struct tlb_defer_batch - migration that may defer, and its current batch
 * @outer: enclosing migration (its allocations reclaim)
 * @from: folios that migrate after the current batch
 * @aside: folios that migrate at the end
 * @of_batch: folios of the current batch to add to @aside, unless there are too
 *	many
 * @nr_aside: number of folios in @of_batch
 * @moves_again: pages that migrate for this reason are likely to migrate again
 * @protect: entries of the current batch stay write-protected
 * @may_set_aside: the current batch can set aside another folio
 * @all_in: no further folio is set aside
 * @collected: cleared entries that are not flushed, or NULL if there never were
 *	any
 * @deferred: an entry of the current batch was deferred
 * @due: address space that is flushed with the current batch in any case, or NULL
 * @nid: node that @room and @full belong to, or NUMA_NO_NODE
 * @room: frames of the node that may still be deferred
 * @full: vm event to count for a folio that exceeds @room
 * @pages: pages of the current batch that were accepted
 * @folio: folio of the last judged entry, or NULL
 * @put_aside: that folio if it is set aside, or NULL
 * @entries: number of its entries that were deferred
 * @refused: vm event to count it as, or 0; a vm event is never 0
 * @mapping: file of the folio accepted last, or NULL
 * @writer_came: a file of the current batch has got a writer
 *
 * On the stack of migrate_pages(), so that a migration that defers nothing allocates
 * nothing.
 */
struct tlb_defer_batch {
	struct tlb_defer_batch *outer;
	const struct list_head *from;
	struct list_head aside;
	struct list_head of_batch;
	unsigned int nr_aside;
	bool moves_again;
	bool protect;
	bool may_set_aside;
	bool all_in;
	bool deferred;
	struct tlb_defer_collected *collected;
	struct mm_struct *due;
	int nid;
	long room;
	enum vm_event_item full;
	long pages;
	struct folio *folio;
	struct folio *put_aside;
	unsigned int entries;
	enum vm_event_item refused;
	struct address_space *mapping;
	bool writer_came;
};

void __tlb_defer_begin(struct tlb_defer_batch *batch, int reason,
		       const struct list_head *from);
bool __tlb_defer_again(struct list_head *from);
void __tlb_defer_end(struct tlb_defer_batch *batch, struct list_head *left);
int __tlb_defer_folio_end(struct folio *src, bool batched);
void __tlb_defer_pass(struct list_head *folios, bool first);
void __tlb_defer_set_aside(struct folio *src);
bool __tlb_defer_settle(void);
void __tlb_defer_keep(struct folio *src);

/**
 * tlb_defer_begin() - Start a migration
 * @batch: on the stack of the caller; initialized
 * @reason: an enum migrate_reason
 * @from: folios to migrate; batches are cut off its head
 *
 * Migration can nest. The inner migration does not use the state of the outer one, not
 * even if the mode is switched in between.
 */
static inline void tlb_defer_begin(struct tlb_defer_batch *batch, int reason,
				   const struct list_head *from)
{
	batch->outer = current->tlb_defer;
	current->tlb_defer = NULL;
	if (tlb_defer_on())
		__tlb_defer_begin(batch, reason, from);
}

/**
 * tlb_defer_again() - Get the folios set aside, after the last batch
 * @from: the list of tlb_defer_begin(), empty; gets the folios that were set aside
 *
 * Return: true if there are any to migrate now.
 */
static inline bool tlb_defer_again(struct list_head *from)
{
	return tlb_defer_on() && __tlb_defer_again(from);
}

/**
 * tlb_defer_end() - End a migration
 * @batch: the batch of tlb_defer_begin()
 * @left: gets the folios still set aside, if migration ends early
 */
static inline void tlb_defer_end(struct tlb_defer_batch *batch,
				 struct list_head *left)
{
	/* The mode may have been switched off since. */
	if (current->tlb_defer)
		__tlb_defer_end(batch, left);
	current->tlb_defer = batch->outer;
}

/**
 * tlb_defer_folio_end() - Decide about a folio after its entries were replaced
 * @src: locked source folio
 * @batched: its entries are flushed in a batch, not one by one
 *
 * Return: PAGE_TLB_DEFERRED if its frame is kept until the flush, or 0.
 */
static inline int tlb_defer_folio_end(struct folio *src, bool batched)
{
	struct tlb_defer_batch *batch = current->tlb_defer;

	if (!tlb_defer_on() || !batch)
		return 0;
	/*
	 * Most folios that are not deferred were counted before, with no entry deferred.
	 */
	if (batch->folio == src && batch->refused && !batch->entries) {
		batch->folio = NULL;
		return 0;
	}
	return __tlb_defer_folio_end(src, batched);
}

/**
 * tlb_defer_pass() - Start a pass that unmaps the folios of a batch
 * @folios: folios not unmapped yet
 * @first: no folio is unmapped yet, and another pass follows for those that remain
 */
static inline void tlb_defer_pass(struct list_head *folios, bool first)
{
	if (tlb_defer_on())
		__tlb_defer_pass(folios, first);
}

/**
 * tlb_defer_set_aside() - Handle a folio that was not unmapped and would be retried
 * @src: the folio, on the list of its batch
 *
 * Removes the folio from the list if it was set aside; tlb_defer_pass() or
 * tlb_defer_again() returns it.
 */
static inline void tlb_defer_set_aside(struct folio *src)
{
	if (tlb_defer_on())
		__tlb_defer_set_aside(src);
}

/**
 * tlb_defer_settle() - End the unmap phase of a batch, before the copy
 *
 * Return: true if every flush that was due is done.
 */
static inline bool tlb_defer_settle(void)
{
	return tlb_defer_on() && __tlb_defer_settle();
}

/**
 * tlb_defer_keep() - Keep the old frame until its flush (C)
 * @src: source folio that was moved
 * @state: state of the folio that migration recorded
 */
static inline void tlb_defer_keep(struct folio *src, int state)
{
	if (state & PAGE_TLB_DEFERRED)
		__tlb_defer_keep(src);
}

#else /* !CONFIG_TLB_DEFER */

#define PAGE_TLB_DEFERRED	0

struct tlb_defer_batch { };

/* Macros: even an empty inline can change the code that gcc makes of the caller. */
#define tlb_defer_begin(batch, reason, from)	((void)(batch))
#define tlb_defer_again(from)			false
#define tlb_defer_end(batch, left)		((void)(batch))
#define tlb_defer_folio_end(src, batched)	0
#define tlb_defer_pass(folios, first)		do { } while (0)
#define tlb_defer_set_aside(src)		do { } while (0)
#define tlb_defer_settle()			false
#define tlb_defer_keep(src, state)		do { } while (0)

#endif /* CONFIG_TLB_DEFER */
#endif /* _LINUX_TLB_DEFER_MIGRATE_H */
