// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: how fast pages may come to a node (promote/rate_mbps).
 *
 * A token bucket per target; policy.c does the sums.
 *
 * Locking: none; kmtierd alone moves pages.
 */
#include <linux/init.h>
#include <linux/slab.h>

#include "mtier.h"

/* By node that pages go to. */
static struct mtier_bucket *mtier_buckets;

/**
 * mtier_rate_pay() - pay for what was moved
 * @target: the node it went to
 * @bytes: what is to be paid; 0 to ask again
 *
 * Context: kmtierd.
 * Return: ns until nothing is owed for that node, at most a second; 0 if nothing is.
 */
u64 mtier_rate_pay(int target, u64 bytes)
{
	u64 rate = (u64)READ_ONCE(mtier_conf.rate_mbps) << 20;
	/* What a sixteenth of a second allows, but a huge page always. */
	u64 burst = max_t(u64, rate / 16, PMD_SIZE);

	return mtier_bucket_pay(&mtier_buckets[target], ktime_get_ns(), rate,
				burst, bytes);
}

/**
 * mtier_rate_init() - allocate what lives as long as the kernel
 *
 * Return: 0 or -ENOMEM.
 */
int __init mtier_rate_init(void)
{
	mtier_buckets = kcalloc(nr_node_ids, sizeof(*mtier_buckets), GFP_KERNEL);
	return mtier_buckets ? 0 : -ENOMEM;
}
