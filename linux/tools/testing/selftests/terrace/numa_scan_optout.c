// SPDX-License-Identifier: GPL-2.0
/*
 * NUMA scanning: cpuset.numa_balancing keeps the processes of a cgroup out of it, and
 * nobody else's.
 *
 * All tasks run on CPU 0, so that CPU 1 is idle for the threads of async mode.
 *
 * lab: topology=dram-cxl timeout=240s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "numa_scan_util.h"

#define SIZE		(32 * MT_MB)
#define PAGES		((long)(SIZE / MT_PAGE))
#define LONG_MS		60000
#define FILE_OWN	"cpuset.numa_balancing"
#define FILE_EFFECTIVE	FILE_OWN ".effective"
#define CPUSETS		NS_DEBUG "scan_opted_out"
#define NOBODY		65534

static const char * const modes[] = { "sync", "sliced", "async" };

/* ---- cgroups ---- */

static int top_group(struct mt_cgroup *cg, const char *name)
{
	MT_ASSERT(!mt_cgroup_make(cg, name, "+cpu +cpuset +memory"), "no cgroup");
	return MT_PASS;
}

static int group_below(struct mt_cgroup *cg, const struct mt_cgroup *parent,
		       const char *name)
{
	int n = snprintf(cg->dir, sizeof(cg->dir), "%.80s/%.8s", parent->dir, name);

	MT_ASSERT(n < (int)sizeof(cg->dir) && !mkdir(cg->dir, 0755), "no %s", cg->dir);
	return MT_PASS;
}

static int opt(const struct mt_cgroup *cg, const char *value)
{
	return mt_cgroup_write(cg, FILE_OWN, value);
}

static bool reads(const struct mt_cgroup *cg, long long own, long long effective)
{
	long long is = mt_cgroup_stat(cg, FILE_OWN, NULL);
	long long holds = mt_cgroup_stat(cg, FILE_EFFECTIVE, NULL);

	if (is == own && holds == effective)
		return true;
	mt_note("%s: %lld, effective %lld, not %lld and %lld", cg->dir, is, holds,
		own, effective);
	return false;
}

static long long updates(const struct mt_cgroup *cg)
{
	return mt_cgroup_stat(cg, "memory.stat", "numa_pte_updates");
}

static bool scanned_since(const struct mt_cgroup *cg, long long before, long pages)
{
	return MT_WAIT(updates(cg) - before >= pages, LONG_MS);
}

/* ---- who is scanned, and who is not ---- */

/* The cgroups of two processes */
static struct mt_cgroup out, in;

static int two_groups(void)
{
	if (top_group(&out, "out") || top_group(&in, "in"))
		return MT_FAIL;
	MT_ASSERT(reads(&out, 1, 1) && reads(&in, 1, 1), "not on at first");
	return MT_PASS;
}

static void no_groups(void)
{
	mt_cgroup_remove(&out);
	mt_cgroup_remove(&in);
}

/*
 * While @in is scanned again and again nothing of @out is marked; then it is, once
 * its cgroup opts in.
 */
static int only_one(const char *mode)
{
	long long before = updates(&out);
	struct mt_snap s;
	char name[32];

	mt_snap(&s);
	MT_ASSERT(scanned_since(&in, updates(&in), 3 * PAGES),
		  "%s: nobody is scanned", mode);
	snprintf(name, sizeof(name), "numa_scan_slices_%s", mode);
	mt_note("%s: %lld entries marked beside it, %lld of it; %lld scans left out",
		mode, mt_since(&s, "numa_pte_updates"), updates(&out) - before,
		mt_since(&s, "numa_scan_opted_out"));
	MT_ASSERT(mt_since(&s, name) > 0, "no walk in this mode");
	MT_ASSERT(updates(&out) == before, "%lld entries of it were marked",
		  updates(&out) - before);
	MT_ASSERT(mt_since(&s, "numa_scan_opted_out") > 0, "no scan was left out");
	MT_ASSERT(!opt(&out, "1"), "cannot opt in");
	MT_ASSERT(scanned_since(&out, before, PAGES), "%s: not scanned again", mode);
	return MT_PASS;
}

static int beside(const char *mode)
{
	struct ns_task a = { .size = SIZE, .cg = &out }, b = { .size = SIZE, .cg = &in };
	int ret;

	if (two_groups())
		return MT_FAIL;
	MT_ASSERT(!opt(&out, "0") && reads(&out, 0, 0), "cannot opt out");
	if (ns_fast(mode, 64) || ns_task_start(&a) || ns_task_start(&b))
		return MT_FAIL;
	ret = only_one(mode);
	if (!ret && mt_cgroup_stat(&out, "memory.stat", "numa_hint_faults") < 0)
		ret = MT_FAIL;
	ns_task_stop(&a);
	ns_task_stop(&b);
	no_groups();
	return ret;
}

static int beside_sync(void)
{
	return beside("sync");
}

static int beside_sliced(void)
{
	return beside("sliced");
}

static int beside_async(void)
{
	return beside("async");
}

/* Tiering marks what is on slow memory. */
static void use_slow(void *arg)
{
	const struct mt_cgroup *cg = arg;
	char *p;

	if (mt_cgroup_enter(cg, 0) || mt_run_on_cpu(0))
		_exit(1);
	p = mt_place(SIZE, mt_slow_node());
	while (p)
		mt_touch(p, SIZE, false);
}

static int tiering(void)
{
	long long before;
	pid_t a, b;

	if (two_groups() || ns_fast("sync", 64))
		return MT_FAIL;
	MT_ASSERT(!opt(&out, "0"), "cannot opt out");
	mt_write("/proc/sys/kernel/numa_balancing", "2");
	before = updates(&out);
	a = mt_spawn(use_slow, &out);
	b = mt_spawn(use_slow, &in);
	MT_ASSERT(scanned_since(&in, 0, PAGES / 2), "nobody is scanned");
	MT_ASSERT(updates(&out) == before, "%lld entries of it were marked",
		  updates(&out) - before);
	MT_ASSERT(!opt(&out, "1"), "cannot opt in");
	MT_ASSERT(scanned_since(&out, before, PAGES / 2), "not scanned again");
	mt_kill(a);
	mt_kill(b);
	no_groups();
	return MT_PASS;
}

/* ---- a visit that is under way ---- */

#define TRIES	10
/* A quarter of a visit; a slice of 50 us walks one page table, 512 entries, or two. */
#define MANY	(PAGES / 4)

/* Opt out in the middle of a visit; entries that it comes to afterwards, or -1 */
static long long interrupt(void)
{
	struct mt_snap s;
	long long entries;

	if (opt(&out, "1") || !MT_WAIT(ns_requests() > 0, LONG_MS) || opt(&out, "0"))
		return -1;
	mt_snap(&s);
	if (!MT_WAIT(!ns_requests(), LONG_MS))
		return -1;
	entries = mt_since(&s, "numa_scan_ptes");
	mt_snap(&s);
	/* Nothing goes on with it later. The other processes are small. */
	if (!MT_WAIT(mt_since(&s, "numa_scan_opted_out") > 1, LONG_MS) ||
	    mt_since(&s, "numa_scan_ptes") >= MANY)
		return -1;
	return entries;
}

/* A slice walks 2 MiB at least: a visit takes 16 of them, one a tick in sliced mode. */
static int ends(const char *mode)
{
	struct ns_task t = { .size = SIZE, .cg = &out };
	long long entries, most = 0;
	int i;

	if (top_group(&out, "out"))
		return MT_FAIL;
	MT_ASSERT(!opt(&out, "0"), "cannot opt out");
	if (ns_fast(mode, 64) || ns_task_start(&t))
		return MT_FAIL;
	mt_write(NS_DEBUG "scan_slice_us", "50");
	for (i = 0; i < TRIES; i++) {
		entries = interrupt();
		MT_ASSERT(entries >= 0, "it does not end, or goes on");
		most = entries > most ? entries : most;
	}
	mt_note("%s: at most %lld of %ld entries were walked afterwards", mode, most,
		PAGES);
	ns_task_stop(&t);
	mt_cgroup_remove(&out);
	MT_ASSERT(most < MANY, "%lld entries were walked afterwards", most);
	return MT_PASS;
}

static int ends_sliced(void)
{
	return ends("sliced");
}

static int ends_async(void)
{
	return ends("async");
}

/* ---- moves, and cgroups in others ---- */

static int moved(void)
{
	struct ns_task t = { .size = SIZE, .cg = &in };
	struct mt_snap s;
	size_t i;

	if (two_groups())
		return MT_FAIL;
	MT_ASSERT(!opt(&out, "0"), "cannot opt out");
	if (ns_fast("sync", 64) || ns_task_start(&t))
		return MT_FAIL;
	for (i = 0; i < ARRAY_LEN(modes); i++) {
		mt_write(NS_MODE, modes[i]);
		mt_snap(&s);
		MT_ASSERT(MT_WAIT(mt_since(&s, "numa_pte_updates") > PAGES, LONG_MS),
			  "%s: not scanned", modes[i]);
		MT_ASSERT(!mt_cgroup_enter(&out, t.pid), "cannot move it");
		MT_ASSERT(MT_WAIT(!ns_requests(), LONG_MS), "a visit does not end");
		mt_snap(&s);
		/* After the first one a walk of sync mode is over. */
		MT_ASSERT(MT_WAIT(mt_since(&s, "numa_scan_opted_out") > 0, LONG_MS),
			  "%s: no scan is left out", modes[i]);
		mt_snap(&s);
		MT_ASSERT(MT_WAIT(mt_since(&s, "numa_scan_opted_out") > 3, LONG_MS),
			  "%s: no more scans are left out", modes[i]);
		/* The other processes are small. */
		MT_ASSERT(mt_since(&s, "numa_pte_updates") < MANY, "%s: still scanned",
			  modes[i]);
		MT_ASSERT(!mt_cgroup_enter(&in, t.pid), "cannot move it back");
	}
	ns_task_stop(&t);
	no_groups();
	return MT_PASS;
}

/* Wait until scans of the only task that runs are left out, or are not. */
static bool is_left_out(bool yes)
{
	struct mt_snap s;

	mt_snap(&s);
	if (!MT_WAIT(mt_since(&s, yes ? "numa_scan_opted_out" : "numa_pte_updates") > 3,
		     LONG_MS))
		return false;
	return !yes || !mt_since(&s, "numa_pte_updates");
}

static int below(void)
{
	struct mt_cgroup middle, leaf, late;
	struct ns_task t = { .size = SIZE, .cg = &leaf };

	if (top_group(&out, "out"))
		return MT_FAIL;
	mt_cgroup_write(&out, "cgroup.subtree_control", "+cpuset");
	if (group_below(&middle, &out, "middle"))
		return MT_FAIL;
	mt_cgroup_write(&middle, "cgroup.subtree_control", "+cpuset");
	if (group_below(&leaf, &middle, "leaf"))
		return MT_FAIL;
	if (ns_fast("sync", 64) || ns_task_start(&t))
		return MT_FAIL;
	MT_ASSERT(is_left_out(false), "not scanned");
	/* The one on top holds for all below, those that come later included. */
	MT_ASSERT(!opt(&out, "0") && reads(&middle, 1, 0) && reads(&leaf, 1, 0),
		  "a cgroup below does not show it");
	if (group_below(&late, &middle, "late"))
		return MT_FAIL;
	MT_ASSERT(reads(&late, 1, 0), "a new cgroup does not show it");
	MT_ASSERT(is_left_out(true), "scanned, though the topmost has opted out");
	MT_ASSERT(!opt(&leaf, "1") && is_left_out(true), "a cgroup below opts in");
	/* One of several is enough. */
	MT_ASSERT(!opt(&middle, "0") && !opt(&out, "1") && reads(&leaf, 1, 0) &&
		  is_left_out(true), "scanned, though one above has opted out");
	MT_ASSERT(!opt(&middle, "1") && reads(&leaf, 1, 1) && is_left_out(false),
		  "not scanned again");
	ns_task_stop(&t);
	mt_cgroup_remove(&late);
	mt_cgroup_remove(&leaf);
	mt_cgroup_remove(&middle);
	mt_cgroup_remove(&out);
	return MT_PASS;
}

/* ---- threads of one process in two cgroups ---- */

struct threads {
	volatile pid_t runner;
	volatile bool ready;
};

static void *touch_for_ever(void *arg)
{
	struct threads *s = arg;
	char *p = mt_map_aligned(SIZE);

	mt_run_on_cpu(0);
	s->runner = syscall(SYS_gettid);
	mt_touch(p, SIZE, true);
	s->ready = true;
	for (;;)
		mt_touch(p, SIZE, false);
	return NULL;
}

/* The first thread sleeps, the second one runs. */
static void two_threads(void *arg)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, touch_for_ever, arg))
		_exit(1);
	for (;;)
		pause();
}

/* A cgroup of single threads */
static int threaded(struct mt_cgroup *cg, const char *name)
{
	if (group_below(cg, &out, name))
		return MT_FAIL;
	MT_ASSERT(!mt_cgroup_write(cg, "cgroup.type", "threaded"), "not threaded");
	return MT_PASS;
}

static int enter_thread(const struct mt_cgroup *cg, pid_t tid)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", tid);
	MT_ASSERT(!mt_cgroup_write(cg, "cgroup.threads", text), "cannot move %d", tid);
	return MT_PASS;
}

/* The cgroup of the first thread counts, whichever runs. */
static int first_thread(void)
{
	struct mt_cgroup off, on;
	struct threads *s;
	pid_t pid;

	s = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		 -1, 0);
	MT_ASSERT(s != MAP_FAILED, "mmap");
	if (top_group(&out, "out") || ns_fast("sync", 64) || threaded(&off, "off"))
		return MT_FAIL;
	MT_ASSERT(!mt_cgroup_write(&out, "cgroup.subtree_control", "+cpuset"),
		  "no cpuset for threads");
	if (threaded(&on, "on"))
		return MT_FAIL;
	MT_ASSERT(!opt(&off, "0"), "cannot opt out");
	pid = mt_spawn(two_threads, s);
	MT_ASSERT(MT_WAIT(s->ready, LONG_MS), "it does not run");
	MT_ASSERT(!mt_cgroup_enter(&out, pid), "cannot move the process");
	if (enter_thread(&off, pid) || enter_thread(&on, s->runner))
		return MT_FAIL;
	MT_ASSERT(is_left_out(true), "scanned for the second thread");
	if (enter_thread(&on, pid) || enter_thread(&off, s->runner))
		return MT_FAIL;
	MT_ASSERT(is_left_out(false), "not scanned, as the second thread is out");
	mt_kill(pid);
	mt_cgroup_remove(&on);
	mt_cgroup_remove(&off);
	mt_cgroup_remove(&out);
	return MT_PASS;
}

/* ---- the files ---- */

static int values(void)
{
	static const char * const bad[] = { "2", "-1", "x", "\n", "0 1", "0x", "max" };
	size_t i;

	if (top_group(&out, "out"))
		return MT_FAIL;
	for (i = 0; i < 2; i++) {
		size_t j;

		MT_ASSERT(!opt(&out, i ? "1\n" : "0\n") && reads(&out, i, i), "%zu", i);
		for (j = 0; j < ARRAY_LEN(bad); j++)
			MT_ASSERT(opt(&out, bad[j]) == -EINVAL && reads(&out, i, i),
				  "'%s' is taken", bad[j]);
		MT_ASSERT(opt(&out, "99999999999999999999") == -ERANGE &&
			  reads(&out, i, i), "a number out of range is taken");
	}
	MT_ASSERT(mt_cgroup_write(&out, FILE_EFFECTIVE, "1"), "it can be written to");
	MT_ASSERT(access("/sys/fs/cgroup/" FILE_OWN, F_OK), "the root has a file");
	mt_cgroup_remove(&out);
	return MT_PASS;
}

/* A user without rights, to whom a cgroup below @out was given, writes to its file. */
static void delegate(void *arg)
{
	const struct mt_cgroup *cg = arg;

	if (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY))
		_exit(2);
	/* The file of the delegated cgroup's parent stays closed. */
	if (opt(&out, "1") != -EACCES)
		_exit(3);
	_exit(opt(cg, "0") || opt(cg, "1") ? 4 : 0);
}

static int delegated(void)
{
	struct mt_cgroup given;
	char path[128];
	int ret;

	if (top_group(&out, "out"))
		return MT_FAIL;
	MT_ASSERT(!chmod(out.dir, 0755), "chmod");
	mt_cgroup_write(&out, "cgroup.subtree_control", "+cpuset");
	if (group_below(&given, &out, "given"))
		return MT_FAIL;
	snprintf(path, sizeof(path), "%s/%s", given.dir, FILE_OWN);
	MT_ASSERT(!opt(&out, "0") && !chown(path, NOBODY, NOBODY), "chown");
	ret = mt_reap(mt_spawn(delegate, &given));
	MT_ASSERT(!ret, "the delegate ended with %d", ret);
	MT_ASSERT(reads(&given, 1, 0), "a delegate opted in");
	mt_cgroup_remove(&given);
	mt_cgroup_remove(&out);
	return MT_PASS;
}

/* Cgroups that are gone do not count. */
static bool cpusets(int n)
{
	return MT_WAIT(mt_read_ll(CPUSETS) == n, LONG_MS);
}

static int counted(void)
{
	struct mt_cgroup a, b;

	if (top_group(&out, "out"))
		return MT_FAIL;
	mt_cgroup_write(&out, "cgroup.subtree_control", "+cpuset");
	if (group_below(&a, &out, "a") || group_below(&b, &out, "b"))
		return MT_FAIL;
	MT_ASSERT(cpusets(0), "%lld at first", mt_read_ll(CPUSETS));
	MT_ASSERT(!opt(&a, "0") && !opt(&a, "0") && !opt(&b, "0") && cpusets(2),
		  "%lld and not 2", mt_read_ll(CPUSETS));
	MT_ASSERT(!opt(&a, "1") && !opt(&a, "1") && cpusets(1), "%lld and not 1",
		  mt_read_ll(CPUSETS));
	/* One that is removed, and one whose controller is switched off */
	opt(&a, "0");
	mt_cgroup_remove(&a);
	MT_ASSERT(cpusets(1), "a removed one counts");
	mt_cgroup_write(&out, "cgroup.subtree_control", "-cpuset");
	MT_ASSERT(cpusets(0), "one without the controller counts");
	mt_cgroup_write(&out, "cgroup.subtree_control", "+cpuset");
	MT_ASSERT(reads(&b, 1, 1), "a new cpuset is not on");
	mt_cgroup_remove(&b);
	mt_cgroup_remove(&out);
	return MT_PASS;
}

/* ---- everything at once ---- */

static void short_life(void *arg)
{
	const struct mt_cgroup *cg = arg;
	char *p = mt_map_aligned(MT_HUGE);
	pid_t child;

	mt_cgroup_enter(cg, 0);
	if (!p || mt_run_on_cpu(0) || ns_second_thread())
		_exit(1);
	mt_touch(p, MT_HUGE, true);
	child = fork();
	mt_touch(p, MT_HUGE, true);
	if (child > 0)
		waitpid(child, NULL, 0);
	_exit(child < 0);
}

/*
 * Processes fork, exit and move while their cgroups opt out and in and are removed.
 * The kernel's own checks judge it, and that nothing is left.
 */
static int race(const char *mode)
{
	struct mt_cgroup below[2];
	struct ns_task t = { .size = SIZE, .cg = &in };
	int round, ret;

	if (two_groups() || ns_fast(mode, 16) || ns_task_start(&t))
		return MT_FAIL;
	mt_write(NS_DEBUG "scan_slice_us", "50");
	mt_cgroup_write(&out, "cgroup.subtree_control", "+cpuset");
	for (round = 0; round < 60; round++) {
		const struct mt_cgroup *cg = &below[round & 1];
		pid_t pid;

		if (group_below(&below[round & 1], &out, round & 1 ? "x" : "y"))
			return MT_FAIL;
		opt(cg, round & 2 ? "0" : "1");
		pid = mt_spawn(short_life, (void *)cg);
		opt(&out, round & 4 ? "0" : "1");
		opt(&in, round & 1 ? "0" : "1");
		ret = mt_reap(pid);
		MT_ASSERT(!ret, "a process ended with %d", ret);
		mt_cgroup_remove(&below[round & 1]);
	}
	ns_task_stop(&t);
	no_groups();
	MT_ASSERT(MT_WAIT(!ns_requests(), LONG_MS), "a visit stays");
	MT_ASSERT(cpusets(0), "%lld cpusets still count", mt_read_ll(CPUSETS));
	return MT_PASS;
}

static int races(void)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(modes); i++)
		if (race(modes[i]))
			return MT_FAIL;
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("a cgroup that has opted out is not scanned, sync", beside_sync),
		MT_CHECK("a cgroup that has opted out is not scanned, sliced",
			 beside_sliced),
		MT_CHECK("a cgroup that has opted out is not scanned, async",
			 beside_async),
		MT_CHECK("a cgroup that has opted out is not scanned for slow memory",
			 tiering),
		MT_CHECK("a visit under way ends with its slice, sliced", ends_sliced),
		MT_CHECK("a visit under way ends with its slice, async", ends_async),
		MT_CHECK("a process that moves goes by its new cgroup", moved),
		MT_CHECK("a cgroup opts out all below it", below),
		MT_CHECK("the first thread's cgroup counts for the process", first_thread),
		MT_CHECK("the file takes 0 and 1", values),
		MT_CHECK("a delegate cannot opt in again", delegated),
		MT_CHECK("a cgroup that is gone does not count", counted),
		MT_CHECK("fork, exit, moves and removal at the same time", races),
	};

	return ns_main(checks, ARRAY_LEN(checks));
}
