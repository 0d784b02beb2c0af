// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: how fast pages may come to a node (promote/rate_mbps).
 *
 * A token bucket per target; policy.c does the sums.
 *
 * Locking: mtier_dest.lock guards a bucket; innermost.
 */
#include <linux/init.h>
#include <linux/slab.h>

#include "mtier.h"

/**
 * struct mtier_dest - what is known of a node that pages go to
 * @lock: guards @bucket
 * @bucket: the rate limit
 */
struct mtier_dest {
	spinlock_t lock;	/* bucket; innermost */
	struct mtier_bucket bucket;
};

static struct mtier_dest *mtier_dests;

/**
 * mtier_rate_pay() - pay for what was moved
 * @target: the node it went to
 * @bytes: what is to be paid; 0 to ask again
 *
 * Return: ns until nothing is owed for that node, at most a second; 0 if nothing is.
 */
u64 mtier_rate_pay(int target, u64 bytes)
{
	u64 rate = (u64)READ_ONCE(mtier_conf.rate_mbps) << 20;
	struct mtier_dest *dest = &mtier_dests[target];
	/* What a sixteenth of a second allows, but a huge page always. */
	u64 wait, burst = max_t(u64, rate / 16, PMD_SIZE);

	spin_lock(&dest->lock);
	wait = mtier_bucket_pay(&dest->bucket, ktime_get_ns(), rate, burst,
				bytes);
	spin_unlock(&dest->lock);
	return wait;
}

/**
 * mtier_rate_init() - allocate what lives as long as the kernel
 *
 * Return: 0 or -ENOMEM.
 */
int __init mtier_rate_init(void)
{
	int nid;

	mtier_dests = kcalloc(nr_node_ids, sizeof(*mtier_dests), GFP_KERNEL);
	if (!mtier_dests)
		return -ENOMEM;
	for (nid = 0; nid < nr_node_ids; nid++)
		spin_lock_init(&mtier_dests[nid].lock);
	return 0;
}
