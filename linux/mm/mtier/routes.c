// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: where sampled pages are, and where they may go.
 *
 * Policies and cpusets can allow a page on some nodes only. A plan that ignores that
 * takes free memory on a node for pages that may not go there, or demotes pages from
 * one node to make room on another. So each sampled page has a route: its node, and the
 * nodes that it may migrate to, in both directions. All pages of a machine have few
 * routes, so a byte for each page suffices.
 *
 * Plans are made for pools. A pool is a set of nodes of one tier that some pages may be
 * promoted to. Only pages that may go to all nodes of the pool, and to no other node of
 * that tier, are promoted by its plan. Each node of the pool can make room for them. So
 * the free memory and the pages to demote that a plan counts on can be used by each page
 * that it promotes.
 *
 *	tiers		page		allowed		pools
 *	0-1 | 2-3	on node 2	all		0-1
 *	0-1 | 2-3	on node 2	0 and 2		0
 *	0 | 1 | 2	on node 2	all		0, then 1
 *	0 | 1 | 2	on node 2	1 and 2		1
 *
 * Pools of the fast tier come first: what is used most goes there. What stays can go to
 * the next tier. Pools with fewer nodes come before others of their tier, since their
 * pages have no other place to go.
 *
 * Locking: none; all data belongs to kmtierd.
 */
#include <linux/minmax.h>
#include <linux/nodemask.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/string.h>

#include "mtier.h"
#include "routes.h"
#include "unmapped.h"

/* All bursts share the memory; allocated while promotion is on. */
static struct mtier_routes *mtier_routes;

static bool mtier_route_is(const struct mtier_route *route, int nid,
			   const nodemask_t *up, const nodemask_t *down)
{
	return route->nid == nid && nodes_equal(route->up, *up) &&
	       nodes_equal(route->down, *down);
}

/**
 * mtier_route_of() - Get the route of pages; a new one if there is none yet.
 * @rs: routes of the burst
 * @nid: node of the pages
 * @up: nodes of faster tiers that they may be promoted to
 * @down: nodes of slower tiers that they may be demoted to
 *
 * Return: index of the route; MTIER_NO_ROUTE if both masks are empty, or if there are too
 * many routes.
 */
u8 mtier_route_of(struct mtier_routes *rs, int nid, const nodemask_t *up,
		  const nodemask_t *down)
{
	unsigned int i;

	if (nodes_empty(*up) && nodes_empty(*down))
		return MTIER_NO_ROUTE;
	if (rs->last < rs->nr &&
	    mtier_route_is(&rs->route[rs->last], nid, up, down))
		return rs->last;
	for (i = 0; i < rs->nr; i++)
		if (mtier_route_is(&rs->route[i], nid, up, down))
			break;
	if (i == MTIER_ROUTES_MAX)
		return MTIER_NO_ROUTE;
	if (i == rs->nr) {
		rs->route[rs->nr++] = (struct mtier_route) {
			.nid = nid, .tier = mtier_node_tier(nid),
			.up = *up, .down = *down,
		};
	}
	rs->last = i;
	return i;
}

/**
 * mtier_router_init() - Start to look up routes.
 * @r: the router
 * @routes: routes of the burst
 */
void mtier_router_init(struct mtier_router *r, struct mtier_routes *routes)
{
	r->routes = routes;
	r->above = mtier_nodes_above();
	r->low = mtier_nodes_slow();
}

/**
 * mtier_router_allow() - Set the nodes that the next pages may migrate to.
 * @r: the router
 * @up: nodes that they may be promoted to
 * @down: nodes that they may be demoted to
 */
void mtier_router_allow(struct mtier_router *r, const nodemask_t *up,
			const nodemask_t *down)
{
	unsigned int i;

	r->up = *up;
	r->down = *down;
	for (i = 0; i < MTIER_KNOWN_ROUTES; i++)
		r->known[i].nid = NUMA_NO_NODE;
}

/**
 * mtier_router_find() - Get a route that mtier_router_route() does not remember.
 * @r: the router
 * @nid: node of the pages
 * @ways: directions in which they may migrate
 *
 * Return: index of the route; MTIER_NO_ROUTE if they may not migrate.
 */
u8 mtier_router_find(struct mtier_router *r, int nid, u8 ways)
{
	nodemask_t up = NODE_MASK_NONE, down = NODE_MASK_NONE;
	int forced = READ_ONCE(mtier_conf.target_node);
	u8 route;

	if (ways & BIT(MTIER_LOW)) {
		up = mtier_node_up(nid);
		if (forced != NUMA_NO_NODE && node_isset(forced, up))
			up = nodemask_of_node(forced);
		if (!(ways & MTIER_WAY_ANY))
			nodes_and(up, up, r->up);
	}
	if (ways & BIT(MTIER_TOP)) {
		down = mtier_node_down(nid);
		if (!(ways & MTIER_WAY_ANY))
			nodes_and(down, down, r->down);
	}
	route = mtier_route_of(r->routes, nid, &up, &down);
	r->known[(8 * nid + ways) % MTIER_KNOWN_ROUTES] = (struct mtier_known) {
		.nid = nid, .ways = ways, .route = route,
	};
	return route;
}

/* Get the nodes of a mask that are in a tier. */
static nodemask_t mtier_route_nodes(const nodemask_t *mask, unsigned int tier)
{
	nodemask_t nodes = NODE_MASK_NONE;
	int nid;

	for_each_node_mask(nid, *mask)
		if (mtier_node_tier(nid) == tier)
			node_set(nid, nodes);
	return nodes;
}

/* Add a pool unless there is one with the same nodes. */
static void mtier_pool_add(struct mtier_routes *rs, const nodemask_t *nodes,
			   unsigned int tier)
{
	unsigned int i;

	for (i = 0; i < rs->nr_pools; i++)
		if (nodes_equal(rs->pool[i].nodes, *nodes))
			return;
	if (i == MTIER_POOLS_MAX)
		return;
	rs->pool[rs->nr_pools++] = (struct mtier_pool) {
		.nodes = *nodes, .tier = tier, .why = MTIER_PLAN_NOBODY,
	};
}

static int mtier_pool_cmp(const void *a, const void *b)
{
	const struct mtier_pool *x = a, *y = b;

	if (x->tier != y->tier)
		return x->tier < y->tier ? -1 : 1;
	return nodes_weight(x->nodes) - nodes_weight(y->nodes);
}

/**
 * mtier_pools_make() - Make the pools that the pages of a burst can be promoted to.
 * @rs: routes of the burst
 */
void mtier_pools_make(struct mtier_routes *rs)
{
	const struct mtier_route *route;
	unsigned int i, tier;
	nodemask_t nodes;

	rs->nr_pools = 0;
	for (i = 0; i < rs->nr; i++) {
		route = &rs->route[i];
		for (tier = 0; tier < route->tier; tier++) {
			nodes = mtier_route_nodes(&route->up, tier);
			if (!nodes_empty(nodes))
				mtier_pool_add(rs, &nodes, tier);
		}
	}
	sort(rs->pool, rs->nr_pools, sizeof(rs->pool[0]), mtier_pool_cmp, NULL);
}

/**
 * mtier_pool_free() - Read the free memory of a pool.
 * @pool: the pool
 *
 * Return: number of pages that fit into its nodes without a demotion.
 */
u64 mtier_pool_free(const struct mtier_pool *pool)
{
	u64 free = 0;
	int nid;

	for_each_node_mask(nid, pool->nodes)
		free += mtier_node_free_above(nid, WMARK_HIGH);
	return free - min(free, pool->pretended);
}

/**
 * mtier_pools_most_free() - Read the free memory of the pool that has most of it.
 * @rs: routes of the burst
 *
 * Return: its mtier_pool_free().
 */
u64 mtier_pools_most_free(const struct mtier_routes *rs)
{
	u64 most = 0;
	unsigned int i;

	for (i = 0; i < rs->nr_pools; i++)
		most = max(most, mtier_pool_free(&rs->pool[i]));
	return most;
}

/* Read the room that page cache can make in a pool. */
static void mtier_pool_room(struct mtier_pool *pool)
{
	struct mtier_unmapped_room room = { .age_ns = U64_MAX };
	int nid;

	for_each_node_mask(nid, pool->nodes) {
		mtier_unmapped_count(nid);
		mtier_unmapped_room(nid, &room);
	}
	pool->spare = room.pages;
	pool->whole = min(room.whole, room.pages);
	pool->spare_ns = room.age_ns;
}

/**
 * mtier_pools_room() - Read the room that page cache can make in all pools.
 * @rs: routes of the burst
 */
void mtier_pools_room(struct mtier_routes *rs)
{
	unsigned int i;

	for (i = 0; i < rs->nr_pools; i++)
		mtier_pool_room(&rs->pool[i]);
}

static enum mtier_role mtier_route_role(const struct mtier_route *route,
					const struct mtier_pool *pool)
{
	nodemask_t nodes;

	if (node_isset(route->nid, pool->nodes))
		return nodes_empty(route->down) ? MTIER_ROLE_NONE : MTIER_ROLE_DOWN;
	if (route->tier <= pool->tier)
		return MTIER_ROLE_NONE;
	nodes = mtier_route_nodes(&route->up, pool->tier);
	return nodes_equal(nodes, pool->nodes) ? MTIER_ROLE_UP : MTIER_ROLE_NONE;
}

/**
 * mtier_pool_enter() - Set the role of each route in the plans for a pool.
 * @rs: routes of the burst
 * @pool: the pool
 */
void mtier_pool_enter(struct mtier_routes *rs, const struct mtier_pool *pool)
{
	unsigned int i;

	for (i = 0; i < rs->nr; i++)
		rs->role[i] = mtier_route_role(&rs->route[i], pool);
}

static void mtier_counts_add(struct mtier_counts *counts, const struct mtier_route *route)
{
	u32 large, c;

	for (large = 0; large < 2; large++)
		for (c = 0; c <= MTIER_LOOKS_MOST; c++)
			counts->pages[mtier_route_group(route, large)][c] +=
				route->pages[large][c];
}

/**
 * mtier_pool_count() - Count the sampled pages that the current pool can exchange.
 * @rs: routes of the burst, with their roles
 * @low: set to the pages that may be promoted to the pool
 * @top: set to the pages that may be demoted from it
 */
void mtier_pool_count(const struct mtier_routes *rs, struct mtier_counts *low,
		      struct mtier_counts *top)
{
	unsigned int i;

	*low = (struct mtier_counts) { };
	*top = (struct mtier_counts) { };
	for (i = 0; i < rs->nr; i++) {
		if (rs->role[i] == MTIER_ROLE_UP)
			mtier_counts_add(low, &rs->route[i]);
		else if (rs->role[i] == MTIER_ROLE_DOWN)
			mtier_counts_add(top, &rs->route[i]);
	}
}

/**
 * mtier_routes_groups() - Count the sampled pages by class.
 * @rs: routes of the burst
 * @counts: set to the result
 */
void mtier_routes_groups(const struct mtier_routes *rs, struct mtier_counts *counts)
{
	unsigned int i;

	*counts = (struct mtier_counts) { };
	for (i = 0; i < rs->nr; i++)
		mtier_counts_add(counts, &rs->route[i]);
}

/**
 * mtier_routes_any_up() - Check whether any sampled page may be promoted.
 * @rs: routes of the burst
 *
 * Return: true if so.
 */
bool mtier_routes_any_up(const struct mtier_routes *rs)
{
	unsigned int i, c;

	for (i = 0; i < rs->nr; i++) {
		const struct mtier_route *route = &rs->route[i];

		for (c = 0; !nodes_empty(route->up) && c <= MTIER_LOOKS_MOST; c++)
			if (route->pages[0][c] || route->pages[1][c])
				return true;
	}
	return false;
}

/**
 * mtier_routes_pick_up() - Pick the routes of pages that the current pool can promote.
 * @rs: routes of the burst, with their roles
 * @nid: node of the pages
 * @pick: set for each route
 */
void mtier_routes_pick_up(const struct mtier_routes *rs, int nid, bool *pick)
{
	unsigned int i;

	for (i = 0; i < rs->nr; i++)
		pick[i] = rs->role[i] == MTIER_ROLE_UP && rs->route[i].nid == nid;
}

/**
 * mtier_routes_pick_down() - Pick the routes of pages that the current pool can demote.
 * @rs: routes of the burst, with their roles
 * @nid: node of the pages
 * @below: node that they are demoted to
 * @pick: set for each route
 */
void mtier_routes_pick_down(const struct mtier_routes *rs, int nid, int below, bool *pick)
{
	unsigned int i;

	for (i = 0; i < rs->nr; i++)
		pick[i] = rs->role[i] == MTIER_ROLE_DOWN && rs->route[i].nid == nid &&
			  node_isset(below, rs->route[i].down);
}

/**
 * mtier_routes_begin() - Begin a burst.
 *
 * Return: its routes; there are none yet.
 */
struct mtier_routes *mtier_routes_begin(void)
{
	mtier_routes->nr = 0;
	mtier_routes->nr_pools = 0;
	return mtier_routes;
}

/**
 * mtier_routes_start() - Allocate the memory for routes.
 *
 * Return: 0 or -ENOMEM.
 */
int mtier_routes_start(void)
{
	mtier_routes = kvzalloc(sizeof(*mtier_routes), GFP_KERNEL);
	return mtier_routes ? 0 : -ENOMEM;
}

/**
 * mtier_routes_stop() - Free the memory for routes, after kmtierd has stopped.
 */
void mtier_routes_stop(void)
{
	kvfree(mtier_routes);
	mtier_routes = NULL;
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/routes_kunit.c"
#endif
