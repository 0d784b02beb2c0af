/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Charge a task for the CPU time that kernel threads spend for it
 * (kernel/sched/remote_charge.c).
 */
#ifndef _LINUX_SCHED_REMOTE_CHARGE_H
#define _LINUX_SCHED_REMOTE_CHARGE_H

#include <linux/atomic.h>
#include <linux/jump_label.h>
#include <linux/limits.h>
#include <linux/sched.h>

struct mm_struct;
struct seq_file;

#ifdef CONFIG_SCHED_REMOTE_CHARGE

/*
 * Value of task_struct.remote_debt_ns for an exiting task, which takes no more charges.
 */
#define REMOTE_CHARGE_CLOSED	S64_MIN

DECLARE_STATIC_KEY_FALSE(remote_charge_key);

void remote_charge_enable(void);
bool remote_charge_post(struct task_struct *p, u64 ns);
struct task_struct *remote_charge_payer(struct mm_struct *mm);
void remote_charge_post_mm(struct mm_struct *mm, u64 ns);
void remote_charge_show(struct task_struct *p, struct seq_file *m);
void __remote_charge_exit(struct task_struct *p);

/**
 * remote_charge_pending() - Get the time posted to a task and not charged yet
 * @p: the task
 *
 * Return: the time in ns.
 */
static inline u64 remote_charge_pending(struct task_struct *p)
{
	s64 debt = atomic64_read(&p->remote_debt_ns);

	return debt > 0 ? debt : 0;
}

/**
 * remote_charge_init() - Initialize a new task without pending charges
 * @p: the task, a copy of its parent
 */
static inline void remote_charge_init(struct task_struct *p)
{
	atomic64_set(&p->remote_debt_ns, 0);
	p->remote_stime_ns = 0;
	p->remote_folded_ns = 0;
}

/**
 * remote_charge_exit() - Charge the pending time of the current task, and take no more
 * @p: the current task, PF_EXITING
 */
static inline void remote_charge_exit(struct task_struct *p)
{
	if (static_branch_unlikely(&remote_charge_key))
		__remote_charge_exit(p);
}

#else

static inline void remote_charge_init(struct task_struct *p) { }
static inline void remote_charge_exit(struct task_struct *p) { }
static inline void remote_charge_show(struct task_struct *p,
				      struct seq_file *m) { }

#endif /* CONFIG_SCHED_REMOTE_CHARGE */

#endif /* _LINUX_SCHED_REMOTE_CHARGE_H */
