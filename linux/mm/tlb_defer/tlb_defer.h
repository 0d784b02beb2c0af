/* SPDX-License-Identifier: GPL-2.0 */
/* Deferred TLB flush of migrated pages: internal interfaces of mm/tlb_defer. */
#ifndef _MM_TLB_DEFER_H
#define _MM_TLB_DEFER_H

#include <linux/cpumask.h>
#include <linux/jump_label.h>
#include <linux/kobject.h>
#include <linux/mm_types.h>
#include <linux/mm_types_task.h>
#include <linux/tlb_defer_migrate.h>
#include <linux/vm_event_item.h>

/* Values of /sys/kernel/mm/tlb_defer/mode */
enum tlb_defer_mode {
	TLB_DEFER_OFF,
	TLB_DEFER_QUARANTINE,
};

/* Reasons for a flush of all deferred entries by interrupts to other CPUs */
enum tlb_defer_why {
	TLB_DEFER_LATE,		/* a CPU did not flush in time */
	TLB_DEFER_CAP,		/* the deferred frames reach their limit */
	TLB_DEFER_OPEN,		/* B2: a file is opened for writing */
	TLB_DEFER_PRESSURE,	/* an allocation needs the frames */
	TLB_DEFER_COMPACT,	/* compaction has emptied a block of memory */
	TLB_DEFER_STOP,		/* the mode is switched off */
};

/**
 * struct tlb_defer_conf - tunables
 * @mode: an enum tlb_defer_mode
 * @limit_ticks: ticks after which CPUs that have not flushed are interrupted
 * @held_limit_bp: limit of deferred frames, in 1/10000 of the memory of their node
 * @backoff_ms: time without deferral for an address space after too many forced
 *	flushes, and without write-protection after too many stores
 * @protect: migrated pages stay write-protected
 */
struct tlb_defer_conf {
	unsigned int mode;
	unsigned int limit_ticks;
	unsigned int held_limit_bp;
	unsigned int backoff_ms;
	unsigned int protect;
};

extern struct tlb_defer_conf tlb_defer_conf;

/* ---- engine.c ---- */

u64 tlb_defer_done(void);
u32 tlb_defer_open(struct mm_struct *mm, bool again);
u64 tlb_defer_seal(struct mm_struct *const *mms, unsigned int nr,
		   const struct cpumask *cpus);
void tlb_defer_close(struct mm_struct *const *mms, unsigned int nr);
void tlb_defer_hold(struct list_head *folios, int nid, long pages, u64 gen);
bool tlb_defer_mm_done(struct mm_struct *mm);
u32 tlb_defer_mm_flush(struct mm_struct *mm);
void tlb_defer_mm_flushed(struct mm_struct *mm, u32 epoch);
void tlb_defer_mm_stored(struct mm_struct *mm);
void tlb_defer_flush_all(enum tlb_defer_why why);
void tlb_defer_flush_unsealed(enum tlb_defer_why why);
long tlb_defer_room(int nid);
void tlb_defer_make_room(int nid);
bool tlb_defer_paused(void);
bool tlb_defer_short(int nid);
long tlb_defer_held_pages(void);
bool tlb_defer_work_ready(void);
void tlb_defer_work_end(void);

/* ---- mode.c ---- */

int tlb_defer_set_mode(enum tlb_defer_mode mode);
bool tlb_defer_batches(void);
bool tlb_defer_enter(void);
void tlb_defer_leave(void);
bool __tlb_defer_forks_known(struct mm_struct *mm);

/* Number of times that the mode was switched on */
extern u32 tlb_defer_switched_on;

/**
 * tlb_defer_forks_known() - Check that the hooks cover every fork of an address space
 * (D7)
 * @mm: the address space; the caller holds the page table lock of the entry in
 *	question
 *
 * Return: false if a fork may have started before the hooks were enabled. This is
 * temporary, and only possible for an address space that is older than the mode.
 */
static inline bool tlb_defer_forks_known(struct mm_struct *mm)
{
	/* Pairs with start(): the hooks are enabled before */
	u32 now = smp_load_acquire(&tlb_defer_switched_on);

	return likely(READ_ONCE(mm->tlb_defer.switched_on) == now) ||
	       __tlb_defer_forks_known(mm);
}

/* ---- batch.c ---- */

/* Most address spaces in a batch before it has to commit */
#define TLB_DEFER_MMS	8

/**
 * struct tlb_defer_collected - entries cleared by a migration and not flushed
 * @cpus: CPUs that may hold translations of the current batch
 * @mms: address spaces of the translations not committed yet, each with a
 *	reference of mmgrab()
 * @epochs: mm->tlb_defer.epoch of each when the batch registered itself there
 * @nr_mms: number of entries of @mms
 * @waits_for: generation until which deferred folios are kept, or 0
 * @kept: folios moved since, each with a reference, all of one node
 * @nid: that node
 * @nr_folios: number of folios in @kept
 * @nr_pages: number of their pages
 *
 * Allocated with the first entry whose flush can be deferred. While one exists, deferral
 * is not switched off.
 */
struct tlb_defer_collected {
	struct arch_tlbflush_unmap_batch cpus;
	struct mm_struct *mms[TLB_DEFER_MMS];
	u32 epochs[TLB_DEFER_MMS];
	unsigned int nr_mms;
	u64 waits_for;
	struct list_head kept;
	int nid;
	unsigned int nr_folios;
	long nr_pages;
};

bool tlb_defer_ready(struct tlb_defer_batch *batch);
void tlb_defer_fold(struct tlb_defer_batch *batch);
bool tlb_defer_nobody_else(const struct cpumask *cpus);
bool tlb_defer_put_aside(struct tlb_defer_batch *batch);

/* ---- judge.c ---- */

bool tlb_defer_writer_came(struct tlb_defer_batch *batch,
			   struct address_space *next);
unsigned int tlb_defer_refusal(enum vm_event_item end);

/* ---- protect.c ---- */

/*
 * Stores that a batch without a flush pays for: an interrupt of one CPU takes at least as
 * long as so many write faults.
 */
#define TLB_DEFER_STORES_PAID	4
/* Stores that are not paid for yet, until an address space stops */
#define TLB_DEFER_STORES_OWED	512
/* From this number on, the counts of older batches and stores are halved. */
#define TLB_DEFER_SAVED_FORGET	1024
/* Longest time without write-protection: backoff_ms times 2 to the power of this */
#define TLB_DEFER_PROTECT_SHIFT	6

bool tlb_defer_may_protect(struct mm_struct *mm);
bool tlb_defer_hint_protects(struct vm_area_struct *vma);
void tlb_defer_protect_saved(struct tlb_defer_protect *protect);
bool tlb_defer_protect_fails(const struct tlb_defer_protect *protect);
void tlb_defer_protect_stop(struct tlb_defer_protect *protect,
			    unsigned long now, unsigned int ms);

/* ---- hint.c ---- */

void tlb_defer_hints_open(struct tlb_defer_hints *hints);
void tlb_defer_hints_close(struct tlb_defer_hints *hints, u64 gen);
void tlb_defer_hints_flushed(struct tlb_defer_hints *hints, u64 seen);
void tlb_defer_hints_flush(struct mm_struct *mm);

/* ---- x86.c ---- */

void tlb_defer_arch_changed(struct mm_struct *mm);
bool tlb_defer_arch_catch_up(void);
bool tlb_defer_arch_idle(int cpu);

/* ---- debug.c ---- */

#ifdef CONFIG_TLB_DEFER_DEBUG
DECLARE_STATIC_KEY_FALSE(tlb_defer_race_key);
extern bool tlb_defer_forever_set;
void __tlb_defer_race_window(void);
void __tlb_defer_fork_window(void);
void __tlb_defer_judged(void);

static inline void tlb_defer_race_window(void)
{
	if (static_branch_unlikely(&tlb_defer_race_key))
		__tlb_defer_race_window();
}

static inline void tlb_defer_fork_window(void)
{
	if (static_branch_unlikely(&tlb_defer_race_key))
		__tlb_defer_fork_window();
}

static inline void tlb_defer_judged(void)
{
	if (static_branch_unlikely(&tlb_defer_race_key))
		__tlb_defer_judged();
}

static inline bool tlb_defer_forever(void)
{
	return unlikely(READ_ONCE(tlb_defer_forever_set));
}
#else
static inline void tlb_defer_race_window(void) {}
static inline void tlb_defer_fork_window(void) {}
static inline void tlb_defer_judged(void) {}

static inline bool tlb_defer_forever(void)
{
	return false;
}
#endif

#endif /* _MM_TLB_DEFER_H */
