/* SPDX-License-Identifier: GPL-2.0 */
/* Interleave weights from bandwidth: arithmetic for kernel and user space. */
#ifndef _MM_MEMPOLICY2_BANDWIDTH_H
#define _MM_MEMPOLICY2_BANDWIDTH_H

#include <linux/types.h>

/* A round has no more pages: this bounds the time that the search takes. */
#define MPOL_ROUND_MAX		4096

/* Pages of a round, at least, where a node of unknown bandwidth has one more */
#define MPOL_ROUND_UNKNOWN	32

u32 mpol_auto_weights(const u32 *mbps, u8 *weight, u32 nr, u8 least);
void mpol_stretch_weights(u8 *weight, u32 nr);

#endif /* _MM_MEMPOLICY2_BANDWIDTH_H */
