// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: nodes that the tasks of an address space allow.
 *
 * Each thread has its own memory policy, and can have its own cpuset. They apply to the
 * pages that the thread allocates. The Accessed bit does not show which thread used a
 * page, and nothing shows which one allocated it. But a page on a node that a thread
 * may not allocate from was not allocated by this thread, unless it was migrated since.
 *
 * So the rules of a thread apply to promotions if its nodes include a slow node, and to
 * demotions if they include a node that pages are demoted from. A page may migrate to
 * the nodes that all of these threads allow. If there are none, all threads are asked.
 * A thread bound to a slow node keeps the pages of its process on slow memory that have
 * no VMA policy. A thread bound to DRAM keeps such pages in DRAM. Neither keeps pages in
 * the other direction.
 *
 * An mm can have users in other thread groups, after vfork() for instance. Their rules
 * apply as well. If mm_users is larger than the number of threads of the owner, all
 * processes are searched for them.
 *
 * All threads are read. Most have no policy, and the cpuset of the thread before them:
 * then two pointers are compared. A result is valid for 20 ms, or for 100 times the time
 * that reading took, but at most 0.1 s. So reading takes at most 1 % of a CPU for each
 * address space that kmtierd works on, and much less for each of hundreds that share
 * memory. A new policy holds after 0.1 s at the latest. If the threads cannot all be read,
 * no node is allowed until the next attempt.
 *
 * Locking: RCU for the lists of tasks; below it task_lock(), or the cpuset lock.
 */
#include <linux/cgroup.h>
#include <linux/cpuset.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched/clock.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>

#include "eligible.h"
#include "mtier.h"

/* Threads that are read without a pause. */
#define MTIER_READ_THREADS	1024
/* A result is valid for this many times the time that reading took... */
#define MTIER_RULES_TIMES	100
/* ...at least for this time... */
#define MTIER_RULES_LEAST_NS	(20ULL * NSEC_PER_MSEC)
/* ...but not longer than this. */
#define MTIER_RULES_AGE_NS	(100ULL * NSEC_PER_MSEC)
/* A search of all processes is followed by a rest of this many times its time. */
#define MTIER_PEERS_TIMES	50

/**
 * struct mtier_allow - nodes that tasks allow as targets of migrations
 * @all: nodes that all tasks allow
 * @bound: nodes that all tasks allow which can have allocated pages on the source
 * @any: there is such a task
 */
struct mtier_allow {
	nodemask_t all;
	nodemask_t bound;
	bool any;
};

/**
 * struct mtier_reading - state of reading the tasks of an address space
 * @mm: the address space
 * @from: nodes that pages migrate from, by tier
 * @policy: nodes that cpusets and policies allow, by the tier that pages leave
 * @cpuset: nodes that cpusets allow, likewise
 * @mems: nodes of the cpuset of the last task
 * @css: that cpuset; compared only. NULL: it is not known
 * @plain: a task in that cpuset without a policy was added
 * @users: number of tasks of the address space
 * @left: number of tasks that can be read before a pause
 */
struct mtier_reading {
	struct mm_struct *mm;
	nodemask_t from[MTIER_SIDES];
	struct mtier_allow policy[MTIER_SIDES];
	struct mtier_allow cpuset[MTIER_SIDES];
	nodemask_t mems;
	const void *css;
	bool plain;
	int users;
	unsigned int left;
};

/* Used by kmtierd alone, and too large for its stack. */
static struct mtier_reading mtier_reading;
/* Time before which processes are not searched again. */
static u64 mtier_peers_next_ns;

/* ---- one task ---- */

/**
 * mtier_policy_mask() - Clear the nodes that a policy forbids as migration targets.
 * @pol: the policy; NULL if there is none
 * @down: the migration is a demotion
 * @mask: nodes
 */
void mtier_policy_mask(struct mempolicy *pol, bool down, nodemask_t *mask)
{
	if (!pol)
		return;
	switch (pol->mode) {
	case MPOL_DEFAULT:
	case MPOL_LOCAL:
		return;
	case MPOL_PREFERRED:
	case MPOL_PREFERRED_MANY:
		/* The policy requested this node, so the page is not demoted. */
		if (down)
			break;
		fallthrough;
	case MPOL_BIND:
		nodes_and(*mask, *mask, pol->nodes);
		return;
	default:
		/* Interleaving: the page is on the node that its policy chose. */
		break;
	}
	nodes_clear(*mask);
}

/* Get the nodes of @mems that a policy allocates from, fallbacks left out. */
static nodemask_t mtier_policy_own(struct mempolicy *pol, const nodemask_t *mems)
{
	nodemask_t own = *mems;

	if (pol && pol->mode != MPOL_DEFAULT && pol->mode != MPOL_LOCAL)
		nodes_and(own, own, pol->nodes);
	return own;
}

/* Add a task that allocates from @own, and allows @to, to a result. */
static void mtier_allow_add(struct mtier_allow *a, const nodemask_t *from,
			    const nodemask_t *own, const nodemask_t *to)
{
	nodes_and(a->all, a->all, *to);
	if (!nodes_intersects(*own, *from))
		return;
	nodes_and(a->bound, a->bound, *to);
	a->any = true;
}

static const nodemask_t *mtier_allow_result(const struct mtier_allow *a)
{
	return a->any ? &a->bound : &a->all;
}

/* Add the cpuset of a task. */
static void mtier_read_cpuset(struct mtier_reading *r)
{
	u32 side;

	for (side = 0; side < MTIER_SIDES; side++)
		mtier_allow_add(&r->cpuset[side], &r->from[side], &r->mems,
				&r->mems);
}

/* Add the policy of a task, which its lock keeps. */
static void mtier_read_policy(struct mtier_reading *r, struct mempolicy *pol)
{
	nodemask_t own = mtier_policy_own(pol, &r->mems), to;
	u32 side;

	for (side = 0; side < MTIER_SIDES; side++) {
		to = r->mems;
		mtier_policy_mask(pol, side == MTIER_TOP, &to);
		mtier_allow_add(&r->policy[side], &r->from[side], &own, &to);
	}
}

/* Get the cpuset of a task, to compare it; it is valid under RCU. */
static const void *mtier_task_cpuset(struct task_struct *t)
{
#ifdef CONFIG_CPUSETS
	return task_css(t, cpuset_cgrp_id);
#else
	return &node_states;
#endif
}

static void mtier_read_task(struct mtier_reading *r, struct task_struct *t)
{
	const void *css = mtier_task_cpuset(t);
	struct mempolicy *pol = READ_ONCE(t->mempolicy);

	r->users++;
	if (r->css != css) {
		r->css = css;
		r->plain = false;
		r->mems = cpuset_mems_allowed(t);
		mtier_read_cpuset(r);
	}
	if (!pol) {
		if (!r->plain)
			mtier_read_policy(r, NULL);
		r->plain = true;
		return;
	}
	task_lock(t);
	mtier_read_policy(r, t->mempolicy);
	task_unlock(t);
}

/* ---- all tasks ---- */

/* Let other tasks run. False if the walk cannot continue after @t, which has exited. */
static bool mtier_read_pause(struct mtier_reading *r, struct task_struct *t)
	__must_hold(RCU)
{
	bool alive;

	get_task_struct(t);
	rcu_read_unlock();
	cond_resched();
	rcu_read_lock();
	alive = pid_alive(t);
	put_task_struct(t);
	r->left = MTIER_READ_THREADS;
	/* The cpuset may be gone, and its memory used for another one. */
	r->css = NULL;
	return alive;
}

/* Read the threads of the owner. False if they cannot all be read. */
static bool mtier_read_threads(struct mtier_reading *r, struct task_struct *owner)
	__must_hold(RCU)
{
	struct task_struct *t;

	for_each_thread(owner, t) {
		if (READ_ONCE(t->mm) == r->mm)
			mtier_read_task(r, t);
		if (!--r->left && !mtier_read_pause(r, t))
			return false;
	}
	return true;
}

/* Check whether the threads of a process use the address space: all use the same one. */
static bool mtier_read_shares(const struct mtier_reading *r, struct task_struct *p)
{
	struct task_struct *t;
	struct mm_struct *mm;

	for_each_thread(p, t) {
		mm = READ_ONCE(t->mm);
		if (mm)
			return mm == r->mm;
	}
	return false;
}

/* Read the users of the address space in other processes. False if it is too early. */
static bool mtier_read_peers(struct mtier_reading *r, struct task_struct *owner)
{
	u64 start_ns = local_clock(), end_ns;
	struct task_struct *p, *t;

	if (start_ns < mtier_peers_next_ns)
		return false;
	for_each_process(p) {
		if (p->flags & PF_KTHREAD || same_thread_group(p, owner) ||
		    !mtier_read_shares(r, p))
			continue;
		for_each_thread(p, t)
			if (READ_ONCE(t->mm) == r->mm)
				mtier_read_task(r, t);
	}
	end_ns = local_clock();
	mtier_peers_next_ns = end_ns + (end_ns - start_ns) * MTIER_PEERS_TIMES;
	return true;
}

/* Read all tasks. False if that is not possible now. */
static bool mtier_read_tasks(struct mtier_reading *r, struct task_struct *owner)
{
	bool all;

	rcu_read_lock();
	all = mtier_read_threads(r, owner);
	/* The others can hold a reference only, to read the address space for instance. */
	if (all && r->users < atomic_read(&r->mm->mm_users))
		all = mtier_read_peers(r, owner);
	rcu_read_unlock();
	return all;
}

static void mtier_read_begin(struct mtier_reading *r, struct mm_struct *mm)
{
	const struct mtier_allow every = {
		.all = NODE_MASK_ALL, .bound = NODE_MASK_ALL,
	};
	u32 side;

	*r = (struct mtier_reading) {
		.mm = mm,
		.left = MTIER_READ_THREADS,
		.from[MTIER_LOW] = mtier_nodes_slow(),
		.from[MTIER_TOP] = mtier_nodes_above(),
	};
	for (side = 0; side < MTIER_SIDES; side++) {
		r->policy[side] = every;
		r->cpuset[side] = every;
	}
}

static struct task_struct *mtier_read_owner(struct mm_struct *mm)
{
	struct task_struct *p;

	rcu_read_lock();
	p = rcu_dereference(mm->owner);
	if (p)
		get_task_struct(p);
	rcu_read_unlock();
	return p;
}

/* Read the rules of an address space. False if that is not possible now. */
static bool mtier_rules_read(struct mm_struct *mm, struct mtier_allowed *allowed)
{
	struct mtier_reading *r = &mtier_reading;
	struct task_struct *owner = mtier_read_owner(mm);
	bool all = true;

	mtier_read_begin(r, mm);
	if (owner) {
		all = mtier_read_tasks(r, owner);
		put_task_struct(owner);
	}
	*allowed = (struct mtier_allowed) { };
	if (!all)
		return false;
	allowed->up = *mtier_allow_result(&r->policy[MTIER_LOW]);
	allowed->down = *mtier_allow_result(&r->policy[MTIER_TOP]);
	allowed->mems_up = *mtier_allow_result(&r->cpuset[MTIER_LOW]);
	allowed->mems_down = *mtier_allow_result(&r->cpuset[MTIER_TOP]);
	return true;
}

/**
 * mtier_rules_of() - Get the nodes allowed for all VMAs of an address space.
 * @mm: the mm; the caller prevents it from being freed
 * @rules: filled
 *
 * Context: kmtierd; may sleep. The caller must not hold task_lock() of any task.
 */
void mtier_rules_of(struct mm_struct *mm, struct mtier_rules *rules)
{
	struct mtier_slot *slot = mtier_slot_of(mm);
	u64 start_ns = local_clock(), end_ns;

	rules->mm = mm;
	rules->nr_folios = 0;
	if (slot && start_ns < slot->allowed_until_ns) {
		rules->allowed = slot->allowed;
	} else if (mtier_rules_read(mm, &rules->allowed) && slot) {
		end_ns = local_clock();
		slot->allowed = rules->allowed;
		slot->allowed_until_ns = end_ns +
			clamp((end_ns - start_ns) * MTIER_RULES_TIMES,
			      MTIER_RULES_LEAST_NS, MTIER_RULES_AGE_NS);
	}
	if (slot)
		mtier_slot_put(slot);
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/rules_kunit.c"
#endif
