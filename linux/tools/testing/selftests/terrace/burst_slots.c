// SPDX-License-Identifier: GPL-2.0
/*
 * Bursts: which address spaces are known. Each has one slot, from its fork or exec to
 * its exit, and leaves nothing behind.
 *
 * lab: topology=dram-cxl timeout=300s debug=yes
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "burst_util.h"

#define STORM		10000
#define STORM_DEBUG	1000	/* each takes ten times as long */
#define WORKERS		4
#define BUSY		(4 * MT_MB)
#define WAIT_MS		30000

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

/* There are as many slots as processes. */
static bool slots_fit(const char *when)
{
	bool fit = MT_WAIT(mt_read_ll("mms") == processes(), WAIT_MS);

	if (!fit)
		mt_note("%lld slots for %lld processes %s", mt_read_ll("mms"),
			processes(), when);
	return fit;
}

static int all_known(void)
{
	pid_t before[8], after[8];
	int i;

	for (i = 0; i < 8; i++)
		before[i] = mt_spawn(sleeper, NULL);
	mt_on();
	MT_ASSERT(slots_fit("that were there"), "some have none");
	for (i = 0; i < 8; i++)
		after[i] = mt_spawn(sleeper, NULL);
	MT_ASSERT(slots_fit("8 of them new"), "new ones have none");
	for (i = 0; i < 8; i++) {
		mt_kill(before[i]);
		mt_kill(after[i]);
	}
	MT_ASSERT(slots_fit("after 16 died"), "some were not freed");
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
	MT_ASSERT(MT_WAIT(mt_read_ll("mms") == mms, WAIT_MS),
		  "%lld slots before, %lld after 100 processes", mms,
		  mt_read_ll("mms"));
	return MT_PASS;
}

static int vfork_shares(void)
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

static void *see_mms(void *seen)
{
	*(long long *)seen = mt_read_ll("mms");
	return NULL;
}

static int threads_share(void)
{
	long long mms, seen = 0;
	pthread_t thread;

	mt_on();
	mms = mt_read_ll("mms");
	MT_ASSERT(!pthread_create(&thread, NULL, see_mms, &seen), "no thread");
	pthread_join(thread, NULL);
	MT_ASSERT(seen == mms, "%lld slots before, %lld with a thread", mms, seen);
	MT_ASSERT(mt_read_ll("mms") == mms, "%lld when the thread has gone",
		  mt_read_ll("mms"));
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
			execl("/proc/self/exe", "burst_slots", NULL);
			_exit(99);
		}
		MT_ASSERT(!mt_reap(pid), "the chain of execs failed");
	}
	MT_ASSERT(MT_WAIT(mt_read_ll("mms") == mms, WAIT_MS),
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
	execl("/proc/self/exe", "burst_slots", NULL);
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

/* There is always something to be found, so that bursts go on. */
static void use_slow(void *arg)
{
	char *p = mt_place(BUSY, mt_slow_node());

	(void)arg;
	while (p) {
		mt_touch(p, BUSY, false);
		mt_nap(5);
	}
}

static int fork_storm(void)
{
	long long mms, structs, slots, bursts;
	pid_t pid[WORKERS], busy;
	int i;

	busy = mt_spawn(use_slow, NULL);
	mt_set("scan/cpu_percent", 90);
	if (mt_observe_on())
		return MT_FAIL;
	mms = mt_read_ll("mms");
	structs = slab_objects("mm_struct");
	slots = slab_objects("mtier_slot");
	bursts = mt_burst_value("bursts");
	for (i = 0; i < WORKERS; i++)
		pid[i] = mt_spawn(storm, NULL);
	for (i = 0; i < WORKERS; i++)
		mt_reap(pid[i]);
	mt_note("%lld bursts meanwhile", mt_burst_value("bursts") - bursts);
	MT_ASSERT(MT_WAIT(mt_read_ll("mms") == mms, WAIT_MS),
		  "%lld slots before, %lld after", mms, mt_read_ll("mms"));
	mt_kill(busy);
	/* KASAN keeps freed objects for a while; there kmemleak looks at them. */
	if (mt_debug_kernel())
		return MT_PASS;
	MT_ASSERT(MT_WAIT(slab_objects("mm_struct") < structs + 200, WAIT_MS),
		  "mm_struct: %lld before, %lld after", structs,
		  slab_objects("mm_struct"));
	MT_ASSERT(MT_WAIT(slab_objects("mtier_slot") < slots + 500, WAIT_MS),
		  "mtier_slot: %lld before, %lld after", slots,
		  slab_objects("mtier_slot"));
	return MT_PASS;
}

int main(void)
{
	static char storm_name[64];
	const struct mt_check checks[] = {
		MT_CHECK("A1 every process has a slot, those that were there too",
			 all_known),
		MT_CHECK("A1 exit takes the slot away", exit_frees),
		MT_CHECK("A1 a shared address space has one slot", vfork_shares),
		MT_CHECK("A1 so have all threads of a process", threads_share),
		MT_CHECK("A1 exec trades one slot for another", over_exec),
		MT_CHECK(storm_name, fork_storm),
	};

	if (getenv("MTIER_EXEC"))
		return exec_chain();
	snprintf(storm_name, sizeof(storm_name),
		 "A1 a storm of %d forks leaves nothing behind", storm_size());
	return mt_main(checks, ARRAY_LEN(checks));
}
