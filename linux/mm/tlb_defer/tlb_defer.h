/* SPDX-License-Identifier: GPL-2.0 */
/* Deferred TLB flush of migrated pages: what the files here share. */
#ifndef _MM_TLB_DEFER_H
#define _MM_TLB_DEFER_H

#include <linux/cpumask.h>
#include <linux/jump_label.h>
#include <linux/kobject.h>
#include <linux/mm_types.h>
#include <linux/mm_types_task.h>
#include <linux/tlb_defer_migrate.h>
#include <linux/vm_event_item.h>

/* What /sys/kernel/mm/tlb_defer/mode says */
enum tlb_defer_mode {
	TLB_DEFER_OFF,
	TLB_DEFER_QUARANTINE,
};

/* Why all that is deferred is flushed by an interrupt to other CPUs */
enum tlb_defer_why {
	TLB_DEFER_LATE,		/* a CPU did not get to it by itself */
	TLB_DEFER_CAP,		/* too much memory waits for it */
	TLB_DEFER_OPEN,		/* B2: a file is opened for writing */
	TLB_DEFER_PRESSURE,	/* somebody needs the frames */
	TLB_DEFER_COMPACT,	/* compaction has emptied a block of memory */
	TLB_DEFER_STOP,		/* it is switched off */
};

/**
 * struct tlb_defer_conf - what can be tuned
 * @mode: an enum tlb_defer_mode
 * @limit_ticks: how long a translation may stay before CPUs are interrupted
 * @held_limit_bp: frames that may wait, in 1/10000 of their node's memory
 * @backoff_ms: how long an address space that is written to is left alone
 */
struct tlb_defer_conf {
	unsigned int mode;
	unsigned int limit_ticks;
	unsigned int held_limit_bp;
	unsigned int backoff_ms;
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

/* How often it was switched on */
extern u32 tlb_defer_switched_on;

/**
 * tlb_defer_forks_known() - does every fork of an address space say so? (D7)
 * @mm: it; the caller holds the page table lock of the entry that it asks for
 *
 * Return: false if there may be one that does not; only for a moment, and only
 * for an address space that is older than the mode.
 */
static inline bool tlb_defer_forks_known(struct mm_struct *mm)
{
	/* Pairs with start(): the hooks were on before */
	u32 now = smp_load_acquire(&tlb_defer_switched_on);

	return likely(READ_ONCE(mm->tlb_defer.switched_on) == now) ||
	       __tlb_defer_forks_known(mm);
}

/* ---- batch.c ---- */

/* Address spaces that a batch collects translations of before it has to seal */
#define TLB_DEFER_MMS	8

/**
 * struct tlb_defer_collected - what a migration has cleared and not flushed
 * @cpus: CPUs that may hold translations of the batch in hand
 * @mms: address spaces of those that are not sealed yet, each with a reference of
 *	mmgrab()
 * @epochs: mm->tlb_defer.epoch of each when the batch noted itself there
 * @nr_mms: how many
 * @waits_for: generation that accepted folios have to be kept for, or 0
 * @kept: folios that were moved since, each with a reference, all of one node
 * @nid: that node
 * @nr_folios: how many are in @kept
 * @nr_pages: their pages
 *
 * Allocated with the first entry whose flush can wait; as long as there is one,
 * deferring is not switched off.
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

/* ---- x86.c ---- */

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
