// SPDX-License-Identifier: GPL-2.0
/*
 * Two sockets: room on one of them is no room for pages that may only go to the other one.
 *
 * Time counts instructions.
 *
 * lab: topology=two-socket-cxl icount=2 timeout=400s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>

#include "tiers_util.h"

enum { NEAR, OTHER, CXL };

/* A cpuset of one socket, whose node is full of memory that nobody uses. */
static int own_node_makes_room(void)
{
	return mt_server_goes(&(struct mt_server) {
		.full = NEAR, .from = CXL, .to = NEAR, .allowed = "0,2" }, true);
}

/* The same, and the other node is the one that is full. */
static int own_node_has_room(void)
{
	return mt_server_goes(&(struct mt_server) {
		.full = OTHER, .from = CXL, .to = NEAR, .allowed = "0,2" }, false);
}

/* Without a cpuset, the other node takes what the full one does not. */
static int any_node_has_room(void)
{
	return mt_server_goes(&(struct mt_server) {
		.full = NEAR, .from = CXL, .to = -1 }, false);
}

/* The full node is named, not the one with room. */
static int why_names_the_node(void)
{
	static const struct mt_server want = {
		.full = NEAR, .from = CXL, .to = NEAR, .allowed = "0,2", .no_demotion = true,
	};

	return mt_server_full(&want);
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("a full node makes room for a cpuset that has no other",
			 own_node_makes_room),
		MT_CHECK("a full node of another socket does not matter", own_node_has_room),
		MT_CHECK("without a cpuset the other node is used", any_node_has_room),
		MT_CHECK("place/why names the node that has no room", why_names_the_node),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
