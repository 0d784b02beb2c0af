/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Zipfian ranks without floating point in the draw: rank r of 1 to n has the weight r^-theta.
 *
 * The first ranks are cells of their own; further ones share cells whose width is 1/32 of their
 * first rank.  A draw takes a cell by Walker's alias method and a rank within the cell by rejection
 * with a linear bound, so that frequencies are right within a thousandth.
 */
#ifndef TERRACE_WL_ZIPF_H
#define TERRACE_WL_ZIPF_H

#include "wl.h"

struct wl_zipf_cell {
	uint64_t first;		/* rank, from 0 */
	uint32_t width, threshold, alias, slope;
};

#define WL_ZIPF_CELLS	2048u

struct wl_zipf {
	uint64_t nr_cells;
	struct wl_zipf_cell cell[WL_ZIPF_CELLS];
};

/* @theta_milli: 1000 theta, 0 (uniform) to 3000. */
void wl_zipf_make(struct wl_zipf *z, uint64_t n, uint64_t theta_milli);

/* A rank from 0. */
static inline uint64_t wl_zipf_draw(const struct wl_zipf *z, uint64_t *state)
{
	const struct wl_zipf_cell *c;
	uint64_t x, within;

	for (;;) {
		x = wl_next(state);
		c = &z->cell[wl_below(x, z->nr_cells)];
		/* The high half chose the cell; the low half chooses between it and its alias. */
		if ((uint32_t)x >= c->threshold)
			c = &z->cell[c->alias];
		if (c->width == 1)
			return c->first;
		x = wl_next(state);
		within = wl_below(x, c->width);
		if ((uint32_t)x >= within * c->slope)
			return c->first + within;
	}
}

#endif /* TERRACE_WL_ZIPF_H */
