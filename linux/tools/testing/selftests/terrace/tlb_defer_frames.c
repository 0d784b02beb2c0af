// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flushes: frames get no new owner while a CPU may read them, allocations
 * that need them get them, and the limits hold.
 *
 * Readers on separate CPUs read every page of a file all the time, while it is migrated
 * back and forth and the freed memory is filled with other data.
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

/* ---- allocations that need frames ---- */

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

/* Sample the deferred amount during many migrations. */
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
	/* A batch without room needs a flush, and none of it is deferred. */
	for (i = 0; i + 64 <= lots; i += 64) {
		td_move((char *)p + i * MT_PAGE, 64, td_node_b());
		now = td_knob("held_kb");
		most = now > most ? now : most;
	}
	/* Of 2 GiB; and each migrating task may have one batch more. */
	limit_kb = (2LL << 20) * limit_bp / 10000 + 512 * 4;
	mt_note("at most %lld KiB waited, %lld may; %lld flushes for room",
		most, limit_kb, mt_since(&before, "tlb_defer_flush_cap"));
	MT_ASSERT(most > 0 && most <= limit_kb, "too much");
	return td_right_to_the_end(&l);
}

/*
 * One migration of many more pages than may be deferred: pages flushed for room in
 * between do not count any more.
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

/*
 * A page taken out of use must not be read: it is never deferred, even if it
 * could be.
 */
static int bad_memory(void)
{
	struct mt_snap before;
	struct td_looker l;
	void *p = td_watch(&l, PAGES);

	MT_NEED(p, "no ext4 on a loop device");
	mt_snap(&before);
	/* A concurrent user of the page keeps it from moving. */
	MT_NEED(MT_WAIT(!madvise(p, MT_PAGE, 101 /* MADV_SOFT_OFFLINE */), 5000),
		"no soft offlining");
	MT_ASSERT(mt_since(&before, "pgmigrate_success") > 0, "it did not move");
	MT_ASSERT(!td_judged(&before), "%lld pages were judged",
		  td_judged(&before));
	return td_right_to_the_end(&l);
}

/* ---- folios that become ineligible ---- */

/**
 * struct sharer - a process that reads a page of a file on the reader's CPU
 * @fd: the file
 * @reads: it has read the page
 */
struct sharer {
	int fd;
	atomic_bool reads;
};

static void share(void *arg)
{
	struct sharer *s = arg;
	struct td_reader r;

	td_reader_start(&r, mmap(NULL, MT_PAGE, PROT_READ, MAP_SHARED, s->fd, 0),
			TD_READER_CPU);
	atomic_store(&s->reads, true);
	for (;;)
		pause();
}

/*
 * Another process maps the page first, so that its entry is cleared first, and can be
 * deferred; then ours, which cannot. So the frame is free at once, and that process, on
 * its CPU alone, is interrupted.
 */
static int refused_in_the_end(void)
{
	const int rounds = 32;
	struct sharer *s = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct td_reader r;
	struct mt_snap before;
	long long flushes;
	pid_t pid;
	void *p;
	int i;

	MT_ASSERT(td_back_off(TD_OTHER_CPU) > 0, "is not left alone");
	s->fd = td_file(MT_PAGE);
	MT_NEED(s->fd >= 0, "no ext4 on a loop device");
	pid = mt_spawn(share, s);
	MT_ASSERT(MT_WAIT(atomic_load(&s->reads), 20000), "nobody reads");
	p = mmap(NULL, MT_PAGE, PROT_READ, MAP_SHARED, s->fd, 0);
	/* An entry that no other CPU uses is flushed at once, without a check. */
	td_reader_start(&r, p, TD_OTHER_CPU);
	mt_snap(&before);
	flushes = td_ipis_of(TD_READER_CPU);
	for (i = 0; i < rounds; i++)
		MT_ASSERT(td_all_moved(p, 1, i & 1 ? td_node_a() : td_node_b()),
			  "did not move");
	flushes = td_ipis_of(TD_READER_CPU) - flushes;
	td_reader_stop(&r);
	mt_kill(pid);
	mt_note("%lld pages were refused, %lld waited; %lld interrupts",
		mt_since(&before, "tlb_defer_refused_backoff"),
		mt_since(&before, "tlb_defer_pages"), flushes);
	MT_ASSERT(mt_since(&before, "tlb_defer_refused_backoff") >= rounds,
		  "not refused");
	/*
	 * Not each time: a tick may flush its CPU during the migration, and a process
	 * that then waits for the page is not interrupted.
	 */
	MT_ASSERT(flushes >= rounds / 8, "the reader was not interrupted");
	return MT_PASS;
}

/* Off: nothing is deferred. */
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
	{ "what waits of a folio that is refused in the end is flushed",
	  refused_in_the_end },
	{ "off gives everything back", off_is_off },
};

int main(void)
{
	return td_main(checks, ARRAY_LEN(checks));
}
