/* SPDX-License-Identifier: GPL-2.0 */
/* Remote charge: interface for the scheduler's accounting. */
#ifndef _KERNEL_SCHED_REMOTE_CHARGE_H
#define _KERNEL_SCHED_REMOTE_CHARGE_H

#include <linux/minmax.h>
#include <linux/sched/remote_charge.h>

#ifdef CONFIG_SCHED_REMOTE_CHARGE

/**
 * remote_charge_add() - Add to a debt
 * @debt: the debt, or REMOTE_CHARGE_CLOSED
 * @ns: time to add
 *
 * Return: false if it is closed.
 */
static inline bool remote_charge_add(atomic64_t *debt, u64 ns)
{
	s64 old = atomic64_read(debt);

	do {
		if (old == REMOTE_CHARGE_CLOSED)
			return false;
	} while (!atomic64_try_cmpxchg(debt, &old, old + ns));
	return true;
}

/**
 * remote_charge_take() - Take from a debt
 * @debt: the debt, or REMOTE_CHARGE_CLOSED
 * @limit: most to take
 *
 * Return: time taken, which the caller has to apply.
 */
static inline u64 remote_charge_take(atomic64_t *debt, u64 limit)
{
	s64 old = atomic64_read(debt);
	u64 ns;

	do {
		if (old <= 0)
			return 0;
		ns = min_t(u64, old, limit);
	} while (!atomic64_try_cmpxchg(debt, &old, old - ns));
	return ns;
}

/**
 * remote_charge_close() - Take all of a debt and close it
 * @debt: the debt
 *
 * Return: time taken; 0 if it was closed before.
 */
static inline u64 remote_charge_close(atomic64_t *debt)
{
	s64 old = atomic64_xchg(debt, REMOTE_CHARGE_CLOSED);

	return old > 0 ? old : 0;
}

void __remote_charge_fold(struct rq *rq, struct task_struct *p, u64 limit);

/**
 * remote_charge_fold() - Apply a part of the debt of the running task
 * @rq: its run queue, locked
 * @se: entity of update_curr(), a task or a group
 *
 * At most one slice of the task: a large debt applied at once would distort the lag.
 */
static inline void remote_charge_fold(struct rq *rq, struct sched_entity *se)
{
	/* A task that was never in the fair class has no slice. */
	if (static_branch_unlikely(&remote_charge_key) && entity_is_task(se))
		__remote_charge_fold(rq, task_of(se),
				     se->slice ?: sysctl_sched_base_slice);
}

#else

static inline void remote_charge_fold(struct rq *rq, struct sched_entity *se) { }

#endif /* CONFIG_SCHED_REMOTE_CHARGE */

#endif /* _KERNEL_SCHED_REMOTE_CHARGE_H */
