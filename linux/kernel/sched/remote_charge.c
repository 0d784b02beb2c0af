// SPDX-License-Identifier: GPL-2.0
/*
 * Remote charge: a task pays for the CPU time that a kernel thread spends for it.
 *
 * The kernel thread measures its own time and posts it to the task that it worked for.
 * Posting only adds to an atomic debt: it takes no lock and is possible in any context.
 * The debt is applied where the scheduler accounts the task's own time, in update_curr()
 * under the lock of its run queue. It is added to the runtime of the task, its thread
 * group and its cgroup, to the virtual time of the task and of every group above it, and
 * to their bandwidth (cpu.max). The same time is added to system time when the task is
 * found on its own CPU, where no other CPU writes p->stime.
 *
 * The counters of CPUs (/proc/stat) are not changed: they had the time when the kernel
 * thread ran. Neither are per-CPU values: rq clocks, PELT, the fair server, real-time
 * bandwidth.
 *
 * Every posted nanosecond is counted once:
 *
 * posted = folded (applied) + dropped + the debts of all tasks
 *
 * Part of fair.c, which has the virtual time and the bandwidth.
 *
 * Locking: p->remote_debt_ns is atomic; the lock of the task's run queue protects its
 * other fields. See Documentation/scheduler/sched-remote-charge.rst.
 */
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/vmstat.h>

#include "remote_charge.h"

/* Most threads that are searched for a running one. */
#define REMOTE_CHARGE_LOOKS	64

/* fork, exit and update_curr() have nops until the first use. */
DEFINE_STATIC_KEY_FALSE(remote_charge_key);

/**
 * remote_charge_enable() - Enable charges for good
 *
 * Called before the first remote_charge_post(). Never disabled again: debts stay pending
 * while their tasks sleep.
 *
 * Context: may sleep.
 */
void remote_charge_enable(void)
{
	static_branch_enable(&remote_charge_key);
}

/**
 * remote_charge_post() - Charge a task for work done on its behalf
 * @p: the task; the caller holds a reference, or is in an RCU section
 * @ns: the caller's own CPU time that the work took
 *
 * Context: any.
 *
 * Return: false if the task exits and takes no more charges.
 */
bool remote_charge_post(struct task_struct *p, u64 ns)
{
	count_vm_events(REMOTE_CHARGE_POSTED_NS, ns);
	/* If the task exited before the key was enabled, its debt was not closed. */
	if (!(READ_ONCE(p->flags) & (PF_EXITING | PF_KTHREAD)) &&
	    remote_charge_add(&p->remote_debt_ns, ns))
		return true;
	count_vm_events(REMOTE_CHARGE_DROPPED_NS, ns);
	return false;
}

#ifdef CONFIG_MEMCG
/**
 * remote_charge_payer() - Get the task that pays for work on an address space
 * @mm: the mm, which cannot be freed
 *
 * A running thread pays for all: its cgroup is charged now. A thread that sleeps in
 * pthread_join() would not pay for a long time.
 *
 * Context: an RCU section.
 *
 * Return: a thread of @mm that runs now, otherwise its owner; NULL if all are gone.
 */
struct task_struct *remote_charge_payer(struct mm_struct *mm)
{
	struct task_struct *owner = rcu_dereference(mm->owner), *t;
	unsigned int looks = 0;

	if (!owner)
		return NULL;
	for_each_thread(owner, t) {
		if (READ_ONCE(t->on_cpu) && READ_ONCE(t->mm) == mm &&
		    !(READ_ONCE(t->flags) & PF_EXITING))
			return t;
		if (++looks == REMOTE_CHARGE_LOOKS)
			break;
	}
	return owner;
}

/**
 * remote_charge_post_mm() - Charge an address space for work on its behalf
 * @mm: the mm, which cannot be freed
 * @ns: the caller's own CPU time that the work took
 *
 * Context: any.
 */
void remote_charge_post_mm(struct mm_struct *mm, u64 ns)
{
	struct task_struct *p;

	rcu_read_lock();
	p = remote_charge_payer(mm);
	if (p) {
		remote_charge_post(p, ns);
	} else {
		count_vm_events(REMOTE_CHARGE_POSTED_NS, ns);
		count_vm_events(REMOTE_CHARGE_DROPPED_NS, ns);
	}
	rcu_read_unlock();
}
#endif /* CONFIG_MEMCG */

/*
 * Charge virtual time and bandwidth of the task and of every group above it. All of them
 * are current, so none is in a tree that is sorted by virtual time. Their deadlines are
 * checked by the update_curr() of each, which follows.
 */
static void remote_charge_fair(struct task_struct *p, u64 ns)
{
	struct sched_entity *se = &p->se;

	for_each_sched_entity(se) {
		struct cfs_rq *cfs_rq = cfs_rq_of(se);

		if (cfs_rq->curr != se)
			break;
		se->vruntime += calc_delta_fair(ns, se);
		account_cfs_rq_runtime(cfs_rq, ns);
	}
}

/* Charge system time, in the context in which the task's own tick writes it. */
static void remote_charge_stime(struct rq *rq, struct task_struct *p)
{
	u64 ns = p->remote_stime_ns;

	if (!ns || p != current || cpu_of(rq) != smp_processor_id())
		return;
	p->remote_stime_ns = 0;
	p->stime += ns;
	account_group_system_time(p, ns);
	cgroup_account_cputime_field(p, CPUTIME_SYSTEM, ns);
}

static void remote_charge_apply(struct rq *rq, struct task_struct *p, u64 ns)
{
	lockdep_assert_rq_held(rq);

	if (ns) {
		p->se.sum_exec_runtime += ns;
		account_group_exec_runtime(p, ns);
		cgroup_account_cputime(p, ns);
		p->remote_stime_ns += ns;
		p->remote_folded_ns += ns;
		count_vm_events(REMOTE_CHARGE_FOLDED_NS, ns);
		if (p->sched_class == &fair_sched_class)
			remote_charge_fair(p, ns);
	}
	remote_charge_stime(rq, p);
}

/**
 * __remote_charge_fold() - Apply a part of the debt of the running task
 * @rq: its run queue, locked
 * @p: the task, current on @rq
 * @limit: most to apply, in ns
 */
void __remote_charge_fold(struct rq *rq, struct task_struct *p, u64 limit)
{
	remote_charge_apply(rq, p, remote_charge_take(&p->remote_debt_ns, limit));
}

/**
 * __remote_charge_exit() - Apply the debt of the current task, and take no more
 * @p: the current task, PF_EXITING
 *
 * Context: must not hold the lock of its run queue.
 */
void __remote_charge_exit(struct task_struct *p)
{
	struct rq_flags rf;
	struct rq *rq;

	rq = task_rq_lock(p, &rf);
	update_rq_clock(rq);
	p->sched_class->update_curr(rq);
	remote_charge_apply(rq, p, remote_charge_close(&p->remote_debt_ns));
	task_rq_unlock(rq, p, &rf);
}

/**
 * remote_charge_show() - Print the lines of a task in /proc/PID/sched
 * @p: the task
 * @m: the file
 */
void remote_charge_show(struct task_struct *p, struct seq_file *m)
{
	seq_printf(m, "%-45s:%21llu\n", "remote_debt_ns",
		   remote_charge_pending(p));
	seq_printf(m, "%-45s:%21llu\n", "remote_charged_ns",
		   READ_ONCE(p->remote_folded_ns));
}
