/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Page promotion: the page tables of other mappers that a burst has scanned.
 *
 * The Accessed bits in a page table can be older than the burst. So its first scan in a
 * burst clears them and counts nothing. The set has the tables that were scanned.
 *
 * The mm is only compared, and never dereferenced. If it is freed in the burst, and a new
 * one has its address, the first scan of a table there may count old Accessed bits once.
 *
 * Locking: none; the caller serialises.
 */
#ifndef _MM_MTIER_TABLE_SET_H
#define _MM_MTIER_TABLE_SET_H

#include <linux/types.h>

struct mm_struct;

/**
 * struct mtier_table_key - a part of a file in a page table
 * @mm: address space of the page table; NULL if the entry is free
 * @addr: address of the first page of the part there
 */
struct mtier_table_key {
	const struct mm_struct *mm;
	unsigned long addr;
};

/**
 * struct mtier_table_set - a hash table with open addressing
 * @key: its entries
 * @bits: it has 2^@bits of them; at most half of them are used
 * @nr: number of entries used
 * @missed: number of entries that it had no room for
 */
struct mtier_table_set {
	struct mtier_table_key *key;
	unsigned int bits;
	unsigned long nr;
	unsigned long missed;
};

bool mtier_table_set_add(struct mtier_table_set *set, const struct mm_struct *mm,
			 unsigned long addr);
void mtier_table_set_grow(struct mtier_table_set *set);
void mtier_table_set_free(struct mtier_table_set *set);

#endif /* _MM_MTIER_TABLE_SET_H */
