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
#include <linux/file_policy.h>
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
 * lazy_policy_at - What does the policy of a page say of its move?
 * @vma: VMA, locked
 * @addr: address in it
 * @anon: the page there is anonymous
 *
 * Return: nothing but false if it is no lazy one.
 */
struct lazy_policy lazy_policy_at(struct vm_area_struct *vma,
				  unsigned long addr, bool anon)
{
	struct lazy_policy said = { };
	struct mempolicy *pol;
	pgoff_t ilx;

	pol = get_page_policy(vma, addr, anon, 0, &ilx);
	if (lazy_migrate_policy(pol)) {
		said.lazy = true;
		said.local = pol->mode == MPOL_LOCAL;
		said.shared = pol->flags & MPOL_F_LAZY_ALL;
	}
	mpol_cond_put(pol);
	return said;
}

/* Others map a folio, and its policy asks only for what they do not. */
static bool is_others(const struct lazy_policy *said, struct folio *folio)
{
	return !said->shared && folio_likely_mapped_shared(folio);
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
	struct lazy_policy said;

	if (!lazy)
		return auto_migrate_takes(look->vma, addr, folio, nid);
	said = lazy_policy_at(look->vma, addr, folio_test_anon(folio));
	return said.lazy && !is_others(&said, folio) &&
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
	bool lazy = lazy_policy_at(vmf->vma, vmf->address, true).lazy;
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
 * @folio: folio, under its page table lock
 *
 * Return: the reason.
 */
enum lazy_reason lazy_refusal(const struct vm_area_struct *vma,
			      struct folio *folio)
{
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

static void refused(unsigned long addr, enum lazy_reason reason,
		    unsigned long pages)
{
	count_follow_events(NUMA_LAZY_REFUSED_DIRTY + reason, pages);
	trace_mm_lazy_refuse(addr, reason, pages);
}

/**
 * __lazy_migrate_prepare - A hint fault is about to move a folio
 * @vmf: fault
 * @folio: folio, under its page table lock
 * @nid: where it should be
 *
 * What was of one process when it was marked may be of several by now.
 *
 * Return: 0 if it may, and is isolated; else it stays.
 */
int __lazy_migrate_prepare(struct vm_fault *vmf, struct folio *folio, int nid)
{
	struct vm_area_struct *vma = vmf->vma;
	struct lazy_policy said = lazy_policy_at(vma, vmf->address,
						 folio_test_anon(folio));
	enum lazy_reason reason = LAZY_SHARED;
	int err = -EACCES;

	if (!said.lazy || !is_others(&said, folio)) {
		err = migrate_misplaced_folio_prepare(folio, vma, nid);
		if (!err || !said.lazy)
			return err;
		reason = lazy_refusal(vma, folio);
	}
	refused(vmf->address, reason, folio_nr_pages(folio));
	return err;
}

/**
 * __lazy_migrate_failed - A hint fault could not move what was isolated
 * @vmf: fault; no page table is locked
 * @nr_pages: pages of the folio
 */
void __lazy_migrate_failed(struct vm_fault *vmf, int nr_pages)
{
	if (lazy_policy_at(vmf->vma, vmf->address, true).lazy)
		refused(vmf->address, LAZY_BUSY, nr_pages);
}
