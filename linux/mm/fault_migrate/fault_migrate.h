/* SPDX-License-Identifier: GPL-2.0 */
/* Migration on faults: what the files here share. */
#ifndef _MM_FAULT_MIGRATE_H
#define _MM_FAULT_MIGRATE_H

#include <linux/bits.h>
#include <linux/compiler.h>
#include <linux/fault_migrate.h>

#include "decide.h"

/* Bits of the debugfs file fault_migrate/sabotage */
enum fm_sabotage {
	FM_SAB_LEVEL,		/* every level is the third */
	FM_SAB_MAPPED,		/* what others map does not matter */
	FM_SAB_HOME,		/* nor who else uses a file */
	FM_SAB_RATE,		/* nor how many have moved */
	FM_SAB_AROUND,		/* fault-around maps what is misplaced */
	FM_SAB_COUNT,		/* what moves is not counted */
};

#ifdef CONFIG_NUMA_FAULT_MIGRATE_SABOTAGE
extern u32 fm_sabotage_mask;

static inline bool fm_sabotaged(enum fm_sabotage what)
{
	return unlikely(READ_ONCE(fm_sabotage_mask) & BIT(what));
}
#else
static inline bool fm_sabotaged(enum fm_sabotage what)
{
	return false;
}
#endif

#endif /* _MM_FAULT_MIGRATE_H */
