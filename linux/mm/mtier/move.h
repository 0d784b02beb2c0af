/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Page promotion: batches of folios that are migrated at once.
 */
#ifndef _MM_MTIER_MOVE_H
#define _MM_MTIER_MOVE_H

#include <linux/list.h>
#include <linux/types.h>

#include "../move_target.h"
#include "eligible.h"
#include "move_fast.h"
#include "range.h"

struct address_space;
struct folio;
struct mem_cgroup;

/* Most memcgs of a batch; the next one ends the batch early. */
#define MTIER_MOVE_MEMCGS	16

/**
 * enum mtier_kind - kinds of pages with separate counters
 * @MTIER_KIND_ANON: anonymous memory
 * @MTIER_KIND_FILE: page cache of a file system on disk
 * @MTIER_KIND_SHMEM: shmem, tmpfs
 * @MTIER_NR_KINDS: number of kinds
 */
enum mtier_kind {
	MTIER_KIND_ANON,
	MTIER_KIND_FILE,
	MTIER_KIND_SHMEM,
	MTIER_NR_KINDS,
};

/**
 * enum mtier_outcome - result of a batch
 * @MTIER_MOVED: all folios migrated
 * @MTIER_PARTLY: some folios migrated
 * @MTIER_NOMEM: no folio migrated, for lack of free pages on the target
 * @MTIER_BUSY: no folio migrated, because they were in use
 */
enum mtier_outcome {
	MTIER_MOVED,
	MTIER_PARTLY,
	MTIER_NOMEM,
	MTIER_BUSY,
};

/**
 * enum mtier_fate - result for a folio
 * @MTIER_FATE_MOVED: migrated to the target; if it was split, its first piece
 * @MTIER_FATE_STAYED: not migrated
 * @MTIER_FATE_GONE: not migrated, since its last user freed it
 */
enum mtier_fate {
	MTIER_FATE_MOVED,
	MTIER_FATE_STAYED,
	MTIER_FATE_GONE,
};

/**
 * struct mtier_copy - a folio for which a frame was allocated on the target
 * @dst: the new folio; only compared after the migration, since it may be freed
 * @pfn: first old frame
 * @nr: number of base pages
 * @kind: an enum mtier_kind
 * @memcg: index of its memcg in the batch
 */
struct mtier_copy {
	struct folio *dst;
	unsigned long pfn;
	unsigned int nr;
	u8 kind;
	u8 memcg;
};

/**
 * struct mtier_found - the folio that is found at a selected page
 * @folio: the folio, with a reference; NULL if there is none
 * @page: index of the page in its range
 */
struct mtier_found {
	struct folio *folio;
	unsigned int page;
};

/**
 * struct mtier_move - a batch: folios that migrate to one target
 * @folios: folios for migrate_pages(), isolated
 * @fast: pages for move_fast.c, neither isolated nor referenced
 * @target: target node
 * @source: source node
 * @down: the batch is a demotion, not a promotion
 * @guard: address spaces and VMAs of the folios
 * @closed: the batch is full
 * @elsewhere: folios that may not migrate to @target are tried with another target
 *	later
 * @off_lru: a folio could not be isolated, as it was not on its LRU list
 * @ended: pages that left or did not enter the batch, by enum mtier_why
 * @todo: selected pages of a range
 * @done: pages of @todo that were processed
 * @nr_found: number of entries in @found
 * @found: folios found at the selected pages of a VMA
 * @max_pages: limit of @nr_pages
 * @nr_pages: base pages in the batch
 * @nr_folios: folios in the batch
 * @nr_listed: folios in @folios
 * @nr_large: large folios in @folios
 * @nr_isolated: base pages counted as NR_ISOLATED_ANON, and as NR_ISOLATED_FILE
 * @memcgs: memcgs that @folios belong to, each with a reference
 * @nr_memcgs: number of entries in @memcgs
 * @nomem: an allocation on the target failed
 * @nomem_large: an allocation for a large folio failed
 * @nr_copies: number of entries in @copies
 * @copies: migrated folios; ascending by @pfn if @nr_large, or if some did not
 *	migrate
 * @nr_stayed: number of entries in @stayed
 * @stayed: first frames of the folios that did not migrate, ascending
 * @pfns: first frames of all folios that were in @folios
 * @cap: most folios, and size of @stayed and of @pfns
 * @cap_copies: size of @copies
 */
struct mtier_move {
	struct list_head folios;
	struct mtier_fast *fast;
	int target;
	int source;
	bool down;
	struct mtier_guard guard;
	bool closed;
	bool elsewhere;
	bool off_lru;
	unsigned int ended[MTIER_NR_WHYS];
	DECLARE_BITMAP(todo, MTIER_RANGE_PAGES);
	DECLARE_BITMAP(done, MTIER_RANGE_PAGES);
	unsigned int nr_found;
	struct mtier_found found[MTIER_RANGE_PAGES];
	unsigned long max_pages;
	unsigned long nr_pages;
	unsigned int nr_folios;
	unsigned int nr_listed;
	unsigned int nr_large;
	unsigned long nr_isolated[2];
	struct mem_cgroup *memcgs[MTIER_MOVE_MEMCGS];
	unsigned int nr_memcgs;
	bool nomem;
	bool nomem_large;
	unsigned int nr_copies;
	struct mtier_copy *copies;
	unsigned int nr_stayed;
	unsigned long *stayed;
	unsigned long *pfns;
	unsigned int cap;
	unsigned int cap_copies;
};

struct mtier_move *mtier_move_alloc(unsigned int cap);
void mtier_move_free(struct mtier_move *mv);
void mtier_move_begin(struct mtier_move *mv, int source, int target, bool down,
		      unsigned long max_pages);
bool mtier_move_fits(struct mtier_move *mv, struct folio *folio);
bool mtier_move_add(struct mtier_move *mv, struct folio *folio);
unsigned long mtier_move_run(struct mtier_move *mv);
enum mtier_fate mtier_move_fate(const struct mtier_move *mv, unsigned long pfn);
enum mtier_outcome mtier_move_outcome(const struct mtier_move *mv,
				      unsigned long moved);

/* ---- gather.c ---- */

bool mtier_gather(struct mtier_move *mv, struct mm_struct *mm,
		  unsigned long start);

/* ---- idle_maps.c ---- */

void mtier_idle_unmap(struct address_space *mapping, struct list_head *folios);

/* ---- charge.c ---- */

u64 mtier_charge_start(void);
void mtier_charge_move(const struct mtier_move *mv, u64 since_ns);

#endif /* _MM_MTIER_MOVE_H */
