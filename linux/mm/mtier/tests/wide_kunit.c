// SPDX-License-Identifier: GPL-2.0
/*
 * The mappers of a file are checked once for a batch, and held to its end. Included by
 * ../wide.c.
 */
#include "map_file.h"

#define WIDE_MAPS	(MTIER_WIDE_MAPPERS + 2)

/**
 * struct wide_scene - a file with many mappers, and a batch that promotes its pages
 * @file: the file
 * @at: address of its second range in each mapping
 * @guard: the guard of the batch
 * @held: one of the mappings
 * @slot: slot of the address space, so that holding it does not raise mm_users
 */
struct wide_scene {
	struct file *file;
	unsigned long at[WIDE_MAPS];
	struct mtier_guard *guard;
	struct mtier_guarded *held;
	struct mtier_slot slot;
};

static struct vm_area_struct *wide_vma(unsigned long at)
{
	struct vm_area_struct *vma;

	mmap_read_lock(current->mm);
	vma = vma_lookup(current->mm, at);
	mmap_read_unlock(current->mm);
	return vma;
}

/* Change the flags of a VMA. */
static void wide_flags(unsigned long at, unsigned long set, unsigned long clear)
{
	struct vm_area_struct *vma;

	mmap_write_lock(current->mm);
	vma = vma_lookup(current->mm, at);
	if (vma)
		vm_flags_mod(vma, set, clear);
	mmap_write_unlock(current->mm);
}

static void wide_no_slot(void *mm)
{
	((struct mm_struct *)mm)->mtier_slot = NULL;
}

static struct wide_scene *wide_begin(struct kunit *test, bool down)
{
	struct wide_scene *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);
	enum mtier_why why = MTIER_MAY;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, s);
	s->guard = kunit_kzalloc(test, sizeof(*s->guard), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, s->guard);
	s->slot = (struct mtier_slot) { .mm = current->mm, .refs = 1 };
	s->file = map_file_make(test);
	for (i = 0; i < WIDE_MAPS; i++) {
		s->at[i] = map_file(test, s->file);
		map_touch(test, s->at[i], 2);
	}
	current->mm->mtier_slot = &s->slot;
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, wide_no_slot, current->mm), 0);
	mtier_guard_begin(s->guard, first_memory_node, down);
	s->held = mtier_guard_at(s->guard, current->mm, s->at[0], &why);
	KUNIT_ASSERT_NOT_NULL(test, s->held);
	return s;
}

static void wide_end(struct wide_scene *s)
{
	mtier_guard_end(s->guard);
	fput(s->file);
}

/* Check page @nr of the range. */
static enum mtier_why wide_check(struct kunit *test, struct wide_scene *s,
				 unsigned int nr, bool first)
{
	enum mtier_why why;
	struct page *page;

	KUNIT_ASSERT_EQ(test, get_user_pages_fast(s->at[0] + nr * PAGE_SIZE, 1, 0, &page),
			1);
	why = mtier_wide_check(s->guard, page_folio(page), s->held, first);
	put_page(page);
	return why;
}

/* Check that a writer gets the lock of a VMA at once. */
static bool wide_lets_go(unsigned long at)
{
	struct vm_area_struct *vma = wide_vma(at);
	bool got = down_write_trylock(&vma->vm_lock->lock);

	if (got)
		up_write(&vma->vm_lock->lock);
	return got;
}

static void all_mappers_are_held_to_the_end(struct kunit *test)
{
	struct wide_scene *s = wide_begin(test, false);

	KUNIT_EXPECT_EQ(test, wide_check(test, s, 0, true), MTIER_MAY);
	KUNIT_EXPECT_EQ(test, s->guard->wide.nr_held, WIDE_MAPS - 1);
	KUNIT_EXPECT_FALSE(test, wide_lets_go(s->at[WIDE_MAPS - 1]));
	/* A later mapper is not checked. */
	map_how(test, s->file, PROT_NONE, MAP_SHARED);
	KUNIT_EXPECT_EQ(test, wide_check(test, s, 1, false), MTIER_MAY);
	mtier_guard_end(s->guard);
	KUNIT_EXPECT_TRUE(test, wide_lets_go(s->at[WIDE_MAPS - 1]));
	wide_end(s);
}

/* A mapper that may write and is not eligible forbids it, and nothing is held. */
static void one_mapper_can_forbid(struct kunit *test)
{
	struct wide_scene *s = wide_begin(test, false);

	wide_flags(s->at[WIDE_MAPS - 1], 0, VM_ACCESS_FLAGS);
	KUNIT_EXPECT_EQ(test, wide_check(test, s, 0, true), MTIER_WHY_GONE);
	KUNIT_EXPECT_EQ(test, s->guard->wide.nr_held, 0);
	KUNIT_EXPECT_TRUE(test, wide_lets_go(s->at[1]));
	/* One that only reads does not. */
	wide_flags(s->at[WIDE_MAPS - 1], 0, VM_SHARED);
	mtier_wide_end(&s->guard->wide);
	KUNIT_EXPECT_EQ(test, wide_check(test, s, 0, true), MTIER_MAY);
	KUNIT_EXPECT_EQ(test, s->guard->wide.nr_held, WIDE_MAPS - 2);
	wide_flags(s->at[WIDE_MAPS - 1], VM_SHARED | VM_READ | VM_WRITE, 0);
	wide_end(s);
}

/* Locked memory is promoted, and not demoted. */
static void locked_mappings_forbid_demotion(struct kunit *test)
{
	struct wide_scene *s = wide_begin(test, true);

	KUNIT_EXPECT_EQ(test, wide_check(test, s, 0, true), MTIER_MAY);
	mtier_wide_end(&s->guard->wide);
	wide_flags(s->at[1], VM_LOCKED, 0);
	KUNIT_EXPECT_EQ(test, wide_check(test, s, 0, true), MTIER_WHY_GONE);
	s->guard->down = false;
	mtier_wide_end(&s->guard->wide);
	KUNIT_EXPECT_EQ(test, wide_check(test, s, 0, true), MTIER_MAY);
	mtier_wide_end(&s->guard->wide);
	wide_flags(s->at[1], 0, VM_LOCKED);
	wide_end(s);
}

/* A mapper of another part of the file forbids nothing for this one. */
static void a_part_is_checked_if_a_mapper_of_the_file_forbids_it(struct kunit *test)
{
	struct wide_scene *s = wide_begin(test, false);
	unsigned long other;

	other = kunit_vm_mmap(test, s->file, 0, PAGE_SIZE, PROT_READ | PROT_WRITE,
			      MAP_SHARED, 0);
	KUNIT_ASSERT_NE(test, other, 0);
	KUNIT_ASSERT_GE(test, s->at[0] - wide_vma(s->at[0])->vm_start, PAGE_SIZE);
	wide_flags(other, 0, VM_ACCESS_FLAGS);
	s->guard->wide.first = 0;
	mtier_wide_check_part(s->guard, s->held, 0, ULONG_MAX);
	KUNIT_EXPECT_FALSE(test, s->guard->wide.may);
	mtier_wide_check_part(s->guard, s->held, 1, MTIER_RANGE_PAGES);
	KUNIT_EXPECT_TRUE(test, s->guard->wide.may);
	KUNIT_EXPECT_EQ(test, s->guard->wide.nr_held, WIDE_MAPS - 1);
	/* The batch ends before another part. */
	s->guard->wide.first = 2 * MTIER_RANGE_PAGES;
	s->guard->wide.last = 3 * MTIER_RANGE_PAGES;
	KUNIT_EXPECT_EQ(test, wide_check(test, s, 0, false), MTIER_WHY_CROWDED);
	wide_flags(other, VM_READ | VM_WRITE, 0);
	wide_end(s);
}

/* With few mappers, or few VMAs of the file, a folio is checked on its own. */
static void few_mappers_are_checked_folio_by_folio(struct kunit *test)
{
	struct wide_scene *s = wide_begin(test, false);
	struct folio *folio;
	struct page *page;

	/* Of this page there is one more mapping. */
	map_touch(test, s->at[0] + 3 * PAGE_SIZE, 1);
	KUNIT_EXPECT_EQ(test, wide_check(test, s, 3, true), MTIER_WHY_GONE);
	KUNIT_ASSERT_EQ(test, get_user_pages_fast(s->at[0] + 3 * PAGE_SIZE, 1, 0, &page), 1);
	folio = page_folio(page);
	mtier_wide_met(&s->guard->wide, folio, MTIER_WIDE_MET);
	KUNIT_EXPECT_EQ(test, wide_check(test, s, 3, true), MTIER_WHY_GONE);
	mtier_wide_met(&s->guard->wide, folio, MTIER_WIDE_MET + 1);
	KUNIT_EXPECT_EQ(test, wide_check(test, s, 3, true), MTIER_MAY);
	put_page(page);
	wide_end(s);
}

/* While a batch lasts, its mappers wait: the more there are, the fewer pages it has. */
static void many_mappers_make_batches_short(struct kunit *test)
{
	struct mtier_wide *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, w);
	KUNIT_EXPECT_TRUE(test, mtier_wide_fits(w, ULONG_MAX));
	w->nr_held = MTIER_WIDE_ENTRIES / 8;
	KUNIT_EXPECT_TRUE(test, mtier_wide_fits(w, 8));
	KUNIT_EXPECT_FALSE(test, mtier_wide_fits(w, 9));
}

static struct kunit_case mtier_wide_cases[] = {
	KUNIT_CASE(all_mappers_are_held_to_the_end),
	KUNIT_CASE(one_mapper_can_forbid),
	KUNIT_CASE(locked_mappings_forbid_demotion),
	KUNIT_CASE(a_part_is_checked_if_a_mapper_of_the_file_forbids_it),
	KUNIT_CASE(few_mappers_are_checked_folio_by_folio),
	KUNIT_CASE(many_mappers_make_batches_short),
	{ }
};

static struct kunit_suite mtier_wide_suite = {
	.name = "mtier_wide",
	.test_cases = mtier_wide_cases,
};

kunit_test_suite(mtier_wide_suite);
