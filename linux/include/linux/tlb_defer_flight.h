/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Deferred TLB flush of migrated pages: pages of one address space that move
 * together, for mm/mtier/. See <linux/tlb_defer.h>.
 */
#ifndef _LINUX_TLB_DEFER_FLIGHT_H
#define _LINUX_TLB_DEFER_FLIGHT_H

#include <linux/list.h>
#include <linux/pgtable.h>
#include <linux/tlb_defer.h>
#include <linux/vm_event_item.h>
#include <asm/tlbbatch.h>

struct folio;
struct mm_struct;

#ifdef CONFIG_TLB_DEFER

/**
 * struct tlb_defer_flight - pages of an address space, and whether their flush waits
 * @mm: the address space, or NULL if it is off
 * @nid: node that the pages leave
 * @refused: why it cannot wait, a vm event, or 0
 * @entries: how many were cleared
 * @writable: how many of them were writable
 * @seen: how many of them the engine knows of
 * @noted: the engine has noted entries in @mm
 * @epoch: mm->tlb_defer.epoch when it did
 * @cpus: CPUs that may hold translations of them
 * @waits_for: generation that old frames have to be kept for, or 0
 * @kept: they, each with a reference
 * @nr_kept: how many
 *
 * Large; not for the stack.
 */
struct tlb_defer_flight {
	struct mm_struct *mm;
	int nid;
	enum vm_event_item refused;
	unsigned int entries;
	unsigned int writable;
	unsigned int seen;
	bool noted;
	u32 epoch;
	struct arch_tlbflush_unmap_batch cpus;
	u64 waits_for;
	struct list_head kept;
	unsigned int nr_kept;
};

void __tlb_defer_flight_begin(struct tlb_defer_flight *flight,
			      struct mm_struct *mm, int nid, unsigned int nr);
void __tlb_defer_flight_table(struct tlb_defer_flight *flight);
bool __tlb_defer_flight_seal(struct tlb_defer_flight *flight);
void __tlb_defer_flight_flushed(struct tlb_defer_flight *flight);
void __tlb_defer_flight_keep(struct tlb_defer_flight *flight,
			     struct folio *src);
unsigned int __tlb_defer_flight_end(struct tlb_defer_flight *flight);

/**
 * tlb_defer_flight_begin() - pages of an address space are unmapped next
 * @flight: what is to be known of them
 * @mm: the address space, which the caller keeps in use
 * @nid: the node that all of them leave
 * @nr: how many there are, at most
 *
 * May sleep. tlb_defer_flight_end() has to follow.
 */
static inline void tlb_defer_flight_begin(struct tlb_defer_flight *flight,
					  struct mm_struct *mm, int nid,
					  unsigned int nr)
{
	flight->mm = NULL;
	flight->waits_for = 0;
	if (tlb_defer_on())
		__tlb_defer_flight_begin(flight, mm, nid, nr);
}

/**
 * tlb_defer_flight_entry() - the entry of a page was cleared
 * @flight: of which it is
 * @pte: what it was; its page table lock is held until tlb_defer_flight_table()
 */
static inline void tlb_defer_flight_entry(struct tlb_defer_flight *flight,
					  pte_t pte)
{
	flight->entries++;
	flight->writable += !!pte_write(pte);
}

/**
 * tlb_defer_flight_table() - the lock of a page table will be released
 * @flight: of which entries in it may have been cleared
 */
static inline void tlb_defer_flight_table(struct tlb_defer_flight *flight)
{
	if (flight->mm && !flight->refused && flight->entries != flight->seen)
		__tlb_defer_flight_table(flight);
}

/**
 * tlb_defer_flight_seal() - all entries are clear, nothing is copied yet
 * @flight: whose
 *
 * Return: true if their flush waits; else the caller flushes, and calls
 * tlb_defer_flight_flushed().
 */
static inline bool tlb_defer_flight_seal(struct tlb_defer_flight *flight)
{
	return flight->mm && __tlb_defer_flight_seal(flight);
}

/**
 * tlb_defer_flight_flushed() - no CPU has translations of them any more
 * @flight: whose
 */
static inline void tlb_defer_flight_flushed(struct tlb_defer_flight *flight)
{
	if (flight->mm)
		__tlb_defer_flight_flushed(flight);
}

/**
 * tlb_defer_flight_keep() - do not let the frame go before its flush (C)
 * @flight: of which it is
 * @src: what was moved from there; it has no reference and is on no list
 *
 * Return: true if it is kept; else the caller frees it.
 */
static inline bool tlb_defer_flight_keep(struct tlb_defer_flight *flight,
					 struct folio *src)
{
	if (!flight->waits_for)
		return false;
	__tlb_defer_flight_keep(flight, src);
	return true;
}

/**
 * tlb_defer_flight_end() - the pages have arrived
 * @flight: that of tlb_defer_flight_begin()
 *
 * Return: how many of them have a flush that waits.
 */
static inline unsigned int tlb_defer_flight_end(struct tlb_defer_flight *flight)
{
	return flight->mm ? __tlb_defer_flight_end(flight) : 0;
}

#else /* !CONFIG_TLB_DEFER */

struct tlb_defer_flight { };

/* Macros: an inline, however empty, can change what gcc makes of the caller. */
#define tlb_defer_flight_begin(flight, mm, nid, nr)	((void)(flight))
#define tlb_defer_flight_entry(flight, pte)		((void)(flight))
#define tlb_defer_flight_table(flight)			((void)(flight))
#define tlb_defer_flight_seal(flight)			((void)(flight), false)
#define tlb_defer_flight_flushed(flight)		((void)(flight))
#define tlb_defer_flight_keep(flight, src)		((void)(flight), false)
#define tlb_defer_flight_end(flight)			((void)(flight), 0)

#endif /* CONFIG_TLB_DEFER */
#endif /* _LINUX_TLB_DEFER_FLIGHT_H */
