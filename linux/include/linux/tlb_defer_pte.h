/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Deferred TLB flush of migrated pages: the calls that look at an entry, for
 * mm/rmap.c, mm/memory.c, mm/gup.c and kernel/fork.c. See <linux/tlb_defer.h>.
 */
#ifndef _LINUX_TLB_DEFER_PTE_H
#define _LINUX_TLB_DEFER_PTE_H

#include <linux/pgtable.h>
#include <linux/tlb_defer.h>
#include <asm/tlbflush.h>

/* When the flush of an entry is due */
enum tlb_defer_when {
	TLB_DEFER_NOW,		/* with that of its batch, as ever */
	TLB_DEFER_LATER,	/* it can wait */
	TLB_DEFER_ASIDE,	/* as ever, but in a later batch */
};

#ifdef CONFIG_TLB_DEFER

enum tlb_defer_when __tlb_defer_entry(struct folio *folio, struct mm_struct *mm,
				      pte_t pte);
void __tlb_defer_collect(struct mm_struct *mm, unsigned long address);

/**
 * tlb_defer_entry() - look at an entry that is about to be cleared
 * @folio: the folio that it maps, locked
 * @mm: its address space
 * @pte: what it is; the caller holds its page table lock
 *
 * Return: TLB_DEFER_LATER if its flush can wait, at least until the folio's end:
 * tlb_defer_collect() has to follow. TLB_DEFER_ASIDE if its folio shall be left as
 * it is, since its flush could not wait while that of others can.
 */
static inline enum tlb_defer_when
tlb_defer_entry(struct folio *folio, struct mm_struct *mm, pte_t pte)
{
	return tlb_defer_on() ? __tlb_defer_entry(folio, mm, pte) : TLB_DEFER_NOW;
}

/**
 * tlb_defer_collect() - an entry was cleared
 * @when: what tlb_defer_entry() said of it
 * @mm: its address space
 * @address: where it was; the caller still holds its page table lock
 *
 * Return: true if its flush is now the engine's, else the caller has to do it.
 */
static inline bool tlb_defer_collect(enum tlb_defer_when when,
				     struct mm_struct *mm, unsigned long address)
{
	if (when != TLB_DEFER_LATER)
		return false;
	__tlb_defer_collect(mm, address);
	return true;
}

/**
 * tlb_defer_follow() - before the kernel uses a page for somebody (A4)
 * @mm: where it is mapped
 * @pte: its entry; the caller holds its page table lock
 * @write: it will be written to, whatever the entry says
 */
static inline void tlb_defer_follow(struct mm_struct *mm, pte_t pte, bool write)
{
	if (tlb_defer_on() && write && !pte_write(pte))
		__tlb_defer_flush_mm(mm, TLB_DEFER_SITE_WRITE);
}

/**
 * tlb_defer_swapin() - before a page from swap is mapped (A5)
 * @mm: where
 * @pte: the new entry; the caller holds its page table lock
 */
static inline void tlb_defer_swapin(struct mm_struct *mm, pte_t pte)
{
	if (tlb_defer_on() && pte_write(pte))
		__tlb_defer_flush_mm(mm, TLB_DEFER_SITE_WRITE);
}

/**
 * tlb_defer_fork_begin() - before entries are write protected for a child (D7)
 * @mm: the parent's; the caller holds its mmap_lock for writing
 *
 * Return: what tlb_defer_fork_flush() needs.
 */
static inline bool tlb_defer_fork_begin(struct mm_struct *mm)
{
	if (!tlb_defer_on())
		return false;
	__tlb_defer_fork_begin(mm);
	return true;
}

/**
 * tlb_defer_fork_flush() - flush entries that were write protected (D7)
 * @mm: the parent's; its mmap_lock is still held
 * @begun: of tlb_defer_fork_begin(); it may have been switched off since
 */
static inline void tlb_defer_fork_flush(struct mm_struct *mm, bool begun)
{
	if (tlb_defer_on() || begun)
		__tlb_defer_fork_flush(mm, begun);
	else
		flush_tlb_mm(mm);
}

#else /* !CONFIG_TLB_DEFER */

#define tlb_defer_entry(folio, mm, pte)		TLB_DEFER_NOW
#define tlb_defer_collect(when, mm, address)	((void)(when), false)
#define tlb_defer_follow(mm, pte, write)	do { } while (0)
#define tlb_defer_swapin(mm, pte)		do { } while (0)
#define tlb_defer_fork_begin(mm)		false
#define tlb_defer_fork_flush(mm, begun)		((void)(begun), flush_tlb_mm(mm))

#endif /* CONFIG_TLB_DEFER */
#endif /* _LINUX_TLB_DEFER_PTE_H */
