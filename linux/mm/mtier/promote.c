// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: the migrators, one thread per slow node.
 *
 * kpromoted/N takes frame numbers off its node's queue, groups them by target,
 * and moves each group with one migrate_pages() call. References to folios
 * exist only between isolation and that call; while the thread waits, for its
 * rate or for a full target, it holds none. So a page may be freed meanwhile and
 * its frame be somebody else's, whom other policies hold: an entry carries a tag
 * of whose page was seen, and is dropped when the frame's tag is another.
 *
 * Every queued frame ends in exactly one counter (mtier_finish()):
 *
 *	queued = promoted_folios + drop_* + fail_* + still queued
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
#include <linux/hugetlb.h>
#include <linux/kthread.h>
#include <linux/memory_hotplug.h>
#include <linux/memremap.h>
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

/* A queue that is not full enough for a batch waits so long for more. */
#define MTIER_GATHER_MS		20
/*
 * Between two tries while no node above has room: as kswapd makes room in steps
 * of a watermark, soon while that goes on, and twice as late after each failure.
 */
#define MTIER_FULL_RETRY_MIN_MS	10
#define MTIER_FULL_RETRY_MAX_MS	100
/*
 * Time between two drains of all CPUs' LRU batches, which interrupt everybody:
 * twice as long after one that did not help.
 */
#define MTIER_LRU_DRAIN_MIN_MS	1000
#define MTIER_LRU_DRAIN_MAX_MS	64000
/* Of the migrators; the scanner has none, being capped by cpu_percent. */
#define MTIER_PROMOTE_NICE	(-5)
/* In mtier_node.targets: no fallback; and: done with. */
#define MTIER_TARGET_STRICT	BIT(30)
#define MTIER_TARGET_DONE	(-2)
#define MTIER_BATCH_MAX		4096

struct mtier_node __rcu **mtier_nodes;

static struct mtier_node *mtier_node_get(int nid)
{
	return rcu_dereference_protected(mtier_nodes[nid],
					 lockdep_is_held(&mtier_mutex));
}

/* The one end of a queued frame. */
static void mtier_finish(struct mtier_node *node, unsigned long entry,
			 enum vm_event_item how)
{
	unsigned long pfn = mtier_entry_pfn(entry);

	if (how == MTIER_PROMOTED_FOLIOS || how == MTIER_DROP_GONE)
		mtier_hot_forget(pfn);
	else
		mtier_hot_unqueue(pfn);
	if (how != MTIER_PROMOTED_FOLIOS)
		atomic_long_inc(&node->nr_dropped);
	count_vm_event(how);
}

/**
 * mtier_promote_enqueue() - hand a hot frame to its node's migrator
 * @nid: the slow node
 * @pfn: the frame, marked as queued in its record
 *
 * Context: any but NMI, under rcu_read_lock().
 * Return: false if the node has no migrator.
 */
bool mtier_promote_enqueue(int nid, unsigned long pfn)
{
	struct mtier_node *node = rcu_dereference(mtier_nodes[nid]);
	unsigned long dropped;
	unsigned int fill;

	if (!node)
		return false;
	count_vm_event(MTIER_QUEUED);
	fill = mtier_queue_push(&node->queue, mtier_entry_of(pfn), &dropped);
	if (dropped != MTIER_QUEUE_NONE)
		mtier_finish(node, dropped, MTIER_DROP_FULL);
	if (fill == 1 || fill >= READ_ONCE(mtier_conf.batch_pages))
		if (wq_has_sleeper(&node->wait))
			wake_up(&node->wait);
	return true;
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
		room = mtier_node_free_above(target, true);
		if (room < *nr && !mtier_cold_demote(node, target, *nr - room))
			mtier_wake_kswapd(target);
		room = mtier_node_free_above(target, false);
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

	while (bytes && !kthread_should_stop()) {
		wait_ns = mtier_rate_take(target, &bytes);
		if (!bytes)
			break;
		count_vm_event(MTIER_THROTTLE_RATE);
		WRITE_ONCE(node->state, MTIER_NODE_THROTTLED);
		wait_event_freezable_timeout(node->wait, kthread_should_stop(),
					     nsecs_to_jiffies(wait_ns) + 1);
	}
}

/*
 * Take a reference on the folio of a queued frame if it can and should be
 * moved; else say why not.
 */
static struct folio *mtier_candidate(unsigned long entry,
				     const struct mtier_hot_params *params,
				     enum vm_event_item *why)
{
	unsigned long pfn = mtier_entry_pfn(entry);
	struct page *page = pfn_to_online_page(pfn);
	struct folio *folio;

	*why = MTIER_DROP_GONE;
	if (!page)
		return NULL;
	folio = page_folio(page);
	if (!folio_try_get(folio))
		return NULL;
	/* Merged into a larger folio, or another page: the scan sees it anew. */
	if (page_folio(page) != folio || folio_pfn(folio) != pfn ||
	    !mtier_entry_same(entry) || !mtier_node_is_slow(folio_nid(folio)))
		goto drop;
	*why = MTIER_DROP_TYPE;
	if (folio_is_zone_device(folio) || folio_test_hugetlb(folio) ||
	    folio_test_ksm(folio))
		goto drop;
	/* Also page cache, which mtier_folio_stays() lets pass. */
	*why = MTIER_DROP_PINNED;
	if (folio_maybe_dma_pinned(folio))
		goto drop;
	/* Many file systems cannot move dirty folios without blocking. */
	*why = MTIER_DROP_DIRTY;
	if (folio_is_file_lru(folio) && folio_test_dirty(folio))
		goto drop;
	*why = MTIER_DROP_COLD;
	if (!mtier_hot_recheck(pfn, params))
		goto drop;
	return folio;
drop:
	folio_put(folio);
	return NULL;
}

/* How a queued frame ends that those who map it do not let move. */
static enum vm_event_item mtier_why_event(enum mtier_why why)
{
	switch (why) {
	case MTIER_WHY_POLICY:
		return MTIER_DROP_POLICY;
	case MTIER_WHY_KIND:
		return MTIER_DROP_TYPE;
	case MTIER_WHY_PINNED:
		return MTIER_DROP_PINNED;
	case MTIER_WHY_GONE:
		return MTIER_DROP_GONE;
	default:
		return MTIER_FAIL_BUSY;
	}
}

/* Isolate a candidate; false if the move has no place for it. */
static bool mtier_take(struct mtier_node *node, struct mtier_move *mv,
		       struct folio *folio, unsigned int i)
{
	unsigned long entry = node->batch[i];
	enum mtier_why why;

	if (!mtier_move_fits(mv, folio))
		return false;
	why = mtier_guard_ask(&mv->guard, folio, !mv->nr_folios);
	if (why == MTIER_WHY_CROWDED)
		return false;
	node->targets[i] = MTIER_TARGET_DONE;
	if (why != MTIER_MAY) {
		mtier_finish(node, entry, mtier_why_event(why));
	} else if (!mtier_move_add(mv, folio)) {
		mtier_finish(node, entry, MTIER_FAIL_ISOLATE);
		node->off_lru |= !folio_test_lru(folio);
	}
	return true;
}

/*
 * Look at an entry of the batch again, and isolate it, up to batch_pages.
 * Returns false when the move has no place for more.
 */
static bool mtier_gather(struct mtier_node *node, struct mtier_move *mv,
			 unsigned int i)
{
	unsigned long entry = node->batch[i];
	enum vm_event_item why;
	struct folio *folio;
	bool taken;

	folio = mtier_candidate(entry, &mv->hot, &why);
	if (!folio) {
		node->targets[i] = MTIER_TARGET_DONE;
		mtier_finish(node, entry, why);
		return true;
	}
	taken = mtier_take(node, mv, folio, i);
	folio_put(folio);
	return taken;
}

static enum vm_event_item mtier_fate_event(const struct mtier_move *mv,
					   unsigned long pfn)
{
	switch (mtier_move_fate(mv, pfn)) {
	case MTIER_FATE_MOVED:
		return MTIER_PROMOTED_FOLIOS;
	case MTIER_FATE_GONE:
		return MTIER_DROP_GONE;
	case MTIER_FATE_STAYED:
		break;
	}
	return mv->nomem ? MTIER_FAIL_NOMEM : MTIER_FAIL_BUSY;
}

/* Move what was gathered and account for every folio of it. */
static void mtier_move_batch(struct mtier_node *node, struct mtier_move *mv)
{
	unsigned long moved;
	u64 since_ns;
	unsigned int i;

	WRITE_ONCE(node->state, MTIER_NODE_MIGRATING);
	since_ns = mtier_charge_pick(mv);
	moved = mtier_move_run(mv);
	mtier_charge_move(mv, since_ns);
	if (!mv->nr_folios)
		return;

	/*
	 * Ask the move, not the records: those of memory that goes offline are
	 * pruned meanwhile.
	 */
	for (i = 0; i < mv->nr_folios; i++)
		mtier_finish(node, mv->pfns[i],
			     mtier_fate_event(mv, mv->pfns[i]));

	atomic_long_add(moved, &node->nr_promoted);
	WRITE_ONCE(node->fail_stamp, jiffies);
	WRITE_ONCE(node->fail_score,
		   (7 * node->fail_score +
		    100 * mv->nr_stayed / mv->nr_folios) / 8);
	trace_mtier_migrate(node->nid, mv->target, mv->nr_folios, moved,
			    mtier_move_outcome(mv, moved));
	mtier_pay(node, mv->target, (u64)moved << PAGE_SHIFT);
}

/*
 * No room above: put back what may wait, give up what may not. What has gone
 * cold while it waited makes room for others in the queue.
 */
static void mtier_put_back(struct mtier_node *node, unsigned int n, int key)
{
	struct mtier_hot_params hot;
	unsigned long entry, dropped;
	unsigned int i;

	hot = mtier_hot_params_for(key & ~MTIER_TARGET_STRICT);
	for (i = 0; i < n; i++) {
		if (node->targets[i] != key)
			continue;
		entry = node->batch[i];
		node->targets[i] = MTIER_TARGET_DONE;
		if (key & MTIER_TARGET_STRICT) {
			mtier_finish(node, entry, MTIER_FAIL_FULL);
			continue;
		}
		if (!mtier_hot_recheck(mtier_entry_pfn(entry), &hot)) {
			mtier_finish(node, entry, MTIER_DROP_COLD);
			continue;
		}
		mtier_queue_push(&node->queue, entry, &dropped);
		if (dropped != MTIER_QUEUE_NONE)
			mtier_finish(node, dropped, MTIER_DROP_FULL);
	}
}

/* Move all entries with one target; false if there was no room for them. */
static bool mtier_move_group(struct mtier_node *node, unsigned int first,
			     unsigned int n)
{
	unsigned long batch;
	int key = node->targets[first];
	unsigned int i = first;
	int dest;

	while (i < n && !kthread_should_stop()) {
		/* Entries may be large: ask for room for a whole batch. */
		batch = READ_ONCE(mtier_conf.batch_pages);
		dest = mtier_dest_with_room(node, key & ~MTIER_TARGET_STRICT,
					    key & MTIER_TARGET_STRICT, &batch);
		if (dest == NUMA_NO_NODE) {
			mtier_put_back(node, n, key);
			return false;
		}
		mtier_move_up(node->move, dest, batch);
		for (; i < n; i++)
			if (node->targets[i] == key &&
			    !mtier_gather(node, node->move, i))
				break;
		mtier_move_batch(node, node->move);
	}
	return true;
}

/* Fill in the targets of a fresh batch. */
static void mtier_sort(struct mtier_node *node, unsigned int n)
{
	unsigned int i;
	bool strict;
	int target;

	for (i = 0; i < n; i++) {
		if (mtier_hot_peek(mtier_entry_pfn(node->batch[i]), &target,
				   &strict)) {
			node->targets[i] = target |
				(strict ? MTIER_TARGET_STRICT : 0);
			continue;
		}
		node->targets[i] = MTIER_TARGET_DONE;
		mtier_finish(node, node->batch[i], MTIER_DROP_GONE);
	}
}

/*
 * Fresh pages sit in per-CPU batches and cannot be isolated from there. Have
 * them put on their lists for the next time, but not all the time: folios that
 * somebody else has isolated look the same.
 */
static void mtier_drain_lru(struct mtier_node *node)
{
	/* The first batch after one tells whether it helped. */
	if (node->drained) {
		node->drain_ms = node->off_lru ?
			min(2 * node->drain_ms, MTIER_LRU_DRAIN_MAX_MS) :
			MTIER_LRU_DRAIN_MIN_MS;
		node->next_drain = jiffies + msecs_to_jiffies(node->drain_ms);
	}
	node->drained = node->off_lru &&
			time_after_eq(jiffies, node->next_drain);
	if (!node->drained)
		return;
	lru_add_drain_all();
	node->off_lru = false;
}

static void mtier_drain(struct mtier_node *node)
{
	long before = atomic_long_read(&node->nr_promoted);
	bool full = false, room = false;
	unsigned int i, n;
	nodemask_t up;

	n = mtier_queue_pop(&node->queue, node->batch,
			    READ_ONCE(mtier_conf.batch_pages));
	mtier_sort(node, n);
	for (i = 0; i < n; i++) {
		if (node->targets[i] == MTIER_TARGET_DONE)
			continue;
		if (kthread_should_stop()) {
			mtier_finish(node, node->batch[i], MTIER_DROP_OFF);
			continue;
		}
		if (mtier_move_group(node, i, n))
			room = true;
		else
			full = true;
		/* A stop in the middle leaves some of the group. */
		if (node->targets[i] != MTIER_TARGET_DONE)
			i--;
	}
	mtier_drain_lru(node);
	/* One full target does not keep the pages for another waiting. */
	if (room || !full)
		return;
	up = mtier_node_up(node->nid);
	WRITE_ONCE(node->state, nodes_empty(up) ? MTIER_NODE_NO_TARGET :
						  MTIER_NODE_TARGET_FULL);
	node->retry_ms = min(2 * node->retry_ms, MTIER_FULL_RETRY_MAX_MS);
	if (atomic_long_read(&node->nr_promoted) != before)
		node->retry_ms = MTIER_FULL_RETRY_MIN_MS;
	wait_event_freezable_timeout(node->wait, kthread_should_stop(),
				     msecs_to_jiffies(node->retry_ms));
}

static bool mtier_batch_ready(struct mtier_node *node)
{
	return READ_ONCE(node->queue.fill) >= READ_ONCE(mtier_conf.batch_pages);
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
		if (!READ_ONCE(node->queue.fill)) {
			WRITE_ONCE(node->state, MTIER_NODE_IDLE);
			wait_event_freezable(node->wait,
					     READ_ONCE(node->queue.fill) ||
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
	mtier_queue_destroy(&node->queue);
	mtier_move_free(node->move);
	mtier_move_free(node->down);
	kvfree(node->batch);
	kvfree(node->targets);
	kfree(node);
}

static struct mtier_node *mtier_node_alloc(int nid)
{
	struct mtier_node *node = kzalloc(sizeof(*node), GFP_KERNEL);

	if (!node)
		return NULL;
	node->nid = nid;
	node->next_drain = jiffies;
	node->retry_ms = MTIER_FULL_RETRY_MAX_MS;
	node->drain_ms = MTIER_LRU_DRAIN_MIN_MS;
	init_waitqueue_head(&node->wait);
	node->move = mtier_move_alloc(MTIER_BATCH_MAX);
	node->down = mtier_move_alloc(MTIER_BATCH_MAX);
	node->batch = kvcalloc(MTIER_BATCH_MAX, sizeof(*node->batch),
			       GFP_KERNEL);
	node->targets = kvcalloc(MTIER_BATCH_MAX, sizeof(*node->targets),
				 GFP_KERNEL);
	if (mtier_queue_init(&node->queue, mtier_conf.queue_pages) ||
	    !node->move || !node->down || !node->batch || !node->targets) {
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
	unsigned long pfn;

	lockdep_assert_held(&mtier_mutex);
	node = mtier_node_get(nid);
	if (!node)
		return;
	mtier_sysfs_del_node(node);
	RCU_INIT_POINTER(mtier_nodes[nid], NULL);
	synchronize_rcu();
	kthread_stop(node->thread);
	while (mtier_queue_pop(&node->queue, &pfn, 1))
		mtier_finish(node, pfn, MTIER_DROP_OFF);
	mtier_node_free(node);
}

/**
 * mtier_promote_resize() - change the size of all queues
 * @cap: entries; the oldest that do not fit are dropped and counted
 *
 * Return: 0 or -ENOMEM; then some queues may have the new size already.
 */
int mtier_promote_resize(unsigned int cap)
{
	struct mtier_node *node;
	unsigned long pfn;
	int nid, ret = 0;

	lockdep_assert_held(&mtier_mutex);
	for_each_node(nid) {
		node = mtier_node_get(nid);
		if (!node)
			continue;
		while ((ret = mtier_queue_resize(&node->queue, cap)) == -EBUSY)
			while (READ_ONCE(node->queue.fill) > cap &&
			       mtier_queue_pop(&node->queue, &pfn, 1))
				mtier_finish(node, pfn, MTIER_DROP_FULL);
		if (ret)
			break;
	}
	return ret;
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
