// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: one migrate_pages() call and its bookkeeping.
 *
 * migrate_pages() leaves on the list what it could not move. So counts per
 * memcg and kind are taken of everything that goes in and given back for what
 * is left; the rest has moved.
 */
#include <linux/bsearch.h>
#include <linux/memcontrol.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/pagemap.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/swap.h>

#include "../internal.h"
#include "move.h"
#include "mtier.h"

static enum mtier_kind mtier_folio_kind(struct folio *folio)
{
	if (folio_is_file_lru(folio))
		return MTIER_KIND_FILE;
	return folio_test_anon(folio) ? MTIER_KIND_ANON : MTIER_KIND_SHMEM;
}

static int mtier_memcg_slot(struct mtier_move *mv, struct mem_cgroup *memcg)
{
	unsigned int i;

	for (i = 0; i < mv->nr_memcgs; i++)
		if (mv->memcgs[i] == memcg)
			return i;
	return -1;
}

/**
 * mtier_move_alloc() - make a move that can be used again and again
 * @cap: most folios it will hold
 *
 * Return: the move, or NULL without memory.
 */
struct mtier_move *mtier_move_alloc(unsigned int cap)
{
	struct mtier_move *mv = kzalloc(sizeof(*mv), GFP_KERNEL);

	if (!mv)
		return NULL;
	INIT_LIST_HEAD(&mv->folios);
	mv->cap = cap;
	mv->failed = kvcalloc(cap, sizeof(*mv->failed), GFP_KERNEL);
	mv->pfns = kvcalloc(cap, sizeof(*mv->pfns), GFP_KERNEL);
	if (mv->failed && mv->pfns)
		return mv;
	mtier_move_free(mv);
	return NULL;
}

/**
 * mtier_move_free() - free a move
 * @mv: the move, empty; may be NULL
 */
void mtier_move_free(struct mtier_move *mv)
{
	if (!mv)
		return;
	kvfree(mv->failed);
	kvfree(mv->pfns);
	kfree(mv);
}

/**
 * mtier_move_begin() - start to collect folios
 * @mv: the move
 * @target: where they shall go
 * @max_pages: most base pages; a single folio may be larger
 */
void mtier_move_begin(struct mtier_move *mv, int target,
		      unsigned long max_pages)
{
	WARN_ON_ONCE(!list_empty(&mv->folios));
	mv->target = target;
	mv->down = false;
	mv->max_pages = max_pages;
	mv->nr_pages = 0;
	mv->nr_folios = 0;
	mv->nr_thp = 0;
	mv->nr_memcgs = 0;
	mv->nomem = false;
	mv->nomem_large = false;
	mv->nr_failed = 0;
	mv->nr_payers = 0;
	memset(mv->kinds, 0, sizeof(mv->kinds));
}

/**
 * mtier_move_fits() - is there a place for one more folio?
 * @mv: the move
 * @folio: the folio, on which the caller has a reference
 *
 * Return: false if the batch has to go first.
 */
bool mtier_move_fits(struct mtier_move *mv, struct folio *folio)
{
	struct mem_cgroup *memcg;
	bool known;

	if (!mv->nr_folios)
		return true;
	if (mv->nr_folios == mv->cap ||
	    mv->nr_pages + folio_nr_pages(folio) > mv->max_pages)
		return false;
	if (mv->nr_memcgs < MTIER_MOVE_MEMCGS)
		return true;
	memcg = get_mem_cgroup_from_folio(folio);
	known = mtier_memcg_slot(mv, memcg) >= 0;
	mem_cgroup_put(memcg);
	return known;
}

/**
 * mtier_move_add() - isolate a folio for the move
 * @mv: the move, for which mtier_move_fits() said yes
 * @folio: the folio, on which the caller has a reference
 *
 * Return: false if it could not be isolated.
 */
bool mtier_move_add(struct mtier_move *mv, struct folio *folio)
{
	long nr = folio_nr_pages(folio);
	struct mem_cgroup *memcg;
	int slot;

	if (!folio_isolate_lru(folio))
		return false;
	node_stat_mod_folio(folio, NR_ISOLATED_ANON + folio_is_file_lru(folio),
			    nr);
	list_add_tail(&folio->lru, &mv->folios);
	mv->nr_folios++;
	mv->nr_pages += nr;
	mv->nr_thp += folio_test_large(folio);
	mv->kinds[mtier_folio_kind(folio)] += nr;

	memcg = get_mem_cgroup_from_folio(folio);
	slot = mtier_memcg_slot(mv, memcg);
	if (slot < 0 && mv->nr_memcgs < MTIER_MOVE_MEMCGS) {
		slot = mv->nr_memcgs++;
		mv->memcgs[slot] = memcg;
		mv->memcg_pages[slot] = nr;
		return true;
	}
	/* The folio changed its memcg since it fitted: count it to the first */
	mv->memcg_pages[max(slot, 0)] += nr;
	mem_cgroup_put(memcg);
	return true;
}

/* migrate_pages() callback; never reclaims, never touches reserves. */
static struct folio *mtier_alloc(struct folio *src, unsigned long private)
{
	struct mtier_move *mv = (struct mtier_move *)private;
	unsigned int order = folio_order(src);
	gfp_t gfp = __GFP_THISNODE | __GFP_NOWARN | __GFP_NOMEMALLOC;
	struct folio *dst;

	if (order)
		gfp |= GFP_TRANSHUGE_LIGHT;
	else
		gfp |= (GFP_HIGHUSER_MOVABLE | __GFP_NORETRY) & ~__GFP_RECLAIM;
	dst = __folio_alloc_node(gfp, order, mv->target);
	if (!dst) {
		mv->nomem = true;
		mv->nomem_large |= order;
	}
	return dst;
}

static void mtier_migrate(struct mtier_move *mv, struct list_head *folios)
{
	migrate_pages(folios, mtier_alloc, NULL, (unsigned long)mv,
		      MIGRATE_ASYNC,
		      mv->down ? MR_DEMOTION : MR_TIER_PROMOTE, NULL);
}

/* Large folios that found no free huge page go in pieces, if so configured. */
static void mtier_split_left(struct mtier_move *mv)
{
	struct folio *folio, *next;
	LIST_HEAD(pieces);

	list_for_each_entry_safe(folio, next, &mv->folios, lru) {
		LIST_HEAD(tails);
		int ret;

		if (!folio_test_large(folio) || !folio_trylock(folio))
			continue;
		ret = split_folio_to_list(folio, &tails);
		folio_unlock(folio);
		if (ret)
			continue;
		count_vm_event(MTIER_SPLIT_THP);
		mv->nr_thp--;
		list_move_tail(&folio->lru, &pieces);
		list_splice_tail(&tails, &pieces);
	}
	if (list_empty(&pieces))
		return;
	mtier_migrate(mv, &pieces);
	list_splice_tail(&pieces, &mv->folios);
}

/*
 * migrate_pages() gives up the rest of its list with the first folio that finds
 * no memory. Where that was a large one the small ones get their turn.
 */
static void mtier_small_again(struct mtier_move *mv)
{
	struct folio *folio, *next;
	LIST_HEAD(small);

	list_for_each_entry_safe(folio, next, &mv->folios, lru)
		if (!folio_test_large(folio))
			list_move_tail(&folio->lru, &small);
	if (list_empty(&small))
		return;
	mtier_migrate(mv, &small);
	list_splice_tail(&small, &mv->folios);
}

/* Take a folio that did not move out of the counts. */
static void mtier_move_sub(struct mtier_move *mv, struct folio *folio)
{
	long nr = folio_nr_pages(folio);
	struct mem_cgroup *memcg = get_mem_cgroup_from_folio(folio);
	int slot = mtier_memcg_slot(mv, memcg);

	mem_cgroup_put(memcg);
	slot = max(slot, 0);
	mv->memcg_pages[slot] -= min_t(unsigned long, nr,
				       mv->memcg_pages[slot]);
	mv->nr_pages -= nr;
	mv->nr_thp -= min_t(unsigned int, mv->nr_thp, folio_test_large(folio));
	mv->kinds[mtier_folio_kind(folio)] -= nr;
	if (mv->nr_failed < mv->cap)
		mv->failed[mv->nr_failed++] = folio_pfn(folio);
}

/* What kswapd would have moved down later counts as if it had. */
static void mtier_move_count(struct mtier_move *mv)
{
	pg_data_t *pgdat = NODE_DATA(mv->down ? mv->source : mv->target);
	unsigned int i;

	for (i = 0; i < mv->nr_memcgs; i++) {
		struct mem_cgroup *memcg = mv->memcgs[i];

		mod_lruvec_state(mem_cgroup_lruvec(memcg, pgdat),
				 mv->down ? PGDEMOTE_KSWAPD : PGPROMOTE_SUCCESS,
				 mv->memcg_pages[i]);
		mem_cgroup_put(memcg);
	}
	if (mv->down)
		return;
	count_vm_events(MTIER_PROMOTED_ANON, mv->kinds[MTIER_KIND_ANON]);
	count_vm_events(MTIER_PROMOTED_FILE, mv->kinds[MTIER_KIND_FILE]);
	count_vm_events(MTIER_PROMOTED_SHMEM, mv->kinds[MTIER_KIND_SHMEM]);
	count_vm_events(MTIER_PROMOTED_THP, mv->nr_thp);
}

static int mtier_cmp_pfn(const void *a, const void *b)
{
	unsigned long x = *(const unsigned long *)a;
	unsigned long y = *(const unsigned long *)b;

	return (x > y) - (x < y);
}

/**
 * mtier_move_failed() - did a folio stay where it was?
 * @mv: the move, after mtier_move_run()
 * @pfn: its first frame, from @mv->pfns
 *
 * Return: true if so.
 */
bool mtier_move_failed(const struct mtier_move *mv, unsigned long pfn)
{
	return mv->nr_failed && bsearch(&pfn, mv->failed, mv->nr_failed,
					sizeof(pfn), mtier_cmp_pfn);
}

/**
 * mtier_move_run() - migrate what was collected
 * @mv: the move; afterwards empty, with @nr_failed and @failed set
 *
 * Return: base pages that moved.
 */
unsigned long mtier_move_run(struct mtier_move *mv)
{
	struct folio *folio;

	mtier_migrate(mv, &mv->folios);
	if (mv->nomem && mv->nomem_large) {
		mtier_small_again(mv);
		if (READ_ONCE(mtier_conf.thp_split))
			mtier_split_left(mv);
	}
	list_for_each_entry(folio, &mv->folios, lru)
		mtier_move_sub(mv, folio);
	if (!list_empty(&mv->folios))
		putback_movable_pages(&mv->folios);
	sort(mv->failed, mv->nr_failed, sizeof(*mv->failed), mtier_cmp_pfn,
	     NULL);
	mtier_move_count(mv);
	return mv->nr_pages;
}

/**
 * mtier_move_outcome() - sum up for the tracepoint
 * @mv: the move, after mtier_move_run()
 * @moved: what that returned
 *
 * Return: an enum mtier_outcome.
 */
enum mtier_outcome mtier_move_outcome(const struct mtier_move *mv,
				      unsigned long moved)
{
	if (!mv->nr_failed)
		return MTIER_MOVED;
	if (moved)
		return MTIER_PARTLY;
	return mv->nomem ? MTIER_NOMEM : MTIER_BUSY;
}
