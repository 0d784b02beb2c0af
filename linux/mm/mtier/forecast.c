// SPDX-License-Identifier: GPL-2.0
/*
 * For how long do pages that changed places go on as they did?  Pure functions.
 *
 * Heat that does not outlive a burst cannot be told within one.  So some of the pairs
 * that change places are looked at again, each after one of a few ages, from an eighth
 * of a second to eight seconds.  What is left of the difference that was foretold, added
 * up over time, is for how long a pair goes on saving what it does at first.
 *
 * And some are looked at so soon after bits were cleared that few are found, which
 * tells how much that is at first.
 *
 * What is left is a share of few looks: what is less than two errors may be chance, and
 * is nothing, since a few hundredths of half a minute would be more than heat lives that
 * is gone at once; and it only falls with age, for who is apart by then has nothing of
 * what comes back.
 *
 * Locking: none; every function works on its arguments only.  See place.h.
 */
#include <linux/limits.h>
#include <linux/math.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

#include "place.h"

#define Q16_BITS	16

/* Looks that an age starts with, and those of it that are remembered. */
#define AUDIT_PRIOR	(16LL * MTIER_Q16)
#define AUDIT_MOST	(512LL * MTIER_Q16)
/* Pages that early looks start with, and are to find of those remembered. */
#define EARLY_PRIOR	(4LL * MTIER_Q16)
#define EARLY_MOST	(128LL * MTIER_Q16)
/* What is gone by then shows in audits, too: not all of it is counted twice. */
#define EARLY_LEAST_Q8	64
/* What is less than so many standard errors may be chance. */
#define AUDIT_ERRORS	(2 * MTIER_Q16)

/* Until when what is found at an age stands for what is left. */
static u64 age_end_ns(u32 age)
{
	return age < MTIER_AUDIT_AGES - 1 ? 2 * MTIER_AUDIT_AGE_NS(age) : MTIER_HORIZON_NS;
}

/* What is left at an age, Q16; begins as what was left before. */
static u32 audit_left(const struct mtier_audit_sum *sum, u32 before)
{
	s64 most = S64_MAX >> (Q16_BITS + 1);
	s64 prior = AUDIT_PRIOR >> Q16_BITS;
	u64 foretold = clamp_t(s64, sum->foretold, 0, most - AUDIT_PRIOR) + AUDIT_PRIOR;
	s64 seen = clamp_t(s64, sum->seen, -most, most - AUDIT_PRIOR) + prior * before;

	return min_t(u64, div64_u64((u64)max_t(s64, seen, 0) << Q16_BITS, foretold), MTIER_Q16);
}

/**
 * mtier_place_left - how much of what was foretold is there still after a time
 * @p: state
 * @left: where to put that, Q16, for each age
 *
 * An age of which little is known yet is taken to be like the one before, and the first
 * begins with all.
 */
void mtier_place_left(const struct mtier_place *p, u32 left[MTIER_AUDIT_AGES])
{
	u32 before = MTIER_Q16;
	u32 i;

	for (i = 0; i < MTIER_AUDIT_AGES; i++) {
		left[i] = audit_left(&p->audit[i], before);
		before = left[i];
	}
}

/* What may be chance of what is left, Q16. */
static u32 audit_chance(const struct mtier_audit_sum *sum)
{
	u64 looks = clamp_t(s64, sum->foretold, 0, AUDIT_MOST) + AUDIT_PRIOR;

	return div64_u64((u64)AUDIT_ERRORS << Q16_BITS, int_sqrt64(looks << Q16_BITS));
}

/**
 * mtier_place_horizon_ns - for how long pages that change places go on as they did
 * @p: state
 *
 * Return: ns, up to half a minute: what is left of the difference of two pages, added
 * up over that time.
 */
u64 mtier_place_horizon_ns(const struct mtier_place *p)
{
	u32 left[MTIER_AUDIT_AGES], least = MTIER_Q16, i;
	u64 sum = 0, start = 0;

	mtier_place_left(p, left);
	for (i = 0; i < MTIER_AUDIT_AGES; i++) {
		if (left[i] < audit_chance(&p->audit[i]))
			break;
		least = min_t(u32, least, left[i]);
		sum += (age_end_ns(i) - start) * least >> Q16_BITS;
		start = age_end_ns(i);
	}
	return sum;
}

/* The age that a time belongs to. */
static u32 age_of(u64 age_ns)
{
	u32 i = 0;

	while (i < MTIER_AUDIT_AGES - 1 && age_ns >= age_end_ns(i))
		i++;
	return i;
}

static void audit_fade(struct mtier_audit_sum *sum)
{
	sum->foretold /= 2;
	sum->seen /= 2;
}

/**
 * mtier_place_audit - compare a forecast with what came of it
 * @p: state
 * @age_ns: how long ago the pair changed places
 * @gap: of the run that the pair was part of
 * @looks: how often both pages were looked at again
 * @hits: how often the one that went up was found accessed, less how often the other
 *
 * Heat that does not outlive a burst cannot be told within one.
 */
void mtier_place_audit(struct mtier_place *p, u64 age_ns, u32 gap, u32 looks, s32 hits)
{
	struct mtier_audit_sum *sum = &p->audit[age_of(age_ns)];
	s64 most = S64_MAX / 4;
	s64 foretold = (s64)min_t(u32, gap, MTIER_Q16) * min_t(u32, looks, 1024);
	s64 seen = (s64)hits * MTIER_Q16;

	sum->foretold = clamp_t(s64, sum->foretold, 0, most) + foretold;
	sum->seen = clamp_t(s64, sum->seen, -most, most) + seen;
	/* What came true long ago is no excuse for what does not now. */
	if (sum->foretold > AUDIT_MOST)
		audit_fade(sum);
}

/**
 * mtier_place_early - compare what a pair was to save at first with what it does
 * @p: state
 * @gap_rate: Q16 how many more accesses of the one that went up were foretold
 * @tau_ns: in so long a time
 * @since_ns: how long after their bits were cleared both were looked at
 * @hits: 1 where the one that went up was found and the other not, -1, or 0
 *
 * How often a page is used that looks find is worked out from the share of them that
 * do, and that is the mean of pages of many kinds.  Those used most, which each look
 * finds, count for too little in it.  A look so soon that it finds few finds those as
 * many times as often as they are used.
 */
void mtier_place_early(struct mtier_place *p, u64 gap_rate, u64 tau_ns, u64 since_ns,
		       s32 hits)
{
	struct mtier_audit_sum *sum = &p->early;

	tau_ns = clamp_t(u64, tau_ns, MTIER_TAU_MIN_NS, MTIER_TAU_CAP_NS);
	since_ns = min_t(u64, since_ns, tau_ns);
	gap_rate = min_t(u64, gap_rate, 8 * MTIER_Q16);
	sum->foretold = clamp_t(s64, sum->foretold, 0, EARLY_MOST) +
			div64_u64(gap_rate * since_ns, tau_ns);
	sum->seen = clamp_t(s64, sum->seen, -EARLY_MOST, EARLY_MOST) +
		    (s64)clamp_t(s32, hits, -1, 1) * MTIER_Q16;
	if (max_t(s64, sum->foretold, sum->seen) > EARLY_MOST)
		audit_fade(sum);
}

/**
 * mtier_place_factor_q8 - how many times what their counts say do pages save?
 * @p: state
 *
 * Return: Q8, at least 1/4.
 */
u32 mtier_place_factor_q8(const struct mtier_place *p)
{
	u64 foretold = clamp_t(s64, p->early.foretold, 0, 2 * EARLY_MOST);
	u64 seen = clamp_t(s64, p->early.seen, 0, 2 * EARLY_MOST);
	u64 factor = div64_u64((seen + EARLY_PRIOR) << 8, foretold + EARLY_PRIOR);

	return max_t(u64, factor, EARLY_LEAST_Q8);
}

/**
 * mtier_place_fade - forget half of what audits found
 * @p: state
 */
void mtier_place_fade(struct mtier_place *p)
{
	u32 i;

	for (i = 0; i < MTIER_AUDIT_AGES; i++)
		audit_fade(&p->audit[i]);
	audit_fade(&p->early);
}
