// SPDX-License-Identifier: GPL-2.0
/* Selftest helpers: bursts that observe or move, and what they say. */
#include "burst_util.h"

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
