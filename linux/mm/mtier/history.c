// SPDX-License-Identifier: GPL-2.0
/*
 * Access counts of the last bursts, and the number of independent pages that would give
 * estimates with the same error, as pure functions.
 *
 * A burst samples whole ranges, and pages of a range may be used together. A program that
 * sweeps over its memory uses all of them between two scans, or none. Then the error of an
 * estimate from the 2048 pages of four ranges is that of four pages. With the error of 2048
 * pages, the phase of the program would count as a difference between its pages.
 *
 * The correlation of two pages of a range follows from the access counts. If each of m
 * pages is accessed independently with the same probability q, their counts in n scans
 * are binomial, with a variance of n q (1 - q). If a scan finds all of them accessed or
 * none, their counts are equal. In between, the variance is n q (1 - q) (1 - r), where r
 * is the correlation of two pages in a scan. The error of an estimate from the m pages is
 * that of m / (1 + (m - 1) r) independent pages (Kish, "Survey Sampling", 1965). If the
 * pages have different probabilities, the variance is larger, and r is too low.
 *
 * If few scans or nearly all scans find the pages of a range accessed, r cannot be
 * estimated. The range gets the r of the other ranges.
 *
 * Locking: none; each function works on its arguments only. See place.h.
 */
#include <linux/limits.h>
#include <linux/math.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/types.h>

#include "place.h"

#define Q8_BITS		8
#define Q8		BIT(Q8_BITS)
/* Limit of all sums: their products with a factor in Q8 do not overflow. */
#define SUM_MOST	BIT_ULL(48)
/* With a binomial variance below 1/8, the correlation is unknown. */
#define CHANCE_LEAST	8

/* Number of large folios that a histogram remembers at most. */
#define LARGE_FOLIOS	256

static u64 sum_sat(u64 sum, u64 more)
{
	return min_t(u64, min_t(u64, sum, SUM_MOST) + min_t(u64, more, SUM_MOST),
		     SUM_MOST);
}

/* Calculate the pages of a range, the variance of their counts, and that of chance. */
static struct mtier_together together_of(const u32 *pages, u32 looks)
{
	struct mtier_together t = { };
	u64 hits = 0, squares = 0, mean;
	u32 c;

	for (c = 0; c <= looks; c++) {
		u64 nr = min_t(u32, pages[c], MTIER_LARGE_PAGES);

		t.pages += nr;
		hits += nr * c;
		squares += nr * c * c;
	}
	if (!t.pages)
		return t;
	mean = div64_u64(hits * hits << Q8_BITS, t.pages);
	t.within_q8 = (squares << Q8_BITS) - min_t(u64, squares << Q8_BITS, mean);
	t.chance_q8 = (hits << Q8_BITS) - div_u64(mean, looks);
	return t;
}

/*
 * Check whether the correlation can be estimated. After one scan it cannot: all counts are
 * 0 or 1, and their variance is that of chance.
 */
static bool together_known(const struct mtier_together *t, u32 looks)
{
	return looks > 1 && t->chance_q8 >= div_u64(t->pages << Q8_BITS, CHANCE_LEAST);
}

/* Get the correlation of two pages of a range, less two standard errors, in Q8. */
static u32 together_q8(const struct mtier_together *t)
{
	u64 part, error;

	if (!t->pages || !t->chance_q8)
		return 0;
	part = div64_u64(t->within_q8 << Q8_BITS, t->chance_q8);
	/* The relative error of the variance is sqrt(2 / pages + 1 / chance). */
	error = int_sqrt64(div64_u64((u64)Q8 * Q8 * 8, t->pages) +
			   div64_u64((u64)Q8 * Q8 * Q8 * 4, t->chance_q8));
	return Q8 - min_t(u64, sum_sat(part, error), Q8);
}

/* Add the number of independent pages for the @nr pages of a range. @r_q8: correlation. */
static void add_alone(u64 *alone_q8, const u32 *pages, u32 looks, u64 nr, u32 r_q8)
{
	u32 effect_q8 = Q8 + (min_t(u64, nr, MTIER_LARGE_PAGES) - 1) * r_q8;
	u32 c;

	for (c = 0; c <= looks; c++)
		alone_q8[c] = sum_sat(alone_q8[c],
				      div_u64((u64)pages[c] << 2 * Q8_BITS, effect_q8));
}

/**
 * mtier_evidence_add() - Add the pages of a range.
 * @e: evidence of a burst, zero at first
 * @rank: their tier
 * @pages: number of its single pages, by access count
 * @looks: number of scans, 1 to MTIER_LOOKS_MOST
 */
void mtier_evidence_add(struct mtier_evidence *e, u32 rank, const u32 *pages, u32 looks)
{
	struct mtier_together t = together_of(pages, looks);
	u32 c;

	if (!t.pages)
		return;
	if (together_known(&t, looks)) {
		add_alone(e->alone.pages_q8[rank], pages, looks, t.pages, together_q8(&t));
		e->together.pages += t.pages;
		e->together.within_q8 = sum_sat(e->together.within_q8, t.within_q8);
		e->together.chance_q8 = sum_sat(e->together.chance_q8, t.chance_q8);
		return;
	}
	e->unsure_ranges[rank]++;
	for (c = 0; c <= looks; c++)
		e->unsure[rank][c] += pages[c];
}

/**
 * mtier_evidence_drop() - Remove the pages of a tier.
 * @e: evidence of a burst
 * @rank: the tier
 *
 * Its ranges still count for the correlation of pages.
 */
void mtier_evidence_drop(struct mtier_evidence *e, u32 rank)
{
	memset(e->alone.pages_q8[rank], 0, sizeof(e->alone.pages_q8[rank]));
	memset(e->unsure[rank], 0, sizeof(e->unsure[rank]));
	e->unsure_ranges[rank] = 0;
}

static u64 kept(u64 sum, u32 keep, u32 most, u64 seen)
{
	return sum_sat(mul_u64_u64_div_u64(min_t(u64, sum, SUM_MOST), keep, most), seen);
}

/* Scale the evidence of earlier bursts by @keep / @most, and add that of a burst. */
static void remember_evidence(struct mtier_place *p, u32 looks,
			      const struct mtier_evidence *e, u32 keep, u32 most)
{
	struct mtier_together *t = &p->together;
	u32 rank, c, r_q8;

	t->pages = kept(t->pages, keep, most, e->together.pages);
	t->within_q8 = kept(t->within_q8, keep, most, e->together.within_q8);
	t->chance_q8 = kept(t->chance_q8, keep, most, e->together.chance_q8);
	r_q8 = together_q8(t);
	for (rank = MTIER_TOP; rank < MTIER_RANKS; rank++) {
		u64 alone[MTIER_LOOKS_MOST + 1] = { }, nr = 0;

		for (c = 0; c <= looks; c++)
			nr += e->unsure[rank][c];
		nr = div_u64(nr, max_t(u32, e->unsure_ranges[rank], 1));
		if (nr)
			add_alone(alone, e->unsure[rank], looks, nr, r_q8);
		for (c = 0; c <= looks; c++)
			p->alone[looks].pages_q8[rank][c] =
				kept(p->alone[looks].pages_q8[rank][c], keep, most,
				     sum_sat(e->alone.pages_q8[rank][c], alone[c]));
	}
}

/* All pages are independent. */
static void remember_alone(struct mtier_place *p, u32 looks)
{
	u32 rank, c;

	for (rank = MTIER_TOP; rank < MTIER_RANKS; rank++)
		for (c = 0; c <= looks; c++)
			p->alone[looks].pages_q8[rank][c] =
				(u64)p->hist[looks].pages[rank][c] << Q8_BITS;
}

/*
 * Add the access counts of the classes from @top on. The older counts are scaled down, to
 * keep at most @most pages in all. Returns the number of older pages that are kept.
 */
static u32 remember(struct mtier_counts *hist, u32 looks,
		    const struct mtier_counts *seen, u32 top, u32 most)
{
	u64 pages = 0;
	u32 keep;
	u32 g, c;

	for (g = top; g < top + MTIER_RANKS; g++)
		for (c = 0; c <= looks; c++)
			pages += seen->pages[g][c];
	keep = most - min_t(u64, pages, most);
	for (g = top; g < top + MTIER_RANKS; g++)
		for (c = 0; c <= looks; c++) {
			u32 *n = &hist->pages[g][c];

			*n = min_t(u64, (u64)*n * keep / most + seen->pages[g][c],
				   U32_MAX);
		}
	return keep;
}

/**
 * mtier_place_look() - Add the access counts after a scan.
 * @p: state
 * @looks: number of scans in this burst, 1 to MTIER_LOOKS_MOST
 * @seen: pages of the burst by access count, without pages that migrated in it: their
 *	current tier is no evidence
 * @e: evidence from the ranges of the single pages; NULL if all pages are independent
 *
 * A burst of MTIER_BURST_PAGES suffices alone; smaller bursts add up. There are fewer
 * large folios than pages. To make up for part of that, they are remembered longer.
 */
void mtier_place_look(struct mtier_place *p, u32 looks, const struct mtier_counts *seen,
		      const struct mtier_evidence *e)
{
	u32 keep;

	if (!looks || looks > MTIER_LOOKS_MOST)
		return;
	keep = remember(&p->hist[looks], looks, seen, MTIER_TOP, MTIER_BURST_PAGES);
	if (e)
		remember_evidence(p, looks, e, keep, MTIER_BURST_PAGES);
	else
		remember_alone(p, looks);
	remember(&p->hist[looks], looks, seen, MTIER_TOP + MTIER_LARGE,
		 LARGE_FOLIOS * MTIER_LARGE_PAGES);
}

/**
 * mtier_place_forget() - Forget the access counts of all bursts.
 * @p: state
 */
void mtier_place_forget(struct mtier_place *p)
{
	memset(p->hist, 0, sizeof(p->hist));
	memset(p->alone, 0, sizeof(p->alone));
	p->together = (struct mtier_together) { };
}
