// SPDX-License-Identifier: GPL-2.0
/*
 * Bursts: every process is sampled, including new and small ones; but none before
 * scan/delay_ms has passed. A process that is charged for scans was scanned.
 *
 * lab: topology=dram-cxl icount=2 timeout=400s debug=no
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "burst_util.h"
#include "numa_scan_util.h"

#define DELAY_MS	5000
#define TURN_MS		60000
#define BUSY		(32 * MT_MB)
#define LARGE		(256 * MT_MB)
#define SMALL		(384 * MT_PAGE)
#define SMALL_MS	50

/* A process that uses this size of memory on the slow node. */
static void use_slow(void *size)
{
	char *p = mt_place((size_t)size, mt_slow_node());

	while (p) {
		mt_touch(p, (size_t)size, false);
		mt_nap(1);
	}
}

/* The same with little memory, now and then. An idle process need not be sampled. */
static void use_some(void *arg)
{
	char *p = mt_place(SMALL, mt_slow_node());

	(void)arg;
	while (p) {
		mt_touch(p, SMALL, false);
		mt_nap(SMALL_MS);
	}
}

/* Get the time of scans that it is charged, now and when it runs again. */
static long long owes(pid_t pid)
{
	long long debt = ns_sched(pid, "remote_debt_ns");

	return debt < 0 ? debt : debt + ns_sched(pid, "remote_charged_ns");
}

/*
 * Scans that are charged and migrate nothing, and a process that uses memory, so that
 * bursts are frequent. All processes are old enough. Returns a verdict.
 */
static int looks_go_on(size_t size, pid_t *busy)
{
	MT_NEED(owes(getpid()) >= 0, "this kernel charges nobody");
	*busy = mt_spawn(use_slow, (void *)size);
	mt_set("charge", 1);
	if (mt_observe_on())
		return MT_FAIL;
	MT_ASSERT(MT_WAIT(mt_burst_value("taken") > 0, TURN_MS),
		  "nothing is found");
	return MT_PASS;
}

static int delay(void)
{
	int ret;
	long long start, ms;
	pid_t busy, pid;
	bool seen;

	ret = looks_go_on(BUSY, &busy);
	if (ret)
		return ret;
	mt_set("scan/delay_ms", DELAY_MS);
	start = mt_now_ms();
	pid = mt_spawn(use_some, NULL);
	seen = MT_WAIT(owes(pid) > 0, TURN_MS);
	ms = mt_now_ms() - start;
	mt_kill(pid);
	mt_kill(busy);
	mt_note("looked at after %lld ms", ms);
	MT_ASSERT(seen, "it was never looked at");
	MT_ASSERT(ms >= DELAY_MS, "too early");
	return MT_PASS;
}

/* Bursts run all the time; a new process is included in them. */
static int born_meanwhile(void)
{
	enum { N = 6 };
	long long once[N];
	pid_t busy, pid[N];
	int ret, i;

	ret = looks_go_on(BUSY, &busy);
	if (ret)
		return ret;
	for (i = 0; i < N; i++) {
		pid[i] = mt_spawn(use_some, NULL);
		MT_ASSERT(MT_WAIT(owes(pid[i]) > 0, TURN_MS),
			  "new process %d was never looked at", i);
	}
	/* And more than once. */
	for (i = 0; i < N; i++)
		once[i] = owes(pid[i]);
	for (i = 0; i < N; i++)
		MT_ASSERT(MT_WAIT(owes(pid[i]) > once[i], TURN_MS),
			  "new process %d was never looked at again", i);
	for (i = 0; i < N; i++)
		mt_kill(pid[i]);
	mt_kill(busy);
	return MT_PASS;
}

/* One large busy process and many small ones. */
static int fair(void)
{
	enum { N = 40 };
	pid_t busy, pid[N];
	int ret, i, left = N;

	for (i = 0; i < N; i++)
		pid[i] = mt_spawn(use_some, NULL);
	ret = looks_go_on(LARGE, &busy);
	if (ret)
		return ret;
	/* The processes before @left have been sampled. */
	(void)MT_WAIT(({
		for (i = left; i-- > 0;) {
			pid_t p = pid[i];

			if (owes(p) <= 0)
				continue;
			pid[i] = pid[--left];
			pid[left] = p;
		}
		!left;
	}), 2 * TURN_MS);
	for (i = 0; i < N; i++)
		mt_kill(pid[i]);
	mt_kill(busy);
	mt_note("%lld bursts", mt_burst_value("bursts"));
	MT_ASSERT(!left, "%d of %d were never looked at", left, N);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("A6 a new process is first looked at after the delay",
			 delay),
		MT_CHECK("A6 who is born while bursts go on is looked at, too",
			 born_meanwhile),
		MT_CHECK("A8 a large process does not starve 40 small ones",
			 fair),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
