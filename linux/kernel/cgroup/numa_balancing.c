// SPDX-License-Identifier: GPL-2.0
/*
 * cpuset.numa_balancing: exclude the processes of a cpuset from NUMA balancing scans.
 *
 * cpuset.numa_balancing		0 or 1
 * cpuset.numa_balancing.effective	0 or 1, read only
 *
 * A new cpuset starts with 1, which restricts nothing. A cpuset with 0 opts out its
 * processes and those of all its descendants, whatever their values. A process belongs to
 * the cpuset of the thread that owns its address space (mm->owner), as for the memory
 * controller: a scan makes pages fault in all threads, so there is one value for all of
 * them. The owner is the first thread, and another one after it has exited.
 *
 * Lookups walk from the cpuset up to the root. They are rare: once for a scan pass that
 * is due, for each of its slices, and for faults on marked pages (mm/follow). The static
 * key is off until the first cpuset opts out. It is switched off one second after the
 * last one has opted in or is removed, so that a user who may write to the file cannot
 * cause frequent code patching.
 *
 * Locking: numa_scan_off_mutex for changes, inside of cgroup_mutex and outside of
 * cpu_hotplug_lock, which static keys take. RCU for lookups.
 */
#include <linux/cgroup.h>
#include <linux/init.h>
#include <linux/jump_label_ratelimit.h>
#include <linux/mm_types.h>
#include <linux/mutex.h>
#include <linux/numa_scan.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

#include "cpuset-internal.h"

/* Number of cpusets with value 0 */
DEFINE_STATIC_KEY_DEFERRED_FALSE(numa_scan_off_key, HZ);

/* Serialises changes of the flag of a cpuset, together with the key */
static DEFINE_MUTEX(numa_scan_off_mutex);

static void numa_scan_set_off(struct cpuset *cs, bool off)
{
	mutex_lock(&numa_scan_off_mutex);
	if (off && !cs->numa_scan_off)
		static_branch_deferred_inc(&numa_scan_off_key);
	if (!off && cs->numa_scan_off)
		static_branch_slow_dec_deferred(&numa_scan_off_key);
	WRITE_ONCE(cs->numa_scan_off, off);
	mutex_unlock(&numa_scan_off_mutex);
}

/* Check whether the cpuset or an ancestor has opted out. The root has no file. */
static bool numa_scan_cpuset_off(struct cpuset *cs)
{
	for (; cs; cs = parent_cs(cs))
		if (READ_ONCE(cs->numa_scan_off))
			return true;
	return false;
}

/**
 * __numa_scan_off() - Check whether the cgroup of an address space has opted out
 * @mm: the mm; NULL for a kernel thread
 *
 * Return: true if NUMA balancing must not scan it.
 */
bool __numa_scan_off(struct mm_struct *mm)
{
	struct task_struct *owner;
	bool off;

	if (!mm)
		return false;
	rcu_read_lock();
	/* NULL if the last user is exiting */
	owner = rcu_dereference(mm->owner);
	off = owner && numa_scan_cpuset_off(task_cs(owner));
	rcu_read_unlock();
	return off;
}

/**
 * numa_scan_css_offline() - Clear the opt-out of a cpuset
 * @css: css of the cpuset, whose files are removed
 */
void numa_scan_css_offline(struct cgroup_subsys_state *css)
{
	numa_scan_set_off(css_cs(css), false);
}

/* ---- files ---- */

static u64 numa_balancing_read(struct cgroup_subsys_state *css,
			       struct cftype *cft)
{
	return !READ_ONCE(css_cs(css)->numa_scan_off);
}

static u64 numa_balancing_read_effective(struct cgroup_subsys_state *css,
					 struct cftype *cft)
{
	bool off;

	rcu_read_lock();
	off = numa_scan_cpuset_off(css_cs(css));
	rcu_read_unlock();
	return !off;
}

static int numa_balancing_write(struct cgroup_subsys_state *css,
				struct cftype *cft, u64 val)
{
	if (val > 1)
		return -EINVAL;
	numa_scan_set_off(css_cs(css), !val);
	return 0;
}

static struct cftype numa_balancing_files[] = {
	{
		.name = "numa_balancing",
		.flags = CFTYPE_NOT_ON_ROOT,
		.read_u64 = numa_balancing_read,
		.write_u64 = numa_balancing_write,
	},
	{
		.name = "numa_balancing.effective",
		.flags = CFTYPE_NOT_ON_ROOT,
		.read_u64 = numa_balancing_read_effective,
	},
	{ }	/* terminate */
};

static int __init numa_balancing_files_init(void)
{
	return cgroup_add_dfl_cftypes(&cpuset_cgrp_subsys, numa_balancing_files);
}
subsys_initcall(numa_balancing_files_init);
