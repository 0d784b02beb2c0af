// SPDX-License-Identifier: GPL-2.0
/* Selftest helpers: bursts that observe or move, and what they say. */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <sys/mman.h>

#include "burst_util.h"

/* So much on the fast node, and behind it as much on the slow one. */
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

/* A line of "bursts". */
long long mt_burst_value(const char *name)
{
	return mt_file_stat(MT_BURST_DIR "bursts", name);
}

/* Who finds pages: "visits", "observe", "bursts". Switches off. */
int mt_engine(const char *name)
{
	mt_off();
	return mt_write(MT_BURST_DIR "engine", name);
}

/*
 * So many more, each of half of the memory there is, or more.  They are seconds
 * apart when there is nothing to be found.
 */
bool mt_bursts_pass(unsigned int nr)
{
	long long before = mt_burst_value("bursts");
	bool ok = MT_WAIT(mt_burst_value("bursts") >= before + nr, 120000);

	if (!ok)
		mt_note("%lld of %u bursts came", mt_burst_value("bursts") - before,
			nr);
	return ok;
}

/* Switch on with that engine, and wait for a first burst. */
int mt_engine_on(const char *name)
{
	mt_set("scan/delay_ms", 0);
	MT_ASSERT(!mt_engine(name), "there is no engine %s", name);
	mt_on();
	MT_ASSERT(MT_WAIT(mt_burst_value("bursts") > 0, 30000), "no bursts");
	return MT_PASS;
}
