/* SPDX-License-Identifier: GPL-2.0 */
/* Automatic NUMA migration: state of a cpuset. Use <linux/numa_follow.h> elsewhere. */
#ifndef _LINUX_NUMA_FOLLOW_TYPES_H
#define _LINUX_NUMA_FOLLOW_TYPES_H

/**
 * struct numa_follow_limits - limits that a cpuset sets for its tasks
 * @enabled: memory moves with a task to another node
 * @interval_s: least time between two migrations, in seconds
 * @lazy: pages move at their next access, not at once
 * @max_mapcount: largest number of processes that may share a page that moves
 * @on_fault: level of migrate_on_fault: which unmapped pages a fault moves before
 *	it maps them
 *
 * Of one cpuset, or combined from a task's cpuset up to the root.
 */
struct numa_follow_limits {
	unsigned int enabled;
	unsigned int interval_s;
	unsigned int lazy;
	unsigned int max_mapcount;
	unsigned int on_fault;
};

/**
 * struct numa_follow_cpuset - state of a cpuset
 * @own: values of its files
 * @effective: @own combined with the limits of its ancestors
 */
struct numa_follow_cpuset {
	struct numa_follow_limits own;
	struct numa_follow_limits effective;
};

void numa_follow_limit(struct numa_follow_limits *limits,
		       const struct numa_follow_limits *own);

#endif /* _LINUX_NUMA_FOLLOW_TYPES_H */
