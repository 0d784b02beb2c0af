// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flushes where freeing changes what is in a frame: a frame that
 * waits is not freed yet, so nobody reads the zeroes or the poison.
 *
 * lab: topology=dram-cxl cpus=4 timeout=120s debug=no
 * lab: append="nopti isolcpus=2,3 init_on_free=1 page_poison=1 debug_pagealloc=on"
 */
#include <stdio.h>
#include <string.h>

#include "tlb_defer_util.h"

static int zeroed(void)
{
	char line[4096];

	MT_ASSERT(mt_read("/proc/cmdline", line, sizeof(line)) > 0 &&
		  strstr(line, "init_on_free=1"), "booted without it");
	return td_reuse(false, 16);
}

static int zeroed_forever(void)
{
	return td_reuse(true, 8);
}

static const struct mt_check checks[] = {
	{ "C: nobody reads what init_on_free writes", zeroed },
	{ "C: not if it takes long", zeroed_forever },
};

int main(void)
{
	return td_main(checks, ARRAY_LEN(checks));
}
