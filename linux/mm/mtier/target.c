// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: which node a page should go to.
 *
 * A page moves to the next tier above its own, not further: with DRAM, CXL and
 * something slower, a page of the slowest tier first shows on CXL that it
 * deserves DRAM.  memory-tiers.c tells of every node which nodes lie in lower
 * tiers; "next above" follows from that:
 *
 *	node	lower		up
 *	0 DRAM	1 2		-
 *	1 CXL	2		0
 *	2 slow	-		1	(0 is above 1, so 1 is nearer)
 *
 * Within that tier the shares of the nodes come from the address space: from the
 * CPUs that its threads run on, and from the memory up there that it uses (look.c).
 */
#include <linux/memory-tiers.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/topology.h>

#include "mtier.h"

struct mtier_map __rcu *mtier_map;

static void mtier_lower(int nid, nodemask_t *lower)
{
	node_get_allowed_targets(NODE_DATA(nid), lower);
	nodes_and(*lower, *lower, node_states[N_MEMORY]);
}

/* Nodes above @nid that have no other node above @nid below them. */
static void mtier_next_up(int nid, nodemask_t *up)
{
	nodemask_t above, lower;
	int a;

	nodes_clear(above);
	for_each_node_state(a, N_MEMORY) {
		mtier_lower(a, &lower);
		if (node_isset(nid, lower))
			node_set(a, above);
	}
	nodes_clear(*up);
	for_each_node_mask(a, above) {
		mtier_lower(a, &lower);
		if (!nodes_intersects(lower, above))
			node_set(a, *up);
	}
}

/**
 * mtier_map_make() - see which node feeds which
 *
 * Return: a map to be published or freed by the caller, NULL without memory.
 */
struct mtier_map *mtier_map_make(void)
{
	struct mtier_map *map;
	int nid;

	map = kzalloc(struct_size(map, up, nr_node_ids), GFP_KERNEL);
	if (!map)
		return NULL;
	for_each_node_state(nid, N_MEMORY) {
		if (node_is_toptier(nid))
			continue;
		node_set(nid, map->slow);
		mtier_next_up(nid, &map->up[nid]);
		nodes_or(map->above, map->above, map->up[nid]);
	}
	return map;
}

/**
 * mtier_map_equal() - do two maps say the same?
 * @a: one
 * @b: the other
 *
 * Return: true if so.
 */
bool mtier_map_equal(const struct mtier_map *a, const struct mtier_map *b)
{
	return nodes_equal(a->slow, b->slow) &&
	       !memcmp(a->up, b->up, nr_node_ids * sizeof(a->up[0]));
}

/**
 * mtier_node_up() - where a node's hot pages go
 * @nid: the node
 *
 * Return: the nodes of the next tier above; none for a top-tier node.
 */
nodemask_t mtier_node_up(int nid)
{
	nodemask_t up = NODE_MASK_NONE;
	const struct mtier_map *map;

	rcu_read_lock();
	map = rcu_dereference(mtier_map);
	if (map)
		up = map->up[nid];
	rcu_read_unlock();
	return up;
}

/**
 * mtier_nodes_above() - where any slow node's hot pages go
 *
 * Return: the union of mtier_node_up() over all slow nodes.
 */
nodemask_t mtier_nodes_above(void)
{
	nodemask_t above = NODE_MASK_NONE;
	const struct mtier_map *map;

	rcu_read_lock();
	map = rcu_dereference(mtier_map);
	if (map)
		above = map->above;
	rcu_read_unlock();
	return above;
}

/**
 * mtier_nodes_slow() - where promotion takes pages from
 *
 * Return: the nodes that are not in the top tier and have memory.
 */
nodemask_t mtier_nodes_slow(void)
{
	nodemask_t slow = NODE_MASK_NONE;
	const struct mtier_map *map;

	rcu_read_lock();
	map = rcu_dereference(mtier_map);
	if (map)
		slow = map->slow;
	rcu_read_unlock();
	return slow;
}

/**
 * mtier_node_below() - where what is not urgent on a node may lie instead
 * @nid: a node that pages go to
 *
 * Return: the nearest slow node that feeds it; NUMA_NO_NODE if there is none.
 */
int mtier_node_below(int nid)
{
	nodemask_t below = mtier_nodes_slow(), up;
	int n;

	for_each_node_mask(n, below) {
		up = mtier_node_up(n);
		if (!node_isset(nid, up))
			node_clear(n, below);
	}
	return mtier_nearest(nid, &below);
}

/*
 * What an allocation on this CPU can have without waking anybody. Freed frames
 * stay in the lists of the CPU that freed them, which may keep an eighth of the
 * zone and are in no count: those of pages that have just gone down are there. They
 * are served first, but not to who is below the low watermark.
 */
static unsigned long mtier_zone_free(struct zone *zone, unsigned long reserve)
{
	unsigned long free = zone_page_state(zone, NR_FREE_PAGES);

	if (free > low_wmark_pages(zone) + reserve)
		free += READ_ONCE(raw_cpu_ptr(zone->per_cpu_pageset)->count);
	return free;
}

/**
 * mtier_node_free_above() - free pages that promotion may use
 * @nid: the node
 * @mark: which watermark stays free
 *
 * What a zone keeps back from allocations that could use a higher one, as ours can,
 * is not free for us either.
 *
 * Return: base pages above the watermark, summed over zones.
 */
unsigned long mtier_node_free_above(int nid, enum zone_watermarks mark)
{
	pg_data_t *pgdat = NODE_DATA(nid);
	unsigned long sum = 0;
	int z;

	for (z = 0; z < pgdat->nr_zones; z++) {
		struct zone *zone = pgdat->node_zones + z;
		unsigned long reserve = zone->lowmem_reserve[ZONE_MOVABLE];
		unsigned long free, kept;

		if (!managed_zone(zone))
			continue;
		free = mtier_zone_free(zone, reserve);
		kept = wmark_pages(zone, mark) + reserve;
		if (free > kept)
			sum += free - kept;
	}
	return sum;
}

/**
 * mtier_node_mapped() - has a node pages that page tables point to?
 * @nid: the node
 *
 * Not the sizes of its LRU lists: fresh pages are on none, and unmapped page
 * cache has no Accessed bit.
 *
 * Return: base pages.
 */
unsigned long mtier_node_mapped(int nid)
{
	pg_data_t *pgdat = NODE_DATA(nid);

	return node_page_state(pgdat, NR_ANON_MAPPED) +
	       node_page_state(pgdat, NR_FILE_MAPPED);
}

/**
 * mtier_node_mapped_huge() - how many of them does one entry map with others?
 * @nid: the node
 *
 * Return: base pages.
 */
unsigned long mtier_node_mapped_huge(int nid)
{
	pg_data_t *pgdat = NODE_DATA(nid);

	return node_page_state(pgdat, NR_ANON_THPS) +
	       node_page_state(pgdat, NR_SHMEM_PMDMAPPED) +
	       node_page_state(pgdat, NR_FILE_PMDMAPPED);
}

/**
 * mtier_room_above() - room for promotion, wherever
 *
 * Return: free base pages above the high watermarks of all nodes that hot
 * pages go to.
 */
unsigned long mtier_room_above(void)
{
	nodemask_t above = mtier_nodes_above();
	unsigned long sum = 0;
	int nid;

	for_each_node_mask(nid, above)
		sum += mtier_node_free_above(nid, WMARK_HIGH);
	return sum;
}

/**
 * mtier_nearest() - the nearest of some nodes
 * @nid: to this one
 * @targets: the nodes
 *
 * Return: one of them; NUMA_NO_NODE if there is none.
 */
int mtier_nearest(int nid, const nodemask_t *targets)
{
	int n, best = NUMA_NO_NODE;

	for_each_node_mask(n, *targets)
		if (best == NUMA_NO_NODE ||
		    node_distance(nid, n) < node_distance(nid, best))
			best = n;
	return best;
}

/* Most threads looked at to see where an mm runs. */
#define MTIER_THREADS_MAX	256

static void mtier_count_threads(struct mtier_slot *slot)
{
	struct task_struct *p, *t;
	unsigned int n = 0;

	memset(slot->threads, 0, nr_node_ids * sizeof(*slot->threads));
	rcu_read_lock();
	p = rcu_dereference(slot->mm->owner);
	if (p) {
		for_each_thread(p, t) {
			slot->threads[cpu_to_node(task_cpu(t))]++;
			if (++n == MTIER_THREADS_MAX)
				break;
		}
	}
	rcu_read_unlock();
}

/**
 * mtier_slot_weigh() - see where an address space's pages should go up to
 * @slot: the address space
 *
 * To be called once in a burst: what was seen of its use of memory up there fades.
 * The arrays are allocated here, so that only those have them that are looked at,
 * where there is a choice.
 *
 * Return: 0 or -ENOMEM.
 */
int mtier_slot_weigh(struct mtier_slot *slot)
{
	if (!slot->top) {
		slot->top = kcalloc(4 * nr_node_ids, sizeof(u32),
				    GFP_KERNEL_ACCOUNT);
		if (!slot->top)
			return -ENOMEM;
		slot->weights = slot->top + nr_node_ids;
		slot->masked = slot->top + 2 * nr_node_ids;
		slot->threads = slot->top + 3 * nr_node_ids;
	}
	mtier_count_threads(slot);
	mtier_weights_mix(slot->top, slot->threads, slot->weights, nr_node_ids);
	mtier_weights_decay(slot->top, nr_node_ids);
	return 0;
}

/**
 * mtier_slot_pick() - where do the next pages of an address space go to?
 * @slot: the address space
 * @up: nodes to choose from
 *
 * Return: each of them as often as mtier_slot_weigh() has found; NUMA_NO_NODE if
 * that knows of none.
 */
int mtier_slot_pick(struct mtier_slot *slot, const nodemask_t *up)
{
	int nid;

	if (!slot->top)
		return NUMA_NO_NODE;
	memset(slot->masked, 0, nr_node_ids * sizeof(*slot->masked));
	for_each_node_mask(nid, *up)
		slot->masked[nid] = slot->weights[nid];
	nid = mtier_target_pick(&slot->turn, slot->masked, nr_node_ids);
	return nid < 0 ? NUMA_NO_NODE : nid;
}
