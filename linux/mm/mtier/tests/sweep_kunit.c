// SPDX-License-Identifier: GPL-2.0
/*
 * A sweep finds the ranges in use, and lists each once. Included by ../sweep.c.
 */
#include <kunit/test.h>

#include "map_file.h"

struct sweep_world {
	struct mtier_slot slot;
	struct mtier_seen seen;
	unsigned long at;
};

static void sweep_world(struct kunit *test, struct sweep_world *w, struct file *file)
{
	*w = (struct sweep_world) { .at = map_file(test, file) };
	/* That of the first map_file(). */
	w->slot.mm = current->mm;
	map_touch(test, w->at, MTIER_RANGE_PAGES);
}

/* Sweep, with all memory on the tier of @slow; the next sweep meets files anew. */
static void sweep(struct sweep_world *w, const nodemask_t *slow)
{
	mtier_listing.slow = *slow;
	mtier_sweep_slot(&w->slot, &w->seen);
	mtier_flush_now(&mtier_sweep_flush, &w->seen);
}

static void sweep_end(struct sweep_world *w)
{
	kvfree(w->slot.sample.at);
	mtier_sweep_stop();
}

/* Use a page, through the page table, as CPUs do. */
static void sweep_use(struct kunit *test, unsigned long at)
{
	char byte;

	KUNIT_ASSERT_EQ(test, copy_from_user(&byte, (void __user *)at, 1), 0);
}

/* The flags of a range; 0 if it is not listed. */
static unsigned long sweep_flags(const struct sweep_world *w, unsigned long at)
{
	const struct mtier_sample *s = &w->slot.sample;
	unsigned int i;

	for (i = 0; i < s->nr; i++)
		if ((s->at[i] & PMD_MASK) == at)
			return s->at[i] & ~PMD_MASK;
	return 0;
}

static void only_what_was_used_is_in_use(struct kunit *test)
{
	const nodemask_t slow = node_states[N_MEMORY];
	struct sweep_world w;

	if (!arch_has_hw_nonleaf_pmd_young())
		kunit_skip(test, "CPUs do not set Accessed bits above page tables");
	sweep_world(test, &w, NULL);
	sweep_use(test, w.at);
	sweep(&w, &slow);
	KUNIT_EXPECT_EQ(test, sweep_flags(&w, w.at), MTIER_RANGE_LOW);
	KUNIT_EXPECT_EQ(test, w.seen.flushes, 1);
	/* The bit was cleared. */
	sweep(&w, &slow);
	KUNIT_EXPECT_EQ(test, sweep_flags(&w, w.at), MTIER_RANGE_TOP);
	sweep_use(test, w.at + 7 * PAGE_SIZE);
	sweep(&w, &slow);
	KUNIT_EXPECT_EQ(test, sweep_flags(&w, w.at), MTIER_RANGE_LOW);
	sweep_end(&w);
}

/* Pages of a sweep keep their own bits: they are for the looks to read. */
static void the_bits_of_pages_stay(struct kunit *test)
{
	const nodemask_t slow = node_states[N_MEMORY];
	struct sweep_world w;

	sweep_world(test, &w, NULL);
	sweep_use(test, w.at);
	sweep(&w, &slow);
	KUNIT_EXPECT_EQ(test, mtier_page_young(&w.slot, w.at), 1);
	sweep_end(&w);
}

static void a_range_in_use_is_listed_for_its_tier(struct kunit *test)
{
	const nodemask_t none = NODE_MASK_NONE;
	struct sweep_world w;

	sweep_world(test, &w, NULL);
	sweep_use(test, w.at);
	sweep(&w, &none);
	KUNIT_EXPECT_EQ(test, sweep_flags(&w, w.at), MTIER_RANGE_TOP);
	sweep_end(&w);
}

/* Ranges in use of a middle tier can hold pages to promote and pages to demote. */
static void a_middle_tier_is_scanned_for_both(struct kunit *test)
{
	struct mtier_listing *l = kunit_kzalloc(test, sizeof(*l), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, l);
	if (MAX_NUMNODES < 3)
		kunit_skip(test, "too few nodes for three tiers");
	node_set(1, l->slow);
	node_set(2, l->slow);
	node_set(1, l->middle);
	KUNIT_EXPECT_EQ(test, mtier_node_flags(l, 0), MTIER_RANGE_TOP);
	KUNIT_EXPECT_EQ(test, mtier_node_flags(l, 1), MTIER_RANGE_TOP | MTIER_RANGE_LOW);
	KUNIT_EXPECT_EQ(test, mtier_node_flags(l, 2), MTIER_RANGE_LOW);
}

/* Not by each that maps it: it was drawn as many times. */
static void what_is_mapped_twice_is_listed_once(struct kunit *test)
{
	const nodemask_t slow = node_states[N_MEMORY];
	struct file *file = map_file_make(test);
	unsigned long low;
	struct sweep_world w;

	sweep_world(test, &w, file);
	low = map_file(test, file);
	KUNIT_ASSERT_LT(test, low, w.at);
	map_touch(test, low, MTIER_RANGE_PAGES);
	sweep_use(test, low);
	sweep_use(test, w.at);
	sweep(&w, &slow);
	KUNIT_EXPECT_EQ(test, !!sweep_flags(&w, low) + !!sweep_flags(&w, w.at), 1);
	mtier_sweep_forget();
	/* One of them uses it. */
	if (arch_has_hw_nonleaf_pmd_young()) {
		sweep_use(test, w.at);
		sweep(&w, &slow);
		KUNIT_EXPECT_EQ(test, sweep_flags(&w, w.at), MTIER_RANGE_LOW);
	}
	sweep_end(&w);
	fput(file);
}

/* One mapper can have a part of a file on the fast tier, and another on the slow tier. */
static void each_tier_of_a_part_is_listed(struct kunit *test)
{
	const nodemask_t slow = node_states[N_MEMORY], none = NODE_MASK_NONE;
	struct file *file = map_file_make(test);
	unsigned long low;
	struct sweep_world w;

	sweep_world(test, &w, file);
	low = map_file(test, file);
	map_touch(test, low, MTIER_RANGE_PAGES);
	sweep_use(test, w.at);
	sweep(&w, &none);
	KUNIT_EXPECT_EQ(test, sweep_flags(&w, low) | sweep_flags(&w, w.at), MTIER_RANGE_TOP);
	sweep_use(test, low);
	sweep_use(test, w.at);
	sweep(&w, &slow);
	KUNIT_EXPECT_EQ(test, sweep_flags(&w, low) | sweep_flags(&w, w.at), MTIER_RANGE_LOW);
	sweep_end(&w);
	fput(file);
}

/*
 * A mapper with scan scale 0 lists nothing to promote, and leaves a part of a file to
 * another mapper.
 */
static void with_scale_0_nothing_is_listed_to_promote(struct kunit *test)
{
	const nodemask_t slow = node_states[N_MEMORY], none = NODE_MASK_NONE;
	struct file *file = map_file_make(test);
	struct sweep_world w;

	sweep_world(test, &w, file);
	w.slot.mm->mtier_scan_scale = 0;
	sweep_use(test, w.at);
	sweep(&w, &slow);
	KUNIT_EXPECT_EQ(test, sweep_flags(&w, w.at), 0);
	w.slot.mm->mtier_scan_scale = 1;
	sweep_use(test, w.at);
	sweep(&w, &slow);
	KUNIT_EXPECT_EQ(test, sweep_flags(&w, w.at), MTIER_RANGE_LOW);
	/* Fast memory is listed with each scale. */
	w.slot.mm->mtier_scan_scale = 0;
	sweep_use(test, w.at);
	sweep(&w, &none);
	KUNIT_EXPECT_EQ(test, sweep_flags(&w, w.at), MTIER_RANGE_TOP);
	w.slot.mm->mtier_scan_scale = MTIER_SCALE_DEFAULT;
	sweep_end(&w);
	fput(file);
}

/* Nobody uses it: each of two mappers lists it every other time. */
static void what_nobody_uses_is_listed_once_on_average(struct kunit *test)
{
	const nodemask_t slow = node_states[N_MEMORY];
	struct file *file = map_file_make(test);
	unsigned int i, nr = 0;
	unsigned long low;
	struct sweep_world w;

	if (!arch_has_hw_nonleaf_pmd_young())
		kunit_skip(test, "CPUs do not set Accessed bits above page tables");
	sweep_world(test, &w, file);
	low = map_file(test, file);
	map_touch(test, low, MTIER_RANGE_PAGES);
	sweep(&w, &slow);
	for (i = 0; i < 400; i++) {
		mtier_sweep_forget();
		sweep(&w, &slow);
		nr += !!sweep_flags(&w, low) + !!sweep_flags(&w, w.at);
	}
	/* 400 of 800, give or take seven standard deviations. */
	KUNIT_EXPECT_GT(test, nr, 300);
	KUNIT_EXPECT_LT(test, nr, 500);
	sweep_end(&w);
	fput(file);
}

static void a_range_in_two_walks_is_listed_once(struct kunit *test)
{
	struct mtier_listing *l = kunit_kzalloc(test, sizeof(*l), GFP_KERNEL);
	struct mtier_sample s = { };
	unsigned int room = 0, i;

	KUNIT_ASSERT_NOT_NULL(test, l);
	for (i = 0; i < 3; i++) {
		l->at[0] = 2 * i * PMD_SIZE | MTIER_RANGE_LOW;
		l->at[1] = (2 * i + 1) * PMD_SIZE;
		l->at[2] = (2 * i + 2) * PMD_SIZE | MTIER_RANGE_TOP;
		l->nr = 3;
		KUNIT_ASSERT_TRUE(test, mtier_list_keep(&s, &room, l));
	}
	KUNIT_EXPECT_EQ(test, s.nr, 7);
	KUNIT_EXPECT_LE(test, s.nr, room);
	for (i = 0; i < s.nr; i++)
		KUNIT_EXPECT_EQ(test, s.at[i] >> PMD_SHIFT, i);
	KUNIT_EXPECT_EQ(test, s.at[2] & ~PMD_MASK, MTIER_RANGE_LOW | MTIER_RANGE_TOP);
	kvfree(s.at);
}

/* A listing that fails keeps the old entries of the ranges it has not reached. */
static void a_listing_that_fails_keeps_the_rest(struct kunit *test)
{
	unsigned long old_at[] = {
		4 * PMD_SIZE | MTIER_RANGE_TOP, PMD_SIZE | MTIER_RANGE_TOP,
		3 * PMD_SIZE | MTIER_RANGE_LOW, 2 * PMD_SIZE | MTIER_RANGE_TOP,
	};
	const struct mtier_sample old = { .at = old_at, .nr = 4 };
	struct mtier_listing *l = kunit_kzalloc(test, sizeof(*l), GFP_KERNEL);
	struct mtier_sample s = { };
	unsigned int room = 0;

	KUNIT_ASSERT_NOT_NULL(test, l);
	l->at[0] = PMD_SIZE | MTIER_RANGE_LOW;
	l->nr = 1;
	l->cursor = 3 * PMD_SIZE;
	KUNIT_ASSERT_TRUE(test, mtier_list_keep(&s, &room, l));
	KUNIT_ASSERT_TRUE(test, mtier_list_rest(l, &s, &old));
	KUNIT_ASSERT_EQ(test, s.nr, 3);
	KUNIT_EXPECT_EQ(test, s.at[0], PMD_SIZE | MTIER_RANGE_LOW);
	KUNIT_EXPECT_EQ(test, s.at[1], 3 * PMD_SIZE | MTIER_RANGE_LOW);
	KUNIT_EXPECT_EQ(test, s.at[2], 4 * PMD_SIZE | MTIER_RANGE_TOP);
	kvfree(s.at);
}

/* A process that has not run has used nothing, and is not swept. */
static void a_process_that_has_not_run_is_quiet(struct kunit *test)
{
	unsigned long at[] = {
		PMD_SIZE | MTIER_RANGE_LOW, 2 * PMD_SIZE | MTIER_RANGE_TOP,
		3 * PMD_SIZE | MTIER_RANGE_LOW | MTIER_RANGE_TOP,
	};
	struct mtier_sample s = {
		.at = at, .nr = 3,
		.side[MTIER_LOW].nr = 2, .side[MTIER_TOP].nr = 2,
	};
	unsigned int i;

	mtier_sweep_quiet(&s);
	KUNIT_EXPECT_EQ(test, s.side[MTIER_LOW].nr, 0);
	KUNIT_EXPECT_EQ(test, s.side[MTIER_TOP].nr, 3);
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, at[i], (i + 1) * PMD_SIZE | MTIER_RANGE_TOP);
}

/* Somebody else may use an mm that has more users than threads. */
static void who_has_other_users_is_always_swept(struct kunit *test)
{
	struct mm_struct *mm = mm_alloc();
	struct mtier_slot slot = { .mm = mm };

	KUNIT_ASSERT_NOT_NULL(test, mm);
	slot.sample.listed_ns = ktime_get_ns();
	rcu_assign_pointer(mm->owner, &init_task);
	/* No thread of its owner has it, but it has a user. */
	KUNIT_EXPECT_TRUE(test, mtier_sweep_stale(&slot));
	KUNIT_EXPECT_TRUE(test, mtier_sweep_stale(&slot));
	atomic_dec(&mm->mm_users);
	KUNIT_EXPECT_TRUE(test, mtier_sweep_stale(&slot));
	KUNIT_EXPECT_FALSE(test, mtier_sweep_stale(&slot));
	atomic_add(MTIER_RAN_THREADS + 1, &mm->mm_users);
	KUNIT_EXPECT_TRUE(test, mtier_sweep_stale(&slot));
	KUNIT_EXPECT_TRUE(test, mtier_sweep_stale(&slot));
	atomic_sub(MTIER_RAN_THREADS + 1, &mm->mm_users);
	mtier_sweep_stale(&slot);
	KUNIT_EXPECT_FALSE(test, mtier_sweep_stale(&slot));
	slot.sample.listed_ns -= 2 * MTIER_LIST_AGE_NS;
	KUNIT_EXPECT_TRUE(test, mtier_sweep_stale(&slot));
	rcu_assign_pointer(mm->owner, NULL);
	KUNIT_EXPECT_EQ(test, mtier_sweep_ran_ns(mm), 0);
	atomic_inc(&mm->mm_users);
	mmput(mm);
}

/* The first sweep finds what was used at any time before, and the second one follows soon. */
static void the_first_sweep_is_no_measure(struct kunit *test)
{
	u64 mean_ns = mtier_sweep_mean_ns, next_ns = mtier_sweep_next_ns;

	mtier_sweep_mean_ns = 0;
	mtier_sweep_next_ns = 0;
	mtier_sweep_spent(NSEC_PER_SEC);
	KUNIT_EXPECT_EQ(test, mtier_sweep_mean_ns, 0);
	mtier_sweep_next_ns = 1;
	mtier_sweep_spent(400);
	KUNIT_EXPECT_EQ(test, mtier_sweep_mean_ns, 100);
	mtier_sweep_mean_ns = mean_ns;
	mtier_sweep_next_ns = next_ns;
}

static void sweeps_take_a_small_part_of_a_cpu(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, MTIER_SWEEP_PARTS(25), 50U);
	KUNIT_EXPECT_EQ(test, MTIER_SWEEP_PARTS(1), 200U);
	KUNIT_EXPECT_EQ(test, mtier_sweep_rest_ns(0, NSEC_PER_MSEC, true), MTIER_SWEEP_MIN_NS);
	KUNIT_EXPECT_EQ(test, mtier_sweep_rest_ns(0, 100 * NSEC_PER_MSEC, true),
			400ULL * NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, mtier_sweep_rest_ns(0, 10ULL * NSEC_PER_SEC, true),
			MTIER_SWEEP_MAX_NS);
	/* Use that begins while all is idle is found soon. */
	KUNIT_EXPECT_EQ(test, mtier_sweep_rest_ns(0, 10ULL * NSEC_PER_SEC, false),
			MTIER_SWEEP_QUIET_NS);
	KUNIT_EXPECT_EQ(test, mtier_sweep_rest_ns(100 * NSEC_PER_MSEC, NSEC_PER_MSEC, true),
			100ULL * NSEC_PER_MSEC * MTIER_SWEEP_PARTS(mtier_conf.cpu_percent));
}

static struct kunit_case mtier_sweep_cases[] = {
	KUNIT_CASE(only_what_was_used_is_in_use),
	KUNIT_CASE(the_bits_of_pages_stay),
	KUNIT_CASE(a_range_in_use_is_listed_for_its_tier),
	KUNIT_CASE(what_is_mapped_twice_is_listed_once),
	KUNIT_CASE(each_tier_of_a_part_is_listed),
	KUNIT_CASE(with_scale_0_nothing_is_listed_to_promote),
	KUNIT_CASE(what_nobody_uses_is_listed_once_on_average),
	KUNIT_CASE(a_range_in_two_walks_is_listed_once),
	KUNIT_CASE(a_listing_that_fails_keeps_the_rest),
	KUNIT_CASE(a_middle_tier_is_scanned_for_both),
	KUNIT_CASE(a_process_that_has_not_run_is_quiet),
	KUNIT_CASE(who_has_other_users_is_always_swept),
	KUNIT_CASE(the_first_sweep_is_no_measure),
	KUNIT_CASE(sweeps_take_a_small_part_of_a_cpu),
	{ }
};

static struct kunit_suite mtier_sweep_suite = {
	.name = "mtier_sweep",
	.test_cases = mtier_sweep_cases,
};

kunit_test_suite(mtier_sweep_suite);
