// SPDX-License-Identifier: GPL-2.0
/*
 * Lazy migration: mbind() with MPOL_MF_LAZY marks pages instead of moving them.
 *
 * The policy is set first, as always.  Then, no longer under the write lock,
 * every page that it wants elsewhere loses its access rights in this address
 * space, as if NUMA balancing had found it worth a look; the next access is a
 * hint fault, which moves it (pull.c).  NUMA balancing's own walk cannot do the
 * marking: it leaves out the fastest nodes while kernel.numa_balancing is 0, and
 * what is local to a process with one thread.
 *
 * Whether a page is misplaced is asked of mpol_misplaced(), which the fault will
 * ask again: what is marked is what will move.
 *
 * Locks: mmap_lock for read, a slice at a time; in it, a page table lock.
 */
#include <linux/hugetlb.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/pagewalk.h>
#include <linux/swap.h>
#include <asm/tlb.h>

#include "../internal.h"
#include "count.h"
#include "lazy_migrate.h"
#include "mark.h"

#define CREATE_TRACE_POINTS
#include <trace/events/lazy_migrate.h>

/*
 * What is walked before others may have mmap_lock, and the TLB is flushed: about a
 * millisecond in base pages
 */
#define SLICE_BYTES	(16UL << 20)

DEFINE_STATIC_KEY_FALSE(lazy_migrate_used);

/**
 * struct marking - a slice of a range that is being marked
 * @tlb: what has to be flushed
 * @how: what to mark
 * @pages: by verdict
 */
struct marking {
	struct mmu_gather tlb;
	const struct lazy_marker *how;
	unsigned long *pages;
};

/**
 * struct bound - marks what a policy wants elsewhere
 * @marker: asks judge()
 * @move_all: MPOL_MF_MOVE_ALL was given
 */
struct bound {
	struct lazy_marker marker;
	bool move_all;
};

/**
 * __lazy_migrate_request - Check a request that has MPOL_MF_LAZY
 * @mode: of the policy
 * @mode_flags: of the policy; MPOL_F_LAZY is added, and MPOL_F_LAZY_ALL
 * @flags: of the call; what would move pages now is removed
 *
 * Return: false if it cannot be done.
 */
bool __lazy_migrate_request(unsigned short mode, unsigned short *mode_flags,
			    unsigned long *flags)
{
	if (!lazy_request_fits(mode, *mode_flags, *flags))
		return false;
	*mode_flags |= MPOL_F_LAZY;
	if (*flags & MPOL_MF_MOVE_ALL)
		*mode_flags |= MPOL_F_LAZY_ALL;
	*flags &= ~(MPOL_MF_LAZY | MPOL_MF_MOVE | MPOL_MF_MOVE_ALL);
	return true;
}

/**
 * __lazy_migrate_takes - Can the pages of a range be marked?
 * @mm: address space, locked for writing
 * @start: first byte
 * @end: end of the range
 *
 * Huge pages of hugetlbfs cannot: their faults know no hint faults.
 *
 * Return: 0 or -EINVAL.
 */
int __lazy_migrate_takes(struct mm_struct *mm, unsigned long start,
			 unsigned long end)
{
	VMA_ITERATOR(vmi, mm, start);
	struct vm_area_struct *vma;

	mmap_assert_write_locked(mm);
	for_each_vma_range(vmi, vma, end)
		if (is_vm_hugetlb_page(vma))
			return -EINVAL;
	return 0;
}

static int judge(const struct lazy_marker *how, struct vm_area_struct *vma,
		 unsigned long addr, struct folio *folio, spinlock_t *ptl)
{
	const struct bound *b = container_of(how, struct bound, marker);
	struct vm_fault look = { .vma = vma, .ptl = ptl };
	struct lazy_page page = {
		.dirty = folio_is_file_lru(folio) && folio_test_dirty(folio),
		.shared = folio_likely_mapped_shared(folio),
		.held = folio_maybe_dma_pinned(folio) || folio_test_ksm(folio),
	};
	struct lazy_policy pol = lazy_policy_at(vma, addr, folio_test_anon(folio));

	page.policy = pol.lazy;
	page.local = pol.local;
	if (page.policy && !page.local)
		page.misplaced = mpol_misplaced(folio, &look, addr) !=
				 NUMA_NO_NODE;
	return lazy_verdict(&page, b->move_all);
}

/* Locked; true if the entry is to be marked: it is not yet. */
static bool huge_pmd_wanted(struct marking *m, struct vm_area_struct *vma,
			    unsigned long addr, pmd_t pmd, spinlock_t *ptl)
{
	struct folio *folio;
	int verdict;

	if (!pmd_present(pmd) || is_huge_zero_pmd(pmd))
		return false;
	folio = pmd_folio(pmd);
	if (folio_is_zone_device(folio))
		return false;
	verdict = m->how->judge(m->how, vma, addr, folio, ptl);
	if (verdict == LAZY_MARK && !pmd_protnone(pmd))
		return true;
	m->pages[verdict] += HPAGE_PMD_NR;
	return false;
}

/* Huge pages move as a whole, wherever in them the range ends. */
static bool mark_huge_pmd(struct marking *m, struct vm_area_struct *vma,
			  unsigned long addr, pmd_t *pmd)
{
	spinlock_t *ptl = pmd_trans_huge_lock(pmd, vma);
	bool wanted;

	if (!ptl)
		return false;
	__acquire(ptl);			/* which sparse cannot see */
	addr &= HPAGE_PMD_MASK;
	wanted = thp_migration_supported() &&
		 huge_pmd_wanted(m, vma, addr, *pmd, ptl);
	spin_unlock(ptl);
	/* What is mapped there by now costs a fault for nothing at worst. */
	if (wanted && change_huge_pmd(&m->tlb, vma, pmd, addr, PAGE_NONE, 0) ==
		      HPAGE_PMD_NR)
		m->pages[LAZY_MARK] += HPAGE_PMD_NR;
	return true;
}

static void mark_pte(struct marking *m, struct vm_area_struct *vma,
		     unsigned long addr, pte_t *pte, spinlock_t *ptl)
{
	pte_t old = ptep_get(pte);
	struct folio *folio;
	int verdict;

	if (!pte_present(old))
		return;
	folio = vm_normal_folio(vma, addr, old);
	if (!folio || folio_is_zone_device(folio) || folio_test_reserved(folio))
		return;
	verdict = m->how->judge(m->how, vma, addr, folio, ptl);
	m->pages[verdict]++;
	/* Others may have marked it, and not for good: NUMA balancing. */
	if (verdict != LAZY_MARK || pte_protnone(old))
		return;
	old = ptep_modify_prot_start(vma, addr, pte);
	ptep_modify_prot_commit(vma, addr, pte, old,
				pte_modify(old, PAGE_NONE));
	tlb_flush_pte_range(&m->tlb, addr, PAGE_SIZE);
}

static int mark_pmd(pmd_t *pmd, unsigned long addr, unsigned long end,
		    struct mm_walk *walk)
{
	struct marking *m = walk->private;
	pte_t *first, *pte;
	spinlock_t *ptl;	/* of this page table */

	if (mark_huge_pmd(m, walk->vma, addr, pmd))
		return 0;
	tlb_change_page_size(&m->tlb, PAGE_SIZE);
	first = pte_offset_map_lock(walk->mm, pmd, addr, &ptl);
	if (!first) {
		walk->action = ACTION_AGAIN;
		return 0;
	}
	__acquire(ptl);			/* nor this */
	flush_tlb_batched_pending(walk->mm);
	arch_enter_lazy_mmu_mode();
	for (pte = first; addr != end; pte++, addr += PAGE_SIZE)
		mark_pte(m, walk->vma, addr, pte, ptl);
	arch_leave_lazy_mmu_mode();
	pte_unmap_unlock(first, ptl);
	cond_resched();
	return 0;
}

static const struct mm_walk_ops mark_ops = {
	.pmd_entry = mark_pmd,
	.walk_lock = PGWALK_RDLOCK,
};

/**
 * lazy_markable - Can the pages of a VMA be marked?
 * @vma: VMA, locked
 *
 * What cannot fault in this way: no access at all, huge TLB pages, no folios.
 *
 * Return: true if they can.
 */
bool lazy_markable(struct vm_area_struct *vma)
{
	return vma_migratable(vma) && vma_is_accessible(vma) &&
	       !is_vm_hugetlb_page(vma) && !(vma->vm_flags & VM_MIXEDMAP);
}

static void account(const unsigned long *pages, unsigned long start,
		    unsigned long end)
{
	int i;

	if (pages[LAZY_MARK]) {
		count_follow_events(NUMA_LAZY_MARKED, pages[LAZY_MARK]);
		trace_mm_lazy_mark(start, end, pages[LAZY_MARK]);
	}
	for (i = 0; i < LAZY_REASONS; i++) {
		if (!pages[i])
			continue;
		count_follow_events(NUMA_LAZY_REFUSED_DIRTY + i, pages[i]);
		trace_mm_lazy_refuse(start, i, pages[i]);
	}
}

/**
 * lazy_migrate_use - Somebody marks pages: hint faults tell us from now on
 */
void lazy_migrate_use(void)
{
	if (!static_key_enabled(&lazy_migrate_used))
		static_branch_enable(&lazy_migrate_used);
}

/**
 * lazy_mark - Mark pages of a VMA
 * @vma: VMA, locked, lazy_markable()
 * @start: first byte
 * @end: end of the range, in the VMA
 * @how: says which pages
 * @pages: by verdict; what is seen is added, marked before or not
 */
void lazy_mark(struct vm_area_struct *vma, unsigned long start,
	       unsigned long end, const struct lazy_marker *how,
	       unsigned long *pages)
{
	struct marking m = { .how = how, .pages = pages };
	struct mmu_notifier_range range;

	tlb_gather_mmu(&m.tlb, vma->vm_mm);
	mmu_notifier_range_init(&range, MMU_NOTIFY_PROTECTION_VMA, 0,
				vma->vm_mm, start, end);
	mmu_notifier_invalidate_range_start(&range);
	tlb_start_vma(&m.tlb, vma);
	walk_page_range(vma->vm_mm, start, end, &mark_ops, &m);
	tlb_end_vma(&m.tlb, vma);
	mmu_notifier_invalidate_range_end(&range);
	tlb_finish_mmu(&m.tlb);
}

/* Returns where the next slice begins. */
static unsigned long mark_slice(struct mm_struct *mm, unsigned long start,
				unsigned long end, bool move_all)
{
	struct vm_area_struct *vma = find_vma(mm, start);
	struct bound b = { .marker.judge = judge, .move_all = move_all };
	unsigned long pages[LAZY_LEAVE + 1] = { 0 };

	if (!vma || vma->vm_start >= end)
		return end;
	start = max(start, vma->vm_start);
	end = min(end, vma->vm_end);
	if (!lazy_markable(vma))
		return end;
	if (end - start > SLICE_BYTES)
		end = start + SLICE_BYTES;
	lazy_mark(vma, start, end, &b.marker, pages);
	account(pages, start, end);
	return end;
}

/**
 * __lazy_migrate_mark - Have misplaced pages move when they are used next
 * @mm: address space, not locked
 * @start: first byte
 * @end: end of the range
 * @move: MPOL_MF_MOVE_ALL for pages, too, that others map
 *
 * By the policies that hold by now: others may have changed them since the
 * caller did.  Pages that were allocated a moment ago are put on their lists, or a
 * fault could not take them from there.
 */
void __lazy_migrate_mark(struct mm_struct *mm, unsigned long start,
			 unsigned long end, unsigned long move)
{
	/* Not before the call is known to succeed. */
	lazy_migrate_use();
	lru_add_drain_all();
	while (start < end) {
		/* Dying: nobody will use these pages. */
		if (mmap_read_lock_killable(mm))
			return;
		start = mark_slice(mm, start, end, move & MPOL_MF_MOVE_ALL);
		mmap_read_unlock(mm);
		cond_resched();
	}
}
