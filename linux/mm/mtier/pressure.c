// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: what the scanner asks of the migrators before it goes on.
 *
 * It stops, or finds other things to do, while they cannot take more: what is
 * found then would be old news when its turn comes.
 *
 * Locking: mtier_nodes[] is read under RCU, see promote.c. A node's pressure is
 * written by the scanner alone.
 */
#include <linux/jiffies.h>
#include <linux/nodemask.h>
#include <linux/rcupdate.h>

#include "mtier.h"

/**
 * mtier_promote_may_queue() - is there a point in queueing a hot frame now?
 * @nid: the slow node
 * @full: its target has no room
 *
 * Context: any but NMI, under rcu_read_lock().
 * Return: false if its queue is under pressure, else the verdict of
 * mtier_may_queue().
 */
bool mtier_promote_may_queue(int nid, bool full)
{
	struct mtier_node *node = rcu_dereference(mtier_nodes[nid]);

	if (!node || READ_ONCE(node->pressure))
		return false;
	return mtier_may_queue(READ_ONCE(node->hot.fill),
			       READ_ONCE(mtier_conf.batch_pages), full);
}

/**
 * mtier_promote_pressure() - should the scanner wait?
 *
 * A node is under pressure from the moment its queue is three quarters full
 * until it is half empty. Its pages wait for their turn then, but those of other
 * nodes do not wait for it.
 *
 * Return: true if all nodes are under pressure whose pages could be found.
 */
bool mtier_promote_pressure(void)
{
	nodemask_t others = NODE_MASK_NONE;
	struct mtier_node *node;
	bool some = false;
	int nid;

	rcu_read_lock();
	for_each_node_state(nid, N_MEMORY) {
		node = rcu_dereference(mtier_nodes[nid]);
		if (!node)
			continue;
		WRITE_ONCE(node->pressure,
			   mtier_pressure(READ_ONCE(node->hot.fill),
					  READ_ONCE(node->hot.cap),
					  node->pressure));
		if (node->pressure)
			some = true;
		else
			node_set(nid, others);
	}
	rcu_read_unlock();
	/* Every page table asks; the counters are read only if it matters. */
	if (!some)
		return false;
	for_each_node_mask(nid, others)
		if (mtier_node_mapped(nid))
			return false;
	return true;
}

/**
 * mtier_promote_failing() - do most migrations fail at the moment?
 *
 * Return: true if on some node more than half of the recent folios could not
 * be moved.
 */
bool mtier_promote_failing(void)
{
	unsigned long recent = 2 *
		msecs_to_jiffies(READ_ONCE(mtier_conf.period_max_ms));
	struct mtier_node *node;
	bool failing = false;
	int nid;

	rcu_read_lock();
	for_each_node_state(nid, N_MEMORY) {
		node = rcu_dereference(mtier_nodes[nid]);
		if (node && READ_ONCE(node->fail_score) > 50 &&
		    time_before(jiffies, READ_ONCE(node->fail_stamp) + recent))
			failing = true;
	}
	rcu_read_unlock();
	return failing;
}
