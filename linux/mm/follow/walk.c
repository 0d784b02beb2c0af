// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic NUMA migration: the walk over page tables.
 *
 * The caller's judge() decides for each page. Pages to move are isolated, or marked: the
 * entry loses its access rights, like an entry that NUMA balancing scans. The next access
 * is then a hint fault, which moves the page (pull.c). NUMA balancing's own walk cannot
 * set the marks: it skips the fastest nodes while kernel.numa_balancing is 0, and local
 * pages of a process with one thread.
 *
 * Locking: the caller has mmap_lock for read; in it, a page table lock.
 */
#include <linux/hugetlb.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/pagewalk.h>

#include "../internal.h"
#include "follow.h"

#define CREATE_TRACE_POINTS
#include <trace/events/numa_follow.h>

static bool is_full(const struct follow_walk *w)
{
	return w->batch && w->batch->nr_pages >= w->max_pages;
}

static bool is_movable(struct folio *folio)
{
	return folio && !folio_is_zone_device(folio) &&
	       !folio_test_reserved(folio);
}

static void isolate(struct follow_walk *w, struct vm_area_struct *vma,
		    unsigned long addr, struct folio *folio)
{
	enum follow_verdict verdict;

	if (folio == w->last)
		return;
	w->last = folio;
	verdict = w->judge(w, vma, addr, folio);
	if (verdict == FOLLOW_TAKE) {
		if (follow_isolate(w->batch, vma, folio))
			return;
		verdict = follow_refusal(vma, folio);
	}
	w->pages[verdict] += folio_nr_pages(folio);
}

/* Check whether to mark a page. A page that is marked already is only counted. */
static bool to_mark(struct follow_walk *w, struct vm_area_struct *vma,
		    unsigned long addr, struct folio *folio, bool marked,
		    unsigned long nr_pages)
{
	enum follow_verdict verdict = w->judge(w, vma, addr, folio);

	/* NUMA balancing may have marked the page, for another purpose. */
	if (verdict == FOLLOW_TAKE && !marked)
		return true;
	w->pages[verdict] += nr_pages;
	return false;
}

/* Called with the page table locked; returns true if the caller has to mark the entry. */
static bool see_locked_pmd(struct follow_walk *w, struct vm_area_struct *vma,
			   unsigned long addr, pmd_t pmd)
{
	struct folio *folio;

	if (!thp_migration_supported() || !pmd_present(pmd) ||
	    is_huge_zero_pmd(pmd))
		return false;
	folio = pmd_folio(pmd);
	if (!is_movable(folio))
		return false;
	if (!w->batch)
		return to_mark(w, vma, addr, folio, pmd_protnone(pmd),
			       HPAGE_PMD_NR);
	isolate(w, vma, addr, folio);
	return false;
}

/* A huge page moves as a whole, even if the range ends inside it. */
static bool see_huge_pmd(struct follow_walk *w, struct vm_area_struct *vma,
			 unsigned long addr, pmd_t *pmd)
{
	spinlock_t *ptl = pmd_trans_huge_lock(pmd, vma);
	bool marks;

	if (!ptl)
		return false;
	__acquire(ptl);			/* for sparse */
	addr &= HPAGE_PMD_MASK;
	marks = see_locked_pmd(w, vma, addr, *pmd);
	spin_unlock(ptl);
	/* If the entry has changed since, the mark costs at most one needless fault. */
	if (marks && change_huge_pmd(&w->tlb, vma, pmd, addr, PAGE_NONE, 0) ==
		     HPAGE_PMD_NR)
		w->pages[FOLLOW_TAKE] += HPAGE_PMD_NR;
	w->entries += FOLLOW_STRETCH_ENTRIES;
	return true;
}

static void mark_pte(struct follow_walk *w, struct vm_area_struct *vma,
		     unsigned long addr, pte_t *pte)
{
	pte_t old = ptep_modify_prot_start(vma, addr, pte);

	ptep_modify_prot_commit(vma, addr, pte, old,
				pte_modify(old, PAGE_NONE));
	tlb_flush_pte_range(&w->tlb, addr, PAGE_SIZE);
	w->pages[FOLLOW_TAKE]++;
}

static void see_pte(struct follow_walk *w, struct vm_area_struct *vma,
		    unsigned long addr, pte_t *pte)
{
	pte_t now = ptep_get(pte);
	struct folio *folio;

	if (!pte_present(now))
		return;
	folio = vm_normal_folio(vma, addr, now);
	if (!is_movable(folio))
		return;
	if (w->batch)
		isolate(w, vma, addr, folio);
	else if (to_mark(w, vma, addr, folio, pte_protnone(now), 1))
		mark_pte(w, vma, addr, pte);
}

static int see_pmd(pmd_t *pmd, unsigned long addr, unsigned long end,
		   struct mm_walk *walk)
{
	struct follow_walk *w = walk->private;
	pte_t *first, *pte;
	spinlock_t *ptl;	/* of this page table */

	w->next = end;
	if (see_huge_pmd(w, walk->vma, addr, pmd))
		return is_full(w);
	if (!w->batch)
		tlb_change_page_size(&w->tlb, PAGE_SIZE);
	first = pte_offset_map_lock(walk->mm, pmd, addr, &ptl);
	if (!first) {
		walk->action = ACTION_AGAIN;
		return 0;
	}
	__acquire(ptl);			/* for sparse */
	if (!w->batch)
		flush_tlb_batched_pending(walk->mm);
	arch_enter_lazy_mmu_mode();
	for (pte = first; addr != end && !is_full(w);
	     pte++, addr += PAGE_SIZE, w->entries++)
		see_pte(w, walk->vma, addr, pte);
	arch_leave_lazy_mmu_mode();
	pte_unmap_unlock(first, ptl);
	w->next = addr;
	cond_resched();
	return is_full(w);
}

static const struct mm_walk_ops see_ops = {
	.pmd_entry = see_pmd,
	.walk_lock = PGWALK_RDLOCK,
};

/**
 * follow_walkable() - Check whether the pages of a VMA can be marked or moved
 * @vma: VMA, locked
 *
 * VMAs without any access, hugetlb VMAs and VMAs without folios take no hint faults.
 *
 * Return: true if they can.
 */
bool follow_walkable(struct vm_area_struct *vma)
{
	return vma_migratable(vma) && vma_is_accessible(vma) &&
	       !is_vm_hugetlb_page(vma) && !(vma->vm_flags & VM_MIXEDMAP);
}

static void mark_range(struct follow_walk *w, struct vm_area_struct *vma,
		       unsigned long start, unsigned long end)
{
	struct mmu_notifier_range range;

	tlb_gather_mmu(&w->tlb, vma->vm_mm);
	mmu_notifier_range_init(&range, MMU_NOTIFY_PROTECTION_VMA, 0,
				vma->vm_mm, start, end);
	mmu_notifier_invalidate_range_start(&range);
	tlb_start_vma(&w->tlb, vma);
	walk_page_range(vma->vm_mm, start, end, &see_ops, w);
	tlb_end_vma(&w->tlb, vma);
	mmu_notifier_invalidate_range_end(&range);
	tlb_finish_mmu(&w->tlb);
}

/**
 * follow_walk() - Walk over the pages of a VMA
 * @walk: actions; @walk->next is set to the end of the walked part
 * @vma: VMA, locked, follow_walkable()
 * @start: first byte
 * @end: end of the range, inside the VMA
 */
void follow_walk(struct follow_walk *walk, struct vm_area_struct *vma,
		 unsigned long start, unsigned long end)
{
	if (!walk->batch)
		mark_range(walk, vma, start, end);
	else if (walk_page_range(vma->vm_mm, start, end, &see_ops, walk))
		return;		/* The batch is full; see_pmd() has set @next. */
	walk->next = end;
}

/**
 * follow_account() - Count the results of a walk
 * @walk: the walk
 * @tick: the walk is for a task that has moved, not for mbind()
 * @start: first address
 * @from: previous node of the task, if @tick
 * @to: present node of the task, if @tick
 * @moved: pages that have moved at once
 */
void follow_account(const struct follow_walk *walk, bool tick,
		    unsigned long start, int from, int to, unsigned long moved)
{
	unsigned long marked = walk->pages[FOLLOW_TAKE];
	unsigned long seen = marked + moved;
	int i;

	for (i = 0; i < FOLLOW_REASONS; i++) {
		seen += walk->pages[i];
		follow_count(NUMA_FOLLOW_REFUSED_DIRTY + i, walk->pages[i]);
	}
	follow_count(NUMA_FOLLOW_SCANNED, seen + walk->pages[FOLLOW_LEAVE]);
	if (!seen)
		return;
	follow_count(NUMA_FOLLOW_MARKED, marked);
	if (marked)
		follow_note_marks();
	follow_count(NUMA_FOLLOW_MOVED, moved);
	trace_numa_follow_walk(tick, start, walk->next, from, to, moved,
			       walk->pages);
}
