// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that move by address space and whose TLB flush is deferred: the pages that
 * qualify, the state of the address space, and the old frames that are kept. D1 and so
 * on are the rules of Documentation/mm/tlb_defer.rst. Included by ../move_fast.c.
 *
 * No generation passes during a test (debugfs forever). The CPU mask of the address
 * space names a second CPU.
 */
#include "../../tlb_defer/tlb_defer.h"

/* Take rights to write away from all pages but the first @but. */
static void flight_write_protect(struct fast_scene *s, unsigned int but)
{
	unsigned int i;

	for (i = but; i < FAST_PAGES; i++)
		fast_set_pte(s, i, pte_wrprotect(fast_pte(s, i)));
}

static void flight_forget(void *unused)
{
	tlb_defer_forever_set = false;
	tlb_defer_set_mode(TLB_DEFER_OFF);
	tlb_defer_conf.held_limit_bp = 50;
}

/* The CPUs of the mask run the address space. */
static bool flight_nobody_else(const struct cpumask *cpus)
{
	return cpumask_any_but(cpus, raw_smp_processor_id()) >= nr_cpu_ids;
}

static int flight_init(struct kunit *test)
{
	unsigned int cpu = raw_smp_processor_id(), other;
	int ret = fast_init(test);

	/* On the other CPU nobody else would use the address space. */
	if (!ret)
		ret = set_cpus_allowed_ptr(current, cpumask_of(cpu));
	if (ret)
		return ret;
	tlb_defer_forever_set = true;
	ret = tlb_defer_set_mode(TLB_DEFER_QUARANTINE);
	if (ret)
		return ret;
	ret = kunit_add_action_or_reset(test, flight_forget, NULL);
	other = cpumask_any_but(cpu_online_mask, cpu);
	if (other >= nr_cpu_ids)
		kunit_skip(test, "one CPU");
	cpumask_set_cpu(other, mm_cpumask(current->mm));
	kunit_activate_static_stub(test, tlb_defer_nobody_else,
				   flight_nobody_else);
	return ret;
}

/* All move, and the flush of none waits: each is counted for a reason. */
static void flight_expect_flushed(struct kunit *test, enum vm_event_item why,
				  unsigned int nr)
{
	unsigned long pages = exact_event(TLB_DEFER_PAGES);
	unsigned long flushed = exact_event(TLB_DEFER_BATCH_FLUSHED);
	unsigned long refused = exact_event(why);
	struct fast_scene *s = test->priv;
	unsigned int i;

	fast_add_all(test, s);
	KUNIT_EXPECT_EQ(test, mtier_move_run(s->mv), FAST_PAGES);
	KUNIT_EXPECT_EQ(test, exact_event(TLB_DEFER_PAGES), pages);
	KUNIT_EXPECT_EQ(test, exact_event(TLB_DEFER_BATCH_FLUSHED), flushed + 1);
	KUNIT_EXPECT_EQ(test, exact_event(why), refused + nr);
	/* No flush is pending. */
	KUNIT_EXPECT_EQ(test, current->mm->tlb_defer.gen, 0);
	KUNIT_EXPECT_EQ(test, tlb_defer_held_pages(), 0);
	for (i = 0; i < FAST_PAGES; i++)
		fast_expect(test, s, i, s->to);
	if (s->to != s->nid)
		fast_expect_free(test, s->src[0]);
	fast_expect_counts(test, s, 0);
}

/* C */
static void read_only_pages_wait(struct kunit *test)
{
	unsigned long pages = exact_event(TLB_DEFER_PAGES);
	unsigned long deferred = exact_event(MTIER_FAST_DEFERRED);
	unsigned long clean = exact_event(TLB_DEFER_BATCH_CLEAN);
	struct fast_scene *s = test->priv;
	unsigned int i;

	flight_write_protect(s, 0);
	fast_add_all(test, s);
	KUNIT_EXPECT_EQ(test, mtier_move_run(s->mv), FAST_PAGES);
	KUNIT_EXPECT_EQ(test, exact_event(TLB_DEFER_PAGES), pages + FAST_PAGES);
	KUNIT_EXPECT_EQ(test, exact_event(MTIER_FAST_DEFERRED),
			deferred + FAST_PAGES);
	KUNIT_EXPECT_EQ(test, exact_event(TLB_DEFER_BATCH_CLEAN), clean + 1);
	KUNIT_EXPECT_NE(test, current->mm->tlb_defer.gen, 0);
	KUNIT_EXPECT_NE(test, current->mm->tlb_defer.gen, TLB_DEFER_UNSEALED);
	KUNIT_EXPECT_EQ(test, tlb_defer_held_pages(), FAST_PAGES);
	for (i = 0; i < FAST_PAGES; i++) {
		fast_expect(test, s, i, s->to);
		KUNIT_EXPECT_FALSE(test, pte_write(fast_pte(s, i)));
		KUNIT_EXPECT_EQ(test, folio_ref_count(s->src[i]), 1);
		KUNIT_EXPECT_EQ(test, folio_mapcount(s->src[i]), 0);
		KUNIT_EXPECT_FALSE(test, folio_test_lru(s->src[i]));
		KUNIT_EXPECT_FALSE(test, folio_test_locked(s->src[i]));
	}
	fast_expect_counts(test, s, 0);
	tlb_defer_flush_all(TLB_DEFER_STOP);
	KUNIT_EXPECT_EQ(test, tlb_defer_held_pages(), 0);
	for (i = 0; i < FAST_PAGES; i++)
		fast_expect_free(test, s->src[i]);
}

/* D1: the flush that it needs does for all. */
static void with_a_writable_page_none_waits(struct kunit *test)
{
	unsigned long joined = exact_event(TLB_DEFER_JOINED);
	struct fast_scene *s = test->priv;

	flight_write_protect(s, 1);
	flight_expect_flushed(test, TLB_DEFER_REFUSED_WRITE, 1);
	KUNIT_EXPECT_EQ(test, exact_event(TLB_DEFER_JOINED),
			joined + FAST_PAGES - 1);
}

/* Flushed, a page stays write-protected, so that it can be deferred the next time. */
static void a_flushed_page_stays_protected(struct kunit *test)
{
	unsigned long protected = exact_event(TLB_DEFER_PROTECTED);
	struct fast_scene *s = test->priv;

	flight_write_protect(s, 1);
	flight_expect_flushed(test, TLB_DEFER_REFUSED_WRITE, 1);
	KUNIT_EXPECT_FALSE(test, pte_write(fast_pte(s, 0)));
	KUNIT_EXPECT_TRUE(test, PageAnonExclusive(pte_page(fast_pte(s, 0))));
	KUNIT_EXPECT_EQ(test, exact_event(TLB_DEFER_PROTECTED), protected + 1);
}

static void after_too_many_stores_it_is_writable(struct kunit *test)
{
	unsigned long protected = exact_event(TLB_DEFER_PROTECTED);
	struct fast_scene *s = test->priv;

	current->mm->tlb_defer.protect.resume = (jiffies + 60 * HZ) | 1;
	flight_write_protect(s, 1);
	flight_expect_flushed(test, TLB_DEFER_REFUSED_WRITE, 1);
	current->mm->tlb_defer.protect.resume = 0;
	KUNIT_EXPECT_TRUE(test, pte_write(fast_pte(s, 0)));
	KUNIT_EXPECT_EQ(test, exact_event(TLB_DEFER_PROTECTED), protected);
}

/* D2: somebody has write-protected them, and not flushed yet. */
static void while_a_flush_is_pending_none_waits(struct kunit *test)
{
	struct fast_scene *s = test->priv;

	flight_write_protect(s, 0);
	inc_tlb_flush_pending(current->mm);
	flight_expect_flushed(test, TLB_DEFER_REFUSED_PENDING, FAST_PAGES);
	dec_tlb_flush_pending(current->mm);
}

/* D4 */
static void without_room_none_waits(struct kunit *test)
{
	struct fast_scene *s = test->priv;

	flight_write_protect(s, 0);
	tlb_defer_conf.held_limit_bp = 0;
	flight_expect_flushed(test, TLB_DEFER_REFUSED_FULL, FAST_PAGES);
}

/* The CPUs of the mask are idle. */
static bool flight_idle(const struct cpumask *cpus)
{
	return true;
}

static void nobody_is_interrupted_and_none_waits(struct kunit *test)
{
	unsigned long no_need = exact_event(TLB_DEFER_NO_NEED);
	unsigned long flushed = exact_event(TLB_DEFER_BATCH_FLUSHED);
	struct fast_scene *s = test->priv;

	kunit_activate_static_stub(test, tlb_defer_nobody_else, flight_idle);
	flight_write_protect(s, 0);
	fast_add_all(test, s);
	KUNIT_EXPECT_EQ(test, mtier_move_run(s->mv), FAST_PAGES);
	KUNIT_EXPECT_EQ(test, exact_event(TLB_DEFER_NO_NEED),
			no_need + FAST_PAGES);
	KUNIT_EXPECT_EQ(test, exact_event(TLB_DEFER_BATCH_FLUSHED), flushed);
	KUNIT_EXPECT_EQ(test, current->mm->tlb_defer.gen, 0);
	KUNIT_EXPECT_EQ(test, tlb_defer_held_pages(), 0);
	fast_expect_counts(test, s, 0);
}

/* A2: who gets such a page writable flushes first, and once. */
static void who_writes_has_it_flushed(struct kunit *test)
{
	struct fast_scene *s = test->priv;
	unsigned long forced;

	flight_write_protect(s, 0);
	fast_add_all(test, s);
	KUNIT_EXPECT_EQ(test, mtier_move_run(s->mv), FAST_PAGES);
	forced = exact_event(TLB_DEFER_FORCED_WRITE);
	KUNIT_EXPECT_TRUE(test, fast_fill(fast_at(s, 2), 2));
	KUNIT_EXPECT_TRUE(test, fast_fill(fast_at(s, 3), 3));
	KUNIT_EXPECT_EQ(test, exact_event(TLB_DEFER_FORCED_WRITE), forced + 1);
	KUNIT_EXPECT_EQ(test, current->mm->tlb_defer.gen, 0);
	fast_expect(test, s, 2, s->to);
}

/* A1, F25: a zap finds entries that no CPU can still have, or flushes. */
static void who_zaps_meanwhile_has_it_flushed(struct kunit *test)
{
	struct fast_scene *s = test->priv;
	unsigned long forced;

	flight_write_protect(s, 0);
	fast_add_all(test, s);
	fast_take_off(test, s);
	KUNIT_ASSERT_EQ(test, s->flight.nr, FAST_PAGES);
	KUNIT_EXPECT_FALSE(test, mm_tlb_flush_pending(current->mm));
	forced = exact_event(TLB_DEFER_FORCED_UNMAP);
	KUNIT_ASSERT_EQ(test, do_madvise(current->mm, fast_at(s, 3), PAGE_SIZE,
					 MADV_DONTNEED), 0);
	KUNIT_EXPECT_EQ(test, exact_event(TLB_DEFER_FORCED_UNMAP), forced + 1);
	KUNIT_EXPECT_EQ(test, fast_land(s), FAST_PAGES - 1);
	/* The old frame of the one that is gone waits like the others. */
	KUNIT_EXPECT_EQ(test, tlb_defer_held_pages(), FAST_PAGES);
	fast_expect_counts(test, s, 1);
}

/* ---- more than one page table ---- */

/* Pages of which the first half is in one page table, the rest in the next. */
static void flight_straddle(struct kunit *test, struct fast_scene *s)
{
	const size_t size = 3 * PMD_SIZE;
	unsigned int i;

	s->at = kunit_vm_mmap(test, NULL, 0, size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, 0);
	KUNIT_ASSERT_NE(test, s->at, 0);
	KUNIT_ASSERT_EQ(test, do_madvise(current->mm, s->at, size,
					 MADV_NOHUGEPAGE), 0);
	s->at = round_up(s->at, PMD_SIZE) + PMD_SIZE - FAST_PAGES / 2 * PAGE_SIZE;
	mmap_read_lock(current->mm);
	s->vma = vma_lookup(current->mm, s->at);
	mmap_read_unlock(current->mm);
	for (i = 0; i < FAST_PAGES; i++) {
		KUNIT_ASSERT_TRUE(test, fast_fill(fast_at(s, i), i));
		s->src[i] = fast_folio(fast_at(s, i));
	}
	lru_add_drain_all();
	fast_count(s);
}

/* A flush of all pages clears the note of the first page table. */
static void a_later_page_has_all_flushed(struct kunit *test)
{
	struct fast_scene *s = test->priv;

	flight_straddle(test, s);
	flight_write_protect(s, 0);
	fast_set_pte(s, FAST_PAGES - 1,
		     pte_mkwrite(fast_pte(s, FAST_PAGES - 1), s->vma));
	flight_expect_flushed(test, TLB_DEFER_REFUSED_WRITE, 1);
}

/* Somebody has had the first page table's flushed when the second one's turn comes. */
static bool flight_lock_flushes(struct folio *src)
{
	struct kunit *test = kunit_get_current_test();
	struct fast_scene *s = test->priv;

	if (src == s->src[FAST_PAGES / 2]) {
		KUNIT_EXPECT_EQ(test, current->mm->tlb_defer.gen,
				TLB_DEFER_UNSEALED);
		tlb_defer_flush_mm(current->mm, TLB_DEFER_SITE_UNMAP);
		KUNIT_EXPECT_EQ(test, current->mm->tlb_defer.gen, 0);
	}
	return folio_trylock(src);
}

static void what_comes_after_a_flush_is_noted_again(struct kunit *test)
{
	struct fast_scene *s = test->priv;

	flight_straddle(test, s);
	flight_write_protect(s, 0);
	kunit_activate_static_stub(test, mtier_fast_lock, flight_lock_flushes);
	fast_add_all(test, s);
	KUNIT_EXPECT_EQ(test, mtier_move_run(s->mv), FAST_PAGES);
	KUNIT_EXPECT_EQ(test, tlb_defer_held_pages(), FAST_PAGES);
	KUNIT_EXPECT_NE(test, current->mm->tlb_defer.gen, 0);
	fast_expect_counts(test, s, 0);
}

static struct kunit_case mtier_flight_cases[] = {
	KUNIT_CASE(read_only_pages_wait),
	KUNIT_CASE(with_a_writable_page_none_waits),
	KUNIT_CASE(a_flushed_page_stays_protected),
	KUNIT_CASE(after_too_many_stores_it_is_writable),
	KUNIT_CASE(while_a_flush_is_pending_none_waits),
	KUNIT_CASE(without_room_none_waits),
	KUNIT_CASE(nobody_is_interrupted_and_none_waits),
	KUNIT_CASE(who_writes_has_it_flushed),
	KUNIT_CASE(who_zaps_meanwhile_has_it_flushed),
	KUNIT_CASE(a_later_page_has_all_flushed),
	KUNIT_CASE(what_comes_after_a_flush_is_noted_again),
	{ }
};

static struct kunit_suite mtier_flight_suite = {
	.name = "mtier_flight",
	.init = flight_init,
	.exit = fast_exit,
	.test_cases = mtier_flight_cases,
};

kunit_test_suite(mtier_flight_suite);
