// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic migration: what tests look at.
 *
 * /sys/kernel/debug/auto_migrate/cpusets is the number of cgroups that ask for it,
 * those on their way out included.
 */
#include <linux/debugfs.h>
#include <linux/init.h>

#include "auto_migrate.h"

static int cpusets_get(void *data, u64 *val)
{
	*val = static_key_count(&auto_migrate_key.key);
	return 0;
}

DEFINE_DEBUGFS_ATTRIBUTE(cpusets_fops, cpusets_get, NULL, "%llu\n");

static int __init auto_debug_init(void)
{
	struct dentry *dir = debugfs_create_dir("auto_migrate", NULL);

	debugfs_create_file("cpusets", 0400, dir, NULL, &cpusets_fops);
	return 0;
}
late_initcall(auto_debug_init);
