// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: a look at what a burst watches.
 *
 * The first look clears Accessed bits, and notes which pages there are and on which
 * tier they lie; the others read and clear them, and count. Both tiers are looked
 * at alike, but where there is room above for all that is below: there nobody has to
 * leave the upper one, and only what is audited is looked at of it. After each look
 * every address space's TLB entries are flushed, once: a CPU that has one of a page
 * whose bit is clear uses the page without setting it again, and hides just those
 * that are used most.
 *
 * Reclaim, page_idle and DAMON share the Accessed bit. What is cleared here is
 * told by the folio's young flag, and that it is not idle; the multi-generational
 * LRU asks when it is about to evict it. The flag stays set, since reclaim may ask
 * at any moment; so what others clear, who tell it in the same way, is seen by a flag
 * that was not there before in this burst, but not where it was. An access that
 * reclaim has asked for is used up, and lost.
 *
 * What several map is judged once, for all of them (others.c); but not what they
 * share copy-on-write, or program text, which stays where it is.  A large folio moves
 * as one, and so its first page here stands for all that is mapped here of it, by one
 * entry or by many; it is counted apart, as looks find it so much more often.  KSM's
 * and devices' pages are not looked at.  What may not move, for its memory policy,
 * say, is left alone after the first look: it is no sample of what may, and takes no
 * part in who is to lie where.
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
#include <linux/pgtable.h>
#include <linux/sched/mm.h>
#include <linux/vmstat.h>

#include "burst.h"
#include "eligible.h"
#include "entries.h"
#include "move.h"
#include "mtier.h"

/**
 * struct mtier_look - a look at one address space
 * @mm: which; its slot is entered
 * @rules: what it says of its pages; only in the first look
 * @first: this is the first
 * @top: nodes of the upper tier
 * @low: those of the lower
 * @low_only: of the upper tier only what is asked for
 * @fixed: pages of the VMA may not go up, or not down: MTIER_PAGE_LOW set or not
 * @by_page: that may differ from page to page
 * @others: what those say who map the pages, too; NULL where they are not judged then
 * @base: the page that their bits begin with
 * @memcg: whom was asked last whether it is protected
 * @top_used: accessed pages are counted here by node; NULL where there is no choice
 * @nr_cleared: Accessed bits cleared
 * @seen: what is to be counted
 */
struct mtier_look {
	struct mm_struct *mm;
	struct mtier_rules rules;
	bool first;
	nodemask_t top;
	nodemask_t low;
	bool low_only;
	bool fixed[MTIER_SIDES];
	bool by_page;
	struct mtier_others *others;
	const u8 *base;
	struct mtier_protection memcg;
	u32 *top_used;
	unsigned long nr_cleared;
	struct mtier_seen *seen;
};

/* Both are kmtierd's, and too large for its stack. */
static struct mtier_others mtier_look_others;
static struct mtier_flush mtier_look_flush;

/* On which side lies a folio? MTIER_SIDES for neither. */
static __always_inline enum mtier_side
mtier_look_side(const struct mtier_look *l, int nid)
{
	if (node_isset(nid, l->low))
		return MTIER_LOW;
	return node_isset(nid, l->top) ? MTIER_TOP : MTIER_SIDES;
}

/* Its bit is clear now, and others are told that it was not. */
static __always_inline void mtier_look_tell(struct mtier_look *l,
					    struct folio *folio)
{
	l->nr_cleared++;
	mtier_folio_tell(folio);
}

/* Is a bit set of any of the pages? */
static bool mtier_look_any(const struct mtier_look *l,
			   const unsigned long *bits, const u8 *page,
			   unsigned int nr)
{
	unsigned int i = page - l->base;

	return find_next_bit(bits, i + nr, i) < i + nr;
}

/* Do those say so who map it as well? */
static bool mtier_look_others_stay(struct mtier_look *l,
				   const struct mtier_entries *e,
				   struct folio *folio, const u8 *page,
				   enum mtier_side side)
{
	return mtier_look_any(l, l->others->stays[side], page, e->nr) ||
	       mtier_folio_stays(folio, e->vma) != MTIER_MAY;
}

/* Where may the pages of a VMA go, or a folio at an address? */
static void mtier_look_rules(struct mtier_look *l, struct vm_area_struct *vma,
			     unsigned long addr, struct folio *folio)
{
	nodemask_t up, down;

	mtier_rules_for(&l->rules, vma, addr, folio, &up, &down);
	l->fixed[MTIER_LOW] = !nodes_intersects(up, l->top);
	l->fixed[MTIER_TOP] = !nodes_intersects(down, l->low) ||
			      vma->vm_flags & VM_LOCKED;
}

/* May a page not change places, whatever is found? */
static bool mtier_look_stays(struct mtier_look *l,
			     const struct mtier_entries *e,
			     struct folio *folio, const u8 *page,
			     enum mtier_side side)
{
	bool down = side == MTIER_TOP;

	if (l->by_page)
		mtier_look_rules(l, e->vma, e->addr, folio);
	return l->fixed[side] || mtier_single_stays(folio, down) ||
	       (l->others &&
		mtier_look_others_stay(l, e, folio, page, side)) ||
	       (down && mtier_folio_protected(folio, &l->memcg));
}

/* What others map, too: is it looked at here, for all of them? */
static bool mtier_look_for_others(struct mtier_look *l, struct folio *folio,
				  const u8 *page, unsigned int nr)
{
	bitmap_set(l->others->met, page - l->base, nr);
	if (mtier_look_any(l, l->others->nobodys, page, nr)) {
		l->seen->shared += nr;
		return false;
	}
	if (mtier_look_any(l, l->others->theirs, page, nr))
		return false;
	if (folio_likely_mapped_shared(folio))
		l->seen->common += nr;
	return true;
}

/* Is a folio one that is looked at? Asked once in a burst. */
static __always_inline bool mtier_look_wants(struct mtier_look *l,
					     struct folio *folio,
					     const u8 *page, unsigned int nr)
{
	if (!folio || folio_is_zone_device(folio) || folio_test_ksm(folio))
		return false;
	if (l->others)
		return mtier_look_for_others(l, folio, page, nr);
	if (!folio_likely_mapped_shared(folio))
		return true;
	l->seen->shared += nr;
	return false;
}

/* Nothing is looked at there, or no longer. */
static __always_inline void mtier_look_none(u8 *page, unsigned int nr)
{
	if (nr == 1)
		*page = MTIER_PAGE_NONE;
	else
		memset(page, MTIER_PAGE_NONE, nr);
}

/* The first look: what is to be known of a folio before it is looked at? */
static __always_inline void mtier_look_begin(struct mtier_look *l,
					     const struct mtier_entries *e,
					     struct folio *folio, u8 *page)
{
	bool asked = !l->low_only || *page == MTIER_PAGE_ASKED;
	enum mtier_side side = MTIER_SIDES;

	mtier_look_none(page, e->nr);
	if (mtier_look_wants(l, folio, page, e->nr))
		side = mtier_look_side(l, folio_nid(folio));
	if (side == MTIER_SIDES || (side == MTIER_TOP && !asked))
		return;
	if (mtier_look_stays(l, e, folio, page, side)) {
		l->seen->fixed[side] += e->nr;
		return;
	}
	l->seen->pages[side] += e->nr;
	if (mtier_entries_young(e) && mtier_entries_clear(e)) {
		mtier_look_tell(l, folio);
		if (l->top_used && side == MTIER_TOP)
			mtier_weights_add(l->top_used, nr_node_ids,
					  folio_nid(folio), e->nr);
	}
	*page = side == MTIER_LOW ? MTIER_PAGE_LOW : 0;
	if (folio_test_young(folio))
		*page |= MTIER_PAGE_TOLD;
	if (!folio_test_large(folio))
		return;
	l->seen->large += e->nr;
	*page |= MTIER_PAGE_LARGE;
	memset(page + 1, MTIER_PAGE_REST, e->nr - 1);
}

/**
 * mtier_look_met() - look at a folio from now on that was met where others map it
 * @l: the first look
 * @e: the entries that map it there
 * @folio: the folio
 * @page: what is known of it
 *
 * Context: under their page table lock.
 */
void mtier_look_met(struct mtier_look *l, const struct mtier_entries *e,
		    struct folio *folio, u8 *page)
{
	mtier_look_begin(l, e, folio, page);
}

/*
 * Another look. Whoever clears the bit says so by the young flag, we as well;
 * MTIER_PAGE_TOLD says that it was set when we left. Where it was, and the bit is
 * clear, there is nothing to learn, and the folio, which is not in any cache, is
 * left alone. So is what only others have mapped.
 */
static __always_inline void mtier_look_again(struct mtier_look *l,
					     const struct mtier_entries *e,
					     u8 *page)
{
	bool present = mtier_entries_present(e);
	bool young = present && mtier_entries_young(e);
	struct folio *folio;

	if (!young && (present ? *page & MTIER_PAGE_TOLD : !!l->others))
		return;
	folio = mtier_entries_folio(e);
	/* Another one by now, or not where it was. */
	if (!folio || folio_test_large(folio) != !!(*page & MTIER_PAGE_LARGE) ||
	    mtier_look_side(l, folio_nid(folio)) != mtier_page_side(*page)) {
		mtier_look_none(page, e->nr);
		return;
	}
	if (young && mtier_entries_clear(e)) {
		mtier_look_tell(l, folio);
		*page = (*page | MTIER_PAGE_TOLD) + 1;
	} else if (!(*page & MTIER_PAGE_TOLD) && folio_test_young(folio)) {
		*page = (*page | MTIER_PAGE_TOLD) + 1;
		l->seen->told++;
	}
}

/**
 * mtier_look_nr() - for how many pages does one stand?
 * @page: what is known of it and those after it
 * @most: how many these are
 *
 * Return: base pages, of its folio.
 */
unsigned int mtier_look_nr(const u8 *page, unsigned int most)
{
	unsigned int nr = 1;

	while (nr < most && page[nr] == MTIER_PAGE_REST)
		nr++;
	return nr;
}

/* A huge page, or false if there is none; @page is of @addr. */
static bool mtier_look_huge(struct mtier_look *l, struct vm_area_struct *vma,
			    pmd_t *pmd, unsigned long addr, unsigned int nr,
			    u8 *page)
{
	struct mtier_entries e = {
		.vma = vma, .addr = addr & PMD_MASK, .pmd = pmd, .nr = nr,
	};
	spinlock_t *ptl = pmd_trans_huge_lock(pmd, vma);

	if (!ptl)
		return false;
	__acquire(ptl);		/* which sparse cannot see */
	if (l->first)
		mtier_look_begin(l, &e, mtier_entries_folio(&e), page);
	else if (mtier_page_watched(*page) && *page & MTIER_PAGE_LARGE &&
		 mtier_look_nr(page, nr) == nr)
		mtier_look_again(l, &e, page);
	else	/* It was made of what was looked at. */
		mtier_look_none(page, nr);
	l->seen->ptes += nr;
	spin_unlock(ptl);
	return true;
}

/* The next entries of a page table: what there is of a folio. Returns how many. */
static __always_inline unsigned int
mtier_look_first(struct mtier_look *l, struct vm_area_struct *vma,
		 unsigned long addr, pte_t *pte, unsigned int most, u8 *page)
{
	struct mtier_entries e = {
		.vma = vma, .addr = addr, .pte = pte, .nr = 1,
	};
	struct folio *folio = mtier_entries_folio(&e);

	if (!folio || !folio_test_large(folio)) {
		mtier_look_begin(l, &e, folio, page);
		return 1;
	}
	e.nr = mtier_entries_nr(&e, folio, most);
	mtier_look_begin(l, &e, folio, page);
	return e.nr;
}

/* The same in another look. Most need none of it, and are faster without it beside. */
static noinline unsigned int
mtier_look_next(struct mtier_look *l, struct vm_area_struct *vma,
		unsigned long addr, pte_t *pte, unsigned int most, u8 *page)
{
	struct mtier_entries e = {
		.vma = vma, .addr = addr, .pte = pte, .nr = 1,
	};

	if (!(*page & MTIER_PAGE_LARGE)) {
		mtier_look_again(l, &e, page);
		return 1;
	}
	e.nr = mtier_look_nr(page, most);
	mtier_look_again(l, &e, page);
	return e.nr;
}

/* Is there nothing to be learnt of most pages, those that are left alone? */
static __always_inline bool mtier_look_skips(pte_t entry, u8 page)
{
	if (!mtier_page_watched(page))
		return true;
	return (page & (MTIER_PAGE_LARGE | MTIER_PAGE_TOLD)) == MTIER_PAGE_TOLD &&
	       pte_present(entry) && !pte_young(entry);
}

/* A first look at the entries of a page table. */
static void mtier_look_table_first(struct mtier_look *l,
				   struct vm_area_struct *vma,
				   unsigned long addr, pte_t *start,
				   unsigned int nr, u8 *page)
{
	unsigned int i, did;

	for (i = 0; i < nr; i += did)
		did = mtier_look_first(l, vma, addr + i * PAGE_SIZE, start + i,
				       nr - i, page + i);
}

/* And another one. */
static void mtier_look_table_next(struct mtier_look *l,
				  struct vm_area_struct *vma,
				  unsigned long addr, pte_t *start,
				  unsigned int nr, u8 *page)
{
	unsigned int i, did;

	for (i = 0; i < nr; i += did) {
		did = 1;
		if (!mtier_look_skips(ptep_get(start + i), page[i]))
			did = mtier_look_next(l, vma, addr + i * PAGE_SIZE,
					      start + i, nr - i, page + i);
	}
}

/* The pages of one page table; @page is of @addr. */
static void mtier_look_table(struct mtier_look *l, struct vm_area_struct *vma,
			     unsigned long addr, unsigned long end, u8 *page)
{
	unsigned int nr = (end - addr) >> PAGE_SHIFT;
	pmd_t *pmd = mm_find_pmd(l->mm, addr & PMD_MASK);
	pte_t *start = NULL;
	spinlock_t *ptl;	/* of this page table */

	if (pmd && mtier_look_huge(l, vma, pmd, addr, nr, page))
		return;
	if (pmd)
		start = pte_offset_map_lock(l->mm, pmd, addr, &ptl);
	if (!start) {
		mtier_look_none(page, nr);
		return;
	}
	__acquire(ptl);		/* nor this */
	if (l->first)
		mtier_look_table_first(l, vma, addr, start, nr, page);
	else
		mtier_look_table_next(l, vma, addr, start, nr, page);
	l->seen->ptes += nr;
	pte_unmap_unlock(start, ptl);
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

/*
 * The same of a VMA whose pages others may map as well. False if they could not be
 * asked.
 */
static bool mtier_look_with_others(struct mtier_look *l,
				   struct vm_area_struct *vma,
				   unsigned long addr, unsigned long end,
				   u8 *page)
{
	unsigned int nr = (end - addr) >> PAGE_SHIFT;
	struct mtier_others *o = &mtier_look_others;
	int theirs = l->first ? mtier_others_ask(o, vma, addr, nr) : 0;
	bool known;

	if (theirs) {
		mtier_look_none(page, nr);
		return theirs > 0;
	}
	memcpy(o->before, page, nr);
	l->others = o;
	l->base = page;
	mtier_look_table(l, vma, addr, end, page);
	known = !(l->first || memchr_inv(page, MTIER_PAGE_NONE, nr)) ||
		mtier_others_look(o, vma, addr, nr, page,
				  l->first ? l : NULL);
	l->others = NULL;
	return known;
}

/* What a VMA that is locked has of a range; false if that is not known. */
static bool mtier_look_at(struct mtier_look *l, struct vm_area_struct *vma,
			  unsigned long addr, unsigned long end, u8 *page)
{
	if (!mtier_vma_eligible(vma)) {
		mtier_look_none(page, (end - addr) >> PAGE_SHIFT);
		return true;
	}
	if (l->first) {
		mtier_look_rules(l, vma, addr, NULL);
		l->by_page = mtier_policy_by_page(vma);
	}
	if (mtier_may_be_others(vma))
		return mtier_look_with_others(l, vma, addr, end, page);
	mtier_look_table(l, vma, addr, end, page);
	return true;
}

/* All VMAs of a range, one after the other; false if one was not to be had. */
static bool mtier_look_range(struct mtier_look *l, unsigned long start,
			     u8 *page)
{
	unsigned long addr = start, end = start + MTIER_RANGE_SIZE, next;
	struct vm_area_struct *vma;
	bool ok = true;

	while (ok && addr < end) {
		next = addr;
		vma = mtier_look_vma(l->mm, &next, end);
		if (IS_ERR(vma))
			return false;
		if (!vma)
			next = end;
		/* What is between VMAs may have been mapped in the last look. */
		mtier_look_none(page, (next - addr) >> PAGE_SHIFT);
		page += (next - addr) >> PAGE_SHIFT;
		addr = next;
		if (!vma)
			break;
		next = min(end, vma->vm_end);
		ok = mtier_look_at(l, vma, addr, next, page);
		vma_end_read(vma);
		page += (next - addr) >> PAGE_SHIFT;
		addr = next;
	}
	return ok;
}

/* A page that is looked at alone. */
static void mtier_look_page(struct mtier_look *l, struct mtier_audited *a)
{
	struct vm_area_struct *vma = lock_vma_under_rcu(l->mm, a->addr);

	if (!vma) {
		a->own = MTIER_PAGE_NONE;
		return;
	}
	if (!mtier_look_at(l, vma, a->addr, a->addr + PAGE_SIZE, &a->own))
		a->own = MTIER_PAGE_NONE;
	vma_end_read(vma);
}

/* Is its Accessed bit set? -1 if the page is not there. */
static int mtier_look_bit(struct mm_struct *mm, pmd_t *pmd, unsigned long addr)
{
	spinlock_t *ptl;	/* of this page table */
	pte_t *pte = pte_offset_map_lock(mm, pmd, addr, &ptl);
	int young = -1;

	if (!pte)
		return young;
	__acquire(ptl);		/* nor this */
	if (pte_present(ptep_get(pte)))
		young = !!pte_young(ptep_get(pte));
	pte_unmap_unlock(pte, ptl);
	return young;
}

/**
 * mtier_look_young() - is a page's Accessed bit set? It stays as it is
 * @slot: its address space, held
 * @addr: where in it, not part of a huge page
 *
 * Context: kmtierd; may sleep.
 * Return: 0 or 1, or -1 if there is no such page, or somebody is at work there.
 */
int mtier_look_young(struct mtier_slot *slot, unsigned long addr)
{
	struct mm_struct *mm = slot->mm;
	struct vm_area_struct *vma;
	pmd_t *pmd;
	int young = -1;

	if (!mtier_slot_enter(slot))
		return young;
	vma = lock_vma_under_rcu(mm, addr);
	if (vma) {
		pmd = mm_find_pmd(mm, addr & PMD_MASK);
		if (pmd)
			young = mtier_look_bit(mm, pmd, addr);
		vma_end_read(vma);
	}
	mtier_slot_leave(slot);
	return young;
}

/* An address space that goes: nothing is left of it in the burst. */
static void mtier_look_gone(struct mtier_part *part, u8 *page)
{
	struct mtier_audited *a;

	memset(page, MTIER_PAGE_NONE, (size_t)part->nr * MTIER_RANGE_PAGES);
	part->left = part->nr;
	for (a = part->audited; a; a = a->next)
		a->own = MTIER_PAGE_NONE;
}

/* A range leaves the burst. Later looks may find it locked again; it counts once. */
static void mtier_look_left(struct mtier_look *l, struct mtier_part *part,
			    u8 *page)
{
	if (l->first || memchr_inv(page, MTIER_PAGE_NONE, MTIER_RANGE_PAGES))
		part->left++;
	memset(page, MTIER_PAGE_NONE, MTIER_RANGE_PAGES);
	l->seen->left++;
}

/* Where is its memory used up there, if what goes up has a choice? */
static void mtier_look_weigh(struct mtier_look *l, struct mtier_slot *slot)
{
	l->top_used = NULL;
	if (nodes_weight(l->top) > 1 && !mtier_slot_weigh(slot))
		l->top_used = slot->top;
}

/* All of it that is watched; false if it has exited, and was left. */
static bool mtier_look_inside(struct mtier_look *l, struct mtier_watch *w,
			      struct mtier_part *part, u8 *page)
{
	struct mtier_audited *a;
	unsigned int i;

	if (l->first) {
		mtier_rules_of(l->mm, &l->rules);
		mtier_look_weigh(l, part->slot);
	}
	for (i = 0; i < part->nr; i++, page += MTIER_RANGE_PAGES) {
		if (!mtier_look_range(l, w->at[part->first + i], page))
			mtier_look_left(l, part, page);
		if (!mtier_slot_pause(part->slot))
			return false;
	}
	for (a = part->audited; a; a = a->next)
		mtier_look_page(l, a);
	mtier_slot_leave(part->slot);
	return true;
}

/* One address space. */
static void mtier_look_part(struct mtier_look *l, struct mtier_watch *w,
			    struct mtier_part *part)
{
	u8 *page = w->page + (size_t)part->first * MTIER_RANGE_PAGES;
	u64 since_ns = mtier_charge_start();

	l->mm = part->slot->mm;
	if (mm_has_notifiers(l->mm) || !mtier_slot_enter(part->slot)) {
		mtier_look_gone(part, page);
		return;
	}
	l->nr_cleared = 0;
	l->seen->mms++;
	if (!mtier_look_inside(l, w, part, page))
		mtier_look_gone(part, page);
	else if (l->nr_cleared)
		mtier_flush_later(&mtier_look_flush, l->mm, l->seen);
	mtier_flush_now(&mtier_look_flush, l->seen);
	if (since_ns)
		mtier_charge_look(l->mm, task_sched_runtime(current) - since_ns);
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
		.low_only = watch->low_only,
		.seen = seen,
	};
	u64 ptes = seen->ptes, flushes = seen->flushes;
	unsigned int i;

	nodes_andnot(look.top, look.top, look.low);
	mtier_look_others.top = look.top;
	mtier_look_others.low = look.low;
	mtier_look_others.flush = &mtier_look_flush;
	mtier_look_others.seen = seen;
	for (i = 0; i < watch->nr_parts; i++)
		mtier_look_part(&look, watch, &watch->part[i]);
	seen->looks++;
	count_vm_event(MTIER_LOOKS);
	count_vm_events(MTIER_LOOK_PTES, seen->ptes - ptes);
	count_vm_events(MTIER_LOOK_FLUSHES, seen->flushes - flushes);
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/look_kunit.c"
#endif
