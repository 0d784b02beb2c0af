/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory follows a task that the scheduler has moved to another node: the calls
 * that the scheduler, cpusets and mpol_misplaced() make.  All of them are empty
 * without CONFIG_NUMA_AUTO_MIGRATE, and a nop until a cpuset asks for it.  See
 * mm/auto_migrate/task.c.
 */
#ifndef _LINUX_AUTO_MIGRATE_H
#define _LINUX_AUTO_MIGRATE_H

#include <linux/jump_label.h>
#include <linux/sched.h>

struct cgroup_subsys_state;
struct folio;
struct mempolicy;
struct vm_area_struct;

#ifdef CONFIG_NUMA_AUTO_MIGRATE

/* Counts the cpusets with auto_migration */
DECLARE_STATIC_KEY_FALSE(auto_migrate_key);

void auto_migrate_init(struct task_struct *p);
void __auto_migrate_tick(struct task_struct *p);
void auto_migrate_css_online(struct cgroup_subsys_state *css);
void auto_migrate_css_offline(struct cgroup_subsys_state *css);
bool __auto_migrate_follows(const struct mempolicy *pol, struct folio *folio);
bool auto_migrate_takes(struct vm_area_struct *vma, unsigned long addr,
			struct folio *folio, int nid);
bool auto_migrate_pulled(unsigned long addr, int nid, unsigned long pages,
			 bool neighbour);

/**
 * auto_migrate_tick - See where the task is that a tick interrupts
 * @p: task that runs on this CPU
 *
 * Called with interrupts off and without locks.
 */
static inline void auto_migrate_tick(struct task_struct *p)
{
	if (static_branch_unlikely(&auto_migrate_key))
		__auto_migrate_tick(p);
}

/**
 * auto_migrate_follows - Does a page follow the task that touches it?
 * @pol: policy of the page
 * @folio: folio of a hint fault, under its page table lock
 *
 * Return: true if it moves, whoever used it before.
 */
static inline bool auto_migrate_follows(const struct mempolicy *pol,
					struct folio *folio)
{
	return static_branch_unlikely(&auto_migrate_key) &&
	       __auto_migrate_follows(pol, folio);
}

#else /* CONFIG_NUMA_AUTO_MIGRATE */

static inline void auto_migrate_init(struct task_struct *p)
{
}

static inline void auto_migrate_tick(struct task_struct *p)
{
}

static inline void auto_migrate_css_online(struct cgroup_subsys_state *css)
{
}

static inline void auto_migrate_css_offline(struct cgroup_subsys_state *css)
{
}

static inline bool auto_migrate_follows(const struct mempolicy *pol,
					struct folio *folio)
{
	return false;
}

static inline bool auto_migrate_takes(struct vm_area_struct *vma,
				      unsigned long addr, struct folio *folio,
				      int nid)
{
	return false;
}

static inline bool auto_migrate_pulled(unsigned long addr, int nid,
				       unsigned long pages, bool neighbour)
{
	return false;
}

#endif /* CONFIG_NUMA_AUTO_MIGRATE */

#endif /* _LINUX_AUTO_MIGRATE_H */
