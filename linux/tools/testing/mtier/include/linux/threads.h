/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in: a machine of a few CPUs. */
#ifndef _MTIER_SHIM_THREADS_H
#define _MTIER_SHIM_THREADS_H

#define NR_CPUS	4

#endif
