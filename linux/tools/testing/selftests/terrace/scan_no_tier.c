// SPDX-License-Identifier: GPL-2.0
/*
 * Scan: on a machine without slow memory there is nothing to do.  All of node 1
 * is hidden from the kernel.
 *
 * lab: topology=dram-cxl append="memmap=2G$4G" icount=2 timeout=60s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mtier_util.h"

static int nothing_to_do(void)
{
	struct mt_snap before;
	struct mt_toucher t;
	long long cpu;
	char *p;

	MT_NEED(mt_slow_node() < 0, "there is a slow node");
	p = mt_place(16 * MT_MB, mt_fast_node());
	MT_ASSERT(p, "no memory");
	mt_fast();
	mt_snap(&before);
	mt_on();
	mt_touch_start(&t, p, 16 * MT_MB);
	MT_ASSERT(MT_WAIT(mt_reads("state", "no_slow_tier"), 3000),
		  "its state is not no_slow_tier");
	MT_ASSERT(mt_kthreads() == 1, "%u threads", mt_kthreads());
	MT_ASSERT(!mt_read_ll("records_bytes"), "%lld bytes of records",
		  mt_read_ll("records_bytes"));
	cpu = mt_cpu_us(mt_kthread("kmmscand"));
	mt_nap(2000);
	cpu = mt_cpu_us(mt_kthread("kmmscand")) - cpu;
	mt_touch_stop(&t);
	MT_ASSERT(!mt_since(&before, "mtier_scan_visits"), "%lld visits",
		  mt_since(&before, "mtier_scan_visits"));
	MT_ASSERT(cpu < 20000, "%lld us of CPU time in 2 s", cpu);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("A7 O5 no slow tier: no scan, no records, and it says so",
			 nothing_to_do),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
