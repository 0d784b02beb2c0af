// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic migration: how often memory follows a task that is moved back and
 * forth, and that one thread does it for a whole process.
 *
 * lab: topology=two-socket-cxl icount=3 timeout=240s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>

#include "follow_util.h"

#define SIZE		MT_MB
#define INTERVAL_MS	2000

static struct mt_cgroup on;
static struct mt_snap before;

static int begin(struct am_task *t)
{
	if (am_cgroup_on(&on, "on", 0))
		return MT_FAIL;
	t->cg = &on;
	MT_ASSERT(!am_set(&on, "auto_migrate_interval", INTERVAL_MS / 1000),
		  "no interval");
	if (am_start(t))
		return MT_FAIL;
	mt_snap(&before);
	return MT_PASS;
}

/*
 * R17 with an interval of 2 s instead of 30: bounced for 65 / 30 of it, and each
 * time away for longer than it takes to settle.
 */
static int bounced(void)
{
	struct am_task t = { .size = SIZE };
	long long until, n = 0;

	if (begin(&t))
		return MT_FAIL;
	until = mt_now_ms() + INTERVAL_MS * 65 / 30;
	while (mt_now_ms() < until)
		if (am_move(&t, n++ % 2 ? AM_NODE0 : AM_NODE1) ||
		    am_runs(&t, 200))
			return MT_FAIL;
	mt_note("moved %lld times", n);
	fo_note(&before);
	MT_ASSERT(fo_since(&before, "tasks") <= 3, "too often");
	MT_ASSERT(fo_since(&before, "tasks") >= 2, "not even once an interval");
	return MT_PASS;
}

/* Back before it has settled, and long enough to be seen there */
static int back_in_time(void)
{
	struct am_task t = { .size = SIZE };
	int i;

	if (begin(&t))
		return MT_FAIL;
	for (i = 0; i < 20; i++)
		if (am_move(&t, AM_NODE1) || am_runs(&t, 50) ||
		    am_move(&t, AM_NODE0) || am_runs(&t, AM_SEEN_MS))
			return MT_FAIL;
	fo_note(&before);
	MT_ASSERT(!fo_since(&before, "tasks"), "memory followed");
	MT_ASSERT(am_all(&t, t.s->p, 0), "pages have moved");
	return MT_PASS;
}

/* Sooner than settled nothing moves; then it does. */
static int settles_first(void)
{
	struct am_task t = { .size = SIZE };

	if (begin(&t) || am_move(&t, AM_NODE1) || am_runs(&t, 50))
		return MT_FAIL;
	MT_ASSERT(!fo_since(&before, "tasks"), "it has not settled yet");
	MT_ASSERT(MT_WAIT(am_local(&t, 1), 2000), "it did not follow");
	return MT_PASS;
}

/* Eight threads move: each of them has, one walks. */
static int one_for_all(void)
{
	struct am_task t = { .size = SIZE, .threads = AM_THREADS - 1 };

	if (begin(&t) || am_move_all(&t, AM_NODE1))
		return MT_FAIL;
	MT_ASSERT(MT_WAIT(am_local(&t, 1), 10000), "it did not follow");
	/* Everyone has run for longer than it takes to settle. */
	if (am_runs(&t, 150))
		return MT_FAIL;
	fo_note(&before);
	MT_ASSERT(fo_since(&before, "tasks") == 1, "%lld threads walked",
		  fo_since(&before, "tasks"));
	return MT_PASS;
}

/* The interval over, the same way is gone again. */
static int follows_again(void)
{
	struct am_task t = { .size = SIZE };
	int i;

	if (begin(&t))
		return MT_FAIL;
	for (i = 1; i <= 4; i++) {
		int node = i % 2;

		if (am_move(&t, node ? AM_NODE1 : AM_NODE0))
			return MT_FAIL;
		MT_ASSERT(MT_WAIT(am_local(&t, node), 3 * INTERVAL_MS),
			  "it did not follow the %d. time", i);
	}
	fo_note(&before);
	MT_ASSERT(fo_since(&before, "tasks") == 4, "%lld actions",
		  fo_since(&before, "tasks"));
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("R17 at most once an interval", bounced),
		MT_CHECK("R17 never if it is back in time", back_in_time),
		MT_CHECK("R17 not before it has settled", settles_first),
		MT_CHECK("one thread does it for all", one_for_all),
		MT_CHECK("R17 again after an interval, both ways",
			 follows_again),
	};

	return fo_main(checks, ARRAY_LEN(checks));
}
