// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of races with the migration by address space. A test acts between freeze and
 * settle, in place of the other task of a race. F5 and so on are the hazards of
 * Documentation/mm/mtier.rst. Included by ../move_fast.c.
 */
#include <linux/completion.h>
#include <linux/kthread.h>

/* F5: MADV_DONTNEED, which does not wait for a VMA that is locked for reading. */
static void what_is_zapped_meanwhile_is_freed(struct kunit *test)
{
	struct fast_scene *s = test->priv;
	unsigned long value = 1;
	struct folio *dst;

	fast_add_all(test, s);
	fast_take_off(test, s);
	KUNIT_ASSERT_EQ(test, s->flight.nr, FAST_PAGES);
	dst = s->flight.page[3].dst;
	KUNIT_ASSERT_EQ(test, do_madvise(current->mm, fast_at(s, 3), PAGE_SIZE,
					 MADV_DONTNEED), 0);
	KUNIT_EXPECT_EQ(test, fast_land(s), FAST_PAGES - 1);
	KUNIT_EXPECT_EQ(test, s->mv->ended[MTIER_WHY_GONE], 1);
	fast_expect_free(test, dst);
	fast_expect_free(test, s->src[3]);
	fast_expect_counts(test, s, 1);
	KUNIT_EXPECT_EQ(test, get_user(value, (unsigned long __user *)
				       fast_at(s, 3)), 0);
	KUNIT_EXPECT_EQ(test, value, 0);
	fast_expect(test, s, 2, s->to);
	fast_expect(test, s, 4, s->to);
}

/* F5: the address is zapped and written again before the new page is mapped. */
static void what_is_used_anew_meanwhile_stays(struct kunit *test)
{
	struct fast_scene *s = test->priv;
	struct folio *fresh;

	fast_add_all(test, s);
	fast_take_off(test, s);
	KUNIT_ASSERT_EQ(test, do_madvise(current->mm, fast_at(s, 3), PAGE_SIZE,
					 MADV_DONTNEED), 0);
	KUNIT_ASSERT_TRUE(test, fast_fill(fast_at(s, 3), 7));
	fresh = fast_folio(fast_at(s, 3));
	KUNIT_EXPECT_EQ(test, fast_land(s), FAST_PAGES - 1);
	KUNIT_EXPECT_PTR_EQ(test, fast_folio(fast_at(s, 3)), fresh);
	fast_expect_counts(test, s, 0);
}

/* F6: UFFDIO_WRITEPROTECT, which takes mmap_lock only for reading. */
static void what_is_write_protected_meanwhile_stays_so(struct kunit *test)
{
	struct fast_scene *s = test->priv;
	swp_entry_t entry;
	pte_t pte;

	fast_add_all(test, s);
	fast_take_off(test, s);
	entry = pte_to_swp_entry(fast_pte(s, 5));
	KUNIT_ASSERT_TRUE(test, is_writable_migration_entry(entry));
	entry = make_readable_exclusive_migration_entry(swp_offset(entry));
	fast_set_pte(s, 5, pte_swp_mkuffd_wp(swp_entry_to_pte(entry)));
	KUNIT_EXPECT_EQ(test, fast_land(s), FAST_PAGES);
	pte = fast_pte(s, 5);
	KUNIT_EXPECT_FALSE(test, pte_write(pte));
	KUNIT_EXPECT_TRUE(test, pte_uffd_wp(pte));
	KUNIT_EXPECT_TRUE(test, pte_write(fast_pte(s, 6)));
}

/* F7: the entry of a frozen page is a migration entry, and never empty. */
static void entries_are_never_empty(struct kunit *test)
{
	struct fast_scene *s = test->priv;
	unsigned int i;

	fast_add_all(test, s);
	fast_take_off(test, s);
	for (i = 0; i < FAST_PAGES; i++) {
		pte_t pte = fast_pte(s, i);

		KUNIT_EXPECT_TRUE(test, is_swap_pte(pte));
		KUNIT_EXPECT_TRUE(test,
				  is_migration_entry(pte_to_swp_entry(pte)));
	}
	KUNIT_EXPECT_EQ(test, fast_land(s), FAST_PAGES);
}

/**
 * struct fast_reader - a thread that reads a frozen page
 * @s: the scene
 * @mm: address space of the test
 * @done: completed after the read
 * @value: the word that was read
 */
struct fast_reader {
	struct fast_scene *s;
	struct mm_struct *mm;
	struct completion done;
	unsigned long value;
};

static int fast_read(void *arg)
{
	struct fast_reader *r = arg;

	kthread_use_mm(r->mm);
	if (get_user(r->value, (unsigned long __user *)fast_at(r->s, 4)))
		r->value = 0;
	kthread_unuse_mm(r->mm);
	complete(&r->done);
	return 0;
}

/* F10: a task that waits for a frozen page is woken. */
static void who_waits_is_woken(struct kunit *test)
{
	struct fast_scene *s = test->priv;
	struct fast_reader r = { .s = s, .mm = current->mm };
	unsigned long until = jiffies + 60 * HZ;
	struct task_struct *task;

	init_completion(&r.done);
	fast_add_all(test, s);
	fast_take_off(test, s);
	task = kthread_run(fast_read, &r, "fast_reader");
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	while (!folio_test_waiters(s->src[4]) && time_before(jiffies, until))
		schedule_timeout_uninterruptible(1);
	KUNIT_EXPECT_TRUE(test, folio_test_waiters(s->src[4]));
	KUNIT_EXPECT_FALSE(test, completion_done(&r.done));
	KUNIT_EXPECT_EQ(test, fast_land(s), FAST_PAGES);
	KUNIT_ASSERT_NE(test, wait_for_completion_timeout(&r.done, 60 * HZ), 0);
	KUNIT_EXPECT_EQ(test, r.value, fast_word(4, 0));
}

/*
 * F11: a PFN walker such as compaction takes a reference to any frame with a nonzero
 * count, and isolates a page that is on an LRU list. Here two new frames get a
 * reference, and one of the two pages is zapped before the settle.
 */
static void who_holds_a_new_frame_keeps_it(struct kunit *test)
{
	struct fast_scene *s = test->priv;
	struct folio *arrives, *lost;

	fast_add_all(test, s);
	fast_take_off(test, s);
	KUNIT_ASSERT_EQ(test, s->flight.nr, FAST_PAGES);
	arrives = s->flight.page[3].dst;
	lost = s->flight.page[5].dst;
	KUNIT_ASSERT_TRUE(test, folio_try_get(arrives));
	KUNIT_ASSERT_TRUE(test, folio_try_get(lost));
	KUNIT_ASSERT_EQ(test, do_madvise(current->mm, fast_at(s, 5), PAGE_SIZE,
					 MADV_DONTNEED), 0);
	KUNIT_EXPECT_EQ(test, fast_land(s), FAST_PAGES - 1);
	KUNIT_EXPECT_EQ(test, folio_ref_count(arrives), 2);
	KUNIT_EXPECT_TRUE(test, folio_test_lru(arrives));
	KUNIT_EXPECT_EQ(test, folio_ref_count(lost), 1);
	KUNIT_EXPECT_FALSE(test, folio_test_lru(lost));
	KUNIT_EXPECT_FALSE(test, folio_test_locked(lost));
	folio_put(arrives);
	folio_put(lost);
	fast_expect(test, s, 3, s->to);
	fast_expect_free(test, lost);
	fast_expect_counts(test, s, 1);
}

/* ---- while pages are copied ---- */

static int fast_copy_held(struct folio *dst, struct folio *src)
{
	struct kunit *test = kunit_get_current_test();
	struct fast_scene *s = test->priv;

	KUNIT_EXPECT_TRUE(test, fast_vma_is_held(s));
	KUNIT_EXPECT_EQ(test, atomic_read(&current->mm->mm_users),
			s->users + 1);
	s->copies++;
	return copy_mc_highpage(&dst->page, &src->page);
}

/* F3, F15: fork and khugepaged write-lock the VMA. F16: exit needs mm_users of 0. */
static void whose_pages_move_is_held_to_the_end(struct kunit *test)
{
	struct fast_scene *s = test->priv;
	enum mtier_why why = MTIER_MAY;

	kunit_activate_static_stub(test, mtier_fast_copy, fast_copy_held);
	KUNIT_EXPECT_FALSE(test, fast_vma_is_held(s));
	KUNIT_ASSERT_NOT_NULL(test, mtier_guard_at(&s->mv->guard, current->mm,
						   s->at, &why));
	fast_add_all(test, s);
	KUNIT_EXPECT_TRUE(test, fast_vma_is_held(s));
	KUNIT_EXPECT_EQ(test, mtier_move_run(s->mv), FAST_PAGES);
	KUNIT_EXPECT_EQ(test, s->copies, FAST_PAGES);
	KUNIT_EXPECT_FALSE(test, fast_vma_is_held(s));
	KUNIT_EXPECT_EQ(test, atomic_read(&current->mm->mm_users), s->users);
}

/* Check that the page table that maps a page of the test is unlocked. */
static bool fast_table_is_free(const struct fast_scene *s, unsigned int i)
{
	pmd_t *pmd = mm_find_pmd(current->mm, fast_at(s, i) & PMD_MASK);
	spinlock_t *ptl = pte_lockptr(current->mm, pmd);
	int got = spin_trylock(ptl);

	/* Sparse assumes that the trylock succeeded. */
	__release(ptl);
	if (!got)
		return false;
	__acquire(ptl);
	spin_unlock(ptl);
	return true;
}

static int fast_copy_bothers(struct folio *dst, struct folio *src)
{
	struct kunit *test = kunit_get_current_test();
	struct fast_scene *s = test->priv;

	KUNIT_EXPECT_PTR_EQ(test, src, s->src[s->copies]);
	/* F20: neither the page table lock nor the LRU lock is held */
	KUNIT_EXPECT_TRUE(test, fast_table_is_free(s, s->copies));
	KUNIT_EXPECT_FALSE(test, irqs_disabled());
	/* F22: reclaim is throttled if too many pages are isolated. */
	KUNIT_EXPECT_EQ(test, exact_node_stat(s->nid, NR_ISOLATED_ANON),
			s->isolated);
	s->copies++;
	return copy_mc_highpage(&dst->page, &src->page);
}

static void a_copy_keeps_nobody_waiting(struct kunit *test)
{
	struct fast_scene *s = test->priv;

	kunit_activate_static_stub(test, mtier_fast_copy, fast_copy_bothers);
	fast_add_all(test, s);
	KUNIT_EXPECT_EQ(test, mtier_move_run(s->mv), FAST_PAGES);
	KUNIT_EXPECT_EQ(test, s->copies, FAST_PAGES);
}

/* ---- flushes ---- */

static void fast_flush_looked_at(const struct mtier_flight *flight)
{
	struct kunit *test = kunit_get_current_test();

	/* F25: a zap that ends now finds this, and flushes. */
	KUNIT_EXPECT_TRUE(test, mm_tlb_flush_pending(flight->mm));
	KUNIT_EXPECT_EQ(test, flight->nr, FAST_PAGES);
	KUNIT_EXPECT_EQ(test, flight->end - flight->start,
			FAST_PAGES * PAGE_SIZE);
	((struct fast_scene *)test->priv)->rss += 1000;
	flush_tlb_mm(flight->mm);
}

static void a_flush_is_pending_until_it_is_done(struct kunit *test)
{
	struct fast_scene *s = test->priv;
	long rss = s->rss;

	kunit_activate_static_stub(test, mtier_flight_flush,
				   fast_flush_looked_at);
	fast_add_all(test, s);
	KUNIT_EXPECT_EQ(test, mtier_move_run(s->mv), FAST_PAGES);
	/* One flush for all pages */
	KUNIT_EXPECT_EQ(test, s->rss, rss + 1000);
	KUNIT_EXPECT_FALSE(test, mm_tlb_flush_pending(current->mm));
}

/* ---- machine checks ---- */

static int fast_copy_fails(struct folio *dst, struct folio *src)
{
	struct fast_scene *s = kunit_get_current_test()->priv;

	if (src == s->src[2] || src == s->src[6])
		return -EHWPOISON;
	return copy_mc_highpage(&dst->page, &src->page);
}

/* F17: a page whose copy fails stays in place. */
static void what_cannot_be_copied_is_put_back(struct kunit *test)
{
	struct fast_scene *s = test->priv;
	unsigned long poison = exact_event(MTIER_FAST_POISON);
	pte_t before = fast_pte(s, 2);

	kunit_activate_static_stub(test, mtier_fast_copy, fast_copy_fails);
	fast_add_all(test, s);
	fast_take_off(test, s);
	KUNIT_ASSERT_EQ(test, s->flight.nr, FAST_PAGES);
	/* One of the two pages is unmapped before the copy. */
	KUNIT_ASSERT_EQ(test, do_madvise(current->mm, fast_at(s, 6), PAGE_SIZE,
					 MADV_DONTNEED), 0);
	KUNIT_EXPECT_EQ(test, fast_land(s), FAST_PAGES - 2);
	KUNIT_EXPECT_EQ(test, s->mv->ended[MTIER_WHY_BUSY], 2);
	KUNIT_EXPECT_EQ(test, exact_event(MTIER_FAST_POISON), poison + 2);
	fast_expect(test, s, 2, s->nid);
	KUNIT_EXPECT_TRUE(test, PageAnonExclusive(&s->src[2]->page));
	KUNIT_EXPECT_EQ(test, pte_val(fast_pte(s, 2)), pte_val(before));
	fast_expect_free(test, s->src[6]);
	fast_expect(test, s, 3, s->to);
	fast_expect_counts(test, s, 1);
}

/* F21: memory_failure() gives up, and the frame is not allocated again. */
static void a_frame_that_fails_meanwhile_is_not_used_again(struct kunit *test)
{
	struct fast_scene *s = test->priv;
	unsigned long pfn = folio_pfn(s->src[2]);

	if (!IS_ENABLED(CONFIG_MEMORY_FAILURE))
		kunit_skip(test, "no CONFIG_MEMORY_FAILURE");
	fast_add_all(test, s);
	fast_take_off(test, s);
	KUNIT_ASSERT_EQ(test, s->flight.nr, FAST_PAGES);
	KUNIT_EXPECT_NE(test, memory_failure(pfn, MF_SW_SIMULATED), 0);
	KUNIT_EXPECT_EQ(test, fast_land(s), FAST_PAGES);
	fast_expect(test, s, 2, s->to);
	KUNIT_EXPECT_EQ(test, folio_ref_count(s->src[2]), 0);
	KUNIT_EXPECT_FALSE(test, folio_test_locked(s->src[2]));
	KUNIT_EXPECT_TRUE(test, folio_test_hwpoison(s->src[2]));
	/* The frame is not in a per-CPU list either. */
	drain_all_pages(folio_zone(s->src[2]));
	KUNIT_EXPECT_FALSE(test, is_free_buddy_page(&s->src[2]->page));
	fast_expect_counts(test, s, 0);
	unpoison_memory(pfn);
}

/* ---- secondary MMUs ---- */

/**
 * struct fast_mmu - a secondary MMU that records its notifications
 * @mn: its notifier
 * @nr: number of ranges so far
 * @from: start of each range
 * @to: end of each range
 * @open: ranges that have started and not ended
 */
struct fast_mmu {
	struct mmu_notifier mn;
	unsigned int nr;
	unsigned long from[FAST_PAGES];
	unsigned long to[FAST_PAGES];
	int open;
};

static int fast_mmu_start(struct mmu_notifier *mn,
			  const struct mmu_notifier_range *range)
{
	struct fast_mmu *mmu = container_of(mn, struct fast_mmu, mn);

	if (mmu->nr < FAST_PAGES) {
		mmu->from[mmu->nr] = range->start;
		mmu->to[mmu->nr] = range->end;
	}
	mmu->nr++;
	mmu->open++;
	return 0;
}

static void fast_mmu_end(struct mmu_notifier *mn,
			 const struct mmu_notifier_range *range)
{
	container_of(mn, struct fast_mmu, mn)->open--;
}

static const struct mmu_notifier_ops fast_mmu_ops = {
	.invalidate_range_start = fast_mmu_start,
	.invalidate_range_end = fast_mmu_end,
};

/* F18: notified of each page before it migrates, and of no other page. */
static void a_secondary_mmu_is_told_of_runs(struct kunit *test)
{
	struct fast_mmu mmu = { .mn.ops = &fast_mmu_ops };
	static const unsigned int pages[] = { 0, 1, 2, 5, 7 };
	struct fast_scene *s = test->priv;
	unsigned int i;

	KUNIT_ASSERT_EQ(test, mmu_notifier_register(&mmu.mn, current->mm), 0);
	for (i = 0; i < ARRAY_SIZE(pages); i++)
		fast_add(test, s, pages[i]);
	KUNIT_EXPECT_EQ(test, mtier_move_run(s->mv), ARRAY_SIZE(pages));
	mmu_notifier_unregister(&mmu.mn, current->mm);
	KUNIT_ASSERT_EQ(test, mmu.nr, 3);
	KUNIT_EXPECT_EQ(test, mmu.open, 0);
	KUNIT_EXPECT_EQ(test, mmu.from[0], fast_at(s, 0));
	KUNIT_EXPECT_EQ(test, mmu.to[0], fast_at(s, 3));
	KUNIT_EXPECT_EQ(test, mmu.from[1], fast_at(s, 5));
	KUNIT_EXPECT_EQ(test, mmu.to[1], fast_at(s, 6));
	KUNIT_EXPECT_EQ(test, mmu.from[2], fast_at(s, 7));
	KUNIT_EXPECT_EQ(test, mmu.to[2], fast_at(s, 8));
	fast_expect_counts(test, s, 0);
}

static struct kunit_case mtier_meanwhile_cases[] = {
	KUNIT_CASE(what_is_zapped_meanwhile_is_freed),
	KUNIT_CASE(what_is_used_anew_meanwhile_stays),
	KUNIT_CASE(what_is_write_protected_meanwhile_stays_so),
	KUNIT_CASE(entries_are_never_empty),
	KUNIT_CASE(who_waits_is_woken),
	KUNIT_CASE(who_holds_a_new_frame_keeps_it),
	KUNIT_CASE(whose_pages_move_is_held_to_the_end),
	KUNIT_CASE(a_copy_keeps_nobody_waiting),
	KUNIT_CASE(a_flush_is_pending_until_it_is_done),
	KUNIT_CASE(what_cannot_be_copied_is_put_back),
	KUNIT_CASE(a_frame_that_fails_meanwhile_is_not_used_again),
	KUNIT_CASE(a_secondary_mmu_is_told_of_runs),
	{ }
};

static struct kunit_suite mtier_meanwhile_suite = {
	.name = "mtier_meanwhile",
	.init = fast_init,
	.exit = fast_exit,
	.test_cases = mtier_meanwhile_cases,
};

kunit_test_suite(mtier_meanwhile_suite);
