// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flush of migrated pages: entries that stay write-protected.
 *
 * The flush of a writable entry cannot be deferred (D1), and most anonymous memory is
 * writable. So after a page has migrated with a flush, its new entry is read-only. No CPU
 * can have the new entry writable, since it never was. So the next migration of the page
 * can be deferred. Until then a store takes one write fault, which finds an exclusive
 * page and makes its entry writable again (wp_page_reuse()).
 *
 * A hint fault leaves the entry read-only as well: of a page that it migrates, as without
 * deferral, and of a page that it does not migrate if it is a read (hint.c).
 *
 * Only pages that tiering or NUMA balancing moves stay write-protected: they are likely
 * to migrate again, and those that are demoted are not in use. And not if the flush
 * interrupted no other CPU: there is nothing to save.
 *
 * Each address space pays for its own write faults: a batch that needed no flush pays for
 * TLB_DEFER_STORES_PAID of them. If TLB_DEFER_STORES_OWED more have come, no entry stays
 * write-protected for backoff_ms, and twice as long each time, until batches have paid for
 * all stores. So an address space whose pages do not migrate, or that writes to most of
 * them, has a fixed number of additional faults.
 *
 * Shadow stacks are left out: their entries are read-only and dirty when they are usable.
 *
 * Locking: page table lock -> tlb_defer_lock.
 */
#include <linux/cpumask.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/tlb_defer_flight.h>
#include <linux/tlb_defer_pte.h>
#include <linux/vmstat.h>

#include "tlb_defer.h"

/* ---- payment ---- */

static bool paid(const struct tlb_defer_protect *protect, u32 owed)
{
	return READ_ONCE(protect->stored) <=
	       (u64)READ_ONCE(protect->saved) * TLB_DEFER_STORES_PAID + owed;
}

/**
 * tlb_defer_protect_saved() - Count a batch without a flush
 * @protect: state of an address space with pages in the batch
 */
void tlb_defer_protect_saved(struct tlb_defer_protect *protect)
{
	WRITE_ONCE(protect->saved, protect->saved + 1);
	if (paid(protect, 0))
		protect->shift = 0;
	if (protect->saved < TLB_DEFER_SAVED_FORGET)
		return;
	WRITE_ONCE(protect->saved, protect->saved / 2);
	WRITE_ONCE(protect->stored, READ_ONCE(protect->stored) / 2);
}

/**
 * tlb_defer_protect_fails() - Check whether write-protection costs more than it saves
 * @protect: state of an address space
 *
 * Return: true if too many stores are not paid for.
 */
bool tlb_defer_protect_fails(const struct tlb_defer_protect *protect)
{
	return !paid(protect, TLB_DEFER_STORES_OWED);
}

/**
 * tlb_defer_protect_stop() - Stop to leave entries write-protected for some time
 * @protect: state of an address space for which tlb_defer_protect_fails()
 * @now: jiffies
 * @ms: first time without write-protection, doubled each time; 0 for none
 */
void tlb_defer_protect_stop(struct tlb_defer_protect *protect,
			    unsigned long now, unsigned int ms)
{
	WRITE_ONCE(protect->used, false);
	WRITE_ONCE(protect->stored, 0);
	WRITE_ONCE(protect->saved, 0);
	if (!ms)
		return;
	/* 0 means that there is no such time. */
	WRITE_ONCE(protect->resume,
		   (now + (msecs_to_jiffies(ms) << protect->shift)) | 1);
	if (protect->shift < TLB_DEFER_PROTECT_SHIFT)
		protect->shift++;
}

/**
 * tlb_defer_may_protect() - Check whether entries may stay write-protected
 * @mm: their address space
 *
 * Return: false after too many stores, or if the knob is off.
 */
bool tlb_defer_may_protect(struct mm_struct *mm)
{
	unsigned long resume = READ_ONCE(mm->tlb_defer.protect.resume);

	return READ_ONCE(tlb_defer_conf.protect) &&
	       !(resume && time_before(jiffies, resume));
}

/**
 * __tlb_defer_stored() - Count a write fault on a page that may have stayed
 * write-protected
 * @mm: address space; the caller holds the page table lock of the entry
 *
 * Not every such fault is one of this file: entries are also write-protected by fork and
 * mprotect. Then too little stays write-protected, which is safe.
 */
void __tlb_defer_stored(struct mm_struct *mm)
{
	struct tlb_defer_protect *protect = &mm->tlb_defer.protect;

	/* Other page tables of @mm have other locks: a count may be lost. */
	WRITE_ONCE(protect->stored, READ_ONCE(protect->stored) + 1);
	count_vm_event(TLB_DEFER_PROTECT_STORES);
	if (unlikely(tlb_defer_protect_fails(protect)))
		tlb_defer_mm_stored(mm);
}

/* ---- entries ---- */

static bool keep_protected(struct vm_area_struct *vma)
{
	if (vma->vm_flags & VM_SHADOW_STACK)
		return false;
	if (!READ_ONCE(vma->vm_mm->tlb_defer.protect.used))
		WRITE_ONCE(vma->vm_mm->tlb_defer.protect.used, true);
	count_vm_event(TLB_DEFER_PROTECTED);
	return true;
}

/* Whether another CPU may have translations of @mm. If not, no flush interrupts one. */
static bool others_use(struct mm_struct *mm)
{
	return cpumask_any_but(mm_cpumask(mm), raw_smp_processor_id()) <
	       nr_cpu_ids;
}

/**
 * __tlb_defer_protects() - Check whether the entry of a migrated page stays
 * write-protected
 * @vma: VMA of the entry; the caller holds its page table lock
 * @src: old folio
 * @dst: new folio, or @src if it did not migrate
 *
 * Return: true if it does.
 */
bool __tlb_defer_protects(struct vm_area_struct *vma, const struct folio *src,
			  const struct folio *dst)
{
	struct tlb_defer_batch *batch = current->tlb_defer;

	return batch && batch->protect && src != dst && folio_test_anon(dst) &&
	       others_use(vma->vm_mm) && tlb_defer_may_protect(vma->vm_mm) &&
	       keep_protected(vma);
}

/**
 * __tlb_defer_flight_protects() - Check whether an entry of a flight stays write-protected
 * @vma: VMA of the entry; the caller holds its page table lock
 *
 * Return: true if it does.
 */
bool __tlb_defer_flight_protects(struct vm_area_struct *vma)
{
	return keep_protected(vma);
}

/**
 * tlb_defer_hint_protects() - Check whether a hint fault leaves an entry write-protected
 * @vma: VMA of the entry, private; the caller holds its page table lock
 *
 * A process with one thread is not left with read-only entries: one CPU at a time uses
 * its translations.
 *
 * Return: true if it does.
 */
bool tlb_defer_hint_protects(struct vm_area_struct *vma)
{
	return atomic_read(&vma->vm_mm->mm_users) > 1 &&
	       tlb_defer_may_protect(vma->vm_mm) && keep_protected(vma);
}
