/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in: all CPUs that the machine can have are there. */
#ifndef _MTIER_SHIM_CPUMASK_H
#define _MTIER_SHIM_CPUMASK_H

#include <linux/threads.h>

#define nr_cpu_ids	NR_CPUS

#endif
