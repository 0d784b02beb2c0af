// SPDX-License-Identifier: GPL-2.0
/*
 * Promotion: what its threads do is charged to whom they do it for, if asked to.
 *
 * lab: topology=dram-cxl timeout=90s debug=yes
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>

#include "numa_scan_util.h"

#define SIZE	(16 * MT_MB)

static long long charged(void)
{
	return ns_sched(getpid(), "remote_charged_ns");
}

/* Scan and promote this process; what it and all are charged meanwhile. */
static int promote(long long *mine, long long *posted)
{
	char *p = mt_place(SIZE, mt_slow_node());
	struct mt_snap s;

	MT_ASSERT(p, "no memory on the slow node");
	mt_snap(&s);
	*mine = charged();
	mt_fast();
	mt_on();
	/* In this very thread, so that it is the one who pays. */
	MT_ASSERT(MT_WAIT(({ mt_touch(p, SIZE, false);
			     mt_all_on(p, SIZE, mt_fast_node()); }), 20000),
		  "not promoted");
	mt_off();
	MT_ASSERT(MT_WAIT(({ mt_touch(p, SIZE, false);
			     !ns_sched(getpid(), "remote_debt_ns"); }), 30000),
		  "it does not pay");
	*mine = charged() - *mine;
	*posted = mt_since(&s, "remote_charge_posted_ns");
	mt_note("posted %lld ns, charged to this process %lld", *posted, *mine);
	return MT_PASS;
}

static int charges(void)
{
	long long mine, posted;

	mt_set("charge", 1);
	if (promote(&mine, &posted))
		return MT_FAIL;
	MT_ASSERT(posted > 0, "nothing was charged");
	/* The rest went to whoever else was scanned. */
	MT_ASSERT(mine > posted / 2, "not to whom it was done for");
	return MT_PASS;
}

static int does_not_charge(void)
{
	long long mine, posted;

	if (promote(&mine, &posted))
		return MT_FAIL;
	MT_ASSERT(!posted && !mine, "charged without being asked to");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("nothing is charged unless asked for",
			 does_not_charge),
		MT_CHECK("a process pays for its scans and promotions",
			 charges),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
