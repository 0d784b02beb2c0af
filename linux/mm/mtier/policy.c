// SPDX-License-Identifier: GPL-2.0
/*
 * How much may move, and to which node, as pure functions.
 *
 *  bucket   how many bytes may be moved now
 *  picker   which node they go to
 *
 * Which pages: place.c.
 *
 * Locking: none; every function works on its arguments only.  See policy.h for
 * the structs, and tools/testing/mtier for this file in user space.
 */
#include <linux/bits.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/time64.h>
#include <linux/types.h>

#include "policy.h"

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
