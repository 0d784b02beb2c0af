/* SPDX-License-Identifier: GPL-2.0 */
/* Automatic migration: what the files here share. */
#ifndef _MM_AUTO_MIGRATE_H
#define _MM_AUTO_MIGRATE_H

#include <linux/auto_migrate.h>
#include <linux/bits.h>
#include <linux/compiler.h>
#include <linux/mm_types.h>

#include "decide.h"

/* ---- task.c ---- */

bool auto_migrate_current(const struct auto_migrate_task *a);

/* ---- slice.c ---- */

bool auto_default_policy(struct vm_area_struct *vma, unsigned long addr);
bool auto_shared_folio(struct folio *folio, unsigned int max_mapcount);
bool auto_slice(struct auto_migrate_walk *walk, int to);

/* ---- cpuset.c ---- */

bool auto_limits_of(struct task_struct *p, struct auto_migrate_limits *limits);

/* ---- sabotage.c ---- */

/* Bits of the debugfs file auto_migrate/sabotage */
enum auto_sabotage {
	AUTO_SAB_SETTLE,	/* a task need not stay */
	AUTO_SAB_INTERVAL,	/* tries follow each other at once */
	AUTO_SAB_FRESH,		/* a new task or program has its parent's home */
	AUTO_SAB_BALANCING,	/* NUMA balancing's choice does not count */
	AUTO_SAB_THREADS,	/* nor does where most threads run */
	AUTO_SAB_NODE,		/* nor does cpuset.mems */
	AUTO_SAB_POLICY,	/* memory that a policy binds follows, too */
	AUTO_SAB_SHARED,	/* and memory that others share */
	AUTO_SAB_TREE,		/* only the task's own cgroup counts */
	AUTO_SAB_LEAK,		/* a cgroup that goes leaves the key on */
	AUTO_SAB_FILTER,	/* marked pages have to be used twice */
	AUTO_SAB_COUNT,		/* what moves is not counted */
};

#ifdef CONFIG_NUMA_AUTO_MIGRATE_SABOTAGE
extern u32 auto_sabotage_mask;

static inline bool auto_sabotaged(enum auto_sabotage what)
{
	return unlikely(READ_ONCE(auto_sabotage_mask) & BIT(what));
}
#else
static inline bool auto_sabotaged(enum auto_sabotage what)
{
	return false;
}
#endif

#endif /* _MM_AUTO_MIGRATE_H */
