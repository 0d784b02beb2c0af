// SPDX-License-Identifier: GPL-2.0
/*
 * The store of hotness records, on a section number that no memory has.
 * Included by ../hotness.c.
 */
#include <kunit/test.h>

/* A section behind all memory, with one free before it; no such node. */
#define FAKE_SECTION	(pfn_to_section_nr(max_pfn) + 2)
#define FAKE_PFN	section_nr_to_pfn(FAKE_SECTION)
#define FAKE_TARGET	MAX_NUMNODES
#define FAKE_NODE	0

static int hotness_init(struct kunit *test)
{
	mutex_lock(&mtier_mutex);
	if (mtier_on()) {
		mutex_unlock(&mtier_mutex);
		kunit_skip(test, "promotion is switched on");
	}
	test->priv = test;
	return mtier_hot_add_section(FAKE_SECTION, FAKE_NODE, false);
}

static void hotness_exit(struct kunit *test)
{
	if (!test->priv)
		return;
	mtier_hot_free();
	mutex_unlock(&mtier_mutex);
}

/* An access @ago ticks before now. */
static unsigned int record(unsigned long pfn, u32 ago)
{
	struct mtier_hot_params params = mtier_hot_params_for(FAKE_TARGET);

	return mtier_hot_touch(pfn, mtier_now_tick() - ago, &params);
}

/* Accesses that make a page hot, each a tick after the one before. */
static unsigned int record_all(unsigned long pfn)
{
	unsigned int n = READ_ONCE(mtier_conf.accesses);

	while (--n)
		record(pfn, n);
	return record(pfn, 0);
}

static bool hot(unsigned long pfn)
{
	struct mtier_hot_params params = mtier_hot_params_for(FAKE_TARGET);

	return mtier_hot_recheck(pfn, &params);
}

static bool seen(unsigned long pfn)
{
	u32 *rec;
	bool ret;

	rcu_read_lock();
	rec = mtier_rec_of(pfn);
	ret = rec && mtier_rec_freq(READ_ONCE(*rec));
	rcu_read_unlock();
	return ret;
}

static void record_needs_a_slow_section(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, record_all(FAKE_PFN),
			READ_ONCE(mtier_conf.accesses));
	KUNIT_EXPECT_EQ(test, record_all(FAKE_PFN - 1), 0);
	KUNIT_EXPECT_TRUE(test, mtier_hot_tracked(FAKE_PFN));
	KUNIT_EXPECT_FALSE(test, mtier_hot_tracked(FAKE_PFN - 1));
}

static void second_access_is_hot(struct kunit *test)
{
	unsigned int n = READ_ONCE(mtier_conf.accesses);

	/* Accesses of one tick are one; so each comes a tick later. */
	KUNIT_EXPECT_FALSE(test, hot(FAKE_PFN));
	for (unsigned int i = 1; i < n; i++) {
		record(FAKE_PFN, n - i);
		record(FAKE_PFN, n - i);
		KUNIT_EXPECT_FALSE(test, hot(FAKE_PFN));
	}
	record(FAKE_PFN, 0);
	KUNIT_EXPECT_TRUE(test, hot(FAKE_PFN));
	KUNIT_EXPECT_FALSE(test, hot(FAKE_PFN + 1));
	mtier_hot_forget(FAKE_PFN);
	KUNIT_EXPECT_FALSE(test, hot(FAKE_PFN));
}

static void told_is_hot(struct kunit *test)
{
	struct mtier_hot_params params = mtier_hot_params_for(FAKE_TARGET);
	u32 now = mtier_now_tick();

	mtier_hot_told(FAKE_PFN - 1, now, &params);
	mtier_hot_told(FAKE_PFN, now, &params);
	KUNIT_EXPECT_TRUE(test, hot(FAKE_PFN));
	KUNIT_EXPECT_FALSE(test, hot(FAKE_PFN - 1));
	KUNIT_EXPECT_FALSE(test, hot(FAKE_PFN + 1));
}

/* H7: a source may sit in an interrupt handler. */
static void record_works_in_atomic_context(struct kunit *test)
{
	DEFINE_SPINLOCK(lock);
	unsigned long flags;

	spin_lock_irqsave(&lock, flags);
	for (int i = 0; i < 100; i++)
		record(FAKE_PFN + i, 0);
	spin_unlock_irqrestore(&lock, flags);
	for (int i = 0; i < 100; i++)
		KUNIT_EXPECT_TRUE(test, seen(FAKE_PFN + i));
}

/* Nodes change: records of those that stay what they are stay, too. */
static void records_outlive_a_change_of_other_nodes(struct kunit *test)
{
	const nodemask_t none = NODE_MASK_NONE;
	const nodemask_t fake = nodemask_of_node(FAKE_NODE);

	record(FAKE_PFN, 0);
	mtier_hot_keep(&fake, &none);
	KUNIT_EXPECT_TRUE(test, mtier_hot_tracked(FAKE_PFN));
	/* It is above from now on: what was counted there means nothing. */
	mtier_hot_keep(&none, &fake);
	KUNIT_EXPECT_FALSE(test, mtier_hot_tracked(FAKE_PFN));
	KUNIT_EXPECT_EQ(test, mtier_hot_bytes(), 0);
	KUNIT_EXPECT_EQ(test, mtier_hot_add_section(FAKE_SECTION, FAKE_NODE,
						    true), 0);
	mtier_hot_keep(&none, &fake);
	KUNIT_EXPECT_GT(test, mtier_hot_bytes(), 0);
	mtier_hot_keep(&fake, &none);
	KUNIT_EXPECT_EQ(test, mtier_hot_bytes(), 0);
}

/* H3: at most 0.2 % of slow memory. */
static void records_are_small(struct kunit *test)
{
	u64 memory = (u64)PAGES_PER_SECTION << PAGE_SHIFT;

	KUNIT_EXPECT_LE(test, PAGE_ALIGN(sizeof(struct mtier_section)) * 500,
			memory);
}

static struct kunit_case mtier_hotness_cases[] = {
	KUNIT_CASE(record_needs_a_slow_section),
	KUNIT_CASE(second_access_is_hot),
	KUNIT_CASE(told_is_hot),
	KUNIT_CASE(record_works_in_atomic_context),
	KUNIT_CASE(records_outlive_a_change_of_other_nodes),
	KUNIT_CASE(records_are_small),
	{ }
};

static struct kunit_suite mtier_hotness_suite = {
	.name = "mtier_hotness",
	.init = hotness_init,
	.exit = hotness_exit,
	.test_cases = mtier_hotness_cases,
};

kunit_test_suite(mtier_hotness_suite);
