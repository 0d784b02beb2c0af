/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in: rounding division. */
#ifndef _MTIER_SHIM_MATH_H
#define _MTIER_SHIM_MATH_H

#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))

#endif
