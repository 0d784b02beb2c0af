// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic NUMA migration: address spaces that have marked pages.
 *
 * While there is one, hint faults and numa_maps check for marks. Marks are lost in many
 * ways, so an address space counts from before its first mark until its page tables are
 * gone. MMF_NUMA_FOLLOW in mm->flags is set while it counts.
 *
 * When the last one is gone, the key is switched off a second later. So processes that
 * run one after the other, and each mark pages, do not patch the hint fault code each
 * time.
 *
 * Locking: none; the bit is set and cleared atomically. Changes of the count may sleep.
 */
#include <linux/bitops.h>
#include <linux/jiffies.h>
#include <linux/mm_types.h>
#include <linux/sched.h>

#include "follow.h"

DEFINE_STATIC_KEY_DEFERRED_FALSE(numa_follow_marks, HZ);

static_assert(MMF_NUMA_FOLLOW < BITS_PER_LONG);

/**
 * follow_marks_begin() - Count the current address space, before it gets marks
 *
 * Context: may sleep.
 */
void follow_marks_begin(void)
{
	struct mm_struct *mm = current->mm;

	if (test_bit(MMF_NUMA_FOLLOW, &mm->flags))
		return;
	/*
	 * A thread that finds the bit set marks pages at once, so the key is enabled
	 * first.
	 */
	static_branch_deferred_inc(&numa_follow_marks);
	if (test_and_set_bit(MMF_NUMA_FOLLOW, &mm->flags))
		static_branch_slow_dec_deferred(&numa_follow_marks);
}

/**
 * __numa_follow_dup_mm() - Count the copy of a counted address space
 * @mm: the copy, without users yet
 *
 * Context: may sleep.
 */
void __numa_follow_dup_mm(struct mm_struct *mm)
{
	static_branch_deferred_inc(&numa_follow_marks);
	set_bit(MMF_NUMA_FOLLOW, &mm->flags);
}

/**
 * __numa_follow_exit_mm() - Stop counting an address space
 * @mm: the mm; its page tables are gone
 */
void __numa_follow_exit_mm(struct mm_struct *mm)
{
	clear_bit(MMF_NUMA_FOLLOW, &mm->flags);
	static_branch_slow_dec_deferred(&numa_follow_marks);
}
