// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: scans of memory that several VMAs map.
 *
 * A page of a file, or of shared memory, is used by all processes that map it. With a
 * separate decision for each address space, the mappers that do not use a page would
 * outvote the one that does, and its frame would be counted many times. So a page of
 * a file is scanned once in a burst, through the VMA that was drawn. All other
 * mappers are scanned with it, also for pages that this VMA has not mapped. A page is
 * in use if any mapper has used it. This is the same for shared and private mappings.
 *
 * Each user who may read a file can map it. A mapper that cannot change the file has
 * no veto: its use of a page counts, and a page stays for its rules only if all
 * mappers forbid the migration. It does not make program text of a page that another
 * one maps without the right to execute it. Its lock is not waited for, and what it
 * maps without access rights hides nothing.
 *
 * The interval tree of the file gives the other mappers. It is walked once for a
 * range, and not for each page. In each mapper, one or two page tables are scanned. A
 * page table is skipped if it was not used since the last sweep (sweep.c), as the
 * Accessed bit of the entry above it shows. The first scan of a page table in a burst
 * clears its Accessed bits, and counts nothing: they can be older than the burst. The
 * rules of a VMA that forbids nothing are applied to all pages that it covers, so that
 * its page tables are not read for them.
 *
 * Of a range with more than MTIER_OTHERS_MOST other mappers, only so many are scanned.
 * This shows that a page is used, but not that it is not: the pages are not demoted. A
 * range is left out while another process is about to map its file. Pages that a process
 * with a secondary MMU can change are not sampled: their use is not known. If it only
 * reads them, they are not demoted. The scan scales of the other mappers have no effect.
 *
 * Private copies of file pages are anonymous memory. If the VMA that was drawn has a
 * copy, this is the page that is scanned at its index, alone. The page of the file is
 * left to another mapper.
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

#include "../internal.h"
#include "burst.h"
#include "eligible.h"
#include "entries.h"
#include "mtier.h"

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
 * @old: Accessed bits in this page table can be older than the burst
 * @cleared: a bit was cleared in the VMA that is scanned now
 * @partial: there are more VMAs than were walked
 */
struct mtier_walk_others {
	struct mtier_others *o;
	struct vm_area_struct *mine;
	pgoff_t first;
	unsigned int nr;
	int (*ask)(struct mtier_walk_others *w, struct vm_area_struct *vma);
	u8 *page;
	struct mtier_look *look;
	bool old;
	bool cleared;
	bool partial;
};

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
	/* Its Accessed bit is left to the scan that samples the page. */
	if (find_next_bit(w->o->apart, at + e->nr, at) < at + e->nr)
		return true;
	if (!w->page || mtier_others_new(w, at))
		return false;
	return w->page[at] == MTIER_PAGE_NONE || !mtier_entries_young(e);
}

/*
 * Check whether the pages of a folio from page @at on were used here, and clear their
 * Accessed bits. The first scan samples pages that were not found in a mapper before.
 */
static bool mtier_others_used(struct mtier_walk_others *w,
			      const struct mtier_entries *e,
			      struct folio *folio, unsigned int at)
{
	bool young;

	if (mtier_others_new(w, at)) {
		young = mtier_entries_young(e);
		mtier_look_met(w->look, e, folio, w->page + at);
		/* The bits of pages that are not sampled were not cleared. */
		young &= mtier_page_watched(w->page[at]);
	} else {
		young = mtier_entries_clear(e);
		if (young)
			mtier_folio_tell(folio);
	}
	w->cleared |= young;
	return young && !w->old;
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

/*
 * Check whether a page table can be skipped: it was not used since the last sweep, and
 * the first scan needs no page that it may map.
 */
static bool mtier_others_idle(const struct mtier_walk_others *w, pmd_t *pmd,
			      unsigned int at, unsigned int nr)
{
	pmd_t entry = pmdp_get_lockless(pmd);

	if (!w->page || !arch_has_hw_nonleaf_pmd_young() || pmd_leaf(entry) ||
	    pmd_young(entry))
		return false;
	return !w->look || find_next_andnot_bit(w->o->missing, w->o->met,
						at + nr, at) == at + nr;
}

/*
 * Note that a page table is scanned. Returns true if no earlier scan of this burst has
 * cleared its Accessed bits. Without the bit of the entry above, the first one has.
 */
static bool mtier_others_is_old(const struct mtier_walk_others *w,
				const struct mm_struct *mm, unsigned long addr)
{
	if (!w->page || !arch_has_hw_nonleaf_pmd_young())
		return false;
	return !mtier_table_set_add(w->o->tables, mm, addr) && !w->look;
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

	w->old = false;
	if (!pmd || mtier_others_idle(w, pmd, at, nr) ||
	    mtier_others_huge(w, vma, pmd, addr, at, nr))
		return;
	w->old = mtier_others_is_old(w, vma->vm_mm, addr);
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

/* Get the number of pages of the part of the file that a VMA covers, and the first. */
static unsigned int mtier_others_covered(const struct mtier_walk_others *w,
					 struct vm_area_struct *vma, unsigned int *at)
{
	pgoff_t from = max(w->first, vma->vm_pgoff);
	pgoff_t end = min(w->first + w->nr, vma->vm_pgoff + vma_pages(vma));

	*at = from - w->first;
	return end - from;
}

/* Get the address of page @at of the part of the file in a VMA that covers it. */
static unsigned long mtier_others_addr(const struct mtier_walk_others *w,
				       struct vm_area_struct *vma, unsigned int at)
{
	return vma->vm_start + ((w->first + at - vma->vm_pgoff) << PAGE_SHIFT);
}

/* Find the pages that a VMA maps, one page table after the other. */
static void mtier_others_find(struct mtier_walk_others *w, struct vm_area_struct *vma)
{
	unsigned int at, nr, left = mtier_others_covered(w, vma, &at);
	unsigned long addr = mtier_others_addr(w, vma, at);

	bitmap_zero(w->o->found, MTIER_RANGE_PAGES);
	for (; left; left -= nr, at += nr) {
		nr = min_t(unsigned long, left,
			   (pmd_addr_end(addr, ULONG_MAX) - addr) >> PAGE_SHIFT);
		mtier_others_table(w, vma, addr, at, nr);
		addr += (unsigned long)nr << PAGE_SHIFT;
	}
}

/* ---- nodes that the mappers allow ---- */

static void mtier_others_add(unsigned long *to, const unsigned long *pages)
{
	bitmap_or(to, to, pages, MTIER_RANGE_PAGES);
}

/* Get whether the rules of a VMA at @addr allow promotion and demotion. */
static void mtier_others_may(const struct mtier_others *o,
			     const struct mtier_rules *rules,
			     struct vm_area_struct *vma, unsigned long addr,
			     bool may[MTIER_SIDES])
{
	nodemask_t up, down;

	mtier_rules_at(rules, vma, addr, false, &up, &down);
	may[MTIER_LOW] = nodes_intersects(up, o->above);
	may[MTIER_TOP] = nodes_intersects(down, o->low);
}

/* Apply the rules of a VMA at @addr to @pages, for their promotion or demotion. */
static void mtier_others_rules_at(struct mtier_others *o,
				  const struct mtier_rules *rules,
				  struct vm_area_struct *vma,
				  unsigned long addr, const unsigned long *pages)
{
	bool may[MTIER_SIDES];
	unsigned int side;

	mtier_others_may(o, rules, vma, addr, may);
	for (side = 0; side < MTIER_SIDES; side++) {
		if (may[side])
			mtier_others_add(o->may[side], pages);
		else if (!mtier_only_reads(vma))
			mtier_others_add(o->stays[side], pages);
	}
}

/* Apply the rules of a VMA to @pages. @at: index of the page at @addr. */
static void mtier_others_rules(struct mtier_others *o,
			       const struct mtier_rules *rules,
			       struct vm_area_struct *vma, unsigned long addr,
			       unsigned long at, const unsigned long *pages)
{
	DECLARE_BITMAP(page, MTIER_RANGE_PAGES) = { };
	unsigned long i;

	if (vma->vm_flags & VM_LOCKED)
		mtier_others_add(o->stays[MTIER_TOP], pages);
	if (!mtier_policy_by_page(vma)) {
		mtier_others_rules_at(o, rules, vma, addr, pages);
		return;
	}
	for_each_set_bit(i, pages, MTIER_RANGE_PAGES) {
		__set_bit(i, page);
		mtier_others_rules_at(o, rules, vma,
				      addr + (i - at) * PAGE_SIZE, page);
		__clear_bit(i, page);
	}
}

/* Check whether the rules of a VMA change nothing: it only reads, and another one may. */
static bool mtier_others_no_matter(const struct mtier_others *o,
				   struct vm_area_struct *vma)
{
	return mtier_only_reads(vma) && !(vma->vm_flags & VM_LOCKED) &&
	       bitmap_subset(o->found, o->may[MTIER_LOW], MTIER_RANGE_PAGES) &&
	       bitmap_subset(o->found, o->may[MTIER_TOP], MTIER_RANGE_PAGES);
}

/* Check whether a VMA forbids nothing, for all pages that it covers. */
static bool mtier_others_allows_all(const struct mtier_others *o,
				    struct vm_area_struct *vma, unsigned long addr)
{
	bool may[MTIER_SIDES];

	if (vma->vm_flags & VM_LOCKED || mtier_policy_by_page(vma))
		return false;
	mtier_others_may(o, &o->rules, vma, addr, may);
	return may[MTIER_LOW] && may[MTIER_TOP];
}

/*
 * Apply the rules of a VMA to the pages that it maps, or to all that it covers if it
 * forbids nothing: then its page tables are not read.
 */
static int mtier_others_stay(struct mtier_walk_others *w,
			     struct vm_area_struct *vma)
{
	struct mtier_others *o = w->o;
	unsigned int at, nr = mtier_others_covered(w, vma, &at);
	unsigned long addr = mtier_others_addr(w, vma, at);

	bitmap_zero(o->found, MTIER_RANGE_PAGES);
	bitmap_set(o->found, at, nr);
	if (mtier_others_no_matter(o, vma))
		return 0;
	if (!mtier_rules_lock(&o->rules, vma)) {
		/* A mapper that only reads cannot end the scan by keeping its VMA locked. */
		if (mtier_only_reads(vma))
			return 0;
		mtier_others_find(w, vma);
		return bitmap_empty(o->found, MTIER_RANGE_PAGES) ? 0 : -EBUSY;
	}
	if (!mtier_others_allows_all(o, vma, addr))
		mtier_others_find(w, vma);
	mtier_others_rules(o, &o->rules, vma, addr, at, o->found);
	vma_end_read(vma);
	return 0;
}

/*
 * Apply that the use of the found pages by a VMA is not known. A VMA that only reads
 * cannot hide the use by others. A secondary MMU may use its pages, so these are not
 * demoted.
 */
static void mtier_others_left_out(struct mtier_others *o,
				  struct vm_area_struct *vma)
{
	if (!mtier_only_reads(vma))
		mtier_others_add(o->nobodys, o->found);
	else if (mm_has_notifiers(vma->vm_mm))
		mtier_others_add(o->stays[MTIER_TOP], o->found);
}

static int mtier_others_ask_vma(struct mtier_walk_others *w,
				struct vm_area_struct *vma)
{
	struct mtier_others *o = w->o;
	int ret = 0;

	if (!mm_has_notifiers(vma->vm_mm) && mtier_vma_eligible(vma)) {
		ret = mtier_others_stay(w, vma);
	} else {
		mtier_others_find(w, vma);
		mtier_others_left_out(o, vma);
	}
	if (!(vma->vm_flags & VM_EXEC))
		mtier_others_add(o->data, o->found);
	return ret;
}

/* Find the pages that a VMA has used since the last scan. */
static int mtier_others_look_vma(struct mtier_walk_others *w,
				 struct vm_area_struct *vma)
{
	struct mtier_others *o = w->o;

	w->cleared = false;
	mtier_others_find(w, vma);
	mtier_others_add(o->used, o->found);
	if (w->cleared)
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
		w->partial = nr++ == MTIER_OTHERS_MOST;
		if (w->partial)
			break;
		if (rwsem_is_contended(&mapping->i_mmap_rwsem))
			ret = -EBUSY;
		else
			ret = w->ask(w, vma);
		if (ret)
			break;
		cond_resched();
	}
	i_mmap_unlock_read(mapping);
	return ret;
}

/**
 * mtier_others_copies() - Find the private copies of pages of a file in a VMA.
 * @o: its @apart is set to the copies
 * @vma: the VMA, locked for reading; mtier_may_be_others() is true for it
 * @addr: start of a part of it
 * @nr: number of its pages, all in one page table
 * @page: current bytes of the pages; copies that are not sampled are not searched. NULL
 *	in the first scan
 *
 * Return: false if the VMA has nothing but copies there: in the first scan among the
 * pages that it maps, in a later scan among those that are sampled.
 */
bool mtier_others_copies(struct mtier_others *o, struct vm_area_struct *vma,
			 unsigned long addr, unsigned int nr, const u8 *page)
{
	pmd_t *pmd = mm_find_pmd(vma->vm_mm, addr & PMD_MASK);
	bool file = false;
	pte_t *start;
	spinlock_t *ptl;	/* of this page table */
	unsigned int i;

	bitmap_zero(o->apart, MTIER_RANGE_PAGES);
	if (!pmd || mtier_has_no_copies(vma))
		return true;
	start = pte_offset_map_lock(vma->vm_mm, pmd, addr, &ptl);
	if (!start)
		return true;
	__acquire(ptl);		/* as above */
	for (i = 0; i < nr; i++) {
		struct mtier_entries e = {
			.vma = vma, .addr = addr + i * PAGE_SIZE,
			.pte = start + i, .nr = 1,
		};
		struct folio *folio;

		if (page && page[i] == MTIER_PAGE_NONE)
			continue;
		folio = mtier_entries_folio(&e);
		if (folio && folio_test_anon(folio))
			__set_bit(i, o->apart);
		else if (folio || page)
			file = true;
	}
	pte_unmap_unlock(start, ptl);
	return file;
}

/**
 * mtier_others_take() - Choose the pages of a file that a first scan samples.
 * @o: result of mtier_others_copies(); pages that are scanned elsewhere in this burst
 *	are added to its @apart
 * @files: pages of files that are scanned in this burst; those chosen are added, but
 *	never those of which the VMA has copies
 * @vma: the VMA
 * @addr: start of a part of it
 * @nr: number of its pages
 *
 * Return: true if there are such pages.
 */
bool mtier_others_take(struct mtier_others *o, struct mtier_file_set *files,
		       struct vm_area_struct *vma, unsigned long addr,
		       unsigned int nr)
{
	struct mtier_file_key key = {
		.mapping = vma->vm_file->f_mapping,
		.first = linear_page_index(vma, addr),
		.nr = nr,
	}, part = key;
	DECLARE_BITMAP(taken, MTIER_RANGE_PAGES);
	unsigned int from, to;

	mtier_file_set_get(files, &key, taken);
	for_each_clear_bitrange(from, to, o->apart, nr) {
		part.first = key.first + from;
		part.nr = to - from;
		if (!mtier_file_set_add(files, &part))
			return false;
	}
	mtier_others_add(o->apart, taken);
	return find_first_zero_bit(o->apart, nr) < nr;
}

/**
 * mtier_others_drop() - Remove the pages of a file from the sample, but no copies.
 * @o: its @apart has the copies
 * @page: bytes of the pages
 * @nr: number of pages
 */
void mtier_others_drop(const struct mtier_others *o, u8 *page, unsigned int nr)
{
	unsigned int i;

	for_each_clear_bit(i, o->apart, nr)
		page[i] = MTIER_PAGE_NONE;
}

/* Exclude the pages that no mapper allows to leave a tier. */
static void mtier_others_all_stay(struct mtier_others *o)
{
	DECLARE_BITMAP(pages, MTIER_RANGE_PAGES);
	unsigned int side;

	for (side = 0; side < MTIER_SIDES; side++) {
		bitmap_complement(pages, o->may[side], MTIER_RANGE_PAGES);
		mtier_others_add(o->stays[side], pages);
	}
}

/**
 * mtier_others_ask() - Check the policies of the mappers of a part of a file.
 * @o: set to the result; its @apart is set
 * @rules: allowed nodes of the mm of @vma
 * @vma: the VMA, locked for reading; mtier_may_be_others() is true for it
 * @addr: start of the part
 * @nr: number of its pages, all in one page table
 *
 * Return: 0, or -EBUSY if the other mappers are not known, and the part must be left
 * out.
 */
int mtier_others_ask(struct mtier_others *o, const struct mtier_rules *rules,
		     struct vm_area_struct *vma, unsigned long addr,
		     unsigned int nr)
{
	struct mtier_walk_others w = {
		.o = o, .mine = vma, .nr = nr,
		.first = linear_page_index(vma, addr),
		.ask = mtier_others_ask_vma,
	};

	o->reads = mtier_only_reads(vma);
	bitmap_zero(o->nobodys, MTIER_RANGE_PAGES);
	bitmap_zero(o->data, MTIER_RANGE_PAGES);
	memset(o->stays, 0, sizeof(o->stays));
	memset(o->may, 0, sizeof(o->may));
	bitmap_copy(o->met, o->apart, MTIER_RANGE_PAGES);
	bitmap_zero(o->found, MTIER_RANGE_PAGES);
	bitmap_set(o->found, 0, nr);
	mtier_others_rules(o, rules, vma, addr, 0, o->found);
	if (mtier_others_walk(&w))
		return -EBUSY;
	mtier_others_all_stay(o);
	if (w.partial)
		bitmap_fill(o->stays[MTIER_TOP], MTIER_RANGE_PAGES);
	return 0;
}

/* Find the pages of a part of a file that are mapped, but not in the VMA that was drawn. */
static void mtier_others_miss(struct mtier_others *o, struct vm_area_struct *vma,
			      pgoff_t first, unsigned int nr)
{
	struct folio *folio;
	unsigned int i;

	bitmap_zero(o->missing, MTIER_RANGE_PAGES);
	for_each_clear_bit(i, o->met, nr) {
		folio = filemap_get_folio(vma->vm_file->f_mapping, first + i);
		if (IS_ERR(folio))
			continue;
		if (folio_mapped(folio))
			__set_bit(i, o->missing);
		folio_put(folio);
	}
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
	if (look)
		mtier_others_miss(o, vma, w.first, nr);
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
