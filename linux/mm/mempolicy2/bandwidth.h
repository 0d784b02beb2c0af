/* SPDX-License-Identifier: GPL-2.0 */
/* Interleave weights from bandwidth: arithmetic for kernel and user space. */
#ifndef _MM_MEMPOLICY2_BANDWIDTH_H
#define _MM_MEMPOLICY2_BANDWIDTH_H

#include <linux/types.h>

/* Most pages of a round: this bounds the time of the search. */
#define MPOL_ROUND_MAX		4096

/* Least pages of a round if a node of unknown bandwidth has one more */
#define MPOL_ROUND_UNKNOWN	32

u32 mpol_auto_weights(const u32 *mbps, u8 *weight, u32 nr, u8 least);
void mpol_stretch_weights(u8 *weight, u32 nr);

#endif /* _MM_MEMPOLICY2_BANDWIDTH_H */
