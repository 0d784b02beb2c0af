// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: how fast pages may come to a node (knob migrate/rate_mbps).
 *
 * A token bucket per target, shared by all migrators that feed it; policy.c does
 * the sums.
 *
 * Locking: mtier_dest.lock guards a bucket; innermost.
 */
#include <linux/init.h>
#include <linux/slab.h>

#include "mtier.h"

/**
 * struct mtier_dest - what is shared by all migrators that feed a node
 * @lock: guards @bucket
 * @bucket: the rate limit
 */
struct mtier_dest {
	spinlock_t lock;	/* bucket; innermost */
	struct mtier_bucket bucket;
};

static struct mtier_dest *mtier_dests;

/**
 * mtier_rate_take() - pay for what was moved, as far as the rate covers it
 * @target: the node it went to
 * @bytes: what is to be paid; lowered by what could be
 *
 * Return: ns until the rest can be paid, at most a second; 0 if all is.
 */
u64 mtier_rate_take(int target, u64 *bytes)
{
	u64 rate = (u64)READ_ONCE(mtier_conf.rate_mbps) << 20;
	u64 burst = mtier_bucket_burst(rate, PMD_SIZE);
	struct mtier_dest *dest = &mtier_dests[target];
	u64 wait = 0;

	spin_lock(&dest->lock);
	*bytes -= mtier_bucket_take(&dest->bucket, ktime_get_ns(), rate, burst,
				    *bytes);
	if (*bytes)
		wait = mtier_bucket_wait_ns(&dest->bucket, ktime_get_ns(),
					    rate, burst, *bytes);
	spin_unlock(&dest->lock);
	return min_t(u64, wait, NSEC_PER_SEC);
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
	for (nid = 0; nid < nr_node_ids; nid++) {
		spin_lock_init(&mtier_dests[nid].lock);
		mtier_bucket_init(&mtier_dests[nid].bucket, ktime_get_ns());
	}
	return 0;
}
