// SPDX-License-Identifier: GPL-2.0
/*
 * Scan: mmap_lock is held for a slice at most, also where there is nothing to
 * walk: in tens of thousands of mappings that are none of ours.
 *
 * One CPU, so that the time between the two events is the scanner's alone.
 *
 * lab: topology=dram-cxl cpus=1 icount=2 timeout=90s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "mtier_util.h"

#define MAPPINGS	60000
#define SLICE_US	200
#define INTERRUPTS_US	1000	/* the tick and its softirqs come on top */

static struct mt_trace trace;

/* Mappings without access, every second one with another flag, or they merge */
static int map_many(void)
{
	char *p = mmap(NULL, MAPPINGS * MT_PAGE, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int i;

	MT_ASSERT(p != MAP_FAILED, "no address space");
	for (i = 0; i < MAPPINGS; i += 2)
		MT_ASSERT(!madvise(p + i * MT_PAGE, MT_PAGE, MADV_DONTDUMP),
			  "mapping %d", i);
	return MT_PASS;
}

static int held(void)
{
	double since = 0, now, longest = 0;
	int holds = 0, over = 0;
	char line[512];

	if (map_many())
		return MT_FAIL;
	MT_ASSERT(mt_place(MT_MB, mt_slow_node()), "nothing to scan");
	mt_set("scan/slice_us", SLICE_US);
	mt_set("scan/delay_ms", 0);
	mt_set("scan/cpu_percent", 100);
	mt_set3("period", "ms", 100, 100, 100);
	MT_ASSERT(!mt_trace_open_of(&trace, "mmap_lock", NULL), "no events");
	mt_on();
	mt_nap(2000);
	mt_off();
	while (mt_trace_line(&trace, line, sizeof(line))) {
		if (!strstr(line, "kmmscand"))
			continue;
		if (strstr(line, "acquire_returned") &&
		    strstr(line, "success=true"))
			since = mt_when(line) * 1e6;
		if (!strstr(line, "mmap_lock_released") || since == 0)
			continue;
		now = mt_when(line) * 1e6;
		holds++;
		over += now - since > SLICE_US * 1.5;
		if (now - since > longest)
			longest = now - since;
	}
	mt_trace_close(&trace);
	mt_note("held %d times, %.0f us at most, %d times over %d us", holds,
		longest, over, SLICE_US * 3 / 2);
	/* So many mappings take far more than one slice. */
	MT_ASSERT(holds > 50, "held only %d times", holds);
	MT_ASSERT(longest <= SLICE_US + INTERRUPTS_US, "held for %.0f us",
		  longest);
	MT_ASSERT(over <= holds / 100, "%d of %d too long", over, holds);
	return MT_PASS;
}

static const struct mt_check checks[] = {
	MT_CHECK("mmap_lock is free again after a slice, whatever is mapped",
		 held),
};

int main(void)
{
	return mt_main(checks, ARRAY_LEN(checks));
}
