// SPDX-License-Identifier: GPL-2.0
/*
 * NUMA scanning: mode switches and tunables.
 *
 * /proc/sys/kernel/numa_balancing_scan_mode and _scan_windows select the mode. The
 * tunables are in /sys/kernel/debug/sched/numa_balancing/. An invalid value (-EINVAL) or
 * a number out of range (-ERANGE) changes nothing. See
 * Documentation/admin-guide/mm/numa_scan.rst.
 *
 * Locking: numa_scan_mutex, see numa_scan.h.
 */
#include <linux/dcache.h>
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/mmu_context.h>
#include <linux/mutex.h>
#include <linux/sched/remote_charge.h>
#include <linux/string.h>
#include <linux/sysctl.h>

#include "../sched.h"
#include "numa_scan.h"

/* Protects all tunables, and the set of threads */
DEFINE_MUTEX(numa_scan_mutex);
/* Scan passes can be done in slices. */
DEFINE_STATIC_KEY_FALSE(numa_scan_key);
/* Hint faults are recorded, and select the ranges to scan. */
DEFINE_STATIC_KEY_FALSE(numa_scan_windows_key);

struct numa_scan_config numa_scan_conf = {
	.mode = NUMA_SCAN_SYNC,
	.slice_us = 200,
	.async_delay_ms = 100,
};

static const char * const numa_scan_modes[] = {
	[NUMA_SCAN_SYNC] = "sync",
	[NUMA_SCAN_ASYNC] = "async",
	[NUMA_SCAN_SLICED] = "sliced",
};

static int numa_scan_set_mode(enum numa_scan_mode mode)
{
	enum numa_scan_mode old = numa_scan_conf.mode;
	int ret;

	lockdep_assert_held(&numa_scan_mutex);

	if (mode == old)
		return 0;
	if (mode == NUMA_SCAN_ASYNC) {
		remote_charge_enable();
		ret = numa_scan_async_start();
		if (ret)
			return ret;
	}
	if (old == NUMA_SCAN_SYNC)
		static_branch_enable(&numa_scan_key);
	/* Under the lock: no pass of the old mode starts afterwards. */
	spin_lock(&numa_scan_lock);
	WRITE_ONCE(numa_scan_conf.mode, mode);
	spin_unlock(&numa_scan_lock);
	if (old == NUMA_SCAN_ASYNC)
		numa_scan_async_stop();
	if (mode == NUMA_SCAN_SYNC) {
		numa_scan_cancel(NULL);
		static_branch_disable(&numa_scan_key);
	}
	return 0;
}

static int numa_scan_mode_handler(const struct ctl_table *table, int write,
				  void *buffer, size_t *lenp, loff_t *ppos)
{
	char name[16];
	struct ctl_table t = { .data = name, .maxlen = sizeof(name) };
	int ret, mode;

	mutex_lock(&numa_scan_mutex);
	strscpy(name, numa_scan_modes[numa_scan_conf.mode]);
	ret = proc_dostring(&t, write, buffer, lenp, ppos);
	if (!ret && write) {
		mode = match_string(numa_scan_modes,
				    ARRAY_SIZE(numa_scan_modes), name);
		ret = mode < 0 ? mode : numa_scan_set_mode(mode);
	}
	mutex_unlock(&numa_scan_mutex);
	return ret;
}

static int numa_scan_windows_handler(const struct ctl_table *table, int write,
				     void *buffer, size_t *lenp, loff_t *ppos)
{
	unsigned int on = static_key_enabled(&numa_scan_windows_key);
	struct ctl_table t = *table;
	int ret;

	t.data = &on;
	mutex_lock(&numa_scan_mutex);
	ret = proc_douintvec_minmax(&t, write, buffer, lenp, ppos);
	if (!ret && write) {
		if (on)
			static_branch_enable(&numa_scan_windows_key);
		else
			static_branch_disable(&numa_scan_windows_key);
	}
	mutex_unlock(&numa_scan_mutex);
	return ret;
}

static struct ctl_table numa_scan_sysctls[] = {
	{
		.procname	= "numa_balancing_scan_mode",
		.maxlen		= 16,
		.mode		= 0644,
		.proc_handler	= numa_scan_mode_handler,
	},
	{
		.procname	= "numa_balancing_scan_windows",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= numa_scan_windows_handler,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_ONE,
	},
};

#define NUMA_SCAN_SLICE_MIN_US	50
#define NUMA_SCAN_SLICE_MAX_US	100000
#define NUMA_SCAN_DELAY_MAX_MS	10000

static int slice_us_get(void *data, u64 *val)
{
	*val = READ_ONCE(numa_scan_conf.slice_us);
	return 0;
}

static int slice_us_set(void *data, u64 val)
{
	if (val < NUMA_SCAN_SLICE_MIN_US || val > NUMA_SCAN_SLICE_MAX_US)
		return -ERANGE;
	WRITE_ONCE(numa_scan_conf.slice_us, val);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(slice_us_fops, slice_us_get, slice_us_set, "%llu\n");

static int async_delay_ms_get(void *data, u64 *val)
{
	*val = READ_ONCE(numa_scan_conf.async_delay_ms);
	return 0;
}

static int async_delay_ms_set(void *data, u64 val)
{
	if (val > NUMA_SCAN_DELAY_MAX_MS)
		return -ERANGE;
	WRITE_ONCE(numa_scan_conf.async_delay_ms, val);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(async_delay_ms_fops, async_delay_ms_get,
			 async_delay_ms_set, "%llu\n");

static int requests_get(void *data, u64 *val)
{
	*val = numa_scan_requests();
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(requests_fops, requests_get, NULL, "%llu\n");

static int opted_out_get(void *data, u64 *val)
{
	*val = numa_scan_off_cpusets();
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(opted_out_fops, opted_out_get, NULL, "%llu\n");

/* Linux's own file exists, and the variable behind it is declared */
#ifdef CONFIG_SCHED_DEBUG

/* The number of pages is kept in an unsigned int */
#define SIZE_MB_MAX		(UINT_MAX >> (20 - PAGE_SHIFT))

static int size_mb_get(void *data, u64 *val)
{
	*val = READ_ONCE(sysctl_numa_balancing_scan_size);
	return 0;
}

static int size_mb_set(void *data, u64 val)
{
	if (val < 1 || val > SIZE_MB_MAX)
		return -ERANGE;
	WRITE_ONCE(sysctl_numa_balancing_scan_size, val);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(size_mb_fops, size_mb_get, size_mb_set, "%llu\n");

/* Linux's own file accepts values that the next scan would divide by: 0, or 0 pages. */
static void replace_size_mb(struct dentry *dir)
{
	debugfs_lookup_and_remove("scan_size_mb", dir);
	debugfs_create_file_unsafe("scan_size_mb", 0644, dir, NULL,
				   &size_mb_fops);
}

#else /* !CONFIG_SCHED_DEBUG */

static void replace_size_mb(struct dentry *dir)
{
}

#endif /* CONFIG_SCHED_DEBUG */

static int __init numa_scan_init(void)
{
	struct dentry *sched, *dir;

	register_sysctl_init("kernel", numa_scan_sysctls);
	sched = debugfs_lookup("sched", NULL);
	dir = sched ? debugfs_lookup("numa_balancing", sched) : NULL;
	dput(sched);
	if (!dir)
		return 0;
	replace_size_mb(dir);
	debugfs_create_file_unsafe("scan_slice_us", 0644, dir, NULL,
				   &slice_us_fops);
	debugfs_create_file_unsafe("scan_async_delay_ms", 0644, dir, NULL,
				   &async_delay_ms_fops);
	debugfs_create_file_unsafe("scan_requests", 0444, dir, NULL,
				   &requests_fops);
	debugfs_create_file_unsafe("scan_opted_out", 0444, dir, NULL,
				   &opted_out_fops);
	dput(dir);
	return 0;
}

/* After sched_init_debug(), which creates the directory */
late_initcall_sync(numa_scan_init);
