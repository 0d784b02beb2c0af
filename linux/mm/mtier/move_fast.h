/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Page promotion: pages that move by address space, not by folio.
 */
#ifndef _MM_MTIER_MOVE_FAST_H
#define _MM_MTIER_MOVE_FAST_H

#include <linux/mm_types.h>
#include <linux/pgtable.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/tlb_defer_flight.h>

struct folio;
struct mtier_move;
struct page;
struct vm_area_struct;

/* Pages of an address space between two flushes of its TLB entries. */
#define MTIER_FLIGHT_PAGES	512
/* Pages that wait for each other to be copied: those who touch them sleep. */
#define MTIER_SETTLE_PAGES	32

/**
 * struct mtier_fast_page - a page that a move has without holding it
 * @vma: the VMA that maps it, held by the guard of the move
 * @addr: where
 * @src: the page; no reference to it before it is frozen
 * @dst: its new frame once it is on its way, else NULL
 */
struct mtier_fast_page {
	struct vm_area_struct *vma;
	unsigned long addr;
	struct folio *src;
	struct folio *dst;
};

/**
 * struct mtier_fast - what mtier_fast_run() works with
 * @nr: used part of @page; after the run, how many moved
 * @cap: size of @page
 * @nr_frames: used part of @frame
 * @defer: whether the flush of the flight in hand waits
 * @frame: frames on the target for those that will be frozen
 * @page: the pages of the move; after the run, those that moved come first
 */
struct mtier_fast {
	unsigned int nr;
	unsigned int cap;
	unsigned int nr_frames;
	struct tlb_defer_flight defer;
	struct page *frame[MTIER_FLIGHT_PAGES];
	struct mtier_fast_page page[];
};

/**
 * struct mtier_table - the page table that is locked
 * @start: first address that it maps
 * @pte: its first entry, or NULL
 * @ptl: its lock
 */
struct mtier_table {
	unsigned long start;
	pte_t *pte;
	spinlock_t *ptl;	/* of @pte */
};

#ifdef CONFIG_MTIER_MOVE_FAST

struct mtier_fast *mtier_fast_alloc(unsigned int cap);
bool mtier_fast_wants(struct mtier_move *mv, struct folio *folio,
		      struct vm_area_struct *vma);
void mtier_fast_add(struct mtier_move *mv, struct folio *folio,
		    struct vm_area_struct *vma, unsigned long addr);
void mtier_fast_run(struct mtier_move *mv);

/* ---- settle.c, for move_fast.c ---- */

pte_t *mtier_table_lock(struct mtier_table *table,
			const struct mtier_fast_page *page);
void mtier_table_leave(struct mtier_table *table);
int mtier_fast_copy(struct folio *dst, struct folio *src);
unsigned int mtier_fast_settle(struct mtier_move *mv,
			       struct mtier_fast_page *page, unsigned int nr);

/**
 * mtier_table_maps() - is it the page table of a page?
 * @table: one that is locked
 * @page: the page
 *
 * Return: true if so.
 */
static inline bool mtier_table_maps(const struct mtier_table *table,
				    const struct mtier_fast_page *page)
{
	return table->start == (page->addr & PMD_MASK);
}

/**
 * mtier_table_at() - the entry of a page, the page table locked that it is in
 * @table: the one that is locked, or none; for mtier_table_leave()
 * @page: the page, whose VMA is held
 *
 * Return: the entry, or NULL if there is no page table.
 */
static inline pte_t *mtier_table_at(struct mtier_table *table,
				    const struct mtier_fast_page *page)
{
	if (table->pte && mtier_table_maps(table, page))
		return table->pte + pte_index(page->addr);
	return mtier_table_lock(table, page);
}

#else /* !CONFIG_MTIER_MOVE_FAST */

static inline struct mtier_fast *mtier_fast_alloc(unsigned int cap)
{
	/* It stays empty. */
	return kzalloc(sizeof(struct mtier_fast), GFP_KERNEL);
}

static inline bool mtier_fast_wants(struct mtier_move *mv, struct folio *folio,
				    struct vm_area_struct *vma)
{
	return false;
}

static inline void mtier_fast_add(struct mtier_move *mv, struct folio *folio,
				  struct vm_area_struct *vma,
				  unsigned long addr)
{
}

static inline void mtier_fast_run(struct mtier_move *mv)
{
}

#endif /* CONFIG_MTIER_MOVE_FAST */
#endif /* _MM_MTIER_MOVE_FAST_H */
