/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Page promotion: what moves at once, and its bookkeeping.
 */
#ifndef _MM_MTIER_MOVE_H
#define _MM_MTIER_MOVE_H

#include <linux/list.h>
#include <linux/types.h>

#include "../move_target.h"
#include "eligible.h"
#include "move_fast.h"
#include "range.h"

struct folio;
struct mem_cgroup;

/* Different memcgs in one call; one more ends the batch early. */
#define MTIER_MOVE_MEMCGS	16

/**
 * enum mtier_kind - what kinds of pages are counted apart
 * @MTIER_KIND_ANON: anonymous
 * @MTIER_KIND_FILE: page cache of a file system on disk
 * @MTIER_KIND_SHMEM: shmem, tmpfs
 * @MTIER_NR_KINDS: how many there are
 */
enum mtier_kind {
	MTIER_KIND_ANON,
	MTIER_KIND_FILE,
	MTIER_KIND_SHMEM,
	MTIER_NR_KINDS,
};

/**
 * enum mtier_outcome - what became of a call
 * @MTIER_MOVED: all folios moved
 * @MTIER_PARTLY: some did
 * @MTIER_NOMEM: none, for lack of free pages on the target
 * @MTIER_BUSY: none, because they were in use
 */
enum mtier_outcome {
	MTIER_MOVED,
	MTIER_PARTLY,
	MTIER_NOMEM,
	MTIER_BUSY,
};

/**
 * enum mtier_fate - what became of a folio
 * @MTIER_FATE_MOVED: it is on the target now; of one that was split the first
 *	piece is
 * @MTIER_FATE_STAYED: it is where it was
 * @MTIER_FATE_GONE: its last user let go of it meanwhile, and nothing moved
 */
enum mtier_fate {
	MTIER_FATE_MOVED,
	MTIER_FATE_STAYED,
	MTIER_FATE_GONE,
};

/**
 * struct mtier_copy - a folio that got a frame on the target
 * @dst: its new frame, which nobody looks into after the move: it may be freed
 * @pfn: where it was
 * @nr: its base pages
 * @kind: an enum mtier_kind
 * @memcg: index of its memcg in the move
 */
struct mtier_copy {
	struct folio *dst;
	unsigned long pfn;
	unsigned int nr;
	u8 kind;
	u8 memcg;
};

/**
 * struct mtier_found - what is mapped where a page is to move
 * @folio: the folio, with a reference; NULL if it is not what is to be moved
 * @page: number of the page in its range
 */
struct mtier_found {
	struct folio *folio;
	unsigned int page;
};

/**
 * struct mtier_move - folios on their way to one target
 * @folios: those that migrate_pages() is to move, isolated
 * @fast: those that move_fast.c is to move, which nobody holds
 * @target: where they go
 * @source: where they are
 * @down: to make room for others, not up
 * @guard: whom they belong to
 * @closed: there is no place for more
 * @elsewhere: who may not go to @target is asked for another one later
 * @off_lru: a folio was not on its LRU list when it was to be isolated
 * @ended: pages that are not in the move, by enum mtier_why
 * @todo: pages of a range that are to move
 * @done: those of them that had their turn
 * @nr_found: used part of @found
 * @found: what is there now of those in a VMA
 * @max_pages: limit of @nr_pages
 * @nr_pages: base pages in the move
 * @nr_folios: folios in it
 * @nr_listed: those in @folios
 * @nr_large: how many are large
 * @nr_isolated: base pages counted as NR_ISOLATED_ANON, and as _FILE
 * @memcgs: memcgs that @folios belong to, each with a reference
 * @nr_memcgs: used part of it
 * @nomem: an allocation on the target failed
 * @nomem_large: one of them was for a large folio
 * @nr_copies: used part of @copies
 * @copies: what moved, ascending by @pfn if @nr_large or not all did
 * @nr_stayed: used part of @stayed
 * @stayed: first frames of the folios that did not move, ascending
 * @pfns: first frames of all that were in @folios
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

/* ---- charge.c ---- */

u64 mtier_charge_start(void);
void mtier_charge_move(const struct mtier_move *mv, u64 since_ns);

#endif /* _MM_MTIER_MOVE_H */
