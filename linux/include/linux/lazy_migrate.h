/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mbind() with MPOL_MF_LAZY: the calls that mm/mempolicy.c and the page faults
 * make.  All of them are empty without CONFIG_NUMA_LAZY_MIGRATE, and a nop until
 * somebody asks for it.  See mm/lazy_migrate/mark.c.
 */
#ifndef _LINUX_LAZY_MIGRATE_H
#define _LINUX_LAZY_MIGRATE_H

#include <linux/bits.h>
#include <linux/jump_label.h>
#include <linux/mempolicy.h>
#include <linux/migrate.h>
#include <linux/mm.h>

#ifdef CONFIG_NUMA_LAZY_MIGRATE

/* What mbind() takes besides MPOL_MF_VALID */
#define LAZY_MIGRATE_FLAG	MPOL_MF_LAZY

/*
 * In mempolicy.flags: a hint fault moves a page where this policy wants it.
 * Unlike MPOL_F_MOF it does not have NUMA balancing look for such pages.
 */
#define MPOL_F_LAZY		BIT(8)
/* With it: what other processes map moves, too. */
#define MPOL_F_LAZY_ALL		BIT(9)

DECLARE_STATIC_KEY_FALSE(lazy_migrate_used);

bool __lazy_migrate_request(unsigned short mode, unsigned short *mode_flags,
			    unsigned long *flags);
void __lazy_migrate_mark(struct mm_struct *mm, unsigned long start,
			 unsigned long end, unsigned long move);
void __lazy_migrate_pulled(struct vm_fault *vmf, int nr_pages, int nid);
int __lazy_migrate_takes(struct mm_struct *mm, unsigned long start,
			 unsigned long end);
int __lazy_migrate_prepare(struct vm_fault *vmf, struct folio *folio, int nid);
void __lazy_migrate_failed(struct vm_fault *vmf, int nr_pages);

/**
 * lazy_migrate_request - Take MPOL_MF_LAZY out of what mbind() was asked for
 * @mode: of the policy
 * @mode_flags: of the policy; MPOL_F_LAZY is added, and MPOL_F_LAZY_ALL
 * @flags: of the call; what would move pages now is removed
 * @move: what was removed, for lazy_migrate_mark(); 0 if nobody asked for it
 *
 * Return: false if it cannot be done with the rest of the request.
 */
static inline bool lazy_migrate_request(unsigned short mode,
					unsigned short *mode_flags,
					unsigned long *flags,
					unsigned long *move)
{
	*move = 0;
	if (!(*flags & MPOL_MF_LAZY))
		return true;
	*move = *flags & (MPOL_MF_MOVE | MPOL_MF_MOVE_ALL);
	return __lazy_migrate_request(mode, mode_flags, flags);
}

/**
 * lazy_migrate_takes - Can the pages of a range be marked?
 * @mm: address space, locked for writing
 * @start: first byte
 * @end: end of the range
 * @move: what lazy_migrate_request() gave; nothing is asked if it is 0
 *
 * Return: 0 or -EINVAL.
 */
static inline int lazy_migrate_takes(struct mm_struct *mm, unsigned long start,
				     unsigned long end, unsigned long move)
{
	return move ? __lazy_migrate_takes(mm, start, end) : 0;
}

/**
 * lazy_migrate_mark - Have misplaced pages move when they are used next
 * @mm: address space, not locked
 * @start: first byte
 * @end: end of the range
 * @move: what lazy_migrate_request() gave; nothing is done if it is 0
 *
 * Marks where the policy of the range asks for it.
 */
static inline void lazy_migrate_mark(struct mm_struct *mm, unsigned long start,
				     unsigned long end, unsigned long move)
{
	if (move)
		__lazy_migrate_mark(mm, start, end, move);
}

/**
 * lazy_migrate_policy - Does a hint fault move pages where a policy wants them?
 * @pol: policy, not NULL
 *
 * Return: true if the policy came with MPOL_MF_LAZY.
 */
static inline bool lazy_migrate_policy(const struct mempolicy *pol)
{
	return static_branch_unlikely(&lazy_migrate_used) &&
	       (pol->flags & MPOL_F_LAZY);
}

/**
 * lazy_migrate_pulled - A hint fault has moved a folio
 * @vmf: fault; no page table is locked
 * @nr_pages: pages of the folio
 * @nid: where it is now
 *
 * Counts it if its policy is a lazy one, and pulls its neighbours, too.
 */
static inline void lazy_migrate_pulled(struct vm_fault *vmf, int nr_pages,
				       int nid)
{
	if (static_branch_unlikely(&lazy_migrate_used))
		__lazy_migrate_pulled(vmf, nr_pages, nid);
}

/**
 * lazy_migrate_prepare - A hint fault is about to move a folio
 * @vmf: fault
 * @folio: folio, under its page table lock
 * @nid: where it should be
 *
 * Return: as migrate_misplaced_folio_prepare(), which it calls.
 */
static inline int lazy_migrate_prepare(struct vm_fault *vmf,
				       struct folio *folio, int nid)
{
	if (static_branch_unlikely(&lazy_migrate_used))
		return __lazy_migrate_prepare(vmf, folio, nid);
	return migrate_misplaced_folio_prepare(folio, vmf->vma, nid);
}

/**
 * lazy_migrate_failed - A hint fault could not move what was isolated
 * @vmf: fault; no page table is locked
 * @nr_pages: pages of the folio
 */
static inline void lazy_migrate_failed(struct vm_fault *vmf, int nr_pages)
{
	if (static_branch_unlikely(&lazy_migrate_used))
		__lazy_migrate_failed(vmf, nr_pages);
}

#else /* CONFIG_NUMA_LAZY_MIGRATE */

#define LAZY_MIGRATE_FLAG	0

static inline bool lazy_migrate_request(unsigned short mode,
					unsigned short *mode_flags,
					unsigned long *flags,
					unsigned long *move)
{
	return true;
}

static inline int lazy_migrate_takes(struct mm_struct *mm, unsigned long start,
				     unsigned long end, unsigned long move)
{
	return 0;
}

static inline void lazy_migrate_mark(struct mm_struct *mm, unsigned long start,
				     unsigned long end, unsigned long move)
{
}

static inline bool lazy_migrate_policy(const struct mempolicy *pol)
{
	return false;
}

static inline void lazy_migrate_pulled(struct vm_fault *vmf, int nr_pages,
				       int nid)
{
}

static inline int lazy_migrate_prepare(struct vm_fault *vmf,
				       struct folio *folio, int nid)
{
	return migrate_misplaced_folio_prepare(folio, vmf->vma, nid);
}

static inline void lazy_migrate_failed(struct vm_fault *vmf, int nr_pages)
{
}

#endif /* CONFIG_NUMA_LAZY_MIGRATE */

#endif /* _LINUX_LAZY_MIGRATE_H */
