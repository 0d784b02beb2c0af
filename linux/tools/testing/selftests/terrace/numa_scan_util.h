/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the selftests of NUMA scanning share: its knobs, a task that is worth
 * scanning, and what /proc/PID/sched says of it.
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
 * struct ns_task - a process whose memory is worth scanning
 * @size: bytes that it touches over and over
 * @cpu: where it runs
 * @bind: bind its memory to node 0, so that its policy forbids migration
 * @single: it has one thread only, so that local pages are left alone
 * @maps: its second thread maps and unmaps a page every ms, on another CPU
 * @cg: its cgroup, or NULL
 * @pid: of its thread that runs
 * @shared: what both sides see
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
 * struct ns_shared - how parent and task talk
 * @from: first byte of what is touched
 * @length: bytes of it
 * @fresh: have no page fault, as if no scan had been there
 * @asleep: do nothing; a futex
 * @sleeps: it does nothing
 * @rounds: times that all of it was touched
 * @mapper: thread id of the one that maps, when it does
 * @mapped: times that it has mapped and unmapped a page
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
