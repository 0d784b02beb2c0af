// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flushes: who pays for the write faults of entries that stay
 * write-protected.
 */
#include <kunit/test.h>
#include <linux/jiffies.h>
#include <linux/mm_types.h>

#include "../tlb_defer.h"

static void store(struct tlb_defer_protect *p, unsigned int times)
{
	p->stored += times;
}

static void save(struct tlb_defer_protect *p, unsigned int times)
{
	while (times--)
		tlb_defer_protect_saved(p);
}

/* Without a batch that saves anything, a fixed number of stores is allowed. */
static void some_stores_are_owed(struct kunit *test)
{
	struct tlb_defer_protect p = {};

	store(&p, TLB_DEFER_STORES_OWED);
	KUNIT_EXPECT_FALSE(test, tlb_defer_protect_fails(&p));
	store(&p, 1);
	KUNIT_EXPECT_TRUE(test, tlb_defer_protect_fails(&p));
}

static void batches_pay(struct kunit *test)
{
	struct tlb_defer_protect p = {};

	save(&p, 100);
	store(&p, TLB_DEFER_STORES_OWED + 100 * TLB_DEFER_STORES_PAID);
	KUNIT_EXPECT_FALSE(test, tlb_defer_protect_fails(&p));
	store(&p, 1);
	KUNIT_EXPECT_TRUE(test, tlb_defer_protect_fails(&p));
}

/* A long time with few stores does not pay for any number of stores later. */
static void old_batches_are_forgotten(struct kunit *test)
{
	struct tlb_defer_protect p = {};

	save(&p, 1000000);
	KUNIT_EXPECT_LE(test, p.saved, TLB_DEFER_SAVED_FORGET);
	store(&p, TLB_DEFER_STORES_OWED +
	      TLB_DEFER_SAVED_FORGET * TLB_DEFER_STORES_PAID + 1);
	KUNIT_EXPECT_TRUE(test, tlb_defer_protect_fails(&p));
}

/* Counts of the same load, halved together, keep their ratio. */
static void a_load_that_pays_goes_on(struct kunit *test)
{
	struct tlb_defer_protect p = {};
	unsigned int i;

	for (i = 0; i < 100000; i++) {
		store(&p, TLB_DEFER_STORES_PAID);
		save(&p, 1);
		KUNIT_ASSERT_FALSE(test, tlb_defer_protect_fails(&p));
	}
}

static unsigned long stopped_for(struct tlb_defer_protect *p, unsigned long now,
				 unsigned int ms)
{
	p->used = true;
	store(p, TLB_DEFER_STORES_OWED + 1);
	tlb_defer_protect_stop(p, now, ms);
	return p->resume - now;
}

static void each_stop_is_longer(struct kunit *test)
{
	unsigned long now = INITIAL_JIFFIES, first, last = 0, ticks;
	struct tlb_defer_protect p = {};
	unsigned int i;

	first = stopped_for(&p, now, 1000);
	/* The lowest bit is always set: 0 means that there is no stop. */
	KUNIT_EXPECT_LE(test, first - msecs_to_jiffies(1000), 1UL);
	KUNIT_EXPECT_FALSE(test, p.used);
	KUNIT_EXPECT_FALSE(test, tlb_defer_protect_fails(&p));
	for (i = 0; i < 20; i++) {
		ticks = stopped_for(&p, now, 1000);
		KUNIT_EXPECT_GE(test, ticks + 1, last);
		last = ticks;
	}
	KUNIT_EXPECT_LE(test, last - (msecs_to_jiffies(1000) <<
				      TLB_DEFER_PROTECT_SHIFT), 1UL);
	/* A batch that pays for all stores so far */
	save(&p, 1);
	KUNIT_EXPECT_LE(test, stopped_for(&p, now, 1000),
			msecs_to_jiffies(1000) + 1);
}

static void no_stop_without_backoff(struct kunit *test)
{
	struct tlb_defer_protect p = {};

	stopped_for(&p, jiffies, 0);
	KUNIT_EXPECT_EQ(test, p.resume, 0UL);
	KUNIT_EXPECT_FALSE(test, tlb_defer_protect_fails(&p));
}

static void a_stop_ends(struct kunit *test)
{
	struct mm_struct *mm = kunit_kzalloc(test, sizeof(*mm), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, mm);
	KUNIT_EXPECT_TRUE(test, tlb_defer_may_protect(mm));
	mm->tlb_defer.protect.resume = (jiffies + HZ * 60) | 1;
	KUNIT_EXPECT_FALSE(test, tlb_defer_may_protect(mm));
	mm->tlb_defer.protect.resume = (jiffies - 2) | 1;
	KUNIT_EXPECT_TRUE(test, tlb_defer_may_protect(mm));
}

static struct kunit_case protect_cases[] = {
	KUNIT_CASE(some_stores_are_owed),
	KUNIT_CASE(batches_pay),
	KUNIT_CASE(old_batches_are_forgotten),
	KUNIT_CASE(a_load_that_pays_goes_on),
	KUNIT_CASE(each_stop_is_longer),
	KUNIT_CASE(no_stop_without_backoff),
	KUNIT_CASE(a_stop_ends),
	{}
};

static struct kunit_suite protect_suite = {
	.name = "tlb_defer_protect",
	.test_cases = protect_cases,
};

kunit_test_suite(protect_suite);
