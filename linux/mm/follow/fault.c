// SPDX-License-Identifier: GPL-2.0
/*
 * Migration on faults: a page fault moves a page that is not mapped yet.
 *
 * The page is in the swap cache or the page cache, on the node of the CPU that read it
 * first.  If its policy wants another node (where.c), the fault moves it before it maps
 * it: no page table and no TLB has an entry to change, and the fault waits for the page
 * in any case.  read() and write() move nothing.  Files have a home node, and the rate
 * of pages to each node is limited (home.c).
 *
 * Faults call this code with the page locked.  A page without policy on the node of the
 * CPU is in its place, and no other check is made.  After a move the fault looks the page
 * up again.
 *
 * Fault-around maps the neighbours of a page under RCU and the page table lock, where
 * nothing can move.  It skips pages that should move and can: each of them takes a fault
 * later, and moves in that fault.  Pages that cannot move now, since the node is full or
 * the rate limit is reached, are mapped with the others.
 *
 * Locks: the caller has the VMA locked.  In it: the page table lock and RCU, for
 * fault-around only; then what home.c takes.
 */
#include <linux/dax.h>
#include <linux/file_policy.h>
#include <linux/fs.h>
#include <linux/mempolicy.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/pagemap.h>
#include <linux/shmem_fs.h>
#include <linux/swap.h>
#include <linux/swapops.h>

#include <trace/events/numa_follow.h>

#include "../internal.h"
#include "../swap.h"
#include "follow.h"

/**
 * struct look - a folio that a fault is about to map
 * @vma: VMA of the fault
 * @addr: address of the fault
 * @folio: the folio; the caller has a reference
 * @kind: anonymous, shared memory or file
 * @explicit: the folio or the task has a policy
 * @mapped: a page table maps the folio already
 * @seen: state that decides whether the folio can move
 * @key: identifies the file, which has a home, or the swap device
 * @index: offset in the file or the swap device
 * @to: target node
 * @claim: home that the policy stands for; follow_claim_of()
 * @agreed: the file's policy names the nodes, for all tasks that use the file
 */
struct look {
	struct vm_area_struct *vma;
	unsigned long addr;
	struct folio *folio;
	enum follow_kind kind;
	bool explicit;
	bool mapped;
	struct follow_seen seen;
	unsigned long key;
	unsigned long index;
	int to;
	unsigned int claim;
	bool agreed;
};

static void find_place(struct look *l)
{
	/* Read once: the task may run on another CPU later. */
	int here = numa_node_id();
	struct mempolicy *pol;
	pgoff_t ilx;

	/*
	 * A folio from swap read-ahead is not marked as anonymous before it is mapped, so
	 * the kind comes from the fault.
	 */
	pol = get_page_policy(l->vma, l->addr, l->kind == FOLLOW_ANON,
			      folio_order(l->folio), &ilx);
	l->explicit = !follow_by_default(pol);
	l->to = follow_node(pol, ilx, l->folio, here);
	l->claim = follow_claim_of(pol, here);
	l->agreed = pol->flags & MPOL_F_SHARED && pol->mode != MPOL_LOCAL;
	mpol_cond_put(pol);
}

/* Fill in @l without moving the folio; false if the level excludes the folio. */
static bool look_at(struct look *l, unsigned int level)
{
	struct folio *folio = l->folio;

	if (!follow_reaches(level, l->kind, true) ||
	    folio_is_zone_device(folio) || !vma_migratable(l->vma))
		return false;
	find_place(l);
	if (!follow_reaches(level, l->kind, l->explicit))
		return false;
	l->mapped = folio_mapped(folio);
	l->seen = (struct follow_seen) {
		.misplaced = !l->mapped && l->to != folio_nid(folio),
		.dirty = folio_is_file_lru(folio) && folio_test_dirty(folio),
		.held = folio_maybe_dma_pinned(folio) ||
			!folio_test_lru(folio) ||
			folio_contain_hwpoisoned_page(folio),
	};
	return true;
}

/* The parts of a file with policies can belong on different nodes. */
static bool at_home(const struct look *l, bool use)
{
	return l->kind == FOLLOW_ANON || l->agreed ||
	       follow_may_claim(l->key, l->claim, use);
}

/* The check of migrate_misplaced_folio_prepare(): a zone has room without reclaim. */
static bool has_room(int nid, unsigned long nr_pages)
{
	struct pglist_data *pgdat = NODE_DATA(nid);
	int z;

	for (z = pgdat->nr_zones - 1; z >= 0; z--) {
		struct zone *zone = pgdat->node_zones + z;

		if (managed_zone(zone) &&
		    zone_watermark_ok(zone, 0, high_wmark_pages(zone) + nr_pages,
				      ZONE_MOVABLE, ALLOC_CMA))
			return true;
	}
	return false;
}

/* The verdict that take() would return now. Isolates nothing and uses no rate. */
static enum follow_verdict foresee(const struct look *l)
{
	unsigned long nr_pages = folio_nr_pages(l->folio);
	enum follow_verdict verdict = follow_verdict(&l->seen);

	if (verdict != FOLLOW_TAKE)
		return verdict;
	if (!at_home(l, false))
		return FOLLOW_SHARED;
	if (!follow_rate_left(l->to, nr_pages))
		return FOLLOW_RATE;
	return has_room(l->to, nr_pages) ? FOLLOW_TAKE : FOLLOW_NOMEM;
}

/* Isolate the folio if it can move; FOLLOW_TAKE if it is isolated. */
static enum follow_verdict take(struct look *l)
{
	struct folio *folio = l->folio;
	unsigned long nr_pages = folio_nr_pages(folio);
	enum follow_verdict verdict = follow_verdict(&l->seen);
	bool home = l->mapped || at_home(l, true);

	if (verdict != FOLLOW_TAKE)
		return verdict;
	if (!home)
		return FOLLOW_SHARED;
	if (!follow_rate_take(l->to, nr_pages))
		return FOLLOW_RATE;
	if (!migrate_misplaced_folio_prepare(folio, l->vma, l->to))
		return FOLLOW_TAKE;
	follow_rate_return(l->to, nr_pages);
	return follow_refusal(l->vma, folio);
}

static void account(const struct look *l, enum follow_verdict verdict, int from,
		    unsigned long nr_pages)
{
	if (verdict == FOLLOW_LEAVE)
		return;
	if ((verdict == FOLLOW_RATE || verdict == FOLLOW_NOMEM) && nr_pages == 1)
		follow_stall(l->to);
	if (verdict == FOLLOW_TAKE)
		follow_count(NUMA_FOLLOW_FAULTED_ANON + l->kind, nr_pages);
	else
		follow_count(NUMA_FOLLOW_REFUSED_DIRTY + verdict, nr_pages);
	trace_numa_follow_fault(l->kind, l->key, l->index, from, l->to, nr_pages,
				verdict);
}

/*
 * Move a misplaced folio.  Returns true if the caller's reference was dropped, and the
 * lock if @locked: the caller looks the folio up again.
 */
static bool look_and_move(struct look *l, unsigned int level, bool locked)
{
	unsigned long nr_pages = folio_nr_pages(l->folio);
	int from = folio_nid(l->folio);
	enum follow_verdict verdict;
	bool gone;

	if (!look_at(l, level))
		return false;
	if (!l->mapped)
		count_vm_events(NUMA_FOLLOW_CHECKED, nr_pages);
	verdict = take(l);
	gone = verdict == FOLLOW_TAKE;
	if (gone) {
		if (locked)
			folio_unlock(l->folio);
		folio_put(l->folio);
	}
	if (gone && migrate_misplaced_folio(l->folio, l->vma, l->to)) {
		follow_rate_return(l->to, nr_pages);
		verdict = FOLLOW_BUSY;
	}
	account(l, verdict, from, nr_pages);
	return gone;
}

/* ---- calls ---- */

/* A new file at the address of an old one is another file. */
static unsigned long key_of(const struct address_space *mapping)
{
	return (unsigned long)mapping ^ mapping->host->i_ino;
}

static enum follow_kind kind_of(struct address_space *mapping)
{
	return shmem_mapping(mapping) ? FOLLOW_SHMEM : FOLLOW_FILE;
}

static struct look look_in(struct vm_area_struct *vma, unsigned long addr,
			   struct address_space *mapping, struct folio *folio)
{
	return (struct look) {
		.vma = vma,
		.addr = addr,
		.folio = folio,
		.kind = kind_of(mapping),
		.key = key_of(mapping),
		.index = folio->index,
	};
}

/* A write to a private mapping copies the page: the node of the original is irrelevant. */
static bool is_copied(const struct vm_fault *vmf)
{
	return vmf->flags & FAULT_FLAG_WRITE &&
	       !(vmf->vma->vm_flags & VM_SHARED);
}

/*
 * A task remembers a refusal until the next tick, and skips all checks of that mapping.
 * One word for both: a match by chance leaves a page where it is once.
 */
static __always_inline unsigned long refusal_of(const struct vm_area_struct *vma)
{
	return (unsigned long)vma ^ jiffies;
}

static __always_inline bool is_refused(const struct vm_area_struct *vma)
{
	return current->numa_follow_refused == refusal_of(vma);
}

static void remember_refusal(const struct vm_area_struct *vma)
{
	current->numa_follow_refused = refusal_of(vma);
}

/* Count that a file is at home on another node. The node of the page is not known. */
static noinline int is_elsewhere(const struct vm_fault *vmf,
				 struct address_space *mapping, unsigned int claim)
{
	int to = claim < MAX_NUMNODES ? claim : NUMA_NO_NODE;

	follow_count(NUMA_FOLLOW_REFUSED_SHARED, 1);
	trace_numa_follow_fault(kind_of(mapping), key_of(mapping), vmf->pgoff,
				NUMA_NO_NODE, to, 1, FOLLOW_SHARED);
	remember_refusal(vmf->vma);
	return NUMA_FOLLOW_NONE;
}

/* place_of_all() for a policy of the mapping or the task */
static noinline int place_by_policy(const struct vm_fault *vmf,
				    struct address_space *mapping,
				    const struct mempolicy *pol)
{
	unsigned int claim = follow_claim_of(pol, numa_node_id());
	int nid;

	if (!follow_may_claim(key_of(mapping), claim, true))
		return is_elsewhere(vmf, mapping, claim);
	if (claim < MAX_NUMNODES)
		return claim;
	for_each_node_mask(nid, pol->nodes)
		if (!follow_stalled(nid))
			return NUMA_NO_NODE;
	remember_refusal(vmf->vma);
	return NUMA_FOLLOW_NONE;
}

/*
 * Returns the node where all pages of a file are in their place: without any policy the
 * node of the CPU.  NUMA_NO_NODE: the policy is checked for each page.
 * NUMA_FOLLOW_NONE: no page of the file moves.
 *
 * Every fault of a task with a level pays for this: see selftest follow_cost.
 */
static __always_inline int place_of_all(struct vm_fault *vmf,
					struct address_space *mapping,
					unsigned int level)
{
	struct mempolicy *pol = current->mempolicy;
	int here;

	if (is_copied(vmf))
		return NUMA_FOLLOW_NONE;
	/* mbind() on shared memory sets a policy of the file, as get_page_policy() uses it. */
	if (shmem_mapping(mapping)) {
		if (READ_ONCE(SHMEM_I(mapping->host)->policy.root.rb_node))
			return NUMA_NO_NODE;
	} else {
		pol = vmf->vma->vm_policy ?: pol;
		/* The levels of follow_reaches() */
		if (level < 2)
			return NUMA_FOLLOW_NONE;
		if (file_policy_has(mapping))
			return NUMA_NO_NODE;
		if (!pol && level < 3)
			return NUMA_FOLLOW_NONE;
	}
	if (pol)
		return place_by_policy(vmf, mapping, pol);
	here = numa_node_id();
	/* A task that uses pages in their place is at home there. */
	if (!follow_may_claim(key_of(mapping), here, true))
		return is_elsewhere(vmf, mapping, here);
	return here;
}

/* The node refused a page a moment ago. Not inline: pages in their place are faster. */
static noinline bool takes_none(int place, const struct vm_area_struct *vma)
{
	if (place < 0 || !follow_stalled(place))
		return false;
	remember_refusal(vma);
	return true;
}

/* Is this the page cache of a regular file? */
static bool has_cache(struct address_space *mapping)
{
	return S_ISREG(mapping->host->i_mode) && !dax_mapping(mapping);
}

/* The page that a fault has got, locked; see numa_follow_fault() */
static noinline bool move_found(struct vm_fault *vmf,
				struct address_space *mapping,
				unsigned int level)
{
	struct folio *folio = page_folio(vmf->page);
	struct look l;

	if (folio->mapping != mapping || folio_mapped(folio) ||
	    !has_cache(mapping))
		return false;
	l = look_in(vmf->vma, vmf->address, mapping, folio);
	if (!look_and_move(&l, level, true))
		return false;
	vmf->page = NULL;
	return true;
}

/**
 * __numa_follow_fault() - Move a page that ->fault() returned
 * @vmf: fault; no page table is locked
 * @ret: return value of the file's ->fault()
 * @level: level of the current task, not 0
 *
 * A page that is not locked is not from the page cache.
 *
 * Return: true if the reference to the page was dropped: the caller calls ->fault()
 * again.
 */
bool __numa_follow_fault(struct vm_fault *vmf, vm_fault_t ret,
			 unsigned int level)
{
	struct file *file = vmf->vma->vm_file;
	struct address_space *mapping;
	int place;

	if (is_refused(vmf->vma) ||
	    ret & (VM_FAULT_ERROR | VM_FAULT_NOPAGE | VM_FAULT_RETRY |
		   VM_FAULT_DONE_COW) || !(ret & VM_FAULT_LOCKED) || !file)
		return false;
	mapping = file->f_mapping;
	place = place_of_all(vmf, mapping, level);
	if (place == NUMA_FOLLOW_NONE)
		return false;
	if (place != page_to_nid(vmf->page))
		return !takes_none(place, vmf->vma) &&
		       move_found(vmf, mapping, level);
	count_vm_event(NUMA_FOLLOW_CHECKED);
	return false;
}

/**
 * __numa_follow_around() - Find the pages of a file that fault-around can map
 * @vmf: fault; no page table is locked
 * @level: level of the current task, not 0
 *
 * Return: the node whose pages fault-around maps without a further check; the caller
 * checks each other page with numa_follow_later().  NUMA_FOLLOW_NONE: fault-around maps
 * all pages.
 */
int __numa_follow_around(struct vm_fault *vmf, unsigned int level)
{
	int place;

	if (is_refused(vmf->vma))
		return NUMA_FOLLOW_NONE;
	place = place_of_all(vmf, vmf->vma->vm_file->f_mapping, level);
	return takes_none(place, vmf->vma) ? NUMA_FOLLOW_NONE : place;
}

/**
 * numa_follow_later() - Check whether fault-around skips a page
 * @vma: VMA of the fault, locked
 * @addr: address of the page
 * @folio: folio of the page, locked under the page table lock
 *
 * Return: true if the page is misplaced and can move in a fault.
 */
bool numa_follow_later(struct vm_area_struct *vma, unsigned long addr,
		       struct folio *folio)
{
	struct address_space *mapping = vma->vm_file->f_mapping;
	enum follow_verdict verdict;
	struct look l;

	if (folio_mapped(folio) || !has_cache(mapping))
		return false;
	l = look_in(vma, addr, mapping, folio);
	if (!look_at(&l, __numa_follow_level()))
		return false;
	verdict = foresee(&l);
	/* The fault that moves the folio counts it. */
	if (verdict == FOLLOW_TAKE)
		return true;
	account(&l, verdict, folio_nid(folio), folio_nr_pages(folio));
	return false;
}

/**
 * __numa_follow_swap() - Move a folio that a fault found in the swap cache
 * @vmf: fault; no page table is locked
 * @entry: swap entry of the fault
 * @folio: folio in the swap cache; the caller has a reference
 * @level: level of the current task, not 0
 *
 * The caller holds the swap device.
 *
 * Return: the folio for @entry, with a reference; NULL if the swap cache has none.
 */
struct folio *__numa_follow_swap(struct vm_fault *vmf, swp_entry_t entry,
				 struct folio *folio, unsigned int level)
{
	struct look l = {
		.vma = vmf->vma,
		.addr = vmf->address,
		.folio = folio,
		.kind = FOLLOW_ANON,
		.key = swp_type(entry),
		.index = swp_offset(entry),
	};

	if (!folio_test_uptodate(folio) || !look_and_move(&l, level, false))
		return folio;
	return swap_cache_get_folio(entry, vmf->vma, vmf->address);
}
