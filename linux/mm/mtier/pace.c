// SPDX-License-Identifier: GPL-2.0
/*
 * Pace of bursts, as pure functions: the scan interval, the number of scans, the
 * number of pages scanned, and the CPU time that scans take. place.c evaluates access
 * counts.
 *
 * Locking: none; each function works on its arguments only. See place.h.
 */
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

#include "place.h"

#define Q16_BITS	16

/*
 * Upper limit for the scan of a page, more than hundreds of mappers take in an
 * emulator.
 */
#define LOOK_MAX_NS	64000
/* The same for a TLB flush: in an emulator, it waits until each CPU had its turn. */
#define FLUSH_MAX_NS	(50 * 1000000U)

#define TAU_START_NS	(10 * 1000000ULL)
#define MARGIN		(MTIER_Q16 * 2 / 5)	/* 0.4 */
#define MARGIN_LEAST	1311			/* 0.02, of a rate */
#define IDLE		(MTIER_Q16 / 16)	/* pages that fewer scans find accessed */
#define STRAYS		64			/* fewer than one in 64 pages in use */

/* Q16 shares of a CPU: to notice a change, in the long run, with credit. */
#define SHARE_MIN	123		/* 3/16 % */
#define SHARE_LONG	1966		/* 3 % */
#define SHARE_MAX	16384		/* 25 % */
#define CREDIT_LOOKS	16		/* scans of every page */
#define SAVED_PARTS	32		/* one part of the gain, about 3 % */
/* Time in which a change shall be noticed, however expensive scans are. */
#define NOTICE_NS	(400 * 1000000ULL)
/* Time until memory that was in use is forgotten; share of new pages that is much. */
#define FORGET_NS	(2000 * 1000000ULL)
#define MUCH_NEW	4		/* one in four pages */
/* Longest rest, however expensive scans are. */
#define REST_NS		(1000 * 1000000ULL)

static u64 add_sat(u64 a, u64 b)
{
	return a + b < a ? U64_MAX : a + b;
}

static u64 mul_sat(u64 a, u64 b)
{
	return a && b > U64_MAX / a ? U64_MAX : a * b;
}

/* Get the largest share of a CPU for scans, with or without CPU time saved up. */
static u32 share_cap(const struct mtier_place_machine *m, bool credit)
{
	u32 most = min_t(u32, m->share_most ?: SHARE_MAX, MTIER_Q16);

	return credit ? most : min_t(u32, most, SHARE_LONG);
}

/**
 * mtier_place_init() - Set the state before the first scan.
 * @p: state to be set
 * @m: the machine
 */
void mtier_place_init(struct mtier_place *p, const struct mtier_place_machine *m)
{
	*p = (struct mtier_place) {
		.tau_ns = TAU_START_NS,
		.share = share_cap(m, true),
		.credit_ns = S64_MAX,
	};
	mtier_place_paid(p, m, 0, 0);
}

/**
 * mtier_place_hurry() - Let the next burst scan as much as the first one.
 * @p: state
 * @m: the machine
 */
void mtier_place_hurry(struct mtier_place *p, const struct mtier_place_machine *m)
{
	p->share = share_cap(m, true);
}

/* Get the part of the CPU time of a burst that does not depend on its pages. */
static u64 fixed_ns(const struct mtier_place_cost *cost)
{
	u32 scans = min_t(u32, cost->scans, cost->flushes);
	u64 flush_ns = min_t(u64, cost->flush_ns, cost->ns);

	return cost->flushes ? mul_u64_u64_div_u64(flush_ns, scans, cost->flushes) : 0;
}

/**
 * mtier_place_looked() - Update the cost of scans.
 * @m: the machine; its @look_ns and @flush_ns are updated
 * @cost: CPU time of the scans of a burst
 *
 * A scan costs a TLB flush, however few pages it has, and a time for each page. Both are
 * running means. For the time of a page, each burst is weighted by its entries. If a scan
 * flushes several address spaces, all flushes but one count for the pages: with more
 * pages, more address spaces are flushed.
 */
void mtier_place_looked(struct mtier_place_machine *m, const struct mtier_place_cost *cost)
{
	u64 now, weight = min_t(u64, cost->ptes, MTIER_BURST_PAGES);

	if (!cost->ptes)
		return;
	now = clamp_t(u64, div64_u64(cost->ns - fixed_ns(cost), cost->ptes), 1, LOOK_MAX_NS);
	m->look_ns = div_u64((u64)m->look_ns * (2 * MTIER_BURST_PAGES - weight) +
			     now * weight + MTIER_BURST_PAGES, 2 * MTIER_BURST_PAGES);
	if (!cost->flushes)
		return;
	now = min_t(u64, div_u64(cost->flush_ns, cost->flushes), FLUSH_MAX_NS);
	m->flush_ns = m->flush_ns ? div_u64(3ULL * m->flush_ns + now + 2, 4) : now;
}

/*
 * Get the pages of a scan of the smallest burst. The more a burst costs, the later the
 * next one begins. With a small share of a CPU, a burst is so small that a change is
 * noticed in time. But half of its time, or more, is for pages and not for the flush:
 * a smaller burst would find less for the same CPU time, and would not be over much
 * sooner.
 */
static u64 least_pages(const struct mtier_place *p, const struct mtier_place_machine *m)
{
	u64 scan_ns = div_u64(mul_sat(p->share, NOTICE_NS) >> Q16_BITS,
			      MTIER_LOOKS_MOST + 1);
	u64 pages_ns = max_t(u64, scan_ns - min_t(u64, scan_ns, m->flush_ns), m->flush_ns);

	return clamp_t(u64, div_u64(pages_ns, max_t(u32, m->look_ns, 1)),
		       MTIER_NOTICE_PAGES, MTIER_BURST_PAGES);
}

/**
 * mtier_place_pages() - Get the size of the next burst.
 * @p: state
 * @m: the machine
 *
 * Return: number of base pages that can be scanned once in a scan interval with the
 * current share of a CPU; at least MTIER_BURST_PAGES, or MTIER_NOTICE_PAGES with a
 * small share.
 */
u64 mtier_place_pages(const struct mtier_place *p,
		      const struct mtier_place_machine *m)
{
	u64 cpu_ns = mul_sat(p->share, p->tau_ns) >> Q16_BITS;
	u64 pages_ns = cpu_ns - min_t(u64, cpu_ns, m->flush_ns);

	return max_t(u64, div_u64(pages_ns, max_t(u32, m->look_ns, 1)), least_pages(p, m));
}

/**
 * mtier_place_pause_ns() - Get the time to wait for the next scan.
 * @p: state
 * @random: any 32 bits
 *
 * A constant interval could lock on to a program that sweeps over its memory in about
 * the time of a burst. The tiers would take on the phase of the program, and pages
 * would be exchanged for ever.
 *
 * Return: tau plus or minus up to a quarter, in ns.
 */
u64 mtier_place_pause_ns(const struct mtier_place *p, u32 random)
{
	u64 tau = min_t(u64, p->tau_ns, MTIER_TAU_CAP_NS);

	return tau - tau / 4 + ((tau / 2) * (random >> Q16_BITS) >> Q16_BITS);
}

/**
 * mtier_place_enough() - Check whether the burst is over.
 * @looks: number of scans so far
 * @gain_ns: gain of the exchanges after the last scan
 * @total_gain_ns: gain of all exchanges of this burst
 * @spent_ns: CPU time of the scans of this burst
 *
 * A burst that has paid for itself goes on only while a scan finds more than the
 * average scan of the burst. Otherwise other bursts find more.
 *
 * Return: true if so.
 */
bool mtier_place_enough(u32 looks, u64 gain_ns, u64 total_gain_ns, u64 spent_ns)
{
	if (looks >= MTIER_LOOKS_MOST)
		return true;
	return total_gain_ns > mul_sat(spent_ns, 2) &&
	       mul_sat(gain_ns, looks + 1) < total_gain_ns;
}

/**
 * mtier_place_late() - Check whether the next scan would be late.
 * @p: state
 * @gain_ns: gain of the exchanges after the last scan
 * @took_ns: time that the plans and the exchanges took
 *
 * If they took longer than the scan interval, the burst ends. If no page migrated, it goes
 * on: with a short interval, plans alone may take as long, and each burst would end before
 * it had the scans that an exchange needs.
 *
 * Return: true if so.
 */
bool mtier_place_late(const struct mtier_place *p, u64 gain_ns, u64 took_ns)
{
	return gain_ns && took_ns > p->tau_ns;
}

/* Pages of each class, ranked by access probability, highest first. */
struct ranking {
	const struct mtier_worth *w;
	u64 pages[MTIER_GROUPS][MTIER_LOOKS_MOST + 1];
	u32 left[MTIER_GROUPS];		/* access counts to come */
};

/* Fill in the ranking. The sampled pages represent all pages of their class. */
static void rank_all(const struct mtier_place *p,
		     const struct mtier_place_machine *m,
		     const struct mtier_worth *w, struct ranking *r)
{
	const struct mtier_counts *hist = &p->hist[w->looks];
	u32 g, c;

	*r = (struct ranking) { .w = w };
	for (g = 0; g < MTIER_GROUPS; g++) {
		u64 seen = 0;

		for (c = 0; c <= w->looks; c++)
			seen += hist->pages[g][c];
		if (!w->known[g] || !seen)
			continue;
		r->left[g] = w->looks + 1;
		for (c = 0; c <= w->looks; c++)
			r->pages[g][c] =
				mul_u64_u64_div_u64(m->pages[g],
						    hist->pages[g][c], seen);
	}
}

/*
 * Get the number of the next pages, and their access probability. False if none is
 * left.
 */
static bool rank_next(struct ranking *r, u64 *pages, u32 *q)
{
	u32 g, best = MTIER_GROUPS;

	for (g = 0; g < MTIER_GROUPS; g++) {
		u32 at = r->left[g] ? r->w->q[g][r->left[g] - 1] : 0;

		if (!r->left[g] || (best < MTIER_GROUPS && at <= *q))
			continue;
		best = g;
		*q = at;
	}
	if (best == MTIER_GROUPS)
		return false;
	*pages = r->pages[best][--r->left[best]];
	return true;
}

/**
 * mtier_place_margin() - Get the hotness threshold.
 * @p: state
 * @m: the machine
 * @w: estimated access probabilities after the last scan
 *
 * The threshold is the access probability of the last page in use that fits into the
 * fast tier. If all pages in use fit, the last page that fits is idle: scans find it
 * accessed at no interval. With its probability as the threshold, scans would become
 * ever rarer. In that case the threshold is that of the last page in use.
 *
 * A page that fewer than one scan of sixteen finds accessed counts as idle. While all
 * pages are idle, the scan interval grows until some are not. A few strays, in use or
 * without room, change nothing.
 *
 * Return: Q16 probability that a scan finds that page accessed, 0 if no page is in
 * use.
 */
u32 mtier_place_margin(const struct mtier_place *p,
		       const struct mtier_place_machine *m,
		       const struct mtier_worth *w)
{
	u64 top = add_sat(m->pages[MTIER_TOP], m->pages[MTIER_TOP + MTIER_LARGE]);
	u64 room = add_sat(top, m->free);
	u32 q = 0, with_room = 0, in_use = 0;
	u64 pages, used = 0;
	struct ranking r;

	rank_all(p, m, w, &r);
	while (rank_next(&r, &pages, &q) && q >= IDLE) {
		if (used <= room)
			with_room = q;
		used = add_sat(used, pages);
		if (pages && pages >= used / STRAYS)
			in_use = q;
	}
	return used > room && used - room > used / STRAYS ? with_room : in_use;
}

/**
 * mtier_place_slow_pages() - Count the pages of all slower tiers.
 * @m: the machine
 *
 * Return: base pages that may be scanned, those in use.
 */
u64 mtier_place_slow_pages(const struct mtier_place_machine *m)
{
	u64 pages = 0;
	u32 rank;

	for (rank = MTIER_LOW; rank < MTIER_RANKS; rank++)
		pages = add_sat(pages, add_sat(m->pages[rank],
					       m->pages[rank + MTIER_LARGE]));
	return pages;
}

/* Check whether all slow pages fit into the fast tier without a demotion. */
static bool room_for_all(const struct mtier_place_machine *m)
{
	return mtier_place_slow_pages(m) <= m->free;
}

/**
 * mtier_place_steer() - Set the scan interval of the next burst.
 * @p: state
 * @m: the machine
 * @margin: hotness threshold, of mtier_place_margin()
 * @busy: this burst has paid, so the interval must not grow fast
 *
 * A scan gives the most information about a page that it finds accessed about as
 * often as not. The decision depends on the pages that just fit into the fast tier.
 * So these pages shall be found accessed in 40 % of the scans.
 *
 * While no page is in use, the interval stays short enough for a burst to find a page
 * that just pays. So the first scans find memory that comes into use.
 *
 * If all slow pages fit into the fast tier, the decision does not depend on which are
 * used more. Then the interval need not be shorter than at first. A shorter interval
 * would only miss some of the pages in use.
 */
void mtier_place_steer(struct mtier_place *p,
		       const struct mtier_place_machine *m, u32 margin,
		       bool busy)
{
	u64 longest = div_u64(mtier_place_tau_max_ns(m), margin ? 1 : MTIER_LOOKS_MOST);
	u32 most = busy ? MTIER_Q16 * 5 / 4 : MTIER_Q16 * 2;
	u64 factor = div_u64((u64)mtier_place_rate(MARGIN) << Q16_BITS,
			     mtier_place_rate(margin) + MARGIN_LEAST);
	u64 shortest = clamp_t(u64, p->tau_ns, MTIER_TAU_MIN_NS,
			       room_for_all(m) ? TAU_START_NS : MTIER_TAU_MIN_NS);
	u64 tau;

	factor = clamp_t(u64, factor, MTIER_Q16 / 2, most);
	if (factor > MTIER_Q16 * 83 / 100 && factor < MTIER_Q16 * 6 / 5)
		return;
	tau = min_t(u64, p->tau_ns, MTIER_TAU_CAP_NS) * factor >> Q16_BITS;
	tau = max_t(u64, min_t(u64, tau, longest), shortest);
	if (tau == p->tau_ns)
		return;
	p->tau_ns = tau;
	/* The old access counts belong to another scan interval. */
	for (u32 n = 0; n <= MTIER_LOOKS_MOST; n++)
		p->hist[n] = (struct mtier_counts) { 0 };
}

static u64 all_pages(const struct mtier_place_machine *m)
{
	u64 pages = 0;
	u32 g;

	for (g = 0; g < MTIER_GROUPS; g++)
		pages = add_sat(pages, m->pages[g]);
	return pages;
}

/*
 * Get the credit for @pages: CPU time of scans beyond the long-term share, for bursts of
 * MTIER_BURST_PAGES.
 */
static u64 credit_of(u64 pages, const struct mtier_place_machine *m)
{
	u64 look_ns = max_t(u64, (u64)m->look_ns + m->flush_ns / MTIER_BURST_PAGES, 1);

	return mul_sat(mul_sat(pages, look_ns), CREDIT_LOOKS);
}

/*
 * Count the pages that have come into use. Small changes of the number count as none.
 * Pages that were in use are forgotten slowly.
 */
static u64 come_into_use(struct mtier_place *p, u64 all, u64 passed_ns)
{
	u64 passed = min_t(u64, passed_ns, FORGET_NS);
	u64 new = all - min_t(u64, all, p->pages);

	if (all < p->pages)
		p->pages = max_t(u64, all, p->pages -
				 mul_u64_u64_div_u64(p->pages, passed, FORGET_NS));
	if (new <= all / MUCH_NEW)
		return 0;
	p->pages = all;
	return new;
}

/**
 * mtier_place_paid() - Account for the CPU time of scans.
 * @p: state
 * @m: the machine
 * @passed_ns: time that has passed
 * @spent_ns: CPU time of scans in that time
 *
 * The long-term share is saved up for times with much to find. The limit is the time
 * of CREDIT_LOOKS scans of every page. When much memory has come into use, the same
 * credit is added for the new pages: credit saved up with little memory is not enough
 * to scan much. The gain of earlier scans says nothing about new memory, so the share
 * starts again at its limit.
 */
void mtier_place_paid(struct mtier_place *p,
		      const struct mtier_place_machine *m, u64 passed_ns,
		      u64 spent_ns)
{
	u64 all = all_pages(m), new = come_into_use(p, all, passed_ns);
	s64 cap = min_t(u64, credit_of(all, m), S64_MAX / 4);
	s64 brought = min_t(u64, credit_of(new, m), S64_MAX / 4);
	s64 saved = min_t(u64, mul_sat(passed_ns, SHARE_LONG) >> Q16_BITS, S64_MAX / 4);
	s64 spent = min_t(u64, spent_ns, S64_MAX / 4);
	s64 credit = clamp_t(s64, p->credit_ns, -cap, cap) + saved - spent;

	p->credit_ns = clamp_t(s64, credit + brought, -cap, cap);
	if (new)
		p->share = share_cap(m, true);
}

/**
 * mtier_place_rest_ns() - Set the CPU share of scans, and get the time to rest.
 * @p: state
 * @m: the machine
 * @gain_ns: CPU time saved by the exchanges of the last burst
 * @spent_ns: CPU time of the scans of the last burst
 * @burst_ns: duration of the last burst
 *
 * The share grows while scans pay, and shrinks while they do not. It always suffices
 * to notice a change. Scans may take a part of the CPU time that they save, which uses up
 * no credit. So they keep up with a load that changes all the time, on a machine where a
 * scan of all pages takes long.
 *
 * Return: ns from the end of the burst to the start of the next; at most one second,
 * or the time that the limit of CPU time requires.
 */
u64 mtier_place_rest_ns(struct mtier_place *p,
			const struct mtier_place_machine *m, u64 gain_ns,
			u64 spent_ns, u64 burst_ns)
{
	u32 most, share = p->share;
	u64 period, longest, paid_ns = 0;

	if (!m->observe)
		paid_ns = min_t(u64, spent_ns, gain_ns / SAVED_PARTS);
	mtier_place_paid(p, m, burst_ns, spent_ns - paid_ns);
	most = share_cap(m, p->credit_ns > 0);
	if (gain_ns > mul_sat(spent_ns, 16))
		share = most;
	else if (gain_ns > mul_sat(spent_ns, 2))
		share = min_t(u32, share, SHARE_MAX) * 4;
	else if (gain_ns < spent_ns / 2)
		share /= 2;
	p->share = clamp_t(u32, share, min_t(u32, SHARE_MIN, most), most);
	period = div_u64(mul_sat(spent_ns, MTIER_Q16), p->share);
	longest = max_t(u64, div_u64(mul_sat(spent_ns, MTIER_Q16), share_cap(m, true)),
			REST_NS);
	return min_t(u64, period - min_t(u64, period, burst_ns), longest);
}
