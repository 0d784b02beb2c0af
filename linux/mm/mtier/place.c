// SPDX-License-Identifier: GPL-2.0
/*
 * Which pages belong into the top tier, as pure functions: what a count of looks
 * is worth, and which pages change places for it.  How far apart the looks are,
 * and how much CPU time they may take, is in pace.c.
 *
 * What a count is worth.  Of the pages with the same count in n - 1 looks some are
 * found accessed by one more look: the share that is, estimated from the pages
 * alone, is all that is asked (Robbins, "An empirical Bayes approach to
 * statistics", 1956).  A page with c + 1 hits in n looks has had c in the other
 * n - 1 for c + 1 of the looks that may have been the last, one with c hits for
 * n - c of them, so that share is
 *
 *	(c + 1) N[c + 1] / ((c + 1) N[c + 1] + (n - c) N[c])
 *
 * with N[c] pages of count c.  Where all pages are used alike N is binomial, the
 * share is the same for all counts, and there is nothing to gain by moving any:
 * the histogram tells chance from difference.  Each side has a histogram of its
 * own, since where a page lies is evidence, too: a page of low count in DRAM is
 * more likely a hot one with bad luck than one of that count in slow memory.
 *
 * Locking: none; every function works on its arguments only.  See place.h, and
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
#define LN2_Q16		45426U		/* ln(2) */
#define Q_MAX		64881U		/* 0.99: beyond it rates cannot be told apart */

/* Looks at the mean of a side that each share starts with. */
#define PRIOR_LOOKS	4
/* Fraction bits of looks while shares are made. */
#define LOOK_BITS	8
/* Largest sum of a histogram for which nothing overflows. */
#define SAMPLE_MAX	BIT(20)

/* Who changes places has to be apart by so many errors, and by so much. */
#define ERRORS_X2	3		/* 1.5 on each side */
#define RATIO_NUM	5		/* 5/4 of the rate */
#define RATIO_DEN	4
/* Found by so many looks no page is told from one that is used more. */
#define SATURATED	(MTIER_Q16 * 19 / 20)

/*
 * What a look finds of a folio may be one access to it, or one to each of its pages:
 * any order of magnitude is as likely, which is 511 / ln(512) on average.
 */
#define LARGE_ACCESSES	82
/* Of a large folio no more is remembered than of so many. */
#define LARGE_FOLIOS	256
/* A page of one takes such a part of a single one's time to move: it is copied. */
#define LARGE_MOVE	4

#define LATENCY_NS	150
#define LATENCY_MAX_NS	1000000U
#define GAIN_MAX_NS	BIT_ULL(31)	/* of one page */

/**
 * mtier_place_rate - how often is a page accessed that looks find accessed?
 * @q: Q16 probability that a look finds it accessed
 *
 * Accesses that do not know of each other are a Poisson process: q = 1 - exp(-rate).
 *
 * Return: Q16 accesses between two looks, -ln(1 - q), of at most 0.99.
 */
u32 mtier_place_rate(u32 q)
{
	u32 rest = MTIER_Q16 - min_t(u32, q, Q_MAX);
	u32 shift = Q16_BITS + 1 - fls(rest);
	u64 y = (u64)rest << (15 + shift);	/* Q31, 1 to 2 */
	u32 log2 = 0;
	u32 i;

	/* The binary digits of log2(y), one squaring each. */
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

/* exp(-x), x in Q16 up to 1/2: Pade's, off by some 3/65536. */
static u64 exp_small(u64 x)
{
	u64 square = x * x >> Q16_BITS;

	return div64_u64((12 * MTIER_Q16 - 6 * x + square) << Q16_BITS,
			 12 * MTIER_Q16 + 6 * x + square);
}

/**
 * mtier_place_q_at - how often do looks of another distance find a page?
 * @q: Q16 probability that a look finds it accessed
 * @tau_ns: the distance that this is true for
 * @other_ns: the other one
 *
 * As for mtier_place_rate().  Of pages that each look finds no more is known than
 * that, so what this says of shorter distances is too little rather than too much.
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

/* Add what was seen of a group of each side; no more than @most is kept of others. */
static void remember(struct mtier_counts *hist, u32 looks,
		     const struct mtier_counts *seen, u32 top, u32 most)
{
	u64 pages = 0;
	u32 keep;
	u32 g, c;

	for (g = top; g < top + MTIER_SIDES; g++)
		for (c = 0; c <= looks; c++)
			pages += seen->pages[g][c];
	keep = most - min_t(u64, pages, most);
	for (g = top; g < top + MTIER_SIDES; g++)
		for (c = 0; c <= looks; c++) {
			u32 *n = &hist->pages[g][c];

			*n = min_t(u64, (u64)*n * keep / most + seen->pages[g][c],
				   U32_MAX);
		}
}

/**
 * mtier_place_look - add what was found by a look
 * @p: state
 * @looks: how many looks there were in this burst, 1 to MTIER_LOOKS_MOST
 * @seen: pages of the burst by count; those that moved in it left out, since
 *	where they lie now is no evidence
 *
 * A burst of MTIER_BURST_PAGES stands for itself; smaller ones add up.  That there
 * are fewer large folios than pages makes up for some: they are remembered longer.
 */
void mtier_place_look(struct mtier_place *p, u32 looks,
		      const struct mtier_counts *seen)
{
	if (!looks || looks > MTIER_LOOKS_MOST)
		return;
	remember(&p->hist[looks], looks, seen, MTIER_TOP, MTIER_BURST_PAGES);
	remember(&p->hist[looks], looks, seen, MTIER_TOP + MTIER_LARGE,
		 LARGE_FOLIOS * MTIER_LARGE_PAGES);
}

/*
 * Of a count: looks, in 1/256, in which the next one found a page accessed, in
 * which it did not, and as how many pages that counts for its error; a run of
 * counts that are taken together has the sums.
 */
struct share {
	u64 hit;
	u64 miss;
	u64 weight;
	u32 counts;
};

/* False if nothing was seen of this group; @shift makes folios of its pages. */
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
			.weight = div64_u64((same + 1) * (more + 1),
					    same + more + 2),
			.counts = 1,
		};
	}
	return true;
}

/*
 * A page that was found more often is not less in use: where the shares fall that
 * is chance, and the counts are taken together (pool adjacent violators).  Returns
 * how many runs are left.
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
			a->weight += b->weight;
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

/* That of the log odds is sqrt(1/N[c] + 1/N[c + 1]). */
static u32 share_se(const struct share *share, u32 q)
{
	u64 spread = (u64)q * (MTIER_Q16 - q) >> 12;

	return div64_u64(spread, max_t(u64, int_sqrt64(share->weight << 8), 1));
}

static bool is_large(u32 group)
{
	return group >= MTIER_LARGE;
}

static void group_worth(const u32 *hist, u32 g, struct mtier_worth *w)
{
	struct share share[MTIER_LOOKS_MOST];
	u32 q[MTIER_LOOKS_MOST], se[MTIER_LOOKS_MOST];
	u32 n = w->looks;
	u32 nr, i, k, c = 0;

	w->known[g] = group_shares(hist, n, is_large(g) ? MTIER_LARGE_BITS : 0,
				   share);
	if (!w->known[g])
		return;
	nr = pool(share, n);
	for (i = 0; i < nr; i++)
		for (k = 0; k < share[i].counts; k++, c++) {
			q[c] = share_q(&share[i]);
			se[c] = share_se(&share[i], q[c]);
		}
	/* Of c hits in n looks, n - c of the looks that may be left out leave c. */
	for (c = 0; c <= n; c++) {
		u32 same = min_t(u32, c, n - 1);
		u32 less = c ? c - 1 : 0;

		w->q[g][c] = ((n - c) * q[same] + c * q[less]) / n;
		w->se[g][c] = ((n - c) * se[same] + c * se[less]) / n;
	}
}

/**
 * mtier_place_worth - what each count says after some look
 * @p: state
 * @looks: which, 1 to MTIER_LOOKS_MOST; others are taken for the nearest of these
 * @w: where to put it
 */
void mtier_place_worth(const struct mtier_place *p, u32 looks,
		       struct mtier_worth *w)
{
	u32 g;

	*w = (struct mtier_worth) {
		.looks = clamp_t(u32, looks, 1, MTIER_LOOKS_MOST),
	};
	for (g = 0; g < MTIER_GROUPS; g++)
		group_worth(p->hist[w->looks].pages[g], g, w);
}

static u32 latency_ns(const struct mtier_place_machine *m)
{
	return min_t(u32, m->latency_ns ?: LATENCY_NS, LATENCY_MAX_NS);
}

/*
 * What a page saves if MTIER_LARGE_PAGES of its kind are accessed so much more often
 * between two looks.
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

/* What is left to take while a plan is made. */
struct taking {
	struct mtier_counts left;
	u64 limit;
	u64 free;
	u32 at[MTIER_GROUPS];
	bool over[MTIER_GROUPS];
};

/* Go on to the next page of a lower group, from the most used down. */
static bool next_low(struct taking *t, u32 g)
{
	while (!t->left.pages[g][t->at[g]]) {
		if (!t->at[g])
			return false;
		t->at[g]--;
	}
	/* Idle pages are many, and would use up what is free before others come. */
	return t->at[g] || !t->free;
}

/* Go on to the next page of an upper group, from the least used up. */
static bool next_top(struct taking *t, u32 g, u32 looks)
{
	while (!t->left.pages[g][t->at[g]]) {
		if (t->at[g] == looks)
			return false;
		t->at[g]++;
	}
	return true;
}

/* How often does a look find the next pages of a lower group, at the least? */
static u32 low_found(const struct mtier_worth *w, const struct taking *t, u32 g)
{
	u32 q = w->q[g][t->at[g]], se = w->se[g][t->at[g]];

	return mtier_place_rate(q - min_t(u32, q, se * ERRORS_X2 / 2));
}

/* And those of an upper group, at the most? */
static u32 top_found(const struct mtier_worth *w, const struct taking *t, u32 g)
{
	u32 q = w->q[g][t->at[g]], se = w->se[g][t->at[g]];

	return mtier_place_rate(q + se * ERRORS_X2 / 2);
}

/*
 * How often are MTIER_LARGE_PAGES accessed between two looks: at the least, if they are
 * on the lower side, at the most on the upper one?  With another folio one is compared
 * as that is counted.
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

/* And on average? */
static u64 mean_rate(u32 found, u32 g)
{
	return (u64)found * (is_large(g) ? LARGE_ACCESSES : MTIER_LARGE_PAGES);
}

/*
 * The group of the next victim for a page of @low, MTIER_GROUPS if there is none.
 * What comes free of single pages is scattered, and of no use for a large folio.
 */
static u32 victim_for(const struct mtier_worth *w, struct taking *t, u32 low)
{
	u32 g, best = MTIER_GROUPS;
	u64 rate, best_rate = 0;

	for (g = MTIER_TOP; g < MTIER_GROUPS; g += MTIER_LARGE) {
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

/* The lower group whose next pages are used most, MTIER_GROUPS if none is left. */
static u32 hottest(const struct mtier_worth *w, struct taking *t)
{
	u32 g, best = MTIER_GROUPS;

	for (g = MTIER_LOW; g < MTIER_GROUPS; g += MTIER_LARGE) {
		if (t->over[g] || !w->known[g] || !next_low(t, g))
			continue;
		if (best == MTIER_GROUPS ||
		    low_rate(w, t, g) > low_rate(w, t, best))
			best = g;
	}
	return best;
}

/* The next two are alike. Are they, or is it only that looks cannot tell? */
static enum mtier_plan_why alike(const struct mtier_place *p, u32 victim_q)
{
	return p->tau_ns <= MTIER_TAU_MIN_NS && victim_q >= SATURATED ?
	       MTIER_PLAN_SATURATED : MTIER_PLAN_ALIKE;
}

/*
 * What stands against the next pages of a lower group changing places, MTIER_PLAN_RATE
 * if nothing does? Fills in the run and what a page of it gains.
 */
static enum mtier_plan_why pair_up(const struct mtier_place *p,
				   const struct mtier_place_machine *m,
				   const struct mtier_worth *w, struct taking *t,
				   u32 g, struct mtier_run *run, u64 *gain_ns)
{
	u64 more = mean_rate(low_found(w, t, g), g), less = 0, cold = 0;
	u32 cost = move_ns(m, g), victim_q = 0;

	*run = (struct mtier_run) {
		.low = t->at[g],
		.low_group = g,
		.top = MTIER_NO_VICTIM,
		.gap = w->q[g][t->at[g]],
	};
	if (!t->free) {
		u32 v = victim_for(w, t, g);

		if (v == MTIER_GROUPS)
			return MTIER_PLAN_NO_VICTIM;
		run->top = t->at[v];
		run->top_group = v;
		victim_q = w->q[v][t->at[v]];
		run->gap -= min_t(u32, run->gap, victim_q);
		cold = top_rate(w, t, v, g);
		less = mean_rate(top_found(w, t, v), v);
		cost += move_ns(m, v);
	}
	if (low_rate(w, t, g) * RATIO_DEN <= cold * RATIO_NUM)
		return alike(p, victim_q);
	*gain_ns = saving_ns(p, m, more - less);
	if (*gain_ns < cost)
		return MTIER_PLAN_COST;
	*gain_ns -= cost;
	return MTIER_PLAN_RATE;
}

/* The next run; where a group has none any more the other one goes on. */
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
		/* That of single pages is said, if there are any. */
		if (!is_large(g) || *why == MTIER_PLAN_NOBODY)
			*why = is;
	}
	*why = MTIER_PLAN_RATE;
	return false;
}

/**
 * mtier_place_plan - which pages are to change places
 * @p: state
 * @m: the machine
 * @w: what the counts are worth
 * @movable: pages of this burst by count that may move and have not yet
 * @limit: how many may go up now
 * @plan: where to put it
 *
 * The most used of the lower side go up for the least used of the upper, pair by
 * pair, while what that saves is more than what it costs, and the two are further
 * apart than chance would have them.  Free memory is a victim worth nothing, and not
 * for pages that no look has found.
 *
 * Of a large folio it is not known how much of it was used.  So it goes up into what
 * is free, or for another one that is used less; it goes down, too, for single pages
 * that are used more than each of its own may be.  Whether that pays is asked of what
 * it is on average.
 */
void mtier_place_plan(const struct mtier_place *p,
		      const struct mtier_place_machine *m,
		      const struct mtier_worth *w,
		      const struct mtier_counts *movable, u64 limit,
		      struct mtier_plan *plan)
{
	u32 looks = min_t(u32, w->looks, MTIER_LOOKS_MOST);
	struct taking t = {
		.left = *movable,
		.limit = limit,
		.free = m->free,
		.at = {
			[MTIER_LOW] = looks,
			[MTIER_LOW + MTIER_LARGE] = looks,
		},
	};
	struct mtier_run run = { 0 };
	u64 gain_ns;

	*plan = (struct mtier_plan) { .why = MTIER_PLAN_NOBODY };
	while (next_run(p, m, w, &t, &run, &gain_ns, &plan->why)) {
		u32 *low = &t.left.pages[run.low_group][run.low];
		u64 nr = min_t(u64, t.limit, *low);

		if (t.free) {
			nr = min_t(u64, nr, t.free);
			t.free -= nr;
		} else {
			u32 *top = &t.left.pages[run.top_group][run.top];

			nr = min_t(u64, nr, *top);
			*top -= nr;
		}
		nr = min_t(u64, nr, U32_MAX - plan->pages);
		*low -= nr;
		t.limit -= nr;
		run.pages = nr;
		plan->run[plan->nr++] = run;
		plan->pages += nr;
		plan->gain_ns += min_t(u64, nr * gain_ns, U64_MAX - plan->gain_ns);
		if (plan->nr == MTIER_RUNS_MAX || plan->pages == U32_MAX)
			break;
	}
}

/**
 * mtier_place_tau_max_ns - longest time between two looks that has a point
 * @m: the machine
 *
 * A page that is accessed more rarely than every so often does not pay for two
 * moves: of pages with half of the looks a hit, at this distance, none does.
 *
 * Return: ns.
 */
u64 mtier_place_tau_max_ns(const struct mtier_place_machine *m)
{
	u64 saved = MTIER_HORIZON_NS * latency_ns(m) >> Q16_BITS;
	u64 tau = div64_u64(saved * LN2_Q16, 2ULL * max_t(u32, m->move_ns, 1));

	return clamp_t(u64, tau, MTIER_TAU_MIN_NS, MTIER_TAU_CAP_NS);
}
