// SPDX-License-Identifier: GPL-2.0
/*
 * The list of address spaces: exit at every moment, no reference left.
 * Included by ../mm_slot.c.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/kthread.h>

static int slots_init(struct kunit *test)
{
	mutex_lock(&mtier_mutex);
	if (mtier_on()) {
		mutex_unlock(&mtier_mutex);
		kunit_skip(test, "promotion is switched on");
	}
	test->priv = test;
	return mtier_slots_start();
}

static void slots_exit(struct kunit *test)
{
	if (!test->priv)
		return;
	mtier_slots_stop();
	mutex_unlock(&mtier_mutex);
}

static struct mm_struct *new_mm(struct kunit *test)
{
	struct mm_struct *mm = mm_alloc();

	KUNIT_ASSERT_NOT_NULL(test, mm);
	return mm;
}

static ktime_t far_future(void)
{
	return ktime_add_ms(ktime_get(), 10ULL * MSEC_PER_SEC * 3600);
}

/* How many of the address spaces does a walk over all meet? */
static int slots_met(ktime_t now, struct mm_struct **mm, int nr)
{
	struct mtier_slot *slot = NULL;
	int i, met = 0;

	while ((slot = mtier_slot_after(slot, now)))
		for (i = 0; i < nr; i++)
			met += slot->mm == mm[i];
	return met;
}

static void a_new_mm_waits_for_the_delay(struct kunit *test)
{
	struct mm_struct *mm = new_mm(test);
	ktime_t start = ktime_get();

	__mtier_add_mm(mm);
	KUNIT_EXPECT_EQ(test, mtier_slots_count(), 1);
	KUNIT_EXPECT_GE(test, mm->mtier_slot->not_before,
			ktime_add_ms(start, mtier_conf.delay_ms));
	KUNIT_EXPECT_EQ(test, slots_met(start - 1, &mm, 1), 0);
	KUNIT_EXPECT_EQ(test, slots_met(far_future(), &mm, 1), 1);
	__mtier_del_mm(mm);
	KUNIT_EXPECT_EQ(test, mtier_slots_count(), 0);
	mmput(mm);
}

static void adding_twice_is_adding_once(struct kunit *test)
{
	struct mm_struct *mm = new_mm(test);
	int refs = atomic_read(&mm->mm_count);

	__mtier_add_mm(mm);
	__mtier_add_mm(mm);
	KUNIT_EXPECT_EQ(test, mtier_slots_count(), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&mm->mm_count), refs + 1);
	__mtier_del_mm(mm);
	__mtier_del_mm(mm);
	KUNIT_EXPECT_EQ(test, mtier_slots_count(), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&mm->mm_count), refs);
	mmput(mm);
}

static void exit_under_a_burst_frees_later(struct kunit *test)
{
	struct mm_struct *mm = new_mm(test);
	int refs = atomic_read(&mm->mm_count);
	struct mtier_slot *slot;

	__mtier_add_mm(mm);
	slot = mtier_slot_after(NULL, far_future());
	KUNIT_ASSERT_NOT_NULL(test, slot);
	__mtier_del_mm(mm);
	KUNIT_EXPECT_NULL(test, mm->mtier_slot);
	KUNIT_EXPECT_EQ(test, mtier_slots_count(), 0);
	KUNIT_EXPECT_EQ(test, slots_met(far_future(), &mm, 1), 0);
	/* The burst still holds it. */
	KUNIT_EXPECT_EQ(test, atomic_read(&mm->mm_count), refs + 1);
	mtier_slot_put(slot);
	KUNIT_EXPECT_EQ(test, atomic_read(&mm->mm_count), refs);
	KUNIT_EXPECT_NULL(test, mtier_slot_after(NULL, far_future()));
	mmput(mm);
}

static void all_are_met_but_the_new_ones(struct kunit *test)
{
	struct mm_struct *mm[3];
	int i;

	for (i = 0; i < 3; i++) {
		mm[i] = new_mm(test);
		__mtier_add_mm(mm[i]);
	}
	KUNIT_EXPECT_EQ(test, slots_met(0, mm, 3), 0);
	KUNIT_EXPECT_EQ(test, slots_met(far_future(), mm, 3), 3);
	__mtier_del_mm(mm[1]);
	KUNIT_EXPECT_EQ(test, slots_met(far_future(), mm, 3), 2);
	__mtier_del_mm(mm[0]);
	__mtier_del_mm(mm[2]);
	KUNIT_EXPECT_EQ(test, slots_met(far_future(), mm, 3), 0);
	for (i = 0; i < 3; i++)
		mmput(mm[i]);
}

static void a_walk_goes_on_from_who_exits(struct kunit *test)
{
	struct mm_struct *mm[2] = { new_mm(test), new_mm(test) };
	int refs = atomic_read(&mm[0]->mm_count);
	struct mtier_slot *slot;

	__mtier_add_mm(mm[0]);
	__mtier_add_mm(mm[1]);
	slot = mtier_slot_after(NULL, far_future());
	KUNIT_ASSERT_NOT_NULL(test, slot);
	KUNIT_EXPECT_PTR_EQ(test, slot->mm, mm[0]);
	mtier_slot_get(slot);
	__mtier_del_mm(mm[0]);
	KUNIT_EXPECT_EQ(test, atomic_read(&mm[0]->mm_count), refs + 1);
	mtier_slot_put(slot);
	KUNIT_EXPECT_EQ(test, atomic_read(&mm[0]->mm_count), refs + 1);
	slot = mtier_slot_after(slot, far_future());
	KUNIT_EXPECT_EQ(test, atomic_read(&mm[0]->mm_count), refs);
	KUNIT_ASSERT_NOT_NULL(test, slot);
	KUNIT_EXPECT_PTR_EQ(test, slot->mm, mm[1]);
	mtier_slot_put(slot);
	__mtier_del_mm(mm[1]);
	mmput(mm[0]);
	mmput(mm[1]);
}

/**
 * struct slots_exiting - an exit in a thread
 * @mm: the mm that exits
 * @done: completed when it has
 */
struct slots_exiting {
	struct mm_struct *mm;
	struct completion done;
};

static int slots_exit_fn(void *arg)
{
	struct slots_exiting *e = arg;

	__mtier_del_mm(e->mm);
	complete(&e->done);
	return 0;
}

/* Start an exit, and return when it waits or is done. */
static void slots_start_exit(struct kunit *test, struct slots_exiting *e)
{
	struct task_struct *task;

	init_completion(&e->done);
	task = kthread_create(slots_exit_fn, e, "mtier_exit");
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	get_task_struct(task);
	wake_up_process(task);
	while (e->mm->mtier_slot || (!completion_done(&e->done) &&
				     READ_ONCE(task->__state) != TASK_UNINTERRUPTIBLE))
		schedule_timeout_uninterruptible(1);
	put_task_struct(task);
}

static void exit_waits_for_who_is_inside(struct kunit *test)
{
	struct slots_exiting e = { .mm = new_mm(test) };
	int refs = atomic_read(&e.mm->mm_count);
	struct mtier_slot *slot;

	__mtier_add_mm(e.mm);
	slot = mtier_slot_after(NULL, far_future());
	KUNIT_ASSERT_NOT_NULL(test, slot);
	KUNIT_EXPECT_TRUE(test, mtier_slot_enter(slot));
	KUNIT_EXPECT_TRUE(test, mtier_slot_enter(slot));
	mtier_slot_leave(slot);
	KUNIT_EXPECT_TRUE(test, mtier_slot_pause(slot));
	slots_start_exit(test, &e);
	KUNIT_EXPECT_FALSE(test, completion_done(&e.done));
	KUNIT_EXPECT_FALSE(test, mtier_slot_enter(slot));
	/* Between two steps kmtierd gives way. */
	KUNIT_EXPECT_FALSE(test, mtier_slot_pause(slot));
	wait_for_completion(&e.done);
	KUNIT_EXPECT_EQ(test, slot->inside, 0);
	mtier_slot_put(slot);
	KUNIT_EXPECT_EQ(test, atomic_read(&e.mm->mm_count), refs);
	mmput(e.mm);
}

static void a_batch_holds_with_a_slot_or_without(struct kunit *test)
{
	struct slots_exiting e = { .mm = new_mm(test) };
	int users = atomic_read(&e.mm->mm_users);
	struct mtier_hold hold;

	KUNIT_EXPECT_TRUE(test, mtier_hold(&hold, e.mm));
	KUNIT_EXPECT_EQ(test, atomic_read(&e.mm->mm_users), users + 1);
	mtier_release(&hold);
	KUNIT_EXPECT_EQ(test, atomic_read(&e.mm->mm_users), users);

	__mtier_add_mm(e.mm);
	KUNIT_EXPECT_TRUE(test, mtier_hold(&hold, e.mm));
	KUNIT_EXPECT_EQ(test, atomic_read(&e.mm->mm_users), users);
	slots_start_exit(test, &e);
	KUNIT_EXPECT_FALSE(test, completion_done(&e.done));
	mtier_release(&hold);
	wait_for_completion(&e.done);
	mmput(e.mm);
}

static void a_closed_list_takes_nobody(struct kunit *test)
{
	struct mm_struct *mm = new_mm(test);
	int refs = atomic_read(&mm->mm_count);

	__mtier_add_mm(mm);
	mtier_slots_stop();
	KUNIT_EXPECT_NULL(test, mm->mtier_slot);
	KUNIT_EXPECT_EQ(test, atomic_read(&mm->mm_count), refs);
	__mtier_add_mm(mm);
	KUNIT_EXPECT_NULL(test, mm->mtier_slot);
	KUNIT_EXPECT_EQ(test, mtier_slots_count(), 0);
	mmput(mm);
}

static struct kunit_case mtier_mm_slot_cases[] = {
	KUNIT_CASE(a_new_mm_waits_for_the_delay),
	KUNIT_CASE(adding_twice_is_adding_once),
	KUNIT_CASE(exit_under_a_burst_frees_later),
	KUNIT_CASE(all_are_met_but_the_new_ones),
	KUNIT_CASE(a_walk_goes_on_from_who_exits),
	KUNIT_CASE(exit_waits_for_who_is_inside),
	KUNIT_CASE(a_batch_holds_with_a_slot_or_without),
	KUNIT_CASE(a_closed_list_takes_nobody),
	{ }
};

static struct kunit_suite mtier_mm_slot_suite = {
	.name = "mtier_mm_slot",
	.init = slots_init,
	.exit = slots_exit,
	.test_cases = mtier_mm_slot_cases,
};

kunit_test_suite(mtier_mm_slot_suite);
