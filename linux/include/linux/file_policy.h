/* SPDX-License-Identifier: GPL-2.0 */
/* Memory policies of regular files: what page cache, mempolicy and inodes call. */
#ifndef _LINUX_FILE_POLICY_H
#define _LINUX_FILE_POLICY_H

#include <linux/fs.h>
#include <linux/jump_label.h>
#include <linux/mm_types.h>
#include <linux/pagemap.h>

struct mempolicy;

#ifdef CONFIG_MAPPED_FILE_POLICY

DECLARE_STATIC_KEY_FALSE(file_policy_key);

struct folio *__file_policy_alloc(struct address_space *mapping, pgoff_t index,
				  gfp_t gfp, unsigned int order);
bool __file_policy_get(struct vm_area_struct *vma, unsigned long addr,
		       pgoff_t *ilx, struct mempolicy **pol);
bool __file_policy_takes(struct vm_area_struct *vma);
int __file_policy_set(struct vm_area_struct *vma, struct mempolicy *pol);
void __file_policy_drop(struct address_space *mapping);

static inline bool file_policy_on(void)
{
	return static_branch_unlikely(&file_policy_key);
}

/**
 * file_policy_has - Has a file policies?
 * @mapping: of the file
 *
 * Return: true if it has, or had.
 */
static inline bool file_policy_has(const struct address_space *mapping)
{
	return file_policy_on() && test_bit(AS_FILE_POLICY, &mapping->flags);
}

/**
 * filemap_alloc_folio_at - Allocate a folio for the page cache of a file
 * @mapping: of the file, which may have policies
 * @index: where in the file
 * @gfp: as for filemap_alloc_folio()
 * @order: of the folio
 *
 * Return: the folio, on a node that the file's policy names if it has one for
 * this place; NULL without memory.
 */
static inline struct folio *
filemap_alloc_folio_at(struct address_space *mapping, pgoff_t index, gfp_t gfp,
		       unsigned int order)
{
	if (file_policy_has(mapping))
		return __file_policy_alloc(mapping, index, gfp, order);
	return filemap_alloc_folio(gfp, order);
}

/**
 * file_policy_get - Has the file that a VMA shows policies?
 * @vma: VMA, locked
 * @addr: address in it
 * @ilx: set to what interleaving begins with, if so
 * @pol: set to the policy there, which mpol_cond_put() gives back, or NULL
 *
 * Return: true if it has: what the VMA says does not count.
 */
static inline bool file_policy_get(struct vm_area_struct *vma,
				   unsigned long addr, pgoff_t *ilx,
				   struct mempolicy **pol)
{
	return file_policy_on() && __file_policy_get(vma, addr, ilx, pol);
}

/**
 * file_policy_takes - Does a policy for a VMA become one of its file?
 * @vma: VMA, locked for writing
 *
 * Return: true if it does.
 */
static inline bool file_policy_takes(struct vm_area_struct *vma)
{
	return file_policy_on() && __file_policy_takes(vma);
}

/**
 * file_policy_set - Give a part of a file a policy
 * @vma: VMA that shows the part, locked for writing
 * @pol: policy; NULL for none
 *
 * Return: 0, also where a policy stays with the VMA, or -ENOMEM.
 */
static inline int file_policy_set(struct vm_area_struct *vma,
				  struct mempolicy *pol)
{
	return file_policy_takes(vma) ? __file_policy_set(vma, pol) : 0;
}

/**
 * file_policy_drop - An inode goes, and its policies with it
 * @mapping: of the inode; without pages
 */
static inline void file_policy_drop(struct address_space *mapping)
{
	if (unlikely(test_bit(AS_FILE_POLICY, &mapping->flags)))
		__file_policy_drop(mapping);
}

#else /* !CONFIG_MAPPED_FILE_POLICY */

#define filemap_alloc_folio_at(mapping, index, gfp, order)	\
({								\
	(void)(mapping);					\
	(void)(index);						\
	filemap_alloc_folio(gfp, order);			\
})

static inline bool file_policy_has(const struct address_space *mapping)
{
	return false;
}

static inline bool file_policy_get(struct vm_area_struct *vma,
				   unsigned long addr, pgoff_t *ilx,
				   struct mempolicy **pol)
{
	return false;
}

static inline bool file_policy_takes(struct vm_area_struct *vma)
{
	return false;
}

static inline int file_policy_set(struct vm_area_struct *vma,
				  struct mempolicy *pol)
{
	return 0;
}

static inline void file_policy_drop(struct address_space *mapping) { }

#endif /* CONFIG_MAPPED_FILE_POLICY */

#endif /* _LINUX_FILE_POLICY_H */
