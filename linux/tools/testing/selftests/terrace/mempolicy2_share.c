// SPDX-License-Identifier: GPL-2.0
/*
 * Weighted interleave: policies with equal weights share one table, so that a
 * range with weights costs hardly more memory than one without; and a table
 * lives exactly as long as a policy uses it.
 *
 * lab: topology=dram-cxl timeout=60s
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mempolicy2_util.h"
#include "mtier_util.h"

#define PARAM	sizeof(struct mp_param)
#define RANGES	20000UL

/* Slab that cannot be reclaimed, in bytes */
static long long slab(void)
{
	char line[128];
	long long kib = -1;
	FILE *f = fopen("/proc/meminfo", "re");

	while (f && kib < 0 && fgets(line, sizeof(line), f))
		if (sscanf(line, "SUnreclaim: %lld", &kib) != 1)
			kib = -1;
	if (f)
		fclose(f);
	return kib * 1024;
}

/*
 * Bytes of slab that each of many ranges of a page takes.  Neighbours have
 * different policies, @even and @odd, so that no two become one mapping.
 */
static long long bytes_a_range(const struct mp_policy *even,
			       const struct mp_policy *odd)
{
	char *area = mp_map(RANGES * MP_PAGE);
	long long before, bytes = -1;
	unsigned long i;

	if (!area)
		return -1;
	before = slab();
	for (i = 0; i < RANGES; i++) {
		const struct mp_policy *p = i % 2 ? odd : even;

		if (mp_mbind2(area + i * MP_PAGE, MP_PAGE, &p->param, PARAM, 0))
			break;
	}
	if (i == RANGES && before >= 0)
		bytes = (slab() - before) / (long long)RANGES;
	/* They stay: memory on its way back would count for the next ones. */
	return bytes;
}

/* A pointer more in a policy, and what slabs round up */
#define MOST_MORE	48

static int memory_of_a_range(void)
{
	struct mp_policy even, odd;
	long long plain, weighted, fixed;

	mp_policy(&even, MPOL_INTERLEAVE, "0,1");
	mp_policy(&odd, MPOL_INTERLEAVE, "0");
	plain = bytes_a_range(&even, &odd);
	mp_policy(&even, MP_WEIGHTED, "0:3,1:2");
	mp_policy(&odd, MP_WEIGHTED, "0:5,1:1");
	weighted = bytes_a_range(&even, &odd);
	even.param.mode_flags = MPOL_F_STATIC_NODES;
	odd.param.mode_flags = MPOL_F_STATIC_NODES;
	fixed = bytes_a_range(&even, &odd);
	mt_note("bytes a range: interleave %lld, weights %lld, with a fixed mask %lld",
		plain, weighted, fixed);
	MT_ASSERT(plain > 0 && weighted > 0 && fixed > 0, "not measured");
	MT_ASSERT(weighted - plain <= MOST_MORE, "%lld bytes for weights",
		  weighted - plain);
	MT_ASSERT(fixed - plain <= MOST_MORE, "%lld bytes for a fixed mask",
		  fixed - plain);
	return MT_PASS;
}

/* One mapping only if a table is the very one that its neighbour uses */
static int last_user(void)
{
	char *first = mp_map(2 * MP_PAGE), *second = mp_map(MP_PAGE);
	struct mp_policy p;

	MT_ASSERT(!mp_bind(first, MP_PAGE, "0:3,1:2", 0), "first");
	MT_ASSERT(!mp_bind(second, MP_PAGE, "0:3,1:2", 0), "second");
	MT_ASSERT(!mp_bind(second, MP_PAGE, NULL, 0), "second goes");
	MT_ASSERT(!mp_get(&p, first, MPOL_F_ADDR) && mp_is(&p, "0:3,1:2"),
		  "the first lost its weights");
	MT_ASSERT(!mp_bind(first + MP_PAGE, MP_PAGE, "0:3,1:2", 0), "third");
	MT_ASSERT(mp_vmas(first, 2 * MP_PAGE) == 1,
		  "the table in use was not found");
	return MT_PASS;
}

/* Three positions of two nodes: different masks and weights, the same in force */
static int given_differently(void)
{
	char *p = mp_map(2 * MP_PAGE);
	struct mp_policy a, b, got;

	mp_policy(&a, MP_WEIGHTED, "0:5,1:1,2:2");
	mp_policy(&b, MP_WEIGHTED, "0:2,1:1,2:5");
	a.param.mode_flags = MPOL_F_RELATIVE_NODES;
	b.param.mode_flags = MPOL_F_RELATIVE_NODES;
	MT_ASSERT(!mp_mbind2(p, MP_PAGE, &a.param, PARAM, 0) &&
		  !mp_mbind2(p + MP_PAGE, MP_PAGE, &b.param, PARAM, 0), "set");
	MT_ASSERT(!mp_in_force(&got, p + MP_PAGE, MPOL_F_ADDR) &&
		  mp_is(&got, "0:7,1:1"), "in force %d,%d", got.weights[0],
		  got.weights[1]);
	MT_ASSERT(!mp_get(&got, p, MPOL_F_ADDR) && mp_is(&got, "0:5,1:1,2:2"),
		  "the first reads as %d,%d,%d", got.weights[0],
		  got.weights[1], got.weights[2]);
	MT_ASSERT(!mp_get(&got, p + MP_PAGE, MPOL_F_ADDR) &&
		  mp_is(&got, "0:2,1:1,2:5"), "the second reads as %d,%d,%d",
		  got.weights[0], got.weights[1], got.weights[2]);
	MT_ASSERT(mp_vmas(p, 2 * MP_PAGE) == 2, "they became one");
	return MT_PASS;
}

/* Where each page of the area would go, and what its policy reads as */
struct model {
	char *area;
	int weights[64];	/* 0: no policy */
};

static const char * const choices[] = {
	NULL, "0:1,1:1", "0:1,1:2", "0:2,1:1", "0:1", "1:1", "0:0,1:2",
	"0:7,1:3",
};

static int check_model(const struct model *m, unsigned long step)
{
	struct mp_policy p;
	unsigned int i;

	for (i = 0; i < ARRAY_LEN(m->weights); i++) {
		const char *want = choices[m->weights[i]];

		MT_ASSERT(!mp_get(&p, m->area + i * MP_PAGE, MPOL_F_ADDR) &&
			  (want ? mp_is(&p, want) :
				  p.param.mode == MPOL_DEFAULT),
			  "step %lu: page %u is not %s", step, i,
			  want ? want : "without a policy");
	}
	return MT_PASS;
}

/* Other policies come and go with the same weights meanwhile. */
static int child(void *area)
{
	unsigned int i;

	for (i = 0; i < 20; i++) {
		mp_set(choices[1 + i % 7]);
		mp_bind(area, 64 * MP_PAGE, choices[1 + (i + 3) % 7], 0);
	}
	return 0;
}

static int random_users(void)
{
	static struct model m;
	unsigned long step;

	m.area = mp_map(sizeof(m.weights) / sizeof(int) * MP_PAGE);
	srandom(4711);
	for (step = 0; step < 2000; step++) {
		unsigned int from = random() % 64, to, i;
		int which = random() % ARRAY_LEN(choices);

		to = from + 1 + random() % (64 - from);
		MT_ASSERT(!mp_bind(m.area + from * MP_PAGE,
				   (to - from) * MP_PAGE, choices[which], 0),
			  "step %lu: mbind", step);
		for (i = from; i < to; i++)
			m.weights[i] = which;
		if (step % 100 == 0 && mp_in_child(child, m.area))
			return MT_FAIL;
		if (step % 10 == 0 && check_model(&m, step))
			return MT_FAIL;
	}
	return check_model(&m, step);
}

int main(void)
{
	static const struct mt_check checks[] = {
		{ "G28 memory of a range with weights", memory_of_a_range },
		{ "C14 a table outlives all of its users but one", last_user },
		{ "F25 the same in force, given differently",
		  given_differently },
		{ "C15 many users of few tables", random_users },
	};

	return mp_main(checks, ARRAY_LEN(checks));
}
