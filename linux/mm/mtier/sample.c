// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: which memory a burst looks at.
 *
 * A part of all memory has to stand for the rest, so each range of 2 MiB that has
 * page tables is as likely to be drawn as any other, whosever it is: a burst takes
 * from each address space as many as its share of all ranges is.  Within one they
 * come in random order, each once before any comes again.
 *
 * The list of an address space takes 8 bytes a range.  It is made when it is drawn
 * from for the first time, and anew when all were drawn or when much more or less
 * is mapped than before: what has come meanwhile, a new process above all, is met
 * in its turn and not after all that was there before.
 *
 * Who has raised or lowered its scan scale is met as much more often, or less, than
 * others. Its memory stands for more than its part of all then, in what is learnt, too.
 *
 * What several map of a file, or of shared memory, is listed for one of them, as it is
 * looked at for all (others.c). When that one exits the others are listed anew, but
 * not again and again where many come and go.
 *
 * Left out are those whose scan scale is 0, those that are too young
 * (scan/delay_ms), and those with secondary MMUs: the TLBs of these are not flushed
 * between two looks, so that what they use looks idle.
 *
 * Locking: mmap_lock is only tried, and held for MTIER_LIST_NS at most.  The lists
 * belong to kmtierd.
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

/* What is listed for another is asked again after so long a time, if one has gone. */
#define MTIER_SHARES_NS		(10ULL * NSEC_PER_SEC)
/* Longest hold of mmap_lock, and most ranges that are listed in it: a page of them. */
#define MTIER_LIST_NS		NSEC_PER_MSEC
#define MTIER_LISTED_MAX	(PAGE_SIZE / sizeof(unsigned long))

/**
 * struct mtier_listing - a walk that lists ranges
 * @at: those found since the lock was taken
 * @nr: how many
 * @shared: it has come to what others may map, too
 * @stands: and has listed some of it
 * @cursor: where to go on
 * @deadline: when to let go of the lock
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
/* To ask who stands for what others map, too. */
static struct mtier_others mtier_listed_others;

/* Enough for now? Nonzero ends the walk. */
static int mtier_list_pause(struct mtier_listing *l, struct mm_struct *mm,
			    unsigned long next)
{
	l->cursor = next;
	return l->nr == MTIER_LISTED_MAX || local_clock() >= l->deadline ||
	       need_resched() || mmap_lock_is_contended(mm);
}

/* Does another VMA stand for those who map this? */
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

	/* Two VMAs may be parts of the same range. */
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
	/* There can be tens of thousands of such VMAs. */
	return mtier_list_pause(walk->private, walk->mm, next) ? -EAGAIN : 1;
}

static const struct mm_walk_ops mtier_list_ops = {
	.pmd_entry	= mtier_list_pmd,
	.pte_hole	= mtier_list_hole,
	.test_walk	= mtier_list_vma,
	.walk_lock	= PGWALK_RDLOCK,
};

/* As much as one hold of the lock allows; false if the lock is contended. */
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

/* The same of a process that has not exited, unless kmtierd is to stop. */
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

/* Have those listed last in the new list; false without memory. */
static bool mtier_list_keep(struct mtier_sample *new, unsigned int *room,
			    const struct mtier_listing *l)
{
	unsigned int nr = l->nr, want = new->nr + nr;
	const unsigned long *at = l->at;
	unsigned long *larger;

	/* The walk has stopped within a range. */
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

/* List the ranges of an address space; what there was stays if that fails. */
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

/* May others have gone that stood for memory that is mapped here, too? */
static bool mtier_sample_shares(const struct mtier_sample *s)
{
	return s->shared && s->shares != mtier_slots_shares() &&
	       ktime_get_ns() - s->listed_ns >= MTIER_SHARES_NS;
}

/* Is a list to be made, or made anew? */
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

/* Ranges of an address space that may be drawn now. */
static unsigned int mtier_sample_ranges(struct mtier_slot *slot)
{
	if (mtier_sample_left_out(slot))
		return 0;
	if (mtier_sample_stale(slot))
		mtier_sample_list(slot);
	return slot->sample.nr;
}

/**
 * struct mtier_sample_sum - what there is to draw from
 * @ranges: ranges
 * @weight: the same, each as often as its address space asks to be looked at
 */
struct mtier_sample_sum {
	unsigned long ranges;
	u64 weight;
};

/* How often the ranges of an address space are drawn, beside those of others. */
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

/* Draw so many: those that are left of this round first. */
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
		/* Not in swap(), which would ask twice. */
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
	/* From one page table to the next, as a walk goes. */
	sort(w->at + w->nr, nr, sizeof(*w->at), mtier_sample_cmp, NULL);
	w->nr += nr;
}

/*
 * How many of @want are dealt to an address space of weight @nr that comes after
 * @sum of @total: so many of the marks that are evenly apart on the line of
 * all fall into its part. Where the first mark lies is chance.
 */
static unsigned long mtier_sample_share(u64 sum, u64 nr, unsigned long want,
					u64 mark, u64 total)
{
	return div64_u64((sum + nr) * want + mark, total) -
	       div64_u64(sum * want + mark, total);
}

/* Deal @want ranges out, to each address space its share. */
static void mtier_sample_deal(struct mtier_watch *w, unsigned long want,
			      u64 total, ktime_t now)
{
	u64 mark = get_random_u64() % total, sum = 0;
	struct mtier_slot *slot = NULL;
	unsigned long nr;
	u64 weight;

	while ((slot = mtier_slot_after(slot, now))) {
		/* As it was counted, or it has come since. */
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
 * mtier_sample_draw() - choose what a burst looks at
 * @watch: filled
 * @want: ranges; all are taken if there are fewer
 *
 * Context: kmtierd; may sleep.
 * Return: 0, -ENOENT if there is no memory to look at, or -ENOMEM.
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
 * mtier_sample_drop() - forget what a burst looked at
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
