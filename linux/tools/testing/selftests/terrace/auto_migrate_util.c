// SPDX-License-Identifier: GPL-2.0
/* Selftest helpers: automatic migration. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "follow_util.h"

#define CGROUPS	"/sys/fs/cgroup"
/* Prefix of all cgroups of these tests. */
#define PREFIX	"am."

/* ---- cgroups ---- */

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	(void)st;
	(void)ftw;
	/* Its processes have been killed, and may still be exiting. */
	if (type == FTW_DP)
		(void)MT_WAIT(!rmdir(path) || errno != EBUSY, 10000);
	return 0;
}

/* Remove the cgroups of a check, with their descendants */
void am_remove_cgroups(void)
{
	DIR *dir = opendir(CGROUPS);
	struct dirent *entry;
	char path[300];

	while (dir && (entry = readdir(dir))) {
		if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)))
			continue;
		snprintf(path, sizeof(path), CGROUPS "/%s", entry->d_name);
		nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	}
	if (dir)
		closedir(dir);
}

/* Create a cgroup with a cpuset below @parent, or below the root. */
int am_cgroup(struct mt_cgroup *cg, const struct mt_cgroup *parent,
	      const char *name)
{
	const char *above = parent ? parent->dir : CGROUPS;
	char path[160];
	int n;

	snprintf(path, sizeof(path), "%s/cgroup.subtree_control", above);
	MT_ASSERT(!mt_write(path, "+cpuset"), "no cpuset below %s", above);
	n = snprintf(cg->dir, sizeof(cg->dir), "%s/%s%s", above,
		     parent ? "" : PREFIX, name);
	MT_ASSERT(n < (int)sizeof(cg->dir) && !mkdir(cg->dir, 0700),
		  "cannot make %s", cg->dir);
	return MT_PASS;
}

/* Write a file of automatic migration; returns 0 or -errno. */
int am_set(const struct mt_cgroup *cg, const char *file, long long value)
{
	char name[64], text[32];

	snprintf(name, sizeof(name), "cpuset.%s", file);
	snprintf(text, sizeof(text), "%lld", value);
	return mt_cgroup_write(cg, name, text);
}

/* -1 if it cannot be read */
long long am_get(const struct mt_cgroup *cg, const char *file)
{
	char path[192];

	snprintf(path, sizeof(path), "%s/cpuset.%s", cg->dir, file);
	return mt_read_ll(path);
}

/*
 * Create one below the root with it on. The interval is the shortest one; in lazy mode,
 * since marked pages must be used within the interval, it is long enough for a slow host.
 */
int am_cgroup_on(struct mt_cgroup *cg, const char *name, int lazy)
{
	if (am_cgroup(cg, NULL, name))
		return MT_FAIL;
	MT_ASSERT(!am_set(cg, "auto_migrate_interval", lazy ? 60 : 1) &&
		  !am_set(cg, "auto_migrate_lazy", lazy) &&
		  !am_set(cg, "auto_migration", 1), "cannot switch it on");
	return MT_PASS;
}

/* ---- a process that runs ---- */

static long long ran_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

static void spin(void)
{
	int i;

	for (i = 0; i < 20000; i++)
		__asm__ volatile("" ::: "memory");
}

/* Run for this CPU time. */
void am_spin(long long ms)
{
	long long until = ran_ms() + ms;

	while (ran_ms() < until)
		spin();
}

/**
 * struct runner - a thread that only runs
 * @s: shared memory of its process
 * @n: its number
 */
struct runner {
	struct am_shared *s;
	unsigned int n;
};

static void *run_only(void *arg)
{
	struct runner *r = arg;

	for (;;) {
		spin();
		r->s->ran_ms[r->n] = ran_ms();
	}
	return NULL;
}

static bool make_all(struct am_task *t)
{
	static struct runner runners[AM_THREADS];
	struct am_shared *s = t->s;
	pthread_t thread;
	unsigned int i;

	s->p = mt_place(t->size, 0);
	if (!s->p)
		return false;
	/* For tasks that share the special part with a child */
	madvise(s->p, t->size, MADV_DONTFORK);
	s->q = t->special ? t->special(t) : NULL;
	if (t->special && !s->q)
		return false;
	s->r = mt_place(t->size, 0);
	for (i = 1; i <= t->threads; i++) {
		runners[i] = (struct runner) { .s = s, .n = i };
		if (pthread_create(&thread, NULL, run_only, &runners[i]))
			return false;
	}
	mt_settle();
	return s->r;
}

static void touch(struct am_task *t)
{
	mt_touch(t->s->p, t->size, true);
	if (t->s->q)
		mt_touch(t->s->q, t->size, false);
	mt_touch(t->s->r, t->size, true);
}

static void run(void *arg)
{
	struct am_task *t = arg;
	struct am_shared *s = t->s;

	if (mt_run_on_cpu(0) || (t->cg && mt_cgroup_enter(t->cg, 0)) ||
	    !make_all(t)) {
		s->failed = true;
		_exit(1);
	}
	for (;;) {
		if (s->ask) {
			s->answer = t->check(t);
			s->ask = false;
		}
		if (s->touch)
			touch(t);
		spin();
		s->ran_ms[0] = ran_ms();
		s->rounds++;
	}
}

/* Get the CPU of its first thread */
static int cpu_of(const struct am_task *t)
{
	char path[64], text[1024], *at;
	int field;

	snprintf(path, sizeof(path), "/proc/%d/stat", t->pid);
	if (mt_read(path, text, sizeof(text)) < 0)
		return -1;
	/* The name ends field 2; the CPU is field 39. */
	at = strrchr(text, ')');
	for (field = 2; at && field < 39; field++)
		at = strchr(at + 1, ' ');
	return at ? atoi(at) : -1;
}

/* Get the number of timer interrupts of a CPU */
static long long ticks_of(int cpu)
{
	char text[16384], *at;

	if (mt_read("/proc/interrupts", text, sizeof(text)) < 0)
		return -1;
	at = strstr(text, "LOC:");
	at = at ? at + 4 : NULL;
	for (; at && cpu > 0; cpu--)
		strtoll(at, &at, 10);
	return at ? strtoll(at, NULL, 10) : -1;
}

/*
 * Run every thread of it for @ms of CPU time, and let the CPU of the first have the same
 * number of ticks: a guest on a busy host loses some.
 */
int am_runs(struct am_task *t, long long ms)
{
	long long until[AM_THREADS], ticks = ticks_of(cpu_of(t));
	unsigned int i;

	for (i = 0; i <= t->threads; i++)
		until[i] = t->s->ran_ms[i] + ms;
	for (i = 0; i <= t->threads; i++)
		MT_ASSERT(MT_WAIT(t->s->ran_ms[i] >= until[i], AM_LONG_MS),
			  "thread %u does not run", i);
	MT_ASSERT(MT_WAIT(ticks_of(cpu_of(t)) >= ticks + ms / 4, AM_LONG_MS),
		  "no ticks");
	return MT_PASS;
}

/* Let it read its orders @n times; earlier work is finished then. */
int am_rounds(struct am_task *t, unsigned long n)
{
	unsigned long until = t->s->rounds + n + 1;

	MT_ASSERT(MT_WAIT(t->s->rounds >= until, AM_LONG_MS),
		  "it does not run");
	return MT_PASS;
}

/* Start it on node 0, with its memory there, and wait until ticks have met it. */
int am_start(struct am_task *t)
{
	t->s = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MT_ASSERT(t->s != MAP_FAILED, "no memory");
	/* A new task is at home at its first tick, which must not be on the way. */
	MT_ASSERT(!mt_run_on_cpu(0), "cannot run on node 0");
	t->pid = mt_spawn(run, t);
	MT_ASSERT(MT_WAIT(t->s->rounds > 0 || t->s->failed, AM_LONG_MS) &&
		  !t->s->failed, "it does not start");
	return am_runs(t, AM_SEEN_MS);
}

void am_stop(struct am_task *t)
{
	mt_kill(t->pid);
	munmap(t->s, MT_PAGE);
}

static int move_thread(pid_t tid, unsigned long cpus)
{
	cpu_set_t set;
	int cpu;

	CPU_ZERO(&set);
	for (cpu = 0; cpu < 64; cpu++)
		if (cpus >> cpu & 1)
			CPU_SET(cpu, &set);
	return sched_setaffinity(tid, sizeof(set), &set) ? -errno : 0;
}

/* Run its first thread on these CPUs. */
int am_move(struct am_task *t, unsigned long cpus)
{
	MT_ASSERT(!move_thread(t->pid, cpus), "cannot move it");
	return MT_PASS;
}

/* Run all of its threads there. */
int am_move_all(struct am_task *t, unsigned long cpus)
{
	struct dirent *entry;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", t->pid);
	dir = opendir(path);
	MT_ASSERT(dir, "it is gone");
	while ((entry = readdir(dir)))
		if (atoi(entry->d_name) > 0)
			move_thread(atoi(entry->d_name), cpus);
	closedir(dir);
	return MT_PASS;
}

/* Get the result of its check. */
bool am_asked(struct am_task *t)
{
	t->s->ask = true;
	return MT_WAIT(!t->s->ask, AM_LONG_MS) && t->s->answer;
}

/* ---- placement of its memory ---- */

/* Base pages of a range of its memory on @node */
long am_pages(const struct am_task *t, const char *p, size_t size, int node)
{
	enum { CHUNK = 512 };
	void *pages[CHUNK];
	int status[CHUNK];
	size_t off, i, n;
	long on = 0;

	for (off = 0; off < size; off += n * MT_PAGE) {
		n = (size - off) / MT_PAGE;
		n = n < CHUNK ? n : CHUNK;
		for (i = 0; i < n; i++)
			pages[i] = (char *)p + off + i * MT_PAGE;
		if (syscall(SYS_move_pages, t->pid, n, pages, NULL, status, 0))
			return -errno;
		for (i = 0; i < n; i++)
			on += status[i] == node;
	}
	return on;
}

/* At least 95 % of both parts without a policy are on @node. */
bool am_local(const struct am_task *t, int node)
{
	long least = t->size / MT_PAGE * 95 / 100;

	return am_pages(t, t->s->p, t->size, node) >= least &&
	       am_pages(t, t->s->r, t->size, node) >= least;
}

/* All of a part is on @node. */
bool am_all(const struct am_task *t, const char *p, int node)
{
	return am_pages(t, p, t->size, node) == (long)(t->size / MT_PAGE);
}

/* Each page without a policy has moved, or was marked or refused. */
bool am_all_ended(const struct am_task *t, const struct mt_snap *s)
{
	/* A slice is counted at its end. */
	return MT_WAIT(fo_ended(s) >= (long long)(2 * t->size / MT_PAGE), 5000);
}

/* Its special part is in huge pages. */
bool am_is_huge(struct am_task *t)
{
	size_t off;

	for (off = 0; off < t->size; off += MT_HUGE)
		if (!mt_is_thp(t->s->q + off))
			return false;
	return true;
}

/* For a failed check: print all parts, by node */
void am_where(const struct am_task *t)
{
	const char * const part[] = { t->s->p, t->s->q, t->s->r };
	int i;

	for (i = 0; i < 3; i++)
		if (part[i])
			mt_note("%c: %ld of %zu pages on node 0, %ld on node 1",
				"pqr"[i], am_pages(t, part[i], t->size, 0),
				t->size / MT_PAGE,
				am_pages(t, part[i], t->size, 1));
}
