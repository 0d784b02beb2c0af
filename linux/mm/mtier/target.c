// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: target nodes.
 *
 * A page can be promoted to each faster tier at once, and be demoted to each slower one.
 * With DRAM, CXL and a third, slower tier, a hot page of the slowest tier goes to DRAM
 * if it is used more than the coldest page there, and to CXL otherwise. memory-tiers.c
 * lists for each node the nodes of slower tiers. The rest follows from that:
 *
 *	node	tier	promotions to	demotions to
 *	0 DRAM	0	-		1 2
 *	1 CXL	1	0		2
 *	2 slow	2	0 1		-
 *
 * Of the tiers that have CPUs, only the one next to the slow tiers takes part. Memory
 * that is faster than DRAM is no target: it is not known to be wanted there.
 *
 * Within a tier, the shares of the nodes depend on the address space: on the CPUs that
 * its threads run on, and on the fast memory that it uses (look.c).
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

/* Get the nodes faster than @nid that have no other such node on a slower tier. */
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

/* Set the targets of all nodes, from the slow nodes and the nodes above them. */
static void mtier_map_link(struct mtier_map *map)
{
	nodemask_t lower;
	int nid, a;

	for_each_node_mask(nid, map->slow)
		for_each_node_mask(a, map->above) {
			mtier_lower(a, &lower);
			if (!node_isset(nid, lower))
				continue;
			node_set(a, map->node[nid].up);
			node_set(nid, map->node[a].down);
		}
}

/* Number the tiers: a node is one tier below the slowest of its targets. */
static void mtier_map_number(struct mtier_map *map)
{
	bool changed = true;
	unsigned int tier;
	int nid, a;

	while (changed) {
		changed = false;
		for_each_node_mask(nid, map->slow) {
			tier = 0;
			for_each_node_mask(a, map->node[nid].up)
				tier = max(tier, map->node[a].tier + 1);
			changed |= tier != map->node[nid].tier;
			map->node[nid].tier = tier;
		}
	}
}

/**
 * mtier_map_make() - Make a map of the targets of each node.
 *
 * Return: a map that the caller publishes or frees, NULL without memory.
 */
struct mtier_map *mtier_map_make(void)
{
	struct mtier_map *map;
	nodemask_t up;
	int nid;

	map = kzalloc(struct_size(map, node, nr_node_ids), GFP_KERNEL);
	if (!map)
		return NULL;
	for_each_node_state(nid, N_MEMORY) {
		if (node_is_toptier(nid))
			continue;
		node_set(nid, map->slow);
		mtier_next_up(nid, &up);
		nodes_or(map->above, map->above, up);
	}
	mtier_map_link(map);
	mtier_map_number(map);
	return map;
}

/**
 * mtier_map_equal() - Compare two maps.
 * @a: first map
 * @b: second map
 *
 * Return: true if they are equal.
 */
bool mtier_map_equal(const struct mtier_map *a, const struct mtier_map *b)
{
	return nodes_equal(a->slow, b->slow) &&
	       !memcmp(a->node, b->node, nr_node_ids * sizeof(a->node[0]));
}

/* Get the entry of a node, a copy. */
static struct mtier_map_node mtier_map_node(int nid)
{
	struct mtier_map_node node = { };
	const struct mtier_map *map;

	rcu_read_lock();
	map = rcu_dereference(mtier_map);
	if (map)
		node = map->node[nid];
	rcu_read_unlock();
	return node;
}

/**
 * mtier_node_up() - Get the promotion targets of a node.
 * @nid: the node
 *
 * Return: the nodes of all faster tiers; none for a node of the fast tier.
 */
nodemask_t mtier_node_up(int nid)
{
	return mtier_map_node(nid).up;
}

/**
 * mtier_node_down() - Get the demotion targets of a node.
 * @nid: the node
 *
 * Return: the nodes of all slower tiers; none for a node of the slowest one.
 */
nodemask_t mtier_node_down(int nid)
{
	return mtier_map_node(nid).down;
}

/**
 * mtier_node_tier() - Get the tier of a node.
 * @nid: the node
 *
 * Return: 0 for the fast tier, 1 for the next one, and so on.
 */
unsigned int mtier_node_tier(int nid)
{
	const struct mtier_map *map;
	unsigned int tier = 0;

	rcu_read_lock();
	map = rcu_dereference(mtier_map);
	if (map)
		tier = map->node[nid].tier;
	rcu_read_unlock();
	return tier;
}

/**
 * mtier_nodes_above() - Get the promotion targets of all slow nodes.
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
 * mtier_nodes_fast() - Get the nodes of the fast tier.
 *
 * Return: the promotion targets that are no slow nodes.
 */
nodemask_t mtier_nodes_fast(void)
{
	nodemask_t fast = mtier_nodes_above(), slow = mtier_nodes_slow();

	nodes_andnot(fast, fast, slow);
	return fast;
}

/**
 * mtier_nodes_slow() - Get the nodes from which pages are promoted.
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
 * mtier_node_below() - Choose the target of demotions that make room on a node.
 * @nid: a node that pages are promoted to
 * @targets: nodes to choose from
 *
 * Return: of the nodes of the next slower tier that is among @targets, the nearest one;
 * NUMA_NO_NODE if there is none.
 */
int mtier_node_below(int nid, const nodemask_t *targets)
{
	nodemask_t next = NODE_MASK_NONE;
	unsigned int tier, best = UINT_MAX;
	int n;

	for_each_node_mask(n, *targets) {
		tier = mtier_node_tier(n);
		if (tier > best)
			continue;
		if (tier < best)
			nodes_clear(next);
		best = tier;
		node_set(n, next);
	}
	return mtier_nearest(nid, &next);
}

/*
 * Get the memory that an allocation on this CPU can take without waking kswapd. Freed
 * frames stay in the lists of the CPU that freed them. These lists may keep an eighth
 * of the zone, and no counter includes them. They hold frames of pages that were just
 * demoted. An allocation takes from them first, but not below the low watermark.
 */
static unsigned long mtier_zone_free(struct zone *zone, unsigned long reserve)
{
	unsigned long free = zone_page_state(zone, NR_FREE_PAGES);

	if (free > low_wmark_pages(zone) + reserve)
		free += READ_ONCE(raw_cpu_ptr(zone->per_cpu_pageset)->count);
	return free;
}

/**
 * mtier_node_free_above() - Get the number of free pages that promotion may use.
 * @nid: the node
 * @mark: watermark that stays free
 *
 * Promotion can allocate from higher zones. So the reserve that a zone keeps from
 * such allocations is not free for promotion either.
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
 * mtier_node_mapped() - Count the pages of a node that page tables map.
 * @nid: the node
 *
 * The sizes of the LRU lists do not give this number: new pages are on no list, and
 * unmapped page cache has no Accessed bit.
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
 * mtier_node_mapped_huge() - Count the mapped pages of a node that huge entries map.
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
 * mtier_nearest() - Find the nearest of some nodes.
 * @nid: node from which the distance counts
 * @targets: nodes to choose from
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

/* Most threads that are read to find the nodes on which an mm runs. */
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
 * mtier_slot_weigh() - Set the shares of the promotion targets of an address space.
 * @slot: the address space
 *
 * Called once in a burst, since each call lets the recorded use of fast memory fade.
 * The arrays are allocated here. So only address spaces that are scanned have them,
 * and only if there is a choice of nodes.
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
 * mtier_slot_pick() - Choose the target node of the next pages of an address space.
 * @slot: the address space
 * @up: nodes to choose from
 *
 * Return: one of @up, each as often as its share from mtier_slot_weigh();
 * NUMA_NO_NODE if none has a share.
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
