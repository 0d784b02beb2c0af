// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: scans of the sample of a burst (sampling window).
 *
 * A scan ("look" in identifiers) is one pass over the Accessed bits of the sample.
 * The first scan clears the bits, and records the pages and their tiers. Each later
 * scan reads and clears the bits, and counts the accesses. Both tiers are scanned
 * alike. A range is drawn for promotions, for demotions, or for both. Of the pages that
 * can only migrate in the other direction, those for a re-check (audit.c) are sampled.
 *
 * The TLB of an address space is flushed once after each scan that cleared a bit of
 * it. A CPU that has a TLB entry does not set the bit again, so without the flush
 * the most used pages would look idle.
 *
 * Reclaim, page_idle and DAMON share the Accessed bit. So a scan that clears a bit
 * marks the folio young and not idle, and other users do the same. The
 * multi-generational LRU reads that mark when it is about to evict the folio. The
 * young flag stays set, because reclaim may need it at any time. An access whose
 * bit another user has cleared is found by the flag, if the flag was clear before
 * in this burst. It is lost if the flag was set before, or if reclaim has cleared it.
 *
 * Pages of a file are scanned once for all mappers (others.c), also those in a
 * private mapping that are no copies. Shared program text and memory shared
 * copy-on-write stay in place, and are not sampled. A large folio moves as a whole,
 * so its first page here represents all of its pages that are mapped here. Large
 * folios are counted apart, since scans find them accessed much more often. KSM pages
 * and device pages are not sampled. A page that may not migrate, for its memory
 * policy for example, is skipped after the first scan: it is no sample of the pages
 * that may.
 *
 * A range leaves the burst if one of its VMAs is locked for writing. None counts in part.
 *
 * Locking: the read lock of each VMA, by trylock, for the scan of one range, instead of
 * mmap_lock. It keeps the page tables. Below it, the page table lock.
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
 * struct mtier_look - state of the scan of one address space
 * @mm: the address space; its slot is entered
 * @rules: nodes that @mm allows; only set in the first scan
 * @first: this is the first scan of the burst
 * @router: routes of the pages
 * @sides: what the range is sampled for: MTIER_RANGE_LOW for promotions, MTIER_RANGE_TOP
 *	for demotions
 * @files: pages of files that are scanned in this burst
 * @by_page: the nodes that are allowed can differ from page to page
 * @bytes: bytes of the sample
 * @route: routes of the sample; NULL for a page that is not in a range of it
 * @others: what is known of the other mappers; NULL for private memory
 * @base: byte of the page that has bit 0 in the bitmaps of @others
 * @memcg: cgroup whose protection was checked last
 * @top_used: counts of accessed fast pages by node; NULL with only one fast node
 * @nr_cleared: number of Accessed bits cleared
 * @seen: statistics of the burst
 */
struct mtier_look {
	struct mm_struct *mm;
	struct mtier_rules rules;
	bool first;
	struct mtier_router router;
	u8 sides;
	struct mtier_file_set *files;
	bool by_page;
	const u8 *bytes;
	u8 *route;
	struct mtier_others *others;
	const u8 *base;
	struct mtier_protection memcg;
	u32 *top_used;
	unsigned long nr_cleared;
	struct mtier_seen *seen;
};

/* All of these are used by kmtierd alone, and too large for its stack. */
static struct mtier_look mtier_look_state;
static struct mtier_others mtier_look_others;
static struct mtier_flush mtier_look_flush;

/* Count a cleared Accessed bit, and mark the folio young for other users. */
static __always_inline void mtier_look_tell(struct mtier_look *l,
					    struct folio *folio)
{
	l->nr_cleared++;
	mtier_folio_tell(folio);
}

/* Check whether the bit of any of the pages is set. */
static bool mtier_look_any(const struct mtier_look *l, const unsigned long *bits,
			   const u8 *page, unsigned int nr)
{
	unsigned int i = page - l->base;

	return find_next_bit(bits, i + nr, i) < i + nr;
}

/* Remove the directions in which the other mappers, or the folio itself, forbid it. */
static u8 mtier_look_others_ways(struct mtier_look *l,
				 const struct mtier_entries *e,
				 struct folio *folio, const u8 *page, u8 ways)
{
	u32 side;

	if (mtier_folio_stays(folio, e->vma) != MTIER_MAY ||
	    (mtier_folio_is_text(folio, e->vma) &&
	     !mtier_look_any(l, l->others->data, page, e->nr)))
		return 0;
	for (side = 0; side < MTIER_SIDES; side++)
		if (mtier_look_any(l, l->others->stays[side], page, e->nr))
			ways &= ~BIT(side);
	return ways;
}

/* Set the nodes allowed for a VMA, or for a folio mapped at @addr. */
static void mtier_look_rules(struct mtier_look *l, struct vm_area_struct *vma,
			     unsigned long addr, struct folio *folio)
{
	nodemask_t up, down;

	mtier_rules_for(&l->rules, vma, addr, folio, &up, &down);
	if (vma->vm_flags & VM_LOCKED)
		nodes_clear(down);
	mtier_router_allow(&l->router, &up, &down);
}

/*
 * Get the route of a page that can migrate in some directions. MTIER_NO_ROUTE if it may
 * not migrate, however often it is used.
 */
static u8 mtier_look_route(struct mtier_look *l, const struct mtier_entries *e,
			   struct folio *folio, const u8 *page, u8 ways)
{
	bool file = l->others && !folio_test_anon(folio);

	if (l->by_page)
		mtier_look_rules(l, e->vma, e->addr, folio);
	if (mtier_single_stays(folio, false))
		return MTIER_NO_ROUTE;
	if (file)
		ways = mtier_look_others_ways(l, e, folio, page, ways);
	if (ways & MTIER_RANGE_TOP && (folio_test_unevictable(folio) ||
				       mtier_folio_protected(folio, &l->memcg)))
		ways &= ~MTIER_RANGE_TOP;
	/* A VMA that only reads its file has no veto: others.c has its rules. */
	if (file && l->others->reads)
		ways |= MTIER_WAY_ANY;
	return mtier_router_route(&l->router, folio_nid(folio), ways);
}

/* Check whether a folio of a file is scanned here, for all of its mappers. */
static bool mtier_look_for_others(struct mtier_look *l, struct folio *folio,
				  const u8 *page, unsigned int nr)
{
	if (mtier_look_any(l, l->others->apart, page, nr))
		return false;
	bitmap_set(l->others->met, page - l->base, nr);
	if (mtier_look_any(l, l->others->nobodys, page, nr)) {
		l->seen->shared += nr;
		return false;
	}
	if (folio_likely_mapped_shared(folio))
		l->seen->common += nr;
	return true;
}

/* Check whether a folio is part of the sample. Called once in a burst. */
static __always_inline bool mtier_look_wants(struct mtier_look *l,
					     struct folio *folio,
					     const u8 *page, unsigned int nr)
{
	if (!folio || folio_is_zone_device(folio) || folio_test_ksm(folio))
		return false;
	if (l->others && !folio_test_anon(folio))
		return mtier_look_for_others(l, folio, page, nr);
	if (!folio_likely_mapped_shared(folio))
		return true;
	l->seen->shared += nr;
	return false;
}

/* Remove pages from the sample. */
static __always_inline void mtier_look_none(u8 *page, unsigned int nr)
{
	if (nr == 1)
		*page = MTIER_PAGE_NONE;
	else
		memset(page, MTIER_PAGE_NONE, nr);
}

/* The first scan of a folio: sample it if it may migrate, and clear its bits. */
static __always_inline void mtier_look_begin(struct mtier_look *l,
					     const struct mtier_entries *e,
					     struct folio *folio, u8 *page)
{
	u8 route, ways = *page == MTIER_PAGE_ASKED ?
			 MTIER_RANGE_LOW | MTIER_RANGE_TOP : l->sides;
	enum mtier_side side;

	mtier_look_none(page, e->nr);
	if (!mtier_look_wants(l, folio, page, e->nr))
		return;
	ways &= mtier_router_ways(&l->router, folio_nid(folio));
	if (!ways)
		return;
	side = mtier_router_side(&l->router, folio_nid(folio));
	route = mtier_look_route(l, e, folio, page, ways);
	if (route == MTIER_NO_ROUTE) {
		l->seen->fixed[side] += e->nr;
		return;
	}
	if (l->route)
		l->route[page - l->bytes] = route;
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
 * mtier_look_met() - Add a folio that only another mapper has mapped to the sample.
 * @l: the first scan
 * @e: the entries of that mapper
 * @folio: the folio
 * @page: byte of its first page
 *
 * Context: under the page table lock of the other mapper.
 */
void mtier_look_met(struct mtier_look *l, const struct mtier_entries *e,
		    struct folio *folio, u8 *page)
{
	mtier_look_begin(l, e, folio, page);
}

/*
 * A later scan. MTIER_PAGE_TOLD: the young flag was set when the last scan was
 * done. If it was set and the Accessed bit is clear, there is nothing to find out.
 * The folio is not in any cache, so it is not read then. The same holds for a page
 * that only other mappers have mapped.
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
	/* It is another folio, or its tier has changed. */
	if (!folio || folio_test_large(folio) != !!(*page & MTIER_PAGE_LARGE) ||
	    mtier_router_side(&l->router, folio_nid(folio)) != mtier_page_side(*page)) {
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
 * mtier_look_nr() - Count the pages that a byte of the sample represents.
 * @page: the byte, followed by those of the next pages
 * @most: number of bytes
 *
 * Return: number of base pages of the folio, from @page on.
 */
unsigned int mtier_look_nr(const u8 *page, unsigned int most)
{
	unsigned int nr = 1;

	while (nr < most && page[nr] == MTIER_PAGE_REST)
		nr++;
	return nr;
}

/* Scan a huge page. False if there is none. @page: byte of the page at @addr. */
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
	__acquire(ptl);		/* sparse does not see this lock */
	if (l->first)
		mtier_look_begin(l, &e, mtier_entries_folio(&e), page);
	else if (mtier_page_watched(*page) && *page & MTIER_PAGE_LARGE &&
		 mtier_look_nr(page, nr) == nr)
		mtier_look_again(l, &e, page);
	else	/* Not a huge page of the sample: collapsed since, e.g. */
		mtier_look_none(page, nr);
	l->seen->ptes += nr;
	spin_unlock(ptl);
	return true;
}

/* The first scan of the next folio in a page table. Returns its number of entries. */
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

/* The same in a later scan. Out of line, since most entries are skipped. */
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

/* Check whether a later scan can skip an entry, as it can for most pages. */
static __always_inline bool mtier_look_skips(pte_t entry, u8 page)
{
	if (!mtier_page_watched(page))
		return true;
	return (page & (MTIER_PAGE_LARGE | MTIER_PAGE_TOLD)) == MTIER_PAGE_TOLD &&
	       pte_present(entry) && !pte_young(entry);
}

/* The first scan of the entries of a page table. */
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

/* A later scan of the entries of a page table. */
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

/* Scan the pages of one page table. @page: byte of the page at @addr. */
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
	__acquire(ptl);		/* as above */
	if (l->first)
		mtier_look_table_first(l, vma, addr, start, nr, page);
	else
		mtier_look_table_next(l, vma, addr, start, nr, page);
	l->seen->ptes += nr;
	pte_unmap_unlock(start, ptl);
}

/*
 * Lock the first VMA between @addr and @end, and set @addr to where it begins
 * there. Returns NULL if there is none, or an error if a writer has the VMA locked.
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
 * Scan a part of a VMA with the other mappers of its pages, and its private copies
 * alone. @file: the pages of the file are scanned as well. False if they are, and the
 * other mappers could not be scanned.
 */
static bool mtier_look_all_mappers(struct mtier_look *l,
				   struct vm_area_struct *vma,
				   unsigned long addr, unsigned long end,
				   u8 *page, bool file)
{
	unsigned int nr = (end - addr) >> PAGE_SHIFT;
	struct mtier_others *o = &mtier_look_others;
	bool known;

	memcpy(o->before, page, nr);
	l->others = o;
	l->base = page;
	mtier_look_table(l, vma, addr, end, page);
	known = !file ||
		!(l->first || memchr_inv(page, MTIER_PAGE_NONE, nr)) ||
		mtier_others_look(o, vma, addr, nr, page,
				  l->first ? l : NULL);
	l->others = NULL;
	return known;
}

/*
 * Scan a part of a VMA whose pages other processes can map. False if the other
 * mappers could not be scanned. A private mapping then loses the pages of its file
 * only.
 */
static bool mtier_look_with_others(struct mtier_look *l,
				   struct vm_area_struct *vma,
				   unsigned long addr, unsigned long end,
				   u8 *page)
{
	unsigned int nr = (end - addr) >> PAGE_SHIFT;
	struct mtier_others *o = &mtier_look_others;
	bool cow = is_cow_mapping(vma->vm_flags);
	bool file, known = true;

	file = mtier_others_copies(o, vma, addr, nr, l->first ? NULL : page);
	if (file && l->first)
		file = mtier_others_take(o, l->files, vma, addr, nr);
	if (file && l->first)
		known = !mtier_others_ask(o, &l->rules, vma, addr, nr);
	if (!file || !known) {
		if (mtier_has_no_copies(vma)) {
			mtier_look_none(page, nr);
			return known || cow;
		}
		bitmap_fill(o->apart, MTIER_RANGE_PAGES);
	}
	if (!mtier_look_all_mappers(l, vma, addr, end, page, file && known)) {
		known = false;
		mtier_others_drop(o, page, nr);
	}
	return known || cow;
}

/* Scan the part of a range in a locked VMA. False if its accesses are not known. */
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

/* Scan all VMAs of a range. False if one of them could not be scanned. */
static bool mtier_look_range(struct mtier_look *l, unsigned long start,
			     u8 *page)
{
	unsigned long addr = start, end = start + MTIER_RANGE_SIZE, next;
	struct vm_area_struct *vma;
	bool ok = true;

	/* Later scans of a range without sampled pages have nothing to find. */
	if (!l->first && !memchr_inv(page, MTIER_PAGE_NONE, MTIER_RANGE_PAGES))
		return true;
	while (ok && addr < end) {
		next = addr;
		vma = mtier_look_vma(l->mm, &next, end);
		if (IS_ERR(vma))
			return false;
		if (!vma)
			next = end;
		/* The gap before this VMA may have been mapped in the last scan. */
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

/* Scan a single page that is not in a range of the sample. */
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

/* Remove all pages of an address space that cannot be scanned any longer. */
static void mtier_look_gone(struct mtier_watch *w, struct mtier_part *part)
{
	struct mtier_audited *a;

	memset(mtier_watch_range(w, part->first), MTIER_PAGE_NONE,
	       (size_t)part->nr * MTIER_RANGE_PAGES);
	memset(w->sides + part->first, 0, part->nr);
	for (a = part->audited; a; a = a->next)
		a->own = MTIER_PAGE_NONE;
}

/* Remove a range from the sample: nothing is known of it. */
static void mtier_look_left(struct mtier_look *l, struct mtier_watch *w,
			    unsigned int range)
{
	memset(mtier_watch_range(w, range), MTIER_PAGE_NONE, MTIER_RANGE_PAGES);
	w->sides[range] = 0;
	l->seen->left++;
}

/* Prepare to record which fast nodes the process uses, if there are several. */
static void mtier_look_weigh(struct mtier_look *l, struct mtier_slot *slot)
{
	nodemask_t fast;

	l->top_used = NULL;
	nodes_andnot(fast, l->router.above, l->router.low);
	if (nodes_weight(fast) > 1 && !mtier_slot_weigh(slot))
		l->top_used = slot->top;
}

/* Scan the sample of an entered slot. False if the process exited: the slot is left. */
static bool mtier_look_inside(struct mtier_look *l, struct mtier_watch *w,
			      struct mtier_part *part)
{
	struct mtier_audited *a;
	unsigned int i;

	l->bytes = w->page;
	l->route = w->route;
	for (i = part->first; i < part->first + part->nr; i++) {
		l->sides = w->sides[i];
		if (!mtier_look_range(l, w->at[i], mtier_watch_range(w, i)))
			mtier_look_left(l, w, i);
		if (!mtier_slot_pause(part->slot))
			return false;
	}
	l->sides = 0;
	l->route = NULL;
	for (a = part->audited; a; a = a->next)
		mtier_look_page(l, a);
	mtier_slot_leave(part->slot);
	return true;
}

/* Scan one address space. */
static void mtier_look_part(struct mtier_look *l, struct mtier_watch *w,
			    struct mtier_part *part)
{
	u64 since_ns = mtier_charge_start();

	l->mm = part->slot->mm;
	/* The exit of the process must not wait for an allocation. */
	if (l->first) {
		mtier_rules_of(l->mm, &l->rules);
		mtier_look_weigh(l, part->slot);
	}
	if (mm_has_notifiers(l->mm) || !mtier_slot_enter(part->slot)) {
		mtier_look_gone(w, part);
		return;
	}
	l->nr_cleared = 0;
	l->seen->mms++;
	if (!mtier_look_inside(l, w, part))
		mtier_look_gone(w, part);
	else if (l->nr_cleared)
		mtier_flush_later(&mtier_look_flush, l->mm, l->seen);
	mtier_flush_now(&mtier_look_flush, l->seen);
	if (since_ns)
		mtier_charge_look(l->mm, task_sched_runtime(current) - since_ns);
}

/**
 * mtier_look() - Scan the sample.
 * @watch: the sample; the counts of its pages change
 * @first: only clear Accessed bits, and record the pages
 * @seen: statistics that the scan is added to
 *
 * Context: kmtierd; may sleep.
 */
void mtier_look(struct mtier_watch *watch, bool first, struct mtier_seen *seen)
{
	u64 ptes = seen->ptes, flushes = seen->flushes;
	struct mtier_look *look = &mtier_look_state;
	unsigned int i;

	memset(look, 0, sizeof(*look));
	look->first = first;
	look->files = &watch->files;
	look->seen = seen;
	mtier_router_init(&look->router, watch->routes);
	mtier_look_others.above = look->router.above;
	mtier_look_others.low = look->router.low;
	mtier_look_others.flush = &mtier_look_flush;
	mtier_table_set_grow(&watch->tables);
	mtier_look_others.tables = &watch->tables;
	mtier_look_others.seen = seen;
	for (i = 0; i < watch->nr_parts; i++)
		mtier_look_part(look, watch, &watch->part[i]);
	seen->looks++;
	count_vm_event(MTIER_LOOKS);
	count_vm_events(MTIER_LOOK_PTES, seen->ptes - ptes);
	count_vm_events(MTIER_LOOK_FLUSHES, seen->flushes - flushes);
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/look_kunit.c"
#endif
