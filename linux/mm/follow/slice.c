// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that follow, by the tick: one slice of the walk over a task's memory.
 *
 * Pages without a policy, on a node that they follow from, that few enough share, move
 * to the task's node as one batch, or are only marked for the next use to move (pull.c).
 * A slice ends after so many pages or page table entries; then the task goes on in user
 * mode until the next tick.
 *
 * do_migrate_pages() is not used: it has no regard for policies of VMAs, and empties
 * the LRU batches of all CPUs first.  What still waits in such a batch is refused
 * as busy; that is at most 31 pages a CPU.
 *
 * Locks: mmap_lock for read, only tried; in it, a page table lock.  Pages move
 * after both are given up.
 */
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/swap.h>

#include "follow.h"

/* What a slice moves, unless folios are large: a fraction of a millisecond */
#define SLICE_PAGES	512
/* Entries that it looks at: those of 16 MiB in base pages */
#define SLICE_ENTRIES	4096
/* One stretch of a VMA */
#define STRETCH_BYTES	(16UL << 20)

/**
 * struct slice - what a visit sees
 * @walk: asks judge() which pages follow
 * @batch: those that move at once
 * @trip: of the task
 */
struct slice {
	struct follow_walk walk;
	struct follow_batch batch;
	const struct follow_trip *trip;
};

/**
 * follow_shared_folio - Do too many processes share a folio?
 * @folio: folio, mapped
 * @max_mapcount: so many may
 *
 * Return: true if more do.
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

/* One VMA, or a stretch of it; false if there are no more. */
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

/* Returns pages that have moved. */
static unsigned long move(struct slice *s)
{
	unsigned long moved = follow_move(&s->batch);
	unsigned long left = s->batch.nr_pages - min(s->batch.nr_pages, moved);

	s->walk.pages[s->batch.nomem ? FOLLOW_NOMEM : FOLLOW_BUSY] += left;
	/* Out of this CPU's batch, for the case that the task goes back */
	if (moved)
		lru_add_drain();
	return moved;
}

/**
 * follow_slice - Have a slice of the current task's memory follow it
 * @trip: what to do, and where to go on
 *
 * Return: true if that was the last one.
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
	/* Somebody changes mappings: the next tick is early enough. */
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
