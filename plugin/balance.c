// SPDX-License-Identifier: GPL-2.0
/*
 * Newton's method on x = log(factor) of the nodes that can be busy at all: those that would be above
 * the flat part of the curve if all answered as fast as when idle.  A step that makes things worse
 * is halved, which the bends of the curve need.
 */
#include <math.h>
#include <string.h>

#include "balance.h"

#define STEPS		20
#define HALVINGS	8
#define PRECISION	0.001	/* of a factor */
#define MAX_STEP	1.5

struct problem {
	const struct model *m;
	const struct model_cpu *cpu;
	unsigned int active[MODEL_MAX_NODES], count;
	double factor[MODEL_MAX_NODES], used[MODEL_MAX_NODES];
	double wrong[MODEL_MAX_NODES];			/* log(curve) - x, of the active ones */
	double slope[MODEL_MAX_NODES][MODEL_MAX_NODES + 1];	/* what changes it; and the right-hand side */
};

static uint64_t peek(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/*
 * Does the other vCPU want anything at this one's time?  vCPUs take turns to execute, so one that is
 * idle now may have worked at that time, or been woken and not had its turn.
 */
static bool competes(const struct problem *p, const struct model_cpu *other)
{
	return peek(&other->demand.active) || peek(&other->wake_ps) || peek(&other->clock_ps) > p->cpu->clock_ps;
}

/* What a vCPU wants: this one by its window now, the others by what they published. NULL: nothing. */
static const struct model_demand *demand_of(const struct problem *p, unsigned int i)
{
	if (i == p->cpu->number)
		return &p->cpu->window;
	return competes(p, &p->m->cpu[i]) ? &p->m->cpu[i].demand : NULL;
}

/* A vCPU's window when nodes are as slow as they are assumed to be. */
static double window_ps(const struct problem *p, const struct model_demand *d)
{
	double time = (double)peek(&d->other_ps);

	for (unsigned int n = 0; n < p->m->config.nr_nodes; n++)
		time += (double)peek(&d->stall_ps[n]) * p->factor[n];
	return time > 1.0 ? time : 1.0;
}

static void find_used(struct problem *p)
{
	memset(p->used, 0, sizeof(p->used));
	for (unsigned int i = 0; i < p->m->config.nr_cpus; i++) {
		const struct model_demand *d = demand_of(p, i);
		double time;

		if (!d)
			continue;
		time = window_ps(p, d);
		for (unsigned int n = 0; n < p->m->config.nr_nodes; n++)
			p->used[n] += (double)peek(&d->load[n]) / time;
	}
}

/* How far curve and assumption are apart: the largest of the nodes. */
static double find_wrong(struct problem *p)
{
	double worst = 0;

	find_used(p);
	for (unsigned int a = 0; a < p->count; a++) {
		unsigned int n = p->active[a];

		p->wrong[a] = log(model_curve(&p->m->config.curve, p->used[n])) - log(p->factor[n]);
		worst = fmax(worst, fabs(p->wrong[a]));
	}
	return worst;
}

/* d log(curve) / d utilisation, by a small difference. */
static double curve_slope(const struct model_curve *curve, double used)
{
	const double step = 1e-4;

	return log(model_curve(curve, used + step) / model_curve(curve, used)) / step;
}

static void find_slopes(struct problem *p)
{
	memset(p->slope, 0, sizeof(p->slope));
	for (unsigned int i = 0; i < p->m->config.nr_cpus; i++) {
		const struct model_demand *d = demand_of(p, i);
		double time;

		if (!d)
			continue;
		time = window_ps(p, d);
		for (unsigned int a = 0; a < p->count; a++)
			for (unsigned int b = 0; b < p->count; b++)
				p->slope[a][b] += (double)peek(&d->load[p->active[a]]) / time *
						  (double)peek(&d->stall_ps[p->active[b]]) *
						  p->factor[p->active[b]] / time;
	}
	for (unsigned int a = 0; a < p->count; a++) {
		double slope = curve_slope(&p->m->config.curve, p->used[p->active[a]]);

		for (unsigned int b = 0; b < p->count; b++)
			p->slope[a][b] = p->slope[a][b] * slope + (a == b);
		p->slope[a][p->count] = p->wrong[a];
	}
}

/* Gauss; all is positive and the diagonal at least 1, but rows may still need to change places. */
static void solve(struct problem *p, double *step)
{
	unsigned int n = p->count;

	for (unsigned int col = 0; col < n; col++) {
		unsigned int best = col;

		for (unsigned int row = col + 1; row < n; row++)
			if (fabs(p->slope[row][col]) > fabs(p->slope[best][col]))
				best = row;
		for (unsigned int k = col; k <= n; k++) {
			double swap = p->slope[col][k];

			p->slope[col][k] = p->slope[best][k];
			p->slope[best][k] = swap;
		}
		if (fabs(p->slope[col][col]) < 1e-12)
			p->slope[col][col] = 1;
		for (unsigned int row = col + 1; row < n; row++) {
			double times = p->slope[row][col] / p->slope[col][col];

			for (unsigned int k = col; k <= n; k++)
				p->slope[row][k] -= times * p->slope[col][k];
		}
	}
	for (unsigned int row = n; row--; ) {
		double value = p->slope[row][n];

		for (unsigned int k = row + 1; k < n; k++)
			value -= p->slope[row][k] * step[k];
		step[row] = value / p->slope[row][row];
	}
}

/* Go @share of @step from @from. Returns how wrong that is. */
static double go(struct problem *p, const double *from, const double *step, double share)
{
	for (unsigned int a = 0; a < p->count; a++) {
		double to = from[a] * exp(share * fmax(-MAX_STEP, fmin(MAX_STEP, step[a])));

		p->factor[p->active[a]] = fmax(1.0, fmin(BALANCE_MAX_FACTOR, to));
	}
	return find_wrong(p);
}

void balance(const struct model *m, const struct model_cpu *cpu, double *factor, double *used)
{
	struct problem p = { .m = m, .cpu = cpu };
	double step[MODEL_MAX_NODES], from[MODEL_MAX_NODES], wrong;

	for (unsigned int n = 0; n < m->config.nr_nodes; n++)
		p.factor[n] = 1.0;
	find_used(&p);
	for (unsigned int n = 0; n < m->config.nr_nodes; n++) {
		if (p.used[n] <= m->config.curve.flat)
			continue;
		p.active[p.count++] = n;
		p.factor[n] = fmax(1.0, factor[n]);
	}
	wrong = p.count ? find_wrong(&p) : 0;
	for (unsigned int i = 0; i < STEPS && wrong > PRECISION; i++) {
		double was = wrong, share = 1.0;

		find_slopes(&p);
		solve(&p, step);
		for (unsigned int a = 0; a < p.count; a++)
			from[a] = p.factor[p.active[a]];
		wrong = go(&p, from, step, share);
		for (unsigned int k = 0; k < HALVINGS && wrong > was; k++)
			wrong = go(&p, from, step, share /= 2);
	}
	memcpy(factor, p.factor, m->config.nr_nodes * sizeof(*factor));
	memcpy(used, p.used, m->config.nr_nodes * sizeof(*used));
}
