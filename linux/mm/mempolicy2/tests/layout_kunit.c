// SPDX-License-Identifier: GPL-2.0
/* KUnit: arithmetic of interleave weights, against the simplest model. */
#include <kunit/test.h>
#include <linux/node.h>
#include <linux/prandom.h>
#include <linux/slab.h>

#include "../mempolicy2.h"

#define ROUNDS	200

static struct mpol_weights *weights(struct kunit *test)
{
	struct mpol_weights *m;

	m = kunit_kzalloc(test, struct_size(m, slots, MAX_NUMNODES) +
			  MAX_NUMNODES, GFP_KERNEL);
	if (!m)
		kunit_skip(test, "no memory");
	m->weight = (u8 *)&m->slots[MAX_NUMNODES];
	return m;
}

static u8 *array(struct kunit *test)
{
	u8 *a = kunit_kzalloc(test, MAX_NUMNODES, GFP_KERNEL);

	if (!a)
		kunit_skip(test, "no memory");
	return a;
}

static void random_nodes(struct rnd_state *rnd, nodemask_t *nodes)
{
	int nid;

	nodes_clear(*nodes);
	for (nid = 0; nid < nr_node_ids; nid++)
		if (prandom_u32_state(rnd) % 2)
			node_set(nid, *nodes);
	if (nodes_empty(*nodes))
		node_set(prandom_u32_state(rnd) % nr_node_ids, *nodes);
}

/* Each node gets exactly its weight in every round, in ascending order. */
static void whose_turn(struct kunit *test)
{
	struct mpol_weights *m = weights(test);
	struct rnd_state rnd;
	nodemask_t nodes;
	int i, nid, n;

	prandom_seed_state(&rnd, 1);
	for (i = 0; i < ROUNDS; i++) {
		u32 target = 0;

		random_nodes(&rnd, &nodes);
		for (nid = 0; nid < nr_node_ids; nid++)
			m->weight[nid] = prandom_u32_state(&rnd) % 255 + 1;
		mpol_layout(m, &nodes);
		KUNIT_ASSERT_EQ(test, m->nr_live, 0);
		KUNIT_ASSERT_EQ(test, m->nr, nodes_weight(nodes));
		for_each_node_mask(nid, nodes)
			for (n = 0; n < m->weight[nid]; n++)
				KUNIT_ASSERT_EQ(test, nid,
						mpol_slot_nid(m, target++));
		KUNIT_ASSERT_EQ(test, target, m->total);
	}
}

/* Random weights for everybody, none of them 0 */
static struct mpol_global *global(struct kunit *test, struct rnd_state *rnd)
{
	struct mpol_global *g = kunit_kzalloc(test, sizeof(*g), GFP_KERNEL);
	int nid;

	if (!g)
		kunit_skip(test, "no memory");
	for (nid = 0; nid < MAX_NUMNODES; nid++)
		g->weight[nid] = prandom_u32_state(rnd) % 255 + 1;
	mpol_global_sums(g);
	return g;
}

/* The same by global weights, for masks with and without holes, two rounds. */
static void whose_global_turn(struct kunit *test)
{
	struct mpol_global *g;
	struct rnd_state rnd;
	nodemask_t nodes;
	int i, nid, n;

	prandom_seed_state(&rnd, 3);
	g = global(test, &rnd);
	for (i = 0; i < ROUNDS; i++) {
		pgoff_t ilx = 0;
		int round;

		random_nodes(&rnd, &nodes);
		if (i % 2)
			bitmap_fill(nodes.bits, nr_node_ids);
		for (round = 0; round < 2; round++)
			for_each_node_mask(nid, nodes)
				for (n = 0; n < g->weight[nid]; n++)
					KUNIT_ASSERT_EQ(test, nid,
							mpol_global_nid(g,
									&nodes,
									ilx++));
	}
	nodes_clear(nodes);
	KUNIT_EXPECT_EQ(test, mpol_global_nid(g, &nodes, 5), MAX_NUMNODES);
}

/* A node without a weight in the policy has the global weight. */
static void whose_live_turn(struct kunit *test)
{
	struct mpol_weights *m = weights(test);
	struct mpol_global *g;
	struct rnd_state rnd;
	nodemask_t nodes;
	int i, nid, n;

	prandom_seed_state(&rnd, 4);
	g = global(test, &rnd);
	for (i = 0; i < ROUNDS; i++) {
		/* Two rounds: the second one begins where it should. */
		pgoff_t ilx = 0;
		int round;

		random_nodes(&rnd, &nodes);
		for (nid = 0; nid < nr_node_ids; nid++)
			m->weight[nid] = prandom_u32_state(&rnd) % 3;
		mpol_layout(m, &nodes);
		for (round = 0; round < 2; round++)
			for_each_node_mask(nid, nodes)
				for (n = m->weight[nid] ?: g->weight[nid]; n;
				     n--)
					KUNIT_ASSERT_EQ(test, nid,
							mpol_live_nid(m, g,
								      ilx++));
	}
}

/* A weight of 0 in the mask is live, one outside is not looked at. */
static void zero_is_live(struct kunit *test)
{
	struct mpol_weights *m = weights(test);
	nodemask_t nodes = nodemask_of_node(0);

	m->weight[0] = 3;
	mpol_layout(m, &nodes);
	KUNIT_EXPECT_EQ(test, m->nr_live, 0);
	KUNIT_EXPECT_EQ(test, m->total, 3);
	m->weight[0] = 0;
	mpol_layout(m, &nodes);
	KUNIT_EXPECT_EQ(test, m->nr_live, 1);
}

/* The nodes are those that mm/mempolicy.c computes with node masks. */
static void nodes_as_mempolicy(struct kunit *test)
{
	nodemask_t user, from, to, nodes, expected, tmp;
	u8 *old = array(test), *new = array(test);
	struct rnd_state rnd;
	int i;

	prandom_seed_state(&rnd, 2);
	for (i = 0; i < ROUNDS; i++) {
		random_nodes(&rnd, &from);
		random_nodes(&rnd, &to);
		random_nodes(&rnd, &user);

		mpol_fold_static(old, &user, &to, new, &nodes);
		nodes_and(expected, user, to);
		if (nodes_empty(expected))
			expected = to;
		KUNIT_ASSERT_TRUE(test, nodes_equal(nodes, expected));

		mpol_fold_relative(old, &user, &to, new, &nodes);
		nodes_fold(tmp, user, nodes_weight(to));
		nodes_onto(expected, tmp, to);
		KUNIT_ASSERT_TRUE(test, nodes_equal(nodes, expected));

		nodes_and(user, user, from);
		mpol_fold_remap(old, &user, &from, &to, new, &nodes);
		nodes_remap(expected, user, from, to);
		if (nodes_empty(expected))
			expected = to;
		KUNIT_ASSERT_TRUE(test, nodes_equal(nodes, expected));
	}
}

/* Weights that fold onto one node are summed, up to 255; no other node gets one. */
static void sums(struct kunit *test)
{
	/* One array for each fold: a kernel may support fewer than 4 nodes. */
	u8 *old = array(test), *new = array(test);
	nodemask_t four = NODE_MASK_NONE, two = NODE_MASK_NONE, nodes;
	int nid;

	if (MAX_NUMNODES < 4)
		kunit_skip(test, "needs room for 4 nodes");
	for (nid = 0; nid < 4; nid++)
		node_set(nid, four);
	node_set(1, two);
	node_set(3, two);
	old[0] = 7;
	old[1] = 200;
	old[2] = 5;
	old[3] = 100;

	mpol_fold_remap(old, &four, &four, &two, new, &nodes);
	KUNIT_EXPECT_TRUE(test, nodes_equal(nodes, two));
	KUNIT_EXPECT_EQ(test, new[1], 12);
	KUNIT_EXPECT_EQ(test, new[3], 255);
	KUNIT_EXPECT_EQ(test, new[0], 0);

	new = array(test);
	mpol_fold_relative(old, &four, &two, new, &nodes);
	KUNIT_EXPECT_EQ(test, new[1], 12);
	KUNIT_EXPECT_EQ(test, new[3], 255);

	new = array(test);
	mpol_fold_static(old, &four, &two, new, &nodes);
	KUNIT_EXPECT_EQ(test, new[1], 200);
	KUNIT_EXPECT_EQ(test, new[3], 100);
	KUNIT_EXPECT_EQ(test, new[0], 0);
}

/* Without a common node the policy is spread over all, by global weights. */
static void nothing_left(struct kunit *test)
{
	u8 *old = array(test), *new = array(test);
	nodemask_t zero = nodemask_of_node(0), one = NODE_MASK_NONE, nodes;

	if (nr_node_ids < 2)
		kunit_skip(test, "needs 2 possible nodes");
	node_set(1, one);
	old[0] = 9;
	mpol_fold_static(old, &zero, &one, new, &nodes);
	KUNIT_EXPECT_TRUE(test, nodes_equal(nodes, one));
	KUNIT_EXPECT_EQ(test, new[1], 0);
	/* STATIC restores what the user gave. */
	mpol_fold_static(old, &zero, &zero, new, &nodes);
	KUNIT_EXPECT_EQ(test, new[0], 9);
}

/* A node of unknown bandwidth gets little; without any there are no weights. */
static void bandwidths(struct kunit *test)
{
	u32 *mbps = kunit_kcalloc(test, MAX_NUMNODES, sizeof(u32), GFP_KERNEL);
	nodemask_t two = nodemask_of_node(0);
	u8 *weight = array(test);

	if (!mbps || nr_node_ids < 2)
		kunit_skip(test, "needs memory and 2 possible nodes");
	node_set(1, two);
	mbps[0] = 60000;
	mbps[1] = 20000;
	KUNIT_EXPECT_EQ(test, mpol_weights_of_bandwidth(mbps, &two, weight), 0);
	KUNIT_EXPECT_EQ(test, weight[0], 3);
	KUNIT_EXPECT_EQ(test, weight[1], 1);
	mbps[1] = 0;
	KUNIT_EXPECT_EQ(test, mpol_weights_of_bandwidth(mbps, &two, weight), 0);
	KUNIT_EXPECT_EQ(test, weight[0], 32);
	KUNIT_EXPECT_EQ(test, weight[1], 1);
	mbps[0] = 0;
	KUNIT_EXPECT_EQ(test, mpol_weights_of_bandwidth(mbps, &two, weight),
			-ENODEV);
	/* The bandwidth of a node without memory is no help. */
	mbps[1] = 20000;
	node_clear(1, two);
	KUNIT_EXPECT_EQ(test, mpol_weights_of_bandwidth(mbps, &two, weight),
			-ENODEV);
	/* It takes no part, and others need no room for it. */
	mbps[0] = 60000;
	KUNIT_EXPECT_EQ(test, mpol_weights_of_bandwidth(mbps, &two, weight), 0);
	KUNIT_EXPECT_EQ(test, weight[0], 1);
	KUNIT_EXPECT_EQ(test, weight[1], 1);
}

/* Pages are read and written: what is slower counts. */
static void slower_way_counts(struct kunit *test)
{
	struct access_coordinate coord = {
		.read_bandwidth = 64000,
		.write_bandwidth = 16000,
	};

	KUNIT_EXPECT_EQ(test, mpol_bandwidth_of(&coord), 16000);
	coord.write_bandwidth = 80000;
	KUNIT_EXPECT_EQ(test, mpol_bandwidth_of(&coord), 64000);
	coord.read_bandwidth = 0;
	KUNIT_EXPECT_EQ(test, mpol_bandwidth_of(&coord), 0);
}

static struct kunit_case layout_cases[] = {
	KUNIT_CASE(whose_turn),
	KUNIT_CASE(whose_global_turn),
	KUNIT_CASE(whose_live_turn),
	KUNIT_CASE(zero_is_live),
	KUNIT_CASE(nodes_as_mempolicy),
	KUNIT_CASE(sums),
	KUNIT_CASE(nothing_left),
	KUNIT_CASE(bandwidths),
	KUNIT_CASE(slower_way_counts),
	{}
};

static struct kunit_suite layout_suite = {
	.name = "mempolicy2_layout",
	.test_cases = layout_cases,
};

kunit_test_suite(layout_suite);

MODULE_DESCRIPTION("KUnit tests of interleave weights");
MODULE_LICENSE("GPL");
