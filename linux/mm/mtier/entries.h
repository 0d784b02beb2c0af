/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Page promotion: the page table entries of a folio, as looks see them.
 *
 * Nearly all are one entry of a single page, and there are many: where that is known
 * to the compiler nothing is left of what is done for others.
 *
 * Locking: the page table lock.
 */
#ifndef _MM_MTIER_ENTRIES_H
#define _MM_MTIER_ENTRIES_H

#include <linux/mm.h>
#include <linux/page_idle.h>
#include <linux/pgtable.h>

#include "../internal.h"

/**
 * struct mtier_entries - what maps a page, or what is here of a large folio
 * @vma: where
 * @addr: at which address
 * @pmd: the entry of a huge page, or NULL
 * @pte: else: the entries
 * @nr: base pages that they map
 */
struct mtier_entries {
	struct vm_area_struct *vma;
	unsigned long addr;
	pmd_t *pmd;
	pte_t *pte;
	unsigned int nr;
};

/**
 * mtier_entries_present() - is anything mapped there?
 * @e: the entries
 *
 * Return: true if the first of them maps something.
 */
static __always_inline bool
mtier_entries_present(const struct mtier_entries *e)
{
	return e->pmd ? pmd_present(pmdp_get(e->pmd)) :
			pte_present(ptep_get(e->pte));
}

/**
 * mtier_entries_folio() - which folio do entries map?
 * @e: the entries
 *
 * Return: that of the first, or NULL.
 */
static __always_inline struct folio *
mtier_entries_folio(const struct mtier_entries *e)
{
	pte_t entry;

	if (!mtier_entries_present(e))
		return NULL;
	if (e->pmd)
		return vm_normal_folio_pmd(e->vma, e->addr, pmdp_get(e->pmd));
	entry = ptep_get(e->pte);
	/* Where there are special entries that of the zero page is one. */
	if (!IS_ENABLED(CONFIG_ARCH_HAS_PTE_SPECIAL) &&
	    is_zero_pfn(pte_pfn(entry)))
		return NULL;
	return vm_normal_folio(e->vma, e->addr, entry);
}

/* Of several some may map something else by now. */
static inline bool mtier_entries_same(const struct mtier_entries *e,
				      unsigned int i, pte_t entry)
{
	return pte_present(entry) &&
	       pte_pfn(entry) == pte_pfn(ptep_get(e->pte)) + i;
}

/**
 * mtier_entries_young() - was any of their Accessed bits set?
 * @e: the entries; the first of them is present
 *
 * Return: true if so.
 */
static __always_inline bool mtier_entries_young(const struct mtier_entries *e)
{
	unsigned int i;

	if (e->pmd)
		return pmd_young(pmdp_get(e->pmd));
	if (e->nr == 1)
		return pte_young(ptep_get(e->pte));
	for (i = 0; i < e->nr; i++) {
		pte_t entry = ptep_get(e->pte + i);

		if (pte_young(entry) && mtier_entries_same(e, i, entry))
			return true;
	}
	return false;
}

/**
 * mtier_entries_clear() - clear these bits
 * @e: the entries; the first of them is present
 *
 * Return: true if any was set.
 */
static __always_inline bool mtier_entries_clear(const struct mtier_entries *e)
{
	unsigned long addr = e->addr;
	bool young = false;
	unsigned int i;

	if (IS_ENABLED(CONFIG_TRANSPARENT_HUGEPAGE) && e->pmd)
		return pmdp_test_and_clear_young(e->vma, addr, e->pmd);
	if (e->nr == 1)
		return ptep_test_and_clear_young(e->vma, addr, e->pte);
	for (i = 0; i < e->nr; i++, addr += PAGE_SIZE)
		if (mtier_entries_same(e, i, ptep_get(e->pte + i)) &&
		    ptep_test_and_clear_young(e->vma, addr, e->pte + i))
			young = true;
	return young;
}

/**
 * mtier_entries_nr() - how many entries map what comes next of the same large folio?
 * @e: the first of them
 * @folio: the folio
 * @most: this many at most
 *
 * Return: how many.
 */
static inline unsigned int mtier_entries_nr(const struct mtier_entries *e,
					    struct folio *folio,
					    unsigned int most)
{
	const fpb_t flags = FPB_IGNORE_DIRTY | FPB_IGNORE_SOFT_DIRTY;

	return folio_pte_batch(folio, e->addr, e->pte, ptep_get(e->pte), most,
			       flags, NULL, NULL, NULL);
}

/**
 * mtier_folio_tell() - tell others that a folio was accessed
 * @folio: whose Accessed bit was set, and is not any more
 *
 * Those who want to know of it ask the folio.
 */
static __always_inline void mtier_folio_tell(struct folio *folio)
{
	if (!folio_test_young(folio))
		folio_set_young(folio);
	if (folio_test_idle(folio))
		folio_clear_idle(folio);
}

#endif /* _MM_MTIER_ENTRIES_H */
