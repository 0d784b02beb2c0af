// SPDX-License-Identifier: GPL-2.0
/*
 * Migration on faults: ways to break it, for tests that must notice.
 *
 * /sys/kernel/debug/fault_migrate/sabotage is a mask of BIT(FM_SAB_*).
 */
#include <linux/debugfs.h>
#include <linux/init.h>

#include "fault_migrate.h"

u32 fm_sabotage_mask;

static int __init fm_sabotage_init(void)
{
	struct dentry *dir = debugfs_create_dir("fault_migrate", NULL);

	debugfs_create_x32("sabotage", 0600, dir, &fm_sabotage_mask);
	return 0;
}
late_initcall(fm_sabotage_init);
