/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Memory policy calls with an extensible argument: set_mempolicy2(),
 * get_mempolicy2(), mbind2().
 *
 *	long set_mempolicy2(const struct mpol_param *param, size_t usize,
 *			    unsigned long flags);
 *	long get_mempolicy2(struct mpol_param *param, size_t usize,
 *			    unsigned long addr, unsigned long flags);
 *	long mbind2(unsigned long start, unsigned long len,
 *		    const struct mpol_param *param, size_t usize,
 *		    unsigned long flags);
 *
 * See Documentation/admin-guide/mm/mempolicy2.rst.
 */
#ifndef _UAPI_LINUX_MEMPOLICY2_H
#define _UAPI_LINUX_MEMPOLICY2_H

#include <linux/types.h>

/*
 * The numbers are the same on every architecture (plus the base of its ABI, as
 * for every other call), far above those that mainline assigns, and below 1000
 * because the ranges of MIPS are that long.
 */
#ifndef __NR_set_mempolicy2
#define __NR_set_mempolicy2	960
#define __NR_get_mempolicy2	961
#define __NR_mbind2		962
#endif

/**
 * struct mpol_param - a memory policy
 * @mode: MPOL_DEFAULT, MPOL_BIND, ... without flags
 * @mode_flags: MPOL_F_STATIC_NODES, MPOL_F_RELATIVE_NODES,
 *	MPOL_F_NUMA_BALANCING, MPOL_F_HOME_NODE
 * @home_node: node to allocate from first, with MPOL_F_HOME_NODE; without it
 *	0 or -1, and -1 from get_mempolicy2()
 * @pol_maxnodes: exact number of bits behind @pol_nodes and of bytes behind
 *	@il_weights
 * @resv: 0
 * @pol_nodes: pointer to the node mask, 64-bit words, node n is bit n % 64 of
 *	word n / 64; 0 for none
 * @il_weights: pointer to a weight per node, 0 follows the global weight of
 *	the node; 0 for none.  Those of nodes outside the mask are ignored;
 *	all are 0 but with MPOL_WEIGHTED_INTERLEAVE.
 *
 * The same bytes on every architecture and from every ABI.  Later versions only
 * append fields, and 0 in such a field means what this version does.
 */
struct mpol_param {
	__u16 mode;
	__u16 mode_flags;
	__s32 home_node;
	__u16 pol_maxnodes;
	__u8 resv[6];
	__aligned_u64 pol_nodes;
	__aligned_u64 il_weights;
};

#define MPOL_PARAM_SIZE_VER0	32	/* sizeof first published struct */

/* Flag of mode_flags, with those of set_mempolicy() */
#define MPOL_F_HOME_NODE	(1 << 12) /* home_node is valid */

/* Flag of get_mempolicy2(), with MPOL_F_ADDR */
#define MPOL_F_RAW		(1 << 5) /* as it was set, to be set again */

/* Flags of mbind2(), with MPOL_MF_STRICT, MPOL_MF_MOVE, MPOL_MF_MOVE_ALL */
#define MPOL_MF_HOME_NODE	(1 << 16) /* the same as MPOL_F_HOME_NODE */
#define MPOL_MF_REBALANCE	(1 << 17) /* move pages where the interleaving
					   * would allocate them
					   */

#endif /* _UAPI_LINUX_MEMPOLICY2_H */
