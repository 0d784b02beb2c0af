// SPDX-License-Identifier: LGPL-2.1-only
/* libterrace: the kernel's calls, and what an older kernel can do instead. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

/* <linux/mempolicy2.h>; the same on every architecture */
#if defined(__x86_64__) && defined(__ILP32__)
#define NR_BASE		0x40000000L
#elif defined(__mips__) && _MIPS_SIM == _ABIO32
#define NR_BASE		4000L
#elif defined(__mips__) && _MIPS_SIM == _ABI64
#define NR_BASE		5000L
#elif defined(__mips__)
#define NR_BASE		6000L
#else
#define NR_BASE		0L
#endif
#define NR_SET		(NR_BASE + 960)
#define NR_GET		(NR_BASE + 961)
#define NR_MBIND	(NR_BASE + 962)

#define MPOL_F_ADDR		(1UL << 1)
#define MPOL_F_RAW		(1UL << 5)
#define MPOL_F_HOME_NODE	(1U << 12)	/* in mode_flags */
#define MPOL_MF_STRICT		(1UL << 0)
#define MPOL_MF_MOVE		(1UL << 1)
#define MPOL_MF_LAZY		(1UL << 3)
#define MPOL_MF_REBALANCE	(1UL << 17)

#define MODE_FLAGS	(TERRACE_F_STATIC_NODES | TERRACE_F_RELATIVE_NODES | \
			 TERRACE_F_NUMA_BALANCING)
#define READ_FLAGS	(TERRACE_EFFECTIVE | TERRACE_READ_FALLBACK)
#define ALL_FLAGS	(TERRACE_STRICT | TERRACE_MOVE | TERRACE_REBALANCE | \
			 TERRACE_FALLBACK | TERRACE_LAZY)

static int result_of(long ret)
{
	return ret < 0 ? -errno : 0;
}

int terrace_supported(void)
{
	/* Too small a struct is EINVAL where the call exists. */
	int ret = result_of(syscall(NR_GET, NULL, 0UL, 0UL, 0UL));

	return ret == -EINVAL ? 0 : -ENOSYS;
}

/* Containers may answer EPERM to calls they have not heard of. */
static int is_missing(int ret)
{
	return ret == -ENOSYS || (ret == -EPERM && terrace_supported());
}

static void fill_param(const struct terrace_policy *policy,
		       struct mpol_param *param)
{
	memset(param, 0, sizeof(*param));
	param->mode = policy->mode;
	param->mode_flags = policy->flags;
	param->home_node = policy->home;
	if (policy->home >= 0)
		param->mode_flags |= MPOL_F_HOME_NODE;
	param->pol_maxnodes = MAX_NODES;
	param->pol_nodes = (uintptr_t)policy->nodes;
	if (terrace_has_weights(policy))
		param->il_weights = (uintptr_t)policy->weights;
}

/*
 * The older calls take modes and nodes, and use the global weights.
 * They read one bit less than the number that they get.
 */
static int apply_old(const struct terrace_policy *policy, void *start,
		     size_t size, unsigned int flags)
{
	unsigned long mask[MAX_NODES / (8 * sizeof(long))] = { 0 };
	unsigned long bits = 8 * sizeof(long), move = 0;
	int mode = policy->mode | (int)policy->flags;
	unsigned int node, nodes = terrace_policy_nodes(policy);

	for (node = 0; node < nodes; node++)
		if (terrace_policy_has_node(policy, node))
			mask[node / bits] |= 1UL << node % bits;
	if (!start)
		return result_of(syscall(SYS_set_mempolicy, mode, mask,
					 nodes + 1UL));
	if (flags & TERRACE_STRICT)
		move |= MPOL_MF_STRICT;
	if (flags & TERRACE_MOVE)
		move |= MPOL_MF_MOVE;
	return result_of(syscall(SYS_mbind, start, size, mode, mask,
				 nodes + 1UL, move));
}

/*
 * Whether every kernel with lazy migration accepts @policy and @flags.  Others are
 * refused here, because the kernel's error is the same for an unknown flag.
 */
static int lazy_fits(const struct terrace_policy *policy, unsigned int flags)
{
	return flags & TERRACE_MOVE &&
	       !(flags & (TERRACE_STRICT | TERRACE_REBALANCE)) &&
	       policy->mode != TERRACE_DEFAULT &&
	       !(policy->flags & TERRACE_F_NUMA_BALANCING);
}

/* @start NULL: this thread */
static int apply(const struct terrace_policy *policy, void *start, size_t size,
		 unsigned int flags, enum terrace_result *result)
{
	struct mpol_param param;
	unsigned long move = 0;
	int ret;

	if (flags & ~ALL_FLAGS || (flags & TERRACE_FALLBACK && !result))
		return -EINVAL;
	if (!start && flags & ~TERRACE_FALLBACK)
		return -EINVAL;
	if (flags & TERRACE_LAZY && !lazy_fits(policy, flags))
		return -EINVAL;
	fill_param(policy, &param);
	if (start) {
		if (flags & TERRACE_STRICT)
			move |= MPOL_MF_STRICT;
		if (flags & TERRACE_MOVE)
			move |= MPOL_MF_MOVE;
		if (flags & TERRACE_LAZY)
			move |= MPOL_MF_LAZY;
		if (flags & TERRACE_REBALANCE)
			move |= MPOL_MF_REBALANCE;
		ret = result_of(syscall(NR_MBIND, start, size, &param,
					sizeof(param), move));
	} else {
		ret = result_of(syscall(NR_SET, &param, sizeof(param), 0UL));
	}
	if (result)
		*result = TERRACE_APPLIED;
	/* The same without the one flag that this kernel may not know */
	if (ret == -EINVAL && flags & TERRACE_LAZY && flags & TERRACE_FALLBACK) {
		ret = apply(policy, start, size, flags & ~TERRACE_LAZY, result);
		if (!ret && *result == TERRACE_APPLIED)
			*result = TERRACE_AT_ONCE;
		return ret;
	}
	if (!is_missing(ret))
		return ret;
	if (!(flags & TERRACE_FALLBACK))
		return -ENOSYS;

	ret = apply_old(policy, start, size, flags);
	if (!ret && (terrace_has_weights(policy) || policy->home >= 0 ||
		     flags & TERRACE_REBALANCE))
		*result = TERRACE_GLOBAL_WEIGHTS;
	else if (!ret && flags & TERRACE_LAZY)
		*result = TERRACE_AT_ONCE;
	return ret;
}

int terrace_policy_apply_thread(const struct terrace_policy *policy,
				unsigned int flags,
				enum terrace_result *result)
{
	return apply(policy, NULL, 0, flags, result);
}

int terrace_policy_apply_range(const struct terrace_policy *policy,
			       void *start, size_t size, unsigned int flags,
			       enum terrace_result *result)
{
	return start ? apply(policy, start, size, flags, result) : -EINVAL;
}

/* Result of the older call, in words of the size of a long */
static int read_old(struct terrace_policy *policy, const void *at)
{
	unsigned long mask[MAX_NODES / (8 * sizeof(long))] = { 0 };
	unsigned long bits = 8 * sizeof(long);
	unsigned int node;
	int mode = 0, ret;

	ret = result_of(syscall(SYS_get_mempolicy, &mode, mask,
				(unsigned long)MAX_NODES, at,
				at ? MPOL_F_ADDR : 0UL));
	if (ret)
		return ret;
	policy->mode = mode & ~(int)MODE_FLAGS;
	policy->flags = mode & (int)MODE_FLAGS;
	for (node = 0; node < MAX_NODES; node++)
		if (mask[node / bits] >> node % bits & 1)
			policy->nodes[node / 64] |= 1ULL << node % 64;
	return 0;
}

static int read_policy(struct terrace_policy **out, const void *at,
		       unsigned int flags)
{
	struct terrace_policy *policy;
	struct mpol_param param;
	unsigned long how = 0;
	int ret;

	if (flags & ~READ_FLAGS)
		return -EINVAL;
	ret = terrace_policy_new(&policy, TERRACE_DEFAULT);
	if (ret)
		return ret;
	fill_param(policy, &param);
	param.il_weights = (uintptr_t)policy->weights;
	if (!(flags & TERRACE_EFFECTIVE))
		how |= MPOL_F_RAW;
	if (at)
		how |= MPOL_F_ADDR;
	ret = result_of(syscall(NR_GET, &param, sizeof(param), at, how));
	if (!ret) {
		policy->mode = param.mode;
		policy->flags = param.mode_flags & MODE_FLAGS;
		policy->home = param.home_node;
	} else if (is_missing(ret)) {
		ret = flags & TERRACE_READ_FALLBACK ? read_old(policy, at) :
						      -ENOSYS;
	}
	if (ret)
		terrace_policy_free(policy);
	else
		*out = policy;
	return ret;
}

int terrace_policy_read_thread(struct terrace_policy **out, unsigned int flags)
{
	return read_policy(out, NULL, flags);
}

int terrace_policy_read_range(struct terrace_policy **out, const void *at,
			      unsigned int flags)
{
	return at ? read_policy(out, at, flags) : -EINVAL;
}
