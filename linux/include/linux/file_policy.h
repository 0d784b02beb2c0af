/* SPDX-License-Identifier: GPL-2.0 */
/* Memory policies of regular files: what page cache, mempolicy and inodes call. */
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
 * file_policy_private - What policy has a page of a file that a VMA maps privately?
 * @vma: VMA, locked
 * @addr: address in it
 * @anon: the page there is a copy: not the file's any more
 * @order: of its folio
 * @ilx: set to where interleaving is, if there is one
 *
 * Return: that of the file, which mpol_cond_put() gives back; NULL if it has none
 * there, or the VMA is a shared one: that one's __get_vma_policy() knows it.
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
 * get_own_page_policy - The policy of a page, if it has one of its own
 * @vma: VMA that maps it, locked
 * @addr: where
 * @anon: it is anonymous
 * @ilx: set to what interleaving begins with
 *
 * Whoever maps a page of a file, it goes by the policy of the file; what a private
 * mapping has copied goes by that of the VMA.
 *
 * Return: the policy, which mpol_cond_put() gives back; NULL if it is the task's.
 */
static inline struct mempolicy *
get_own_page_policy(struct vm_area_struct *vma, unsigned long addr, bool anon,
		    pgoff_t *ilx)
{
	struct mempolicy *pol = file_policy_private(vma, addr, anon, 0, ilx);

	return pol ?: __get_vma_policy(vma, addr, ilx);
}

/**
 * get_page_policy - The policy of a page
 * @vma: VMA that maps it, locked
 * @addr: where
 * @anon: it is anonymous
 * @order: of its folio
 * @ilx: set to where interleaving is
 *
 * Return: the policy, which mpol_cond_put() gives back; the current task's if the
 * page has none of its own.
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
