// SPDX-License-Identifier: GPL-2.0
/*
 * Scan: which address spaces the scanner knows, and from when.
 *
 * lab: topology=dram-cxl timeout=180s debug=yes
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mtier_util.h"

#define STORM		10000
#define STORM_DEBUG	1000	/* each takes ten times as long */
#define WORKERS		4

/* Processes with an address space: those whose status shows a scale. */
static long long processes(void)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	long long n = 0;

	while (dir && (e = readdir(dir))) {
		char file[300];

		if (atoi(e->d_name) <= 0)
			continue;
		snprintf(file, sizeof(file), "/proc/%s/status", e->d_name);
		n += mt_file_stat(file, "MtierScanScale:") >= 0;
	}
	if (dir)
		closedir(dir);
	return n;
}

static void nothing(void *arg)
{
	(void)arg;
}

static void sleeper(void *arg)
{
	(void)arg;
	pause();
}

static int all_known(void)
{
	pid_t before[8], after[8];
	int i;

	for (i = 0; i < 8; i++)
		before[i] = mt_spawn(sleeper, NULL);
	mt_on();
	MT_ASSERT(MT_WAIT(mt_read_ll("mms") == processes(), 3000),
		  "%lld slots for %lld processes that were there",
		  mt_read_ll("mms"), processes());
	for (i = 0; i < 8; i++)
		after[i] = mt_spawn(sleeper, NULL);
	MT_ASSERT(MT_WAIT(mt_read_ll("mms") == processes(), 3000),
		  "%lld slots for %lld processes, 8 of them new",
		  mt_read_ll("mms"), processes());
	for (i = 0; i < 8; i++) {
		mt_kill(before[i]);
		mt_kill(after[i]);
	}
	MT_ASSERT(MT_WAIT(mt_read_ll("mms") == processes(), 3000),
		  "%lld slots for %lld processes after 16 died",
		  mt_read_ll("mms"), processes());
	return MT_PASS;
}

static int exit_frees(void)
{
	long long mms;
	int i;

	mt_on();
	mms = mt_read_ll("mms");
	for (i = 0; i < 100; i++)
		mt_reap(mt_spawn(nothing, NULL));
	MT_ASSERT(MT_WAIT(mt_read_ll("mms") == mms, 3000),
		  "%lld slots before, %lld after 100 processes", mms,
		  mt_read_ll("mms"));
	return MT_PASS;
}

static int shares(void)
{
	long long mms;
	pid_t pid;

	mt_on();
	mms = mt_read_ll("mms");
	pid = vfork();
	if (!pid) {
		/* Our parent's memory: no write but to this. */
		static volatile long long seen;

		seen = mt_read_ll("mms");
		_exit(seen != mms);
	}
	MT_ASSERT(!mt_reap(pid), "vfork made a slot");
	return MT_PASS;
}

static int over_exec(void)
{
	long long mms;
	int i, chains;

	chains = mt_debug_kernel() ? 5 : 50;
	mt_on();
	mms = mt_read_ll("mms");
	for (i = 0; i < chains; i++) {
		pid_t pid = fork();

		if (!pid) {
			setenv("MTIER_EXEC", "20", 1);
			execl("/proc/self/exe", "scan_slots", NULL);
			_exit(99);
		}
		MT_ASSERT(!mt_reap(pid), "the chain of execs failed");
	}
	MT_ASSERT(MT_WAIT(mt_read_ll("mms") == mms, 3000),
		  "%lld slots before, %lld after %d execs", mms,
		  mt_read_ll("mms"), 20 * chains);
	return MT_PASS;
}

/* Replace ourselves a few times. */
static int exec_chain(void)
{
	char left[16];
	int n = atoi(getenv("MTIER_EXEC"));

	if (!n)
		return 0;
	snprintf(left, sizeof(left), "%d", n - 1);
	setenv("MTIER_EXEC", left, 1);
	execl("/proc/self/exe", "scan_slots", NULL);
	return 98;
}

static long long slab_objects(const char *cache)
{
	FILE *f = fopen("/proc/slabinfo", "re");
	long long active, total, ret = -1;
	char line[512], name[64];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%63s %lld %lld", name, &active, &total) == 3 &&
		    !strcmp(name, cache))
			ret = active;
	if (f)
		fclose(f);
	return ret;
}

static int storm_size(void)
{
	return mt_debug_kernel() ? STORM_DEBUG : STORM;
}

static void storm(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < storm_size() / WORKERS; i++)
		mt_reap(mt_spawn(nothing, NULL));
}

static int fork_storm(void)
{
	long long mms, structs, slots;
	pid_t pid[WORKERS];
	int i;

	mt_fast();
	mt_on();
	mms = mt_read_ll("mms");
	structs = slab_objects("mm_struct");
	slots = slab_objects("mtier_slot");
	for (i = 0; i < WORKERS; i++)
		pid[i] = mt_spawn(storm, NULL);
	for (i = 0; i < WORKERS; i++)
		mt_reap(pid[i]);
	MT_ASSERT(MT_WAIT(mt_read_ll("mms") == mms, 5000),
		  "%lld slots before, %lld after", mms, mt_read_ll("mms"));
	/* KASAN keeps freed objects for a while; there kmemleak looks at them. */
	if (mt_debug_kernel())
		return MT_PASS;
	MT_ASSERT(MT_WAIT(slab_objects("mm_struct") < structs + 200, 5000),
		  "mm_struct: %lld before, %lld after", structs,
		  slab_objects("mm_struct"));
	MT_ASSERT(MT_WAIT(slab_objects("mtier_slot") < slots + 500, 5000),
		  "mtier_slot: %lld before, %lld after", slots,
		  slab_objects("mtier_slot"));
	return MT_PASS;
}

/* Whether some mm with this owner was visited, by the trace. */
static bool visited(struct mt_trace *t, pid_t pid)
{
	char line[512];
	bool seen = false;

	while (mt_trace_line(t, line, sizeof(line)))
		seen |= mt_field(line, "pid") == pid;
	return seen;
}

/* A process with memory on the slow node, which its policy keeps there. */
static void hold_slow(void *arg)
{
	(void)arg;
	mt_bind_to(mt_slow_node());
	mt_touch(mt_map_aligned(MT_MB), MT_MB, true);
	pause();
}

static int delay(void)
{
	struct mt_trace t;
	long long start;
	pid_t old, pid;
	bool seen;

	old = mt_spawn(hold_slow, NULL);
	mt_fast();
	mt_set("scan/delay_ms", 1500);
	mt_on();
	MT_ASSERT(!mt_trace_open(&t, "mtier_scan_start"), "no trace event");
	start = mt_now_ms();
	pid = mt_spawn(hold_slow, NULL);
	seen = MT_WAIT(visited(&t, pid), 8000);
	mt_kill(pid);
	mt_kill(old);
	mt_trace_close(&t);
	MT_ASSERT(seen, "it was never visited");
	MT_ASSERT(mt_now_ms() - start >= 1500, "visited after %lld ms",
		  mt_now_ms() - start);
	return MT_PASS;
}

/* The scanner, asleep for up to a second, has to be told of a short delay. */
static int short_delay(void)
{
	long long start, waited_ms = 0;
	struct mt_trace t;
	pid_t old, pid;
	int i;

	old = mt_spawn(hold_slow, NULL);
	mt_fast();
	mt_set3("period", "ms", 60000, 60000, 60000);
	mt_set("scan/delay_ms", 10);
	mt_on();
	MT_ASSERT(!mt_trace_open(&t, "mtier_scan_start"), "no trace event");
	for (i = 0; i < 12; i++) {
		start = mt_now_ms();
		pid = mt_spawn(hold_slow, NULL);
		MT_ASSERT(MT_WAIT(visited(&t, pid), 8000), "never visited");
		waited_ms += mt_now_ms() - start;
		mt_kill(pid);
	}
	mt_kill(old);
	mt_trace_close(&t);
	/* Sleeping on, it would find them after half a second on average. */
	MT_ASSERT(waited_ms < 12 * 250, "12 processes waited %lld ms in all",
		  waited_ms);
	return MT_PASS;
}

/* A busy process with memory on the slow node, too little used to move. */
static void use_slow(void *arg)
{
	char *p = mt_place(32 * MT_MB, mt_slow_node());

	(void)arg;
	while (p) {
		mt_touch(p, 32 * MT_MB, false);
		mt_nap(1);
	}
}

/* The scanner is never done; who comes now is not behind where it is. */
static int born_meanwhile(void)
{
	enum { N = 12 };
	struct mt_trace t;
	pid_t busy[2], pid[N];
	int i;

	mt_fast();
	mt_set3("period", "ms", 10, 10, 10);
	mt_set("scan/slice_us", 50);
	mt_set("hot/room_percent", 100);
	mt_set("hot/accesses", 15);
	mt_set("hot/window_ms", 100);
	for (i = 0; i < 2; i++)
		busy[i] = mt_spawn(use_slow, NULL);
	mt_on();
	MT_ASSERT(!mt_trace_open(&t, "mtier_scan_start"), "no trace event");
	for (i = 0; i < N; i++) {
		MT_ASSERT(MT_WAIT(visited(&t, busy[i % 2]), 10000),
			  "with %d new ones busy process %d is not visited", i,
			  i % 2);
		pid[i] = mt_spawn(hold_slow, NULL);
		MT_ASSERT(MT_WAIT(visited(&t, pid[i]), 10000),
			  "new process %d was never visited", i);
	}
	/* None of them was a visitor for once. */
	for (i = 0; i < N; i++)
		MT_ASSERT(MT_WAIT(visited(&t, pid[i]), 10000),
			  "new process %d was visited only once", i);
	mt_trace_close(&t);
	for (i = 0; i < N; i++)
		mt_kill(pid[i]);
	mt_kill(busy[0]);
	mt_kill(busy[1]);
	return MT_PASS;
}

static int short_lived(void)
{
	struct mt_trace t;
	pid_t old, pids[20];
	char line[512];
	int i, seen = 0;

	old = mt_spawn(hold_slow, NULL);
	mt_fast();
	mt_set("scan/delay_ms", 2000);
	mt_on();
	MT_ASSERT(!mt_trace_open(&t, "mtier_scan_start"), "no trace event");
	for (i = 0; i < 20; i++) {
		pids[i] = mt_spawn(hold_slow, NULL);
		mt_nap(50);
		mt_kill(pids[i]);
	}
	mt_nap(2500);
	while (mt_trace_line(&t, line, sizeof(line)))
		for (i = 0; i < 20; i++)
			seen += mt_field(line, "pid") == pids[i];
	mt_trace_close(&t);
	mt_kill(old);
	MT_ASSERT(!seen, "%d visits of processes that lived 50 ms", seen);
	return MT_PASS;
}

static int idle_decays(void)
{
	long long period = 0;
	struct mt_trace t;
	char line[512];
	pid_t pid;

	mt_fast();
	mt_set3("period", "ms", 50, 50, 777);
	/* Its memory shall stay on the slow node. */
	mt_set("hot/room_percent", 100);
	mt_set("hot/accesses", 15);
	mt_on();
	MT_ASSERT(!mt_trace_open(&t, "mtier_scan_end"), "no trace event");
	pid = mt_spawn(hold_slow, NULL);
	(void)MT_WAIT(({
		while (mt_trace_line(&t, line, sizeof(line)))
			if (mt_field(line, "pid") == pid)
				period = mt_field(line, "next_ms");
		period == 777;
	}), 15000);
	mt_kill(pid);
	mt_trace_close(&t);
	MT_ASSERT(period == 777, "its last period was %lld ms", period);
	return MT_PASS;
}

int main(void)
{
	static char storm_name[64];
	const struct mt_check checks[] = {
		MT_CHECK("A1 every process has a slot, those that were there too",
			 all_known),
		MT_CHECK("A1 exit takes the slot away", exit_frees),
		MT_CHECK("A1 a shared address space has one slot", shares),
		MT_CHECK("A1 exec trades one slot for another", over_exec),
		MT_CHECK(storm_name, fork_storm),
		MT_CHECK("A6 a new process is first visited after the delay",
			 delay),
		MT_CHECK("A6 with a short delay it waits no longer than that",
			 short_delay),
		MT_CHECK("A6 one that is born while others are scanned is visited, too",
			 born_meanwhile),
		MT_CHECK("A6 one that ends before the delay is never visited",
			 short_lived),
		MT_CHECK("A6 A4 an idle one decays to the longest period",
			 idle_decays),
	};

	if (getenv("MTIER_EXEC"))
		return exec_chain();
	snprintf(storm_name, sizeof(storm_name),
		 "A1 a storm of %d forks leaves nothing behind", storm_size());
	return mt_main(checks, ARRAY_LEN(checks));
}
