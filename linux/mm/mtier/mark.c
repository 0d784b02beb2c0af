// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: the pages of a burst, one byte each. They are counted by access
 * count, selected for a plan, and removed from the sample.
 *
 * Locking: none; all data belongs to kmtierd.
 */
#include <linux/minmax.h>
#include <linux/string.h>

#include "burst.h"

/* Single pages of one range, by tier and access count. */
struct mtier_mark_sum {
	u32 pages[MTIER_RANKS][MTIER_LOOKS_MOST + 1];
};

/* Count pages of a run whose bytes and routes are alike. */
static void mtier_mark_add(struct mtier_routes *rs, u8 page, u8 route, u32 nr,
			   struct mtier_mark_sum *sum)
{
	u32 count = page & MTIER_PAGE_COUNT;

	if (!mtier_page_watched(page))
		return;
	rs->route[route].pages[!!(page & MTIER_PAGE_LARGE)][count] += nr;
	if (!(page & MTIER_PAGE_LARGE))
		sum->pages[mtier_route_group(&rs->route[route], false)][count] += nr;
}

static void mtier_mark_range(const struct mtier_watch *watch, unsigned int range,
			     struct mtier_mark_sum *sum)
{
	size_t first = (size_t)range * MTIER_RANGE_PAGES, i, from = first;
	u8 page = MTIER_PAGE_NONE, route = 0;

	for (i = first; i < first + MTIER_RANGE_PAGES; i++) {
		if (watch->page[i] == MTIER_PAGE_REST ||
		    (watch->page[i] == page && watch->route[i] == route))
			continue;
		mtier_mark_add(watch->routes, page, route, i - from, sum);
		page = watch->page[i];
		route = watch->route[i];
		from = i;
	}
	mtier_mark_add(watch->routes, page, route, i - from, sum);
}

/* Count the pages of each route. @e: set to the evidence of @looks scans, or NULL. */
static void mtier_mark_ranges(const struct mtier_watch *watch, u32 looks,
			      struct mtier_evidence *e)
{
	struct mtier_routes *rs = watch->routes;
	unsigned int r, rank;

	for (r = 0; r < rs->nr; r++)
		memset(rs->route[r].pages, 0, sizeof(rs->route[r].pages));
	for (r = 0; r < watch->nr; r++) {
		struct mtier_mark_sum sum = { };

		mtier_mark_range(watch, r, &sum);
		for (rank = 0; e && rank < MTIER_RANKS; rank++)
			mtier_evidence_add(e, rank, sum.pages[rank], looks);
	}
}

/**
 * mtier_mark_count() - Count the pages of each route by access count.
 * @watch: the sample; its routes are set to the result
 */
void mtier_mark_count(const struct mtier_watch *watch)
{
	mtier_mark_ranges(watch, 0, NULL);
}

/**
 * mtier_mark_counts() - Count the pages of each class by access count.
 * @watch: the sample
 * @looks: number of scans that count
 * @counts: set to the result
 * @e: set to the evidence from the ranges of the single pages
 */
void mtier_mark_counts(const struct mtier_watch *watch, u32 looks,
		       struct mtier_counts *counts, struct mtier_evidence *e)
{
	memset(e, 0, sizeof(*e));
	mtier_mark_ranges(watch, looks, e);
	mtier_routes_groups(watch->routes, counts);
}

/* Get the role of a sampled page in the plan of the current pool. */
static enum mtier_role mtier_mark_role(const struct mtier_watch *watch, size_t at)
{
	return watch->routes->role[watch->route[at]];
}

/**
 * mtier_mark_plan() - Select the pages of a plan for the current pool.
 * @watch: the sample
 * @plan: the plan
 * @start: index of the page to start with, any
 *
 * The start must vary. With a fixed start, only pages in use that scans have missed
 * by chance would remain at the start after some bursts. These pages would be
 * exchanged for ever.
 *
 * The last folio that is selected may be larger than the number of pages left to
 * select.
 */
void mtier_mark_plan(struct mtier_watch *watch, const struct mtier_plan *plan,
		     u32 start)
{
	size_t i, nr = (size_t)watch->nr * MTIER_RANGE_PAGES;
	struct mtier_counts want[MTIER_ROLE_DOWN + 1] = { };
	u32 left = 0, took;

	for (i = 0; i < plan->nr; i++) {
		const struct mtier_run *run = &plan->run[i];

		want[MTIER_ROLE_UP].pages[run->low_group][run->low] += run->pages;
		left += run->pages;
		if (run->top == MTIER_NO_VICTIM)
			continue;
		want[MTIER_ROLE_DOWN].pages[run->top_group][run->top] += run->pages;
		left += run->pages;
	}
	for (i = 0; i < nr && left; i++) {
		size_t at = (start + i) % nr;
		u8 *page = &watch->page[at];
		u32 *more;

		if (!mtier_page_watched(*page))
			continue;
		more = &want[mtier_mark_role(watch, at)]
			.pages[mtier_watch_group(watch, at)][*page & MTIER_PAGE_COUNT];
		if (!*more)
			continue;
		took = min(*more, mtier_look_nr(page, nr - at));
		*more -= took;
		left -= took;
		*page |= MTIER_PAGE_GOES;
	}
}

/**
 * mtier_mark_drop() - Remove the selected pages from the sample.
 * @watch: the sample
 *
 * Their current tier does not result from their use.
 */
void mtier_mark_drop(struct mtier_watch *watch)
{
	size_t i, nr = (size_t)watch->nr * MTIER_RANGE_PAGES;

	for (i = 0; i < nr; i++)
		if (mtier_page_watched(watch->page[i]) &&
		    watch->page[i] & MTIER_PAGE_GOES)
			memset(&watch->page[i], MTIER_PAGE_NONE,
			       mtier_look_nr(&watch->page[i], nr - i));
}

/**
 * mtier_mark_keep() - Keep the pages that are still selected in the sample.
 * @watch: the sample
 *
 * Their migration was not attempted, and their tier has not changed.
 */
void mtier_mark_keep(struct mtier_watch *watch)
{
	size_t i, nr = (size_t)watch->nr * MTIER_RANGE_PAGES;

	for (i = 0; i < nr; i++)
		if (mtier_page_watched(watch->page[i]))
			watch->page[i] &= ~MTIER_PAGE_GOES;
}
