// SPDX-License-Identifier: GPL-2.0
/*
 * set_mempolicy2(), get_mempolicy2(), mbind2(): memory policies in an extensible
 * struct.
 *
 * Everything is copied and checked before anything is changed, and all memory
 * is allocated before the last step, so a call that fails changes nothing; only
 * mbind2() may leave the first of several VMAs changed where mbind() does.
 *
 * There is no compat path: masks are 64-bit words, pointers are 64-bit fields.
 *
 * Locks: task->alloc_lock, mmap_lock; see weights.c for their order.
 */
#include <linux/mempolicy2.h>
#include <linux/mm.h>
#include <linux/numa_follow.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>

#include "mempolicy2.h"

#define MASK_WORDS	DIV_ROUND_UP(MAX_NUMNODES, 64)
#define ALL_MODE_FLAGS	(MPOL_F_STATIC_NODES | MPOL_F_RELATIVE_NODES | \
			 MPOL_F_NUMA_BALANCING)
/* With one of these flags the kernel remembers the mask of the caller. */
#define MASK_FLAGS	(MPOL_F_STATIC_NODES | MPOL_F_RELATIVE_NODES)
#define DO_MBIND_FLAGS	(MPOL_MF_VALID | NUMA_FOLLOW_FLAG)
#define ALL_MBIND_FLAGS	(DO_MBIND_FLAGS | MPOL_MF_HOME_NODE | \
			 MPOL_MF_REBALANCE)

/* A policy in the form of the user, and in that of the kernel. */
struct request {
	struct mpol_param param;
	struct mpol2_request in;
};

static int copy_param(struct mpol_param *param,
		      const struct mpol_param __user *uparam, size_t usize)
{
	int ret;

	BUILD_BUG_ON(sizeof(*param) != MPOL_PARAM_SIZE_VER0);
	if (usize < MPOL_PARAM_SIZE_VER0)
		return -EINVAL;
	if (usize > PAGE_SIZE)
		return -E2BIG;
	ret = copy_struct_from_user(param, sizeof(*param), uparam, usize);
	if (ret)
		return ret;
	if (memchr_inv(param->resv, 0, sizeof(param->resv)))
		return -EINVAL;
	if (!param->pol_maxnodes && (param->pol_nodes || param->il_weights))
		return -EINVAL;
	return 0;
}

/* Check that the bytes from @ptr on, of nodes that do not exist, are 0. */
static int check_beyond(const void __user *ptr, size_t size)
{
	int ret;

	if (!size)
		return 0;
	ret = check_zeroed_user(ptr, size);
	if (ret < 0)
		return ret;
	return ret ? 0 : -EINVAL;
}

static int copy_nodes(struct request *req)
{
	const u64 __user *from = u64_to_user_ptr(req->param.pol_nodes);
	bool kept = req->param.mode_flags & MASK_FLAGS;
	unsigned int bits = req->param.pol_maxnodes;
	unsigned int words = DIV_ROUND_UP(bits, 64);
	unsigned int known = min_t(unsigned int, words, MASK_WORDS);
	u64 mask[MASK_WORDS] = { 0 };
	unsigned int i;
	int ret;

	nodes_clear(req->in.nodes);
	if (!from)
		return 0;
	if (copy_from_user(mask, from, known * sizeof(u64)))
		return -EFAULT;
	ret = check_beyond(from + known, (words - known) * sizeof(u64));
	if (ret)
		return ret;

	/*
	 * No bits after the count. A node that cannot exist is an error, except in a mask
	 * that is remembered: the older calls accept it there.
	 */
	bits = min_t(unsigned int, bits, kept ? MAX_NUMNODES : nr_node_ids);
	for (i = 0; i < known; i++) {
		u64 valid = ~0ULL;

		if (bits <= i * 64)
			valid = 0;
		else if (bits < (i + 1) * 64)
			valid = GENMASK_ULL(bits - i * 64 - 1, 0);
		if (mask[i] & ~valid)
			return -EINVAL;
	}
	bitmap_from_arr64(nodes_addr(req->in.nodes), mask, MAX_NUMNODES);
	return 0;
}

static int copy_weights(struct request *req)
{
	const u8 __user *from = u64_to_user_ptr(req->param.il_weights);
	unsigned int count = req->param.pol_maxnodes;
	unsigned int known = min_t(unsigned int, count, MAX_NUMNODES);
	int nid, ret;

	if (!from)
		return 0;
	req->in.weight = kzalloc(MAX_NUMNODES, GFP_KERNEL);
	if (!req->in.weight)
		return -ENOMEM;
	if (copy_from_user(req->in.weight, from, known))
		return -EFAULT;
	ret = check_beyond(from + known, count - known);
	if (ret)
		return ret;
	if (req->param.mode != MPOL_WEIGHTED_INTERLEAVE &&
	    memchr_inv(req->in.weight, 0, MAX_NUMNODES))
		return -EINVAL;
	/* A program may pass one array of weights with any mask. */
	for (nid = 0; nid < MAX_NUMNODES; nid++)
		if (!node_isset(nid, req->in.nodes))
			req->in.weight[nid] = 0;

	/* All weights follow the global ones: a policy without weights. */
	if (!memchr_inv(req->in.weight, 0, MAX_NUMNODES)) {
		kfree(req->in.weight);
		req->in.weight = NULL;
	}
	return 0;
}

static int check_mode(const struct mpol_param *param)
{
	u16 mode = param->mode, flags = param->mode_flags;

	if (mode >= MPOL_MAX || flags & ~(ALL_MODE_FLAGS | MPOL_F_HOME_NODE))
		return -EINVAL;
	if ((flags & MASK_FLAGS) == MASK_FLAGS)
		return -EINVAL;
	if ((flags & MPOL_F_NUMA_BALANCING) && mode != MPOL_BIND &&
	    mode != MPOL_PREFERRED_MANY)
		return -EINVAL;
	return 0;
}

/* Copy and check the request; the caller calls put_request() after any return value. */
static int get_request(struct request *req,
		       const struct mpol_param __user *uparam, size_t usize)
{
	int ret;

	req->in.weight = NULL;
	req->in.home_node = NUMA_NO_NODE;
	req->in.task = false;
	ret = copy_param(&req->param, uparam, usize);
	if (!ret)
		ret = check_mode(&req->param);
	if (!ret)
		ret = copy_nodes(req);
	if (!ret)
		ret = copy_weights(req);
	return ret;
}

static void put_request(struct request *req)
{
	kfree(req->in.weight);
}

/* Mode flags of the kernel for a struct mpol2_request */
static unsigned short kernel_flags(const struct mpol_param *param)
{
	unsigned short flags = param->mode_flags & ALL_MODE_FLAGS;

	flags |= MPOL_F_REQUEST;
	if (flags & MPOL_F_NUMA_BALANCING)
		flags |= MPOL_F_MOF | MPOL_F_MORON;
	return flags;
}

static int copy_home(struct request *req)
{
	u16 mode = req->param.mode;
	int nid = req->param.home_node;

	/* 0 from a cleared struct, -1 from get_mempolicy2() */
	if (!(req->param.mode_flags & MPOL_F_HOME_NODE))
		return nid == 0 || nid == NUMA_NO_NODE ? 0 : -EINVAL;
	if (nid < 0 || nid >= MAX_NUMNODES || !node_online(nid))
		return -EINVAL;
	if (mode != MPOL_BIND && mode != MPOL_PREFERRED_MANY)
		return -EOPNOTSUPP;
	req->in.home_node = nid;
	return 0;
}

SYSCALL_DEFINE3(set_mempolicy2, const struct mpol_param __user *, uparam,
		size_t, usize, unsigned long, flags)
{
	struct request req;
	long ret;

	if (flags)
		return -EINVAL;
	ret = get_request(&req, uparam, usize);
	req.in.task = true;
	if (!ret)
		ret = copy_home(&req);
	if (!ret)
		ret = do_set_mempolicy(req.param.mode, kernel_flags(&req.param),
				       &req.in.nodes);
	put_request(&req);
	return ret;
}

static long bind_range(unsigned long start, unsigned long len,
		       struct request *req, unsigned long flags)
{
	return do_mbind(start, len, req->param.mode, kernel_flags(&req->param),
			&req->in.nodes, flags & DO_MBIND_FLAGS);
}

static long bind_and_rebalance(unsigned long start, unsigned long len,
			       struct request *req, unsigned long flags)
{
	struct list_head *lists;
	long ret;

	if (req->param.mode != MPOL_INTERLEAVE &&
	    req->param.mode != MPOL_WEIGHTED_INTERLEAVE)
		return -EINVAL;
	/* Pages move either now or at the next access. */
	if (flags & MPOL_MF_LAZY)
		return -EINVAL;
	lists = mpol2_rebalance_alloc();
	if (!lists)
		return -ENOMEM;
	/* It moves the pages of MOVE, each to its exact node. */
	ret = bind_range(start, len, req,
			 flags & ~(MPOL_MF_STRICT | MPOL_MF_MOVE));
	if (!ret)
		ret = mpol2_rebalance(lists, start, start + PAGE_ALIGN(len));
	if (ret > 0)
		ret = flags & MPOL_MF_STRICT ? -EIO : 0;
	kfree(lists);
	return ret;
}

SYSCALL_DEFINE5(mbind2, unsigned long, start, unsigned long, len,
		const struct mpol_param __user *, uparam, size_t, usize,
		unsigned long, flags)
{
	struct request req;
	long ret;

	if (flags & ~(unsigned long)ALL_MBIND_FLAGS)
		return -EINVAL;
	start = untagged_addr(start);
	ret = get_request(&req, uparam, usize);
	if (!ret && flags & MPOL_MF_HOME_NODE)
		req.param.mode_flags |= MPOL_F_HOME_NODE;
	if (!ret)
		ret = copy_home(&req);
	if (ret)
		goto out;
	if (flags & MPOL_MF_REBALANCE)
		ret = bind_and_rebalance(start, len, &req, flags);
	else
		ret = bind_range(start, len, &req, flags);
out:
	put_request(&req);
	return ret;
}

/*
 * Fill in @req from @pol, which the caller protects; NULL is the default policy.
 * @raw: as it was set, not as it is in force.
 */
static void describe(struct request *req, struct mempolicy *pol, bool raw)
{
	struct mpol_param *param = &req->param;

	param->mode = MPOL_DEFAULT;
	param->mode_flags = 0;
	param->home_node = NUMA_NO_NODE;
	nodes_clear(req->in.nodes);
	memset(req->in.weight, 0, MAX_NUMNODES);
	if (!pol)
		return;

	param->mode = pol->mode;
	param->mode_flags = pol->flags & ALL_MODE_FLAGS;
	param->home_node = pol->home_node;
	if (pol->home_node != NUMA_NO_NODE)
		param->mode_flags |= MPOL_F_HOME_NODE;
	if (pol->mode == MPOL_LOCAL)
		return;
	if (raw && pol->flags & MASK_FLAGS)
		req->in.nodes = pol->w.user_nodemask;
	else
		req->in.nodes = pol->nodes;
	if (raw)
		mpol2_raw_weights(pol, req->in.weight);
	else if (pol->mode == MPOL_WEIGHTED_INTERLEAVE)
		mpol2_fill_weights(pol, &pol->nodes, req->in.weight);
}

static int describe_at(struct request *req, unsigned long addr, bool raw)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	struct mempolicy *pol;
	pgoff_t ilx;

	mmap_read_lock(mm);
	vma = vma_lookup(mm, addr);
	if (vma) {
		pol = __get_vma_policy(vma, addr, &ilx);
		describe(req, pol, raw);
		mpol_cond_put(pol);
	}
	mmap_read_unlock(mm);
	return vma ? 0 : -EFAULT;
}

static int put_nodes(const struct request *req, unsigned int count)
{
	u64 __user *to = u64_to_user_ptr(req->param.pol_nodes);
	unsigned int words = DIV_ROUND_UP(count, 64);
	unsigned int known = min_t(unsigned int, words, MASK_WORDS);
	u64 mask[MASK_WORDS] = { 0 };

	bitmap_to_arr64(mask, nodes_addr(req->in.nodes), MAX_NUMNODES);
	if (copy_to_user(to, mask, known * sizeof(u64)) ||
	    clear_user(to + known, (words - known) * sizeof(u64)))
		return -EFAULT;
	return 0;
}

static int put_weights(const struct request *req, unsigned int count)
{
	u8 __user *to = u64_to_user_ptr(req->param.il_weights);
	unsigned int known = min_t(unsigned int, count, MAX_NUMNODES);

	if (copy_to_user(to, req->in.weight, known) ||
	    clear_user(to + known, count - known))
		return -EFAULT;
	return 0;
}

/* Number of nodes that the caller needs space for: up to the last one of the policy. */
static unsigned int nodes_needed(const struct request *req)
{
	unsigned int last = find_last_bit(nodes_addr(req->in.nodes), MAX_NUMNODES);

	return last < MAX_NUMNODES ? last + 1 : 0;
}

static int put_policy(struct request *req, struct mpol_param __user *uparam)
{
	struct mpol_param *param = &req->param;
	unsigned int count = param->pol_maxnodes;
	unsigned int needed = nodes_needed(req);

	if (!param->pol_nodes && !param->il_weights) {
		param->pol_maxnodes = max(needed, nr_node_ids);
	} else if (count < needed) {
		if (put_user((u16)needed, &uparam->pol_maxnodes))
			return -EFAULT;
		return -ERANGE;
	}
	if (param->pol_nodes && put_nodes(req, count))
		return -EFAULT;
	if (param->il_weights && put_weights(req, count))
		return -EFAULT;
	return copy_to_user(uparam, param, sizeof(*param)) ? -EFAULT : 0;
}

SYSCALL_DEFINE4(get_mempolicy2, struct mpol_param __user *, uparam,
		size_t, usize, unsigned long, addr, unsigned long, flags)
{
	bool raw = flags & MPOL_F_RAW;
	struct request req;
	int ret;

	if (flags & ~(unsigned long)(MPOL_F_ADDR | MPOL_F_RAW))
		return -EINVAL;
	if (addr && !(flags & MPOL_F_ADDR))
		return -EINVAL;
	ret = copy_param(&req.param, uparam, usize);
	if (ret)
		return ret;
	req.in.weight = kmalloc(MAX_NUMNODES, GFP_KERNEL);
	if (!req.in.weight)
		return -ENOMEM;
	if (flags & MPOL_F_ADDR) {
		ret = describe_at(&req, untagged_addr(addr), raw);
	} else {
		task_lock(current);
		describe(&req, current->mempolicy, raw);
		task_unlock(current);
	}
	if (!ret)
		ret = put_policy(&req, uparam);
	kfree(req.in.weight);
	return ret;
}
