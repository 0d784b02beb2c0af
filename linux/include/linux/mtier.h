/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Promotion of hot pages from slow memory tiers (mm/mtier/): interface for the rest of
 * the kernel.
 *
 * A few calls that are nops while promotion is off, and the prctl.
 */
#ifndef _LINUX_MTIER_H
#define _LINUX_MTIER_H

#include <linux/jump_label.h>
#include <linux/migrate_mode.h>
#include <linux/sched.h>
#include <linux/types.h>

struct folio;
struct mm_struct;
struct seq_file;

/* mm->mtier_scan_scale: normal pace, and the largest value that an application can set */
#define MTIER_SCALE_DEFAULT	5
#define MTIER_SCALE_MAX		10

#ifdef CONFIG_MTIER

DECLARE_STATIC_KEY_FALSE(mtier_key);

void __mtier_add_mm(struct mm_struct *mm);
void __mtier_del_mm(struct mm_struct *mm);
void mtier_init_mm(struct mm_struct *mm);
void mtier_task_mem(struct seq_file *m, struct mm_struct *mm);
bool __mtier_hint_fault(struct folio *folio);
int mtier_prctl_set(struct mm_struct *mm, unsigned long scale,
		    unsigned long arg3, unsigned long arg4, unsigned long arg5);
int mtier_prctl_get(struct mm_struct *mm, unsigned long arg2,
		    unsigned long arg3, unsigned long arg4, unsigned long arg5);

/**
 * mtier_on() - Check whether promotion is on
 *
 * Return: true between the write of 1 and of 0 to mtier/enabled.
 */
static inline bool mtier_on(void)
{
	return static_branch_unlikely(&mtier_key);
}

/**
 * mtier_add_mm() - Register a new address space
 * @mm: the mm, may be NULL; the caller holds a user reference. May sleep.
 */
static inline void mtier_add_mm(struct mm_struct *mm)
{
	if (mtier_on() && mm)
		__mtier_add_mm(mm);
}

/**
 * mtier_del_mm() - Unregister an address space before its teardown
 * @mm: the mm, whose last user reference is gone
 */
static inline void mtier_del_mm(struct mm_struct *mm)
{
	if (mtier_on())
		__mtier_del_mm(mm);
}

/**
 * mtier_hint_fault() - Check whether promotion decides about the page of a hint fault
 * @folio: its folio
 *
 * Return: true if it does, so that the fault does not move the page.
 */
static inline bool mtier_hint_fault(struct folio *folio)
{
	return mtier_on() && __mtier_hint_fault(folio);
}

/**
 * mtier_reason() - Check for a migration by promotion
 * @reason: an enum migrate_reason
 *
 * Return: true for promotions, which migrate a folio as a whole or not at all.
 */
static inline bool mtier_reason(int reason)
{
	return reason == MR_TIER_PROMOTE;
}

#else /* !CONFIG_MTIER */

static inline bool mtier_on(void)
{
	return false;
}

static inline void mtier_add_mm(struct mm_struct *mm) {}
static inline void mtier_del_mm(struct mm_struct *mm) {}
static inline void mtier_init_mm(struct mm_struct *mm) {}
static inline void mtier_task_mem(struct seq_file *m, struct mm_struct *mm) {}

static inline bool mtier_hint_fault(struct folio *folio)
{
	return false;
}

/*
 * A macro: for "x || mtier_reason(y)", even an empty inline or (void)(y) changes the code
 * of gcc.
 */
#define mtier_reason(reason)	false

#endif /* CONFIG_MTIER */
#endif /* _LINUX_MTIER_H */
