// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: the page tables of other mappers that a burst has scanned. See
 * table_set.h.
 *
 * Locking: none; the caller serialises.
 */
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "table_set.h"

/* Entries of the smallest and of the largest table, as powers of two. */
#define MTIER_TABLE_SET_MIN	10
#define MTIER_TABLE_SET_MAX	19

static unsigned long mtier_table_set_size(const struct mtier_table_set *set)
{
	return set->key ? 1UL << set->bits : 0;
}

/* The entry of a page table, or the free one for it. Half of the entries are free. */
static struct mtier_table_key *
mtier_table_set_at(const struct mtier_table_set *set, const struct mm_struct *mm,
		   unsigned long addr)
{
	unsigned long mask = mtier_table_set_size(set) - 1;
	unsigned long i = hash_64((u64)(uintptr_t)mm +
				  (u64)(addr >> PAGE_SHIFT) * GOLDEN_RATIO_64, set->bits);

	while (set->key[i].mm && (set->key[i].mm != mm || set->key[i].addr != addr))
		i = (i + 1) & mask;
	return &set->key[i];
}

/**
 * mtier_table_set_add() - Add a page table.
 * @set: the set
 * @mm: its address space
 * @addr: address of the first page in it
 *
 * Return: true if it was in the set before. False if it is new, or had no room.
 */
bool mtier_table_set_add(struct mtier_table_set *set, const struct mm_struct *mm,
			 unsigned long addr)
{
	struct mtier_table_key *key;

	if (!set->key) {
		set->missed++;
		return false;
	}
	key = mtier_table_set_at(set, mm, addr);
	if (key->mm)
		return true;
	if (2 * set->nr >= mtier_table_set_size(set)) {
		set->missed++;
		return false;
	}
	*key = (struct mtier_table_key) { .mm = mm, .addr = addr };
	set->nr++;
	return false;
}

/**
 * mtier_table_set_grow() - Make room for the page tables that had none.
 * @set: the set
 *
 * Nothing changes if there is no memory. What has no room is not counted as used.
 *
 * Context: may sleep.
 */
void mtier_table_set_grow(struct mtier_table_set *set)
{
	unsigned int bits = order_base_2(2 * (set->nr + set->missed) + 1);
	struct mtier_table_set more = {
		.bits = clamp(bits, MTIER_TABLE_SET_MIN, MTIER_TABLE_SET_MAX),
		.nr = set->nr,
	};
	unsigned long i;

	set->missed = 0;
	if (set->key && more.bits <= set->bits)
		return;
	more.key = kvcalloc(1UL << more.bits, sizeof(*more.key), GFP_KERNEL | __GFP_NOWARN);
	if (!more.key)
		return;
	for (i = 0; i < mtier_table_set_size(set); i++)
		if (set->key[i].mm)
			*mtier_table_set_at(&more, set->key[i].mm, set->key[i].addr) =
				set->key[i];
	kvfree(set->key);
	*set = more;
}

/**
 * mtier_table_set_free() - Free the table; the set is empty then.
 * @set: the set
 */
void mtier_table_set_free(struct mtier_table_set *set)
{
	kvfree(set->key);
	*set = (struct mtier_table_set) { };
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/table_set_kunit.c"
#endif
