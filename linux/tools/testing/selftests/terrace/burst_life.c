// SPDX-License-Identifier: GPL-2.0
/*
 * Bursts: whether they only observe is settled before they begin, and address spaces
 * come, change and go while they are looked at.
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
		MT_CHECK("P13 processes come and go during bursts",
			 processes_come_and_go),
		MT_CHECK("P13 memory changes under the looks",
			 memory_changes_under_looks),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
