// SPDX-License-Identifier: GPL-2.0
/*
 * The weights that hold for everybody: files below
 * /sys/kernel/mm/mempolicy/weighted_interleave, and weights that follow from
 * the bandwidth firmware tells of (HMAT, CDAT).  Takes the place of the files
 * that mm/mempolicy.c makes without CONFIG_MEMPOLICY2.
 *
 * Bandwidth of a node is the smaller one of read and write, from the nearest
 * CPU.  While "auto" is on, weights are computed again whenever a node with
 * memory comes or goes, or bandwidth becomes known.
 *
 * Locks: iw_table_lock protects everything here; readers of the table use RCU.
 *
 * See Documentation/ABI/testing/sysfs-kernel-mm-mempolicy2.
 */
#include <linux/gcd.h>
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

#include "mempolicy2.h"

/* Sum of the weights before they are reduced, about */
#define ROUND	32

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
 * mpol_weights_of_bandwidth - Weights in the ratio of bandwidths
 * @mbps: bandwidth by node, 0 where it is not known
 * @nodes: nodes with memory
 * @weight: nr_node_ids bytes, written; 1 where no bandwidth is known
 */
void mpol_weights_of_bandwidth(const u32 *mbps, const nodemask_t *nodes,
			       u8 *weight)
{
	unsigned long divisor = 0;
	u64 sum = 0;
	int nid;

	memset(weight, 1, nr_node_ids);
	for_each_node_mask(nid, *nodes)
		sum += mbps[nid];
	for_each_node_mask(nid, *nodes) {
		u64 part = (u64)ROUND * mbps[nid];

		if (!mbps[nid])
			continue;
		weight[nid] = max_t(u64, div64_u64(part + sum / 2, sum), 1);
		divisor = gcd(divisor, weight[nid]);
	}
	if (!divisor)
		return;
	for_each_node_mask(nid, *nodes)
		if (mbps[nid])
			weight[nid] /= divisor;
}

/**
 * mpol_bandwidth_of - What a node's bandwidth counts as
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

static int recalculate(void)
{
	struct mpol_global *new = copy_global();

	if (!new)
		return -ENOMEM;
	mpol_weights_of_bandwidth(bandwidth, &node_states[N_MEMORY],
				  new->weight);
	replace_global(new);
	return 0;
}

/**
 * mpol_global_init - Have weights before anybody asks for one: 1 everywhere
 */
void __init mpol_global_init(void)
{
	memset(at_boot.weight, 1, sizeof(at_boot.weight));
	mpol_global_sums(&at_boot);
	rcu_assign_pointer(iw_table, at_boot.weight);
}

/**
 * mempolicy_set_node_perf - Learn the bandwidth of a node
 * @nid: node
 * @coord: its performance as seen from the nearest CPU
 */
void mempolicy_set_node_perf(unsigned int nid, struct access_coordinate *coord)
{
	guard(mutex)(&iw_table_lock);
	bandwidth[nid] = mpol_bandwidth_of(coord);
	if (weights_auto && recalculate())
		pr_warn_ratelimited("interleave weights: no memory to recalculate\n");
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

/* Whoever sets a weight does not want it to be computed any more. */
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
	if (weights_auto && recalculate())
		pr_warn_ratelimited("interleave weights: no memory to recalculate\n");
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
	/* After HMAT has told of the bandwidth of a node that came */
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
