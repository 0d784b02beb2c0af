// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: hint faults as a source of hot pages.
 *
 * With the tiering mode of NUMA balancing the kernel takes away access rights to
 * pages of slow nodes, and the fault tells how soon after that a page is used.
 * What fair.c finds hot by that, with a threshold that follows the rate, it has
 * the fault move: alone, while the application waits. While the engine runs the
 * fault only says that the page is hot. It waits with those that the scanner has
 * found, moves with them, in batches, by the same mover, is asked the same
 * questions and paid for from the same rate.
 *
 * The scanner knows that a page was used since its last look, a fault how soon
 * after its rights were taken away: it is taken at its word (mtier_rec_told()).
 *
 * Who faults cannot see to it that older pages make room in the queue, as he holds
 * a page table lock. If there is no room the page stays as it is until the next
 * fault, or until the scanner finds it.
 *
 * Locking: called under a page table lock; below it that of the ranges.
 */
#include <linux/cpuset.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <trace/events/mtier.h>

#include "eligible.h"
#include "mtier.h"

/* The nearest to where it is used, of the nodes that its own feeds. */
static int mtier_hint_target(const nodemask_t *up, int here)
{
	int forced = READ_ONCE(mtier_conf.target_node);

	if (forced != NUMA_NO_NODE)
		return forced;
	return node_isset(here, *up) ? here : mtier_nearest(here, up);
}

/*
 * Has somebody said where it may lie? Then no other node than that of the fault
 * is tried; whether it may go there is asked when it moves.
 */
static bool mtier_hint_strict(struct vm_area_struct *vma, const nodemask_t *up)
{
	return vma->vm_policy || current->mempolicy ||
	       !nodes_subset(*up, cpuset_current_mems_allowed) ||
	       READ_ONCE(mtier_conf.target_node) != NUMA_NO_NODE;
}

/**
 * __mtier_hint_fault() - have a page wait that a hint fault finds hot
 * @vma: VMA of the fault
 * @addr: address of the page
 * @folio: its folio, mapped there
 * @here: node that the fault would move it to
 *
 * Context: a fault of one of the users of the mm, under the page table lock.
 * Return: false if that is none of the engine's business: the page does not move
 * because it is hot, or its node has none above.
 */
bool __mtier_hint_fault(struct vm_area_struct *vma, unsigned long addr,
			struct folio *folio, int here)
{
	int nid = folio_nid(folio), target;
	struct mtier_hot_params params;
	struct mtier_range_key at;
	nodemask_t up;
	u32 now;

	if (!folio_use_access_time(folio) || !mtier_node_is_slow(nid))
		return false;
	up = mtier_node_up(nid);
	target = mtier_hint_target(&up, here);
	if (target == NUMA_NO_NODE)
		return false;
	count_vm_event(MTIER_HINT_FAULTS);
	if (!mtier_vma_eligible(vma) ||
	    mtier_folio_stays(folio, vma) != MTIER_MAY)
		return true;
	now = mtier_now_tick();
	params = mtier_hot_params_for(target);
	mtier_hot_told(folio_pfn(folio), now, &params);
	if (folio_likely_mapped_shared(folio) &&
	    !mtier_hot_claim(folio_pfn(folio), now))
		return true;
	at = mtier_range_at(vma->vm_mm, addr, target,
			    mtier_hint_strict(vma, &up));
	if (!mtier_promote_note(nid, &at, mtier_range_page(addr), now,
				params.full, true))
		return true;
	mtier_hot_candidate(folio_nr_pages(folio));
	trace_mtier_hot(folio_pfn(folio), nid, target, params.accesses);
	return true;
}

/**
 * mtier_rate_mbps() - the limit that pages are promoted at
 *
 * Return: the knob promote/rate_mbps, MiB/s for each node.
 */
unsigned int mtier_rate_mbps(void)
{
	return READ_ONCE(mtier_conf.rate_mbps);
}
