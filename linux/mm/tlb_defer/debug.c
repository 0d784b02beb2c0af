// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flushes: debugfs files that make rare events frequent, for tests.
 *
 * In /sys/kernel/debug/tlb_defer: forever stops generations from ending by themselves, so
 * that stale translations live until a flush is forced. race_us adds a delay before the
 * first entry of a batch is judged, between the clearing of a folio's entries and its
 * verdict, and between the last check for writers of a batch and its commit. race_windows
 * counts the delays. With race_us set, a fork also waits before its flush until an entry
 * is judged, so that a migration meets D7.
 */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/errno.h>
#include <linux/init.h>
#include <linux/time64.h>
#include <linux/wait.h>

#include "tlb_defer.h"

bool tlb_defer_forever_set;

/* Enabled while race_us is not 0. */
DEFINE_STATIC_KEY_FALSE(tlb_defer_race_key);
static u32 race_us;
static atomic_t race_windows = ATOMIC_INIT(0);

/**
 * __tlb_defer_race_window() - Delay, so that another task can run in between (A1, B2, B3,
 * D1)
 */
void __tlb_defer_race_window(void)
{
	u32 us = READ_ONCE(race_us);

	atomic_inc(&race_windows);
	usleep_range(us, us + 100);
}

/* Number of judged entries, and forks that wait for the next one */
static atomic_t judged = ATOMIC_INIT(0);
static DECLARE_WAIT_QUEUE_HEAD(judged_wait);

/**
 * __tlb_defer_judged() - Note that an entry was judged
 *
 * Context: under the page table lock of the entry.
 */
void __tlb_defer_judged(void)
{
	atomic_inc(&judged);
	wake_up(&judged_wait);
}

/**
 * __tlb_defer_fork_window() - Delay a fork, so that a migration can run before its flush
 * (D7)
 *
 * The migration may have run before, or never run. So the delay ends after ten times
 * race_us.
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
