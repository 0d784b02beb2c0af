// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: room from page cache that no process maps.
 *
 * Much of the fast tier of a server is page cache that is used by read() and write().
 * No page table maps it, so scans do not find it. It has no Accessed bit either, but
 * each read() and write() calls folio_mark_accessed(). So kmtierd marks pages of it, and
 * checks later which of them were used. Pages that were not used are demoted to make
 * room for hot pages.
 *
 * The mark is the idle flag of the folio, which folio_mark_accessed() clears. With the
 * multi-generational LRU, folio_mark_accessed() does not touch that flag. It sets the
 * referenced flag, so a page is marked by clearing this one.
 *
 * Memory is visited in blocks of 2 MiB, and only while pages are wanted. Each block with
 * marked pages is recorded, with the time. Each page of it that was not used since then
 * is accessed less than once in that time. place.c compares this with the access rate of
 * the pages to promote. If these are accessed less than that, the blocks are left alone,
 * and get older: later they allow the promotion of pages that are accessed less.
 *
 * The pages of a block that were not used are counted when it may leave, and again each
 * time that it is twice as old, so that plans rely on no other room. A block of which all
 * pages were used is marked anew with its next visit.
 *
 * Page cache can be used again and again in a longer time than a block is old: a file
 * that is read from start to end once a second, e.g. So a page leaves after
 * MTIER_UNMAPPED_AGE_NS at the earliest. A page that was used once at most, as far as the
 * LRU lists know, leaves after MTIER_UNMAPPED_ONCE_NS: when a program begins to use slow
 * memory, the file that it has read just before makes room soon.
 *
 * A hot huge page needs a block that is free as a whole. So it only goes where a block
 * has nothing but such pages, and all of these leave at once.
 *
 * Dirty page cache stays, as with mapped pages. So do locked memory, memory of a cgroup
 * below its memory.min or memory.low, and pages whose file has a policy that forbids the
 * slow node. Pages are demoted, not freed: no file has to be read again.
 *
 * Locking: the data belongs to kmtierd. A reference keeps each folio while it is
 * checked, and its lock, by trylock, keeps the file.
 */
#include <linux/gcd.h>
#include <linux/ktime.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/page_idle.h>
#include <linux/pagemap.h>
#include <linux/sched/clock.h>
#include <linux/slab.h>
#include <linux/vmstat.h>

#include "../internal.h"
#include "burst.h"
#include "eligible.h"
#include "move.h"
#include "mtier.h"
#include "unmapped.h"

/* Frames of a block. */
#define MTIER_BLOCK_PAGES	((unsigned long)MTIER_RANGE_PAGES)
/* Most blocks of a node that are recorded: 1 GiB. */
#define MTIER_UNMAPPED_BLOCKS	512
/* Time without an access after which a page can be demoted; if it was used once at most. */
#define MTIER_UNMAPPED_AGE_NS	NSEC_PER_SEC
#define MTIER_UNMAPPED_ONCE_NS	(NSEC_PER_SEC / 4)
/* Longest time to mark pages at once, and the part of a CPU that this may take. */
#define MTIER_UNMAPPED_NS	(4 * NSEC_PER_MSEC)
#define MTIER_UNMAPPED_PARTS	50
/* Longest time to count pages at once. */
#define MTIER_UNMAPPED_COUNT_NS	NSEC_PER_MSEC
/*
 * Part of a node that has to be unmapped page cache. With less, the search for a page costs
 * as much as its migration.
 */
#define MTIER_UNMAPPED_LEAST	256
/* Smallest part of the marked pages, or of blocks, that is expected to leave. */
#define MTIER_UNMAPPED_SHARE	(MTIER_Q16 / 16)

/**
 * struct mtier_unmapped_block - a block with marked pages
 * @pfn: first frame that is not checked yet
 * @end: end of the block
 * @ns: time at which the pages were marked
 * @count_ns: time at which the pages were counted last; first that of the mark
 * @age_ns: age at which its pages can leave
 * @nr: number of marked pages that can leave at that age, without those that were used by
 *	@count_ns; 0 if the block is done
 * @left: number of pages that leave, of those checked so far
 * @full: all of its frames were marked, and it may leave as a whole
 */
struct mtier_unmapped_block {
	unsigned long pfn;
	unsigned long end;
	u64 ns;
	u64 count_ns;
	u64 age_ns;
	unsigned int nr;
	unsigned int left;
	bool full;
};

/**
 * struct mtier_unmapped - state of a node
 * @next: index of the block that is visited next
 * @next_ns: time before which no pages are marked
 * @first: index of the oldest block in @block
 * @nr: number of blocks
 * @pages: marked pages of all blocks
 * @share: Q16 part of the marked pages that could leave; running mean
 * @whole: Q16 part of the blocks full of marked pages that could leave as a whole;
 *	running mean
 * @block: the blocks, a ring
 */
struct mtier_unmapped {
	unsigned long next;
	u64 next_ns;
	unsigned int first;
	unsigned int nr;
	unsigned long pages;
	u32 share;
	u32 whole;
	struct mtier_unmapped_block block[MTIER_UNMAPPED_BLOCKS];
};

/* By node; NULL for nodes of which no page was wanted. */
static struct mtier_unmapped *mtier_unmapped[MAX_NUMNODES];

/* ---- one folio ---- */

/* Check whether a folio is page cache that can be demoted, and that nobody maps. */
static bool mtier_unmapped_is(struct folio *folio)
{
	if (!folio_test_lru(folio) || folio_test_unevictable(folio) ||
	    folio_mapped(folio) || folio_test_anon(folio) ||
	    folio_test_swapcache(folio) || !READ_ONCE(folio->mapping))
		return false;
	/* shmem is always dirty. */
	return !folio_test_writeback(folio) &&
	       !(folio_is_file_lru(folio) && folio_test_dirty(folio));
}

/* Get the folio at a frame, with a reference, if it is such page cache. */
static struct folio *mtier_unmapped_get(struct page *page, int nid)
{
	struct folio *folio;

	/* Most frames are excluded before their folio is written to. */
	if (PageTail(page) || !PageLRU(page) || page_to_nid(page) != nid)
		return NULL;
	folio = page_folio(page);
	if (!mtier_unmapped_is(folio) || !folio_try_get(folio))
		return NULL;
	if (page_folio(page) == folio && mtier_unmapped_is(folio))
		return folio;
	folio_put(folio);
	return NULL;
}

static void mtier_unmapped_tag(struct folio *folio)
{
	if (lru_gen_enabled())
		folio_clear_referenced(folio);
	else
		folio_set_idle(folio);
}

static bool mtier_unmapped_unused(struct folio *folio)
{
	return lru_gen_enabled() ? !folio_test_referenced(folio) :
				   folio_test_idle(folio);
}

/* Check whether the LRU lists know of one use at most. */
static bool mtier_unmapped_once(struct folio *folio)
{
	return lru_gen_enabled() ? !folio_lru_refs(folio) : !folio_test_active(folio);
}

/* ---- marks ---- */

/*
 * Mark the pages of a block. Returns their number, but not more than a block has: a folio
 * may be larger. @once: set to the number of pages that were used once at most
 */
static unsigned int mtier_unmapped_mark_block(int nid, unsigned long pfn,
					      unsigned long end, unsigned int *once)
{
	unsigned long marked = 0, used_once = 0, nr;
	struct folio *folio;
	struct page *page;

	for (; pfn < end; pfn += nr) {
		nr = 1;
		page = pfn_to_online_page(pfn);
		folio = page ? mtier_unmapped_get(page, nid) : NULL;
		if (!folio)
			continue;
		mtier_unmapped_tag(folio);
		nr = folio_nr_pages(folio);
		marked += nr;
		used_once += mtier_unmapped_once(folio) ? nr : 0;
		folio_put(folio);
	}
	*once = min(used_once, MTIER_BLOCK_PAGES);
	return min(marked, MTIER_BLOCK_PAGES);
}

/*
 * Record a block with @nr marked pages. If most of them were used once at most, the block
 * is for these alone, and the others are marked anew with its next visit.
 */
static void mtier_unmapped_record(struct mtier_unmapped *u, unsigned long pfn,
				  unsigned int nr, unsigned int once)
{
	struct mtier_unmapped_block *b;
	u64 now_ns = ktime_get_ns();
	bool soon = once > nr / 2;

	if (!nr)
		return;
	b = &u->block[(u->first + u->nr++) % MTIER_UNMAPPED_BLOCKS];
	*b = (struct mtier_unmapped_block) {
		.pfn = pfn,
		.end = pfn + MTIER_BLOCK_PAGES,
		.ns = now_ns,
		.count_ns = now_ns,
		.age_ns = soon ? MTIER_UNMAPPED_ONCE_NS : MTIER_UNMAPPED_AGE_NS,
		.nr = soon ? once : nr,
	};
	b->full = b->nr == MTIER_BLOCK_PAGES;
	u->pages += b->nr;
}

/* Get the number of blocks that a node spans. */
static unsigned long mtier_unmapped_blocks(int nid)
{
	return DIV_ROUND_UP(node_end_pfn(nid), MTIER_BLOCK_PAGES) -
	       node_start_pfn(nid) / MTIER_BLOCK_PAGES;
}

/* Get a step that leads to each of @nr blocks before it leads to one of them again. */
static unsigned long mtier_unmapped_step(unsigned long nr)
{
	unsigned long step = nr * 5 / 8 + 1;

	while (gcd(step, nr) != 1)
		step++;
	return step;
}

/*
 * Visit the next block of a node. Blocks that follow each other in memory often belong to
 * one file, which is in use or not. So the order of visits is scattered.
 */
static bool mtier_unmapped_mark_next(struct mtier_unmapped *u, int nid)
{
	unsigned long first = node_start_pfn(nid) / MTIER_BLOCK_PAGES;
	unsigned long nr_blocks = mtier_unmapped_blocks(nid), pfn;
	unsigned int nr, once;

	/* All of them are waiting for their check. */
	if (u->nr >= nr_blocks)
		return false;
	u->next = (u->next + mtier_unmapped_step(nr_blocks)) % nr_blocks;
	pfn = (first + u->next) * MTIER_BLOCK_PAGES;
	nr = mtier_unmapped_mark_block(nid, pfn, pfn + MTIER_BLOCK_PAGES, &once);
	mtier_unmapped_record(u, pfn, nr, once);
	return true;
}

/* Check whether a node has enough of such page cache, by its counters. */
static bool mtier_unmapped_worth(int nid)
{
	pg_data_t *pgdat = NODE_DATA(nid);
	unsigned long cached = node_page_state(pgdat, NR_FILE_PAGES);
	unsigned long not = node_page_state(pgdat, NR_FILE_MAPPED) +
			    node_page_state(pgdat, NR_FILE_DIRTY) +
			    node_page_state(pgdat, NR_WRITEBACK);

	return cached > not &&
	       cached - not > node_present_pages(nid) / MTIER_UNMAPPED_LEAST;
}

static struct mtier_unmapped *mtier_unmapped_of(int nid)
{
	struct mtier_unmapped *u = mtier_unmapped[nid];

	if (u)
		return u;
	u = kvzalloc_node(sizeof(*u), GFP_KERNEL | __GFP_NOWARN, nid);
	if (u) {
		u->share = MTIER_Q16;
		u->whole = MTIER_Q16;
	}
	mtier_unmapped[nid] = u;
	return u;
}

/**
 * mtier_unmapped_mark() - Mark page cache of a node that nobody maps.
 * @nid: a node of the fast tier
 * @want: number of pages that are to be marked
 *
 * Each call marks a part, so that it takes little time. Call it again until there is
 * enough room.
 *
 * Context: kmtierd; may sleep.
 */
void mtier_unmapped_mark(int nid, unsigned long want)
{
	u64 start_ns, now_ns = ktime_get_ns();
	unsigned long left = mtier_unmapped_blocks(nid);
	struct mtier_unmapped *u;

	if (!want || !mtier_unmapped_worth(nid))
		return;
	u = mtier_unmapped_of(nid);
	if (!u || now_ns < u->next_ns)
		return;
	start_ns = local_clock();
	while (u->pages < want && u->nr < MTIER_UNMAPPED_BLOCKS && left-- &&
	       local_clock() - start_ns < MTIER_UNMAPPED_NS &&
	       mtier_unmapped_mark_next(u, nid))
		cond_resched();
	u->next_ns = now_ns + (local_clock() - start_ns) * MTIER_UNMAPPED_PARTS;
}

/* ---- blocks ---- */

static struct mtier_unmapped_block *mtier_unmapped_block(struct mtier_unmapped *u,
							 unsigned int i)
{
	return &u->block[(u->first + i) % MTIER_UNMAPPED_BLOCKS];
}

/* Check whether a block is old enough for its pages to leave, with the time @now_ns. */
static bool mtier_unmapped_due(const struct mtier_unmapped_block *b, u64 now_ns)
{
	return b->nr && now_ns - b->ns >= b->age_ns;
}

/*
 * Check whether a folio of a block was not used since it was marked. Used twice before, it
 * has to be marked for the longer time.
 */
static bool mtier_unmapped_ready(const struct mtier_unmapped_block *b, struct folio *folio)
{
	return mtier_unmapped_unused(folio) &&
	       (b->age_ns >= MTIER_UNMAPPED_AGE_NS || mtier_unmapped_once(folio));
}

static void mtier_unmapped_learn(u32 *mean, unsigned int nr, unsigned int of)
{
	u32 share = min(nr, of) * MTIER_Q16 / of;

	*mean = max(DIV_ROUND_UP(7 * *mean + share, 8), MTIER_UNMAPPED_SHARE);
}

/* Remove the blocks that are done, from the oldest on. */
static void mtier_unmapped_trim(struct mtier_unmapped *u)
{
	while (u->nr && !mtier_unmapped_block(u, 0)->nr) {
		u->first = (u->first + 1) % MTIER_UNMAPPED_BLOCKS;
		u->nr--;
	}
}

static void mtier_unmapped_done(struct mtier_unmapped *u,
				struct mtier_unmapped_block *b)
{
	mtier_unmapped_learn(&u->share, b->left, b->nr);
	u->pages -= b->nr;
	b->nr = 0;
}

/* ---- counts ---- */

/* Check whether a block can leave, and is twice as old as it was when it was counted. */
static bool mtier_unmapped_old_count(const struct mtier_unmapped_block *b, u64 now_ns)
{
	return mtier_unmapped_due(b, now_ns) &&
	       now_ns - b->ns >= 2 * (b->count_ns - b->ns);
}

/* Count the pages of a block that are not checked yet, and were not used. */
static unsigned int mtier_unmapped_unused_of(const struct mtier_unmapped_block *b, int nid)
{
	unsigned long pfn, nr, unused = 0;
	struct folio *folio;
	struct page *page;

	for (pfn = b->pfn; pfn < b->end; pfn += nr) {
		nr = 1;
		page = pfn_to_online_page(pfn);
		folio = page ? mtier_unmapped_get(page, nid) : NULL;
		if (!folio)
			continue;
		nr = folio_nr_pages(folio);
		unused += mtier_unmapped_ready(b, folio) ? nr : 0;
		folio_put(folio);
	}
	return min(unused, MTIER_BLOCK_PAGES);
}

/* Leave out the pages of a block that were used: of those not checked yet, @unused were not. */
static void mtier_unmapped_recount(struct mtier_unmapped *u,
				   struct mtier_unmapped_block *b, unsigned int unused)
{
	unsigned int nr = min(b->nr, b->left + unused);

	u->pages -= b->nr - nr;
	b->nr = nr;
	b->full &= nr == MTIER_BLOCK_PAGES;
	if (nr && nr == b->left)
		mtier_unmapped_done(u, b);
}

/**
 * mtier_unmapped_count() - Count the marked page cache of a node that was not used.
 * @nid: the node
 *
 * For blocks that can leave. Each call takes little time, and pages are marked later for
 * it. The oldest blocks come first.
 *
 * Context: kmtierd; may sleep.
 */
void mtier_unmapped_count(int nid)
{
	struct mtier_unmapped *u = mtier_unmapped[nid];
	u64 start_ns = local_clock(), now_ns = ktime_get_ns();
	unsigned int i;

	if (!u)
		return;
	for (i = 0; i < u->nr && local_clock() - start_ns < MTIER_UNMAPPED_COUNT_NS; i++) {
		struct mtier_unmapped_block *b = mtier_unmapped_block(u, i);

		if (!mtier_unmapped_old_count(b, now_ns))
			continue;
		b->count_ns = now_ns;
		mtier_unmapped_recount(u, b, mtier_unmapped_unused_of(b, nid));
		cond_resched();
	}
	mtier_unmapped_trim(u);
	u->next_ns = max(u->next_ns, now_ns) +
		     (local_clock() - start_ns) * MTIER_UNMAPPED_PARTS;
}

/* ---- room ---- */

/*
 * Get the age from which on blocks count. The more time the blocks are given, the longer
 * none of their pages was used.
 */
static u64 mtier_unmapped_age(struct mtier_unmapped *u, u64 now_ns)
{
	return u->nr ? (now_ns - mtier_unmapped_block(u, 0)->ns) / 2 : 0;
}

/**
 * mtier_unmapped_room() - Get the room that unused page cache of a node can make.
 * @nid: the node
 * @room: the room of this node is added to it
 *
 * The result is an estimate: the pages are checked when they are to be demoted.
 *
 * Context: kmtierd.
 */
void mtier_unmapped_room(int nid, struct mtier_unmapped_room *room)
{
	struct mtier_unmapped *u = mtier_unmapped[nid];
	u64 now_ns = ktime_get_ns(), least_ns, age_ns;
	unsigned long pages = 0, whole = 0;
	unsigned int i;

	if (!u || !u->nr)
		return;
	least_ns = mtier_unmapped_age(u, now_ns);
	for (i = 0; i < u->nr; i++) {
		const struct mtier_unmapped_block *b = mtier_unmapped_block(u, i);

		age_ns = max(least_ns, b->age_ns);
		if (!b->nr || now_ns - b->ns < age_ns)
			continue;
		pages += b->nr - min(b->nr, b->left);
		whole += b->full;
		room->age_ns = min(room->age_ns, age_ns);
	}
	room->pages += mul_u64_u32_shr(pages, u->share, 16);
	room->whole += mul_u64_u32_shr(whole, u->whole, 16) * MTIER_BLOCK_PAGES;
}

/* ---- demotion ---- */

/* Check whether a folio of a block may be demoted, and was not used. */
static bool mtier_unmapped_leaves(struct mtier_move *mv,
				  const struct mtier_unmapped_block *b,
				  struct folio *folio)
{
	return mtier_unmapped_ready(b, folio) &&
	       !mtier_folio_protected(folio, &mv->guard.memcg) &&
	       mtier_file_allows(folio, mv->target);
}

/* Check the rest of a block, and add pages to a batch. False if the batch is full. */
static bool mtier_unmapped_take(struct mtier_move *mv, struct mtier_unmapped_block *b)
{
	struct folio *folio;
	struct page *page;
	unsigned long nr;
	bool open = true;

	for (; open && b->pfn < b->end; b->pfn += nr) {
		nr = 1;
		page = pfn_to_online_page(b->pfn);
		folio = page ? mtier_unmapped_get(page, mv->source) : NULL;
		if (!folio)
			continue;
		if (mtier_unmapped_leaves(mv, b, folio)) {
			open = mtier_move_fits(mv, folio);
			nr = open ? folio_nr_pages(folio) : 0;
			if (open && mtier_move_add(mv, folio))
				b->left += nr;
		}
		folio_put(folio);
	}
	b->full &= b->end - b->pfn == MTIER_BLOCK_PAGES;
	return open;
}

/* Check whether all pages of a full block would leave. */
static bool mtier_unmapped_all(struct mtier_move *mv,
			       const struct mtier_unmapped_block *b)
{
	unsigned long pfn, nr;
	struct folio *folio;
	struct page *page;
	bool leaves = true;

	for (pfn = b->pfn; leaves && pfn < b->end; pfn += nr) {
		page = pfn_to_online_page(pfn);
		folio = page ? mtier_unmapped_get(page, mv->source) : NULL;
		if (!folio)
			return false;
		nr = folio_nr_pages(folio);
		leaves = mtier_unmapped_leaves(mv, b, folio);
		folio_put(folio);
	}
	return leaves;
}

/* Add a block as a whole to an empty batch, if there is one. */
static void mtier_unmapped_gather_whole(struct mtier_unmapped *u,
					struct mtier_move *mv, u64 now_ns)
{
	unsigned int i;
	bool all;

	if (mv->max_pages < MTIER_BLOCK_PAGES)
		return;
	for (i = 0; i < u->nr && !mv->nr_folios; i++) {
		struct mtier_unmapped_block *b = mtier_unmapped_block(u, i);

		if (!b->full || !mtier_unmapped_due(b, now_ns))
			continue;
		/* Otherwise its pages can still make room for single pages. */
		b->full = false;
		all = mtier_unmapped_all(mv, b);
		mtier_unmapped_learn(&u->whole, all, 1);
		if (all && mtier_unmapped_take(mv, b))
			mtier_unmapped_done(u, b);
		cond_resched();
	}
}

static void mtier_unmapped_gather_some(struct mtier_unmapped *u,
				       struct mtier_move *mv, u64 now_ns)
{
	unsigned int i;

	for (i = 0; i < u->nr && mv->nr_pages < mv->max_pages; i++) {
		struct mtier_unmapped_block *b = mtier_unmapped_block(u, i);

		if (!mtier_unmapped_due(b, now_ns))
			continue;
		if (mtier_unmapped_take(mv, b))
			mtier_unmapped_done(u, b);
		else if (mv->nr_folios)
			break;
		/* A large folio does not fit into the batch, but others may. */
		cond_resched();
	}
}

/**
 * mtier_unmapped_gather() - Add unused page cache to a batch of demotions.
 * @mv: the batch, begun, with source and target
 * @whole: make room for a huge page: add nothing but all pages of a block
 *
 * Context: kmtierd; may sleep.
 */
void mtier_unmapped_gather(struct mtier_move *mv, bool whole)
{
	struct mtier_unmapped *u = mtier_unmapped[mv->source];
	u64 now_ns = ktime_get_ns();

	if (!u)
		return;
	if (whole)
		mtier_unmapped_gather_whole(u, mv, now_ns);
	else
		mtier_unmapped_gather_some(u, mv, now_ns);
	mtier_unmapped_trim(u);
}

/**
 * mtier_unmapped_stop() - Forget all marks, after kmtierd has stopped.
 */
void mtier_unmapped_stop(void)
{
	int nid;

	for_each_node(nid) {
		kvfree(mtier_unmapped[nid]);
		mtier_unmapped[nid] = NULL;
	}
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/unmapped_kunit.c"
#endif
