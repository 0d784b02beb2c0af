// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: the number of pages that a range has on each tier.
 *
 * Sweeps (sweep.c) need it for many ranges, so 16 page table entries are read, and each
 * page found stands for several. A page with m mappers counts with probability 1/m. So
 * the text of a library, or memory that hundreds of processes share after fork(), counts
 * once, and not in each of them. Parts of a file that sweeps list for one mapper alone
 * count as a whole there.
 *
 * A page of a middle tier counts for both: it can be promoted, and demoted.
 *
 * Locking: mmap_lock, held by the caller for reading; below it, the lock of the page
 * table, so that the pages found stay mapped.
 */
#include <linux/mm.h>
#include <linux/random.h>

#include "burst.h"
#include "mtier.h"
#include "peek.h"

/* Page table entries that are read of each range, and their distance. */
#define MTIER_PEEK_PAGES	16
#define MTIER_PEEK_STEP		(MTIER_RANGE_PAGES / MTIER_PEEK_PAGES)

/* Get the tiers that a page of a node counts for. */
static u8 mtier_peek_sides(const struct mtier_peek *p, int nid)
{
	if (!node_isset(nid, p->slow))
		return MTIER_RANGE_TOP;
	return MTIER_RANGE_LOW | (node_isset(nid, p->middle) ? MTIER_RANGE_TOP : 0);
}

/* Get the number of processes that map a folio, about. */
static unsigned int mtier_peek_count(struct folio *folio)
{
	return clamp(folio_mapcount(folio) / (int)folio_nr_pages(folio), 1, INT_MAX);
}

/**
 * mtier_peek_once() - Check whether sweeps list a part of a file for one mapper alone.
 * @vma: a mapper
 *
 * Private mappings list theirs in any case. They have copies that belong to one process,
 * and any user who may read the file can have one: it must not hide the part of others.
 *
 * Return: true if so.
 */
bool mtier_peek_once(const struct vm_area_struct *vma)
{
	return vma->vm_file && !is_cow_mapping(vma->vm_flags);
}

/* Get the tiers that a folio counts for in one of its mappers; @once: in this one alone. */
static u8 mtier_peek_folio(const struct mtier_peek *p, struct folio *folio, bool once)
{
	unsigned int mappers = once ? 1 : mtier_peek_count(folio);

	if (mappers > 1 && get_random_u32_below(mappers))
		return 0;
	return mtier_peek_sides(p, folio_nid(folio));
}

/* Get the folio of a page table entry, while its lock is held. */
static struct folio *mtier_peek_get(pte_t pte)
{
	if (!pte_present(pte) || pte_special(pte) || !pfn_valid(pte_pfn(pte)))
		return NULL;
	return page_folio(pte_page(pte));
}

/* Count the pages of every MTIER_PEEK_STEP'th entry, from a random one on. */
static unsigned long mtier_peek_table(const struct mtier_peek *p,
				      struct vm_area_struct *vma, pmd_t *pmd,
				      unsigned long addr)
{
	bool once = mtier_peek_once(vma);
	unsigned int i, nr[MTIER_SIDES] = { };
	struct folio *folio;
	spinlock_t *ptl;	/* of this page table */
	pte_t *start;
	u8 sides;

	start = pte_offset_map_lock(vma->vm_mm, pmd, addr & PMD_MASK, &ptl);
	if (!start)
		return 0;
	__acquire(ptl);		/* by pte_offset_map_lock(), as sparse does not see */
	for (i = get_random_u32_below(MTIER_PEEK_STEP); i < MTIER_RANGE_PAGES;
	     i += MTIER_PEEK_STEP) {
		folio = mtier_peek_get(ptep_get(start + i));
		sides = folio ? mtier_peek_folio(p, folio, once) : 0;
		nr[MTIER_TOP] += sides & MTIER_RANGE_TOP ? MTIER_PEEK_STEP : 0;
		nr[MTIER_LOW] += sides & MTIER_RANGE_LOW ? MTIER_PEEK_STEP : 0;
	}
	pte_unmap_unlock(start, ptl);
	return mtier_range_entry(nr[MTIER_TOP], nr[MTIER_LOW]);
}

/**
 * mtier_peek() - Estimate the number of pages that a range has on each tier.
 * @p: the tiers of nodes
 * @vma: a VMA that has a part of the range
 * @pmd: the entry above the page table of the range, not none
 * @addr: an address in the range
 *
 * Context: mmap_lock is held.
 * Return: the numbers, in the low bits of an entry of a list; see range.h.
 */
unsigned long mtier_peek(const struct mtier_peek *p, struct vm_area_struct *vma,
			 pmd_t *pmd, unsigned long addr)
{
	pmd_t entry = pmdp_get_lockless(pmd);
	u8 sides;

	if (!pmd_present(entry))
		return 0;
	if (!pmd_leaf(entry))
		return mtier_peek_table(p, vma, pmd, addr);
	if (!pfn_valid(pmd_pfn(entry)) || is_huge_zero_pmd(entry))
		return 0;
	sides = mtier_peek_sides(p, pfn_to_nid(pmd_pfn(entry)));
	return mtier_range_entry(sides & MTIER_RANGE_TOP ? MTIER_RANGE_PAGES : 0,
				 sides & MTIER_RANGE_LOW ? MTIER_RANGE_PAGES : 0);
}

/**
 * mtier_peek_mappers() - Estimate the number of mappers of a part of a file.
 * @vma: one of them
 * @addr: address of the part in it
 * @next: end of the part
 * @pmd: the entry above its page table
 *
 * The first page that is mapped here stands for all.
 *
 * Context: mmap_lock is held.
 * Return: the number, 1 at least.
 */
unsigned int mtier_peek_mappers(struct vm_area_struct *vma, unsigned long addr,
				unsigned long next, pmd_t *pmd)
{
	struct folio *folio = NULL;
	unsigned int mappers = 1;
	spinlock_t *ptl;	/* of this page table */
	pte_t *start, *pte;

	if (pmd_leaf(pmdp_get_lockless(pmd)))
		return mappers;
	start = pte_offset_map_lock(vma->vm_mm, pmd, addr, &ptl);
	if (!start)
		return mappers;
	__acquire(ptl);		/* by pte_offset_map_lock(), likewise */
	for (pte = start; addr < next && !folio; pte++, addr += PAGE_SIZE)
		if (pte_present(ptep_get(pte)))
			folio = vm_normal_folio(vma, addr, ptep_get(pte));
	if (folio)
		mappers = mtier_peek_count(folio);
	pte_unmap_unlock(start, ptl);
	return mappers;
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/peek_kunit.c"
#endif
