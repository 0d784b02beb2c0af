/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Deferred TLB flush of migrated pages (mm/tlb_defer/): interface for the rest of the
 * kernel.
 *
 * The calls are nops while the mode is off, and absent without CONFIG_TLB_DEFER. fs.h
 * includes this file, so it includes nothing itself.
 *
 * See Documentation/mm/tlb_defer.rst for the invariants A to D that the comments name.
 */
#ifndef _LINUX_TLB_DEFER_H
#define _LINUX_TLB_DEFER_H

#include <linux/jump_label.h>
#include <linux/types.h>

struct inode;
struct mm_struct;

/* Reasons for a forced flush of an address space */
enum tlb_defer_site {
	TLB_DEFER_SITE_UNMAP,	/* A1: entries are removed or changed */
	TLB_DEFER_SITE_WRITE,	/* A2, A4, A5: a write follows */
};

#ifdef CONFIG_TLB_DEFER

DECLARE_STATIC_KEY_FALSE(tlb_defer_key);

void __tlb_defer_flush_mm(struct mm_struct *mm, enum tlb_defer_site site);
void __tlb_defer_write_access(struct inode *inode);
void __tlb_defer_fork_begin(struct mm_struct *mm);
void __tlb_defer_fork_flush(struct mm_struct *mm, bool begun);
void __tlb_defer_tick(void);
void __tlb_defer_drain(void);
void __tlb_defer_compacted(void);
void tlb_defer_init_mm(struct mm_struct *mm);

/**
 * tlb_defer_on() - Check whether flushes may be deferred
 *
 * Return: true from the time a mode is set until everything is flushed after "off".
 */
static inline bool tlb_defer_on(void)
{
	return static_branch_unlikely(&tlb_defer_key);
}

/**
 * tlb_defer_flush_mm() - Flush deferred entries before entries of an address space change
 * (A)
 * @mm: address space; the caller holds the page table lock of the entry
 * @site: the change
 */
static inline void tlb_defer_flush_mm(struct mm_struct *mm,
				      enum tlb_defer_site site)
{
	if (tlb_defer_on())
		__tlb_defer_flush_mm(mm, site);
}

/**
 * tlb_defer_write_access() - Flush deferred entries before a write to a file (B2)
 * @inode: inode of the file
 * @error: return value of get_write_access(), which has just counted the writer
 *
 * May sleep.
 *
 * Return: @error.
 */
static inline int tlb_defer_write_access(struct inode *inode, int error)
{
	if (tlb_defer_on() && !error)
		__tlb_defer_write_access(inode);
	return error;
}

/**
 * tlb_defer_tick() - Flush this CPU if it is behind; in its timer interrupt
 */
static inline void tlb_defer_tick(void)
{
	if (tlb_defer_on())
		__tlb_defer_tick();
}

/**
 * tlb_defer_drain() - Free all deferred frames
 * @may_sleep: the caller can wait; if false, nothing is done
 */
static inline void tlb_defer_drain(bool may_sleep)
{
	if (tlb_defer_on() && may_sleep)
		__tlb_defer_drain();
}

/**
 * tlb_defer_compacted() - Free all deferred frames, so that they merge with their
 * neighbours
 *
 * May sleep. Unlike tlb_defer_drain(), this is no sign of memory pressure.
 */
static inline void tlb_defer_compacted(void)
{
	if (tlb_defer_on())
		__tlb_defer_compacted();
}

#else /* !CONFIG_TLB_DEFER */

/* Macros: even an empty inline can change the code that gcc makes of the caller. */
#define tlb_defer_on()				false
#define tlb_defer_flush_mm(mm, site)		do { } while (0)
#define tlb_defer_write_access(inode, error)	(error)
#define tlb_defer_tick()			do { } while (0)
#define tlb_defer_drain(may_sleep)		do { } while (0)
#define tlb_defer_compacted()			do { } while (0)
#define tlb_defer_init_mm(mm)			do { } while (0)

#endif /* CONFIG_TLB_DEFER */
#endif /* _LINUX_TLB_DEFER_H */
