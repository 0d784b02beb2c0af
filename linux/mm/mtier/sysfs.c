// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: /sys/kernel/mm/mtier, one value per file.
 *
 * A value that makes no sense is refused (-EINVAL), one that is out of bounds too
 * (-ERANGE), and nothing changes: no file clamps in silence, and what is read back is
 * what is in force. The files are described in
 * Documentation/ABI/testing/sysfs-kernel-mm-mtier.
 *
 * Locking: writers hold mtier_mutex. The files of a node are read without it:
 * removing them, under the mutex, waits for their readers.
 */
#include <linux/kobject.h>
#include <linux/memory-tiers.h>
#include <linux/mm.h>
#include <linux/sched/remote_charge.h>
#include <linux/slab.h>
#include <linux/sysfs.h>

#include "burst.h"
#include "mtier.h"

struct kobject *mtier_kobj;

/**
 * struct mtier_knob - a file that holds an unsigned number
 * @attr: the file
 * @value: where it is kept
 * @min: smallest allowed
 * @max: largest allowed
 */
struct mtier_knob {
	struct kobj_attribute attr;
	unsigned int *value;
	unsigned int min;
	unsigned int max;
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

	if (value < knob->min || value > knob->max)
		return -ERANGE;
	if (knob->value == &mtier_conf.charge && value)
		remote_charge_enable();
	WRITE_ONCE(*knob->value, value);
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
#define MTIER_KNOB(_knob, _name, _value, _min, _max)			\
	static struct mtier_knob _knob = {				\
		.attr = __ATTR(_name, 0644, mtier_knob_show,		\
			       mtier_knob_store),			\
		.value = &(_value),					\
		.min = (_min),						\
		.max = (_max),						\
	}

MTIER_KNOB(mtier_knob_charge, charge, mtier_conf.charge, 0, 1);
MTIER_KNOB(mtier_knob_delay_ms, delay_ms, mtier_conf.delay_ms,
	   0, MTIER_MS_MAX);
MTIER_KNOB(mtier_knob_cpu_percent, cpu_percent, mtier_conf.cpu_percent,
	   1, 100);
MTIER_KNOB(mtier_knob_rate_mbps, rate_mbps, mtier_conf.rate_mbps,
	   1, MTIER_MB_MAX);
#ifdef CONFIG_MTIER_MOVE_FAST
MTIER_KNOB(mtier_knob_move_fast, move_fast, mtier_conf.move_fast, 0, 1);
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
		[MTIER_STATE_LOOKING] = "looking",
		[MTIER_STATE_MOVING] = "moving",
		[MTIER_STATE_THROTTLED] = "throttled",
		[MTIER_STATE_RESTING] = "resting",
	};

	return sysfs_emit(buf, "%s\n", names[READ_ONCE(mtier_state)]);
}

static ssize_t mms_show(struct kobject *kobj, struct kobj_attribute *attr,
			char *buf)
{
	return sysfs_emit(buf, "%lu\n", mtier_slots_count());
}

static struct kobj_attribute target_node_attr = __ATTR_RW(target_node);
static struct kobj_attribute thp_attr = __ATTR_RW(thp);
static struct kobj_attribute enabled_attr = __ATTR_RW(enabled);
static struct kobj_attribute state_attr = __ATTR_RO(state);
static struct kobj_attribute mms_attr = __ATTR_RO(mms);

static struct attribute *mtier_attrs[] = {
	&enabled_attr.attr,
	&state_attr.attr,
	&mms_attr.attr,
	&mtier_knob_charge.attr.attr,
	NULL
};

static struct attribute *mtier_scan_attrs[] = {
	&mtier_knob_delay_ms.attr.attr,
	&mtier_knob_cpu_percent.attr.attr,
	NULL
};

static struct attribute *mtier_promote_attrs[] = {
	&mtier_knob_rate_mbps.attr.attr,
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

static const struct attribute_group mtier_promote_group = {
	.name = "promote",
	.attrs = mtier_promote_attrs,
};

static const struct attribute_group *mtier_groups[] = {
	&mtier_group,
	&mtier_scan_group,
	&mtier_promote_group,
	&mtier_place_group,
	NULL
};

/* ---- nodeN ---- */

static struct kobject **mtier_node_kobjs;

/* The node that a nodeN folder is about. */
static int mtier_kobj_nid(struct kobject *kobj)
{
	int nid;

	if (kstrtoint(kobject_name(kobj) + strlen("node"), 10, &nid) ||
	    nid < 0 || nid >= nr_node_ids)
		return 0;
	return nid;
}

#define MTIER_NODE_SHOW(_name, _moved)					\
static ssize_t node_##_name##_show(struct kobject *kobj,		\
				   struct kobj_attribute *attr,		\
				   char *buf)				\
{									\
	struct mtier_moved moved;					\
									\
	moved = mtier_swap_node(mtier_kobj_nid(kobj));			\
	return sysfs_emit(buf, "%lu\n", (_moved));			\
}									\
static struct kobj_attribute node_##_name##_attr =			\
	__ATTR(_name, 0444, node_##_name##_show, NULL)

MTIER_NODE_SHOW(promoted, moved.promoted);
MTIER_NODE_SHOW(dropped, moved.dropped);
MTIER_NODE_SHOW(demoted, moved.demoted);

static ssize_t node_target_show(struct kobject *kobj,
				struct kobj_attribute *attr, char *buf)
{
	nodemask_t up = mtier_node_up(mtier_kobj_nid(kobj));

	return sysfs_emit(buf, "%*pbl\n", nodemask_pr_args(&up));
}

static struct kobj_attribute node_target_attr =
	__ATTR(target, 0444, node_target_show, NULL);

static struct attribute *mtier_node_attrs[] = {
	&node_target_attr.attr,
	&node_promoted_attr.attr,
	&node_dropped_attr.attr,
	&node_demoted_attr.attr,
	NULL
};

static const struct attribute_group mtier_node_group = {
	.attrs = mtier_node_attrs,
};

/* Remove a folder, which may not be there, and wait for its readers. */
static void mtier_sysfs_del_node(int nid)
{
	kobject_put(mtier_node_kobjs[nid]);
	mtier_node_kobjs[nid] = NULL;
}

static int mtier_sysfs_add_node(int nid)
{
	char name[16];
	int ret;

	if (mtier_node_kobjs[nid])
		return 0;
	snprintf(name, sizeof(name), "node%d", nid);
	mtier_node_kobjs[nid] = kobject_create_and_add(name, mtier_kobj);
	if (!mtier_node_kobjs[nid])
		return -ENOMEM;
	ret = sysfs_create_group(mtier_node_kobjs[nid], &mtier_node_group);
	if (ret)
		mtier_sysfs_del_node(nid);
	return ret;
}

/**
 * mtier_sysfs_nodes() - have a nodeN folder for each node of the lower tiers
 * @slow: these nodes
 *
 * Return: 0 or the first error; the others have theirs then.
 */
int mtier_sysfs_nodes(const nodemask_t *slow)
{
	int nid, err, ret = 0;

	lockdep_assert_held(&mtier_mutex);
	for (nid = 0; nid < nr_node_ids; nid++) {
		if (!node_isset(nid, *slow)) {
			mtier_sysfs_del_node(nid);
			continue;
		}
		err = mtier_sysfs_add_node(nid);
		ret = ret ?: err;
	}
	return ret;
}

/**
 * mtier_sysfs_init() - make /sys/kernel/mm/mtier
 *
 * Return: 0 or an error.
 */
int __init mtier_sysfs_init(void)
{
	int ret;

	mtier_node_kobjs = kcalloc(nr_node_ids, sizeof(*mtier_node_kobjs),
				   GFP_KERNEL);
	if (!mtier_node_kobjs)
		return -ENOMEM;
	mtier_kobj = kobject_create_and_add("mtier", mm_kobj);
	if (!mtier_kobj)
		return -ENOMEM;
	ret = sysfs_create_groups(mtier_kobj, mtier_groups);
	if (ret)
		kobject_put(mtier_kobj);
	return ret;
}
