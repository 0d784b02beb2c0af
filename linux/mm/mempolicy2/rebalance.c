// SPDX-License-Identifier: GPL-2.0
/*
 * mbind2(MPOL_MF_REBALANCE): move the pages of a range to the nodes on which its
 * interleaving policy would allocate them now.
 *
 * The range is processed in chunks. Under mmap_lock (read) and the page table lock,
 * misplaced pages are isolated and sorted by target node. Then all locks are dropped, and
 * the pages of each node migrate at once. A second call finds nothing to do. Pages that
 * other processes map too, or that devices may use, do not move and are not counted as
 * failures.
 */
#include <linux/hugetlb.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/pagewalk.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/swap.h>
#include <linux/swapops.h>

#include "../internal.h"
#include "mempolicy2.h"

#define CHUNK	(64UL << 20)

/* One chunk: @lists by target node, @failed pages that could not be isolated */
struct collection {
	struct list_head *lists;
	struct folio *large;
	long failed;
};

/* Get the node, by its policy, of a folio of which a page is mapped at @addr. */
static int target_of(struct vm_area_struct *vma, unsigned long addr,
		     struct folio *folio)
{
	struct mempolicy *pol;
	int nid = folio_nid(folio);
	pgoff_t ilx;

	pol = get_vma_policy(vma, addr, folio_order(folio), &ilx);
	/* Another thread may have changed the policy of the range. */
	if (pol->mode == MPOL_INTERLEAVE ||
	    pol->mode == MPOL_WEIGHTED_INTERLEAVE)
		policy_nodemask(GFP_HIGHUSER_MOVABLE, pol, ilx, &nid);
	mpol_cond_put(pol);
	return nid;
}

static bool others_use(struct folio *folio)
{
	return folio_likely_mapped_shared(folio) ||
	       folio_maybe_dma_pinned(folio);
}

static void collect(struct collection *c, struct vm_area_struct *vma,
		    unsigned long addr, struct folio *folio)
{
	int nid = target_of(vma, addr, folio);

	if (nid == folio_nid(folio) || others_use(folio))
		return;
	if (!folio_isolate_lru(folio)) {
		c->failed++;
		return;
	}
	list_add_tail(&folio->lru, &c->lists[nid]);
	node_stat_mod_folio(folio, NR_ISOLATED_ANON + folio_is_file_lru(folio),
			    folio_nr_pages(folio));
}

static void collect_pmd(struct collection *c, struct mm_walk *walk, pmd_t pmd,
			unsigned long addr)
{
	if (is_pmd_migration_entry(pmd)) {
		c->failed++;
		return;
	}
	if (pmd_present(pmd) && !is_huge_zero_pmd(pmd))
		collect(c, walk->vma, addr & HPAGE_PMD_MASK, pmd_folio(pmd));
}

static void collect_pte(struct collection *c, struct mm_walk *walk, pte_t pte,
			unsigned long addr)
{
	struct vm_area_struct *vma = walk->vma;
	struct folio *folio;

	if (!pte_present(pte)) {
		if (!pte_none(pte) && is_migration_entry(pte_to_swp_entry(pte)))
			c->failed++;
		return;
	}
	folio = vm_normal_folio(vma, addr, pte);
	if (!folio || folio_is_zone_device(folio) ||
	    folio_test_reserved(folio))
		return;
	if (folio_test_large(folio)) {
		/* The walk finds every page of the folio; handle it once. */
		if (folio == c->large)
			return;
		c->large = folio;
		addr -= folio_page_idx(folio, pte_page(pte)) * PAGE_SIZE;
		addr = max(addr, vma->vm_start);
	}
	collect(c, vma, addr, folio);
}

static int collect_range(pmd_t *pmd, unsigned long addr, unsigned long end,
			 struct mm_walk *walk)
{
	struct collection *c = walk->private;
	spinlock_t *ptl = pmd_trans_huge_lock(pmd, walk->vma);
	pte_t *start, *pte;

	if (ptl) {
		__acquire(ptl);		/* for sparse */
		collect_pmd(c, walk, *pmd, addr);
		spin_unlock(ptl);
		return 0;
	}
	start = pte_offset_map_lock(walk->mm, pmd, addr, &ptl);
	if (!start) {
		walk->action = ACTION_AGAIN;
		return 0;
	}
	__acquire(ptl);			/* for sparse */
	for (pte = start; addr != end; pte++, addr += PAGE_SIZE)
		collect_pte(c, walk, ptep_get(pte), addr);
	pte_unmap_unlock(start, ptl);
	cond_resched();
	return 0;
}

static int collect_hugetlb(pte_t *pte, unsigned long hmask, unsigned long addr,
			   unsigned long end, struct mm_walk *walk)
{
#ifdef CONFIG_HUGETLB_PAGE
	struct collection *c = walk->private;
	struct folio *folio;
	spinlock_t *ptl; /* of the page table */
	pte_t entry;
	int nid;

	ptl = huge_pte_lock(hstate_vma(walk->vma), walk->mm, pte);
	entry = huge_ptep_get(walk->mm, addr, pte);
	if (pte_present(entry)) {
		folio = pfn_folio(pte_pfn(entry));
		nid = target_of(walk->vma, addr & hmask, folio);
		if (nid != folio_nid(folio) && !others_use(folio) &&
		    !hugetlb_pmd_shared(pte) &&
		    !isolate_hugetlb(folio, &c->lists[nid]))
			c->failed++;
	}
	spin_unlock(ptl);
#endif
	return 0;
}

static const struct mm_walk_ops collect_ops = {
	.hugetlb_entry = collect_hugetlb,
	.pmd_entry = collect_range,
	.walk_lock = PGWALK_RDLOCK,
};

/* Migrate the collected folios; returns the number of folios that stayed. */
static long move_collected(struct collection *c)
{
	struct migration_target_control mtc = {
		.gfp_mask = GFP_HIGHUSER_MOVABLE | __GFP_THISNODE,
		.reason = MR_MEMPOLICY_MBIND,
	};
	long stayed = c->failed;
	int nid, ret;

	for (nid = 0; nid < nr_node_ids; nid++) {
		if (list_empty(&c->lists[nid]))
			continue;
		mtc.nid = nid;
		ret = migrate_pages(&c->lists[nid], alloc_migration_target,
				    NULL, (unsigned long)&mtc, MIGRATE_SYNC,
				    MR_MEMPOLICY_MBIND, NULL);
		if (ret)
			putback_movable_pages(&c->lists[nid]);
		stayed += ret < 0 ? 1 : ret;
	}
	return stayed;
}

/*
 * Process a chunk from *@addr, which is set to its end; returns the number of folios that
 * stayed.
 */
static long rebalance_chunk(struct list_head *lists, unsigned long *addr,
			    unsigned long end)
{
	struct collection c = { .lists = lists };
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	unsigned long from;

	mmap_read_lock(mm);
	vma = find_vma(mm, *addr);
	if (!vma || vma->vm_start >= end) {
		*addr = end;
		mmap_read_unlock(mm);
		return 0;
	}
	from = max(*addr, vma->vm_start);
	end = min3(end, vma->vm_end, ALIGN(from + 1, CHUNK));
	if (vma_migratable(vma))
		walk_page_range(mm, from, end, &collect_ops, &c);
	*addr = end;
	mmap_read_unlock(mm);
	return move_collected(&c);
}

/**
 * mpol2_rebalance_alloc() - Allocate the memory for a rebalance
 *
 * Return: a list per node, to be freed with kfree(), NULL without memory.
 */
struct list_head *mpol2_rebalance_alloc(void)
{
	struct list_head *lists;
	int nid;

	lists = kmalloc_array(nr_node_ids, sizeof(*lists), GFP_KERNEL);
	for (nid = 0; lists && nid < nr_node_ids; nid++)
		INIT_LIST_HEAD(&lists[nid]);
	return lists;
}

/**
 * mpol2_rebalance() - Move the pages of a range to the nodes of its policy
 * @lists: from mpol2_rebalance_alloc()
 * @start: first address, page aligned
 * @end: end, page aligned
 *
 * Return: number of folios that should have moved and did not, or -EINTR after a fatal
 * signal (then some may have moved).
 */
long mpol2_rebalance(struct list_head *lists, unsigned long start,
		     unsigned long end)
{
	long stayed = 0;

	/* Pages in the LRU batch of a CPU cannot be isolated. */
	lru_cache_disable();
	while (start < end) {
		if (fatal_signal_pending(current)) {
			stayed = -EINTR;
			break;
		}
		stayed += rebalance_chunk(lists, &start, end);
		cond_resched();
	}
	lru_cache_enable();
	return stayed;
}
