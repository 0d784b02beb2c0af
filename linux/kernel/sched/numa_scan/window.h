/* SPDX-License-Identifier: GPL-2.0 */
/*
 * NUMA scanning: the arithmetic of windows. A VMA is divided into as many slots
 * as a word has bits; no locks, no clock, no structures.
 */
#ifndef _KERNEL_SCHED_NUMA_SCAN_WINDOW_H
#define _KERNEL_SCHED_NUMA_SCAN_WINDOW_H

#include <linux/align.h>
#include <linux/bitops.h>
#include <linux/math.h>
#include <linux/minmax.h>

/* Every so many sequences a VMA is walked as a whole, and the first ones too. */
#define NUMA_WINDOW_FULL_EVERY	8
#define NUMA_WINDOW_FULL_FIRST	2

/**
 * numa_window_slot_bytes() - the size of a slot
 * @bytes: that of the VMA, whole pages
 * @page: of a page
 *
 * Return: whole pages, so that BITS_PER_LONG of them cover the VMA.
 */
static inline unsigned long numa_window_slot_bytes(unsigned long bytes,
						   unsigned long page)
{
	return ALIGN(DIV_ROUND_UP(bytes, BITS_PER_LONG), page);
}

/**
 * numa_window_full() - is this a sequence that looks everywhere?
 * @age: sequences since the windows were begun
 *
 * A page that is not scanned does not fault, so windows alone would only shrink.
 *
 * Return: true if it is.
 */
static inline bool numa_window_full(unsigned int age)
{
	return age < NUMA_WINDOW_FULL_FIRST || !(age % NUMA_WINDOW_FULL_EVERY);
}

/**
 * numa_window_age() - make up for a sequence that was missed
 * @before: the age when the VMA was walked last
 * @age: its age now
 *
 * NUMA balancing leaves a VMA out of sequences in which nobody uses it. If it was
 * left out of one that looks everywhere, the next one is it.
 *
 * Return: the age to go by.
 */
static inline unsigned int numa_window_age(unsigned int before,
					   unsigned int age)
{
	unsigned int full = age - age % NUMA_WINDOW_FULL_EVERY;

	return full > before ? full : age;
}

/**
 * numa_window_mask() - which slots to walk
 * @now: slots with hint faults in this sequence so far
 * @before: in the last one
 *
 * Return: these and their neighbours.
 */
static inline unsigned long numa_window_mask(unsigned long now,
					     unsigned long before)
{
	unsigned long used = now | before;

	return used | used << 1 | used >> 1;
}

/**
 * numa_window_next() - the next place to walk
 * @mask: slots to walk
 * @slot: bytes of a slot
 * @offset: from here on, bytes
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
 * numa_window_run_end() - how far one can walk from there
 * @mask: slots to walk
 * @slot: bytes of a slot
 * @offset: in a slot to walk, bytes
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
