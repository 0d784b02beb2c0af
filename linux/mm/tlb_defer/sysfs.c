// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flush of migrated pages: /sys/kernel/mm/tlb_defer.
 *
 * One value per file. Invalid values (-EINVAL) and values out of range (-ERANGE) change
 * nothing. Documentation/ABI/testing/sysfs-kernel-mm-tlb_defer describes the files.
 */
#include <linux/kobject.h>
#include <linux/kstrtox.h>
#include <linux/mm.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "tlb_defer.h"

static const char * const mode_names[] = {
	[TLB_DEFER_OFF] = "off",
	[TLB_DEFER_QUARANTINE] = "quarantine",
};

static ssize_t mode_show(struct kobject *kobj, struct kobj_attribute *attr,
			 char *buf)
{
	return sysfs_emit(buf, "%s\n",
			  mode_names[READ_ONCE(tlb_defer_conf.mode)]);
}

static ssize_t mode_store(struct kobject *kobj, struct kobj_attribute *attr,
			  const char *buf, size_t count)
{
	int mode, ret;

	/* A mode of the earlier proposal (MIGRC) that does not exist here */
	if (sysfs_streq(buf, "buddy"))
		return -EOPNOTSUPP;
	mode = sysfs_match_string(mode_names, buf);
	if (mode < 0)
		return mode;
	ret = tlb_defer_set_mode(mode);
	return ret ?: count;
}

static struct kobj_attribute mode_attr = __ATTR_RW(mode);

/**
 * struct tlb_defer_knob - file that holds an unsigned number
 * @attr: the file
 * @value: its variable
 * @min: least value
 * @max: largest value
 */
struct tlb_defer_knob {
	struct kobj_attribute attr;
	unsigned int *value;
	unsigned int min;
	unsigned int max;
};

static ssize_t knob_show(struct kobject *kobj, struct kobj_attribute *attr,
			 char *buf)
{
	struct tlb_defer_knob *knob =
		container_of(attr, struct tlb_defer_knob, attr);

	return sysfs_emit(buf, "%u\n", READ_ONCE(*knob->value));
}

static ssize_t knob_store(struct kobject *kobj, struct kobj_attribute *attr,
			  const char *buf, size_t count)
{
	struct tlb_defer_knob *knob =
		container_of(attr, struct tlb_defer_knob, attr);
	unsigned int value;
	int ret = kstrtouint(buf, 10, &value);

	if (ret)
		return ret;
	if (value < knob->min || value > knob->max)
		return -ERANGE;
	WRITE_ONCE(*knob->value, value);
	return count;
}

static struct tlb_defer_knob limit_ticks_knob = {
	.attr = __ATTR(limit_ticks, 0644, knob_show, knob_store),
	.value = &tlb_defer_conf.limit_ticks,
	.min = 1,
	.max = 100,
};

static struct tlb_defer_knob held_limit_bp_knob = {
	.attr = __ATTR(held_limit_bp, 0644, knob_show, knob_store),
	.value = &tlb_defer_conf.held_limit_bp,
	.min = 0,
	.max = 1000,
};

static struct tlb_defer_knob backoff_ms_knob = {
	.attr = __ATTR(backoff_ms, 0644, knob_show, knob_store),
	.value = &tlb_defer_conf.backoff_ms,
	.min = 0,
	.max = 60000,
};

static struct tlb_defer_knob protect_knob = {
	.attr = __ATTR(protect, 0644, knob_show, knob_store),
	.value = &tlb_defer_conf.protect,
	.min = 0,
	.max = 1,
};

static ssize_t held_kb_show(struct kobject *kobj, struct kobj_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%ld\n",
			  tlb_defer_held_pages() << (PAGE_SHIFT - 10));
}

static struct kobj_attribute held_kb_attr = __ATTR_RO(held_kb);

static struct attribute *tlb_defer_attrs[] = {
	&mode_attr.attr,
	&limit_ticks_knob.attr.attr,
	&held_limit_bp_knob.attr.attr,
	&backoff_ms_knob.attr.attr,
	&protect_knob.attr.attr,
	&held_kb_attr.attr,
	NULL,
};

static const struct attribute_group tlb_defer_group = {
	.name = "tlb_defer",
	.attrs = tlb_defer_attrs,
};

static int __init tlb_defer_sysfs_init(void)
{
	return sysfs_create_group(mm_kobj, &tlb_defer_group);
}
late_initcall(tlb_defer_sysfs_init);
