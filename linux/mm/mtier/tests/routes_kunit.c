// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of routes and pools. Included by ../routes.c.
 */
#include <kunit/test.h>

#include "watch_scene.h"

#define FAR	(MTIER_RANKS - 1)

/* Nodes 0 and 1 are fast, node 2 is in the middle, node 3 is the slowest. */
static struct mtier_routes *routes_world(struct kunit *test)
{
	static const unsigned int tiers[] = { 0, 0, 1, 2 };
	struct mtier_routes *rs = kunit_kzalloc(test, sizeof(*rs), GFP_KERNEL);
	struct mtier_map *map;
	int nid, other;

	KUNIT_ASSERT_NOT_NULL(test, rs);
	scene_map(test, &NODE_MASK_NONE, &NODE_MASK_NONE);
	map = rcu_dereference_protected(mtier_map, true);
	for (nid = 0; nid < ARRAY_SIZE(tiers); nid++) {
		map->node[nid].tier = tiers[nid];
		if (tiers[nid])
			node_set(nid, map->slow);
		if (tiers[nid] < 2)
			node_set(nid, map->above);
		for (other = 0; other < ARRAY_SIZE(tiers); other++) {
			if (tiers[other] < tiers[nid])
				node_set(other, map->node[nid].up);
			if (tiers[other] > tiers[nid])
				node_set(other, map->node[nid].down);
		}
	}
	return rs;
}

static nodemask_t routes_mask(unsigned long bits)
{
	nodemask_t mask = NODE_MASK_NONE;
	int nid;

	for_each_set_bit(nid, &bits, BITS_PER_LONG)
		node_set(nid, mask);
	return mask;
}

/* Look up the route of pages of a node whose policy allows some nodes. */
static u8 routes_find(struct mtier_routes *rs, int nid, unsigned long allowed)
{
	nodemask_t mask = routes_mask(allowed);
	struct mtier_router r;

	mtier_router_init(&r, rs);
	mtier_router_allow(&r, &mask, &mask);
	return mtier_router_route(&r, nid, mtier_router_ways(&r, nid));
}

/* Do the pools have these nodes, in this order? */
static void routes_expect(struct kunit *test, struct mtier_routes *rs,
			  const unsigned long *nodes, unsigned int nr)
{
	nodemask_t mask;
	unsigned int i;

	mtier_pools_make(rs);
	KUNIT_ASSERT_EQ(test, rs->nr_pools, nr);
	for (i = 0; i < nr; i++) {
		mask = routes_mask(nodes[i]);
		KUNIT_EXPECT_TRUE(test, nodes_equal(rs->pool[i].nodes, mask));
	}
}

static void a_route_goes_to_faster_and_slower_nodes_only(struct kunit *test)
{
	struct mtier_routes *rs = routes_world(test);
	const struct mtier_route *route;
	u8 middle = routes_find(rs, 2, 0xf);

	KUNIT_ASSERT_EQ(test, middle, 0);
	route = &rs->route[middle];
	KUNIT_EXPECT_EQ(test, nodes_weight(route->up), 2);
	KUNIT_EXPECT_TRUE(test, node_isset(0, route->up) && node_isset(1, route->up));
	KUNIT_EXPECT_EQ(test, first_node(route->down), 3);
	KUNIT_EXPECT_EQ(test, nodes_weight(route->down), 1);
	/* Another node, or another policy, is another route. */
	KUNIT_EXPECT_EQ(test, routes_find(rs, 3, 0xf), 1);
	KUNIT_EXPECT_EQ(test, routes_find(rs, 2, 0xd), 2);
	KUNIT_EXPECT_EQ(test, routes_find(rs, 2, 0xf), middle);
	KUNIT_EXPECT_EQ(test, routes_find(rs, 2, 0xb), 0);
	/* These may not migrate. */
	KUNIT_EXPECT_EQ(test, routes_find(rs, 3, 0x8), MTIER_NO_ROUTE);
	KUNIT_EXPECT_EQ(test, routes_find(rs, 0, 0x3), MTIER_NO_ROUTE);
	KUNIT_EXPECT_EQ(test, routes_find(rs, 5, 0xf), MTIER_NO_ROUTE);
	KUNIT_EXPECT_EQ(test, rs->nr, 3);
}

static void a_forced_target_is_the_only_one(struct kunit *test)
{
	int before = mtier_conf.target_node;
	struct mtier_routes *rs = routes_world(test);
	u8 slow, middle;

	WRITE_ONCE(mtier_conf.target_node, 2);
	slow = routes_find(rs, 3, 0xf);
	middle = routes_find(rs, 2, 0xf);
	WRITE_ONCE(mtier_conf.target_node, before);
	KUNIT_EXPECT_EQ(test, nodes_weight(rs->route[slow].up), 1);
	KUNIT_EXPECT_TRUE(test, node_isset(2, rs->route[slow].up));
	/* It is no target for pages that are on it. */
	KUNIT_EXPECT_EQ(test, nodes_weight(rs->route[middle].up), 2);
}

static void what_is_known_is_for_one_policy(struct kunit *test)
{
	nodemask_t all = routes_mask(0xf), one = routes_mask(0x2);
	struct mtier_routes *rs = routes_world(test);
	struct mtier_router r;
	u8 ways, first, second;

	mtier_router_init(&r, rs);
	mtier_router_allow(&r, &all, &all);
	ways = mtier_router_ways(&r, 2);
	first = mtier_router_route(&r, 2, ways);
	KUNIT_EXPECT_EQ(test, mtier_router_route(&r, 2, ways), first);
	/* One direction alone is another route. */
	second = mtier_router_route(&r, 2, BIT(MTIER_TOP));
	KUNIT_EXPECT_NE(test, first, second);
	KUNIT_EXPECT_TRUE(test, nodes_empty(rs->route[second].up));
	mtier_router_allow(&r, &one, &one);
	second = mtier_router_route(&r, 2, ways);
	KUNIT_EXPECT_NE(test, first, second);
	KUNIT_EXPECT_EQ(test, first_node(rs->route[second].up), 1);
}

static void each_tier_above_has_a_pool(struct kunit *test)
{
	static const unsigned long all[] = { 0x3, 0x4 };
	struct mtier_routes *rs = routes_world(test);

	routes_find(rs, 3, 0xf);
	routes_expect(test, rs, all, 2);
	/* Pages of the middle tier have no other pool, and pages of the fast one none. */
	routes_find(rs, 2, 0xf);
	routes_find(rs, 0, 0xf);
	routes_expect(test, rs, all, 2);
}

static void a_pool_has_what_its_pages_may_use(struct kunit *test)
{
	static const unsigned long some[] = { 0x1, 0x3, 0x4 };
	struct mtier_routes *rs = routes_world(test);
	u8 bound, any, far, fast, other;

	any = routes_find(rs, 2, 0xf);
	bound = routes_find(rs, 2, 0x5);
	far = routes_find(rs, 3, 0xc);
	fast = routes_find(rs, 0, 0xf);
	other = routes_find(rs, 1, 0xf);
	routes_expect(test, rs, some, 3);

	mtier_pool_enter(rs, &rs->pool[0]);
	KUNIT_EXPECT_EQ(test, rs->role[bound], MTIER_ROLE_UP);
	KUNIT_EXPECT_EQ(test, rs->role[any], MTIER_ROLE_NONE);
	KUNIT_EXPECT_EQ(test, rs->role[fast], MTIER_ROLE_DOWN);
	KUNIT_EXPECT_EQ(test, rs->role[other], MTIER_ROLE_NONE);
	mtier_pool_enter(rs, &rs->pool[1]);
	KUNIT_EXPECT_EQ(test, rs->role[bound], MTIER_ROLE_NONE);
	KUNIT_EXPECT_EQ(test, rs->role[any], MTIER_ROLE_UP);
	KUNIT_EXPECT_EQ(test, rs->role[other], MTIER_ROLE_DOWN);
	/* The middle tier exchanges with the slowest. */
	mtier_pool_enter(rs, &rs->pool[2]);
	KUNIT_EXPECT_EQ(test, rs->role[far], MTIER_ROLE_UP);
	KUNIT_EXPECT_EQ(test, rs->role[any], MTIER_ROLE_DOWN);
	KUNIT_EXPECT_EQ(test, rs->role[fast], MTIER_ROLE_NONE);
	/* Pages that may not go to the slowest tier are no victims. */
	KUNIT_EXPECT_EQ(test, rs->role[bound], MTIER_ROLE_NONE);
}

static void a_batch_takes_from_its_node_for_its_target(struct kunit *test)
{
	bool pick[MTIER_ROUTES_MAX] = { };
	struct mtier_routes *rs = routes_world(test);
	u8 far = routes_find(rs, 3, 0xf), middle = routes_find(rs, 2, 0xf);
	u8 all = routes_find(rs, 0, 0xf), bound = routes_find(rs, 0, 0x5);
	u8 other = routes_find(rs, 1, 0xf);

	mtier_pools_make(rs);
	mtier_pool_enter(rs, &rs->pool[0]);
	mtier_routes_pick_up(rs, 3, pick);
	KUNIT_EXPECT_TRUE(test, pick[far]);
	KUNIT_EXPECT_FALSE(test, pick[middle] || pick[all] || pick[other]);
	mtier_routes_pick_down(rs, 0, 3, pick);
	KUNIT_EXPECT_TRUE(test, pick[all]);
	KUNIT_EXPECT_FALSE(test, pick[bound] || pick[other] || pick[far]);
	mtier_routes_pick_down(rs, 0, 2, pick);
	KUNIT_EXPECT_TRUE(test, pick[all] && pick[bound]);
}

static void pages_are_counted_for_their_tier_and_role(struct kunit *test)
{
	struct mtier_counts low, top, all;
	struct mtier_routes *rs = routes_world(test);
	u8 far = routes_find(rs, 3, 0xf), middle = routes_find(rs, 2, 0xf);
	u8 fast = routes_find(rs, 0, 0xf);

	KUNIT_EXPECT_FALSE(test, mtier_routes_any_up(rs));
	rs->route[fast].pages[0][1] = 10;
	KUNIT_EXPECT_FALSE(test, mtier_routes_any_up(rs));
	rs->route[far].pages[0][8] = 3;
	rs->route[middle].pages[1][8] = 512;
	KUNIT_EXPECT_TRUE(test, mtier_routes_any_up(rs));
	mtier_pools_make(rs);
	mtier_routes_groups(rs, &all);
	KUNIT_EXPECT_EQ(test, all.pages[MTIER_TOP][1], 10);
	KUNIT_EXPECT_EQ(test, all.pages[MTIER_LOW + MTIER_LARGE][8], 512);
	KUNIT_EXPECT_EQ(test, all.pages[FAR][8], 3);
	mtier_pool_enter(rs, &rs->pool[0]);
	mtier_pool_count(rs, &low, &top);
	KUNIT_EXPECT_EQ(test, low.pages[FAR][8] + low.pages[MTIER_LOW + MTIER_LARGE][8], 515);
	KUNIT_EXPECT_EQ(test, top.pages[MTIER_TOP][1], 10);
	mtier_pool_enter(rs, &rs->pool[1]);
	mtier_pool_count(rs, &low, &top);
	KUNIT_EXPECT_EQ(test, low.pages[FAR][8], 3);
	KUNIT_EXPECT_EQ(test, top.pages[MTIER_LOW + MTIER_LARGE][8], 512);
	KUNIT_EXPECT_EQ(test, top.pages[MTIER_TOP][1], 0);
}

/* Pages beyond the limits wait for another burst, and nothing is overwritten. */
static void more_routes_and_pools_than_fit(struct kunit *test)
{
	nodemask_t none = NODE_MASK_NONE, up;
	struct mtier_routes *rs = routes_world(test);
	unsigned int i;

	if (MAX_NUMNODES < 64)
		kunit_skip(test, "too few nodes for so many routes");
	for (i = 1; i <= MTIER_ROUTES_MAX; i++) {
		up = routes_mask((unsigned long)i << 8);
		KUNIT_EXPECT_EQ(test, mtier_route_of(rs, 3, &up, &none), i - 1);
	}
	up = routes_mask(1UL << 20);
	KUNIT_EXPECT_EQ(test, mtier_route_of(rs, 3, &up, &none), MTIER_NO_ROUTE);
	up = routes_mask(1UL << 8);
	KUNIT_EXPECT_EQ(test, mtier_route_of(rs, 3, &up, &none), 0);
	mtier_pools_make(rs);
	KUNIT_EXPECT_EQ(test, rs->nr_pools, MTIER_POOLS_MAX);
}

static void the_slower_a_tier_the_later_it_is_used(struct kunit *test)
{
	nodemask_t targets = routes_mask(0xc);

	routes_world(test);
	KUNIT_EXPECT_EQ(test, mtier_node_below(0, &targets), 2);
	node_clear(2, targets);
	KUNIT_EXPECT_EQ(test, mtier_node_below(0, &targets), 3);
	node_clear(3, targets);
	KUNIT_EXPECT_EQ(test, mtier_node_below(0, &targets), NUMA_NO_NODE);
}

static struct kunit_case mtier_routes_cases[] = {
	KUNIT_CASE(a_route_goes_to_faster_and_slower_nodes_only),
	KUNIT_CASE(a_forced_target_is_the_only_one),
	KUNIT_CASE(what_is_known_is_for_one_policy),
	KUNIT_CASE(each_tier_above_has_a_pool),
	KUNIT_CASE(a_pool_has_what_its_pages_may_use),
	KUNIT_CASE(a_batch_takes_from_its_node_for_its_target),
	KUNIT_CASE(pages_are_counted_for_their_tier_and_role),
	KUNIT_CASE(more_routes_and_pools_than_fit),
	KUNIT_CASE(the_slower_a_tier_the_later_it_is_used),
	{ }
};

static struct kunit_suite mtier_routes_suite = {
	.name = "mtier_routes",
	.test_cases = mtier_routes_cases,
};

kunit_test_suite(mtier_routes_suite);
