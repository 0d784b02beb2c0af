// SPDX-License-Identifier: GPL-2.0
/*
 * Promotion: the time of its thread is charged to the process that it works for, if that
 * is enabled.
 *
 * lab: topology=dram-cxl timeout=400s debug=yes
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "burst_util.h"
#include "numa_scan_util.h"

#define SIZE		(16 * MT_MB)

static long long charged(void)
{
	return ns_sched(getpid(), "remote_charged_ns");
}

/* Get its run time, us */
static long long ran(void)
{
	return mt_cpu_us(mt_kthread("kmtierd"));
}

/* Scan and promote this process; get the time charged to it and to all. */
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
	/* In this thread, so that this thread is charged. */
	MT_ASSERT(MT_WAIT(({ mt_touch(p, SIZE, false);
			     mt_all_on(p, SIZE, mt_fast_node()); }),
			  MT_MOVE_MS),
		  "not promoted");
	/* In this order, because the thread continues. */
	cost_us = mt_since(&s, "remote_charge_posted_ns") / 1000;
	ran_us = ran();
	mt_note("posted %lld us of %lld that it ran", cost_us, ran_us);
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
	/* The rest is charged to other scanned processes. */
	MT_ASSERT(mine > posted / 4, "not to whom it was done for");
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

/* With observe set, nothing moves: kmtierd runs scans and their preparation only. */
static int looks_cost_once(void)
{
	const long long pages = 8 * SIZE / MT_PAGE;
	long long cost_us, ran_us;
	struct mt_snap s;
	bool passed;

	MT_ASSERT(mt_place(8 * SIZE, mt_slow_node()), "no memory");
	mt_set("charge", 1);
	mt_snap(&s);
	if (mt_observe_on())
		return MT_FAIL;
	passed = MT_WAIT(mt_since(&s, "mtier_look_ptes") >= pages, MT_MOVE_MS);
	/* In this order, because the thread continues. */
	cost_us = mt_since(&s, "remote_charge_posted_ns") / 1000;
	ran_us = ran();
	mt_note("%lld entries were read; posted %lld us of %lld",
		mt_since(&s, "mtier_look_ptes"), cost_us, ran_us);
	mt_off();
	MT_ASSERT(passed, "it was not looked at");
	MT_ASSERT(cost_us > ran_us / 8 && cost_us <= ran_us, "not what it took");
	return MT_PASS;
}

/* A process that sets a scale, and uses slow memory; @ready: it has the memory */
struct user {
	unsigned long scale;
	int ready[2];
};

static void use_at(void *arg)
{
	const struct user *u = arg;
	char *p;

	if (prctl(MT_SCALE_SET, u->scale, 0, 0, 0))
		_exit(1);
	p = mt_place(4 * SIZE, mt_slow_node());
	if (!p || write(u->ready[1], "", 1) != 1)
		_exit(1);
	for (;;) {
		mt_touch(p, 4 * SIZE, false);
		mt_nap(20);
	}
}

/* Returns 0 if it fails. */
static pid_t user(unsigned long scale)
{
	struct user u = { .scale = scale };
	pid_t pid;
	char c;

	if (pipe(u.ready))
		return 0;
	pid = mt_spawn(use_at, &u);
	close(u.ready[1]);
	if (read(u.ready[0], &c, 1) != 1)
		pid = 0;
	close(u.ready[0]);
	return pid;
}

/* Get the CPU time that a process was charged, or will be when it runs again. */
static long long owes(pid_t pid)
{
	return ns_sched(pid, "remote_charged_ns") + ns_sched(pid, "remote_debt_ns");
}

/* The charges show how often the slow memory of each process is scanned. */
static int the_scale_is_kept(void)
{
	pid_t often = user(10), rarely = user(1);
	long long much, little;
	bool passed;

	MT_ASSERT(often > 0 && rarely > 0, "no processes");
	mt_set("charge", 1);
	/* Not all of it in every burst */
	mt_set("scan/cpu_percent", 1);
	passed = !mt_observe_on() && mt_bursts_pass(1);
	/* The first burst has credit to scan all of it. */
	much = -owes(often);
	little = -owes(rarely);
	passed &= mt_bursts_pass(16);
	much += owes(often);
	little += owes(rarely);
	mt_off();
	mt_kill(often);
	mt_kill(rarely);
	mt_note("at 10 it owes %lld us, at 1 %lld", much / 1000, little / 1000);
	MT_ASSERT(passed, "no bursts");
	MT_ASSERT(much > 2 * little, "not looked at more often");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("nothing is charged unless asked for",
			 does_not_charge),
		MT_CHECK("a process pays for looks and for its promotions",
			 charges),
		MT_CHECK("looks are paid for once", looks_cost_once),
		MT_CHECK("C2 who asks for it is looked at more often",
			 the_scale_is_kept),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
