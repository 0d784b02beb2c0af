/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Page promotion: one migrate_pages() call and its bookkeeping.
 */
#ifndef _MM_MTIER_MOVE_H
#define _MM_MTIER_MOVE_H

#include <linux/list.h>
#include <linux/types.h>

#include "policy.h"

struct folio;
struct mem_cgroup;
struct task_struct;

/* Different memcgs in one call; one more ends the batch early. */
#define MTIER_MOVE_MEMCGS	16
/* Folios of a call that are asked whose they are, to share its cost. */
#define MTIER_MOVE_PAYERS	8

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
 * struct mtier_move - folios isolated for one target
 * @folios: the isolated folios
 * @target: where they go
 * @source: where they are, if @down
 * @down: to make room for others, not up
 * @hot: what counts as hot there, for the last check
 * @max_pages: limit of @nr_pages
 * @nr_pages: base pages in @folios
 * @nr_folios: folios in it
 * @nr_thp: how many are large
 * @kinds: base pages of each kind
 * @memcgs: memcgs that @folios belong to, each with a reference
 * @memcg_pages: base pages of each
 * @nr_memcgs: used part of the two
 * @nomem: an allocation on the target failed
 * @nomem_large: one of them was for a large folio
 * @nr_failed: used part of @failed
 * @failed: first frames of the folios that did not move, ascending
 * @pfns: first frames of all of them
 * @cap: size of @failed and of @pfns
 * @payers: tasks that use some of the folios, each with a reference
 * @nr_payers: used part of it
 */
struct mtier_move {
	struct list_head folios;
	int target;
	int source;
	bool down;
	struct mtier_hot_params hot;
	unsigned long max_pages;
	unsigned long nr_pages;
	unsigned int nr_folios;
	unsigned int nr_thp;
	unsigned long kinds[MTIER_NR_KINDS];
	struct mem_cgroup *memcgs[MTIER_MOVE_MEMCGS];
	unsigned long memcg_pages[MTIER_MOVE_MEMCGS];
	unsigned int nr_memcgs;
	bool nomem;
	bool nomem_large;
	unsigned int nr_failed;
	unsigned long *failed;
	unsigned long *pfns;
	unsigned int cap;
	struct task_struct *payers[MTIER_MOVE_PAYERS];
	unsigned int nr_payers;
};

struct mtier_move *mtier_move_alloc(unsigned int cap);
void mtier_move_free(struct mtier_move *mv);
void mtier_move_begin(struct mtier_move *mv, int target,
		      unsigned long max_pages);
bool mtier_move_fits(struct mtier_move *mv, struct folio *folio);
bool mtier_move_add(struct mtier_move *mv, struct folio *folio);
unsigned long mtier_move_run(struct mtier_move *mv);
bool mtier_move_failed(const struct mtier_move *mv, unsigned long pfn);
enum mtier_outcome mtier_move_outcome(const struct mtier_move *mv,
				      unsigned long moved);

#endif /* _MM_MTIER_MOVE_H */
