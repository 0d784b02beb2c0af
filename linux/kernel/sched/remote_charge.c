// SPDX-License-Identifier: GPL-2.0
/*
 * Back-charge: CPU time that a kernel thread spends for a task is that task's.
 *
 * Whoever works for others measures its own time and posts it to the task that
 * it worked for. Posting only adds to an atomic debt: it takes no lock and may
 * come from anywhere. The debt is folded where the scheduler accounts the task's
 * own time, in update_curr() under the lock of its run queue: into its runtime
 * and that of its thread group and cgroup, its virtual time and that of every
 * group above it, and their bandwidth (cpu.max). The same time is folded into
 * system time when the task is seen on its own CPU, where nobody else writes
 * p->stime.
 *
 * It never reaches the counters of CPUs (/proc/stat), which had it when the
 * kernel thread ran, nor what is about a CPU rather than a task: rq clocks,
 * PELT, the fair server, real-time bandwidth.
 *
 * Every posted nanosecond is in one place:
 *
 *	posted = folded + dropped + the debts of all tasks
 *
 * Part of fair.c, which has the virtual time and the bandwidth.
 *
 * Locking: p->remote_debt_ns is atomic; the other fields of a task belong to
 * the lock of its run queue. See Documentation/scheduler/sched-remote-charge.rst.
 */
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/vmstat.h>

#include "remote_charge.h"

/* So many threads are looked at for one that runs. */
#define REMOTE_CHARGE_LOOKS	64

/* Nops in fork, exit and update_curr() until somebody charges for the first time */
DEFINE_STATIC_KEY_FALSE(remote_charge_key);

/**
 * remote_charge_enable() - make debts count, from now on
 *
 * To be called before the first remote_charge_post(). There is no way back:
 * debts may be pending for as long as their tasks sleep.
 *
 * Context: may sleep.
 */
void remote_charge_enable(void)
{
	static_branch_enable(&remote_charge_key);
}

/**
 * remote_charge_post() - charge a task for work done on its behalf
 * @p: the task; the caller holds a reference, or is in an RCU section
 * @ns: the caller's own CPU time that the work took
 *
 * Context: any.
 * Return: false if the task exits and is charged no more.
 */
bool remote_charge_post(struct task_struct *p, u64 ns)
{
	count_vm_events(REMOTE_CHARGE_POSTED_NS, ns);
	/* An exit before the key was on left the debt open. */
	if (!(READ_ONCE(p->flags) & (PF_EXITING | PF_KTHREAD)) &&
	    remote_charge_add(&p->remote_debt_ns, ns))
		return true;
	count_vm_events(REMOTE_CHARGE_DROPPED_NS, ns);
	return false;
}

#ifdef CONFIG_MEMCG
/**
 * remote_charge_payer() - who pays for work on behalf of an address space
 * @mm: the mm, which cannot be freed
 *
 * A thread that runs pays for all: its cgroup is charged now, where one that
 * sleeps in pthread_join() would not pay for long.
 *
 * Context: an RCU section.
 * Return: a thread of @mm that runs now, or else its owner; NULL if all are gone.
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
 * remote_charge_post_mm() - charge an address space for work on its behalf
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
 * Virtual time and bandwidth of the task and of every group above it. All of
 * them are current, so none is in a tree that its virtual time sorts. Their
 * deadlines are looked at by the update_curr() of each, which follows.
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

/* System time, where the task's own tick would write it. */
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
 * __remote_charge_fold() - charge the running task a part of what it owes
 * @rq: its run queue, locked
 * @p: the task, current on @rq
 * @limit: most to charge, in ns
 */
void __remote_charge_fold(struct rq *rq, struct task_struct *p, u64 limit)
{
	remote_charge_apply(rq, p, remote_charge_take(&p->remote_debt_ns, limit));
}

/**
 * __remote_charge_exit() - charge all that the current task owes, and no more
 * @p: the current task, PF_EXITING
 *
 * Context: may not hold its run queue's lock.
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
 * remote_charge_show() - a task's lines in /proc/PID/sched
 * @p: the task
 * @m: where to write them
 */
void remote_charge_show(struct task_struct *p, struct seq_file *m)
{
	seq_printf(m, "%-45s:%21llu\n", "remote_debt_ns",
		   remote_charge_pending(p));
	seq_printf(m, "%-45s:%21llu\n", "remote_charged_ns",
		   READ_ONCE(p->remote_folded_ns));
}
