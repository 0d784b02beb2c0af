// SPDX-License-Identifier: GPL-2.0
/*
 * Memory policies of regular files: mbind() on a shared mapping sets the policy of the
 * file.
 *
 * Locking: file_policy_lock for changes of the table, taken with mmap_lock held for
 * writing, or in the eviction of an inode; RCU for lookups. An entry stays valid without
 * both while its inode is held: it is freed with the inode. struct shared_policy inside
 * has its own lock.
 */
#include <linux/file_policy.h>
#include <linux/gfp.h>
#include <linux/hashtable.h>
#include <linux/hugetlb_inline.h>
#include <linux/init.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/sysctl.h>
#include <linux/topology.h>

#include "file_policy.h"

DEFINE_STATIC_KEY_FALSE(file_policy_key);

/**
 * struct file_policy - policies of a file
 * @node: entry in file_policies, by @mapping
 * @mapping: mapping of the file
 * @policy: policies by page offset
 * @rcu: defers the free until lookups have ended
 */
struct file_policy {
	struct hlist_node node;
	struct address_space *mapping;
	struct shared_policy policy;
	struct rcu_head rcu;
};

static DEFINE_HASHTABLE(file_policies, 8);
static DEFINE_SPINLOCK(file_policy_lock);

/* The caller holds the inode, or the lock. */
static struct file_policy *policy_of(const struct address_space *mapping)
{
	struct file_policy *found = NULL, *fp;

	rcu_read_lock();
	hash_for_each_possible_rcu(file_policies, fp, node,
				   (unsigned long)mapping) {
		if (READ_ONCE(fp->mapping) == mapping) {
			found = fp;
			break;
		}
	}
	rcu_read_unlock();
	return found;
}

/* Not in the table yet; NULL without memory. */
static struct file_policy *new_policy(struct address_space *mapping)
{
	struct file_policy *fp = kzalloc(sizeof(*fp), GFP_KERNEL);

	if (fp) {
		fp->mapping = mapping;
		mpol_shared_policy_init(&fp->policy, NULL);
	}
	return fp;
}

/* Insert @fresh for its file; false if the file has an entry already. */
static bool publish(struct file_policy *fresh)
{
	struct address_space *mapping = fresh->mapping;
	bool first;

	spin_lock(&file_policy_lock);
	first = !policy_of(mapping);
	if (first) {
		hash_add_rcu(file_policies, &fresh->node,
			     (unsigned long)mapping);
		/*
		 * Pairs with readers of the bit: a set bit means that there is an entry.
		 */
		smp_mb__before_atomic();
		set_bit(AS_FILE_POLICY, &mapping->flags);
		file_policy_counted(1);
	}
	spin_unlock(&file_policy_lock);
	return first;
}

/**
 * __file_policy_at() - Get the policy of a file for one of its pages
 * @mapping: the file, which the caller prevents from being freed
 * @index: the page
 *
 * Interleaving starts with the inode number, as in tmpfs, and continues by index.
 *
 * Return: the policy, to be released with mpol_cond_put(); NULL if the file has none there.
 */
struct mempolicy *__file_policy_at(const struct address_space *mapping,
				   pgoff_t index)
{
	struct file_policy *fp = policy_of(mapping);

	if (!fp)
		return NULL;
	return mpol_shared_policy_lookup(&fp->policy, index);
}

/**
 * __file_policy_alloc() - Allocate a folio for a file that has policies
 * @mapping: mapping of the file, held by the caller
 * @index: page offset in the file
 * @gfp: as for filemap_alloc_folio()
 * @order: order of the folio
 *
 * Return: the folio; NULL without memory.
 */
struct folio *__file_policy_alloc(struct address_space *mapping, pgoff_t index,
				  gfp_t gfp, unsigned int order)
{
	struct mempolicy *pol = __file_policy_at(mapping, index);
	struct folio *folio;

	if (!pol)
		return filemap_alloc_folio(gfp, order);
	folio = folio_alloc_mpol(gfp, order, pol,
				 mapping->host->i_ino + (index >> order),
				 numa_node_id());
	mpol_cond_put(pol);
	return folio;
}

/* Get the mapping of the regular file that a VMA maps; NULL for other VMAs. */
static struct address_space *regular_file(const struct vm_area_struct *vma)
{
	struct address_space *mapping;
	struct inode *inode;

	if (!vma->vm_file)
		return NULL;
	/* tmpfs and hugetlbfs have policies of their own. */
	if ((vma->vm_ops && vma->vm_ops->set_policy) || is_vm_hugetlb_page(vma))
		return NULL;
	inode = file_inode(vma->vm_file);
	mapping = vma->vm_file->f_mapping;
	if (!S_ISREG(inode->i_mode) || IS_DAX(inode) || !mapping ||
	    mapping != &inode->i_data)
		return NULL;
	return mapping;
}

/* The same for shared mappings only */
static struct address_space *shared_file(const struct vm_area_struct *vma)
{
	return vma->vm_flags & VM_MAYSHARE ? regular_file(vma) : NULL;
}

/**
 * __file_policy_get() - Get the policy of a file mapped by a VMA
 * @vma: VMA, locked
 * @addr: address in it
 * @ilx: set to the start of interleaving if the file has policies
 * @pol: set to the policy at @addr, to be released with mpol_cond_put(), or NULL
 *
 * Return: true if the file has policies.
 */
bool __file_policy_get(struct vm_area_struct *vma, unsigned long addr,
		       pgoff_t *ilx, struct mempolicy **pol)
{
	struct address_space *mapping = shared_file(vma);

	if (!mapping || !test_bit_acquire(AS_FILE_POLICY, &mapping->flags))
		return false;
	*ilx = mapping->host->i_ino;
	*pol = __file_policy_at(mapping, linear_page_index(vma, addr));
	return true;
}

/**
 * __file_policy_private() - Get the policy of a page of a privately mapped file
 * @vma: VMA, locked; the page is not a copy
 * @addr: address in it
 * @order: order of its folio
 * @ilx: set to the interleave index, as in __file_policy_alloc()
 *
 * Return: the policy of the file, to be released with mpol_cond_put(); NULL if there is
 * none at @addr, or the mapping is shared.
 */
struct mempolicy *__file_policy_private(struct vm_area_struct *vma,
					unsigned long addr, int order,
					pgoff_t *ilx)
{
	pgoff_t index = linear_page_index(vma, addr);
	struct address_space *mapping;

	if (vma->vm_flags & VM_MAYSHARE)
		return NULL;
	mapping = regular_file(vma);
	if (!mapping || !test_bit_acquire(AS_FILE_POLICY, &mapping->flags))
		return NULL;
	*ilx = mapping->host->i_ino + (index >> order);
	return __file_policy_at(mapping, index);
}

/**
 * __file_policy_takes() - Check whether a policy for a VMA becomes one of its file
 * @vma: VMA, locked for writing
 *
 * Return: true if it does.
 */
bool __file_policy_takes(struct vm_area_struct *vma)
{
	return shared_file(vma) && (vma->vm_flags & VM_SHARED);
}

/**
 * __file_policy_set() - Set the policy of a part of a file
 * @vma: VMA that maps the part, locked for writing; __file_policy_takes()
 * @pol: policy; NULL for none
 *
 * Return: 0 or -ENOMEM; then nothing has changed.
 */
int __file_policy_set(struct vm_area_struct *vma, struct mempolicy *pol)
{
	struct address_space *mapping = shared_file(vma);
	struct file_policy *fp, *fresh;
	int ret;

	mmap_assert_write_locked(vma->vm_mm);
	fp = policy_of(mapping);
	if (fp)
		return mpol_set_shared_policy(&fp->policy, vma, pol);
	if (!pol)
		return 0;
	/* All steps that can fail, before the policies of the file become visible. */
	fresh = new_policy(mapping);
	if (!fresh)
		return -ENOMEM;
	ret = mpol_set_shared_policy(&fresh->policy, vma, pol);
	if (!ret && publish(fresh))
		return 0;
	mpol_free_shared_policy(&fresh->policy);
	kfree(fresh);
	if (ret)
		return ret;
	/* Another task was first. The inode is held, so its entry stays. */
	return mpol_set_shared_policy(&policy_of(mapping)->policy, vma, pol);
}

/**
 * __file_policy_drop() - Free the policies of an inode that is evicted
 * @mapping: mapping of the inode, without other users
 */
void __file_policy_drop(struct address_space *mapping)
{
	struct file_policy *fp;

	spin_lock(&file_policy_lock);
	fp = policy_of(mapping);
	if (fp)
		hash_del_rcu(&fp->node);
	spin_unlock(&file_policy_lock);
	if (WARN_ON_ONCE(!fp))
		return;
	clear_bit(AS_FILE_POLICY, &mapping->flags);
	mpol_free_shared_policy(&fp->policy);
	file_policy_counted(-1);
	kfree_rcu(fp, rcu);
}

static struct ctl_table file_policy_sysctls[] = {
	{
		.procname	= "mapped_file_policy",
		.data		= &file_policy_key.key,
		.maxlen		= sizeof(file_policy_key),
		.mode		= 0644,
		.proc_handler	= proc_do_static_key,
	},
};

static int __init file_policy_init(void)
{
	register_sysctl_init("vm", file_policy_sysctls);
	return 0;
}
late_initcall(file_policy_init);
