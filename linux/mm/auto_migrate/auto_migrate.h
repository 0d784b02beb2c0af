/* SPDX-License-Identifier: GPL-2.0 */
/* Automatic migration: what the files here share. */
#ifndef _MM_AUTO_MIGRATE_H
#define _MM_AUTO_MIGRATE_H

#include <linux/auto_migrate.h>
#include <linux/mm_types.h>

#include "decide.h"

/* ---- task.c ---- */

bool auto_migrate_current(const struct auto_migrate_task *a);

/* ---- slice.c ---- */

bool auto_default_policy(struct vm_area_struct *vma, unsigned long addr,
			 struct folio *folio);
bool auto_shared_folio(struct folio *folio, unsigned int max_mapcount);
bool auto_slice(struct auto_migrate_walk *walk, int to);

/* ---- cpuset.c ---- */

bool auto_limits_of(struct task_struct *p, struct auto_migrate_limits *limits);

#endif /* _MM_AUTO_MIGRATE_H */
