// SPDX-License-Identifier: GPL-2.0
/*
 * Limit the rate of migrations, and choose their target nodes, as pure functions.
 *
 *  bucket   number of bytes that may migrate now
 *  picker   target node
 *
 * The pages are chosen in place.c.
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

/* Limits of times, rates and debts, so that their products fit. */
#define BUCKET_NS_MAX	(64 * NSEC_PER_SEC)
#define BUCKET_MAX	((s64)BIT_ULL(52))

/**
 * mtier_bucket_pay() - Charge migrated bytes to a bucket.
 * @b: the bucket
 * @now_ns: current time; can be slightly before that of an earlier call
 * @rate: rate limit in bytes/s; may change between calls
 * @burst: most bytes that can be saved up
 * @bytes: bytes migrated; 0 to get the time until a debt is paid
 *
 * A caller that migrates more than the bucket has goes into debt, and must wait
 * until the debt is paid. So the bytes migrated in any interval are limited to those
 * of the rate, plus @burst and one batch. Fractions of a byte are lost, at most one
 * byte a call.
 *
 * Return: ns until the debt is paid, at most a second; 0 if there is none.
 */
u64 mtier_bucket_pay(struct mtier_bucket *b, u64 now_ns, u64 rate, u64 burst,
		     u64 bytes)
{
	s64 earned;
	u64 owed;

	rate = min_t(u64, rate, BUCKET_MAX);
	/* A time before the last one earns nothing: it was counted before. */
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

/* Sum of the mixed weights */
#define MIX_SCALE	65536

static u64 weights_sum(const u32 *weights, unsigned int n)
{
	u64 sum = 0;

	for (unsigned int i = 0; i < n; i++)
		sum += weights[i];
	return sum;
}

/**
 * mtier_weights_add() - Increase the weight of one slot.
 * @weights: weight of each slot
 * @n: number of slots
 * @slot: index of the slot; nothing happens if it is not below @n
 * @amount: amount to add
 *
 * If the weight would overflow, all weights are halved first, which keeps their
 * proportions.
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
 * mtier_weights_decay() - Halve all weights, so that old counts fade.
 * @weights: weight of each slot
 * @n: number of slots
 */
void mtier_weights_decay(u32 *weights, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		weights[i] /= 2;
}

/* Scale the share of @weight in @sum to @whole: at least 1 if @weight is not 0. */
static u32 mix_share(u32 weight, u64 sum, u32 whole)
{
	if (!weight)
		return 0;
	return max_t(u32, div64_u64((u64)weight * whole, sum), 1);
}

/**
 * mtier_weights_mix() - Mix the shares of accesses and of threads into weights.
 * @top_accesses: accesses counted on the fast memory of each slot
 * @cpu_threads: threads that run on the CPUs of each slot
 * @out: resulting weights; may be one of the inputs
 * @n: number of slots
 *
 * Both shares count equally. If all values of one input are 0, only the other one
 * counts. If both inputs are all 0, all weights are 0.
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
 * mtier_target_pick() - Pick the next slot, each in proportion to its weight.
 * @turn: position of the next pick in the cycle; initially 0
 * @weights: weight of each slot; a slot of weight 0 is never picked
 * @n: number of slots
 *
 * The weights are laid end to end on a circle, and each pick advances by the golden
 * ratio. So at any time the number of picks of each slot is close to its share:
 * within 6 picks of a million. The only state is @turn. So weights may change
 * between picks, for example if a node is masked out for some of them. A slot does
 * not catch up on picks that it missed while its weight was 0.
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
