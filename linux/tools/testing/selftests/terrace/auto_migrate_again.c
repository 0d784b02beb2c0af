// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic migration to a node that is full for a while: once it has room, the memory that
 * stayed behind follows, after an interval.
 *
 * lab: topology=two-socket-cxl memory-scale=0.5 timeout=300s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "follow_util.h"

#define SIZE	(8 * MT_MB)
#define PAGES	((long)(SIZE / MT_PAGE))

static volatile bool *filled;

static void fill(void *arg)
{
	size_t size;

	(void)arg;
	if (!mt_hog(1, &size))
		_exit(1);
	*filled = true;
	fo_hold(NULL);
}

/* A process that has taken all of node 1; or -1 */
static pid_t fill_node(void)
{
	pid_t pid;

	filled = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (filled == MAP_FAILED)
		return -1;
	pid = mt_spawn(fill, NULL);
	if (MT_WAIT(*filled || mt_zombie(pid), 4 * AM_LONG_MS) && *filled)
		return pid;
	mt_kill(pid);
	return -1;
}

static long stayed(const struct am_task *t)
{
	return am_pages(t, t->s->p, SIZE, 0);
}

/* The memory of a task that uses it stays behind, and then follows. */
static int again(int lazy)
{
	struct am_task t = { .size = SIZE };
	struct mt_cgroup cg;
	struct mt_snap before;
	long long walks;
	pid_t hog;

	if (am_cgroup_on(&cg, "on", lazy))
		return MT_FAIL;
	MT_ASSERT(!am_set(&cg, "auto_migrate_interval", 1), "no interval");
	t.cg = &cg;
	if (am_start(&t))
		return MT_FAIL;
	hog = fill_node();
	MT_ASSERT(hog > 0, "node 1 cannot be filled");
	mt_snap(&before);
	t.s->touch = true;
	if (am_move(&t, AM_NODE1))
		return MT_FAIL;
	MT_ASSERT(MT_WAIT(fo_since(&before, "refused_nomem") >= PAGES / 4, AM_LONG_MS),
		  "%lld refused for want of memory", fo_since(&before, "refused_nomem"));
	MT_ASSERT(stayed(&t) > PAGES / 2, "%ld of %ld stayed", stayed(&t), PAGES);
	walks = fo_since(&before, "tasks");
	mt_note("%ld of %ld pages stayed; %lld refused for want of memory in %lld walks",
		stayed(&t), PAGES, fo_since(&before, "refused_nomem"), walks);
	mt_kill(hog);
	MT_ASSERT(MT_WAIT(!stayed(&t), 2 * AM_LONG_MS), "%ld of %ld have not followed",
		  stayed(&t), PAGES);
	mt_note("%lld walks until all have followed", fo_since(&before, "tasks"));
	MT_ASSERT(fo_since(&before, "tasks") > walks, "without another walk");
	am_stop(&t);
	return MT_PASS;
}

static int direct(void)
{
	return again(0);
}

static int lazy(void)
{
	return again(1);
}

/* Nothing to be done: nothing is walked again. */
static int only_once(void)
{
	struct am_task t = { .size = SIZE };
	struct mt_cgroup cg;
	struct mt_snap before;

	if (am_cgroup_on(&cg, "on", 0))
		return MT_FAIL;
	t.cg = &cg;
	if (am_start(&t))
		return MT_FAIL;
	mt_snap(&before);
	if (am_move(&t, AM_NODE1))
		return MT_FAIL;
	MT_ASSERT(MT_WAIT(!stayed(&t), AM_LONG_MS), "it does not follow");
	if (am_runs(&t, 3000))
		return MT_FAIL;
	MT_ASSERT(fo_since(&before, "tasks") == 1, "%lld walks",
		  fo_since(&before, "tasks"));
	am_stop(&t);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("memory follows once the node has room, direct", direct),
		MT_CHECK("memory follows once the node has room, lazy", lazy),
		MT_CHECK("what has followed is not walked again", only_once),
	};

	return fo_main(checks, ARRAY_LEN(checks));
}
