// SPDX-License-Identifier: GPL-2.0
/*
 * Global interleave weights: the files below
 * /sys/kernel/mm/mempolicy/weighted_interleave, and automatic weights from the
 * bandwidth in firmware tables (HMAT, CDAT).  Replaces the files that
 * mm/mempolicy.c creates without CONFIG_MEMPOLICY2.
 *
 * The bandwidth of a node is the smaller one of read and write, from the nearest
 * CPU.  While "auto" is on, the weights are recalculated when a node gets its
 * first memory or loses its last, and when bandwidth becomes known.
 *
 * Locking: iw_table_lock protects all state; readers of the table use RCU.
 *
 * See Documentation/ABI/testing/sysfs-kernel-mm-mempolicy2.
 */
#include <linux/init.h>
#include <linux/kobject.h>
#include <linux/kstrtox.h>
#include <linux/memory.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/node.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/string_choices.h>
#include <linux/sysfs.h>

#include "bandwidth.h"
#include "mempolicy2.h"

/**
 * struct weight_file - nodeN
 * @attr: the file
 * @nid: N
 * @name: its name
 * @shown: it exists
 */
struct weight_file {
	struct kobj_attribute attr;
	int nid;
	char name[16];
	bool shown;
};

static struct mpol_global at_boot;
static u32 bandwidth[MAX_NUMNODES];
static struct weight_file *weight_files;
static struct kobject *weight_dir;
static bool weights_auto;

/**
 * mpol_weights_of_bandwidth() - Compute the weights of nodes with memory
 * @mbps: bandwidth by node, 0 where it is unknown
 * @nodes: nodes with memory
 * @weight: nr_node_ids bytes, written; 1 for a node of unknown bandwidth and
 *	    for a node without memory
 *
 * Return: 0, -ENODEV where no bandwidth is known, -ENOMEM; @weight is
 * undefined after an error.
 */
int mpol_weights_of_bandwidth(const u32 *mbps, const nodemask_t *nodes,
			      u8 *weight)
{
	u32 *known = kcalloc(nr_node_ids, sizeof(*known), GFP_KERNEL);
	bool unknown = false;
	u32 pages;
	int nid;

	if (!known)
		return -ENOMEM;
	for_each_node_mask(nid, *nodes) {
		known[nid] = mbps[nid];
		unknown |= !mbps[nid];
	}
	pages = mpol_auto_weights(known, weight, nr_node_ids, 1);
	kfree(known);
	if (!pages)
		return -ENODEV;
	if (unknown)
		mpol_stretch_weights(weight, nr_node_ids);
	for (nid = 0; nid < nr_node_ids; nid++)
		weight[nid] = max(weight[nid], 1);
	return 0;
}

/**
 * mpol_bandwidth_of() - Get the bandwidth that weights are computed from
 * @coord: its performance
 *
 * Pages are read and written: the smaller of both.
 *
 * Return: bandwidth in MB/s, 0 if one of them is not known.
 */
u32 mpol_bandwidth_of(const struct access_coordinate *coord)
{
	return min(coord->read_bandwidth, coord->write_bandwidth);
}

static struct mpol_global *locked_global(void)
{
	u8 *table = rcu_dereference_protected(iw_table,
					      lockdep_is_held(&iw_table_lock));

	return container_of(table, struct mpol_global, weight[0]);
}

/* The weights, to be changed; NULL without memory. */
static struct mpol_global *copy_global(void)
{
	return kmemdup(locked_global(), sizeof(struct mpol_global), GFP_KERNEL);
}

static void replace_global(struct mpol_global *new)
{
	struct mpol_global *old = locked_global();

	mpol_global_sums(new);
	rcu_assign_pointer(iw_table, new->weight);
	if (old == &at_boot)
		return;
	synchronize_rcu();
	kfree(old);
}

/* Weights stay as they are after an error. */
static int recalculate(void)
{
	struct mpol_global *new = copy_global();
	int ret;

	if (!new)
		return -ENOMEM;
	ret = mpol_weights_of_bandwidth(bandwidth, &node_states[N_MEMORY],
					new->weight);
	if (ret) {
		kfree(new);
		return ret;
	}
	replace_global(new);
	return 0;
}

/* Weights stay without a message if no node with memory has a known bandwidth. */
static void recalculate_if_auto(void)
{
	if (weights_auto && recalculate() == -ENOMEM)
		pr_warn_ratelimited("interleave weights: no memory to recalculate\n");
}

/**
 * mpol_global_init() - Set all weights to 1, before the first policy exists
 */
void __init mpol_global_init(void)
{
	memset(at_boot.weight, 1, sizeof(at_boot.weight));
	mpol_global_sums(&at_boot);
	rcu_assign_pointer(iw_table, at_boot.weight);
}

/**
 * mempolicy_set_node_perf() - Set the bandwidth of a node
 * @nid: node
 * @coord: its performance as seen from the nearest CPU
 */
void mempolicy_set_node_perf(unsigned int nid, struct access_coordinate *coord)
{
	guard(mutex)(&iw_table_lock);
	bandwidth[nid] = mpol_bandwidth_of(coord);
	recalculate_if_auto();
}

static ssize_t node_show(struct kobject *kobj, struct kobj_attribute *attr,
			 char *buf)
{
	struct weight_file *file = container_of(attr, struct weight_file, attr);
	u8 weight;

	rcu_read_lock();
	weight = mpol_global()->weight[file->nid];
	rcu_read_unlock();
	return sysfs_emit(buf, "%u\n", weight);
}

/* A weight that a user sets ends automatic weights. */
static ssize_t node_store(struct kobject *kobj, struct kobj_attribute *attr,
			  const char *buf, size_t count)
{
	struct weight_file *file = container_of(attr, struct weight_file, attr);
	struct mpol_global *new;
	u8 weight;

	if (kstrtou8(buf, 0, &weight) || !weight)
		return -EINVAL;
	guard(mutex)(&iw_table_lock);
	new = copy_global();
	if (!new)
		return -ENOMEM;
	new->weight[file->nid] = weight;
	replace_global(new);
	weights_auto = false;
	return count;
}

static ssize_t auto_show(struct kobject *kobj, struct kobj_attribute *attr,
			 char *buf)
{
	return sysfs_emit(buf, "%s\n", str_true_false(READ_ONCE(weights_auto)));
}

static ssize_t auto_store(struct kobject *kobj, struct kobj_attribute *attr,
			  const char *buf, size_t count)
{
	bool on;
	int ret;

	if (kstrtobool(buf, &on))
		return -EINVAL;
	guard(mutex)(&iw_table_lock);
	if (on) {
		ret = recalculate();
		if (ret)
			return ret;
	}
	weights_auto = on;
	return count;
}

/* Not __ATTR_RW(): auto is a macro. */
static struct kobj_attribute auto_attr = {
	.attr = { .name = "auto", .mode = 0644 },
	.show = auto_show,
	.store = auto_store,
};

static void show_node(int nid)
{
	struct weight_file *file = &weight_files[nid];

	lockdep_assert_held(&iw_table_lock);
	if (!file->shown && !sysfs_create_file(weight_dir, &file->attr.attr))
		file->shown = true;
}

#ifdef CONFIG_MEMORY_HOTPLUG
/*
 * Removing a file waits for those who write to it, and they take the lock: it
 * must not be held.  Notifiers come one at a time.
 */
static void hide_node(int nid)
{
	if (!weight_files[nid].shown)
		return;
	sysfs_remove_file(weight_dir, &weight_files[nid].attr.attr);
	weight_files[nid].shown = false;
}

static int memory_changed(struct notifier_block *self, unsigned long action,
			  void *arg)
{
	struct memory_notify *change = arg;
	int nid = change->status_change_nid;

	if (nid < 0 || (action != MEM_ONLINE && action != MEM_OFFLINE))
		return NOTIFY_OK;
	if (action == MEM_OFFLINE)
		hide_node(nid);
	guard(mutex)(&iw_table_lock);
	if (action == MEM_ONLINE)
		show_node(nid);
	recalculate_if_auto();
	return NOTIFY_OK;
}
#endif

static int __init weights_sysfs_init(void)
{
	struct kobject *dir = kobject_create_and_add("mempolicy", mm_kobj);
	int nid;

	weight_files = kcalloc(nr_node_ids, sizeof(*weight_files), GFP_KERNEL);
	if (dir)
		weight_dir = kobject_create_and_add("weighted_interleave", dir);
	if (!weight_files || !weight_dir)
		goto failed;
	for_each_node(nid) {
		struct weight_file *file = &weight_files[nid];

		sysfs_attr_init(&file->attr.attr);
		snprintf(file->name, sizeof(file->name), "node%d", nid);
		file->attr.attr.name = file->name;
		file->attr.attr.mode = 0644;
		file->attr.show = node_show;
		file->attr.store = node_store;
		file->nid = nid;
	}
	if (sysfs_create_file(weight_dir, &auto_attr.attr))
		goto failed;
	mutex_lock(&iw_table_lock);
	for_each_node_state(nid, N_MEMORY)
		show_node(nid);
	mutex_unlock(&iw_table_lock);
#ifdef CONFIG_MEMORY_HOTPLUG
	/* Runs after HMAT set the bandwidth of the new node. */
	hotplug_memory_notifier(memory_changed, DEFAULT_CALLBACK_PRI);
#endif
	return 0;

failed:
	pr_err("interleave weights: no files in sysfs\n");
	kobject_put(weight_dir);
	kobject_put(dir);
	kfree(weight_files);
	return -ENOMEM;
}
late_initcall(weights_sysfs_init);
