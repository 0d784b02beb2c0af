// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: what came of the pages that changed places?
 *
 * Heat that does not outlive a burst cannot be told within one. So some of the pairs
 * that change places are written down with what is foretold of them, and watched for
 * a burst again an eighth of a second to eight seconds later: what was used more, is
 * it still? place.c counts on forecasts for as long as they come true.
 *
 * Where such a page is looked at anyway its count is taken from there, also if it is
 * about to change places again; else it is looked at alone. A pair of which a page
 * is gone says nothing.
 *
 * Locking: none; all of it is kmtierd's.
 */
#include <linux/bsearch.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "burst.h"
#include "mtier.h"

/* So many pairs are remembered, and looked at in one burst. */
#define MTIER_AUDIT_RING	512
#define MTIER_AUDIT_BURST	16
static_assert(MTIER_AUDIT_PARTS >= 2 * MTIER_AUDIT_BURST);
/* Older ones are news no more. */
#define MTIER_AUDIT_OLD_NS	(20ULL * NSEC_PER_SEC)

/**
 * struct mtier_forecast - a pair that has changed places
 * @up: the page that is to be used more
 * @down: the other one; its slot is NULL where free memory was taken
 * @up_q: Q16 probability that a look finds @up accessed
 * @down_q: that of @down
 * @tau_ns: the time between looks that this is true for
 * @at_ns: when that was
 * @early_ns: how long after bits were cleared it was looked at early, 0 if nobody can tell
 * @early_hits: 1 if @up had been used by then, less 1 if @down had
 * @age: after which time it is due
 * @now: it is looked at in this burst
 * @done: it was judged
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
 * struct mtier_audit - what is remembered
 * @pair: the pairs, in no order
 * @nr: how many
 * @skipped: pairs that changed places since the last one that is remembered
 * @age: of the next one
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

/* ---- pairs are written down ---- */

/**
 * struct mtier_picking - some of the marked pages of a side
 * @index: which, in what a burst looks at
 * @nr: how many
 * @every: of so many one is taken
 * @skipped: since the last one
 */
struct mtier_picking {
	unsigned int index[MTIER_AUDIT_BURST];
	unsigned int nr;
	unsigned int every;
	unsigned int skipped;
};

/*
 * Is a page one that changes places, and can be looked at alone? Of a folio that is
 * mapped by many entries one page does not stand for the others.
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

static u32 mtier_audit_q(const struct mtier_worth *worth, u8 page)
{
	return worth->q[mtier_page_group(page)][page & MTIER_PAGE_COUNT];
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
		.up_q = mtier_audit_q(worth, w->page[up]),
		.tau_ns = tau_ns,
		.at_ns = ktime_get_ns(),
		.age = mtier_audit->age,
	};
	mtier_audit->age = (mtier_audit->age + 1) % MTIER_AUDIT_AGES;
	mtier_audit_name(&f->up, w, up);
	if (!down)
		return;
	f->down_q = mtier_audit_q(worth, w->page[*down]);
	mtier_audit_name(&f->down, w, *down);
}

/**
 * mtier_audit_note() - write some of the pairs down that are about to change places
 * @w: what is looked at, in which they are marked
 * @worth: what their counts say
 * @plan: how many they are
 * @tau_ns: how far apart looks are
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
		mtier_audit_pick(mtier_page_side(w->page[i]) == MTIER_LOW ?
				 &up : &down, i);
	}
	for (i = 0; i < up.nr; i++)
		mtier_audit_write(w, worth, tau_ns, up.index[i],
				  i < down.nr ? &down.index[i] : NULL);
	mtier_audit->skipped = up.skipped;
}

/* ---- and looked at again ---- */

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
 * Where a page is to be counted. One that has changed places twice is looked at once:
 * the second look at a time would never find it.
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
 * mtier_audit_expire() - forget pairs that are judged or too old
 *
 * Before a burst is drawn, and also where there is none: an address space that is
 * gone is held no longer than that.
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
 * mtier_audit_take() - have those that are due looked at in a burst
 * @w: what that looks at; it has room for MTIER_AUDIT_PARTS more parts
 *
 * Parts point to pairs from here on: mtier_audit_expire(), which changes where they
 * are, comes before.
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

/* Was a pair looked at for the age at which what was foretold is to be there whole? */
static bool mtier_audit_young(const struct mtier_forecast *f)
{
	return f->now && !f->age;
}

/**
 * mtier_audit_has_young() - is there a pair for mtier_audit_look_early()?
 *
 * Return: true if so.
 */
bool mtier_audit_has_young(void)
{
	unsigned int i;

	for (i = 0; i < mtier_audit->nr; i++)
		if (mtier_audit_young(&mtier_audit->pair[i]))
			return true;
	return false;
}

/* Was a page used since? No, where there is none; negative if nobody can tell. */
static int mtier_audit_used(const struct mtier_audited *page)
{
	if (!page->slot)
		return 0;
	if (!mtier_page_watched(*page->page) || *page->page & MTIER_PAGE_LARGE)
		return -1;
	return mtier_look_young(page->slot, page->addr);
}

/**
 * mtier_audit_look_early() - look at young pairs a short time after bits were cleared
 * @cleared_ns: when that was
 *
 * The bits stay as they are, for the looks that count. mtier_audit_judge_early() says
 * what was found.
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
 * mtier_audit_judge_early() - compare that with what was foretold
 * @p: where to note that
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

/* What came of a pair? It is forgotten before the next burst. */
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
 * mtier_audit_judge() - compare forecasts with what has come of them
 * @p: who learns of that
 * @looks: how many looks there were
 * @all: the burst is over; else only pairs with a page that is about to leave it
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
 * mtier_audit_start() - get ready
 *
 * Return: 0 or -ENOMEM.
 */
int mtier_audit_start(void)
{
	mtier_audit = kvzalloc(sizeof(*mtier_audit), GFP_KERNEL);
	return mtier_audit ? 0 : -ENOMEM;
}

/**
 * mtier_audit_stop() - forget all pairs
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
