// SPDX-License-Identifier: GPL-2.0
/* Selftest helpers: bursts that observe, and what they say. */
#include "burst_util.h"

/* A line of "bursts". */
long long mt_burst_value(const char *name)
{
	return mt_file_stat(MT_BURST_DIR "bursts", name);
}

void mt_observe(bool on)
{
	mt_off();
	mt_write(MT_BURST_DIR "observe", on ? "1" : "0");
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

int mt_observe_on(void)
{
	mt_set("scan/delay_ms", 0);
	mt_observe(true);
	mt_on();
	MT_ASSERT(MT_WAIT(mt_burst_value("bursts") > 0, 30000), "no bursts");
	return MT_PASS;
}
