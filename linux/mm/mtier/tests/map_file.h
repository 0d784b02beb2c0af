/* SPDX-License-Identifier: GPL-2.0 */
/* Memory that the test thread maps. */
#include <kunit/test.h>
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/pgtable.h>
#include <linux/shmem_fs.h>

#include <asm/tlbflush.h>

#include "../../internal.h"

/* Fault in @nr pages from @at on. */
static inline void map_touch(struct kunit *test, unsigned long at,
			     unsigned int nr)
{
	struct page *page;

	for (; nr--; at += PAGE_SIZE) {
		KUNIT_ASSERT_EQ(test, get_user_pages_fast(at, 1, FOLL_WRITE,
							  &page), 1);
		put_page(page);
	}
}

/* Make a file of two ranges. The caller releases it with fput(). */
static inline struct file *map_file_make(struct kunit *test)
{
	struct file *file = shmem_kernel_file_setup("map", 2 * MTIER_RANGE_SIZE,
						    VM_NORESERVE);

	KUNIT_ASSERT_FALSE(test, IS_ERR(file));
	return file;
}

/* Map two ranges. Returns the address of the first complete range. No huge pages. */
static inline unsigned long map_how(struct kunit *test, struct file *file,
				    unsigned long prot, unsigned long how)
{
	struct vm_area_struct *vma;
	unsigned long at;

	at = kunit_vm_mmap(test, file, 0, 2 * MTIER_RANGE_SIZE, prot, how, 0);
	KUNIT_ASSERT_NE(test, at, 0);
	mmap_write_lock(current->mm);
	vma = vma_lookup(current->mm, at);
	if (vma)
		vm_flags_set(vma, VM_NOHUGEPAGE);
	mmap_write_unlock(current->mm);
	return ALIGN(at, MTIER_RANGE_SIZE);
}

/* Map the file, or as much private anonymous memory if @file is NULL. */
static inline unsigned long map_file(struct kunit *test, struct file *file)
{
	return map_how(test, file, PROT_READ | PROT_WRITE,
		       file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS);
}

/* Make the page table at @at look idle, as it does if it is not used after a sweep. */
static inline void map_rest(struct kunit *test, unsigned long at)
{
	struct vm_area_struct *vma;
	pmd_t *pmd;

	mmap_read_lock(current->mm);
	vma = vma_lookup(current->mm, at);
	pmd = mm_find_pmd(current->mm, at & PMD_MASK);
	if (vma && pmd)
		pmdp_test_and_clear_young(vma, at & PMD_MASK, pmd);
	mmap_read_unlock(current->mm);
	KUNIT_ASSERT_NOT_NULL(test, pmd);
	KUNIT_ASSERT_FALSE(test, pmd_young(pmdp_get_lockless(pmd)));
	flush_tlb_mm(current->mm);
}

/* Read @nr pages from @at on, so that a private mapping has no copies. */
static inline void map_read(struct kunit *test, unsigned long at,
			    unsigned int nr)
{
	char byte;

	for (; nr--; at += PAGE_SIZE)
		KUNIT_ASSERT_EQ(test, copy_from_user(&byte, (void __user *)at, 1),
				0);
}
