/* SPDX-License-Identifier: GPL-2.0 */
/*
 * NUMA scanning: arithmetic of windows. A VMA is divided into slots, one for each bit of
 * a word. No locks, no clock, no structures.
 */
#ifndef _KERNEL_SCHED_NUMA_SCAN_WINDOW_H
#define _KERNEL_SCHED_NUMA_SCAN_WINDOW_H

#include <linux/align.h>
#include <linux/bitops.h>
#include <linux/math.h>
#include <linux/minmax.h>

/* A VMA is walked as a whole in the first sequences, and in every eighth one. */
#define NUMA_WINDOW_FULL_EVERY	8
#define NUMA_WINDOW_FULL_FIRST	2

/**
 * numa_window_slot_bytes() - Get the size of a slot
 * @bytes: size of the VMA, whole pages
 * @page: size of a page
 *
 * Return: a multiple of @page, so that BITS_PER_LONG slots cover the VMA.
 */
static inline unsigned long numa_window_slot_bytes(unsigned long bytes,
						   unsigned long page)
{
	return ALIGN(DIV_ROUND_UP(bytes, BITS_PER_LONG), page);
}

/**
 * numa_window_full() - Check for a sequence that walks the whole VMA
 * @age: sequences since the windows were started
 *
 * A page that is not scanned does not fault, so windows alone could only shrink.
 *
 * Return: true if it does.
 */
static inline bool numa_window_full(unsigned int age)
{
	return age < NUMA_WINDOW_FULL_FIRST || !(age % NUMA_WINDOW_FULL_EVERY);
}

/**
 * numa_window_age() - Make up for a missed full sequence
 * @before: age at the last walk of the VMA
 * @age: age now
 *
 * NUMA balancing skips a VMA in sequences in which no thread uses it. If a full sequence
 * was skipped, the next one is full.
 *
 * Return: the age to use.
 */
static inline unsigned int numa_window_age(unsigned int before,
					   unsigned int age)
{
	unsigned int full = age - age % NUMA_WINDOW_FULL_EVERY;

	return full > before ? full : age;
}

/**
 * numa_window_mask() - Get the slots to walk
 * @now: slots with hint faults in this sequence so far
 * @before: slots with hint faults in the last sequence
 *
 * Return: these slots and their neighbours.
 */
static inline unsigned long numa_window_mask(unsigned long now,
					     unsigned long before)
{
	unsigned long used = now | before;

	return used | used << 1 | used >> 1;
}

/**
 * numa_window_next() - Get the next offset to walk
 * @mask: slots to walk
 * @slot: size of a slot in bytes
 * @offset: first offset to consider, in bytes
 * @bytes: size of the VMA
 *
 * Return: @offset, or the start of a later slot, or @bytes if there is none.
 */
static inline unsigned long numa_window_next(unsigned long mask,
					     unsigned long slot,
					     unsigned long offset,
					     unsigned long bytes)
{
	unsigned long nr = find_next_bit(&mask, BITS_PER_LONG, offset / slot);

	return min(max(nr * slot, offset), bytes);
}

/**
 * numa_window_run_end() - Get the end of adjacent slots to walk
 * @mask: slots to walk
 * @slot: size of a slot in bytes
 * @offset: offset in a slot to walk, in bytes
 * @bytes: size of the VMA
 *
 * Return: the start of the next slot not to walk, or @bytes.
 */
static inline unsigned long numa_window_run_end(unsigned long mask,
						unsigned long slot,
						unsigned long offset,
						unsigned long bytes)
{
	unsigned long nr = find_next_zero_bit(&mask, BITS_PER_LONG,
					      offset / slot);

	return min(nr * slot, bytes);
}

#endif /* _KERNEL_SCHED_NUMA_SCAN_WINDOW_H */
