// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic NUMA migration: address spaces that have marked pages.
 *
 * While there is one, hint faults and numa_maps check for marks. Marks are lost in many
 * ways, so an address space counts from before its first mark until its page tables are
 * gone. MMF_NUMA_FOLLOW in mm->flags is set while it counts.
 *
 * The last one to go switches the key off a second later: processes that come one after
 * the other, and each mark pages, do not have the code of hint faults patched each time.
 *
 * Locking: none; the bit is set and cleared atomically. To count may sleep.
 */
#include <linux/bitops.h>
#include <linux/jiffies.h>
#include <linux/mm_types.h>
#include <linux/sched.h>

#include "follow.h"

DEFINE_STATIC_KEY_DEFERRED_FALSE(numa_follow_marks, HZ);

static_assert(MMF_NUMA_FOLLOW < BITS_PER_LONG);

/**
 * follow_marks_begin() - Have the current address space count, before it gets marks
 *
 * Context: may sleep.
 */
void follow_marks_begin(void)
{
	struct mm_struct *mm = current->mm;

	if (test_bit(MMF_NUMA_FOLLOW, &mm->flags))
		return;
	/* A thread that finds the bit set marks pages at once: the key comes first. */
	static_branch_deferred_inc(&numa_follow_marks);
	if (test_and_set_bit(MMF_NUMA_FOLLOW, &mm->flags))
		static_branch_slow_dec_deferred(&numa_follow_marks);
}

/**
 * __numa_follow_dup_mm() - Have the copy of a counted address space count
 * @mm: the copy, which nobody uses yet
 *
 * Context: may sleep.
 */
void __numa_follow_dup_mm(struct mm_struct *mm)
{
	static_branch_deferred_inc(&numa_follow_marks);
	set_bit(MMF_NUMA_FOLLOW, &mm->flags);
}

/**
 * __numa_follow_exit_mm() - Have a counted address space count no more
 * @mm: the mm; its page tables are gone
 */
void __numa_follow_exit_mm(struct mm_struct *mm)
{
	clear_bit(MMF_NUMA_FOLLOW, &mm->flags);
	static_branch_slow_dec_deferred(&numa_follow_marks);
}
