// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: private anonymous base pages move by address space.
 *
 * migrate_pages() takes any folio and asks rmap twice who maps it. Who moves a hot
 * page knows: it was met in this VMA, which is held (eligible.c), and is mapped
 * nowhere else. So a flight of such pages, all of one address space, goes at once:
 *
 *   freeze	under the page table lock each entry becomes a migration entry and
 *		the page loses its only reference, which is that of the entry
 *   flush	once for the whole flight, unless that can wait (mm/tlb_defer/flight.c)
 *   settle	some at a time (settle.c): contents, state and charge, entries of
 *		the new pages, LRU lists; who waited is woken, the old frames are
 *		freed
 *
 * What is not such a page by then goes to migrate_pages() with the rest of the
 * move, counted by reason.
 *
 * Whoever wants a page that is frozen gets it by a reference (there is none to be
 * had any more), by its page table entry (and waits, for the page is locked until
 * another stands there), or by the LRU lock (which still takes a reference to
 * isolate it). fork, mremap, mprotect, munmap, mlock and khugepaged lock the VMA for
 * writing first. Who only needs mmap_lock or the VMA for reading (MADV_DONTNEED,
 * the OOM reaper, UFFDIO_WRITEPROTECT) may change an entry meanwhile: it is read
 * again when the new page is to be mapped, and where it is gone the new page goes,
 * too. While TLBs may have what entries no longer say mm_tlb_flush_pending() is
 * true, or the address space knows of a flush that waits, so that such a zap flushes
 * before it returns.
 *
 * Between freeze and settled nothing allocates, nor takes a lock of an mm. See
 * Documentation/mm/mtier.rst for the hazards F1 to F25 that comments name.
 *
 * Locking, below what eligible.c says:
 *
 *   VMA lock (read)
 *     mmu notifiers: invalidate_range_start to _end
 *       folio lock of the old pages	tried; held until settled
 *         page table lock
 *           lruvec->lru_lock		of pages that are handed on
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

/* Flags of what moves here, and those that it must not have. */
#define MTIER_FAST_HAS	(BIT(PG_lru) | BIT(PG_swapbacked) | BIT(PG_uptodate))
#define MTIER_FAST_HAS_NOT						\
	(BIT(PG_head) | BIT(PG_writeback) | BIT(PG_unevictable) |	\
	 BIT(PG_private) | BIT(PG_private_2) | BIT(PG_swapcache) |	\
	 BIT(PG_reserved) | __PG_MLOCKED | __PG_HWPOISON)

/**
 * struct mtier_flight - pages of an address space that go at once
 * @page: the pages, in the move
 * @nr: how many
 * @mm: the address space
 * @vma: the VMA of all of them, or NULL
 * @start: lowest address
 * @end: behind the highest one
 */
struct mtier_flight {
	struct mtier_fast_page *page;
	unsigned int nr;
	struct mm_struct *mm;
	struct vm_area_struct *vma;
	unsigned long start;
	unsigned long end;
};

/* ---- which ---- */

/* A private anonymous base page that one page table entry maps? */
static bool mtier_fast_plain(const struct folio *folio)
{
	unsigned long flags = READ_ONCE(folio->flags);
	unsigned long mapping = (unsigned long)READ_ONCE(folio->mapping);

	return (flags & (MTIER_FAST_HAS | MTIER_FAST_HAS_NOT)) ==
	       MTIER_FAST_HAS &&
	       /* F13: KSM has a tag of its own */
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
 * mtier_fast_wants() - is a page one that moves by address space?
 * @mv: the move
 * @folio: what is to be moved, on which the caller has a reference
 * @vma: a VMA that maps it, held by the guard of the move
 *
 * Return: true if mtier_fast_add() is to have it.
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
 * mtier_fast_add() - have a page move by address space
 * @mv: the move, for which mtier_move_fits() said yes
 * @folio: the page, for which mtier_fast_wants() did
 * @vma: the VMA that maps it
 * @addr: where
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

/* What stands for an entry until its page has moved; as try_to_migrate() does. */
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

/* Nobody holds a page that has only the reference of its entry: it is tried. */
static bool mtier_fast_lock(struct folio *src)
{
	KUNIT_STATIC_STUB_REDIRECT(mtier_fast_lock, src);
	return folio_trylock(src);
}

/*
 * Clear an entry and take its reference to the page, if that is the only one. Who
 * walks page tables without their lock takes a reference and then looks whether
 * the entry is still there: it was first, and this fails, or it gets none (F1).
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
 * Have a migration entry stand for a page. Returns 0, or what it is counted as
 * that is not to go this way.
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
	/* From here on the entry knows. */
	if (PageAnonExclusive(&src->page))
		ClearPageAnonExclusive(&src->page);
	return 0;
}

/*
 * A page does not go this way; let migrate_pages() try, if it is there. The
 * page table is locked, so the reference of its entry keeps it.
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

/* Unlock a page table, but for that of a page: what waits is noted before. */
static void mtier_fast_leave(struct mtier_fast *fast, struct mtier_table *table,
			     const struct mtier_fast_page *page)
{
	if (!table->pte || (page && mtier_table_maps(table, page)))
		return;
	tlb_defer_flight_table(&fast->defer);
	mtier_table_leave(table);
}

/* Freeze the pages of a flight; leaves those in it that are frozen. */
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
 * Those from @at on that may go at once. A secondary MMU is told of a range, and
 * would drop what it knows of pages in between: its flights have no gaps (F18).
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

/* Frames for all of a flight, as far as there are: a call may give only one (F24). */
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

/* Unmap the pages of a flight; leaves those in it that are. */
static void mtier_flight_take_off(struct mtier_move *mv,
				  struct mtier_flight *flight)
{
	struct tlb_defer_flight *defer = &mv->fast->defer;

	/* F25: who zaps a migration entry meanwhile flushes, too. */
	inc_tlb_flush_pending(flight->mm);
	mtier_fast_freeze(mv, flight);
	if (!tlb_defer_flight_seal(defer)) {
		mtier_flight_flush(flight);
		tlb_defer_flight_flushed(defer);
	}
	dec_tlb_flush_pending(flight->mm);
}

/* Move the pages of a flight. Returns how many arrived, the first. */
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
 * mtier_fast_run() - move the pages of a move that go by address space
 * @mv: the move; those that do not go this way join its other folios
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
 * mtier_fast_alloc() - make room for pages that move by address space
 * @cap: most pages in a move
 *
 * Return: the room, for kvfree(), or NULL without memory.
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
/* Needs flushes that wait for as long as the test wants. */
#ifdef CONFIG_TLB_DEFER_DEBUG
#include "tests/flight_kunit.c"
#endif
#endif
