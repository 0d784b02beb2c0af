// SPDX-License-Identifier: GPL-2.0
/*
 * Target node: most of a slow node's memory comes and goes while the engine
 * runs.  It is hidden at boot, all but the last 128 MiB of node 1, and added by
 * the memory probe file, as a driver adds that of a CXL device.
 *
 * lab: topology=dram-cxl append="memmap=1920M$4G" icount=2 timeout=120s debug=no
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
	long long records;
	int ret = add();
	char *p;

	if (ret)
		return ret;
	mt_fast();
	mt_on();
	records = mt_read_ll("records_bytes");
	MT_ASSERT(records > 0, "node 1 has no records");
	if (mt_blocks_online(BLOCKS))
		return MT_FAIL;
	MT_ASSERT(MT_WAIT(mt_read_ll("records_bytes") > records, 5000),
		  "new memory has no records");
	/* The engine may take some of it while it is being filled. */
	p = mt_fill(SPREAD, 1, false);
	MT_ASSERT(mt_moves_to(p, SPREAD, 0, 40000), "not promoted");
	return MT_PASS;
}

static int goes(void)
{
	long long records;
	int ret = add();

	if (ret || mt_blocks_online(BLOCKS))
		return MT_SKIP;
	mt_fast();
	mt_on();
	records = mt_read_ll("records_bytes");
	if (mt_blocks_offline(BLOCKS))
		return MT_FAIL;
	MT_ASSERT(MT_WAIT(mt_read_ll("records_bytes") < records, 5000),
		  "%lld bytes of records are left of %lld",
		  mt_read_ll("records_bytes"), records);
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
		for (i = 0; i < 50; i++) {
			mt_touch(p, SIZE, true);
			mt_nap(1);
		}
		munmap(p, SIZE);
	}
}

/* Again and again, under load, with a queue that is not empty. */
static int under_load(void)
{
	struct mt_snap before, round;
	int ret = add(), i;
	bool moved;
	pid_t pid;

	if (ret)
		return ret;
	mt_fast();
	mt_set3("period", "ms", 10, 10, 20);
	mt_set("promote/rate_mbps", 16);
	mt_set("promote/batch_pages", 16);
	mt_snap(&before);
	mt_on();
	pid = mt_spawn(load, NULL);
	for (i = 0; i < 6; i++) {
		mt_snap(&round);
		if (mt_blocks_online(BLOCKS))
			return MT_FAIL;
		moved = MT_WAIT(mt_since(&round, "pgpromote_success") > 0, 10000);
		if (mt_blocks_offline(BLOCKS))
			return MT_FAIL;
		MT_ASSERT(moved, "nothing moved in round %d", i);
	}
	mt_kill(pid);
	mt_off();
	mt_note("%lld pages promoted", mt_since(&before, "pgpromote_success"));
	MT_ASSERT(mt_ended_since(&before) == mt_since(&before, "mtier_queued"),
		  "queued %lld, ended %lld", mt_since(&before, "mtier_queued"),
		  mt_ended_since(&before));
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("T5 memory that comes is known and emptied", comes),
		MT_CHECK("T5 H3 what goes takes its records with it", goes),
		MT_CHECK("T5 coming and going under load", under_load),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
