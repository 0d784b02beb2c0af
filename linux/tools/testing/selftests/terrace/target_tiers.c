// SPDX-License-Identifier: GPL-2.0
/*
 * Target nodes with three tiers: all faster ones.
 *
 * lab: topology=three-tier icount=2 timeout=600s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mtier_util.h"

#define SIZE	(4 * MT_MB)

enum { DRAM, CXL, SLOW };

static int three_tiers(void)
{
	int nodes[MT_NODES];

	MT_NEED(mt_nodes("has_memory", nodes) == 3, "not three nodes");
	mt_on();
	MT_ASSERT(mt_reads("node1/target", "0"), "node 1 does not feed node 0");
	MT_ASSERT(mt_reads("node2/target", "0-1"), "node 2 does not feed nodes 0 and 1");
	MT_ASSERT(access(MT_DIR "node0", F_OK), "node 0 feeds somebody");
	MT_ASSERT(mt_kthreads() == 1, "%u threads", mt_kthreads());
	mt_off();
	return MT_PASS;
}

/* From the slowest tier to DRAM, and how. */
static int directly(void)
{
	long long steps[3][3] = { 0 };
	struct mt_trace trace;
	char line[512];
	char *p;

	if (three_tiers())
		return MT_SKIP;
	p = mt_place(SIZE, SLOW);
	MT_ASSERT(p, "no memory on node 2");
	mt_fast();
	MT_ASSERT(!mt_trace_open(&trace, "mtier_migrate"), "no trace event");
	mt_on();
	MT_ASSERT(mt_moves_to(p, SIZE, DRAM, 2 * MT_MOVE_MS),
		  "it did not reach DRAM");
	while (mt_trace_line(&trace, line, sizeof(line))) {
		long long from = mt_field(line, "source");
		long long to = mt_field(line, "target");

		if (from >= 0 && from < 3 && to >= 0 && to < 3)
			steps[from][to] += mt_field(line, "moved");
	}
	mt_trace_close(&trace);
	mt_note("pages 2->1 %lld, 1->0 %lld, 2->0 %lld", steps[SLOW][CXL],
		steps[CXL][DRAM], steps[SLOW][DRAM]);
	MT_ASSERT(steps[SLOW][DRAM] >= (long long)(SIZE / MT_PAGE) * 9 / 10,
		  "not from the slowest tier to DRAM");
	MT_ASSERT(steps[SLOW][CXL] + steps[CXL][DRAM] <= (long long)(SIZE / MT_PAGE) / 10,
		  "by way of the middle tier");
	return MT_PASS;
}

/* Each slow node counts its own. */
static int counted_apart(void)
{
	long long one, two;
	char *p;

	if (three_tiers())
		return MT_SKIP;
	p = mt_place(SIZE, CXL);
	MT_ASSERT(p, "no memory on node 1");
	mt_fast();
	mt_on();
	MT_ASSERT(mt_moves_to(p, SIZE, DRAM, MT_MOVE_MS),
		  "it did not reach DRAM");
	one = mt_read_ll("node1/promoted");
	two = mt_read_ll("node2/promoted");
	MT_ASSERT(one >= (long long)(SIZE / MT_PAGE) && !two,
		  "node 1 counts %lld, node 2 %lld", one, two);
	return MT_PASS;
}

/* DRAM is full: the middle tier still gets what the slowest has. */
static int middle_goes_on(void)
{
	char *hog, *p;
	size_t size;
	struct mt_toucher t;
	bool left;

	if (three_tiers())
		return MT_SKIP;
	hog = mt_hog(DRAM, &size);
	MT_NEED(hog, "DRAM cannot be filled");
	p = mt_place(SIZE, SLOW);
	MT_ASSERT(p, "no memory on node 2");
	mt_fast();
	mt_on();
	mt_touch_start(&t, p, SIZE);
	left = MT_WAIT(!mt_pages_on(p, SIZE, SLOW), MT_MOVE_MS);
	mt_touch_stop(&t);
	mt_note_where("DRAM full", p, SIZE);
	munmap(hog, size);
	MT_ASSERT(left, "it stayed on the slowest tier");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("T4 each tier feeds all faster ones", three_tiers),
		MT_CHECK("T4 a page goes to the fastest tier at once", directly),
		MT_CHECK("O3 each slow node counts its own", counted_apart),
		MT_CHECK("T4 M8 a full top tier does not stop the lower ones",
			 middle_goes_on),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
