// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: scans of memory that several VMAs map.
 *
 * A page of a file, or of shared memory, is used by all processes that map it. With a
 * separate decision for each address space, the mappers that do not use a page would
 * outvote the one that does, and its frame would be counted many times. So a part of
 * a file is scanned once in a burst, through the VMA that was drawn. All other
 * mappers are scanned with it, also for pages that this VMA has not mapped. A page is
 * in use if any mapper has used it.
 *
 * The interval tree of the file gives the other mappers. It is walked once for a
 * range, and not for each page. In each mapper, one or two page tables are scanned. A
 * range with more than MTIER_OTHERS_MAX mappers is left out, and so is one whose file
 * is about to be mapped by another process. Pages mapped by a process that has a
 * secondary MMU are not sampled: their use is not known. The scan scales of the other
 * mappers have no effect.
 *
 * Private copies of file pages are anonymous memory, and are not handled here.
 *
 * Locking, all by trylock, under the lock of the VMA that was drawn:
 *
 *   i_mmap_rwsem (read)	keeps the VMAs of the other mappers, and their page tables
 *     VMA lock (read)		of one of these VMAs, to read its policy
 *     page table lock		of one of these VMAs
 */
#include <linux/fs.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/shmem_fs.h>

#include <asm/tlbflush.h>

#include "../internal.h"
#include "burst.h"
#include "eligible.h"
#include "entries.h"
#include "mtier.h"

/*
 * Most VMAs that are walked for one part of a file; the walk holds the lock of the
 * file.
 */
#define MTIER_OTHERS_MAX	256

/**
 * struct mtier_walk_others - walk over the other mappers of a part of a file
 * @o: result of the walk
 * @mine: the VMA that was drawn; the walk leaves it out
 * @first: offset of the first page in the file, in pages
 * @nr: number of pages
 * @ask: called for each VMA; a nonzero value ends the walk, an error means that the
 *	walk failed
 * @page: bytes of these pages if they are scanned; NULL otherwise
 * @look: the scan if it is the first; NULL otherwise
 */
struct mtier_walk_others {
	struct mtier_others *o;
	struct vm_area_struct *mine;
	pgoff_t first;
	unsigned int nr;
	int (*ask)(struct mtier_walk_others *w, struct vm_area_struct *vma);
	u8 *page;
	struct mtier_look *look;
};

/* ---- TLB flushes ---- */

/**
 * mtier_flush_now() - Flush the address spaces in a list, and empty the list.
 * @f: list of address spaces
 * @seen: statistics that the flushes are added to
 */
void mtier_flush_now(struct mtier_flush *f, struct mtier_seen *seen)
{
	while (f->nr) {
		struct mm_struct *mm = f->mm[--f->nr];

		flush_tlb_mm(mm);
		seen->flushes++;
		mmdrop(mm);
	}
}

/**
 * mtier_flush_later() - Note an address space whose Accessed bits were cleared.
 * @f: list of address spaces
 * @mm: the address space
 * @seen: statistics of the flushes, if the list is full and flushed now
 */
void mtier_flush_later(struct mtier_flush *f, struct mm_struct *mm,
		       struct mtier_seen *seen)
{
	unsigned int i;

	for (i = f->nr; i-- > 0;)
		if (f->mm[i] == mm)
			return;
	if (f->nr == MTIER_FLUSH_MMS)
		mtier_flush_now(f, seen);
	mmgrab(mm);
	f->mm[f->nr++] = mm;
}

/* ---- pages of one other mapper ---- */

/* Check whether this is the first scan, and no mapper of the page was found before. */
static bool mtier_others_new(const struct mtier_walk_others *w, unsigned int at)
{
	return w->look && !test_bit(at, w->o->met);
}

/* Check whether an entry can be skipped, before its folio is read: it is in no cache. */
static bool mtier_others_skip(const struct mtier_walk_others *w,
			      const struct mtier_entries *e, unsigned int at)
{
	if (!mtier_entries_present(e))
		return true;
	if (!w->page || mtier_others_new(w, at))
		return false;
	return w->page[at] == MTIER_PAGE_NONE || !mtier_entries_young(e);
}

/*
 * Check whether the pages of a folio from page @at on were used here, and clear their
 * Accessed bits. The first scan samples pages that were not found in a mapper before.
 */
static bool mtier_others_used(const struct mtier_walk_others *w,
			      const struct mtier_entries *e,
			      struct folio *folio, unsigned int at)
{
	bool young;

	if (mtier_others_new(w, at)) {
		young = mtier_entries_young(e);
		mtier_look_met(w->look, e, folio, w->page + at);
		/* The bits of pages that are not sampled were not cleared. */
		return young && mtier_page_watched(w->page[at]);
	}
	if (!mtier_entries_clear(e))
		return false;
	mtier_folio_tell(folio);
	return true;
}

/* Get the folio if it belongs to the file. */
static struct folio *mtier_others_folio(const struct mtier_entries *e)
{
	struct folio *folio = mtier_entries_folio(e);

	return folio && !folio_test_anon(folio) && !folio_is_zone_device(folio) ?
	       folio : NULL;
}

/* Scan a huge page. False if there is none. */
static bool mtier_others_huge(struct mtier_walk_others *w,
			      struct vm_area_struct *vma, pmd_t *pmd,
			      unsigned long addr, unsigned int at,
			      unsigned int nr)
{
	struct mtier_entries e = {
		.vma = vma, .addr = addr & PMD_MASK, .pmd = pmd, .nr = nr,
	};
	spinlock_t *ptl = pmd_trans_huge_lock(pmd, vma);
	struct folio *folio = NULL;

	if (!ptl)
		return false;
	__acquire(ptl);		/* sparse does not see this lock */
	if (!mtier_others_skip(w, &e, at))
		folio = mtier_others_folio(&e);
	if (folio && (!w->page || mtier_others_used(w, &e, folio, at)))
		bitmap_set(w->o->found, at, nr);
	spin_unlock(ptl);
	return true;
}

/* Count the next pages of the same folio for which no mapper was found before. */
static unsigned int mtier_others_nr(const struct mtier_walk_others *w,
				    const struct mtier_entries *e,
				    struct folio *folio, unsigned int at,
				    unsigned int most)
{
	if (!folio_test_large(folio) || !mtier_others_new(w, at))
		return 1;
	most = find_next_bit(w->o->met, at + most, at) - at;
	return mtier_entries_nr(e, folio, most);
}

/* Scan the next entries of a page table. Returns their number. */
static unsigned int mtier_others_next(struct mtier_walk_others *w,
				      struct mtier_entries *e, unsigned int at,
				      unsigned int most)
{
	struct folio *folio = NULL;

	if (!mtier_others_skip(w, e, at))
		folio = mtier_others_folio(e);
	if (!folio)
		return 1;
	e->nr = mtier_others_nr(w, e, folio, at, most);
	if (!w->page || mtier_others_used(w, e, folio, at))
		bitmap_set(w->o->found, at, e->nr);
	return e->nr;
}

/* Scan pages in one page table. @at: index of the page at @addr. */
static void mtier_others_table(struct mtier_walk_others *w,
			       struct vm_area_struct *vma, unsigned long addr,
			       unsigned int at, unsigned int nr)
{
	pmd_t *pmd = mm_find_pmd(vma->vm_mm, addr & PMD_MASK);
	pte_t *start;
	spinlock_t *ptl;	/* of this page table */
	unsigned int i;

	if (!pmd || mtier_others_huge(w, vma, pmd, addr, at, nr))
		return;
	start = pte_offset_map_lock(vma->vm_mm, pmd, addr, &ptl);
	if (!start)
		return;
	__acquire(ptl);		/* as above */
	for (i = 0; i < nr;) {
		struct mtier_entries e = {
			.vma = vma, .addr = addr + i * PAGE_SIZE,
			.pte = start + i, .nr = 1,
		};

		i += mtier_others_next(w, &e, at + i, nr - i);
	}
	pte_unmap_unlock(start, ptl);
}

/*
 * Find the pages that a VMA maps, one page table after the other. Returns the address
 * at which the part of the file begins in the VMA.
 */
static unsigned long
mtier_others_find(struct mtier_walk_others *w, struct vm_area_struct *vma)
{
	pgoff_t from = max(w->first, vma->vm_pgoff);
	pgoff_t end = min(w->first + w->nr, vma->vm_pgoff + vma_pages(vma));
	unsigned int at = from - w->first, nr;
	unsigned long start, addr;

	bitmap_zero(w->o->found, MTIER_RANGE_PAGES);
	start = vma->vm_start + ((from - vma->vm_pgoff) << PAGE_SHIFT);
	for (addr = start; from < end; from += nr, at += nr) {
		nr = min(end - from, (pmd_addr_end(addr, ULONG_MAX) - addr) >>
				     PAGE_SHIFT);
		mtier_others_table(w, vma, addr, at, nr);
		addr += (unsigned long)nr << PAGE_SHIFT;
	}
	return start;
}

/* ---- nodes that the other mappers allow ---- */

/* Check whether the memory of a VMA is not scanned. */
static bool mtier_others_left_out(struct vm_area_struct *vma)
{
	return mm_has_notifiers(vma->vm_mm) || !mtier_vma_eligible(vma);
}

/*
 * Exclude @pages from promotion or demotion if the policy of a VMA at @addr forbids
 * it.
 */
static void mtier_others_stay_at(struct mtier_others *o,
				 struct vm_area_struct *vma, unsigned long addr,
				 const unsigned long *pages)
{
	bool shmem = shmem_mapping(vma->vm_file->f_mapping);
	bool fixed = mtier_shared_stays(vma, !shmem);
	nodemask_t up, down;

	mtier_rules_at(&o->rules, vma, addr, false, &up, &down);
	if (fixed || !nodes_intersects(up, o->above))
		bitmap_or(o->stays[MTIER_LOW], o->stays[MTIER_LOW], pages,
			  MTIER_RANGE_PAGES);
	if (fixed || vma->vm_flags & VM_LOCKED ||
	    !nodes_intersects(down, o->low))
		bitmap_or(o->stays[MTIER_TOP], o->stays[MTIER_TOP], pages,
			  MTIER_RANGE_PAGES);
}

/* Exclude the found pages from promotion or demotion if a VMA forbids it. */
static int mtier_others_stay(struct mtier_walk_others *w,
			     struct vm_area_struct *vma, unsigned long addr)
{
	unsigned long begin = linear_page_index(vma, addr) - w->first, i;
	DECLARE_BITMAP(page, MTIER_RANGE_PAGES) = { };
	struct mtier_others *o = w->o;

	if (!mtier_rules_lock(&o->rules, vma))
		return -EBUSY;
	if (!mtier_policy_by_page(vma)) {
		mtier_others_stay_at(o, vma, addr, o->found);
	} else {
		for_each_set_bit(i, o->found, MTIER_RANGE_PAGES) {
			__set_bit(i, page);
			mtier_others_stay_at(o, vma, addr + (i - begin) * PAGE_SIZE,
					     page);
			__clear_bit(i, page);
		}
	}
	vma_end_read(vma);
	return 0;
}

static int mtier_others_ask_vma(struct mtier_walk_others *w,
				struct vm_area_struct *vma)
{
	struct mtier_others *o = w->o;
	unsigned long addr;

	addr = mtier_others_find(w, vma);
	if (bitmap_empty(o->found, MTIER_RANGE_PAGES))
		return 0;
	if (!mtier_others_left_out(vma))
		return mtier_others_stay(w, vma, addr);
	bitmap_or(o->nobodys, o->nobodys, o->found, MTIER_RANGE_PAGES);
	return 0;
}

/* Find the pages that a VMA has used since the last scan. */
static int mtier_others_look_vma(struct mtier_walk_others *w,
				 struct vm_area_struct *vma)
{
	struct mtier_others *o = w->o;

	mtier_others_find(w, vma);
	if (bitmap_empty(o->found, MTIER_RANGE_PAGES))
		return 0;
	bitmap_or(o->used, o->used, o->found, MTIER_RANGE_PAGES);
	mtier_flush_later(o->flush, vma->vm_mm, o->seen);
	return 0;
}

/* ---- walk over all other mappers ---- */

/* Walk over the VMAs. Returns 0, the value that ended the walk, or -EBUSY. */
static int mtier_others_walk(struct mtier_walk_others *w)
{
	struct address_space *mapping = w->mine->vm_file->f_mapping;
	struct vm_area_struct *vma;
	unsigned int nr = 0;
	int ret = 0;

	if (!i_mmap_trylock_read(mapping))
		return -EBUSY;
	vma_interval_tree_foreach(vma, &mapping->i_mmap, w->first,
				  w->first + w->nr - 1) {
		if (vma == w->mine)
			continue;
		if (nr++ == MTIER_OTHERS_MAX ||
		    rwsem_is_contended(&mapping->i_mmap_rwsem))
			ret = -EBUSY;
		else
			ret = w->ask(w, vma);
		if (ret)
			break;
	}
	i_mmap_unlock_read(mapping);
	return ret;
}

/**
 * mtier_others_ask() - Check the policies of the other mappers of a part of a file.
 * @o: set to the result
 * @vma: the VMA, locked for reading; mtier_may_be_others() is true for it
 * @addr: start of the part
 * @nr: number of its pages, all in one page table
 *
 * Return: 0, or -EBUSY if the other mappers are not known, and the part must be left
 * out.
 */
int mtier_others_ask(struct mtier_others *o, struct vm_area_struct *vma,
		     unsigned long addr, unsigned int nr)
{
	struct mtier_walk_others w = {
		.o = o, .mine = vma, .nr = nr,
		.first = linear_page_index(vma, addr),
		.ask = mtier_others_ask_vma,
	};

	bitmap_zero(o->nobodys, MTIER_RANGE_PAGES);
	bitmap_zero(o->met, MTIER_RANGE_PAGES);
	bitmap_zero(o->stays[MTIER_LOW], MTIER_RANGE_PAGES);
	bitmap_zero(o->stays[MTIER_TOP], MTIER_RANGE_PAGES);
	return mtier_others_walk(&w);
}

/* Count a page that another mapper has used, unless this scan has counted it already. */
static void mtier_others_count(struct mtier_others *o, u8 *page, unsigned int i,
			       bool first)
{
	page[i] |= MTIER_PAGE_TOLD;
	if (!first && (page[i] & MTIER_PAGE_COUNT) ==
		      (o->before[i] & MTIER_PAGE_COUNT))
		page[i]++;
}

/**
 * mtier_others_look() - Scan pages in the page tables of the other mappers.
 * @o: result of mtier_others_ask(); @before has the bytes of the pages before this
 *	scan
 * @vma: the VMA that was drawn, locked for reading
 * @addr: start of the part of it
 * @nr: number of its pages, all in one page table
 * @page: current bytes of the pages; pages that only other mappers have used are
 *	counted
 * @look: the scan if it is the first; NULL otherwise. No bit was cleared before the
 *	first scan, so it counts nothing. It adds pages to the sample that only other
 *	mappers have mapped
 *
 * Return: false if not all mappers could be scanned, so that nothing is known of the
 * pages.
 */
bool mtier_others_look(struct mtier_others *o, struct vm_area_struct *vma,
		       unsigned long addr, unsigned int nr, u8 *page,
		       struct mtier_look *look)
{
	struct mtier_walk_others w = {
		.o = o, .mine = vma, .nr = nr, .page = page, .look = look,
		.first = linear_page_index(vma, addr),
		.ask = mtier_others_look_vma,
	};
	unsigned int i, did;

	bitmap_zero(o->used, MTIER_RANGE_PAGES);
	if (mtier_others_walk(&w))
		return false;
	for (i = 0; i < nr; i += did) {
		did = mtier_look_nr(page + i, nr - i);
		if (mtier_page_watched(page[i]) &&
		    find_next_bit(o->used, i + did, i) < i + did)
			mtier_others_count(o, page, i, look);
	}
	return true;
}
