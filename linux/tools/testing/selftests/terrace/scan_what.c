// SPDX-License-Identifier: GPL-2.0
/*
 * Scan: what is worth a look. Accessed bits of memory that may not be moved are
 * left alone, and reads of memory that is not there do not count.
 *
 * lab: topology=dram-cxl icount=2 timeout=90s debug=no
 */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mtier_util.h"

#define SIZE	(256 * MT_PAGE)
#define PAGES	((long long)(SIZE / MT_PAGE))
#define VISITS	10

/* What visits of this process saw while @p was in use. */
struct seen {
	long long visits;
	long long ptes;
	long long slow;
	long long top;
};

static int watch(void *p, size_t size, struct seen *seen)
{
	struct mt_trace trace;
	struct mt_toucher t;
	char line[512];

	memset(seen, 0, sizeof(*seen));
	mt_fast();
	/* Seen, but never so hot that it moves. */
	mt_set("hot/room_percent", 100);
	mt_set("hot/accesses", 15);
	mt_set("hot/window_ms", 100);
	MT_ASSERT(!mt_trace_open(&trace, "mtier_scan_end"), "no trace event");
	mt_touch_start(&t, p, size);
	mt_on();
	(void)MT_WAIT(({
		while (mt_trace_line(&trace, line, sizeof(line))) {
			if (mt_field(line, "pid") != getpid())
				continue;
			seen->visits++;
			seen->ptes += mt_field(line, "ptes");
			seen->slow += mt_field(line, "young_slow");
			seen->top += mt_field(line, "young_top");
		}
		seen->visits >= VISITS;
	}), 20000);
	mt_touch_stop(&t);
	mt_trace_close(&trace);
	mt_note("%lld visits: %lld entries, %lld accessed slow, %lld top",
		seen->visits, seen->ptes, seen->slow, seen->top);
	MT_ASSERT(seen->visits >= VISITS, "too few visits");
	return MT_PASS;
}

/* The other two say something only if this one sees the accesses. */
static int free_to_move(void)
{
	struct seen seen;
	char *p = mt_place(SIZE, mt_slow_node());

	MT_ASSERT(p, "no memory on the slow node");
	if (watch(p, SIZE, &seen))
		return MT_FAIL;
	MT_ASSERT(seen.slow >= PAGES, "its accesses were not seen");
	return MT_PASS;
}

static int bound(void)
{
	struct seen seen;
	char *p = mt_place(SIZE, mt_slow_node());

	MT_ASSERT(p, "no memory on the slow node");
	MT_ASSERT(!mt_mbind(p, SIZE, MPOL_BIND, 1UL << mt_slow_node()),
		  "mbind");
	if (watch(p, SIZE, &seen))
		return MT_FAIL;
	MT_ASSERT(seen.slow < PAGES, "its Accessed bits were cleared");
	return MT_PASS;
}

static int zeroes(void)
{
	const size_t size = 16 * SIZE;
	struct seen seen;
	char *p = mt_map_aligned(size);

	MT_ASSERT(p && !madvise(p, size, MADV_NOHUGEPAGE), "no address space");
	/* Without any memory on the slow node nothing is looked at. */
	MT_ASSERT(mt_place(SIZE, mt_slow_node()), "no memory on the slow node");
	if (watch(p, size, &seen))
		return MT_FAIL;
	MT_ASSERT(seen.top < VISITS * 16 * PAGES / 2, "the zero page counts");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("A3 accesses to what may be moved are seen",
			 free_to_move),
		MT_CHECK("A7 T8 what is bound to the slow node is not looked at",
			 bound),
		MT_CHECK("T1 reads of the zero page are no accesses to DRAM",
			 zeroes),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
