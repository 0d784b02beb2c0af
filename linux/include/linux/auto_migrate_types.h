/* SPDX-License-Identifier: GPL-2.0 */
/* What tasks and cpusets carry for automatic migration; see auto_migrate.h. */
#ifndef _LINUX_AUTO_MIGRATE_TYPES_H
#define _LINUX_AUTO_MIGRATE_TYPES_H

#include <linux/types.h>

/**
 * struct auto_migrate_limits - what a cpuset allows its tasks
 * @enabled: memory follows a task to another node
 * @interval_s: seconds from one try to the next, at least
 * @lazy: pages move when they are used next, not at once
 * @max_mapcount: processes that may share a page that moves
 * @on_fault: which pages that nobody maps move when a fault maps them; a level
 *
 * Of one cpuset, or of all from a task's up to the root.
 */
struct auto_migrate_limits {
	unsigned int enabled;
	unsigned int interval_s;
	unsigned int lazy;
	unsigned int max_mapcount;
	unsigned int on_fault;
};

/**
 * struct auto_migrate_cpuset - what a cpuset keeps
 * @own: what its files say
 * @effective: what is left of it below those of its parents
 */
struct auto_migrate_cpuset {
	struct auto_migrate_limits own;
	struct auto_migrate_limits effective;
};

/**
 * struct auto_migrate_place - where a task is at home, and where it was seen
 * @node: home: where its memory should be; NUMA_NO_NODE if not yet known
 * @away: other node where it was seen last; NUMA_NO_NODE if it was at home
 * @since: first time it was seen there without a break; jiffies
 * @tried: last time its memory was to follow; jiffies
 * @has_tried: there was such a time
 */
struct auto_migrate_place {
	int node;
	int away;
	unsigned long since;
	unsigned long tried;
	bool has_tried;
};

/**
 * struct auto_migrate_walk - how memory follows
 * @on: there is address space left to look at
 * @mine: it is this thread that looks at it, not another one of its process
 * @lazy: pages are marked, not moved
 * @from: node whose pages follow
 * @max_mapcount: processes that may share such a page
 * @resume: where to go on
 * @until: so long marked pages move at the first access; jiffies
 */
struct auto_migrate_walk {
	bool on;
	bool mine;
	bool lazy;
	int from;
	unsigned int max_mapcount;
	unsigned long resume;
	unsigned long until;
};

/**
 * struct auto_migrate_claim - one thread walks for all of its process
 * @exec_id: self_exec_id of the program
 * @when: last sign of it; jiffies
 * @from: node whose pages follow
 * @to: where they go
 * @lazy: they are marked, not moved
 * @taken: there is or was such a walk
 * @done: it has come to the end
 */
struct auto_migrate_claim {
	u64 exec_id;
	unsigned long when;
	int from;
	int to;
	bool lazy;
	bool taken;
	bool done;
};

/**
 * struct auto_migrate_task - what automatic migration knows of a task
 * @work: the handler; its next points to itself while it is neither queued nor
 *	running, and only then the tick may touch the rest
 * @exec_id: self_exec_id of the program that all this is of
 * @place: where it is at home
 * @walk: how its memory follows
 * @claim: in the leader of a process: who walks; its siglock
 * @pulling: the page fault under way moves a page that follows
 */
struct auto_migrate_task {
	struct callback_head work;
	u64 exec_id;
	struct auto_migrate_place place;
	struct auto_migrate_walk walk;
	struct auto_migrate_claim claim;
	bool pulling;
};

#endif /* _LINUX_AUTO_MIGRATE_TYPES_H */
