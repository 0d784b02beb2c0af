// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: limit the rate of migrations to each node (promote/rate_mbps).
 *
 * There is a token bucket for each target; policy.c has the arithmetic.
 *
 * Locking: none; only kmtierd migrates pages.
 */
#include <linux/init.h>
#include <linux/slab.h>

#include "mtier.h"

/* One bucket for each target node. */
static struct mtier_bucket *mtier_buckets;

/**
 * mtier_rate_pay() - Charge migrated bytes to the rate limit of a node.
 * @target: target node of the migration
 * @bytes: bytes to charge; 0 to only get the time
 *
 * Context: kmtierd.
 * Return: ns until the debt of the node is paid, at most a second; 0 if there is
 * none.
 */
u64 mtier_rate_pay(int target, u64 bytes)
{
	u64 rate = (u64)READ_ONCE(mtier_conf.rate_mbps) << 20;
	/* Save up for 1/16 s at most, but always for one huge page. */
	u64 burst = max_t(u64, rate / 16, PMD_SIZE);

	return mtier_bucket_pay(&mtier_buckets[target], ktime_get_ns(), rate,
				burst, bytes);
}

/**
 * mtier_rate_init() - Allocate the buckets, which are never freed.
 *
 * Return: 0 or -ENOMEM.
 */
int __init mtier_rate_init(void)
{
	mtier_buckets = kcalloc(nr_node_ids, sizeof(*mtier_buckets), GFP_KERNEL);
	return mtier_buckets ? 0 : -ENOMEM;
}
