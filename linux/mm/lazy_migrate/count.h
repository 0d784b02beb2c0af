/* SPDX-License-Identifier: GPL-2.0 */
/* Counters of pages that follow: in /proc/vmstat and in memory.stat. */
#ifndef _MM_LAZY_MIGRATE_COUNT_H
#define _MM_LAZY_MIGRATE_COUNT_H

#include <linux/memcontrol.h>
#include <linux/sched.h>
#include <linux/vmstat.h>

/**
 * count_follow_events - Count what became of pages of the current task
 * @item: the event
 * @nr: how often, mostly pages
 *
 * For the system, and for the cgroup whose memory the task's is.
 */
static inline void count_follow_events(enum vm_event_item item,
				       unsigned long nr)
{
	if (!nr)
		return;
	count_vm_events(item, nr);
	if (current->mm)
		count_memcg_events_mm(current->mm, item, nr);
}

#endif /* _MM_LAZY_MIGRATE_COUNT_H */
