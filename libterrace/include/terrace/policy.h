/* SPDX-License-Identifier: LGPL-2.1-only */
/*
 * libterrace: memory policies, and interleave weights of one thread or one range
 * of memory.
 *
 * Functions return 0 or a negative errno.  Nothing is printed and nothing is
 * kept between calls; different threads may use different objects at the same
 * time.  See terrace_policy(3).
 */
#ifndef TERRACE_POLICY_H
#define TERRACE_POLICY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Modes, with the kernel's numbers */
enum terrace_mode {
	TERRACE_DEFAULT = 0,
	TERRACE_PREFERRED = 1,
	TERRACE_BIND = 2,
	TERRACE_INTERLEAVE = 3,
	TERRACE_LOCAL = 4,
	TERRACE_PREFERRED_MANY = 5,
	TERRACE_WEIGHTED_INTERLEAVE = 6,
};

/* Mode flags, with the kernel's numbers */
#define TERRACE_F_STATIC_NODES		(1U << 15)
#define TERRACE_F_RELATIVE_NODES	(1U << 14)
#define TERRACE_F_NUMA_BALANCING	(1U << 13)

/* How to apply a policy: flags */
#define TERRACE_STRICT		(1U << 0) /* -EIO if pages lie wrong */
#define TERRACE_MOVE		(1U << 1) /* move pages that are there */
#define TERRACE_REBALANCE	(1U << 2) /* also those inside the mask */
#define TERRACE_FALLBACK	(1U << 3) /* do what this kernel can do */
#define TERRACE_LAZY		(1U << 4) /* with MOVE alone: at their next use */

/* What to read: flags */
#define TERRACE_EFFECTIVE	(1U << 0) /* nodes and weights in force now */
/* On a kernel without the call what an older one tells: mode, flags, nodes. */
#define TERRACE_READ_FALLBACK	(1U << 1)

/* What applying a policy came to; of two the one that comes first here */
enum terrace_result {
	/* as asked for */
	TERRACE_APPLIED = 0,
	/* the kernel lacks the call: its global weights hold, not the given */
	TERRACE_GLOBAL_WEIGHTS = 1,
	/* the kernel cannot wait for the next use: pages have moved at once */
	TERRACE_AT_ONCE = 2,
};

/* A policy: a mode, nodes and their weights.  Opaque. */
struct terrace_policy;

/* Does the running kernel have the calls?  0, or -ENOSYS. */
int terrace_supported(void);

/* A policy without nodes; free it with terrace_policy_free(). */
int terrace_policy_new(struct terrace_policy **out, enum terrace_mode mode);
void terrace_policy_free(struct terrace_policy *policy);

/* From a text, "0=9,1=1" or "0-2=3,5" (weight 0: the global one) */
int terrace_policy_parse(struct terrace_policy **out, const char *text);

/* Add a node; weight 0 follows the global one.  -EINVAL, -ERANGE. */
int terrace_policy_set_node(struct terrace_policy *policy, unsigned int node,
			    unsigned int weight);
int terrace_policy_set_flags(struct terrace_policy *policy,
			     unsigned int mode_flags);
int terrace_policy_set_home(struct terrace_policy *policy, unsigned int node);

enum terrace_mode terrace_policy_mode(const struct terrace_policy *policy);
unsigned int terrace_policy_flags(const struct terrace_policy *policy);
/* Home node, or -1 */
int terrace_policy_home(const struct terrace_policy *policy);
/* 1 if the node is in the mask, 0 if not */
int terrace_policy_has_node(const struct terrace_policy *policy,
			    unsigned int node);
unsigned int terrace_policy_weight(const struct terrace_policy *policy,
				   unsigned int node);
/* One more than the highest node of the mask */
unsigned int terrace_policy_nodes(const struct terrace_policy *policy);

/*
 * Make it the policy of this thread, or of a range.  @result may be NULL unless
 * TERRACE_FALLBACK is given: a fallback is always told.
 */
int terrace_policy_apply_thread(const struct terrace_policy *policy,
				unsigned int flags,
				enum terrace_result *result);
int terrace_policy_apply_range(const struct terrace_policy *policy,
			       void *start, size_t size, unsigned int flags,
			       enum terrace_result *result);

/*
 * Read the policy of this thread, or the one at an address.  With
 * TERRACE_READ_FALLBACK an older kernel is asked, too: weights are 0 there, the
 * ones that hold for everybody, and TERRACE_EFFECTIVE says nothing more.
 */
int terrace_policy_read_thread(struct terrace_policy **out,
			       unsigned int flags);
int terrace_policy_read_range(struct terrace_policy **out, const void *at,
			      unsigned int flags);

/* The weight of a node for everybody (1 to 255); setting it needs root. */
int terrace_global_weight(unsigned int node, unsigned int *weight);
int terrace_set_global_weight(unsigned int node, unsigned int weight);

#ifdef __cplusplus
}
#endif

#endif /* TERRACE_POLICY_H */
