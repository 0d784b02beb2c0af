// SPDX-License-Identifier: GPL-2.0
/*
 * Movement into a node whose free pages are kept back from movable memory: the
 * boot parameter gives DRAM a movable zone, and the sysctl makes the zone below
 * it keep back as much as that is large.
 *
 * lab: topology=dram-cxl-small-dram append="kernelcore=512M" icount=2 timeout=180s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mtier_util.h"

#define SIZE	(16 * MT_MB)
#define RATIO	"/proc/sys/vm/lowmem_reserve_ratio"
#define DEMOTION "/sys/kernel/mm/numa/demotion_enabled"

/* Free, but not for us: there is no room, and no migration is tried. */
static int kept_back(void)
{
	struct mt_snap before;
	struct mt_toucher t;
	char *hog, *p;
	size_t hogged;
	bool full;

	MT_NEED(!mt_write(RATIO, "1 1 1"), "no " RATIO);
	mt_write(DEMOTION, "0");
	p = mt_place(SIZE, mt_slow_node());
	MT_ASSERT(p, "no memory on the slow node");
	hog = mt_hog(mt_fast_node(), &hogged);
	MT_NEED(hog, "DRAM cannot be filled");
	mt_note("%lld MiB of DRAM are free", mt_node_free(mt_fast_node()) >> 20);
	MT_NEED(mt_node_free(mt_fast_node()) > 32 * (long long)MT_MB,
		"nothing is kept back");
	mt_fast();
	mt_snap(&before);
	mt_on();
	mt_touch_start(&t, p, SIZE);
	full = MT_WAIT(mt_why("no_victim"), MT_MOVE_MS);
	mt_touch_stop(&t);
	mt_note_since(&before);
	MT_ASSERT(full, "nobody says that there is no room");
	MT_ASSERT(!mt_since(&before, "mtier_fail_nomem"),
		  "%lld migrations found no memory",
		  mt_since(&before, "mtier_fail_nomem"));
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("M8 what a zone keeps back is not room", kept_back),
	};

	char was[64] = "";
	int ret;

	mt_read(RATIO, was, sizeof(was));
	ret = mt_main(checks, ARRAY_LEN(checks));
	mt_write(RATIO, was);
	return ret;
}
