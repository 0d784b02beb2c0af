// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: whether pages of a file with many mappers may migrate.
 *
 * eligible.c checks the mappers of each folio by an rmap walk. With hundreds of mappers, this
 * takes longer than the migration. So for such folios all VMAs of the file are checked once
 * for a batch. If none of them forbids the migration, each folio of the file may migrate:
 * its mappers are among these VMAs. If one forbids it, or if there are too many, those that
 * cover a part of the file are checked, for the folios of that part. If one of these forbids
 * it, each folio is checked by an rmap walk, as it may not be mapped in that VMA.
 *
 * The VMAs are held until the end of the batch, like those of single folios. The more of
 * them there are, the fewer pages a batch has: while it lasts, their processes wait to
 * unmap them, to change their policies, and to exit.
 *
 * Locking, all by trylock, under the lock of the VMA that maps the first folio:
 *
 *   i_mmap_rwsem (read)
 *     VMA lock (read)		held to the end of the batch
 */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/mmu_notifier.h>
#include <linux/pagemap.h>
#include <linux/rmap.h>

#include "eligible.h"
#include "range.h"

/* A folio with more mappers than this is checked with others of its file... */
#define MTIER_WIDE_MAPPERS	8
/* ...and so is one for which an rmap walk meets more VMAs, whether they map it or not. */
#define MTIER_WIDE_MET		64
/* Most entries of page tables that a batch changes, if its mappers are held here. */
#define MTIER_WIDE_ENTRIES	16384

/* Lock a VMA, and keep its address space. False if that is not possible now. */
static bool mtier_wide_hold(struct mtier_wide *w, struct vm_area_struct *vma)
{
	struct mtier_wide_held *held = &w->held[w->nr_held];

	if (w->nr_held == MTIER_WIDE_VMAS || !mtier_vma_lock(vma))
		return false;
	if (!mtier_hold(&held->hold, vma->vm_mm)) {
		vma_end_read(vma);
		return false;
	}
	mtier_vma_keep(vma);
	held->vma = vma;
	w->nr_held++;
	return true;
}

/* Release the VMA that was locked last. */
static void mtier_wide_release(struct mtier_wide *w)
{
	struct mtier_wide_held *held = &w->held[--w->nr_held];

	mtier_vma_end(held->vma);
	mtier_release(&held->hold);
}

/**
 * mtier_wide_end() - Unlock the VMAs, and release their address spaces.
 * @w: the VMAs of the batch; empty afterwards
 */
void mtier_wide_end(struct mtier_wide *w)
{
	while (w->nr_held)
		mtier_wide_release(w);
	w->mapping = NULL;
	w->may = false;
}

/**
 * mtier_wide_fits() - Check whether a batch has time for more pages.
 * @w: the VMAs of the batch
 * @pages: number of base pages with one more folio
 *
 * Return: false if the migration would keep the mappers waiting for too long.
 */
bool mtier_wide_fits(const struct mtier_wide *w, unsigned long pages)
{
	return pages * w->nr_held <= MTIER_WIDE_ENTRIES;
}

/* Check whether a VMA, which is locked, allows the migration for all pages that it maps. */
static bool mtier_wide_may(const struct mtier_guard *g, const struct mtier_rules *rules,
			   struct vm_area_struct *vma)
{
	nodemask_t up, down;

	if (!mtier_vma_eligible(vma))
		return false;
	mtier_rules_at(rules, vma, vma->vm_start, false, &up, &down);
	return node_isset(g->nid, g->down ? down : up);
}

/* Lock a VMA, and check it. It stays locked if it allows the migration. */
static bool mtier_wide_hold_if(struct mtier_guard *g, struct vm_area_struct *vma)
{
	if (!mtier_wide_hold(&g->wide, vma))
		return false;
	mtier_rules_of(vma->vm_mm, &g->spare);
	if (mtier_wide_may(g, &g->spare, vma))
		return true;
	mtier_wide_release(&g->wide);
	return false;
}

/*
 * Check a VMA that covers the part. False if it can forbid the migration of a page. A VMA
 * that only reads the file cannot, unless its pages are locked, or in a secondary MMU.
 */
static bool mtier_wide_check_vma(struct mtier_guard *g, struct vm_area_struct *vma,
				 const struct mtier_guarded *mine)
{
	bool reads = mtier_only_reads(vma);
	struct mtier_wide *w = &g->wide;

	if (g->down && (vma->vm_flags & VM_LOCKED || mm_has_notifiers(vma->vm_mm)))
		return false;
	w->data |= !(vma->vm_flags & VM_EXEC);
	if (vma == mine->vma || (reads && w->allowed))
		return true;
	if (!mtier_wide_hold_if(g, vma))
		return reads;
	w->allowed = true;
	return true;
}

/* Check all VMAs that cover the part. */
static bool mtier_wide_check_all(struct mtier_guard *g, const struct mtier_guarded *mine)
{
	struct address_space *mapping = mine->vma->vm_file->f_mapping;
	struct mtier_wide *w = &g->wide;
	struct vm_area_struct *vma;
	bool may;

	if (!i_mmap_trylock_read(mapping))
		return false;
	w->data = false;
	w->allowed = mtier_wide_may(g, mine->rules, mine->vma);
	may = w->allowed || mtier_only_reads(mine->vma);
	vma_interval_tree_foreach(vma, &mapping->i_mmap, w->first, w->last) {
		may = may && !rwsem_is_contended(&mapping->i_mmap_rwsem) &&
		      mtier_wide_check_vma(g, vma, mine);
		if (!may)
			break;
		cond_resched();
	}
	i_mmap_unlock_read(mapping);
	return may && w->allowed;
}

/* Check whether a folio is in the part. */
static bool mtier_wide_has(const struct mtier_wide *w, struct folio *folio)
{
	return READ_ONCE(folio->mapping) == w->mapping && folio->index >= w->first &&
	       folio_next_index(folio) - 1 <= w->last;
}

/* Check a part of a file. Nothing is held if a VMA can forbid the migration. */
static void mtier_wide_check_part(struct mtier_guard *g, const struct mtier_guarded *mine,
				  pgoff_t first, pgoff_t last)
{
	struct mtier_wide *w = &g->wide;

	w->first = first;
	w->last = last;
	w->may = !mtier_policy_by_page(mine->vma) && mtier_wide_check_all(g, mine);
	if (!w->may)
		mtier_wide_end(w);
	w->mapping = mine->vma->vm_file->f_mapping;
}

/* Check the file of a folio, or the part of it that the folio is in. */
static void mtier_wide_begin(struct mtier_guard *g, struct folio *folio,
			     const struct mtier_guarded *mine)
{
	struct mtier_wide *w = &g->wide;
	pgoff_t first = round_down(folio->index, MTIER_RANGE_PAGES);

	mtier_wide_end(w);
	mtier_wide_check_part(g, mine, 0, ULONG_MAX);
	if (!w->may)
		mtier_wide_check_part(g, mine, first, first + MTIER_RANGE_PAGES - 1);
}

/**
 * mtier_wide_met() - Note how many VMAs an rmap walk has met.
 * @w: the VMAs of the batch
 * @folio: the folio, of a file
 * @nr_vmas: number of VMAs that cover it
 */
void mtier_wide_met(struct mtier_wide *w, struct folio *folio, unsigned int nr_vmas)
{
	if (nr_vmas > MTIER_WIDE_MET)
		w->many = folio->mapping;
	else if (w->many == folio->mapping)
		w->many = NULL;
}

/* Get the number of mappings of a folio; those of parts of it count in proportion. */
static unsigned int mtier_wide_mappers(struct folio *folio)
{
	unsigned int nr = folio_mapcount(folio);

	if (!folio_test_large(folio))
		return nr;
	return max_t(unsigned int, folio_entire_mapcount(folio), nr / folio_nr_pages(folio));
}

/* Check whether a folio is checked with others of its file. */
static bool mtier_wide_wants(const struct mtier_wide *w, struct folio *folio,
			     const struct address_space *mapping)
{
	return !folio_test_anon(folio) && !folio_test_ksm(folio) &&
	       READ_ONCE(folio->mapping) == mapping &&
	       (mapping == w->many || mtier_wide_mappers(folio) > MTIER_WIDE_MAPPERS);
}

/**
 * mtier_wide_check() - Check whether all mappers of a folio allow it to migrate.
 * @g: the guard of the batch; holds the VMAs that cover the folio's part of its file
 *	afterwards
 * @folio: the folio, on which the caller has a reference
 * @held: a VMA that maps it, of a file
 * @first: the batch has no other folio
 *
 * Return: MTIER_MAY if so. MTIER_WHY_CROWDED if the batch must end first, since it has
 * another part of a file; never if @first. MTIER_WHY_GONE if the folio has to be checked
 * on its own.
 */
enum mtier_why mtier_wide_check(struct mtier_guard *g, struct folio *folio,
				const struct mtier_guarded *held, bool first)
{
	struct mtier_wide *w = &g->wide;

	if (!mtier_wide_wants(w, folio, held->vma->vm_file->f_mapping))
		return MTIER_WHY_GONE;
	if (!w->mapping || (first && !mtier_wide_has(w, folio)))
		mtier_wide_begin(g, folio, held);
	if (!mtier_wide_has(w, folio))
		return first ? MTIER_WHY_GONE : MTIER_WHY_CROWDED;
	if (!w->may || (g->down && folio_test_unevictable(folio)) ||
	    (folio_is_file_lru(folio) && !w->data))
		return MTIER_WHY_GONE;
	return MTIER_MAY;
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/wide_kunit.c"
#endif
