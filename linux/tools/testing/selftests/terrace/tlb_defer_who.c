// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flushes, by the reason of the migration. A flush can be deferred depending
 * on the use of the old frames, not on the code that migrates: demotion by
 * memory.reclaim, by kswapd and by promotion, and compaction, each with the mode off and
 * on.
 *
 * The pages are those of a file without accesses during the migration; two CPUs use the
 * address space all the time, on memory that stays. Guest time counts instructions: see
 * tlb_defer_mixed.c.
 *
 * lab: topology=dram-cxl-small-dram cpus=4 icount=2 timeout=400s debug=no
 * lab: append="nopti isolcpus=2,3 skew_tick=1"
 */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "burst_util.h"
#include "tlb_defer_util.h"

#define DEMOTION	"/sys/kernel/mm/numa/demotion_enabled"
#define SWAPPINESS	"/proc/sys/vm/swappiness"
#define HUGE_PAGES	"/sys/devices/system/node/node%d/hugepages/hugepages-2048kB/nr_hugepages"
#define SIZE		(16 * MT_MB)
#define PAGES		((long)(SIZE / MT_PAGE))
#define HOT		(96 * MT_MB)
#define FILL_MAX	(512 * MT_MB)
/* Enough pages for a result. */
#define SOME		1024
#define FEW		100

/**
 * struct scene - a file in fast memory, and counters
 * @file: address of its mapping
 * @cg: cgroup of this process
 * @before: counters at the start of a row
 * @interrupts: TLB interrupts of other CPUs at that time
 */
static struct scene {
	char *file;
	struct mt_cgroup cg;
	struct mt_snap before;
	long long interrupts;
} scene;

/**
 * struct row - cost of one way of moving pages
 * @moved: pages
 * @interrupts: TLB interrupts of other CPUs
 * @waited: pages with a deferred flush
 * @clean: batches without a flush
 * @flushed: batches with one
 */
struct row {
	long long moved;
	long long interrupts;
	long long waited;
	long long clean;
	long long flushed;
};

static int begin(void)
{
	MT_NEED(!mt_write(DEMOTION, "1"), "no demotion");
	MT_NEED(!mt_cgroup_make(&scene.cg, "who", "+memory") &&
		!mt_cgroup_enter(&scene.cg, 0), "no memory cgroup");
	scene.file = td_map_file(SIZE);
	MT_NEED(scene.file, "no ext4 on a loop device");
	td_use_others();
	return MT_PASS;
}

static void end(void)
{
	td_leave_others();
	munmap(scene.file, SIZE);
	mt_cgroup_enter(&(struct mt_cgroup){ "/sys/fs/cgroup" }, 0);
	mt_cgroup_remove(&scene.cg);
	mt_write(DEMOTION, "0");
}

/* Read the changes since @scene.before; @counter counts the moved pages */
static int row_end(struct row *row, const char *counter)
{
	MT_ASSERT(MT_WAIT(!td_knob("held_kb"), 2000), "some still wait");
	*row = (struct row) {
		.moved = mt_since(&scene.before, counter),
		.interrupts = td_ipis() - scene.interrupts,
		.waited = mt_since(&scene.before, "tlb_defer_pages"),
		.clean = mt_since(&scene.before, "tlb_defer_batch_clean"),
		.flushed = mt_since(&scene.before, "tlb_defer_batch_flushed"),
	};
	return MT_PASS;
}

static void note(const char *mode, const struct row *row)
{
	mt_note("%-10s %5lld pages, %5lld interrupts; %lld waited", mode,
		row->moved, row->interrupts, row->waited);
	mt_note("  %lld batches without a flush, %lld with one", row->clean,
		row->flushed);
}

/**
 * struct who - one way of moving pages
 * @ready: prepares it, with the mode off
 * @act: moves the pages
 * @counter: counter of /proc/vmstat for moved pages
 */
struct who {
	int (*ready)(void);
	int (*act)(void);
	const char *counter;
};

static int run(const struct who *who, const char *mode, struct row *row)
{
	int ret = who->ready();

	if (ret)
		return ret;
	td_mode(mode);
	mt_snap(&scene.before);
	scene.interrupts = td_ipis();
	ret = who->act() ?: row_end(row, who->counter);
	td_mode("off");
	if (!ret)
		note(mode, row);
	return ret;
}

static int compare(const struct who *who, struct row *off, struct row *on)
{
	int ret = begin();

	if (ret)
		return ret;
	ret = run(who, "off", off) ?: run(who, "quarantine", on);
	end();
	return ret;
}

/*
 * Check that at most this part of the interrupts per page is left, and at least this part
 * of the pages is deferred.
 */
static int saves(const struct who *who, unsigned int percent, unsigned int waits)
{
	struct row off, on;
	int ret = compare(who, &off, &on);

	if (ret)
		return ret;
	MT_ASSERT(off.moved >= SOME && on.moved >= SOME, "too few have moved");
	MT_ASSERT(on.waited * 100 >= td_judged(&scene.before) * waits,
		  "too few waited");
	MT_ASSERT(on.interrupts * 100 * off.moved <=
		  off.interrupts * percent * on.moved, "too many interrupts");
	return MT_PASS;
}

/* ---- demotion ---- */

/* All of it in fast memory, and unused for long enough that the first scan takes it */
static int cold_file(void)
{
	/* Reclaim may have unmapped it. */
	mt_touch(scene.file, SIZE, false);
	MT_ASSERT(td_all_moved(scene.file, PAGES, mt_fast_node()),
		  "the file does not come");
	MT_NEED(!madvise(scene.file, SIZE, MADV_COLD), "no MADV_COLD");
	return MT_PASS;
}

/* Use the pages of a MiB that are on the slow node. */
static void use_slow(char *p)
{
	enum { N = MT_MB / MT_PAGE };
	void *at[N];
	int node[N];
	size_t i;

	for (i = 0; i < N; i++)
		at[i] = p + i * MT_PAGE;
	syscall(SYS_move_pages, 0, N, at, NULL, node, 0);
	for (i = 0; i < N; i++)
		if (node[i] == mt_slow_node())
			mt_touch(at[i], MT_PAGE, false);
}

/*
 * In small steps, with accesses to demoted pages in between: reclaim scans all nodes of a
 * cgroup, and flushes for pages that it takes from the slow one.
 */
static int by_asking(void)
{
	const size_t little = SIZE / 32;
	char text[64];
	size_t off;
	int i;

	snprintf(text, sizeof(text), "%zu swappiness=0", little);
	for (i = 0; i < 32 && mt_pages_on(scene.file, SIZE, mt_fast_node()) >
	     PAGES / 4; i++) {
		/* Fails if it reclaimed less. */
		mt_cgroup_write(&scene.cg, "memory.reclaim", text);
		for (off = 0; off < SIZE; off += MT_MB)
			use_slow(scene.file + off);
	}
	return MT_PASS;
}

static int proactive(void)
{
	static const struct who who = {
		cold_file, by_asking, "pgdemote_direct"
	};

	return saves(&who, 10, 90);
}

/* Huge pages in fast memory, which are neither moved nor reclaimed. */
static long long huge_pages(long long pages)
{
	char path[128];

	snprintf(path, sizeof(path), HUGE_PAGES, mt_fast_node());
	mt_writef(path, "%lld", pages);
	return mt_read_ll(path);
}

/* Leave fast memory for the file and little more, so that kswapd does not run */
static int full_node(void)
{
	const long long left = SIZE / MT_HUGE + 1;
	long long got;

	MT_ASSERT(td_all_moved(scene.file, PAGES, mt_slow_node()),
		  "the file does not go");
	got = huge_pages(1000);
	MT_NEED(got > left, "no huge pages");
	huge_pages(got - left);
	return cold_file();
}

/*
 * Check whether the kernel has made enough room, or the file has no more pages to demote.
 */
static bool room_made(void)
{
	return mt_since(&scene.before, "pgdemote_kswapd") >= 2 * SOME ||
	       mt_pages_on(scene.file, SIZE, mt_fast_node()) < PAGES / 8;
}

/*
 * Allocate slightly more than is free, repeatedly, with time for kswapd. The number of
 * demoted pages depends on how much of the node cannot be huge pages.
 */
static int by_kswapd(void)
{
	const size_t step = 16 * MT_PAGE;
	char *p = mt_map_aligned(FILL_MAX);
	size_t off;

	madvise(p, FILL_MAX, MADV_NOHUGEPAGE);
	mt_bind_to(mt_fast_node());
	for (off = 0; off < FILL_MAX; off += step) {
		if (!(off % MT_MB) && room_made())
			break;
		/* Not read first: that would map the zero page. */
		memset(p + off, 1, step);
		mt_nap(20);
	}
	mt_bind_default();
	munmap(p, FILL_MAX);
	mt_note("room was asked for %zu MiB", off / MT_MB);
	return MT_PASS;
}

static int kswapd(void)
{
	static const struct who who = {
		full_node, by_kswapd, "pgdemote_kswapd"
	};
	long long swappiness = mt_read_ll(SWAPPINESS);
	int ret;

	mt_write(SWAPPINESS, "0");
	/*
	 * If kswapd is late, the node is short, and nothing is deferred: measured 86 to
	 * 99 %.
	 */
	ret = saves(&who, 100, 50);
	mt_writef(SWAPPINESS, "%lld", swappiness);
	huge_pages(0);
	return ret;
}

/* ---- promotion ---- */

static struct {
	char *hot;
	char *idle;
	size_t size;	/* of @idle, number of used bytes */
} heat;

/*
 * Fast memory has idle pages only, and slow memory used ones. The two threads that use
 * the address space stop: CPUs run in turns in this machine, and memory scanned every few
 * milliseconds would need accesses by a CPU out of turn.
 */
static int hot_and_idle(void)
{
	const size_t step = 16 * MT_PAGE;

	td_leave_others();
	heat.hot = mt_place(HOT, mt_slow_node());
	heat.idle = mt_map_aligned(FILL_MAX);
	MT_NEED(heat.hot && heat.idle &&
		!madvise(heat.idle, FILL_MAX, MADV_NOHUGEPAGE), "no memory");
	heat.size = 0;
	mt_set_policy(MPOL_PREFERRED, 1UL << mt_fast_node());
	for (; mt_node_room(mt_fast_node()) > 16 && heat.size < FILL_MAX;
	     heat.size += step)
		memset(heat.idle + heat.size, 1, step);
	mt_bind_default();
	MT_NEED(heat.size < FILL_MAX, "DRAM cannot be filled");
	/* Like a process that starts others. */
	MT_ASSERT(mt_fork_once(), "no child");
	return MT_PASS;
}

static int by_promotion(void)
{
	struct mt_toucher t = {
		.p = heat.hot, .size = HOT, .step = MT_PAGE, .rest_ms = 1,
		.cpu = TD_READER_CPU,
	};
	bool some = false;

	mt_knobs_save();
	mt_toucher_run(&t);
	if (!mt_bursts_on())
		some = MT_WAIT(mt_since(&scene.before, "mtier_demoted") >= 2 * SOME,
			       60000);
	mt_touch_stop(&t);
	mt_off();
	mt_knobs_restore();
	mt_note("looks have flushed %lld times",
		mt_since(&scene.before, "mtier_look_flushes"));
	munmap(heat.hot, HOT);
	munmap(heat.idle, FILL_MAX);
	td_use_others();
	MT_ASSERT(some, "too few were demoted");
	return MT_PASS;
}

/*
 * Scans flush as well: interrupts are at most these. Flushes of promoted pages are also
 * deferred, and with the small limit some flights find no room. The threads that use the
 * memory pause after each round; a flight in that time interrupts no CPU.
 */
static int promotion(void)
{
	static const struct who who = {
		hot_and_idle, by_promotion, "mtier_demoted"
	};
	struct row off, on;
	int ret = compare(&who, &off, &on);
	long long alone;

	if (ret)
		return ret;
	alone = mt_since(&scene.before, "tlb_defer_no_need");
	mt_note("%lld interrupted nobody", alone);
	MT_ASSERT(on.waited + alone >= on.moved, "fewer waited than were demoted");
	MT_ASSERT(on.waited * 100 >= (td_judged(&scene.before) - alone) * 50,
		  "too few waited");
	MT_ASSERT(on.clean > on.flushed, "most batches are flushed");
	return MT_PASS;
}

/* ---- memory is short ---- */

#define LEAST	"/proc/sys/vm/min_free_kbytes"

/*
 * A node with less free memory than its lowest watermark, which is raised, so that the
 * test allocates no memory. The source node of a page counts.
 */
static int is_short(void)
{
	struct mt_snap before;
	long long kb, judged;
	long moved;
	int ret = begin();

	if (ret)
		return ret;
	ret = full_node();
	if (!ret) {
		kb = mt_read_ll(LEAST);
		td_mode("quarantine");
		mt_snap(&before);
		/* A fifth of it is the node's; each page that leaves adds to it. */
		mt_writef(LEAST, "%lld", 5 * (mt_node_free(mt_fast_node()) +
					      3 * SIZE) / 1024);
		moved = td_move(scene.file, PAGES, mt_slow_node());
		mt_writef(LEAST, "%lld", kb);
		judged = td_judged(&before);
		mt_note("%ld moved, %lld judged, %lld waited, %lld were needed",
			moved, judged, mt_since(&before, "tlb_defer_pages"),
			mt_since(&before, "tlb_defer_refused_pressure"));
	}
	huge_pages(0);
	end();
	if (ret)
		return ret;
	MT_ASSERT(judged >= PAGES / 2, "too few were judged");
	MT_ASSERT(!mt_since(&before, "tlb_defer_pages"), "some waited");
	return MT_PASS;
}

/* ---- compaction ---- */

/*
 * Leave every other page of the file on a node: a different one in each run, since
 * compaction skips used memory where it would move it to.
 */
static int scattered(void)
{
	static bool again;
	int node = again ? mt_slow_node() : mt_fast_node();
	int other = again ? mt_fast_node() : mt_slow_node();
	long i;

	again = !again;
	mt_touch(scene.file, SIZE, false);
	MT_ASSERT(td_all_moved(scene.file, PAGES, node), "the file does not come");
	for (i = 0; i < PAGES; i += 2)
		td_move(scene.file + i * MT_PAGE, 1, other);
	return MT_PASS;
}

static int by_compaction(void)
{
	MT_NEED(!mt_write("/proc/sys/vm/compact_memory", "1"), "no compaction");
	return MT_PASS;
}

static int compaction(void)
{
	static const struct who who = {
		scattered, by_compaction, "pgmigrate_success"
	};
	struct row off, on;
	int ret = compare(&who, &off, &on);

	if (ret)
		return ret;
	/*
	 * It moves the pages that it finds: their number and kind differ from run to run.
	 */
	MT_ASSERT(on.waited >= FEW, "too few waited");
	return MT_PASS;
}

static const struct mt_check checks[] = {
	{ "what memory.reclaim demotes waits", proactive },
	{ "what kswapd demotes waits", kswapd },
	{ "what promotion demotes waits", promotion },
	{ "D4: nothing waits where memory is short", is_short },
	{ "compaction waits", compaction },
};

int main(void)
{
	return td_main(checks, ARRAY_LEN(checks));
}
