/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Page promotion: where sampled pages are, and where they may go.
 */
#ifndef _MM_MTIER_ROUTES_H
#define _MM_MTIER_ROUTES_H

#include <linux/bits.h>
#include <linux/nodemask.h>
#include <linux/types.h>

#include "place.h"

/* Most routes of a burst. Pages with another one are not sampled in this burst. */
#define MTIER_ROUTES_MAX	255
/* Not sampled: the page may not migrate. */
#define MTIER_NO_ROUTE		0xff
/* Most pools of a burst. Pages that have no pool wait for another burst. */
#define MTIER_POOLS_MAX		32

/**
 * struct mtier_route - node of some pages, and the nodes that they may migrate to
 * @nid: their node
 * @tier: tier of @nid
 * @up: nodes of faster tiers that they may be promoted to
 * @down: nodes of slower tiers that they may be demoted to
 * @pages: sampled pages, single ones first and then those of large folios, by access
 *	count; from mtier_mark_count()
 */
struct mtier_route {
	int nid;
	unsigned int tier;
	nodemask_t up;
	nodemask_t down;
	u32 pages[2][MTIER_LOOKS_MOST + 1];
};

/**
 * enum mtier_role - what pages of a route are in a plan for a pool
 * @MTIER_ROLE_NONE: they do not take part
 * @MTIER_ROLE_UP: they may be promoted to the nodes of the pool
 * @MTIER_ROLE_DOWN: they are on these nodes, and may be demoted
 */
enum mtier_role {
	MTIER_ROLE_NONE,
	MTIER_ROLE_UP,
	MTIER_ROLE_DOWN,
};

/**
 * struct mtier_pool - target nodes that a plan is made for
 * @nodes: nodes of one tier: all nodes of the tier that some pages may be promoted to
 * @tier: their tier
 * @spare: pages of the nodes that nobody maps, and that can be demoted
 * @whole: pages of @spare that can be demoted in whole blocks
 * @spare_ns: time for which none of these was used
 * @pretended: observe only: free pages that plans have used
 * @why: reason why no more pages were exchanged
 */
struct mtier_pool {
	nodemask_t nodes;
	unsigned int tier;
	u64 spare;
	u64 whole;
	u64 spare_ns;
	u64 pretended;
	enum mtier_plan_why why;
};

/**
 * struct mtier_routes - routes and pools of a burst
 * @nr: number of entries in @route
 * @nr_pools: number of entries in @pool
 * @last: route that was looked up last
 * @role: role of each route in the plan of the current pool, an enum mtier_role
 * @route: the routes
 * @pool: the pools, those of the fast tier first
 */
struct mtier_routes {
	unsigned int nr;
	unsigned int nr_pools;
	unsigned int last;
	u8 role[MTIER_ROUTES_MAX];
	struct mtier_route route[MTIER_ROUTES_MAX];
	struct mtier_pool pool[MTIER_POOLS_MAX];
};

/* Ignore the nodes that are allowed for the VMA; beside BIT(side) for the directions. */
#define MTIER_WAY_ANY		BIT(MTIER_SIDES)
/* Routes of a VMA that are remembered, a power of two. */
#define MTIER_KNOWN_ROUTES	16

/**
 * struct mtier_known - route of the pages of a VMA that are on a node
 * @nid: the node; NUMA_NO_NODE if the entry is not used
 * @ways: directions that were asked for, see mtier_router_ways()
 * @route: the route
 */
struct mtier_known {
	int nid;
	u8 ways;
	u8 route;
};

/**
 * struct mtier_router - looks up the routes of the pages of a VMA
 * @routes: routes of the burst
 * @above: nodes that pages can be promoted to
 * @low: nodes of the slower tiers
 * @up: nodes that pages of the VMA may be promoted to, if these are faster
 * @down: nodes that they may be demoted to, if these are slower
 * @known: routes that were looked up for @up and @down
 */
struct mtier_router {
	struct mtier_routes *routes;
	nodemask_t above;
	nodemask_t low;
	nodemask_t up;
	nodemask_t down;
	struct mtier_known known[MTIER_KNOWN_ROUTES];
};

int mtier_routes_start(void);
void mtier_routes_stop(void);
struct mtier_routes *mtier_routes_begin(void);
void mtier_router_init(struct mtier_router *r, struct mtier_routes *routes);
void mtier_router_allow(struct mtier_router *r, const nodemask_t *up,
			const nodemask_t *down);
u8 mtier_router_find(struct mtier_router *r, int nid, u8 ways);
u8 mtier_route_of(struct mtier_routes *rs, int nid, const nodemask_t *up,
		  const nodemask_t *down);
void mtier_pools_make(struct mtier_routes *rs);
void mtier_pools_room(struct mtier_routes *rs);
u64 mtier_pool_free(const struct mtier_pool *pool);
u64 mtier_pools_most_free(const struct mtier_routes *rs);
void mtier_pool_enter(struct mtier_routes *rs, const struct mtier_pool *pool);
void mtier_pool_count(const struct mtier_routes *rs, struct mtier_counts *low,
		      struct mtier_counts *top);
void mtier_routes_pick_up(const struct mtier_routes *rs, int nid, bool *pick);
void mtier_routes_pick_down(const struct mtier_routes *rs, int nid, int below, bool *pick);
bool mtier_routes_any_up(const struct mtier_routes *rs);
void mtier_routes_groups(const struct mtier_routes *rs, struct mtier_counts *counts);

/**
 * mtier_route_group() - Get the page class in which pages of a route are counted.
 * @route: the route
 * @large: they are pages of large folios
 *
 * Return: the class, see place.h.
 */
static inline u32 mtier_route_group(const struct mtier_route *route, bool large)
{
	u32 rank = route->tier < MTIER_RANKS ? route->tier : MTIER_RANKS - 1;

	return rank + (large ? MTIER_LARGE : 0);
}

/**
 * mtier_router_side() - Get the tier of a node, fast or slow.
 * @r: the router
 * @nid: the node
 *
 * Return: MTIER_SIDES if pages of the node cannot migrate.
 */
static __always_inline enum mtier_side
mtier_router_side(const struct mtier_router *r, int nid)
{
	if (node_isset(nid, r->low))
		return MTIER_LOW;
	return node_isset(nid, r->above) ? MTIER_TOP : MTIER_SIDES;
}

/**
 * mtier_router_ways() - Get the directions in which pages of a node can migrate.
 * @r: the router
 * @nid: the node
 *
 * Return: BIT(MTIER_LOW) if they can be promoted, BIT(MTIER_TOP) if they can be demoted.
 */
static __always_inline u8 mtier_router_ways(const struct mtier_router *r, int nid)
{
	return (node_isset(nid, r->low) ? BIT(MTIER_LOW) : 0) |
	       (node_isset(nid, r->above) ? BIT(MTIER_TOP) : 0);
}

/**
 * mtier_router_route() - Get the route of the pages of the VMA that are on a node.
 * @r: the router
 * @nid: the node
 * @ways: directions in which the pages may migrate, see mtier_router_ways(); with
 *	MTIER_WAY_ANY to each node
 *
 * Return: index of the route; MTIER_NO_ROUTE if they may not migrate.
 */
static __always_inline u8 mtier_router_route(struct mtier_router *r, int nid, u8 ways)
{
	const struct mtier_known *known =
		&r->known[(8 * nid + ways) % MTIER_KNOWN_ROUTES];

	if (known->nid == nid && known->ways == ways)
		return known->route;
	return mtier_router_find(r, nid, ways);
}

#endif /* _MM_MTIER_ROUTES_H */
