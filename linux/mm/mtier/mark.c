// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: the pages of a burst, byte by byte: how many have which count, which
 * of them a plan takes, and which are in the burst no longer.
 *
 * Locking: none; all data belongs to kmtierd.
 */
#include <linux/minmax.h>
#include <linux/string.h>

#include "burst.h"

/**
 * mtier_mark_count() - how many pages were found accessed how often?
 * @watch: what was looked at
 * @counts: set to that
 */
void mtier_mark_count(const struct mtier_watch *watch,
		      struct mtier_counts *counts)
{
	size_t i, nr = (size_t)watch->nr * MTIER_RANGE_PAGES;
	u32 alike[MTIER_PAGE_NONE + 1] = { };
	unsigned int page = MTIER_PAGE_NONE;

	*counts = (struct mtier_counts) { };
	for (i = 0; i < nr; i++) {
		if (watch->page[i] != MTIER_PAGE_REST)
			page = watch->page[i];
		alike[page]++;
	}
	for (page = 0; page < MTIER_PAGE_ASKED; page++)
		if (alike[page])
			counts->pages[mtier_page_group(page)]
				     [page & MTIER_PAGE_COUNT] += alike[page];
}

/**
 * mtier_mark_plan() - mark the pages of a plan
 * @watch: what was looked at
 * @plan: which shall change places
 * @start: index of the page to begin with, any
 *
 * Not always the same is to be the first. Else after some bursts only pages in use
 * were left there that looks have missed by chance, and they changed places for ever.
 *
 * The last folio that is selected may be larger than the number of pages left to
 * select.
 */
void mtier_mark_plan(struct mtier_watch *watch, const struct mtier_plan *plan,
		     u32 start)
{
	size_t i, nr = (size_t)watch->nr * MTIER_RANGE_PAGES;
	u32 want[MTIER_GROUPS][MTIER_LOOKS_MOST + 1] = { };
	u32 left = 0, took;

	for (i = 0; i < plan->nr; i++) {
		const struct mtier_run *run = &plan->run[i];

		want[run->low_group][run->low] += run->pages;
		left += run->pages;
		if (run->top == MTIER_NO_VICTIM)
			continue;
		want[run->top_group][run->top] += run->pages;
		left += run->pages;
	}
	for (i = 0; i < nr && left; i++) {
		size_t at = (start + i) % nr;
		u8 *page = &watch->page[at];
		u32 *more;

		if (!mtier_page_watched(*page))
			continue;
		more = &want[mtier_page_group(*page)][*page & MTIER_PAGE_COUNT];
		if (!*more)
			continue;
		took = min(*more, mtier_look_nr(page, nr - at));
		*more -= took;
		left -= took;
		*page |= MTIER_PAGE_GOES;
	}
}

/**
 * mtier_mark_drop() - take the pages that are marked out of the burst
 * @watch: what was looked at
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
 * mtier_mark_keep() - pages that are still marked stay in the burst
 * @watch: what was looked at
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
