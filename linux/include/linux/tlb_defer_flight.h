/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Deferred TLB flush of migrated pages: pages of one address space that migrate together
 * (a flight), for mm/mtier/. See <linux/tlb_defer.h>.
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
struct vm_area_struct;

#ifdef CONFIG_TLB_DEFER

/**
 * struct tlb_defer_flight - batch of pages of one address space
 * @mm: the address space, or NULL if the mode is off
 * @nid: node that the pages leave
 * @refused: the reason, a vm event, why the flight is not deferred, or 0
 * @entries: number of cleared entries
 * @writable: number of writable ones among them
 * @seen: number of entries that __tlb_defer_flight_table() has checked
 * @noted: the flight is registered in @mm
 * @protect: its writable entries stay write-protected
 * @epoch: mm->tlb_defer.epoch at that time
 * @cpus: CPUs that may hold translations of the entries
 * @waits_for: generation until which old frames are kept, or 0
 * @kept: the old frames, each with a reference
 * @nr_kept: number of frames in @kept
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
	bool protect;
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
bool __tlb_defer_flight_protects(struct vm_area_struct *vma);
void __tlb_defer_flight_keep(struct tlb_defer_flight *flight,
			     struct folio *src);
unsigned int __tlb_defer_flight_end(struct tlb_defer_flight *flight);

/**
 * tlb_defer_flight_begin() - Start to unmap pages of an address space
 * @flight: initialized for these pages
 * @mm: the address space, in use by the caller
 * @nid: source node of all of them
 * @nr: most pages that are unmapped
 *
 * May sleep. tlb_defer_flight_end() must follow.
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
 * tlb_defer_flight_entry() - Note the cleared entry of a page
 * @flight: the flight
 * @pte: old value; its page table lock is held until tlb_defer_flight_table()
 */
static inline void tlb_defer_flight_entry(struct tlb_defer_flight *flight,
					  pte_t pte)
{
	flight->entries++;
	flight->writable += !!pte_write(pte);
}

/**
 * tlb_defer_flight_table() - Decide about a page table before its lock is released
 * @flight: the flight, which may have cleared entries in the page table
 */
static inline void tlb_defer_flight_table(struct tlb_defer_flight *flight)
{
	if (flight->mm && !flight->refused && flight->entries != flight->seen)
		__tlb_defer_flight_table(flight);
}

/**
 * tlb_defer_flight_seal() - Commit a flight after its last entry is cleared, before the
 * copy
 * @flight: the flight
 *
 * Return: true if its flush is deferred; otherwise the caller flushes, and calls
 * tlb_defer_flight_flushed().
 */
static inline bool tlb_defer_flight_seal(struct tlb_defer_flight *flight)
{
	return flight->mm && __tlb_defer_flight_seal(flight);
}

/**
 * tlb_defer_flight_flushed() - End a flight that was flushed at once
 * @flight: the flight
 */
static inline void tlb_defer_flight_flushed(struct tlb_defer_flight *flight)
{
	if (flight->mm)
		__tlb_defer_flight_flushed(flight);
}

/**
 * tlb_defer_flight_protects() - Check whether an entry stays write-protected
 * @flight: the flight, which was flushed
 * @vma: VMA of the entry; its page table lock is held
 *
 * Return: true if a writable entry of a migrated page becomes read-only.
 */
static inline bool
tlb_defer_flight_protects(const struct tlb_defer_flight *flight,
			  struct vm_area_struct *vma)
{
	return flight->mm && flight->protect &&
	       __tlb_defer_flight_protects(vma);
}

/**
 * tlb_defer_flight_keep() - Keep an old frame until its flush (C)
 * @flight: its flight
 * @src: old page; it has no reference and is on no list
 *
 * Return: true if it is kept; otherwise the caller frees it.
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
 * tlb_defer_flight_end() - End a flight after its pages were moved
 * @flight: the flight of tlb_defer_flight_begin()
 *
 * Return: number of pages whose flush is deferred.
 */
static inline unsigned int tlb_defer_flight_end(struct tlb_defer_flight *flight)
{
	return flight->mm ? __tlb_defer_flight_end(flight) : 0;
}

#else /* !CONFIG_TLB_DEFER */

struct tlb_defer_flight { };

/* Macros: even an empty inline can change the code that gcc makes of the caller. */
#define tlb_defer_flight_begin(flight, mm, nid, nr)	((void)(flight))
#define tlb_defer_flight_entry(flight, pte)		((void)(flight))
#define tlb_defer_flight_table(flight)			((void)(flight))
#define tlb_defer_flight_seal(flight)			((void)(flight), false)
#define tlb_defer_flight_flushed(flight)		((void)(flight))
#define tlb_defer_flight_protects(flight, vma)		((void)(flight), false)
#define tlb_defer_flight_keep(flight, src)		((void)(flight), false)
#define tlb_defer_flight_end(flight)			((void)(flight), 0)

#endif /* CONFIG_TLB_DEFER */
#endif /* _LINUX_TLB_DEFER_FLIGHT_H */
