// SPDX-License-Identifier: GPL-2.0
/*
 * Which of the pages that may give way a move takes. Included by ../cold.c.
 */
#include <kunit/test.h>
#include <linux/mman.h>

#define COLD_SMALL	2	/* base pages, mapped */
#define COLD_ORDER	2	/* of the large folio, larger than what is wanted */

/**
 * struct cold_scene - two pages and a folio that is larger than both
 * @small: the pages, used by an address space of their own
 * @large: the folio, larger than what is wanted
 * @mv: what is to move
 * @nid: node that all of them are on
 */
struct cold_scene {
	struct page *small[COLD_SMALL];
	struct folio *large;
	struct mtier_move *mv;
	int nid;
};

/* Two pages that somebody maps, as what gives way is. */
static int cold_map(struct kunit *test, struct cold_scene *s)
{
	unsigned long at;
	int i, n;

	at = kunit_vm_mmap(test, NULL, 0, COLD_SMALL * PAGE_SIZE,
			   PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   0);
	n = at ? get_user_pages_fast(at, COLD_SMALL, FOLL_WRITE, s->small) : 0;
	/* The mapping keeps them. */
	for (i = 0; i < n; i++)
		put_page(s->small[i]);
	return n == COLD_SMALL ? 0 : -ENOMEM;
}

static int cold_init(struct kunit *test)
{
	struct cold_scene *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);

	if (!s || cold_map(test, s))
		return -ENOMEM;
	s->nid = page_to_nid(s->small[0]);
	s->mv = mtier_move_alloc(16);
	s->large = __folio_alloc_node(GFP_HIGHUSER_MOVABLE, COLD_ORDER, s->nid);
	mutex_lock(&mtier_mutex);
	test->priv = s;
	if (!s->mv || !s->large)
		return -ENOMEM;
	folio_add_lru(s->large);
	lru_add_drain();
	if (mtier_on())
		kunit_skip(test, "promotion is switched on");
	return mtier_cold_add_node(s->nid);
}

static void cold_exit(struct kunit *test)
{
	struct cold_scene *s = test->priv;

	if (!s)
		return;
	if (!mtier_on()) {
		mtier_cold_free();
		mtier_hot_free();
	}
	mutex_unlock(&mtier_mutex);
	if (s->large)
		folio_put(s->large);
	mtier_move_free(s->mv);
}

/* As many looks as it takes find it idle. */
static void cold_note(struct cold_scene *s, struct folio *folio)
{
	struct mtier_hot_params params = mtier_cold_params(U32_MAX);
	u32 looks = READ_ONCE(mtier_conf.cold_looks), now = mtier_now_tick();

	while (looks--)
		mtier_cold_note(s->nid, folio_pfn(folio), true, now - looks,
				&params);
}

/* What is too large for the rest of a move waits, and others go. */
static void smaller_ones_go_before_one_that_does_not_fit(struct kunit *test)
{
	struct cold_scene *s = test->priv;
	struct mtier_queue *queue = &mtier_cold[s->nid];
	unsigned long left = 0;

	cold_note(s, page_folio(s->small[0]));
	cold_note(s, s->large);
	cold_note(s, page_folio(s->small[1]));
	KUNIT_ASSERT_EQ(test, queue->fill, 3);

	mtier_move_down(s->mv, s->nid, s->nid, COLD_SMALL);
	mtier_cold_gather(s->mv, COLD_SMALL);
	KUNIT_EXPECT_EQ(test, s->mv->nr_folios, COLD_SMALL);
	mtier_move_run(s->mv);
	KUNIT_EXPECT_EQ(test, mtier_queue_pop(queue, &left, 1), 1);
	KUNIT_EXPECT_EQ(test, mtier_entry_pfn(left), folio_pfn(s->large));
}

/* Does a page of a new mapping with these flags give way? */
static bool cold_goes(struct kunit *test, unsigned long flags)
{
	struct vm_area_struct *vma;
	struct page *page;
	unsigned long at;
	bool goes;

	at = kunit_vm_mmap(test, NULL, 0, PAGE_SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | flags, 0);
	KUNIT_ASSERT_NE(test, at, 0);
	KUNIT_ASSERT_EQ(test, get_user_pages_fast(at, 1, FOLL_WRITE, &page), 1);
	mmap_read_lock(current->mm);
	vma = vma_lookup(current->mm, at);
	goes = vma && mtier_folio_gives_way(page_folio(page), vma);
	mmap_read_unlock(current->mm);
	put_page(page);
	return goes;
}

/* It would be refused later, but fill the queue until then. */
static void locked_memory_is_no_candidate(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, cold_goes(test, 0));
	KUNIT_EXPECT_FALSE(test, cold_goes(test, MAP_LOCKED));
}

static struct kunit_case mtier_cold_cases[] = {
	KUNIT_CASE(smaller_ones_go_before_one_that_does_not_fit),
	KUNIT_CASE(locked_memory_is_no_candidate),
	{ }
};

static struct kunit_suite mtier_cold_suite = {
	.name = "mtier_cold",
	.init = cold_init,
	.exit = cold_exit,
	.test_cases = mtier_cold_cases,
};

kunit_test_suite(mtier_cold_suite);
