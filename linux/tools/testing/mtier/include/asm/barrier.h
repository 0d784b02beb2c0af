/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in: the tests have one thread. */
#ifndef _MTIER_SHIM_BARRIER_H
#define _MTIER_SHIM_BARRIER_H

#define smp_store_release(p, value)	(*(p) = (value))

#endif
