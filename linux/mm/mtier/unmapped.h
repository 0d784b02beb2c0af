/* SPDX-License-Identifier: GPL-2.0 */
/* Page promotion: room from page cache that no process maps. */
#ifndef _MM_MTIER_UNMAPPED_H
#define _MM_MTIER_UNMAPPED_H

#include <linux/types.h>

struct mtier_move;

/**
 * struct mtier_unmapped_room - room that page cache can make which nobody maps
 * @pages: number of pages
 * @whole: number of these that are in blocks of 2 MiB which can leave as a whole
 * @age_ns: time for which none of them was used
 */
struct mtier_unmapped_room {
	u64 pages;
	u64 whole;
	u64 age_ns;
};

void mtier_unmapped_mark(int nid, unsigned long want);
void mtier_unmapped_count(int nid);
void mtier_unmapped_room(int nid, struct mtier_unmapped_room *room);
void mtier_unmapped_gather(struct mtier_move *mv, bool whole);
void mtier_unmapped_stop(void);

#endif /* _MM_MTIER_UNMAPPED_H */
