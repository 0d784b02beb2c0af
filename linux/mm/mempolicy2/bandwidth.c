// SPDX-License-Identifier: GPL-2.0
/*
 * Interleave weights from the bandwidth of nodes.
 *
 * A program that uses all of its pages alike reaches
 *
 *	min over all nodes of bandwidth * (sum of weights) / weight
 *
 * because the node that is busy longest limits the others.  Pages of a round
 * are dealt one by one, each to the node whose bandwidth per page stays highest
 * (D'Hondt's method): for every length of the round this reaches the most.  The
 * search ends with the shortest round that reaches 31/32 of the summed bandwidth
 * and no less than the fastest node alone.
 *
 * No locks, no clock and no allocation: tools/testing/mtier tests this file in
 * user space, and terrace(1) has the same arithmetic in Python.
 *
 * See Documentation/admin-guide/mm/mempolicy2.rst.
 */
#include <linux/limits.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/types.h>

#include "bandwidth.h"

/* A round that reaches all but 1/LOSS_PARTS of the summed bandwidth is enough. */
#define LOSS_PARTS	32

/**
 * struct mpol_round - Weights while pages are dealt
 * @mbps: bandwidth by node
 * @weight: weight by node
 * @nr: number of nodes
 * @pages: sum of @weight
 */
struct mpol_round {
	const u32 *mbps;
	u8 *weight;
	u32 nr;
	u32 pages;
};

/**
 * struct mpol_reach - Bandwidth that a round reaches, as an exact fraction
 * @product: bandwidth of the limiting node times pages of the round
 * @weight: weight of the limiting node
 */
struct mpol_reach {
	u64 product;
	u32 weight;
};

/* Give each node with bandwidth @least pages. */
static void mpol_round_start(struct mpol_round *r, u8 least)
{
	u32 i;

	r->pages = 0;
	for (i = 0; i < r->nr; i++) {
		r->weight[i] = r->mbps[i] ? least : 0;
		r->pages += r->weight[i];
	}
}

/*
 * Deal one page. Returns false if the next node has the largest possible weight: a page
 * for another node instead would distort the ratio.
 */
static bool mpol_round_add(struct mpol_round *r)
{
	u32 next = r->nr, i;

	if (r->pages >= MPOL_ROUND_MAX)
		return false;
	for (i = 0; i < r->nr; i++) {
		if (!r->mbps[i])
			continue;
		if (next == r->nr ||
		    (u64)r->mbps[i] * (r->weight[next] + 1) >
		    (u64)r->mbps[next] * (r->weight[i] + 1))
			next = i;
	}
	if (next == r->nr || r->weight[next] == U8_MAX)
		return false;
	r->weight[next]++;
	r->pages++;
	return true;
}

/* mbps < 2^32, pages <= 2^12: the product has at most 44 bits. */
static struct mpol_reach mpol_round_reach(const struct mpol_round *r)
{
	u32 limit = r->nr, i;

	for (i = 0; i < r->nr; i++) {
		if (!r->weight[i])
			continue;
		if (limit == r->nr ||
		    (u64)r->mbps[i] * r->weight[limit] <
		    (u64)r->mbps[limit] * r->weight[i])
			limit = i;
	}
	return (struct mpol_reach) {
		.product = (u64)r->mbps[limit] * r->pages,
		.weight = r->weight[limit],
	};
}

/*
 * Check whether a round reaches enough. @sum is the bandwidth of all nodes, @fastest that
 * of the fastest one. A sum of 1024 nodes has 42 bits.
 */
static bool mpol_reach_enough(const struct mpol_reach *reach, u64 sum,
			      u32 fastest)
{
	return reach->product >= (u64)fastest * reach->weight &&
	       reach->product * LOSS_PARTS >=
	       sum * (LOSS_PARTS - 1) * reach->weight;
}

/**
 * mpol_auto_weights() - Compute interleave weights from the bandwidth of nodes
 * @mbps: bandwidth by node, in any unit; 0 for a node that takes no part
 * @weight: weight by node, written; 0 for a node that takes no part
 * @nr: number of nodes, at most 1024
 * @least: least weight of a node that takes part: 0 leaves out a node that is
 *	   too slow to help, 1 gives such a node one page of a round so long
 *	   that this page does not slow the others, where 255 allows that
 *
 * With @least 0 the result is never slower than the fastest node alone.  With
 * @least 1 neither, where each node has 1/255 of the bandwidth of the fastest.
 *
 * Return: pages of a round, the sum of the weights; 0 without any bandwidth.
 */
u32 mpol_auto_weights(const u32 *mbps, u8 *weight, u32 nr, u8 least)
{
	struct mpol_round round = { .mbps = mbps, .weight = weight, .nr = nr };
	struct mpol_reach best = { .weight = 1 }, now;
	u32 best_pages = 0, fastest = 0, i;
	u64 sum = 0;

	for (i = 0; i < nr; i++) {
		sum += mbps[i];
		fastest = max_t(u32, fastest, mbps[i]);
	}
	mpol_round_start(&round, least);
	if (!sum)
		return 0;
	if (!round.pages)
		mpol_round_add(&round);
	do {
		now = mpol_round_reach(&round);
		if (now.product * best.weight > best.product * now.weight) {
			best = now;
			best_pages = round.pages;
		}
	} while (!mpol_reach_enough(&now, sum, fastest) &&
		 mpol_round_add(&round));

	mpol_round_start(&round, least);
	while (round.pages < best_pages && mpol_round_add(&round))
		;
	return round.pages;
}

/**
 * mpol_stretch_weights() - Make room for a node of unknown bandwidth
 * @weight: weight by node, not all 0
 * @nr: number of nodes
 *
 * Multiply weights until a round has at least MPOL_ROUND_UNKNOWN pages: beside
 * them the weight 1 of a node of unknown bandwidth is a small part.  A product
 * is below 2 * MPOL_ROUND_UNKNOWN.
 */
void mpol_stretch_weights(u8 *weight, u32 nr)
{
	u32 sum = 0, factor, i;

	for (i = 0; i < nr; i++)
		sum += weight[i];
	factor = DIV_ROUND_UP(MPOL_ROUND_UNKNOWN, sum);
	for (i = 0; i < nr; i++)
		weight[i] *= factor;
}
