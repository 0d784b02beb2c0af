// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: its cost is that of whom it serves (mtier/charge).
 *
 * A slice of a scan is charged to the address space that was scanned. A batch of
 * moves is shared by those who use its folios: some of them are asked, evenly
 * spread over the batch, and each pays the same part. What nobody is found for
 * stays with the thread.
 *
 * Locking: folio locks by trylock, then what rmap_walk() takes.
 */
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/rmap.h>
#include <linux/sched/mm.h>
#include <linux/sched/remote_charge.h>
#include <linux/sched/task.h>

#include "move.h"
#include "mtier.h"

/**
 * mtier_charge_scan() - an address space was scanned
 * @mm: the mm, pinned
 * @ns: CPU time that it took
 */
void mtier_charge_scan(struct mm_struct *mm, u64 ns)
{
	if (READ_ONCE(mtier_conf.charge) && ns)
		remote_charge_post_mm(mm, ns);
}

/* rmap callback: the first address space that maps the folio pays. */
static bool mtier_charge_one(struct folio *folio, struct vm_area_struct *vma,
			     unsigned long addr, void *arg)
{
	DEFINE_FOLIO_VMA_WALK(pvmw, folio, vma, addr, 0);
	struct mtier_move *mv = arg;
	struct task_struct *p;

	if (!page_vma_mapped_walk(&pvmw))
		return true;
	page_vma_mapped_walk_done(&pvmw);
	rcu_read_lock();
	p = remote_charge_payer(vma->vm_mm);
	if (p)
		mv->payers[mv->nr_payers++] = get_task_struct(p);
	rcu_read_unlock();
	return !p;
}

/**
 * mtier_charge_pick() - find out whose folios are about to be moved
 * @mv: the move, not run yet
 *
 * Return: what mtier_charge_move() is to be told: the CPU time in ns that this
 * thread has had so far, or 0 if nobody is charged.
 */
u64 mtier_charge_pick(struct mtier_move *mv)
{
	unsigned int step = DIV_ROUND_UP(mv->nr_folios, MTIER_MOVE_PAYERS);
	struct rmap_walk_control rwc = {
		.rmap_one = mtier_charge_one,
		.arg = mv,
		.anon_lock = folio_lock_anon_vma_read,
		.try_lock = true,
	};
	struct folio *folio;
	unsigned int i = 0;
	u64 since_ns;

	if (!READ_ONCE(mtier_conf.charge))
		return 0;
	since_ns = task_sched_runtime(current);
	list_for_each_entry(folio, &mv->folios, lru) {
		if (i++ % step || !folio_trylock(folio))
			continue;
		rmap_walk(folio, &rwc);
		folio_unlock(folio);
	}
	return since_ns;
}

/**
 * mtier_charge_move() - a batch was moved
 * @mv: the move
 * @since_ns: of mtier_charge_pick(); what came after is charged
 */
void mtier_charge_move(struct mtier_move *mv, u64 since_ns)
{
	unsigned int i, left = mv->nr_payers;
	u64 ns, part;

	if (!left)
		return;
	ns = task_sched_runtime(current) - since_ns;
	for (i = 0; i < mv->nr_payers; i++) {
		part = div_u64(ns, left--);
		ns -= part;
		remote_charge_post(mv->payers[i], part);
		put_task_struct(mv->payers[i]);
	}
}
