// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: statistics of bursts.
 *
 *   /sys/kernel/mm/mtier/place		for operators, one value per file
 *   /sys/kernel/debug/mtier		for developers
 *
 * Locking: mtier_burst_lock to read the state of bursts; mtier_mutex to set observe.
 */
#include <linux/debugfs.h>
#include <linux/kobject.h>
#include <linux/math64.h>
#include <linux/seq_file.h>
#include <linux/sysfs.h>

#include "burst.h"
#include "mtier.h"

#define MTIER_PPM		1000000U

static const char * const mtier_plan_words[] = {
	[MTIER_PLAN_RATE] = "rate",
	[MTIER_PLAN_NOBODY] = "nobody",
	[MTIER_PLAN_NO_VICTIM] = "no_victim",
	[MTIER_PLAN_ALIKE] = "alike",
	[MTIER_PLAN_COST] = "cost",
	[MTIER_PLAN_SATURATED] = "saturated",
};

/* Write the reason of each pool, and its nodes. */
static int mtier_plan_tell(const struct mtier_burst *b, char *buf)
{
	unsigned int i;
	int len = 0;

	if (!b->seen.bursts)
		return sysfs_emit(buf, "none\n");
	if (!b->nr_whys)
		return sysfs_emit(buf, "%s\n", mtier_plan_words[MTIER_PLAN_NOBODY]);
	for (i = 0; i < b->nr_whys; i++)
		len += sysfs_emit_at(buf, len, "%s %*pbl\n",
				     mtier_plan_words[b->why[i].why],
				     nodemask_pr_args(&b->why[i].nodes));
	return len;
}

/* Get the reason of the fastest pool. */
static const char *mtier_plan_word(const struct mtier_burst *b)
{
	if (!b->seen.bursts)
		return "none";
	return mtier_plan_words[b->nr_whys ? b->why[0].why : MTIER_PLAN_NOBODY];
}

/* ---- /sys/kernel/mm/mtier/place ---- */

static u32 mtier_ppm(u32 q16)
{
	return mul_u64_u32_shr(MTIER_PPM, q16, 16);
}

/* Get the prediction accuracy: the share of predicted accesses that re-checks found. */
static u32 mtier_trust_percent(const struct mtier_place *p)
{
	s64 seen = 0, foretold = 0;
	unsigned int i;

	for (i = 0; i < MTIER_AUDIT_AGES; i++) {
		seen += p->audit[i].seen;
		foretold += p->audit[i].foretold;
	}
	if (foretold <= 0 || seen >= foretold)
		return 100;
	return seen <= 0 ? 0 : div64_s64(100 * seen, foretold);
}

static ssize_t why_show(struct kobject *kobj, struct kobj_attribute *attr,
			char *buf)
{
	int len;

	mutex_lock(&mtier_burst_lock);
	len = mtier_plan_tell(&mtier_burst, buf);
	mutex_unlock(&mtier_burst_lock);
	return len;
}

static struct kobj_attribute why_attr = __ATTR_RO(why);

/* Show a number from struct mtier_burst *b. */
#define MTIER_PLACE_SHOW(_name, _expr)					\
static ssize_t _name##_show(struct kobject *kobj,			\
			    struct kobj_attribute *attr, char *buf)	\
{									\
	const struct mtier_burst *b = &mtier_burst;			\
	u64 val;							\
									\
	mutex_lock(&mtier_burst_lock);					\
	val = (_expr);							\
	mutex_unlock(&mtier_burst_lock);				\
	return sysfs_emit(buf, "%llu\n", val);				\
}									\
static struct kobj_attribute _name##_attr = __ATTR_RO(_name)

MTIER_PLACE_SHOW(tau_us, div_u64(b->place.tau_ns, NSEC_PER_USEC));
MTIER_PLACE_SHOW(share_ppm, mtier_ppm(b->place.share));
MTIER_PLACE_SHOW(margin_ppm, mtier_ppm(b->margin));
MTIER_PLACE_SHOW(trust_percent, mtier_trust_percent(&b->place));
MTIER_PLACE_SHOW(gain_us, div_u64(b->gain_ns, NSEC_PER_USEC));
MTIER_PLACE_SHOW(cost_us, div_u64(b->spent_ns, NSEC_PER_USEC));
MTIER_PLACE_SHOW(taken, b->seen.taken);
MTIER_PLACE_SHOW(promoted, b->seen.promoted);
MTIER_PLACE_SHOW(demoted, b->seen.demoted);

static struct attribute *mtier_place_attrs[] = {
	&why_attr.attr,
	&tau_us_attr.attr,
	&share_ppm_attr.attr,
	&margin_ppm_attr.attr,
	&trust_percent_attr.attr,
	&gain_us_attr.attr,
	&cost_us_attr.attr,
	&taken_attr.attr,
	&promoted_attr.attr,
	&demoted_attr.attr,
	NULL
};

const struct attribute_group mtier_place_group = {
	.name = "place",
	.attrs = mtier_place_attrs,
};

/* ---- /sys/kernel/debug/mtier ---- */

static int mtier_histogram_show(struct seq_file *m, void *unused)
{
	static const char * const groups[] = {
		[MTIER_TOP] = "top",
		[MTIER_LOW] = "low",
		[MTIER_LOW + 1] = "low2",
		[MTIER_TOP + MTIER_LARGE] = "top_large",
		[MTIER_LOW + MTIER_LARGE] = "low_large",
		[MTIER_LOW + 1 + MTIER_LARGE] = "low2_large",
	};
	u32 n, g, c;

	mutex_lock(&mtier_burst_lock);
	for (n = 1; n <= MTIER_LOOKS_MOST; n++)
		for (g = 0; g < MTIER_GROUPS; g++) {
			seq_printf(m, "%u %s", n, groups[g]);
			for (c = 0; c <= n; c++)
				seq_printf(m, " %u",
					   mtier_burst.hist[n].pages[g][c]);
			seq_putc(m, '\n');
		}
	mutex_unlock(&mtier_burst_lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(mtier_histogram);

static int mtier_bursts_show(struct seq_file *m, void *unused)
{
	struct mtier_burst *b = &mtier_burst;
	struct mtier_seen *s = &b->seen;
	u32 left[MTIER_AUDIT_AGES], i;

	mutex_lock(&mtier_burst_lock);
	seq_printf(m, "tau_ns %llu\nshare_q16 %u\nlook_ns %u\nflush_ns %u\nmargin_q16 %u\n",
		   b->place.tau_ns, b->place.share, b->machine.look_ns,
		   b->machine.flush_ns, b->margin);
	seq_printf(m, "gain_ns %llu\nspent_ns %llu\nwhy %s\n", b->gain_ns,
		   b->spent_ns, mtier_plan_word(b));
	seq_printf(m, "bursts %llu\nlooks %llu\nptes %llu\nmms %llu\nflushes %llu\n",
		   s->bursts, s->looks, s->ptes, s->mms, s->flushes);
	seq_printf(m, "sweeps %llu\nswept %llu\nall_swept_ns %llu\nin_use %lu\n",
		   s->sweeps, s->swept, s->swept_ns, b->in_use);
	seq_printf(m, "fixed_top %llu\nfixed_low %llu\n", s->fixed[MTIER_TOP],
		   s->fixed[MTIER_LOW]);
	seq_printf(m, "left %llu\nlarge %llu\ncommon %llu\nshared %llu\ntold %llu\n",
		   s->left, s->large, s->common, s->shared, s->told);
	mtier_place_left(&b->place, left);
	seq_printf(m, "horizon_ns %llu\n", mtier_place_horizon_ns(&b->place));
	seq_printf(m, "factor_q8 %u\n", mtier_place_factor_q8(&b->place));
	for (i = 0; i < MTIER_AUDIT_AGES; i++)
		seq_printf(m, "foretold%u %lld\nleft%u_q16 %u\n", i,
			   b->place.audit[i].foretold >> 16, i, left[i]);
	seq_printf(m, "taken %llu\npromoted %llu\ndemoted %llu\nunmapped %llu\n",
		   s->taken, s->promoted, s->demoted, s->unmapped);
	seq_printf(m, "all_spent_ns %llu\nall_flushed_ns %llu\nall_moved_ns %llu\nmove_ns %u\n",
		   s->spent_ns, s->flushed_ns, s->moved_ns, b->machine.move_ns);
	mutex_unlock(&mtier_burst_lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(mtier_bursts);

static int mtier_observe_get(void *unused, u64 *val)
{
	*val = READ_ONCE(mtier_conf.observe);
	return 0;
}

static int mtier_observe_set(void *unused, u64 val)
{
	int ret = 0;

	if (val > 1)
		return -ERANGE;
	mutex_lock(&mtier_mutex);
	if (val != mtier_conf.observe && mtier_on())
		ret = -EBUSY;
	else
		WRITE_ONCE(mtier_conf.observe, val);
	mutex_unlock(&mtier_mutex);
	return ret;
}
DEFINE_DEBUGFS_ATTRIBUTE(mtier_observe_fops, mtier_observe_get,
			 mtier_observe_set, "%llu\n");

static int mtier_burst_set(void *unused, u64 val)
{
	int ret;

	if (val != 1)
		return -ERANGE;
	mutex_lock(&mtier_mutex);
	ret = mtier_burst_ask();
	mutex_unlock(&mtier_mutex);
	return ret;
}
DEFINE_DEBUGFS_ATTRIBUTE(mtier_burst_fops, NULL, mtier_burst_set, "%llu\n");

/**
 * mtier_show_init() - Create the debugfs directory.
 */
void __init mtier_show_init(void)
{
	struct dentry *dir = debugfs_create_dir("mtier", NULL);

	debugfs_create_file("histogram", 0400, dir, NULL,
			    &mtier_histogram_fops);
	mtier_heat_init(dir);
	debugfs_create_file("bursts", 0400, dir, NULL, &mtier_bursts_fops);
	debugfs_create_file_unsafe("observe", 0600, dir, NULL,
				   &mtier_observe_fops);
	debugfs_create_file_unsafe("burst", 0200, dir, NULL, &mtier_burst_fops);
}
