/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory policies with interleave weights: calls of mm/mempolicy.c, cpusets and
 * /proc/PID/numa_maps. Empty without CONFIG_MEMPOLICY2. See mm/mempolicy2/weights.c.
 */
#ifndef _LINUX_MEMPOLICY2_H
#define _LINUX_MEMPOLICY2_H

#include <linux/bits.h>
#include <linux/mempolicy.h>
#include <linux/slab.h>
#include <uapi/linux/mempolicy2.h>

struct access_coordinate;
struct seq_file;

#ifdef CONFIG_MEMPOLICY2

/*
 * Functions of mm/mempolicy.c that mm/mempolicy2/ calls; static without
 * CONFIG_MEMPOLICY2.
 */
#define VISIBLE_IF_MEMPOLICY2

/* mm/mempolicy2/global.c creates the sysfs files */
#define MEMPOLICY_SYSFS 0

extern u8 __rcu *iw_table;
extern struct mutex iw_table_lock;

struct mempolicy *mpol_new(unsigned short mode, unsigned short flags,
			   nodemask_t *nodes);
long do_set_mempolicy(unsigned short mode, unsigned short flags,
		      nodemask_t *nodes);
long do_mbind(unsigned long start, unsigned long len, unsigned short mode,
	      unsigned short mode_flags, nodemask_t *nmask,
	      unsigned long flags);
nodemask_t *policy_nodemask(gfp_t gfp, struct mempolicy *pol, pgoff_t ilx,
			    int *nid);

/* In mempolicy.flags: the policy is the first field of a struct mempolicy2. */
#define MPOL_F_WEIGHTS	BIT(5)
/* With MPOL_F_WEIGHTS: that is the first field of a struct mempolicy2_task. */
#define MPOL_F_TASK	BIT(7)
/*
 * In the mode flags of do_set_mempolicy(), do_mbind() and mpol_new(): the node mask is
 * the first field of a struct mpol2_request. The system calls reject it.
 */
#define MPOL_F_REQUEST	BIT(6)

/**
 * struct mpol2_request - further arguments of mpol_new()
 * @nodes: node mask
 * @weight: MAX_NUMNODES weights, not all 0; NULL for the global ones
 * @home_node: home node, NUMA_NO_NODE for none
 * @task: the policy is for a task
 */
struct mpol2_request {
	nodemask_t nodes;
	u8 *weight;
	int home_node;
	bool task;
};

struct mempolicy *mpol2_new(unsigned short mode, unsigned short flags,
			    nodemask_t *nodes);
bool __mpol2_free(struct mempolicy *pol);
struct mempolicy *__mpol2_dup_alloc(struct mempolicy *old);
void __mpol2_copy(struct mempolicy *new, struct mempolicy *old);
bool __mpol2_equal(struct mempolicy *a, struct mempolicy *b);
u32 __mpol2_hash(const struct mempolicy *pol);
void __mpol2_contextualize(struct mempolicy *pol, const nodemask_t *allowed);
void __mpol2_rebind(struct mempolicy *pol, const nodemask_t *mems);
void __mpol2_split(struct mempolicy **copy, struct mempolicy *old);
unsigned int mpol2_nid(struct mempolicy *pol, pgoff_t ilx);
unsigned int mpol2_next_node(struct mempolicy *pol);
void mpol2_fill_weights(struct mempolicy *pol, const nodemask_t *nodes,
			u8 *weights);
void mpol2_rebind_prepare(struct task_struct *tsk);
void mempolicy_set_node_perf(unsigned int nid, struct access_coordinate *coord);
void mpol2_show(struct seq_file *m, struct vm_area_struct *vma,
		struct mempolicy *task_policy);

/**
 * mpol2_requested() - Check whether the node mask is part of a struct mpol2_request
 * @flags: mode flags
 *
 * Return: true if it is.
 */
static inline bool mpol2_requested(unsigned short flags)
{
	return unlikely(flags & MPOL_F_REQUEST);
}

/**
 * mpol2_keeps_mask() - Check whether a policy keeps the mask that it was given
 * @pol: policy
 *
 * Return: true if a rebind must leave @pol->w alone.
 */
static inline bool mpol2_keeps_mask(const struct mempolicy *pol)
{
	return pol->flags & MPOL_MODE_FLAGS;
}

/**
 * mpol2_has_weights() - Check whether a policy has weights
 * @pol: policy, not NULL
 *
 * Return: true if it is part of a struct mempolicy2.
 */
static inline bool mpol2_has_weights(const struct mempolicy *pol)
{
	return unlikely(pol->flags & MPOL_F_WEIGHTS);
}

/**
 * mpol2_finds_node() - Check whether mpol2_nid() finds the node of an index
 *
 * Return: true: it does for all weighted interleave, also by global weights.
 */
static inline bool mpol2_finds_node(void)
{
	return true;
}

/**
 * mpol2_counts_hit() - Check whether a policy counts in interleave_hit
 * @pol: policy
 *
 * Return: true for weighted interleave, with weights of any origin.
 */
static inline bool mpol2_counts_hit(const struct mempolicy *pol)
{
	return pol->mode == MPOL_WEIGHTED_INTERLEAVE;
}

/**
 * mpol2_free() - Free a policy with weights
 * @pol: policy without any reference
 *
 * Return: true if it was one, and is gone.
 */
static inline bool mpol2_free(struct mempolicy *pol)
{
	return mpol2_has_weights(pol) && __mpol2_free(pol);
}

/**
 * mpol2_dup_alloc() - Allocate the copy of a policy
 * @cache: slab cache of policies without weights
 * @old: original
 *
 * Return: uninitialised policy, NULL without memory.
 */
static inline struct mempolicy *mpol2_dup_alloc(struct kmem_cache *cache,
						struct mempolicy *old)
{
	if (mpol2_has_weights(old))
		return __mpol2_dup_alloc(old);
	return kmem_cache_alloc(cache, GFP_KERNEL);
}

/**
 * mpol2_spare_alloc() - Allocate a policy that may be freed before it is written
 * @cache: slab cache of policies without weights
 *
 * Return: zeroed policy, NULL without memory.
 */
static inline struct mempolicy *mpol2_spare_alloc(struct kmem_cache *cache)
{
	return kmem_cache_zalloc(cache, GFP_KERNEL);
}

/**
 * mpol2_copy() - Give a copied policy the weights of its original
 * @new: from mpol2_dup_alloc(), struct mempolicy copied already
 * @old: original, protected as it is for that copy
 */
static inline void mpol2_copy(struct mempolicy *new, struct mempolicy *old)
{
	if (mpol2_has_weights(old))
		__mpol2_copy(new, old);
}

/**
 * mpol2_equal() - Compare the weights of two policies
 * @a: policy
 * @b: policy with the same flags
 *
 * Return: true if their weights are the same, or there are none.
 */
static inline bool mpol2_equal(struct mempolicy *a, struct mempolicy *b)
{
	return !mpol2_has_weights(a) || __mpol2_equal(a, b);
}

/**
 * mpol2_hash() - Hash the weights of a policy
 * @pol: policy that only a rebind may change
 *
 * Return: the same for the same weights in force; 0 for a policy without weights.
 */
static inline u32 mpol2_hash(const struct mempolicy *pol)
{
	return mpol2_has_weights(pol) ? __mpol2_hash(pol) : 0;
}

/**
 * mpol2_contextualize() - Compute the weights in force after the nodes
 * @pol: new policy, its nodes set
 * @allowed: nodes with memory that the task may use
 */
static inline void mpol2_contextualize(struct mempolicy *pol,
				       const nodemask_t *allowed)
{
	if (mpol2_has_weights(pol))
		__mpol2_contextualize(pol, allowed);
}

/**
 * mpol2_rebind() - Move weights with their nodes
 * @pol: policy with the old nodes and masks
 * @mems: new nodes that the task may use
 */
static inline void mpol2_rebind(struct mempolicy *pol, const nodemask_t *mems)
{
	if (mpol2_has_weights(pol))
		__mpol2_rebind(pol, mems);
}

/**
 * mpol2_split() - Get the policy for the second half of a shared range that is split
 * @copy: in: byte copy of struct mempolicy; out: the policy to use
 * @old: original
 */
static inline void mpol2_split(struct mempolicy **copy, struct mempolicy *old)
{
	if (mpol2_has_weights(old))
		__mpol2_split(copy, old);
}

#else /* !CONFIG_MEMPOLICY2 */

#define VISIBLE_IF_MEMPOLICY2 static
#define MEMPOLICY_SYSFS IS_ENABLED(CONFIG_SYSFS)

static inline bool mpol2_requested(unsigned short flags)
{
	return false;
}

static inline struct mempolicy *mpol2_new(unsigned short mode,
					  unsigned short flags,
					  nodemask_t *nodes)
{
	return NULL;
}

static inline bool mpol2_keeps_mask(const struct mempolicy *pol)
{
	return false;
}

static inline bool mpol2_has_weights(const struct mempolicy *pol)
{
	return false;
}

static inline bool mpol2_finds_node(void)
{
	return false;
}

static inline bool mpol2_counts_hit(const struct mempolicy *pol)
{
	return false;
}

static inline bool mpol2_free(struct mempolicy *pol)
{
	return false;
}

static inline struct mempolicy *mpol2_dup_alloc(struct kmem_cache *cache,
						struct mempolicy *old)
{
	return kmem_cache_alloc(cache, GFP_KERNEL);
}

static inline struct mempolicy *mpol2_spare_alloc(struct kmem_cache *cache)
{
	return kmem_cache_alloc(cache, GFP_KERNEL);
}

static inline void mpol2_copy(struct mempolicy *new, struct mempolicy *old)
{
}

static inline bool mpol2_equal(struct mempolicy *a, struct mempolicy *b)
{
	return true;
}

static inline void mpol2_contextualize(struct mempolicy *pol,
				       const nodemask_t *allowed)
{
}

static inline void mpol2_rebind(struct mempolicy *pol, const nodemask_t *mems)
{
}

static inline void mpol2_split(struct mempolicy **copy, struct mempolicy *old)
{
}

static inline unsigned int mpol2_nid(struct mempolicy *pol, pgoff_t ilx)
{
	return 0;
}

static inline unsigned int mpol2_next_node(struct mempolicy *pol)
{
	return 0;
}

static inline void mpol2_fill_weights(struct mempolicy *pol,
				      const nodemask_t *nodes, u8 *weights)
{
}

static inline void mpol2_rebind_prepare(struct task_struct *tsk)
{
}

static inline void mempolicy_set_node_perf(unsigned int nid,
					   struct access_coordinate *coord)
{
}

static inline void mpol2_show(struct seq_file *m, struct vm_area_struct *vma,
			      struct mempolicy *task_policy)
{
}

#endif /* CONFIG_MEMPOLICY2 */
#endif /* _LINUX_MEMPOLICY2_H */
