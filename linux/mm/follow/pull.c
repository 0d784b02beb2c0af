// SPDX-License-Identifier: GPL-2.0
/*
 * Migration of marked pages: the hint fault of a marked page moves it.
 *
 * The hint faults are those of NUMA balancing, whose code also works with
 * kernel.numa_balancing at 0.  mpol_misplaced() first calls this file for the target node,
 * for pages with a lazy policy and for pages that a tick has marked.  A page that a tick
 * has marked moves to the home node of the thread that uses it, at the first access: NUMA
 * balancing would wait for a second access, and a mark causes one fault only.  While NUMA
 * balancing marks pages as well, most marks are not ours.  Then the marks on the task's
 * former nodes count as ours, for one interval.
 *
 * After the migration the fault reports the result here, and marked neighbours that
 * should move to the same node for the same reason move with the page.  The fault makes a
 * refused page accessible again, and the page stays on its node.
 *
 * Locks: the fault has the VMA locked; in it, a page table lock.
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

/* ---- the target node ---- */

/* False if the cgroup has opted out of NUMA balancing: then all marks are ours. */
static bool balancing_marks(void)
{
	return READ_ONCE(sysctl_numa_balancing_mode) & NUMA_BALANCING_NORMAL &&
	       !numa_scan_off(current->mm);
}

/* Has a tick marked the page, for this task if NUMA balancing also marks pages? */
static bool is_marked(const struct follow_trip *trip, int nid)
{
	if (!balancing_marks())
		return true;
	return trip->route.lazy && node_isset(nid, trip->route.from) &&
	       time_before(jiffies, trip->until);
}

/* Does a folio that this task uses move to the node of the task? */
static bool folio_follows(const struct numa_follow_task *state,
			  struct folio *folio)
{
	struct numa_follow_limits limits;
	int now = folio_nid(folio), to;

	if (!static_branch_unlikely(&numa_follow_tasks) || !state ||
	    !follow_is_of_program(state))
		return false;
	to = state->place.node;
	/* Not to a node on which the task runs for a moment only */
	if (now == to || numa_node_id() != to || !is_marked(&state->trip, now))
		return false;
	/* Slow memory is promoted by how hot it is, at a limited rate. */
	if (!node_is_toptier(now) || !node_isset(to, cpuset_current_mems_allowed))
		return false;
	return numa_follow_limits_of(current, &limits) &&
	       !follow_shared_folio(folio, limits.max_mapcount);
}

/* With the default policy only: every other policy leaves the page to NUMA balancing. */
static bool starts_pull(const struct mempolicy *pol, struct folio *folio)
{
	struct numa_follow_task *state = current->numa_follow;
	bool pulls = follow_by_default(pol) && folio_follows(state, folio);

	if (state)
		state->pulling = pulls;
	return pulls;
}

/* Only we have marked the page, and it does not follow: NUMA balancing is off. */
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
 * __numa_follow_misplaced() - Find the target node of a marked page
 * @pol: policy of the page
 * @ilx: where interleaving is
 * @folio: folio of a hint fault, under its page table lock
 * @nid: set to the target node; NUMA_NO_NODE: the page stays
 *
 * Return: true if @nid is set, false if NUMA balancing has to decide.
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
		/* NUMA balancing also notes the last user of a page */
		folio_xchg_last_cpupid(folio,
				       cpu_pid_to_cpupid(raw_smp_processor_id(),
							 current->pid));
	else
		to = follow_node(pol, ilx, folio, to);
	if (to != folio_nid(folio))
		*nid = to;
	return true;
}

/* ---- the result of a migration ---- */

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

/* Do other processes map a folio that its policy moves only while they do not? */
static bool is_others(const struct follow_said *said, struct folio *folio)
{
	return !said->all && folio_likely_mapped_shared(folio);
}

/**
 * __numa_follow_prepare() - Isolate a folio that a hint fault will move
 * @vmf: fault
 * @folio: folio, under its page table lock
 * @nid: target node
 *
 * Since the page was marked, other processes may have mapped it.
 *
 * Return: 0 if the folio is isolated and may move; a negative error if it stays.
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
 * __numa_follow_failed() - Account for an isolated folio that did not move
 * @vmf: fault; no page table is locked
 * @nr_pages: pages of the folio
 */
void __numa_follow_failed(struct vm_fault *vmf, int nr_pages)
{
	if (is_pulling() || follow_lazy_at(vmf->vma, vmf->address))
		refused(vmf->address, NUMA_NO_NODE, NUMA_NO_NODE, FOLLOW_BUSY,
			nr_pages);
}

/**
 * numa_follow_promoted() - Count a promotion that NUMA balancing leaves out
 * @lruvec: of the folio, on its new node
 * @from: node that the folio was on
 * @nid: its new node
 * @nr_pages: pages that have moved
 *
 * migrate_misplaced_folio() counts promotions in the mode of memory tiering alone.
 */
void numa_follow_promoted(struct lruvec *lruvec, int from, int nid,
			  unsigned int nr_pages)
{
	if (!(sysctl_numa_balancing_mode & NUMA_BALANCING_MEMORY_TIERING) &&
	    !node_is_toptier(from) && node_is_toptier(nid))
		mod_lruvec_state(lruvec, PGPROMOTE_SUCCESS, nr_pages);
}

/* ---- neighbours ---- */

/* Does a marked neighbour move to @nid for the same reason as the page of the fault? */
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

/* A refused page stays marked: its own fault counts the refusal. */
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
	__acquire(ptl);			/* sparse cannot see it */
	/* The page of the fault has lost its mark. */
	for (addr = w.start, pte = first; addr != w.end;
	     addr += PAGE_SIZE, pte++)
		take(batch, vma, addr, ptep_get(pte));
	pte_unmap_unlock(first, ptl);
}

/**
 * __numa_follow_pulled() - Account for a moved folio, and move its neighbours
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
