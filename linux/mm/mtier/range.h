/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Page promotion: the piece of an address space that is looked at as a whole.
 */
#ifndef _MM_MTIER_RANGE_H
#define _MM_MTIER_RANGE_H

#include <linux/pgtable.h>

/* A range is what a page table maps: 2 MiB with pages of 4 KiB. */
#define MTIER_RANGE_PAGES	PTRS_PER_PTE
#define MTIER_RANGE_SIZE	(PTRS_PER_PTE * PAGE_SIZE)

#endif /* _MM_MTIER_RANGE_H */
