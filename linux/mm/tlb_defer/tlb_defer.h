/* SPDX-License-Identifier: GPL-2.0 */
/* Deferred TLB flush of migrated pages: what the files here share. */
#ifndef _MM_TLB_DEFER_H
#define _MM_TLB_DEFER_H

#include <linux/cpumask.h>
#include <linux/kobject.h>
#include <linux/mm_types.h>
#include <linux/mm_types_task.h>
#include <linux/tlb_defer.h>
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
void tlb_defer_hold(struct folio *src, u64 gen);
bool tlb_defer_mm_done(struct mm_struct *mm);
u32 tlb_defer_mm_flush(struct mm_struct *mm);
void tlb_defer_mm_flushed(struct mm_struct *mm, u32 epoch);
void tlb_defer_flush_all(enum tlb_defer_why why);
void tlb_defer_flush_unsealed(enum tlb_defer_why why);
bool tlb_defer_room(int nid, long pages);
bool tlb_defer_paused(void);
bool tlb_defer_short(int nid);
long tlb_defer_held_pages(void);
unsigned long tlb_defer_longest_us(void);
void tlb_defer_longest_reset(void);
bool tlb_defer_work_ready(void);
void tlb_defer_work_end(void);

/* ---- mode.c ---- */

int tlb_defer_set_mode(enum tlb_defer_mode mode);
bool tlb_defer_batches(void);
bool tlb_defer_enter(void);
void tlb_defer_leave(void);
bool tlb_defer_forks_known(struct mm_struct *mm);

/* ---- batch.c ---- */

/* Address spaces that a batch collects translations of before it has to seal */
#define TLB_DEFER_MMS	8

/**
 * struct tlb_defer_batch - a migration that may defer
 * @outer: migration of which this one is part (its allocations reclaim)
 * @from: what migrates after the batch in hand
 * @aside: what migrates at the end
 * @of_batch: what of the batch in hand will, unless there is too much of it
 * @nr_aside: how many folios @of_batch has
 * @may_set_aside: another folio of the batch in hand can be
 * @all_in: set nothing aside any more
 * @cpus: CPUs that may hold translations of the batch in hand
 * @mms: address spaces of those that are not sealed yet, each with a reference of
 *	mmgrab()
 * @epochs: mm->tlb_defer.epoch of each when the batch noted itself there
 * @nr_mms: how many
 * @folio: the folio in hand, or NULL
 * @put_aside: the folio in hand if it is to migrate later, or NULL
 * @entries: how many entries of it were deferred
 * @deferred: an entry of the batch was
 * @pages: accepted, and not kept yet
 * @nid: node that @is_short is about, or NUMA_NO_NODE
 * @is_short: frames of it are needed now
 * @settled: the next folio is the first of another batch
 * @waits_for: generation that accepted folios have to be kept for, or 0
 * @refused: what to count @folio as, or 0; a vm event is never 0
 */
struct tlb_defer_batch {
	struct tlb_defer_batch *outer;
	const struct list_head *from;
	struct list_head aside;
	struct list_head of_batch;
	unsigned int nr_aside;
	bool may_set_aside;
	bool all_in;
	struct arch_tlbflush_unmap_batch cpus;
	struct mm_struct *mms[TLB_DEFER_MMS];
	u32 epochs[TLB_DEFER_MMS];
	unsigned int nr_mms;
	struct folio *folio;
	struct folio *put_aside;
	unsigned int entries;
	bool deferred;
	long pages;
	int nid;
	bool is_short;
	bool settled;
	u64 waits_for;
	enum vm_event_item refused;
};

void tlb_defer_collect(struct tlb_defer_batch *batch, struct mm_struct *mm,
		       unsigned long address);
bool tlb_defer_put_aside(struct tlb_defer_batch *batch);

/* ---- x86.c ---- */

bool tlb_defer_arch_catch_up(void);
bool tlb_defer_arch_idle(int cpu);

/* ---- debug.c ---- */

#ifdef CONFIG_TLB_DEFER_DEBUG
extern bool tlb_defer_forever_set;
void tlb_defer_race_window(void);
void tlb_defer_fork_window(void);
void tlb_defer_judged(void);

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
