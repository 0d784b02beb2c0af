// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: a look at what a burst watches.
 *
 * The first look clears Accessed bits, and notes which pages there are and on which
 * tier they lie; the others read and clear them, and count. Both tiers are looked
 * at alike. After each look every address space's TLB entries are flushed, once: a
 * CPU that has one of a page whose bit is clear uses the page without setting it
 * again, and hides just those that are used most.
 *
 * Reclaim, page_idle and DAMON share the Accessed bit. What is cleared here is
 * told by the folio's young flag, and that it is not idle; the multi-generational
 * LRU asks when it is about to evict it. The flag stays set, since reclaim may ask
 * at any moment; so what others clear, who tell it in the same way, is seen by a flag
 * that was not there before in this burst, but not where it was. An access that
 * reclaim has asked for is used up, and lost.
 *
 * Pages are looked at that nobody else maps, one by one: what several address
 * spaces map would be judged by one of them; and large folios move as one, and are
 * used so much more often that they need counts of their own.  KSM's and devices'
 * are not looked at.  What may not move, for its memory policy, say, is left alone
 * after the first look: it is no sample of what may, and takes no part in who is to
 * lie where.
 *
 * Where somebody is about to change a VMA the range leaves the burst, that none is
 * counted in part.
 *
 * Locking: the lock of each VMA for reading, which is only tried, while a range is
 * looked at, instead of mmap_lock: its page tables stay as long. Below it the page
 * table lock.
 */
#include <linux/hugetlb.h>
#include <linux/ksm.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/page_idle.h>
#include <linux/pgtable.h>
#include <linux/sched/mm.h>

#include <asm/tlbflush.h>

#include "../internal.h"
#include "burst.h"
#include "eligible.h"
#include "mtier.h"

/**
 * struct mtier_look - a look at one address space
 * @mm: which, with a reference to its users
 * @rules: what it says of its pages; only in the first look
 * @first: this is the first
 * @top: nodes of the upper tier
 * @low: those of the lower
 * @fixed: pages of the VMA may not go up, or not down: MTIER_PAGE_LOW set or not
 * @memcg: whom was asked last whether it is protected
 * @nr_cleared: Accessed bits cleared
 * @seen: what is to be counted
 */
struct mtier_look {
	struct mm_struct *mm;
	struct mtier_rules rules;
	bool first;
	nodemask_t top;
	nodemask_t low;
	bool fixed[MTIER_SIDES];
	struct mtier_protection memcg;
	unsigned long nr_cleared;
	struct mtier_seen *seen;
};

static bool mtier_page_watched(u8 page)
{
	return page != MTIER_PAGE_NONE;
}

/* On which side lies a folio? MTIER_SIDES for neither. */
static enum mtier_side mtier_look_side(const struct mtier_look *l, int nid)
{
	if (node_isset(nid, l->low))
		return MTIER_LOW;
	return node_isset(nid, l->top) ? MTIER_TOP : MTIER_SIDES;
}

/* The folio of an entry that is looked at, or NULL; asked once in a burst. */
static struct folio *mtier_look_folio(struct mtier_look *l,
				      struct vm_area_struct *vma,
				      unsigned long addr, pte_t entry)
{
	struct folio *folio = vm_normal_folio(vma, addr, entry);

	if (!folio || is_zero_pfn(pte_pfn(entry)) ||
	    folio_is_zone_device(folio) || folio_test_ksm(folio))
		return NULL;
	if (folio_test_large(folio)) {
		l->seen->large++;
		return NULL;
	}
	if (folio_likely_mapped_shared(folio)) {
		l->seen->shared++;
		return NULL;
	}
	return folio;
}

/* Clear the bit, and tell others, who ask the folio. True if it was set. */
static bool mtier_look_clear(struct mtier_look *l, struct vm_area_struct *vma,
			     unsigned long addr, pte_t *pte,
			     struct folio *folio)
{
	if (!ptep_test_and_clear_young(vma, addr, pte))
		return false;
	l->nr_cleared++;
	if (!folio_test_young(folio))
		folio_set_young(folio);
	if (folio_test_idle(folio))
		folio_clear_idle(folio);
	return true;
}

/* May a page not change places, whatever is found? */
static bool mtier_look_stays(struct mtier_look *l, struct folio *folio,
			     enum mtier_side side)
{
	bool down = side == MTIER_TOP;

	return l->fixed[side] || mtier_single_stays(folio, down) ||
	       (down && mtier_folio_protected(folio, &l->memcg));
}

/* The first look: what is to be known of a page before it is looked at? */
static void mtier_look_begin(struct mtier_look *l, struct vm_area_struct *vma,
			     unsigned long addr, pte_t *pte, u8 *page)
{
	pte_t entry = ptep_get(pte);
	struct folio *folio;
	enum mtier_side side;

	folio = pte_present(entry) ?
		mtier_look_folio(l, vma, addr, entry) : NULL;
	side = folio ? mtier_look_side(l, folio_nid(folio)) : MTIER_SIDES;
	*page = MTIER_PAGE_NONE;
	if (side == MTIER_SIDES)
		return;
	if (mtier_look_stays(l, folio, side)) {
		l->seen->fixed[side]++;
		return;
	}
	l->seen->pages[side]++;
	if (pte_young(entry))
		mtier_look_clear(l, vma, addr, pte, folio);
	*page = side == MTIER_LOW ? MTIER_PAGE_LOW : 0;
	if (folio_test_young(folio))
		*page |= MTIER_PAGE_TOLD;
}

/*
 * Another look. Whoever clears the bit says so by the young flag, we as well;
 * MTIER_PAGE_TOLD says that it was set when we left. Where it was, and the bit is
 * clear, there is nothing to learn, and the folio, which is not in any cache, is
 * left alone.
 */
static void mtier_look_again(struct mtier_look *l, struct vm_area_struct *vma,
			     unsigned long addr, pte_t *pte, u8 *page)
{
	pte_t entry = ptep_get(pte);
	struct folio *folio;

	if (*page == MTIER_PAGE_NONE)
		return;
	if (pte_present(entry) && !pte_young(entry) && *page & MTIER_PAGE_TOLD)
		return;
	folio = pte_present(entry) ? vm_normal_folio(vma, addr, entry) : NULL;
	/* Another one by now, or not where it was. */
	if (!folio || mtier_look_side(l, folio_nid(folio)) !=
		      mtier_page_side(*page)) {
		*page = MTIER_PAGE_NONE;
		return;
	}
	if (pte_young(entry) && mtier_look_clear(l, vma, addr, pte, folio)) {
		*page = (*page | MTIER_PAGE_TOLD) + 1;
	} else if (!(*page & MTIER_PAGE_TOLD) && folio_test_young(folio)) {
		*page = (*page | MTIER_PAGE_TOLD) + 1;
		l->seen->told++;
	}
}

/* Nothing is looked at there, or no longer; @page is of @addr. */
static void mtier_look_none(unsigned long addr, unsigned long end, u8 *page)
{
	memset(page, MTIER_PAGE_NONE, (end - addr) >> PAGE_SHIFT);
}

/* The pages of one page table; @page is of @addr. */
static void mtier_look_table(struct mtier_look *l, struct vm_area_struct *vma,
			     unsigned long addr, unsigned long end, u8 *page)
{
	unsigned int nr = (end - addr) >> PAGE_SHIFT;
	pmd_t *pmd = mm_find_pmd(l->mm, addr & PMD_MASK);
	pte_t *start, *pte;
	spinlock_t *ptl;	/* of this page table */

	/* A huge page needs no look for us to know that. */
	if (pmd && pmd_trans_huge(pmdp_get_lockless(pmd))) {
		l->seen->large += l->first ? nr : 0;
		pmd = NULL;
	}
	start = pmd ? pte_offset_map_lock(l->mm, pmd, addr, &ptl) : NULL;
	if (!start) {
		mtier_look_none(addr, end, page);
		return;
	}
	__acquire(ptl);		/* which sparse cannot see */
	for (pte = start; addr < end; pte++, page++, addr += PAGE_SIZE)
		if (l->first)
			mtier_look_begin(l, vma, addr, pte, page);
		else
			mtier_look_again(l, vma, addr, pte, page);
	l->seen->ptes += pte - start;
	pte_unmap_unlock(start, ptl);
}

/* Where may the pages of a VMA go? That of a file can say more, page by page. */
static void mtier_look_rules(struct mtier_look *l, struct vm_area_struct *vma,
			     unsigned long addr)
{
	nodemask_t up, down;

	mtier_rules_at(&l->rules, vma, addr, &up, &down);
	l->fixed[MTIER_LOW] = !nodes_intersects(up, l->top);
	l->fixed[MTIER_TOP] = !nodes_intersects(down, l->low) ||
			      vma->vm_flags & VM_LOCKED;
}

/*
 * The first VMA from @addr on that reaches into what is before @end, locked, and
 * where it begins to. NULL if there is none, or an error if somebody is at work.
 */
static struct vm_area_struct *mtier_look_vma(struct mm_struct *mm,
					     unsigned long *addr,
					     unsigned long end)
{
	MA_STATE(mas, &mm->mm_mt, *addr, *addr);
	struct vm_area_struct *vma;

	vma = lock_vma_under_rcu(mm, *addr);
	if (vma)
		return vma;
	rcu_read_lock();
	vma = mas_find(&mas, end - 1);
	if (vma)
		*addr = max(*addr, READ_ONCE(vma->vm_start));
	rcu_read_unlock();
	if (!vma)
		return NULL;
	vma = *addr < end ? lock_vma_under_rcu(mm, *addr) : NULL;
	return vma ?: ERR_PTR(-EBUSY);
}

/* What a VMA that is locked has of a range. */
static void mtier_look_at(struct mtier_look *l, struct vm_area_struct *vma,
			  unsigned long addr, unsigned long end, u8 *page)
{
	if (!mtier_vma_eligible(vma)) {
		mtier_look_none(addr, end, page);
		return;
	}
	if (l->first)
		mtier_look_rules(l, vma, addr);
	mtier_look_table(l, vma, addr, end, page);
}

/* All VMAs of a range, one after the other; false if one was not to be had. */
static bool mtier_look_range(struct mtier_look *l, unsigned long start,
			     u8 *page)
{
	unsigned long addr = start, end = start + MTIER_RANGE_SIZE, next;
	struct vm_area_struct *vma;

	while (addr < end) {
		next = addr;
		vma = mtier_look_vma(l->mm, &next, end);
		if (IS_ERR(vma))
			return false;
		if (!vma)
			next = end;
		/* What is between VMAs may have been mapped in the last look. */
		mtier_look_none(addr, next, page);
		page += (next - addr) >> PAGE_SHIFT;
		addr = next;
		if (!vma)
			break;
		next = min(end, vma->vm_end);
		mtier_look_at(l, vma, addr, next, page);
		vma_end_read(vma);
		page += (next - addr) >> PAGE_SHIFT;
		addr = next;
	}
	return true;
}

/* A page that is looked at alone. */
static void mtier_look_page(struct mtier_look *l, struct mtier_audited *a)
{
	struct vm_area_struct *vma = lock_vma_under_rcu(l->mm, a->addr);

	if (!vma) {
		a->own = MTIER_PAGE_NONE;
		return;
	}
	mtier_look_at(l, vma, a->addr, a->addr + PAGE_SIZE, &a->own);
	vma_end_read(vma);
}

/* An address space that goes: nothing is left of it in the burst. */
static void mtier_look_gone(struct mtier_part *part, u8 *page)
{
	struct mtier_audited *a;

	memset(page, MTIER_PAGE_NONE, (size_t)part->nr * MTIER_RANGE_PAGES);
	for (a = part->audited; a; a = a->next)
		a->own = MTIER_PAGE_NONE;
}

/* One address space. */
static void mtier_look_part(struct mtier_look *l, struct mtier_watch *w,
			    struct mtier_part *part)
{
	u8 *page = w->page + (size_t)part->first * MTIER_RANGE_PAGES;
	struct mtier_audited *a;
	unsigned int i;

	l->mm = part->slot->mm;
	if (mm_has_notifiers(l->mm) || !mmget_not_zero(l->mm)) {
		mtier_look_gone(part, page);
		return;
	}
	l->nr_cleared = 0;
	l->seen->mms++;
	if (l->first)
		mtier_rules_of(l->mm, &l->rules);
	for (i = 0; i < part->nr; i++, page += MTIER_RANGE_PAGES) {
		if (!mtier_look_range(l, w->at[part->first + i], page)) {
			memset(page, MTIER_PAGE_NONE, MTIER_RANGE_PAGES);
			l->seen->left++;
		}
		cond_resched();
	}
	for (a = part->audited; a; a = a->next)
		mtier_look_page(l, a);
	if (l->nr_cleared && READ_ONCE(mtier_conf.flush_tlb)) {
		flush_tlb_mm(l->mm);
		l->seen->flushes++;
	}
	mmput_async(l->mm);
}

/**
 * mtier_look() - look at all that is watched
 * @watch: what that is; its pages' counts change
 * @first: only clear Accessed bits, and see what there is
 * @seen: what was done is added to it
 *
 * Context: kmtierd; may sleep.
 */
void mtier_look(struct mtier_watch *watch, bool first, struct mtier_seen *seen)
{
	struct mtier_look look = {
		.first = first,
		.top = mtier_nodes_above(),
		.low = mtier_nodes_slow(),
		.seen = seen,
	};
	unsigned int i;

	nodes_andnot(look.top, look.top, look.low);
	for (i = 0; i < watch->nr_parts; i++)
		mtier_look_part(&look, watch, &watch->part[i]);
	seen->looks++;
}

/**
 * mtier_look_count() - how many pages were found accessed how often?
 * @watch: what was looked at
 * @counts: set to that
 */
void mtier_look_count(const struct mtier_watch *watch,
		      struct mtier_counts *counts)
{
	size_t i, nr = (size_t)watch->nr * MTIER_RANGE_PAGES;
	u32 alike[MTIER_PAGE_NONE + 1] = { };
	unsigned int page;

	*counts = (struct mtier_counts) { };
	for (i = 0; i < nr; i++)
		alike[watch->page[i]]++;
	for (page = 0; page < MTIER_PAGE_NONE; page++)
		if (alike[page])
			counts->pages[mtier_page_side(page)]
				     [page & MTIER_PAGE_COUNT] += alike[page];
}

/**
 * mtier_look_mark() - mark the pages of a plan
 * @watch: what was looked at
 * @plan: which shall change places
 * @start: index of the page to begin with, any
 *
 * Not always the same is to be the first. Else after some bursts only pages in use
 * were left there that looks have missed by chance, and they changed places for ever.
 */
void mtier_look_mark(struct mtier_watch *watch, const struct mtier_plan *plan,
		     u32 start)
{
	size_t i, nr = (size_t)watch->nr * MTIER_RANGE_PAGES;
	u32 want[MTIER_SIDES][MTIER_LOOKS + 1] = { };
	u32 left = 0;

	for (i = 0; i < plan->nr; i++) {
		const struct mtier_run *run = &plan->run[i];

		want[MTIER_LOW][run->low] += run->pages;
		left += run->pages;
		if (run->top == MTIER_NO_VICTIM)
			continue;
		want[MTIER_TOP][run->top] += run->pages;
		left += run->pages;
	}
	for (i = 0; i < nr && left; i++) {
		u8 *page = &watch->page[(start + i) % nr];
		u32 *more;

		if (!mtier_page_watched(*page))
			continue;
		more = &want[mtier_page_side(*page)][*page & MTIER_PAGE_COUNT];
		if (!*more)
			continue;
		--*more;
		left--;
		*page |= MTIER_PAGE_GOES;
	}
}

/**
 * mtier_look_drop() - take the pages that are marked out of the burst
 * @watch: what was looked at
 *
 * Where they lie now is not because of how they were used.
 */
void mtier_look_drop(struct mtier_watch *watch)
{
	size_t i, nr = (size_t)watch->nr * MTIER_RANGE_PAGES;

	for (i = 0; i < nr; i++)
		if (watch->page[i] & MTIER_PAGE_GOES)
			watch->page[i] = MTIER_PAGE_NONE;
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/look_kunit.c"
#endif
