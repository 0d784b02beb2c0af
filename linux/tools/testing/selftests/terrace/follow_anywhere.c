// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic migration on four nodes: memory that is not on the last home node moves too.
 * A task may have left it on the way, or never have been there. While another thread of
 * its process is on another node, only memory of previous homes moves.
 *
 * lab: topology=seed-004-rx8620 icount=3 timeout=300s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>

#include "follow_util.h"

#define SIZE	(4 * MT_MB)
#define PAGES	((long)(SIZE / MT_PAGE))
/* Each node has one CPU. */
#define ON(node)	(1UL << (node))
#define LAST	3

static struct mt_cgroup on;
static struct mt_snap before;

static char *on_last(struct am_task *t)
{
	return mt_place(t->size, LAST);
}

static int begin(struct am_task *t, int lazy)
{
	if (am_cgroup_on(&on, "on", lazy))
		return MT_FAIL;
	t->cg = &on;
	MT_ASSERT(!am_set(&on, "auto_migrate_interval", 1), "no interval");
	if (am_start(t))
		return MT_FAIL;
	mt_snap(&before);
	return MT_PASS;
}

/* All of the process moves to a node, and its memory will follow. */
static int moves(struct am_task *t, int node)
{
	long long tasks = fo_since(&before, "tasks");

	if (am_move_all(t, ON(node)))
		return MT_FAIL;
	MT_ASSERT(MT_WAIT(fo_since(&before, "tasks") > tasks, AM_LONG_MS),
		  "memory does not follow to node %d", node);
	return MT_PASS;
}

static int all_on(struct am_task *t, int node)
{
	bool came = MT_WAIT(am_local(t, node), 10000);
	long q = t->s->q ? am_pages(t, t->s->q, SIZE, node) : PAGES;

	mt_note("on node %d: %ld, %ld and %ld of %ld pages", node,
		am_pages(t, t->s->p, SIZE, node), q,
		am_pages(t, t->s->r, SIZE, node), PAGES);
	fo_note(&before);
	MT_ASSERT(came && q >= PAGES * 95 / 100, "something is left behind");
	return MT_PASS;
}

/* Pages marked at the move from node 0 to 1 are first used on node 2. */
static int left_on_the_way(unsigned int threads)
{
	struct am_task t = { .size = SIZE, .threads = threads };

	if (begin(&t, 1) || moves(&t, 1))
		return MT_FAIL;
	MT_ASSERT(am_all_ended(&t, &before), "not marked");
	if (moves(&t, 2))
		return MT_FAIL;
	t.s->touch = true;
	return all_on(&t, 2);
}

static int left_lazy(void)
{
	return left_on_the_way(0);
}

static int left_lazy_threads(void)
{
	return left_on_the_way(1);
}

/* The first thread moves twice, the other one stays at home. */
static int left_split(void)
{
	struct am_task t = { .size = SIZE, .threads = 1, .special = on_last };
	int node;

	if (begin(&t, 0))
		return MT_FAIL;
	for (node = 1; node <= 2; node++) {
		if (am_move(&t, ON(node)))
			return MT_FAIL;
		MT_ASSERT(MT_WAIT(fo_since(&before, "marked") >= 2 * node * PAGES,
				  AM_LONG_MS), "not marked");
	}
	/* Some of the C library's, but none on nodes that were never a home */
	MT_ASSERT(fo_since(&before, "marked") < 5 * PAGES, "too many are marked");
	t.s->touch = true;
	MT_ASSERT(MT_WAIT(am_local(&t, 2), 10000), "something is left behind");
	MT_ASSERT(am_all(&t, t.s->q, LAST), "it was never there");
	return MT_PASS;
}

/* The middle part is on a node that was never a home. */
static int from_anywhere(int lazy, unsigned int threads)
{
	struct am_task t = {
		.size = SIZE, .threads = threads, .special = on_last,
	};

	if (begin(&t, lazy) || moves(&t, 1))
		return MT_FAIL;
	t.s->touch = lazy;
	MT_WAIT(am_pages(&t, t.s->q, SIZE, 1) >= PAGES * 95 / 100, 10000);
	return all_on(&t, 1);
}

static int anywhere_direct(void)
{
	return from_anywhere(0, 0);
}

static int anywhere_direct_threads(void)
{
	return from_anywhere(0, 2);
}

static int anywhere_lazy(void)
{
	return from_anywhere(1, 0);
}

/* Used long after the interval, with NUMA balancing off */
static int marks_do_not_age(void)
{
	struct am_task t = { .size = SIZE };

	if (begin(&t, 1) || moves(&t, 1))
		return MT_FAIL;
	MT_ASSERT(am_all_ended(&t, &before), "not marked");
	if (am_runs(&t, 3000))
		return MT_FAIL;
	t.s->touch = true;
	return all_on(&t, 1);
}

/* Not after it was switched off, and not to a node that is no longer allowed */
static int used_after(const char *file, const char *value)
{
	struct am_task t = { .size = SIZE };
	struct mt_snap then;

	if (begin(&t, 1) || moves(&t, 1))
		return MT_FAIL;
	MT_ASSERT(am_all_ended(&t, &before), "not marked");
	MT_ASSERT(!mt_cgroup_write(&on, file, value), "cannot set %s", file);
	mt_snap(&then);
	t.s->touch = true;
	if (am_rounds(&t, 3))
		return MT_FAIL;
	fo_note(&then);
	MT_ASSERT(am_all(&t, t.s->p, 0) && am_all(&t, t.s->r, 0), "it has moved");
	MT_ASSERT(!fo_refused(&then), "it was tried");
	return MT_PASS;
}

static int switched_off(void)
{
	return used_after("cpuset.auto_migration", "0");
}

static int no_longer_allowed(void)
{
	return used_after("cpuset.mems", "0,2-3");
}

/* On node 2 for less than the settle time */
static int in_passing(void)
{
	struct am_task t = { .size = SIZE };

	if (begin(&t, 1) || moves(&t, 1))
		return MT_FAIL;
	MT_ASSERT(am_all_ended(&t, &before), "not marked");
	if (am_move(&t, ON(2)))
		return MT_FAIL;
	t.s->touch = true;
	if (am_rounds(&t, 1))
		return MT_FAIL;
	t.s->touch = false;
	fo_note(&before);
	MT_ASSERT(fo_since(&before, "tasks") == 1, "this host is too slow");
	MT_ASSERT(am_all(&t, t.s->p, 0) && am_all(&t, t.s->r, 0), "it has moved");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("what was left on the way follows, lazy", left_lazy),
		MT_CHECK("what was left on the way follows, lazy, threads",
			 left_lazy_threads),
		MT_CHECK("what one thread left on its way follows it", left_split),
		MT_CHECK("memory follows from where the task never was, direct",
			 anywhere_direct),
		MT_CHECK("memory follows from where the task never was, threads",
			 anywhere_direct_threads),
		MT_CHECK("memory follows from where the task never was, lazy",
			 anywhere_lazy),
		MT_CHECK("what is marked waits longer than an interval",
			 marks_do_not_age),
		MT_CHECK("what is marked stays when it is switched off", switched_off),
		MT_CHECK("what is marked stays out of a node not allowed",
			 no_longer_allowed),
		MT_CHECK("what is used from elsewhere in passing stays", in_passing),
	};

	return fo_main(checks, ARRAY_LEN(checks));
}
