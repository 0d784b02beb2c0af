// SPDX-License-Identifier: GPL-2.0
/*
 * NUMA scanning: passes of more than one slice.
 *
 * An mm has at most one pass in progress (mm->numa_scan). The pass is active during a
 * slice. Between slices it is in the queue of a kernel thread, or waits for the next tick
 * of a thread of the mm. The thread that finds the pass finished, or its mm gone, frees
 * it.
 *
 * When an mm loses its last user, its waiting pass is freed. An active pass is marked
 * dead, and exit waits until that slice has dropped mmap_lock, as for khugepaged.
 *
 * Locking: numa_scan_lock guards mm->numa_scan, the lists, and the state of every pass.
 * Innermost; never taken with a run queue locked.
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

/* A task with a larger debt is not scanned until the debt is applied. */
#define NUMA_SCAN_DEBT_MAX_NS	(10 * NSEC_PER_MSEC)

DEFINE_SPINLOCK(numa_scan_lock);
static LIST_HEAD(numa_scan_all);
static unsigned long numa_scan_nr;

static void numa_scan_free(struct numa_scan *scan)
{
	put_task_struct(scan->task);
	mmdrop(scan->mm);
	/* A tick may read the state. */
	kfree_rcu(scan, rcu);
}

/* Remove a pass from its mm; the caller frees it. */
static void numa_scan_detach(struct numa_scan *scan)
{
	lockdep_assert_held(&numa_scan_lock);

	if (!scan->dead)
		WRITE_ONCE(scan->mm->numa_scan, NULL);
	list_del(&scan->all);
	list_del_init(&scan->queue);
	numa_scan_nr--;
}

/* Attach a pass to its mm; false if the mm has one, or in sync mode. */
static bool numa_scan_attach(struct numa_scan *scan)
{
	bool done = false;

	spin_lock(&numa_scan_lock);
	if (!scan->mm->numa_scan && numa_scan_conf.mode != NUMA_SCAN_SYNC) {
		/* Initialised before a tick can read it. */
		smp_store_release(&scan->mm->numa_scan, scan);
		list_add_tail(&scan->all, &numa_scan_all);
		numa_scan_nr++;
		done = true;
	}
	spin_unlock(&numa_scan_lock);
	return done;
}

/**
 * numa_scan_requests() - Get the number of passes in progress
 *
 * Return: their number.
 */
unsigned long numa_scan_requests(void)
{
	return READ_ONCE(numa_scan_nr);
}

/**
 * numa_scan_take() - Take the first pass off the queue of a thread
 * @queue: the queue
 *
 * Return: the pass, active, to be returned with numa_scan_give_back(); NULL if there is
 * none.
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
 * numa_scan_give_back() - End a slice
 * @scan: the scan pass, active; may be freed
 * @queue: queue that does the next slice; NULL for the next tick
 * @verdict: result of the slice
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
 * numa_scan_cancel() - Cancel or requeue waiting passes
 * @queue: queue of a thread that has stopped: its passes wait for a tick. NULL for
 *	all passes: they are freed.
 *
 * A thread with an active pass observes the mode when it returns the pass.
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
 * numa_scan_walked() - Add up the time of a pass
 * @scan: the scan pass, active
 * @ns: runtime of the thread that did a slice
 * @verdict: result of the slice
 *
 * The task pauses for 32 times the time of a walk. A walk in sync mode reads that time
 * from a runtime that is updated at ticks, and starts right after a tick. So it pays for
 * whole ticks, and nothing if it ends before the next tick. A pass in slices pays the
 * same amount, at its end; otherwise it would find fewer pages.
 *
 * The runtime may include a debt that was applied in the slice. The duration of the slice
 * may include the time of other tasks. So the smaller of both is the time of the walk.
 *
 * Return: time to pay for at the end of the pass; 0 before.
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
 * numa_scan_dispatch() - Start a pass that is due, if it is done in slices
 * @visit: the scan pass, on the stack of the current task
 *
 * Context: the current task on its return to user mode.
 *
 * Return: true if the pass was started, or cannot be now; false to do it at once.
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
	/* The last pass is not finished: let it continue. */
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
 * __numa_scan_tick() - Check for a slice that this task has to do
 * @p: the current task, in its tick, its run queue locked
 *
 * Also adds the time that a kernel thread has scanned for the task to the pace of its
 * scans.
 *
 * Return: true if it has to return through task_numa_work().
 */
bool __numa_scan_tick(struct task_struct *p)
{
	struct numa_scan *scan;
	bool ours;

	if (atomic64_read(&p->numa_scan_owed_ns))
		p->node_stamp += 32 * atomic64_xchg(&p->numa_scan_owed_ns, 0);
	/* Only a hint: the state is checked again under the lock. */
	rcu_read_lock();
	scan = READ_ONCE(p->mm->numa_scan);
	ours = scan && READ_ONCE(scan->state) == NUMA_SCAN_TICK;
	rcu_read_unlock();
	return ours;
}

/**
 * __numa_scan_continue() - Do the next slice of the current task's mm
 * @p: the current task
 *
 * Return: true if there was one.
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
 * __numa_scan_exit() - Cancel the pass of an address space without users
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
		/* A slice that takes the lock from here on finds no user. */
		mmap_write_lock(mm);
		mmap_write_unlock(mm);
	} else if (scan) {
		numa_scan_free(scan);
	}
}

/**
 * __numa_scan_one_node() - Check whether the current task has a single memory node
 *
 * Return: true if its cpuset allows one only: then no page can move for it.
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
 * numa_scan_show() - Print the lines of a task in /proc/PID/sched
 * @p: the task
 * @m: the file
 */
void numa_scan_show(struct task_struct *p, struct seq_file *m)
{
	seq_printf(m, "%-45s:%21llu\n", "numa_scan_remote_ns",
		   (u64)atomic64_read(&p->numa_scan_remote_ns));
}
