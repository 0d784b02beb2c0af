// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that follow, by faults: whose a file is, and how fast pages may come to a node.
 *
 * Files are used by many.  So that tasks of two nodes do not carry a page back and
 * forth, a file has a home: the node where a fault wanted its pages last.  It has
 * another one only when nobody at home has wanted them for HOME_QUIET_S.  Homes are
 * found in a table in which a file may take another one's place: then that one's
 * is forgotten, and it may move once more.  Anonymous memory has no need of it:
 * to be mapped by nobody again, it has to be swapped out first.
 *
 * Locks: that of one home, or of all rates; none of them is held while a folio moves.
 */
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/numa.h>
#include <linux/spinlock.h>
#include <linux/sysctl.h>

#include "follow.h"

#define HOME_QUIET_S	60

#define MBPS_DEFAULT	256
#define MBPS_MAX	1048576

struct follow_home_slot follow_homes[1 << FOLLOW_HOME_BITS];

static unsigned int rate_mbps = MBPS_DEFAULT;
static DEFINE_SPINLOCK(rate_lock);
static struct follow_rate rates[MAX_NUMNODES];

/**
 * __follow_may_claim - May a file's pages be wanted somewhere?
 * @slot: where the file is looked up
 * @key: the file
 * @claim: where; follow_claim_of()
 * @use: if so, they are
 *
 * Return: true unless they were wanted elsewhere a moment ago.
 */
noinline bool __follow_may_claim(struct follow_home_slot *slot,
				 unsigned long key, unsigned int claim,
				 bool use)
{
	unsigned long now = jiffies;
	bool may;

	spin_lock(&slot->lock);
	may = follow_home_free(&slot->home, key, claim, now, HOME_QUIET_S * HZ);
	if (may && use)
		follow_home_take(&slot->home, key, claim, now);
	spin_unlock(&slot->lock);
	return may;
}

/* Pages that may come to a node within a second */
static unsigned long rate_limit(void)
{
	return READ_ONCE(rate_mbps) * (1UL << (20 - PAGE_SHIFT));
}

/**
 * follow_rate_take - May more pages come to a node now?
 * @nid: the node
 * @nr_pages: so many
 *
 * Return: true if they may; follow_rate_return() if then they do not come.
 */
bool follow_rate_take(int nid, unsigned long nr_pages)
{
	bool takes;

	spin_lock(&rate_lock);
	takes = follow_rate_takes(&rates[nid], jiffies, HZ, rate_limit(),
				  nr_pages);
	spin_unlock(&rate_lock);
	return takes;
}

/**
 * follow_rate_return - Pages that were to come to a node have not
 * @nid: the node
 * @nr_pages: so many
 */
void follow_rate_return(int nid, unsigned long nr_pages)
{
	spin_lock(&rate_lock);
	follow_rate_returns(&rates[nid], jiffies, HZ, nr_pages);
	spin_unlock(&rate_lock);
}

/**
 * follow_rate_left - Would follow_rate_take() say yes?
 * @nid: the node
 * @nr_pages: so many
 *
 * Return: true if so, unless somebody else is faster.
 */
bool follow_rate_left(int nid, unsigned long nr_pages)
{
	return follow_rate_has(&rates[nid], jiffies, HZ, rate_limit(), nr_pages);
}

static unsigned int mbps_max = MBPS_MAX;

static struct ctl_table follow_sysctls[] = {
	{
		.procname	= "migrate_on_fault_mbps",
		.data		= &rate_mbps,
		.maxlen		= sizeof(rate_mbps),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ONE,
		.extra2		= &mbps_max,
	},
};

static int __init follow_home_init(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(follow_homes); i++)
		spin_lock_init(&follow_homes[i].lock);
	register_sysctl_init("vm", follow_sysctls);
	return 0;
}
late_initcall(follow_home_init);
