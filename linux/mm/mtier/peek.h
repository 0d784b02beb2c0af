/* SPDX-License-Identifier: GPL-2.0 */
/* Page promotion: the number of pages that a range has on each tier. */
#ifndef _MM_MTIER_PEEK_H
#define _MM_MTIER_PEEK_H

#include <linux/mm_types.h>
#include <linux/nodemask.h>

/**
 * struct mtier_peek - the tiers of nodes
 * @slow: nodes of the slow tiers
 * @middle: nodes of these that pages can be demoted from
 */
struct mtier_peek {
	nodemask_t slow;
	nodemask_t middle;
};

bool mtier_peek_once(const struct vm_area_struct *vma);
unsigned long mtier_peek(const struct mtier_peek *p, struct vm_area_struct *vma,
			 pmd_t *pmd, unsigned long addr);
unsigned int mtier_peek_mappers(struct vm_area_struct *vma, unsigned long addr,
				unsigned long next, pmd_t *pmd);

#endif /* _MM_MTIER_PEEK_H */
