/* SPDX-License-Identifier: GPL-2.0 */
/* Memory policies with weights: declarations shared by the files here. */
#ifndef _MM_MEMPOLICY2_H
#define _MM_MEMPOLICY2_H

#include <linux/bits.h>
#include <linux/mempolicy2.h>
#include <linux/nodemask.h>
#include <linux/rbtree_types.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>

struct access_coordinate;

/**
 * struct mpol_slot - turn of a node in a round
 * @end: first index in the round after its turn
 * @nid: node
 * @live: of the first @nr_live slots: another node, one with weight 0
 */
struct mpol_slot {
	u32 end;
	u16 nid;
	u16 live;
};

/**
 * struct mpol_given - weights as the user gave them with a mask that is kept
 * @refs: number of tables that use it
 * @nr: number of weights: nr_node_ids, or more if the mask has further nodes
 * @weight: weight by node or position
 */
struct mpol_given {
	refcount_t refs;
	unsigned int nr;
	u8 weight[];
};

/**
 * struct mpol_weights - weights, and their layout
 * @refs: number of policies that use it
 * @nr: number of nodes that get pages
 * @nr_live: number of those with weight 0, whose global weight counts
 * @total: pages in a round, without those of nodes with weight 0
 * @rcu: a task may read the weights of its policy while its cpuset replaces them
 * @nodes: nodes that get pages
 * @known: entry in the tree of tables, see tables.c; empty for a draft
 * @given: weights given by the user if the user's mask is kept
 *	(MPOL_F_STATIC_NODES, MPOL_F_RELATIVE_NODES), otherwise NULL
 * @weight: weight by node, of nr_node_ids nodes; after @slots
 * @slots: one for each of @nodes, ascending
 *
 * Immutable once in the tree, except for @refs.
 */
struct mpol_weights {
	refcount_t refs;
	u16 nr;
	u16 nr_live;
	u32 total;
	struct rcu_head rcu;
	nodemask_t nodes;
	struct rb_node known;
	struct mpol_given *given;
	u8 *weight;
	struct mpol_slot slots[];
};

/**
 * struct mempolicy2 - a policy with weights
 * @pol: policy, its flags have MPOL_F_WEIGHTS
 * @weights: weights in force
 *
 * A fork copies one for each mapping, so this is as small as possible.
 */
struct mempolicy2 {
	struct mempolicy pol;
	struct mpol_weights __rcu *weights;
};

/**
 * struct mempolicy2_task - a policy with weights of a task
 * @policy: policy, its flags have MPOL_F_WEIGHTS and MPOL_F_TASK
 * @spare: table for the next rebind, which cannot allocate; or NULL
 */
struct mempolicy2_task {
	struct mempolicy2 policy;
	struct mpol_weights *spare;
};

static inline struct mempolicy2 *to_mempolicy2(struct mempolicy *pol)
{
	return container_of(pol, struct mempolicy2, pol);
}

/**
 * struct mpol_global - global weights
 * @below: sum of the weights of all nodes with a lower number
 * @weight: weight by node, none is 0; iw_table points here
 *
 * Immutable; one at a time, replaced under iw_table_lock and read under RCU.
 */
struct mpol_global {
	u32 below[MAX_NUMNODES + 1];
	u8 weight[MAX_NUMNODES];
};

/**
 * mpol_global() - Global weights in force
 *
 * Context: RCU read lock; not before initcalls of core subsystems.
 * Return: the weights.
 */
static inline const struct mpol_global *mpol_global(void)
{
	return container_of(rcu_dereference(iw_table), struct mpol_global,
			    weight[0]);
}

/* The sum of two weights is limited to this. */
#define MPOL_WEIGHT_MAX	255

/* ---- layout.c: arithmetic without locks and without memory ---- */

void mpol_layout(struct mpol_weights *m, const nodemask_t *nodes);
unsigned int mpol_slot_nid(const struct mpol_weights *m, u32 target);
void mpol_global_sums(struct mpol_global *g);
unsigned int mpol_global_nid(const struct mpol_global *g,
			     const nodemask_t *nodes, pgoff_t ilx);
unsigned int mpol_live_nid(const struct mpol_weights *m,
			   const struct mpol_global *g, pgoff_t ilx);
void mpol_fold_static(const u8 *user, const nodemask_t *user_nodes,
		      const nodemask_t *mems, u8 *weight, nodemask_t *nodes);
void mpol_fold_relative(const u8 *user, const nodemask_t *user_nodes,
			const nodemask_t *mems, u8 *weight, nodemask_t *nodes);
void mpol_fold_remap(const u8 *old, const nodemask_t *old_nodes,
		     const nodemask_t *from, const nodemask_t *to, u8 *weight,
		     nodemask_t *nodes);

/* ---- tables.c: tables that policies share ---- */

struct mpol_weights *mpol_weights_alloc(gfp_t gfp);
struct mpol_given *mpol_given_alloc(const u8 *weight, const nodemask_t *nodes);
void mpol_weights_put(struct mpol_weights *m);
struct mpol_weights *mpol_weights_share(struct mpol_weights *m);
void mpol_weights_clear(struct mpol_weights *m);

/* ---- weights.c: policies with weights ---- */

void mpol2_raw_weights(struct mempolicy *pol, u8 *weight);

/* ---- global.c ---- */

void mpol_global_init(void);
int mpol_weights_of_bandwidth(const u32 *mbps, const nodemask_t *nodes,
			      u8 *weight);
u32 mpol_bandwidth_of(const struct access_coordinate *coord);

/* ---- rebalance.c ---- */

struct list_head *mpol2_rebalance_alloc(void);
long mpol2_rebalance(struct list_head *lists, unsigned long start,
		     unsigned long end);

#endif /* _MM_MEMPOLICY2_H */
