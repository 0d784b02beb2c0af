// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic migration: what is decided without a page, a lock or a clock.
 *
 * When a task has settled on another node, whether its memory follows, which of
 * its threads does the work, which pages too many share, and what cpusets allow
 * together.  All of it is tested by itself in tests/decide_kunit.c.
 */
#include <linux/compiler.h>
#include <linux/jiffies.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/numa.h>
#include <linux/typecheck.h>

#include "decide.h"

/**
 * auto_settle - A task is at home on a node
 * @place: of the task
 * @node: where
 */
void auto_settle(struct auto_migrate_place *place, int node)
{
	place->node = node;
	place->away = NUMA_NO_NODE;
}

/**
 * auto_seen - A task was seen on a node
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
bool auto_seen(struct auto_migrate_place *place, int node, unsigned long now,
	       unsigned long settle, unsigned long interval)
{
	if (place->node == NUMA_NO_NODE || place->node == node) {
		auto_settle(place, node);
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
 * auto_action - Does the memory of a task follow it?
 * @facts: what is known of the task
 *
 * Others may still use from the old node what moves at once: so most of a process
 * has to be on the new one.  Else it moves by use, to whoever uses it.
 *
 * Return: AUTO_DIRECT, AUTO_LAZY, or why it does not.
 */
enum auto_action auto_action(const struct auto_facts *facts)
{
	if (!facts->node_fits)
		return AUTO_NODE;
	if (facts->policy)
		return AUTO_POLICY;
	if (facts->balancing)
		return AUTO_BALANCING;
	if (facts->borrowed)
		return AUTO_THREADS;
	if (facts->lazy)
		return AUTO_LAZY;
	return 2 * facts->there > facts->threads ? AUTO_DIRECT : AUTO_LAZY;
}

/**
 * auto_turn - Is it this thread that walks?
 * @claim: of the process
 * @from: node whose pages follow
 * @to: where they go
 * @lazy: this thread would only mark them
 * @now: jiffies
 * @lease: after so long without a sign, whoever walked is gone; jiffies
 * @interval: so long a walk that is done need not be done again; jiffies
 *
 * When a whole process moves, each of its threads comes to the same conclusion; but for
 * those that come first, when most are not there yet: what they mark the others move.
 *
 * Return: see enum auto_turn.
 */
enum auto_turn auto_turn(const struct auto_migrate_claim *claim, int from,
			 int to, bool lazy, unsigned long now,
			 unsigned long lease, unsigned long interval)
{
	if (!claim->taken || claim->from != from || claim->to != to ||
	    (claim->lazy && !lazy))
		return AUTO_TAKE;
	if (claim->done)
		return time_before(now, claim->when + interval) ? AUTO_DONE :
								  AUTO_TAKE;
	return time_before(now, claim->when + lease) ? AUTO_WAIT : AUTO_TAKE;
}

/**
 * auto_shared - Do too many processes share a folio?
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
bool auto_shared(bool likely, unsigned int mapcount, unsigned int nr_pages,
		 unsigned int max_mapcount)
{
	if (max_mapcount <= 1)
		return likely;
	return DIV_ROUND_UP(mapcount, nr_pages) > max_mapcount;
}

/**
 * auto_limit - What is left of some limits below a cpuset?
 * @limits: of the cpusets seen so far; more limited on return
 * @own: of this cpuset; others may change them
 *
 * The more restrained one wins each time: off, the longer interval, moving by
 * use, the smaller number of sharers.
 */
void auto_limit(struct auto_migrate_limits *limits,
		const struct auto_migrate_limits *own)
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
