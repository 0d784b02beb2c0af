/* SPDX-License-Identifier: GPL-2.0 */
/*
 * User-space stand-in: 64-bit division.
 *
 * Stricter than the kernel: what a machine would answer with a trap (a divisor
 * of zero, a quotient that does not fit) stops the program here as well.
 */
#ifndef _MTIER_SHIM_MATH64_H
#define _MTIER_SHIM_MATH64_H

#include <linux/limits.h>
#include <linux/types.h>

static inline void shim_trap_unless(bool ok)
{
	if (!ok)
		__builtin_trap();
}

static inline u64 div64_u64_rem(u64 dividend, u64 divisor, u64 *remainder)
{
	shim_trap_unless(divisor);
	*remainder = dividend % divisor;
	return dividend / divisor;
}

static inline u64 div64_u64(u64 dividend, u64 divisor)
{
	u64 remainder;

	return div64_u64_rem(dividend, divisor, &remainder);
}

static inline u64 div_u64_rem(u64 dividend, u32 divisor, u32 *remainder)
{
	shim_trap_unless(divisor);
	*remainder = dividend % divisor;
	return dividend / divisor;
}

static inline u64 div_u64(u64 dividend, u32 divisor)
{
	u32 remainder;

	return div_u64_rem(dividend, divisor, &remainder);
}

static inline u64 mul_u64_u64_div_u64(u64 a, u64 mul, u64 div)
{
	unsigned __int128 quotient;

	shim_trap_unless(div);
	quotient = (unsigned __int128)a * mul / div;
	shim_trap_unless(quotient <= U64_MAX);
	return quotient;
}

static inline u64 mul_u64_u32_shr(u64 a, u32 mul, unsigned int shift)
{
	return (unsigned __int128)a * mul >> shift;
}

#endif
