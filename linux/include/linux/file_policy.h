/* SPDX-License-Identifier: GPL-2.0 */
/* Memory policies of regular files: calls of the page cache, mempolicy and inodes. */
#ifndef _LINUX_FILE_POLICY_H
#define _LINUX_FILE_POLICY_H

#include <linux/fs.h>
#include <linux/jump_label.h>
#include <linux/mempolicy.h>
#include <linux/mm_types.h>
#include <linux/pagemap.h>

#ifdef CONFIG_MAPPED_FILE_POLICY

DECLARE_STATIC_KEY_FALSE(file_policy_key);

struct folio *__file_policy_alloc(struct address_space *mapping, pgoff_t index,
				  gfp_t gfp, unsigned int order);
bool __file_policy_get(struct vm_area_struct *vma, unsigned long addr,
		       pgoff_t *ilx, struct mempolicy **pol);
struct mempolicy *__file_policy_at(const struct address_space *mapping,
				   pgoff_t index);
struct mempolicy *__file_policy_private(struct vm_area_struct *vma,
					unsigned long addr, int order,
					pgoff_t *ilx);
bool __file_policy_takes(struct vm_area_struct *vma);
int __file_policy_set(struct vm_area_struct *vma, struct mempolicy *pol);
void __file_policy_drop(struct address_space *mapping);

static inline bool file_policy_on(void)
{
	return static_branch_unlikely(&file_policy_key);
}

/**
 * file_policy_has() - Check whether a file has memory policies
 * @mapping: mapping of the file
 *
 * Return: true if it has or had one.
 */
static inline bool file_policy_has(const struct address_space *mapping)
{
	return file_policy_on() && test_bit(AS_FILE_POLICY, &mapping->flags);
}

/**
 * filemap_alloc_folio_at() - Allocate a folio for the page cache of a file
 * @mapping: mapping of the file, which may have policies
 * @index: page offset in the file
 * @gfp: as for filemap_alloc_folio()
 * @order: order of the folio
 *
 * Return: the folio, on a node of the file's policy if it has one at @index; NULL without
 * memory.
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
 * file_policy_get() - Get the policy of a file mapped by a VMA
 * @vma: VMA, locked
 * @addr: address in it
 * @ilx: set to the start of interleaving if the file has policies
 * @pol: set to the policy at @addr, to be released with mpol_cond_put(), or NULL
 *
 * Return: true if the file has policies; then the policy of the VMA does not count.
 */
static inline bool file_policy_get(struct vm_area_struct *vma,
				   unsigned long addr, pgoff_t *ilx,
				   struct mempolicy **pol)
{
	return file_policy_on() && __file_policy_get(vma, addr, ilx, pol);
}

/**
 * file_policy_at() - Get the policy of a file for one of its pages
 * @mapping: the file, which the caller prevents from being freed
 * @index: the page
 *
 * Return: the policy, to be released by mpol_cond_put(); NULL if the file has none there.
 */
static inline struct mempolicy *
file_policy_at(const struct address_space *mapping, pgoff_t index)
{
	return file_policy_has(mapping) ? __file_policy_at(mapping, index) : NULL;
}

/**
 * file_policy_private() - Get the policy of a page of a privately mapped file
 * @vma: VMA, locked
 * @addr: address in it
 * @anon: the page there is a private copy, not a page of the file
 * @order: order of its folio
 * @ilx: set to the interleave index, if there is a policy
 *
 * Return: the policy of the file, to be released with mpol_cond_put(); NULL if there is
 * none at @addr, or the VMA is shared: then __get_vma_policy() finds it.
 */
static inline struct mempolicy *
file_policy_private(struct vm_area_struct *vma, unsigned long addr, bool anon,
		    int order, pgoff_t *ilx)
{
	if (!file_policy_on() || anon)
		return NULL;
	return __file_policy_private(vma, addr, order, ilx);
}

/**
 * file_policy_takes() - Check whether a policy for a VMA becomes one of its file
 * @vma: VMA, locked for writing
 *
 * Return: true if it does.
 */
static inline bool file_policy_takes(struct vm_area_struct *vma)
{
	return file_policy_on() && __file_policy_takes(vma);
}

/**
 * file_policy_set() - Set the policy of a part of a file
 * @vma: VMA that maps the part, locked for writing
 * @pol: policy; NULL for none
 *
 * Return: 0, also if the policy belongs to the VMA, or -ENOMEM.
 */
static inline int file_policy_set(struct vm_area_struct *vma,
				  struct mempolicy *pol)
{
	return file_policy_takes(vma) ? __file_policy_set(vma, pol) : 0;
}

/**
 * file_policy_drop() - Free the policies of an inode
 * @mapping: mapping of the inode, without pages
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

static inline struct mempolicy *
file_policy_at(const struct address_space *mapping, pgoff_t index)
{
	return NULL;
}

static inline struct mempolicy *
file_policy_private(struct vm_area_struct *vma, unsigned long addr, bool anon,
		    int order, pgoff_t *ilx)
{
	return NULL;
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

#ifdef CONFIG_NUMA
/**
 * get_own_page_policy() - Get the policy of a page, without that of the task
 * @vma: VMA that maps it, locked
 * @addr: address of the page
 * @anon: it is anonymous
 * @ilx: set to the start of interleaving
 *
 * The policy of the file applies to pages of a file, for all processes that map them.
 * That of the VMA applies to private copies.
 *
 * Return: the policy, to be released with mpol_cond_put(); NULL if the task's policy
 * applies.
 */
static inline struct mempolicy *
get_own_page_policy(struct vm_area_struct *vma, unsigned long addr, bool anon,
		    pgoff_t *ilx)
{
	struct mempolicy *pol = file_policy_private(vma, addr, anon, 0, ilx);

	return pol ?: __get_vma_policy(vma, addr, ilx);
}

/**
 * get_page_policy() - Get the policy of a page
 * @vma: VMA that maps it, locked
 * @addr: address of the page
 * @anon: it is anonymous
 * @order: order of its folio
 * @ilx: set to the interleave index
 *
 * Return: the policy, to be released with mpol_cond_put(); the current task's if neither
 * file nor VMA has one.
 */
static inline struct mempolicy *
get_page_policy(struct vm_area_struct *vma, unsigned long addr, bool anon,
		int order, pgoff_t *ilx)
{
	struct mempolicy *pol = file_policy_private(vma, addr, anon, order, ilx);

	return pol ?: get_vma_policy(vma, addr, order, ilx);
}
#endif

#endif /* _LINUX_FILE_POLICY_H */
