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
#include <linux/nodemask.h>
#include <linux/string.h>

#include "burst.h"
#include "mtier.h"
#include "unmapped.h"

/* CPU time of a migration before one was measured, and its bounds, for a page. */
#define MTIER_MOVE_NS		2500
#define MTIER_MOVE_MIN_NS	250
#define MTIER_MOVE_MAX_NS	25000

/* Estimate how many pages of a class may migrate. */
static u64 mtier_machine_movable(u32 group, u64 pages)
{
	u32 share = MTIER_Q16 - mtier_burst.fixed[group % MTIER_LARGE];

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

/* Add the mapped pages of a node to those of its tier. */
static void mtier_machine_pages(struct mtier_place_machine *m, u32 side, int nid)
{
	u64 large = mtier_node_mapped_huge(nid);
	u64 all = mtier_node_mapped(nid);

	large = min(large, all);
	m->pages[side] += all - large;
	m->pages[side + MTIER_LARGE] += large;
}

/* Reduce the slow pages to those in ranges that are in use. */
static void mtier_machine_in_use(struct mtier_place_machine *m, unsigned long ranges)
{
	u64 *single = &m->pages[MTIER_LOW], *large = single + MTIER_LARGE;
	u64 all = *single + *large;
	u64 used = min(all, (u64)ranges * mtier_burst.per_range);

	if (!all)
		return;
	*large = mul_u64_u64_div_u64(*large, used, all);
	*single = used - *large;
}

/**
 * mtier_machine_per_range() - Learn how many slow pages a range has that is in use.
 * @watch: the sample of a burst
 * @seen: statistics of the burst
 */
void mtier_machine_per_range(const struct mtier_watch *watch,
			     const struct mtier_seen *seen)
{
	u32 drawn = watch->drawn[MTIER_LOW];

	lockdep_assert_held(&mtier_burst_lock);
	if (drawn)
		mtier_burst.per_range = (mtier_burst.per_range + 1 +
			div_u64(seen->pages[MTIER_LOW], drawn)) / 2;
}

/**
 * mtier_machine_read() - Read the state of the machine.
 * @m: filled; what was learned of it stays
 * @ranges: number of ranges in use that have slow pages
 */
void mtier_machine_read(struct mtier_place_machine *m, unsigned long ranges)
{
	nodemask_t low = mtier_nodes_slow(), top = mtier_nodes_above();
	struct mtier_unmapped_room room = { .age_ns = U64_MAX };
	int nid;
	u32 s;

	lockdep_assert_held(&mtier_burst_lock);
	nodes_andnot(top, top, low);
	memset(m->pages, 0, sizeof(m->pages));
	for_each_node_mask(nid, top)
		mtier_machine_pages(m, MTIER_TOP, nid);
	for_each_node_mask(nid, low)
		mtier_machine_pages(m, MTIER_LOW, nid);
	for (s = 0; s < MTIER_GROUPS; s++)
		m->pages[s] = mtier_machine_movable(s, m->pages[s]);
	mtier_machine_in_use(m, ranges);
	m->free = mtier_room_above();
	for_each_node_mask(nid, top)
		mtier_unmapped_room(nid, &room);
	m->spare = room.pages;
	m->whole = min(room.whole, room.pages);
	m->spare_ns = room.age_ns;
	m->share_most = READ_ONCE(mtier_conf.cpu_percent) * MTIER_Q16 / 100;
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
