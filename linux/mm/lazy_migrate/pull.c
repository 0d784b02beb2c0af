// SPDX-License-Identifier: GPL-2.0
/*
 * Lazy migration: a hint fault has moved a page, or could not.
 *
 * The fault itself is NUMA balancing's, which works with kernel.numa_balancing
 * at 0, too: mpol_misplaced() says where the page should be, and does so for
 * lazy policies without asking who used it before.  Here it is counted, and
 * marked neighbours that should go to the same node go along.
 *
 * What is refused is made accessible again by the fault and stays where it is.
 *
 * Pages that follow their task to another node (mm/auto_migrate) are pulled in
 * the same way, by marks of their own making.
 *
 * Locks: the VMA is locked by the fault; in it, a page table lock.
 */
#include <linux/auto_migrate.h>
#include <linux/mempolicy.h>
#include <linux/migrate.h>
#include <linux/mm.h>

#include <trace/events/lazy_migrate.h>

#include "../internal.h"
#include "count.h"
#include "lazy_migrate.h"
#include "mark.h"

/**
 * struct neighbour - a folio that goes along
 * @folio: isolated
 * @addr: where it was found
 */
struct neighbour {
	struct folio *folio;
	unsigned long addr;
};

/**
 * lazy_policy_at - Is the policy at an address a lazy one?
 * @vma: VMA, locked
 * @addr: address in it
 * @local: set to whether it is MPOL_LOCAL, if not NULL
 *
 * Return: true if it came with MPOL_MF_LAZY.
 */
bool lazy_policy_at(struct vm_area_struct *vma, unsigned long addr, bool *local)
{
	struct mempolicy *pol;
	pgoff_t ilx;
	bool lazy;

	pol = get_vma_policy(vma, addr, 0, &ilx);
	lazy = lazy_migrate_policy(pol);
	if (local)
		*local = pol->mode == MPOL_LOCAL;
	mpol_cond_put(pol);
	return lazy;
}

static void pulled(bool lazy, unsigned long addr, int nid,
		   unsigned long pages, bool neighbour)
{
	if (!lazy) {
		auto_migrate_pulled(addr, nid, pages, neighbour);
		return;
	}
	count_follow_events(NUMA_LAZY_PULLED, pages);
	trace_mm_lazy_pull(addr, nid, pages, neighbour);
}

/* Does a marked neighbour go to @nid, for the same reason as the page touched? */
static bool goes_along(struct vm_fault *look, unsigned long addr,
		       struct folio *folio, int nid, bool lazy)
{
	if (!lazy)
		return auto_migrate_takes(look->vma, addr, folio, nid);
	return lazy_policy_at(look->vma, addr, NULL) &&
	       mpol_misplaced(folio, look, addr) == nid;
}

/* The folio, isolated, if it is marked and should be on @nid; else NULL */
static struct folio *take(struct vm_fault *look, unsigned long addr, pte_t pte,
			  int nid, bool lazy)
{
	struct vm_area_struct *vma = look->vma;
	struct folio *folio;

	if (!pte_present(pte) || !pte_protnone(pte))
		return NULL;
	folio = vm_normal_folio(vma, addr, pte);
	if (!folio || folio_is_zone_device(folio))
		return NULL;
	if (!goes_along(look, addr, folio, nid, lazy))
		return NULL;
	/* What is refused stays marked: its own fault will count it. */
	if (migrate_misplaced_folio_prepare(folio, vma, nid))
		return NULL;
	return folio;
}

static int take_neighbours(struct vm_fault *vmf, int nid, bool lazy,
			   struct neighbour *found)
{
	struct vm_area_struct *vma = vmf->vma;
	struct lazy_window w = lazy_batch(vmf->address, vma->vm_start,
					  vma->vm_end);
	struct vm_fault look = { .vma = vma };
	unsigned long addr;
	pte_t *first, *pte;
	int n = 0;

	first = pte_offset_map_lock(vma->vm_mm, vmf->pmd, w.start, &look.ptl);
	if (!first)
		return 0;
	__acquire(look.ptl);		/* which sparse cannot see */
	/* The page of the fault is no longer marked. */
	for (addr = w.start, pte = first;
	     addr != w.end && n < LAZY_BATCH_PAGES - 1;
	     addr += PAGE_SIZE, pte++) {
		found[n].folio = take(&look, addr, ptep_get(pte), nid,
				      lazy);
		found[n].addr = addr;
		n += !!found[n].folio;
	}
	pte_unmap_unlock(first, look.ptl);
	return n;
}

/**
 * __lazy_migrate_pulled - A hint fault has moved a folio
 * @vmf: fault; no page table is locked
 * @nr_pages: pages of the folio
 * @nid: where it is now
 */
void __lazy_migrate_pulled(struct vm_fault *vmf, int nr_pages, int nid)
{
	bool lazy = lazy_policy_at(vmf->vma, vmf->address, NULL);
	struct neighbour found[LAZY_BATCH_PAGES - 1];
	int n, i;

	if (lazy)
		pulled(true, vmf->address, nid, nr_pages, false);
	else if (!auto_migrate_pulled(vmf->address, nid, nr_pages, false))
		return;

	n = take_neighbours(vmf, nid, lazy, found);
	for (i = 0; i < n; i++) {
		int pages = folio_nr_pages(found[i].folio);

		if (!migrate_misplaced_folio(found[i].folio, vmf->vma, nid))
			pulled(lazy, found[i].addr, nid, pages, true);
	}
}

/**
 * lazy_refusal - Why did migrate_misplaced_folio_prepare() say no?
 * @vma: VMA that it was asked for
 * @folio: folio, under its page table lock; NULL if it was what came after it
 *
 * Return: the reason.
 */
enum lazy_reason lazy_refusal(const struct vm_area_struct *vma,
			      struct folio *folio)
{
	if (!folio)
		return LAZY_BUSY;
	if (folio_is_file_lru(folio)) {
		if ((vma->vm_flags & VM_EXEC) &&
		    folio_likely_mapped_shared(folio))
			return LAZY_SHARED;
		if (folio_test_dirty(folio))
			return LAZY_DIRTY;
	}
	/* It is asked for room before it is taken off its list. */
	return folio_test_lru(folio) ? LAZY_NOMEM : LAZY_BUSY;
}

/**
 * __lazy_migrate_refused - A hint fault could not move a folio
 * @vmf: fault
 * @folio: folio, under its page table lock; NULL once that was given up
 * @nr_pages: pages of the folio
 */
void __lazy_migrate_refused(struct vm_fault *vmf, struct folio *folio,
			    int nr_pages)
{
	enum lazy_reason reason;

	if (!lazy_policy_at(vmf->vma, vmf->address, NULL))
		return;
	reason = lazy_refusal(vmf->vma, folio);
	count_follow_events(NUMA_LAZY_REFUSED_DIRTY + reason, nr_pages);
	trace_mm_lazy_refuse(vmf->address, reason, nr_pages);
}
