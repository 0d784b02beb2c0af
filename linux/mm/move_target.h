/* SPDX-License-Identifier: GPL-2.0 */
/* Target frames of pages that migrate between nodes for performance. */
#ifndef _MM_MOVE_TARGET_H
#define _MM_MOVE_TARGET_H

#include <linux/gfp.h>
#include <linux/mm.h>

/* Base pages; never reclaims, never uses reserves. */
#define MOVE_TARGET_GFP							\
	(((GFP_HIGHUSER_MOVABLE | __GFP_NORETRY) & ~__GFP_RECLAIM) |	\
	 __GFP_THISNODE | __GFP_NOWARN | __GFP_NOMEMALLOC)

/**
 * alloc_move_target() - Allocate the target folio of a migration
 * @src: the folio that migrates
 * @nid: target node
 *
 * Return: a folio of the same size on that node, or NULL.
 */
static inline struct folio *alloc_move_target(struct folio *src, int nid)
{
	unsigned int order = folio_order(src);
	gfp_t gfp = MOVE_TARGET_GFP;

	if (order)
		gfp = GFP_TRANSHUGE_LIGHT | __GFP_THISNODE | __GFP_NOWARN |
		      __GFP_NOMEMALLOC;
	return __folio_alloc_node(gfp, order, nid);
}

#endif /* _MM_MOVE_TARGET_H */
