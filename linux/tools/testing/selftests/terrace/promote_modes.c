// SPDX-License-Identifier: GPL-2.0
/*
 * Promotion together with NUMA balancing, and the correctness of the generic counters in
 * each of its modes: of vmstat, the node, and the cgroup.
 *
 * lab: topology=dram-cxl icount=2 timeout=500s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mtier_util.h"

#define SIZE	(8 * MT_MB)
#define PAGES	((long long)(SIZE / MT_PAGE))

static struct mt_snap before;

/* Get the pages moved by hint faults of NUMA balancing, for its own reasons */
static long long in_faults(void)
{
	return mt_since(&before, "numa_pages_migrated");
}

static long long node_promoted(void)
{
	char file[96], buf[16];

	mt_read("/proc/sys/vm/stat_refresh", buf, sizeof(buf));
	snprintf(file, sizeof(file), "/sys/devices/system/node/node%d/vmstat",
		 mt_fast_node());
	return mt_file_stat(file, "pgpromote_success");
}

static long long by_kind(void)
{
	return mt_since(&before, "mtier_promoted_anon") +
	       mt_since(&before, "mtier_promoted_file") +
	       mt_since(&before, "mtier_promoted_shmem");
}

/*
 * The pages of a process in a cgroup are promoted; all counters agree. With mode 1 faults
 * may be faster: that is no promotion, and in none of the counters.
 */
static int in_mode(const char *mode)
{
	struct mt_cgroup cg;
	long long node, memcg, all, ours, least;
	char *p;
	int ret;

	MT_NEED(!mt_write("/proc/sys/kernel/numa_balancing", mode),
		"no numa_balancing %s", mode);
	ret = mt_cgroup_make(&cg, "modes", "+memory");
	MT_ASSERT(!ret, "no cgroup: %s", strerror(-ret));
	MT_ASSERT(!mt_cgroup_enter(&cg, 0), "cannot enter it");
	p = mt_place(SIZE, mt_slow_node());
	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	mt_snap(&before);
	node = node_promoted();
	mt_on();
	MT_ASSERT(mt_moves_to(p, SIZE, mt_fast_node(), MT_MOVE_MS),
		  "not promoted");
	mt_write("/proc/sys/kernel/numa_balancing", "0");
	mt_off();
	least = PAGES - in_faults();
	all = mt_since(&before, "pgpromote_success");
	ours = by_kind();
	node = node_promoted() - node;
	(void)MT_WAIT((memcg = mt_cgroup_stat(&cg, "memory.stat",
					      "pgpromote_success")) >= least,
		      3000);
	mt_note("mode %s: promoted %lld, by kind %lld, node %lld, memcg %lld; %lld in faults",
		mode, all, ours, node, memcg, in_faults());
	mt_cgroup_remove(&cg);
	MT_ASSERT(all >= least && node == all, "the node counts %lld of %lld",
		  node, all);
	MT_ASSERT(memcg >= least && memcg <= all, "the memcg counts %lld",
		  memcg);
	MT_ASSERT(ours == all, "by kind they do not add up");
	return MT_PASS;
}

static int mode_0(void)
{
	return in_mode("0");
}

static int mode_1(void)
{
	return in_mode("1");
}

static int mode_2(void)
{
	return in_mode("2");
}

static int mode_3(void)
{
	return in_mode("3");
}

/* Found by scans and by hint faults at once: a page moves once. */
static int both(void)
{
	long long all, kinds;
	struct mt_toucher t;
	char *p;

	MT_NEED(!mt_write("/proc/sys/kernel/numa_balancing", "2"), "no mode 2");
	p = mt_place(SIZE, mt_slow_node());
	MT_ASSERT(p, "no memory on the slow node");
	mt_write("/sys/kernel/debug/sched/numa_balancing/scan_delay_ms", "1");
	mt_write("/sys/kernel/debug/sched/numa_balancing/scan_period_min_ms",
		 "50");
	mt_fast();
	mt_set("promote/rate_mbps", 2);
	mt_snap(&before);
	mt_on();
	mt_touch_start(&t, p, SIZE);
	MT_ASSERT(MT_WAIT(mt_all_on(p, SIZE, mt_fast_node()), MT_MOVE_MS),
		  "not promoted");
	mt_touch_stop(&t);
	mt_off();
	all = mt_since(&before, "pgpromote_success");
	kinds = by_kind();
	mt_note("%lld promoted, %lld of them by kmtierd", all, kinds);
	MT_ASSERT(all < PAGES + PAGES / 4, "%lld promotions of %lld pages", all,
		  PAGES);
	MT_ASSERT(kinds == all, "%lld of them by somebody else", all - kinds);
	MT_ASSERT(mt_ended_since(&before) == mt_since(&before, "mtier_taken"),
		  "taken %lld, ended %lld", mt_since(&before, "mtier_taken"),
		  mt_ended_since(&before));
	return MT_PASS;
}

/* Pages of two cgroups in the same batches: each cgroup counts its own. */
static void child(void *arg)
{
	struct mt_cgroup *cg = arg;
	char *p;

	mt_cgroup_enter(cg, 0);
	p = mt_place(SIZE, mt_slow_node());
	if (p && mt_moves_to(p, SIZE, mt_fast_node(), MT_MOVE_MS))
		_exit(0);
	_exit(1);
}

static int two_memcgs(void)
{
	struct mt_cgroup cg[2];
	long long counts[2] = { 0 };
	pid_t pid[2];
	int i, bad = 0;

	MT_ASSERT(!mt_cgroup_make(&cg[0], "one", "+memory") &&
		  !mt_cgroup_make(&cg[1], "two", "+memory"), "no cgroups");
	mt_fast();
	mt_on();
	for (i = 0; i < 2; i++)
		pid[i] = mt_spawn(child, &cg[i]);
	for (i = 0; i < 2; i++)
		bad |= mt_reap(pid[i]);
	for (i = 0; i < 2; i++)
		(void)MT_WAIT((counts[i] = mt_cgroup_stat(&cg[i], "memory.stat",
			       "pgpromote_success")) >= PAGES, 3000);
	for (i = 0; i < 2; i++)
		mt_cgroup_remove(&cg[i]);
	MT_ASSERT(!bad, "not promoted");
	mt_note("%lld and %lld", counts[0], counts[1]);
	for (i = 0; i < 2; i++)
		MT_ASSERT(counts[i] >= PAGES && counts[i] < PAGES + PAGES / 8,
			  "memcg %d counts %lld of %lld pages", i, counts[i],
			  PAGES);
	return MT_PASS;
}

static void use_shared(void *p)
{
	for (;;) {
		mt_touch(p, SIZE, false);
		mt_nap(1);
	}
}

/* One page, three processes that use it: it is isolated once. */
static int shared_once(void)
{
	int fd = memfd_create("shared", MFD_CLOEXEC), i;
	long long taken;
	pid_t pid[2];
	bool moved;
	char *p;

	p = mt_place_file(fd, SIZE, mt_slow_node(), PROT_READ | PROT_WRITE);
	MT_ASSERT(p, "no shmem on the slow node");
	mt_fast();
	for (i = 0; i < 2; i++)
		pid[i] = mt_spawn(use_shared, p);
	mt_snap(&before);
	mt_on();
	moved = mt_moves_to(p, SIZE, mt_fast_node(), MT_MOVE_MS);
	taken = mt_since(&before, "mtier_taken");
	for (i = 0; i < 2; i++)
		mt_kill(pid[i]);
	MT_ASSERT(moved, "not promoted");
	MT_ASSERT(taken < PAGES * 5 / 4, "taken %lld times for %lld pages",
		  taken, PAGES);
	return MT_PASS;
}

/* The charge moves with the page: the cgroup's memory is unchanged. */
static int charge(void)
{
	struct mt_cgroup cg;
	long long was, now;
	char *p;

	MT_ASSERT(!mt_cgroup_make(&cg, "charge", "+memory"), "no cgroup");
	MT_ASSERT(!mt_cgroup_enter(&cg, 0), "cannot enter it");
	p = mt_place(SIZE, mt_slow_node());
	MT_ASSERT(p, "no memory on the slow node");
	was = mt_cgroup_stat(&cg, "memory.stat", "anon");
	mt_fast();
	mt_on();
	MT_ASSERT(mt_moves_to(p, SIZE, mt_fast_node(), MT_MOVE_MS),
		  "not promoted");
	(void)MT_WAIT((now = mt_cgroup_stat(&cg, "memory.stat", "anon")) < 0,
		      2500);
	mt_cgroup_remove(&cg);
	MT_ASSERT(now > was - (long long)MT_MB && now < was + (long long)MT_MB,
		  "%lld KiB before, %lld after", was >> 10, now >> 10);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("M9 O2 O3 numa_balancing 0: promoted, and all counters agree",
			 mode_0),
		MT_CHECK("M9 O2 O3 the same with 1", mode_1),
		MT_CHECK("M9 O2 O3 the same with 2", mode_2),
		MT_CHECK("M9 O2 O3 the same with 3", mode_3),
		MT_CHECK("M9 what two sources find moves once", both),
		MT_CHECK("O3 two cgroups in one batch are counted apart",
			 two_memcgs),
		MT_CHECK("O3 promotion keeps the charge", charge),
		MT_CHECK("M4 a page that three processes use is taken once",
			 shared_once),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
