// SPDX-License-Identifier: GPL-2.0
/*
 * Hotness: what makes a page hot, what does not, and that it passes.
 *
 * lab: topology=dram-cxl icount=2 timeout=180s debug=no
 */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mtier_util.h"

#define SIZE	(1 * MT_MB)
#define PAGES	((long)(SIZE / MT_PAGE))

static char *area;
static struct mt_snap before;

/* Contended: never ample room, @accesses within @window_ms. */
static int contended(long long accesses, long long window_ms)
{
	area = mt_place(SIZE, mt_slow_node());
	MT_ASSERT(area, "no memory on the slow node");
	mt_fast();
	mt_set3("period", "ms", 100, 100, 100);
	mt_set("hot/room_percent", 100);
	mt_set("hot/accesses", accesses);
	mt_set("hot/window_ms", window_ms);
	/* What filling it has left behind is an access, too: take it away. */
	mt_write("/proc/self/clear_refs", "1");
	mt_on();
	return MT_PASS;
}

/* Use all of it once, and wait until a visit has seen that. */
static int access_once(void)
{
	mprotect(area, SIZE, PROT_NONE);
	mprotect(area, SIZE, PROT_READ | PROT_WRITE);
	mt_snap(&before);
	mt_touch(area, SIZE, false);
	MT_ASSERT(MT_WAIT(mt_since(&before, "mtier_young_slow") >= PAGES, 5000),
		  "a visit saw %lld of %ld accesses",
		  mt_since(&before, "mtier_young_slow"), PAGES);
	return MT_PASS;
}

static bool promoted(unsigned int ms)
{
	return MT_WAIT(mt_pages_on(area, SIZE, mt_fast_node()) >= PAGES * 95 /
		       100, ms);
}

static long on_fast(void)
{
	return mt_pages_on(area, SIZE, mt_fast_node());
}

static int once_is_not_enough(void)
{
	if (contended(2, 5000) || access_once())
		return MT_FAIL;
	mt_nap(1500);
	MT_ASSERT(!on_fast(), "%ld pages moved after one access", on_fast());
	return MT_PASS;
}

static int twice_is(void)
{
	if (contended(2, 5000) || access_once())
		return MT_FAIL;
	mt_nap(400);
	if (access_once())
		return MT_FAIL;
	MT_ASSERT(promoted(5000), "%ld of %ld pages moved", on_fast(), PAGES);
	return MT_PASS;
}

static int four_of_four(void)
{
	int i;

	if (contended(4, 10000))
		return MT_FAIL;
	for (i = 0; i < 3; i++) {
		if (access_once())
			return MT_FAIL;
		mt_nap(300);
	}
	MT_ASSERT(!on_fast(), "%ld pages moved after three", on_fast());
	for (i = 0; i < 3 && !promoted(500); i++)
		if (access_once())
			return MT_FAIL;
	MT_ASSERT(promoted(3000), "%ld of %ld pages moved", on_fast(), PAGES);
	return MT_PASS;
}

static int too_far_apart(void)
{
	int i;

	if (contended(2, 500))
		return MT_FAIL;
	for (i = 0; i < 4; i++) {
		if (access_once())
			return MT_FAIL;
		mt_nap(1200);
	}
	MT_ASSERT(!on_fast(), "%ld pages moved, accessed every 1.2 s", on_fast());
	return MT_PASS;
}

static int room(void)
{
	if (contended(2, 5000))
		return MT_FAIL;
	mt_set("hot/room_percent", 6);
	if (access_once())
		return MT_FAIL;
	MT_ASSERT(promoted(5000), "%ld of %ld pages moved", on_fast(), PAGES);
	return MT_PASS;
}

/* The knob decides: a node that is 90 % free has room at 50, not at 99. */
static int room_knob(void)
{
	long long free = mt_node_free(mt_fast_node()) >> 20;

	MT_NEED(free > 1200 && free < 1950, "%lld MiB are free", free);
	if (contended(2, 5000))
		return MT_FAIL;
	mt_set("hot/room_percent", 99);
	if (access_once())
		return MT_FAIL;
	mt_nap(1000);
	MT_ASSERT(!on_fast(), "at 99 %% %ld pages moved", on_fast());
	mt_set("hot/room_percent", 50);
	mt_nap(6000);
	if (access_once())
		return MT_FAIL;
	MT_ASSERT(promoted(5000), "at 50 %% %ld of %ld moved", on_fast(), PAGES);
	return MT_PASS;
}

/* A stream: 64 MiB, each page used once, over a few seconds. */
static int stream(void)
{
	size_t size = 64 * MT_MB, off;
	char *p = mt_place(size, mt_slow_node());
	long moved;

	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	mt_set3("period", "ms", 100, 100, 100);
	mt_set("hot/room_percent", 100);
	mt_write("/proc/self/clear_refs", "1");
	mprotect(p, size, PROT_NONE);
	mprotect(p, size, PROT_READ | PROT_WRITE);
	mt_snap(&before);
	mt_on();
	for (off = 0; off < size; off += MT_MB) {
		mt_touch(p + off, MT_MB, false);
		mt_nap(40);
	}
	MT_ASSERT(MT_WAIT(mt_since(&before, "mtier_young_slow") >=
			  (long long)(size / MT_PAGE) * 9 / 10, 5000),
		  "the scanner saw %lld accesses",
		  mt_since(&before, "mtier_young_slow"));
	mt_nap(500);
	moved = mt_pages_on(p, size, mt_fast_node());
	MT_ASSERT(moved * 100 <= (long)(size / MT_PAGE) * 5,
		  "%ld of %zu pages of the stream were promoted", moved,
		  size / MT_PAGE);
	return MT_PASS;
}

/* Much becomes hot, but only 1 MiB/s may move; then it is left alone. */
static int fill_queue(char *p, size_t size, long long window_ms)
{
	struct mt_toucher t;
	bool full;

	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	mt_set("promote/rate_mbps", 1);
	mt_set("promote/batch_pages", 64);
	mt_set("hot/window_ms", window_ms);
	mt_snap(&before);
	mt_on();
	mt_touch_start(&t, p, size);
	full = MT_WAIT(mt_queued_now() > 2000, 8000);
	mt_touch_stop(&t);
	MT_ASSERT(full, "%lld are queued", mt_queued_now());
	return MT_PASS;
}

/* 16 MiB have cooled down long before their turn. */
static int cools_in_queue(void)
{
	size_t size = 16 * MT_MB;
	char *p = mt_place(size, mt_slow_node());
	long long cold;

	if (fill_queue(p, size, 600))
		return MT_FAIL;
	/* A thousand that were hot wait: at 1 MiB/s for 4 s at least. */
	(void)MT_WAIT(mt_since(&before, "mtier_drop_cold") > 1000, 6000);
	cold = mt_since(&before, "mtier_drop_cold");
	mt_note_since(&before);
	MT_ASSERT(cold > 1000, "%lld were dropped as cold", cold);
	MT_ASSERT(mt_pages_on(p, size, mt_fast_node()) <
		  (long)(size / MT_PAGE) * 3 / 4, "most moved all the same");
	return MT_PASS;
}

static int gone_from_queue(void)
{
	size_t size = 16 * MT_MB;
	char *p = mt_place(size, mt_slow_node());

	if (fill_queue(p, size, 5000))
		return MT_FAIL;
	munmap(p, size);
	MT_ASSERT(MT_WAIT(!mt_queued_now(), 8000), "%lld are still queued",
		  mt_queued_now());
	MT_ASSERT(mt_since(&before, "mtier_drop_gone") > 1000,
		  "%lld were dropped as gone",
		  mt_since(&before, "mtier_drop_gone"));
	return MT_PASS;
}

/*
 * More becomes hot than the rate lets through: the window in force shrinks, so
 * that only what is used more often passes.  With rate to spare it grows back.
 */
static int window_adjusts(void)
{
	size_t size = 32 * MT_MB;
	struct mt_toucher t;
	bool shrank, grew;
	char *p, *rest;

	MT_NEED(mt_read_ll("hot/window_now_ms") > 0, "no hot/window_now_ms");
	p = mt_place(size, mt_slow_node());
	/* The scanner adjusts it, so let there always be something to scan. */
	rest = mt_place(MT_MB, mt_slow_node());
	MT_ASSERT(p && rest && !mt_mbind(rest, MT_MB, MPOL_BIND,
					 1UL << mt_slow_node()),
		  "no memory on the slow node");
	mt_fast();
	mt_set("hot/room_percent", 100);
	mt_set("hot/window_ms", 8000);
	mt_set("promote/rate_mbps", 1);
	mt_on();
	MT_ASSERT(mt_read_ll("hot/window_now_ms") == 8000, "it is %lld at first",
		  mt_read_ll("hot/window_now_ms"));
	mt_touch_start(&t, p, size);
	shrank = MT_WAIT(mt_read_ll("hot/window_now_ms") < 8000, 14000);
	mt_note("%lld ms", mt_read_ll("hot/window_now_ms"));
	mt_set("promote/rate_mbps", 100000);
	grew = MT_WAIT(mt_read_ll("hot/window_now_ms") == 8000, 25000);
	mt_touch_stop(&t);
	MT_ASSERT(shrank, "it never shrank");
	MT_ASSERT(grew, "it never grew back: %lld ms",
		  mt_read_ll("hot/window_now_ms"));
	return MT_PASS;
}

static int window_live(void)
{
	void *p = mt_place(SIZE, mt_slow_node());

	MT_NEED(mt_read_ll("hot/window_now_ms") > 0, "no hot/window_now_ms");
	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	mt_set("hot/room_percent", 100);
	mt_set("hot/window_ms", 8000);
	mt_on();
	/* Past the first adjustment, which takes 5 s. */
	mt_nap(6000);
	mt_set("hot/window_ms", 3000);
	MT_ASSERT(mt_read_ll("hot/window_now_ms") == 3000, "%lld, not 3000",
		  mt_read_ll("hot/window_now_ms"));
	mt_set("hot/window_ms", 9000);
	MT_ASSERT(mt_read_ll("hot/window_now_ms") == 9000, "%lld, not 9000",
		  mt_read_ll("hot/window_now_ms"));
	return MT_PASS;
}

/* 0.2 % of slow memory at most, and nothing when off. */
static int records_memory(void)
{
	char file[96], text[1024];
	long long kb = 0, bytes;
	char *at;

	snprintf(file, sizeof(file), "/sys/devices/system/node/node%d/meminfo",
		 mt_slow_node());
	MT_ASSERT(mt_read(file, text, sizeof(text)) > 0, "no %s", file);
	at = strstr(text, "MemTotal:");
	if (at)
		kb = atoll(at + 9);
	MT_ASSERT(!mt_read_ll("records_bytes"), "off, and %lld bytes",
		  mt_read_ll("records_bytes"));
	mt_on();
	bytes = mt_read_ll("records_bytes");
	mt_note("%lld bytes for %lld KiB: %lld ppm", bytes, kb,
		bytes * 1000000 / (kb << 10));
	MT_ASSERT(bytes > 0 && bytes * 500 <= kb << 10, "above 0.2 %%");
	mt_off();
	MT_ASSERT(!mt_read_ll("records_bytes"), "off again, and %lld bytes",
		  mt_read_ll("records_bytes"));
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("H1 DRAM contended: one access does not promote",
			 once_is_not_enough),
		MT_CHECK("H1 a second one within the window does", twice_is),
		MT_CHECK("H1 so many as hot/accesses says", four_of_four),
		MT_CHECK("H4 accesses further apart than the window never add up",
			 too_far_apart),
		MT_CHECK("H2 with ample room the first access promotes", room),
		MT_CHECK("H2 how much room is ample is a knob", room_knob),
		MT_CHECK("H6 a stream is not promoted", stream),
		MT_CHECK("H8 what cools down in the queue is dropped and counted",
			 cools_in_queue),
		MT_CHECK("H8 what is freed in the queue is dropped and counted",
			 gone_from_queue),
		MT_CHECK("H5 the window shrinks when more gets hot than may move",
			 window_adjusts),
		MT_CHECK("H5 C1 a new window is in force at once", window_live),
		MT_CHECK("H3 records take at most 0.2 % of slow memory, none when off",
			 records_memory),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
