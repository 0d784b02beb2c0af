// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: the working set of each process, by tier.
 *
 *   /sys/kernel/debug/mtier/heat	one line for each address space and tier
 *   mtier:mtier_heat			the same as an event, after each window
 *
 * Once in a burst the pages of the sample are counted, by address space and tier: those
 * looked at, and those accessed since the first look. That is done before any page
 * moves, since pages leave the sample when they move, and those in use move first.
 * The counts are added to decaying sums in the slot (working_set.c), and nothing is
 * kept of single pages. A slot belongs to one mm: exec starts with a fresh one.
 *
 * Memory that several processes map is sampled in one of them, and counts there.
 * Memory that may not move is not sampled. Slow memory is sampled in the ranges that the
 * last sweep found in use, so the pages of other ranges are not in "present". Where it
 * found none, none is in use. While the fast tier has room
 * for all slow memory in use, only that is sampled.
 *
 * Locking: mtier_burst_lock for the sums of all slots. A reader of the file holds
 * mtier_mutex, so that the engine is not switched off while it has a slot.
 */
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/string_helpers.h>
#include <trace/events/mtier.h>

#include "burst.h"
#include "mtier.h"

/* Characters of the two lines of an address space, and more. */
#define MTIER_HEAT_LINES	512

static const char * const mtier_heat_tiers[] = {
	[MTIER_TOP] = "fast",
	[MTIER_LOW] = "slow",
};

/**
 * struct mtier_heat_counts - pages of one range
 * @looked: pages that were looked at, by tier
 * @used: pages of these that were accessed
 */
struct mtier_heat_counts {
	u32 looked[MTIER_SIDES];
	u32 used[MTIER_SIDES];
};

/* Count the pages of a range; the first page of a folio stands for those after it. */
static struct mtier_heat_counts mtier_heat_count(const u8 *page)
{
	struct mtier_heat_counts c = { };
	u8 known = MTIER_PAGE_NONE;
	unsigned int i;

	for (i = 0; i < MTIER_RANGE_PAGES; i++) {
		if (page[i] != MTIER_PAGE_REST)
			known = page[i];
		if (!mtier_page_watched(known))
			continue;
		c.looked[mtier_page_side(known)]++;
		if (known & MTIER_PAGE_COUNT)
			c.used[mtier_page_side(known)]++;
	}
	return c;
}

/* Add up the ranges of an address space, each in the tiers that it was drawn for. */
static void mtier_heat_sum(const struct mtier_watch *watch,
			   const struct mtier_part *part,
			   struct mtier_wset_window win[MTIER_SIDES])
{
	unsigned int i, s;

	for (i = 0; i < part->nr; i++) {
		struct mtier_heat_counts c =
			mtier_heat_count(mtier_watch_range(watch, part->first + i));

		for (s = 0; s < MTIER_SIDES; s++) {
			/* Nothing is known of a range that was removed. */
			if (!(watch->sides[part->first + i] & BIT(s)))
				continue;
			win[s].ranges++;
			win[s].looked += c.looked[s];
			win[s].used += c.used[s];
			win[s].used_sq += (u64)c.used[s] * c.used[s];
		}
	}
}

/* Report the sums of an address space in one tier to whoever traces. */
static void mtier_heat_trace(struct mtier_slot *slot, u32 side,
			     const struct mtier_wset_window *win)
{
	struct mtier_heat *heat = &slot->heat;
	struct mtier_wset_estimate e =
		mtier_wset_estimate(&heat->tier[side], heat->ranges[side],
				    MTIER_RANGE_PAGES);

	rcu_read_lock();
	trace_mtier_heat(rcu_dereference(slot->mm->owner), side, win->ranges,
			 heat->ranges[side], win->looked, win->used, win->window_ns,
			 e.present, e.used, e.error, get_mm_rss(slot->mm));
	rcu_read_unlock();
}

/* Add what the sample has of an address space to the sums of its slot. */
static void mtier_heat_part(const struct mtier_watch *watch,
			    const struct mtier_part *part,
			    const struct mtier_wset_window *blank)
{
	struct mtier_wset_window win[MTIER_SIDES] = { *blank, *blank };
	struct mtier_slot *slot = part->slot;
	u32 s;

	mtier_heat_sum(watch, part, win);
	mutex_lock(&mtier_burst_lock);
	for (s = 0; s < MTIER_SIDES; s++) {
		if (!win[s].ranges)
			continue;
		mtier_wset_add(&slot->heat.tier[s], &win[s]);
		if (trace_mtier_heat_enabled())
			mtier_heat_trace(slot, s, &win[s]);
	}
	mutex_unlock(&mtier_burst_lock);
}

/**
 * mtier_heat_note() - Add a sample to the working sets of its address spaces.
 * @watch: the sample, of which no page has moved
 * @window_ns: time from the first look to the last
 *
 * Context: kmtierd; may sleep.
 */
void mtier_heat_note(const struct mtier_watch *watch, u64 window_ns)
{
	struct mtier_wset_window blank = {
		.range_pages = MTIER_RANGE_PAGES,
		.window_ns = window_ns,
		.at_ns = ktime_get_ns(),
	};
	unsigned int i;

	for (i = 0; i < watch->nr_parts; i++) {
		mtier_heat_part(watch, &watch->part[i], &blank);
		cond_resched();
	}
}

/* ---- /sys/kernel/debug/mtier/heat ---- */

/**
 * struct mtier_heat_owner - the process that an address space belongs to
 * @pid: its PID; 0 if there is none any more
 * @comm: its name
 */
struct mtier_heat_owner {
	pid_t pid;
	char comm[TASK_COMM_LEN];
};

static struct mtier_heat_owner mtier_heat_owner(struct mtier_slot *slot)
{
	struct mtier_heat_owner o = { };
	struct task_struct *owner;

	rcu_read_lock();
	owner = rcu_dereference(slot->mm->owner);
	if (owner) {
		o.pid = task_tgid_nr(owner);
		get_task_comm(o.comm, owner);
	}
	rcu_read_unlock();
	return o;
}

/* A line for an address space in one tier. */
static void mtier_heat_line(struct seq_file *m, struct mtier_slot *slot, u32 side,
			    const struct mtier_heat *heat)
{
	struct mtier_heat_owner owner = mtier_heat_owner(slot);
	const struct mtier_wset *w = &heat->tier[side];
	struct mtier_wset_estimate e =
		mtier_wset_estimate(w, heat->ranges[side], MTIER_RANGE_PAGES);
	u64 age_ns = w->at_ns ? ktime_get_ns() - w->at_ns : 0;

	seq_printf(m, "pid=%d tier=%s ", owner.pid, mtier_heat_tiers[side]);
	seq_printf(m, "rss=%lu present=%llu in_use=%llu error=%llu ",
		   get_mm_rss(slot->mm), e.present, e.used, e.error);
	seq_printf(m, "looked=%llu ranges=%llu of=%u window_us=%llu age_ms=%llu comm=",
		   w->looked >> MTIER_WSET_SHIFT, w->ranges >> MTIER_WSET_SHIFT,
		   heat->ranges[side], div_u64(w->window_ns, NSEC_PER_USEC),
		   div_u64(age_ns, NSEC_PER_MSEC));
	/* A name with a line feed is no second line. */
	seq_escape_str(m, owner.comm, ESCAPE_SPACE | ESCAPE_SPECIAL, "\n\\");
	seq_putc(m, '\n');
}

/* Check whether the slow memory in use is known: a sweep has visited the address space. */
static bool mtier_heat_swept(const struct mtier_heat *heat, u32 side)
{
	return side == MTIER_LOW && heat->swept;
}

/*
 * The lines of an address space; none if it was neither swept nor looked at. With scan
 * scale 0 its slow memory is not sampled, so nothing is known of the use of that.
 */
static void mtier_heat_slot(struct seq_file *m, struct mtier_slot *slot)
{
	struct mtier_heat heat;
	u32 side;

	mutex_lock(&mtier_burst_lock);
	heat = slot->heat;
	mutex_unlock(&mtier_burst_lock);
	for (side = 0; side < MTIER_SIDES; side++)
		if (heat.tier[side].ranges || (mtier_mm_promotes(slot->mm) &&
					       mtier_heat_swept(&heat, side)))
			mtier_heat_line(m, slot, side, &heat);
}

static int mtier_heat_show(struct seq_file *m, void *unused)
{
	struct mtier_slot *slot = NULL;
	nodemask_t fast, slow;

	if (mutex_lock_killable(&mtier_mutex))
		return -EINTR;
	slow = mtier_nodes_slow();
	fast = mtier_nodes_fast();
	seq_printf(m, "page_bytes=%lu fast=%*pbl slow=%*pbl processes=%lu\n",
		   PAGE_SIZE, nodemask_pr_args(&fast), nodemask_pr_args(&slow),
		   mtier_slots_count());
	while ((slot = mtier_slot_after(slot, KTIME_MAX))) {
		mtier_heat_slot(m, slot);
		cond_resched();
	}
	mutex_unlock(&mtier_mutex);
	return 0;
}

/* All lines at once, so that an exit between two reads moves none of them. */
static int mtier_heat_open(struct inode *inode, struct file *file)
{
	return single_open_size(file, mtier_heat_show, NULL,
				(mtier_slots_count() + 1) * MTIER_HEAT_LINES);
}

static const struct file_operations mtier_heat_fops = {
	.owner		= THIS_MODULE,
	.open		= mtier_heat_open,
	.read		= seq_read,
	.llseek		= seq_lseek,
	.release	= single_release,
};

/**
 * mtier_heat_init() - Make the file of working sets.
 * @dir: the folder of debugfs
 */
void __init mtier_heat_init(struct dentry *dir)
{
	debugfs_create_file("heat", 0400, dir, NULL, &mtier_heat_fops);
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/heat_kunit.c"
#endif
