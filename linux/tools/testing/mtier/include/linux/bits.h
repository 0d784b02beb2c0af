/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in: single bits and runs of bits. */
#ifndef _MTIER_SHIM_BITS_H
#define _MTIER_SHIM_BITS_H

#define BIT(nr)		(1UL << (nr))
#define BIT_ULL(nr)	(1ULL << (nr))
#define GENMASK(h, l)	((~0UL >> (8 * sizeof(long) - 1 - (h))) & (~0UL << (l)))

#endif
