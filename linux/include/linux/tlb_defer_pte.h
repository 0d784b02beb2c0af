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

#ifdef CONFIG_TLB_DEFER

bool __tlb_defer_aside(struct mm_struct *mm, pte_t pte);
bool __tlb_defer_pte(struct mm_struct *mm, pte_t pte, unsigned long address);

/**
 * tlb_defer_aside() - shall a folio migrate later, with others of its kind?
 * @mm: an address space
 * @pte: an entry of the folio; the caller holds its page table lock and is
 *	about to clear it
 *
 * Return: true if so: its flush could not wait, while that of others can.
 */
static inline bool tlb_defer_aside(struct mm_struct *mm, pte_t pte)
{
	return tlb_defer_on() && __tlb_defer_aside(mm, pte);
}

/**
 * tlb_defer_pte() - can the flush of an entry that was just cleared wait?
 * @mm: its address space
 * @pte: what it was
 * @address: where it was; the caller holds its page table lock
 *
 * Return: true if the flush is now the engine's, else the caller has to do it.
 */
static inline bool tlb_defer_pte(struct mm_struct *mm, pte_t pte,
				 unsigned long address)
{
	return tlb_defer_on() && __tlb_defer_pte(mm, pte, address);
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

#define tlb_defer_aside(mm, pte)		false
#define tlb_defer_pte(mm, pte, address)		false
#define tlb_defer_follow(mm, pte, write)	do { } while (0)
#define tlb_defer_swapin(mm, pte)		do { } while (0)
#define tlb_defer_fork_begin(mm)		false
#define tlb_defer_fork_flush(mm, begun)		((void)(begun), flush_tlb_mm(mm))

#endif /* CONFIG_TLB_DEFER */
#endif /* _LINUX_TLB_DEFER_PTE_H */
