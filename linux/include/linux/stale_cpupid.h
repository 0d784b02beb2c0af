/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Who used a folio last, where that may be a time.
 *
 * NUMA balancing keeps the CPU and PID of the last user in a folio's flags. Its
 * tiering mode keeps there, for slow memory, when the folio was marked. Once the mode
 * has changed such a time is taken for a CPU and PID, and names CPUs that do not
 * exist. NUMA balancing asks, but only while the folio is slow; what brings it to
 * fast memory for other reasons takes the time along.
 */
#ifndef _LINUX_STALE_CPUPID_H
#define _LINUX_STALE_CPUPID_H

#include <linux/cpumask.h>
#include <linux/memory-tiers.h>
#include <linux/mm.h>

/* Code that moves folios to fast memory asserts that the checks below are compiled in. */
#if defined(CONFIG_NUMA_BALANCING) &&					\
	(defined(CONFIG_MTIER) || defined(CONFIG_NUMA_FOLLOW))
#define STALE_CPUPID	1

/**
 * known_cpupid() - who used a folio last
 * @cpupid: what the folio says
 *
 * Return: @cpupid, or that of nobody if there is no such CPU. A time that happens to
 * name one stays: it costs a wrong guess and no more.
 */
static inline int known_cpupid(int cpupid)
{
	if (cpupid_to_cpu(cpupid) < nr_cpu_ids)
		return cpupid;
	return -1 & LAST_CPUPID_MASK;
}

/**
 * moved_cpupid() - what a migrated folio says about who used it last
 * @to: where it is now
 * @cpupid: what it said before
 *
 * Return: @cpupid, or that of nobody if it cannot be one and @to is fast memory,
 * where no mode keeps times.
 */
static inline int moved_cpupid(struct folio *to, int cpupid)
{
	return node_is_toptier(folio_nid(to)) ? known_cpupid(cpupid) : cpupid;
}
#else
#define STALE_CPUPID	0

static inline int known_cpupid(int cpupid)
{
	return cpupid;
}

static inline int moved_cpupid(struct folio *to, int cpupid)
{
	return cpupid;
}
#endif

#endif /* _LINUX_STALE_CPUPID_H */
