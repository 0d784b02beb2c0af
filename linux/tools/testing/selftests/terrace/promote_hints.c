// SPDX-License-Identifier: GPL-2.0
/*
 * Hint faults of tiering mode (numa_balancing=2) while promotion runs: pages that they
 * find hot stay, mm/mtier promotes them, its rate limit is the only one, policies hold,
 * and faults still move pages for other reasons.
 *
 * DRAM is below 1 GiB, so that NUMA balancing measures the time until pages are used, and
 * limits their number, as on machines with full DRAM.
 *
 * lab: topology=dram-cxl-small-dram timeout=900s debug=yes
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "burst_util.h"

#define BALANCING	"/sys/kernel/debug/sched/numa_balancing/"
#define MODE		"/proc/sys/kernel/numa_balancing"

#define MPOL_BIND		2
#define MPOL_F_NUMA_BALANCING	(1 << 13)
#define MPOL_MF_LAZY		(1 << 3)

#define SIZE	(16 * MT_MB)
#define PAGES	((long long)(SIZE / MT_PAGE))
/* Size that fits in DRAM on the debug kernel as well */
#define LAZY_SIZE	(SIZE / 4)
#define LAZY_PAGES	((long long)(LAZY_SIZE / MT_PAGE))

static struct mt_snap before;

/* From here on hint faults find this memory, and bursts do not. */
static int faults_only(void)
{
	mt_write(BALANCING "scan_delay_ms", "1");
	mt_write(BALANCING "scan_period_min_ms", "50");
	mt_write(BALANCING "scan_period_max_ms", "100");
	MT_NEED(!mt_write(MODE, "2"), "no tiering mode");
	MT_ASSERT(!prctl(MT_SCALE_SET, 0, 0, 0, 0), "prctl");
	mt_fast();
	return MT_PASS;
}

static long long in_faults(void)
{
	return mt_since(&before, "numa_pages_migrated");
}

static long long by_engine(void)
{
	return mt_since(&before, "mtier_promoted_anon") +
	       mt_since(&before, "mtier_promoted_file") +
	       mt_since(&before, "mtier_promoted_shmem");
}

static void use_shared(void *arg)
{
	struct mt_toucher t;

	mt_touch_start(&t, arg, SIZE);
	for (;;)
		pause();
}

/* Pages that faults have to find hot and leave in place */
#define LEFT	64

/* Bursts do not sample it yet: any move would not be by mm/mtier. */
static int faults_leave(char *p, size_t size)
{
	struct mt_toucher t;
	bool found;

	mt_touch_start(&t, p, size);
	found = MT_WAIT(mt_since(&before, "mtier_hint_faults") >=
			(mt_is_thp(p) ? 1 : LEFT), 2 * MT_MOVE_MS);
	mt_touch_stop(&t);
	mt_note("%lld hint faults left pages, of %lld",
		mt_since(&before, "mtier_hint_faults"),
		mt_since(&before, "numa_hint_faults"));
	MT_ASSERT(found, "no fault finds them hot");
	MT_ASSERT(mt_all_on(p, size, mt_slow_node()), "some were moved");
	return MT_PASS;
}

/*
 * Used memory is promoted, by mm/mtier only. Other processes that use it start late:
 * pages mapped by a process that bursts do not sample stay.
 */
static int by_engine_with(char *p, size_t size, int others)
{
	pid_t pid[2];
	bool moved;
	int i, ret;

	mt_snap(&before);
	mt_on();
	ret = faults_leave(p, size);
	prctl(MT_SCALE_SET, 10, 0, 0, 0);
	for (i = 0; i < others; i++)
		pid[i] = mt_spawn(use_shared, p);
	moved = ret == MT_PASS &&
		mt_moves_to(p, size, mt_fast_node(), 2 * MT_MOVE_MS);
	mt_off();
	for (i = 0; i < others; i++)
		mt_kill(pid[i]);
	mt_note("%lld hint faults; %lld promoted, by the engine %lld, by faults %lld",
		mt_since(&before, "mtier_hint_faults"),
		mt_since(&before, "pgpromote_success"), by_engine(),
		in_faults());
	if (ret)
		return ret;
	MT_ASSERT(moved, "not promoted");
	MT_ASSERT(!in_faults(), "%lld moved in a fault", in_faults());
	MT_ASSERT(by_engine() == mt_since(&before, "pgpromote_success"),
		  "somebody else moved some");
	MT_ASSERT(mt_ended_since(&before) == mt_since(&before, "mtier_taken"),
		  "of %lld that were taken %lld ended",
		  mt_since(&before, "mtier_taken"), mt_ended_since(&before));
	return MT_PASS;
}

static int by_engine_alone(char *p, size_t size)
{
	return by_engine_with(p, size, 0);
}

static int base_pages(void)
{
	char *p = mt_place(SIZE, mt_slow_node());

	MT_ASSERT(p, "no memory on the slow node");
	return faults_only() ?: by_engine_alone(p, SIZE);
}

static int huge_pages(void)
{
	char *p = mt_place_thp(SIZE, mt_slow_node());
	int ret;

	MT_ASSERT(p, "no huge pages on the slow node");
	ret = faults_only() ?: by_engine_alone(p, SIZE);
	if (ret)
		return ret;
	MT_ASSERT(mt_since(&before, "mtier_promoted_thp") > 0 && mt_is_thp(p),
		  "not as huge pages");
	return MT_PASS;
}

static int shared_pages(void)
{
	char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	MT_ASSERT(p != MAP_FAILED, "mmap");
	mt_bind_to(mt_slow_node());
	memset(p, 1, SIZE);
	mt_bind_default();
	MT_ASSERT(mt_all_on(p, SIZE, mt_slow_node()), "not on the slow node");
	return faults_only() ?: by_engine_with(p, SIZE, 2);
}

/* No more pages are promoted than its rate limit allows, found in any way. */
static int engine_rate(void)
{
	const long long batch = 512, burst = MT_HUGE / MT_PAGE, least = burst + batch;
	char *p = mt_place(SIZE, mt_slow_node());
	long long start, most, moved;
	struct mt_toucher t;
	int ret = faults_only();

	MT_ASSERT(p, "no memory on the slow node");
	if (ret)
		return ret;
	MT_ASSERT(!prctl(MT_SCALE_SET, 10, 0, 0, 0), "prctl");
	mt_set("promote/rate_mbps", 1);
	mt_snap(&before);
	start = mt_now_ms();
	mt_on();
	mt_touch_start(&t, p, SIZE);
	(void)MT_WAIT(mt_since(&before, "pgpromote_success") >= least,
		      2 * MT_MOVE_MS);
	mt_touch_stop(&t);
	mt_off();
	/* Counted first: the time read later is not shorter. */
	moved = mt_since(&before, "pgpromote_success");
	most = (mt_now_ms() - start + 1) * (long long)MT_MB / 1000 / MT_PAGE +
	       burst + batch;
	mt_note("%lld moved, %lld may have", moved, most);
	MT_ASSERT(moved >= least, "only %lld moved", moved);
	MT_ASSERT(moved <= most, "%lld moved of %lld that may", moved, most);
	return MT_PASS;
}

/* In use while bursts pass that would have moved it */
static bool bound_stays(char *p, size_t size)
{
	struct mt_toucher t;
	bool passed;

	mt_touch_start(&t, p, size);
	passed = mt_bursts_pass(6);
	mt_touch_stop(&t);
	return passed && mt_all_on(p, size, mt_slow_node());
}

/* Bound to the slow node, with NUMA balancing allowed. */
static int bound(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	int ret = faults_only();

	MT_ASSERT(p, "no memory on the slow node");
	if (ret)
		return ret;
	MT_ASSERT(!mt_mbind(p, SIZE / 2, MPOL_BIND, 1UL << mt_slow_node()),
		  "mbind");
	MT_ASSERT(!mt_mbind(p + SIZE / 2, SIZE / 2,
			    MPOL_BIND | MPOL_F_NUMA_BALANCING,
			    1UL << mt_slow_node() | 1UL << mt_fast_node()),
		  "mbind");
	MT_ASSERT(!prctl(MT_SCALE_SET, 10, 0, 0, 0), "prctl");
	mt_snap(&before);
	mt_on();
	MT_ASSERT(mt_moves_to(p + SIZE / 2, SIZE / 2, mt_fast_node(),
			      2 * MT_MOVE_MS),
		  "memory that may move did not");
	MT_ASSERT(by_engine() > 0, "not by the engine");
	MT_ASSERT(bound_stays(p, SIZE / 2), "bound memory moved");
	MT_ASSERT(!in_faults(), "%lld moved in a fault", in_faults());
	return MT_PASS;
}

/* A lazy bind moves the page in the fault, hot or not. */
static int lazy(void)
{
	char *p = mt_place(LAZY_SIZE, mt_slow_node());
	unsigned long nodes = 1UL << mt_fast_node();
	int ret = faults_only();

	MT_ASSERT(p, "no memory on the slow node");
	if (ret)
		return ret;
	mt_set("promote/rate_mbps", 1);
	mt_snap(&before);
	mt_on();
	/* A fault does not move pages to a node that is short of memory. */
	MT_ASSERT(MT_WAIT(mt_node_room(mt_fast_node()) > 2 * LAZY_PAGES, 30000),
		  "%ld pages of room", mt_node_room(mt_fast_node()));
	MT_NEED(!mt_mbind_flags(p, LAZY_SIZE, MPOL_BIND, nodes,
				MPOL_MF_LAZY | 1 << 1), "no lazy mbind");
	mt_touch(p, LAZY_SIZE, false);
	mt_note("%lld hint faults, %lld marked, by the engine %lld, failed %lld",
		mt_since(&before, "numa_hint_faults"),
		mt_since(&before, "numa_pte_updates"), by_engine(),
		mt_since(&before, "pgmigrate_fail"));
	MT_ASSERT(in_faults() == LAZY_PAGES, "%lld of %lld moved in a fault",
		  in_faults(), LAZY_PAGES);
	MT_ASSERT(mt_all_on(p, LAZY_SIZE, mt_fast_node()), "not all came");
	return MT_PASS;
}

/* Without mm/mtier, hint faults work as in stock Linux. */
static int engine_off(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	int ret = faults_only();
	struct mt_toucher t;

	MT_ASSERT(p, "no memory on the slow node");
	if (ret)
		return ret;
	mt_snap(&before);
	mt_touch_start(&t, p, SIZE);
	(void)MT_WAIT(in_faults() >= PAGES / 2, MT_MOVE_MS);
	mt_touch_stop(&t);
	MT_ASSERT(in_faults() >= PAGES / 2, "%lld moved in a fault",
		  in_faults());
	MT_ASSERT(!mt_since(&before, "mtier_hint_faults"), "the engine took some");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("H7 what hint faults find hot the engine moves",
			 base_pages),
		MT_CHECK("H7 huge pages, too, and whole", huge_pages),
		MT_CHECK("H7 pages that three processes use", shared_pages),
		MT_CHECK("H7 the engine's limit counts", engine_rate),
		MT_CHECK("H7 policies hold", bound),
		MT_CHECK("H7 a lazy bind still moves pages in the fault", lazy),
		MT_CHECK("H7 without the engine faults move pages", engine_off),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
