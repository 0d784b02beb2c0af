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

/* What the threads have run: the one that scans, and those that promote. */
static long long threads_us(void)
{
	long long sum = mt_cpu_us(mt_kthread("kmmscand"));
	char name[32];
	int node;

	for (node = 0; node < MT_NODES; node++) {
		pid_t pid;

		snprintf(name, sizeof(name), "kpromoted/%d", node);
		pid = mt_kthread(name);
		sum += pid ? mt_cpu_us(pid) : 0;
	}
	return sum;
}

/* Scan and promote this process; what it and all are charged meanwhile. */
static int promote(long long *mine, long long *posted)
{
	char *p = mt_place(SIZE, mt_slow_node());
	long long cost_us, ran_us;
	struct mt_snap s;

	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	mt_snap(&s);
	*mine = charged();
	mt_on();
	/* In this very thread, so that it is the one who pays. */
	MT_ASSERT(MT_WAIT(({ mt_touch(p, SIZE, false);
			     mt_all_on(p, SIZE, mt_fast_node()); }), 20000),
		  "not promoted");
	/* In this order: they go on. */
	cost_us = mt_since(&s, "remote_charge_posted_ns") / 1000;
	ran_us = threads_us();
	mt_note("posted %lld us of %lld that they ran", cost_us, ran_us);
	MT_ASSERT(cost_us <= ran_us, "more than it took");
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

/* Next to nothing is to be promoted, so that nearly all that threads run is scans. */
static int scans_cost_once(void)
{
	const size_t size = 8 * SIZE;
	const long long enough = 8 * size / MT_PAGE;
	long long cost_us, ran_us;
	struct mt_snap s;
	bool scanned;

	MT_ASSERT(mt_place(size, mt_fast_node()) &&
		  mt_place(MT_PAGE, mt_slow_node()), "no memory");
	mt_set("charge", 1);
	mt_fast();
	mt_snap(&s);
	mt_on();
	scanned = MT_WAIT(mt_since(&s, "mtier_scan_ptes") >= enough, 60000);
	/* In this order: they go on. */
	cost_us = mt_since(&s, "remote_charge_posted_ns") / 1000;
	ran_us = threads_us();
	mt_off();
	mt_note("%lld entries were read; posted %lld us of %lld",
		mt_since(&s, "mtier_scan_ptes"), cost_us, ran_us);
	MT_ASSERT(scanned, "not scanned");
	MT_ASSERT(cost_us > 0 && cost_us <= ran_us, "not what it took");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("nothing is charged unless asked for",
			 does_not_charge),
		MT_CHECK("a process pays for its scans and promotions",
			 charges),
		MT_CHECK("a scan is paid for once", scans_cost_once),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
