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

/**
 * mtier_mark_count() - Count the pages by access count.
 * @watch: the sample
 * @counts: set to the result
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
 * mtier_mark_plan() - Select the pages of a plan.
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
