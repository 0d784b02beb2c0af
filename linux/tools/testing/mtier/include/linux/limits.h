/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in: largest values of the kernel's integer types. */
#ifndef _MTIER_SHIM_LIMITS_H
#define _MTIER_SHIM_LIMITS_H

#include <linux/types.h>

#define U8_MAX		((u8)~0U)
#define U16_MAX		((u16)~0U)
#define U32_MAX		((u32)~0U)
#define U64_MAX		((u64)~0ULL)
#define S64_MAX		((s64)(U64_MAX >> 1))

#endif
