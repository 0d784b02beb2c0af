// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: /sys/kernel/mm/mtier, one value per file.
 *
 * A value that makes no sense is refused (-EINVAL), one that is out of bounds
 * or out of order with its neighbours too (-ERANGE), and nothing changes: no
 * file clamps in silence, and what is read back is what is in force. The files
 * are described in Documentation/ABI/testing/sysfs-kernel-mm-mtier.
 *
 * Locking: writers hold mtier_mutex. The files of a node find it by its number
 * under RCU, never under the mutex: removing them waits for their readers.
 */
#include <linux/kobject.h>
#include <linux/memory-tiers.h>
#include <linux/mm.h>
#include <linux/sched/remote_charge.h>
#include <linux/sysfs.h>

#include "mtier.h"

struct kobject *mtier_kobj;

/**
 * struct mtier_knob - a file that holds an unsigned number
 * @attr: the file
 * @value: where it is kept
 * @min: smallest allowed
 * @max: largest allowed
 * @not_below: another knob it must not be below, or NULL
 * @not_above: another knob it must not be above, or NULL
 */
struct mtier_knob {
	struct kobj_attribute attr;
	unsigned int *value;
	unsigned int min;
	unsigned int max;
	unsigned int *not_below;
	unsigned int *not_above;
};

static ssize_t mtier_knob_show(struct kobject *kobj,
			       struct kobj_attribute *attr, char *buf)
{
	struct mtier_knob *knob = container_of(attr, struct mtier_knob, attr);

	return sysfs_emit(buf, "%u\n", READ_ONCE(*knob->value));
}

static int mtier_knob_set(struct mtier_knob *knob, unsigned int value)
{
	lockdep_assert_held(&mtier_mutex);

	if (value < knob->min || value > knob->max ||
	    (knob->not_below && value < *knob->not_below) ||
	    (knob->not_above && value > *knob->not_above))
		return -ERANGE;
	if (knob->value == &mtier_conf.queue_pages)
		mtier_promote_resize(value);
	if (knob->value == &mtier_conf.charge && value)
		remote_charge_enable();
	WRITE_ONCE(*knob->value, value);
	if (knob->value == &mtier_conf.window_ms)
		mtier_hot_window_reset();
	return 0;
}

static ssize_t mtier_knob_store(struct kobject *kobj,
				struct kobj_attribute *attr, const char *buf,
				size_t count)
{
	struct mtier_knob *knob = container_of(attr, struct mtier_knob, attr);
	unsigned int value;
	int ret;

	ret = kstrtouint(buf, 10, &value);
	if (ret)
		return ret;
	mutex_lock(&mtier_mutex);
	ret = mtier_knob_set(knob, value);
	mutex_unlock(&mtier_mutex);
	return ret ?: count;
}

#define MTIER_MS_MAX	3600000
#define MTIER_MB_MAX	1048576

/* The number @_value, in the file @_name, as the variable @_knob. */
#define MTIER_KNOB(_knob, _name, _value, _min, _max, _below, _above)	\
	static struct mtier_knob _knob = {				\
		.attr = __ATTR(_name, 0644, mtier_knob_show,		\
			       mtier_knob_store),			\
		.value = &(_value),					\
		.min = (_min),						\
		.max = (_max),						\
		.not_below = (_below),					\
		.not_above = (_above),					\
	}

MTIER_KNOB(mtier_knob_charge, charge, mtier_conf.charge, 0, 1, NULL, NULL);
MTIER_KNOB(mtier_knob_delay_ms, delay_ms, mtier_conf.delay_ms,
	   0, MTIER_MS_MAX, NULL, NULL);
MTIER_KNOB(mtier_knob_period_min_ms, period_min_ms, mtier_conf.period_min_ms,
	   10, MTIER_MS_MAX, NULL, &mtier_conf.period_start_ms);
MTIER_KNOB(mtier_knob_period_start_ms, period_start_ms, mtier_conf.period_start_ms,
	   10, MTIER_MS_MAX, &mtier_conf.period_min_ms, &mtier_conf.period_max_ms);
MTIER_KNOB(mtier_knob_period_max_ms, period_max_ms, mtier_conf.period_max_ms,
	   10, MTIER_MS_MAX, &mtier_conf.period_start_ms, NULL);
MTIER_KNOB(mtier_knob_size_min_mb, size_min_mb, mtier_conf.size_min_mb,
	   1, MTIER_MB_MAX, NULL, &mtier_conf.size_start_mb);
MTIER_KNOB(mtier_knob_size_start_mb, size_start_mb, mtier_conf.size_start_mb,
	   1, MTIER_MB_MAX, &mtier_conf.size_min_mb, &mtier_conf.size_max_mb);
MTIER_KNOB(mtier_knob_size_max_mb, size_max_mb, mtier_conf.size_max_mb,
	   1, MTIER_MB_MAX, &mtier_conf.size_start_mb, NULL);
MTIER_KNOB(mtier_knob_cpu_percent, cpu_percent, mtier_conf.cpu_percent,
	   1, 100, NULL, NULL);
MTIER_KNOB(mtier_knob_slice_us, slice_us, mtier_conf.slice_us,
	   50, 100000, NULL, NULL);
MTIER_KNOB(mtier_knob_flush_tlb, flush_tlb, mtier_conf.flush_tlb,
	   0, 1, NULL, NULL);
MTIER_KNOB(mtier_knob_window_ms, window_ms, mtier_conf.window_ms,
	   100, 600000, NULL, NULL);
MTIER_KNOB(mtier_knob_accesses, accesses, mtier_conf.accesses,
	   1, MTIER_FREQ_MAX, NULL, NULL);
MTIER_KNOB(mtier_knob_room_percent, room_percent, mtier_conf.room_percent,
	   0, 100, NULL, NULL);
MTIER_KNOB(mtier_knob_cold_looks, cold_looks, mtier_conf.cold_looks,
	   0, MTIER_FREQ_MAX, NULL, NULL);
MTIER_KNOB(mtier_knob_rate_mbps, rate_mbps, mtier_conf.rate_mbps,
	   1, MTIER_MB_MAX, NULL, NULL);
MTIER_KNOB(mtier_knob_batch_pages, batch_pages, mtier_conf.batch_pages,
	   1, 4096, NULL, NULL);
MTIER_KNOB(mtier_knob_queue_pages, queue_pages, mtier_conf.queue_pages,
	   1024, 16777216, NULL, NULL);
#ifdef CONFIG_MTIER_MOVE_FAST
MTIER_KNOB(mtier_knob_move_fast, move_fast, mtier_conf.move_fast,
	   0, 1, NULL, NULL);
#endif

static ssize_t target_node_show(struct kobject *kobj,
				struct kobj_attribute *attr, char *buf)
{
	int nid = READ_ONCE(mtier_conf.target_node);

	if (nid == NUMA_NO_NODE)
		return sysfs_emit(buf, "auto\n");
	return sysfs_emit(buf, "%d\n", nid);
}

static ssize_t target_node_store(struct kobject *kobj,
				 struct kobj_attribute *attr, const char *buf,
				 size_t count)
{
	unsigned int nid = NUMA_NO_NODE;
	int ret;

	if (!sysfs_streq(buf, "auto")) {
		ret = kstrtouint(buf, 10, &nid);
		if (ret)
			return ret;
		if (nid >= nr_node_ids || !node_state(nid, N_MEMORY) ||
		    !node_is_toptier(nid))
			return -ERANGE;
	}
	mutex_lock(&mtier_mutex);
	WRITE_ONCE(mtier_conf.target_node, nid);
	mutex_unlock(&mtier_mutex);
	return count;
}

static ssize_t thp_show(struct kobject *kobj, struct kobj_attribute *attr,
			char *buf)
{
	return sysfs_emit(buf, "%s\n", READ_ONCE(mtier_conf.thp_split) ?
			  "split" : "whole");
}

static ssize_t thp_store(struct kobject *kobj, struct kobj_attribute *attr,
			 const char *buf, size_t count)
{
	static const char * const names[] = { "whole", "split" };
	int which = sysfs_match_string(names, buf);

	if (which < 0)
		return which;
	mutex_lock(&mtier_mutex);
	WRITE_ONCE(mtier_conf.thp_split, which);
	mutex_unlock(&mtier_mutex);
	return count;
}

static ssize_t enabled_show(struct kobject *kobj, struct kobj_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%d\n", mtier_on());
}

static ssize_t enabled_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	unsigned int value;
	int ret;

	ret = kstrtouint(buf, 10, &value);
	if (ret)
		return ret;
	if (value > 1)
		return -ERANGE;
	if (mutex_lock_interruptible(&mtier_mutex))
		return -EINTR;
	ret = mtier_set_enabled(value);
	mutex_unlock(&mtier_mutex);
	return ret ?: count;
}

static ssize_t state_show(struct kobject *kobj, struct kobj_attribute *attr,
			  char *buf)
{
	static const char * const names[] = {
		[MTIER_STATE_OFF] = "off",
		[MTIER_STATE_NO_SLOW_TIER] = "no_slow_tier",
		[MTIER_STATE_IDLE] = "idle",
		[MTIER_STATE_SCANNING] = "scanning",
		[MTIER_STATE_PAUSED_CPU] = "paused_cpu",
		[MTIER_STATE_PAUSED_QUEUE] = "paused_queue",
	};

	return sysfs_emit(buf, "%s\n", names[READ_ONCE(mtier_scan_state)]);
}

static ssize_t mms_show(struct kobject *kobj, struct kobj_attribute *attr,
			char *buf)
{
	return sysfs_emit(buf, "%lu\n", mtier_slots_count());
}

static ssize_t records_bytes_show(struct kobject *kobj,
				  struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%lu\n", mtier_hot_bytes());
}

static ssize_t window_now_ms_show(struct kobject *kobj,
				  struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", mtier_hot_window_ms());
}

static struct kobj_attribute target_node_attr = __ATTR_RW(target_node);
static struct kobj_attribute thp_attr = __ATTR_RW(thp);
static struct kobj_attribute enabled_attr = __ATTR_RW(enabled);
static struct kobj_attribute state_attr = __ATTR_RO(state);
static struct kobj_attribute mms_attr = __ATTR_RO(mms);
static struct kobj_attribute window_now_ms_attr = __ATTR_RO(window_now_ms);
static struct kobj_attribute records_bytes_attr = __ATTR_RO(records_bytes);

static struct attribute *mtier_attrs[] = {
	&enabled_attr.attr,
	&state_attr.attr,
	&mms_attr.attr,
	&records_bytes_attr.attr,
	&mtier_knob_charge.attr.attr,
	NULL
};

static struct attribute *mtier_scan_attrs[] = {
	&mtier_knob_delay_ms.attr.attr,
	&mtier_knob_period_min_ms.attr.attr,
	&mtier_knob_period_start_ms.attr.attr,
	&mtier_knob_period_max_ms.attr.attr,
	&mtier_knob_size_min_mb.attr.attr,
	&mtier_knob_size_start_mb.attr.attr,
	&mtier_knob_size_max_mb.attr.attr,
	&mtier_knob_cpu_percent.attr.attr,
	&mtier_knob_slice_us.attr.attr,
	&mtier_knob_flush_tlb.attr.attr,
	NULL
};

static struct attribute *mtier_hot_attrs[] = {
	&mtier_knob_window_ms.attr.attr,
	&mtier_knob_accesses.attr.attr,
	&mtier_knob_room_percent.attr.attr,
	&mtier_knob_cold_looks.attr.attr,
	&window_now_ms_attr.attr,
	NULL
};

static struct attribute *mtier_promote_attrs[] = {
	&mtier_knob_rate_mbps.attr.attr,
	&mtier_knob_batch_pages.attr.attr,
	&mtier_knob_queue_pages.attr.attr,
	&target_node_attr.attr,
	&thp_attr.attr,
#ifdef CONFIG_MTIER_MOVE_FAST
	&mtier_knob_move_fast.attr.attr,
#endif
	NULL
};

static const struct attribute_group mtier_group = {
	.attrs = mtier_attrs,
};

static const struct attribute_group mtier_scan_group = {
	.name = "scan",
	.attrs = mtier_scan_attrs,
};

static const struct attribute_group mtier_hot_group = {
	.name = "hot",
	.attrs = mtier_hot_attrs,
};

static const struct attribute_group mtier_promote_group = {
	.name = "promote",
	.attrs = mtier_promote_attrs,
};

static const struct attribute_group *mtier_groups[] = {
	&mtier_group,
	&mtier_scan_group,
	&mtier_hot_group,
	&mtier_promote_group,
	NULL
};

/* The node that a nodeN folder is about; 0 stands for a node just gone. */
#define MTIER_NODE_SHOW(_name, _expr)					\
static ssize_t node_##_name##_show(struct kobject *kobj,		\
				   struct kobj_attribute *attr,		\
				   char *buf)				\
{									\
	struct mtier_node *node;					\
	unsigned long val = 0;						\
									\
	rcu_read_lock();						\
	node = rcu_dereference(mtier_nodes[mtier_kobj_nid(kobj)]);	\
	if (node)							\
		val = (_expr);						\
	rcu_read_unlock();						\
	return sysfs_emit(buf, "%lu\n", val);				\
}									\
static struct kobj_attribute node_##_name##_attr =			\
	__ATTR(_name, 0444, node_##_name##_show, NULL)

static int mtier_kobj_nid(struct kobject *kobj)
{
	int nid;

	if (kstrtoint(kobject_name(kobj) + strlen("node"), 10, &nid) ||
	    nid < 0 || nid >= nr_node_ids)
		return 0;
	return nid;
}

MTIER_NODE_SHOW(queued, READ_ONCE(node->hot.fill));
MTIER_NODE_SHOW(promoted, atomic_long_read(&node->nr_promoted));
MTIER_NODE_SHOW(dropped, atomic_long_read(&node->nr_dropped));
MTIER_NODE_SHOW(demoted, atomic_long_read(&node->nr_demoted));

static ssize_t node_state_show(struct kobject *kobj,
			       struct kobj_attribute *attr, char *buf)
{
	static const char * const names[] = {
		[MTIER_NODE_IDLE] = "idle",
		[MTIER_NODE_MIGRATING] = "migrating",
		[MTIER_NODE_THROTTLED] = "throttled",
		[MTIER_NODE_TARGET_FULL] = "target_full",
		[MTIER_NODE_NO_TARGET] = "no_target",
	};
	enum mtier_node_state state = MTIER_NODE_IDLE;
	struct mtier_node *node;

	rcu_read_lock();
	node = rcu_dereference(mtier_nodes[mtier_kobj_nid(kobj)]);
	if (node)
		state = READ_ONCE(node->state);
	rcu_read_unlock();
	return sysfs_emit(buf, "%s\n", names[state]);
}

static ssize_t node_target_show(struct kobject *kobj,
				struct kobj_attribute *attr, char *buf)
{
	nodemask_t up = mtier_node_up(mtier_kobj_nid(kobj));

	return sysfs_emit(buf, "%*pbl\n", nodemask_pr_args(&up));
}

static struct kobj_attribute node_state_attr =
	__ATTR(state, 0444, node_state_show, NULL);
static struct kobj_attribute node_target_attr =
	__ATTR(target, 0444, node_target_show, NULL);

static struct attribute *mtier_node_attrs[] = {
	&node_state_attr.attr,
	&node_target_attr.attr,
	&node_queued_attr.attr,
	&node_promoted_attr.attr,
	&node_dropped_attr.attr,
	&node_demoted_attr.attr,
	NULL
};

static const struct attribute_group mtier_node_group = {
	.attrs = mtier_node_attrs,
};

/**
 * mtier_sysfs_add_node() - make the nodeN folder
 * @node: the migrator
 *
 * Return: 0 or an error; then there is no folder.
 */
int mtier_sysfs_add_node(struct mtier_node *node)
{
	char name[16];
	int ret;

	snprintf(name, sizeof(name), "node%d", node->nid);
	node->kobj = kobject_create_and_add(name, mtier_kobj);
	if (!node->kobj)
		return -ENOMEM;
	ret = sysfs_create_group(node->kobj, &mtier_node_group);
	if (ret)
		mtier_sysfs_del_node(node);
	return ret;
}

/**
 * mtier_sysfs_del_node() - remove the nodeN folder and wait for its readers
 * @node: the migrator, which may have no folder
 */
void mtier_sysfs_del_node(struct mtier_node *node)
{
	kobject_put(node->kobj);
	node->kobj = NULL;
}

/**
 * mtier_sysfs_init() - make /sys/kernel/mm/mtier
 *
 * Return: 0 or an error.
 */
int __init mtier_sysfs_init(void)
{
	int ret;

	mtier_kobj = kobject_create_and_add("mtier", mm_kobj);
	if (!mtier_kobj)
		return -ENOMEM;
	ret = sysfs_create_groups(mtier_kobj, mtier_groups);
	if (ret)
		kobject_put(mtier_kobj);
	return ret;
}
