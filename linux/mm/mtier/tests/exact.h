/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Exact counters, for tests that run while the machine does nothing else.
 */
#ifndef _MM_MTIER_TESTS_EXACT_H
#define _MM_MTIER_TESTS_EXACT_H

#include <linux/cpumask.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/sched/mm.h>
#include <linux/vmstat.h>

/* Read a counter of a node, with the changes that are still in per-CPU counters. */
static inline long exact_node_stat(int nid, enum node_stat_item item)
{
	pg_data_t *pgdat = NODE_DATA(nid);
	long sum = atomic_long_read(&pgdat->vm_stat[item]);
	int cpu;

	for_each_online_cpu(cpu)
		sum += per_cpu_ptr(pgdat->per_cpu_nodestats,
				   cpu)->vm_node_stat_diff[item];
	return sum;
}

static inline unsigned long exact_event(enum vm_event_item item)
{
	unsigned long sum = 0;
	int cpu;

	for_each_online_cpu(cpu)
		sum += per_cpu(vm_event_states, cpu).event[item];
	return sum;
}

/*
 * Release the address space of a test, and free its pages at once. KUnit waits for
 * the thread of a test, but a thread signals its end before its mm is torn down. So
 * the next test would count the pages of this one.
 */
static inline void exact_leave_mm(struct mm_struct *mm)
{
	if (!mm)
		return;
	kthread_use_mm(mm);
	vm_munmap(0, TASK_SIZE);
	kthread_unuse_mm(mm);
	mmput(mm);
}

#endif /* _MM_MTIER_TESTS_EXACT_H */
