// SPDX-License-Identifier: GPL-2.0
/*
 * A copy of what is only read on every node, made before the measured part: where replication by the kernel
 * would end, at no cost and for free.
 */
#define _GNU_SOURCE
#include "wl.h"

unsigned int wl_node_here(void)
{
	unsigned int cpu = 0, node = 0;

	return syscall(SYS_getcpu, &cpu, &node, NULL) || node >= TG_MAX_NODES ? 0 : node;
}

void wl_on_each_node(void (*make)(unsigned int node))
{
	if (!wl_knows_nodes) {
		make(0);
		return;
	}
	for (unsigned int node = 0; node < TG_MAX_NODES; node++) {
		int err;

		if (!wl_node_has_memory[node])
			continue;
		err = tg_bind_task_memory((int)node);
		if (err)
			tg_die(TG_EXIT_FAILED, "binding to node %u: %s", node, strerror(-err));
		make(node);
	}
	if (tg_bind_task_memory(-1))
		tg_die(TG_EXIT_FAILED, "back to no binding: %s", strerror(errno));
}
