/* SPDX-License-Identifier: GPL-2.0 */
/* Deferred TLB flushes: generations, without locks, clocks and struct page. */
#ifndef _MM_TLB_DEFER_GEN_H
#define _MM_TLB_DEFER_GEN_H

#include <linux/bitmap.h>
#include <linux/cpumask.h>
#include <linux/threads.h>
#include <linux/types.h>

/* Generations that can be under way at a time; a power of two */
#define TLB_DEFER_GENS	8

/**
 * struct tlb_defer_slot - a generation that is open, or closed and not done
 * @closed: when it was closed, in ticks
 * @used: something was sealed in it
 * @cpus: CPUs that may hold one of its translations
 */
struct tlb_defer_slot {
	unsigned long closed;
	bool used;
	DECLARE_BITMAP(cpus, NR_CPUS);
};

/**
 * struct tlb_defer_ring - all generations
 * @open: the generation that translations are sealed in
 * @done: no CPU uses a translation of this one or an earlier one
 * @slot: of generations @done + 1 to @open, by generation modulo size
 *
 * Generations are 64 bits wide and never wrap. Those between @done and @open
 * are closed: nothing is added to them any more.
 */
struct tlb_defer_ring {
	u64 open;
	u64 done;
	struct tlb_defer_slot slot[TLB_DEFER_GENS];
};

/* Has @cpu flushed all that was sealed in @gen and before? */
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
