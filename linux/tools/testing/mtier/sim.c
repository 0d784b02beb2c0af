// SPDX-License-Identifier: GPL-2.0
/*
 * Simulations: does the policy, fed with what a scanner would see of a
 * workload, decide as one who knows the workload would?
 *
 * The scanner sees of each page only whether it was accessed since the last
 * visit, every PERIOD_MS.  Figures are printed, the asserted ones with slack.
 */
#include <math.h>

#include <kunit/test.h>

#include "policy.h"
#include "rng.h"

#define PERIOD_MS	1000
#define WINDOW_MS	10000

static struct mtier_hot_params params(u8 accesses)
{
	return (struct mtier_hot_params) {
		.window_ticks = mtier_window_ticks(WINDOW_MS), .accesses = accesses,
	};
}

/* One access seen at a time; true if it makes the page hot. */
static bool seen(u32 *rec, u64 now_ms, const struct mtier_hot_params *p)
{
	enum mtier_verdict v;

	*rec = mtier_rec_touch(*rec, mtier_tick(now_ms), p, &v);
	return v == MTIER_HOT;
}

/* ---- a stream beside a hot set ------------------------------------------- */

#define HOT_PAGES	1000
#define STREAM_PAGES	20000

/*
 * HOT_PAGES pages are accessed at random, @per_s times a second each.  At the
 * same time a stream sweeps over STREAM_PAGES pages once every @sweep_ms and
 * stays @stay_ms on each.  After 60 s: how much of what was promoted is hot
 * (precision), how much of the hot set was promoted (recall), in percent.
 */
static const struct stream_case {
	const char *desc;
	double per_s;
	double stay_ms;
	u32 sweep_ms;
	u8 accesses;
	u32 precision_min, precision_max;
	u32 recall_min, recall_max;
} stream_cases[] = {
	{ "first access, stream of 4K pages", 5, 0.004, 60013, 1, 0, 10, 99, 100 },
	{ "second access, stream of 4K pages", 5, 0.004, 60013, 2, 99, 100, 99, 100 },
	{ "second access, stream of huge pages", 5, 2, 60013, 2, 90, 100, 99, 100 },
	{ "second access, slow reader", 5, 20, 60013, 2, 60, 80, 99, 100 },
	{ "third access, slow reader", 5, 20, 60013, 3, 99, 100, 99, 100 },
	{ "second access, hot is one in 5 s", 0.2, 0.004, 60013, 2, 99, 100, 99, 100 },
	{ "second access, hot is one in 60 s", 0.0167, 0.004, 60013, 2, 0, 100, 5, 20 },
	{ "a loop shorter than the window is hot", 5, 0.004, 8011, 2, 0, 10, 99, 100 },
	{ "a loop longer than the window is not", 5, 0.004, 12011, 2, 99, 100, 99, 100 },
};

KUNIT_ARRAY_PARAM_DESC(stream, stream_cases, desc);

/* Was the stream on page @i between two points in time? */
static bool streamed(const struct stream_case *c, u32 i, double from_ms, double to_ms)
{
	double start = (double)i / STREAM_PAGES * c->sweep_ms;
	double sweeps = floor((to_ms - start) / c->sweep_ms);

	/* the last sweep that reached the page: did it stay until @from_ms? */
	return sweeps >= 0 && start + sweeps * c->sweep_ms + c->stay_ms > from_ms;
}

static void stream_is_told_from_hot_set(struct kunit *test)
{
	static u32 recs[HOT_PAGES + STREAM_PAGES];
	static bool promoted[HOT_PAGES + STREAM_PAGES];
	const struct stream_case *c = test->param_value;
	double p_hot = 1 - exp(-c->per_s * PERIOD_MS / 1000);
	struct mtier_hot_params p = params(c->accesses);
	u32 right = 0, wrong = 0, precision, recall;
	struct rng rng = rng_new(test);

	memset(recs, 0, sizeof(recs));
	memset(promoted, 0, sizeof(promoted));
	for (u64 now = PERIOD_MS; now <= 60000; now += PERIOD_MS) {
		for (u32 i = 0; i < ARRAY_SIZE(recs); i++) {
			/* the visit takes a while, pages are reached in turn */
			double at = now + 100.0 * i / ARRAY_SIZE(recs);
			bool young = i < HOT_PAGES ? rng_chance(&rng, p_hot) :
				     streamed(c, i - HOT_PAGES, at - PERIOD_MS, at);

			if (young && !promoted[i])
				promoted[i] = seen(&recs[i], at, &p);
		}
	}
	for (u32 i = 0; i < ARRAY_SIZE(recs); i++) {
		right += promoted[i] && i < HOT_PAGES;
		wrong += promoted[i] && i >= HOT_PAGES;
	}
	precision = right + wrong ? 100 * right / (right + wrong) : 100;
	recall = 100 * right / HOT_PAGES;
	kunit_info(test, "%s: precision %u %%, recall %u %%", c->desc, precision, recall);
	KUNIT_EXPECT_GE(test, precision, c->precision_min);
	KUNIT_EXPECT_LE(test, precision, c->precision_max);
	KUNIT_EXPECT_GE(test, recall, c->recall_min);
	KUNIT_EXPECT_LE(test, recall, c->recall_max);
}

/* ---- the count against an exact one -------------------------------------- */

#define VISITS	40000

/*
 * A page is accessed between visits with probability @p.  Share of the visits
 * that saw it and found it hot: by the record, and by remembering every access
 * of the last window.  The difference.
 */
static double record_error(struct rng *rng, double p, u32 per_window, u8 accesses)
{
	u32 period = MTIER_TICK_MS * 10, by_record = 0, by_memory = 0, touches = 0;
	struct mtier_hot_params hot = {
		.window_ticks = 10 * per_window,
		.accesses = accesses,
	};
	u32 history = 0, rec = 0;

	for (u64 visit = 1; visit <= VISITS; visit++) {
		history <<= 1;
		if (!rng_chance(rng, p))
			continue;
		history |= 1;
		touches++;
		by_record += seen(&rec, visit * period, &hot);
		by_memory += __builtin_popcount(history & ((1 << per_window) - 1)) >= accesses;
	}
	return touches ? ((double)by_record - by_memory) / touches : 0;
}

static void count_is_close_to_exact(struct kunit *test)
{
	static const double chances[] = { 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9 };
	static const u32 per_window[] = { 5, 10, 25 };
	struct rng rng = rng_new(test);

	for (int accesses = 2; accesses <= 4; accesses++) {
		double low = 0, high = 0;

		for (int i = 0; i < ARRAY_SIZE(per_window); i++) {
			for (int j = 0; j < ARRAY_SIZE(chances); j++) {
				double error = record_error(&rng, chances[j],
							    per_window[i], accesses);

				low = fmin(low, error);
				high = fmax(high, error);
			}
		}
		kunit_info(test, "%d accesses: %+.2f to %+.2f of the visits judged otherwise",
			   accesses, low, high);
		KUNIT_EXPECT_GE(test, low, accesses == 2 ? 0 : -0.03);
		KUNIT_EXPECT_LE(test, high, accesses == 2 ? 0 : 0.25);
	}
}

/* ---- a phase change ------------------------------------------------------ */

/* The hot set moves: the old one is forgotten in a window, the new one found. */
static void hot_set_moves(struct kunit *test)
{
	struct mtier_hot_params p = params(2);
	struct rng rng = rng_new(test);
	u32 old_hot = 0, new_hot = 0;
	u32 recs[2][HOT_PAGES] = { };
	u64 now = 0, change = 60000;

	for (; now <= change + WINDOW_MS + PERIOD_MS; now += PERIOD_MS) {
		for (u32 i = 0; i < HOT_PAGES; i++)
			if (rng_chance(&rng, 0.9))
				seen(&recs[now > change][i], now, &p);
		if (now != change + 3 * PERIOD_MS)
			continue;
		for (u32 i = 0; i < HOT_PAGES; i++)
			new_hot += mtier_rec_is_hot(recs[1][i], mtier_tick(now), &p);
	}
	for (u32 i = 0; i < HOT_PAGES; i++)
		old_hot += mtier_rec_is_hot(recs[0][i], mtier_tick(now), &p);
	kunit_info(test, "found after three visits: %u of %u; not forgotten: %u",
		   new_hot, HOT_PAGES, old_hot);
	KUNIT_EXPECT_GE(test, new_hot, HOT_PAGES * 95 / 100);
	KUNIT_EXPECT_EQ(test, old_hot, 0);
}

/* ---- demand against the rate limit --------------------------------------- */

#define PAGES	2000

/*
 * Pages between once in 2 s and once in 1000 s: the window is steered until
 * about as many accesses find their page hot as the rate limit can move, but
 * never below two scan periods, where nothing would be found twice.
 */
static void window_steers_demand_to_budget(struct kunit *test)
{
	static const u32 budgets[] = { 1000, 2000, 4000, 8000, 20000 };
	struct rng rng = rng_new(test);

	for (int b = 0; b < ARRAY_SIZE(budgets); b++) {
		struct mtier_hot_params p = params(2);
		u32 ref = p.window_ticks, least = mtier_window_ticks(2 * PERIOD_MS);
		u32 demand = 0, late = 0;
		u32 recs[PAGES] = { };
		u64 now = 0;

		for (int minute = 0; minute < 60; minute++) {
			for (demand = 0; now < (minute + 1) * 60000; now += PERIOD_MS)
				for (u32 i = 0; i < PAGES; i++)
					if (rng_chance(&rng, 0.5 * pow(0.002, (double)i / PAGES)))
						demand += seen(&recs[i], now, &p);
			p.window_ticks = mtier_window_adjust(p.window_ticks, ref,
							     demand, budgets[b]);
			p.window_ticks = max_t(u32, p.window_ticks, least);
			late += minute >= 40 ? demand : 0;
		}
		kunit_info(test, "budget %u: demand %u, window %u ticks of %u", budgets[b],
			   late / 20, p.window_ticks, ref);
		if (p.window_ticks > least && p.window_ticks < 2 * ref) {
			KUNIT_EXPECT_GE(test, late / 20, budgets[b] * 8 / 10);
			KUNIT_EXPECT_LE(test, late / 20, budgets[b] * 12 / 10);
		}
	}
}

/* ---- pace of idle and busy tasks ----------------------------------------- */

/* MiB walked in five minutes by a task that is busy @percent of the visits. */
static u32 walked_mb(struct kunit *test, struct rng *rng, u32 percent)
{
	struct mtier_pace_bounds bounds = { 400, 5000, 256, 4096 };
	struct mtier_pace pace;
	u32 mb = 0;

	mtier_pace_init(&pace, 2000, 1024, &bounds);
	for (u64 now = 0; now < 300000; now += pace.period_ms) {
		mb += pace.size_mb;
		mtier_pace_adapt(&pace, rng_below(rng, 100) < percent, &bounds);
		KUNIT_ASSERT_GT(test, pace.period_ms, 0);
	}
	return mb;
}

static void effort_goes_where_it_pays(struct kunit *test)
{
	struct rng rng = rng_new(test);
	u32 idle = walked_mb(test, &rng, 0);
	u32 half = walked_mb(test, &rng, 50);
	u32 busy = walked_mb(test, &rng, 100);

	kunit_info(test, "MiB/s walked: idle %u, half %u, busy %u",
		   idle / 300, half / 300, busy / 300);
	KUNIT_EXPECT_LE(test, idle / 300, 60);
	KUNIT_EXPECT_GE(test, busy / 300, 10000);
	KUNIT_EXPECT_GT(test, half, idle);
	KUNIT_EXPECT_LT(test, half, busy);
}

/* ---- nodes --------------------------------------------------------------- */

/*
 * All memory was on node 0, the threads run on both: as accesses follow pages
 * and pages follow the mix, memory ends up spread as the threads are.
 */
static void memory_spreads_to_its_threads(struct kunit *test)
{
	u32 history[2] = { 1000, 0 }, weights[2];
	const u32 threads[2] = { 24, 8 };
	u32 pages[2] = { 1000, 0 }, turn = 0;

	for (int round = 0; round < 100; round++) {
		mtier_weights_mix(history, threads, weights, 2);
		for (int i = 0; i < 1000; i++)
			pages[mtier_target_pick(&turn, weights, 2)]++;
		mtier_weights_decay(history, 2);
		mtier_weights_add(history, 2, 0, pages[0]);
		mtier_weights_add(history, 2, 1, pages[1]);
	}
	kunit_info(test, "pages %u : %u for threads 24 : 8", pages[0], pages[1]);
	KUNIT_EXPECT_LE(test, pages[0] * 100 / (pages[0] + pages[1]), 80);
	KUNIT_EXPECT_GE(test, pages[0] * 100 / (pages[0] + pages[1]), 75);
}

static struct kunit_case sim_cases[] = {
	KUNIT_CASE_PARAM(stream_is_told_from_hot_set, stream_gen_params),
	KUNIT_CASE(count_is_close_to_exact),
	KUNIT_CASE(hot_set_moves),
	KUNIT_CASE(window_steers_demand_to_budget),
	KUNIT_CASE(effort_goes_where_it_pays),
	KUNIT_CASE(memory_spreads_to_its_threads),
	{ }
};

static struct kunit_suite sim_suite = {
	.name = "mtier_policy_sim",
	.test_cases = sim_cases,
};

kunit_test_suite(sim_suite);
