/* SPDX-License-Identifier: GPL-2.0 */
/* Deferred TLB flushes: generations, without locks, clocks and struct page. */
#ifndef _MM_TLB_DEFER_GEN_H
#define _MM_TLB_DEFER_GEN_H

#include <linux/bitmap.h>
#include <linux/cpumask.h>
#include <linux/threads.h>
#include <linux/types.h>

/* Most generations that are open or closed and not done; a power of two */
#define TLB_DEFER_GENS	8

/**
 * struct tlb_defer_slot - generation that is open, or closed and not done
 * @closed: time when it was closed, in ticks
 * @used: a translation was committed to it
 * @cpus: CPUs that may hold one of its translations
 */
struct tlb_defer_slot {
	unsigned long closed;
	bool used;
	DECLARE_BITMAP(cpus, NR_CPUS);
};

/**
 * struct tlb_defer_ring - all generations
 * @open: generation to which translations are committed
 * @done: no CPU uses a translation of this generation or an earlier one
 * @slot: generations @done + 1 to @open, indexed by generation modulo size
 *
 * Generations are 64 bits wide and never wrap. The generations between @done and @open
 * are closed: no translation is added to them.
 */
struct tlb_defer_ring {
	u64 open;
	u64 done;
	struct tlb_defer_slot slot[TLB_DEFER_GENS];
};

/* Check whether @cpu has flushed everything committed to @gen and before. */
typedef bool (*tlb_defer_clean_fn)(int cpu, u64 gen, void *data);

void tlb_defer_ring_init(struct tlb_defer_ring *ring, u64 first);
u64 tlb_defer_ring_seal(struct tlb_defer_ring *ring, const unsigned long *cpus);
bool tlb_defer_ring_close(struct tlb_defer_ring *ring, unsigned long now);
bool tlb_defer_ring_busy(const struct tlb_defer_ring *ring);
void tlb_defer_ring_retire(struct tlb_defer_ring *ring,
			   tlb_defer_clean_fn clean, void *data);
u64 tlb_defer_ring_overdue(const struct tlb_defer_ring *ring, unsigned long now,
			   unsigned long ticks);
void tlb_defer_ring_cpus(const struct tlb_defer_ring *ring, u64 gen,
			 unsigned long *cpus);
void tlb_defer_ring_finish(struct tlb_defer_ring *ring, u64 gen);

#endif /* _MM_TLB_DEFER_GEN_H */
