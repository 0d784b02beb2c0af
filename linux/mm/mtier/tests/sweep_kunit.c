// SPDX-License-Identifier: GPL-2.0
/*
 * A sweep finds the ranges in use, and lists each once. Included by ../sweep.c.
 */
#include <kunit/test.h>

#include "map_file.h"

/* Low bits of the entries of a full range, on the fast and on the slow tier. */
#define SWEEP_TOP	mtier_range_entry(MTIER_RANGE_PAGES, 0)
#define SWEEP_LOW	mtier_range_entry(0, MTIER_RANGE_PAGES)

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

/* Sweep, with the nodes of @slow on the slow tier. */
static void sweep(struct sweep_world *w, const nodemask_t *slow)
{
	mtier_listing.peek = (struct mtier_peek) { .slow = *slow };
	mtier_sweep_slot(&w->slot, false, &w->seen);
	mtier_flush_now(&mtier_sweep_flush, &w->seen);
}

/* The same if the process has not run: all ranges are read. */
static void sweep_all(struct sweep_world *w, const nodemask_t *slow)
{
	mtier_listing.peek = (struct mtier_peek) { .slow = *slow };
	mtier_sweep_slot(&w->slot, true, &w->seen);
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

/* The entry of a range without its address; 0 if it is not listed. */
static unsigned long sweep_pages(const struct sweep_world *w, unsigned long at)
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
	KUNIT_EXPECT_EQ(test, sweep_pages(&w, w.at), SWEEP_LOW);
	KUNIT_EXPECT_EQ(test, w.seen.flushes, 1);
	/* The bit was cleared; and it has no page that can be demoted. */
	sweep(&w, &slow);
	KUNIT_EXPECT_EQ(test, sweep_pages(&w, w.at), 0);
	sweep_use(test, w.at + 7 * PAGE_SIZE);
	sweep(&w, &slow);
	KUNIT_EXPECT_EQ(test, sweep_pages(&w, w.at), SWEEP_LOW);
	sweep_end(&w);
}

/* Fast memory that is not in use is listed for demotions, whether a sweep reads it or not. */
static void fast_memory_can_be_demoted(struct kunit *test)
{
	const nodemask_t none = NODE_MASK_NONE;
	struct sweep_world w;
	unsigned int i;

	if (!arch_has_hw_nonleaf_pmd_young())
		kunit_skip(test, "CPUs do not set Accessed bits above page tables");
	sweep_world(test, &w, NULL);
	sweep_use(test, w.at);
	for (i = 0; i < 3 * MTIER_READ_IDLE; i++) {
		sweep(&w, &none);
		KUNIT_EXPECT_EQ(test, sweep_pages(&w, w.at), SWEEP_TOP);
	}
	sweep_end(&w);
}

/* Locked memory is never demoted, so it is not listed for that. */
static void locked_memory_is_not_to_be_demoted(struct kunit *test)
{
	const nodemask_t slow = node_states[N_MEMORY], none = NODE_MASK_NONE;
	struct vm_area_struct *vma;
	struct sweep_world w;

	sweep_world(test, &w, NULL);
	mmap_write_lock(current->mm);
	vma = vma_lookup(current->mm, w.at);
	vm_flags_set(vma, VM_LOCKED);
	mmap_write_unlock(current->mm);
	sweep_use(test, w.at);
	sweep(&w, &none);
	KUNIT_EXPECT_EQ(test, sweep_pages(&w, w.at), 0);
	sweep_all(&w, &none);
	KUNIT_EXPECT_EQ(test, sweep_pages(&w, w.at), 0);
	/* It can be promoted. */
	sweep_use(test, w.at);
	sweep(&w, &slow);
	KUNIT_EXPECT_EQ(test, sweep_pages(&w, w.at), SWEEP_LOW);
	mmap_write_lock(current->mm);
	vm_flags_clear(vma, VM_LOCKED);
	mmap_write_unlock(current->mm);
	sweep_end(&w);
}

/*
 * Pages of a range that is not in use are found when the range is read: once in
 * MTIER_READ_IDLE sweeps on average, and in each with sweep_all().
 */
static void ranges_not_in_use_are_read_at_times(struct kunit *test)
{
	const nodemask_t slow = node_states[N_MEMORY], none = NODE_MASK_NONE;
	unsigned int i, nr = 0;
	struct sweep_world w;

	if (!arch_has_hw_nonleaf_pmd_young())
		kunit_skip(test, "CPUs do not set Accessed bits above page tables");
	sweep_world(test, &w, NULL);
	sweep(&w, &none);
	for (i = 0; i < 64 * MTIER_READ_IDLE; i++) {
		sweep_all(&w, &slow);
		KUNIT_EXPECT_EQ(test, sweep_pages(&w, w.at), 0);
		sweep(&w, &none);
		nr += !!sweep_pages(&w, w.at);
	}
	/* 64 on average; the deviation is 8. */
	KUNIT_EXPECT_GT(test, nr, 24);
	KUNIT_EXPECT_LT(test, nr, 104);
	sweep_all(&w, &none);
	KUNIT_EXPECT_EQ(test, sweep_pages(&w, w.at), SWEEP_TOP);
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
	KUNIT_EXPECT_EQ(test, sweep_pages(&w, w.at), SWEEP_TOP);
	sweep_end(&w);
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
	KUNIT_EXPECT_EQ(test, !!sweep_pages(&w, low) + !!sweep_pages(&w, w.at), 1);
	mtier_sweep_forget();
	/* One of them uses it. */
	if (arch_has_hw_nonleaf_pmd_young()) {
		sweep_use(test, w.at);
		sweep(&w, &slow);
		KUNIT_EXPECT_EQ(test, sweep_pages(&w, w.at), SWEEP_LOW);
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
	KUNIT_EXPECT_EQ(test, sweep_pages(&w, low) | sweep_pages(&w, w.at), SWEEP_TOP);
	sweep_use(test, low);
	sweep_use(test, w.at);
	sweep(&w, &slow);
	KUNIT_EXPECT_EQ(test, sweep_pages(&w, low) | sweep_pages(&w, w.at), SWEEP_LOW);
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
	KUNIT_EXPECT_EQ(test, sweep_pages(&w, w.at), 0);
	w.slot.mm->mtier_scan_scale = 1;
	sweep_use(test, w.at);
	sweep(&w, &slow);
	KUNIT_EXPECT_EQ(test, sweep_pages(&w, w.at), SWEEP_LOW);
	/* Fast memory is listed with each scale. */
	w.slot.mm->mtier_scan_scale = 0;
	sweep_use(test, w.at);
	sweep(&w, &none);
	KUNIT_EXPECT_EQ(test, sweep_pages(&w, w.at), SWEEP_TOP);
	w.slot.mm->mtier_scan_scale = MTIER_SCALE_DEFAULT;
	sweep_end(&w);
	fput(file);
}

/* Nobody uses it: each of two mappers lists it every other time. */
static void what_nobody_uses_is_listed_once_on_average(struct kunit *test)
{
	const nodemask_t none = NODE_MASK_NONE;
	struct file *file = map_file_make(test);
	unsigned int i, nr = 0;
	unsigned long low;
	struct sweep_world w;

	if (!arch_has_hw_nonleaf_pmd_young())
		kunit_skip(test, "CPUs do not set Accessed bits above page tables");
	sweep_world(test, &w, file);
	low = map_file(test, file);
	map_touch(test, low, MTIER_RANGE_PAGES);
	sweep(&w, &none);
	for (i = 0; i < 400; i++) {
		mtier_sweep_forget();
		sweep(&w, &none);
		nr += !!sweep_pages(&w, low) + !!sweep_pages(&w, w.at);
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
		l->at[0] = 2 * i * PMD_SIZE | mtier_range_entry(3, 20);
		l->at[1] = (2 * i + 1) * PMD_SIZE;
		l->at[2] = (2 * i + 2) * PMD_SIZE | mtier_range_entry(4, 0);
		l->nr = 3;
		KUNIT_ASSERT_TRUE(test, mtier_list_keep(&s, &room, l));
	}
	KUNIT_EXPECT_EQ(test, s.nr, 7);
	KUNIT_EXPECT_LE(test, s.nr, room);
	for (i = 0; i < s.nr; i++)
		KUNIT_EXPECT_EQ(test, s.at[i] >> PMD_SHIFT, i);
	KUNIT_EXPECT_EQ(test, s.at[2] & ~PMD_MASK, mtier_range_entry(4, 20));
	kvfree(s.at);
}

/* A listing that fails keeps the old entries of the ranges it has not reached. */
static void a_listing_that_fails_keeps_the_rest(struct kunit *test)
{
	unsigned long old_at[] = {
		4 * PMD_SIZE | mtier_range_entry(2, 0), PMD_SIZE | mtier_range_entry(2, 0),
		3 * PMD_SIZE | mtier_range_entry(0, 3), 2 * PMD_SIZE | mtier_range_entry(2, 0),
	};
	const struct mtier_sample old = { .at = old_at, .nr = 4 };
	struct mtier_listing *l = kunit_kzalloc(test, sizeof(*l), GFP_KERNEL);
	struct mtier_sample s = { };
	unsigned int room = 0;

	KUNIT_ASSERT_NOT_NULL(test, l);
	l->at[0] = PMD_SIZE | mtier_range_entry(0, 3);
	l->nr = 1;
	l->cursor = 3 * PMD_SIZE;
	KUNIT_ASSERT_TRUE(test, mtier_list_keep(&s, &room, l));
	KUNIT_ASSERT_TRUE(test, mtier_list_rest(l, &s, &old));
	KUNIT_ASSERT_EQ(test, s.nr, 3);
	KUNIT_EXPECT_EQ(test, s.at[0], PMD_SIZE | mtier_range_entry(0, 3));
	KUNIT_EXPECT_EQ(test, s.at[1], 3 * PMD_SIZE | mtier_range_entry(0, 3));
	KUNIT_EXPECT_EQ(test, s.at[2], 4 * PMD_SIZE | mtier_range_entry(2, 0));
	kvfree(s.at);
}

/* A process that has not run has used nothing, and is not swept. */
static void a_process_that_has_not_run_is_quiet(struct kunit *test)
{
	unsigned long at[] = {
		PMD_SIZE | mtier_range_entry(0, 3), 2 * PMD_SIZE | mtier_range_entry(2, 0),
		3 * PMD_SIZE | mtier_range_entry(2, 3),
	};
	struct mtier_sample s = {
		.at = at, .nr = 3,
		.side[MTIER_LOW] = { .nr = 2, .pages = 6 },
		.side[MTIER_TOP] = { .nr = 2, .pages = 4 },
	};
	unsigned int i;

	mtier_sweep_quiet(&s);
	KUNIT_EXPECT_EQ(test, s.side[MTIER_LOW].nr, 0);
	KUNIT_EXPECT_EQ(test, s.side[MTIER_LOW].pages, 0);
	KUNIT_EXPECT_EQ(test, s.side[MTIER_TOP].nr, 2);
	KUNIT_EXPECT_EQ(test, s.side[MTIER_TOP].pages, 4);
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, at[i], (i + 1) * PMD_SIZE |
				mtier_range_entry(i ? 2 : 0, 0));
}

/* Its ranges are read when that was long ago, or when they may be empty. */
static void a_quiet_process_is_read_when_it_may_have_changed(struct kunit *test)
{
	struct mtier_sample s = { .listed_ns = ktime_get_ns(), .listed = 800 };
	struct mtier_sample_side *top = &s.side[MTIER_TOP];

	top->nr = 10;
	KUNIT_EXPECT_FALSE(test, mtier_sweep_unread(&s));
	/* Few of its ranges have pages, so that to read all costs too much. */
	top->drawn = 24;
	KUNIT_EXPECT_FALSE(test, mtier_sweep_unread(&s));
	top->drawn = 25;
	KUNIT_EXPECT_TRUE(test, mtier_sweep_unread(&s));
	top->nr = 26;
	KUNIT_EXPECT_FALSE(test, mtier_sweep_unread(&s));
	s.listed_ns -= 2 * MTIER_LIST_AGE_NS;
	KUNIT_EXPECT_TRUE(test, mtier_sweep_unread(&s));
	/* Without any range there is nothing to draw. */
	s = (struct mtier_sample) { .listed_ns = ktime_get_ns() };
	KUNIT_EXPECT_FALSE(test, mtier_sweep_unread(&s));
}

/* Somebody else may use an mm that has more users than threads. */
static void who_has_other_users_is_always_swept(struct kunit *test)
{
	struct mm_struct *mm = mm_alloc();
	struct mtier_slot slot = { .mm = mm };

	KUNIT_ASSERT_NOT_NULL(test, mm);
	rcu_assign_pointer(mm->owner, &init_task);
	/* No thread of its owner has it, but it has a user. */
	KUNIT_EXPECT_TRUE(test, mtier_sweep_ran(&slot));
	KUNIT_EXPECT_TRUE(test, mtier_sweep_ran(&slot));
	atomic_dec(&mm->mm_users);
	KUNIT_EXPECT_TRUE(test, mtier_sweep_ran(&slot));
	KUNIT_EXPECT_FALSE(test, mtier_sweep_ran(&slot));
	atomic_add(MTIER_RAN_THREADS + 1, &mm->mm_users);
	KUNIT_EXPECT_TRUE(test, mtier_sweep_ran(&slot));
	KUNIT_EXPECT_TRUE(test, mtier_sweep_ran(&slot));
	atomic_sub(MTIER_RAN_THREADS + 1, &mm->mm_users);
	mtier_sweep_ran(&slot);
	KUNIT_EXPECT_FALSE(test, mtier_sweep_ran(&slot));
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
	KUNIT_CASE(fast_memory_can_be_demoted),
	KUNIT_CASE(locked_memory_is_not_to_be_demoted),
	KUNIT_CASE(ranges_not_in_use_are_read_at_times),
	KUNIT_CASE(the_bits_of_pages_stay),
	KUNIT_CASE(a_range_in_use_is_listed_for_its_tier),
	KUNIT_CASE(what_is_mapped_twice_is_listed_once),
	KUNIT_CASE(each_tier_of_a_part_is_listed),
	KUNIT_CASE(with_scale_0_nothing_is_listed_to_promote),
	KUNIT_CASE(what_nobody_uses_is_listed_once_on_average),
	KUNIT_CASE(a_range_in_two_walks_is_listed_once),
	KUNIT_CASE(a_listing_that_fails_keeps_the_rest),
	KUNIT_CASE(a_process_that_has_not_run_is_quiet),
	KUNIT_CASE(a_quiet_process_is_read_when_it_may_have_changed),
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
