/* SPDX-License-Identifier: LGPL-2.1-only */
/* libterrace: what its files share. */
#ifndef TERRACE_INTERNAL_H
#define TERRACE_INTERNAL_H

#include <stdint.h>
#include <terrace/policy.h>

/* More than any kernel is built for */
#define MAX_NODES	1024
#define MAX_WEIGHT	255

struct terrace_policy {
	enum terrace_mode mode;
	unsigned int flags;
	int home;
	uint64_t nodes[MAX_NODES / 64];
	uint8_t weights[MAX_NODES];
};

/* struct mpol_param of <linux/mempolicy2.h>, version 0 */
struct mpol_param {
	uint16_t mode;
	uint16_t mode_flags;
	int32_t home_node;
	uint16_t pol_maxnodes;
	uint8_t resv[6];
	uint64_t pol_nodes __attribute__((aligned(8)));
	uint64_t il_weights __attribute__((aligned(8)));
};

_Static_assert(sizeof(struct mpol_param) == 32, "the same for every ABI");

int terrace_has_weights(const struct terrace_policy *policy);

#endif /* TERRACE_INTERNAL_H */
