// SPDX-License-Identifier: GPL-2.0
/*
 * Bursts: the observe switch is read before a burst begins, a burst can be requested, and
 * address spaces are created, changed and destroyed while they are scanned.
 *
 * lab: topology=dram-cxl timeout=180s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/mempolicy.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "burst_util.h"

#define OBSERVE		MT_BURST_DIR "observe"
#define ASK		MT_BURST_DIR "burst"
/* Two ranges */
#define SIZE		(2 * MT_HUGE)

static int observe_changes_only_while_off(void)
{
	static const char * const nonsense[] = { "bursts", "2", "-1", "x" };
	size_t i;

	MT_ASSERT(mt_reads(OBSERVE, "0"), "it is not 0 at first");
	for (i = 0; i < ARRAY_LEN(nonsense); i++)
		MT_ASSERT(mt_write(OBSERVE, nonsense[i]) < 0, "'%s' was taken",
			  nonsense[i]);
	mt_on();
	MT_ASSERT(mt_write(OBSERVE, "1") == -EBUSY, "1 was taken while on");
	MT_ASSERT(mt_reads(OBSERVE, "0"), "it changed while on");
	MT_ASSERT(mt_kthread("kmtierd") > 0, "nobody looks");
	MT_ASSERT(!mt_observe(true), "it is refused while off");
	MT_ASSERT(mt_reads(OBSERVE, "1"), "it did not change while off");
	mt_on();
	MT_ASSERT(mt_write(OBSERVE, "0") == -EBUSY, "0 was taken while on");
	MT_ASSERT(mt_kthread("kmtierd") > 0, "nobody observes");
	MT_ASSERT(!mt_observe(false), "it cannot be taken back");
	MT_ASSERT(MT_WAIT(mt_kthread("kmtierd") <= 0, 30000), "it did not stop");
	return MT_PASS;
}

/* Pages that the next burst looks at, each time; 0 if none came. */
static long long next_looks_at(void)
{
	long long bursts, ptes, times;

	do {
		bursts = mt_burst_value("bursts");
		ptes = mt_burst_value("ptes");
		times = mt_burst_value("looks");
		if (!MT_WAIT(mt_burst_value("bursts") > bursts, 120000))
			return 0;
		ptes = mt_burst_value("ptes") - ptes;
		times = mt_burst_value("looks") - times;
	/* Two bursts may have run, or one while the values were read. */
	} while (mt_burst_value("bursts") != bursts + 1);
	return ptes / (times + 1);
}

/*
 * One page of each range is in use, and moves. The rest is scanned little and seldom. A
 * burst on request scans more.
 */
static int a_burst_that_is_asked_for(void)
{
	static const char * const nonsense[] = { "0", "2", "-1", "x" };
	char *p = mt_place(64 * MT_MB, mt_slow_node());
	struct mt_toucher t = {
		.p = p, .size = 64 * MT_MB, .step = MT_HUGE, .rest_ms = 1, .cpu = -1,
	};
	long long usual, asked;
	size_t i;

	MT_ASSERT(p, "no memory on the slow node");
	MT_ASSERT(mt_write(ASK, "1") == -ENODEV, "it is taken while off");
	mt_toucher_run(&t);
	if (mt_bursts_on())
		return MT_FAIL;
	for (i = 0; i < ARRAY_LEN(nonsense); i++)
		MT_ASSERT(mt_write(ASK, nonsense[i]) < 0, "'%s' was taken",
			  nonsense[i]);
	MT_ASSERT(MT_WAIT(mt_burst_value("share_q16") < 200, 120000),
		  "it looks as much as at first");
	usual = next_looks_at();
	MT_ASSERT(!mt_write(ASK, "1"), "it is refused");
	asked = next_looks_at();
	/* Another one may have been on its way. */
	if (asked <= 2 * usual)
		asked = next_looks_at();
	mt_touch_stop(&t);
	mt_note("%lld pages, asked for %lld", usual, asked);
	MT_ASSERT(usual && asked > 2 * usual, "it looks no more than usual");
	return MT_PASS;
}

/* Maps, uses, unmaps and exits; forks a few who do. */
static void come_and_go(void *arg)
{
	long depth = (long)arg;
	char *p = mt_fill(MT_HUGE, mt_slow_node(), false);

	if (p)
		mt_touch(p, MT_HUGE, true);
	if (depth)
		mt_reap(mt_spawn(come_and_go, (void *)(depth - 1)));
	if (p)
		munmap(p, MT_HUGE / 2);
	_exit(0);
}

static int processes_come_and_go(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	long long mms, before;
	int i;

	if (!p || mt_bursts_on())
		return MT_FAIL;
	mms = mt_read_ll("mms");
	before = mt_burst_value("bursts");
	for (i = 0; i < 40; i++)
		mt_reap(mt_spawn(come_and_go, (void *)3L));
	MT_ASSERT(MT_WAIT(mt_read_ll("mms") <= mms, 30000),
		  "%lld address spaces, %lld before", mt_read_ll("mms"), mms);
	mt_note("%lld bursts, %lld ranges left them",
		mt_burst_value("bursts") - before, mt_burst_value("left"));
	MT_ASSERT(mt_bursts_pass(1), "no more bursts");
	for (i = 0; i < 10; i++) {
		mt_off();
		mt_on();
	}
	mt_off();
	return MT_PASS;
}

/* Unmaps, maps, protects, binds and splits what is looked at, all the time. */
static void change(void *arg)
{
	char *p = mt_fill(SIZE, mt_slow_node(), false);
	unsigned int i;

	(void)arg;
	for (i = 0; p; i++) {
		size_t at = i * 7 % (SIZE / MT_PAGE) * MT_PAGE;
		char *hole = p + at;

		mprotect(hole, MT_PAGE, i & 1 ? PROT_READ : PROT_READ | PROT_WRITE);
		madvise(hole, MT_PAGE, MADV_DONTNEED);
		mt_mbind(hole, MT_PAGE, i & 2 ? MPOL_BIND : MPOL_DEFAULT,
			 i & 2 ? 1UL << mt_slow_node() : 0);
		if (i % 64 == 0)
			mmap(p, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE |
			     MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE, -1, 0);
		(void)*(volatile char *)hole;
	}
}

static int memory_changes_under_looks(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	pid_t child[2];
	long i, wrong = 0;
	bool pass;

	MT_ASSERT(p, "no memory on the slow node");
	memset(p, 0x5a, SIZE);
	child[0] = mt_spawn(change, NULL);
	child[1] = mt_spawn(change, NULL);
	if (mt_bursts_on())
		return MT_FAIL;
	pass = mt_bursts_pass(2);
	mt_note("%lld ranges left %lld bursts", mt_burst_value("left"),
		mt_burst_value("bursts"));
	mt_kill(child[0]);
	mt_kill(child[1]);
	mt_off();
	for (i = 0; i < (long)SIZE; i++)
		wrong += p[i] != 0x5a;
	MT_ASSERT(pass && !wrong, "%ld bytes are wrong", wrong);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("observe changes only while it is off",
			 observe_changes_only_while_off),
		MT_CHECK("a burst that is asked for", a_burst_that_is_asked_for),
		MT_CHECK("P13 processes come and go during bursts",
			 processes_come_and_go),
		MT_CHECK("P13 memory changes under the looks",
			 memory_changes_under_looks),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
