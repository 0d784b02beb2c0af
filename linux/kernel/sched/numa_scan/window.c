// SPDX-License-Identifier: GPL-2.0
/*
 * NUMA scanning: the ranges of a VMA to scan.
 *
 * Every hint fault sets the bit of its slot. A walk covers the slots whose bits were set
 * in the last sequence or this one, and one slot more on both sides. It covers the whole
 * VMA in the first two sequences and in every eighth: a page that is not scanned does not
 * fault, so newly used slots would never be found otherwise. A bitmap is used, not a
 * lowest and highest address: one distant access adds its own slot only.
 *
 * The bits belong to the VMA as it was. They are cleared when it has grown, shrunk, been
 * split or merged.
 *
 * Bits expire by sequences, not by time: with long sequences, a clock would clear slots
 * before the walk reaches them.
 *
 * Locking: all data are hints. Faults hold the lock of the VMA or mmap_lock for read,
 * walks mmap_lock. Bits are set atomically. Only walks write the other fields; two walks
 * at once can lose bits, which the next full walk finds again.
 */
#include <linux/mm.h>
#include <linux/sched.h>

#include "numa_scan.h"
#include "window.h"

/* State of a VMA that has not changed; otherwise NULL. */
static struct vma_numab_state *numa_window_of(struct vm_area_struct *vma)
{
	struct vma_numab_state *st = READ_ONCE(vma->numab_state);

	if (!st || READ_ONCE(st->window_start) != vma->vm_start ||
	    READ_ONCE(st->window_end) != vma->vm_end)
		return NULL;
	return st;
}

static unsigned long numa_window_slot(struct vm_area_struct *vma)
{
	return numa_window_slot_bytes(vma->vm_end - vma->vm_start, PAGE_SIZE);
}

/**
 * __numa_scan_touch() - Note that a hint fault has accessed a slot
 * @vma: the VMA
 * @addr: address of the fault
 *
 * Context: a fault, with the VMA locked.
 */
void __numa_scan_touch(struct vm_area_struct *vma, unsigned long addr)
{
	struct vma_numab_state *st = numa_window_of(vma);
	unsigned long nr;

	if (!st)
		return;
	nr = (addr - vma->vm_start) / numa_window_slot(vma);
	if (!test_bit(nr, &st->window_used[1]))
		set_bit(nr, &st->window_used[1]);
}

/* Get the slots to walk in this sequence; ~0 for all. */
static unsigned long numa_window_slots(struct numa_scan *scan,
				       struct vm_area_struct *vma)
{
	struct vma_numab_state *st = vma->numab_state;
	int seq = READ_ONCE(scan->mm->numa_scan_seq);
	unsigned int age;

	if (!numa_window_of(vma)) {
		st->window_used[0] = 0;
		st->window_used[1] = 0;
		st->window_first_seq = seq;
		st->window_seq = seq;
		WRITE_ONCE(st->window_start, vma->vm_start);
		WRITE_ONCE(st->window_end, vma->vm_end);
	}
	age = (unsigned int)seq - st->window_first_seq;
	if (st->window_seq != seq) {
		age = numa_window_age((unsigned int)st->window_seq -
				      st->window_first_seq, age);
		st->window_first_seq = (unsigned int)seq - age;
		st->window_seq = seq;
		st->window_used[0] = xchg(&st->window_used[1], 0);
	}
	if (numa_window_full(age))
		return ~0UL;
	return numa_window_mask(READ_ONCE(st->window_used[1]),
				st->window_used[0]);
}

/**
 * __numa_scan_next() - Skip slots without recent accesses
 * @scan: the scan pass
 * @vma: the VMA
 * @start: an address in it
 *
 * Return: the next address to scan; the end of @vma if there is none.
 */
unsigned long __numa_scan_next(struct numa_scan *scan,
			       struct vm_area_struct *vma, unsigned long start)
{
	unsigned long next;

	next = vma->vm_start + numa_window_next(numa_window_slots(scan, vma),
						numa_window_slot(vma),
						start - vma->vm_start,
						vma->vm_end - vma->vm_start);
	/* Do not split a huge page. */
	if (next != vma->vm_end)
		next = max(start, ALIGN_DOWN(next, PMD_SIZE));
	scan->nr_skipped += (next - start) >> PAGE_SHIFT;
	return next;
}

/**
 * __numa_scan_run_end() - Get the end of adjacent slots to walk
 * @scan: the scan pass
 * @vma: the VMA
 * @start: an address in a slot to walk, or the end of @vma
 * @end: upper limit
 *
 * Return: an address greater than @start, at most @end.
 */
unsigned long __numa_scan_run_end(struct numa_scan *scan,
				  struct vm_area_struct *vma,
				  unsigned long start, unsigned long end)
{
	unsigned long run;

	if (start == end)
		return end;
	run = vma->vm_start + numa_window_run_end(numa_window_slots(scan, vma),
						  numa_window_slot(vma),
						  start - vma->vm_start,
						  vma->vm_end - vma->vm_start);
	/*
	 * Up to a whole page table: because of huge pages, and to make progress even if
	 * bits were cleared in between.
	 */
	return min(end, ALIGN(max(run, start + 1), PMD_SIZE));
}
