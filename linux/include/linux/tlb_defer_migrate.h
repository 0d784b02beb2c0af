/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Deferred TLB flush of migrated pages: the calls that migration makes, for
 * mm/migrate.c. See <linux/tlb_defer.h>.
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

/* A state of the source folio that migration keeps in dst->private */
#define PAGE_TLB_DEFERRED	BIT(2)

/**
 * struct tlb_defer_batch - a migration that may defer, and its batch in hand
 * @outer: migration of which this one is part (its allocations reclaim)
 * @from: what migrates after the batch in hand
 * @aside: what migrates at the end
 * @of_batch: what of the batch in hand will, unless there is too much of it
 * @nr_aside: how many folios @of_batch has
 * @may_set_aside: another folio of the batch in hand can be
 * @all_in: set nothing aside any more
 * @collected: what was cleared and not flushed, or NULL if nothing ever was
 * @deferred: an entry of the batch in hand was
 * @due: address space that is flushed with the batch in hand anyway, or NULL
 * @nid: node that @room and @full are about, or NUMA_NO_NODE
 * @room: frames of it that may wait
 * @full: what to count a folio as that is too much, a vm event
 * @pages: accepted of the batch in hand
 * @folio: the folio that an entry was looked at of last, or NULL
 * @put_aside: that folio if it is to migrate later, or NULL
 * @entries: how many entries of it were deferred
 * @refused: what to count it as, or 0; a vm event is never 0
 * @mapping: the file that the folio accepted last is of, or NULL
 * @writer_came: to one that others of the batch in hand are of
 *
 * On the stack of migrate_pages(), so that one which defers nothing takes no
 * memory.
 */
struct tlb_defer_batch {
	struct tlb_defer_batch *outer;
	const struct list_head *from;
	struct list_head aside;
	struct list_head of_batch;
	unsigned int nr_aside;
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
 * tlb_defer_begin() - migration starts
 * @batch: on the stack of who migrates; filled
 * @reason: an enum migrate_reason
 * @from: what migrates, without what a batch has been cut from it for
 *
 * Migration may begin inside migration: that one does not use what is around it,
 * not even if the mode is switched meanwhile.
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
 * tlb_defer_again() - all batches are through
 * @from: the list of tlb_defer_begin(), empty; gets what was set aside
 *
 * Return: true if that is something, to be migrated now.
 */
static inline bool tlb_defer_again(struct list_head *from)
{
	return tlb_defer_on() && __tlb_defer_again(from);
}

/**
 * tlb_defer_end() - migration ends
 * @batch: of tlb_defer_begin()
 * @left: gets what is still set aside, if migration ends before its time
 */
static inline void tlb_defer_end(struct tlb_defer_batch *batch,
				 struct list_head *left)
{
	/* It may have been switched off since. */
	if (current->tlb_defer)
		__tlb_defer_end(batch, left);
	current->tlb_defer = batch->outer;
}

/**
 * tlb_defer_folio_end() - after the entries of a folio were replaced
 * @src: locked folio that migrates
 * @batched: its entries are flushed with those of others, not one by one
 *
 * Return: PAGE_TLB_DEFERRED if it has to be kept for its flush, or 0.
 */
static inline int tlb_defer_folio_end(struct folio *src, bool batched)
{
	struct tlb_defer_batch *batch = current->tlb_defer;

	if (!tlb_defer_on() || !batch)
		return 0;
	/* Most that cannot wait are counted by then, and have left nothing. */
	if (batch->folio == src && batch->refused && !batch->entries) {
		batch->folio = NULL;
		return 0;
	}
	return __tlb_defer_folio_end(src, batched);
}

/**
 * tlb_defer_pass() - the folios of a batch are unmapped next
 * @folios: those that are not unmapped yet
 * @first: none is, and there is another pass for those that remain
 */
static inline void tlb_defer_pass(struct list_head *folios, bool first)
{
	if (tlb_defer_on())
		__tlb_defer_pass(folios, first);
}

/**
 * tlb_defer_set_aside() - a folio was not unmapped, and would be tried again
 * @src: it, on the list of its batch
 *
 * Takes it from that list if it is to migrate with others of its kind; it comes
 * back by tlb_defer_pass() or tlb_defer_again().
 */
static inline void tlb_defer_set_aside(struct folio *src)
{
	if (tlb_defer_on())
		__tlb_defer_set_aside(src);
}

/**
 * tlb_defer_settle() - all entries of a batch are cleared, nothing is copied yet
 *
 * Return: true if all that has to be flushed now was.
 */
static inline bool tlb_defer_settle(void)
{
	return tlb_defer_on() && __tlb_defer_settle();
}

/**
 * tlb_defer_keep() - do not let the frame go before its flush (C)
 * @src: source folio that was moved
 * @state: what migration recorded of it
 */
static inline void tlb_defer_keep(struct folio *src, int state)
{
	if (state & PAGE_TLB_DEFERRED)
		__tlb_defer_keep(src);
}

#else /* !CONFIG_TLB_DEFER */

#define PAGE_TLB_DEFERRED	0

struct tlb_defer_batch { };

/* Macros: an inline, however empty, can change what gcc makes of the caller. */
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
