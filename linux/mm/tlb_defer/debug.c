// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flushes: rare events made common, for tests.
 *
 * In /sys/kernel/debug/tlb_defer: forever lets no generation pass by itself, so
 * that stale translations live until somebody needs them gone. race_us makes the
 * time that long between the first look at a folio, and for writers of its file,
 * and clearing its entries, again between that and the verdict, and between the last
 * verdict of a batch and its seal; race_windows counts the times. A fork waits as
 * well, before its flush, until somebody has looked at an entry: what is migrated
 * by then met D7.
 */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/init.h>
#include <linux/wait.h>

#include "tlb_defer.h"

bool tlb_defer_forever_set;
static u32 race_us;
static atomic_t race_windows = ATOMIC_INIT(0);

/**
 * tlb_defer_race_window() - Give others time to come between (A1, B2, B3, D1)
 */
void tlb_defer_race_window(void)
{
	u32 us = READ_ONCE(race_us);

	if (!us)
		return;
	atomic_inc(&race_windows);
	usleep_range(us, us + 100);
}

/* Entries that were looked at, and who waits for the next one */
static atomic_t judged = ATOMIC_INIT(0);
static DECLARE_WAIT_QUEUE_HEAD(judged_wait);

/**
 * tlb_defer_judged() - An entry was looked at
 *
 * Under its page table lock.
 */
void tlb_defer_judged(void)
{
	atomic_inc(&judged);
	if (READ_ONCE(race_us))
		wake_up(&judged_wait);
}

/**
 * tlb_defer_fork_window() - Let a migration come between entries and flush (D7)
 *
 * It may have been there before, or not come at all: ten times as long as who
 * migrates waits, no longer.
 */
void tlb_defer_fork_window(void)
{
	u32 us = READ_ONCE(race_us);
	int before = atomic_read(&judged);

	if (us)
		wait_event_timeout(judged_wait, atomic_read(&judged) != before,
				   usecs_to_jiffies(10 * us));
}

static int __init tlb_defer_debug_init(void)
{
	struct dentry *dir = debugfs_create_dir("tlb_defer", NULL);

	debugfs_create_bool("forever", 0600, dir, &tlb_defer_forever_set);
	debugfs_create_u32("race_us", 0600, dir, &race_us);
	debugfs_create_atomic_t("race_windows", 0400, dir, &race_windows);
	return 0;
}
late_initcall(tlb_defer_debug_init);
