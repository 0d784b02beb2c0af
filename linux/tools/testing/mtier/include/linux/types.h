/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in: the integer types of the kernel. */
#ifndef _MTIER_SHIM_TYPES_H
#define _MTIER_SHIM_TYPES_H

#include <stdbool.h>
#include <stddef.h>

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef signed short s16;
typedef signed int s32;
typedef signed long long s64;

#endif
