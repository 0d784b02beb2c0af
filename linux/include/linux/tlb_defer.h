/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Deferred TLB flush of migrated pages (mm/tlb_defer/).
 *
 * What the rest of the kernel sees of it: calls that are a nop while it is off
 * and nothing at all without CONFIG_TLB_DEFER. Included by fs.h, so it needs next
 * to nothing itself.
 *
 * See Documentation/mm/tlb_defer.rst for the invariants A to D that the
 * comments name.
 */
#ifndef _LINUX_TLB_DEFER_H
#define _LINUX_TLB_DEFER_H

#include <linux/jump_label.h>
#include <linux/types.h>
#include <vdso/bits.h>

struct folio;
struct inode;
struct list_head;
struct mm_struct;
struct tlb_defer_batch;

/* Why an address space has to be flushed before it goes on */
enum tlb_defer_site {
	TLB_DEFER_SITE_UNMAP,	/* A1: entries go away or change */
	TLB_DEFER_SITE_WRITE,	/* A2, A4, A5: somebody is about to write */
};

#ifdef CONFIG_TLB_DEFER

/* A state of the source folio that migration keeps in dst->private */
#define PAGE_TLB_DEFERRED	BIT(2)

DECLARE_STATIC_KEY_FALSE(tlb_defer_key);

void __tlb_defer_flush_mm(struct mm_struct *mm, enum tlb_defer_site site);
void __tlb_defer_write_access(struct inode *inode);
void __tlb_defer_fork_begin(struct mm_struct *mm);
void __tlb_defer_fork_flush(struct mm_struct *mm, bool begun);
void __tlb_defer_tick(void);
void __tlb_defer_drain(void);
void __tlb_defer_compacted(void);
struct tlb_defer_batch *__tlb_defer_begin(int reason,
					  const struct list_head *from);
bool __tlb_defer_again(struct list_head *from);
void __tlb_defer_end(struct tlb_defer_batch *outer, struct list_head *left);
void __tlb_defer_folio_begin(struct folio *src, bool batched);
int __tlb_defer_folio_end(struct folio *src);
void __tlb_defer_pass(struct list_head *folios, bool first);
void __tlb_defer_set_aside(struct folio *src);
bool __tlb_defer_settle(void);
void __tlb_defer_keep(struct folio *src);
void tlb_defer_init_mm(struct mm_struct *mm);

/**
 * tlb_defer_on() - may there be translations whose flush was deferred?
 *
 * Return: true from the moment a mode is set until all is flushed after "off".
 */
static inline bool tlb_defer_on(void)
{
	return static_branch_unlikely(&tlb_defer_key);
}

/**
 * tlb_defer_flush_mm() - before entries of an address space change (A)
 * @mm: whose; the caller holds the page table lock of the entry
 * @site: what happens to it
 */
static inline void tlb_defer_flush_mm(struct mm_struct *mm,
				      enum tlb_defer_site site)
{
	if (tlb_defer_on())
		__tlb_defer_flush_mm(mm, site);
}

/**
 * tlb_defer_write_access() - before somebody may write to a file (B2)
 * @inode: its inode
 * @error: of get_write_access(), which has just counted the writer
 *
 * May sleep.
 *
 * Return: @error.
 */
static inline int tlb_defer_write_access(struct inode *inode, int error)
{
	if (tlb_defer_on() && !error)
		__tlb_defer_write_access(inode);
	return error;
}

/**
 * tlb_defer_tick() - the timer interrupt of this CPU
 */
static inline void tlb_defer_tick(void)
{
	if (tlb_defer_on())
		__tlb_defer_tick();
}

/**
 * tlb_defer_drain() - give back all frames that wait for a flush
 * @may_sleep: the caller can wait for that; else nothing happens
 */
static inline void tlb_defer_drain(bool may_sleep)
{
	if (tlb_defer_on() && may_sleep)
		__tlb_defer_drain();
}

/**
 * tlb_defer_compacted() - give back frames, so that they merge with their neighbours
 *
 * May sleep. Unlike tlb_defer_drain() it says nothing of a shortage.
 */
static inline void tlb_defer_compacted(void)
{
	if (tlb_defer_on())
		__tlb_defer_compacted();
}

/**
 * tlb_defer_begin() - migration starts
 * @reason: an enum migrate_reason
 * @from: what migrates, without what a batch has been cut from it for
 *
 * Return: what tlb_defer_end() needs; migration may begin inside migration.
 */
static inline struct tlb_defer_batch *
tlb_defer_begin(int reason, const struct list_head *from)
{
	return tlb_defer_on() ? __tlb_defer_begin(reason, from) : NULL;
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
 * @outer: of tlb_defer_begin()
 * @left: gets what is still set aside, if migration ends before its time
 */
static inline void tlb_defer_end(struct tlb_defer_batch *outer,
				 struct list_head *left)
{
	if (tlb_defer_on())
		__tlb_defer_end(outer, left);
}

/**
 * tlb_defer_folio_begin() - before the entries of a folio are replaced
 * @src: locked folio that migrates
 * @batched: its entries are flushed with those of others, not one by one
 */
static inline void tlb_defer_folio_begin(struct folio *src, bool batched)
{
	if (tlb_defer_on())
		__tlb_defer_folio_begin(src, batched);
}

/**
 * tlb_defer_folio_end() - after the entries of a folio were replaced
 * @src: the folio of tlb_defer_folio_begin()
 *
 * Return: PAGE_TLB_DEFERRED if it has to be kept for its flush, or 0.
 */
static inline int tlb_defer_folio_end(struct folio *src)
{
	return tlb_defer_on() ? __tlb_defer_folio_end(src) : 0;
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
 * @src: the folio of tlb_defer_folio_begin(), on the list of its batch
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

/* Macros: an inline, however empty, can change what gcc makes of the caller. */
#define tlb_defer_on()				false
#define tlb_defer_flush_mm(mm, site)		do { } while (0)
#define tlb_defer_write_access(inode, error)	(error)
#define tlb_defer_tick()			do { } while (0)
#define tlb_defer_drain(may_sleep)		do { } while (0)
#define tlb_defer_compacted()			do { } while (0)
#define tlb_defer_begin(reason, from)		NULL
#define tlb_defer_again(from)			false
#define tlb_defer_end(outer, left)		((void)(outer))
#define tlb_defer_folio_begin(src, batched)	do { } while (0)
#define tlb_defer_folio_end(src)		0
#define tlb_defer_pass(folios, first)		do { } while (0)
#define tlb_defer_set_aside(src)		do { } while (0)
#define tlb_defer_settle()			false
#define tlb_defer_keep(src, state)		do { } while (0)
#define tlb_defer_init_mm(mm)			do { } while (0)

#endif /* CONFIG_TLB_DEFER */
#endif /* _LINUX_TLB_DEFER_H */
