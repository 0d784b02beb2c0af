// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that follow: what is decided without a page, a lock or a clock.
 *
 * Which pages move, and which neighbours go along; when a task has settled on another
 * node, whether its memory follows, which of its threads does the work, and what
 * cpusets allow together; whose a file is, and how many pages may come to a node within
 * a second.  All of it is tested by itself in tests/decide_kunit.c.
 */
#include <linux/align.h>
#include <linux/compiler.h>
#include <linux/jiffies.h>
#include <linux/math.h>
#include <linux/mempolicy.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/numa.h>
#include <linux/typecheck.h>

#include "decide.h"

/* ---- pages ---- */

/**
 * follow_request_fits - Can MPOL_MF_LAZY be done with the rest of a request?
 * @mode: of the policy
 * @mode_flags: of the policy
 * @flags: of the call
 *
 * It says how pages move, so something has to say that they do; nobody can tell
 * now whether all of them will, as MPOL_MF_STRICT would have it; and the policy
 * has to be one that a fault can go by: neither the lack of one, nor one that
 * leaves the choice to NUMA balancing.
 *
 * Return: true if it can.
 */
bool follow_request_fits(unsigned short mode, unsigned short mode_flags,
			 unsigned long flags)
{
	if (!(flags & (MPOL_MF_MOVE | MPOL_MF_MOVE_ALL)))
		return false;
	if (flags & MPOL_MF_STRICT)
		return false;
	return mode != MPOL_DEFAULT && !(mode_flags & MPOL_F_NUMA_BALANCING);
}

/**
 * follow_verdict - What becomes of a page?
 * @seen: what is seen of it
 *
 * What cannot move when it is used is not worth a mark either.
 *
 * Return: FOLLOW_TAKE, FOLLOW_LEAVE, or the reason why it stays.
 */
enum follow_verdict follow_verdict(const struct follow_seen *seen)
{
	if (!seen->misplaced)
		return FOLLOW_LEAVE;
	if (seen->shared)
		return FOLLOW_SHARED;
	if (seen->dirty)
		return FOLLOW_DIRTY;
	return seen->held ? FOLLOW_BUSY : FOLLOW_TAKE;
}

/**
 * follow_shared - Do too many processes share a folio?
 * @likely: folio_likely_mapped_shared()
 * @mapcount: how often its pages are mapped, all in all
 * @nr_pages: how many they are
 * @max_mapcount: so many processes may share it
 *
 * A huge page of one process is mapped 512 times if its page table is not huge:
 * mappings per page, rounded up, are as near as one gets to processes.
 *
 * Return: true if more do.
 */
bool follow_shared(bool likely, unsigned int mapcount, unsigned int nr_pages,
		   unsigned int max_mapcount)
{
	if (max_mapcount <= 1)
		return likely;
	return DIV_ROUND_UP(mapcount, nr_pages) > max_mapcount;
}

/**
 * follow_batch_window - Where does a fault look for more pages to pull?
 * @addr: address of the fault
 * @vm_start: start of its VMA
 * @vm_end: end of its VMA
 *
 * Aligned, so that it stays in one page table, and memory that is used from one
 * end to the other is pulled by the smallest number of faults.
 *
 * Return: at most FOLLOW_BATCH_PAGES pages, the one of @addr among them.
 */
struct follow_window follow_batch_window(unsigned long addr,
					 unsigned long vm_start,
					 unsigned long vm_end)
{
	unsigned long bytes = FOLLOW_BATCH_PAGES * PAGE_SIZE;
	unsigned long start = ALIGN_DOWN(addr, bytes);

	return (struct follow_window) {
		.start = max(start, vm_start),
		.end = min(start + bytes, vm_end),
	};
}

/* ---- tasks ---- */

/**
 * follow_settle - A task is at home on a node
 * @place: of the task
 * @node: where
 */
void follow_settle(struct follow_place *place, int node)
{
	place->node = node;
	place->away = NUMA_NO_NODE;
}

/**
 * follow_stays - A task was seen on a node
 * @place: of the task
 * @node: where
 * @now: when; jiffies
 * @settle: so long it has to be there without a break; jiffies
 * @interval: from one try to the next; jiffies
 *
 * The first node is home.  Seen at home, it has not been away; seen on a third
 * node, it begins to be away anew.
 *
 * Return: true if it is time for its memory to follow.
 */
bool follow_stays(struct follow_place *place, int node, unsigned long now,
		  unsigned long settle, unsigned long interval)
{
	if (place->node == NUMA_NO_NODE || place->node == node) {
		follow_settle(place, node);
		return false;
	}
	if (place->away != node) {
		place->away = node;
		place->since = now;
	}
	if (time_before(now, place->since + settle))
		return false;
	return !place->has_tried ||
	       !time_before(now, place->tried + interval);
}

/**
 * follow_action - Does the memory of a task follow it?
 * @facts: what is known of the task
 *
 * Others may still use from the old node what moves at once: so most of a process
 * has to be on the new one.  Else it moves by use, to whoever uses it.
 *
 * Return: FOLLOW_DIRECT, FOLLOW_LAZY, or why it does not.
 */
enum follow_action follow_action(const struct follow_facts *facts)
{
	if (!facts->node_fits)
		return FOLLOW_NODE;
	if (facts->policy)
		return FOLLOW_POLICY;
	if (facts->balancing)
		return FOLLOW_BALANCING;
	if (facts->borrowed)
		return FOLLOW_THREADS;
	if (facts->lazy)
		return FOLLOW_LAZY;
	return 2 * facts->there > facts->threads ? FOLLOW_DIRECT : FOLLOW_LAZY;
}

/**
 * follow_from_anywhere - Do pages follow a task from wherever they are?
 * @facts: what is known of the task
 *
 * Nobody of its process is elsewhere and might want them there.  Else they follow from
 * where this task was at home, which others may use from there, too.
 *
 * Return: true if so.
 */
bool follow_from_anywhere(const struct follow_facts *facts)
{
	return facts->there >= facts->threads;
}

/**
 * follow_walks_again() - Decide whether a walk is repeated
 * @left: pages that stayed for want of memory, or as they were busy
 * @went: pages that moved, or were marked to move
 *
 * Both reasons pass. The other ones (dirty, shared) mostly do not, and a few pages are
 * always busy in the LRU batches of CPUs.
 *
 * Return: true if so many pages stayed that another walk is worth its time.
 */
bool follow_walks_again(unsigned long left, unsigned long went)
{
	return left && left >= went / (FOLLOW_LEFT_PART - 1);
}

static bool walks_for(const struct follow_claim *claim,
		      const struct follow_route *route)
{
	const struct follow_route *r = &claim->route;

	return claim->taken && r->to == route->to && (!r->lazy || route->lazy) &&
	       nodes_subset(route->from, r->from);
}

/**
 * follow_turn - Is it this thread that walks?
 * @claim: of the process
 * @route: what this thread would walk for
 * @now: jiffies
 * @lease: after so long without a sign, whoever walked is gone; jiffies
 * @settle: others may come so long after each other; jiffies
 * @interval: so long a walk that is done is not done again; jiffies
 *
 * When a whole process moves, each of its threads comes to the same conclusion; but for
 * those that come first, when most are not there yet: what they mark the others move.
 *
 * A walk does not do for who came after it had begun: what it has marked, that thread
 * has used meanwhile from the old node.  One more does for all of those.
 *
 * Return: see enum follow_turn.
 */
enum follow_turn follow_turn(const struct follow_claim *claim,
			     const struct follow_route *route,
			     unsigned long now, unsigned long lease,
			     unsigned long settle, unsigned long interval)
{
	if (!walks_for(claim, route))
		return FOLLOW_MINE;
	if (!claim->done)
		return time_before(now, claim->when + lease) ? FOLLOW_WAIT :
							       FOLLOW_MINE;
	if (!time_before(now, claim->when + interval))
		return FOLLOW_MINE;
	if (time_after(claim->began, route->since))
		return FOLLOW_DONE;
	return time_before(now, claim->when + settle) ? FOLLOW_WAIT : FOLLOW_MINE;
}

/**
 * numa_follow_limit - What is left of some limits below a cpuset?
 * @limits: of the cpusets seen so far; more limited on return
 * @own: of this cpuset; others may change them
 *
 * The more restrained one wins each time: off, the longer interval, moving by
 * use, the smaller number of sharers.
 */
void numa_follow_limit(struct numa_follow_limits *limits,
		       const struct numa_follow_limits *own)
{
	if (!READ_ONCE(own->enabled))
		limits->enabled = 0;
	if (READ_ONCE(own->lazy))
		limits->lazy = 1;
	limits->interval_s = max(limits->interval_s,
				 READ_ONCE(own->interval_s));
	limits->max_mapcount = min(limits->max_mapcount,
				   READ_ONCE(own->max_mapcount));
	limits->on_fault = min(limits->on_fault, READ_ONCE(own->on_fault));
}

/* ---- faults that map what nobody maps ---- */

/**
 * follow_reaches - Is a page one that a level is about?
 * @level: 0 to 3, of the task's cpusets
 * @kind: of the page
 * @explicit: a policy was set for it
 *
 * Files come late: they are read by many, who may be anywhere.
 *
 * Return: true if it is.
 */
bool follow_reaches(unsigned int level, enum follow_kind kind, bool explicit)
{
	if (kind != FOLLOW_FILE)
		return level >= 1;
	return level >= 3 || (level == 2 && explicit);
}

/**
 * follow_home_take - Somebody uses a file, and wants its pages on a node
 * @home: where the file is looked up; what it held of another one is lost
 * @key: the file
 * @claim: where they are wanted; follow_home_free()
 * @now: jiffies
 */
void follow_home_take(struct follow_home *home, unsigned long key,
		      unsigned int claim, unsigned long now)
{
	WRITE_ONCE(home->key, key);
	WRITE_ONCE(home->claim, claim);
	WRITE_ONCE(home->last, now);
}

/* Is it still the second that the rate is of? */
static bool same_second(const struct follow_rate *rate, unsigned long now,
			unsigned long second)
{
	return time_in_range_open(now, rate->began, rate->began + second);
}

/**
 * follow_rate_has - Is there room for more pages on a node now?
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
bool follow_rate_has(const struct follow_rate *rate, unsigned long now,
		     unsigned long second, unsigned long limit,
		     unsigned long nr_pages)
{
	unsigned long pages = READ_ONCE(rate->pages);

	return !same_second(rate, now, second) || !pages ||
	       pages + nr_pages <= limit;
}

/**
 * follow_rate_takes - May more pages come to a node now?
 * @rate: of the node; what is taken is added
 * @now: jiffies
 * @second: how long that is; jiffies
 * @limit: pages within a second
 * @nr_pages: that would come
 *
 * Return: true if they may; what then does not come is to be given back.
 */
bool follow_rate_takes(struct follow_rate *rate, unsigned long now,
		       unsigned long second, unsigned long limit,
		       unsigned long nr_pages)
{
	if (!same_second(rate, now, second)) {
		rate->began = now;
		WRITE_ONCE(rate->pages, 0);
	}
	if (!follow_rate_has(rate, now, second, limit, nr_pages))
		return false;
	WRITE_ONCE(rate->pages, rate->pages + nr_pages);
	return true;
}

/**
 * follow_rate_returns - Pages that were to come to a node have not
 * @rate: of the node
 * @now: jiffies
 * @second: how long that is; jiffies
 * @nr_pages: that follow_rate_takes() took
 *
 * Nothing is due to a second that is over.
 */
void follow_rate_returns(struct follow_rate *rate, unsigned long now,
			 unsigned long second, unsigned long nr_pages)
{
	if (same_second(rate, now, second))
		WRITE_ONCE(rate->pages,
			   rate->pages - min(rate->pages, nr_pages));
}
