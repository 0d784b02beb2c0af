// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: ways to break it, for tests that must notice.
 *
 * /sys/kernel/debug/mtier/sabotage is a mask of BIT(MTIER_SAB_*).
 */
#include <linux/debugfs.h>
#include <linux/init.h>

#include "mtier.h"

u32 mtier_sabotage_mask;

static int __init mtier_sabotage_init(void)
{
	struct dentry *dir = debugfs_create_dir("mtier", NULL);

	debugfs_create_x32("sabotage", 0600, dir, &mtier_sabotage_mask);
	return 0;
}
late_initcall(mtier_sabotage_init);
