// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: which memory a burst (sampling window) scans.
 *
 * A burst scans a part of all memory that has to represent the rest. So each range
 * of 2 MiB that has page tables is as likely to be drawn as any other. A burst
 * draws from each address space in proportion to its share of all ranges. Within an
 * address space the order is random, and each range is drawn once before any range
 * is drawn again.
 *
 * Each address space has a list of its ranges, which takes 8 bytes a range. The
 * list is made at the first draw. It is made anew when all ranges were drawn, or
 * when much more or less memory is mapped than before. So memory of a new process
 * does not have to wait until all older memory was drawn.
 *
 * A process can raise or lower its scan scale. Its ranges are drawn more or less
 * often in proportion.
 *
 * Three kinds of address spaces are left out: those with scan scale 0, those
 * younger than scan/delay_ms, and those with secondary MMUs. The TLBs of secondary
 * MMUs are not flushed between two scans, so memory that they use would look idle.
 *
 * Locking: none; the lists belong to kmtierd.
 */
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/pagewalk.h>
#include <linux/random.h>
#include <linux/sched/clock.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "burst.h"
#include "eligible.h"
#include "mtier.h"

/* Least age of a list before an exited representative VMA makes it stale. */
#define MTIER_SHARES_NS		(10ULL * NSEC_PER_SEC)
/* Longest hold of mmap_lock, and most ranges listed in it: one page of addresses. */
#define MTIER_LIST_NS		NSEC_PER_MSEC
#define MTIER_LISTED_MAX	(PAGE_SIZE / sizeof(unsigned long))

/**
 * struct mtier_listing - state of a walk that lists ranges
 * @at: addresses of the ranges found since the lock was taken
 * @nr: number of entries in @at
 * @shared: the walk found memory that other processes can map
 * @stands: the walk listed some of that memory
 * @cursor: address at which the walk continues
 * @deadline: time at which the walk drops the lock
 */
struct mtier_listing {
	unsigned long at[MTIER_LISTED_MAX];
	unsigned int nr;
	bool shared;
	bool stands;
	unsigned long cursor;
	u64 deadline;
};

static struct mtier_listing mtier_listing;
/* Scratch for the search for representative VMAs. */
static struct mtier_others mtier_listed_others;

/* Set the cursor. A nonzero result ends the walk until the next hold of the lock. */
static int mtier_list_pause(struct mtier_listing *l, struct mm_struct *mm,
			    unsigned long next)
{
	l->cursor = next;
	return l->nr == MTIER_LISTED_MAX || local_clock() >= l->deadline ||
	       need_resched() || mmap_lock_is_contended(mm);
}

/* Check whether another VMA represents all mappers of this part. */
static bool mtier_list_theirs(struct mtier_listing *l,
			      struct vm_area_struct *vma, unsigned long addr,
			      unsigned long next)
{
	if (!mtier_may_be_others(vma))
		return false;
	l->shared = true;
	if (!mtier_others_own(&mtier_listed_others, vma, addr,
			      (next - addr) >> PAGE_SHIFT))
		return true;
	l->stands = true;
	return false;
}

static int mtier_list_pmd(pmd_t *pmd, unsigned long addr, unsigned long next,
			  struct mm_walk *walk)
{
	struct mtier_listing *l = walk->private;
	unsigned long at = addr & PMD_MASK;

	/* A range can be part of two VMAs: list it once. */
	if (!pmd_none(pmdp_get_lockless(pmd)) &&
	    (!l->nr || l->at[l->nr - 1] != at) &&
	    !mtier_list_theirs(l, walk->vma, addr, next))
		l->at[l->nr++] = at;
	return mtier_list_pause(l, walk->mm, next);
}

static int mtier_list_hole(unsigned long addr, unsigned long next, int depth,
			   struct mm_walk *walk)
{
	return mtier_list_pause(walk->private, walk->mm, next);
}

static int mtier_list_vma(unsigned long addr, unsigned long next,
			  struct mm_walk *walk)
{
	if (mtier_vma_eligible(walk->vma))
		return 0;
	/* Also pause at skipped VMAs: there can be tens of thousands of them. */
	return mtier_list_pause(walk->private, walk->mm, next) ? -EAGAIN : 1;
}

static const struct mm_walk_ops mtier_list_ops = {
	.pmd_entry	= mtier_list_pmd,
	.pte_hole	= mtier_list_hole,
	.test_walk	= mtier_list_vma,
	.walk_lock	= PGWALK_RDLOCK,
};

/* List the ranges that one hold of the lock allows. False if the trylock fails. */
static bool mtier_list_locked(struct mtier_listing *l, struct mm_struct *mm)
{
	if (!mmap_read_trylock(mm))
		return false;
	l->deadline = local_clock() + MTIER_LIST_NS;
	if (!walk_page_range(mm, l->cursor, mm->task_size, &mtier_list_ops, l))
		l->cursor = mm->task_size;
	mmap_read_unlock(mm);
	return true;
}

/*
 * List more ranges of @slot. False if kmtierd must stop, the process has exited, or
 * mmap_lock is not available.
 */
static bool mtier_list_some(struct mtier_listing *l, struct mtier_slot *slot)
{
	bool listed;

	l->nr = 0;
	if (kthread_should_stop() || !mtier_slot_enter(slot))
		return false;
	listed = mtier_list_locked(l, slot->mm);
	mtier_slot_leave(slot);
	return listed;
}

/* Append the ranges found last to the new list. False if there is no memory. */
static bool mtier_list_keep(struct mtier_sample *new, unsigned int *room,
			    const struct mtier_listing *l)
{
	unsigned int nr = l->nr, want = new->nr + nr;
	const unsigned long *at = l->at;
	unsigned long *larger;

	/* The walk before this one ended within the same range. */
	if (nr && new->nr && new->at[new->nr - 1] == at[0]) {
		at++;
		nr--;
	}
	if (want > *room) {
		want = max(want, 2 * *room);
		larger = kvrealloc(new->at, want * sizeof(*new->at),
				   GFP_KERNEL | __GFP_NOWARN);
		if (!larger)
			return false;
		new->at = larger;
		*room = want;
	}
	memcpy(new->at + new->nr, at, nr * sizeof(*at));
	new->nr += nr;
	return true;
}

/* List the ranges of an address space. On failure the old list stays. */
static void mtier_sample_list(struct mtier_slot *slot)
{
	struct mtier_sample new = {
		.rss = get_mm_rss(slot->mm),
		.shares = mtier_slots_shares(),
		.listed_ns = ktime_get_ns(),
	};
	struct mtier_listing *l = &mtier_listing;
	struct mm_struct *mm = slot->mm;
	unsigned int room = 0;

	l->cursor = 0;
	l->shared = false;
	l->stands = false;
	while (l->cursor < mm->task_size) {
		if (!mtier_list_some(l, slot) || !mtier_list_keep(&new, &room, l)) {
			kvfree(new.at);
			return;
		}
		cond_resched();
	}
	kvfree(slot->sample.at);
	new.shared = l->shared;
	new.stands = l->stands;
	slot->sample = new;
}

/* Check whether a representative VMA of memory mapped here may have exited. */
static bool mtier_sample_shares(const struct mtier_sample *s)
{
	return s->shared && s->shares != mtier_slots_shares() &&
	       ktime_get_ns() - s->listed_ns >= MTIER_SHARES_NS;
}

/* Check whether a list is missing or has to be made anew. */
static bool mtier_sample_stale(const struct mtier_slot *slot)
{
	unsigned long rss = get_mm_rss(slot->mm), then = slot->sample.rss;
	unsigned long apart = max(rss, then) - min(rss, then);

	if (slot->sample.old || mtier_sample_shares(&slot->sample))
		return true;
	return apart > then / 8 + (slot->sample.nr ? MTIER_RANGE_PAGES / 2 : 0);
}

static bool mtier_sample_left_out(const struct mtier_slot *slot)
{
	return !READ_ONCE(slot->mm->mtier_scan_scale) ||
	       mm_has_notifiers(slot->mm);
}

/* Count the ranges of an address space that can be drawn now. */
static unsigned int mtier_sample_ranges(struct mtier_slot *slot)
{
	if (mtier_sample_left_out(slot))
		return 0;
	if (mtier_sample_stale(slot))
		mtier_sample_list(slot);
	return slot->sample.nr;
}

/**
 * struct mtier_sample_sum - ranges that can be drawn
 * @ranges: number of ranges
 * @weight: sum of the ranges, each weighted with the scan scale of its address
 *	space
 */
struct mtier_sample_sum {
	unsigned long ranges;
	u64 weight;
};

/* Weight of an address space: its ranges times its scan scale. */
static u64 mtier_sample_weight(const struct mtier_slot *slot)
{
	return (u64)slot->sample.nr * READ_ONCE(slot->mm->mtier_scan_scale);
}

static struct mtier_sample_sum mtier_sample_sum(ktime_t now)
{
	struct mtier_sample_sum sum = { };
	struct mtier_slot *slot = NULL;

	while ((slot = mtier_slot_after(slot, now))) {
		if (!mtier_sample_ranges(slot))
			continue;
		sum.ranges += slot->sample.nr;
		sum.weight += mtier_sample_weight(slot);
	}
	return sum;
}

/* Draw @nr ranges: first the remaining ones of this round, then some of a new round. */
static void mtier_sample_take(struct mtier_sample *s, unsigned long *at,
			      unsigned int nr)
{
	unsigned int i, pick, left = s->nr - s->next;

	if (left < nr) {
		for (i = 0; i < left; i++)
			swap(s->at[i], s->at[s->next + i]);
		memcpy(at, s->at, left * sizeof(*at));
		at += left;
		nr -= left;
		s->next = left;
		s->old = true;
	}
	for (i = 0; i < nr; i++, s->next++) {
		/* swap() evaluates its arguments twice. */
		pick = s->next + get_random_u32_below(s->nr - s->next);
		swap(s->at[s->next], s->at[pick]);
		at[i] = s->at[s->next];
	}
}

static int mtier_sample_cmp(const void *a, const void *b)
{
	unsigned long x = *(const unsigned long *)a;
	unsigned long y = *(const unsigned long *)b;

	return x < y ? -1 : x > y;
}

static void mtier_sample_add(struct mtier_watch *w, struct mtier_slot *slot,
			     unsigned int nr)
{
	mtier_slot_get(slot);
	w->part[w->nr_parts++] = (struct mtier_part) {
		.slot = slot,
		.first = w->nr,
		.nr = nr,
	};
	mtier_sample_take(&slot->sample, w->at + w->nr, nr);
	/* A page table walk proceeds in address order. */
	sort(w->at + w->nr, nr, sizeof(*w->at), mtier_sample_cmp, NULL);
	w->nr += nr;
}

/*
 * Get the share of @want for an address space of weight @nr that follows weights of
 * @sum, out of @total. This is systematic sampling: @want points are evenly spaced
 * over the sum of all weights. The share is the number of points within the weight
 * @nr. @mark is the random offset of the points.
 */
static unsigned long mtier_sample_share(u64 sum, u64 nr, unsigned long want,
					u64 mark, u64 total)
{
	return div64_u64((sum + nr) * want + mark, total) -
	       div64_u64(sum * want + mark, total);
}

/* Distribute @want ranges among the address spaces by weight. */
static void mtier_sample_deal(struct mtier_watch *w, unsigned long want,
			      u64 total, ktime_t now)
{
	u64 mark = get_random_u64() % total, sum = 0;
	struct mtier_slot *slot = NULL;
	unsigned long nr;
	u64 weight;

	while ((slot = mtier_slot_after(slot, now))) {
		/* Also skip slots added since the sum: they have no list. */
		if (mtier_sample_left_out(slot) || !slot->sample.nr)
			continue;
		weight = mtier_sample_weight(slot);
		nr = mtier_sample_share(sum, weight, want, mark, total);
		sum += weight;
		nr = min3(nr, want - w->nr, (unsigned long)slot->sample.nr);
		if (nr)
			mtier_sample_add(w, slot, nr);
	}
}

/**
 * mtier_sample_draw() - Draw the ranges that a burst scans.
 * @watch: the sample to be filled
 * @want: number of ranges; all ranges are taken if there are fewer
 *
 * Context: kmtierd; may sleep.
 * Return: 0, -ENOENT if there is no memory to scan, or -ENOMEM.
 */
int mtier_sample_draw(struct mtier_watch *watch, unsigned long want)
{
	ktime_t now = ktime_get();
	struct mtier_sample_sum sum = mtier_sample_sum(now);

	*watch = (struct mtier_watch) { };
	if (!sum.weight)
		return -ENOENT;
	want = min3(want, sum.ranges, (unsigned long)INT_MAX / MTIER_RANGE_PAGES);
	watch->at = kvmalloc_array(want, sizeof(*watch->at), GFP_KERNEL);
	watch->part = kvmalloc_array(want + MTIER_AUDIT_PARTS,
				     sizeof(*watch->part), GFP_KERNEL);
	watch->page = kvmalloc_array(want, MTIER_RANGE_PAGES, GFP_KERNEL);
	if (!watch->at || !watch->part || !watch->page) {
		mtier_sample_drop(watch);
		return -ENOMEM;
	}
	memset(watch->page, MTIER_PAGE_NONE, want * MTIER_RANGE_PAGES);
	mtier_sample_deal(watch, want, sum.weight, now);
	return 0;
}

/**
 * mtier_sample_drop() - Free the sample of a burst.
 * @watch: from mtier_sample_draw()
 */
void mtier_sample_drop(struct mtier_watch *watch)
{
	unsigned int i;

	for (i = 0; i < watch->nr_parts; i++)
		mtier_slot_put(watch->part[i].slot);
	kvfree(watch->page);
	kvfree(watch->part);
	kvfree(watch->at);
	*watch = (struct mtier_watch) { };
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/sample_kunit.c"
#endif
