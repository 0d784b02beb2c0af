// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: which pages of a full node give way to hotter ones, and how.
 *
 * Reclaim demotes what was not used for long.  Where everything is used every
 * few milliseconds, some of it a hundred times as often as the rest, nothing was
 * not used for long, and reclaim demotes what it happens to come across.  So the
 * scanner, when it has to choose which pages of a slow node go up, looks at those
 * of the full nodes above in the same passes: who is not accessed between arming
 * and looking, several looks in a row, is used less than those that are, and is
 * queued here by the node it lies on.
 *
 * Nothing moves before somebody needs the room: a migrator whose target is
 * short of it takes from that node's queue and moves pages down to the node that
 * its own come from, where as many frames become free.  Only if that yields
 * nothing kswapd is asked.  Both obey the switch numa/demotion_enabled.
 *
 * As with hot pages a queue holds no references, and all is looked at again before
 * a page moves.
 *
 * Locking: mtier_cold_nodes and the queues' memory change under mtier_mutex,
 * which the scanner only tries to take: who holds it may wait for the scanner.
 * Otherwise mtier_queue.lock.
 */
#include <linux/hugetlb.h>
#include <linux/memory-tiers.h>
#include <linux/memory_hotplug.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/slab.h>
#include <trace/events/mtier.h>

#include "../internal.h"
#include "move.h"
#include "mtier.h"

/* Candidates of a node: some batches. More would be stale when their turn comes. */
#define MTIER_COLD_ENTRIES	4096

/* By node; a queue without entries was not needed so far. */
static struct mtier_queue *mtier_cold;
/* Nodes whose pages are looked at: they have records and a queue. */
static nodemask_t mtier_cold_nodes;

static int mtier_cold_add_node(int nid)
{
	int ret;

	lockdep_assert_held(&mtier_mutex);
	if (!mtier_cold[nid].entries) {
		ret = mtier_queue_init(&mtier_cold[nid], MTIER_COLD_ENTRIES);
		if (ret)
			return ret;
	}
	ret = mtier_hot_add_node(nid, true);
	if (ret)
		return ret;
	/* Pairs with that in mtier_cold_demote(): the queue, then its use. */
	smp_wmb();
	node_set(nid, mtier_cold_nodes);
	return 0;
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
		mtier_queue_destroy(&mtier_cold[nid]);
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

/* Append to a node's queue; the oldest makes room. */
static void mtier_cold_push(int nid, unsigned long entry)
{
	unsigned long dropped;

	mtier_queue_push(&mtier_cold[nid], entry, &dropped);
	if (dropped != MTIER_QUEUE_NONE)
		mtier_hot_unqueue(mtier_entry_pfn(dropped));
}

/**
 * mtier_cold_note() - note a look at a page of a full node
 * @nid: the node
 * @pfn: the page's first frame
 * @idle: it was not accessed since its bit was cleared
 * @now: mtier_now_tick()
 * @params: from mtier_cold_params()
 *
 * Context: the scanner.
 */
void mtier_cold_note(int nid, unsigned long pfn, bool idle, u32 now,
		     const struct mtier_hot_params *params)
{
	if (mtier_hot_idle(pfn, idle, now, params))
		mtier_cold_push(nid, mtier_entry_of(pfn));
}

/*
 * Take a reference on the folio of a queued frame if it can and should give way.
 * What is locked into memory does not, as it does not for reclaim.
 */
static struct folio *mtier_cold_candidate(unsigned long entry, int nid,
					  const struct mtier_hot_params *params)
{
	unsigned long pfn = mtier_entry_pfn(entry);
	struct page *page = pfn_to_online_page(pfn);
	struct folio *folio;

	if (!page || !mtier_hot_recheck(pfn, params))
		return NULL;
	folio = page_folio(page);
	if (!folio_try_get(folio))
		return NULL;
	if (page_folio(page) == folio && folio_pfn(folio) == pfn &&
	    mtier_entry_same(entry) && folio_nid(folio) == nid &&
	    !folio_is_zone_device(folio) && !folio_test_hugetlb(folio) &&
	    !folio_test_ksm(folio) && !folio_test_unevictable(folio) &&
	    !folio_maybe_dma_pinned(folio) &&
	    !(folio_is_file_lru(folio) && folio_test_dirty(folio)))
		return folio;
	folio_put(folio);
	return NULL;
}

/* Isolate one that may give way; false if it has to wait for another move. */
static bool mtier_cold_take(struct mtier_move *mv, struct folio *folio,
			    bool *crowded)
{
	enum mtier_why why;

	if (!mtier_move_fits(mv, folio))
		return false;
	why = mtier_guard_ask(&mv->guard, folio, !mv->nr_folios);
	if (why == MTIER_MAY)
		mtier_move_add(mv, folio);
	*crowded = why == MTIER_WHY_CROWDED;
	return !*crowded;
}

/*
 * Collect @want pages, as far as there are. What is too large for the rest of
 * the move goes to the end of the queue, and smaller ones go on; asking who maps
 * a page is too dear to look for one whose owners are known, once no more fit.
 */
static void mtier_cold_gather(struct mtier_move *mv, unsigned long want)
{
	/* How far apart its looks were nobody knows any more. */
	struct mtier_hot_params params = mtier_cold_params(U32_MAX);
	struct mtier_queue *queue = &mtier_cold[mv->source];
	/* Those that wait are not met again. */
	unsigned int left = READ_ONCE(queue->fill);
	bool crowded = false, waits;
	unsigned long entry;
	struct folio *folio;

	for (; left && !crowded && mv->nr_pages < want; left--) {
		if (!mtier_queue_pop(queue, &entry, 1))
			break;
		folio = mtier_cold_candidate(entry, mv->source, &params);
		waits = folio && !mtier_cold_take(mv, folio, &crowded);
		/* If not, this look at it is over, whatever came of it. */
		if (waits)
			mtier_cold_push(mv->source, entry);
		else
			mtier_hot_forget(mtier_entry_pfn(entry));
		if (folio)
			folio_put(folio);
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
	/* Pairs with that in mtier_cold_add_node(). */
	smp_rmb();
	/* Not for the price of reclaim below. */
	room = mtier_node_free_above(node->nid, false);
	want = min3(want, room, READ_ONCE(mtier_conf.batch_pages));
	if (!want)
		return 0;
	mtier_move_down(mv, nid, node->nid, want);
	mtier_cold_gather(mv, want);
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
	mtier_cold = kcalloc(nr_node_ids, sizeof(*mtier_cold), GFP_KERNEL);
	return mtier_cold ? 0 : -ENOMEM;
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/cold_kunit.c"
#endif
