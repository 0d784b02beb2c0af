/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in: the highest bit that is set. */
#ifndef _MTIER_SHIM_BITOPS_H
#define _MTIER_SHIM_BITOPS_H

#include <linux/bits.h>

static inline int fls(unsigned int x)
{
	return x ? 32 - __builtin_clz(x) : 0;
}

#endif
