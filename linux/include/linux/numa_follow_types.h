/* SPDX-License-Identifier: GPL-2.0 */
/* Pages that follow: what cpusets keep.  Others go through <linux/numa_follow.h>. */
#ifndef _LINUX_NUMA_FOLLOW_TYPES_H
#define _LINUX_NUMA_FOLLOW_TYPES_H

/**
 * struct numa_follow_limits - what a cpuset allows its tasks
 * @enabled: memory follows a task to another node
 * @interval_s: seconds from one try to the next, at least
 * @lazy: pages move when they are used next, not at once
 * @max_mapcount: processes that may share a page that moves
 * @on_fault: which pages that nobody maps move when a fault maps them; a level
 *
 * Of one cpuset, or of all from a task's up to the root.
 */
struct numa_follow_limits {
	unsigned int enabled;
	unsigned int interval_s;
	unsigned int lazy;
	unsigned int max_mapcount;
	unsigned int on_fault;
};

/**
 * struct numa_follow_cpuset - what a cpuset keeps
 * @own: what its files say
 * @effective: what is left of it below those of its parents
 */
struct numa_follow_cpuset {
	struct numa_follow_limits own;
	struct numa_follow_limits effective;
};

void numa_follow_limit(struct numa_follow_limits *limits,
		       const struct numa_follow_limits *own);

#endif /* _LINUX_NUMA_FOLLOW_TYPES_H */
