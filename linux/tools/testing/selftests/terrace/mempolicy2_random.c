// SPDX-License-Identifier: GPL-2.0
/*
 * Memory policy calls with random bytes: they fail at most, and a policy that they set
 * can be read, set again and used. The kernel's own checks detect errors. As a test
 * 20,000 rounds; or for some seconds:
 *
 * mempolicy2_random SECONDS [SEED]
 *
 * Either is multiplied by TERRACE_STRETCH.
 *
 * lab: topology=three-tier timeout=60s debug=yes
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "mempolicy2_util.h"
#include "mtier_util.h"

#define SIZE	sizeof(struct mp_param)
#define PAGES	16
#define ROUNDS	20000

/* Space for the writes of get after the two addresses in fill() */
static unsigned char buf[1024];
static long long seconds;
static unsigned int seed = 4711;

/* All random, or most of it valid, so that later checks are reached too */
static void fill(unsigned long round)
{
	struct mp_param *p = (void *)buf;
	unsigned int i;

	for (i = 0; i < 128; i++)
		buf[i] = random() >> 7;
	if (!(round % 4))
		return;
	p->mode %= 8;
	p->mode_flags &= 0xf000;
	if (round % 13)
		p->home_node = p->home_node & 3 ? -1 : 0;
	memset(p->resv, 0, sizeof(p->resv));
	p->pol_nodes = (uintptr_t)buf + 64;
	p->il_weights = round % 3 ? (uintptr_t)buf + 80 : 0;
	p->pol_maxnodes %= round % 5 ? 4 : 600;
	if (round % 7)
		memset(buf + 72, 0, 8);
	if (round % 11)
		buf[64] &= 7;
}

/* The values read from a policy of the kernel can be set again. */
static bool reads_back(void)
{
	struct mp_policy p;

	return !mp_get(&p, NULL, 0) && !mp_set2(&p.param, SIZE, 0);
}

static int one_round(char *area, unsigned long round)
{
	unsigned long flags = random() & (MP_MF_REBALANCE | MP_MF_HOME_NODE | 3);
	size_t from = random() % PAGES, n = 1 + random() % (PAGES - from);

	fill(round);
	if (!mp_set2(buf, round % 7 ? SIZE : round % 200, 0))
		MT_ASSERT(reads_back(), "round %lu: cannot be set again",
			  round);
	mp_mbind2(area + from * MP_PAGE, n * MP_PAGE, buf, SIZE, flags);
	mp_get2(buf, SIZE, round % 2 ? (uintptr_t)area : 0,
		round % 2 ? MPOL_F_ADDR : 0);
	if (!(round % 64)) {
		mp_touch(area, PAGES * MP_PAGE);
		if (!(round % 128))
			madvise(area, PAGES * MP_PAGE, MADV_DONTNEED);
	}
	return MT_PASS;
}

static int random_bytes(void)
{
	unsigned long rounds = (unsigned long)ROUNDS * terrace_stretch();
	long long start = mt_now_ms();
	long long until = start + seconds * 1000 * terrace_stretch();
	char *area = mp_map(PAGES * MP_PAGE);
	unsigned long round;

	srandom(seed);
	for (round = 0; seconds ? mt_now_ms() < until : round < rounds; round++)
		if (one_round(area, round))
			return MT_FAIL;
	mt_note("%lld s: %lu rounds, seed %u", (mt_now_ms() - start) / 1000,
		round, seed);
	return MT_PASS;
}

int main(int argc, char **argv)
{
	static const struct mt_check checks[] = {
		{ "F27 random bytes", random_bytes, 0 },
	};

	if (argc > 1)
		seconds = atoll(argv[1]);
	if (argc > 2)
		seed = atoi(argv[2]);
	return mp_main(checks, ARRAY_LEN(checks));
}
