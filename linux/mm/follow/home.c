// SPDX-License-Identifier: GPL-2.0
/*
 * Migration on faults: the home node of a file, and the rate limit of each node.
 *
 * Many tasks use a file.  A home keeps tasks on two nodes from moving a page back and
 * forth: it is the node where a fault wanted pages of the file last.  The home changes
 * only after FOLLOW_HOME_QUIET_S without such a fault at home.  Homes are in a hash table
 * without chains: a file can replace another one there, whose pages may then move once
 * more.  Anonymous memory needs no home: its pages are unmapped only by swap-out.
 *
 * Faults on pages that stay are cheap.  They skip a node that refused a page a moment
 * ago, since it was full or at its rate limit, and read homes without a lock: a race
 * with a change misjudges one fault.
 *
 * Locks: that of one home, or of all rates; none of them is held while a folio moves.
 */
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/numa.h>
#include <linux/spinlock.h>
#include <linux/sysctl.h>

#include "follow.h"

/* Faults skip a node that refused a page for this time; jiffies */
#define STALL		max(HZ / 10, 1)

#define MBPS_DEFAULT	256
#define MBPS_MAX	1048576

struct follow_home_slot follow_homes[1 << FOLLOW_HOME_BITS];
/* Faults skip each node until then; jiffies */
unsigned long follow_stalls[MAX_NUMNODES];

static unsigned int rate_mbps = MBPS_DEFAULT;
static DEFINE_SPINLOCK(rate_lock);
static struct follow_rate rates[MAX_NUMNODES];

/**
 * __follow_may_claim() - Set or renew the home of a file
 * @slot: slot of the file in the table
 * @key: the file
 * @claim: the home; follow_claim_of()
 *
 * Return: true if set; false if the file has another home, which stays.
 */
noinline bool __follow_may_claim(struct follow_home_slot *slot,
				 unsigned long key, unsigned int claim)
{
	unsigned long now = jiffies;
	bool may;

	spin_lock(&slot->lock);
	may = follow_home_free(&slot->home, key, claim, now,
			       FOLLOW_HOME_QUIET_S * HZ);
	if (may)
		follow_home_take(&slot->home, key, claim, now);
	spin_unlock(&slot->lock);
	return may;
}

/**
 * follow_stall() - Let faults skip a node that refused a page
 * @nid: the node
 */
void follow_stall(int nid)
{
	WRITE_ONCE(follow_stalls[nid], jiffies + STALL);
}

/* Pages that may come to a node within a second */
static unsigned long rate_limit(void)
{
	return READ_ONCE(rate_mbps) * (1UL << (20 - PAGE_SHIFT));
}

/**
 * follow_rate_take() - Take pages from the rate limit of a node
 * @nid: the node
 * @nr_pages: number of pages
 *
 * Return: true if they were taken; the caller returns them with follow_rate_return() if
 * they do not move.
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
 * follow_rate_return() - Return pages to the rate limit of a node
 * @nid: the node
 * @nr_pages: number of pages
 */
void follow_rate_return(int nid, unsigned long nr_pages)
{
	spin_lock(&rate_lock);
	follow_rate_returns(&rates[nid], jiffies, HZ, nr_pages);
	spin_unlock(&rate_lock);
}

/**
 * follow_rate_left() - Check the rate limit of a node
 * @nid: the node
 * @nr_pages: number of pages
 *
 * Return: true if follow_rate_take() would succeed now.
 */
bool follow_rate_left(int nid, unsigned long nr_pages)
{
	return follow_rate_has(&rates[nid], jiffies, HZ, rate_limit(), nr_pages);
}

static void follow_stalls_end(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(follow_stalls); i++)
		WRITE_ONCE(follow_stalls[i], jiffies);
}

/* Apply a new rate at once: no node is skipped any longer. */
static int mbps_handler(const struct ctl_table *table, int write, void *buffer,
			size_t *lenp, loff_t *ppos)
{
	int ret = proc_douintvec_minmax(table, write, buffer, lenp, ppos);

	if (!ret && write)
		follow_stalls_end();
	return ret;
}

static unsigned int mbps_max = MBPS_MAX;

static struct ctl_table follow_sysctls[] = {
	{
		.procname	= "migrate_on_fault_mbps",
		.data		= &rate_mbps,
		.maxlen		= sizeof(rate_mbps),
		.mode		= 0644,
		.proc_handler	= mbps_handler,
		.extra1		= SYSCTL_ONE,
		.extra2		= &mbps_max,
	},
};

static int __init follow_home_init(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(follow_homes); i++)
		spin_lock_init(&follow_homes[i].lock);
	/* Jiffies begin before 0. */
	follow_stalls_end();
	register_sysctl_init("vm", follow_sysctls);
	return 0;
}
late_initcall(follow_home_init);
