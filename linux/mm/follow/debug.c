// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic NUMA migration: debugfs files for tests.
 *
 * In /sys/kernel/debug/numa_follow: cpusets is the number of cgroups with auto_migration,
 * including cgroups being removed. marked_mms is the number of address spaces that have
 * had marked pages; it stays 1 for a second after the last one is gone.
 */
#include <linux/debugfs.h>
#include <linux/init.h>

#include "follow.h"

static int cpusets_get(void *data, u64 *val)
{
	*val = static_key_count(&numa_follow_tasks.key);
	return 0;
}

DEFINE_DEBUGFS_ATTRIBUTE(cpusets_fops, cpusets_get, NULL, "%llu\n");

static int marked_mms_get(void *data, u64 *val)
{
	*val = static_key_count(&numa_follow_marks.key.key);
	return 0;
}

DEFINE_DEBUGFS_ATTRIBUTE(marked_mms_fops, marked_mms_get, NULL, "%llu\n");

static int __init follow_debug_init(void)
{
	struct dentry *dir = debugfs_create_dir("numa_follow", NULL);

	debugfs_create_file("cpusets", 0400, dir, NULL, &cpusets_fops);
	debugfs_create_file("marked_mms", 0400, dir, NULL, &marked_mms_fops);
	return 0;
}
late_initcall(follow_debug_init);
