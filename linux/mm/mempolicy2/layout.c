// SPDX-License-Identifier: GPL-2.0
/*
 * Interleave weights: the node of an interleave index, and the weights after a cpuset
 * changes the nodes of a policy.
 *
 * Only arithmetic on arrays indexed by node and on node masks: no locks, no memory, no
 * clock, so that tests can compare all of it with a model. Arrays of weights have
 * nr_node_ids bytes. A weight of 0 follows the global one.
 */
#include <linux/minmax.h>
#include <linux/string.h>

#include "mempolicy2.h"

/**
 * mpol_layout() - Compute the layout of weights
 * @m: its @weight is set; @nodes, @nr, @nr_live, @total and @slots are written
 * @nodes: nodes that get pages, at least one
 */
void mpol_layout(struct mpol_weights *m, const nodemask_t *nodes)
{
	struct mpol_slot *slot = m->slots;
	int nid;

	m->nodes = *nodes;
	m->nr_live = 0;
	m->nr = nodes_weight(*nodes);
	m->total = 0;
	for_each_node_mask(nid, *nodes) {
		if (!m->weight[nid])
			m->slots[m->nr_live++].live = nid;
		m->total += m->weight[nid];
		slot->end = m->total;
		slot->nid = nid;
		slot++;
	}
}

/**
 * mpol_slot_nid() - Get the node of an index in the round
 * @m: weights, none of them 0
 * @target: index in the round, less than @m->total
 *
 * Return: node.
 */
unsigned int mpol_slot_nid(const struct mpol_weights *m, u32 target)
{
	unsigned int low = 0, high = m->nr - 1;

	while (low < high) {
		unsigned int mid = (low + high) / 2;

		if (target < m->slots[mid].end)
			high = mid;
		else
			low = mid + 1;
	}
	return m->slots[low].nid;
}

/**
 * mpol_global_sums() - Compute the sums of global weights
 * @g: its @weight is set, no entry is 0; @below is written
 */
void mpol_global_sums(struct mpol_global *g)
{
	u32 sum = 0;
	int nid;

	for (nid = 0; nid < MAX_NUMNODES; nid++) {
		g->below[nid] = sum;
		sum += g->weight[nid];
	}
	g->below[nid] = sum;
}

/* Get the node of @target, counted from node 0 on: one of @from to below @to. */
static unsigned int run_nid(const struct mpol_global *g, unsigned int from,
			    unsigned int to, u32 target)
{
	while (to - from > 1) {
		unsigned int mid = (from + to) / 2;

		if (target < g->below[mid])
			to = mid;
		else
			from = mid;
	}
	return from;
}

/* Like mpol_global_nid(), for a mask with holes. */
static unsigned int runs_nid(const struct mpol_global *g,
			     const nodemask_t *nodes, pgoff_t ilx)
{
	u32 target, total = 0;
	unsigned int from, to;

	for_each_set_bitrange(from, to, nodes->bits, MAX_NUMNODES)
		total += g->below[to] - g->below[from];
	target = ilx % total;
	for_each_set_bitrange(from, to, nodes->bits, MAX_NUMNODES) {
		if (target < g->below[to] - g->below[from])
			break;
		target -= g->below[to] - g->below[from];
	}
	return run_nid(g, from, to, target + g->below[from]);
}

/**
 * mpol_global_nid() - Get the node of an interleave index by global weights
 * @g: global weights
 * @nodes: nodes that get pages
 * @ilx: interleave index
 *
 * Return: node, MAX_NUMNODES if there are none.
 */
unsigned int mpol_global_nid(const struct mpol_global *g,
			     const nodemask_t *nodes, pgoff_t ilx)
{
	unsigned int from = find_first_bit(nodes->bits, MAX_NUMNODES), to;

	if (unlikely(from >= MAX_NUMNODES))
		return MAX_NUMNODES;
	to = find_next_zero_bit(nodes->bits, MAX_NUMNODES, from);
	if (find_next_bit(nodes->bits, MAX_NUMNODES, to) < MAX_NUMNODES)
		return runs_nid(g, nodes, ilx);
	ilx %= g->below[to] - g->below[from];
	return run_nid(g, from, to, ilx + g->below[from]);
}

/**
 * mpol_live_nid() - Get the node of an interleave index if some weights are global
 * @m: weights
 * @g: global weights
 * @ilx: interleave index
 *
 * Return: node.
 */
unsigned int mpol_live_nid(const struct mpol_weights *m,
			   const struct mpol_global *g, pgoff_t ilx)
{
	const struct mpol_slot *slot, *last = &m->slots[m->nr - 1];
	u32 target, total = m->total;

	for (slot = m->slots; slot < &m->slots[m->nr_live]; slot++)
		total += g->weight[slot->live];
	target = ilx % total;
	for (slot = m->slots; slot < last; slot++) {
		u8 weight = m->weight[slot->nid];

		if (!weight)
			weight = g->weight[slot->nid];
		if (target < weight)
			break;
		target -= weight;
	}
	return slot->nid;
}

static void add_weight(u8 *weight, u8 more)
{
	*weight = min(*weight + more, MPOL_WEIGHT_MAX);
}

/**
 * mpol_fold_static() - Compute the weights of a policy with fixed nodes
 * @user: weights by node id of the user
 * @user_nodes: nodes of the user
 * @mems: nodes that may be used
 * @weight: written: weights in force
 * @nodes: written: the intersection, all of @mems if that is empty
 */
void mpol_fold_static(const u8 *user, const nodemask_t *user_nodes,
		      const nodemask_t *mems, u8 *weight, nodemask_t *nodes)
{
	int nid;

	memset(weight, 0, nr_node_ids);
	nodes_and(*nodes, *user_nodes, *mems);
	for_each_node_mask(nid, *nodes)
		weight[nid] = user[nid];
	if (nodes_empty(*nodes))
		*nodes = *mems;
}

/**
 * mpol_fold_relative() - Compute the weights of a policy with relative nodes
 * @user: weights by position
 * @user_nodes: positions of the user
 * @mems: nodes that may be used
 * @weight: written: weights in force; weights of positions that map to one node
 *	are added
 * @nodes: written: nodes at these positions, all of @mems if there are none
 */
void mpol_fold_relative(const u8 *user, const nodemask_t *user_nodes,
			const nodemask_t *mems, u8 *weight, nodemask_t *nodes)
{
	unsigned int nr = nodes_weight(*mems);
	int pos, nid;

	memset(weight, 0, nr_node_ids);
	nodes_clear(*nodes);
	if (!nr)
		return;
	for_each_node_mask(pos, *user_nodes) {
		nid = find_nth_bit(mems->bits, MAX_NUMNODES, pos % nr);
		node_set(nid, *nodes);
		add_weight(&weight[nid], user[pos]);
	}
	if (nodes_empty(*nodes))
		*nodes = *mems;
}

/**
 * mpol_fold_remap() - Compute the weights of a policy that is remapped with its cpuset
 * @old: weights in force
 * @old_nodes: nodes in force
 * @from: nodes that the cpuset allowed
 * @to: nodes that it allows now
 * @weight: written: weights in force; weights that map to one node are added
 * @nodes: written: nodes in force, all of @to if there are none
 */
void mpol_fold_remap(const u8 *old, const nodemask_t *old_nodes,
		     const nodemask_t *from, const nodemask_t *to, u8 *weight,
		     nodemask_t *nodes)
{
	int nid, target;

	memset(weight, 0, nr_node_ids);
	nodes_clear(*nodes);
	for_each_node_mask(nid, *old_nodes) {
		target = node_remap(nid, *from, *to);
		node_set(target, *nodes);
		add_weight(&weight[target], old[nid]);
	}
	if (nodes_empty(*nodes))
		*nodes = *to;
}
