/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the selftests of automatic migration: cgroups, a process that runs all the
 * time, so that ticks meet it, and the placement of its memory.
 */
#ifndef AUTO_MIGRATE_UTIL_H
#define AUTO_MIGRATE_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "mtier_util.h"

#define AM_THREADS	8
/* Longest time of any step on a slow host */
#define AM_LONG_MS	30000
/* CPU time after which ticks have certainly met a thread */
#define AM_SEEN_MS	60

int am_cgroup(struct mt_cgroup *cg, const struct mt_cgroup *parent,
	      const char *name);
int am_set(const struct mt_cgroup *cg, const char *file, long long value);
long long am_get(const struct mt_cgroup *cg, const char *file);
int am_cgroup_on(struct mt_cgroup *cg, const char *name, int lazy);
void am_remove_cgroups(void);

/**
 * struct am_shared - shared by a watched process and its parent
 * @p: memory without a policy
 * @q: the special memory, or NULL
 * @r: memory without a policy
 * @touch: use all of it
 * @rounds: number of reads of @touch
 * @ran_ms: CPU time of its threads
 * @ask: call check(), and clear this
 * @answer: result of check()
 * @failed: it could not start
 */
struct am_shared {
	char *p;
	char *q;
	char *r;
	volatile bool touch;
	volatile unsigned long rounds;
	volatile long long ran_ms[AM_THREADS];
	volatile bool ask;
	volatile bool answer;
	volatile bool failed;
};

/**
 * struct am_task - a watched process
 * @size: of @p and @r, and of @q unless special() sets it
 * @special: creates @q, between the other two; NULL if there is none
 * @check: checks its memory on request
 * @threads: number of threads in addition to the first
 * @cg: its cgroup
 * @pid: of its first thread
 * @s: the shared memory
 */
struct am_task {
	size_t size;
	char *(*special)(struct am_task *t);
	bool (*check)(struct am_task *t);
	unsigned int threads;
	const struct mt_cgroup *cg;
	pid_t pid;
	struct am_shared *s;
};

int am_start(struct am_task *t);
void am_stop(struct am_task *t);
int am_move(struct am_task *t, unsigned long cpus);
int am_move_all(struct am_task *t, unsigned long cpus);
int am_runs(struct am_task *t, long long ms);
int am_rounds(struct am_task *t, unsigned long n);
bool am_asked(struct am_task *t);
long am_pages(const struct am_task *t, const char *p, size_t size, int node);
bool am_local(const struct am_task *t, int node);
bool am_all(const struct am_task *t, const char *p, int node);
bool am_all_ended(const struct am_task *t, const struct mt_snap *s);
bool am_is_huge(struct am_task *t);
void am_where(const struct am_task *t);
void am_spin(long long ms);

/* sched_setaffinity() masks of the two nodes with CPUs */
#define AM_NODE0	1UL
#define AM_NODE1	2UL

#endif /* AUTO_MIGRATE_UTIL_H */
