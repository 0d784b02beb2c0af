/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in: minimum, maximum and clamp of one given type. */
#ifndef _MTIER_SHIM_MINMAX_H
#define _MTIER_SHIM_MINMAX_H

#define min_t(type, a, b) __extension__({	\
	type min_a_ = (a);			\
	type min_b_ = (b);			\
	min_a_ < min_b_ ? min_a_ : min_b_;	\
})

#define max_t(type, a, b) __extension__({	\
	type max_a_ = (a);			\
	type max_b_ = (b);			\
	max_a_ > max_b_ ? max_a_ : max_b_;	\
})

#define clamp_t(type, v, lo, hi) __extension__({	\
	type clamp_v_ = (v);				\
	type clamp_lo_ = (lo);				\
	type clamp_hi_ = (hi);				\
	clamp_v_ < clamp_lo_ ? clamp_lo_ :		\
	clamp_v_ > clamp_hi_ ? clamp_hi_ : clamp_v_;	\
})

#endif
