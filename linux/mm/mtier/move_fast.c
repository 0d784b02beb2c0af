// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: migrate private anonymous base pages by address space.
 *
 * migrate_pages() migrates any folio, and walks rmap twice for each. Here the only
 * mapping of a page is known: the VMA that it was found in, which is held
 * (eligible.c). So a flight (batch of such pages of one address space) is migrated
 * at once:
 *
 *   freeze	under the page table lock, each entry becomes a migration entry, and
 *		the page loses its only reference, which is that of the entry
 *   flush	once for the flight, or deferred (mm/tlb_defer/flight.c)
 *   settle	in groups of pages (settle.c): copy contents, state and charge, map
 *		the new pages, put them on LRU lists, wake waiting tasks, free the
 *		old frames
 *
 * A page that fails the checks of the freeze is passed to migrate_pages(), and
 * counted by reason.
 *
 * There are three ways to a frozen page. A reference: the count is 0, so no task
 * gets one. A page table entry: the page is locked until the new one is mapped, so
 * the task waits. The LRU lock: isolation takes a reference. fork, mremap, mprotect,
 * munmap, mlock and khugepaged lock the VMA for writing first. MADV_DONTNEED, the
 * OOM reaper and UFFDIO_WRITEPROTECT only need mmap_lock or the VMA for reading, and
 * can change an entry of a frozen page. So the entry is read again before the new
 * page is mapped. If the entry is gone, the new page is freed. While TLBs can have
 * the old entries, mm_tlb_flush_pending() is true, or the address space has a
 * deferred flush. So such a zap flushes before it returns.
 *
 * From freeze to settle, no code allocates or takes a lock of an mm. See
 * Documentation/mm/mtier.rst for the hazards F1 to F25 in the comments.
 *
 * Locking, inside the locks of eligible.c:
 *
 *   VMA lock (read)
 *     mmu notifiers: invalidate_range_start to _end
 *       folio lock of the old pages	trylock; held until settled
 *         page table lock
 *           lruvec->lru_lock		of pages passed to migrate_pages()
 *         lruvec->lru_lock
 */
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/mmu_notifier.h>
#include <linux/rmap.h>
#include <linux/slab.h>
#include <linux/swapops.h>
#include <asm/tlbflush.h>
#include <kunit/static_stub.h>
#include <trace/events/migrate.h>

#include "../internal.h"
#include "move.h"
#include "mtier.h"

/* Flags that a page must have to migrate here, and flags that it must not have. */
#define MTIER_FAST_HAS	(BIT(PG_lru) | BIT(PG_swapbacked) | BIT(PG_uptodate))
#define MTIER_FAST_HAS_NOT						\
	(BIT(PG_head) | BIT(PG_writeback) | BIT(PG_unevictable) |	\
	 BIT(PG_private) | BIT(PG_private_2) | BIT(PG_swapcache) |	\
	 BIT(PG_reserved) | __PG_MLOCKED | __PG_HWPOISON)

/**
 * struct mtier_flight - pages of an address space that are migrated at once
 * @page: the pages, part of the array of the batch
 * @nr: number of pages
 * @mm: the address space
 * @vma: the VMA of all pages, or NULL if there are several
 * @start: lowest address
 * @end: end of the page with the highest address
 */
struct mtier_flight {
	struct mtier_fast_page *page;
	unsigned int nr;
	struct mm_struct *mm;
	struct vm_area_struct *vma;
	unsigned long start;
	unsigned long end;
};

/* ---- selection ---- */

/* Check for a private anonymous base page that one page table entry maps. */
static bool mtier_fast_plain(const struct folio *folio)
{
	unsigned long flags = READ_ONCE(folio->flags);
	unsigned long mapping = (unsigned long)READ_ONCE(folio->mapping);

	return (flags & (MTIER_FAST_HAS | MTIER_FAST_HAS_NOT)) ==
	       MTIER_FAST_HAS &&
	       /* F13: the tag of KSM differs */
	       (mapping & PAGE_MAPPING_FLAGS) == PAGE_MAPPING_ANON &&
	       !atomic_read(&folio->_mapcount);
}

static bool mtier_fast_vma(struct vm_area_struct *vma)
{
	return vma->anon_vma && !vma_is_temporary_stack(vma) &&
	       !(vma->vm_flags & (VM_SHARED | VM_LOCKED | VM_DROPPABLE |
				  VM_SHADOW_STACK));
}

/**
 * mtier_fast_wants() - Check whether a folio can be migrated by address space.
 * @mv: the batch
 * @folio: the folio, on which the caller has a reference
 * @vma: a VMA that maps it, held by the guard of the batch
 *
 * Return: true if the folio can be passed to mtier_fast_add().
 */
bool mtier_fast_wants(struct mtier_move *mv, struct folio *folio,
		      struct vm_area_struct *vma)
{
	if (!READ_ONCE(mtier_conf.move_fast))
		return false;
	if (mv->fast->nr < mv->fast->cap && mtier_fast_vma(vma) &&
	    mtier_fast_plain(folio))
		return true;
	count_vm_event(MTIER_FAST_KIND);
	return false;
}

/**
 * mtier_fast_add() - Add a page for migration by address space.
 * @mv: the batch, for which mtier_move_fits() returned true
 * @folio: the page, for which mtier_fast_wants() returned true
 * @vma: the VMA that maps it
 * @addr: its address in @vma
 */
void mtier_fast_add(struct mtier_move *mv, struct folio *folio,
		    struct vm_area_struct *vma, unsigned long addr)
{
	mv->fast->page[mv->fast->nr++] = (struct mtier_fast_page) {
		.vma = vma,
		.addr = addr,
		.src = folio,
	};
	mv->nr_folios++;
	mv->nr_pages++;
}

/* ---- freeze ---- */

/* Make the migration entry for a page table entry, as try_to_migrate() does. */
static pte_t mtier_fast_entry(struct folio *src, pte_t pte)
{
	unsigned long pfn = folio_pfn(src);
	swp_entry_t entry;
	pte_t swp;

	if (pte_write(pte))
		entry = make_writable_migration_entry(pfn);
	else if (PageAnonExclusive(&src->page))
		entry = make_readable_exclusive_migration_entry(pfn);
	else
		entry = make_readable_migration_entry(pfn);
	if (pte_young(pte))
		entry = make_migration_entry_young(entry);
	if (pte_dirty(pte))
		entry = make_migration_entry_dirty(entry);
	swp = swp_entry_to_pte(entry);
	if (pte_soft_dirty(pte))
		swp = pte_swp_mksoft_dirty(swp);
	if (pte_uffd_wp(pte))
		swp = pte_swp_mkuffd_wp(swp);
	return swp;
}

/* Lock a page. A trylock is enough: the only reference is that of the entry. */
static bool mtier_fast_lock(struct folio *src)
{
	KUNIT_STATIC_STUB_REDIRECT(mtier_fast_lock, src);
	return folio_trylock(src);
}

/*
 * Clear an entry and freeze its reference to the page, if that is the only one. A
 * lockless page table walk takes a reference, and then reads the entry again. If it
 * took the reference before the freeze, the freeze fails; if not, it gets none (F1).
 */
static bool mtier_fast_clear(struct mtier_fast_page *page, pte_t *ptep,
			     pte_t *pte)
{
	struct mm_struct *mm = page->vma->vm_mm;

	*pte = ptep_get_and_clear(mm, page->addr, ptep);
	if (folio_ref_freeze(page->src, 1)) {
		if (mtier_fast_plain(page->src))
			return true;
		folio_ref_unfreeze(page->src, 1);
	}
	set_pte_at(mm, page->addr, ptep, *pte);
	return false;
}

/*
 * Replace the entry of a page by a migration entry. Returns 0, or the counter of the
 * reason if the page cannot be frozen.
 */
static enum vm_event_item mtier_fast_freeze_one(struct mtier_fast *fast,
						struct mtier_fast_page *page,
						pte_t *ptep)
{
	struct folio *src = page->src;
	pte_t pte = ptep_get(ptep);

	if (!pte_present(pte) ||
	    vm_normal_folio(page->vma, page->addr, pte) != src)
		return MTIER_DROP_GONE;
	if (!fast->nr_frames)
		return MTIER_FAST_NOMEM;
	if (folio_ref_count(src) != 1 || !mtier_fast_plain(src) ||
	    !mtier_fast_lock(src))
		return MTIER_FAST_BUSY;
	if (!mtier_fast_clear(page, ptep, &pte)) {
		folio_unlock(src);
		return MTIER_FAST_BUSY;
	}
	tlb_defer_flight_entry(&fast->defer, pte);
	if (pte_dirty(pte))
		folio_set_dirty(src);
	set_pte_at(page->vma->vm_mm, page->addr, ptep,
		   mtier_fast_entry(src, pte));
	/* The migration entry has this bit from here on. */
	if (PageAnonExclusive(&src->page))
		ClearPageAnonExclusive(&src->page);
	return 0;
}

/*
 * Pass a page that could not be frozen to migrate_pages(), unless it is gone. The
 * page table is locked, so the reference of the entry keeps the page.
 */
static void mtier_fast_refuse(struct mtier_move *mv, struct folio *folio,
			      enum vm_event_item how)
{
	mv->nr_folios--;
	mv->nr_pages--;
	if (how == MTIER_DROP_GONE) {
		mv->ended[MTIER_WHY_GONE]++;
		return;
	}
	count_vm_event(how);
	folio_get(folio);
	if (!mtier_move_fits(mv, folio)) {
		mv->ended[MTIER_WHY_BUSY]++;
	} else if (!mtier_move_add(mv, folio)) {
		mv->off_lru |= !folio_test_lru(folio);
		mv->ended[MTIER_WHY_OFF_LRU]++;
	}
	folio_put(folio);
}

/*
 * Unlock a page table, unless it maps @page. Before that, record its deferred
 * entries in the mm.
 */
static void mtier_fast_leave(struct mtier_fast *fast, struct mtier_table *table,
			     const struct mtier_fast_page *page)
{
	if (!table->pte || (page && mtier_table_maps(table, page)))
		return;
	tlb_defer_flight_table(&fast->defer);
	mtier_table_leave(table);
}

/* Freeze the pages of a flight, and remove those that could not be frozen. */
static void mtier_fast_freeze(struct mtier_move *mv,
			      struct mtier_flight *flight)
{
	struct mtier_fast *fast = mv->fast;
	struct mtier_table table = {};
	unsigned int i, nr = 0;

	for (i = 0; i < flight->nr; i++) {
		struct mtier_fast_page *page = &flight->page[i];
		enum vm_event_item how = MTIER_DROP_GONE;
		pte_t *ptep;

		mtier_fast_leave(fast, &table, page);
		ptep = mtier_table_at(&table, page);
		if (ptep)
			how = mtier_fast_freeze_one(fast, page, ptep);
		if (how) {
			mtier_fast_refuse(mv, page->src, how);
			continue;
		}
		page->dst = page_folio(fast->frame[--fast->nr_frames]);
		fast->frame[fast->nr_frames] = NULL;
		flight->page[nr++] = *page;
	}
	mtier_fast_leave(fast, &table, NULL);
	flight->nr = nr;
}

/* ---- flights ---- */

/*
 * Get the next flight, from page @at on. A secondary MMU is notified of a range, and
 * would also drop its entries for the pages in a gap. So the flights of an mm with
 * notifiers have no gaps (F18).
 */
static struct mtier_flight mtier_flight_at(struct mtier_fast *fast,
					   unsigned int at)
{
	struct mtier_fast_page *page = &fast->page[at];
	struct mtier_flight flight = {
		.page = page,
		.nr = 1,
		.mm = page->vma->vm_mm,
		.vma = page->vma,
		.start = page->addr,
		.end = page->addr + PAGE_SIZE,
	};
	unsigned int most = min(fast->nr - at, MTIER_FLIGHT_PAGES);
	bool gaps = !mm_has_notifiers(flight.mm);

	for (; flight.nr < most; flight.nr++) {
		page++;
		if (page->vma->vm_mm != flight.mm)
			break;
		if (!gaps && (page->vma != flight.vma ||
			      page->addr != flight.end))
			break;
		if (page->vma != flight.vma)
			flight.vma = NULL;
		flight.start = min(flight.start, page->addr);
		flight.end = max(flight.end, page->addr + PAGE_SIZE);
	}
	return flight;
}

/* Allocate the frames of a flight. A bulk allocation may return only one (F24). */
static void mtier_fast_frames(struct mtier_fast *fast, int nid,
			      unsigned int want)
{
	unsigned int got;

	KUNIT_STATIC_STUB_REDIRECT(mtier_fast_frames, fast, nid, want);
	while (fast->nr_frames < want) {
		got = alloc_pages_bulk_array_node(MOVE_TARGET_GFP, nid, want,
						  fast->frame);
		if (got <= fast->nr_frames)
			break;
		fast->nr_frames = got;
	}
}

static void mtier_fast_give_back(struct mtier_fast *fast)
{
	while (fast->nr_frames) {
		__free_page(fast->frame[--fast->nr_frames]);
		fast->frame[fast->nr_frames] = NULL;
	}
}

static void mtier_flight_flush(const struct mtier_flight *flight)
{
	KUNIT_STATIC_STUB_REDIRECT(mtier_flight_flush, flight);
	if (!flight->nr)
		return;
	if (flight->vma)
		flush_tlb_range(flight->vma, flight->start, flight->end);
	else
		flush_tlb_mm(flight->mm);
}

/* Unmap the pages of a flight, and remove those that could not be unmapped. */
static void mtier_flight_take_off(struct mtier_move *mv,
				  struct mtier_flight *flight)
{
	struct tlb_defer_flight *defer = &mv->fast->defer;

	/* F25: a task that zaps a migration entry before the flush must flush. */
	inc_tlb_flush_pending(flight->mm);
	mtier_fast_freeze(mv, flight);
	if (!tlb_defer_flight_seal(defer)) {
		mtier_flight_flush(flight);
		tlb_defer_flight_flushed(defer);
	}
	dec_tlb_flush_pending(flight->mm);
}

/* Migrate a flight. Returns the number of migrated pages, which are first in it. */
static unsigned int mtier_flight_go(struct mtier_move *mv,
				    struct mtier_flight *flight)
{
	struct tlb_defer_flight *defer = &mv->fast->defer;
	struct mmu_notifier_range range;
	unsigned int i, nr, arrived = 0, done;

	mtier_fast_frames(mv->fast, mv->target, flight->nr);
	tlb_defer_flight_begin(defer, flight->mm, mv->source, flight->nr);
	mmu_notifier_range_init(&range, MMU_NOTIFY_CLEAR, 0, flight->mm,
				flight->start, flight->end);
	mmu_notifier_invalidate_range_start(&range);
	mtier_flight_take_off(mv, flight);
	for (i = 0; i < flight->nr; i += nr) {
		nr = min(flight->nr - i, MTIER_SETTLE_PAGES);
		done = mtier_fast_settle(mv, &flight->page[i], nr);
		memmove(&flight->page[arrived], &flight->page[i],
			done * sizeof(*flight->page));
		arrived += done;
		cond_resched();
	}
	mmu_notifier_invalidate_range_end(&range);
	count_vm_events(MTIER_FAST_DEFERRED, tlb_defer_flight_end(defer));
	return arrived;
}

/**
 * mtier_fast_run() - Migrate the pages of a batch that were added to @mv->fast.
 * @mv: the batch; pages that cannot be frozen are added to its other folios
 *
 * Context: process context; may sleep.
 */
void mtier_fast_run(struct mtier_move *mv)
{
	struct mtier_fast *fast = mv->fast;
	unsigned int at, nr, arrived = 0, done;
	struct mtier_flight flight;

	if (!fast->nr)
		return;
	for (at = 0; at < fast->nr; at += nr) {
		flight = mtier_flight_at(fast, at);
		nr = flight.nr;
		done = mtier_flight_go(mv, &flight);
		memmove(&fast->page[arrived], &fast->page[at],
			done * sizeof(*fast->page));
		arrived += done;
	}
	fast->nr = arrived;
	mtier_fast_give_back(fast);
	count_vm_events(MTIER_FAST_MOVED, arrived);
	count_vm_events(PGMIGRATE_SUCCESS, arrived);
	trace_mm_migrate_pages(arrived, 0, 0, 0, 0, 0, MIGRATE_ASYNC,
			       mv->down ? MR_DEMOTION : MR_TIER_PROMOTE);
}

/**
 * mtier_fast_alloc() - Allocate the data for migration by address space.
 * @cap: most pages in a batch
 *
 * Return: the data, for kvfree(), or NULL if there is no memory.
 */
struct mtier_fast *mtier_fast_alloc(unsigned int cap)
{
	struct mtier_fast *fast = kvzalloc(struct_size(fast, page, cap),
					   GFP_KERNEL);

	if (fast)
		fast->cap = cap;
	return fast;
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/move_fast_kunit.c"
#include "tests/meanwhile_kunit.c"
/* Needs flushes that can be deferred for as long as the test requires. */
#ifdef CONFIG_TLB_DEFER_DEBUG
#include "tests/flight_kunit.c"
#endif
#endif
