/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in: division that rounds up, the root of an integer. */
#ifndef _MTIER_SHIM_MATH_H
#define _MTIER_SHIM_MATH_H

#include <linux/types.h>

#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))

/* The largest number whose square is at most @x. */
static inline u32 int_sqrt64(u64 x)
{
	u64 root = 0;

	for (u64 bit = 1ULL << 31; bit; bit >>= 1)
		if ((root + bit) * (root + bit) <= x)
			root += bit;
	return root;
}

#endif
