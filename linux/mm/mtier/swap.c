// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: exchange the pages of a plan.
 *
 * The pages were selected by the last scan. kmtierd exchanges them at once: a batch
 * of victims is demoted, then a batch is promoted into the free frames, until all
 * selected pages were processed. Promotion into free memory requires no victim. Each
 * page is checked again when it is isolated (gather.c). A page that fails the check
 * stays in place. If that is a victim, fewer pages are promoted.
 *
 * The rate limit counts the pages promoted to a node. An exchange demotes at most as
 * many pages as it promotes.
 *
 * Promotion only uses free pages above the high watermark, so that kswapd has no
 * reason to run. But other tasks allocate down to the low watermark, and an
 * allocation that falls back to a block of another migrate type boosts all
 * watermarks until kswapd runs. This code does not wake kswapd. So below the high
 * watermark, half of the frames freed by demotions are left free, and the other half
 * are used at once, to promote without a wait for the watermark.
 *
 * Watermarks apply to the free pages of the zone, without the per-CPU lists. In a
 * batch, the first allocation moves hundreds of free pages to the list of the CPU,
 * and later batches move more. So the list is drained after a batch if the node has
 * fewer free pages than a list can take. Demotion uses free pages above the low
 * watermark: the promotion that follows frees the same number on the slow node.
 *
 * If the pool has several nodes, each batch has pages of one address space and one
 * target. The targets alternate in proportion to the number of threads on each node
 * and to the accesses seen on it. A page that a target had no room for, or that may not
 * migrate to it any more, is tried with each other node at the end.
 *
 * Victims go to the next slower tier, to the nearest of its nodes that they may migrate
 * to. If that is full, they go to the next one.
 *
 * Each folio whose promotion is attempted is counted in exactly one counter:
 *
 *	taken = promoted_folios + drop_* + fail_*
 *
 * A large folio migrates as a whole. If it does not fit into the rest of a batch,
 * the next batch starts with it. If it is a victim, it can make room for more than
 * one page.
 *
 * Locking: none. See gather.c for the locks that are held during a migration. Only
 * kmtierd changes the counters by node.
 */
#include <linux/bitmap.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmstat.h>
#include <trace/events/mtier.h>

#include "burst.h"
#include "move.h"
#include "mtier.h"
#include "unmapped.h"

/* A demotion target with less room than this is used if no other one is left. */
#define MTIER_BELOW_LEAST	64UL
/* Most batches of victims to get a node above its watermark. */
#define MTIER_SWAP_TRIES	8
/* Most base pages of a batch: one TLB flush for all, and a huge page fits. */
#define MTIER_BATCH_PAGES	512UL
/*
 * Upper limit of the pages that a CPU takes for its lists at once:
 * pcp->batch << CONFIG_PCP_BATCH_SCALE_MAX
 */
#define MTIER_LISTS_PAGES	2048UL

/**
 * struct mtier_cursor - position in the selected pages of a tier
 * @part: index of the address space
 * @range: index of the range
 */
struct mtier_cursor {
	unsigned int part;
	unsigned int range;
};

/**
 * struct mtier_victims - victims on a node of the pool
 * @at: position of the next victims
 * @targets: nodes that they can still be demoted to; @below is one of them
 * @below: target of the next batch; NUMA_NO_NODE if no victim is left
 * @came_free: pages demoted from the node whose frames are not used yet
 */
struct mtier_victims {
	struct mtier_cursor at;
	nodemask_t targets;
	int below;
	unsigned long came_free;
};

/**
 * struct mtier_swap - state of an exchange
 * @watch: the sample, with the pages of the plan selected
 * @pool: the nodes that pages are promoted to
 * @source: node that pages are promoted from now
 * @pick: routes whose pages the next batch can take
 * @up: batch for promotions
 * @down: batch for demotions
 * @left: number of pages of the plan that were not attempted yet
 * @chosen_ns: time of the plan, for tracepoints
 * @victims: victims, by node
 * @spare: number of pages of the plan for which unmapped page cache makes room
 * @whole: some of these are huge pages, which need room in one block
 * @least: smallest size of a batch that fits the largest folio of the plan, by tier
 * @elsewhere: pages that may not migrate to a target are tried with another one
 *	later
 * @did: result so far
 */
struct mtier_swap {
	struct mtier_watch *watch;
	const struct mtier_pool *pool;
	int source;
	bool *pick;
	struct mtier_move *up;
	struct mtier_move *down;
	unsigned long left;
	u64 chosen_ns;
	struct mtier_victims *victims;
	unsigned long spare;
	bool whole;
	unsigned long least[MTIER_SIDES];
	bool elsewhere;
	struct mtier_swapped did;
};

/**
 * struct mtier_turns - selected folios that were processed
 * @folios: number of folios
 * @pages: number of their base pages
 */
struct mtier_turns {
	unsigned long folios;
	unsigned long pages;
};

/* Reused by kmtierd in each exchange. */
static struct mtier_move *mtier_swap_up_move, *mtier_swap_down_move;
static struct mtier_lru mtier_swap_lru;
static struct mtier_victims *mtier_swap_victims;
static bool mtier_swap_pick[MTIER_ROUTES_MAX];
/* Totals by node since promotion was switched on. */
static struct mtier_moved *mtier_swap_moved;

/* Increase a counter that mtier_swap_node() reads without a lock. */
static void mtier_swap_sum(unsigned long *sum, unsigned long nr)
{
	WRITE_ONCE(*sum, *sum + nr);
}

/* ---- selected pages ---- */

/* Set the bits of the selected pages of a range whose routes are picked. */
static bool mtier_marked(const u8 *page, const u8 *route, const bool *pick,
			 unsigned long *todo)
{
	unsigned int i;

	bitmap_zero(todo, MTIER_RANGE_PAGES);
	for (i = 0; i < MTIER_RANGE_PAGES; i++)
		if (mtier_page_watched(page[i]) && page[i] & MTIER_PAGE_GOES &&
		    pick[route[i]])
			__set_bit(i, todo);
	return !bitmap_empty(todo, MTIER_RANGE_PAGES);
}

/* Find the next range with selected pages, and set them in @todo. */
static bool mtier_marked_next(struct mtier_watch *w, struct mtier_cursor *at,
			      unsigned int end, const bool *pick,
			      unsigned long *todo)
{
	for (; at->range < end; at->range++) {
		while (at->range >= w->part[at->part].first +
				    w->part[at->part].nr)
			at->part++;
		if (mtier_marked(mtier_watch_range(w, at->range),
				 w->route + (size_t)at->range * MTIER_RANGE_PAGES,
				 pick, todo))
			return true;
	}
	return false;
}

/* Remove the processed pages from the sample, and count them. */
static void mtier_marked_done(u8 *page, const unsigned long *done,
			      struct mtier_turns *turns)
{
	unsigned int i, nr;

	for_each_set_bit(i, done, MTIER_RANGE_PAGES) {
		nr = mtier_look_nr(page + i, MTIER_RANGE_PAGES - i);
		memset(page + i, MTIER_PAGE_NONE, nr);
		turns->pages += nr;
		turns->folios++;
	}
}

/* Check whether the pages in @todo that are not @done include a large folio. */
static bool mtier_marked_large(const u8 *page, const unsigned long *todo,
			       const unsigned long *done)
{
	unsigned int i;

	for_each_andnot_bit(i, todo, done, MTIER_RANGE_PAGES)
		if (page[i] & MTIER_PAGE_LARGE)
			return true;
	return false;
}

/*
 * Isolate selected pages from the cursor on, before range @end, until the batch is
 * full. Returns the number of pages and folios processed, isolated or not.
 */
static struct mtier_turns mtier_swap_gather(struct mtier_watch *w,
					    struct mtier_move *mv,
					    struct mtier_cursor *at,
					    unsigned int end, const bool *pick)
{
	struct mtier_turns turns = { };
	bool open = true;
	u8 *page;

	while (open && mv->nr_pages < mv->max_pages &&
	       mtier_marked_next(w, at, end, pick, mv->todo)) {
		open = mtier_gather(mv, w->part[at->part].slot->mm,
				    w->at[at->range]);
		page = mtier_watch_range(w, at->range);
		/* A large folio that does not fit starts the next batch. */
		if (mv->nr_pages && mtier_marked_large(page, mv->todo, mv->done))
			open = false;
		mtier_marked_done(page, mv->done, &turns);
		/* Pages that are left have moved to another node. */
		if (open)
			at->range++;
		cond_resched();
	}
	return turns;
}

/* ---- demotion ---- */

/*
 * Fill a batch with victims: with unmapped page cache first, as planned, and with mapped
 * pages if there is less of it than expected. Returns false if there is nothing for this
 * target. Sets @unmapped if the pages are unmapped.
 */
static bool mtier_swap_victims_of(struct mtier_swap *s, struct mtier_move *mv,
				  bool *unmapped)
{
	struct mtier_turns turns;

	if (s->spare)
		mtier_unmapped_gather(mv, s->whole);
	*unmapped = mv->nr_folios;
	if (*unmapped) {
		s->spare -= min(s->spare, mv->nr_pages);
		return true;
	}
	s->spare = 0;
	mtier_routes_pick_down(s->watch->routes, mv->source, mv->target, s->pick);
	turns = mtier_swap_gather(s->watch, mv, &s->victims[mv->source].at,
				  s->watch->nr, s->pick);
	mtier_routes_pick_up(s->watch->routes, s->source, s->pick);
	return turns.folios;
}

/*
 * Get the room of the current demotion target of a node; a target with too little of it is
 * passed over.
 */
static unsigned long mtier_swap_below(struct mtier_victims *v, unsigned long want)
{
	unsigned long room = mtier_node_free_above(v->below, WMARK_LOW);
	bool last = nodes_weight(v->targets) == 1;

	return last || room >= min(want, MTIER_BELOW_LEAST) ? min(room, want) : 0;
}

/* Go on to the next demotion target of a node, with the first victim. */
static void mtier_swap_next_below(struct mtier_victims *v, int nid)
{
	node_clear(v->below, v->targets);
	v->below = mtier_node_below(nid, &v->targets);
	v->at = (struct mtier_cursor) { };
}

/* Begin a batch of demotions from a node, and fill it. False if nothing can be demoted. */
static bool mtier_swap_fill(struct mtier_swap *s, int nid, unsigned long want,
			    bool *unmapped)
{
	struct mtier_victims *v = &s->victims[nid];
	unsigned long room;

	while (v->below != NUMA_NO_NODE) {
		room = mtier_swap_below(v, want);
		if (room) {
			mtier_move_begin(s->down, nid, v->below, true, room);
			if (mtier_swap_victims_of(s, s->down, unmapped))
				return true;
			mtier_move_run(s->down);
		}
		/* Promotions may free some memory of the last target. */
		if (nodes_weight(v->targets) == 1)
			return false;
		mtier_swap_next_below(v, nid);
	}
	return false;
}

/* Demote some victims of a node. Returns the number of pages demoted. */
static unsigned long mtier_swap_down(struct mtier_swap *s, int nid,
				     unsigned long want)
{
	int below;
	struct mtier_move *mv = s->down;
	unsigned long moved;
	bool unmapped;

	if (!mtier_swap_fill(s, nid, max(want, s->least[MTIER_TOP]), &unmapped))
		return 0;
	below = mv->target;
	moved = mtier_move_run(mv);
	if (mv->nr_folios && trace_mtier_demote_enabled())
		trace_mtier_demote(nid, below, mv->nr_folios, moved,
				   mtier_move_outcome(mv, moved),
				   ktime_get_ns() - s->chosen_ns);
	mtier_swap_sum(&mtier_swap_moved[below].demoted, moved);
	s->victims[nid].came_free += moved;
	s->did.demoted += moved;
	s->did.unmapped += unmapped ? moved : 0;
	mtier_swap_lru.off_lru |= mv->off_lru;
	return moved;
}

/*
 * Drain the per-CPU lists of this CPU. Freed frames go to these lists first,
 * separately by migrate type. There they do not count for the watermarks, and an
 * allocation of another type cannot use them.
 */
static void mtier_swap_drain(int nid)
{
	pg_data_t *pgdat = NODE_DATA(nid);
	int z;

	migrate_disable();
	for (z = 0; z < pgdat->nr_zones; z++)
		if (managed_zone(pgdat->node_zones + z))
			drain_local_pages(pgdat->node_zones + z);
	migrate_enable();
}

/*
 * Get the number of pages that can be promoted to a node now; see the head comment.
 * Allocations fail below the low watermark in any case.
 */
static unsigned long mtier_swap_free(const struct mtier_swap *s, int nid)
{
	return max(mtier_node_free_above(nid, WMARK_HIGH),
		   min(mtier_node_free_above(nid, WMARK_LOW),
		       s->victims[nid].came_free / 2));
}

/*
 * Make room for @want pages on a node, and get the number of pages that can be
 * promoted to it. A node below its watermark requires more demotions for that.
 */
static unsigned long mtier_swap_room(struct mtier_swap *s, int nid,
				     unsigned long want)
{
	unsigned int tries = MTIER_SWAP_TRIES;
	unsigned long room;

	do {
		room = mtier_swap_free(s, nid);
		if (room < want + MTIER_LISTS_PAGES) {
			mtier_swap_drain(nid);
			room = mtier_swap_free(s, nid);
		}
	} while (room < want && tries-- && mtier_swap_down(s, nid, want - room));
	return min(room, want);
}

/* ---- promotion ---- */

/* Counters of the folios that were not promoted, by reason. */
static const enum vm_event_item mtier_swap_ends[MTIER_WHY_CROWDED] = {
	[MTIER_WHY_POLICY] = MTIER_DROP_POLICY,
	[MTIER_WHY_KIND] = MTIER_DROP_TYPE,
	[MTIER_WHY_PINNED] = MTIER_DROP_PINNED,
	[MTIER_WHY_DIRTY] = MTIER_DROP_DIRTY,
	[MTIER_WHY_BUSY] = MTIER_FAIL_BUSY,
	[MTIER_WHY_OFF_LRU] = MTIER_FAIL_ISOLATE,
	[MTIER_WHY_GONE] = MTIER_DROP_GONE,
};

/* Count folios whose promotion failed. */
static void mtier_swap_dropped(int nid, enum vm_event_item how, unsigned int nr)
{
	mtier_swap_sum(&mtier_swap_moved[nid].dropped, nr);
	count_vm_events(how, nr);
}

/* Count the result of each folio whose promotion was attempted. */
static void mtier_swap_count(int nid, const struct mtier_move *mv,
			     unsigned int taken)
{
	unsigned int i, nr[MTIER_FATE_GONE + 1] = { };

	nr[MTIER_FATE_MOVED] = mv->fast->nr;
	for (i = 0; i < mv->nr_listed; i++)
		nr[mtier_move_fate(mv, mv->pfns[i])]++;
	count_vm_events(MTIER_TAKEN, taken);
	count_vm_events(MTIER_PROMOTED_FOLIOS, nr[MTIER_FATE_MOVED]);
	mtier_swap_dropped(nid, MTIER_DROP_GONE, nr[MTIER_FATE_GONE]);
	mtier_swap_dropped(nid, mv->nomem ? MTIER_FAIL_NOMEM : MTIER_FAIL_BUSY,
			   nr[MTIER_FATE_STAYED]);
	for (i = MTIER_MAY + 1; i < MTIER_WHY_CROWDED; i++)
		mtier_swap_dropped(nid, mtier_swap_ends[i], mv->ended[i]);
}

/* Choose the target of the next batch of an address space. */
static int mtier_swap_target(struct mtier_slot *slot, int nid,
			     const nodemask_t *up)
{
	int target = mtier_slot_pick(slot, up);

	return target == NUMA_NO_NODE ? mtier_nearest(nid, up) : target;
}

/* Wait until the rate limit covers @pages. False if kmtierd must stop. */
static bool mtier_swap_pay(int target, unsigned long pages)
{
	u64 wait_ns, bytes = (u64)pages << PAGE_SHIFT;

	while ((wait_ns = mtier_rate_pay(target, bytes))) {
		bytes = 0;
		count_vm_event(MTIER_THROTTLE_RATE);
		WRITE_ONCE(mtier_state, MTIER_STATE_THROTTLED);
		if (!mtier_burst_sleep(ktime_get_ns() + wait_ns))
			return false;
	}
	WRITE_ONCE(mtier_state, MTIER_STATE_MOVING);
	return !kthread_should_stop();
}

/*
 * Get the size of the next batch. The largest folio must fit, even if that exceeds
 * the rest of the plan, as with a low rate limit.
 */
static unsigned long mtier_swap_want(const struct mtier_swap *s)
{
	return max(min(MTIER_BATCH_PAGES, s->left), s->least[MTIER_LOW]);
}

/* Promote a batch of pages before range @end. False if kmtierd must stop. */
static bool mtier_swap_batch(struct mtier_swap *s, struct mtier_cursor *at,
			     unsigned int end, int nid, int target)
{
	struct mtier_move *mv = s->up;
	struct mtier_turns turns;
	unsigned long room, moved;

	room = mtier_swap_room(s, target, mtier_swap_want(s));
	/* Another target may have room. */
	if (!room) {
		at->range = end;
		return true;
	}
	mtier_move_begin(mv, nid, target, false, room);
	mv->elsewhere = s->elsewhere;
	turns = mtier_swap_gather(s->watch, mv, at, end, s->pick);
	s->did.taken += turns.pages;
	s->left -= min(turns.pages, s->left);
	moved = mtier_move_run(mv);
	s->did.scattered |= mv->nomem_large;
	if (mtier_swap_free(s, target) < MTIER_LISTS_PAGES)
		mtier_swap_drain(target);
	mtier_swap_count(nid, mv, turns.folios);
	if (mv->nr_folios && trace_mtier_migrate_enabled())
		trace_mtier_migrate(nid, target, mv->nr_folios, moved,
				    mtier_move_outcome(mv, moved),
				    ktime_get_ns() - s->chosen_ns);
	mtier_swap_sum(&mtier_swap_moved[nid].promoted, moved);
	s->victims[target].came_free -=
		min(2 * moved, s->victims[target].came_free);
	s->did.promoted += moved;
	mtier_swap_lru.off_lru |= mv->off_lru;
	return mtier_swap_pay(target, moved);
}

/* Find slow pages that are selected, from the cursor on. False if there are none. */
static bool mtier_swap_more(struct mtier_swap *s, struct mtier_cursor *at,
			    unsigned int end)
{
	return s->left && mtier_marked_next(s->watch, at, end, s->pick, s->up->todo);
}

/* Promote the pages of a node to its only target. False if kmtierd must stop. */
static bool mtier_swap_up_one(struct mtier_swap *s, int nid, int target)
{
	struct mtier_cursor at = { };

	while (mtier_swap_more(s, &at, s->watch->nr))
		if (!mtier_swap_batch(s, &at, s->watch->nr, nid, target))
			return false;
	return true;
}

/*
 * Promote the pages of one address space to several targets: first in rotation, then
 * the remaining pages to each target.
 */
static bool mtier_swap_up_part(struct mtier_swap *s, unsigned int part, int nid,
			       const nodemask_t *up)
{
	struct mtier_slot *slot = s->watch->part[part].slot;
	const struct mtier_cursor start = {
		.part = part,
		.range = s->watch->part[part].first,
	};
	unsigned int end = start.range + s->watch->part[part].nr;
	struct mtier_cursor at = start;
	int target;

	s->elsewhere = true;
	while (mtier_swap_more(s, &at, end))
		if (!mtier_swap_batch(s, &at, end, nid,
				      mtier_swap_target(slot, nid, up)))
			return false;
	for_each_node_mask(target, *up) {
		at = start;
		s->elsewhere = next_node(target, *up) < MAX_NUMNODES;
		while (mtier_swap_more(s, &at, end))
			if (!mtier_swap_batch(s, &at, end, nid, target))
				return false;
	}
	return true;
}

/* Promote all selected pages of a slow node. False if kmtierd must stop. */
static bool mtier_swap_up(struct mtier_swap *s, int nid)
{
	const nodemask_t *up = &s->pool->nodes;
	unsigned int part;

	s->source = nid;
	mtier_routes_pick_up(s->watch->routes, nid, s->pick);
	s->elsewhere = false;
	if (nodes_weight(*up) == 1)
		return mtier_swap_up_one(s, nid, first_node(*up));
	for (part = 0; part < s->watch->nr_parts; part++)
		if (s->watch->part[part].nr &&
		    !mtier_swap_up_part(s, part, nid, up))
			return false;
	return true;
}

/* Set an upper limit of the size of the largest folio of a plan, by tier. */
static void mtier_swap_least(struct mtier_swap *s, const struct mtier_plan *plan)
{
	u32 i;

	for (i = 0; i < plan->nr; i++) {
		const struct mtier_run *run = &plan->run[i];

		if (run->low_group >= MTIER_LARGE)
			s->least[MTIER_LOW] = MTIER_RANGE_PAGES;
		s->whole |= run->spare && run->low_group >= MTIER_LARGE;
		if (s->whole ||
		    (run->top != MTIER_NO_VICTIM && run->top_group >= MTIER_LARGE))
			s->least[MTIER_TOP] = MTIER_RANGE_PAGES;
	}
}

/* Set the nodes that pages of the pool can be demoted to. */
static void mtier_swap_below_all(struct mtier_swap *s)
{
	struct mtier_victims *v;
	int nid;

	for_each_node_mask(nid, s->pool->nodes) {
		v = &s->victims[nid];
		*v = (struct mtier_victims) { .targets = mtier_node_down(nid) };
		v->below = mtier_node_below(nid, &v->targets);
	}
}

/**
 * mtier_swap() - Exchange the selected pages of a plan.
 * @watch: the sample; processed pages are removed from it, and the other selected
 *	pages are deselected
 * @pool: the pool of the plan; the routes of the sample have the roles of it
 * @plan: the plan
 *
 * Context: kmtierd; sleeps if the rate limit is reached.
 * Return: the result.
 */
struct mtier_swapped mtier_swap(struct mtier_watch *watch, const struct mtier_pool *pool,
				const struct mtier_plan *plan)
{
	nodemask_t low = mtier_nodes_slow();
	struct mtier_swap s = {
		.watch = watch,
		.pool = pool,
		.pick = mtier_swap_pick,
		.up = mtier_swap_up_move,
		.down = mtier_swap_down_move,
		.left = plan->pages,
		.spare = plan->spare,
		.chosen_ns = ktime_get_ns(),
		.victims = mtier_swap_victims,
	};
	int nid;

	mtier_swap_below_all(&s);
	mtier_swap_least(&s, plan);
	for_each_node_mask(nid, low)
		if (!s.left || !mtier_swap_up(&s, nid))
			break;
	mtier_lru_drain(&mtier_swap_lru);
	mtier_mark_keep(watch);
	return s.did;
}

/**
 * mtier_swap_start() - Allocate the batches of kmtierd.
 *
 * Return: 0 or -ENOMEM.
 */
int mtier_swap_start(void)
{
	mtier_lru_init(&mtier_swap_lru);
	memset(mtier_swap_moved, 0, nr_node_ids * sizeof(*mtier_swap_moved));
	mtier_swap_up_move = mtier_move_alloc(MTIER_BATCH_PAGES);
	mtier_swap_down_move = mtier_move_alloc(MTIER_BATCH_PAGES);
	if (mtier_swap_up_move && mtier_swap_down_move)
		return 0;
	mtier_swap_stop();
	return -ENOMEM;
}

/**
 * mtier_swap_stop() - Free the batches after kmtierd has stopped.
 */
void mtier_swap_stop(void)
{
	mtier_move_free(mtier_swap_up_move);
	mtier_move_free(mtier_swap_down_move);
	mtier_swap_up_move = NULL;
	mtier_swap_down_move = NULL;
}

/**
 * mtier_swap_node() - Get the totals of migrations from and to a slow node.
 * @nid: the node
 *
 * Return: totals since promotion was switched on.
 */
struct mtier_moved mtier_swap_node(int nid)
{
	const struct mtier_moved *m = &mtier_swap_moved[nid];

	return (struct mtier_moved) {
		.promoted = READ_ONCE(m->promoted),
		.dropped = READ_ONCE(m->dropped),
		.demoted = READ_ONCE(m->demoted),
	};
}

/**
 * mtier_swap_init() - Allocate the data by node, which is never freed.
 *
 * Return: 0 or -ENOMEM.
 */
int __init mtier_swap_init(void)
{
	mtier_swap_victims = kcalloc(nr_node_ids, sizeof(*mtier_swap_victims),
				     GFP_KERNEL);
	mtier_swap_moved = kcalloc(nr_node_ids, sizeof(*mtier_swap_moved),
				   GFP_KERNEL);
	return mtier_swap_victims && mtier_swap_moved ? mtier_rate_init() :
							-ENOMEM;
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/swap_kunit.c"
#endif
