/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Random numbers for tests: the same every time, unless MTIER_SEED is set.
 */
#ifndef _MTIER_TEST_RNG_H
#define _MTIER_TEST_RNG_H

#include <stdlib.h>

#include <kunit/test.h>

struct rng {
	u64 state;
};

static inline struct rng rng_new(struct kunit *test)
{
	const char *seed = getenv("MTIER_SEED");
	struct rng rng = { seed ? strtoull(seed, NULL, 0) : 20250321 };

	if (seed)
		kunit_info(test, "MTIER_SEED=%llu", rng.state);
	return rng;
}

/* Next 64 random bits: a counter, well mixed. */
static inline u64 rng_next(struct rng *rng)
{
	u64 x = rng->state += 0x9e3779b97f4a7c15ULL;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

/* 0 to n - 1 */
static inline u64 rng_below(struct rng *rng, u64 n)
{
	return rng_next(rng) % n;
}

static inline bool rng_chance(struct rng *rng, double p)
{
	return (rng_next(rng) >> 11) / 9007199254740992.0 < p;
}

/* A number of any magnitude, often at the edge of one: 0, 1, 2^k - 1, 2^k. */
static inline u64 rng_wild(struct rng *rng)
{
	unsigned int bits = rng_below(rng, 65);
	u64 edge = bits == 64 ? 0 : 1ULL << bits;

	switch (rng_below(rng, 3)) {
	case 0:
		return edge;
	case 1:
		return edge - 1;
	default:
		return bits == 64 ? rng_next(rng) : rng_below(rng, edge);
	}
}

#endif
