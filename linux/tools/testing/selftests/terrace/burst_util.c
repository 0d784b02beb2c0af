// SPDX-License-Identifier: GPL-2.0
/* Selftest helpers: bursts that observe or migrate, and their results. */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "burst_util.h"

/* Map @size bytes on the fast node, followed by @size bytes on the slow one. */
char *mt_place_both(size_t size)
{
	char *p = mt_map_aligned(2 * size);

	if (!p ||
	    mt_mbind(p, size, MPOL_PREFERRED, 1UL << mt_fast_node()) ||
	    mt_mbind(p + size, size, MPOL_PREFERRED, 1UL << mt_slow_node()) ||
	    madvise(p, 2 * size, MADV_NOHUGEPAGE))
		return NULL;
	mt_touch(p, 2 * size, true);
	return mt_mbind(p, 2 * size, MPOL_DEFAULT, 0) ? NULL : p;
}

/* Get the value of a line of "bursts". */
long long mt_burst_value(const char *name)
{
	return mt_file_stat(MT_BURST_DIR "bursts", name);
}

/*
 * Get the number of pages of a group ("top", "low", "low_large") that @looks scans of the
 * last burst found accessed @count times. -1 if it had fewer scans.
 */
long mt_burst_counted(unsigned int looks, const char *group, unsigned int count)
{
	FILE *f = fopen(MT_BURST_DIR "histogram", "re");
	char line[256], word[16];
	long pages = -1;
	unsigned int n;
	int at;

	while (f && fgets(line, sizeof(line), f)) {
		char *p = line;
		unsigned int c;

		if (sscanf(line, "%u %15s%n", &n, word, &at) != 2 ||
		    n != looks || strcmp(word, group))
			continue;
		for (c = 0, p += at; c <= count; c++)
			pages = strtol(p, &p, 10);
	}
	if (f)
		fclose(f);
	return pages;
}

/* Set whether bursts only observe, without a migration. Switches promotion off. */
int mt_observe(bool on)
{
	mt_off();
	return mt_write(MT_BURST_DIR "observe", on ? "1" : "0");
}

/*
 * Wait for @nr more bursts, each of at least half of all memory. Bursts are seconds apart
 * if there is nothing to find.
 */
bool mt_bursts_pass(unsigned int nr)
{
	long long before = mt_burst_value("bursts");
	bool ok = MT_WAIT(({ mt_hurry();
			     mt_burst_value("bursts") >= before + nr; }), 120000);

	if (!ok)
		mt_note("%lld of %u bursts came", mt_burst_value("bursts") - before,
			nr);
	return ok;
}

static int switch_on(bool observe)
{
	int ret = mt_observe(observe);

	MT_ASSERT(!ret, "cannot write to observe: %s", strerror(-ret));
	mt_set("scan/delay_ms", 0);
	mt_on();
	MT_ASSERT(MT_WAIT(mt_burst_value("bursts") > 0, 60000), "no bursts");
	return MT_PASS;
}

/* Switch promotion on, and wait for the first burst. */
int mt_bursts_on(void)
{
	return switch_on(false);
}

/* The same, but only observe. */
int mt_observe_on(void)
{
	return switch_on(true);
}

/*
 * Access memory once, and wait until scans have cleared and counted all of its Accessed
 * bits. Nothing migrates in this time. Returns false if there were too few bursts.
 */
bool mt_used_and_looked_at(void *p, size_t size)
{
	bool passed;

	mt_flush(p, size);
	mt_touch(p, size, false);
	passed = !mt_observe_on() && mt_bursts_pass(8);
	mt_off();
	return passed;
}
