// SPDX-License-Identifier: GPL-2.0
/*
 * Migration on faults: what is decided without a folio or a lock.
 *
 * Which level reaches which page, what stays, whose a file is, and how many pages
 * may come to a node within a second.  All of it is tested by itself in
 * tests/decide_kunit.c.
 */
#include <linux/compiler.h>
#include <linux/jiffies.h>
#include <linux/minmax.h>
#include <linux/typecheck.h>

#include "decide.h"

/**
 * fm_reaches - Is a page one that a level is about?
 * @level: 0 to 3, of the task's cpusets
 * @kind: of the page
 * @explicit: a policy was set for it
 *
 * Files come late: they are read by many, who may be anywhere.
 *
 * Return: true if it is.
 */
bool fm_reaches(unsigned int level, enum fm_kind kind, bool explicit)
{
	if (kind != FM_FILE)
		return level >= 1;
	return level >= 3 || (level == 2 && explicit);
}

/**
 * fm_verdict - Does a page move before it is mapped?
 * @page: page that its level reaches
 *
 * Return: FM_MOVE, FM_LEAVE, FM_DIRTY, or FM_BUSY.
 */
enum fm_verdict fm_verdict(const struct fm_page *page)
{
	if (page->mapped || !page->misplaced)
		return FM_LEAVE;
	if (page->dirty)
		return FM_DIRTY;
	return page->held ? FM_BUSY : FM_MOVE;
}

/**
 * fm_may_claim - May somebody have the pages of a file on a node?
 * @home: where the file is looked up
 * @key: the file
 * @claim: where they are wanted
 * @now: jiffies
 * @quiet: so long nobody may have wanted them elsewhere; jiffies
 *
 * Without this, tasks of two nodes that map the same file by turns would carry its
 * pages back and forth.
 *
 * Return: true unless they were wanted elsewhere a moment ago.
 */
bool fm_may_claim(const struct fm_home *home, unsigned long key,
		  unsigned int claim, unsigned long now, unsigned long quiet)
{
	return home->key != key || home->claim == claim ||
	       !time_before(now, home->last + quiet);
}

/**
 * fm_claim - Somebody uses a file, and wants its pages on a node
 * @home: where the file is looked up; what it held of another one is lost
 * @key: the file
 * @claim: where they are wanted; fm_may_claim()
 * @now: jiffies
 */
void fm_claim(struct fm_home *home, unsigned long key, unsigned int claim,
	      unsigned long now)
{
	WRITE_ONCE(home->key, key);
	WRITE_ONCE(home->claim, claim);
	WRITE_ONCE(home->last, now);
}

/* Is it still the second that the rate is of? */
static bool same_second(const struct fm_rate *rate, unsigned long now,
			unsigned long second)
{
	return time_in_range_open(now, rate->began, rate->began + second);
}

/**
 * fm_rate_has - Is there room for more pages on a node now?
 * @rate: of the node; others may change it
 * @now: jiffies
 * @second: how long that is; jiffies
 * @limit: pages within a second
 * @nr_pages: that would come
 *
 * A folio larger than the limit may come as the first of a second.
 *
 * Return: true if there is.
 */
bool fm_rate_has(const struct fm_rate *rate, unsigned long now,
		 unsigned long second, unsigned long limit,
		 unsigned long nr_pages)
{
	unsigned long pages = READ_ONCE(rate->pages);

	return !same_second(rate, now, second) || !pages ||
	       pages + nr_pages <= limit;
}

/**
 * fm_rate_takes - May more pages come to a node now?
 * @rate: of the node; what is taken is added
 * @now: jiffies
 * @second: how long that is; jiffies
 * @limit: pages within a second
 * @nr_pages: that would come
 *
 * Return: true if they may; what then does not come is to be given back.
 */
bool fm_rate_takes(struct fm_rate *rate, unsigned long now,
		   unsigned long second, unsigned long limit,
		   unsigned long nr_pages)
{
	if (!same_second(rate, now, second)) {
		rate->began = now;
		WRITE_ONCE(rate->pages, 0);
	}
	if (!fm_rate_has(rate, now, second, limit, nr_pages))
		return false;
	WRITE_ONCE(rate->pages, rate->pages + nr_pages);
	return true;
}

/**
 * fm_rate_returns - Pages that were to come to a node have not
 * @rate: of the node
 * @now: jiffies
 * @second: how long that is; jiffies
 * @nr_pages: that fm_rate_takes() took
 *
 * Nothing is due to a second that is over.
 */
void fm_rate_returns(struct fm_rate *rate, unsigned long now,
		     unsigned long second, unsigned long nr_pages)
{
	if (same_second(rate, now, second))
		WRITE_ONCE(rate->pages,
			   rate->pages - min(rate->pages, nr_pages));
}
