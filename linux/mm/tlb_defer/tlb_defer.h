/* SPDX-License-Identifier: GPL-2.0 */
/* Deferred TLB flush of migrated pages: what the files here share. */
#ifndef _MM_TLB_DEFER_H
#define _MM_TLB_DEFER_H

#include <linux/cpumask.h>
#include <linux/kobject.h>
#include <linux/mm_types.h>
#include <linux/tlb_defer.h>

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
u64 tlb_defer_seal(struct mm_struct *mm, const struct cpumask *cpus);
void tlb_defer_hold(struct folio *src);
bool tlb_defer_mm_done(struct mm_struct *mm);
u32 tlb_defer_mm_seq(struct mm_struct *mm);
void tlb_defer_mm_flushed(struct mm_struct *mm, u32 seq);
void tlb_defer_flush_all(enum tlb_defer_why why);
bool tlb_defer_room(int nid, long pages);
bool tlb_defer_paused(void);
int tlb_defer_set_mode(enum tlb_defer_mode mode);
bool tlb_defer_enter(void);
void tlb_defer_leave(void);
bool tlb_defer_forks_known(struct mm_struct *mm);
long tlb_defer_held_pages(void);
unsigned long tlb_defer_longest_us(void);
void tlb_defer_longest_reset(void);

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
