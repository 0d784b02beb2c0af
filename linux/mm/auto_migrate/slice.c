// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic migration: one slice of the walk that has memory follow its task.
 *
 * Of VMAs without a policy, pages on the node that the task came from that few
 * enough share are moved to its new node by one migrate_pages() call, or only
 * marked as lazy migration marks them, for the next access to move (pull.c).  A
 * slice ends after so many pages or page table entries; then the task goes on in
 * user mode until the next tick.
 *
 * do_migrate_pages() is not used: it has no regard for policies of VMAs, and empties
 * the LRU batches of all CPUs first.  What still waits in such a batch is refused
 * as busy; that is at most 31 pages a CPU.
 *
 * Locks: mmap_lock for read, only tried; in it, a page table lock.  Pages move
 * after both are given up.
 */
#include <linux/file_policy.h>
#include <linux/gfp.h>
#include <linux/mempolicy.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/pagewalk.h>
#include <linux/sched.h>
#include <linux/swap.h>

#include <trace/events/auto_migrate.h>

#include "../lazy_migrate/mark.h"
#include "../lazy_migrate/count.h"
#include "auto_migrate.h"

/* What a slice moves, unless folios are large: a fraction of a millisecond */
#define SLICE_PAGES	512
/* Entries that it looks at: those of 16 MiB in base pages */
#define SLICE_ENTRIES	4096
/* One stretch of a VMA, and what it costs at least, in entries */
#define STRETCH_BYTES	(16UL << 20)
#define STRETCH_ENTRIES	16

/**
 * struct slice - what a visit sees
 * @walk: of the task
 * @to: where pages go
 * @marker: asks judge() which pages to mark
 * @pages: by verdict: enum lazy_reason, LAZY_MARK, LAZY_LEAVE
 * @list: isolated folios
 * @listed: pages of them
 * @moved: of them, pages that have moved
 * @nomem: there was no room for one
 * @last: the folio seen last: parts of a folio follow each other
 * @next: where to go on
 * @entries: looked at
 */
struct slice {
	const struct auto_migrate_walk *walk;
	int to;
	struct lazy_marker marker;
	unsigned long pages[LAZY_LEAVE + 1];
	struct list_head list;
	unsigned long listed;
	unsigned int moved;
	bool nomem;
	struct folio *last;
	unsigned long next;
	long entries;
};

/**
 * auto_default_policy - Is there no policy at an address but the task's?
 * @vma: VMA, locked
 * @addr: address in it
 * @folio: folio there
 *
 * Return: true if neither the VMA nor what it maps has one.
 */
bool auto_default_policy(struct vm_area_struct *vma, unsigned long addr,
			 struct folio *folio)
{
	struct mempolicy *pol;
	pgoff_t ilx;

	pol = get_own_page_policy(vma, addr, folio_test_anon(folio), &ilx);
	if (!pol)
		return true;
	mpol_cond_put(pol);
	return false;
}

/**
 * auto_shared_folio - Do too many processes share a folio?
 * @folio: folio, mapped
 * @max_mapcount: so many may
 *
 * Return: true if more do.
 */
bool auto_shared_folio(struct folio *folio, unsigned int max_mapcount)
{
	return auto_shared(folio_likely_mapped_shared(folio),
			   folio_mapcount(folio), folio_nr_pages(folio),
			   max_mapcount);
}

static int judge(const struct slice *s, struct vm_area_struct *vma,
		 unsigned long addr, struct folio *folio)
{
	struct lazy_page page = {
		.misplaced = folio_nid(folio) == s->walk->from,
	};

	if (!page.misplaced)
		return LAZY_LEAVE;
	page.policy = auto_default_policy(vma, addr, folio);
	page.held = folio_maybe_dma_pinned(folio) || folio_test_ksm(folio);
	page.shared = auto_shared_folio(folio, s->walk->max_mapcount);
	page.dirty = folio_is_file_lru(folio) && folio_test_dirty(folio);
	return lazy_verdict(&page, false);
}

/* ---- direct ---- */

/* Under the page table lock */
static void pick(struct slice *s, struct vm_area_struct *vma,
		 unsigned long addr, struct folio *folio)
{
	unsigned long nr_pages = folio_nr_pages(folio);
	int verdict;

	if (folio == s->last || folio_is_zone_device(folio) ||
	    folio_test_reserved(folio))
		return;
	s->last = folio;
	verdict = judge(s, vma, addr, folio);
	if (verdict == LAZY_MARK) {
		if (!migrate_misplaced_folio_prepare(folio, vma, s->to)) {
			list_add_tail(&folio->lru, &s->list);
			s->listed += nr_pages;
			return;
		}
		verdict = lazy_refusal(vma, folio);
	}
	s->pages[verdict] += nr_pages;
}

static bool pick_huge_pmd(struct slice *s, struct vm_area_struct *vma,
			  unsigned long addr, pmd_t *pmd)
{
	spinlock_t *ptl = pmd_trans_huge_lock(pmd, vma);

	if (!ptl)
		return false;
	__acquire(ptl);			/* which sparse cannot see */
	if (thp_migration_supported() && pmd_present(*pmd) &&
	    !is_huge_zero_pmd(*pmd))
		pick(s, vma, addr & HPAGE_PMD_MASK, pmd_folio(*pmd));
	spin_unlock(ptl);
	s->entries += STRETCH_ENTRIES;
	return true;
}

static void pick_pte(struct slice *s, struct vm_area_struct *vma,
		     unsigned long addr, pte_t pte)
{
	struct folio *folio;

	if (!pte_present(pte))
		return;
	folio = vm_normal_folio(vma, addr, pte);
	if (folio)
		pick(s, vma, addr, folio);
}

static int pick_pmd(pmd_t *pmd, unsigned long addr, unsigned long end,
		    struct mm_walk *walk)
{
	struct slice *s = walk->private;
	pte_t *first, *pte;
	spinlock_t *ptl;	/* of this page table */

	s->next = end;
	if (pick_huge_pmd(s, walk->vma, addr, pmd))
		return s->listed >= SLICE_PAGES;
	first = pte_offset_map_lock(walk->mm, pmd, addr, &ptl);
	if (!first) {
		walk->action = ACTION_AGAIN;
		return 0;
	}
	__acquire(ptl);			/* nor this */
	for (pte = first; addr != end && s->listed < SLICE_PAGES;
	     pte++, addr += PAGE_SIZE, s->entries++)
		pick_pte(s, walk->vma, addr, ptep_get(pte));
	pte_unmap_unlock(first, ptl);
	s->next = addr;
	cond_resched();
	return s->listed >= SLICE_PAGES;
}

static const struct mm_walk_ops pick_ops = {
	.pmd_entry = pick_pmd,
	.walk_lock = PGWALK_RDLOCK,
};

/* Neither waits for memory nor frees any. */
static struct folio *new_folio(struct folio *src, unsigned long private)
{
	struct slice *s = (struct slice *)private;
	unsigned int order = folio_order(src);
	gfp_t gfp = __GFP_THISNODE | __GFP_NOWARN | __GFP_NOMEMALLOC;
	struct folio *dst;

	if (order)
		gfp |= GFP_TRANSHUGE_LIGHT;
	else
		gfp |= GFP_HIGHUSER_MOVABLE & ~__GFP_RECLAIM;
	dst = __folio_alloc_node(gfp, order, s->to);
	s->nomem |= !dst;
	return dst;
}

/* Huge pages move as a whole: NUMA misplacement is no reason to split. */
static void move(struct slice *s)
{
	if (list_empty(&s->list))
		return;
	migrate_pages(&s->list, new_folio, NULL, (unsigned long)s,
		      MIGRATE_ASYNC, MR_NUMA_MISPLACED, &s->moved);
	putback_movable_pages(&s->list);
	/* Out of this CPU's batch, for the case that the task goes back */
	lru_add_drain();
	s->pages[s->nomem ? LAZY_NOMEM : LAZY_BUSY] +=
		s->listed - min_t(unsigned long, s->listed, s->moved);
}

static void pick_stretch(struct slice *s, struct vm_area_struct *vma,
			 unsigned long start, unsigned long end)
{
	s->next = end;
	if (!walk_page_range(vma->vm_mm, start, end, &pick_ops, s))
		s->next = end;
}

/* ---- lazy ---- */

static int judge_mark(const struct lazy_marker *how, struct vm_area_struct *vma,
		      unsigned long addr, struct folio *folio, spinlock_t *ptl)
{
	return judge(container_of(how, struct slice, marker), vma, addr, folio);
}

static void mark_stretch(struct slice *s, struct vm_area_struct *vma,
			 unsigned long start, unsigned long end)
{
	unsigned long before = 0, after = 0;
	int i;

	for (i = 0; i <= LAZY_LEAVE; i++)
		before += s->pages[i];
	lazy_mark(vma, start, end, &s->marker, s->pages);
	for (i = 0; i <= LAZY_LEAVE; i++)
		after += s->pages[i];
	s->entries += after - before;
	s->next = end;
}

/* ---- both ---- */

/* One VMA, or a stretch of it; false if there are no more. */
static bool stretch(struct slice *s, struct mm_struct *mm)
{
	struct vm_area_struct *vma = find_vma(mm, s->next);
	unsigned long start, end;

	if (!vma)
		return false;
	s->entries += STRETCH_ENTRIES;
	start = max(s->next, vma->vm_start);
	end = min(ALIGN_DOWN(start + STRETCH_BYTES, STRETCH_BYTES),
		  vma->vm_end);
	if (!lazy_markable(vma))
		s->next = vma->vm_end;
	else if (s->walk->lazy)
		mark_stretch(s, vma, start, end);
	else
		pick_stretch(s, vma, start, end);
	return true;
}

static void account(const struct slice *s)
{
	unsigned long scanned = s->pages[LAZY_MARK] + s->moved;
	int i;

	for (i = 0; i < LAZY_REASONS; i++) {
		scanned += s->pages[i];
		count_follow_events(NUMA_AUTOMIG_REFUSED_DIRTY + i, s->pages[i]);
	}
	if (!scanned)
		return;
	count_follow_events(NUMA_AUTOMIG_SCANNED, scanned);
	count_follow_events(NUMA_AUTOMIG_MARKED, s->pages[LAZY_MARK]);
	count_follow_events(NUMA_AUTOMIG_MOVED, s->moved);
	trace_auto_migrate_slice(task_pid_nr(current), s->walk->from, s->to,
				 scanned, s->pages[LAZY_MARK], s->moved,
				 s->pages);
}

/**
 * auto_slice - Have a slice of the current task's memory follow it
 * @walk: what to do, and where to go on
 * @to: node where the task is
 *
 * Return: true if that was the last one.
 */
bool auto_slice(struct auto_migrate_walk *walk, int to)
{
	struct slice s = {
		.walk = walk,
		.to = to,
		.marker.judge = judge_mark,
		.list = LIST_HEAD_INIT(s.list),
		.next = walk->resume,
	};
	struct mm_struct *mm = current->mm;
	bool more = true;

	if (walk->lazy)
		lazy_migrate_use();
	/* Somebody changes mappings: the next tick is early enough. */
	if (!mmap_read_trylock(mm))
		return false;
	while (more && s.entries < SLICE_ENTRIES && s.listed < SLICE_PAGES)
		more = stretch(&s, mm);
	mmap_read_unlock(mm);
	move(&s);
	account(&s);
	walk->resume = s.next;
	return !more;
}
