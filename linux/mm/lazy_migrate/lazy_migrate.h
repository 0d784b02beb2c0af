/* SPDX-License-Identifier: GPL-2.0 */
/* Lazy migration: what the files here share. */
#ifndef _MM_LAZY_MIGRATE_H
#define _MM_LAZY_MIGRATE_H

#include <linux/lazy_migrate.h>

#include "decide.h"

struct vm_area_struct;

/* ---- pull.c ---- */

bool lazy_policy_at(struct vm_area_struct *vma, unsigned long addr, bool *local);

#endif /* _MM_LAZY_MIGRATE_H */
