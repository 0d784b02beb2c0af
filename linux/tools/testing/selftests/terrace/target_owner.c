// SPDX-License-Identifier: GPL-2.0
/*
 * Target node: what is to move is memory of an address space, not a frame.  Who gets
 * the frames of a process that has ended, of whose memory some was about to move, has
 * nothing moved in its place.  With one CPU there is one list of freed pages, from
 * which the next allocations come.
 *
 * lab: topology=dram-cxl cpus=1 icount=0 timeout=300s debug=yes
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "burst_util.h"

#define SIZE	(48 * MT_MB)

static void hot(void *arg)
{
	char *p = mt_fill(SIZE, mt_slow_node(), false);

	(void)arg;
	while (p) {
		mt_touch(p, SIZE, false);
		mt_nap(1);
	}
}

/* End a process while pages of it wait for the limit of the rate. */
static int end_meanwhile(void)
{
	struct mt_snap before;
	bool wait;
	pid_t pid;

	mt_fast();
	mt_set("promote/rate_mbps", 1);
	pid = mt_spawn(hot, NULL);
	mt_snap(&before);
	mt_on();
	wait = MT_WAIT(mt_since(&before, "pgpromote_success") > 0 &&
		       mt_reads("state", "throttled"), MT_MOVE_MS);
	mt_kill(pid);
	MT_ASSERT(wait, "nothing of it waits");
	return MT_PASS;
}

/* Hot as memory of one process, then that of another of whose use nobody knows. */
static int changed_hands(void)
{
	struct mt_snap before;
	bool passed;
	char *p;

	mt_snap(&before);
	MT_ASSERT(!prctl(MT_SCALE_SET, 5, 0, 0, 0), "prctl");
	MT_ASSERT(!end_meanwhile(), "there is nothing to take over");
	MT_ASSERT(!prctl(MT_SCALE_SET, 0, 0, 0, 0), "prctl");
	p = mt_place(SIZE, mt_slow_node());
	MT_ASSERT(p, "no memory on the slow node");
	mt_set("promote/rate_mbps", 1048576);
	passed = mt_bursts_pass(3);
	mt_off();
	mt_note_since(&before);
	MT_ASSERT(passed, "no bursts");
	MT_ASSERT(mt_ended_since(&before) == mt_since(&before, "mtier_taken"),
		  "taken %lld, ended %lld", mt_since(&before, "mtier_taken"),
		  mt_ended_since(&before));
	if (mt_all_on(p, SIZE, mt_slow_node()))
		return MT_PASS;
	mt_note_where("memory nobody looked at", p, SIZE);
	return MT_FAIL;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("H8 what is known of a frame does not go to its new owner",
			 changed_hands),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
