// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic migration: the memory of a task that is moved to another node moves with it,
 * at once or at its next access; but not without auto_migration, and not for a new task
 * or program.
 *
 * lab: topology=two-socket-cxl icount=3 timeout=400s debug=no
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "follow_util.h"
#include "numa_scan_util.h"

#define SIZE	(8 * MT_MB)
#define PAGES	((long)(SIZE / MT_PAGE))

static struct mt_cgroup on;
static struct mt_snap before;

static int begin(struct am_task *t, int lazy)
{
	if (am_cgroup_on(&on, "on", lazy))
		return MT_FAIL;
	t->cg = &on;
	if (am_start(t))
		return MT_FAIL;
	mt_snap(&before);
	return MT_PASS;
}

/* Move the task, and wait until its memory is there, for @ms at most. */
static int comes(struct am_task *t, unsigned int ms)
{
	long long start = mt_now_ms();
	bool came;

	if (am_move(t, AM_NODE1))
		return MT_FAIL;
	came = MT_WAIT(am_local(t, 1), ms);
	mt_note("%s after %lld ms", came ? "there" : "not there",
		mt_now_ms() - start);
	fo_note(&before);
	if (!came)
		am_where(t);
	MT_ASSERT(came, "it did not follow");
	MT_ASSERT(fo_since(&before, "tasks") == 1, "%lld actions",
		  fo_since(&before, "tasks"));
	return MT_PASS;
}

/* Check the contents that mt_place() has written. */
static bool intact(struct am_task *t)
{
	return !mt_filled(t->s->p, t->size) && !mt_filled(t->s->r, t->size);
}

static int direct(void)
{
	struct am_task t = { .size = SIZE, .check = intact };

	if (begin(&t, 0) || comes(&t, 2000))
		return MT_FAIL;
	MT_DATA(am_asked(&t), "another content");
	MT_ASSERT(fo_since(&before, "moved") >= 2 * PAGES * 95 / 100 &&
		  !fo_since(&before, "marked"), "not counted");
	MT_ASSERT(am_all_ended(&t, &before), "pages without an end");
	return MT_PASS;
}

static int direct_realtime(void)
{
	struct sched_param param = { .sched_priority = 1 };
	struct am_task t = { .size = SIZE };

	if (begin(&t, 0))
		return MT_FAIL;
	MT_ASSERT(!sched_setscheduler(t.pid, SCHED_RR, &param), "not realtime");
	return comes(&t, 2000);
}

static char *huge(struct am_task *t)
{
	return mt_place_thp(t->size, 0);
}

static int huge_pages(int lazy)
{
	struct am_task t = {
		.size = SIZE, .special = huge, .check = am_is_huge,
	};

	if (begin(&t, lazy))
		return MT_FAIL;
	t.s->touch = lazy;
	if (comes(&t, lazy ? 5000 : 2000))
		return MT_FAIL;
	MT_ASSERT(am_all(&t, t.s->q, 1), "huge pages did not follow");
	MT_ASSERT(am_asked(&t), "they have been split");
	return MT_PASS;
}

static int direct_huge(void)
{
	return huge_pages(0);
}

static int lazy_huge(void)
{
	return huge_pages(1);
}

static int lazy(int balancing)
{
	struct am_task t = { .size = SIZE };

	MT_ASSERT(!mt_writef(FO_BALANCING, "%d", balancing), "no balancing");
	if (begin(&t, 1))
		return MT_FAIL;
	t.s->touch = true;
	if (comes(&t, 5000))
		return MT_FAIL;
	MT_ASSERT(!fo_since(&before, "moved"), "some moved at once");
	/* NUMA balancing may have moved some, which the walk then does not see. */
	MT_ASSERT(balancing || am_all_ended(&t, &before), "pages without an end");
	return MT_PASS;
}

static int lazy_off(void)
{
	return lazy(0);
}

static int lazy_on(void)
{
	return lazy(1);
}

/* Marked and not used, it stays; after one use, it moves. */
static int lazy_unused(void)
{
	struct am_task t = { .size = SIZE };

	if (begin(&t, 1) || am_move(&t, AM_NODE1))
		return MT_FAIL;
	MT_ASSERT(MT_WAIT(fo_since(&before, "marked") >= 2 * PAGES, 5000),
		  "%lld marked", fo_since(&before, "marked"));
	MT_ASSERT(am_all(&t, t.s->p, 0) && am_all(&t, t.s->r, 0),
		  "what nobody uses has moved");
	t.s->touch = true;
	MT_ASSERT(MT_WAIT(am_local(&t, 1), 5000), "what is used does not move");
	fo_note(&before);
	MT_ASSERT(fo_since(&before, "pulled") >= 2 * PAGES * 95 / 100,
		  "%lld pulled", fo_since(&before, "pulled"));
	return MT_PASS;
}

/* Move the task, mark its pages, use them once: they have moved. */
static int once_is_enough(struct am_task *t, int node)
{
	mt_snap(&before);
	if (am_move_all(t, node ? AM_NODE1 : AM_NODE0))
		return MT_FAIL;
	MT_ASSERT(MT_WAIT(fo_since(&before, "marked") >= PAGES, 20000),
		  "%lld marked", fo_since(&before, "marked"));
	if (am_runs(t, AM_SEEN_MS))
		return MT_FAIL;
	t->s->touch = true;
	if (am_rounds(t, 1))
		return MT_FAIL;
	t->s->touch = false;
	fo_note(&before);
	am_where(t);
	MT_ASSERT(am_pages(t, t->s->q, t->size, node) >= PAGES * 95 / 100,
		  "the first access was not enough");
	return MT_PASS;
}

/* Only read: a write to a migrated page resets its last user. */
static char *only_read(struct am_task *t)
{
	return mt_place(t->size, 0);
}

/*
 * NUMA balancing has scanned the task for some time: pages that it has recorded on one
 * node need two uses from another one before they move. This is not recorded for local
 * pages, so they move after one use in any case; on the way back all are recorded.
 */
static int settled(void)
{
	/* Local pages of a single thread are never scanned. */
	struct am_task t = {
		.size = SIZE, .special = only_read, .threads = 1,
	};

	if (begin(&t, 1) || ns_fast("sync", 64))
		return MT_FAIL;
	t.s->touch = true;
	MT_ASSERT(MT_WAIT(ns_sched(t.pid, "mm->numa_scan_seq") >= 30 &&
			  ns_sched(t.pid, "numa_preferred_nid") == 0 &&
			  mt_since(&before, "numa_hint_faults") > 2 * PAGES,
			  150000),
		  "%lld scans, preferred node %lld, %lld faults",
		  ns_sched(t.pid, "mm->numa_scan_seq"),
		  ns_sched(t.pid, "numa_preferred_nid"),
		  mt_since(&before, "numa_hint_faults"));
	/* The last marks of a scan are used up once more, or are set already. */
	mt_write(FO_BALANCING, "0");
	if (am_rounds(&t, 2))
		return MT_FAIL;
	t.s->touch = false;
	MT_ASSERT(!am_set(&on, "auto_migrate_interval", 5), "no interval");
	if (am_rounds(&t, 1) || once_is_enough(&t, 1))
		return MT_FAIL;
	return once_is_enough(&t, 0);
}

/* Off in that cgroup; on in another one. */
static int off_stays(void)
{
	struct am_task canary = { .size = MT_MB };
	struct am_task t = { .size = SIZE };
	struct mt_cgroup off;

	if (am_cgroup(&off, NULL, "off"))
		return MT_FAIL;
	t.cg = &off;
	if (begin(&canary, 0) || am_start(&t) || am_move(&t, AM_NODE1) ||
	    am_runs(&t, 300) || comes(&canary, 5000) || am_runs(&t, 300))
		return MT_FAIL;
	MT_ASSERT(am_all(&t, t.s->p, 0) && am_all(&t, t.s->r, 0),
		  "memory followed that nobody asked for");
	return MT_PASS;
}

/* It has been on node 0 long enough to be at home there, from any node before. */
static void leave_home(void)
{
	if (mt_cgroup_enter(&on, 0) || mt_run_on_cpu(0))
		_exit(1);
	am_spin(200);
	if (mt_run_on_cpu(1))
		_exit(1);
}

/* Its child starts on node 1. */
static void forks(void *arg)
{
	pid_t child;

	(void)arg;
	leave_home();
	child = fork();
	if (!child) {
		am_spin(400);
		_exit(0);
	}
	mt_run_on_cpu(0);
	_exit(mt_reap(child));
}

static void *spinner(void *arg)
{
	am_spin(400);
	return arg;
}

/* So does its second thread. */
static void clones(void *arg)
{
	pthread_t thread;

	(void)arg;
	leave_home();
	if (pthread_create(&thread, NULL, spinner, NULL))
		_exit(1);
	mt_run_on_cpu(0);
	pthread_join(thread, NULL);
	_exit(0);
}

/* And so does another program. */
static void execs(void *arg)
{
	(void)arg;
	leave_home();
	execl("/proc/self/exe", "auto_migrate_follow", "spin", NULL);
	_exit(1);
}

static int fresh(void (*fn)(void *))
{
	int ret;

	if (am_cgroup_on(&on, "on", 0))
		return MT_FAIL;
	MT_ASSERT(!mt_run_on_cpu(0), "cannot run on node 0");
	mt_snap(&before);
	ret = mt_reap(mt_spawn(fn, NULL));
	MT_ASSERT(!ret, "it ended with %d", ret);
	fo_note(&before);
	MT_ASSERT(!fo_since(&before, "tasks") &&
		  !fo_since(&before, "declined_threads"),
		  "it was taken for one that moved");
	return MT_PASS;
}

static int fresh_fork(void)
{
	return fresh(forks);
}

static int fresh_clone(void)
{
	return fresh(clones);
}

static int fresh_exec(void)
{
	return fresh(execs);
}

int main(int argc, char **argv)
{
	static const struct mt_check checks[] = {
		MT_CHECK("R16 memory follows within 2 s, direct", direct),
		MT_CHECK("R16 also that of a realtime task", direct_realtime),
		MT_CHECK("R16 huge pages as a whole, direct", direct_huge),
		MT_CHECK("R16 memory follows within 5 s, lazy, balancing 0",
			 lazy_off),
		MT_CHECK("R16 memory follows within 5 s, lazy, balancing 1",
			 lazy_on),
		MT_CHECK("R16 huge pages as a whole, lazy", lazy_huge),
		MT_CHECK("R16 lazy: what is not used stays", lazy_unused),
		MT_CHECK("P2 lazy: the first access counts, whoever came before",
			 settled),
		MT_CHECK("R16 off: it stays", off_stays),
		MT_CHECK("P9 a new process has not moved", fresh_fork),
		MT_CHECK("P9 a new thread has not moved", fresh_clone),
		MT_CHECK("P8 a new program has not moved", fresh_exec),
	};

	if (argc > 1 && !strcmp(argv[1], "spin")) {
		am_spin(400);
		return 0;
	}
	return fo_main(checks, ARRAY_LEN(checks));
}
