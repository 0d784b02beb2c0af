// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flush of migrated pages: hint scans.
 *
 * A hint scan of NUMA balancing makes entries inaccessible, so that the next access
 * faults. It flushes at its end, on all CPUs that use the address space. With deferral it
 * commits its translations to the open generation: until that is done, a CPU can still
 * access a page through the translation from before the scan. That does no harm while the
 * entry maps the same page with the same permissions: a hint fault is missed, or comes
 * some ticks later. So everything that takes an inaccessible entry for one that no TLB
 * has must know of the scan:
 *
 *   the page is unmapped	pte_accessible() includes tlb_defer_hinted(): reclaim,
 *				migration, KSM and others flush as for an accessible
 *				entry. Huge mappings are flushed anyway.
 *   permissions are removed	mprotect() and userfaultfd do not flush for an entry that
 *				is inaccessible: tlb_defer_hints_changed().
 *   the page migrates		D1: hint scans keep the writable bit of the entry, so
 *				that migration knows what a TLB may have. The first
 *				writable entry flushes for all entries of the scan, which
 *				is the flush that was deferred. D2: a hint scan is no
 *				pending flush.
 *   the hint fault		must not make the entry read-only while a TLB may have it
 *				writable: tlb_defer_hint_fault().
 *
 * Unmapping, mremap(), fork, clear_refs and collapse flush whatever the entry is.
 *
 * A hint scan does not flush deferred translations of migrated pages either (A1): an
 * inaccessible entry is not more permissive. So a hint fault flushes them before it makes
 * the entry writable (A2), unless it was writable before the scan: D1 and A2 have made
 * sure that no deferred translation of it is left.
 *
 * Order of memory accesses. @gen is set before the first entry is changed, and the gather
 * counts as a pending flush again before @gen is cleared. Whoever holds the page table
 * lock of a changed entry, and then reads first @gen and then the pending flushes, sees
 * one of them until the flush is done.
 *
 * Locking: page table lock -> hints_lock. The latter is innermost.
 */
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/spinlock.h>
#include <linux/tlb_defer_hint.h>
#include <linux/vmstat.h>
#include <asm/tlb.h>

#include "tlb_defer.h"

static DEFINE_SPINLOCK(hints_lock);

/* ---- state of an address space ---- */

/**
 * tlb_defer_hints_open() - Note that a hint scan starts
 * @hints: state of the address space
 */
void tlb_defer_hints_open(struct tlb_defer_hints *hints)
{
	spin_lock(&hints_lock);
	hints->scans++;
	WRITE_ONCE(hints->gen, TLB_DEFER_UNSEALED);
	spin_unlock(&hints_lock);
}

/**
 * tlb_defer_hints_close() - Note that a hint scan has ended
 * @hints: state of the address space
 * @gen: generation to which its translations were committed, or 0 if the caller flushes
 *	them, and counts as a pending flush until then
 */
void tlb_defer_hints_close(struct tlb_defer_hints *hints, u64 gen)
{
	spin_lock(&hints_lock);
	hints->sealed = max(hints->sealed, gen);
	if (!--hints->scans)
		WRITE_ONCE(hints->gen, hints->sealed);
	spin_unlock(&hints_lock);
}

/**
 * tlb_defer_hints_flushed() - Note that an address space was flushed
 * @hints: its state
 * @seen: its @gen before the flush
 *
 * A scan that was under way before the flush, or has ended since, is not covered.
 */
void tlb_defer_hints_flushed(struct tlb_defer_hints *hints, u64 seen)
{
	spin_lock(&hints_lock);
	if (seen != TLB_DEFER_UNSEALED && hints->gen == seen) {
		hints->sealed = 0;
		WRITE_ONCE(hints->gen, 0);
	}
	spin_unlock(&hints_lock);
}

/**
 * __tlb_defer_hinted() - Check for translations from before a hint scan
 * @mm: address space; the caller holds the page table lock of the entry in question
 *
 * Return: true if a CPU may have one. If false, the next check is cheap.
 */
bool __tlb_defer_hinted(struct mm_struct *mm)
{
	u64 seen = READ_ONCE(mm->tlb_defer.hints.gen);

	if (seen > tlb_defer_done())
		return true;
	tlb_defer_hints_flushed(&mm->tlb_defer.hints, seen);
	return false;
}

/**
 * tlb_defer_hints_flush() - Flush what hint scans of an address space have deferred
 * @mm: address space; the caller holds the page table lock of an entry that a scan has
 *	made inaccessible
 *
 * No CPU has a translation of that entry afterwards.
 */
void tlb_defer_hints_flush(struct mm_struct *mm)
{
	u64 seen = READ_ONCE(mm->tlb_defer.hints.gen);

	flush_tlb_mm(mm);
	tlb_defer_hints_flushed(&mm->tlb_defer.hints, seen);
	count_vm_event(TLB_DEFER_FORCED_UNMAP);
}

/* ---- hint scans ---- */

/**
 * __tlb_defer_hints_begin() - Start a hint scan
 * @tlb: its gather; nothing is changed yet
 *
 * Return: true if its flush may be deferred.
 */
bool __tlb_defer_hints_begin(struct mmu_gather *tlb)
{
	if (!tlb_defer_enter())
		return false;
	tlb_defer_hints_open(&tlb->mm->tlb_defer.hints);
	/* D2: migration need not wait for the end of the scan. */
	dec_tlb_flush_pending(tlb->mm);
	return true;
}

/**
 * __tlb_defer_hints_end() - End a hint scan, before tlb_finish_mmu()
 * @tlb: its gather; empty afterwards if its flush is deferred
 */
void __tlb_defer_hints_end(struct mmu_gather *tlb)
{
	struct mm_struct *mm = tlb->mm;
	u64 gen = 0;

	inc_tlb_flush_pending(mm);
	if ((tlb->cleared_ptes || tlb->cleared_pmds) &&
	    !tlb_defer_nobody_else(mm_cpumask(mm))) {
		tlb_defer_arch_changed(mm);
		gen = tlb_defer_seal(NULL, 0, mm_cpumask(mm));
		__tlb_reset_range(tlb);
		count_vm_event(TLB_DEFER_HINT_SCANS);
	}
	tlb_defer_hints_close(&mm->tlb_defer.hints, gen);
	tlb_defer_leave();
}

/**
 * __tlb_defer_hints_changed() - Add a range to a gather whose entries hints may hide
 * @tlb: gather of a change of permissions, which has been made
 * @start: start of the range
 * @end: its end
 */
void __tlb_defer_hints_changed(struct mmu_gather *tlb, unsigned long start,
			       unsigned long end)
{
	if (tlb_defer_hinted(tlb->mm))
		tlb_flush_pte_range(tlb, start, end - start);
}

/**
 * __tlb_defer_hint_pte() - Keep the writable bit of an entry that becomes a hint
 * @vma: its VMA
 * @old: value before the hint scan, writable
 * @pte: new value, inaccessible
 *
 * Return: the new value with the writable bit. Shadow stacks are left out: they are
 * writable without it, and cannot be deferred.
 */
pte_t __tlb_defer_hint_pte(struct vm_area_struct *vma, pte_t old, pte_t pte)
{
	return vma->vm_flags & VM_SHADOW_STACK ? pte : pte_mkwrite_novma(pte);
}

/* ---- hint faults ---- */

/**
 * __tlb_defer_hint_fault() - Check whether a hint fault makes an entry writable
 * @vmf: the fault, which migrates nothing; the page table lock is held
 * @old: value of the entry before the fault
 * @writable: the entry can be made writable
 *
 * A read leaves it read-only, so that its next migration can be deferred: see protect.c.
 * Not if a TLB may have the entry writable: then D1 would not hold.
 *
 * Return: true if it becomes writable; what it depends on is flushed.
 */
bool __tlb_defer_hint_fault(struct vm_fault *vmf, pte_t old, bool writable)
{
	struct vm_area_struct *vma = vmf->vma;
	bool stale = pte_write(old) && tlb_defer_hinted(vma->vm_mm);

	if (!writable) {
		if (stale)
			tlb_defer_hints_flush(vma->vm_mm);
		return false;
	}
	if (!stale && !(vmf->flags & FAULT_FLAG_WRITE) &&
	    !(vma->vm_flags & VM_SHARED) && tlb_defer_hint_protects(vma))
		return false;
	/* A2. No deferred translation is left of an entry that was writable. */
	if (!pte_write(old))
		__tlb_defer_flush_mm(vma->vm_mm, TLB_DEFER_SITE_WRITE);
	return true;
}
