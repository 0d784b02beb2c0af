// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: re-checks of exchanged pages ("audits" in identifiers).
 *
 * One burst (sampling window) cannot distinguish short-lived heat from lasting
 * heat. So some of the exchanged pairs are recorded with a prediction, and sampled
 * again in a burst 1/8 s to 8 s later. The re-check measures whether the promoted
 * page is still used more than the demoted page. place.c relies on predictions to
 * the degree to which they come true.
 *
 * The count of a page is taken from the sample if the page is part of it. This
 * holds even if the page is about to be exchanged again. A page that is not part of
 * the sample is scanned alone. A pair is dropped without a result if one of its
 * pages is gone.
 *
 * Locking: none; all data belongs to kmtierd.
 */
#include <linux/bsearch.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/slab.h>

#include "../internal.h"
#include "burst.h"
#include "mtier.h"

/* Most pairs that are remembered, and most pairs that one burst re-checks. */
#define MTIER_AUDIT_RING	512
#define MTIER_AUDIT_BURST	16
static_assert(MTIER_AUDIT_PARTS >= 2 * MTIER_AUDIT_BURST);
/* Pairs older than this are dropped. */
#define MTIER_AUDIT_OLD_NS	(20ULL * NSEC_PER_SEC)

/**
 * struct mtier_forecast - an exchanged pair with its prediction
 * @up: the promoted page, predicted to be used more
 * @down: the demoted page; its slot is NULL if @up went into free memory
 * @up_q: Q16 probability that a scan finds @up accessed
 * @down_q: Q16 probability that a scan finds @down accessed
 * @tau_ns: sampling interval that @up_q and @down_q hold for
 * @at_ns: time at which the pair was recorded, just before the exchange
 * @early_ns: time from the clearing of the bits to the early re-check; 0 if that
 *	has no result
 * @early_hits: 1 if @up was accessed in @early_ns, minus 1 if @down was
 * @age: index of the age at which the re-check is due
 * @now: the pair is re-checked in this burst
 * @done: the re-check is complete
 */
struct mtier_forecast {
	struct mtier_audited up;
	struct mtier_audited down;
	u32 up_q;
	u32 down_q;
	u64 tau_ns;
	u64 at_ns;
	u64 early_ns;
	s32 early_hits;
	u8 age;
	bool now;
	bool done;
};

/**
 * struct mtier_audit - all pairs that are remembered
 * @pair: the pairs, in no order
 * @nr: number of entries in @pair
 * @skipped: number of pairs exchanged since the last one that was recorded
 * @age: age index of the next pair
 */
struct mtier_audit {
	struct mtier_forecast pair[MTIER_AUDIT_RING];
	unsigned int nr;
	unsigned int skipped;
	u8 age;
};

static struct mtier_audit *mtier_audit;

static void mtier_audit_drop(unsigned int i)
{
	struct mtier_forecast *f = &mtier_audit->pair[i];

	mtier_slot_put(f->up.slot);
	if (f->down.slot)
		mtier_slot_put(f->down.slot);
	*f = mtier_audit->pair[--mtier_audit->nr];
}

/* ---- the Accessed bit of one page ---- */

/* Read the Accessed bit of a page. -1 if the page is not present. */
static int mtier_audit_bit(struct mm_struct *mm, pmd_t *pmd, unsigned long addr)
{
	spinlock_t *ptl;	/* of this page table */
	pte_t *pte = pte_offset_map_lock(mm, pmd, addr, &ptl);
	int young = -1;

	if (!pte)
		return young;
	__acquire(ptl);		/* as above */
	if (pte_present(ptep_get(pte)))
		young = !!pte_young(ptep_get(pte));
	pte_unmap_unlock(pte, ptl);
	return young;
}

/**
 * mtier_page_young() - Read the Accessed bit of a page, without clearing it.
 * @slot: slot of the address space, held
 * @addr: address of the page; not part of a huge page
 *
 * Context: kmtierd; may sleep.
 * Return: 0 or 1, or -1 if there is no such page, or its VMA is locked for writing.
 */
int mtier_page_young(struct mtier_slot *slot, unsigned long addr)
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
			young = mtier_audit_bit(mm, pmd, addr);
		vma_end_read(vma);
	}
	mtier_slot_leave(slot);
	return young;
}

/* ---- recording of pairs ---- */

/**
 * struct mtier_picking - choice among the selected pages of one tier
 * @index: indices of the pages in the sample
 * @nr: number of entries in @index
 * @every: one page in this many is chosen
 * @skipped: number of pages since the last choice
 */
struct mtier_picking {
	unsigned int index[MTIER_AUDIT_BURST];
	unsigned int nr;
	unsigned int every;
	unsigned int skipped;
};

/*
 * Check whether a page is selected for the exchange, and can be scanned alone. One
 * page cannot represent a folio that many entries map.
 */
static bool mtier_audit_wants(const u8 *page, size_t left)
{
	unsigned int nr;

	if (!mtier_page_watched(*page) || !(*page & MTIER_PAGE_GOES))
		return false;
	nr = mtier_look_nr(page, min_t(size_t, left, MTIER_RANGE_PAGES));
	return nr == 1 || nr == MTIER_RANGE_PAGES;
}

static void mtier_audit_pick(struct mtier_picking *pick, unsigned int index)
{
	if (++pick->skipped < pick->every || pick->nr == MTIER_AUDIT_BURST)
		return;
	pick->skipped = 0;
	pick->index[pick->nr++] = index;
}

static void mtier_audit_name(struct mtier_audited *page,
			     const struct mtier_watch *w, unsigned int index)
{
	unsigned int range = index / MTIER_RANGE_PAGES, part = 0;

	while (range >= w->part[part].first + w->part[part].nr)
		part++;
	page->slot = w->part[part].slot;
	page->addr = w->at[range] +
		     (unsigned long)(index % MTIER_RANGE_PAGES) * PAGE_SIZE;
	mtier_slot_get(page->slot);
}

static u32 mtier_audit_q(const struct mtier_watch *w, const struct mtier_worth *worth,
			 unsigned int at)
{
	return worth->q[mtier_watch_group(w, at)][w->page[at] & MTIER_PAGE_COUNT];
}

static void mtier_audit_write(const struct mtier_watch *w,
			      const struct mtier_worth *worth, u64 tau_ns,
			      unsigned int up, const unsigned int *down)
{
	struct mtier_forecast *f;

	if (mtier_audit->nr == MTIER_AUDIT_RING)
		return;
	f = &mtier_audit->pair[mtier_audit->nr++];
	*f = (struct mtier_forecast) {
		.up_q = mtier_audit_q(w, worth, up),
		.tau_ns = tau_ns,
		.at_ns = ktime_get_ns(),
		.age = mtier_audit->age,
	};
	mtier_audit->age = (mtier_audit->age + 1) % MTIER_AUDIT_AGES;
	mtier_audit_name(&f->up, w, up);
	if (!down)
		return;
	f->down_q = mtier_audit_q(w, worth, *down);
	mtier_audit_name(&f->down, w, *down);
}

/**
 * mtier_audit_note() - Record some of the pairs that are about to be exchanged.
 * @w: the sample, with the pages of the plan selected
 * @worth: estimated access probabilities by count
 * @plan: the plan; its size sets how many pairs are recorded
 * @tau_ns: sampling interval
 */
void mtier_audit_note(const struct mtier_watch *w,
		      const struct mtier_worth *worth,
		      const struct mtier_plan *plan, u64 tau_ns)
{
	size_t i, nr = (size_t)w->nr * MTIER_RANGE_PAGES;
	struct mtier_picking up = {
		.every = max(plan->pages / MTIER_AUDIT_BURST, MTIER_AUDIT_EVERY),
		.skipped = mtier_audit->skipped,
	};
	struct mtier_picking down = up;

	for (i = 0; i < nr; i++) {
		if (!mtier_audit_wants(&w->page[i], nr - i))
			continue;
		mtier_audit_pick(w->routes->role[w->route[i]] == MTIER_ROLE_UP ?
				 &up : &down, i);
	}
	for (i = 0; i < up.nr; i++)
		mtier_audit_write(w, worth, tau_ns, up.index[i],
				  i < down.nr ? &down.index[i] : NULL);
	mtier_audit->skipped = up.skipped;
}

/* ---- re-checks ---- */

static int mtier_audit_cmp(const void *key, const void *at)
{
	unsigned long addr = *(const unsigned long *)key;
	unsigned long start = *(const unsigned long *)at;

	if (addr < start)
		return -1;
	return addr >= start + MTIER_RANGE_SIZE;
}

static struct mtier_part *mtier_audit_part(struct mtier_watch *w,
					   struct mtier_slot *slot)
{
	unsigned int i;

	for (i = 0; i < w->nr_parts; i++)
		if (w->part[i].slot == slot)
			return &w->part[i];
	mtier_slot_get(slot);
	w->part[w->nr_parts] = (struct mtier_part) {
		.slot = slot,
		.first = w->nr,
	};
	return &w->part[w->nr_parts++];
}

/*
 * Set the byte in which the accesses of a page are counted. A page of two pairs is
 * scanned once, for both. If it were scanned twice, the second scan would always
 * find the bit clear.
 */
static void mtier_audit_watch(struct mtier_watch *w, struct mtier_audited *page)
{
	struct mtier_audited *same;
	struct mtier_part *part;
	unsigned long *at;

	if (!page->slot)
		return;
	part = mtier_audit_part(w, page->slot);
	at = bsearch(&page->addr, w->at + part->first, part->nr, sizeof(*at),
		     mtier_audit_cmp);
	if (at) {
		page->page = mtier_watch_range(w, at - w->at) +
			     (page->addr - *at) / PAGE_SIZE;
		*page->page = MTIER_PAGE_ASKED;
		return;
	}
	for (same = part->audited; same; same = same->next)
		if (same->addr == page->addr) {
			page->page = same->page;
			return;
		}
	page->page = &page->own;
	page->own = MTIER_PAGE_ASKED;
	page->next = part->audited;
	part->audited = page;
}

/**
 * mtier_audit_expire() - Drop the pairs that are re-checked or too old.
 *
 * Called before each draw of a sample, even if no burst follows. A pair does not
 * hold the slot of an exited process longer than that.
 */
void mtier_audit_expire(void)
{
	u64 now = ktime_get_ns();
	unsigned int i = 0;

	while (i < mtier_audit->nr) {
		struct mtier_forecast *f = &mtier_audit->pair[i];

		f->now = false;
		if (f->done || now - f->at_ns > MTIER_AUDIT_OLD_NS)
			mtier_audit_drop(i);
		else
			i++;
	}
}

/**
 * mtier_audit_take() - Add the pairs that are due to the sample of a burst.
 * @w: the sample; it has space for MTIER_AUDIT_PARTS more parts
 *
 * The parts of the sample point to pairs afterwards. mtier_audit_expire() moves
 * pairs in memory, so it is called before.
 */
void mtier_audit_take(struct mtier_watch *w)
{
	u64 now = ktime_get_ns();
	unsigned int i, nr = 0;

	for (i = 0; i < mtier_audit->nr && nr < MTIER_AUDIT_BURST; i++) {
		struct mtier_forecast *f = &mtier_audit->pair[i];

		if (now - f->at_ns < MTIER_AUDIT_AGE_NS(f->age))
			continue;
		f->now = true;
		nr++;
		mtier_audit_watch(w, &f->up);
		mtier_audit_watch(w, &f->down);
	}
}

/*
 * Check whether a pair is re-checked at the first age, that of an undiminished
 * prediction.
 */
static bool mtier_audit_young(const struct mtier_forecast *f)
{
	return f->now && !f->age;
}

/**
 * mtier_audit_has_young() - Check whether a pair needs mtier_audit_look_early().
 *
 * Return: true if there is one.
 */
bool mtier_audit_has_young(void)
{
	unsigned int i;

	for (i = 0; i < mtier_audit->nr; i++)
		if (mtier_audit_young(&mtier_audit->pair[i]))
			return true;
	return false;
}

/*
 * Check whether a page was accessed. 0 if the pair has no such page, negative if
 * unknown.
 */
static int mtier_audit_used(const struct mtier_audited *page)
{
	if (!page->slot)
		return 0;
	if (!mtier_page_watched(*page->page) || *page->page & MTIER_PAGE_LARGE)
		return -1;
	return mtier_page_young(page->slot, page->addr);
}

/**
 * mtier_audit_look_early() - Scan young pairs a short time after bits were cleared.
 * @cleared_ns: time at which the bits were cleared
 *
 * The bits are left unchanged for the scans that count. mtier_audit_judge_early()
 * evaluates the result.
 */
void mtier_audit_look_early(u64 cleared_ns)
{
	unsigned int i;

	for (i = 0; i < mtier_audit->nr; i++) {
		struct mtier_forecast *f = &mtier_audit->pair[i];
		int up, down;

		if (!mtier_audit_young(f))
			continue;
		up = mtier_audit_used(&f->up);
		down = mtier_audit_used(&f->down);
		f->early_ns = up < 0 || down < 0 ? 0 : ktime_get_ns() - cleared_ns;
		f->early_hits = up - down;
	}
}

/**
 * mtier_audit_judge_early() - Compare early re-checks with the predictions.
 * @p: state of the decision, which is updated
 */
void mtier_audit_judge_early(struct mtier_place *p)
{
	unsigned int i;

	for (i = 0; i < mtier_audit->nr; i++) {
		const struct mtier_forecast *f = &mtier_audit->pair[i];
		u32 up, down;

		if (!mtier_audit_young(f) || !f->early_ns)
			continue;
		up = mtier_place_rate(f->up_q);
		down = f->down.slot ? mtier_place_rate(f->down_q) : 0;
		mtier_place_early(p, up - min(up, down), f->tau_ns, f->early_ns,
				  f->early_hits);
	}
}

static bool mtier_audit_goes(const struct mtier_audited *page)
{
	return page->slot && mtier_page_watched(*page->page) &&
	       *page->page & MTIER_PAGE_GOES;
}

static bool mtier_audit_gone(const struct mtier_audited *page)
{
	return page->slot && !mtier_page_watched(*page->page);
}

static int mtier_audit_hits(const struct mtier_audited *page)
{
	return page->slot ? *page->page & MTIER_PAGE_COUNT : 0;
}

/* Evaluate the re-check of a pair. The pair is dropped before the next burst. */
static void mtier_audit_one(struct mtier_place *p, struct mtier_forecast *f,
			    u32 looks)
{
	u32 up, down;

	f->now = false;
	f->done = true;
	if (mtier_audit_gone(&f->up) || mtier_audit_gone(&f->down))
		return;
	up = mtier_place_q_at(f->up_q, f->tau_ns, p->tau_ns);
	down = mtier_place_q_at(f->down_q, f->tau_ns, p->tau_ns);
	mtier_place_audit(p, ktime_get_ns() - f->at_ns, up - min(up, down), looks,
			  mtier_audit_hits(&f->up) -
			  mtier_audit_hits(&f->down));
}

/**
 * mtier_audit_judge() - Compare re-checks with the predictions.
 * @p: state of the decision, which is updated
 * @looks: number of scans so far
 * @all: the burst is complete; if false, only pairs with a page that is about to
 *	leave the sample are compared
 */
void mtier_audit_judge(struct mtier_place *p, u32 looks, bool all)
{
	unsigned int i;

	for (i = 0; i < mtier_audit->nr; i++) {
		struct mtier_forecast *f = &mtier_audit->pair[i];

		if (f->now && (all || mtier_audit_goes(&f->up) ||
			       mtier_audit_goes(&f->down)))
			mtier_audit_one(p, f, looks);
	}
}

/**
 * mtier_audit_start() - Allocate the memory for pairs.
 *
 * Return: 0 or -ENOMEM.
 */
int mtier_audit_start(void)
{
	mtier_audit = kvzalloc(sizeof(*mtier_audit), GFP_KERNEL);
	return mtier_audit ? 0 : -ENOMEM;
}

/**
 * mtier_audit_stop() - Drop all pairs, and free the memory.
 */
void mtier_audit_stop(void)
{
	while (mtier_audit && mtier_audit->nr)
		mtier_audit_drop(mtier_audit->nr - 1);
	kvfree(mtier_audit);
	mtier_audit = NULL;
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/audit_kunit.c"
#endif
