// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic NUMA migration in the tick: one slice of the walk over a task's memory.
 *
 * Pages without a policy, on a source node of the walk, and mapped by few enough
 * processes move to the task's node in one batch. In lazy mode they are only marked, and
 * move at the next access (pull.c). A slice ends after a number of pages or page table
 * entries; then the task continues in user mode until the next tick.
 *
 * do_migrate_pages() is not used: it ignores the policies of VMAs, and first empties the
 * LRU batches of all CPUs. Here, pages in such a batch count as busy; these are at most
 * 31 pages per CPU.
 *
 * Locking: mmap_lock for read, by trylock; in it, a page table lock. Pages move after
 * both are released.
 */
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/swap.h>

#include "follow.h"

/* Pages moved by a slice, unless folios are large: a fraction of a millisecond */
#define SLICE_PAGES	512
/* Entries walked by a slice: those of 16 MiB in base pages */
#define SLICE_ENTRIES	4096
/* One chunk of a VMA */
#define STRETCH_BYTES	(16UL << 20)

/**
 * struct slice - a slice of the walk
 * @walk: the walk; its judge() selects the pages
 * @batch: pages that move at once
 * @trip: migration walk of the task
 */
struct slice {
	struct follow_walk walk;
	struct follow_batch batch;
	const struct follow_trip *trip;
};

/**
 * follow_shared_folio() - Check whether too many processes share a folio
 * @folio: folio, mapped
 * @max_mapcount: largest number of processes that may share it
 *
 * Return: true if more processes do.
 */
bool follow_shared_folio(struct folio *folio, unsigned int max_mapcount)
{
	return follow_shared(folio_likely_mapped_shared(folio),
			     folio_mapcount(folio), folio_nr_pages(folio),
			     max_mapcount);
}

static enum follow_verdict judge(const struct follow_walk *walk,
				 struct vm_area_struct *vma,
				 unsigned long addr, struct folio *folio)
{
	const struct slice *s = container_of(walk, struct slice, walk);
	struct follow_seen seen = {
		.misplaced = node_isset(folio_nid(folio), s->trip->route.from) &&
			     follow_unbound(vma, addr, folio),
	};

	if (!seen.misplaced)
		return FOLLOW_LEAVE;
	seen.shared = follow_shared_folio(folio, s->trip->max_mapcount);
	follow_see(&seen, folio);
	return follow_verdict(&seen);
}

/* Walk one VMA or a chunk of it; returns false if there are no more. */
static bool stretch(struct follow_walk *walk, struct mm_struct *mm)
{
	struct vm_area_struct *vma = find_vma(mm, walk->next);
	unsigned long start, end;

	if (!vma)
		return false;
	walk->entries += FOLLOW_STRETCH_ENTRIES;
	start = max(walk->next, vma->vm_start);
	end = min(ALIGN_DOWN(start + STRETCH_BYTES, STRETCH_BYTES),
		  vma->vm_end);
	if (follow_walkable(vma))
		follow_walk(walk, vma, start, end);
	else
		walk->next = vma->vm_end;
	return true;
}

/* Returns the number of pages that moved. */
static unsigned long move(struct slice *s)
{
	unsigned long moved = follow_move(&s->batch);
	unsigned long left = s->batch.nr_pages - min(s->batch.nr_pages, moved);

	s->walk.pages[s->batch.nomem ? FOLLOW_NOMEM : FOLLOW_BUSY] += left;
	/*
	 * Empty the LRU batch of this CPU, so that the pages can move again if the task
	 * moves back.
	 */
	if (moved)
		lru_add_drain();
	return moved;
}

/**
 * follow_slice() - Migrate or mark a slice of the current task's memory
 * @trip: migration walk of the task; updated
 *
 * Return: true if that was the last slice.
 */
bool follow_slice(struct follow_trip *trip)
{
	struct slice s = {
		.walk.judge = judge,
		.walk.batch = trip->route.lazy ? NULL : &s.batch,
		.walk.max_pages = SLICE_PAGES,
		.walk.next = trip->resume,
		.batch.folios = LIST_HEAD_INIT(s.batch.folios),
		.batch.from = NUMA_NO_NODE,
		.batch.to = trip->route.to,
		.trip = trip,
	};
	struct mm_struct *mm = current->mm;
	unsigned long moved;
	bool more = true;

	if (trip->route.lazy)
		follow_marks_begin();
	/* Mappings are being changed: try again at the next tick. */
	if (!mmap_read_trylock(mm))
		return false;
	while (more && s.walk.entries < SLICE_ENTRIES &&
	       s.batch.nr_pages < SLICE_PAGES)
		more = stretch(&s.walk, mm);
	mmap_read_unlock(mm);
	moved = move(&s);
	follow_account(&s.walk, true, trip->resume, trip->from, trip->route.to, moved);
	trip->left += s.walk.pages[FOLLOW_NOMEM] + s.walk.pages[FOLLOW_BUSY];
	trip->went += moved + s.walk.pages[FOLLOW_TAKE];
	trip->moved |= moved > 0;
	trip->resume = s.walk.next;
	return !more;
}
