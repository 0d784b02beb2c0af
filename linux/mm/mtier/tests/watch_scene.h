/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Routes of samples that tests make by hand, and a map of target nodes.
 */
#ifndef _MM_MTIER_WATCH_SCENE_H
#define _MM_MTIER_WATCH_SCENE_H

#include <kunit/test.h>

#include "../burst.h"
#include "../mtier.h"

/* Two routes: pages of node 0 may be demoted to node 1, and pages of node 1 promoted. */
static inline struct mtier_routes *scene_routes(struct kunit *test)
{
	struct mtier_routes *rs = kunit_kzalloc(test, sizeof(*rs), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, rs);
	rs->nr = 2;
	rs->role[MTIER_TOP] = MTIER_ROLE_DOWN;
	rs->role[MTIER_LOW] = MTIER_ROLE_UP;
	rs->route[MTIER_TOP] = (struct mtier_route) {
		.down = nodemask_of_node(1),
	};
	rs->route[MTIER_LOW] = (struct mtier_route) {
		.nid = 1, .tier = 1, .up = nodemask_of_node(0),
	};
	return rs;
}

/* Give each page of a sample the route of the tier that its byte names. */
static inline void scene_route(struct mtier_watch *w)
{
	size_t i;

	for (i = 0; i < (size_t)w->nr * MTIER_RANGE_PAGES; i++)
		w->route[i] = mtier_page_side(w->page[i]);
}

static inline void scene_unmap(void *map)
{
	RCU_INIT_POINTER(mtier_map, NULL);
	synchronize_rcu();
	kfree(map);
}

/*
 * Let the pages of all nodes in @above be demoted to those in @low, and the other way
 * round. A node can be in both.
 */
static inline void scene_map(struct kunit *test, const nodemask_t *above,
			     const nodemask_t *low)
{
	struct mtier_map *map;
	int nid;

	if (rcu_access_pointer(mtier_map))
		kunit_skip(test, "promotion is on");
	map = kzalloc(struct_size(map, node, MAX_NUMNODES), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, map);
	map->above = *above;
	map->slow = *low;
	for_each_node_mask(nid, *above)
		map->node[nid].down = *low;
	for_each_node_mask(nid, *low) {
		map->node[nid].up = *above;
		map->node[nid].tier = 1;
	}
	rcu_assign_pointer(mtier_map, map);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, scene_unmap, map), 0);
}

#endif
