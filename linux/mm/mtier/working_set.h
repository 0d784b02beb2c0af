/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Working sets estimated from samples, as pure functions.
 *
 * A sampling window reads the Accessed bits of some ranges of an address space. These
 * functions add windows up and estimate how many pages of the whole address space
 * were accessed within a window, with the error of that estimate.
 *
 * As in policy.h: no struct page, no lock, no clock, no allocation; the caller owns
 * and serialises all state; every input has a defined result.
 */
#ifndef _MM_MTIER_WORKING_SET_H
#define _MM_MTIER_WORKING_SET_H

#include <linux/bits.h>
#include <linux/types.h>

/* Samples of about this many ranges are remembered; older ones fade. */
#define MTIER_WSET_KEEP		64
/* Sums and weights have 12 binary digits after the point. */
#define MTIER_WSET_SHIFT	12
/* Larger inputs are cut to these; all products fit into 64 bits then. */
#define MTIER_WSET_RANGES_MAX	((u32)BIT(22))
#define MTIER_WSET_ALL_MAX	BIT_ULL(40)

/**
 * struct mtier_wset_window - one sampling window of an address space in one tier
 * @ranges: number of ranges that were sampled
 * @range_pages: pages of a range, at most 2^13
 * @looked: pages of the tier whose Accessed bits were read
 * @used: pages of these that were accessed within the window
 * @used_sq: sum over the ranges of the square of their share of @used
 * @window_ns: length of the window
 * @at_ns: time of its end
 */
struct mtier_wset_window {
	u32 ranges;
	u32 range_pages;
	u64 looked;
	u64 used;
	u64 used_sq;
	u64 window_ns;
	u64 at_ns;
};

/**
 * struct mtier_wset - decaying sums of the windows of an address space in one tier
 * @ranges: weight of the ranges that were sampled
 * @looked: pages that were looked at
 * @used: pages that were accessed
 * @used_sq: sum of squares, see struct mtier_wset_window
 * @window_ns: mean length of the windows
 * @at_ns: mean time of their ends
 *
 * Sums and weights are shifted by MTIER_WSET_SHIFT. All zero is a valid start.
 */
struct mtier_wset {
	u64 ranges;
	u64 looked;
	u64 used;
	u64 used_sq;
	u64 window_ns;
	u64 at_ns;
};

/**
 * struct mtier_wset_estimate - estimates for a whole address space in one tier
 * @present: pages that samples can look at
 * @used: pages of these that are accessed within a window
 * @error: standard error of @used
 */
struct mtier_wset_estimate {
	u64 present;
	u64 used;
	u64 error;
};

void mtier_wset_add(struct mtier_wset *w, const struct mtier_wset_window *win);
struct mtier_wset_estimate mtier_wset_estimate(const struct mtier_wset *w,
					       u64 all, u32 range_pages);

#endif /* _MM_MTIER_WORKING_SET_H */
