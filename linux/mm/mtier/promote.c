// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: the migrators, one thread per slow node.
 *
 * kpromoted/N takes ranges of address spaces that have pages of its node waiting,
 * the oldest first, gathers a batch of those that have one target, and moves it
 * with one migrate_pages() call. References to folios exist only from there to
 * that call; while the thread waits, for its rate or for a full target, it holds
 * none.
 *
 * Every page that waits ends in exactly one counter (mtier_finish()):
 *
 *	queued = promoted_folios + drop_* + fail_* + still waiting
 *
 * and the pages of promoted folios are added to pgpromote_success of the node
 * and the memcg, whatever numa_balancing is set to.
 *
 * The rate (rate.c) is paid after a batch: the thread sleeps until its bytes are
 * covered. So no window sees more than rate * time + burst + one batch.
 *
 * Locking: mtier_nodes[] is changed under mtier_mutex and read under RCU.
 * What is held while a batch is gathered and moved: eligible.c.
 */
#include <linux/freezer.h>
#include <linux/kthread.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/swap.h>
#include <trace/events/mtier.h>

#include "../internal.h"
#include "move.h"
#include "mtier.h"

/* Less than a batch waits so long for more. */
#define MTIER_GATHER_MS		20
/*
 * Between two tries while no node above has room: as kswapd makes room in steps
 * of a watermark, soon while that goes on, and twice as late after each failure.
 */
#define MTIER_FULL_RETRY_MIN_MS	10
#define MTIER_FULL_RETRY_MAX_MS	100
/* Before those are tried again whose VMA somebody has locked. */
#define MTIER_BLOCKED_RETRY_MS	10
/* Of the migrators; the scanner has none, being capped by cpu_percent. */
#define MTIER_PROMOTE_NICE	(-5)

struct mtier_node __rcu **mtier_nodes;

static struct mtier_node *mtier_node_get(int nid)
{
	return rcu_dereference_protected(mtier_nodes[nid],
					 lockdep_is_held(&mtier_mutex));
}

/* The one end of pages that waited. */
static void mtier_finish(struct mtier_node *node, enum vm_event_item how,
			 unsigned int nr)
{
	if (!nr)
		return;
	if (node && how != MTIER_PROMOTED_FOLIOS)
		atomic_long_add(nr, &node->nr_dropped);
	count_vm_events(how, nr);
}

/**
 * mtier_promote_note() - hand a hot page to its node's migrator
 * @nid: the slow node
 * @at: its range, and where it shall go
 * @page: its number there
 * @now: mtier_now_tick()
 * @full: its target has no room
 * @locked: a spinlock is held: older ones do not make room for it
 *
 * Context: process context, with a reference to the users of the mm.
 * Return: true if it waits from now on; false if it did, if the migrator has
 * enough to do, or without memory.
 */
bool mtier_promote_note(int nid, const struct mtier_range_key *at,
			unsigned int page, u32 now, bool full, bool locked)
{
	struct mtier_node *node;
	unsigned int dropped = 0;
	int fill = 0;

	rcu_read_lock();
	node = rcu_dereference(mtier_nodes[nid]);
	if (node && mtier_promote_may_queue(nid, full))
		fill = mtier_ranges_add(&node->hot, at, page, now,
					locked ? NULL : &dropped);
	if (fill > 0) {
		count_vm_event(MTIER_QUEUED);
		mtier_finish(node, MTIER_DROP_FULL, dropped);
		if (fill == 1 || fill >= READ_ONCE(mtier_conf.batch_pages))
			if (wq_has_sleeper(&node->wait))
				wake_up(&node->wait);
	}
	rcu_read_unlock();
	return fill > 0;
}

/**
 * mtier_promote_forget() - an address space goes
 * @mm: the mm, of which no page is reported any more
 */
void mtier_promote_forget(struct mm_struct *mm)
{
	struct mtier_node *node;
	int nid;

	rcu_read_lock();
	for_each_node(nid) {
		node = rcu_dereference(mtier_nodes[nid]);
		if (node)
			mtier_finish(node, MTIER_DROP_GONE,
				     mtier_ranges_forget(&node->hot, mm));
	}
	rcu_read_unlock();
}

static void mtier_wake_kswapd(int nid)
{
	pg_data_t *pgdat = NODE_DATA(nid);
	int z;

	for (z = pgdat->nr_zones - 1; z >= 0; z--) {
		if (!managed_zone(pgdat->node_zones + z))
			continue;
		wakeup_kswapd(pgdat->node_zones + z, 0, 0, ZONE_MOVABLE);
		break;
	}
}

/*
 * Where *@nr pages can really go now; NUMA_NO_NODE if nowhere. Where all are
 * nearly full *@nr is lowered to what is left on the target.
 */
static int mtier_dest_with_room(struct mtier_node *node, int target,
				bool strict, unsigned long *nr)
{
	unsigned long room = 0;
	int dest;

	/* It may have gone offline since the page was seen. */
	if (node_state(target, N_MEMORY)) {
		/* Make more, or ask for it, before there is none. */
		room = mtier_node_free_above(target, WMARK_PROMO);
		if (room < *nr && !mtier_cold_demote(node, target, *nr - room))
			mtier_wake_kswapd(target);
		room = mtier_node_free_above(target, WMARK_HIGH);
	}
	if (room >= *nr)
		return target;
	dest = strict ? NUMA_NO_NODE : mtier_fallback(node->nid, *nr);
	if (dest != NUMA_NO_NODE)
		return dest;
	/* The rest of it, but not page by page. */
	if (room < SWAP_CLUSTER_MAX)
		return NUMA_NO_NODE;
	*nr = room;
	return target;
}

/* Wait until the target's rate covers what was moved. */
static void mtier_pay(struct mtier_node *node, int target, u64 bytes)
{
	u64 wait_ns;

	while ((wait_ns = mtier_rate_pay(target, bytes)) &&
	       !kthread_should_stop()) {
		bytes = 0;
		count_vm_event(MTIER_THROTTLE_RATE);
		WRITE_ONCE(node->state, MTIER_NODE_THROTTLED);
		wait_event_freezable_timeout(node->wait, kthread_should_stop(),
					     nsecs_to_jiffies(wait_ns) + 1);
	}
}

/* How a page ends that is not to be moved, or cannot be. */
static const enum vm_event_item mtier_ends[MTIER_NR_WHYS] = {
	[MTIER_WHY_POLICY] = MTIER_DROP_POLICY,
	[MTIER_WHY_KIND] = MTIER_DROP_TYPE,
	[MTIER_WHY_PINNED] = MTIER_DROP_PINNED,
	[MTIER_WHY_DIRTY] = MTIER_DROP_DIRTY,
	[MTIER_WHY_COLD] = MTIER_DROP_COLD,
	[MTIER_WHY_BUSY] = MTIER_FAIL_BUSY,
	[MTIER_WHY_OFF_LRU] = MTIER_FAIL_ISOLATE,
	[MTIER_WHY_GONE] = MTIER_DROP_GONE,
};

/**
 * mtier_promote_count() - account for every page that was looked at for a move
 * @node: whose pages they were, or NULL where there are no migrators
 * @mv: the move, after mtier_move_run()
 */
void mtier_promote_count(struct mtier_node *node, const struct mtier_move *mv)
{
	unsigned int nr[MTIER_FATE_GONE + 1] = {};
	enum mtier_fate fate;
	unsigned int i;

	/* Those that a look has marked have no records. */
	for (i = 0; i < mv->fast->nr && !mv->marked; i++)
		mtier_hot_forget(folio_pfn(mv->fast->page[i].src));
	nr[MTIER_FATE_MOVED] = mv->fast->nr;
	for (i = 0; i < mv->nr_listed; i++) {
		fate = mtier_move_fate(mv, mv->pfns[i]);
		nr[fate]++;
		/* Its heat has left the frame with it. */
		if (fate != MTIER_FATE_STAYED && !mv->marked)
			mtier_hot_forget(mv->pfns[i]);
	}
	mtier_finish(node, MTIER_PROMOTED_FOLIOS, nr[MTIER_FATE_MOVED]);
	mtier_finish(node, MTIER_DROP_GONE, nr[MTIER_FATE_GONE]);
	mtier_finish(node, mv->nomem ? MTIER_FAIL_NOMEM : MTIER_FAIL_BUSY,
		     nr[MTIER_FATE_STAYED]);
	for (i = MTIER_MAY + 1; i < MTIER_WHY_CROWDED; i++)
		mtier_finish(node, mtier_ends[i], mv->ended[i]);
}

/* Move what was gathered and account for every page that was to be. */
static void mtier_move_batch(struct mtier_node *node, struct mtier_move *mv)
{
	unsigned long moved;

	WRITE_ONCE(node->state, MTIER_NODE_MIGRATING);
	moved = mtier_move_run(mv);
	mtier_promote_count(node, mv);
	node->lru.off_lru |= mv->off_lru;
	if (!mv->nr_folios)
		return;

	atomic_long_add(moved, &node->nr_promoted);
	WRITE_ONCE(node->fail_stamp, jiffies);
	WRITE_ONCE(node->fail_score,
		   (7 * node->fail_score +
		    100 * mv->nr_stayed / mv->nr_folios) / 8);
	trace_mtier_migrate(node->nid, mv->target, mv->nr_folios, moved,
			    mtier_move_outcome(mv, moved));
	mtier_pay(node, mv->target, (u64)moved << PAGE_SHIFT);
}

/* Give a range back; what dies with its address space is gone. */
static void mtier_release(struct mtier_node *node, struct mtier_range *range,
			  const unsigned long *done)
{
	mtier_finish(node, MTIER_DROP_GONE,
		     mtier_ranges_release(&node->hot, range, done));
}

/* All pages of a range end in one way. */
static void mtier_give_up(struct mtier_node *node, struct mtier_range *range,
			  enum vm_event_item how)
{
	mtier_finish(node, how,
		     bitmap_weight(node->move->todo, MTIER_RANGE_PAGES));
	mtier_release(node, range, node->move->todo);
}

/*
 * No room above: what may wait waits on, what may not is given up. What has gone
 * cold meanwhile makes room for others.
 */
static void mtier_wait_on(struct mtier_node *node, struct mtier_range *range)
{
	struct mtier_hot_params hot = mtier_hot_params_for(range->key.target);
	u32 rest = mtier_now_tick() - READ_ONCE(range->tick);

	if (range->key.strict) {
		mtier_give_up(node, range, MTIER_FAIL_FULL);
	} else if (rest >= hot.window_ticks) {
		mtier_give_up(node, range, MTIER_DROP_COLD);
	} else {
		bitmap_zero(node->move->done, MTIER_RANGE_PAGES);
		mtier_release(node, range, node->move->done);
	}
}

/* Move a batch: this range, and what waits for the same target. */
static void mtier_move_ranges(struct mtier_node *node,
			      struct mtier_range *range, int dest,
			      unsigned long batch)
{
	struct mtier_range_key like = range->key;
	struct mtier_move *mv = node->move;
	/* What is too large for the rest of a batch is not met again. */
	unsigned int left = READ_ONCE(node->hot.nr);
	bool open;

	mtier_move_up(mv, node->nid, dest, batch);
	do {
		open = mtier_gather(mv, range);
		mtier_release(node, range, mv->done);
		if (!open || !left--)
			break;
		range = mtier_ranges_take(&node->hot, &like, mv->todo);
	} while (range);
	mtier_move_batch(node, mv);
}

/*
 * Move a batch of those that wait for longest, of those whose target has room.
 * Returns false if none of them has.
 */
static bool mtier_move_some(struct mtier_node *node, bool *full)
{
	/* Where there is no room there are not many: mtier_may_queue(). */
	unsigned int left = min(READ_ONCE(node->hot.nr), MTIER_BATCH_MAX);
	nodemask_t tried[2] = { NODE_MASK_NONE, NODE_MASK_NONE };
	struct mtier_range *range;
	unsigned long batch;
	int dest;

	for (; left && !kthread_should_stop(); left--) {
		range = mtier_ranges_take(&node->hot, NULL, node->move->todo);
		if (!range)
			break;
		/* A page may be large: ask for room for a whole batch. */
		batch = READ_ONCE(mtier_conf.batch_pages);
		dest = NUMA_NO_NODE;
		if (!node_test_and_set(range->key.target,
				       tried[range->key.strict]))
			dest = mtier_dest_with_room(node, range->key.target,
						    range->key.strict, &batch);
		if (dest != NUMA_NO_NODE) {
			mtier_move_ranges(node, range, dest, batch);
			return true;
		}
		*full = true;
		mtier_wait_on(node, range);
	}
	return false;
}

static void mtier_rest(struct mtier_node *node, unsigned int ms)
{
	wait_event_freezable_timeout(node->wait, kthread_should_stop(),
				     msecs_to_jiffies(ms));
}

static void mtier_drain(struct mtier_node *node)
{
	unsigned long batch = READ_ONCE(mtier_conf.batch_pages), nr = 0;
	long before = atomic_long_read(&node->nr_promoted);
	bool full = false, some = false;
	nodemask_t up;

	node->move->blocked = false;
	/* Where there is little room a batch goes in pieces. */
	while (nr < batch && mtier_move_some(node, &full)) {
		some = true;
		nr += max(node->move->nr_pages, SWAP_CLUSTER_MAX);
	}
	mtier_lru_drain(&node->lru);
	if (node->move->blocked)
		mtier_rest(node, MTIER_BLOCKED_RETRY_MS);
	/* One full target does not keep the pages for another waiting. */
	if (some || !full)
		return;
	up = mtier_node_up(node->nid);
	WRITE_ONCE(node->state, nodes_empty(up) ? MTIER_NODE_NO_TARGET :
						  MTIER_NODE_TARGET_FULL);
	node->retry_ms = min(2 * node->retry_ms, MTIER_FULL_RETRY_MAX_MS);
	if (atomic_long_read(&node->nr_promoted) != before)
		node->retry_ms = MTIER_FULL_RETRY_MIN_MS;
	mtier_rest(node, node->retry_ms);
}

static bool mtier_batch_ready(struct mtier_node *node)
{
	return READ_ONCE(node->hot.fill) >= READ_ONCE(mtier_conf.batch_pages);
}

static int mtier_promote_thread(void *arg)
{
	struct mtier_node *node = arg;

	set_freezable();
	/*
	 * Every moment that a hot page stays costs its users more than the
	 * move does; on busy CPUs the rate limit, not the number of their
	 * threads, shall say how fast pages come.
	 */
	set_user_nice(current, MTIER_PROMOTE_NICE);
	while (!kthread_freezable_should_stop(NULL)) {
		if (!READ_ONCE(node->hot.fill)) {
			WRITE_ONCE(node->state, MTIER_NODE_IDLE);
			wait_event_freezable(node->wait,
					     READ_ONCE(node->hot.fill) ||
					     kthread_should_stop());
		}
		wait_event_freezable_timeout(node->wait,
					     mtier_batch_ready(node) ||
					     kthread_should_stop(),
					     msecs_to_jiffies(MTIER_GATHER_MS));
		mtier_drain(node);
		cond_resched();
	}
	return 0;
}

static void mtier_node_free(struct mtier_node *node)
{
	mtier_move_free(node->move);
	mtier_move_free(node->down);
	kfree(node);
}

static struct mtier_node *mtier_node_alloc(int nid)
{
	struct mtier_node *node = kzalloc(sizeof(*node), GFP_KERNEL);

	if (!node)
		return NULL;
	node->nid = nid;
	node->retry_ms = MTIER_FULL_RETRY_MAX_MS;
	mtier_lru_init(&node->lru);
	init_waitqueue_head(&node->wait);
	node->move = mtier_move_alloc(MTIER_BATCH_MAX);
	node->down = mtier_move_alloc(MTIER_BATCH_MAX);
	mtier_ranges_init(&node->hot, mtier_conf.queue_pages);
	if (!node->move || !node->down) {
		mtier_node_free(node);
		return NULL;
	}
	return node;
}

/**
 * mtier_promote_add_node() - start the migrator of a slow node
 * @nid: the node, which may have one already
 *
 * Return: 0, -ENOMEM, or the error of making a thread or its sysfs folder.
 */
int mtier_promote_add_node(int nid)
{
	struct mtier_node *node;
	int ret;

	lockdep_assert_held(&mtier_mutex);
	if (mtier_node_get(nid))
		return 0;
	node = mtier_node_alloc(nid);
	if (!node)
		return -ENOMEM;
	node->thread = kthread_run(mtier_promote_thread, node, "kpromoted/%d",
				   nid);
	if (IS_ERR(node->thread)) {
		ret = PTR_ERR(node->thread);
		mtier_node_free(node);
		return ret;
	}
	rcu_assign_pointer(mtier_nodes[nid], node);
	ret = mtier_sysfs_add_node(node);
	if (ret)
		mtier_promote_del_node(nid);
	return ret;
}

/**
 * mtier_promote_del_node() - stop the migrator of a node
 * @nid: the node, which may have none
 */
void mtier_promote_del_node(int nid)
{
	struct mtier_node *node;

	lockdep_assert_held(&mtier_mutex);
	node = mtier_node_get(nid);
	if (!node)
		return;
	mtier_sysfs_del_node(node);
	RCU_INIT_POINTER(mtier_nodes[nid], NULL);
	synchronize_rcu();
	kthread_stop(node->thread);
	mtier_finish(node, MTIER_DROP_OFF, mtier_ranges_shrink(&node->hot, 0));
	mtier_node_free(node);
}

/**
 * mtier_promote_resize() - change how many pages of each node may wait
 * @cap: pages; the oldest ranges that do not fit are dropped and counted
 */
void mtier_promote_resize(unsigned int cap)
{
	struct mtier_node *node;
	int nid;

	lockdep_assert_held(&mtier_mutex);
	for_each_node(nid) {
		node = mtier_node_get(nid);
		if (!node)
			continue;
		WRITE_ONCE(node->hot.cap, cap);
		mtier_finish(node, MTIER_DROP_FULL,
			     mtier_ranges_shrink(&node->hot, cap));
	}
}

/**
 * mtier_promote_init() - allocate what lives as long as the kernel
 *
 * Return: 0 or -ENOMEM.
 */
int __init mtier_promote_init(void)
{
	mtier_nodes = kcalloc(nr_node_ids, sizeof(*mtier_nodes), GFP_KERNEL);
	return mtier_nodes ? mtier_rate_init() : -ENOMEM;
}
