// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: the bounded FIFO between a slow node's hotness records and
 * its migrator.  It holds page frame numbers, never references: a page that
 * waits can be freed, split, moved or taken offline as if nobody wanted it.
 * The bits above the frame number say whose page was seen there, so that a frame
 * that changed hands is told from one that did not.
 *
 * When it is full the oldest entry makes room, being the one whose heat is the
 * most likely to be gone.
 *
 * Locking: mtier_queue.lock, irq-safe, innermost.
 */
#include <linux/export.h>
#include <linux/hash.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "mtier.h"

/* Frame numbers leave as many bits of an entry as pages have. */
#define MTIER_ENTRY_PFN		GENMASK(BITS_PER_LONG - PAGE_SHIFT - 1, 0)

/**
 * mtier_entry_of() - what stands for a frame in a queue
 * @pfn: the frame
 *
 * Whose page is in a frame: its address_space, or the anon_vma it was first
 * mapped through. Of 4096 strangers one looks the same.
 *
 * Return: the entry.
 */
unsigned long mtier_entry_of(unsigned long pfn)
{
	struct page *page = pfn_to_online_page(pfn);
	unsigned long owner = 0;

	if (page)
		owner = hash_ptr(READ_ONCE(page->mapping), PAGE_SHIFT);
	return owner << (BITS_PER_LONG - PAGE_SHIFT) | pfn;
}

/**
 * mtier_entry_pfn() - the frame of an entry
 * @entry: from mtier_entry_of()
 *
 * Return: its number.
 */
unsigned long mtier_entry_pfn(unsigned long entry)
{
	return entry & MTIER_ENTRY_PFN;
}

/**
 * mtier_entry_same() - is the same page in a frame as when it was queued?
 * @entry: from mtier_entry_of()
 *
 * Return: false if the frame changed hands.
 */
bool mtier_entry_same(unsigned long entry)
{
	return mtier_entry_of(mtier_entry_pfn(entry)) == entry;
}

static unsigned int mtier_queue_slot(const struct mtier_queue *q,
				     unsigned int nth)
{
	unsigned int i = q->head + nth;

	return i >= q->cap ? i - q->cap : i;
}

/**
 * mtier_queue_init() - make an empty queue
 * @q: the queue
 * @cap: entries it can hold, not 0
 *
 * Return: 0 or -ENOMEM.
 */
int mtier_queue_init(struct mtier_queue *q, unsigned int cap)
{
	spin_lock_init(&q->lock);
	q->head = 0;
	q->fill = 0;
	q->cap = cap;
	q->entries = kvmalloc_array(cap, sizeof(*q->entries), GFP_KERNEL);
	return q->entries ? 0 : -ENOMEM;
}

/**
 * mtier_queue_destroy() - free what mtier_queue_init() allocated
 * @q: the queue, which nobody uses any more
 */
void mtier_queue_destroy(struct mtier_queue *q)
{
	kvfree(q->entries);
	q->entries = NULL;
}

/**
 * mtier_queue_push() - append an entry
 * @q: the queue
 * @entry: what to append, not MTIER_QUEUE_NONE
 * @dropped: set to the entry that made room, else to MTIER_QUEUE_NONE
 *
 * Context: any but NMI.
 * Return: how many entries wait now. Of several producers exactly one is told
 * of each number, so that one of them knows that the consumer is to be woken.
 */
unsigned int mtier_queue_push(struct mtier_queue *q, unsigned long entry,
			      unsigned long *dropped)
{
	unsigned long flags;
	unsigned int fill;

	*dropped = MTIER_QUEUE_NONE;
	spin_lock_irqsave(&q->lock, flags);
	fill = q->fill;
	if (fill == q->cap) {
		*dropped = q->entries[q->head];
		q->head = mtier_queue_slot(q, 1);
		fill--;
	}
	q->entries[mtier_queue_slot(q, fill)] = entry;
	WRITE_ONCE(q->fill, ++fill);
	spin_unlock_irqrestore(&q->lock, flags);
	return fill;
}

/**
 * mtier_queue_pop() - take the oldest entries
 * @q: the queue
 * @entries: filled, oldest first
 * @max: its size
 *
 * Return: how many were taken.
 */
unsigned int mtier_queue_pop(struct mtier_queue *q, unsigned long *entries,
			     unsigned int max)
{
	unsigned int i, n;

	spin_lock_irq(&q->lock);
	n = min(q->fill, max);
	for (i = 0; i < n; i++)
		entries[i] = q->entries[mtier_queue_slot(q, i)];
	q->head = mtier_queue_slot(q, n);
	WRITE_ONCE(q->fill, q->fill - n);
	spin_unlock_irq(&q->lock);
	return n;
}

/**
 * mtier_queue_resize() - change how many entries fit
 * @q: the queue
 * @cap: the new size, not 0
 *
 * Refuses to lose entries: the caller pops first what does not fit.
 *
 * Return: 0, -ENOMEM, or -EBUSY if more than @cap entries are waiting.
 */
int mtier_queue_resize(struct mtier_queue *q, unsigned int cap)
{
	unsigned long *entries, *old;
	unsigned int i;

	entries = kvmalloc_array(cap, sizeof(*entries), GFP_KERNEL);
	if (!entries)
		return -ENOMEM;

	spin_lock_irq(&q->lock);
	if (q->fill > cap) {
		spin_unlock_irq(&q->lock);
		kvfree(entries);
		return -EBUSY;
	}
	for (i = 0; i < q->fill; i++)
		entries[i] = q->entries[mtier_queue_slot(q, i)];
	old = q->entries;
	q->entries = entries;
	q->head = 0;
	q->cap = cap;
	spin_unlock_irq(&q->lock);
	kvfree(old);
	return 0;
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/queue_kunit.c"
#endif
