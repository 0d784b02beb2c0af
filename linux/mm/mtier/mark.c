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

/* Count pages of a run whose bytes and routes are alike. */
static void mtier_mark_add(struct mtier_routes *rs, u8 page, u8 route, u32 nr)
{
	if (mtier_page_watched(page))
		rs->route[route].pages[!!(page & MTIER_PAGE_LARGE)]
				      [page & MTIER_PAGE_COUNT] += nr;
}

/**
 * mtier_mark_count() - Count the pages of each route by access count.
 * @watch: the sample; its routes are set to the result
 */
void mtier_mark_count(const struct mtier_watch *watch)
{
	size_t i, nr = (size_t)watch->nr * MTIER_RANGE_PAGES, from = 0;
	struct mtier_routes *rs = watch->routes;
	u8 page = MTIER_PAGE_NONE, route = 0;

	for (i = 0; i < rs->nr; i++)
		memset(rs->route[i].pages, 0, sizeof(rs->route[i].pages));
	for (i = 0; i < nr; i++) {
		if (watch->page[i] == MTIER_PAGE_REST ||
		    (watch->page[i] == page && watch->route[i] == route))
			continue;
		mtier_mark_add(rs, page, route, i - from);
		page = watch->page[i];
		route = watch->route[i];
		from = i;
	}
	mtier_mark_add(rs, page, route, nr - from);
}

/**
 * mtier_mark_counts() - Count the pages of each class by access count.
 * @watch: the sample
 * @counts: set to the result
 */
void mtier_mark_counts(const struct mtier_watch *watch, struct mtier_counts *counts)
{
	mtier_mark_count(watch);
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
