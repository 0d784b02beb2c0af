// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: which pages of a full node give way to hotter ones, and how.
 *
 * Reclaim demotes what was not used for long.  Where everything is used every
 * few milliseconds, some of it a hundred times as often as the rest, nothing was
 * not used for long, and reclaim demotes what it happens to come across.  So the
 * scanner, when it has to choose which pages of a slow node go up, looks at those
 * of the full nodes above in the same passes: who is not accessed between arming
 * and looking, several looks in a row, is used less than those that are, and
 * waits here, by the node it lies on.
 *
 * Nothing moves before somebody needs the room: a migrator whose target is
 * short of it takes from those of that node and moves pages down to the node that
 * its own come from, where as many frames become free.  Only if that yields
 * nothing kswapd is asked.  Both obey the switch numa/demotion_enabled.
 *
 * As with hot pages what waits holds no references, and all is looked at again
 * before a page moves (gather.c).
 *
 * Locking: mtier_cold_nodes changes under mtier_mutex, which the scanner only tries
 * to take: who holds it may wait for the scanner. Otherwise mtier_ranges.lock.
 */
#include <linux/memory-tiers.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/slab.h>
#include <trace/events/mtier.h>

#include "../internal.h"
#include "move.h"
#include "mtier.h"

/* Candidates of a node: some batches. More would be stale when their turn comes. */
#define MTIER_COLD_PAGES	4096

/* By node. */
static struct mtier_ranges *mtier_cold;
/* Nodes whose pages are looked at: they have records. */
static nodemask_t mtier_cold_nodes;

static int mtier_cold_add_node(int nid)
{
	int ret;

	lockdep_assert_held(&mtier_mutex);
	ret = mtier_hot_add_node(nid, true);
	if (!ret)
		node_set(nid, mtier_cold_nodes);
	return ret;
}

/**
 * mtier_cold_prepare() - shall pages that may give way be looked for?
 *
 * Makes what that needs when it is needed for the first time.
 *
 * Context: the scanner, without locks.
 * Return: true if all is there, and demotion is allowed.
 */
bool mtier_cold_prepare(void)
{
	nodemask_t slow = mtier_nodes_slow(), above = mtier_nodes_above();
	int nid;

	if (!READ_ONCE(mtier_conf.cold_looks) || !READ_ONCE(numa_demotion_enabled))
		return false;
	nodes_andnot(above, above, slow);
	if (nodes_subset(above, mtier_cold_nodes))
		return true;
	if (!mutex_trylock(&mtier_mutex))
		return false;
	for_each_node_mask(nid, above)
		if (mtier_cold_add_node(nid))
			break;
	mutex_unlock(&mtier_mutex);
	return nodes_subset(above, mtier_cold_nodes);
}

/**
 * mtier_cold_keep() - nodes, or their memory, have changed
 * @above: nodes that go on being looked at, when their new memory has records
 */
void mtier_cold_keep(const nodemask_t *above)
{
	int nid;

	lockdep_assert_held(&mtier_mutex);
	nodes_and(mtier_cold_nodes, mtier_cold_nodes, *above);
	for_each_node(nid)
		if (!node_isset(nid, *above))
			mtier_ranges_shrink(&mtier_cold[nid], 0);
	for_each_node_mask(nid, mtier_cold_nodes)
		if (mtier_hot_add_node(nid, true))
			node_clear(nid, mtier_cold_nodes);
}

/**
 * mtier_cold_free() - free everything; scanner and migrators have stopped
 */
void mtier_cold_free(void)
{
	int nid;

	lockdep_assert_held(&mtier_mutex);
	nodes_clear(mtier_cold_nodes);
	for (nid = 0; nid < nr_node_ids; nid++)
		mtier_ranges_shrink(&mtier_cold[nid], 0);
}

/**
 * mtier_cold_params() - what makes a page give way
 * @look_ms: time between two looks at the same page
 *
 * Return: the knob in force, for mtier_cold_look().
 */
struct mtier_hot_params mtier_cold_params(u32 look_ms)
{
	u32 looks = READ_ONCE(mtier_conf.cold_looks);
	u32 window_ms = mtier_cold_window_ms(look_ms, looks);

	return (struct mtier_hot_params) {
		.window_ticks = mtier_window_ticks(window_ms),
		.accesses = looks,
	};
}

/**
 * mtier_cold_note() - note a look at a page of a full node
 * @nid: the node
 * @at: the range that it was met in
 * @page: its number there
 * @pfn: its first frame
 * @idle: it was not accessed since its bit was cleared
 * @now: mtier_now_tick()
 * @params: from mtier_cold_params()
 *
 * Context: the scanner, with a reference to the users of the mm.
 */
void mtier_cold_note(int nid, const struct mtier_range_key *at,
		     unsigned int page, unsigned long pfn, bool idle, u32 now,
		     const struct mtier_hot_params *params)
{
	unsigned int dropped;

	/* Without memory it is found idle again. */
	if (mtier_hot_idle(pfn, idle, now, params))
		mtier_ranges_add(&mtier_cold[nid], at, page, now, &dropped);
}

/**
 * mtier_cold_forget() - an address space goes
 * @mm: the mm
 */
void mtier_cold_forget(struct mm_struct *mm)
{
	int nid;

	for_each_node(nid)
		mtier_ranges_forget(&mtier_cold[nid], mm);
}

/*
 * Collect as many as the move shall have, as far as there are. What is too large
 * for the rest of it goes to the end of the line, and smaller ones go on; asking
 * who maps a page is too dear to look for one whose owners are known, once no
 * more fit.
 */
static void mtier_cold_gather(struct mtier_move *mv)
{
	struct mtier_ranges *set = &mtier_cold[mv->source];
	/* Those that wait on are not met again. */
	unsigned int left = READ_ONCE(set->nr);
	struct mtier_range *range;
	bool open = true;

	for (; left && open && mv->nr_pages < mv->max_pages; left--) {
		range = mtier_ranges_take(set, NULL, mv->todo);
		if (!range)
			break;
		open = mtier_gather(mv, range);
		mtier_ranges_release(set, range, mv->done);
	}
}

/**
 * mtier_cold_demote() - make room on a node
 * @node: the migrator that needs it; pages go to its node
 * @nid: the node that is short of room
 * @want: base pages
 *
 * Context: the migrator's thread.
 * Return: base pages that moved, which may be more for large folios; 0 if there
 * are none that are known to be idle.
 */
unsigned long mtier_cold_demote(struct mtier_node *node, int nid,
				unsigned long want)
{
	struct mtier_move *mv = node->down;
	unsigned long moved, room;

	if (!node_isset(nid, mtier_cold_nodes) ||
	    !READ_ONCE(mtier_conf.cold_looks) ||
	    !READ_ONCE(numa_demotion_enabled))
		return 0;
	/* Not for the price of reclaim below. */
	room = mtier_node_free_above(node->nid, WMARK_HIGH);
	want = min3(want, room, READ_ONCE(mtier_conf.batch_pages));
	if (!want)
		return 0;
	mtier_move_down(mv, nid, node->nid, want);
	mtier_cold_gather(mv);
	moved = mtier_move_run(mv);
	if (!mv->nr_folios)
		return 0;
	atomic_long_add(moved, &node->nr_demoted);
	trace_mtier_demote(nid, node->nid, mv->nr_folios, moved,
			   mtier_move_outcome(mv, moved));
	return moved;
}

/**
 * mtier_cold_init() - allocate what lives as long as the kernel
 *
 * Return: 0 or -ENOMEM.
 */
int __init mtier_cold_init(void)
{
	int nid;

	mtier_cold = kcalloc(nr_node_ids, sizeof(*mtier_cold), GFP_KERNEL);
	if (!mtier_cold)
		return -ENOMEM;
	for (nid = 0; nid < nr_node_ids; nid++)
		mtier_ranges_init(&mtier_cold[nid], MTIER_COLD_PAGES);
	return 0;
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/cold_kunit.c"
#endif
