/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the selftests of NUMA scanning: its knobs, a task for scans, and its values
 * of /proc/PID/sched.
 */
#ifndef NUMA_SCAN_UTIL_H
#define NUMA_SCAN_UTIL_H

#include "mtier_util.h"

#define NS_MODE		"/proc/sys/kernel/numa_balancing_scan_mode"
#define NS_WINDOWS	"/proc/sys/kernel/numa_balancing_scan_windows"
#define NS_SCHED	"/sys/kernel/debug/sched/"
#define NS_DEBUG	NS_SCHED "numa_balancing/"

int ns_main(const struct mt_check *checks, size_t n);
int ns_fast(const char *mode, unsigned int size_mb);

/**
 * struct ns_task - a process with memory for scans
 * @size: bytes that it touches repeatedly
 * @cpu: its CPU
 * @bind: bind its memory to node 0, so that its policy forbids migration
 * @single: it has one thread only, so that local pages are not scanned
 * @maps: its second thread maps and unmaps a page every ms, on another CPU
 * @cg: its cgroup, or NULL
 * @pid: of its running thread
 * @shared: memory of both processes
 */
struct ns_task {
	size_t size;
	int cpu;
	bool bind;
	bool single;
	bool maps;
	const struct mt_cgroup *cg;
	pid_t pid;
	struct ns_shared *shared;
};

/**
 * struct ns_shared - communication of parent and task
 * @from: first byte to touch
 * @length: number of bytes
 * @fresh: prevent page faults, as if there had been no scan
 * @asleep: order to sleep; a futex
 * @sleeps: it sleeps
 * @rounds: number of finished rounds
 * @mapper: thread id of the mapping thread
 * @mapped: number of its maps and unmaps
 */
struct ns_shared {
	volatile size_t from;
	volatile size_t length;
	volatile bool fresh;
	volatile int asleep;
	volatile bool sleeps;
	volatile unsigned long rounds;
	volatile pid_t mapper;
	volatile unsigned long mapped;
};

int ns_second_thread(void);
int ns_task_start(struct ns_task *t);
void ns_task_stop(struct ns_task *t);
int ns_task_sleep(struct ns_task *t);
void ns_task_poke(struct ns_task *t, bool up);
pid_t ns_hog(int cpu);
long long ns_sched(pid_t pid, const char *name);
long long ns_pending(void);
long long ns_snap(struct mt_snap *s);
long long ns_lost(const struct mt_snap *s, long long owed);
long long ns_requests(void);
void ns_note_scans(const struct mt_snap *s, pid_t pid);
int ns_thread_count(void);

#endif /* NUMA_SCAN_UTIL_H */
