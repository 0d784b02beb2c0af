// SPDX-License-Identifier: GPL-2.0
/*
 * NUMA scanning: visits that take more than one slice.
 *
 * At most one visit of an mm is under way (mm->numa_scan). It is active while
 * somebody does a slice of it; between slices it waits in the queue of a thread
 * or for the next tick of a thread of the mm. Whoever finds it over, or finds
 * its mm gone, frees it.
 *
 * An mm whose last user is gone takes its waiting visit away. An active one is
 * marked dead, and exit waits until that slice has dropped mmap_lock: the same
 * way khugepaged goes.
 *
 * Locking: numa_scan_lock guards mm->numa_scan, the lists, and the state of
 * every visit. Innermost; never taken with a run queue locked.
 */
#include <linux/cpuset.h>
#include <linux/jiffies.h>
#include <linux/math64.h>
#include <linux/mempolicy.h>
#include <linux/mmap_lock.h>
#include <linux/sched/cputime.h>
#include <linux/sched/mm.h>
#include <linux/sched/remote_charge.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/vmstat.h>

#include "numa_scan.h"

/* A task that owes more is not scanned until it has paid. */
#define NUMA_SCAN_DEBT_MAX_NS	(10 * NSEC_PER_MSEC)

DEFINE_SPINLOCK(numa_scan_lock);
static LIST_HEAD(numa_scan_all);
static unsigned long numa_scan_nr;

static void numa_scan_free(struct numa_scan *scan)
{
	put_task_struct(scan->task);
	mmdrop(scan->mm);
	/* A tick may be looking at the state. */
	kfree_rcu(scan, rcu);
}

/* Take a visit away from its mm; the caller frees it. */
static void numa_scan_detach(struct numa_scan *scan)
{
	lockdep_assert_held(&numa_scan_lock);

	if (!scan->dead)
		WRITE_ONCE(scan->mm->numa_scan, NULL);
	list_del(&scan->all);
	list_del_init(&scan->queue);
	numa_scan_nr--;
}

/* Give the mm a visit; false if it has one, or if visits are out of fashion. */
static bool numa_scan_attach(struct numa_scan *scan)
{
	bool done = false;

	spin_lock(&numa_scan_lock);
	if (!scan->mm->numa_scan && numa_scan_conf.mode != NUMA_SCAN_SYNC) {
		/* Initialised before a tick can see it. */
		smp_store_release(&scan->mm->numa_scan, scan);
		list_add_tail(&scan->all, &numa_scan_all);
		numa_scan_nr++;
		done = true;
	}
	spin_unlock(&numa_scan_lock);
	return done;
}

/**
 * numa_scan_requests() - how many visits are under way
 *
 * Return: their number.
 */
unsigned long numa_scan_requests(void)
{
	return READ_ONCE(numa_scan_nr);
}

/**
 * numa_scan_take() - take the first visit off a thread's queue
 * @queue: the queue
 *
 * Return: the visit, active, to be given back; NULL if there is none.
 */
struct numa_scan *numa_scan_take(struct list_head *queue)
{
	struct numa_scan *scan;

	spin_lock(&numa_scan_lock);
	scan = list_first_entry_or_null(queue, struct numa_scan, queue);
	if (scan) {
		list_del_init(&scan->queue);
		WRITE_ONCE(scan->state, NUMA_SCAN_ACTIVE);
	}
	spin_unlock(&numa_scan_lock);
	return scan;
}

/**
 * numa_scan_give_back() - a slice is done
 * @scan: the visit, active; may be freed
 * @queue: the queue that does the next slice; NULL for the next tick
 * @verdict: what became of the slice
 */
void numa_scan_give_back(struct numa_scan *scan, struct list_head *queue,
			 enum numa_scan_verdict verdict)
{
	bool over = verdict == NUMA_SCAN_DONE || verdict == NUMA_SCAN_GONE;

	spin_lock(&numa_scan_lock);
	over |= scan->dead || numa_scan_conf.mode == NUMA_SCAN_SYNC;
	if (over) {
		numa_scan_detach(scan);
	} else if (queue) {
		WRITE_ONCE(scan->state, NUMA_SCAN_QUEUED);
		list_add_tail(&scan->queue, queue);
	} else {
		WRITE_ONCE(scan->state, NUMA_SCAN_TICK);
	}
	spin_unlock(&numa_scan_lock);
	if (over)
		numa_scan_free(scan);
}

/**
 * numa_scan_cancel() - nothing waits any more
 * @queue: the queue of a thread that has stopped: its visits wait for a tick.
 *	NULL for all visits: they are over.
 *
 * Whoever is active sees the mode when it gives its visit back.
 */
void numa_scan_cancel(struct list_head *queue)
{
	struct numa_scan *scan, *next;
	LIST_HEAD(over);

	spin_lock(&numa_scan_lock);
	if (queue) {
		list_for_each_entry_safe(scan, next, queue, queue) {
			list_del_init(&scan->queue);
			WRITE_ONCE(scan->state, NUMA_SCAN_TICK);
		}
	} else {
		list_for_each_entry_safe(scan, next, &numa_scan_all, all) {
			if (scan->state == NUMA_SCAN_ACTIVE)
				continue;
			numa_scan_detach(scan);
			list_add(&scan->queue, &over);
		}
	}
	spin_unlock(&numa_scan_lock);

	list_for_each_entry_safe(scan, next, &over, queue)
		numa_scan_free(scan);
}

/**
 * numa_scan_walked() - Add up the time of a visit
 * @scan: the visit, active
 * @ns: runtime of the thread that did a slice
 * @verdict: what became of the slice
 *
 * The task pauses for 32 times the time of a walk. A walk in sync mode takes that
 * time from a runtime that is brought up to date at ticks, and it begins right
 * after one: it pays for whole ticks, and nothing if it ends before the next. A
 * visit in slices pays as much, at its end; else it would find fewer pages.
 *
 * The runtime may include a debt that was charged in the slice, and the length of
 * the slice the time of other tasks: the walk took the smaller of both.
 *
 * Return: time to pay for at the end of the visit; 0 before.
 */
u64 numa_scan_walked(struct numa_scan *scan, u64 ns,
		     enum numa_scan_verdict verdict)
{
	scan->walked_ns += min(ns, scan->took_ns);
	if (verdict != NUMA_SCAN_DONE)
		return 0;
	return div_u64(scan->walked_ns, TICK_NSEC) * TICK_NSEC;
}

/* Do a slice in the task itself. */
static void numa_scan_here(struct numa_scan *scan)
{
	u64 ran = task_sched_runtime(current);
	enum numa_scan_verdict verdict;

	verdict = numa_scan_slice(scan, NUMA_SCAN_SLICED);
	ran = numa_scan_walked(scan, task_sched_runtime(current) - ran, verdict);
	numa_scan_give_back(scan, NULL, verdict);
	current->node_stamp += 32 * ran;
}

/**
 * numa_scan_dispatch() - a visit is due: is it one to be done in slices?
 * @visit: what is to be done, on the stack of the current task
 *
 * Context: the current task on its way to user mode.
 * Return: true if it was seen to, or cannot be now; false to do it at once.
 */
bool numa_scan_dispatch(struct numa_scan *visit)
{
	enum numa_scan_mode mode = READ_ONCE(numa_scan_conf.mode);
	struct numa_scan *scan;

	visit->mof = get_task_policy(current)->flags & MPOL_F_MOF;
	if (mode == NUMA_SCAN_SYNC) {
		count_vm_event(NUMA_SCAN_VISITS);
		return false;
	}
	if (remote_charge_pending(current) > NUMA_SCAN_DEBT_MAX_NS) {
		count_vm_event(NUMA_SCAN_HELD);
		return true;
	}
	/* The one before is not finished: that is enough. */
	if (READ_ONCE(visit->mm->numa_scan))
		return true;
	scan = kmemdup(visit, sizeof(*visit), GFP_KERNEL);
	if (!scan)
		return true;
	get_task_struct(scan->task);
	mmgrab(scan->mm);
	INIT_LIST_HEAD(&scan->queue);
	scan->state = NUMA_SCAN_ACTIVE;
	scan->since = jiffies;
	if (!numa_scan_attach(scan)) {
		numa_scan_free(scan);
		return true;
	}
	count_vm_event(NUMA_SCAN_VISITS);
	if (mode == NUMA_SCAN_SLICED || !numa_scan_enqueue(scan, numa_node_id()))
		numa_scan_here(scan);
	return true;
}

/**
 * __numa_scan_tick() - is there a slice for this task to do?
 * @p: the current task, in its tick, its run queue locked
 *
 * What a thread has done for it counts for its pace as if it had done it.
 *
 * Return: true if it has to return through task_numa_work().
 */
bool __numa_scan_tick(struct task_struct *p)
{
	struct numa_scan *scan;
	bool ours;

	if (atomic64_read(&p->numa_scan_owed_ns))
		p->node_stamp += 32 * atomic64_xchg(&p->numa_scan_owed_ns, 0);
	/* Only a hint: the state is looked at again under the lock. */
	rcu_read_lock();
	scan = READ_ONCE(p->mm->numa_scan);
	ours = scan && READ_ONCE(scan->state) == NUMA_SCAN_TICK;
	rcu_read_unlock();
	return ours;
}

/**
 * __numa_scan_continue() - do the next slice of the current task's mm
 * @p: the current task
 *
 * Return: true if there was one to do.
 */
bool __numa_scan_continue(struct task_struct *p)
{
	struct numa_scan *scan;

	spin_lock(&numa_scan_lock);
	scan = p->mm->numa_scan;
	if (scan && scan->state == NUMA_SCAN_TICK)
		WRITE_ONCE(scan->state, NUMA_SCAN_ACTIVE);
	else
		scan = NULL;
	spin_unlock(&numa_scan_lock);
	if (scan)
		numa_scan_here(scan);
	return scan;
}

/**
 * __numa_scan_exit() - an address space loses its last user
 * @mm: the mm
 *
 * Context: may sleep until a slice is over.
 */
void __numa_scan_exit(struct mm_struct *mm)
{
	struct numa_scan *scan;
	bool wait = false;

	spin_lock(&numa_scan_lock);
	scan = mm->numa_scan;
	if (scan && scan->state == NUMA_SCAN_ACTIVE) {
		scan->dead = true;
		WRITE_ONCE(mm->numa_scan, NULL);
		wait = true;
	} else if (scan) {
		numa_scan_detach(scan);
	}
	spin_unlock(&numa_scan_lock);

	if (wait) {
		/* Whoever takes it from here on sees that there is no user. */
		mmap_write_lock(mm);
		mmap_write_unlock(mm);
	} else if (scan) {
		numa_scan_free(scan);
	}
}

/**
 * __numa_scan_one_node() - is there only one node for the current task's memory?
 *
 * Return: true if its cpuset says so: then no page can move for it.
 */
bool __numa_scan_one_node(void)
{
	if (!cpusets_enabled() ||
	    nodes_weight(cpuset_current_mems_allowed) != 1)
		return false;
	count_vm_event(NUMA_SCAN_ONE_NODE);
	return true;
}

/**
 * numa_scan_show() - a task's lines in /proc/PID/sched
 * @p: the task
 * @m: where to write them
 */
void numa_scan_show(struct task_struct *p, struct seq_file *m)
{
	seq_printf(m, "%-45s:%21llu\n", "numa_scan_remote_ns",
		   (u64)atomic64_read(&p->numa_scan_remote_ns));
}
