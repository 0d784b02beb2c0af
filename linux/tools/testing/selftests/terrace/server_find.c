// SPDX-License-Identifier: GPL-2.0
/*
 * Hot pages are found among much idle or seldom used memory: that of many processes, or of
 * one process with many ranges. A hot part that moves is followed.
 *
 * Time counts instructions.
 *
 * lab: topology=dram-cxl icount=2 timeout=300s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "idle_util.h"

#define HOT		(64 * MT_MB)
#define PAGES(size)	((long)((size) / MT_PAGE))
/* Limit for 90 % of the hot pages; stock NUMA balancing needs 1.5 s. */
#define FOUND_MS	10000

#define IDLERS		300
#define IDLE_RANGES	40
#define MANY_RANGES	20000
#define ACTIVE_RANGES	4

/* Time until 90 % of @size is on the fast node; -1 after the limit. */
static long long found_ms(char *p, size_t size, unsigned int limit_ms)
{
	long long start = mt_now_ms();

	if (!MT_WAIT(mt_pages_on(p, size, mt_fast_node()) > PAGES(size) * 9 / 10, limit_ms))
		return -1;
	return mt_now_ms() - start;
}

static int beside(int nr, long ranges, unsigned int every_ms)
{
	struct mt_idle idle = { .nr = nr, .ranges = ranges, .every_ms = every_ms };
	struct mt_toucher t;
	long long took;
	char *p;

	MT_ASSERT(!mt_idle_start(&idle), "not all of %d processes are ready", nr);
	/* Now, so that no child shares it. */
	p = mt_place(HOT, mt_slow_node());
	MT_ASSERT(p, "no memory on the slow node");
	mt_set("scan/delay_ms", 0);
	mt_touch_start(&t, p, HOT);
	mt_on();
	took = found_ms(p, HOT, FOUND_MS);
	mt_touch_stop(&t);
	mt_off();
	mt_idle_stop(&idle);
	mt_note("%d processes of %ld ranges: 90 %% after %lld ms; %ld of %ld pages, %lld bursts",
		nr, ranges, took, mt_pages_on(p, HOT, mt_fast_node()), PAGES(HOT),
		mt_burst_value("bursts"));
	MT_ASSERT(took >= 0, "the hot pages were not found");
	return MT_PASS;
}

static int beside_many_processes(void)
{
	return beside(IDLERS, IDLE_RANGES, 0);
}

static int beside_many_ranges(void)
{
	return beside(1, MANY_RANGES, 0);
}

/* Processes that use their few pages. */
static int beside_many_active_processes(void)
{
	return beside(IDLERS, ACTIVE_RANGES, 1000);
}

#define MOVING		(256 * MT_MB)
#define PART		(32 * MT_MB)
#define PART_MS		8000

/* An eighth of the memory is in use, then another one. */
static int a_part_that_moves_on(void)
{
	char *p = mt_place(MOVING, mt_slow_node());
	long found[3];
	int i;

	MT_ASSERT(p, "no memory on the slow node");
	mt_set("scan/delay_ms", 0);
	mt_on();
	for (i = 0; i < 3; i++) {
		char *part = p + i * PART;
		struct mt_toucher t;
		long long took;

		mt_touch_start(&t, part, PART);
		took = found_ms(part, PART, PART_MS);
		/* It is in use for as long in any case. */
		usleep(took < 0 ? 0 : (PART_MS - took) * 1000);
		mt_touch_stop(&t);
		found[i] = mt_pages_on(part, PART, mt_fast_node());
		mt_note("part %d: %ld of %ld pages, 90 %% after %lld ms", i, found[i],
			PAGES(PART), took);
	}
	mt_off();
	for (i = 0; i < 3; i++)
		MT_ASSERT(found[i] > PAGES(PART) * 9 / 10, "part %d was not found", i);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("beside 300 idle processes", beside_many_processes),
		MT_CHECK("beside an idle process with 20,000 ranges", beside_many_ranges),
		MT_CHECK("beside 300 processes that use a little", beside_many_active_processes),
		MT_CHECK("the part in use moves on", a_part_that_moves_on),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
