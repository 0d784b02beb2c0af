// SPDX-License-Identifier: GPL-2.0
/*
 * Decision which pages belong into the fast tier, as pure functions: the estimate of
 * access probabilities, and the choice of the pages to exchange. pace.c sets the scan
 * interval, and the CPU time of scans.
 *
 * The estimate: of the pages with the same access count in n - 1 scans, one more scan
 * finds a share accessed. Only this share is needed, and it is estimated from the
 * pages alone (Robbins, "An empirical Bayes approach to statistics", 1956). A page
 * with c + 1 hits in n scans had c hits in the other n - 1 scans, for c + 1 choices
 * of the last scan. A page with c hits had c in the other n - 1, for n - c choices.
 * So the share is
 *
 *	(c + 1) N[c + 1] / ((c + 1) N[c + 1] + (n - c) N[c])
 *
 * with N[c] pages of access count c. If all pages are used alike, N is binomial and
 * the share is the same for all access counts. Then no exchange gains anything: the
 * histogram separates chance from difference. Each tier has a separate histogram,
 * since the tier of a page is evidence. A page of low access count in DRAM is more
 * likely a hot page with bad luck than a page of that count in slow memory is.
 *
 * Locking: none; each function works on its arguments only. See place.h, and
 * tools/testing/mtier for this file in user space.
 */
#include <linux/bitops.h>
#include <linux/bits.h>
#include <linux/limits.h>
#include <linux/math.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

#include "place.h"

#define Q16_BITS	16
#define Q8_BITS		8
#define Q8		BIT(Q8_BITS)
#define LN2_Q16		45426U		/* ln(2) */
#define Q_MAX		64881U		/* 0.99: higher rates cannot be distinguished */

/* Scans at the mean of a tier that each share starts with. */
#define PRIOR_LOOKS	4
/* Fraction bits of numbers of scans in the calculation of shares. */
#define LOOK_BITS	8
/* Largest sum of a histogram without any overflow. */
#define SAMPLE_MAX	BIT(20)

/* Exchanged pages must differ by this many errors, and by this factor. */
#define ERRORS_X2	3		/* 1.5 on each side */
#define RATIO_NUM	5		/* 5/4 of the rate */
#define RATIO_DEN	4
/* A page that so many scans find accessed cannot be distinguished from a hotter one. */
#define SATURATED	(MTIER_Q16 * 19 / 20)

/*
 * A scan that finds a folio accessed may have found one access, or one to each of its
 * pages. Each order of magnitude is as likely, so the mean is 511 / ln(512).
 */
#define LARGE_ACCESSES	82
/*
 * A page of a large folio migrates in this part of the time of a single page: it is
 * copied.
 */
#define LARGE_MOVE	4

#define LATENCY_NS	150
#define LATENCY_MAX_NS	1000000U
#define GAIN_MAX_NS	BIT_ULL(31)	/* of one page */

/**
 * mtier_place_rate() - Get the access rate for an access probability.
 * @q: Q16 probability that a scan finds the page accessed
 *
 * Independent accesses are a Poisson process: q = 1 - exp(-rate).
 *
 * Return: Q16 accesses in a scan interval, -ln(1 - q), for q of at most 0.99.
 */
u32 mtier_place_rate(u32 q)
{
	u32 rest = MTIER_Q16 - min_t(u32, q, Q_MAX);
	u32 shift = Q16_BITS + 1 - fls(rest);
	u64 y = (u64)rest << (15 + shift);	/* Q31, 1 to 2 */
	u32 log2 = 0;
	u32 i;

	/* Calculate the binary digits of log2(y), with one squaring for each. */
	for (i = 0; i < Q16_BITS; i++) {
		y = y * y >> 31;
		log2 <<= 1;
		if (y >> 32) {
			y >>= 1;
			log2 |= 1;
		}
	}
	return (u64)((shift << Q16_BITS) - log2) * LN2_Q16 >> Q16_BITS;
}

/*
 * Calculate exp(-x), x in Q16 up to 1/2, by Pade's formula. The error is about
 * 3/65536.
 */
static u64 exp_small(u64 x)
{
	u64 square = x * x >> Q16_BITS;

	return div64_u64((12 * MTIER_Q16 - 6 * x + square) << Q16_BITS,
			 12 * MTIER_Q16 + 6 * x + square);
}

/**
 * mtier_place_q_at() - Convert an access probability to another scan interval.
 * @q: Q16 probability that a scan finds a page accessed
 * @tau_ns: scan interval of @q
 * @other_ns: the other scan interval
 *
 * The model is that of mtier_place_rate(). If each scan finds a page accessed, its
 * rate may be higher than known. So for shorter intervals the result is rather too
 * low than too high.
 *
 * Return: Q16 probability.
 */
u32 mtier_place_q_at(u32 q, u64 tau_ns, u64 other_ns)
{
	u64 rate, rest;

	tau_ns = clamp_t(u64, tau_ns, MTIER_TAU_MIN_NS, MTIER_TAU_CAP_NS);
	other_ns = clamp_t(u64, other_ns, MTIER_TAU_MIN_NS, MTIER_TAU_CAP_NS);
	rate = min_t(u64, div64_u64(mtier_place_rate(q) * other_ns, tau_ns),
		     8 * MTIER_Q16);
	rest = exp_small(rate / 16);
	rest = rest * rest >> Q16_BITS;
	rest = rest * rest >> Q16_BITS;
	rest = rest * rest >> Q16_BITS;
	rest = rest * rest >> Q16_BITS;
	return MTIER_Q16 - rest;
}

/*
 * Entry for an access count: scans, in 1/256, in which the next scan found a page
 * accessed, and scans in which it did not. An entry of several pooled access counts has
 * the sums.
 */
struct share {
	u64 hit;
	u64 miss;
	u32 counts;
};

/* Calculate the shares of a class. False if it has no sample. @shift: pages to folios. */
static bool group_shares(const u32 *hist, u32 looks, u32 shift, struct share *share)
{
	u64 pages = 0, hits = 0, all;
	u32 c;

	for (c = 0; c <= looks; c++)
		pages += hist[c];
	while (pages >> shift > SAMPLE_MAX)
		shift++;
	pages = 0;
	for (c = 0; c <= looks; c++) {
		pages += hist[c] >> shift;
		hits += (u64)c * (hist[c] >> shift);
	}
	all = pages * looks;
	if (!all)
		return false;
	for (c = 0; c < looks; c++) {
		u64 same = hist[c] >> shift;
		u64 more = hist[c + 1] >> shift;

		share[c] = (struct share) {
			.hit = ((c + 1) * more << LOOK_BITS) +
			       div64_u64(hits * PRIOR_LOOKS << LOOK_BITS, all),
			.miss = ((looks - c) * same << LOOK_BITS) +
				div64_u64((all - hits) * PRIOR_LOOKS << LOOK_BITS,
					  all),
			.counts = 1,
		};
	}
	return true;
}

/*
 * A page with a higher access count is not less in use. If the share falls with the
 * access count, that is chance, and the entries are pooled (pool adjacent violators).
 * Returns the number of entries left.
 */
static u32 pool(struct share *share, u32 nr)
{
	u32 kept = 0;
	u32 i;

	for (i = 0; i < nr; i++) {
		share[kept++] = share[i];
		while (kept > 1) {
			struct share *a = &share[kept - 2];
			struct share *b = &share[kept - 1];

			if (a->hit * b->miss < b->hit * a->miss)
				break;
			a->hit += b->hit;
			a->miss += b->miss;
			a->counts += b->counts;
			kept--;
		}
	}
	return kept;
}

static u32 share_q(const struct share *share)
{
	u64 all = share->hit + share->miss;

	return all ? div64_u64(share->hit << Q16_BITS, all) : 0;
}

static bool is_large(u32 group)
{
	return group >= MTIER_LARGE;
}

/* Get the number of independent pages, or large folios, of an access count, in Q8. */
static u64 alone_q8(const struct mtier_place *p, u32 looks, u32 g, u32 count)
{
	u64 alone = is_large(g) ?
		(u64)p->hist[looks].pages[g][count] << Q8_BITS >> MTIER_LARGE_BITS :
		p->alone[looks].pages_q8[g][count];

	return min_t(u64, alone, (u64)SAMPLE_MAX << Q8_BITS);
}

/*
 * Get the error of the share @q of the access counts from @first to @last. The standard
 * error of the log odds is sqrt(1/N[c] + 1/N[c + 1]). For the spread, one page more is
 * assumed to be accessed, and one not (Laplace): if no page of a few is, they need not be
 * idle.
 */
static u32 share_se(const struct mtier_place *p, u32 looks, u32 g, u32 first, u32 last,
		    u32 q)
{
	u64 weight = 0, alone = 0, likely;
	u32 c;

	for (c = first; c <= last; c++) {
		u64 same = alone_q8(p, looks, g, c), more = alone_q8(p, looks, g, c + 1);

		weight += div64_u64((same + Q8) * (more + Q8), same + more + 2 * Q8);
		alone += same + more;
	}
	likely = div64_u64(q * alone + Q8 * MTIER_Q16, alone + 2 * Q8);
	return div64_u64(likely * (MTIER_Q16 - likely) >> 12,
			 max_t(u64, int_sqrt64(weight), 1));
}

static void group_worth(const struct mtier_place *p, u32 g, struct mtier_worth *w)
{
	struct share share[MTIER_LOOKS_MOST];
	u32 q[MTIER_LOOKS_MOST], se[MTIER_LOOKS_MOST];
	u32 n = w->looks;
	u32 nr, i, k, c = 0;

	w->known[g] = group_shares(p->hist[n].pages[g], n,
				   is_large(g) ? MTIER_LARGE_BITS : 0, share);
	if (!w->known[g])
		return;
	nr = pool(share, n);
	for (i = 0; i < nr; i++) {
		u32 found = share_q(&share[i]);
		u32 error = share_se(p, n, g, c, c + share[i].counts - 1, found);

		for (k = 0; k < share[i].counts; k++, c++) {
			q[c] = found;
			se[c] = error;
		}
	}
	/*
	 * Leave out one of n scans: n - c choices leave all c hits, and c choices
	 * leave c - 1.
	 */
	for (c = 0; c <= n; c++) {
		u32 same = min_t(u32, c, n - 1);
		u32 less = c ? c - 1 : 0;

		w->q[g][c] = ((n - c) * q[same] + c * q[less]) / n;
		w->se[g][c] = ((n - c) * se[same] + c * se[less]) / n;
	}
}

/**
 * mtier_place_worth() - Estimate the access probability for each access count.
 * @p: state
 * @looks: number of scans, clamped to 1 to MTIER_LOOKS_MOST
 * @w: set to the result
 */
void mtier_place_worth(const struct mtier_place *p, u32 looks,
		       struct mtier_worth *w)
{
	u32 g;

	*w = (struct mtier_worth) {
		.looks = clamp_t(u32, looks, 1, MTIER_LOOKS_MOST),
	};
	for (g = 0; g < MTIER_GROUPS; g++)
		group_worth(p, g, w);
}

static u32 latency_ns(const struct mtier_place_machine *m)
{
	return min_t(u32, m->latency_ns ?: LATENCY_NS, LATENCY_MAX_NS);
}

/*
 * Get the time that a page saves. @rate: additional accesses to MTIER_LARGE_PAGES
 * pages like it in a scan interval.
 */
static u64 saving_ns(const struct mtier_place *p,
		     const struct mtier_place_machine *m, u64 rate)
{
	u64 tau = max_t(u64, p->tau_ns, MTIER_TAU_MIN_NS);
	u64 worth = mtier_place_horizon_ns(p) * latency_ns(m);
	u64 told = min_t(u64, div64_u64(worth, tau) * rate >>
			      (Q16_BITS + MTIER_LARGE_BITS), GAIN_MAX_NS);

	return min_t(u64, told * mtier_place_factor_q8(p) >> 8, GAIN_MAX_NS);
}

static u32 move_ns(const struct mtier_place_machine *m, u32 group)
{
	return is_large(group) ? m->move_ns / LARGE_MOVE : m->move_ns;
}

/* Progress of a plan: the pages left for it. */
struct taking {
	struct mtier_counts low;
	struct mtier_counts top;
	u64 limit;
	u64 free;
	u64 spare;
	u64 whole;
	u32 at_low[MTIER_GROUPS];
	u32 at_top[MTIER_GROUPS];
	bool over[MTIER_GROUPS];
};

/* Advance to the next pages of a class to promote, most used first. */
static bool next_low(struct taking *t, u32 g)
{
	while (!t->low.pages[g][t->at_low[g]]) {
		if (!t->at_low[g])
			return false;
		t->at_low[g]--;
	}
	/*
	 * There are many idle pages. They would use up the free memory before others
	 * need it.
	 */
	return t->at_low[g] || !t->free;
}

/* Advance to the next pages of a class to demote, least used first. */
static bool next_top(struct taking *t, u32 g, u32 looks)
{
	while (!t->top.pages[g][t->at_top[g]]) {
		if (t->at_top[g] == looks)
			return false;
		t->at_top[g]++;
	}
	return true;
}

/* Get a lower bound of the access rate of the next pages of a class to promote. */
static u32 low_found(const struct mtier_worth *w, const struct taking *t, u32 g)
{
	u32 q = w->q[g][t->at_low[g]], se = w->se[g][t->at_low[g]];

	return mtier_place_rate(q - min_t(u32, q, se * ERRORS_X2 / 2));
}

/* Get an upper bound of the access rate of the next pages of a class to demote. */
static u32 top_found(const struct mtier_worth *w, const struct taking *t, u32 g)
{
	u32 q = w->q[g][t->at_top[g]], se = w->se[g][t->at_top[g]];

	return mtier_place_rate(q + se * ERRORS_X2 / 2);
}

/*
 * Get the access rate of MTIER_LARGE_PAGES: a lower bound for pages to promote, an upper
 * bound for pages to demote. If the page to promote is a large folio, the victim is
 * counted in the same way.
 */
static u64 low_rate(const struct mtier_worth *w, const struct taking *t, u32 g)
{
	return (u64)low_found(w, t, g) << (is_large(g) ? 0 : MTIER_LARGE_BITS);
}

static u64 top_rate(const struct mtier_worth *w, const struct taking *t, u32 g,
		    u32 low)
{
	return (u64)top_found(w, t, g) << (is_large(low) ? 0 : MTIER_LARGE_BITS);
}

/* Get the mean access rate of MTIER_LARGE_PAGES. */
static u64 mean_rate(u32 found, u32 g)
{
	return (u64)found * (is_large(g) ? LARGE_ACCESSES : MTIER_LARGE_PAGES);
}

/*
 * Get the class of the next victim for a page of class @low, MTIER_GROUPS if there is
 * none. Demoted single pages leave no contiguous block, so they are no victims for a
 * large folio.
 */
static u32 victim_for(const struct mtier_worth *w, struct taking *t, u32 low)
{
	u32 g, best = MTIER_GROUPS;
	u64 rate, best_rate = 0;

	for (g = 0; g < MTIER_GROUPS; g++) {
		if ((is_large(low) && !is_large(g)) || !w->known[g] ||
		    !next_top(t, g, w->looks))
			continue;
		rate = top_rate(w, t, g, low);
		if (best == MTIER_GROUPS || rate < best_rate) {
			best = g;
			best_rate = rate;
		}
	}
	return best;
}

/* Get the class whose next pages are used most, MTIER_GROUPS if none is left. */
static u32 hottest(const struct mtier_worth *w, struct taking *t)
{
	u32 g, best = MTIER_GROUPS;

	for (g = 0; g < MTIER_GROUPS; g++) {
		if (t->over[g] || !w->known[g] || !next_low(t, g))
			continue;
		if (best == MTIER_GROUPS ||
		    low_rate(w, t, g) > low_rate(w, t, best))
			best = g;
	}
	return best;
}

/* Get the reason why two pages seem alike: scans may be unable to distinguish them. */
static enum mtier_plan_why alike(const struct mtier_place *p, u32 victim_q)
{
	return p->tau_ns <= MTIER_TAU_MIN_NS && victim_q >= SATURATED ?
	       MTIER_PLAN_SATURATED : MTIER_PLAN_ALIKE;
}

/*
 * Get an upper bound of the access rate of pages that nobody maps: none of them was
 * used in @spare_ns.
 */
static u32 spare_found(const struct mtier_place *p,
		       const struct mtier_place_machine *m)
{
	u64 tau = clamp_t(u64, p->tau_ns, MTIER_TAU_MIN_NS, MTIER_TAU_CAP_NS);

	return min_t(u64, (tau << Q16_BITS) / max_t(u64, m->spare_ns, 1), U32_MAX);
}

/* Get it for MTIER_LARGE_PAGES. If they leave as a whole, none of them was used. */
static u64 spare_rate(const struct mtier_place *p,
		      const struct mtier_place_machine *m, u32 low)
{
	return (u64)spare_found(p, m) << (is_large(low) ? 0 : MTIER_LARGE_BITS);
}

/*
 * Check whether pages that nobody maps make room for a page of class @low, rather than
 * the mapped page @v.
 */
static bool spare_for(const struct mtier_place *p,
		      const struct mtier_place_machine *m,
		      const struct mtier_worth *w, const struct taking *t,
		      u32 low, u32 v)
{
	return (is_large(low) ? t->whole : t->spare) &&
	       (v == MTIER_GROUPS ||
		spare_rate(p, m, low) <= top_rate(w, t, v, low));
}

/* Take such pages for @nr pages of class @low. Returns the number that there is. */
static u64 spare_take(struct taking *t, u32 low, u64 nr)
{
	nr = min_t(u64, nr, is_large(low) ? t->whole : t->spare);
	t->spare -= min_t(u64, nr, t->spare);
	t->whole -= is_large(low) ? nr : 0;
	t->whole = min_t(u64, t->whole, t->spare);
	return nr;
}

/*
 * The pages that are demoted for a pair: their access rate as a bound for MTIER_LARGE_PAGES
 * and on average, the time of their migration, and the access probability of mapped pages.
 */
struct victim {
	u64 cold;
	u64 less;
	u32 cost;
	u32 q;
};

/* Choose what is demoted for pages of class @g. False if there is nothing. */
static bool choose_victim(const struct mtier_place *p,
			  const struct mtier_place_machine *m,
			  const struct mtier_worth *w, struct taking *t, u32 g,
			  struct mtier_run *run, struct victim *out)
{
	u32 v = victim_for(w, t, g);

	run->spare = spare_for(p, m, w, t, g, v);
	if (run->spare) {
		out->cold = spare_rate(p, m, g);
		out->less = out->cold;
		out->cost = m->move_ns;
		return true;
	}
	if (v == MTIER_GROUPS)
		return false;
	run->top = t->at_top[v];
	run->top_group = v;
	out->q = w->q[v][t->at_top[v]];
	out->cold = top_rate(w, t, v, g);
	out->less = mean_rate(top_found(w, t, v), v);
	out->cost = move_ns(m, v);
	return true;
}

/*
 * Get the reason against an exchange of the next pages of a class to promote,
 * MTIER_PLAN_RATE if there is none. Fills in the plan entry, and the gain of one page
 * of it.
 */
static enum mtier_plan_why pair_up(const struct mtier_place *p,
				   const struct mtier_place_machine *m,
				   const struct mtier_worth *w, struct taking *t,
				   u32 g, struct mtier_run *run, u64 *gain_ns)
{
	u64 more = mean_rate(low_found(w, t, g), g);
	struct victim victim = { 0 };
	u32 cost;

	*run = (struct mtier_run) {
		.low = t->at_low[g],
		.low_group = g,
		.top = MTIER_NO_VICTIM,
		.gap = w->q[g][t->at_low[g]],
	};
	if (!t->free && !choose_victim(p, m, w, t, g, run, &victim))
		return MTIER_PLAN_NO_VICTIM;
	run->gap -= min_t(u32, run->gap, victim.q);
	if (low_rate(w, t, g) * RATIO_DEN <= victim.cold * RATIO_NUM)
		return alike(p, victim.q);
	cost = move_ns(m, g) + victim.cost;
	*gain_ns = saving_ns(p, m, more - victim.less);
	if (*gain_ns < cost)
		return MTIER_PLAN_COST;
	*gain_ns -= cost;
	return MTIER_PLAN_RATE;
}

/* Get the next plan entry. If one class has none left, the other class goes on. */
static bool next_run(const struct mtier_place *p,
		     const struct mtier_place_machine *m,
		     const struct mtier_worth *w, struct taking *t,
		     struct mtier_run *run, u64 *gain_ns, enum mtier_plan_why *why)
{
	enum mtier_plan_why is;
	u32 g;

	while (t->limit) {
		g = hottest(w, t);
		if (g == MTIER_GROUPS)
			return false;
		is = pair_up(p, m, w, t, g, run, gain_ns);
		if (is == MTIER_PLAN_RATE)
			return true;
		t->over[g] = true;
		/* The reason for single pages takes precedence, if there are any. */
		if (!is_large(g) || *why == MTIER_PLAN_NOBODY)
			*why = is;
	}
	*why = MTIER_PLAN_RATE;
	return false;
}

/**
 * mtier_place_plan() - Plan which pages are exchanged between some nodes and slower ones.
 * @p: state
 * @m: the machine; its @free, @spare and @whole are those of the target nodes
 * @w: estimated access probabilities
 * @low: pages of this burst by access count that may be promoted to the target nodes
 * @top: pages of this burst by access count that may be demoted from the target nodes
 * @limit: number of pages that may be promoted now
 * @plan: set to the plan
 *
 * The most used pages of @low are exchanged for the least used pages of @top, pair by pair,
 * while a pair saves more than it costs, and its pages differ by more than chance.
 * Free memory counts as a victim that is never accessed. It is not used for pages
 * that no scan has found accessed.
 *
 * For a large folio, the part that was used is not known. So a large folio is
 * promoted into free memory, or for another large folio that is used less. It is also
 * demoted for single pages, if each of them is used more than any of its pages can
 * be. Whether an exchange pays is decided with the mean for large folios.
 */
void mtier_place_plan(const struct mtier_place *p,
		      const struct mtier_place_machine *m,
		      const struct mtier_worth *w, const struct mtier_counts *low,
		      const struct mtier_counts *top, u64 limit,
		      struct mtier_plan *plan)
{
	struct taking t = {
		.low = *low,
		.top = *top,
		.limit = limit,
		.free = m->free,
		.spare = m->spare,
		.whole = m->whole,
	};
	struct mtier_run run = { 0 };
	u64 gain_ns;
	u32 g;

	for (g = 0; g < MTIER_GROUPS; g++)
		t.at_low[g] = min_t(u32, w->looks, MTIER_LOOKS_MOST);
	*plan = (struct mtier_plan) { .why = MTIER_PLAN_NOBODY };
	while (next_run(p, m, w, &t, &run, &gain_ns, &plan->why)) {
		u32 *left = &t.low.pages[run.low_group][run.low];
		u64 nr = min_t(u64, t.limit, *left);

		if (t.free) {
			nr = min_t(u64, nr, t.free);
			t.free -= nr;
		} else if (run.spare) {
			nr = spare_take(&t, run.low_group, nr);
		} else {
			u32 *victims = &t.top.pages[run.top_group][run.top];

			nr = min_t(u64, nr, *victims);
			*victims -= nr;
		}
		nr = min_t(u64, nr, U32_MAX - plan->pages);
		*left -= nr;
		t.limit -= nr;
		run.pages = nr;
		plan->run[plan->nr++] = run;
		plan->pages += nr;
		plan->spare += run.spare ? nr : 0;
		plan->gain_ns += min_t(u64, nr * gain_ns, U64_MAX - plan->gain_ns);
		if (plan->nr == MTIER_RUNS_MAX || plan->pages == U32_MAX)
			break;
	}
}

/**
 * mtier_place_tau_max_ns() - Get the longest useful scan interval.
 * @m: the machine
 *
 * A page that is accessed too rarely does not pay for two migrations. At this scan
 * interval, that is true for all pages that half of the scans find accessed.
 *
 * Return: ns.
 */
u64 mtier_place_tau_max_ns(const struct mtier_place_machine *m)
{
	u64 saved = MTIER_HORIZON_NS * latency_ns(m) >> Q16_BITS;
	u64 tau = div64_u64(saved * LN2_Q16, 2ULL * max_t(u32, m->move_ns, 1));

	return clamp_t(u64, tau, MTIER_TAU_MIN_NS, MTIER_TAU_CAP_NS);
}
