// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic NUMA migration: decisions that need no page, lock or clock.
 *
 * They decide which pages and which of their neighbours move; when a task has settled on
 * another node, whether its memory moves, and which thread does the work; the combined
 * limits of nested cpusets; the home of a file; and the rate limit of a node.
 * tests/decide_kunit.c tests all of them.
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
 * follow_request_fits() - Check whether a request allows MPOL_MF_LAZY
 * @mode: mode of the policy
 * @mode_flags: mode flags of the policy
 * @flags: flags of the call
 *
 * MPOL_MF_LAZY selects how pages move, so the request must also move pages.
 * MPOL_MF_STRICT reports pages that cannot move, which is not known before the faults.
 * The policy must name a target for a fault: MPOL_DEFAULT does not, and
 * MPOL_F_NUMA_BALANCING leaves the choice to NUMA balancing.
 *
 * Return: true if it does.
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
 * follow_verdict() - Decide whether a page moves
 * @seen: state of the page
 *
 * A page that could not move at its next access is not marked either.
 *
 * Return: FOLLOW_TAKE, FOLLOW_LEAVE, or the reason why the page stays.
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
 * follow_shared() - Check whether too many processes share a folio
 * @likely: folio_likely_mapped_shared()
 * @mapcount: total number of mappings of its pages
 * @nr_pages: number of its pages
 * @max_mapcount: largest number of processes that may share it
 *
 * A huge page that one process maps by PTEs has 512 mappings. The number of mappings per
 * page, rounded up, is the best available estimate of the number of processes.
 *
 * Return: true if more than @max_mapcount processes share it.
 */
bool follow_shared(bool likely, unsigned int mapcount, unsigned int nr_pages,
		   unsigned int max_mapcount)
{
	if (max_mapcount <= 1)
		return likely;
	return DIV_ROUND_UP(mapcount, nr_pages) > max_mapcount;
}

/**
 * follow_batch_window() - Get the range whose pages move with a fault
 * @addr: address of the fault
 * @vm_start: start of its VMA
 * @vm_end: end of its VMA
 *
 * The range is aligned. So it lies in one page table, and a sequential use of memory
 * takes the smallest number of faults.
 *
 * Return: at most FOLLOW_BATCH_PAGES pages, including the page of @addr.
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
 * follow_settle() - Set the home node of a task
 * @place: of the task
 * @node: new home node
 */
void follow_settle(struct follow_place *place, int node)
{
	place->node = node;
	place->away = NUMA_NO_NODE;
}

/**
 * follow_stays() - Check whether a task has stayed on another node long enough
 * @place: of the task; updated
 * @node: node on which the task was seen
 * @now: time; jiffies
 * @settle: required uninterrupted time on the node; jiffies
 * @interval: minimum time between two migrations; jiffies
 *
 * The first node becomes the home node. A sight at home ends the time away; a sight on a
 * third node starts it anew.
 *
 * Return: true if the memory of the task should move now.
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
 * follow_action() - Decide how the memory of a task moves
 * @facts: facts about the task
 *
 * Threads on the old node may still use pages that move at once. So more than half of the
 * threads must be on the new node. Otherwise pages are marked, and move to the thread
 * that uses them.
 *
 * Return: FOLLOW_DIRECT, FOLLOW_LAZY, or the reason for no action.
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
 * follow_from_anywhere() - Check whether pages move from all nodes
 * @facts: facts about the task
 *
 * They do if all threads of the process are on the new node, so that no thread needs them
 * elsewhere. Otherwise pages move only from the previous homes of the task.
 *
 * Return: true if they do.
 */
bool follow_from_anywhere(const struct follow_facts *facts)
{
	return facts->there >= facts->threads;
}

/**
 * follow_walks_again() - Decide whether a walk is repeated
 * @left: pages that stayed for lack of memory, or because they were busy
 * @went: pages that moved, or were marked to move
 *
 * Both reasons are temporary. The other ones (dirty, shared) mostly are not. A few pages
 * are always busy in the LRU batches of CPUs, so a small @left does not count.
 *
 * Return: true if at least 1/FOLLOW_LEFT_PART of the pages stayed.
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
 * follow_turn() - Decide whether this thread walks
 * @claim: walk ownership of the process
 * @route: walk that this thread needs
 * @now: jiffies
 * @lease: an owner without a heartbeat for this time has gone; jiffies
 * @settle: most time between the arrivals of two threads; jiffies
 * @interval: a finished walk is not repeated within this time; jiffies
 *
 * When a whole process moves, each of its threads comes to the same decision, so one walk
 * has to do for all. Only the first threads decide to mark pages, since most threads are
 * not on the new node yet; the later threads then move the marked pages by their
 * accesses.
 *
 * A walk does not cover a thread that arrived after the walk started: that thread may
 * have moved marked pages to the old node by using them. One more walk covers all such
 * threads.
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
 * numa_follow_limit() - Combine the limits of a cpuset with those of its ancestors
 * @limits: limits so far; updated
 * @own: limits of the next cpuset; other CPUs may change them
 *
 * The more restrictive value wins: disabled, the longer interval, migration on access,
 * the smaller number of sharers.
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

/* ---- faults that map a page which is not mapped yet ---- */

/**
 * follow_reaches() - Check whether a migrate_on_fault level covers a page
 * @level: 0 to 3, of the task's cpusets
 * @kind: kind of the page
 * @explicit: a policy was set for the page
 *
 * Files need the higher levels: many tasks on different nodes may read them.
 *
 * Return: true if it does.
 */
bool follow_reaches(unsigned int level, enum follow_kind kind, bool explicit)
{
	if (kind != FOLLOW_FILE)
		return level >= 1;
	return level >= 3 || (level == 2 && explicit);
}

/**
 * follow_home_take() - Set or renew the home of a file
 * @home: slot of the file; a home of another file in it is lost
 * @key: the file
 * @claim: the home; follow_claim_of()
 * @now: jiffies
 */
void follow_home_take(struct follow_home *home, unsigned long key,
		      unsigned int claim, unsigned long now)
{
	WRITE_ONCE(home->key, key);
	WRITE_ONCE(home->claim, claim);
	WRITE_ONCE(home->last, now);
}

/* Check whether the current second of @rate is not over yet. */
static bool same_second(const struct follow_rate *rate, unsigned long now,
			unsigned long second)
{
	return time_in_range_open(now, rate->began, rate->began + second);
}

/**
 * follow_rate_has() - Check the rate limit of a node
 * @rate: of the node; other CPUs may change it
 * @now: jiffies
 * @second: length of a second; jiffies
 * @limit: pages allowed within a second
 * @nr_pages: number of pages to move
 *
 * A folio larger than the limit may be the first of a second.
 *
 * Return: true if the limit allows the pages.
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
 * follow_rate_takes() - Take pages from the rate limit of a node
 * @rate: of the node; updated
 * @now: jiffies
 * @second: length of a second; jiffies
 * @limit: pages allowed within a second
 * @nr_pages: number of pages to move
 *
 * Return: true if the limit allows the pages. The caller returns pages that do not move
 * with follow_rate_returns().
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
 * follow_rate_returns() - Return pages that did not move to the rate limit
 * @rate: of the node
 * @now: jiffies
 * @second: length of a second; jiffies
 * @nr_pages: pages that follow_rate_takes() took
 *
 * Does nothing once their second is over.
 */
void follow_rate_returns(struct follow_rate *rate, unsigned long now,
			 unsigned long second, unsigned long nr_pages)
{
	if (same_second(rate, now, second))
		WRITE_ONCE(rate->pages,
			   rate->pages - min(rate->pages, nr_pages));
}
