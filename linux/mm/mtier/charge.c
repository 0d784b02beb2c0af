// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: its cost is that of whom it serves (mtier/charge).
 *
 * A look is charged to the address space that was looked at. A batch of moves is
 * shared by the address spaces that its folios were found in, each by how many of
 * them.
 *
 * Locking: none; a move keeps its address spaces while it is charged.
 */
#include <linux/mm.h>
#include <linux/sched/remote_charge.h>

#include "move.h"
#include "mtier.h"

/**
 * mtier_charge_look() - an address space was looked at
 * @mm: the mm, pinned
 * @ns: CPU time that it took
 */
void mtier_charge_look(struct mm_struct *mm, u64 ns)
{
	if (READ_ONCE(mtier_conf.charge) && ns)
		remote_charge_post_mm(mm, ns);
}

/**
 * mtier_charge_start() - a batch is about to be moved
 *
 * Return: what mtier_charge_move() is to be told: the CPU time in ns that this
 * thread has had so far, or 0 if nobody is charged.
 */
u64 mtier_charge_start(void)
{
	return READ_ONCE(mtier_conf.charge) ? task_sched_runtime(current) : 0;
}

/**
 * mtier_charge_move() - a batch was moved
 * @mv: the move, whose address spaces are still held
 * @since_ns: of mtier_charge_start(); what came after is charged
 */
void mtier_charge_move(const struct mtier_move *mv, u64 since_ns)
{
	const struct mtier_guard *guard = &mv->guard;
	unsigned int i, all = 0;
	u64 ns;

	if (!since_ns)
		return;
	/* Of all that were found: some may not be in the move any more. */
	for (i = 0; i < guard->nr_mms; i++)
		all += guard->rules[i].nr_folios;
	if (!all)
		return;
	ns = task_sched_runtime(current) - since_ns;
	for (i = 0; i < guard->nr_mms; i++) {
		const struct mtier_rules *rules = &guard->rules[i];

		if (rules->nr_folios)
			remote_charge_post_mm(rules->mm,
					      mul_u64_u32_div(ns, rules->nr_folios,
							      all));
	}
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/charge_kunit.c"
#endif
