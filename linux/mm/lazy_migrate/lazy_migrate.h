/* SPDX-License-Identifier: GPL-2.0 */
/* Lazy migration: what the files here share. */
#ifndef _MM_LAZY_MIGRATE_H
#define _MM_LAZY_MIGRATE_H

#include <linux/lazy_migrate.h>
#include <linux/types.h>

#include "decide.h"

struct vm_area_struct;

/* ---- pull.c ---- */

/**
 * struct lazy_policy - what the policy of a page says of its move
 * @lazy: it came with MPOL_MF_LAZY
 * @local: it is MPOL_LOCAL: only the next access tells the node
 * @shared: what others map moves, too: it came with MPOL_MF_MOVE_ALL
 */
struct lazy_policy {
	bool lazy;
	bool local;
	bool shared;
};

struct lazy_policy lazy_policy_at(struct vm_area_struct *vma,
				  unsigned long addr, bool anon);

#endif /* _MM_LAZY_MIGRATE_H */
