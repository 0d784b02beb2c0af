// SPDX-License-Identifier: GPL-2.0
/*
 * The tables of the zipfian draw (wl_zipf.h).  Powers are computed here, by series in plain
 * double arithmetic, so that host and guest, whatever their libraries choose at run time, have the
 * same tables.
 */
#define _GNU_SOURCE
#include "wl_zipf.h"

#define HEAD_RANKS	256u
#define CELL_SHARE	32u
#define LN2		0.69314718055994530942

/* ln x for x > 0: x = m 2^e with m near 1, and ln m by the series of atanh. */
static double logarithm(double x)
{
	double z, square, power, sum = 0;
	int e = 0;

	for (; x > 1.5; x /= 2)
		e++;
	for (; x < 0.75; x *= 2)
		e--;
	z = (x - 1) / (x + 1);
	square = z * z;
	power = z;
	for (int k = 1; k < 40; k += 2, power *= square)
		sum += power / k;
	return 2 * sum + e * LN2;
}

static double exponential(double x)
{
	double term = 1, sum = 1, y = x / 1024;

	for (int k = 1; k < 20; k++) {
		term *= y / k;
		sum += term;
	}
	for (int i = 0; i < 10; i++)
		sum *= sum;
	return sum;
}

/* r^-theta. */
static double weight(double rank, double theta)
{
	return exponential(-theta * logarithm(rank));
}

/*
 * Walker's alias table: each cell keeps a share of its slot and gives the rest to one with too much.
 * A cell's weight is that of its bounding box: rejection brings it down again.
 */
static void make_alias(struct wl_zipf *z, double *mass)
{
	static uint32_t small[WL_ZIPF_CELLS], large[WL_ZIPF_CELLS];
	unsigned int nr_small = 0, nr_large = 0;
	double sum = 0;

	for (unsigned int i = 0; i < z->nr_cells; i++)
		sum += mass[i];
	for (unsigned int i = 0; i < z->nr_cells; i++) {
		mass[i] *= (double)z->nr_cells / sum;
		z->cell[i].alias = i;
		z->cell[i].threshold = UINT32_MAX;
		if (mass[i] < 1)
			small[nr_small++] = i;
		else
			large[nr_large++] = i;
	}
	while (nr_small && nr_large) {
		uint32_t less = small[--nr_small], more = large[nr_large - 1];

		z->cell[less].threshold = (uint32_t)(mass[less] * UINT32_MAX);
		z->cell[less].alias = more;
		mass[more] -= 1 - mass[less];
		if (mass[more] < 1) {
			nr_large--;
			small[nr_small++] = more;
		}
	}
}

void wl_zipf_make(struct wl_zipf *z, uint64_t n, uint64_t theta_milli)
{
	static double mass[WL_ZIPF_CELLS];
	double theta = (double)theta_milli / 1000;

	memset(z, 0, sizeof(*z));
	for (uint64_t first = 0; first < n; ) {
		struct wl_zipf_cell *c = &z->cell[z->nr_cells];
		uint64_t width = first < HEAD_RANKS ? 1 : first / CELL_SHARE;

		if (width > n - first)
			width = n - first;
		if (width > UINT32_MAX / 2)
			width = UINT32_MAX / 2;
		if (z->nr_cells == WL_ZIPF_CELLS)
			tg_die(TG_EXIT_USAGE, "%llu items are too many for a zipfian distribution",
			       (unsigned long long)n);
		c->first = first;
		c->width = (uint32_t)width;
		/* r^-theta against its value at the first rank: 1 - theta (r - first) / first, nearly. */
		c->slope = width == 1 ? 0 : (uint32_t)(theta * 4294967296.0 / (double)(first + 1));
		mass[z->nr_cells] = weight((double)(first + 1), theta) * (double)width;
		z->nr_cells++;
		first += width;
	}
	make_alias(z, mass);
}
