// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic migration: a page that was marked is used, and follows.
 *
 * For a task that NUMA balancing knows well, mpol_misplaced() would wait for a
 * second access from the new node, and a mark is good for one only.  So what lies
 * on the node that the task came from moves at once, for one interval.  The fault
 * and the neighbours that it takes along are lazy migration's
 * (mm/lazy_migrate/pull.c); it works with kernel.numa_balancing at 0, too.
 *
 * Locks: the caller has the page table locked; nothing is taken here.
 */
#include <linux/jiffies.h>
#include <linux/memory-tiers.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/topology.h>

#include <trace/events/auto_migrate.h>

#include "../lazy_migrate/count.h"
#include "auto_migrate.h"

/* Does a folio that this task touches follow it to where it is now? */
static bool folio_follows(const struct auto_migrate_task *a,
			  struct folio *folio)
{
	const struct auto_migrate_walk *walk = &a->walk;

	if (!walk->lazy || !auto_migrate_current(a) ||
	    !time_before(jiffies, walk->until))
		return false;
	if (folio_nid(folio) != walk->from || numa_node_id() != a->place.node)
		return false;
	/* Slow memory is promoted by how hot it is, at a limited rate. */
	if (folio_use_access_time(folio))
		return false;
	return !auto_shared_folio(folio, walk->max_mapcount);
}

/**
 * __auto_migrate_follows - Does a page follow the task that touches it?
 * @pol: policy of the page, one that leaves the place to NUMA balancing
 * @folio: folio of a hint fault, under its page table lock
 *
 * Only by the policy of those who have none: what others ask for such a policy
 * with MPOL_F_NUMA_BALANCING has another mode.
 *
 * Return: true if it moves, whoever used it before.
 */
bool __auto_migrate_follows(const struct mempolicy *pol, struct folio *folio)
{
	struct auto_migrate_task *a = &current->auto_migrate;

	a->pulling = pol->mode == MPOL_PREFERRED && folio_follows(a, folio);
	return a->pulling;
}

/**
 * auto_migrate_takes - Does a marked page follow when its neighbour does?
 * @vma: VMA, locked
 * @addr: address of the page
 * @folio: its folio, under its page table lock
 * @nid: where the neighbour went
 *
 * Return: true if it does.
 */
bool auto_migrate_takes(struct vm_area_struct *vma, unsigned long addr,
			struct folio *folio, int nid)
{
	struct auto_migrate_task *a = &current->auto_migrate;

	return a->place.node == nid && folio_follows(a, folio) &&
	       !current->mempolicy && auto_default_policy(vma, addr, folio);
}

/**
 * auto_migrate_pulled - A hint fault has moved a folio
 * @addr: its address
 * @nid: where it is now
 * @pages: pages of it
 * @neighbour: it came along with another one
 *
 * Return: true if it was one that follows its task: it is counted.
 */
bool auto_migrate_pulled(unsigned long addr, int nid, unsigned long pages,
			 bool neighbour)
{
	if (!current->auto_migrate.pulling)
		return false;
	count_follow_events(NUMA_AUTOMIG_PULLED, pages);
	trace_auto_migrate_pull(addr, nid, pages, neighbour);
	return true;
}
