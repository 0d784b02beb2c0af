// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic NUMA migration: files of a cgroup's cpuset that enable and limit it.
 *
 * cpuset.auto_migration         0 or 1
 * cpuset.auto_migrate_interval  seconds
 * cpuset.auto_migrate_lazy      0 or 1
 * cpuset.migrate_max_mapcount   processes
 * cpuset.migrate_on_fault       0 to 3
 *
 * A cgroup starts with the values of its parent. The effective value for a task is the
 * most restrictive one of all cgroups from its own up to the root, without the root. Each
 * cpuset caches its effective values, and each change updates all descendants at once. So
 * page faults of tasks with a default policy pay two loads at any depth. The files with
 * suffix .effective show these values.
 *
 * Locking: limits_mutex for changes, inside of cgroup_mutex and outside of
 * cpu_hotplug_lock, which static keys take; RCU for readers, also in interrupts.
 */
#include <linux/cgroup.h>
#include <linux/init.h>
#include <linux/mutex.h>
#include <linux/numa_follow.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

#include "cpuset-internal.h"

#define INTERVAL_S	30
#define INTERVAL_MAX_S	86400
#define MAPCOUNT_MAX	1000000

DEFINE_STATIC_KEY_FALSE(numa_follow_tasks);
DEFINE_STATIC_KEY_FALSE(numa_follow_faults);

/* Serialises changes of limits, together with the keys */
static DEFINE_MUTEX(limits_mutex);

/* Set a value of a cpuset, and update the key that counts values other than 0. */
static void set_counted(struct static_key_false *key, unsigned int *value,
			unsigned int to)
{
	lockdep_assert_held(&limits_mutex);
	if (!*value && to)
		static_branch_inc(key);
	if (*value && !to)
		static_branch_dec(key);
	WRITE_ONCE(*value, to);
}

static void enable(struct numa_follow_limits *own, unsigned int on)
{
	set_counted(&numa_follow_tasks, &own->enabled, on);
}

static void enable_on_fault(struct numa_follow_limits *own, unsigned int level)
{
	set_counted(&numa_follow_faults, &own->on_fault, level);
}

static struct numa_follow_limits read_limits(const struct numa_follow_limits *of)
{
	return (struct numa_follow_limits) {
		.enabled = READ_ONCE(of->enabled),
		.interval_s = READ_ONCE(of->interval_s),
		.lazy = READ_ONCE(of->lazy),
		.max_mapcount = READ_ONCE(of->max_mapcount),
		.on_fault = READ_ONCE(of->on_fault),
	};
}

/* Readers run concurrently and read each value separately. */
static void write_limits(struct numa_follow_limits *to,
			 const struct numa_follow_limits *limits)
{
	WRITE_ONCE(to->enabled, limits->enabled);
	WRITE_ONCE(to->interval_s, limits->interval_s);
	WRITE_ONCE(to->lazy, limits->lazy);
	WRITE_ONCE(to->max_mapcount, limits->max_mapcount);
	WRITE_ONCE(to->on_fault, limits->on_fault);
}

/* Update the effective values of a cpuset. Those of its parent are up to date. */
static void restrain(struct cpuset *cs)
{
	struct numa_follow_limits limits = cs->numa_follow.own;
	struct cpuset *parent = parent_cs(cs);

	lockdep_assert_held(&limits_mutex);
	if (parent_cs(parent))
		numa_follow_limit(&limits, &parent->numa_follow.effective);
	write_limits(&cs->numa_follow.effective, &limits);
}

/* Update a changed cpuset and its descendants, parents first. */
static void carry_down(struct cgroup_subsys_state *css)
{
	struct cgroup_subsys_state *pos;

	rcu_read_lock();
	css_for_each_descendant_pre(pos, css)
		restrain(css_cs(pos));
	rcu_read_unlock();
}

/**
 * numa_follow_limits_of() - Get the effective limits of a task
 * @p: the task
 * @limits: set to the limits
 *
 * Return: true if automatic migration is enabled for the task.
 */
bool numa_follow_limits_of(struct task_struct *p, struct numa_follow_limits *limits)
{
	rcu_read_lock();
	*limits = read_limits(&task_cs(p)->numa_follow.effective);
	rcu_read_unlock();
	return limits->enabled;
}

/**
 * __numa_follow_level() - Get the effective migrate_on_fault level of the current task
 *
 * Return: the level, 0 to 3.
 */
unsigned int __numa_follow_level(void)
{
	unsigned int level;

	rcu_read_lock();
	level = READ_ONCE(task_cs(current)->numa_follow.effective.on_fault);
	rcu_read_unlock();
	return level;
}

/**
 * numa_follow_css_online() - Initialize a cpuset with the values of its parent
 * @css: css of the cpuset, not the root
 */
void numa_follow_css_online(struct cgroup_subsys_state *css)
{
	struct cpuset *cs = css_cs(css), *parent = parent_cs(cs);
	const struct numa_follow_limits *above = &parent->numa_follow.own;
	struct numa_follow_limits *own = &cs->numa_follow.own;

	mutex_lock(&limits_mutex);
	*own = (struct numa_follow_limits) {
		.interval_s = INTERVAL_S,
		.max_mapcount = 1,
	};
	if (parent_cs(parent)) {
		*own = *above;
		own->enabled = 0;
		own->on_fault = 0;
		enable(own, above->enabled);
		enable_on_fault(own, above->on_fault);
	}
	restrain(cs);
	mutex_unlock(&limits_mutex);
}

/**
 * numa_follow_css_offline() - Disable migration for a removed cpuset
 * @css: css of the cpuset; its files have no writers left
 */
void numa_follow_css_offline(struct cgroup_subsys_state *css)
{
	mutex_lock(&limits_mutex);
	enable(&css_cs(css)->numa_follow.own, 0);
	enable_on_fault(&css_cs(css)->numa_follow.own, 0);
	restrain(css_cs(css));
	mutex_unlock(&limits_mutex);
}

/* ---- files ---- */

static unsigned int *value_of(struct cgroup_subsys_state *css,
			      const struct cftype *cft)
{
	return (void *)&css_cs(css)->numa_follow.own + cft->private;
}

static u64 read_value(struct cgroup_subsys_state *css, struct cftype *cft)
{
	return READ_ONCE(*value_of(css, cft));
}

static u64 read_effective(struct cgroup_subsys_state *css, struct cftype *cft)
{
	void *limits = &css_cs(css)->numa_follow.effective;

	return READ_ONCE(*(unsigned int *)(limits + cft->private));
}

static int write_enabled(struct cgroup_subsys_state *css, struct cftype *cft,
			 u64 val)
{
	if (val > 1)
		return -EINVAL;
	mutex_lock(&limits_mutex);
	enable(&css_cs(css)->numa_follow.own, val);
	carry_down(css);
	mutex_unlock(&limits_mutex);
	return 0;
}

static int write_value(struct cgroup_subsys_state *css, struct cftype *cft,
		       u64 val)
{
	mutex_lock(&limits_mutex);
	WRITE_ONCE(*value_of(css, cft), val);
	carry_down(css);
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

static int write_on_fault(struct cgroup_subsys_state *css, struct cftype *cft,
			  u64 val)
{
	if (val >= NUMA_FOLLOW_LEVELS)
		return -EINVAL;
	mutex_lock(&limits_mutex);
	enable_on_fault(&css_cs(css)->numa_follow.own, val);
	carry_down(css);
	mutex_unlock(&limits_mutex);
	return 0;
}

/* Fields common to both files of a limit */
#define LIMIT(field)							\
	.private = offsetof(struct numa_follow_limits, field),		\
	.flags = CFTYPE_NOT_ON_ROOT

static struct cftype numa_follow_files[] = {
	{
		.name = "auto_migration",
		.read_u64 = read_value,
		.write_u64 = write_enabled,
		LIMIT(enabled),
	},
	{
		.name = "auto_migration.effective",
		.read_u64 = read_effective,
		LIMIT(enabled),
	},
	{
		.name = "auto_migrate_interval",
		.read_u64 = read_value,
		.write_u64 = write_interval,
		LIMIT(interval_s),
	},
	{
		.name = "auto_migrate_interval.effective",
		.read_u64 = read_effective,
		LIMIT(interval_s),
	},
	{
		.name = "auto_migrate_lazy",
		.read_u64 = read_value,
		.write_u64 = write_lazy,
		LIMIT(lazy),
	},
	{
		.name = "auto_migrate_lazy.effective",
		.read_u64 = read_effective,
		LIMIT(lazy),
	},
	{
		.name = "migrate_max_mapcount",
		.read_u64 = read_value,
		.write_u64 = write_mapcount,
		LIMIT(max_mapcount),
	},
	{
		.name = "migrate_max_mapcount.effective",
		.read_u64 = read_effective,
		LIMIT(max_mapcount),
	},
	{
		.name = "migrate_on_fault",
		.read_u64 = read_value,
		.write_u64 = write_on_fault,
		LIMIT(on_fault),
	},
	{
		.name = "migrate_on_fault.effective",
		.read_u64 = read_effective,
		LIMIT(on_fault),
	},
	{ }	/* terminate */
};

static int __init numa_follow_files_init(void)
{
	return cgroup_add_dfl_cftypes(&cpuset_cgrp_subsys, numa_follow_files);
}
subsys_initcall(numa_follow_files_init);
