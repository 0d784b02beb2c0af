// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: charge CPU time to the processes it is spent for (mtier/charge).
 *
 * A scan is charged to the address space that was scanned. The time of a batch of
 * migrations is divided among the address spaces of its folios, in proportion to the
 * number of folios found in each.
 *
 * Locking: none; a batch holds its address spaces while it is charged.
 */
#include <linux/mm.h>
#include <linux/sched/remote_charge.h>

#include "move.h"
#include "mtier.h"

/**
 * mtier_charge_look() - Charge a scan to the address space that was scanned.
 * @mm: the mm, pinned
 * @ns: CPU time of the scan
 */
void mtier_charge_look(struct mm_struct *mm, u64 ns)
{
	if (READ_ONCE(mtier_conf.charge) && ns)
		remote_charge_post_mm(mm, ns);
}

/**
 * mtier_charge_start() - Read the clock before a batch migrates.
 *
 * Return: start time for mtier_charge_move(): the CPU time in ns that this thread
 * has used so far, or 0 if charging is off.
 */
u64 mtier_charge_start(void)
{
	return READ_ONCE(mtier_conf.charge) ? task_sched_runtime(current) : 0;
}

/**
 * mtier_charge_move() - Charge a batch that has migrated to its address spaces.
 * @mv: the batch, with its address spaces still held
 * @since_ns: result of mtier_charge_start(); the CPU time since then is charged
 */
void mtier_charge_move(const struct mtier_move *mv, u64 since_ns)
{
	const struct mtier_guard *guard = &mv->guard;
	unsigned int i, all = 0;
	u64 ns;

	if (!since_ns)
		return;
	/* Count all folios that were added, also those that left the batch. */
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
