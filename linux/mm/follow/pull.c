// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that follow: a page that was marked is used, and moves.
 *
 * The hint fault is NUMA balancing's, which works with kernel.numa_balancing at 0, too.
 * mpol_misplaced() asks here first where the page should be: for lazy policies, and for
 * what a tick has marked.  The latter moves to the home of whichever thread uses it, at
 * the first access: NUMA balancing would wait for a second one, and a mark is good for
 * one only.  While that marks pages, too, most marks are its own, so ours are those where
 * the task has come from, for one interval.
 *
 * Then it is told here what became of the page, and marked neighbours that should go to
 * the same node, for the same reason, go along.  What is refused is made accessible
 * again by the fault and stays where it is.
 *
 * Locks: the VMA is locked by the fault; in it, a page table lock.
 */
#include <linux/cpuset.h>
#include <linux/jiffies.h>
#include <linux/memory-tiers.h>
#include <linux/mempolicy.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/numa_scan.h>
#include <linux/sched.h>
#include <linux/sched/sysctl.h>
#include <linux/stale_cpupid.h>
#include <linux/topology.h>

#include <trace/events/numa_follow.h>

#include "../internal.h"
#include "follow.h"

/* A lazy policy can move a folio with a time in its flags from slow memory to fast. */
static_assert(STALE_CPUPID);

/* ---- where it should be ---- */

/* Not where a cgroup has opted out: all marks are ours then. */
static bool balancing_marks(void)
{
	return READ_ONCE(sysctl_numa_balancing_mode) & NUMA_BALANCING_NORMAL &&
	       !numa_scan_off(current->mm);
}

/* Has a tick marked it, for this task if NUMA balancing marks pages, too? */
static bool is_marked(const struct follow_trip *trip, int nid)
{
	if (!balancing_marks())
		return true;
	return trip->route.lazy && node_isset(nid, trip->route.from) &&
	       time_before(jiffies, trip->until);
}

/* Does a folio that this task touches follow it to where it is now? */
static bool folio_follows(const struct numa_follow_task *state,
			  struct folio *folio)
{
	struct numa_follow_limits limits;
	int now = folio_nid(folio), to;

	if (!static_branch_unlikely(&numa_follow_tasks) || !state ||
	    !follow_is_of_program(state))
		return false;
	to = state->place.node;
	/* Not to where it is for a moment only */
	if (now == to || numa_node_id() != to || !is_marked(&state->trip, now))
		return false;
	/* Slow memory is promoted by how hot it is, at a limited rate. */
	if (!node_is_toptier(now) || !node_isset(to, cpuset_current_mems_allowed))
		return false;
	return numa_follow_limits_of(current, &limits) &&
	       !follow_shared_folio(folio, limits.max_mapcount);
}

/* Only by the policy of those who have none: others ask for NUMA balancing. */
static bool starts_pull(const struct mempolicy *pol, struct folio *folio)
{
	struct numa_follow_task *state = current->numa_follow;
	bool pulls = follow_by_default(pol) && folio_follows(state, folio);

	if (state)
		state->pulling = pulls;
	return pulls;
}

/* Nobody but us has marked it, and it does not follow: off is off. */
static bool stays(const struct mempolicy *pol, struct folio *folio)
{
	return follow_by_default(pol) && !balancing_marks() &&
	       !folio_use_access_time(folio);
}

static bool is_pulling(void)
{
	const struct numa_follow_task *state = current->numa_follow;

	return state && state->pulling;
}

/**
 * __numa_follow_misplaced - Is it for us to say where a page should be?
 * @pol: policy of the page
 * @ilx: where interleaving is
 * @folio: folio of a hint fault, under its page table lock
 * @nid: set to the node if so; NUMA_NO_NODE: where it is
 *
 * Return: true if it is: NUMA balancing is not asked.
 */
bool __numa_follow_misplaced(struct mempolicy *pol, pgoff_t ilx,
			     struct folio *folio, int *nid)
{
	bool pulls = starts_pull(pol, folio);
	int to = numa_node_id();

	*nid = NUMA_NO_NODE;
	if (!pulls && !(pol->flags & MPOL_F_LAZY))
		return stays(pol, folio);
	count_vm_events(NUMA_FOLLOW_CHECKED, folio_nr_pages(folio));
	if (pulls)
		/* As NUMA balancing notes who has used a page last */
		folio_xchg_last_cpupid(folio,
				       cpu_pid_to_cpupid(raw_smp_processor_id(),
							 current->pid));
	else
		to = follow_node(pol, ilx, folio, to);
	if (to != folio_nid(folio))
		*nid = to;
	return true;
}

/* ---- what became of it ---- */

static void refused(unsigned long addr, int from, int nid,
		    enum follow_verdict reason, unsigned long pages)
{
	follow_count(NUMA_FOLLOW_REFUSED_DIRTY + reason, pages);
	trace_numa_follow_use(addr, is_pulling(), nid, false, reason, pages);
	if (is_pulling() && (reason == FOLLOW_NOMEM || reason == FOLLOW_BUSY))
		follow_stayed(from, pages);
}

static void pulled(unsigned long addr, int nid, unsigned long pages,
		   bool neighbour)
{
	follow_count(NUMA_FOLLOW_PULLED, pages);
	trace_numa_follow_use(addr, is_pulling(), nid, neighbour, FOLLOW_TAKE,
			      pages);
	if (is_pulling())
		current->numa_follow->trip.moved = true;
}

/* Others map a folio, and its policy asks only for what they do not. */
static bool is_others(const struct follow_said *said, struct folio *folio)
{
	return !said->all && folio_likely_mapped_shared(folio);
}

/**
 * __numa_follow_prepare - A hint fault is about to move a folio
 * @vmf: fault
 * @folio: folio, under its page table lock
 * @nid: where it should be
 *
 * What was of one process when it was marked may be of several by now.
 *
 * Return: 0 if it may, and is isolated; else it stays.
 */
int __numa_follow_prepare(struct vm_fault *vmf, struct folio *folio, int nid)
{
	struct vm_area_struct *vma = vmf->vma;
	struct follow_said said = follow_said_at(vma, vmf->address, folio);
	enum follow_verdict reason = FOLLOW_SHARED;
	int err = -EACCES;

	if (!said.lazy || !is_others(&said, folio)) {
		err = migrate_misplaced_folio_prepare(folio, vma, nid);
		if (!err || (!said.lazy && !is_pulling()))
			return err;
		reason = follow_refusal(vma, folio);
	}
	refused(vmf->address, folio_nid(folio), nid, reason,
		folio_nr_pages(folio));
	return err;
}

/**
 * __numa_follow_failed - A hint fault could not move what was isolated
 * @vmf: fault; no page table is locked
 * @nr_pages: pages of the folio
 */
void __numa_follow_failed(struct vm_fault *vmf, int nr_pages)
{
	if (is_pulling() || follow_lazy_at(vmf->vma, vmf->address))
		refused(vmf->address, NUMA_NO_NODE, NUMA_NO_NODE, FOLLOW_BUSY,
			nr_pages);
}

/* ---- what goes along ---- */

/* Does a marked neighbour go to @nid, for the same reason as the page touched? */
static bool goes_along(struct vm_area_struct *vma, unsigned long addr,
		       struct folio *folio, int nid)
{
	const struct numa_follow_task *state = current->numa_follow;
	struct follow_said said;

	if (is_pulling())
		return state->place.node == nid &&
		       folio_follows(state, folio) && !current->mempolicy &&
		       follow_unbound(vma, addr, folio);
	said = follow_said_at(vma, addr, folio);
	return said.lazy && said.to == nid && said.to != folio_nid(folio) &&
	       !is_others(&said, folio);
}

/* What is refused stays marked: its own fault will count it. */
static void take(struct follow_batch *batch, struct vm_area_struct *vma,
		 unsigned long addr, pte_t pte)
{
	struct folio *folio;

	if (!pte_present(pte) || !pte_protnone(pte))
		return;
	folio = vm_normal_folio(vma, addr, pte);
	if (folio && !folio_is_zone_device(folio) &&
	    goes_along(vma, addr, folio, batch->to))
		follow_isolate(batch, vma, folio);
}

static void take_neighbours(struct follow_batch *batch, struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct follow_window w = follow_batch_window(vmf->address, vma->vm_start,
						     vma->vm_end);
	unsigned long addr;
	pte_t *first, *pte;
	spinlock_t *ptl;	/* of the page table of the fault */

	first = pte_offset_map_lock(vma->vm_mm, vmf->pmd, w.start, &ptl);
	if (!first)
		return;
	__acquire(ptl);			/* which sparse cannot see */
	/* The page of the fault is no longer marked. */
	for (addr = w.start, pte = first; addr != w.end;
	     addr += PAGE_SIZE, pte++)
		take(batch, vma, addr, ptep_get(pte));
	pte_unmap_unlock(first, ptl);
}

/**
 * __numa_follow_pulled - A hint fault has moved a folio
 * @vmf: fault; no page table is locked
 * @nr_pages: pages of the folio
 * @nid: where it is now
 */
void __numa_follow_pulled(struct vm_fault *vmf, int nr_pages, int nid)
{
	struct follow_batch batch = {
		.folios = LIST_HEAD_INIT(batch.folios),
		.from = NUMA_NO_NODE,
		.to = nid,
	};
	unsigned long moved;

	if (!is_pulling() && !follow_lazy_at(vmf->vma, vmf->address))
		return;
	pulled(vmf->address, nid, nr_pages, false);
	take_neighbours(&batch, vmf);
	count_vm_events(NUMA_FOLLOW_CHECKED, batch.nr_pages);
	moved = follow_move(&batch);
	if (moved)
		pulled(vmf->address, nid, moved, true);
}
