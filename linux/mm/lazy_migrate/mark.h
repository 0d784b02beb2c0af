/* SPDX-License-Identifier: GPL-2.0 */
/* Lazy migration: marking, also for those who say by themselves what to mark. */
#ifndef _MM_LAZY_MIGRATE_MARK_H
#define _MM_LAZY_MIGRATE_MARK_H

#include <linux/mm_types.h>
#include <linux/spinlock_types.h>

#include "decide.h"

/**
 * struct lazy_marker - what to mark; part of what its owner needs to tell
 * @judge: LAZY_MARK, LAZY_LEAVE or a lazy_reason for the page of a folio at an
 *	address; the page table is locked
 */
struct lazy_marker {
	int (*judge)(const struct lazy_marker *how, struct vm_area_struct *vma,
		     unsigned long addr, struct folio *folio, spinlock_t *ptl);
};

/* ---- mark.c ---- */

bool lazy_markable(struct vm_area_struct *vma);
void lazy_migrate_use(void);
void lazy_mark(struct vm_area_struct *vma, unsigned long start,
	       unsigned long end, const struct lazy_marker *how,
	       unsigned long *pages);

/* ---- pull.c ---- */

enum lazy_reason lazy_refusal(const struct vm_area_struct *vma,
			      struct folio *folio);

#endif /* _MM_LAZY_MIGRATE_MARK_H */
