// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic migration: two threads of one process, each with its own memory, exchange
 * their nodes. No node has most of the process, and still every part has to move to the
 * thread that uses it, in the default mode and the lazy one.
 *
 * lab: topology=two-socket-cxl icount=3 timeout=240s debug=no
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "follow_util.h"

#define SIZE	(8 * MT_MB)
#define PAGES	((long)(SIZE / MT_PAGE))
/* Longest time until 95 % are near */
#define NEAR_MS	8000

/**
 * struct worker - a thread, and the memory that only it uses
 * @p: its part
 * @tid: its id, once it runs
 * @node: initial node of its CPU and its part
 */
struct worker {
	char *p;
	volatile pid_t tid;
	int node;
};

/**
 * struct pair - shared by the process and the check
 * @w: its threads
 * @together: both start on node 0, not each on its own
 * @cg: its cgroup
 * @pid: of the first
 */
struct pair {
	struct worker w[2];
	bool together;
	const struct mt_cgroup *cg;
	pid_t pid;
};

static struct pair *pair;

static void *work(void *arg)
{
	struct worker *w = arg;

	if (mt_run_on_cpu(w->node))
		_exit(1);
	w->tid = syscall(SYS_gettid);
	for (;;)
		mt_touch(w->p, SIZE, true);
	return NULL;
}

static void run(void *arg)
{
	pthread_t thread;
	int i;

	(void)arg;
	if (mt_run_on_cpu(0) || mt_cgroup_enter(pair->cg, 0))
		_exit(1);
	for (i = 0; i < 2; i++) {
		pair->w[i].node = pair->together ? 0 : i;
		pair->w[i].p = mt_place(SIZE, pair->w[i].node);
		if (!pair->w[i].p)
			_exit(1);
	}
	mt_settle();
	if (!pthread_create(&thread, NULL, work, &pair->w[1]))
		work(&pair->w[0]);
	_exit(1);
}

/* Long enough for ticks to have met it */
static int seen(const struct worker *w)
{
	MT_ASSERT(MT_WAIT(w->tid, AM_LONG_MS), "a thread does not start");
	MT_ASSERT(MT_WAIT(mt_cpu_us(w->tid) >= 4 * AM_SEEN_MS * 1000LL,
			  AM_LONG_MS), "a thread does not run");
	return MT_PASS;
}

static int start(const struct mt_cgroup *cg, bool together)
{
	pair = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MT_ASSERT(pair != MAP_FAILED, "no memory");
	pair->cg = cg;
	pair->together = together;
	/* A new task is at home at its first tick, which must not be on the way. */
	MT_ASSERT(!mt_run_on_cpu(0), "cannot run on node 0");
	pair->pid = mt_spawn(run, NULL);
	return seen(&pair->w[0]) ?: seen(&pair->w[1]);
}

static int send(const struct worker *w, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	MT_ASSERT(!sched_setaffinity(w->tid, sizeof(set), &set), "cannot move it");
	return MT_PASS;
}

/* Get the pages of a worker's part on a node */
static long part_on(int worker, int node)
{
	const struct am_task t = { .pid = pair->pid };

	return am_pages(&t, pair->w[worker].p, SIZE, node);
}

/* Get the percentage of all pages that are on the node of their user */
static long near(void)
{
	return (part_on(0, 1) + part_on(1, 0)) * 100 / (2 * PAGES);
}

static struct mt_cgroup on;
static struct mt_snap before;

static int begin(int lazy)
{
	if (am_cgroup_on(&on, "on", lazy) || start(&on, false))
		return MT_FAIL;
	MT_ASSERT(!near(), "%ld %% are on the wrong node", near());
	mt_snap(&before);
	return MT_PASS;
}

static int comes_near(void)
{
	long long start_ms = mt_now_ms();
	bool came = MT_WAIT(near() >= 95, NEAR_MS);

	mt_note("after %lld ms %ld %% are near: %ld and %ld of %ld pages",
		mt_now_ms() - start_ms, near(), part_on(0, 1), part_on(1, 0), PAGES);
	fo_note(&before);
	MT_ASSERT(came, "they did not follow");
	mt_kill(pair->pid);
	return MT_PASS;
}

static int at_once(int lazy)
{
	if (begin(lazy) || send(&pair->w[0], 1) || send(&pair->w[1], 0))
		return MT_FAIL;
	return comes_near();
}

static int direct(void)
{
	return at_once(0);
}

static int lazy(void)
{
	return at_once(1);
}

/*
 * The other one leaves after the memory of the first has moved, which may not move back.
 */
static int one_by_one(void)
{
	if (begin(0) || send(&pair->w[0], 1))
		return MT_FAIL;
	MT_ASSERT(MT_WAIT(part_on(0, 1) >= PAGES * 95 / 100, NEAR_MS),
		  "that of the first did not follow");
	if (send(&pair->w[1], 0))
		return MT_FAIL;
	return comes_near();
}

/*
 * The second leaves the same node slightly later: it has used pages there that were
 * marked for the first.
 */
static int one_after_the_other(void)
{
	if (am_cgroup_on(&on, "on", 1) || start(&on, true))
		return MT_FAIL;
	MT_ASSERT(!am_set(&on, "auto_migrate_interval", 2), "no interval");
	mt_snap(&before);
	if (send(&pair->w[0], 1))
		return MT_FAIL;
	MT_ASSERT(MT_WAIT(part_on(0, 1) >= PAGES * 95 / 100, NEAR_MS),
		  "that of the first did not follow");
	if (send(&pair->w[1], 1))
		return MT_FAIL;
	MT_WAIT(part_on(1, 1) >= PAGES * 95 / 100, NEAR_MS);
	mt_note("%ld and %ld of %ld pages have come", part_on(0, 1), part_on(1, 1),
		PAGES);
	fo_note(&before);
	MT_ASSERT(part_on(1, 1) >= PAGES * 95 / 100,
		  "that of the second did not follow");
	mt_kill(pair->pid);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("threads that change nodes have their memory near, direct",
			 direct),
		MT_CHECK("threads that change nodes have their memory near, lazy",
			 lazy),
		MT_CHECK("threads that change nodes one after the other, direct",
			 one_by_one),
		MT_CHECK("threads that leave one after the other, lazy",
			 one_after_the_other),
	};

	return fo_main(checks, ARRAY_LEN(checks));
}
