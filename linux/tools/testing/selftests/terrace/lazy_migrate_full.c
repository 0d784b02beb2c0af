// SPDX-License-Identifier: GPL-2.0
/*
 * Lazy migration to a node that has no room.
 *
 * lab: topology=dram-cxl-small-dram timeout=120s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "follow_util.h"

#define SIZE	(1 * MT_MB)
#define PAGES	((long)(SIZE / MT_PAGE))

static struct mt_snap before;

/* A full node: every page is either there in the end, or was refused. */
static int full(void)
{
	size_t hogged;
	long came;
	char *hog, *p;

	p = mt_place(SIZE, FO_SLOW);
	MT_ASSERT(p, "no memory on the slow node");
	hog = mt_hog(0, &hogged);
	MT_NEED(hog, "DRAM cannot be filled");
	mt_snap(&before);
	MT_ASSERT(!mp_old_bind(p, SIZE, MPOL_BIND, FO_FAST, FO_MOVE), "mbind");
	MT_ASSERT(fo_is(&before, PAGES, 0), "marked");
	MT_DATA(!mt_filled(p, SIZE), "another content");
	came = mt_pages_on(p, SIZE, 0);
	mt_note("%ld of %ld pages came", came, PAGES);
	MT_ASSERT(fo_since(&before, "refused_nomem") > 0,
		  "none was refused for want of memory");
	MT_ASSERT(fo_refused(&before) == PAGES - came, "%lld were refused",
		  fo_refused(&before));
	MT_ASSERT(fo_is(&before, PAGES, came), "pulled");

	munmap(hog, hogged);
	MT_ASSERT(MT_WAIT(({ mp_old_bind(p, SIZE, MPOL_BIND, FO_FAST, FO_MOVE);
			     mt_touch(p, SIZE, false);
			     mt_all_on(p, SIZE, 0); }), 10000),
		  "there is room and %ld came", mt_pages_on(p, SIZE, 0));
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("P7 a full node is counted, and tried again", full),
	};

	return fo_main(checks, ARRAY_LEN(checks));
}
