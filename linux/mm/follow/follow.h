/* SPDX-License-Identifier: GPL-2.0 */
/* Pages that follow: what the files here share. */
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
 * follow_count - Count what became of pages of the current task
 * @item: the event
 * @nr: how often, mostly pages
 *
 * For the system, and for the cgroup whose memory the task's is.
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
 * struct follow_said - what the policy of a page says of it
 * @to: node where it should be; where it is, if that is as good
 * @lazy: the policy came with MPOL_MF_LAZY
 * @local: with it: only the next access tells the node
 * @all: with it: what others map moves, too
 */
struct follow_said {
	int to;
	bool lazy;
	bool local;
	bool all;
};

/**
 * follow_by_default - Is a policy the one of those who have none?
 * @pol: the policy
 *
 * Return: true if pages should be near the CPU that uses them.
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
 * @folios: isolated, all of them in the same tier
 * @from: where one of them is; NUMA_NO_NODE if there is none yet
 * @to: where they go
 * @nr_pages: pages of them
 * @nomem: there was no room for one
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
 * follow_see - See of a mapped folio what could keep it where it is
 * @seen: what is seen is noted in it
 * @folio: the folio
 */
static inline void follow_see(struct follow_seen *seen, struct folio *folio)
{
	seen->dirty = folio_is_file_lru(folio) && folio_test_dirty(folio);
	seen->held = folio_maybe_dma_pinned(folio) || folio_test_ksm(folio);
}

/**
 * struct follow_walk - pages of an address space that are looked at
 * @judge: FOLLOW_TAKE, FOLLOW_LEAVE or a reason for the page of a folio at an
 *	address; the page table is locked
 * @batch: what is to move is isolated for it; if NULL, it is marked
 * @max_pages: so many in the batch end the walk
 * @pages: by verdict; what is seen is added, marked before or not
 * @entries: page table entries looked at, or what costs as much
 * @next: where to go on
 * @last: the folio that was seen last: parts of a folio follow each other
 * @tlb: what has to be flushed for the marks
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

/* What a stretch of a VMA or a huge page costs at least, in entries */
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
 * struct follow_trip - how memory follows its task
 * @on: there is address space left to look at
 * @mine: it is this thread that looks at it, not another one of its process
 * @route: which pages follow
 * @from: node that the task came from last
 * @max_mapcount: processes that may share such a page
 * @resume: where to go on
 * @again: if it is another thread, when to see how far that is; jiffies. When the walk
 *	begins once more
 * @left: pages that stayed for want of memory or as they were busy, since the walk began
 * @went: pages that it has moved or marked
 * @moved: a page has moved, at once or by a fault
 * @idle: walks one after the other without that; at most 5 are counted
 * @until: so long marked pages move at the first access even if NUMA balancing marks
 *	pages, too; jiffies
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
 * struct numa_follow_task - what is known of a task whose memory may follow it
 * @exec_id: self_exec_id of the program that all this is of
 * @place: where it is at home
 * @homes: where it was at home before
 * @trip: how its memory follows
 * @claim: in the leader of a process: who walks; its siglock
 * @marked: in the leader of a process: last time that pages were marked; jiffies
 * @marked_by: self_exec_id of the program that did; 0: none
 * @pulling: the page fault under way moves a page that follows
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
 * struct follow_home_slot - a place in the table of homes
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
 * follow_may_claim - Check whether a file can have a home
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
	/* Without this gcc calculates the address for each field. */
	OPTIMIZER_HIDE_VAR(slot);
	if (follow_home_says(&slot->home, key, claim, now, HZ))
		return true;
	if (!follow_home_free(&slot->home, key, claim, now,
			      FOLLOW_HOME_QUIET_S * HZ))
		return false;
	return !use || __follow_may_claim(slot, key, claim);
}

/**
 * follow_stalled - Check whether faults skip a node
 * @nid: the node
 *
 * Return: true if the node refused a page within STALL.
 */
static inline bool follow_stalled(int nid)
{
	return time_before(jiffies, READ_ONCE(follow_stalls[nid]));
}

#endif /* _MM_FOLLOW_H */
