// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic NUMA migration: the target node of a page.
 *
 * All callers that move pages here use this file. The target is the node on which the
 * allocator would now place the page under its policy, for the current task. A page stays
 * if its policy allows the present node. No page moves to a node that the task may not
 * use.
 *
 * mpol_misplaced() calls this file for lazy policies, and for pages that move with their
 * task; hints of NUMA balancing are decided by mpol_misplaced() itself. Promotion, which
 * has no task, decides separately about other tiers (mm/mtier/eligible.c); both find the
 * policy of a page with get_page_policy().
 *
 * Locking: the caller has the VMA locked. This file takes references only.
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

/* The target node, without a check that it has memory */
static int wanted(struct mempolicy *pol, pgoff_t ilx, int now, int here)
{
	int nid = here;
	nodemask_t *nodes;

	nodes = policy_nodemask(GFP_HIGHUSER_MOVABLE, pol, ilx, &nid);
	/*
	 * The search starts at the home node of the policy (in @nid), as in the
	 * allocator.
	 */
	if (nodes)
		return node_isset(now, *nodes) ? now : nearest(nid, nodes);
	/* Slow memory is promoted by its heat, at a limited rate. */
	if (follow_by_default(pol) && !node_is_toptier(now))
		return now;
	return nid;
}

/**
 * follow_node() - Get the target node of a page
 * @pol: its policy
 * @ilx: interleave index; get_page_policy()
 * @folio: its folio
 * @here: node of the CPU that uses it
 *
 * Return: the node; the present node if no other one is better.
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
 * follow_claim_of() - Get the nodes of a policy as one number
 * @pol: the policy
 * @here: node of the CPU that uses the pages
 *
 * Return: a node, or a hash of several nodes, the mode and the weights.
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
 * follow_said_at() - Get the request of a page's policy
 * @vma: VMA that maps the page, locked
 * @addr: address of the page
 * @folio: its folio
 *
 * Return: the request for the current task, on this CPU. Its target node is valid only if
 * the policy was set with MPOL_MF_LAZY.
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
 * follow_lazy_at() - Check for a policy that was set with MPOL_MF_LAZY
 * @vma: VMA, locked
 * @addr: address in it, whose page is not known
 *
 * Return: true if the VMA has such a policy, or a file that it maps privately.
 */
bool follow_lazy_at(struct vm_area_struct *vma, unsigned long addr)
{
	return is_lazy(vma, addr, true) || is_lazy(vma, addr, false);
}

/**
 * follow_unbound() - Check whether a page has no policy but that of the task
 * @vma: VMA that maps it, locked
 * @addr: address of the page
 * @folio: its folio
 *
 * Return: true if neither the VMA nor the file has a policy.
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
