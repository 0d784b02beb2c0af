/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Page promotion: the piece of an address space that is scanned as a whole, and the entry
 * that stands for it in a list.
 */
#ifndef _MM_MTIER_RANGE_H
#define _MM_MTIER_RANGE_H

#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/minmax.h>
#include <linux/pgtable.h>

#include "place.h"

/* A range is what a page table maps: 2 MiB with pages of 4 KiB. */
#define MTIER_RANGE_PAGES	PTRS_PER_PTE
#define MTIER_RANGE_SIZE	(PTRS_PER_PTE * PAGE_SIZE)

/* Tiers that a range is sampled for. */
#define MTIER_RANGE_TOP		BIT(MTIER_TOP)
#define MTIER_RANGE_LOW		BIT(MTIER_LOW)

/*
 * The entry of a range in a list is its address. Below it are the numbers of its pages to
 * demote and to promote, 0 to MTIER_RANGE_PAGES, and this flag: the number of pages to
 * demote was not read; it is that of the list before, or larger.
 */
#define MTIER_RANGE_BITS	(PMD_SHIFT - PAGE_SHIFT + 1)
#define MTIER_RANGE_UNREAD	BIT(2 * MTIER_RANGE_BITS)
static_assert(2 * MTIER_RANGE_BITS < PMD_SHIFT);

/**
 * mtier_range_pages() - Get a number of pages of a range.
 * @entry: the entry of the range
 * @side: MTIER_TOP: pages to demote; MTIER_LOW: pages to promote
 *
 * Return: the number.
 */
static inline unsigned int mtier_range_pages(unsigned long entry, u32 side)
{
	return entry >> side * MTIER_RANGE_BITS & (BIT(MTIER_RANGE_BITS) - 1);
}

/**
 * mtier_range_entry() - Get the low bits of the entry of a range.
 * @top: number of pages to demote
 * @low: number of pages to promote
 *
 * Return: the bits.
 */
static inline unsigned long mtier_range_entry(unsigned int top, unsigned int low)
{
	return (unsigned long)top << MTIER_TOP * MTIER_RANGE_BITS |
	       (unsigned long)low << MTIER_LOW * MTIER_RANGE_BITS;
}

/**
 * mtier_range_only() - Reduce the entry of a range to some of its tiers.
 * @entry: the entry
 * @sides: MTIER_RANGE_TOP, MTIER_RANGE_LOW, both, or 0
 *
 * Return: the entry without pages of the other tiers.
 */
static inline unsigned long mtier_range_only(unsigned long entry, unsigned long sides)
{
	if (!(sides & MTIER_RANGE_TOP))
		entry &= ~mtier_range_entry(BIT(MTIER_RANGE_BITS) - 1, 0);
	if (!(sides & MTIER_RANGE_LOW))
		entry &= ~mtier_range_entry(0, BIT(MTIER_RANGE_BITS) - 1);
	return entry;
}

/**
 * mtier_range_sides() - Get the tiers that a range has pages for.
 * @entry: its entry
 *
 * Return: MTIER_RANGE_TOP, MTIER_RANGE_LOW, both, or 0.
 */
static inline u8 mtier_range_sides(unsigned long entry)
{
	return (mtier_range_pages(entry, MTIER_TOP) ? MTIER_RANGE_TOP : 0) |
	       (mtier_range_pages(entry, MTIER_LOW) ? MTIER_RANGE_LOW : 0);
}

/**
 * mtier_range_merge() - Merge two entries of the same range: parts of it are in two VMAs.
 * @a: an entry
 * @b: the other one
 *
 * Both are estimates for the whole range.
 *
 * Return: the entry.
 */
static inline unsigned long mtier_range_merge(unsigned long a, unsigned long b)
{
	return (a & PMD_MASK) | ((a | b) & MTIER_RANGE_UNREAD) |
	       mtier_range_entry(max(mtier_range_pages(a, MTIER_TOP),
				     mtier_range_pages(b, MTIER_TOP)),
				 max(mtier_range_pages(a, MTIER_LOW),
				     mtier_range_pages(b, MTIER_LOW)));
}

/**
 * mtier_range_cmp() - Compare the addresses of two ranges, for sort().
 * @a: address of the entry of a range
 * @b: that of another one
 *
 * Return: less than, equal to or greater than 0.
 */
static inline int mtier_range_cmp(const void *a, const void *b)
{
	unsigned long x = *(const unsigned long *)a;
	unsigned long y = *(const unsigned long *)b;

	return x < y ? -1 : x > y;
}

#endif /* _MM_MTIER_RANGE_H */
