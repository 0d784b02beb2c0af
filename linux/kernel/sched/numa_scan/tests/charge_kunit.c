// SPDX-License-Identifier: GPL-2.0
/* KUnit tests of remote charges: time posted to a task is always counted exactly once. */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/mmu_context.h>
#include <linux/sched.h>
#include <linux/vmstat.h>

#include "../../sched.h"
#include "../../remote_charge.h"

static void adds_up(struct kunit *test)
{
	atomic64_t debt = ATOMIC64_INIT(0);
	u64 posted = 0, folded = 0, n;
	int i;

	for (i = 1; i < 1000; i++) {
		KUNIT_ASSERT_TRUE(test, remote_charge_add(&debt, i * 37));
		posted += i * 37;
		n = remote_charge_take(&debt, 5000);
		KUNIT_EXPECT_LE(test, n, 5000ULL);
		folded += n;
		KUNIT_ASSERT_EQ(test, posted, folded + atomic64_read(&debt));
	}
	KUNIT_EXPECT_GT(test, atomic64_read(&debt), 0LL);
	folded += remote_charge_close(&debt);
	KUNIT_EXPECT_EQ(test, posted, folded);
}

static void takes_no_more_than_there_is(struct kunit *test)
{
	atomic64_t debt = ATOMIC64_INIT(0);

	KUNIT_EXPECT_EQ(test, remote_charge_take(&debt, 100), 0ULL);
	remote_charge_add(&debt, 60);
	KUNIT_EXPECT_EQ(test, remote_charge_take(&debt, 100), 60ULL);
	KUNIT_EXPECT_EQ(test, remote_charge_take(&debt, 100), 0ULL);
	remote_charge_add(&debt, 160);
	KUNIT_EXPECT_EQ(test, remote_charge_take(&debt, 100), 100ULL);
	KUNIT_EXPECT_EQ(test, remote_charge_take(&debt, 100), 60ULL);
}

static void closed_takes_nothing(struct kunit *test)
{
	atomic64_t debt = ATOMIC64_INIT(0);

	remote_charge_add(&debt, 7);
	KUNIT_EXPECT_EQ(test, remote_charge_close(&debt), 7ULL);
	KUNIT_EXPECT_FALSE(test, remote_charge_add(&debt, 7));
	KUNIT_EXPECT_EQ(test, remote_charge_take(&debt, 100), 0ULL);
	KUNIT_EXPECT_EQ(test, remote_charge_close(&debt), 0ULL);
	KUNIT_EXPECT_EQ(test, atomic64_read(&debt), (s64)REMOTE_CHARGE_CLOSED);
}

struct poster {
	atomic64_t *debt;
	u64 posted;
	u64 dropped;
	struct completion done;
};

static int post_many(void *arg)
{
	struct poster *p = arg;
	int i;

	for (i = 0; i < 100000; i++) {
		if (remote_charge_add(p->debt, i % 100 + 1))
			p->posted += i % 100 + 1;
		else
			p->dropped += i % 100 + 1;
	}
	complete(&p->done);
	return 0;
}

/* Two threads post; this one takes, and closes the debt while they run. */
static void adds_up_in_a_race(struct kunit *test)
{
	atomic64_t debt = ATOMIC64_INIT(0);
	struct poster p[2] = { };
	u64 folded = 0;
	int i;

	for (i = 0; i < 2; i++) {
		p[i].debt = &debt;
		init_completion(&p[i].done);
		KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run(post_many, &p[i],
							    "post/%d", i)));
	}
	for (i = 0; i < 100000; i++)
		folded += remote_charge_take(&debt, 150);
	folded += remote_charge_close(&debt);
	for (i = 0; i < 2; i++)
		wait_for_completion(&p[i].done);
	KUNIT_EXPECT_EQ(test, p[0].posted + p[1].posted, folded);
	KUNIT_EXPECT_EQ(test, p[0].posted + p[0].dropped, 5050000ULL);
}

/* Kernel threads like this one pay nothing: the time is posted and dropped. */
static void what_nobody_pays_is_dropped(struct kunit *test)
{
	size_t size = NR_VM_EVENT_ITEMS * sizeof(unsigned long);
	unsigned long *before = kunit_kzalloc(test, size, GFP_KERNEL);
	unsigned long *after = kunit_kzalloc(test, size, GFP_KERNEL);

	KUNIT_ASSERT_TRUE(test, before && after);
	all_vm_events(before);
	KUNIT_EXPECT_FALSE(test, remote_charge_post(current, 7000));
	all_vm_events(after);
	KUNIT_EXPECT_EQ(test, after[REMOTE_CHARGE_POSTED_NS] -
			before[REMOTE_CHARGE_POSTED_NS], 7000UL);
	KUNIT_EXPECT_EQ(test, after[REMOTE_CHARGE_DROPPED_NS] -
			before[REMOTE_CHARGE_DROPPED_NS], 7000UL);
	KUNIT_EXPECT_EQ(test, remote_charge_pending(current), 0ULL);
}

static struct kunit_case remote_charge_cases[] = {
	KUNIT_CASE(adds_up),
	KUNIT_CASE(takes_no_more_than_there_is),
	KUNIT_CASE(closed_takes_nothing),
	KUNIT_CASE(adds_up_in_a_race),
	KUNIT_CASE(what_nobody_pays_is_dropped),
	{}
};

static struct kunit_suite remote_charge_suite = {
	.name = "sched_remote_charge",
	.test_cases = remote_charge_cases,
};

kunit_test_suite(remote_charge_suite);

MODULE_DESCRIPTION("KUnit tests of back-charge");
MODULE_LICENSE("GPL");
