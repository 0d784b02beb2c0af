/* SPDX-License-Identifier: GPL-2.0 */
/* Lazy migration: what the files here share. */
#ifndef _MM_LAZY_MIGRATE_H
#define _MM_LAZY_MIGRATE_H

#include <linux/bits.h>
#include <linux/compiler.h>
#include <linux/lazy_migrate.h>

#include "decide.h"

struct vm_area_struct;

/* ---- pull.c ---- */

bool lazy_policy_at(struct vm_area_struct *vma, unsigned long addr, bool *local);

/* ---- sabotage.c ---- */

/* Bits of the debugfs file lazy_migrate/sabotage */
enum lazy_sabotage {
	LAZY_SAB_BALANCING,	/* without NUMA balancing nothing is marked */
	LAZY_SAB_SCAN,		/* NUMA balancing scans the range, too */
	LAZY_SAB_AHEAD,		/* a fault pulls the pages behind its window */
	LAZY_SAB_DIRTY,		/* dirty pages of files are marked */
	LAZY_SAB_COUNT,		/* neighbours are not counted */
	LAZY_SAB_SHARED,	/* pages that others map are marked, too */
	LAZY_SAB_STRICT,	/* any combination of flags passes */
};

#ifdef CONFIG_NUMA_LAZY_MIGRATE_SABOTAGE
extern u32 lazy_sabotage_mask;

static inline bool lazy_sabotaged(enum lazy_sabotage what)
{
	return unlikely(READ_ONCE(lazy_sabotage_mask) & BIT(what));
}
#else
static inline bool lazy_sabotaged(enum lazy_sabotage what)
{
	return false;
}
#endif

#endif /* _MM_LAZY_MIGRATE_H */
