/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Page promotion: a set of pages of files.
 *
 * Several address spaces can map the same part of a file. The set records the parts that
 * were listed. It is a hash table of pieces as long as a range, with a bit for each page:
 * a VMA can begin anywhere in a file, and two can map different pages of a piece.
 *
 * The mapping is only compared, and never dereferenced: it can be freed at any time.
 *
 * Locking: none; the caller serialises.
 */
#ifndef _MM_MTIER_FILE_SET_H
#define _MM_MTIER_FILE_SET_H

#include <linux/bitmap.h>
#include <linux/types.h>

#include "range.h"

struct address_space;

/**
 * struct mtier_file_key - what a range maps of a file
 * @mapping: the file; NULL if the range maps other memory as well
 * @first: offset of its first page in the file, in pages
 * @nr: number of pages, of one range at most
 */
struct mtier_file_key {
	const struct address_space *mapping;
	pgoff_t first;
	unsigned int nr;
};

/**
 * struct mtier_file_piece - one entry of the table
 * @mapping: the file; NULL if the entry is free
 * @nr: number of the piece in the file
 * @page: pages of the piece that are in the set
 */
struct mtier_file_piece {
	const struct address_space *mapping;
	pgoff_t nr;
	DECLARE_BITMAP(page, MTIER_RANGE_PAGES);
};

/**
 * struct mtier_file_set - a hash table with open addressing
 * @piece: its entries
 * @bits: it has 2^@bits of them; at most half of them are used
 * @nr: number of entries used
 */
struct mtier_file_set {
	struct mtier_file_piece *piece;
	unsigned int bits;
	unsigned long nr;
};

int mtier_file_set_room(struct mtier_file_set *set, unsigned long nr);
void mtier_file_set_clear(struct mtier_file_set *set);
void mtier_file_set_free(struct mtier_file_set *set);
void mtier_file_set_get(const struct mtier_file_set *set,
			const struct mtier_file_key *key, unsigned long *page);
bool mtier_file_set_all(const struct mtier_file_set *set,
			const struct mtier_file_key *key);
bool mtier_file_set_add(struct mtier_file_set *set,
			const struct mtier_file_key *key);

#endif /* _MM_MTIER_FILE_SET_H */
