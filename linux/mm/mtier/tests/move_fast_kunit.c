// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the migration by address space: the pages that it accepts, their state
 * afterwards, and the result for other pages. F1 and so on are the hazards of
 * Documentation/mm/mtier.rst. Included by ../move_fast.c.
 */
#include "move_fast_scene.h"

/* ---- successful migrations ---- */

static void all_move(struct kunit *test)
{
	struct fast_scene *s = test->priv;
	long lru = exact_node_stat(s->to, NR_INACTIVE_ANON) +
		   exact_node_stat(s->to, NR_ACTIVE_ANON);
	long promoted = exact_node_stat(s->to, PGPROMOTE_SUCCESS);
	unsigned long moved = exact_event(MTIER_FAST_MOVED);
	struct mem_cgroup *memcg = folio_memcg(s->src[0]);
	unsigned int i;

	fast_add_all(test, s);
	KUNIT_EXPECT_EQ(test, mtier_move_run(s->mv), FAST_PAGES);
	for (i = 0; i < FAST_PAGES; i++) {
		struct folio *folio = fast_folio(fast_at(s, i));

		fast_expect(test, s, i, s->to);
		KUNIT_EXPECT_TRUE(test, PageAnonExclusive(&folio->page));
		/* F12 */
		KUNIT_EXPECT_PTR_EQ(test, folio_memcg(folio), memcg);
		KUNIT_EXPECT_TRUE(test, pte_write(fast_pte(s, i)));
		if (s->to != s->nid)
			fast_expect_free(test, s->src[i]);
	}
	fast_expect_counts(test, s, 0);
	KUNIT_EXPECT_EQ(test, exact_event(MTIER_FAST_MOVED),
			moved + FAST_PAGES);
	KUNIT_EXPECT_EQ(test, exact_node_stat(s->to, PGPROMOTE_SUCCESS),
			promoted + FAST_PAGES);
	KUNIT_EXPECT_EQ(test, exact_node_stat(s->to, NR_INACTIVE_ANON) +
			exact_node_stat(s->to, NR_ACTIVE_ANON),
			lru + FAST_PAGES);
}

/* A demotion is not counted as a promotion, nor as isolated pages. */
static void so_they_do_down(struct kunit *test)
{
	struct fast_scene *s = test->priv;
	long promoted = exact_node_stat(s->to, PGPROMOTE_SUCCESS);
	unsigned long demoted = exact_event(MTIER_DEMOTED);
	long isolated = exact_node_stat(s->nid, NR_ISOLATED_ANON);
	unsigned int i;

	mtier_guard_end(&s->mv->guard);
	mtier_move_begin(s->mv, s->nid, s->to, true, FAST_PAGES);
	fast_add_all(test, s);
	KUNIT_EXPECT_EQ(test, mtier_move_run(s->mv), FAST_PAGES);
	for (i = 0; i < FAST_PAGES; i++)
		fast_expect(test, s, i, s->to);
	fast_expect_counts(test, s, 0);
	KUNIT_EXPECT_EQ(test, exact_event(MTIER_DEMOTED), demoted + FAST_PAGES);
	KUNIT_EXPECT_EQ(test, exact_node_stat(s->to, PGPROMOTE_SUCCESS),
			promoted);
	/* F22 */
	KUNIT_EXPECT_EQ(test, exact_node_stat(s->nid, NR_ISOLATED_ANON),
			isolated);
}

/* F24: frames that were allocated for pages that could not be frozen are freed. */
static void frames_that_are_left_go_back(struct kunit *test)
{
	struct fast_scene *s = test->priv;

	fast_add_all(test, s);
	folio_lock(s->src[1]);
	mtier_fast_run(s->mv);
	folio_unlock(s->src[1]);
	KUNIT_EXPECT_EQ(test, s->mv->fast->nr, FAST_PAGES - 1);
	KUNIT_EXPECT_EQ(test, s->mv->fast->nr_frames, 0);
	KUNIT_EXPECT_NULL(test, s->mv->fast->frame[0]);
	s->mv->fast->nr = 0;
	KUNIT_EXPECT_EQ(test, mtier_move_run(s->mv), 1);
	lru_add_drain_all();
	fast_expect(test, s, 1, s->to);
}

/*
 * F24: with page_owner, or if free memory is low, a bulk allocation returns one
 * frame. The flight is migrated as a whole in this case also.
 */
static void frames_may_come_one_by_one(struct kunit *test)
{
	struct fast_scene *s = test->priv;
	struct page *frame[FAST_PAGES] = {};
	unsigned int got;

	if (s->to == s->nid)
		kunit_skip(test, "one node");
	fast_add_all(test, s);
	fast_raise_watermarks(s, WMARK_LOW, true);
	got = alloc_pages_bulk_array_node(MOVE_TARGET_GFP, s->to, FAST_PAGES,
					  frame);
	mtier_fast_frames(s->mv->fast, s->to, FAST_PAGES);
	fast_raise_watermarks(s, WMARK_LOW, false);
	KUNIT_EXPECT_EQ(test, got, 1);
	while (got)
		__free_page(frame[--got]);
	KUNIT_EXPECT_EQ(test, s->mv->fast->nr_frames, FAST_PAGES);
	KUNIT_EXPECT_EQ(test, mtier_move_run(s->mv), FAST_PAGES);
	KUNIT_EXPECT_EQ(test, s->mv->nr_listed, 0);
	fast_expect_counts(test, s, 0);
}

/* F8, F19: the new entry has the same bits, but a hint entry is accessible. */
static void entries_keep_their_bits(struct kunit *test)
{
	struct fast_scene *s = test->priv;
	pte_t before[4];
	unsigned int i;

	fast_set_pte(s, 0, pte_wrprotect(fast_pte(s, 0)));
	fast_set_pte(s, 1, pte_mkold(pte_clear_soft_dirty(fast_pte(s, 1))));
	fast_set_pte(s, 2, pte_mkuffd_wp(pte_wrprotect(fast_pte(s, 2))));
	fast_set_pte(s, 3, pte_modify(fast_pte(s, 3), PAGE_NONE));
	/* The dirty state of a page must only come from its entry. */
	for (i = 0; i < ARRAY_SIZE(before); i++)
		before[i] = fast_pte(s, i);
	fast_add_all(test, s);
	KUNIT_EXPECT_EQ(test, mtier_move_run(s->mv), FAST_PAGES);
	for (i = 0; i < 3; i++) {
		pte_t after = fast_pte(s, i);

		KUNIT_EXPECT_NE(test, pte_pfn(after), pte_pfn(before[i]));
		KUNIT_EXPECT_EQ_MSG(test, pgprot_val(pte_pgprot(after)),
				    pgprot_val(pte_pgprot(before[i])),
				    "page %u", i);
		KUNIT_EXPECT_EQ(test, pte_write(after), pte_write(before[i]));
		KUNIT_EXPECT_EQ(test, pte_young(after), pte_young(before[i]));
		KUNIT_EXPECT_EQ(test, pte_soft_dirty(after),
				pte_soft_dirty(before[i]));
		KUNIT_EXPECT_EQ(test, pte_uffd_wp(after),
				pte_uffd_wp(before[i]));
	}
	KUNIT_EXPECT_TRUE(test, pte_protnone(before[3]));
	KUNIT_EXPECT_FALSE(test, pte_protnone(fast_pte(s, 3)));
	KUNIT_EXPECT_TRUE(test, pte_present(fast_pte(s, 3)));
	fast_expect_counts(test, s, 0);
}

/* A page without AnonExclusive stays so, as after the exit of the last sharer. */
static void exclusive_is_not_made_up(struct kunit *test)
{
	struct fast_scene *s = test->priv;
	struct folio *folio;

	fast_set_pte(s, 1, pte_wrprotect(fast_pte(s, 1)));
	ClearPageAnonExclusive(&s->src[1]->page);
	fast_add_all(test, s);
	KUNIT_EXPECT_EQ(test, mtier_move_run(s->mv), FAST_PAGES);
	folio = fast_folio(fast_at(s, 1));
	KUNIT_EXPECT_FALSE(test, PageAnonExclusive(&folio->page));
	KUNIT_EXPECT_FALSE(test, pte_write(fast_pte(s, 1)));
	folio = fast_folio(fast_at(s, 2));
	KUNIT_EXPECT_TRUE(test, PageAnonExclusive(&folio->page));
}

/* ---- pages that are not accepted ---- */

/* F13: set the tag of KSM, as ksmd does with the page locked, or remove it. */
static void fast_set_ksm(struct folio *folio, bool ksm)
{
	unsigned long mapping = (unsigned long)folio->mapping;

	mapping &= ~PAGE_MAPPING_FLAGS;
	mapping |= ksm ? PAGE_MAPPING_KSM : PAGE_MAPPING_ANON;
	WRITE_ONCE(folio->mapping, (struct address_space *)mapping);
}

static void other_kinds_are_not_wanted(struct kunit *test)
{
	struct fast_scene *s = test->priv;
	unsigned long kind = exact_event(MTIER_FAST_KIND);
	struct folio *folio = s->src[0];
	vm_flags_t shared[] = { VM_SHARED, VM_LOCKED, VM_DROPPABLE };
	struct vm_area_struct vma = *s->vma;
	unsigned int i;

	KUNIT_EXPECT_TRUE(test, mtier_fast_wants(s->mv, folio, s->vma));
	for (i = 0; i < ARRAY_SIZE(shared); i++) {
		vm_flags_init(&vma, s->vma->vm_flags | shared[i]);
		KUNIT_EXPECT_EQ(test, mtier_fast_wants(s->mv, folio, &vma),
				!shared[i]);
	}
	/* F4: mapped twice */
	atomic_inc(&folio->_mapcount);
	KUNIT_EXPECT_FALSE(test, mtier_fast_wants(s->mv, folio, s->vma));
	atomic_dec(&folio->_mapcount);
	fast_set_ksm(folio, true);
	KUNIT_EXPECT_FALSE(test, mtier_fast_wants(s->mv, folio, s->vma));
	fast_set_ksm(folio, false);
	/* F21 */
	if (IS_ENABLED(CONFIG_MEMORY_FAILURE)) {
		folio_set_hwpoison(folio);
		KUNIT_EXPECT_FALSE(test,
				   mtier_fast_wants(s->mv, folio, s->vma));
		folio_clear_hwpoison(folio);
	}
	/* F9, F14 */
	folio_set_mlocked(folio);
	KUNIT_EXPECT_FALSE(test, mtier_fast_wants(s->mv, folio, s->vma));
	folio_clear_mlocked(folio);
	if (IS_ENABLED(CONFIG_SWAP)) {
		folio_set_swapcache(folio);
		KUNIT_EXPECT_FALSE(test,
				   mtier_fast_wants(s->mv, folio, s->vma));
		folio_clear_swapcache(folio);
	}
	KUNIT_EXPECT_GE(test, exact_event(MTIER_FAST_KIND), kind + 5);
	KUNIT_EXPECT_TRUE(test, mtier_fast_wants(s->mv, folio, s->vma));
}

/* Map a huge page by page table entries, and get its folio. NULL if that fails. */
static struct folio *fast_large(struct kunit *test, struct vm_area_struct **vma)
{
	unsigned long at;

	at = kunit_vm_mmap(test, NULL, 0, 2 * HPAGE_PMD_SIZE,
			   PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   0);
	if (!at)
		return NULL;
	mmap_write_lock(current->mm);
	*vma = vma_lookup(current->mm, at);
	vm_flags_set(*vma, VM_HUGEPAGE);
	mmap_write_unlock(current->mm);
	at = ALIGN(at, HPAGE_PMD_SIZE);
	if (!fast_fill(at, 0))
		return NULL;
	mmap_read_lock(current->mm);
	split_huge_pmd_address(*vma, at, false, NULL);
	mmap_read_unlock(current->mm);
	lru_add_drain_all();
	return fast_folio(at);
}

/* F15: a large folio that passes all checks except that of its size. */
static void a_large_one_is_not_wanted(struct kunit *test)
{
	struct fast_scene *s = test->priv;
	struct vm_area_struct *vma;
	struct folio *folio;

	if (!IS_ENABLED(CONFIG_TRANSPARENT_HUGEPAGE))
		kunit_skip(test, "no huge pages");
	folio = fast_large(test, &vma);
	KUNIT_ASSERT_NOT_NULL(test, folio);
	KUNIT_ASSERT_TRUE(test, folio_test_large(folio));
	KUNIT_EXPECT_EQ(test, atomic_read(&folio->_mapcount), 0);
	KUNIT_EXPECT_EQ(test, folio->flags & MTIER_FAST_HAS, MTIER_FAST_HAS);
	KUNIT_EXPECT_FALSE(test, mtier_fast_wants(s->mv, folio, vma));
}

static void switched_off_all_go_the_other_way(struct kunit *test)
{
	struct fast_scene *s = test->priv;
	unsigned int was = READ_ONCE(mtier_conf.move_fast);

	WRITE_ONCE(mtier_conf.move_fast, 0);
	KUNIT_EXPECT_FALSE(test, mtier_fast_wants(s->mv, s->src[0], s->vma));
	WRITE_ONCE(mtier_conf.move_fast, was);
}

/* F2: a page with an extra reference, a locked page, and one that is isolated. */
static void busy_pages_are_handed_on(struct kunit *test)
{
	struct fast_scene *s = test->priv;
	unsigned long busy = exact_event(MTIER_FAST_BUSY);

	fast_add_all(test, s);
	folio_get(s->src[1]);
	folio_lock(s->src[3]);
	KUNIT_ASSERT_TRUE(test, folio_isolate_lru(s->src[5]));
	fast_take_off(test, s);
	KUNIT_EXPECT_EQ(test, s->flight.nr, FAST_PAGES - 3);
	KUNIT_EXPECT_EQ(test, s->mv->nr_listed, 2);
	KUNIT_EXPECT_EQ(test, s->mv->ended[MTIER_WHY_OFF_LRU], 1);
	KUNIT_EXPECT_TRUE(test, s->mv->off_lru);
	KUNIT_EXPECT_EQ(test, s->mv->nr_folios, FAST_PAGES - 1);
	folio_unlock(s->src[3]);
	folio_putback_lru(s->src[5]);
	/* migrate_pages() migrates the page that is unlocked again. */
	KUNIT_EXPECT_EQ(test, fast_land(s), FAST_PAGES - 2);
	KUNIT_EXPECT_EQ(test, s->mv->nr_stayed, 1);
	KUNIT_EXPECT_EQ(test, exact_event(MTIER_FAST_BUSY), busy + 3);
	folio_put(s->src[1]);
	lru_add_drain_all();
	fast_expect(test, s, 0, s->to);
	fast_expect(test, s, 1, s->nid);
	fast_expect(test, s, 3, s->to);
	fast_expect(test, s, 5, s->nid);
	fast_expect_counts(test, s, 0);
}

/* Take a reference just before the freeze, as a lockless page table walk does. */
static bool fast_lock_raced(struct folio *src)
{
	struct fast_scene *s = kunit_get_current_test()->priv;

	if (src == s->src[2])
		folio_get(src);
	return folio_trylock(src);
}

/*
 * F1: a reference taken before the freeze makes it fail, and the entry is restored.
 */
static void a_reference_before_the_freeze_wins(struct kunit *test)
{
	struct fast_scene *s = test->priv;
	pte_t before = fast_pte(s, 2);

	kunit_activate_static_stub(test, mtier_fast_lock, fast_lock_raced);
	fast_add_all(test, s);
	fast_take_off(test, s);
	KUNIT_EXPECT_EQ(test, s->flight.nr, FAST_PAGES - 1);
	KUNIT_EXPECT_EQ(test, pte_val(fast_pte(s, 2)), pte_val(before));
	KUNIT_EXPECT_EQ(test, fast_land(s), FAST_PAGES - 1);
	folio_put(s->src[2]);
	lru_add_drain_all();
	fast_expect(test, s, 2, s->nid);
	KUNIT_EXPECT_TRUE(test, PageAnonExclusive(&s->src[2]->page));
	fast_expect_counts(test, s, 0);
}

/* Make a page a KSM page between the first check and its lock. */
static bool fast_lock_after_ksm(struct folio *src)
{
	struct fast_scene *s = kunit_get_current_test()->priv;

	if (src == s->src[2])
		fast_set_ksm(src, true);
	return folio_trylock(src);
}

/* F13: the check after the freeze decides, when no task can change the page. */
static void what_turned_into_ksm_is_handed_on(struct kunit *test)
{
	struct fast_scene *s = test->priv;
	pte_t before = fast_pte(s, 2);

	kunit_activate_static_stub(test, mtier_fast_lock, fast_lock_after_ksm);
	fast_add_all(test, s);
	fast_take_off(test, s);
	fast_set_ksm(s->src[2], false);
	KUNIT_EXPECT_EQ(test, s->flight.nr, FAST_PAGES - 1);
	KUNIT_EXPECT_EQ(test, pte_val(fast_pte(s, 2)), pte_val(before));
	/* It is not a real KSM page, so migrate_pages() migrates it. */
	KUNIT_EXPECT_EQ(test, fast_land(s), FAST_PAGES);
	lru_add_drain_all();
	fast_expect(test, s, 2, s->to);
	fast_expect_counts(test, s, 0);
}

/* F1: after the freeze no task gets a reference. */
static void nobody_gets_a_frozen_page(struct kunit *test)
{
	struct fast_scene *s = test->priv;
	struct page *page;
	unsigned int i;

	fast_add_all(test, s);
	fast_take_off(test, s);
	KUNIT_ASSERT_EQ(test, s->flight.nr, FAST_PAGES);
	for (i = 0; i < FAST_PAGES; i++) {
		KUNIT_EXPECT_FALSE(test, folio_try_get(s->src[i]));
		KUNIT_EXPECT_EQ(test, get_user_pages_fast_only(fast_at(s, i), 1,
							       0, &page), 0);
	}
	KUNIT_EXPECT_EQ(test, fast_land(s), FAST_PAGES);
}

static void fast_no_frames(struct mtier_fast *fast, int nid, unsigned int want)
{
}

/* F23: without frames, all pages are passed to migrate_pages(). */
static void without_frames_all_are_handed_on(struct kunit *test)
{
	struct fast_scene *s = test->priv;
	unsigned long nomem = exact_event(MTIER_FAST_NOMEM);
	unsigned int i;

	kunit_activate_static_stub(test, mtier_fast_frames, fast_no_frames);
	fast_add_all(test, s);
	KUNIT_EXPECT_EQ(test, mtier_move_run(s->mv), FAST_PAGES);
	KUNIT_EXPECT_EQ(test, s->mv->nr_listed, FAST_PAGES);
	KUNIT_EXPECT_EQ(test, exact_event(MTIER_FAST_NOMEM),
			nomem + FAST_PAGES);
	lru_add_drain_all();
	for (i = 0; i < FAST_PAGES; i++)
		fast_expect(test, s, i, s->to);
	fast_expect_counts(test, s, 0);
}

/* F23: a full target is reported, and no frame of another node is used. */
static void a_full_target_is_told_of(struct kunit *test)
{
	struct fast_scene *s = test->priv;
	unsigned long nomem = exact_event(MTIER_FAST_NOMEM);
	unsigned long moved;
	unsigned int i;

	if (s->to == s->nid)
		kunit_skip(test, "one node");
	fast_add_all(test, s);
	fast_raise_watermarks(s, WMARK_MIN, true);
	moved = mtier_move_run(s->mv);
	fast_raise_watermarks(s, WMARK_MIN, false);
	KUNIT_EXPECT_EQ(test, moved, 0);
	KUNIT_EXPECT_EQ(test, exact_event(MTIER_FAST_NOMEM),
			nomem + FAST_PAGES);
	KUNIT_EXPECT_EQ(test, s->mv->nr_stayed, FAST_PAGES);
	KUNIT_EXPECT_EQ(test, mtier_move_outcome(s->mv, moved), MTIER_NOMEM);
	lru_add_drain_all();
	for (i = 0; i < FAST_PAGES; i++)
		fast_expect(test, s, i, s->nid);
	fast_expect_counts(test, s, 0);
}

static struct kunit_case mtier_move_fast_cases[] = {
	KUNIT_CASE(all_move),
	KUNIT_CASE(so_they_do_down),
	KUNIT_CASE(frames_that_are_left_go_back),
	KUNIT_CASE(frames_may_come_one_by_one),
	KUNIT_CASE(entries_keep_their_bits),
	KUNIT_CASE(exclusive_is_not_made_up),
	KUNIT_CASE(other_kinds_are_not_wanted),
	KUNIT_CASE(a_large_one_is_not_wanted),
	KUNIT_CASE(switched_off_all_go_the_other_way),
	KUNIT_CASE(busy_pages_are_handed_on),
	KUNIT_CASE(a_reference_before_the_freeze_wins),
	KUNIT_CASE(what_turned_into_ksm_is_handed_on),
	KUNIT_CASE(nobody_gets_a_frozen_page),
	KUNIT_CASE(without_frames_all_are_handed_on),
	KUNIT_CASE(a_full_target_is_told_of),
	{ }
};

static struct kunit_suite mtier_move_fast_suite = {
	.name = "mtier_move_fast",
	.init = fast_init,
	.exit = fast_exit,
	.test_cases = mtier_move_fast_cases,
};

kunit_test_suite(mtier_move_fast_suite);
