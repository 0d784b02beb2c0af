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
 * within one a CPU takes hundreds for the first, and more from one to the next: where
 * there is less free than it may take it gives them back after each. What goes down
 * may take what is free above the low watermark: as much comes free below at once.
 *
 * Where there are several nodes above, each batch is of one address space and goes to
 * one of them, by turns, as often as the threads are there and the memory is used there.
 * What may not go there, for a policy say, is asked for each of the others at last.
 *
 * Of the folios that are to go up each ends in exactly one counter:
 *
 *	taken = promoted_folios + drop_* + fail_*
 *
 * A large folio goes in one piece. Where it does not fit into what is left of a batch
 * the next one begins with it, and where it gives way it may be for more than one.
 *
 * Locking: none of its own. See gather.c for what is held while pages move. What is
 * counted by node is changed by kmtierd alone.
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

/* A node that is below its watermark takes some batches until there is room. */
#define MTIER_SWAP_TRIES	8
/* Most base pages of a batch: a flush for all of them, and a huge page fits. */
#define MTIER_BATCH_PAGES	512UL
/* More than a CPU takes for its lists at once: pcp->batch << CONFIG_PCP_BATCH_SCALE_MAX */
#define MTIER_LISTS_PAGES	2048UL

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
 * struct mtier_victims - those of a node of the upper tier
 * @at: where they go on
 * @came_free: pages that went down from it and were not made use of yet
 */
struct mtier_victims {
	struct mtier_cursor at;
	unsigned long came_free;
};

/**
 * struct mtier_swap - pages of a plan while they change places
 * @watch: what they were marked in
 * @up: what moves up at once
 * @down: what moves down at once
 * @left: pages that are still to go up
 * @chosen_ns: when the plan was made; for tracepoints
 * @victims: who makes room, by node
 * @least: room that a batch has to have for the largest folio of a side
 * @elsewhere: what may not go to a target is asked for another one later
 * @did: what was done
 */
struct mtier_swap {
	struct mtier_watch *watch;
	struct mtier_move *up;
	struct mtier_move *down;
	unsigned long left;
	u64 chosen_ns;
	struct mtier_victims *victims;
	unsigned long least[MTIER_SIDES];
	bool elsewhere;
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
static struct mtier_victims *mtier_swap_victims;
/* By node, since it was switched on. */
static struct mtier_moved *mtier_swap_moved;

/* Others read it, see mtier_swap_node(). */
static void mtier_swap_sum(unsigned long *sum, unsigned long nr)
{
	WRITE_ONCE(*sum, *sum + nr);
}

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
		open = mtier_gather(mv, w->part[at->part].slot->mm,
				    w->at[at->range]);
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
	mtier_move_begin(mv, nid, below, true, want);
	mtier_swap_gather(s->watch, mv, &s->victims[nid].at, s->watch->nr, 0);
	moved = mtier_move_run(mv);
	if (mv->nr_folios && trace_mtier_demote_enabled())
		trace_mtier_demote(nid, below, mv->nr_folios, moved,
				   mtier_move_outcome(mv, moved),
				   ktime_get_ns() - s->chosen_ns);
	mtier_swap_sum(&mtier_swap_moved[below].demoted, moved);
	s->victims[nid].came_free += moved;
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
		   min(mtier_node_free_above(nid, WMARK_LOW),
		       s->victims[nid].came_free / 2));
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

	do {
		room = mtier_swap_free(s, nid);
		if (room < want + MTIER_LISTS_PAGES) {
			mtier_swap_drain(nid);
			room = mtier_swap_free(s, nid);
		}
	} while (room < want && tries-- && mtier_swap_down(s, nid, want - room));
	return min(room, want);
}

/* ---- up ---- */

/* How a page ends that is not to be moved, or cannot be. */
static const enum vm_event_item mtier_swap_ends[MTIER_WHY_CROWDED] = {
	[MTIER_WHY_POLICY] = MTIER_DROP_POLICY,
	[MTIER_WHY_KIND] = MTIER_DROP_TYPE,
	[MTIER_WHY_PINNED] = MTIER_DROP_PINNED,
	[MTIER_WHY_DIRTY] = MTIER_DROP_DIRTY,
	[MTIER_WHY_BUSY] = MTIER_FAIL_BUSY,
	[MTIER_WHY_OFF_LRU] = MTIER_FAIL_ISOLATE,
	[MTIER_WHY_GONE] = MTIER_DROP_GONE,
};

/* The one end of folios that were to go up and did not. */
static void mtier_swap_dropped(int nid, enum vm_event_item how, unsigned int nr)
{
	mtier_swap_sum(&mtier_swap_moved[nid].dropped, nr);
	count_vm_events(how, nr);
}

/* Account for every folio that was to go up. */
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

/* Where the next batch of an address space goes to. */
static int mtier_swap_target(struct mtier_slot *slot, int nid,
			     const nodemask_t *up)
{
	int target = mtier_slot_pick(slot, up);

	return target == NUMA_NO_NODE ? mtier_nearest(nid, up) : target;
}

/* Wait until the target's rate covers what was moved; false to stop. */
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
 * How many a batch is to have: a folio goes in one piece, also where less than it has
 * is left, as it is with a low limit of the rate.
 */
static unsigned long mtier_swap_want(const struct mtier_swap *s)
{
	return max(min(MTIER_BATCH_PAGES, s->left), s->least[MTIER_LOW]);
}

/* A batch of pages before range @end, from a node to another; false to stop. */
static bool mtier_swap_batch(struct mtier_swap *s, struct mtier_cursor *at,
			     unsigned int end, int nid, int target)
{
	struct mtier_move *mv = s->up;
	struct mtier_turns turns;
	unsigned long room, moved;

	room = mtier_swap_room(s, target, mtier_swap_want(s));
	/* Elsewhere may be some. */
	if (!room) {
		at->range = end;
		return true;
	}
	mtier_move_begin(mv, nid, target, false, room);
	mv->elsewhere = s->elsewhere;
	turns = mtier_swap_gather(s->watch, mv, at, end, MTIER_PAGE_LOW);
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

/* Marked pages that lie on a node, from the cursor on; false if there are none. */
static bool mtier_swap_more(struct mtier_swap *s, struct mtier_cursor *at,
			    unsigned int end)
{
	return s->left && mtier_marked_next(s->watch, at, end, MTIER_PAGE_LOW,
					    s->up->todo);
}

/* All that go up from a node where there is one above it; false to stop. */
static bool mtier_swap_up_one(struct mtier_swap *s, int nid, int target)
{
	struct mtier_cursor at = { };

	while (mtier_swap_more(s, &at, s->watch->nr))
		if (!mtier_swap_batch(s, &at, s->watch->nr, nid, target))
			return false;
	return true;
}

/*
 * The same of one address space where there are several: in turn to each, and what
 * is left after that to any.
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

/* All that go up from a node; false to stop. */
static bool mtier_swap_up(struct mtier_swap *s, int nid)
{
	int forced = READ_ONCE(mtier_conf.target_node);
	nodemask_t up = mtier_node_up(nid);
	unsigned int part;

	if (forced != NUMA_NO_NODE && node_isset(forced, up))
		up = nodemask_of_node(forced);
	s->elsewhere = false;
	if (nodes_weight(up) < 2)
		return nodes_empty(up) ||
		       mtier_swap_up_one(s, nid, first_node(up));
	for (part = 0; part < s->watch->nr_parts; part++)
		if (s->watch->part[part].nr &&
		    !mtier_swap_up_part(s, part, nid, &up))
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
 * @watch: what they are marked in; those that had their turn are not in the burst any
 *	more afterwards, the others are not marked any more
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
		.chosen_ns = ktime_get_ns(),
		.victims = mtier_swap_victims,
	};
	int nid;

	memset(s.victims, 0, nr_node_ids * sizeof(*s.victims));
	mtier_swap_least(&s, plan);
	for_each_node_mask(nid, low)
		if (!s.left || !mtier_swap_up(&s, nid))
			break;
	mtier_lru_drain(&mtier_swap_lru);
	mtier_mark_keep(watch);
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
	memset(mtier_swap_moved, 0, nr_node_ids * sizeof(*mtier_swap_moved));
	mtier_swap_up_move = mtier_move_alloc(MTIER_BATCH_PAGES);
	mtier_swap_down_move = mtier_move_alloc(MTIER_BATCH_PAGES);
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

/**
 * mtier_swap_node() - what has moved from a node of the lower tier, and to it
 * @nid: the node
 *
 * Return: sums since it was switched on.
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
 * mtier_swap_init() - allocate what lives as long as the kernel
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
