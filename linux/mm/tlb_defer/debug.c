// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flushes: rare events made common, for tests.
 *
 * In /sys/kernel/debug/tlb_defer: forever lets no generation pass by itself, so
 * that stale translations live until somebody needs them gone. race_us makes the
 * time that long before the first entry of a batch is looked at, again between
 * clearing the entries of a folio and its verdict, and between the last look for
 * writers of a batch and its seal; race_windows counts the times. A fork waits as
 * well, before its flush, until somebody has looked at an entry: what is migrated
 * by then met D7.
 */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/errno.h>
#include <linux/init.h>
#include <linux/time64.h>
#include <linux/wait.h>

#include "tlb_defer.h"

bool tlb_defer_forever_set;

/* race_us is not 0. */
DEFINE_STATIC_KEY_FALSE(tlb_defer_race_key);
static u32 race_us;
static atomic_t race_windows = ATOMIC_INIT(0);

/**
 * __tlb_defer_race_window() - Give others time to come between (A1, B2, B3, D1)
 */
void __tlb_defer_race_window(void)
{
	u32 us = READ_ONCE(race_us);

	atomic_inc(&race_windows);
	usleep_range(us, us + 100);
}

/* Entries that were looked at, and who waits for the next one */
static atomic_t judged = ATOMIC_INIT(0);
static DECLARE_WAIT_QUEUE_HEAD(judged_wait);

/**
 * __tlb_defer_judged() - An entry was looked at
 *
 * Under its page table lock.
 */
void __tlb_defer_judged(void)
{
	atomic_inc(&judged);
	wake_up(&judged_wait);
}

/**
 * __tlb_defer_fork_window() - Let a migration come between entries and flush (D7)
 *
 * It may have been there before, or not come at all: ten times as long as who
 * migrates waits, no longer.
 */
void __tlb_defer_fork_window(void)
{
	int before = atomic_read(&judged);

	wait_event_timeout(judged_wait, atomic_read(&judged) != before,
			   usecs_to_jiffies(10 * READ_ONCE(race_us)));
}

static int race_us_get(void *data, u64 *value)
{
	*value = READ_ONCE(race_us);
	return 0;
}

static int race_us_set(void *data, u64 value)
{
	if (value > USEC_PER_SEC)
		return -ERANGE;
	WRITE_ONCE(race_us, value);
	if (value)
		static_branch_enable(&tlb_defer_race_key);
	else
		static_branch_disable(&tlb_defer_race_key);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(race_us_fops, race_us_get, race_us_set, "%llu\n");

static int __init tlb_defer_debug_init(void)
{
	struct dentry *dir = debugfs_create_dir("tlb_defer", NULL);

	debugfs_create_bool("forever", 0600, dir, &tlb_defer_forever_set);
	debugfs_create_file("race_us", 0600, dir, NULL, &race_us_fops);
	debugfs_create_atomic_t("race_windows", 0400, dir, &race_windows);
	return 0;
}
late_initcall(tlb_defer_debug_init);
