// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: what the decision (place.c, pace.c) has to know of the machine.
 *
 * These are the pages of each tier that may migrate, the free memory of the fast tier,
 * and the CPU time of a migration. Pages of the slow tier count if they are in a range
 * that the last sweep found in use. All shares are running means over bursts.
 *
 * Locking: mtier_burst_lock, held by the caller. kmtierd alone writes.
 */
#include <linux/lockdep.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/string.h>
#include <linux/vmstat.h>

#include "burst.h"
#include "mtier.h"

/* CPU time of a migration before one was measured, and its bounds, for a page. */
#define MTIER_MOVE_NS		2500
#define MTIER_MOVE_MIN_NS	250
#define MTIER_MOVE_MAX_NS	25000

/* Estimate how many pages of a class may migrate. */
static u64 mtier_machine_movable(u32 group, u64 pages)
{
	u32 side = group % MTIER_LARGE ? MTIER_LOW : MTIER_TOP;
	u32 share = MTIER_Q16 - mtier_burst.fixed[side];

	return mul_u64_u32_shr(pages, share, 16);
}

/**
 * mtier_machine_fixed() - Learn from a burst which share of a tier may not migrate.
 * @seen: statistics of the burst
 */
void mtier_machine_fixed(const struct mtier_seen *seen)
{
	u32 s, *was;
	u64 all;

	lockdep_assert_held(&mtier_burst_lock);
	for (s = 0; s < MTIER_SIDES; s++) {
		all = seen->fixed[s] + seen->pages[s];
		was = &mtier_burst.fixed[s];
		if (all >= MTIER_RANGE_PAGES)
			*was = (3 * *was + div64_u64(seen->fixed[s] * MTIER_Q16,
						     all)) / 4;
	}
}

/**
 * mtier_seen_add() - Add the statistics of a burst to the sums of all bursts.
 * @sum: the sums
 * @s: statistics of the burst
 */
void mtier_seen_add(struct mtier_seen *sum, const struct mtier_seen *s)
{
	u32 side;

	sum->bursts++;
	count_vm_event(MTIER_BURSTS);
	sum->looks += s->looks;
	sum->ptes += s->ptes;
	sum->flushes += s->flushes;
	sum->flushed_ns += s->flushed_ns;
	sum->mms += s->mms;
	for (side = 0; side < MTIER_SIDES; side++) {
		sum->pages[side] += s->pages[side];
		sum->fixed[side] += s->fixed[side];
	}
	sum->left += s->left;
	sum->large += s->large;
	sum->common += s->common;
	sum->shared += s->shared;
	sum->told += s->told;
	sum->taken += s->taken;
	sum->promoted += s->promoted;
	sum->demoted += s->demoted;
	sum->unmapped += s->unmapped;
	sum->spent_ns += s->spent_ns;
	sum->moved_ns += s->moved_ns;
}

/* Add the mapped pages of a node to those of its tier. */
static void mtier_machine_pages(struct mtier_place_machine *m, int nid)
{
	u32 rank = min_t(u32, mtier_node_tier(nid), MTIER_RANKS - 1);
	u64 large = mtier_node_mapped_huge(nid);
	u64 all = mtier_node_mapped(nid);

	large = min(large, all);
	m->pages[rank] += all - large;
	m->pages[rank + MTIER_LARGE] += large;
}

/* Reduce the slow pages to those in ranges that are in use. */
static void mtier_machine_in_use(struct mtier_place_machine *m, u64 pages)
{
	u64 all = mtier_place_slow_pages(m);
	u64 used = min(all, mul_u64_u32_div(pages, mtier_burst.per_range,
					    MTIER_RANGE_PAGES));
	u32 g;

	for (g = 0; all && g < MTIER_GROUPS; g++)
		if (g % MTIER_LARGE)
			m->pages[g] = mul_u64_u64_div_u64(m->pages[g], used, all);
}

/**
 * mtier_machine_per_range() - Learn how many of the slow pages that sweeps expect may
 * migrate.
 * @watch: the sample of a burst
 * @seen: statistics of the burst
 */
void mtier_machine_per_range(const struct mtier_watch *watch,
			     const struct mtier_seen *seen)
{
	u64 expected = watch->expected[MTIER_LOW], now;

	lockdep_assert_held(&mtier_burst_lock);
	if (!expected)
		return;
	now = div64_u64(seen->pages[MTIER_LOW] * MTIER_RANGE_PAGES, expected);
	now = min_t(u64, now, 2 * MTIER_RANGE_PAGES);
	mtier_burst.per_range = (mtier_burst.per_range + 1 + now) / 2;
}

/**
 * mtier_machine_looked() - Learn from a burst what its scans cost.
 * @seen: statistics of the burst
 */
void mtier_machine_looked(const struct mtier_seen *seen)
{
	struct mtier_place_cost cost = {
		.ns = seen->spent_ns,
		.ptes = seen->ptes,
		.scans = seen->looks,
		.flushes = seen->flushes,
		.flush_ns = seen->flushed_ns,
	};

	lockdep_assert_held(&mtier_burst_lock);
	mtier_place_looked(&mtier_burst.machine, &cost);
}

/**
 * mtier_machine_read() - Read the state of the machine.
 * @m: filled; what was learned of it stays
 * @pages: estimate of the slow pages in ranges in use
 */
void mtier_machine_read(struct mtier_place_machine *m, u64 pages)
{
	struct mtier_pool fast = { .nodes = mtier_nodes_fast() };
	nodemask_t slow = mtier_nodes_slow();
	int nid;
	u32 g;

	lockdep_assert_held(&mtier_burst_lock);
	memset(m->pages, 0, sizeof(m->pages));
	for_each_node_mask(nid, fast.nodes)
		mtier_machine_pages(m, nid);
	for_each_node_mask(nid, slow)
		mtier_machine_pages(m, nid);
	for (g = 0; g < MTIER_GROUPS; g++)
		m->pages[g] = mtier_machine_movable(g, m->pages[g]);
	mtier_machine_in_use(m, pages);
	m->free = mtier_pool_free(&fast);
	m->share_most = READ_ONCE(mtier_conf.cpu_percent) * MTIER_Q16 / 100;
	m->observe = READ_ONCE(mtier_conf.observe);
	if (!m->move_ns)
		m->move_ns = MTIER_MOVE_NS;
	if (!m->look_ns)
		m->look_ns = MTIER_LOOK_NS;
}

/**
 * mtier_machine_move_ns() - Learn the CPU time of a migration.
 * @m: the machine
 * @ns: CPU time of some migrations
 * @pages: base pages that they moved
 */
void mtier_machine_move_ns(struct mtier_place_machine *m, u64 ns,
			   unsigned long pages)
{
	u32 now;

	lockdep_assert_held(&mtier_burst_lock);
	if (pages < MTIER_MOVED_LEAST)
		return;
	now = clamp_t(u64, div64_u64(ns, pages), MTIER_MOVE_MIN_NS,
		      MTIER_MOVE_MAX_NS);
	m->move_ns = DIV_ROUND_UP(3 * m->move_ns + now, 4);
}

/**
 * mtier_machine_any_low() - Check whether any page of a slow node is mapped.
 *
 * Return: true if so.
 */
bool mtier_machine_any_low(void)
{
	nodemask_t slow = mtier_nodes_slow();
	int nid;

	for_each_node_mask(nid, slow)
		if (mtier_node_mapped(nid))
			return true;
	return false;
}
