// SPDX-License-Identifier: GPL-2.0
/*
 * Scans of memory that several VMAs map: a page is scanned once for all of them. Included
 * by look_kunit.c.
 */

/* Map the file, and use all pages of a range. Returns the address of the range. */
static unsigned long map_used(struct kunit *test, struct file *file)
{
	unsigned long at = map_file(test, file);

	map_touch(test, at, MTIER_RANGE_PAGES);
	return at;
}

/* Count the pages of a range that the first scan samples. */
static unsigned int look_first(struct kunit *test, struct mtier_look *look,
			       unsigned long at)
{
	struct mtier_watch w;

	look_watch(test, &w, 1);
	KUNIT_EXPECT_TRUE(test, mtier_look_range(look, at, w.page));
	mtier_flush_now(&mtier_look_flush, look->seen);
	return look_watched(&w);
}

/*
 * Memory that several map is looked at once in a burst, for all of them, wherever it is
 * mapped.
 */
static void what_is_mapped_twice_is_looked_at_once(struct kunit *test)
{
	struct file *file = map_file_make(test);
	unsigned long few, low, high;
	struct mtier_seen seen;
	struct mtier_look look;

	high = map_used(test, file);
	look_at_all(test, &look, &seen);
	KUNIT_EXPECT_EQ(test, look_first(test, &look, high), MTIER_RANGE_PAGES);
	KUNIT_EXPECT_EQ(test, seen.flushes, 0);
	low = map_used(test, file);
	few = map_file(test, file);
	map_touch(test, few, 1);
	/* In the next burst, by the one that has mapped the least. */
	mtier_file_set_clear(look.files);
	KUNIT_EXPECT_EQ(test, look_first(test, &look, few), MTIER_RANGE_PAGES);
	KUNIT_EXPECT_EQ(test, seen.flushes, 1);
	KUNIT_EXPECT_EQ(test, look_first(test, &look, low), 0);
	KUNIT_EXPECT_EQ(test, look_first(test, &look, high), 0);
	fput(file);
}

/* The scan is made through one mapper, and counts the accesses of all. */
static void accesses_of_other_mappers_count(struct kunit *test)
{
	struct file *file = map_file_make(test);
	unsigned long low, high;
	struct mtier_seen seen;
	struct mtier_look look;
	struct mtier_watch w;
	char byte;

	high = map_used(test, file);
	low = map_used(test, file);
	look_watch(test, &w, 1);
	look_at_all(test, &look, &seen);
	KUNIT_EXPECT_TRUE(test, mtier_look_range(&look, low, w.page));
	mtier_flush_now(&mtier_look_flush, &seen);
	KUNIT_EXPECT_EQ(test, look_watched(&w), MTIER_RANGE_PAGES);
	KUNIT_ASSERT_EQ(test, copy_from_user(&byte, (void __user *)(high + 7 * PAGE_SIZE), 1),
			0);
	look.first = false;
	KUNIT_EXPECT_TRUE(test, mtier_look_range(&look, low, w.page));
	KUNIT_EXPECT_EQ(test, w.page[6] & MTIER_PAGE_COUNT, 0);
	KUNIT_EXPECT_EQ(test, w.page[7] & MTIER_PAGE_COUNT, 1);
	mtier_flush_now(&mtier_look_flush, &seen);
	fput(file);
}

/* Nor is it where only others have mapped it. */
static void what_others_have_above_is_left_alone(struct kunit *test)
{
	const nodemask_t low = nodemask_of_node(MAX_NUMNODES - 1);
	struct file *file = map_file_make(test);
	struct mtier_seen seen;
	struct mtier_look look;
	unsigned long lowest, high;

	high = map_used(test, file);
	lowest = map_file(test, file);
	KUNIT_ASSERT_LT(test, lowest, high);
	map_touch(test, lowest, 1);
	look_start(test, &look, &seen, &low);
	look.rules.allowed.down = low;
	KUNIT_EXPECT_EQ(test, look_first(test, &look, lowest), 0);
	KUNIT_EXPECT_EQ(test, seen.flushes, 0);
	fput(file);
}

/* Scan a range, and flush what the scan has cleared. */
static void look_once(struct kunit *test, struct mtier_look *look,
		      unsigned long at, struct mtier_watch *w)
{
	KUNIT_EXPECT_TRUE(test, mtier_look_range(look, at, w->page));
	mtier_flush_now(&mtier_look_flush, look->seen);
	flush_tlb_mm(current->mm);
}

/* A private mapping has copies of some pages, and another mapper has these pages. */
static void copies_are_scanned_alone(struct kunit *test)
{
	struct file *file = map_file_make(test);
	struct mtier_watch mine, theirs;
	unsigned long low, high;
	struct mtier_seen seen;
	struct mtier_look look;

	high = map_used(test, file);
	low = map_how(test, file, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	map_read(test, low, MTIER_RANGE_PAGES);
	map_touch(test, low + 7 * PAGE_SIZE, 2);
	look_watch(test, &mine, 1);
	look_watch(test, &theirs, 1);
	look_at_all(test, &look, &seen);
	look_once(test, &look, low, &mine);
	KUNIT_EXPECT_EQ(test, look_watched(&mine), MTIER_RANGE_PAGES);
	/* The pages of the file are left to the other mapper. */
	look_once(test, &look, high, &theirs);
	KUNIT_EXPECT_EQ(test, look_watched(&theirs), 2);
	KUNIT_EXPECT_TRUE(test, mtier_page_watched(theirs.page[7]));
	KUNIT_EXPECT_TRUE(test, mtier_page_watched(theirs.page[8]));

	look.first = false;
	map_read(test, high + 5 * PAGE_SIZE, 3);
	map_read(test, low + 8 * PAGE_SIZE, 2);
	look_once(test, &look, low, &mine);
	look_once(test, &look, high, &theirs);
	KUNIT_EXPECT_EQ(test, mine.page[5] & MTIER_PAGE_COUNT, 1);
	KUNIT_EXPECT_EQ(test, mine.page[7] & MTIER_PAGE_COUNT, 0);
	KUNIT_EXPECT_EQ(test, mine.page[8] & MTIER_PAGE_COUNT, 1);
	KUNIT_EXPECT_EQ(test, mine.page[9] & MTIER_PAGE_COUNT, 1);
	KUNIT_EXPECT_EQ(test, theirs.page[7] & MTIER_PAGE_COUNT, 1);
	KUNIT_EXPECT_EQ(test, theirs.page[8] & MTIER_PAGE_COUNT, 0);
	fput(file);
}

/* A mapping with nothing but copies does not take part for the file. */
static void a_mapping_of_copies_takes_no_pages_of_the_file(struct kunit *test)
{
	struct file *file = map_file_make(test);
	unsigned long low, high;
	struct mtier_seen seen;
	struct mtier_look look;

	high = map_used(test, file);
	low = map_how(test, file, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	map_touch(test, low, 1);
	look_at_all(test, &look, &seen);
	KUNIT_EXPECT_EQ(test, look_first(test, &look, low), 1);
	KUNIT_EXPECT_EQ(test, look_first(test, &look, high), MTIER_RANGE_PAGES);
	fput(file);
}

/* Pages stay for the rules of such mappers if all mappers forbid to move them. */
static void who_only_reads_has_no_veto(struct kunit *test)
{
	struct file *file = map_file_make(test);
	unsigned long low, high;
	struct mtier_seen seen;
	struct mtier_look look;

	low = map_how(test, file, PROT_READ, MAP_PRIVATE);
	map_read(test, low, MTIER_RANGE_PAGES);
	look_at_all(test, &look, &seen);
	look.rules.allowed.up = NODE_MASK_NONE;
	look.rules.allowed.down = NODE_MASK_NONE;
	KUNIT_EXPECT_EQ(test, look_first(test, &look, low), 0);
	KUNIT_EXPECT_EQ(test, seen.fixed[MTIER_LOW], MTIER_RANGE_PAGES);

	high = map_used(test, file);
	mtier_file_set_clear(look.files);
	KUNIT_EXPECT_EQ(test, look_first(test, &look, low), MTIER_RANGE_PAGES);
	mtier_file_set_clear(look.files);
	KUNIT_EXPECT_EQ(test, look_first(test, &look, high), 0);
	fput(file);
}

/* Scan @at while a writer has the VMA at @locked locked. */
static unsigned int look_beside_writer(struct kunit *test,
				       struct mtier_look *look,
				       unsigned long at, unsigned long locked)
{
	struct vm_area_struct *vma;
	struct mtier_watch w;

	look_watch(test, &w, 1);
	mtier_file_set_clear(look->files);
	mmap_write_lock(current->mm);
	vma = vma_lookup(current->mm, locked);
	if (vma)
		vma_start_write(vma);
	if (!mtier_look_range(look, at, w.page))
		memset(w.page, MTIER_PAGE_NONE, MTIER_RANGE_PAGES);
	mmap_write_unlock(current->mm);
	mtier_flush_now(&mtier_look_flush, look->seen);
	return look_watched(&w);
}

static void the_lock_of_who_only_reads_is_not_waited_for(struct kunit *test)
{
	struct file *file = map_file_make(test);
	unsigned long drawn, reads, writes;
	struct mtier_seen seen;
	struct mtier_look look;

	drawn = map_used(test, file);
	reads = map_how(test, file, PROT_READ, MAP_PRIVATE);
	map_read(test, reads, MTIER_RANGE_PAGES);
	look_at_all(test, &look, &seen);
	/* So that the rules of the others matter. */
	look.rules.allowed.down = NODE_MASK_NONE;
	KUNIT_EXPECT_EQ(test, look_beside_writer(test, &look, drawn, reads),
			MTIER_RANGE_PAGES);
	/* This one covers the pages, and maps none of them. */
	writes = map_file(test, file);
	KUNIT_EXPECT_EQ(test, look_beside_writer(test, &look, drawn, writes),
			MTIER_RANGE_PAGES);
	map_touch(test, writes, MTIER_RANGE_PAGES);
	KUNIT_EXPECT_EQ(test, look_beside_writer(test, &look, drawn, writes), 0);
	fput(file);
}

/* Memory without access rights is not used. It hides nothing if it cannot be written. */
static void who_only_reads_hides_nothing(struct kunit *test)
{
	struct file *file = map_file_make(test);
	struct vm_area_struct *vma;
	unsigned long drawn, hidden;
	struct mtier_seen seen;
	struct mtier_look look;

	drawn = map_used(test, file);
	hidden = map_how(test, file, PROT_READ, MAP_PRIVATE);
	map_read(test, hidden, MTIER_RANGE_PAGES);
	mmap_write_lock(current->mm);
	vma = vma_lookup(current->mm, hidden);
	if (vma)
		vm_flags_clear(vma, VM_ACCESS_FLAGS);
	mmap_write_unlock(current->mm);
	look_at_all(test, &look, &seen);
	KUNIT_EXPECT_EQ(test, look_first(test, &look, drawn), MTIER_RANGE_PAGES);
	mmap_write_lock(current->mm);
	if (vma)
		vm_flags_set(vma, VM_SHARED);
	mmap_write_unlock(current->mm);
	mtier_file_set_clear(look.files);
	KUNIT_EXPECT_EQ(test, look_first(test, &look, drawn), 0);
	mmap_write_lock(current->mm);
	if (vma)
		vm_flags_clear(vma, VM_SHARED);
	mmap_write_unlock(current->mm);
	fput(file);
}

/* The Accessed bits in a page table that was idle are older than the burst. */
static void old_bits_of_other_mappers_do_not_count(struct kunit *test)
{
	struct file *file = map_file_make(test);
	unsigned long low, high;
	struct mtier_seen seen;
	struct mtier_look look;
	struct mtier_watch w;

	high = map_used(test, file);
	map_rest(test, high);
	low = map_used(test, file);
	look_watch(test, &w, 1);
	look_at_all(test, &look, &seen);
	look_once(test, &look, low, &w);
	look.first = false;

	map_read(test, high + 7 * PAGE_SIZE, 1);
	look_once(test, &look, low, &w);
	KUNIT_EXPECT_EQ(test, w.page[6] & MTIER_PAGE_COUNT, 0);
	KUNIT_EXPECT_EQ(test, w.page[7] & MTIER_PAGE_COUNT, 0);
	map_read(test, high + 7 * PAGE_SIZE, 1);
	look_once(test, &look, low, &w);
	KUNIT_EXPECT_EQ(test, w.page[6] & MTIER_PAGE_COUNT, 0);
	KUNIT_EXPECT_EQ(test, w.page[7] & MTIER_PAGE_COUNT, 1);
	fput(file);
}

/* Pages that only an idle mapper has mapped are in the sample. */
static void pages_of_an_idle_mapper_are_sampled(struct kunit *test)
{
	struct file *file = map_file_make(test);
	unsigned long low, high;
	struct mtier_seen seen;
	struct mtier_look look;

	high = map_used(test, file);
	map_rest(test, high);
	low = map_file(test, file);
	map_touch(test, low, 1);
	look_at_all(test, &look, &seen);
	KUNIT_EXPECT_EQ(test, look_first(test, &look, low), MTIER_RANGE_PAGES);
	fput(file);
}

/* A sample of the mappers shows that a page is used, but not that it is not. */
static void more_mappers_than_are_scanned(struct kunit *test)
{
	struct file *file = map_file_make(test);
	struct mtier_seen seen;
	struct mtier_look look;
	unsigned long at = 0;
	unsigned int i;

	for (i = 0; i <= MTIER_OTHERS_MOST; i++) {
		at = kunit_vm_mmap(test, file, 0, 2 * MTIER_RANGE_SIZE,
				   PROT_READ | PROT_WRITE, MAP_SHARED, 0);
		KUNIT_ASSERT_NE(test, at, 0);
	}
	at = ALIGN(at, MTIER_RANGE_SIZE);
	map_touch(test, at, MTIER_RANGE_PAGES);
	look_at_all(test, &look, &seen);
	KUNIT_EXPECT_EQ(test, look_first(test, &look, at), MTIER_RANGE_PAGES);
	KUNIT_EXPECT_TRUE(test, bitmap_empty(mtier_look_others.stays[MTIER_TOP],
					     MTIER_RANGE_PAGES));
	at = map_used(test, file);
	mtier_file_set_clear(look.files);
	KUNIT_EXPECT_EQ(test, look_first(test, &look, at), MTIER_RANGE_PAGES);
	KUNIT_EXPECT_TRUE(test, bitmap_full(mtier_look_others.stays[MTIER_TOP],
					    MTIER_RANGE_PAGES));
	KUNIT_EXPECT_TRUE(test, bitmap_empty(mtier_look_others.stays[MTIER_LOW],
					     MTIER_RANGE_PAGES));
	fput(file);
}
