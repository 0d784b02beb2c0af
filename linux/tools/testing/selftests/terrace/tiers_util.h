/* SPDX-License-Identifier: GPL-2.0 */
/* Promotion beside a full node. */
#ifndef TIERS_UTIL_H
#define TIERS_UTIL_H

#include "burst_util.h"

#define SERVER_NODES	4
#define SERVER_PAGES	8192L

/**
 * struct mt_server - one hot process, and one that fills a node
 * @full: node that is filled
 * @full_too: another node, filled with locked memory; 0: none
 * @locked: the memory on @full cannot leave
 * @from: node that the hot pages are on
 * @to: node that they belong on; negative: any other node
 * @allowed: cpuset of the hot process; NULL: all nodes
 * @ready: the node is full
 * @placed: the hot process has its memory
 * @on: pages of the hot process by node at the end
 * @took_ms: time until 90 % were there; negative if they were not
 * @no_demotion: demotion is switched off
 * @why: place/why at the end, its first line
 * @wake: pipe on which the other process waits for the end
 */
struct mt_server {
	int full;
	int full_too;
	bool locked;
	int from;
	int to;
	const char *allowed;
	bool no_demotion;
	volatile int ready;
	volatile int placed;
	volatile long on[SERVER_NODES];
	volatile long took_ms;
	char why[64];
	int wake[2];
};

int mt_server_run(const struct mt_server *want, struct mt_server **result,
		  struct mt_snap *before);
int mt_server_full(const struct mt_server *want);
int mt_server_goes(const struct mt_server *want, bool by_exchange);

#endif /* TIERS_UTIL_H */
