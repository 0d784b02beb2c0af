// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: migrate a batch of folios, and find the result of each.
 *
 * Private anonymous base pages are migrated by move_fast.c, all other folios by
 * migrate_pages(). The rest of this comment is about migrate_pages(). Folios that it
 * could not migrate stay on its list. A folio that was neither migrated nor left on
 * the list is gone: its last user freed it while it was isolated. To distinguish the
 * two, each frame is recorded when it is allocated on the target, and removed when
 * it is freed unused. The frames that remain are those of the migrated folios.
 */
#include <linux/bsearch.h>
#include <linux/memcontrol.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/pagemap.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/swap.h>
#include <trace/events/mtier.h>

#include "../internal.h"
#include "move.h"
#include "mtier.h"

static enum mtier_kind mtier_folio_kind(struct folio *folio)
{
	if (folio_is_file_lru(folio))
		return MTIER_KIND_FILE;
	return folio_test_anon(folio) ? MTIER_KIND_ANON : MTIER_KIND_SHMEM;
}

/* Get the index of a memcg in the batch, or -1. The pointer is only compared. */
static int mtier_memcg_slot(const struct mtier_move *mv,
			    const struct mem_cgroup *memcg)
{
	unsigned int i;

	for (i = 0; i < mv->nr_memcgs; i++)
		if (mv->memcgs[i] == memcg)
			return i;
	return -1;
}

/**
 * mtier_move_alloc() - Allocate a batch that can be reused.
 * @cap: most folios of the batch, and most base pages, unless it is a single folio
 *
 * Return: the batch, or NULL if there is no memory.
 */
struct mtier_move *mtier_move_alloc(unsigned int cap)
{
	struct mtier_move *mv = kvzalloc(sizeof(*mv), GFP_KERNEL);

	if (!mv)
		return NULL;
	INIT_LIST_HEAD(&mv->folios);
	mv->cap = cap;
	mv->cap_copies = cap;
	/* A huge folio can be split, and each of its pages gets a frame. */
	if (IS_ENABLED(CONFIG_TRANSPARENT_HUGEPAGE))
		mv->cap_copies = max_t(unsigned int, cap, HPAGE_PMD_NR);
	mv->fast = mtier_fast_alloc(cap);
	mv->stayed = kvcalloc(cap, sizeof(*mv->stayed), GFP_KERNEL);
	mv->pfns = kvcalloc(cap, sizeof(*mv->pfns), GFP_KERNEL);
	mv->copies = kvcalloc(mv->cap_copies, sizeof(*mv->copies), GFP_KERNEL);
	if (mv->fast && mv->stayed && mv->pfns && mv->copies)
		return mv;
	mtier_move_free(mv);
	return NULL;
}

/**
 * mtier_move_free() - Free a batch.
 * @mv: the batch, empty; may be NULL
 */
void mtier_move_free(struct mtier_move *mv)
{
	if (!mv)
		return;
	kvfree(mv->fast);
	kvfree(mv->stayed);
	kvfree(mv->pfns);
	kvfree(mv->copies);
	kvfree(mv);
}

/**
 * mtier_move_begin() - Start a batch.
 * @mv: the batch; mtier_move_run() ends it
 * @source: source node
 * @target: target node
 * @down: the batch is a demotion
 * @max_pages: most base pages of the batch
 */
void mtier_move_begin(struct mtier_move *mv, int source, int target, bool down,
		      unsigned long max_pages)
{
	WARN_ON_ONCE(!list_empty(&mv->folios));
	mtier_guard_begin(&mv->guard, target, down);
	mv->closed = false;
	mv->elsewhere = false;
	mv->off_lru = false;
	memset(mv->ended, 0, sizeof(mv->ended));
	mv->source = source;
	mv->target = target;
	mv->down = down;
	mv->max_pages = max_pages;
	mv->nr_pages = 0;
	mv->nr_folios = 0;
	mv->nr_listed = 0;
	mv->fast->nr = 0;
	mv->nr_large = 0;
	memset(mv->nr_isolated, 0, sizeof(mv->nr_isolated));
	mv->nr_memcgs = 0;
	mv->nomem = false;
	mv->nomem_large = false;
	mv->nr_copies = 0;
	mv->nr_stayed = 0;
}

/**
 * mtier_move_fits() - Check whether one more folio fits into a batch.
 * @mv: the batch
 * @folio: the folio, on which the caller has a reference
 *
 * Return: false if the batch must be migrated first.
 */
bool mtier_move_fits(struct mtier_move *mv, struct folio *folio)
{
	struct mem_cgroup *memcg;
	bool known;

	/* The caller has checked that the target has @max_pages free pages. */
	if (mv->nr_folios == mv->cap ||
	    mv->nr_pages + folio_nr_pages(folio) > mv->max_pages)
		return false;
	if (mv->nr_folios &&
	    !mtier_wide_fits(&mv->guard.wide, mv->nr_pages + folio_nr_pages(folio)))
		return false;
	if (mv->nr_memcgs < MTIER_MOVE_MEMCGS)
		return true;
	memcg = get_mem_cgroup_from_folio(folio);
	known = mtier_memcg_slot(mv, memcg) >= 0;
	mem_cgroup_put(memcg);
	return known;
}

/**
 * mtier_move_add() - Isolate a folio for migrate_pages().
 * @mv: the batch, for which mtier_move_fits() returned true
 * @folio: the folio, on which the caller has a reference
 *
 * Return: false if it could not be isolated.
 */
bool mtier_move_add(struct mtier_move *mv, struct folio *folio)
{
	long nr = folio_nr_pages(folio);
	struct mem_cgroup *memcg;

	if (!folio_isolate_lru(folio))
		return false;
	node_stat_mod_folio(folio, NR_ISOLATED_ANON + folio_is_file_lru(folio),
			    nr);
	mv->nr_isolated[folio_is_file_lru(folio)] += nr;
	list_add_tail(&folio->lru, &mv->folios);
	mv->pfns[mv->nr_listed++] = folio_pfn(folio);
	mv->nr_folios++;
	mv->nr_pages += nr;
	mv->nr_large += folio_test_large(folio);

	memcg = get_mem_cgroup_from_folio(folio);
	if (mtier_memcg_slot(mv, memcg) < 0 &&
	    mv->nr_memcgs < MTIER_MOVE_MEMCGS)
		mv->memcgs[mv->nr_memcgs++] = memcg;
	else
		mem_cgroup_put(memcg);
	return true;
}

/* Record the frame that was allocated for a folio on the target. */
static void mtier_copy_add(struct mtier_move *mv, struct folio *src,
			   struct folio *dst)
{
	const struct mem_cgroup *memcg;
	int slot;

	/* The base pages of a batch are limited, and so are those of one folio. */
	if (WARN_ON_ONCE(mv->nr_copies == mv->cap_copies))
		return;
	rcu_read_lock();
	memcg = folio_memcg(src) ?: root_mem_cgroup;
	slot = mtier_memcg_slot(mv, memcg);
	rcu_read_unlock();
	mv->copies[mv->nr_copies++] = (struct mtier_copy) {
		.dst = dst,
		.pfn = folio_pfn(src),
		.nr = folio_nr_pages(src),
		.kind = mtier_folio_kind(src),
		/* The memcg changed since the check: count the first one. */
		.memcg = max(slot, 0),
	};
}

/* migrate_pages() callback */
static struct folio *mtier_alloc(struct folio *src, unsigned long private)
{
	struct mtier_move *mv = (struct mtier_move *)private;
	struct folio *dst = alloc_move_target(src, mv->target);

	if (!dst) {
		mv->nomem = true;
		mv->nomem_large |= folio_test_large(src);
		return NULL;
	}
	mtier_copy_add(mv, src, dst);
	return dst;
}

/* migrate_pages() callback: free a frame of mtier_alloc() that is not used. */
static void mtier_unalloc(struct folio *dst, unsigned long private)
{
	struct mtier_move *mv = (struct mtier_move *)private;
	unsigned int i;

	/* Search from the end: it is mostly one of the last frames. */
	for (i = mv->nr_copies; i-- > 0;) {
		if (mv->copies[i].dst != dst)
			continue;
		mv->copies[i] = mv->copies[--mv->nr_copies];
		break;
	}
	folio_put(dst);
}

static void mtier_migrate(struct mtier_move *mv, struct list_head *folios)
{
	migrate_pages(folios, mtier_alloc, mtier_unalloc, (unsigned long)mv,
		      MIGRATE_ASYNC,
		      mv->down ? MR_DEMOTION : MR_TIER_PROMOTE, NULL);
}

/* Split the large folios that found no free huge page, and migrate their pages. */
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
		list_move_tail(&folio->lru, &pieces);
		list_splice_tail(&tails, &pieces);
	}
	if (list_empty(&pieces))
		return;
	mtier_migrate(mv, &pieces);
	list_splice_tail(&pieces, &mv->folios);
}

/*
 * Retry the base pages after a large folio found no memory: migrate_pages() skips
 * the rest of its list after the first failed allocation.
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

/*
 * Count the migrated pages by kind. Those of migrate_pages() are also counted by
 * node and memcg, which move_fast.c does for its own pages.
 */
static unsigned long mtier_move_count(struct mtier_move *mv)
{
	pg_data_t *pgdat = NODE_DATA(mv->target);
	unsigned long memcg[MTIER_MOVE_MEMCGS] = {};
	unsigned long kind[MTIER_NR_KINDS] = {
		[MTIER_KIND_ANON] = mv->fast->nr,
	};
	unsigned long moved = mv->fast->nr, large = 0;
	unsigned int i;

	for (i = 0; i < mv->nr_copies; i++) {
		const struct mtier_copy *copy = &mv->copies[i];

		memcg[copy->memcg] += copy->nr;
		kind[copy->kind] += copy->nr;
		large += copy->nr > 1;
		moved += copy->nr;
	}
	for (i = 0; i < mv->nr_memcgs; i++) {
		if (mv->down)
			count_memcg_events(mv->memcgs[i], MTIER_DEMOTED,
					   memcg[i]);
		else
			mod_lruvec_state(mem_cgroup_lruvec(mv->memcgs[i], pgdat),
					 PGPROMOTE_SUCCESS, memcg[i]);
		mem_cgroup_put(mv->memcgs[i]);
	}
	if (mv->down) {
		count_vm_events(MTIER_DEMOTED, moved);
		return moved;
	}
	count_vm_events(MTIER_PROMOTED_ANON, kind[MTIER_KIND_ANON]);
	count_vm_events(MTIER_PROMOTED_FILE, kind[MTIER_KIND_FILE]);
	count_vm_events(MTIER_PROMOTED_SHMEM, kind[MTIER_KIND_SHMEM]);
	count_vm_events(MTIER_PROMOTED_THP, large);
	return moved;
}

static int mtier_cmp_pfn(const void *a, const void *b)
{
	unsigned long x = *(const unsigned long *)a;
	unsigned long y = *(const unsigned long *)b;

	return (x > y) - (x < y);
}

static int mtier_cmp_copy(const void *a, const void *b)
{
	const struct mtier_copy *x = a, *y = b;

	return (x->pfn > y->pfn) - (x->pfn < y->pfn);
}

/*
 * Check whether the whole list was migrated, which is the usual case. False if there
 * was a large folio, since that can be migrated in pieces.
 */
static bool mtier_move_all(const struct mtier_move *mv)
{
	return !mv->nr_stayed && !mv->nr_large &&
	       mv->nr_copies == mv->nr_listed;
}

/**
 * mtier_move_fate() - Get the result for a folio.
 * @mv: the batch, after mtier_move_run()
 * @pfn: first frame of the folio, from @mv->pfns
 *
 * Return: the result.
 */
enum mtier_fate mtier_move_fate(const struct mtier_move *mv, unsigned long pfn)
{
	struct mtier_copy key = { .pfn = pfn };

	if (mtier_move_all(mv) ||
	    bsearch(&key, mv->copies, mv->nr_copies, sizeof(key),
		    mtier_cmp_copy))
		return MTIER_FATE_MOVED;
	if (bsearch(&pfn, mv->stayed, mv->nr_stayed, sizeof(pfn),
		    mtier_cmp_pfn))
		return MTIER_FATE_STAYED;
	return MTIER_FATE_GONE;
}

/*
 * Put back the folios that did not migrate, and record them. For MR_DEMOTION,
 * migrate_pages() does not update NR_ISOLATED for the folios that left the list: do
 * so here.
 */
static void mtier_put_back_left(struct mtier_move *mv)
{
	struct folio *folio;
	int file;

	list_for_each_entry(folio, &mv->folios, lru) {
		mv->nr_isolated[folio_is_file_lru(folio)] -=
			folio_nr_pages(folio);
		if (mv->nr_stayed < mv->cap)
			mv->stayed[mv->nr_stayed++] = folio_pfn(folio);
	}
	for (file = 0; mv->down && file < 2; file++)
		mod_node_page_state(NODE_DATA(mv->source),
				    NR_ISOLATED_ANON + file,
				    -(long)mv->nr_isolated[file]);
	if (!list_empty(&mv->folios))
		putback_movable_pages(&mv->folios);
}

/*
 * Trace the owner of each address space of the batch. The batch still holds the
 * address spaces. If the owner exits, the trace has the next owner or none.
 */
static void mtier_move_tell(const struct mtier_move *mv)
{
	const struct mtier_guard *guard = &mv->guard;
	unsigned int i;

	for (i = 0; i < guard->nr_mms; i++) {
		const struct mtier_rules *rules = &guard->rules[i];

		if (!rules->nr_folios)
			continue;
		rcu_read_lock();
		trace_mtier_owner(rcu_dereference(rules->mm->owner),
				  rules->nr_folios, mv->source, mv->target,
				  mv->down);
		rcu_read_unlock();
	}
}

/**
 * mtier_move_run() - Migrate the folios of a batch.
 * @mv: the batch; empty afterwards, and valid for mtier_move_fate()
 *
 * Return: number of base pages migrated.
 */
unsigned long mtier_move_run(struct mtier_move *mv)
{
	u64 since_ns = mtier_charge_start();

	mtier_fast_run(mv);
	if (mv->guard.wide.may)
		mtier_idle_unmap(mv->guard.wide.mapping, &mv->folios);
	if (mv->nr_listed)
		mtier_migrate(mv, &mv->folios);
	if (mv->nomem && mv->nomem_large) {
		mtier_small_again(mv);
		if (READ_ONCE(mtier_conf.thp_split))
			mtier_split_left(mv);
	}
	mtier_put_back_left(mv);
	if (!mv->down)
		mtier_charge_move(mv, since_ns);
	if (trace_mtier_owner_enabled())
		mtier_move_tell(mv);
	mtier_guard_end(&mv->guard);
	if (!mtier_move_all(mv)) {
		sort(mv->stayed, mv->nr_stayed, sizeof(*mv->stayed),
		     mtier_cmp_pfn, NULL);
		sort(mv->copies, mv->nr_copies, sizeof(*mv->copies),
		     mtier_cmp_copy, NULL);
	}
	return mtier_move_count(mv);
}

/**
 * mtier_move_outcome() - Summarise the result of a batch for the tracepoint.
 * @mv: the batch, after mtier_move_run()
 * @moved: return value of mtier_move_run()
 *
 * Return: an enum mtier_outcome.
 */
enum mtier_outcome mtier_move_outcome(const struct mtier_move *mv,
				      unsigned long moved)
{
	if (!mv->nr_stayed)
		return MTIER_MOVED;
	if (moved)
		return MTIER_PARTLY;
	return mv->nomem ? MTIER_NOMEM : MTIER_BUSY;
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/move_kunit.c"
#endif
