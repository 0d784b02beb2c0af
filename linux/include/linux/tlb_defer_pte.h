/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Deferred TLB flush of migrated pages: the calls that look at an entry, for
 * mm/rmap.c, mm/memory.c, mm/gup.c and kernel/fork.c. See <linux/tlb_defer.h>.
 */
#ifndef _LINUX_TLB_DEFER_PTE_H
#define _LINUX_TLB_DEFER_PTE_H

#include <linux/mm_types.h>
#include <linux/pgtable.h>
#include <linux/tlb_defer.h>
#include <asm/tlbflush.h>

/* Time of the flush of an entry */
enum tlb_defer_when {
	TLB_DEFER_NOW,		/* with its batch, as without deferral */
	TLB_DEFER_LATER,	/* deferred */
	TLB_DEFER_ASIDE,	/* with its batch, but in a later batch */
};

#ifdef CONFIG_TLB_DEFER

enum tlb_defer_when __tlb_defer_entry(struct folio *folio, struct mm_struct *mm,
				      pte_t pte);
void __tlb_defer_collect(struct mm_struct *mm, unsigned long address);
bool __tlb_defer_protects(struct vm_area_struct *vma, const struct folio *src,
			  const struct folio *dst);
void __tlb_defer_stored(struct mm_struct *mm);

/**
 * tlb_defer_entry() - Decide about an entry that is about to be cleared
 * @folio: the folio that it maps, locked
 * @mm: its address space
 * @pte: its value; the caller holds its page table lock
 *
 * Return: TLB_DEFER_LATER if its flush can be deferred, at least until the end of the
 * folio: tlb_defer_collect() must follow. TLB_DEFER_ASIDE if the caller has to leave the
 * folio mapped, because its flush could not be deferred while that of other folios can.
 */
static inline enum tlb_defer_when
tlb_defer_entry(struct folio *folio, struct mm_struct *mm, pte_t pte)
{
	return tlb_defer_on() ? __tlb_defer_entry(folio, mm, pte) : TLB_DEFER_NOW;
}

/**
 * tlb_defer_collect() - Defer the flush of a cleared entry
 * @when: return value of tlb_defer_entry()
 * @mm: its address space
 * @address: its address; the caller still holds its page table lock
 *
 * Return: true if the flush is deferred, false if the caller has to flush.
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
 * tlb_defer_protects() - Check whether the entry of a migrated page stays write-protected
 * @vma: VMA of the entry; the caller holds its page table lock
 * @src: old folio
 * @dst: new folio, or @src if it did not migrate
 *
 * Return: true if a writable entry of @src becomes a read-only entry of @dst, so that its
 * next migration can be deferred.
 */
static inline bool tlb_defer_protects(struct vm_area_struct *vma,
				      const struct folio *src,
				      const struct folio *dst)
{
	return tlb_defer_on() && __tlb_defer_protects(vma, src, dst);
}

/**
 * tlb_defer_reuse() - Flush deferred entries before an entry becomes writable (A2)
 * @mm: address space; the caller holds the page table lock of the entry
 */
static inline void tlb_defer_reuse(struct mm_struct *mm)
{
	if (!tlb_defer_on())
		return;
	__tlb_defer_flush_mm(mm, TLB_DEFER_SITE_WRITE);
	if (READ_ONCE(mm->tlb_defer.protect.used))
		__tlb_defer_stored(mm);
}

/**
 * tlb_defer_follow() - Flush deferred entries before the kernel accesses a page (A4)
 * @mm: address space that maps it
 * @pte: its entry; the caller holds its page table lock
 * @write: the kernel will write to the page, even if the entry is read-only
 */
static inline void tlb_defer_follow(struct mm_struct *mm, pte_t pte, bool write)
{
	if (tlb_defer_on() && write && !pte_write(pte))
		__tlb_defer_flush_mm(mm, TLB_DEFER_SITE_WRITE);
}

/**
 * tlb_defer_swapin() - Flush deferred entries before a page from swap is mapped (A5)
 * @mm: address space
 * @pte: the new entry; the caller holds its page table lock
 */
static inline void tlb_defer_swapin(struct mm_struct *mm, pte_t pte)
{
	if (tlb_defer_on() && pte_write(pte))
		__tlb_defer_flush_mm(mm, TLB_DEFER_SITE_WRITE);
}

/**
 * tlb_defer_fork_begin() - Start to write protect entries for a child (D7)
 * @mm: address space of the parent; the caller holds its mmap_lock for writing
 *
 * Return: @begun of tlb_defer_fork_flush().
 */
static inline bool tlb_defer_fork_begin(struct mm_struct *mm)
{
	if (!tlb_defer_on())
		return false;
	__tlb_defer_fork_begin(mm);
	return true;
}

/**
 * tlb_defer_fork_flush() - Flush entries that were write protected (D7)
 * @mm: address space of the parent; its mmap_lock is still held
 * @begun: return value of tlb_defer_fork_begin(); the mode may have been switched
 *	off since
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
#define tlb_defer_protects(vma, src, dst)	false
#define tlb_defer_reuse(mm)			do { } while (0)
#define tlb_defer_follow(mm, pte, write)	do { } while (0)
#define tlb_defer_swapin(mm, pte)		do { } while (0)
#define tlb_defer_fork_begin(mm)		false
#define tlb_defer_fork_flush(mm, begun)		((void)(begun), flush_tlb_mm(mm))

#endif /* CONFIG_TLB_DEFER */
#endif /* _LINUX_TLB_DEFER_PTE_H */
