/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The last user of a folio, where the field may hold a time.
 *
 * NUMA balancing keeps the CPU and PID of the last user in the flags of a folio. Its
 * tiering mode keeps the time of the hint scan there, for slow memory. After a change of
 * the mode such a time would be read as a CPU and PID, with a CPU that does not exist.
 * NUMA balancing checks for it only while the folio is on slow memory; migration to fast
 * memory for another reason copies the time.
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
 * known_cpupid() - Drop the last CPU and PID of a folio if there is no such CPU
 * @cpupid: CPU and PID from the flags of the folio
 *
 * Return: @cpupid, or that of no user if there is no such CPU. A time that happens to be
 * the number of a CPU stays: it costs one wrong guess.
 */
static inline int known_cpupid(int cpupid)
{
	if (cpupid_to_cpu(cpupid) < nr_cpu_ids)
		return cpupid;
	return -1 & LAST_CPUPID_MASK;
}

/**
 * moved_cpupid() - Get the last CPU and PID for a migrated folio
 * @to: new folio
 * @cpupid: CPU and PID from the flags of the old folio
 *
 * Return: @cpupid, or that of no user if there is no such CPU and @to is fast memory,
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
