// SPDX-License-Identifier: GPL-2.0
/*
 * Interleave weights: debugfs files that give a node its first memory, for tests.
 *
 * An address written to /sys/kernel/debug/mempolicy2/add_memory_nodeN adds a block of
 * memory to node N, like a driver. The probe file of memory cannot select the node.
 */
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/memory.h>
#include <linux/memory_hotplug.h>

#include "mempolicy2.h"

#ifdef CONFIG_MEMORY_HOTPLUG
static int add_memory_to(void *nid, u64 address)
{
	return add_memory((long)nid, address, memory_block_size_bytes(),
			  MHP_NONE);
}
DEFINE_DEBUGFS_ATTRIBUTE(add_memory_fops, NULL, add_memory_to, "%llu\n");

static void add_memory_files(struct dentry *dir)
{
	char name[32];
	long nid;

	for_each_node(nid) {
		snprintf(name, sizeof(name), "add_memory_node%ld", nid);
		debugfs_create_file_unsafe(name, 0200, dir, (void *)nid,
					   &add_memory_fops);
	}
}
#else
static void add_memory_files(struct dentry *dir)
{
}
#endif

static int __init mpol2_debug_init(void)
{
	struct dentry *dir = debugfs_create_dir("mempolicy2", NULL);

	add_memory_files(dir);
	return 0;
}
late_initcall(mpol2_debug_init);
