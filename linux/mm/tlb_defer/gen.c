// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flushes: generations.
 *
 * A translation whose flush is deferred is committed to the open generation ("sealed" in
 * identifiers). After the generation is closed, every CPU in its mask has to flush, or be
 * known to need no flush; then the generation is done. A CPU that has flushed for
 * generation g has flushed for all before it. So generations are done in order, and a
 * flush for one cleans everything committed before.
 *
 * Pure arithmetic: no locks, no clock, no struct page. engine.c calls it under its lock;
 * tests/gen_kunit.c tries all orders of events.
 */
#include <asm/barrier.h>

#include "gen.h"

static struct tlb_defer_slot *slot_of(struct tlb_defer_ring *ring, u64 gen)
{
	return &ring->slot[gen & (TLB_DEFER_GENS - 1)];
}

static void open_slot_at(struct tlb_defer_ring *ring, u64 gen)
{
	struct tlb_defer_slot *slot = slot_of(ring, gen);

	slot->used = false;
	bitmap_zero(slot->cpus, nr_cpu_ids);
}

/**
 * tlb_defer_ring_init() - Initialize a ring without pending generations
 * @ring: ring
 * @first: number of the first generation, at least 1
 */
void tlb_defer_ring_init(struct tlb_defer_ring *ring, u64 first)
{
	ring->open = first;
	ring->done = first - 1;
	open_slot_at(ring, first);
}

/**
 * tlb_defer_ring_seal() - Commit a translation to the open generation
 * @ring: ring
 * @cpus: CPUs that may hold it, or NULL if the mask has them already
 *
 * Return: the generation after which no CPU uses the translation.
 */
u64 tlb_defer_ring_seal(struct tlb_defer_ring *ring, const unsigned long *cpus)
{
	struct tlb_defer_slot *slot = slot_of(ring, ring->open);

	slot->used = true;
	if (cpus)
		bitmap_or(slot->cpus, slot->cpus, cpus, nr_cpu_ids);
	return ring->open;
}

/**
 * tlb_defer_ring_close() - Close the open generation, and open the next one
 * @ring: ring
 * @now: ticks
 *
 * Return: false if nothing was committed to it, or too many generations are pending.
 */
bool tlb_defer_ring_close(struct tlb_defer_ring *ring, unsigned long now)
{
	struct tlb_defer_slot *slot = slot_of(ring, ring->open);

	if (!slot->used || ring->open - ring->done >= TLB_DEFER_GENS)
		return false;
	slot->closed = now;
	open_slot_at(ring, ring->open + 1);
	/* A CPU that reads the new value observes everything before the commits. */
	smp_store_release(&ring->open, ring->open + 1);
	return true;
}

/**
 * tlb_defer_ring_busy() - Check for translations that are not done
 * @ring: ring
 *
 * Return: true if a generation is closed and not done, or the open one has translations.
 */
bool tlb_defer_ring_busy(const struct tlb_defer_ring *ring)
{
	return ring->open - ring->done > 1 ||
	       ring->slot[ring->open & (TLB_DEFER_GENS - 1)].used;
}

/**
 * tlb_defer_ring_retire() - Advance @done over all clean generations
 * @ring: ring
 * @clean: checks one CPU and one closed generation
 * @data: argument of @clean
 */
void tlb_defer_ring_retire(struct tlb_defer_ring *ring,
			   tlb_defer_clean_fn clean, void *data)
{
	while (ring->done + 1 < ring->open) {
		u64 gen = ring->done + 1;
		int cpu;

		for_each_set_bit(cpu, slot_of(ring, gen)->cpus, nr_cpu_ids)
			if (!clean(cpu, gen, data))
				return;
		/* A reader of @done may reuse what the flushes protected. */
		smp_store_release(&ring->done, gen);
	}
}

/**
 * tlb_defer_ring_overdue() - Get the newest overdue generation
 * @ring: ring
 * @now: ticks
 * @ticks: time allowed after the close. It does not start earlier, even if the
 *	close was late: no CPU flushes for an open generation by itself.
 *
 * Return: the newest closed generation that is overdue, or 0.
 */
u64 tlb_defer_ring_overdue(const struct tlb_defer_ring *ring, unsigned long now,
			   unsigned long ticks)
{
	u64 gen, found = 0;

	for (gen = ring->done + 1; gen < ring->open; gen++) {
		unsigned long closed =
			ring->slot[gen & (TLB_DEFER_GENS - 1)].closed;

		if (now - closed >= ticks)
			found = gen;
	}
	return found;
}

/**
 * tlb_defer_ring_cpus() - Get the CPUs that a flush has to reach
 * @ring: ring
 * @gen: closed generation
 * @cpus: written: CPUs of @gen and of all earlier generations that are not done
 */
void tlb_defer_ring_cpus(const struct tlb_defer_ring *ring, u64 gen,
			 unsigned long *cpus)
{
	u64 g;

	bitmap_zero(cpus, nr_cpu_ids);
	for (g = ring->done + 1; g <= gen; g++)
		bitmap_or(cpus, cpus,
			  ring->slot[g & (TLB_DEFER_GENS - 1)].cpus, nr_cpu_ids);
}

/**
 * tlb_defer_ring_finish() - Mark a generation done after a flush of all its CPUs
 * @ring: ring
 * @gen: generation passed to tlb_defer_ring_cpus()
 */
void tlb_defer_ring_finish(struct tlb_defer_ring *ring, u64 gen)
{
	if (gen <= ring->done)
		return;
	/* As in tlb_defer_ring_retire() */
	smp_store_release(&ring->done, gen);
}
