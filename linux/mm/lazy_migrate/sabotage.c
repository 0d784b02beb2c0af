// SPDX-License-Identifier: GPL-2.0
/*
 * Lazy migration: ways to break it, for tests that must notice.
 *
 * /sys/kernel/debug/lazy_migrate/sabotage is a mask of BIT(LAZY_SAB_*).
 */
#include <linux/debugfs.h>
#include <linux/init.h>

#include "lazy_migrate.h"

u32 lazy_sabotage_mask;

static int __init lazy_sabotage_init(void)
{
	struct dentry *dir = debugfs_create_dir("lazy_migrate", NULL);

	debugfs_create_x32("sabotage", 0600, dir, &lazy_sabotage_mask);
	return 0;
}
late_initcall(lazy_sabotage_init);
