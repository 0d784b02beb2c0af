// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flush of migrated pages: flights.
 *
 * Promotion moves private anonymous base pages by address space, up to 512 at a time:
 * all are unmapped, flushed once, and moved (mm/mtier/move_fast.c). What is deferred
 * is such a flight, as a whole or not at all. One page that cannot wait has all CPUs
 * flushed that use the address space, which is all that the others need. So nothing
 * is asked of a page but whether its entry is writable (D1), and the rest once:
 *
 *   of the node and the address space	before anything is unmapped
 *   whether a flush is pending (D2)	in each page table, under its lock, when its
 *					entries are clear
 *
 * Who write protects entries counts as a flush pending before it takes that lock, and
 * until it has flushed. So if nobody else does when the entries are clear, and before
 * the lock is released, then none of them was read only for somebody who had not
 * flushed yet. The flight itself counts as one. Fork (D7) locks each VMA for writing
 * until it has flushed, and so is not under way in those that the flight holds.
 *
 * What is noted in the address space under the page table lock (A), how it is sealed,
 * and how frames are kept (C) is what it is for batches, see batch.c.
 *
 * Locks: a flight belongs to the task that moves it. Page table lock -> the engine's.
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

/* What is asked before anything is unmapped */
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
 * __tlb_defer_flight_begin() - Pages of an address space are unmapped next
 * @flight: what is to be known of them
 * @mm: the address space
 * @nid: the node that all of them leave
 * @nr: how many there are, at most
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
	cpumask_clear(&flight->cpus.cpumask);
	INIT_LIST_HEAD(&flight->kept);
	flight->nr_kept = 0;
	flight->refused = judge_flight(mm, nid, nr);
}

/**
 * __tlb_defer_flight_table() - Entries of a page table are clear
 * @flight: whose; the page table lock is held since they were not, their VMAs are
 *	locked, and the caller counts as a flush of @flight->mm that is pending
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
	/* Increments tlb_gen, a full barrier: the entries are clear before. */
	arch_tlbbatch_add_pending(&flight->cpus, mm, 0);
	/* See tlb_defer_mm_flush() */
	if (flight->noted && READ_ONCE(mm->tlb_defer.epoch) == flight->epoch)
		return;
	flight->epoch = tlb_defer_open(mm, flight->noted);
	flight->noted = true;
}

/**
 * __tlb_defer_flight_seal() - All entries are clear
 * @flight: whose
 *
 * Return: true if their flush waits.
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

/* Each page by the first reason; what could have waited went along. */
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
 * __tlb_defer_flight_flushed() - The flush was due, and is done
 * @flight: that of which it was
 */
void __tlb_defer_flight_flushed(struct tlb_defer_flight *flight)
{
	if (flight->noted)
		tlb_defer_close(&flight->mm, 1);
	flight->noted = false;
	if (!flight->entries)
		return;
	trace_flight(flight);
	count_refused(flight);
}

/**
 * __tlb_defer_flight_keep() - Hold the frame of a page that was moved (C)
 * @flight: of which it was
 * @src: the page; nobody has a reference to it
 */
void __tlb_defer_flight_keep(struct tlb_defer_flight *flight,
			     struct folio *src)
{
	folio_ref_unfreeze(src, 1);
	list_add_tail(&src->lru, &flight->kept);
	flight->nr_kept++;
}

/**
 * __tlb_defer_flight_end() - The pages have arrived
 * @flight: that of tlb_defer_flight_begin()
 *
 * Return: how many frames of theirs are held.
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
