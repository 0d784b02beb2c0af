// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: which memory a burst (sampling window) scans.
 *
 * A burst scans a part of the memory that has to represent the rest. Pages to promote
 * are looked for in ranges that are in use and have pages on the slow tier. Pages to
 * demote are looked for in ranges with pages on the fast tier. sweep.c finds out which
 * are which. So ranges that nobody uses take no scan time from those in use, however many
 * there are.
 *
 * For each tier, a burst draws from each address space in proportion to its share of the
 * pages on that tier, which a sweep estimates. So hundreds of processes with a few pages
 * in each of their ranges do not hide one that has much memory. If all ranges can be
 * drawn, all are. Within an address space the order is random, and each range is drawn
 * once before any is drawn again: the ranges are sorted by a hash of their address,
 * and a cursor for each tier says which is next. So a new list goes on where the old
 * one was.
 *
 * A process can raise or lower its scan scale. For the slow tier its ranges are drawn
 * more or less often in proportion, with scale 0 never. For the fast tier the scale
 * has no effect. Otherwise a process could keep idle memory in fast memory with it.
 *
 * Two kinds of address spaces are left out: those younger than scan/delay_ms, and
 * those with secondary MMUs. The TLBs of secondary MMUs are not flushed between two
 * scans, so memory that they use would look idle.
 *
 * Locking: none; the lists belong to kmtierd.
 */
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "burst.h"
#include "mtier.h"

/* Ranges are sorted into 2^8 groups by a hash, and by address within a group. */
#define MTIER_ORDER_BITS	8
#define MTIER_ORDER_GROUPS	BIT(MTIER_ORDER_BITS)

/* ---- the order within an address space ---- */

static u32 mtier_sample_group(unsigned long at, u32 salt)
{
	return hash_64((u64)(at >> PMD_SHIFT) * salt, MTIER_ORDER_BITS);
}

/* Check whether range @a is drawn before range @b. */
static bool mtier_sample_before(unsigned long a, unsigned long b, u32 salt)
{
	u32 x = mtier_sample_group(a, salt), y = mtier_sample_group(b, salt);

	return x == y ? (a & PMD_MASK) < (b & PMD_MASK) : x < y;
}

/* Sort ranges, which are in the order of their addresses, from @from to @to. */
static void mtier_sample_order(const struct mtier_sample *s,
			       const unsigned long *from, unsigned long *to)
{
	u32 first[MTIER_ORDER_GROUPS] = { }, group, sum = 0, nr;
	unsigned int i;

	for (i = 0; i < s->nr; i++)
		first[mtier_sample_group(from[i], s->salt)]++;
	for (group = 0; group < MTIER_ORDER_GROUPS; group++) {
		nr = first[group];
		first[group] = sum;
		sum += nr;
	}
	for (i = 0; i < s->nr; i++)
		to[first[mtier_sample_group(from[i], s->salt)]++] = from[i];
}

/*
 * Complete the entries that were not read with the pages that they had in the old list,
 * and leave out those without pages. Both lists are in the order in which they are drawn.
 */
static void mtier_sample_complete(struct mtier_sample *s, const struct mtier_sample *old)
{
	unsigned int i, was = 0, nr = 0;

	for (i = 0; i < s->nr; i++) {
		unsigned long at = s->at[i], then;

		while (was < old->nr && mtier_sample_before(old->at[was], at, s->salt))
			was++;
		then = was < old->nr ? old->at[was] : 0;
		if (at & MTIER_RANGE_UNREAD && !((at ^ then) & PMD_MASK))
			at = mtier_range_merge(at, mtier_range_only(then,
								    MTIER_RANGE_TOP));
		if (mtier_range_sides(at))
			s->at[nr++] = at & ~MTIER_RANGE_UNREAD;
	}
	s->nr = nr;
}

/* Count the ranges and pages of a list, by tier. */
static void mtier_sample_count(struct mtier_sample *s)
{
	unsigned int i, pages;
	u32 side;

	for (i = 0; i < s->nr; i++)
		for (side = 0; side < MTIER_SIDES; side++) {
			pages = mtier_range_pages(s->at[i], side);
			s->side[side].nr += !!pages;
			s->side[side].pages += pages;
		}
}

/*
 * Set the cursors of a new list to where those of the old one are. At first they are half
 * a round apart: a range that both tiers are sampled from is not drawn twice at once.
 */
static void mtier_sample_resume(struct mtier_sample *s,
				const struct mtier_sample *old)
{
	unsigned int side;

	for (side = 0; side < MTIER_SIDES; side++) {
		unsigned int was = old->side[side].next, next = 0;

		if (!old->nr && side == MTIER_TOP)
			next = s->nr / 2;
		while (was < old->nr && next < s->nr &&
		       mtier_sample_before(s->at[next], old->at[was], s->salt))
			next++;
		s->side[side].next = next;
	}
}

/**
 * mtier_sample_sort() - Bring a new list into the order in which ranges are drawn.
 * @s: the list, in the order of addresses; its salt is that of @old
 * @old: the list that it replaces
 *
 * Context: may sleep.
 * Return: false if there is no memory.
 */
bool mtier_sample_sort(struct mtier_sample *s, const struct mtier_sample *old)
{
	unsigned long *at;

	if (!s->nr)
		return true;
	at = kvmalloc_array(s->nr, sizeof(*at), GFP_KERNEL | __GFP_NOWARN);
	if (!at)
		return false;
	mtier_sample_order(s, s->at, at);
	kvfree(s->at);
	s->at = at;
	mtier_sample_complete(s, old);
	mtier_sample_count(s);
	mtier_sample_resume(s, old);
	return true;
}

/* Draw the next @nr ranges for a tier, of at least as many: get their entries. */
static void mtier_sample_take(struct mtier_sample *s, u32 side,
			      unsigned long *at, unsigned int nr)
{
	unsigned int *next = &s->side[side].next;
	unsigned long range;

	s->side[side].drawn += nr;
	while (nr) {
		if (*next >= s->nr)
			*next = 0;
		range = s->at[(*next)++];
		if (!mtier_range_pages(range, side))
			continue;
		*at++ = range;
		nr--;
	}
}

/* ---- the share of each address space ---- */

/**
 * mtier_sample_left_out() - Check whether an address space is not scanned.
 * @slot: the slot of the address space
 *
 * Return: true if so.
 */
bool mtier_sample_left_out(const struct mtier_slot *slot)
{
	return mm_has_notifiers(slot->mm);
}

/*
 * Count the ranges of an address space that can be drawn for a tier. The list can still
 * have ranges for the slow tier when the scan scale has just become 0.
 */
static unsigned int mtier_sample_nr(const struct mtier_slot *slot, u32 side)
{
	if (side == MTIER_LOW && !mtier_mm_promotes(slot->mm))
		return 0;
	return slot->sample.side[side].nr;
}

/* The same for the pages of these ranges on the tier. */
static u64 mtier_sample_pages(const struct mtier_slot *slot, u32 side)
{
	return mtier_sample_nr(slot, side) ? slot->sample.side[side].pages : 0;
}

/* Scale a weight for the slow tier with the scan scale of the address space. */
static u64 mtier_sample_scale(const struct mtier_slot *slot, u32 side, u64 weight)
{
	return side == MTIER_LOW ? weight * READ_ONCE(slot->mm->mtier_scan_scale) : weight;
}

/* Weight of an address space: its pages on the tier, or its ranges with @each. */
static u64 mtier_sample_weight(const struct mtier_slot *slot, u32 side, bool each)
{
	return mtier_sample_scale(slot, side, each ? mtier_sample_nr(slot, side) :
						     mtier_sample_pages(slot, side));
}

/**
 * mtier_sample_sum() - Count the ranges that can be drawn.
 * @sum: filled
 * @now: the time
 *
 * Context: kmtierd; may sleep.
 */
void mtier_sample_sum(struct mtier_sample_sum *sum, ktime_t now)
{
	struct mtier_slot *slot = NULL;
	u32 side;

	*sum = (struct mtier_sample_sum) { .now = now };
	while ((slot = mtier_slot_after(slot, now))) {
		if (mtier_sample_left_out(slot))
			continue;
		for (side = 0; side < MTIER_SIDES; side++) {
			sum->ranges[side] += mtier_sample_nr(slot, side);
			sum->pages[side] += mtier_sample_pages(slot, side);
			sum->weight[side] += mtier_sample_weight(slot, side, false);
			sum->weight_each[side] += mtier_sample_weight(slot, side, true);
		}
	}
}

/*
 * Split entries into addresses and tiers. A range drawn for both tiers is one range. Each
 * is scanned for all of its tiers that are @sampled: it costs no more.
 */
static unsigned int mtier_sample_merge(struct mtier_watch *w, unsigned int nr, u8 sampled)
{
	u8 *sides = w->sides + w->nr;
	unsigned long *at = w->at + w->nr;
	unsigned int i, out = 0;
	u32 side;

	for (i = 0; i < nr; i++) {
		if (out && at[out - 1] == (at[i] & PMD_MASK))
			continue;
		sides[out] = mtier_range_sides(at[i]) & sampled;
		for (side = 0; side < MTIER_SIDES; side++)
			if (sides[out] & BIT(side))
				w->expected[side] += mtier_range_pages(at[i], side);
		at[out++] = at[i] & PMD_MASK;
	}
	return out;
}

/* Draw @nr ranges for each tier from an address space. */
static void mtier_sample_add(struct mtier_watch *w, struct mtier_slot *slot,
			     const unsigned int nr[MTIER_SIDES])
{
	unsigned long *at = w->at + w->nr;
	unsigned int drawn = 0;
	u8 sampled = 0;
	u32 side;

	if (mtier_mm_promotes(slot->mm))
		sampled |= MTIER_RANGE_LOW;
	if (!w->low_only)
		sampled |= MTIER_RANGE_TOP;
	for (side = 0; side < MTIER_SIDES; side++) {
		mtier_sample_take(&slot->sample, side, at + drawn, nr[side]);
		drawn += nr[side];
	}
	/* A page table walk proceeds in address order. */
	sort(at, drawn, sizeof(*at), mtier_range_cmp, NULL);
	drawn = mtier_sample_merge(w, drawn, sampled);
	mtier_slot_get(slot);
	w->part[w->nr_parts++] = (struct mtier_part) {
		.slot = slot,
		.first = w->nr,
		.nr = drawn,
	};
	w->nr += drawn;
}

/**
 * struct mtier_deal - distribution of ranges among the address spaces, for a tier
 * @want: number of ranges wanted
 * @left: number of these that are not drawn yet
 * @total: weight of all address spaces
 * @sum: weight of the address spaces visited
 * @mark: random offset of the points
 * @each: all ranges have the same weight
 */
struct mtier_deal {
	unsigned long want;
	unsigned long left;
	u64 total;
	u64 sum;
	u64 mark;
	bool each;
};

/*
 * Get the share of an address space of weight @weight. This is systematic sampling:
 * @want points are evenly spaced over the sum of all weights. The share is the number
 * of points within the weight, but not more than @most.
 */
static unsigned int mtier_deal_share(struct mtier_deal *d, u64 weight,
				     unsigned int most)
{
	unsigned long nr;

	if (!weight || !d->total)
		return 0;
	nr = div64_u64((d->sum + weight) * d->want + d->mark, d->total) -
	     div64_u64(d->sum * d->want + d->mark, d->total);
	d->sum += weight;
	nr = min3(nr, d->left, (unsigned long)most);
	d->left -= nr;
	return nr;
}

/* If all ranges of the tier are wanted, they have the same weight. */
static struct mtier_deal mtier_deal(const struct mtier_sample_sum *sum, u32 side,
				    unsigned long want)
{
	bool each = want >= sum->ranges[side];
	u64 total = each ? sum->weight_each[side] : sum->weight[side];

	return (struct mtier_deal) {
		.want = want,
		.left = want,
		.total = total,
		.mark = total ? get_random_u64() % total : 0,
		.each = each,
	};
}

/* Distribute the ranges wanted among the address spaces. */
static void mtier_sample_deal(struct mtier_watch *w,
			      struct mtier_deal deal[MTIER_SIDES], ktime_t now)
{
	struct mtier_slot *slot = NULL;
	unsigned int nr[MTIER_SIDES];
	u32 side;

	while ((deal[MTIER_TOP].left || deal[MTIER_LOW].left) &&
	       (slot = mtier_slot_after(slot, now))) {
		if (mtier_sample_left_out(slot))
			continue;
		for (side = 0; side < MTIER_SIDES; side++)
			nr[side] = mtier_deal_share(&deal[side],
						    mtier_sample_weight(slot, side,
									deal[side].each),
						    mtier_sample_nr(slot, side));
		if (nr[MTIER_TOP] || nr[MTIER_LOW])
			mtier_sample_add(w, slot, nr);
	}
	if (slot)
		mtier_slot_put(slot);
}

/*
 * Divide @want ranges among the tiers: half of them for each. What one does not need is
 * for the other.
 */
static void mtier_sample_divide(struct mtier_deal deal[MTIER_SIDES],
				const struct mtier_sample_sum *sum,
				unsigned long want, bool low_only)
{
	unsigned long top = low_only ? 0 : sum->ranges[MTIER_TOP];
	unsigned long low = min(sum->ranges[MTIER_LOW],
				want - min(top, want / 2));

	deal[MTIER_LOW] = mtier_deal(sum, MTIER_LOW, low);
	deal[MTIER_TOP] = mtier_deal(sum, MTIER_TOP, min(top, want - low));
}

static int mtier_sample_alloc(struct mtier_watch *w, unsigned long want)
{
	w->at = kvmalloc_array(want, sizeof(*w->at), GFP_KERNEL);
	w->sides = kvmalloc(want, GFP_KERNEL);
	w->part = kvmalloc_array(want + MTIER_AUDIT_PARTS, sizeof(*w->part),
				 GFP_KERNEL);
	w->page = kvmalloc_array(want, MTIER_RANGE_PAGES, GFP_KERNEL);
	w->route = kvmalloc_array(want, MTIER_RANGE_PAGES, GFP_KERNEL);
	/* A range can map parts of several files; what has no room is not scanned. */
	if (w->at && w->sides && w->part && w->page && w->route &&
	    !mtier_file_set_room(&w->files, 2 * (want + MTIER_AUDIT_PARTS)))
		return 0;
	mtier_sample_drop(w);
	return -ENOMEM;
}

/**
 * mtier_sample_draw() - Draw the ranges that a burst scans.
 * @watch: the sample to be filled
 * @sum: the ranges that there are, from mtier_sample_sum()
 * @want: number of ranges; all ranges are taken if there are fewer
 * @low_only: sample the slow tier only
 *
 * Context: kmtierd; may sleep.
 * Return: 0, -ENOENT if there is no memory to scan, or -ENOMEM.
 */
int mtier_sample_draw(struct mtier_watch *watch, const struct mtier_sample_sum *sum,
		      unsigned long want, bool low_only)
{
	struct mtier_deal deal[MTIER_SIDES];
	int ret;

	*watch = (struct mtier_watch) { .low_only = low_only };
	/* One for each tier that is sampled, at least. */
	want = clamp(want, low_only ? 1 : 2, (unsigned long)INT_MAX / MTIER_RANGE_PAGES);
	mtier_sample_divide(deal, sum, want, low_only);
	want = deal[MTIER_LOW].want + deal[MTIER_TOP].want;
	if (!want)
		return -ENOENT;
	ret = mtier_sample_alloc(watch, want);
	if (ret)
		return ret;
	memset(watch->page, MTIER_PAGE_NONE, want * MTIER_RANGE_PAGES);
	mtier_sample_deal(watch, deal, sum->now);
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
	mtier_file_set_free(&watch->files);
	mtier_table_set_free(&watch->tables);
	kvfree(watch->page);
	kvfree(watch->route);
	kvfree(watch->part);
	kvfree(watch->sides);
	kvfree(watch->at);
	*watch = (struct mtier_watch) { };
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/sample_kunit.c"
#endif
