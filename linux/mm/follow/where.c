// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that follow: on which node a page belongs.
 *
 * The one answer for all who move pages here: by the policy of the page, as the
 * allocator would go by it now, for the task that asks.  A page that its policy allows
 * where it is stays.  Nothing goes where the task may have no memory.
 *
 * mpol_misplaced() asks for lazy policies, and for pages that follow their task; what
 * NUMA balancing has found goes by its own answer.  Whether a page may go to another
 * tier is not asked here but by promotion, which has no task (mm/mtier/eligible.c); the
 * policy of the page is found in the same way (get_page_policy()).
 *
 * Locks: the caller has the VMA locked; nothing is taken here but references.
 */
#include <linux/cpuset.h>
#include <linux/file_policy.h>
#include <linux/memory-tiers.h>
#include <linux/mempolicy.h>
#include <linux/mempolicy2.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/topology.h>

#include "follow.h"

static int nearest(int nid, nodemask_t *nodes)
{
	struct zoneref *z;

	z = first_zones_zonelist(node_zonelist(nid, GFP_HIGHUSER),
				 gfp_zone(GFP_HIGHUSER), nodes);
	return zonelist_zone(z) ? zonelist_node_idx(z) : NUMA_NO_NODE;
}

/* Before it is asked whether there is memory */
static int wanted(struct mempolicy *pol, pgoff_t ilx, int now, int here)
{
	int nid = here;
	nodemask_t *nodes;

	nodes = policy_nodemask(GFP_HIGHUSER_MOVABLE, pol, ilx, &nid);
	/* The allocator, too, searches from the node that this has set: the home node. */
	if (nodes)
		return node_isset(now, *nodes) ? now : nearest(nid, nodes);
	/* Slow memory is promoted by how hot it is, at a limited rate. */
	if (follow_by_default(pol) && !node_is_toptier(now))
		return now;
	return nid;
}

/**
 * follow_node - On which node belongs a page?
 * @pol: its policy
 * @ilx: where interleaving is; get_page_policy()
 * @folio: its folio
 * @here: node of the CPU that uses it
 *
 * Return: the node; the one where it is if there is no better one.
 */
int follow_node(struct mempolicy *pol, pgoff_t ilx, struct folio *folio,
		int here)
{
	int now = folio_nid(folio);
	int to = wanted(pol, ilx, now, here);

	if (to == NUMA_NO_NODE || !node_state(to, N_MEMORY) ||
	    !node_isset(to, cpuset_current_mems_allowed))
		return now;
	return to;
}

/**
 * follow_claim_of - Where does a policy want all pages, wherever each one is?
 * @pol: the policy
 * @here: node of the CPU that uses them
 *
 * Return: a node, or a number that stands for several, and the shares that they have.
 */
unsigned int follow_claim_of(const struct mempolicy *pol, int here)
{
	unsigned int nodes = 0;
	int n;

	if (follow_by_default(pol) || pol->mode == MPOL_LOCAL)
		return here;
	if (nodes_weight(pol->nodes) == 1)
		return first_node(pol->nodes);
	for_each_node_mask(n, pol->nodes)
		nodes = nodes * 31 + n + 1;
	nodes = nodes * 31 + pol->mode;
	nodes = nodes * 31 + pol->home_node + 1;
	return MAX_NUMNODES + hash_32(nodes ^ mpol2_hash(pol), 30);
}

/**
 * follow_said_at - What does the policy of a page say of it?
 * @vma: VMA that maps it, locked
 * @addr: where
 * @folio: its folio
 *
 * Return: what it says to the current task, on this CPU; where the page should be
 * only if the policy came with MPOL_MF_LAZY.
 */
struct follow_said follow_said_at(struct vm_area_struct *vma,
				  unsigned long addr, struct folio *folio)
{
	struct follow_said said = { .to = folio_nid(folio) };
	struct mempolicy *pol;
	pgoff_t ilx;

	pol = get_page_policy(vma, addr, folio_test_anon(folio),
			      folio_order(folio), &ilx);
	if (pol->flags & MPOL_F_LAZY) {
		said.lazy = true;
		said.local = pol->mode == MPOL_LOCAL;
		said.all = pol->flags & MPOL_F_LAZY_ALL;
		said.to = follow_node(pol, ilx, folio, numa_node_id());
	}
	mpol_cond_put(pol);
	return said;
}

static bool is_lazy(struct vm_area_struct *vma, unsigned long addr, bool anon)
{
	struct mempolicy *pol;
	pgoff_t ilx;
	bool lazy;

	pol = get_page_policy(vma, addr, anon, 0, &ilx);
	lazy = pol->flags & MPOL_F_LAZY;
	mpol_cond_put(pol);
	return lazy;
}

/**
 * follow_lazy_at - Is there a policy that came with MPOL_MF_LAZY?
 * @vma: VMA, locked
 * @addr: address in it, whose page is not known any more
 *
 * Return: true if so, be it the VMA's or the file's that it maps privately.
 */
bool follow_lazy_at(struct vm_area_struct *vma, unsigned long addr)
{
	return is_lazy(vma, addr, true) || is_lazy(vma, addr, false);
}

/**
 * follow_unbound - Has a page no policy but that of the task?
 * @vma: VMA that maps it, locked
 * @addr: where
 * @folio: its folio
 *
 * Return: true if neither the VMA nor what it maps has one.
 */
bool follow_unbound(struct vm_area_struct *vma, unsigned long addr,
		    struct folio *folio)
{
	struct mempolicy *pol;
	pgoff_t ilx;

	pol = get_own_page_policy(vma, addr, folio_test_anon(folio), &ilx);
	if (!pol)
		return true;
	mpol_cond_put(pol);
	return false;
}
