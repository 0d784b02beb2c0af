// SPDX-License-Identifier: GPL-2.0
/*
 * Control: the boot parameter, and that nobody has to set anything else.  This
 * program runs on a machine that was booted with nonsense and then mtier=on.
 *
 * lab: topology=dram-cxl append="mtier=maybe mtier=on" icount=2 timeout=180s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <unistd.h>

#include "mtier_util.h"

/* Before the runner switches it off for the checks. */
static bool was_on;
static unsigned int threads;
static long long mms;

static int booted_on(void)
{
	char cmdline[4096];

	MT_NEED(mt_read("/proc/cmdline", cmdline, sizeof(cmdline)) > 0 &&
		strstr(cmdline, "mtier=on"), "not booted with mtier=on");
	MT_ASSERT(was_on, "it was not on");
	MT_ASSERT(threads == 1, "%u threads were there", threads);
	MT_ASSERT(mms > 0, "no process had a slot");
	return MT_PASS;
}

/* Nonsense in the command line is told of, not taken for anything. */
static int nonsense(void)
{
	static char log[1 << 20];
	int n = klogctl(3 /* read all */, log, sizeof(log) - 1);

	MT_NEED(n > 0 && strstr(log, "Command line"), "no early kernel log");
	MT_ASSERT(strstr(log, "mtier=maybe: not"), "nobody complained");
	return MT_PASS;
}

/* Switched on and left alone, at defaults: hot pages reach DRAM. */
static int defaults_work(void)
{
	size_t size = 32 * MT_MB;
	long most = size / MT_PAGE * 9 / 10;
	char *p = mt_place(size, mt_slow_node());
	long long start = mt_now_ms();
	struct mt_toucher t;
	bool moved;

	MT_ASSERT(p, "no memory on the slow node");
	mt_on();
	mt_touch_start(&t, p, size);
	moved = MT_WAIT(mt_pages_on(p, size, mt_fast_node()) >= most, MT_MOVE_MS);
	mt_touch_stop(&t);
	MT_ASSERT(moved, "not in %d s", MT_MOVE_MS / 1000);
	mt_note("%lld ms", mt_now_ms() - start);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("C5 mtier=on starts it at boot", booted_on),
		MT_CHECK("C5 mtier=maybe is told of in the log", nonsense),
		MT_CHECK("C6 the defaults need no tuning", defaults_work),
	};

	was_on = mt_reads("enabled", "1");
	threads = mt_kthreads();
	mms = mt_read_ll("mms");
	return mt_main(checks, ARRAY_LEN(checks));
}
