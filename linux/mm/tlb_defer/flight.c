// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flush of migrated pages: flights.
 *
 * Promotion migrates private anonymous base pages by address space, up to 512 at a time:
 * all are unmapped, flushed once, and moved (mm/mtier/move_fast.c). Such a batch of one
 * mm, a flight, is deferred as a whole or not at all. One page that cannot be deferred
 * flushes all CPUs that use the address space, which covers the other pages too. So only
 * D1 (the entry is writable) is checked for each page. The other checks are done once:
 *
 *   node and address space	before the first page is unmapped
 *   a flush is pending (D2)	per page table, under its lock, after its entries are cleared
 *
 * A task that write protects entries counts as a pending flush from before it takes that
 * lock until its flush is done. So if no other flush is pending after the entries are
 * cleared and before the lock is released, no entry was read-only because of a flush
 * still to come. The flight itself counts as one pending flush. Fork (D7) locks each VMA
 * for writing until its flush, so it cannot run in the VMAs that the flight holds.
 *
 * Registration in the address space under the page table lock (A), commits, and keeping
 * frames (C) work as for batches, see batch.c.
 *
 * Locking: a flight belongs to the task that moves it. Page table lock -> tlb_defer_lock.
 */
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/smp.h>
#include <linux/tlb_defer_flight.h>
#include <linux/vmstat.h>
#include <asm/tlbflush.h>
#include <trace/events/tlb_defer.h>

#include "tlb_defer.h"

/* Checks before the first page is unmapped */
static enum vm_event_item judge_flight(struct mm_struct *mm, int nid, long nr)
{
	unsigned long resume = READ_ONCE(mm->tlb_defer.resume);

	if (tlb_defer_nobody_else(mm_cpumask(mm)))
		return TLB_DEFER_NO_NEED;
	if (resume && time_before(jiffies, resume))
		return TLB_DEFER_REFUSED_BACKOFF;
	if (tlb_defer_paused() || tlb_defer_short(nid))
		return TLB_DEFER_REFUSED_PRESSURE;
	tlb_defer_make_room(nid);
	return tlb_defer_room(nid) < nr ? TLB_DEFER_REFUSED_FULL : 0;
}

/**
 * __tlb_defer_flight_begin() - Start to unmap pages of an address space
 * @flight: initialized for these pages
 * @mm: the address space
 * @nid: source node of all of them
 * @nr: most pages that are unmapped
 */
void __tlb_defer_flight_begin(struct tlb_defer_flight *flight,
			      struct mm_struct *mm, int nid, unsigned int nr)
{
	if (!tlb_defer_enter())
		return;
	flight->mm = mm;
	flight->nid = nid;
	flight->entries = 0;
	flight->writable = 0;
	flight->seen = 0;
	flight->noted = false;
	flight->protect = false;
	cpumask_clear(&flight->cpus.cpumask);
	INIT_LIST_HEAD(&flight->kept);
	flight->nr_kept = 0;
	flight->refused = judge_flight(mm, nid, nr);
}

/**
 * __tlb_defer_flight_table() - Decide about the cleared entries of a page table
 * @flight: the flight; the page table lock is held since before the entries were
 *	cleared, their VMAs are locked, and the caller counts as a pending flush of
 *	@flight->mm
 */
void __tlb_defer_flight_table(struct tlb_defer_flight *flight)
{
	struct mm_struct *mm = flight->mm;

	tlb_defer_judged();
	flight->seen = flight->entries;
	if (flight->writable)
		flight->refused = TLB_DEFER_REFUSED_WRITE;
	else if (mm_tlb_flush_nested(mm))
		flight->refused = TLB_DEFER_REFUSED_PENDING;
	if (flight->refused)
		return;
	/* Increments tlb_gen, a full barrier after the entries were cleared. */
	arch_tlbbatch_add_pending(&flight->cpus, mm, 0);
	/* See tlb_defer_mm_flush() */
	if (flight->noted && READ_ONCE(mm->tlb_defer.epoch) == flight->epoch)
		return;
	flight->epoch = tlb_defer_open(mm, flight->noted);
	flight->noted = true;
}

/**
 * __tlb_defer_flight_seal() - Commit a flight after its last entry is cleared
 * @flight: the flight
 *
 * Return: true if its flush is deferred.
 */
bool __tlb_defer_flight_seal(struct tlb_defer_flight *flight)
{
	tlb_defer_race_window();
	if (flight->refused || !flight->noted)
		return false;
	flight->waits_for = tlb_defer_seal(&flight->mm, 1,
					   &flight->cpus.cpumask);
	flight->noted = false;
	count_vm_event(TLB_DEFER_BATCH_CLEAN);
	return true;
}

static void trace_flight(const struct tlb_defer_flight *flight)
{
	trace_tlb_defer_flight(flight->entries, flight->writable,
			       flight->waits_for,
			       tlb_defer_refusal(flight->refused));
}

/* Count each page under the first reason. Pages that could be deferred were merged. */
static void count_refused(const struct tlb_defer_flight *flight)
{
	enum vm_event_item why = flight->refused;

	if (why == TLB_DEFER_NO_NEED) {
		count_vm_events(why, flight->entries);
		return;
	}
	if (why == TLB_DEFER_REFUSED_WRITE)
		why = TLB_DEFER_JOINED;
	count_vm_event(TLB_DEFER_BATCH_FLUSHED);
	count_vm_events(TLB_DEFER_REFUSED_WRITE, flight->writable);
	count_vm_events(why, flight->entries - flight->writable);
}

/**
 * __tlb_defer_flight_flushed() - End a flight that was flushed at once
 * @flight: the flight
 */
void __tlb_defer_flight_flushed(struct tlb_defer_flight *flight)
{
	if (flight->noted)
		tlb_defer_close(&flight->mm, 1);
	flight->noted = false;
	if (!flight->entries)
		return;
	flight->protect = flight->refused != TLB_DEFER_NO_NEED &&
			  tlb_defer_may_protect(flight->mm);
	trace_flight(flight);
	count_refused(flight);
}

/**
 * __tlb_defer_flight_keep() - Hold the frame of a moved page (C)
 * @flight: its flight
 * @src: the page; it has no references
 */
void __tlb_defer_flight_keep(struct tlb_defer_flight *flight,
			     struct folio *src)
{
	folio_ref_unfreeze(src, 1);
	list_add_tail(&src->lru, &flight->kept);
	flight->nr_kept++;
}

/**
 * __tlb_defer_flight_end() - End a flight after its pages were moved
 * @flight: the flight of tlb_defer_flight_begin()
 *
 * Return: number of its frames that are held.
 */
unsigned int __tlb_defer_flight_end(struct tlb_defer_flight *flight)
{
	if (flight->waits_for) {
		trace_flight(flight);
		count_vm_events(TLB_DEFER_FOLIOS, flight->nr_kept);
		count_vm_events(TLB_DEFER_PAGES, flight->nr_kept);
		tlb_defer_hold(&flight->kept, flight->nid, flight->nr_kept,
			       flight->waits_for);
	}
	flight->mm = NULL;
	flight->waits_for = 0;
	tlb_defer_leave();
	return flight->nr_kept;
}
