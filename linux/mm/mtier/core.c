// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: switching on and off, and changes of the set of nodes.
 *
 * Memory and threads exist only between mtier_set_enabled(true) and
 * mtier_set_enabled(false). While promotion is on, the static key enables the calls
 * in fork, exec and exit. All data that can grow belongs to structures that are
 * freed when promotion is switched off: slots, and the samples of bursts (sampling
 * windows).
 *
 * Memory hotplug changes the set of nodes. The notifier only schedules a work item.
 * Before that runs, memory-tiers.c has rebuilt its tables, and mtier_mutex can be
 * taken outside of the hotplug lock.
 *
 * Locking: see mtier.h; all functions here run under mtier_mutex.
 */
#define pr_fmt(fmt) "mtier: " fmt

#include <linux/init.h>
#include <linux/memory.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "burst.h"
#include "mtier.h"

#define CREATE_TRACE_POINTS
#include <trace/events/mtier.h>

DEFINE_STATIC_KEY_FALSE(mtier_key);
/* Guards on and off, the set of nodes, and every knob; see mtier.h. */
DEFINE_MUTEX(mtier_mutex);

struct mtier_config mtier_conf = {
	.delay_ms	= 100,
	.cpu_percent	= 25,
	.rate_mbps	= 1024,
	.target_node	= NUMA_NO_NODE,
	.thp_split	= 0,
	.move_fast	= IS_ENABLED(CONFIG_MTIER_MOVE_FAST),
	.charge		= 0,
};

static bool mtier_boot_on __initdata;

/* Update the map, and the sysfs folders of nodes, to the present set of nodes. */
static int mtier_reconcile(void)
{
	struct mtier_map *old, *new;

	lockdep_assert_held(&mtier_mutex);

	new = mtier_map_make();
	if (!new)
		return -ENOMEM;
	old = rcu_dereference_protected(mtier_map,
					lockdep_is_held(&mtier_mutex));
	if (old && mtier_map_equal(old, new)) {
		kfree(new);
		new = old;
	} else {
		rcu_assign_pointer(mtier_map, new);
		if (old)
			kfree_rcu(old, rcu);
	}

	return mtier_sysfs_nodes(&new->slow);
}

static void mtier_stop(void)
{
	struct mtier_map *map;

	lockdep_assert_held(&mtier_mutex);

	/*
	 * First kmtierd, then the key: exits wait for kmtierd only while the key is
	 * on.
	 */
	mtier_burst_stop();
	if (mtier_on())
		static_branch_disable(&mtier_key);
	mtier_sysfs_nodes(&NODE_MASK_NONE);
	mtier_slots_stop();

	map = rcu_replace_pointer(mtier_map, NULL,
				  lockdep_is_held(&mtier_mutex));
	if (map)
		kfree_rcu(map, rcu);
}

static int mtier_start(void)
{
	int ret;

	lockdep_assert_held(&mtier_mutex);

	ret = mtier_slots_start();
	if (!ret)
		ret = mtier_reconcile();
	if (ret)
		goto err;

	/* From here on fork adds new address spaces. Add the existing ones. */
	static_branch_enable(&mtier_key);
	mtier_slots_adopt();
	ret = mtier_burst_start();
	if (!ret)
		return 0;
err:
	mtier_stop();
	return ret;
}

/**
 * mtier_set_enabled() - Switch promotion on or off.
 * @on: the new state
 *
 * Context: may sleep; the caller holds mtier_mutex.
 * Return: 0, or -ENOMEM or another error of the start; promotion is off then.
 */
int mtier_set_enabled(bool on)
{
	lockdep_assert_held(&mtier_mutex);

	if (on == mtier_on())
		return 0;
	if (!on) {
		mtier_stop();
		return 0;
	}
	return mtier_start();
}

static void mtier_nodes_fn(struct work_struct *work)
{
	int ret = 0;

	mutex_lock(&mtier_mutex);
	if (mtier_on())
		ret = mtier_reconcile();
	mutex_unlock(&mtier_mutex);
	if (ret)
		pr_warn("cannot follow a change of nodes: %d\n", ret);
}

static DECLARE_WORK(mtier_nodes_work, mtier_nodes_fn);

/**
 * mtier_nodes_changed() - Schedule an update of the nodes and tiers.
 *
 * Context: any.
 */
void mtier_nodes_changed(void)
{
	queue_work(system_unbound_wq, &mtier_nodes_work);
}

static int mtier_memory_event(struct notifier_block *nb, unsigned long action,
			      void *arg)
{
	if (action == MEM_ONLINE || action == MEM_OFFLINE)
		mtier_nodes_changed();
	return NOTIFY_OK;
}

static int __init mtier_boot_param(char *str)
{
	if (!strcmp(str, "on"))
		mtier_boot_on = true;
	else if (!strcmp(str, "off"))
		mtier_boot_on = false;
	else
		pr_warn("mtier=%s: not \"on\" or \"off\", ignored\n", str);
	return 1;
}
__setup("mtier=", mtier_boot_param);

static int __init mtier_init(void)
{
	int ret;

	ret = mtier_swap_init();
	if (!ret)
		ret = mtier_sysfs_init();
	if (ret)
		return ret;
	mtier_show_init();
	hotplug_memory_notifier(mtier_memory_event, DEFAULT_CALLBACK_PRI);
	if (!mtier_boot_on)
		return 0;

	mutex_lock(&mtier_mutex);
	ret = mtier_set_enabled(true);
	mutex_unlock(&mtier_mutex);
	if (ret)
		pr_err("mtier=on failed: %d\n", ret);
	return 0;
}

/* memory-tiers.c sets the tier of CPU-less nodes in late_initcall, so run after it. */
late_initcall_sync(mtier_init);
