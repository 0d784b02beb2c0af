// SPDX-License-Identifier: GPL-2.0
/*
 * Working sets estimated from samples, as pure functions.
 *
 * The unit of a sample is a range, since pages of one range are used alike. The
 * estimate is the mean of the sampled ranges times the number of all ranges. Its
 * error follows from how much the sampled ranges differ from each other.
 *
 * A process has few ranges in one window on a large machine and all of its ranges on a
 * small one. So windows fade by the number of ranges that come after them, not by
 * time: about the last MTIER_WSET_KEEP ranges count, or the last window where that has
 * more. A window of a much different length measures something else, and the sums
 * begin anew with it.
 *
 * Locking: none; every function works on its arguments only. The same file is
 * compiled in user space by tools/testing/mtier.
 */
#include <linux/bits.h>
#include <linux/limits.h>
#include <linux/math.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

#include "working_set.h"

#define ONE		BIT_ULL(MTIER_WSET_SHIFT)
#define KEEP		((u64)MTIER_WSET_KEEP << MTIER_WSET_SHIFT)
#define RANGE_PAGES_MAX	((u32)BIT(13))
/*
 * Windows this many times longer or shorter are not added to each other.  The number
 * of looks of a burst alone, 1 to 8, makes windows that much different.
 */
#define WINDOW_RATIO	8
/* The correction for having seen nearly all ranges leaves 1/16 of the variance. */
#define SEEN_MOST_Q16	(65536U - 65536U / 16)

/* The inputs, cut to what one window of ranges can have. */
static struct mtier_wset_window wset_checked(const struct mtier_wset_window *win)
{
	struct mtier_wset_window w = *win;

	w.ranges = min_t(u32, w.ranges, MTIER_WSET_RANGES_MAX);
	w.range_pages = min_t(u32, w.range_pages, RANGE_PAGES_MAX);
	w.looked = min_t(u64, w.looked, (u64)w.ranges * w.range_pages);
	w.used = min_t(u64, w.used, w.looked);
	w.used_sq = min_t(u64, w.used_sq, w.used * w.range_pages);
	return w;
}

/* Let what was added before count less, by the number of ranges that come now. */
static void wset_fade(struct mtier_wset *w, u64 ranges)
{
	u64 keep = KEEP - min_t(u64, ranges, KEEP);

	w->ranges = mul_u64_u64_div_u64(w->ranges, keep, KEEP);
	w->looked = mul_u64_u64_div_u64(w->looked, keep, KEEP);
	w->used = mul_u64_u64_div_u64(w->used, keep, KEEP);
	w->used_sq = mul_u64_u64_div_u64(w->used_sq, keep, KEEP);
}

/* The mean of @a, with weight @wa, and @b, with weight @wb, which is not 0. */
static u64 wset_mean(u64 a, u64 wa, u64 b, u64 wb)
{
	if (b >= a)
		return a + mul_u64_u64_div_u64(b - a, wb, wa + wb);
	return a - mul_u64_u64_div_u64(a - b, wb, wa + wb);
}

/* Does a window of such a length measure the same as those before? */
static bool wset_alike(const struct mtier_wset *w, u64 window_ns)
{
	return window_ns / WINDOW_RATIO <= w->window_ns &&
	       window_ns >= w->window_ns / WINDOW_RATIO;
}

/**
 * mtier_wset_add() - Add a sampling window to the sums of an address space.
 * @w: the sums
 * @win: the window; one without ranges changes nothing
 *
 * Sums of windows of another length are forgotten: fewer pages are accessed within
 * a shorter window.
 */
void mtier_wset_add(struct mtier_wset *w, const struct mtier_wset_window *win)
{
	struct mtier_wset_window now = wset_checked(win);
	u64 ranges = (u64)now.ranges << MTIER_WSET_SHIFT;

	if (!ranges)
		return;
	if (!wset_alike(w, now.window_ns))
		*w = (struct mtier_wset) { };
	wset_fade(w, ranges);
	w->window_ns = wset_mean(w->window_ns, w->ranges, now.window_ns, ranges);
	w->at_ns = wset_mean(w->at_ns, w->ranges, now.at_ns, ranges);
	w->ranges += ranges;
	w->looked += now.looked << MTIER_WSET_SHIFT;
	w->used += now.used << MTIER_WSET_SHIFT;
	w->used_sq += now.used_sq << MTIER_WSET_SHIFT;
}

/*
 * The variance of the pages in use of a range, shifted twice.  Two ranges that nobody
 * sampled are added to the sample, one all used and one unused: a sample of ranges
 * that are all alike is no proof that the other ranges are, too.
 */
static u64 wset_variance(const struct mtier_wset *w, u32 range_pages)
{
	u64 ranges = w->ranges + 2 * ONE;
	u64 used = w->used + ((u64)range_pages << MTIER_WSET_SHIFT);
	u64 used_sq = w->used_sq +
		      ((u64)range_pages * range_pages << MTIER_WSET_SHIFT);
	u64 mean = mul_u64_u64_div_u64(used, ONE, ranges);
	u64 mean_sq = mul_u64_u64_div_u64(used_sq, ONE, ranges);

	mean_sq <<= MTIER_WSET_SHIFT;
	return mean_sq > mean * mean ? mean_sq - mean * mean : 0;
}

/*
 * Ranges are drawn without replacement within a round, so that a sample of nearly all
 * has less error. Twice as many ranges as there are contain a whole round for sure.
 * Returns the share of the variance that is left, shifted by 16.
 */
static u32 wset_unseen(const struct mtier_wset *w, u64 all)
{
	u64 seen = mul_u64_u64_div_u64(min_t(u64, w->ranges, 2 * all * ONE),
				       65536, 2 * all * ONE);

	return 65536 - min_t(u32, seen, SEEN_MOST_Q16);
}

/**
 * mtier_wset_estimate() - Estimate the working set of a whole address space.
 * @w: the sums of its windows
 * @all: number of ranges of the address space
 * @range_pages: pages of a range
 *
 * Return: the estimates; all 0 if nothing was sampled or there is no range.
 */
struct mtier_wset_estimate mtier_wset_estimate(const struct mtier_wset *w,
					       u64 all, u32 range_pages)
{
	struct mtier_wset_estimate e = { };
	u64 variance, error;

	all = min_t(u64, all, MTIER_WSET_ALL_MAX);
	range_pages = min_t(u32, range_pages, RANGE_PAGES_MAX);
	if (!w->ranges || !all)
		return e;
	e.present = mul_u64_u64_div_u64(all, w->looked, w->ranges);
	e.used = mul_u64_u64_div_u64(all, w->used, w->ranges);
	variance = mul_u64_u32_shr(wset_variance(w, range_pages),
				   wset_unseen(w, all), 16);
	error = int_sqrt64(mul_u64_u64_div_u64(variance, ONE, w->ranges));
	e.error = mul_u64_u64_div_u64(all, error, ONE);
	return e;
}
