// SPDX-License-Identifier: GPL-2.0
/*
 * NUMA scanning: every mode scans in its context, within its limits, and leaves nothing
 * behind.
 *
 * lab: topology=dram-cxl timeout=360s debug=no
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "numa_scan_util.h"

#define SIZE	(64 * MT_MB)

static int refused(const char *file, const char *text, int error)
{
	char before[64], after[64];
	int ret;

	MT_ASSERT(mt_read(file, before, sizeof(before)) >= 0, "no %s", file);
	ret = mt_write(file, text);
	MT_ASSERT(ret == -error, "%s takes \"%s\": %d", file, text, ret);
	mt_read(file, after, sizeof(after));
	MT_ASSERT(!strcmp(before, after), "%s was \"%s\", is \"%s\"", file,
		  before, after);
	return MT_PASS;
}

static int taken(const char *file, const char *text)
{
	char now[64];
	int ret = mt_write(file, text);

	MT_ASSERT(!ret, "%s does not take \"%s\": %d", file, text, ret);
	mt_read(file, now, sizeof(now));
	now[strcspn(now, "\n")] = 0;
	MT_ASSERT(!strcmp(now, text), "%s reads \"%s\" after \"%s\"", file, now,
		  text);
	return MT_PASS;
}

static int knobs(void)
{
	static const char * const modes[] = { "async", "sliced", "sync",
					      "sliced", "async", "sync" };
	static const char * const wrong[] = { "", "1", "asyn", "async2",
					      "SYNC", "sync async" };
	int bad = 0;
	size_t i;

	for (i = 0; i < ARRAY_LEN(modes); i++)
		bad |= taken(NS_MODE, modes[i]);
	for (i = 1; i < ARRAY_LEN(wrong); i++)
		bad |= refused(NS_MODE, wrong[i], EINVAL);
	bad |= taken(NS_WINDOWS, "1");
	bad |= refused(NS_WINDOWS, "2", EINVAL);
	bad |= refused(NS_WINDOWS, "-1", EINVAL);
	bad |= taken(NS_WINDOWS, "0");
	bad |= taken(NS_DEBUG "scan_slice_us", "50");
	bad |= taken(NS_DEBUG "scan_slice_us", "100000");
	bad |= refused(NS_DEBUG "scan_slice_us", "49", ERANGE);
	bad |= refused(NS_DEBUG "scan_slice_us", "100001", ERANGE);
	bad |= refused(NS_DEBUG "scan_slice_us", "fast", EINVAL);
	bad |= taken(NS_DEBUG "scan_async_delay_ms", "0");
	bad |= refused(NS_DEBUG "scan_async_delay_ms", "10001", ERANGE);
	return bad;
}

/* Get the slices of each kind since a snapshot */
static int kinds(const struct mt_snap *s, long long *sync, long long *async,
		 long long *sliced)
{
	*sync = mt_since(s, "numa_scan_slices_sync");
	*async = mt_since(s, "numa_scan_slices_async");
	*sliced = mt_since(s, "numa_scan_slices_sliced");
	mt_note("%lld visits, %lld/%lld/%lld slices sync/async/sliced",
		mt_since(s, "numa_scan_visits"), *sync, *async, *sliced);
	mt_note("%lld of %lld entries updated", mt_since(s, "numa_pte_updates"),
		mt_since(s, "numa_scan_ptes"));
	MT_ASSERT(mt_since(s, "numa_scan_visits") > 0, "no visit");
	MT_ASSERT(mt_since(s, "numa_pte_updates") > 0, "nothing was scanned");
	return MT_PASS;
}

/*
 * A scan, including the wait for flushes of other CPUs, takes a thirty-third of the time
 * of the task: on a busy host the next one is late.
 */
static int scan_for(const char *mode, struct mt_snap *s, const char *counter)
{
	struct ns_task t = { .size = SIZE, .cpu = 0 };
	bool enough;

	if (ns_fast(mode, 64) || ns_task_start(&t))
		return MT_FAIL;
	mt_snap(s);
	enough = MT_WAIT(mt_since(s, counter) >= 8 &&
			 mt_since(s, "numa_pte_updates") > 20000, 90000);
	if (!enough)
		ns_note_scans(s, t.pid);
	ns_task_stop(&t);
	MT_ASSERT(enough, "%lld %s, %lld updates", mt_since(s, counter), counter,
		  mt_since(s, "numa_pte_updates"));
	return MT_PASS;
}

static int in_sync(void)
{
	long long sync, async, sliced;
	struct mt_snap s;

	if (scan_for("sync", &s, "numa_scan_slices_sync") ||
	    kinds(&s, &sync, &async, &sliced))
		return MT_FAIL;
	MT_ASSERT(!async && !sliced, "not only sync");
	MT_ASSERT(!ns_thread_count(), "there are threads");
	MT_ASSERT(!mt_since(&s, "remote_charge_posted_ns"), "it was charged");
	return MT_PASS;
}

static int in_slices(void)
{
	long long sync, async, sliced;
	struct mt_snap s;

	if (scan_for("sliced", &s, "numa_scan_slices_sliced") ||
	    kinds(&s, &sync, &async, &sliced))
		return MT_FAIL;
	MT_ASSERT(!async && !sync, "not only sliced");
	MT_ASSERT(!ns_thread_count(), "there are threads");
	return MT_PASS;
}

static int in_threads(void)
{
	long long sync, async, sliced, cpu_us;
	struct mt_snap s;
	pid_t pid;

	if (scan_for("async", &s, "numa_scan_slices_async") ||
	    kinds(&s, &sync, &async, &sliced))
		return MT_FAIL;
	MT_ASSERT(!sync, "sync too");
	pid = mt_kthread("knumascand/0:0");
	MT_ASSERT(pid > 0 && ns_thread_count() == 1, "%d threads",
		  ns_thread_count());
	cpu_us = mt_cpu_us(pid);
	MT_ASSERT(cpu_us > 0, "it took no time");
	mt_note("its thread took %lld us", cpu_us);
	mt_write(NS_MODE, "sync");
	MT_ASSERT(MT_WAIT(!ns_thread_count(), 2000), "the thread is left");
	MT_ASSERT(!ns_requests(), "%lld visits are left", ns_requests());
	return MT_PASS;
}

/* In every mode, the task's cgroup and its ancestors have the counts of vmstat. */
static int cgroups_count(void)
{
	struct mt_snap s;

	if (scan_for("async", &s, "numa_scan_slices_async") ||
	    scan_for("sliced", &s, "numa_scan_slices_sliced"))
		return MT_FAIL;
	mt_write("/proc/sys/kernel/numa_balancing", "0");
	MT_ASSERT(mt_memcg_same("numa_pte_updates"), "cgroups say otherwise");
	return MT_PASS;
}

/* Get the largest number of entries scanned in one slice */
static long long largest(const char *mode, unsigned int n)
{
	struct ns_task t = { .size = SIZE, .cpu = 0 };
	long long ptes, most = 0, until = mt_now_ms() + 40000;
	struct mt_trace tr;
	char line[512];

	/* Only after all memory is mapped: unmapped memory takes no time. */
	if (ns_fast(mode, 64) ||
	    mt_write(NS_DEBUG "scan_slice_us", "50") ||
	    ns_task_start(&t) ||
	    mt_trace_open_of(&tr, "numa_scan", "numa_scan_end"))
		return -1;
	while (n && mt_now_ms() < until) {
		if (!mt_trace_line(&tr, line, sizeof(line))) {
			mt_nap(5);
			continue;
		}
		if (mt_field(line, "pid") != t.pid ||
		    !mt_field_is(line, "mode", mode))
			continue;
		ptes = mt_field(line, "ptes");
		n -= ptes > 0;
		most = ptes > most ? ptes : most;
	}
	ns_task_stop(&t);
	mt_trace_close(&tr);
	return n ? -1 : most;
}

/* A page table of 512 entries is the smallest step. */
static int slices_are_short(void)
{
	long long whole = largest("sync", 4), sliced = largest("sliced", 40);

	mt_note("at most %lld entries in a visit, %lld in a slice of 50 us",
		whole, sliced);
	MT_ASSERT(whole >= (long long)(SIZE / MT_PAGE / 2),
		  "visits of %lld entries are too small to tell", whole);
	MT_ASSERT(sliced > 0 && sliced <= 4096, "%lld entries in a slice",
		  sliced);
	return MT_PASS;
}

static int async_slices_are_short(void)
{
	long long most = largest("async", 40);

	mt_note("at most %lld entries in a slice", most);
	MT_ASSERT(most > 0 && most <= 4096, "%lld entries in a slice", most);
	return MT_PASS;
}

/* All CPUs are busy: the task does the scan itself, and soon. */
static int falls_back(void)
{
	struct ns_task t = { .size = SIZE, .cpu = 0 };
	struct mt_snap s;
	pid_t hog;

	if (ns_fast("async", 64) || ns_task_start(&t))
		return MT_FAIL;
	hog = ns_hog(1);
	mt_nap(200);
	mt_snap(&s);
	MT_ASSERT(MT_WAIT(mt_since(&s, "numa_scan_fallbacks") > 2 &&
			  mt_since(&s, "numa_scan_slices_sliced") > 2, 8000),
		  "%lld fallbacks, %lld slices in the task",
		  mt_since(&s, "numa_scan_fallbacks"),
		  mt_since(&s, "numa_scan_slices_sliced"));
	mt_kill(hog);
	ns_task_stop(&t);
	return MT_PASS;
}

/* Tasks that are killed in the middle of a scan, on one CPU and the other */
static int end_in_visits(int nr)
{
	int i;

	for (i = 0; i < nr; i++) {
		struct ns_task t = { .size = SIZE, .cpu = i % 2 };
		/* Other tasks may be scanned too: one more than these. */
		long long others = ns_requests();

		if (ns_task_start(&t))
			return MT_FAIL;
		MT_ASSERT(MT_WAIT(ns_requests() > others, 20000),
			  "no visit under way");
		ns_task_stop(&t);
	}
	return MT_PASS;
}

static int exit_leaves_nothing(void)
{
	if (ns_fast("sliced", 256) ||
	    mt_write(NS_DEBUG "scan_slice_us", "50") || end_in_visits(12))
		return MT_FAIL;
	/* This process and its parents may be scanned too. */
	MT_ASSERT(MT_WAIT(ns_requests() <= 4, 2000), "%lld visits are left",
		  ns_requests());
	mt_write(NS_MODE, "sync");
	MT_ASSERT(!ns_requests(), "%lld visits are left", ns_requests());
	return MT_PASS;
}

/* A slice may continue while its task exits, and is counted for the task. */
static int exit_is_counted(void)
{
	if (ns_fast("async", 256) ||
	    mt_write(NS_DEBUG "scan_slice_us", "100000") || end_in_visits(24))
		return MT_FAIL;
	mt_write("/proc/sys/kernel/numa_balancing", "0");
	mt_write(NS_MODE, "sync");
	MT_ASSERT(mt_memcg_same("numa_pte_updates"), "cgroups say otherwise");
	return MT_PASS;
}

/* A thread does not scan a task whose policy allows no migration either. */
static int policy_counts(void)
{
	struct ns_task t = { .size = SIZE, .cpu = 0, .bind = true };
	struct mt_snap s;

	if (ns_fast("async", 64) || ns_task_start(&t))
		return MT_FAIL;
	mt_snap(&s);
	MT_ASSERT(MT_WAIT(mt_since(&s, "numa_scan_slices_async") > 10, 20000),
		  "no slices");
	mt_note("%lld updates in %lld slices", mt_since(&s, "numa_pte_updates"),
		mt_since(&s, "numa_scan_slices_async"));
	MT_ASSERT(mt_since(&s, "numa_pte_updates") < 4096,
		  "%lld entries were made to fault",
		  mt_since(&s, "numa_pte_updates"));
	ns_task_stop(&t);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("knobs take what they say and refuse the rest", knobs),
		MT_CHECK("sync scans in the task and nowhere else", in_sync),
		MT_CHECK("sliced scans in the task and nowhere else", in_slices),
		MT_CHECK("async scans in a thread that one can see", in_threads),
		MT_CHECK("memory.stat counts what all scans change",
			 cgroups_count),
		MT_CHECK("a slice is a small part of a visit",
			 slices_are_short),
		MT_CHECK("a thread's slices are as small",
			 async_slices_are_short),
		MT_CHECK("R9 without an idle CPU the task scans in slices",
			 falls_back),
		MT_CHECK("exit in the middle of a visit leaves nothing",
			 exit_leaves_nothing),
		MT_CHECK("what is scanned of a task that ends is counted",
			 exit_is_counted),
		MT_CHECK("P4 a thread goes by the task's memory policy",
			 policy_counts),
	};

	return ns_main(checks, ARRAY_LEN(checks));
}
