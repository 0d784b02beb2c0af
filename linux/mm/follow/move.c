// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic NUMA migration: migration of folios to a node.
 *
 * A fault migrates the page that it touched itself, with migrate_misplaced_folio(). Its
 * neighbours, and pages that move with their task, migrate as a batch, with one TLB
 * flush. The target frames are allocated as those of promotion are (mm/mtier/move.c).
 *
 * Locking: folios are isolated under a page table lock, and migrate without it.
 */
#include <linux/memcontrol.h>
#include <linux/memory-tiers.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/vmstat.h>

#include "../internal.h"
#include "../move_target.h"
#include "follow.h"

/**
 * follow_isolate() - Isolate a folio for a batch
 * @batch: the batch
 * @vma: VMA that maps the folio, locked
 * @folio: the folio, under its page table lock
 *
 * Return: false if it cannot be isolated, or is in another tier than the batch.
 */
bool follow_isolate(struct follow_batch *batch, struct vm_area_struct *vma,
		    struct folio *folio)
{
	int from = folio_nid(folio);

	if (batch->from != NUMA_NO_NODE &&
	    node_is_toptier(batch->from) != node_is_toptier(from))
		return false;
	if (migrate_misplaced_folio_prepare(folio, vma, batch->to))
		return false;
	batch->from = from;
	batch->nr_pages += folio_nr_pages(folio);
	list_add_tail(&folio->lru, &batch->folios);
	return true;
}

/**
 * follow_refusal() - Get the reason why a folio could not be isolated
 * @vma: VMA that maps the folio
 * @folio: folio, under its page table lock
 *
 * Return: the reason.
 */
enum follow_verdict follow_refusal(const struct vm_area_struct *vma,
				   struct folio *folio)
{
	if (folio_is_file_lru(folio)) {
		if ((vma->vm_flags & VM_EXEC) &&
		    folio_likely_mapped_shared(folio))
			return FOLLOW_SHARED;
		if (folio_test_dirty(folio))
			return FOLLOW_DIRTY;
	}
	/* Free memory is checked before the folio is taken off its list. */
	return folio_test_lru(folio) ? FOLLOW_NOMEM : FOLLOW_BUSY;
}

static struct folio *new_folio(struct folio *src, unsigned long private)
{
	struct follow_batch *batch = (struct follow_batch *)private;
	struct folio *dst = alloc_move_target(src, batch->to);

	batch->nomem |= !dst;
	return dst;
}

/* The counters of migrate_misplaced_folio() */
static void count_moved(const struct follow_batch *batch,
			struct mem_cgroup *memcg, unsigned int moved)
{
	count_vm_numa_events(NUMA_PAGE_MIGRATE, moved);
	count_memcg_events(memcg, NUMA_PAGE_MIGRATE, moved);
	if (!node_is_toptier(batch->from) && node_is_toptier(batch->to))
		mod_lruvec_state(mem_cgroup_lruvec(memcg, NODE_DATA(batch->to)),
				 PGPROMOTE_SUCCESS, moved);
}

/**
 * follow_move() - Migrate the folios of a batch
 * @batch: the batch; empty afterwards; folios that did not move are put back
 *
 * Huge pages move as a whole: a wrong node is no reason to split.
 *
 * Return: number of pages that moved.
 */
unsigned long follow_move(struct follow_batch *batch)
{
	struct mem_cgroup *memcg;
	unsigned int moved = 0;

	if (list_empty(&batch->folios))
		return 0;
	/*
	 * All are of one address space, and so of one cgroup, except pages charged to
	 * other sharers
	 */
	memcg = get_mem_cgroup_from_folio(list_first_entry(&batch->folios,
							   struct folio, lru));
	migrate_pages(&batch->folios, new_folio, NULL, (unsigned long)batch,
		      MIGRATE_ASYNC, MR_NUMA_MISPLACED, &moved);
	if (!list_empty(&batch->folios))
		putback_movable_pages(&batch->folios);
	if (moved)
		count_moved(batch, memcg, moved);
	mem_cgroup_put(memcg);
	return moved;
}
