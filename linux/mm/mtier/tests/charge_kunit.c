// SPDX-License-Identifier: GPL-2.0
/*
 * Tests that CPU time is charged exactly once. Included by ../charge.c.
 *
 * The mm belongs to the test thread. That is a kernel thread, and is never charged.
 * So the tests read the counter of posted charges.
 */
#include <kunit/test.h>
#include <linux/vmstat.h>

#include "map_file.h"

static u64 charge_posted(void)
{
	static unsigned long events[NR_VM_EVENT_ITEMS];

	lockdep_assert_held(&mtier_mutex);

	all_vm_events(events);
	return events[REMOTE_CHARGE_POSTED_NS];
}

static int charge_init(struct kunit *test)
{
	mutex_lock(&mtier_mutex);
	if (mtier_on()) {
		mutex_unlock(&mtier_mutex);
		kunit_skip(test, "promotion is switched on");
	}
	test->priv = (void *)(unsigned long)(mtier_conf.charge + 1);
	WRITE_ONCE(mtier_conf.charge, 1);
	return 0;
}

static void charge_exit(struct kunit *test)
{
	if (!test->priv)
		return;
	WRITE_ONCE(mtier_conf.charge, (unsigned long)test->priv - 1);
	mutex_unlock(&mtier_mutex);
}

static void a_look_is_posted_once(struct kunit *test)
{
	u64 before = charge_posted();

	map_file(test, NULL);
	mtier_charge_look(current->mm, 12345);
	KUNIT_EXPECT_EQ(test, charge_posted() - before, 12345);
	mtier_charge_look(current->mm, 0);
	KUNIT_EXPECT_EQ(test, charge_posted() - before, 12345);
	WRITE_ONCE(mtier_conf.charge, 0);
	mtier_charge_look(current->mm, 12345);
	KUNIT_EXPECT_EQ(test, charge_posted() - before, 12345);
	KUNIT_EXPECT_EQ(test, mtier_charge_start(), 0);
}

/* Use one millisecond of CPU time of this thread. */
static u64 charge_spin(u64 since_ns)
{
	u64 now_ns;

	do {
		now_ns = task_sched_runtime(current);
	} while (now_ns - since_ns < NSEC_PER_MSEC);
	return now_ns;
}

static void a_batch_is_shared_and_posted_once(struct kunit *test)
{
	struct mtier_move *mv = kunit_kzalloc(test, sizeof(*mv), GFP_KERNEL);
	u64 before = charge_posted(), since_ns, least_ns, posted;

	KUNIT_ASSERT_NOT_NULL(test, mv);
	map_file(test, NULL);
	/* One of the three address spaces has no folio in the batch. */
	mv->guard.nr_mms = 3;
	mv->guard.rules[0] = (struct mtier_rules){ current->mm, .nr_folios = 1 };
	mv->guard.rules[1] = (struct mtier_rules){ NULL, .nr_folios = 0 };
	mv->guard.rules[2] = (struct mtier_rules){ current->mm, .nr_folios = 2 };
	since_ns = mtier_charge_start();
	KUNIT_ASSERT_NE(test, since_ns, 0);
	least_ns = charge_spin(since_ns) - since_ns;
	mtier_charge_move(mv, since_ns);
	posted = charge_posted() - before;
	/* Each share is rounded down. */
	KUNIT_EXPECT_GE(test, posted + 2, least_ns);
	KUNIT_EXPECT_LE(test, posted, task_sched_runtime(current) - since_ns);
}

static void nobody_pays_for_a_batch_of_nobody(struct kunit *test)
{
	struct mtier_move *mv = kunit_kzalloc(test, sizeof(*mv), GFP_KERNEL);
	u64 before = charge_posted();

	KUNIT_ASSERT_NOT_NULL(test, mv);
	map_file(test, NULL);
	mtier_charge_move(mv, 1);
	mv->guard.nr_mms = 1;
	mv->guard.rules[0].mm = current->mm;
	mtier_charge_move(mv, 1);
	mv->guard.rules[0].nr_folios = 1;
	mtier_charge_move(mv, 0);
	KUNIT_EXPECT_EQ(test, charge_posted(), before);
}

static struct kunit_case mtier_charge_cases[] = {
	KUNIT_CASE(a_look_is_posted_once),
	KUNIT_CASE(a_batch_is_shared_and_posted_once),
	KUNIT_CASE(nobody_pays_for_a_batch_of_nobody),
	{ }
};

static struct kunit_suite mtier_charge_suite = {
	.name = "mtier_charge",
	.test_cases = mtier_charge_cases,
	.init = charge_init,
	.exit = charge_exit,
};

kunit_test_suite(mtier_charge_suite);
