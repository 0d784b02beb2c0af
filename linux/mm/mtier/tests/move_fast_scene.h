/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pages of a test, and the two halves of their migration. Included by the tests of
 * ../move_fast.c.
 */
#include <kunit/test.h>
#include <linux/mman.h>
#include <linux/uaccess.h>

#include "exact.h"

#define FAST_PAGES	8
#define FAST_WORDS	(PAGE_SIZE / sizeof(unsigned long))

/**
 * struct fast_scene - pages of a test
 * @mm: address space of the pages
 * @at: address of the first page
 * @vma: the VMA that maps them
 * @mv: the batch that migrates them
 * @nid: source node
 * @to: target node
 * @src: the pages
 * @flight: the flight, set by the freeze
 * @mapped: sum of NR_ANON_MAPPED of both nodes before the migration
 * @rss: anonymous pages of the mm before the migration
 * @isolated: NR_ISOLATED_ANON of the source node before the migration
 * @users: mm_users of the mm before the migration
 * @copies: number of pages copied
 */
struct fast_scene {
	struct mm_struct *mm;
	unsigned long at;
	struct vm_area_struct *vma;
	struct mtier_move *mv;
	int nid;
	int to;
	struct folio *src[FAST_PAGES];
	struct mtier_flight flight;
	long mapped;
	long rss;
	long isolated;
	int users;
	unsigned int copies;
};

static unsigned long fast_at(const struct fast_scene *s, unsigned int i)
{
	return s->at + i * PAGE_SIZE;
}

static struct folio *fast_folio(unsigned long at)
{
	struct page *page;

	if (get_user_pages_fast(at, 1, 0, &page) != 1)
		return NULL;
	/* The mapping has a reference. */
	put_page(page);
	return page_folio(page);
}

static unsigned long fast_word(unsigned int i, unsigned int word)
{
	return (i + 1) * 1000003UL + word;
}

static bool fast_fill(unsigned long at, unsigned int i)
{
	unsigned long __user *p = (unsigned long __user *)at;
	unsigned int word;

	for (word = 0; word < FAST_WORDS; word++)
		if (put_user(fast_word(i, word), &p[word]))
			return false;
	return true;
}

static bool fast_holds(const struct fast_scene *s, unsigned int i)
{
	unsigned long __user *p = (unsigned long __user *)fast_at(s, i);
	unsigned long value;
	unsigned int word;

	for (word = 0; word < FAST_WORDS; word++)
		if (get_user(value, &p[word]) || value != fast_word(i, word))
			return false;
	return true;
}

static long fast_mapped(const struct fast_scene *s)
{
	return exact_node_stat(s->nid, NR_ANON_MAPPED) +
	       exact_node_stat(s->to, NR_ANON_MAPPED);
}

/* Get the exact number: include the changes in per-CPU counters. */
static long fast_rss(void)
{
	return percpu_counter_sum(&current->mm->rss_stat[MM_ANONPAGES]);
}

static void fast_count(struct fast_scene *s)
{
	s->mapped = fast_mapped(s);
	s->rss = fast_rss();
	s->isolated = exact_node_stat(s->nid, NR_ISOLATED_ANON);
	s->users = atomic_read(&current->mm->mm_users);
}

/* Map new memory, write to it, and put its pages on their LRU lists. */
static int fast_map(struct kunit *test, struct fast_scene *s,
		    unsigned long flags)
{
	unsigned int i;

	s->at = kunit_vm_mmap(test, NULL, 0, FAST_PAGES * PAGE_SIZE,
			      PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | flags, 0);
	if (!s->at)
		return -ENOMEM;
	mmap_read_lock(current->mm);
	s->vma = vma_lookup(current->mm, s->at);
	mmap_read_unlock(current->mm);
	for (i = 0; i < FAST_PAGES; i++) {
		if (!fast_fill(fast_at(s, i), i))
			return -EFAULT;
		s->src[i] = fast_folio(fast_at(s, i));
	}
	lru_add_drain_all();
	fast_count(s);
	return 0;
}

static int fast_init(struct kunit *test)
{
	struct fast_scene *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);

	if (!s)
		return -ENOMEM;
	test->priv = s;
	s->mv = mtier_move_alloc(FAST_PAGES);
	if (!s->mv)
		return -ENOMEM;
	s->nid = first_memory_node;
	if (fast_map(test, s, 0))
		return -ENOMEM;
	s->mm = current->mm;
	mmget(s->mm);
	s->nid = folio_nid(s->src[0]);
	s->to = next_node_in(s->nid, node_states[N_MEMORY]);
	fast_count(s);
	mtier_move_begin(s->mv, s->nid, s->to, false, FAST_PAGES);
	return 0;
}

static void fast_exit(struct kunit *test)
{
	struct fast_scene *s = test->priv;

	if (!s)
		return;
	exact_leave_mm(s->mm);
	mtier_move_free(s->mv);
}

static void fast_add(struct kunit *test, struct fast_scene *s, unsigned int i)
{
	KUNIT_ASSERT_TRUE(test, mtier_fast_wants(s->mv, s->src[i], s->vma));
	mtier_fast_add(s->mv, s->src[i], s->vma, fast_at(s, i));
}

static void fast_add_all(struct kunit *test, struct fast_scene *s)
{
	unsigned int i;

	for (i = 0; i < FAST_PAGES; i++)
		fast_add(test, s, i);
}

/* Check whether a writer of the VMA must wait: fork, munmap or khugepaged. */
static bool fast_vma_is_held(const struct fast_scene *s)
{
	bool got = down_write_trylock(&s->vma->vm_lock->lock);

	if (got)
		up_write(&s->vma->vm_lock->lock);
	return !got;
}

/*
 * Raise the watermarks of the target, from @from on, above its free memory, or undo
 * that. With WMARK_LOW, the target has no pages for a bulk request, but a request
 * for one page can go down to the min watermark. With WMARK_MIN, the target is full.
 */
static void fast_raise_watermarks(const struct fast_scene *s,
				  enum zone_watermarks from, bool up)
{
	struct zone *zone = NODE_DATA(s->to)->node_zones;
	unsigned long by = LONG_MAX / 4;
	enum zone_watermarks mark;
	int i;

	for (i = 0; i < MAX_NR_ZONES; i++)
		for (mark = from; mark <= WMARK_HIGH; mark++)
			zone[i]._watermark[mark] += up ? by : -by;
}

/* Do the first half of mtier_flight_go(). */
static void fast_take_off(struct kunit *test, struct fast_scene *s)
{
	s->flight = mtier_flight_at(s->mv->fast, 0);
	mtier_fast_frames(s->mv->fast, s->to, s->flight.nr);
	tlb_defer_flight_begin(&s->mv->fast->defer, s->flight.mm, s->nid,
			       s->flight.nr);
	mtier_flight_take_off(s->mv, &s->flight);
}

/* Do the second half, and run migrate_pages() for the pages that were not frozen. */
static unsigned long fast_land(struct fast_scene *s)
{
	unsigned long arrived;

	arrived = mtier_fast_settle(s->mv, s->flight.page, s->flight.nr);
	(void)tlb_defer_flight_end(&s->mv->fast->defer);
	mtier_fast_give_back(s->mv->fast);
	s->mv->fast->nr = 0;
	return arrived + mtier_move_run(s->mv);
}

static pte_t fast_pte(struct fast_scene *s, unsigned int i)
{
	struct mtier_fast_page page = { .vma = s->vma, .addr = fast_at(s, i) };
	struct mtier_table table = {};
	pte_t *ptep = mtier_table_at(&table, &page);
	pte_t pte = ptep ? ptep_get(ptep) : __pte(0);

	mtier_table_leave(&table);
	return pte;
}

static void fast_set_pte(struct fast_scene *s, unsigned int i, pte_t pte)
{
	struct mtier_fast_page page = { .vma = s->vma, .addr = fast_at(s, i) };
	struct mtier_table table = {};
	pte_t *ptep = mtier_table_at(&table, &page);

	if (ptep) {
		ptep_get_and_clear(current->mm, page.addr, ptep);
		set_pte_at(current->mm, page.addr, ptep, pte);
	}
	mtier_table_leave(&table);
	flush_tlb_mm(current->mm);
}

/* Expect a mapped page on node @nid, on its LRU list, with its contents. */
static void fast_expect(struct kunit *test, struct fast_scene *s,
			unsigned int i, int nid)
{
	struct folio *folio = fast_folio(fast_at(s, i));

	KUNIT_ASSERT_NOT_NULL(test, folio);
	KUNIT_EXPECT_EQ_MSG(test, folio_nid(folio), nid, "page %u", i);
	KUNIT_EXPECT_EQ_MSG(test, folio_ref_count(folio), 1, "page %u", i);
	KUNIT_EXPECT_EQ_MSG(test, folio_mapcount(folio), 1, "page %u", i);
	KUNIT_EXPECT_TRUE_MSG(test, folio_test_lru(folio), "page %u", i);
	KUNIT_EXPECT_FALSE_MSG(test, folio_test_locked(folio), "page %u", i);
	KUNIT_EXPECT_TRUE_MSG(test, folio_test_swapbacked(folio), "page %u", i);
	KUNIT_EXPECT_TRUE_MSG(test, fast_holds(s, i), "page %u", i);
}

/* Expect a folio that went back to the allocator. */
static void fast_expect_free(struct kunit *test, struct folio *folio)
{
	KUNIT_EXPECT_EQ(test, folio_ref_count(folio), 0);
	KUNIT_EXPECT_FALSE(test, folio_test_locked(folio));
	KUNIT_EXPECT_FALSE(test, folio_test_lru(folio));
	KUNIT_EXPECT_EQ(test, atomic_read(&folio->_mapcount), -1);
	KUNIT_EXPECT_NULL(test, folio->mapping);
}

static void fast_expect_counts(struct kunit *test, struct fast_scene *s,
			       int gone)
{
	KUNIT_EXPECT_EQ(test, fast_mapped(s), s->mapped - gone);
	KUNIT_EXPECT_EQ(test, fast_rss(),
			s->rss - gone);
	KUNIT_EXPECT_EQ(test, s->mv->fast->nr_frames, 0);
}
