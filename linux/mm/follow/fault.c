// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that follow, by faults: a page that nobody maps is about to be mapped.
 *
 * It is in the swap cache or the page cache, wherever it was needed first.  If it
 * belongs on another node (where.c), it is moved before: no page table names it, no TLB
 * has it, and the fault waits for the page anyway.  read() and write() never move
 * anything.  Files have a home, and only so many pages come to a node in a second
 * (home.c).
 *
 * Page faults ask once they have the page, locked: what is on the node of the CPU, and
 * has no policy, is in its place, and that is all they pay for.  What moves they look up
 * again.
 *
 * Fault-around maps the neighbours of a page under RCU and the page table's lock,
 * where nothing can move.  It leaves out those that should and can: each has a fault of
 * its own then, and moves in it.  What cannot move now, as the node is full or the rate
 * is reached, is mapped with the rest.
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
 * @vma: where
 * @addr: where
 * @folio: the folio; the caller has a reference
 * @kind: what it is
 * @explicit: a policy was set for it, or for the task
 * @mapped: somebody maps it already
 * @seen: what else is seen of it
 * @key: what it is a part of: a file, which has a home, or swap
 * @index: its place there
 * @to: where it should be
 * @claim: what stands for that as a home
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
};

static void find_place(struct look *l)
{
	/* Once: it may be another CPU's a moment later. */
	int here = numa_node_id();
	struct mempolicy *pol;
	pgoff_t ilx;

	/*
	 * A folio that swap read-ahead has brought in is not marked as anonymous before
	 * it is mapped; the fault determines what it is.
	 */
	pol = get_page_policy(l->vma, l->addr, l->kind == FOLLOW_ANON,
			      folio_order(l->folio), &ilx);
	l->explicit = !follow_by_default(pol);
	l->to = follow_node(pol, ilx, l->folio, here);
	l->claim = follow_claim_of(pol, here);
	mpol_cond_put(pol);
}

/* All that can be told without moving it; false if the level does not reach it. */
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

static bool at_home(const struct look *l, bool use)
{
	return l->kind == FOLLOW_ANON || follow_may_claim(l->key, l->claim, use);
}

/* As migrate_misplaced_folio_prepare() will ask: no zone would have to reclaim. */
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

/* What take() would say now, if nobody else is faster: nothing is taken. */
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

/* FOLLOW_TAKE: it is isolated. */
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
	if (verdict == FOLLOW_TAKE)
		follow_count(NUMA_FOLLOW_FAULTED_ANON + l->kind, nr_pages);
	else
		follow_count(NUMA_FOLLOW_REFUSED_DIRTY + verdict, nr_pages);
	trace_numa_follow_fault(l->kind, l->key, l->index, from, l->to, nr_pages,
				verdict);
}

/*
 * Move the folio if it should be elsewhere.  Returns true if the caller's reference
 * to it is gone, with the lock if it was @locked, and it has to be looked up again.
 */
static bool look_and_move(struct look *l, unsigned int level, bool locked)
{
	unsigned long nr_pages = folio_nr_pages(l->folio);
	int from = folio_nid(l->folio);
	enum follow_verdict verdict;
	bool gone;

	if (!look_at(l, level))
		return false;
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

/* What is written to a private mapping is copied: it does not matter where from. */
static bool is_copied(const struct vm_fault *vmf)
{
	return vmf->flags & FAULT_FLAG_WRITE &&
	       !(vmf->vma->vm_flags & VM_SHARED);
}

/* Have parts of a file, or all of it, a policy that is its own? */
static __always_inline bool has_policies(struct address_space *mapping,
					 bool shmem)
{
	if (shmem)
		return READ_ONCE(SHMEM_I(mapping->host)->policy.root.rb_node);
	return file_policy_has(mapping);
}

/*
 * Where are pages of a file in their place, whatever else there is to say of them?
 * Without any policy that is the node of the CPU; NUMA_NO_NODE if each has to be
 * looked at; NUMA_FOLLOW_NONE if none is to move.
 *
 * Who has a level pays for this in every fault: see follow_cost among the selftests.
 */
static __always_inline int place_of_all(struct vm_fault *vmf,
					struct address_space *mapping,
					unsigned int level)
{
	bool shmem = shmem_mapping(mapping);
	int here;

	/* As follow_reaches() has it, explicit or not */
	if (!shmem && level < 2)
		return NUMA_FOLLOW_NONE;
	if (is_copied(vmf))
		return NUMA_FOLLOW_NONE;
	if (vmf->vma->vm_policy || current->mempolicy ||
	    has_policies(mapping, shmem))
		return NUMA_NO_NODE;
	if (!shmem && level < 3)
		return NUMA_FOLLOW_NONE;
	here = numa_node_id();
	/* Who uses what is in place is at home there, too. */
	follow_may_claim(key_of(mapping), here, true);
	return here;
}

/* Is it that of a regular file, with pages of its own? */
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
 * __numa_follow_fault - A fault has got a page from a file: was it moved?
 * @vmf: fault; no page table is locked
 * @ret: what the file's ->fault() has returned
 * @level: of the current task, not 0
 *
 * What does not come locked is not from the page cache.
 *
 * Return: true if the page was given back to be moved: ->fault() has to be called
 * again.
 */
bool __numa_follow_fault(struct vm_fault *vmf, vm_fault_t ret,
			 unsigned int level)
{
	struct file *file = vmf->vma->vm_file;
	int place;

	if (ret & (VM_FAULT_ERROR | VM_FAULT_NOPAGE | VM_FAULT_RETRY |
		   VM_FAULT_DONE_COW) || !(ret & VM_FAULT_LOCKED) || !file)
		return false;
	place = place_of_all(vmf, file->f_mapping, level);
	if (place == NUMA_FOLLOW_NONE || place == page_to_nid(vmf->page))
		return false;
	return move_found(vmf, file->f_mapping, level);
}

/**
 * __numa_follow_around - Which pages of a file may fault-around map?
 * @vmf: fault; no page table is locked
 * @level: of the current task, not 0
 *
 * Return: the node whose pages it may; of others numa_follow_later() has to be
 * asked, one by one; NUMA_FOLLOW_NONE if it may map all of them.
 */
int __numa_follow_around(struct vm_fault *vmf, unsigned int level)
{
	return place_of_all(vmf, vmf->vma->vm_file->f_mapping, level);
}

/**
 * numa_follow_later - Has a page of the page cache to have its own fault?
 * @vma: VMA that it is about to be mapped in, locked
 * @addr: where
 * @folio: its folio, locked; the page table is, too
 *
 * Return: true if it is misplaced and can be moved now.
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
	/* What moves is counted when it does. */
	if (verdict == FOLLOW_TAKE)
		return true;
	account(&l, verdict, folio_nid(folio), folio_nr_pages(folio));
	return false;
}

/**
 * __numa_follow_swap - A fault has found a folio in the swap cache
 * @vmf: fault; no page table is locked
 * @entry: what it has looked for
 * @folio: what it has found, with a reference
 * @level: of the current task, not 0
 *
 * The caller holds the swap device.
 *
 * Return: the folio to go on with, with a reference; NULL if there is none any more.
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
