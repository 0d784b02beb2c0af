// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the VMAs that a batch may hold, and of memory that is never demoted.
 * Included by ../eligible.c.
 */
#include <kunit/test.h>
#include <linux/file.h>
#include <linux/mman.h>
#include <linux/mmu_notifier.h>

/* Map a VMA for the test, and start a guard that holds nothing. */
static struct vm_area_struct *guard_vma(struct kunit *test,
					struct mtier_guard **guard)
{
	struct vm_area_struct *vma;
	unsigned long at;

	*guard = kunit_kzalloc(test, sizeof(**guard), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, *guard);
	at = kunit_vm_mmap(test, NULL, 0, PAGE_SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, 0);
	KUNIT_ASSERT_NE(test, at, 0);
	mmap_read_lock(current->mm);
	vma = vma_lookup(current->mm, at);
	mmap_read_unlock(current->mm);
	KUNIT_ASSERT_NOT_NULL(test, vma);
	mtier_guard_begin(*guard, first_memory_node, false);
	return vma;
}

/* Detach the VMA, as munmap() does before it downgrades mmap_lock, or undo that. */
static void guard_detach(struct vm_area_struct *vma, bool detached)
{
	mmap_write_lock(current->mm);
	vma_start_write(vma);
	vma_mark_detached(vma, detached);
	mmap_write_unlock(current->mm);
}

/* Check that a writer gets the lock of the VMA at once, so that no reader has it. */
static bool guard_lets_go(struct vm_area_struct *vma)
{
	bool got = down_write_trylock(&vma->vm_lock->lock);

	if (got)
		up_write(&vma->vm_lock->lock);
	return got;
}

static void a_batch_holds_its_vmas(struct kunit *test)
{
	enum mtier_why why = MTIER_MAY;
	struct mtier_guarded *held;
	struct mtier_guard *guard;
	struct vm_area_struct *vma = guard_vma(test, &guard);

	held = mtier_guard_vma(guard, vma, &why);
	KUNIT_ASSERT_NOT_NULL(test, held);
	KUNIT_EXPECT_PTR_EQ(test, held->vma, vma);
	KUNIT_EXPECT_PTR_EQ(test, mtier_guard_vma(guard, vma, &why), held);
	KUNIT_EXPECT_FALSE(test, guard_lets_go(vma));
	mtier_guard_end(guard);
	KUNIT_EXPECT_TRUE(test, guard_lets_go(vma));
}

/* rmap still finds a detached VMA, but munmap() does not wait for its readers. */
static void a_detached_vma_is_not_held(struct kunit *test)
{
	enum mtier_why why = MTIER_MAY;
	struct mtier_guard *guard;
	struct vm_area_struct *vma = guard_vma(test, &guard);

	guard_detach(vma, true);
	KUNIT_EXPECT_NULL(test, mtier_guard_vma(guard, vma, &why));
	KUNIT_EXPECT_EQ(test, why, MTIER_WHY_BUSY);
	KUNIT_EXPECT_EQ(test, mtier_ask_spare(guard, NULL, vma, vma->vm_start),
			MTIER_WHY_BUSY);
	KUNIT_EXPECT_EQ(test, guard->nr_vmas, 0);
	KUNIT_EXPECT_TRUE(test, guard_lets_go(vma));
	mtier_guard_end(guard);
	guard_detach(vma, false);
}

/* F19: entries without access rights look the same as entries for a hint fault. */
static void memory_without_rights_is_not_eligible(struct kunit *test)
{
	struct mtier_guard *guard;
	struct vm_area_struct vma = *guard_vma(test, &guard);

	KUNIT_EXPECT_TRUE(test, mtier_vma_eligible(&vma));
	vm_flags_init(&vma, vma.vm_flags & ~VM_ACCESS_FLAGS);
	KUNIT_EXPECT_FALSE(test, mtier_vma_eligible(&vma));
}

/* Check whether a page of a new mapping with these flags can be demoted. */
static enum mtier_why guard_way(struct kunit *test, unsigned long flags,
				bool unevictable)
{
	struct mtier_guard *guard;
	enum mtier_why why = MTIER_WHY_GONE;
	struct vm_area_struct *vma;
	struct page *page;
	unsigned long at;

	guard_vma(test, &guard);
	guard->down = true;
	at = kunit_vm_mmap(test, NULL, 0, PAGE_SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | flags, 0);
	KUNIT_ASSERT_NE(test, at, 0);
	KUNIT_ASSERT_EQ(test, get_user_pages_fast(at, 1, FOLL_WRITE, &page), 1);
	if (unevictable)
		folio_set_unevictable(page_folio(page));
	mmap_read_lock(current->mm);
	vma = vma_lookup(current->mm, at);
	if (vma)
		why = mtier_ask_kind(guard, page_folio(page), vma);
	mmap_read_unlock(current->mm);
	if (unevictable)
		folio_clear_unevictable(page_folio(page));
	put_page(page);
	return why;
}

/* A device may access pinned memory at any time. */
static void pinned_memory_stays(struct kunit *test)
{
	struct mtier_guard *guard;
	struct vm_area_struct *vma = guard_vma(test, &guard);
	struct page *page;

	KUNIT_ASSERT_EQ(test, pin_user_pages_fast(vma->vm_start, 1, FOLL_WRITE, &page), 1);
	KUNIT_EXPECT_EQ(test, mtier_folio_stays(page_folio(page), vma), MTIER_WHY_PINNED);
	KUNIT_EXPECT_TRUE(test, mtier_single_stays(page_folio(page), false));
	unpin_user_page(page);
	KUNIT_EXPECT_EQ(test, mtier_folio_stays(page_folio(page), vma), MTIER_MAY);
	KUNIT_EXPECT_FALSE(test, mtier_single_stays(page_folio(page), false));
}

static void locked_memory_does_not_give_way(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, guard_way(test, 0, false), MTIER_MAY);
	KUNIT_EXPECT_EQ(test, guard_way(test, MAP_LOCKED, false), MTIER_WHY_KIND);
	/* SHM_LOCK does this, for example. */
	KUNIT_EXPECT_EQ(test, guard_way(test, 0, true), MTIER_WHY_KIND);
}

/* Its TLBs are not flushed between two scans, so pages that it uses look idle. */
static void memory_of_a_secondary_mmu_does_not_give_way(struct kunit *test)
{
	static const struct mmu_notifier_ops ops = {};
	struct mmu_notifier mn = { .ops = &ops };
	struct mtier_guard *guard;

	/* This gives the test an address space. */
	guard_vma(test, &guard);
	KUNIT_ASSERT_EQ(test, mmu_notifier_register(&mn, current->mm), 0);
	KUNIT_EXPECT_EQ(test, guard_way(test, 0, false), MTIER_WHY_KIND);
	mmu_notifier_unregister(&mn, current->mm);
}

/* Map the first page of a file, and fault it in. */
static struct vm_area_struct *guard_file(struct kunit *test, struct file *file,
					 unsigned long prot, unsigned long how)
{
	unsigned long at = kunit_vm_mmap(test, file, 0, PAGE_SIZE, prot, how, 0);
	struct vm_area_struct *vma;
	char byte;

	KUNIT_ASSERT_NE(test, at, 0);
	KUNIT_ASSERT_EQ(test, copy_from_user(&byte, (void __user *)at, 1), 0);
	mmap_read_lock(current->mm);
	vma = vma_lookup(current->mm, at);
	mmap_read_unlock(current->mm);
	KUNIT_ASSERT_NOT_NULL(test, vma);
	return vma;
}

/* Check a folio that @vma maps, as if a second process had it mapped. */
static enum mtier_why guard_stays_shared(struct folio *folio,
					 struct vm_area_struct *vma)
{
	enum mtier_why why;

	atomic_inc(&folio->_mapcount);
	why = mtier_folio_stays(folio, vma);
	atomic_dec(&folio->_mapcount);
	return why;
}

/* The pages of a private mapping of a file are copies only where it was written. */
static void only_copies_are_shared_copy_on_write(struct kunit *test)
{
	struct vm_area_struct *vma;
	struct mtier_guard *guard;
	struct file *file;
	struct page *page;

	guard_vma(test, &guard);
	file = shmem_kernel_file_setup("guard", PAGE_SIZE, VM_NORESERVE);
	KUNIT_ASSERT_FALSE(test, IS_ERR(file));
	vma = guard_file(test, file, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	KUNIT_ASSERT_EQ(test, get_user_pages_fast(vma->vm_start, 1, 0, &page), 1);
	KUNIT_EXPECT_EQ(test, guard_stays_shared(page_folio(page), vma), MTIER_MAY);
	put_page(page);
	KUNIT_ASSERT_EQ(test, get_user_pages_fast(vma->vm_start, 1, FOLL_WRITE,
						  &page), 1);
	KUNIT_EXPECT_EQ(test, mtier_folio_stays(page_folio(page), vma), MTIER_MAY);
	KUNIT_EXPECT_EQ(test, guard_stays_shared(page_folio(page), vma),
			MTIER_WHY_KIND);
	put_page(page);
	fput(file);
}

/* Ask for the first page of @file, which is found in @vma. */
static enum mtier_why guard_ask_file(struct kunit *test,
				     struct mtier_guard *guard,
				     struct vm_area_struct *vma)
{
	struct folio *folio = filemap_get_folio(vma->vm_file->f_mapping, 0);
	enum mtier_why why = MTIER_WHY_GONE;
	struct mtier_guarded *held;

	KUNIT_ASSERT_FALSE(test, IS_ERR(folio));
	held = mtier_guard_vma(guard, vma, &why);
	KUNIT_EXPECT_NOT_NULL(test, held);
	if (held) {
		/* All VMAs of the test have the same rules. */
		held->rules->allowed.up = node_states[N_MEMORY];
		why = mtier_guard_ask(guard, folio, held, vma->vm_start, true);
	}
	folio_put(folio);
	mtier_guard_end(guard);
	return why;
}

/* A mapping without access rights forbids each node. */
static void guard_forbid(struct vm_area_struct *vma, unsigned long shared)
{
	mmap_write_lock(current->mm);
	vm_flags_reset(vma, (vma->vm_flags & ~(VM_ACCESS_FLAGS | VM_SHARED)) | shared);
	mmap_write_unlock(current->mm);
}

static void who_only_reads_a_file_cannot_forbid(struct kunit *test)
{
	struct vm_area_struct *writes, *reads;
	struct mtier_guard *guard;
	struct file *file;

	guard_vma(test, &guard);
	file = shmem_kernel_file_setup("guard", PAGE_SIZE, VM_NORESERVE);
	KUNIT_ASSERT_FALSE(test, IS_ERR(file));
	writes = guard_file(test, file, PROT_READ | PROT_WRITE, MAP_SHARED);
	reads = guard_file(test, file, PROT_READ, MAP_PRIVATE);
	KUNIT_EXPECT_EQ(test, guard_ask_file(test, guard, writes), MTIER_MAY);
	guard_forbid(reads, 0);
	KUNIT_EXPECT_EQ(test, guard_ask_file(test, guard, writes), MTIER_MAY);
	/* If it could write, it could forbid. */
	guard_forbid(reads, VM_SHARED);
	KUNIT_EXPECT_EQ(test, guard_ask_file(test, guard, writes),
			MTIER_WHY_POLICY);
	/* And so can all mappers together. */
	guard_forbid(reads, 0);
	KUNIT_EXPECT_EQ(test, vm_munmap(writes->vm_start, PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, guard_ask_file(test, guard, reads),
			MTIER_WHY_POLICY);
	fput(file);
}

static struct kunit_case mtier_eligible_cases[] = {
	KUNIT_CASE(a_batch_holds_its_vmas),
	KUNIT_CASE(a_detached_vma_is_not_held),
	KUNIT_CASE(memory_without_rights_is_not_eligible),
	KUNIT_CASE(pinned_memory_stays),
	KUNIT_CASE(locked_memory_does_not_give_way),
	KUNIT_CASE(memory_of_a_secondary_mmu_does_not_give_way),
	KUNIT_CASE(only_copies_are_shared_copy_on_write),
	KUNIT_CASE(who_only_reads_a_file_cannot_forbid),
	{ }
};

static struct kunit_suite mtier_eligible_suite = {
	.name = "mtier_eligible",
	.test_cases = mtier_eligible_cases,
};

kunit_test_suite(mtier_eligible_suite);
