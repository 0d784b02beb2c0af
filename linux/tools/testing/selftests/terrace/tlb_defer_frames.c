// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flushes: frames have no new owner while a CPU may read them, who
 * needs them gets them, and no more wait than may.
 *
 * Readers on CPUs of their own look at every page of a file all the time, while
 * it is moved there and back and somebody fills what becomes free with other things.
 *
 * lab: topology=dram-cxl cpus=4 append="nopti isolcpus=2,3" timeout=240s debug=yes
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tlb_defer_util.h"

#define PAGES	256
#define LOTS	4096

static int reuse_never_expires(void)
{
	return td_reuse(true, td_times(12));
}

static int reuse_by_itself(void)
{
	return td_reuse(false, td_times(24));
}

/* ---- who needs frames ---- */

static int drained(void)
{
	struct td_looker l;
	void *p;
	int ret = td_wait_begins(&l, &p, PAGES);

	if (ret)
		return ret;
	mt_write("/proc/sys/vm/compact_memory", "1");
	MT_ASSERT(!td_knob("held_kb"), "%lld KiB still wait",
		  td_knob("held_kb"));
	return td_right_to_the_end(&l);
}

/* Somebody samples how much waits while a lot moves. */
static int capped(void)
{
	const size_t lots = mt_debug_kernel() ? LOTS / 4 : LOTS;
	const long long limit_bp = 2;
	long long limit_kb, most = 0, now;
	struct mt_snap before;
	struct td_looker l;
	void *p = td_watch(&l, lots);
	size_t i;

	MT_NEED(p, "no ext4 on a loop device");
	mt_writef(TD_DIR "held_limit_bp", "%lld", limit_bp);
	mt_snap(&before);
	for (i = 0; i + 128 <= lots; i += 128) {
		td_move((char *)p + i * MT_PAGE, 128, td_node_b());
		now = td_knob("held_kb");
		most = now > most ? now : most;
	}
	/* Of 2 GiB; and every migrator may have one batch more. */
	limit_kb = (2LL << 20) * limit_bp / 10000 + 512 * 4;
	mt_note("at most %lld KiB waited, %lld may; %lld flushes for room",
		most, limit_kb, mt_since(&before, "tlb_defer_flush_cap"));
	MT_ASSERT(most > 0 && most <= limit_kb, "too much");
	return td_right_to_the_end(&l);
}

/*
 * One migration of far more pages than may wait: those that were flushed for room
 * meanwhile do not count any more.
 */
static int long_migration(void)
{
	const unsigned long to = 1UL << td_node_b();
	struct mt_snap before;
	struct td_looker l;
	void *p = td_watch(&l, LOTS);

	MT_NEED(p, "no ext4 on a loop device");
	/* A quarter of them, of 2 GiB: two batches of migrate_pages() */
	mt_write(TD_DIR "held_limit_bp", "20");
	mt_snap(&before);
	MT_ASSERT(!syscall(SYS_mbind, p, LOTS * MT_PAGE, MPOL_BIND, &to,
			   MT_NODES + 1, MPOL_MF_MOVE), "mbind");
	mt_note("%lld moved, %lld waited; %lld flushes for room, %lld had none",
		mt_since(&before, "pgmigrate_success"),
		mt_since(&before, "tlb_defer_pages"),
		mt_since(&before, "tlb_defer_flush_cap"),
		mt_since(&before, "tlb_defer_refused_full"));
	MT_ASSERT(mt_since(&before, "tlb_defer_pages") >= LOTS * 3 / 4,
		  "too few waited");
	return td_right_to_the_end(&l);
}

/* A page that is taken out of use must not be read any more. */
static int bad_memory(void)
{
	struct mt_snap before;
	struct td_looker l;
	void *p = td_watch(&l, PAGES);

	MT_NEED(p, "no ext4 on a loop device");
	mt_snap(&before);
	/* Who looks at the page this moment keeps it from moving. */
	MT_NEED(MT_WAIT(!madvise(p, MT_PAGE, 101 /* MADV_SOFT_OFFLINE */) ||
			mt_since(&before, "tlb_defer_pages"), 5000),
		"no soft offlining");
	MT_ASSERT(!mt_since(&before, "tlb_defer_pages"), "was deferred");
	return td_right_to_the_end(&l);
}

/* Off means that nothing waits any more. */
static int off_is_off(void)
{
	struct mt_snap before;
	struct td_looker l;
	void *p;
	int ret = td_wait_begins(&l, &p, PAGES);

	if (ret)
		return ret;
	MT_ASSERT(!td_mode("off"), "cannot switch off");
	MT_ASSERT(!td_knob("held_kb"), "something waits");
	mt_snap(&before);
	td_move(p, PAGES, td_node_a());
	MT_ASSERT(!mt_since(&before, "tlb_defer_pages"), "was deferred");
	return td_right_to_the_end(&l);
}

static const struct mt_check checks[] = {
	{ "C: frames are not reused while they can be read",
	  reuse_never_expires },
	{ "a closed generation is not a done one", reuse_never_expires },
	{ "CPUs flush before they say so", reuse_by_itself },
	{ "compaction gets all frames back", drained },
	{ "no more frames wait than may", capped },
	{ "more than may wait at a time can wait one after the other",
	  long_migration },
	{ "D4: bad memory does not wait", bad_memory },
	{ "off gives everything back", off_is_off },
};

int main(void)
{
	return td_main(checks, ARRAY_LEN(checks));
}
