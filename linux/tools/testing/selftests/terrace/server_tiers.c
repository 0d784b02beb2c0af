// SPDX-License-Identifier: GPL-2.0
/*
 * Three tiers: hot pages go to the fastest tier that has room for them and that they may
 * go to, and each tier makes room for hotter pages of a slower one.
 *
 * The node that has no room is full of memory that another process does not use, or of
 * locked memory that cannot leave.
 *
 * Time counts instructions.
 *
 * lab: topology=three-tier icount=2 timeout=600s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>

#include "tiers_util.h"

enum { DRAM, CXL, SLOW, NODES };

static int past_a_full_tier(void)
{
	return mt_server_goes(&(struct mt_server) { .full = CXL, .from = SLOW, .to = DRAM }, false);
}

static int past_a_locked_tier(void)
{
	return mt_server_goes(&(struct mt_server) {
		.full = CXL, .locked = true, .from = SLOW, .to = DRAM }, false);
}

static int full_dram_and_room_below(void)
{
	return mt_server_goes(&(struct mt_server) { .full = DRAM, .from = CXL, .to = DRAM }, true);
}

static int full_dram_and_slowest(void)
{
	return mt_server_goes(&(struct mt_server) { .full = DRAM, .from = SLOW, .to = DRAM }, true);
}

/* Victims go past the next tier, which is full and cannot make room. */
static int full_dram_and_next(void)
{
	return mt_server_goes(&(struct mt_server) {
		.full = DRAM, .full_too = CXL, .from = SLOW, .to = DRAM }, true);
}

/* DRAM cannot make room: the next tier is better than none. */
static int locked_dram(void)
{
	return mt_server_goes(&(struct mt_server) {
		.full = DRAM, .locked = true, .from = SLOW, .to = -1 }, false);
}

/* The middle tier makes room for the slowest one. */
static int middle_exchanges(void)
{
	return mt_server_goes(&(struct mt_server) {
		.full = CXL, .from = SLOW, .to = CXL, .allowed = "1-2" }, true);
}

static int without_the_middle(void)
{
	return mt_server_goes(&(struct mt_server) {
		.full = CXL, .from = SLOW, .to = DRAM, .allowed = "0,2" }, false);
}

static int without_the_fastest(void)
{
	return mt_server_goes(&(struct mt_server) {
		.full = DRAM, .from = SLOW, .to = CXL, .allowed = "1-2" }, false);
}

/* Without demotion, no page can leave the only node that the hot process may use. */
static int why_names_the_node(void)
{
	static const struct mt_server want = {
		.full = DRAM, .from = SLOW, .to = DRAM, .allowed = "0,2", .no_demotion = true,
	};

	return mt_server_full(&want);
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("hot pages of the slowest tier pass a full one", past_a_full_tier),
		MT_CHECK("hot pages of the slowest tier pass a locked one",
			 past_a_locked_tier),
		MT_CHECK("full DRAM makes room though the next tier has some",
			 full_dram_and_room_below),
		MT_CHECK("full DRAM makes room for the slowest tier", full_dram_and_slowest),
		MT_CHECK("full DRAM makes room past a locked tier", full_dram_and_next),
		MT_CHECK("locked DRAM does not stop the next tier", locked_dram),
		MT_CHECK("the middle tier makes room for the slowest", middle_exchanges),
		MT_CHECK("a cpuset without the middle tier", without_the_middle),
		MT_CHECK("a cpuset without the fastest tier", without_the_fastest),
		MT_CHECK("place/why names the node that has no room", why_names_the_node),
	};
	int nodes[MT_NODES];

	if (mt_nodes("has_memory", nodes) != NODES)
		fprintf(stderr, "# not three nodes\n");
	return mt_main(checks, ARRAY_LEN(checks));
}
