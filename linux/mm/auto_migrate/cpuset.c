// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic migration: the files of a cgroup's cpuset that say who gets it.
 *
 *   cpuset.auto_migration         0 or 1
 *   cpuset.auto_migrate_interval  seconds
 *   cpuset.auto_migrate_lazy      0 or 1
 *   cpuset.migrate_max_mapcount   processes
 *   cpuset.migrate_on_fault       0 to 3, for mm/fault_migrate
 *
 * A cgroup begins with what its parent has.  What holds for a task is the most
 * restrained of all cgroups from its own up to, but without, the root; it is
 * looked up when it is needed, so that changes hold at once.
 *
 * Locks: limits_mutex for changes, inside of cgroup_mutex and outside of
 * cpu_hotplug_lock, which static keys take; RCU for reading, also in interrupts.
 */
#include <linux/cgroup.h>
#include <linux/fault_migrate.h>
#include <linux/init.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

#include "../../kernel/cgroup/cpuset-internal.h"
#include "auto_migrate.h"

#define INTERVAL_S	30
#define INTERVAL_MAX_S	86400
#define MAPCOUNT_MAX	1000000

DEFINE_STATIC_KEY_FALSE(auto_migrate_key);

#ifdef CONFIG_NUMA_FAULT_MIGRATE
DEFINE_STATIC_KEY_FALSE(fault_migrate_key);
#endif

/* Changes of limits, together with the keys */
static DEFINE_MUTEX(limits_mutex);

static void enable(struct auto_migrate_limits *own, unsigned int on)
{
	lockdep_assert_held(&limits_mutex);
	if (own->enabled == on)
		return;
	WRITE_ONCE(own->enabled, on);
	if (on)
		static_branch_inc(&auto_migrate_key);
	else
		static_branch_dec(&auto_migrate_key);
}

static void enable_on_fault(struct auto_migrate_limits *own, unsigned int level)
{
	lockdep_assert_held(&limits_mutex);
#ifdef CONFIG_NUMA_FAULT_MIGRATE
	if (!own->on_fault && level)
		static_branch_inc(&fault_migrate_key);
	if (own->on_fault && !level)
		static_branch_dec(&fault_migrate_key);
#endif
	WRITE_ONCE(own->on_fault, level);
}

/**
 * auto_limits_of - What do cpusets allow a task?
 * @p: the task
 * @limits: what they do
 *
 * Return: true if its memory may follow it.
 */
bool auto_limits_of(struct task_struct *p, struct auto_migrate_limits *limits)
{
	struct cpuset *cs;

	rcu_read_lock();
	cs = task_cs(p);
	*limits = (struct auto_migrate_limits) {
		.enabled = !!parent_cs(cs),
		.max_mapcount = MAPCOUNT_MAX,
		.on_fault = parent_cs(cs) ? FAULT_MIGRATE_LEVELS - 1 : 0,
	};
	for (; parent_cs(cs); cs = parent_cs(cs))
		auto_limit(limits, &cs->auto_migrate);
	rcu_read_unlock();
	return limits->enabled;
}

/**
 * auto_migrate_fault_level - What do cpusets let a task's faults move?
 * @p: the task
 *
 * Return: the level, 0 to 3.
 */
unsigned int auto_migrate_fault_level(struct task_struct *p)
{
	struct auto_migrate_limits limits;

	auto_limits_of(p, &limits);
	return limits.on_fault;
}

/**
 * auto_migrate_css_online - A cpuset begins with what its parent has
 * @css: of the cpuset, not the root
 */
void auto_migrate_css_online(struct cgroup_subsys_state *css)
{
	struct cpuset *cs = css_cs(css), *parent = parent_cs(cs);

	mutex_lock(&limits_mutex);
	cs->auto_migrate = (struct auto_migrate_limits) {
		.interval_s = INTERVAL_S,
		.max_mapcount = 1,
	};
	if (parent_cs(parent)) {
		cs->auto_migrate = parent->auto_migrate;
		cs->auto_migrate.enabled = 0;
		cs->auto_migrate.on_fault = 0;
		enable(&cs->auto_migrate, parent->auto_migrate.enabled);
		enable_on_fault(&cs->auto_migrate,
				parent->auto_migrate.on_fault);
	}
	mutex_unlock(&limits_mutex);
}

/**
 * auto_migrate_css_offline - A cpuset is gone
 * @css: of the cpuset; nobody writes to its files any more
 */
void auto_migrate_css_offline(struct cgroup_subsys_state *css)
{
	mutex_lock(&limits_mutex);
	enable(&css_cs(css)->auto_migrate, 0);
	enable_on_fault(&css_cs(css)->auto_migrate, 0);
	mutex_unlock(&limits_mutex);
}

/* ---- files ---- */

static unsigned int *value_of(struct cgroup_subsys_state *css,
			      const struct cftype *cft)
{
	return (void *)&css_cs(css)->auto_migrate + cft->private;
}

static u64 read_value(struct cgroup_subsys_state *css, struct cftype *cft)
{
	return READ_ONCE(*value_of(css, cft));
}

static int write_enabled(struct cgroup_subsys_state *css, struct cftype *cft,
			 u64 val)
{
	if (val > 1)
		return -EINVAL;
	mutex_lock(&limits_mutex);
	enable(&css_cs(css)->auto_migrate, val);
	mutex_unlock(&limits_mutex);
	return 0;
}

static int write_value(struct cgroup_subsys_state *css, struct cftype *cft,
		       u64 val)
{
	mutex_lock(&limits_mutex);
	WRITE_ONCE(*value_of(css, cft), val);
	mutex_unlock(&limits_mutex);
	return 0;
}

static int write_lazy(struct cgroup_subsys_state *css, struct cftype *cft,
		      u64 val)
{
	return val > 1 ? -EINVAL : write_value(css, cft, val);
}

static int write_interval(struct cgroup_subsys_state *css, struct cftype *cft,
			  u64 val)
{
	return val < 1 || val > INTERVAL_MAX_S ? -ERANGE :
						 write_value(css, cft, val);
}

static int write_mapcount(struct cgroup_subsys_state *css, struct cftype *cft,
			  u64 val)
{
	return val < 1 || val > MAPCOUNT_MAX ? -ERANGE :
					       write_value(css, cft, val);
}

#ifdef CONFIG_NUMA_FAULT_MIGRATE
static int write_on_fault(struct cgroup_subsys_state *css, struct cftype *cft,
			  u64 val)
{
	if (val >= FAULT_MIGRATE_LEVELS)
		return -EINVAL;
	mutex_lock(&limits_mutex);
	enable_on_fault(&css_cs(css)->auto_migrate, val);
	mutex_unlock(&limits_mutex);
	return 0;
}
#endif

static struct cftype auto_migrate_files[] = {
	{
		.name = "auto_migration",
		.read_u64 = read_value,
		.write_u64 = write_enabled,
		.private = offsetof(struct auto_migrate_limits, enabled),
		.flags = CFTYPE_NOT_ON_ROOT,
	},
	{
		.name = "auto_migrate_interval",
		.read_u64 = read_value,
		.write_u64 = write_interval,
		.private = offsetof(struct auto_migrate_limits, interval_s),
		.flags = CFTYPE_NOT_ON_ROOT,
	},
	{
		.name = "auto_migrate_lazy",
		.read_u64 = read_value,
		.write_u64 = write_lazy,
		.private = offsetof(struct auto_migrate_limits, lazy),
		.flags = CFTYPE_NOT_ON_ROOT,
	},
	{
		.name = "migrate_max_mapcount",
		.read_u64 = read_value,
		.write_u64 = write_mapcount,
		.private = offsetof(struct auto_migrate_limits, max_mapcount),
		.flags = CFTYPE_NOT_ON_ROOT,
	},
#ifdef CONFIG_NUMA_FAULT_MIGRATE
	{
		.name = "migrate_on_fault",
		.read_u64 = read_value,
		.write_u64 = write_on_fault,
		.private = offsetof(struct auto_migrate_limits, on_fault),
		.flags = CFTYPE_NOT_ON_ROOT,
	},
#endif
	{ }	/* terminate */
};

static int __init auto_migrate_files_init(void)
{
	return cgroup_add_dfl_cftypes(&cpuset_cgrp_subsys, auto_migrate_files);
}
subsys_initcall(auto_migrate_files_init);
