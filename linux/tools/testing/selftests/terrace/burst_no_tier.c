// SPDX-License-Identifier: GPL-2.0
/*
 * Bursts: on a machine without slow memory there are none.  All of node 1 is hidden
 * from the kernel.
 *
 * lab: topology=dram-cxl append="memmap=2G$4G" icount=2 timeout=60s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>

#include "burst_util.h"

static int nothing_to_do(void)
{
	struct mt_snap before;
	struct mt_toucher t;
	long long cpu;
	pid_t pid;
	char *p;

	MT_NEED(mt_slow_node() < 0, "there is a slow node");
	p = mt_place(16 * MT_MB, mt_fast_node());
	MT_ASSERT(p, "no memory");
	mt_set("scan/delay_ms", 0);
	mt_snap(&before);
	mt_on();
	mt_touch_start(&t, p, 16 * MT_MB);
	MT_ASSERT(MT_WAIT(mt_reads("state", "no_slow_tier"), 30000),
		  "its state is not no_slow_tier");
	pid = mt_kthread("kmtierd");
	MT_ASSERT(pid > 0, "no kmtierd, which would notice a node that comes");
	cpu = mt_cpu_us(pid);
	mt_nap(3000);
	cpu = mt_cpu_us(pid) - cpu;
	mt_touch_stop(&t);
	MT_ASSERT(mt_reads("state", "no_slow_tier"), "its state has changed");
	MT_ASSERT(!mt_since(&before, "mtier_bursts") &&
		  !mt_since(&before, "mtier_look_ptes"),
		  "%lld bursts, %lld entries read",
		  mt_since(&before, "mtier_bursts"),
		  mt_since(&before, "mtier_look_ptes"));
	MT_ASSERT(cpu < 30000, "%lld us of CPU time in 3 s", cpu);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("A7 O5 no slow tier: no looks, and it says so",
			 nothing_to_do),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
