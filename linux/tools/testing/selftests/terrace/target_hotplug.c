// SPDX-License-Identifier: GPL-2.0
/*
 * Target node: most of a slow node's memory comes and goes while the engine
 * runs.  It is hidden at boot, all but the last 128 MiB of node 1, and added by
 * the memory probe file, as a driver adds that of a CXL device.
 *
 * lab: topology=dram-cxl append="memmap=1920M$4G" icount=2 timeout=600s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>

#include "mtier_util.h"

#define BASE	(4UL << 30)
#define BLOCKS	8
#define SIZE	(8 * MT_MB)

/* Once per boot; they are offline then. */
static int add(void)
{
	return mt_blocks_add("/sys/devices/system/memory/probe", BASE, BLOCKS);
}

/* Larger than what node 1 had at boot, so that some of it is in new memory. */
#define SPREAD	(160 * MT_MB)

static int comes(void)
{
	const long most = SPREAD / MT_PAGE * 9 / 10;
	struct mt_toucher t;
	int ret = add();
	bool moved;
	char *p;

	if (ret)
		return ret;
	mt_fast();
	mt_on();
	if (mt_blocks_online(BLOCKS))
		return MT_FAIL;
	/* The engine may take some of it while it is being filled. */
	p = mt_fill(SPREAD, 1, false);
	mt_touch_start(&t, p, SPREAD);
	moved = MT_WAIT(mt_pages_on(p, SPREAD, 0) >= most, 2 * MT_MOVE_MS);
	mt_touch_stop(&t);
	mt_note_where("used", p, SPREAD);
	MT_ASSERT(moved, "not promoted");
	return MT_PASS;
}

static void load(void *arg)
{
	int i;

	(void)arg;
	for (;;) {
		char *p = mt_fill(SIZE, 0, false);

		/* Some of it on node 1, when there is one. */
		mt_mbind(p, SIZE, 1 /* MPOL_PREFERRED */, 2);
		madvise(p, SIZE, MADV_DONTNEED);
		mt_touch(p, SIZE, true);
		mt_mbind(p, SIZE, 0, 0);
		for (i = 0; i < 400; i++) {
			mt_touch(p, SIZE, true);
			mt_nap(1);
		}
		munmap(p, SIZE);
	}
}

/* Again and again, under load, with pages that wait for the limit of the rate. */
static int under_load(void)
{
	struct mt_snap before, round;
	int ret = add(), i;
	bool moved;
	pid_t pid;

	if (ret)
		return ret;
	mt_fast();
	mt_set("promote/rate_mbps", 4);
	mt_snap(&before);
	mt_on();
	pid = mt_spawn(load, NULL);
	for (i = 0; i < 6; i++) {
		mt_snap(&round);
		if (mt_blocks_online(BLOCKS))
			return MT_FAIL;
		moved = MT_WAIT(mt_since(&round, "pgpromote_success") > 0,
				MT_MOVE_MS);
		if (mt_blocks_offline(BLOCKS))
			return MT_FAIL;
		MT_ASSERT(moved, "nothing moved in round %d", i);
	}
	mt_kill(pid);
	mt_off();
	mt_note("%lld pages promoted", mt_since(&before, "pgpromote_success"));
	MT_ASSERT(mt_ended_since(&before) == mt_since(&before, "mtier_taken"),
		  "taken %lld, ended %lld", mt_since(&before, "mtier_taken"),
		  mt_ended_since(&before));
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("T5 memory that comes is known and emptied", comes),
		MT_CHECK("T5 coming and going under load", under_load),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
