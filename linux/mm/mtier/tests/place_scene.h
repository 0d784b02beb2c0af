/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Common parts of the tests of the decision which pages belong into the fast tier.
 *
 * The state is static in each test, since it is too large for a stack together with
 * the results. Tests run one at a time, and each initialises its state.
 */
#ifndef _MM_MTIER_PLACE_SCENE_H
#define _MM_MTIER_PLACE_SCENE_H

#include <linux/math64.h>
#include <linux/types.h>

#include "../place.h"

#define PPM		1000000U

/* 256 MiB in use, half of it in DRAM, and no free DRAM. */
static const struct mtier_place_machine machine = {
	.pages = { 32768, 32768 },
	.latency_ns = 150,
	.move_ns = 2500,
	.look_ns = 20,
};

/* Add the access counts of @pages pages that each scan finds accessed with @ppm. */
static inline void add_binomial(struct mtier_counts *counts, u32 group, u32 looks,
				u32 pages, u32 ppm)
{
	u64 choose = 1;
	u32 c, i;

	for (c = 0; c <= looks; c++) {
		u64 nr = (u64)pages * choose;

		for (i = 0; i < looks; i++)
			nr = div_u64(nr * (i < c ? ppm : PPM - ppm) + PPM / 2, PPM);
		counts->pages[group][c] += nr;
		choose = div_u64(choose * (looks - c), c + 1);
	}
}

/* Plan exchanges between the fast tier and all slower ones. */
static inline void plan_tiers(const struct mtier_place *p,
			      const struct mtier_place_machine *m,
			      const struct mtier_worth *w,
			      const struct mtier_counts *movable, u64 limit,
			      struct mtier_plan *plan)
{
	struct mtier_counts low = *movable, top = { };
	u32 g, c;

	for (g = MTIER_TOP; g < MTIER_GROUPS; g += MTIER_LARGE)
		for (c = 0; c <= MTIER_LOOKS_MOST; c++) {
			top.pages[g][c] = low.pages[g][c];
			low.pages[g][c] = 0;
		}
	mtier_place_plan(p, m, w, &low, &top, limit, plan);
}

static inline void start(struct mtier_place *p, u32 looks,
			 const struct mtier_counts *counts, struct mtier_worth *w)
{
	mtier_place_init(p, &machine);
	mtier_place_look(p, looks, counts, NULL);
	mtier_place_worth(p, looks, w);
}

#endif
