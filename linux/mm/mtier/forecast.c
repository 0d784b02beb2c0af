// SPDX-License-Identifier: GPL-2.0
/*
 * Estimate how long exchanged pages keep their access rates, as pure functions.
 *
 * One burst cannot distinguish short-lived heat from lasting heat. So some exchanged
 * pairs are re-checked, each at one of a few ages from 1/8 s to 8 s. A re-check
 * measures which part of the predicted difference of access rates is left. The
 * integral of that part over the age is the payback time: an exchange saves as much
 * as its initial savings would in this time.
 *
 * Some pairs are also scanned very soon after their bits were cleared, when few
 * pages are found accessed. These early scans measure the initial savings.
 *
 * The part that is left is estimated from few scans. A value below two standard
 * errors counts as 0. A few percent of the 30 s horizon would be longer than the
 * life of heat that is gone at once. The part is also forced to decrease with age:
 * heat that returns later does not pay for an exchange that was undone in between.
 *
 * Locking: none; every function works on its arguments only. See place.h.
 */
#include <linux/limits.h>
#include <linux/math.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

#include "place.h"

#define Q16_BITS	16

/* Weight of the initial estimate of an age, and most results kept, both in scans. */
#define AUDIT_PRIOR	(16LL * MTIER_Q16)
#define AUDIT_MOST	(512LL * MTIER_Q16)
/* The same for early scans, in pages that they find accessed. */
#define EARLY_PRIOR	(4LL * MTIER_Q16)
#define EARLY_MOST	(128LL * MTIER_Q16)
/* Lower limit of the factor, since re-checks also measure lost heat. */
#define EARLY_LEAST_Q8	64
/* Q16 number of standard errors below which a result is noise. */
#define AUDIT_ERRORS	(2 * MTIER_Q16)

/* Get the time up to which the result of an age applies. */
static u64 age_end_ns(u32 age)
{
	return age < MTIER_AUDIT_AGES - 1 ? 2 * MTIER_AUDIT_AGE_NS(age) : MTIER_HORIZON_NS;
}

/* Q16 part left at an age. The initial estimate is that of the age before. */
static u32 audit_left(const struct mtier_audit_sum *sum, u32 before)
{
	s64 most = S64_MAX >> (Q16_BITS + 1);
	s64 prior = AUDIT_PRIOR >> Q16_BITS;
	u64 foretold = clamp_t(s64, sum->foretold, 0, most - AUDIT_PRIOR) + AUDIT_PRIOR;
	s64 seen = clamp_t(s64, sum->seen, -most, most - AUDIT_PRIOR) + prior * before;

	return min_t(u64, div64_u64((u64)max_t(s64, seen, 0) << Q16_BITS, foretold), MTIER_Q16);
}

/**
 * mtier_place_left() - Get the part of the predicted difference left at each age.
 * @p: state
 * @left: result, Q16, for each age
 *
 * An age with few results is assumed to equal the age before it. The initial
 * estimate of the first age is 1.
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

/* Q16 part that may be noise, from the number of scans of an age. */
static u32 audit_chance(const struct mtier_audit_sum *sum)
{
	u64 looks = clamp_t(s64, sum->foretold, 0, AUDIT_MOST) + AUDIT_PRIOR;

	return div64_u64((u64)AUDIT_ERRORS << Q16_BITS, int_sqrt64(looks << Q16_BITS));
}

/**
 * mtier_place_horizon_ns() - Get the payback time of an exchange.
 * @p: state
 *
 * Return: time in ns, up to half a minute: the integral over the age of the part
 * that is left of the difference of two pages.
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

/* Get the index of the age that a time belongs to. */
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
 * mtier_place_audit() - Add the result of the re-check of a pair.
 * @p: state
 * @age_ns: time since the exchange of the pair
 * @gap: Q16 predicted difference of the access probabilities of the two pages
 * @looks: number of scans of both pages in the re-check
 * @hits: scans that found the promoted page accessed, minus scans that found the
 *	demoted page accessed
 */
void mtier_place_audit(struct mtier_place *p, u64 age_ns, u32 gap, u32 looks, s32 hits)
{
	struct mtier_audit_sum *sum = &p->audit[age_of(age_ns)];
	s64 most = S64_MAX / 4;
	s64 foretold = (s64)min_t(u32, gap, MTIER_Q16) * min_t(u32, looks, 1024);
	s64 seen = (s64)hits * MTIER_Q16;

	sum->foretold = clamp_t(s64, sum->foretold, 0, most) + foretold;
	sum->seen = clamp_t(s64, sum->seen, -most, most) + seen;
	/* Old results fade, so that new ones can change the estimate. */
	if (sum->foretold > AUDIT_MOST)
		audit_fade(sum);
}

/**
 * mtier_place_early() - Add the result of an early scan of a pair.
 * @p: state
 * @gap_rate: Q16 predicted difference of the numbers of accesses in @tau_ns,
 *	promoted page minus demoted page
 * @tau_ns: time that @gap_rate is for
 * @since_ns: time from the clearing of the bits of both pages to the scan
 * @hits: 1 if only the promoted page was accessed, -1 if only the demoted page was,
 *	0 if both or none were
 *
 * The access rate of a page is estimated from the share of scans that find it
 * accessed. That share is a mean over pages with different rates. It underestimates
 * the most used pages, which every scan finds accessed. A scan after a short time
 * finds few pages accessed, in proportion to their access rates.
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
 * mtier_place_factor_q8() - Get the ratio of real to predicted initial savings.
 * @p: state
 *
 * Return: Q8 ratio, at least 1/4.
 */
u32 mtier_place_factor_q8(const struct mtier_place *p)
{
	u64 foretold = clamp_t(s64, p->early.foretold, 0, 2 * EARLY_MOST);
	u64 seen = clamp_t(s64, p->early.seen, 0, 2 * EARLY_MOST);
	u64 factor = div64_u64((seen + EARLY_PRIOR) << 8, foretold + EARLY_PRIOR);

	return max_t(u64, factor, EARLY_LEAST_Q8);
}

/**
 * mtier_place_fade() - Halve the weight of the results of all re-checks.
 * @p: state
 */
void mtier_place_fade(struct mtier_place *p)
{
	u32 i;

	for (i = 0; i < MTIER_AUDIT_AGES; i++)
		audit_fade(&p->audit[i]);
	audit_fade(&p->early);
}
