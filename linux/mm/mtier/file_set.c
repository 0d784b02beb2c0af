// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: a set of pages of files. See file_set.h.
 *
 * Locking: none; the caller serialises.
 */
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "file_set.h"

/* Entries of the smallest table, as a power of two. */
#define MTIER_FILE_SET_BITS	6
/* A range has pages of two pieces at most. */
#define MTIER_KEY_PIECES	2

/**
 * struct mtier_key_part - the pages of a key that are in one piece
 * @nr: number of the piece
 * @at: index of the first page in the piece
 * @pages: number of pages
 */
struct mtier_key_part {
	pgoff_t nr;
	unsigned int at;
	unsigned int pages;
};

/* Split a key into its pieces. Returns how many there are. */
static unsigned int mtier_key_split(const struct mtier_file_key *key,
				    struct mtier_key_part part[MTIER_KEY_PIECES])
{
	unsigned int at = key->first % MTIER_RANGE_PAGES;
	unsigned int pages = min(key->nr, MTIER_RANGE_PAGES - at);

	part[0] = (struct mtier_key_part) {
		key->first / MTIER_RANGE_PAGES, at, pages,
	};
	part[1] = (struct mtier_key_part) { part[0].nr + 1, 0, key->nr - pages };
	return part[1].pages ? 2 : 1;
}

static unsigned long mtier_file_set_size(const struct mtier_file_set *set)
{
	return set->piece ? 1UL << set->bits : 0;
}

/* The entry of a piece, or the free one at which it belongs. The table has free ones. */
static struct mtier_file_piece *
mtier_file_set_at(const struct mtier_file_set *set,
		  const struct address_space *mapping, pgoff_t nr)
{
	unsigned long mask = mtier_file_set_size(set) - 1;
	unsigned long i = hash_64((u64)(uintptr_t)mapping +
				  (u64)nr * GOLDEN_RATIO_64, set->bits);

	while (set->piece[i].mapping &&
	       (set->piece[i].mapping != mapping || set->piece[i].nr != nr))
		i = (i + 1) & mask;
	return &set->piece[i];
}

/**
 * mtier_file_set_room() - Make room for more ranges.
 * @set: the set
 * @nr: number of ranges that are to be added
 *
 * Context: may sleep.
 * Return: 0, or -ENOMEM and nothing is changed.
 */
int mtier_file_set_room(struct mtier_file_set *set, unsigned long nr)
{
	unsigned long all = set->nr + MTIER_KEY_PIECES * nr;
	struct mtier_file_set more = {
		.bits = max(order_base_2(2 * all + 1), MTIER_FILE_SET_BITS),
		.nr = set->nr,
	};
	unsigned long i;

	if (set->piece && more.bits <= set->bits)
		return 0;
	more.piece = kvcalloc(1UL << more.bits, sizeof(*more.piece),
			      GFP_KERNEL | __GFP_NOWARN);
	if (!more.piece)
		return -ENOMEM;
	for (i = 0; i < mtier_file_set_size(set); i++)
		if (set->piece[i].mapping)
			*mtier_file_set_at(&more, set->piece[i].mapping,
					   set->piece[i].nr) = set->piece[i];
	kvfree(set->piece);
	*set = more;
	return 0;
}

/**
 * mtier_file_set_clear() - Remove all pages; the room for them stays.
 * @set: the set
 */
void mtier_file_set_clear(struct mtier_file_set *set)
{
	if (set->nr)
		memset(set->piece, 0, mtier_file_set_size(set) * sizeof(*set->piece));
	set->nr = 0;
}

/**
 * mtier_file_set_free() - Free the table; the set is empty then.
 * @set: the set
 */
void mtier_file_set_free(struct mtier_file_set *set)
{
	kvfree(set->piece);
	*set = (struct mtier_file_set) { };
}

/**
 * mtier_file_set_get() - Get the pages that a range maps and that are in the set.
 * @set: the set
 * @key: what the range maps
 * @page: MTIER_RANGE_PAGES bits, set to these pages; bit 0 is the first page of @key
 */
void mtier_file_set_get(const struct mtier_file_set *set,
			const struct mtier_file_key *key, unsigned long *page)
{
	struct mtier_key_part part[MTIER_KEY_PIECES];
	unsigned int i, k, nr = mtier_key_split(key, part), first = 0;

	bitmap_zero(page, MTIER_RANGE_PAGES);
	for (i = 0; set->piece && i < nr; first += part[i++].pages) {
		const struct mtier_file_piece *piece =
			mtier_file_set_at(set, key->mapping, part[i].nr);

		if (!piece->mapping)
			continue;
		k = part[i].at;
		for_each_set_bit_from(k, piece->page, part[i].at + part[i].pages)
			__set_bit(first + k - part[i].at, page);
	}
}

/**
 * mtier_file_set_all() - Check whether all pages that a range maps are in the set.
 * @set: the set
 * @key: what the range maps
 *
 * Return: true if so.
 */
bool mtier_file_set_all(const struct mtier_file_set *set,
			const struct mtier_file_key *key)
{
	DECLARE_BITMAP(page, MTIER_RANGE_PAGES);

	mtier_file_set_get(set, key, page);
	return bitmap_weight(page, MTIER_RANGE_PAGES) == key->nr;
}

/**
 * mtier_file_set_add() - Add the pages that a range maps.
 * @set: the set
 * @key: what the range maps
 *
 * Return: false, with nothing changed, if there is no room for a range.
 */
bool mtier_file_set_add(struct mtier_file_set *set,
			const struct mtier_file_key *key)
{
	struct mtier_key_part part[MTIER_KEY_PIECES];
	unsigned int i, nr = mtier_key_split(key, part);

	if (2 * (set->nr + MTIER_KEY_PIECES) > mtier_file_set_size(set))
		return false;
	for (i = 0; i < nr; i++) {
		struct mtier_file_piece *piece =
			mtier_file_set_at(set, key->mapping, part[i].nr);

		set->nr += !piece->mapping;
		piece->mapping = key->mapping;
		piece->nr = part[i].nr;
		bitmap_set(piece->page, part[i].at, part[i].pages);
	}
	return true;
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/file_set_kunit.c"
#endif
