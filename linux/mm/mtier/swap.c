// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: pages of a plan change places.
 *
 * What has marked its pages is a look that was a moment ago, so nothing waits in
 * between: kmtierd itself moves them, a batch down, then a batch up into what came
 * free, until all that are marked have had their turn. Free memory above needs no
 * victim. Each page is asked again when it is gathered (gather.c), as anybody's is;
 * one that is not to be had then stays, and if those are victims fewer go up.
 *
 * The limit of the rate is that of pages that go up to a node: in an exchange no
 * more than those go down.
 *
 * No more goes up than is free above the high watermark, so that kswapd has no
 * reason to run. Others allocate down to the low one, and an allocation that has to
 * take a block of another kind boosts them all until kswapd runs, which we do not wake:
 * below the high watermark half of what comes down makes room, and as many as the other
 * half go up, so that nothing waits until there is enough.
 * Between batches that holds for what the zone has free, without the lists of CPUs;
 * within one a CPU takes hundreds for the first. What goes down may take what is free
 * above the low watermark: as much comes free below at once.
 *
 * A large folio goes in one piece. Where it does not fit into what is left of a batch
 * the next one begins with it, and where it gives way it may be for more than one.
 *
 * Locking: none of its own. See gather.c for what is held while pages move.
 */
#include <linux/bitmap.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/vmstat.h>
#include <trace/events/mtier.h>

#include "burst.h"
#include "move.h"
#include "mtier.h"

/* A node that is below its watermark takes some batches until there is room. */
#define MTIER_SWAP_TRIES	8

/**
 * struct mtier_cursor - the marked pages of a side, range by range
 * @part: index of the address space
 * @range: index of the range
 */
struct mtier_cursor {
	unsigned int part;
	unsigned int range;
};

/**
 * struct mtier_swap - pages of a plan while they change places
 * @watch: what they were marked in
 * @up: what moves up at once
 * @down: what moves down at once
 * @left: pages that are still to go up
 * @victims: where those of @victims_of go on
 * @victims_of: a node of the upper tier, or NUMA_NO_NODE
 * @came_free: pages that went down from it and were not made use of yet
 * @least: room that a batch has to have for the largest folio of a side
 * @did: what was done
 */
struct mtier_swap {
	struct mtier_watch *watch;
	struct mtier_move *up;
	struct mtier_move *down;
	unsigned long left;
	struct mtier_cursor victims;
	int victims_of;
	unsigned long came_free;
	unsigned long least[MTIER_SIDES];
	struct mtier_swapped did;
};

/**
 * struct mtier_turns - marked folios that had their turn
 * @folios: how many
 * @pages: base pages of them
 */
struct mtier_turns {
	unsigned long folios;
	unsigned long pages;
};

/* Used again and again by kmtierd. */
static struct mtier_move *mtier_swap_up_move, *mtier_swap_down_move;
static struct mtier_lru mtier_swap_lru;

/* ---- marked pages ---- */

/* Set bits for the marked pages of a range that are of one side. */
static bool mtier_marked(const u8 *page, u8 low, unsigned long *todo)
{
	const u8 mask = MTIER_PAGE_GOES | MTIER_PAGE_LOW;
	unsigned int i;

	bitmap_zero(todo, MTIER_RANGE_PAGES);
	for (i = 0; i < MTIER_RANGE_PAGES; i++)
		if (mtier_page_watched(page[i]) &&
		    (page[i] & mask) == (MTIER_PAGE_GOES | low))
			__set_bit(i, todo);
	return !bitmap_empty(todo, MTIER_RANGE_PAGES);
}

/* The range of a cursor, or the next with marked pages: they are set in @todo. */
static bool mtier_marked_next(struct mtier_watch *w, struct mtier_cursor *at,
			      unsigned int end, u8 low, unsigned long *todo)
{
	for (; at->range < end; at->range++) {
		while (at->range >= w->part[at->part].first +
				    w->part[at->part].nr)
			at->part++;
		if (mtier_marked(mtier_watch_range(w, at->range), low, todo))
			return true;
	}
	return false;
}

/* Those that had their turn are not in the burst any more. */
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

/* Is a large folio left, of those that are @todo and not @done? */
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
 * Isolate marked pages from the cursor on, before range @end, until the move is
 * full. Returns what had its turn.
 */
static struct mtier_turns mtier_swap_gather(struct mtier_watch *w,
					    struct mtier_move *mv,
					    struct mtier_cursor *at,
					    unsigned int end, u8 low)
{
	struct mtier_turns turns = { };
	bool open = true;
	u8 *page;

	while (open && mv->nr_pages < mv->max_pages &&
	       mtier_marked_next(w, at, end, low, mv->todo)) {
		struct mtier_range range = {
			.key = {
				.mm = w->part[at->part].slot->mm,
				.start = w->at[at->range],
				.target = mv->target,
			},
		};

		open = mtier_gather(mv, &range);
		page = mtier_watch_range(w, at->range);
		/* What does not fit begins the next batch. */
		if (mv->nr_pages && mtier_marked_large(page, mv->todo, mv->done))
			open = false;
		mtier_marked_done(page, mv->done, &turns);
		/* Who is left lies on another node of this side. */
		if (open)
			at->range++;
		cond_resched();
	}
	return turns;
}

/* ---- down ---- */

/* From which node victims go now: those of another begin anew. */
static void mtier_swap_turn(struct mtier_swap *s, int nid)
{
	if (s->victims_of == nid)
		return;
	s->victims = (struct mtier_cursor) { };
	s->victims_of = nid;
	s->came_free = 0;
}

/* Send some of a node's victims away; returns how many went. */
static unsigned long mtier_swap_down(struct mtier_swap *s, int nid,
				     unsigned long want)
{
	int below = mtier_node_below(nid);
	struct mtier_move *mv = s->down;
	unsigned long moved;

	if (below == NUMA_NO_NODE)
		return 0;
	want = min(max(want, s->least[MTIER_TOP]),
		   mtier_node_free_above(below, WMARK_LOW));
	if (!want)
		return 0;
	mtier_move_marked(mv, nid, below, true, want);
	mtier_swap_gather(s->watch, mv, &s->victims, s->watch->nr, 0);
	moved = mtier_move_run(mv);
	if (mv->nr_folios)
		trace_mtier_demote(nid, below, mv->nr_folios, moved,
				   mtier_move_outcome(mv, moved));
	s->came_free += moved;
	s->did.demoted += moved;
	mtier_swap_lru.off_lru |= mv->off_lru;
	return moved;
}

/*
 * Frames that come free stay with the CPU first, by what its block is for, and so not
 * always for who asks next, while watermarks go by what the zone has: give them back.
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

/* How many may go up to a node now, see above. Allocations need the low watermark. */
static unsigned long mtier_swap_free(const struct mtier_swap *s, int nid)
{
	return max(mtier_node_free_above(nid, WMARK_HIGH),
		   min(mtier_node_free_above(nid, WMARK_LOW), s->came_free / 2));
}

/*
 * How many may go up to a node: so many as there is room for, which is made. Where
 * it is below its watermark some go down for that first.
 */
static unsigned long mtier_swap_room(struct mtier_swap *s, int nid,
				     unsigned long want)
{
	unsigned int tries = MTIER_SWAP_TRIES;
	unsigned long room;

	mtier_swap_turn(s, nid);
	do {
		mtier_swap_drain(nid);
		room = mtier_swap_free(s, nid);
	} while (room < want && tries-- && mtier_swap_down(s, nid, want - room));
	return min(room, want);
}

/* ---- up ---- */

/* Where pages of an address space go to from a node of the lower tier. */
static int mtier_swap_target(struct mtier_slot *slot, int nid,
			     const nodemask_t *up)
{
	int n, best = NUMA_NO_NODE, forced = READ_ONCE(mtier_conf.target_node);

	if (forced != NUMA_NO_NODE && node_isset(forced, *up))
		return forced;
	if (nodes_weight(*up) < 2 || mtier_slot_weigh(slot))
		return mtier_nearest(nid, up);
	for_each_node_mask(n, *up)
		if (best == NUMA_NO_NODE ||
		    slot->weights[n] > slot->weights[best])
			best = n;
	return best;
}

/* Wait until the target's rate covers what was moved; false to stop. */
static bool mtier_swap_pay(int target, unsigned long pages)
{
	u64 wait_ns, bytes = (u64)pages << PAGE_SHIFT;

	while ((wait_ns = mtier_rate_pay(target, bytes))) {
		bytes = 0;
		count_vm_event(MTIER_THROTTLE_RATE);
		if (!mtier_burst_sleep(ktime_get_ns() + wait_ns))
			return false;
	}
	return !kthread_should_stop();
}

/*
 * How many a batch is to have: a folio goes in one piece, also where less than it has
 * is left, as it is with a low limit of the rate.
 */
static unsigned long mtier_swap_want(const struct mtier_swap *s)
{
	unsigned long most = READ_ONCE(mtier_conf.batch_pages);

	return max(min(most, s->left), s->least[MTIER_LOW]);
}

/* A batch of pages of a node; false to stop. */
static bool mtier_swap_batch(struct mtier_swap *s, struct mtier_cursor *at,
			     int nid, const nodemask_t *up)
{
	struct mtier_part *part = &s->watch->part[at->part];
	unsigned int end = nodes_weight(*up) < 2 ? s->watch->nr :
						   part->first + part->nr;
	int target = mtier_swap_target(part->slot, nid, up);
	struct mtier_move *mv = s->up;
	struct mtier_turns turns;
	unsigned long room, moved;

	room = mtier_swap_room(s, target, mtier_swap_want(s));
	/* Elsewhere may be some. */
	if (!room) {
		at->range = end;
		return true;
	}
	mtier_move_marked(mv, nid, target, false, room);
	turns = mtier_swap_gather(s->watch, mv, at, end, MTIER_PAGE_LOW);
	s->left -= min(turns.pages, s->left);
	moved = mtier_move_run(mv);
	s->did.scattered |= mv->nomem_large;
	mtier_swap_drain(target);
	count_vm_events(MTIER_QUEUED, turns.folios);
	mtier_promote_count(NULL, mv);
	if (mv->nr_folios)
		trace_mtier_migrate(nid, target, mv->nr_folios, moved,
				    mtier_move_outcome(mv, moved));
	s->came_free -= min(2 * moved, s->came_free);
	s->did.promoted += moved;
	mtier_swap_lru.off_lru |= mv->off_lru;
	return mtier_swap_pay(target, moved);
}

/* All that go up from a node; false to stop. */
static bool mtier_swap_up(struct mtier_swap *s, int nid)
{
	nodemask_t up = mtier_node_up(nid);
	struct mtier_cursor at = { };

	if (nodes_empty(up))
		return true;
	while (s->left && mtier_marked_next(s->watch, &at, s->watch->nr,
					    MTIER_PAGE_LOW, s->up->todo))
		if (!mtier_swap_batch(s, &at, nid, &up))
			return false;
	return true;
}

/* How large is the largest folio of a plan, on either side? Or as good as. */
static void mtier_swap_least(struct mtier_swap *s, const struct mtier_plan *plan)
{
	u32 i;

	for (i = 0; i < plan->nr; i++) {
		const struct mtier_run *run = &plan->run[i];

		if (run->low_group >= MTIER_LARGE)
			s->least[MTIER_LOW] = MTIER_RANGE_PAGES;
		if (run->top != MTIER_NO_VICTIM && run->top_group >= MTIER_LARGE)
			s->least[MTIER_TOP] = MTIER_RANGE_PAGES;
	}
}

/**
 * mtier_swap() - have the pages change places that a plan has marked
 * @watch: what they are marked in; they are not in the burst any more afterwards
 * @plan: the plan
 *
 * Context: kmtierd; sleeps where the rate is limited.
 * Return: what was done.
 */
struct mtier_swapped mtier_swap(struct mtier_watch *watch,
				const struct mtier_plan *plan)
{
	nodemask_t low = mtier_nodes_slow();
	struct mtier_swap s = {
		.watch = watch,
		.up = mtier_swap_up_move,
		.down = mtier_swap_down_move,
		.left = plan->pages,
		.victims_of = NUMA_NO_NODE,
	};
	int nid;

	mtier_swap_least(&s, plan);
	for_each_node_mask(nid, low)
		if (!s.left || !mtier_swap_up(&s, nid))
			break;
	mtier_lru_drain(&mtier_swap_lru);
	mtier_look_drop(watch);
	return s.did;
}

/**
 * mtier_swap_start() - get ready to move pages
 *
 * Return: 0 or -ENOMEM.
 */
int mtier_swap_start(void)
{
	mtier_lru_init(&mtier_swap_lru);
	mtier_swap_up_move = mtier_move_alloc(MTIER_BATCH_MAX);
	mtier_swap_down_move = mtier_move_alloc(MTIER_BATCH_MAX);
	if (mtier_swap_up_move && mtier_swap_down_move)
		return 0;
	mtier_swap_stop();
	return -ENOMEM;
}

/**
 * mtier_swap_stop() - no pages move any more; kmtierd has stopped
 */
void mtier_swap_stop(void)
{
	mtier_move_free(mtier_swap_up_move);
	mtier_move_free(mtier_swap_down_move);
	mtier_swap_up_move = NULL;
	mtier_swap_down_move = NULL;
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/swap_kunit.c"
#endif
