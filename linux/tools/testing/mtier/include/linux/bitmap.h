/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in: as much of bitmaps as mm/tlb_defer/gen.c uses. */
#ifndef _MTIER_SHIM_BITMAP_H
#define _MTIER_SHIM_BITMAP_H

#include <string.h>

#include <linux/limits.h>
#include <linux/types.h>

#define BITS_PER_LONG		(8 * sizeof(long))
#define BITS_TO_LONGS(bits)	(((bits) + BITS_PER_LONG - 1) / BITS_PER_LONG)
#define DECLARE_BITMAP(name, bits)	unsigned long name[BITS_TO_LONGS(bits)]

static inline void bitmap_zero(unsigned long *map, unsigned int bits)
{
	memset(map, 0, BITS_TO_LONGS(bits) * sizeof(long));
}

static inline void bitmap_or(unsigned long *to, const unsigned long *a,
			     const unsigned long *b, unsigned int bits)
{
	for (unsigned int i = 0; i < BITS_TO_LONGS(bits); i++)
		to[i] = a[i] | b[i];
}

#define for_each_set_bit(bit, map, bits)					\
	for ((bit) = 0; (bit) < (int)(bits); (bit)++)				\
		if ((map)[(bit) / BITS_PER_LONG] & 1UL << (bit) % BITS_PER_LONG)

#endif
