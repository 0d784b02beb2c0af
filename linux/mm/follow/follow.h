/* SPDX-License-Identifier: GPL-2.0 */
/* Automatic NUMA migration: internal interfaces of mm/follow. */
#ifndef _MM_FOLLOW_H
#define _MM_FOLLOW_H

#include <linux/hash.h>
#include <linux/list.h>
#include <linux/memcontrol.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/numa_follow.h>
#include <linux/sched.h>
#include <linux/spinlock_types.h>
#include <linux/vmstat.h>
#include <asm/tlb.h>

#include "decide.h"

/* ---- counters ---- */

/**
 * follow_count() - Count an event for the current task
 * @item: the event
 * @nr: how often, mostly a number of pages
 *
 * Counts for the system, and for the cgroup that is charged for the memory of the task.
 */
static inline void follow_count(enum vm_event_item item, unsigned long nr)
{
	if (!nr)
		return;
	count_vm_events(item, nr);
	if (current->mm)
		count_memcg_events_mm(current->mm, item, nr);
}

/* ---- where.c ---- */

/**
 * struct follow_said - what the policy of a page requests
 * @to: target node; the present node of the page if the policy allows it
 * @lazy: the policy was set with MPOL_MF_LAZY
 * @local: lazy, and only the next access determines the node
 * @all: lazy, and pages that other processes map move too
 */
struct follow_said {
	int to;
	bool lazy;
	bool local;
	bool all;
};

/**
 * follow_by_default() - Check for the default policy
 * @pol: the policy
 *
 * Return: true if @pol is the policy of tasks without a policy: pages should be near the
 * CPU that uses them.
 */
static inline bool follow_by_default(const struct mempolicy *pol)
{
	return pol->mode == MPOL_PREFERRED && pol->flags & MPOL_F_MORON;
}

int follow_node(struct mempolicy *pol, pgoff_t ilx, struct folio *folio,
		int here);
unsigned int follow_claim_of(const struct mempolicy *pol, int here);
struct follow_said follow_said_at(struct vm_area_struct *vma,
				  unsigned long addr, struct folio *folio);
bool follow_lazy_at(struct vm_area_struct *vma, unsigned long addr);
bool follow_unbound(struct vm_area_struct *vma, unsigned long addr,
		    struct folio *folio);

/* ---- move.c ---- */

/**
 * struct follow_batch - folios that move to one node at once
 * @folios: isolated folios, all in the same tier
 * @from: node of one of them; NUMA_NO_NODE while the batch is empty
 * @to: target node
 * @nr_pages: number of pages in @folios
 * @nomem: an allocation on @to failed
 */
struct follow_batch {
	struct list_head folios;
	int from;
	int to;
	unsigned long nr_pages;
	bool nomem;
};

bool follow_isolate(struct follow_batch *batch, struct vm_area_struct *vma,
		    struct folio *folio);
unsigned long follow_move(struct follow_batch *batch);
enum follow_verdict follow_refusal(const struct vm_area_struct *vma,
				   struct folio *folio);

/* ---- walk.c ---- */

/**
 * follow_see() - Read the state of a mapped folio that can prevent a move
 * @seen: set from the folio
 * @folio: the folio
 */
static inline void follow_see(struct follow_seen *seen, struct folio *folio)
{
	seen->dirty = folio_is_file_lru(folio) && folio_test_dirty(folio);
	seen->held = folio_maybe_dma_pinned(folio) || folio_test_ksm(folio);
}

/**
 * struct follow_walk - walk over the pages of an address space
 * @judge: returns FOLLOW_TAKE, FOLLOW_LEAVE or a reason for the page of a folio at
 *	an address; called with the page table locked
 * @batch: receives the folios to move, isolated; if NULL, pages are marked instead
 * @max_pages: the walk ends once the batch has this number of pages
 * @pages: number of pages by verdict, added to; pages that were marked before
 *	count as well
 * @entries: cost so far: number of page table entries, or an equivalent
 * @next: address at which the next walk starts
 * @last: folio of the last entry; adjacent entries often map the same folio
 * @tlb: TLB flush for the marks
 */
struct follow_walk {
	enum follow_verdict (*judge)(const struct follow_walk *walk,
				     struct vm_area_struct *vma,
				     unsigned long addr, struct folio *folio);
	struct follow_batch *batch;
	unsigned long max_pages;
	unsigned long pages[FOLLOW_VERDICTS];
	unsigned long entries;
	unsigned long next;
	struct folio *last;
	struct mmu_gather tlb;
};

/* Least cost of one VMA chunk or one huge page, in entries */
#define FOLLOW_STRETCH_ENTRIES	16

bool follow_walkable(struct vm_area_struct *vma);
void follow_walk(struct follow_walk *walk, struct vm_area_struct *vma,
		 unsigned long start, unsigned long end);
void follow_account(const struct follow_walk *walk, bool tick,
		    unsigned long start, int from, int to, unsigned long moved);

/* ---- marks.c ---- */

void follow_marks_begin(void);

/* ---- tick.c and slice.c ---- */

/**
 * struct follow_trip - migration walk for one task
 * @on: part of the address space is not walked yet
 * @mine: this thread walks, not another thread of the process
 * @route: which pages to move
 * @from: previous home node of the task
 * @max_mapcount: largest number of processes that may share such a page
 * @resume: address at which the next slice starts
 * @again: jiffies of the next step: of the next check on another thread that
 *	walks, or of the start of a repeated walk
 * @left: pages not moved for lack of memory or because they were busy, since the
 *	walk started
 * @went: pages moved or marked by the walk
 * @moved: a page has moved, at once or by a fault
 * @idle: number of consecutive walks without such a page, at most 5
 * @until: until then (jiffies), marked pages move at the first access even if NUMA
 *	balancing marks pages too
 */
struct follow_trip {
	bool on;
	bool mine;
	struct follow_route route;
	int from;
	unsigned int max_mapcount;
	unsigned long resume;
	unsigned long again;
	unsigned long left;
	unsigned long went;
	bool moved;
	unsigned int idle;
	unsigned long until;
};

/**
 * struct numa_follow_task - automatic migration state of a task
 * @exec_id: self_exec_id of the program that this state belongs to
 * @place: home node, and the node the task runs on
 * @homes: previous home nodes
 * @trip: migration walk of the task
 * @claim: used in the leader of a process: walk ownership; protected by its
 *	siglock
 * @marked: used in the leader of a process: last time pages were marked; jiffies
 * @marked_by: self_exec_id of the program that marked them; 0: none
 * @pulling: the current page fault migrates a page for this task
 */
struct numa_follow_task {
	u64 exec_id;
	struct follow_place place;
	nodemask_t homes;
	struct follow_trip trip;
	struct follow_claim claim;
	unsigned long marked;
	u64 marked_by;
	bool pulling;
};

void follow_stayed(int nid, unsigned long nr_pages);
bool follow_is_of_program(const struct numa_follow_task *state);
void follow_note_marks(void);
bool follow_shared_folio(struct folio *folio, unsigned int max_mapcount);
bool follow_slice(struct follow_trip *trip);

/* ---- home.c ---- */

#define FOLLOW_HOME_BITS	9
#define FOLLOW_HOME_QUIET_S	60

/**
 * struct follow_home_slot - entry of the hash table of homes
 * @lock: serializes changes of @home
 * @home: home of one file; page faults read it without the lock
 */
struct follow_home_slot {
	spinlock_t lock;	/* serializes changes of @home */
	struct follow_home home;
};

extern struct follow_home_slot follow_homes[1 << FOLLOW_HOME_BITS];
extern unsigned long follow_stalls[MAX_NUMNODES];

bool __follow_may_claim(struct follow_home_slot *slot, unsigned long key,
			unsigned int claim);
bool follow_rate_take(int nid, unsigned long nr_pages);
void follow_rate_return(int nid, unsigned long nr_pages);
bool follow_rate_left(int nid, unsigned long nr_pages);
void follow_stall(int nid);

/**
 * follow_may_claim() - Check whether a file can have a home
 * @key: the file
 * @claim: the home; follow_claim_of()
 * @use: set or renew it
 *
 * Takes a lock only to set a home, or to renew it once a second.
 *
 * Return: true unless the file has another home.
 */
static __always_inline bool follow_may_claim(unsigned long key,
					     unsigned int claim, bool use)
{
	struct follow_home_slot *slot;
	unsigned long now = jiffies;

	slot = &follow_homes[hash_long(key, FOLLOW_HOME_BITS)];
	/* Without this, gcc calculates the address for each field. */
	OPTIMIZER_HIDE_VAR(slot);
	if (follow_home_says(&slot->home, key, claim, now, HZ))
		return true;
	if (!follow_home_free(&slot->home, key, claim, now,
			      FOLLOW_HOME_QUIET_S * HZ))
		return false;
	return !use || __follow_may_claim(slot, key, claim);
}

/**
 * follow_stalled() - Check whether faults skip a node
 * @nid: the node
 *
 * Return: true if the node refused a page within STALL.
 */
static inline bool follow_stalled(int nid)
{
	return time_before(jiffies, READ_ONCE(follow_stalls[nid]));
}

#endif /* _MM_FOLLOW_H */
