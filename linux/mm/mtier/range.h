/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Page promotion: pages that wait to be moved, by range of an address space.
 */
#ifndef _MM_MTIER_RANGE_H
#define _MM_MTIER_RANGE_H

#include <linux/align.h>
#include <linux/bitmap.h>
#include <linux/list.h>
#include <linux/mm_types.h>
#include <linux/pgtable.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>

/* A range is what a page table maps: 2 MiB with pages of 4 KiB. */
#define MTIER_RANGE_PAGES	PTRS_PER_PTE
#define MTIER_RANGE_SIZE	(PTRS_PER_PTE * PAGE_SIZE)

/**
 * struct mtier_range_key - what pages that wait together have in common
 * @mm: the address space that maps them
 * @start: address of the first page of their range
 * @target: node that they go to, or NUMA_NO_NODE where that is decided later
 * @strict: no other node will do
 */
struct mtier_range_key {
	struct mm_struct *mm;
	unsigned long start;
	int target;
	bool strict;
};

/**
 * struct mtier_range - pages of a range that wait
 * @key: whose they are and where they go; its mm is pinned by mmgrab()
 * @list: place in the order in which they came; empty while taken
 * @node: place in the tree of their set
 * @nr: set bits in @pages
 * @tick: mtier_now_tick() when somebody last asked for one of them
 * @dead: the mm exited while the range was taken; whoever took it frees it
 * @pages: a bit for each page that waits; that of a large folio is where it was
 *	met, and stands for all of it
 */
struct mtier_range {
	struct mtier_range_key key;
	struct list_head list;
	struct rb_node node;
	unsigned int nr;
	u32 tick;
	bool dead;
	DECLARE_BITMAP(pages, MTIER_RANGE_PAGES);
};

/**
 * struct mtier_ranges - a bounded set of pages that wait, by range
 * @lock: guards everything else, and every range that is not taken
 * @tree: the ranges by key
 * @fifo: the ranges that are not taken, the oldest first
 * @cap: most pages
 * @fill: pages that wait
 * @nr: ranges
 */
struct mtier_ranges {
	spinlock_t lock;	/* all below; innermost */
	struct rb_root tree;
	struct list_head fifo;
	unsigned int cap;
	unsigned int fill;
	unsigned int nr;
};

/**
 * mtier_range_at() - the range that an address is in
 * @mm: the address space
 * @addr: the address
 * @target: as in struct mtier_range_key
 * @strict: likewise
 *
 * Return: its key.
 */
static inline struct mtier_range_key mtier_range_at(struct mm_struct *mm,
						    unsigned long addr,
						    int target, bool strict)
{
	return (struct mtier_range_key) {
		.mm = mm,
		.start = ALIGN_DOWN(addr, MTIER_RANGE_SIZE),
		.target = target,
		.strict = strict,
	};
}

/**
 * mtier_range_page() - which page of its range is at an address
 * @addr: the address
 *
 * Return: its number.
 */
static inline unsigned int mtier_range_page(unsigned long addr)
{
	return (addr >> PAGE_SHIFT) & (MTIER_RANGE_PAGES - 1);
}

int mtier_ranges_start(void);
void mtier_ranges_init(struct mtier_ranges *set, unsigned int cap);
int mtier_ranges_add(struct mtier_ranges *set,
		     const struct mtier_range_key *key, unsigned int page,
		     u32 now, unsigned int *dropped);
struct mtier_range *mtier_ranges_take(struct mtier_ranges *set,
				      const struct mtier_range_key *like,
				      unsigned long *pages);
unsigned int mtier_ranges_release(struct mtier_ranges *set,
				  struct mtier_range *range,
				  const unsigned long *done);
unsigned int mtier_ranges_shrink(struct mtier_ranges *set, unsigned int keep);
unsigned int mtier_ranges_forget(struct mtier_ranges *set,
				 struct mm_struct *mm);

#endif /* _MM_MTIER_RANGE_H */
