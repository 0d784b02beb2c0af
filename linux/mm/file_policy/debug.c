// SPDX-License-Identifier: GPL-2.0
/*
 * Memory policies of regular files: debugfs file for tests.
 *
 * /sys/kernel/debug/file_policy/files is the number of inodes that have policies.
 */
#include <linux/debugfs.h>
#include <linux/init.h>

#include "file_policy.h"

atomic_t file_policy_files;

static int __init file_policy_debug_init(void)
{
	struct dentry *dir = debugfs_create_dir("file_policy", NULL);

	debugfs_create_atomic_t("files", 0400, dir, &file_policy_files);
	return 0;
}
late_initcall(file_policy_debug_init);
