// SPDX-License-Identifier: GPL-2.0
/*
 * Remote charge: the work of threads for a task is charged to the task, exactly once.
 *
 * lab: topology=dram-cxl icount=3 timeout=240s debug=yes
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "numa_scan_util.h"

#define SIZE	(32 * MT_MB)
#define MS	1000000LL
/* Own run time of a task while it is charged, and one tick. */
#define SLACK	(8 * MS)

/* At most this is charged at once. */
#define SLICE	NS_SCHED "base_slice_ns"

/* Every posted nanosecond is counted once. */
static int conserved(const struct mt_snap *s, long long owed)
{
	long long lost = ns_lost(s, owed);

	MT_ASSERT(!lost, "off by %lld ns", lost);
	return MT_PASS;
}

/* Give a task a debt that is not applied, because it sleeps. */
static int into_debt(struct ns_task *t, long long least)
{
	long long before;
	int i;

	for (i = 0; i < 100; i++) {
		before = ns_sched(t->pid, "numa_scan_remote_ns");
		ns_task_poke(t, true);
		/* The scan of this task: this process may have one too. */
		MT_ASSERT(MT_WAIT(ns_sched(t->pid, "numa_scan_remote_ns") >
				  before, 60000), "no visit begins");
		if (ns_task_sleep(t))
			return MT_FAIL;
		/* Other tasks may have scans that delay it for long. */
		if (MT_WAIT(ns_sched(t->pid, "remote_debt_ns") >= least ||
			    !ns_requests(), 1000) &&
		    ns_sched(t->pid, "remote_debt_ns") >= least)
			return MT_PASS;
	}
	mt_note("it owes %lld ns", ns_sched(t->pid, "remote_debt_ns"));
	return MT_FAIL;
}

/* Posted = applied + pending for one task, and all that the thread took. */
static int adds_up(void)
{
	struct ns_task t = { .size = SIZE, .cpu = 0 };
	long long remote, charged, owed;
	struct mt_snap s;

	owed = ns_snap(&s);
	if (ns_fast("async", 64) || ns_task_start(&t))
		return MT_FAIL;
	MT_ASSERT(MT_WAIT(ns_sched(t.pid, "numa_scan_remote_ns") > 5 * MS,
			  60000), "threads take %lld ns",
		  ns_sched(t.pid, "numa_scan_remote_ns"));
	mt_write(NS_MODE, "sync");
	MT_ASSERT(MT_WAIT(!ns_sched(t.pid, "remote_debt_ns"), 5000),
		  "it does not pay: %lld ns", ns_sched(t.pid, "remote_debt_ns"));
	remote = ns_sched(t.pid, "numa_scan_remote_ns");
	charged = ns_sched(t.pid, "remote_charged_ns");
	mt_note("threads took %lld ns for it, it was charged %lld", remote,
		charged);
	MT_ASSERT(remote > 5 * MS && remote == charged, "off by %lld ns",
		  charged - remote);
	ns_task_stop(&t);
	return conserved(&s, owed);
}

/* Wake a task that sleeps again at once. */
static void poke(struct ns_task *t)
{
	ns_task_poke(t, false);
	mt_nap(1);
}

/* A sleeping task is not charged; once it runs, each account grows by the debt. */
static int every_account(void)
{
	struct mt_cgroup cg;
	struct ns_task t = { .size = SIZE, .cpu = 0, .cg = &cg };
	long long debt, exec, usage, sys, own, slice = mt_read_ll(SLICE);
	int i, n;

	MT_ASSERT(!mt_cgroup_make(&cg, "charge", "+cpu +cpuset"), "no cgroup");
	if (ns_fast("async", 64) || ns_task_start(&t) || into_debt(&t, 4 * MS))
		return MT_FAIL;
	mt_write(NS_MODE, "sync");
	mt_write("/proc/sys/kernel/numa_balancing", "0");
	mt_nap(20);
	debt = ns_sched(t.pid, "remote_debt_ns");
	exec = ns_sched(t.pid, "se.sum_exec_runtime");
	usage = mt_cgroup_stat(&cg, "cpu.stat", "usage_usec") * 1000;
	sys = mt_cgroup_stat(&cg, "cpu.stat", "system_usec") * 1000;

	/*
	 * Each wake-up is charged one slice of the scheduler: large ones, as many
	 * wake-ups often cost about as much as the debt.
	 */
	mt_writef(SLICE, "%lld", 50 * MS);
	for (n = 0; n < 5000 && ns_sched(t.pid, "remote_debt_ns"); n++)
		poke(&t);
	mt_writef(SLICE, "%lld", slice);
	exec = ns_sched(t.pid, "se.sum_exec_runtime") - exec;
	usage = mt_cgroup_stat(&cg, "cpu.stat", "usage_usec") * 1000 - usage;
	sys = mt_cgroup_stat(&cg, "cpu.stat", "system_usec") * 1000 - sys;
	/* Cost of the wake-up itself, without a debt */
	own = ns_sched(t.pid, "se.sum_exec_runtime");
	for (i = 0; i < n; i++)
		poke(&t);
	own = 2 * (ns_sched(t.pid, "se.sum_exec_runtime") - own) + SLACK;
	mt_note("debt %lld ns: runtime +%lld, cgroup usage +%lld, its system time +%lld",
		debt, exec, usage, sys);
	mt_note("woken %d times, which takes %lld ns at most", n, own);
	MT_ASSERT(debt >= 4 * MS, "it owed %lld ns", debt);
	MT_ASSERT(!ns_sched(t.pid, "remote_debt_ns"), "it did not pay all");
	MT_ASSERT(exec >= debt && exec <= debt + own, "runtime");
	MT_ASSERT(usage >= debt - 1000 && usage <= debt + own, "cgroup usage");
	/* Ticks of the rest are samples; the kernel scales them to the runtime. */
	MT_ASSERT(sys >= debt / 2 && sys <= debt + own, "cgroup system time");
	ns_task_stop(&t);
	mt_cgroup_remove(&cg);
	return MT_PASS;
}

/* Exit applies the rest before the totals are read. */
static int exit_pays(void)
{
	struct ns_task t = { .size = SIZE, .cpu = 0 };
	long long debt, before, total, owed;
	struct rusage ru;
	struct mt_snap s;
	int status;

	owed = ns_snap(&s);
	if (ns_fast("async", 64) || ns_task_start(&t) || into_debt(&t, 4 * MS))
		return MT_FAIL;
	mt_write(NS_MODE, "sync");
	debt = ns_sched(t.pid, "remote_debt_ns");
	before = ns_sched(t.pid, "se.sum_exec_runtime");
	kill(t.pid, SIGKILL);
	MT_ASSERT(wait4(t.pid, &status, 0, &ru) == t.pid, "no child");
	total = (ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1000 * MS +
		(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) * 1000LL;
	mt_note("runtime %lld ns and a debt of %lld; %lld at its end", before,
		debt, total);
	MT_ASSERT(debt >= 4 * MS, "it owed %lld ns", debt);
	MT_ASSERT(total >= before + debt - 2000, "exit does not pay");
	return conserved(&s, owed);
}

/* Tasks that are killed during a scan: late posts are dropped. */
static int kills_add_up(void)
{
	struct mt_snap s;
	long long owed;
	int i;

	owed = ns_snap(&s);
	if (ns_fast("async", 64))
		return MT_FAIL;
	for (i = 0; i < 8; i++) {
		struct ns_task t = { .size = 8 * MT_MB, .cpu = 0 };

		if (ns_task_start(&t))
			return MT_FAIL;
		mt_nap(40 + 17 * (i % 7));
		ns_task_stop(&t);
	}
	mt_write(NS_MODE, "sync");
	MT_ASSERT(mt_since(&s, "remote_charge_posted_ns") > 0, "nothing posted");
	return conserved(&s, owed);
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("R4 posted is folded, dropped or pending", adds_up),
		MT_CHECK("R4 nothing is charged twice", adds_up),
		MT_CHECK("R4 runtime, cgroup usage and system time rise by it",
			 every_account),
		MT_CHECK("R4 exit pays the rest", exit_pays),
		MT_CHECK("R4 kills in the middle add up", kills_add_up),
	};

	return ns_main(checks, ARRAY_LEN(checks));
}
