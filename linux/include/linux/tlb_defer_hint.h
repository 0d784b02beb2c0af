/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Deferred TLB flush of migrated pages: hint scans and hint faults of NUMA balancing, for
 * mm/mempolicy.c, mm/mprotect.c, mm/memory.c and kernel/sched/numa_scan/. See
 * mm/tlb_defer/hint.c.
 */
#ifndef _LINUX_TLB_DEFER_HINT_H
#define _LINUX_TLB_DEFER_HINT_H

#include <linux/mm_types.h>
#include <linux/pgtable.h>
#include <linux/tlb_defer.h>

struct mmu_gather;
struct vm_fault;

#ifdef CONFIG_TLB_DEFER

bool __tlb_defer_hints_begin(struct mmu_gather *tlb);
void __tlb_defer_hints_end(struct mmu_gather *tlb);
void __tlb_defer_hints_changed(struct mmu_gather *tlb, unsigned long start,
			       unsigned long end);
pte_t __tlb_defer_hint_pte(struct vm_area_struct *vma, pte_t old, pte_t pte);
bool __tlb_defer_hint_fault(struct vm_fault *vmf, pte_t old, bool writable);

/**
 * tlb_defer_hints_begin() - Start a hint scan
 * @tlb: its gather, of tlb_gather_mmu(); nothing is changed yet
 *
 * Return: true if its flush may be deferred: tlb_defer_hints_end() must follow.
 */
static inline bool tlb_defer_hints_begin(struct mmu_gather *tlb)
{
	return tlb_defer_on() && __tlb_defer_hints_begin(tlb);
}

/**
 * tlb_defer_hints_end() - End a hint scan, before tlb_finish_mmu()
 * @tlb: its gather, which is empty afterwards if the flush is deferred
 * @begun: return value of tlb_defer_hints_begin()
 */
static inline void tlb_defer_hints_end(struct mmu_gather *tlb, bool begun)
{
	if (begun)
		__tlb_defer_hints_end(tlb);
}

/**
 * tlb_defer_hints_changed() - Add a range to a gather whose entries hints may hide
 * @tlb: gather of a change of permissions that is no hint scan
 * @start: start of the changed range
 * @end: its end
 *
 * Such a change does not flush for entries that are inaccessible.
 */
static inline void tlb_defer_hints_changed(struct mmu_gather *tlb,
					   unsigned long start,
					   unsigned long end)
{
	if (tlb_defer_on())
		__tlb_defer_hints_changed(tlb, start, end);
}

/**
 * tlb_defer_hint_pte() - Keep the writable bit of an entry that becomes a hint
 * @vma: its VMA
 * @old: value before the hint scan
 * @pte: new value, inaccessible
 *
 * Return: the new value, writable if a TLB may have the entry writable.
 */
static inline pte_t tlb_defer_hint_pte(struct vm_area_struct *vma, pte_t old,
				       pte_t pte)
{
	if (tlb_defer_on() && pte_write(old))
		return __tlb_defer_hint_pte(vma, old, pte);
	return pte;
}

/**
 * tlb_defer_hint_fault() - Check whether a hint fault makes an entry writable
 * @vmf: the fault, which migrates nothing; the page table lock is held
 * @old: value of the entry before the fault
 * @writable: the entry can be made writable
 *
 * Return: true if it becomes writable; what it depends on is flushed.
 */
static inline bool tlb_defer_hint_fault(struct vm_fault *vmf, pte_t old,
					bool writable)
{
	return tlb_defer_on() ? __tlb_defer_hint_fault(vmf, old, writable) :
				writable;
}

#else /* !CONFIG_TLB_DEFER */

#define tlb_defer_hints_begin(tlb)			false
#define tlb_defer_hints_end(tlb, begun)			((void)(begun))
#define tlb_defer_hints_changed(tlb, start, end)	do { } while (0)
#define tlb_defer_hint_pte(vma, old, pte)		(pte)
#define tlb_defer_hint_fault(vmf, old, writable)	(writable)

#endif /* CONFIG_TLB_DEFER */
#endif /* _LINUX_TLB_DEFER_HINT_H */
