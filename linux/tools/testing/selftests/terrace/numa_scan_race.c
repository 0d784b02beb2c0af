// SPDX-License-Identifier: GPL-2.0
/*
 * NUMA scanning: everything at once. Modes flip while processes fork, exec, grow,
 * shrink and are killed, cpusets are rewritten and a CPU comes and goes.
 *
 * 9 s, times TERRACE_STRETCH.
 *
 * lab: topology=dram-cxl timeout=120s debug=yes
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "numa_scan_util.h"

#define RUN_MS	9000

static void *toucher(void *arg)
{
	int i;

	for (i = 0; i < 20; i++)
		mt_touch(arg, 4 * MT_MB, i & 1);
	return NULL;
}

/* Threads, forks, and a mapping that is split, moved, shrunk and grown */
static void worker(void *arg)
{
	long n = (long)arg;

	for (;; n++) {
		char *p = mmap(NULL, 8 * MT_MB, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		pthread_t thread;
		pid_t pid;

		if (p == MAP_FAILED)
			_exit(1);
		mt_touch(p, 8 * MT_MB, true);
		if (pthread_create(&thread, NULL, toucher, p))
			_exit(1);
		pid = fork();
		if (!pid) {
			mt_touch(p, 4 * MT_MB, n & 1);
			if (n % 3 == 0)
				execl("/bin/true", "true", NULL);
			_exit(0);
		}
		mprotect(p + 5 * MT_MB, MT_MB, PROT_READ);
		munmap(p + 7 * MT_MB, MT_MB);
		p = mremap(p, 7 * MT_MB, 7 * MT_MB, 0);
		pthread_join(thread, NULL);
		if (n % 4 == 0)
			kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		if (p != MAP_FAILED)
			munmap(p, 8 * MT_MB);
	}
}

static void flipper(void *arg)
{
	static const char * const modes[] = { "async", "sliced", "async",
					      "sync" };
	unsigned int i;

	(void)arg;
	for (i = 0;; i++) {
		mt_write(NS_MODE, modes[i % 4]);
		mt_write(NS_WINDOWS, i % 3 ? "1" : "0");
		mt_writef(NS_DEBUG "scan_slice_us", "%u", 50U << i % 5);
		mt_nap(20 + 37 * (i % 5));
	}
}

static void hotplugger(void *arg)
{
	(void)arg;
	for (;;) {
		mt_write("/sys/devices/system/cpu/cpu1/online", "0");
		mt_nap(300);
		mt_write("/sys/devices/system/cpu/cpu1/online", "1");
		mt_nap(700);
	}
}

static void rewriter(void *arg)
{
	static const char * const cpus[] = { "0", "0-1", "1" };
	unsigned int i;

	for (i = 0;; i++) {
		mt_cgroup_write(arg, "cpuset.cpus", cpus[i % 3]);
		mt_cgroup_write(arg, "cpuset.mems", i % 2 ? "0" : "0-1");
		mt_cgroup_write(arg, "cpu.max",
				i % 4 ? "max 100000" : "30000 100000");
		mt_nap(60);
	}
}

/* A busy host is slow to leave a CPU idle, and a thread wants an idle one. */
static bool waits_for_a_thread(const struct mt_snap *s, long long until)
{
	return !mt_since(s, "numa_scan_slices_async") &&
	       mt_now_ms() < until + 30000;
}

static int all_at_once(void)
{
	pid_t pid[6];
	struct mt_cgroup cg;
	struct mt_snap s;
	long long until, lost, owed;
	int i, n = 0;

	MT_ASSERT(!mt_cgroup_make(&cg, "race", "+cpu +cpuset"), "no cgroup");
	owed = ns_snap(&s);
	if (ns_fast("async", 16))
		return MT_FAIL;
	pid[3] = mt_spawn(flipper, NULL);
	pid[4] = mt_spawn(hotplugger, NULL);
	pid[5] = mt_spawn(rewriter, &cg);
	until = mt_now_ms() + (long long)RUN_MS * terrace_stretch();
	while (mt_now_ms() < until || waits_for_a_thread(&s, until)) {
		n++;
		for (i = 0; i < 3; i++) {
			pid[i] = mt_spawn(worker, (void *)(long)i);
			if (i)
				mt_cgroup_enter(&cg, pid[i]);
		}
		mt_nap(500);
		for (i = 0; i < 3; i++)
			mt_kill(pid[i]);
	}
	for (i = 3; i < 6; i++)
		mt_kill(pid[i]);
	mt_write("/sys/devices/system/cpu/cpu1/online", "1");
	mt_write(NS_MODE, "sync");
	mt_note("%u s: %d rounds; slices: %lld sync, %lld async, %lld sliced; %lld entries updated",
		RUN_MS / 1000 * terrace_stretch(), n,
		mt_since(&s, "numa_scan_slices_sync"),
		mt_since(&s, "numa_scan_slices_async"),
		mt_since(&s, "numa_scan_slices_sliced"),
		mt_since(&s, "numa_pte_updates"));
	MT_ASSERT(mt_since(&s, "numa_scan_slices_async") > 0, "no thread did any");
	MT_ASSERT(mt_since(&s, "numa_scan_slices_sliced") > 0, "no slices");
	MT_ASSERT(!ns_requests(), "%lld visits are left", ns_requests());
	MT_ASSERT(!ns_thread_count(), "threads are left");
	lost = ns_lost(&s, owed);
	MT_ASSERT(!lost, "%lld ns have been lost", lost);
	mt_cgroup_remove(&cg);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("R26 modes, exits, cpusets and hotplug at once",
			 all_at_once),
	};

	return ns_main(checks, ARRAY_LEN(checks));
}
