// SPDX-License-Identifier: GPL-2.0
/*
 * Decisions of memory tiering, as pure functions.
 *
 *  record   what is known of one slow-tier frame, and whether that is hot
 *  window   when the first access suffices, how long accesses count together
 *  pace     how often and how much of an mm is scanned, at what CPU share
 *  bucket   how many bytes may be moved now
 *  picker   which node they go to
 *
 * Which pages to choose when there are too many: choose.c.
 *
 * Locking: none; every function works on its arguments only.  See policy.h for
 * the structs, and tools/testing/mtier for this file in user space.
 */
#include <linux/bits.h>
#include <linux/limits.h>
#include <linux/math.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/time64.h>
#include <linux/types.h>

#include "policy.h"

#define REC_CLAIM_SHIFT	2
#define REC_FREQ_SHIFT	14
#define REC_TICK_SHIFT	18
#define TICK_MASK	GENMASK(MTIER_TICK_BITS - 1, 0)
#define CLAIM_MASK	GENMASK(REC_FREQ_SHIFT - REC_CLAIM_SHIFT - 1, 0)

static u64 sat_add(u64 a, u64 b)
{
	return a > U64_MAX - b ? U64_MAX : a + b;
}

static u32 sat_u32(u64 v)
{
	return min_t(u64, v, U32_MAX);
}

/* ---- record -------------------------------------------------------------- */

/**
 * mtier_tick - tick of a point in time
 * @now_ms: ms since boot
 *
 * Return: ticks since boot; records keep the low 14 bits of it.
 */
u32 mtier_tick(u64 now_ms)
{
	return (u32)div_u64(now_ms, MTIER_TICK_MS);
}

/**
 * mtier_window_ticks - window of struct mtier_hot_params from ms
 * @window_ms: accesses at most this far apart shall count together
 *
 * Return: ticks, 1 to MTIER_WINDOW_MAX, rounded up so that the promise holds
 * wherever the two fall in their ticks.
 */
u32 mtier_window_ticks(u32 window_ms)
{
	u32 ticks = window_ms / MTIER_TICK_MS + !!(window_ms % MTIER_TICK_MS);

	return min_t(u32, ticks + 1, MTIER_WINDOW_MAX);
}

/* Ticks since the last touch; 0 if that was on a CPU ahead of this one. */
static u32 rec_rest(u32 rec, u32 now_tick)
{
	u32 rest = (now_tick - (rec >> REC_TICK_SHIFT)) & TICK_MASK;

	return rest > TICK_MASK - MTIER_TICK_SLACK ? 0 : rest;
}

static bool heat_is_hot(u32 heat, const struct mtier_hot_params *p)
{
	return heat && (p->room || heat >= p->accesses);
}

/**
 * mtier_rec_heat - accesses a record still counts
 * @rec: the record
 * @now_tick: from mtier_tick()
 * @window_ticks: from mtier_window_ticks()
 *
 * The count falls in a straight line from what it was at the last touch to
 * zero one window later, rounded up.  For evenly spaced touches this settles
 * at exactly the number of them in a window, and two touches count together
 * if and only if they are less than a window apart.
 *
 * Return: 0 to MTIER_FREQ_MAX.
 */
u32 mtier_rec_heat(u32 rec, u32 now_tick, u32 window_ticks)
{
	u32 window = clamp_t(u32, window_ticks, 1, MTIER_WINDOW_MAX);
	u32 rest = rec_rest(rec, now_tick);

	if (!(rec & MTIER_REC_VALID) || rest >= window)
		return 0;
	return DIV_ROUND_UP(mtier_rec_freq(rec) * (window - rest), window);
}

/**
 * mtier_rec_touch - note one more access
 * @rec: the record so far, 0 if there is none
 * @now_tick: from mtier_tick()
 * @p: what counts as hot
 * @v: where to put the verdict
 *
 * Accesses within one tick cannot be told apart and count once: a visit that
 * meets the same folio through sixteen page table entries saw one use of it.
 *
 * Return: the new record, never 0.
 */
u32 mtier_rec_touch(u32 rec, u32 now_tick, const struct mtier_hot_params *p,
		    enum mtier_verdict *v)
{
	u32 heat = mtier_rec_heat(rec, now_tick, p->window_ticks);
	u32 claim = 0;

	if (heat)
		claim = rec & (CLAIM_MASK << REC_CLAIM_SHIFT | MTIER_REC_CLAIM);
	if (heat && !rec_rest(rec, now_tick))
		now_tick = rec >> REC_TICK_SHIFT; /* never turned back */
	else
		heat = min_t(u32, heat + 1, MTIER_FREQ_MAX);

	*v = heat_is_hot(heat, p) ? MTIER_HOT : MTIER_COLD;
	return (now_tick & TICK_MASK) << REC_TICK_SHIFT |
	       heat << REC_FREQ_SHIFT | claim | MTIER_REC_VALID;
}

/**
 * mtier_rec_told - note that somebody else finds a page hot
 * @rec: the record so far, 0 if there is none
 * @now_tick: from mtier_tick()
 * @p: what counts as hot
 *
 * One who measures how often a page is used, and not only that it was, is taken
 * at his word: the record counts as many accesses as make a page hot, or more if
 * it did before.
 *
 * Return: the new record, never 0.
 */
u32 mtier_rec_told(u32 rec, u32 now_tick, const struct mtier_hot_params *p)
{
	u32 enough = clamp_t(u32, p->accesses, 1, MTIER_FREQ_MAX);
	enum mtier_verdict v;

	rec = mtier_rec_touch(rec, now_tick, p, &v);
	enough = max_t(u32, enough, mtier_rec_freq(rec));
	return (rec & ~(MTIER_FREQ_MAX << REC_FREQ_SHIFT)) |
	       enough << REC_FREQ_SHIFT;
}

/**
 * mtier_rec_claim - of several who find a page hot, who has it moved?
 * @rec: the record, which counts something
 * @now_tick: from mtier_tick()
 * @mine: set to whether it is the caller
 *
 * A page that many address spaces map is found in each of them.  The first to
 * claim it has MTIER_CLAIM_TICKS; a page that is not moved by then may be claimed
 * again, so that whoever did and then went away keeps nobody waiting for long.
 *
 * Return: the new record.
 */
u32 mtier_rec_claim(u32 rec, u32 now_tick, bool *mine)
{
	u32 rest = (now_tick - (rec >> REC_CLAIM_SHIFT)) & CLAIM_MASK;

	*mine = !(rec & MTIER_REC_CLAIM) || rest >= MTIER_CLAIM_TICKS;
	if (!*mine)
		return rec;
	rec &= ~(CLAIM_MASK << REC_CLAIM_SHIFT);
	return rec | (now_tick & CLAIM_MASK) << REC_CLAIM_SHIFT |
	       MTIER_REC_CLAIM;
}

/**
 * mtier_rec_is_hot - look again before a page is moved
 * @rec: the record
 * @now_tick: from mtier_tick()
 * @p: what counts as hot now
 *
 * Unlike mtier_rec_touch() this does not count the time since the last touch
 * against the page until a whole window has gone by: a page that became hot
 * and then waited in a queue is judged by what was known when it was queued.
 *
 * Return: true if the page is still worth moving.
 */
bool mtier_rec_is_hot(u32 rec, u32 now_tick, const struct mtier_hot_params *p)
{
	if (!mtier_rec_heat(rec, now_tick, p->window_ticks))
		return false;
	return heat_is_hot(mtier_rec_freq(rec), p);
}

/**
 * mtier_rec_age - forget a record that has nothing to say any more
 * @rec: the record
 * @now_tick: from mtier_tick()
 * @window_ticks: from mtier_window_ticks()
 *
 * Ticks wrap, so an old record would one day look new.  Calling this for every
 * record at least once in a quarter of the wrap (8 min) rules that out.
 *
 * Return: @rec if it still counts, else 0.
 */
u32 mtier_rec_age(u32 rec, u32 now_tick, u32 window_ticks)
{
	return mtier_rec_heat(rec, now_tick, window_ticks) ? rec : 0;
}

/**
 * mtier_rec_freq - accesses counted at the last touch
 * @rec: the record
 *
 * Return: 0 to MTIER_FREQ_MAX; see mtier_rec_heat() for what is left of them.
 */
u8 mtier_rec_freq(u32 rec)
{
	return rec >> REC_FREQ_SHIFT & MTIER_FREQ_MAX;
}

/* ---- window -------------------------------------------------------------- */

/**
 * mtier_room - is there so much free memory that the first access suffices?
 * @free_pages: free pages of the target node
 * @wmark_pages: its promotion watermark
 * @node_pages: its size
 * @percent: share of @node_pages that must be free beyond @wmark_pages;
 *	100 and more: there is never that much
 *
 * Return: true if there is.
 */
bool mtier_room(u64 free_pages, u64 wmark_pages, u64 node_pages, u32 percent)
{
	if (percent >= 100 || free_pages <= wmark_pages)
		return false;
	return free_pages - wmark_pages >
	       mul_u64_u64_div_u64(node_pages, percent, 100);
}

/**
 * mtier_window_adjust - steer the window so that demand meets the rate limit
 * @cur: window in force, any unit; 0 means not yet set
 * @ref: window the administrator asked for, same unit
 * @candidates: what became hot since the last call, any unit
 * @budget: what the rate limit could have moved in that time, same unit
 *
 * One step is an eighth of @ref.  Demand within 10 % of @budget changes
 * nothing.  A window shorter than two scan periods finds no page twice, which
 * the caller has to rule out.
 *
 * Return: the new window, @ref / 16 to 2 * @ref and at least 1.
 */
u32 mtier_window_adjust(u32 cur, u32 ref, u64 candidates, u64 budget)
{
	u32 least = max_t(u32, ref / 16, 1);
	u32 step = max_t(u32, ref / 8, 1);
	u32 most = max_t(u32, sat_u32(2 * (u64)ref), 1);
	u64 dead = div_u64(budget, 10);

	cur = clamp_t(u32, cur ?: ref, least, most);
	if (candidates > sat_add(budget, dead))
		return cur - least > step ? cur - step : least;
	if (candidates < budget - dead)
		return most - cur > step ? cur + step : most;
	return cur;
}

/* ---- pace ---------------------------------------------------------------- */

static u32 period_clamp(u64 ms, const struct mtier_pace_bounds *b)
{
	return min_t(u64, max_t(u64, ms, b->period_min_ms), b->period_max_ms);
}

static u32 size_clamp(u64 mb, const struct mtier_pace_bounds *b)
{
	return min_t(u64, max_t(u64, mb, b->size_min_mb), b->size_max_mb);
}

/**
 * mtier_pace_init - start with a given pace
 * @p: the pace
 * @period_ms: first period
 * @size_mb: first size
 * @b: limits, which win
 */
void mtier_pace_init(struct mtier_pace *p, u32 period_ms, u32 size_mb,
		     const struct mtier_pace_bounds *b)
{
	p->period_ms = period_clamp(period_ms, b);
	p->size_mb = size_clamp(size_mb, b);
	p->useful = false;
}

/**
 * mtier_pace_adapt - draw the lesson of a visit
 * @p: the pace
 * @useful_now: this visit found an accessed slow-tier page
 * @b: limits, which may have changed since the last call
 *
 *   last    now     period   size
 *   ------  ------  -------  -------
 *   useful  useful  - 15 %   doubles
 *   empty   empty   + 15 %   halves
 *   empty   useful  / 8      maximum
 *   useful  empty   * 8      stays
 */
void mtier_pace_adapt(struct mtier_pace *p, bool useful_now,
		      const struct mtier_pace_bounds *b)
{
	u64 period = p->period_ms;
	u64 step = div_u64(period * 15 + 99, 100);
	u64 size = p->size_mb;

	if (useful_now && p->useful) {
		period -= step;
		size *= 2;
	} else if (useful_now) {
		period /= 8;
		size = b->size_max_mb;
	} else if (p->useful) {
		period *= 8;
	} else {
		period += step;
		size /= 2;
	}
	p->period_ms = period_clamp(period, b);
	p->size_mb = size_clamp(size, b);
	p->useful = useful_now;
}

/**
 * mtier_pace_backoff - slow down, what is found cannot be moved
 * @p: the pace
 * @b: limits
 *
 * For failing migrations and queues under pressure: doubles the period.
 */
void mtier_pace_backoff(struct mtier_pace *p, const struct mtier_pace_bounds *b)
{
	p->period_ms = period_clamp(2 * (u64)p->period_ms, b);
}

/**
 * mtier_pace_scale - period of a task with its own scan scale
 * @period_ms: period of the pace
 * @scale: 1 to 10, 5 being normal and 10 twice as often; more is taken as 10
 *
 * Return: the period in ms, at least 1; U32_MAX for scale 0, which means never.
 */
u32 mtier_pace_scale(u32 period_ms, u32 scale)
{
	if (!scale)
		return U32_MAX;
	period_ms = sat_u32(div_u64((u64)period_ms * 5, min_t(u32, scale, 10)));
	return max_t(u32, period_ms, 1);
}

/**
 * mtier_cpu_pause_ns - rest that keeps a thread below its share of a CPU
 * @ran_ns: how long it ran since its last rest
 * @percent: its share; 0 is taken as 1, and 100 and more need no rest
 *
 * Return: ns to rest before it runs again.
 */
u64 mtier_cpu_pause_ns(u64 ran_ns, u32 percent)
{
	u64 pause;
	u32 left;

	percent = clamp_t(u32, percent, 1, 100);
	ran_ns = min_t(u64, ran_ns, div_u64(U64_MAX, 100));
	pause = div_u64_rem(ran_ns * (100 - percent), percent, &left);
	return pause + !!left;
}

/**
 * mtier_pressure - should the sources of a queue slow down?
 * @fill: entries in the queue
 * @cap: entries it may hold
 * @was: what this returned last time
 *
 * Return: true from three quarters full until back at half.
 */
bool mtier_pressure(u64 fill, u64 cap, bool was)
{
	if (!cap)
		return true;
	return was ? fill > cap / 2 : fill >= cap - cap / 4;
}

/* ---- bucket -------------------------------------------------------------- */

/* So far time, rates and debts count: their products fit then. */
#define BUCKET_NS_MAX	(64 * NSEC_PER_SEC)
#define BUCKET_MAX	((s64)BIT_ULL(52))

/**
 * mtier_bucket_pay - pay for what was moved
 * @b: the bucket
 * @now_ns: time now; may be a little behind an earlier caller's
 * @rate: the limit in bytes/s; may change between calls
 * @burst: bytes that may be saved up
 * @bytes: what was moved; 0 to ask how long a debt lasts
 *
 * Who moved more than there is goes into debt, and is to wait until that is paid
 * before he moves more. So in any stretch of time no more is moved than the rate
 * allows in it, plus @burst and what is moved at a time. Parts of a byte are lost,
 * at most one a call.
 *
 * Return: ns until nothing is owed, a second at most; 0 if nothing is.
 */
u64 mtier_bucket_pay(struct mtier_bucket *b, u64 now_ns, u64 rate, u64 burst,
		     u64 bytes)
{
	s64 earned;
	u64 owed;

	rate = min_t(u64, rate, BUCKET_MAX);
	/* A caller that is behind earns nothing; its time is paid already. */
	if (now_ns > b->stamp_ns) {
		earned = mul_u64_u64_div_u64(min_t(u64, now_ns - b->stamp_ns,
						   BUCKET_NS_MAX),
					     rate, NSEC_PER_SEC);
		b->tokens = min_t(s64, b->tokens + earned,
				  min_t(u64, burst, BUCKET_MAX));
		b->stamp_ns = now_ns;
	}
	b->tokens -= min_t(u64, bytes, BUCKET_MAX);
	b->tokens = max_t(s64, b->tokens, -BUCKET_MAX);
	owed = b->tokens < 0 ? -b->tokens : 0;
	if (!owed)
		return 0;
	return owed >= rate ? NSEC_PER_SEC :
	       mul_u64_u64_div_u64(owed, NSEC_PER_SEC, rate) + 1;
}

/* ---- picker -------------------------------------------------------------- */

/* What a mixed weight is a share of */
#define MIX_SCALE	65536

static u64 weights_sum(const u32 *weights, unsigned int n)
{
	u64 sum = 0;

	for (unsigned int i = 0; i < n; i++)
		sum += weights[i];
	return sum;
}

/**
 * mtier_weights_add - count for one slot
 * @weights: one weight a slot
 * @n: number of slots
 * @slot: which one; beyond @n nothing happens
 * @amount: how much
 *
 * If the weight would overflow, all are halved first: proportions last.
 */
void mtier_weights_add(u32 *weights, unsigned int n, unsigned int slot,
		       u32 amount)
{
	if (slot >= n)
		return;
	while (weights[slot] > U32_MAX - amount) {
		mtier_weights_decay(weights, n);
		amount /= 2;
	}
	weights[slot] += amount;
}

/**
 * mtier_weights_decay - let the past count half
 * @weights: one weight a slot
 * @n: number of slots
 */
void mtier_weights_decay(u32 *weights, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		weights[i] /= 2;
}

/* Share of @weight in @sum, as part of @whole; something stays something. */
static u32 mix_share(u32 weight, u64 sum, u32 whole)
{
	if (!weight)
		return 0;
	return max_t(u32, div64_u64((u64)weight * whole, sum), 1);
}

/**
 * mtier_weights_mix - weigh where memory is used against where threads run
 * @top_accesses: accesses seen on each slot's top-tier memory
 * @cpu_threads: threads that run on each slot's CPUs
 * @out: where to put the weights; may be one of the inputs
 * @n: number of slots
 *
 * Both count alike, each as its share.  Where one knows nothing, the other
 * decides; where neither does, all weights are 0.
 */
void mtier_weights_mix(const u32 *top_accesses, const u32 *cpu_threads,
		       u32 *out, unsigned int n)
{
	u64 accesses = weights_sum(top_accesses, n);
	u64 threads = weights_sum(cpu_threads, n);
	u32 whole = accesses && threads ? MIX_SCALE / 2 : MIX_SCALE;

	for (unsigned int i = 0; i < n; i++)
		out[i] = mix_share(top_accesses[i], accesses, whole) +
			 mix_share(cpu_threads[i], threads, whole);
}

/* 2^32 by the golden ratio: its multiples leave no large gap, modulo 2^32. */
#define PICK_STEP	0x9e3779b9U

/**
 * mtier_target_pick - next slot, each in proportion to its weight
 * @turn: where in the cycle the next pick is, 0 at first
 * @weights: one weight a slot; a slot of weight 0 is never picked
 * @n: number of slots
 *
 * Picks go round the weights laid end to end in steps of the golden ratio, so
 * that at any time each slot was picked nearly as often as its share says: within
 * 6 picks of a million.  Nothing is remembered of the weights.  They may change
 * from pick to pick, as those of nodes that are masked out now and then do, and
 * nobody is owed anything for the time in which he had none.
 *
 * Return: the slot, or -1 if all weights are 0.
 */
int mtier_target_pick(u32 *turn, const u32 *weights, unsigned int n)
{
	u64 at = mul_u64_u32_shr(weights_sum(weights, n), *turn, 32);

	*turn += PICK_STEP;
	for (unsigned int i = 0; i < n; i++) {
		if (at < weights[i])
			return i;
		at -= weights[i];
	}
	return -1;
}
