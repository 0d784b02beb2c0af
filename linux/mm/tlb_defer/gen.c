// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flushes: generations.
 *
 * A translation whose flush is deferred is sealed in the open generation. Once
 * that is closed, every CPU it names has to flush, or to show that it needs
 * not; then the generation is done. A CPU that has flushed for generation g has
 * done so for all before it, so they are done in order, and a flush of one
 * cleans everything sealed before.
 *
 * Pure arithmetic: no locks, no clock, no struct page. The engine calls it under
 * its lock; tests/gen_kunit.c tries all orders of events.
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
 * tlb_defer_ring_init() - Start with nothing under way
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
 * tlb_defer_ring_seal() - Add a translation to the open generation
 * @ring: ring
 * @cpus: CPUs that may hold it, or NULL if they are there already
 *
 * Return: the generation after which it is gone.
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
 * tlb_defer_ring_close() - Add no more to the open generation, open another
 * @ring: ring
 * @now: ticks
 *
 * Return: false if nothing was sealed in it, or too many are under way.
 */
bool tlb_defer_ring_close(struct tlb_defer_ring *ring, unsigned long now)
{
	struct tlb_defer_slot *slot = slot_of(ring, ring->open);

	if (!slot->used || ring->open - ring->done >= TLB_DEFER_GENS)
		return false;
	slot->closed = now;
	open_slot_at(ring, ring->open + 1);
	/* A CPU that reads it has seen all that came before the seals. */
	smp_store_release(&ring->open, ring->open + 1);
	return true;
}

/**
 * tlb_defer_ring_busy() - Is there anything that is not done?
 * @ring: ring
 *
 * Return: true if a generation is closed and not done, or has translations.
 */
bool tlb_defer_ring_busy(const struct tlb_defer_ring *ring)
{
	return ring->open - ring->done > 1 ||
	       ring->slot[ring->open & (TLB_DEFER_GENS - 1)].used;
}

/**
 * tlb_defer_ring_retire() - Take note of what has become clean
 * @ring: ring
 * @clean: tells of one CPU and one closed generation
 * @data: for @clean
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
		/* Whoever reads it may do what the flushes were for. */
		smp_store_release(&ring->done, gen);
	}
}

/**
 * tlb_defer_ring_overdue() - Which generations take too long?
 * @ring: ring
 * @now: ticks
 * @ticks: how long one may take from when it was closed: before that no CPU flushes
 *	for it by itself, however long whoever closes it was kept from that
 *
 * Return: the newest closed one of them, or 0.
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
 * tlb_defer_ring_cpus() - Whom does a flush have to reach?
 * @ring: ring
 * @gen: closed generation that is to be done
 * @cpus: written: CPUs of it and of those before that are not done
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
 * tlb_defer_ring_finish() - A flush has reached them all
 * @ring: ring
 * @gen: generation that tlb_defer_ring_cpus() was asked about
 */
void tlb_defer_ring_finish(struct tlb_defer_ring *ring, u64 gen)
{
	if (gen <= ring->done)
		return;
	/* As in tlb_defer_ring_retire() */
	smp_store_release(&ring->done, gen);
}
