// SPDX-License-Identifier: GPL-2.0
/*
 * Selftest helper: the cost of a page fault with weights, compared with plain interleave
 * in the same run. Guest time counts instructions if the lab is set up so.
 */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mempolicy2_util.h"

#define PAGES	4000
#define ROUNDS	5

static int nodes;

enum kind { DEFAULT, PLAIN, GLOBAL, OWN, LIVE, KINDS };

/*
 * All nodes with memory, each with a weight; "0:3,1:4,...". LIVE has one for each second
 * node, all others use the global ones.
 */
static const char *weights(enum kind kind)
{
	static char text[MP_NODES * 8];
	char *end = text;
	int i;

	for (i = 0; i < nodes; i++) {
		end += sprintf(end, "%s%d", i ? "," : "", i);
		if (kind == OWN || (kind == LIVE && i % 2))
			end += sprintf(end, ":%d", i % 5 + 1);
	}
	return text;
}

static int count_nodes(void)
{
	char dir[80];
	int n = 0;

	do {
		snprintf(dir, sizeof(dir), MP_DIR "node%d", n);
	} while (!access(dir, F_OK) && ++n < MP_NODES);
	return n;
}

static void bind(char *p, size_t size, enum kind kind)
{
	if (kind == PLAIN)
		mp_old_bind(p, size, MPOL_INTERLEAVE, nodes == 64 ? ~0UL :
			    (1UL << nodes) - 1, 0);
	else if (kind != DEFAULT)
		mp_bind(p, size, weights(kind), 0);
}

/* ns per fault, the best of some rounds */
static double fault_ns(enum kind kind)
{
	char *p = mp_map(PAGES * MP_PAGE);
	long long best = 0;
	int i;

	bind(p, PAGES * MP_PAGE, kind);
	for (i = 0; i < ROUNDS; i++) {
		long long t = mt_now_ns();

		mp_touch(p, PAGES * MP_PAGE);
		t = mt_now_ns() - t;
		best = !best || t < best ? t : best;
		madvise(p, PAGES * MP_PAGE, MADV_DONTNEED);
	}
	munmap(p, PAGES * MP_PAGE);
	return (double)best / PAGES;
}

static const char * const names[] = {
	"default", "interleave", "global weights", "its own", "some its own",
};

/* With weights a fault costs less than @limit times one without. */
int mp_faults_cost(double limit)
{
	double ns[KINDS];
	int ret = MT_PASS;
	enum kind k;

	nodes = count_nodes();
	for (k = DEFAULT; k < KINDS; k++) {
		ns[k] = fault_ns(k);
		mt_note("fault, %d nodes, %s: %.0f ns, %.3f of interleave",
			nodes, names[k], ns[k],
			k < PLAIN ? 1 : ns[k] / ns[PLAIN]);
	}
	for (k = GLOBAL; k < KINDS; k++) {
		if (ns[k] < ns[PLAIN] * limit)
			continue;
		mt_note("%s: more than %.2f", names[k], limit);
		ret = MT_FAIL;
	}
	return ret;
}

/* For a comparison of kernels: also the kinds that work without the new calls */
int mp_print_faults(void)
{
	nodes = 2;
	printf("default %.1f ns\n", fault_ns(DEFAULT));
	printf("interleave %.1f ns\n", fault_ns(PLAIN));
	return MT_PASS;
}
