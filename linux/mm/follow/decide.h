/* SPDX-License-Identifier: GPL-2.0 */
/* Automatic NUMA migration: decisions that need no page, lock or clock. */
#ifndef _MM_FOLLOW_DECIDE_H
#define _MM_FOLLOW_DECIDE_H

#include <linux/compiler.h>
#include <linux/jiffies.h>
#include <linux/nodemask_types.h>
#include <linux/numa_follow_types.h>
#include <linux/types.h>

/* Most pages that one hint fault migrates, including its own, unless folios are large */
#define FOLLOW_BATCH_PAGES	16

/* ---- pages ---- */

/**
 * enum follow_verdict - result for one page
 * @FOLLOW_DIRTY: stays: a file page that needs writeback first
 * @FOLLOW_SHARED: stays: other processes map it, and the policy does not cover
 *	them
 * @FOLLOW_RATE: stays: the rate limit of the target node is reached
 * @FOLLOW_NOMEM: stays: too little free memory on the target node
 * @FOLLOW_BUSY: stays: pinned, merged by KSM, or isolated by another task
 * @FOLLOW_REASONS: number of reasons to stay
 * @FOLLOW_TAKE: moves now, or at its next access
 * @FOLLOW_LEAVE: stays: it is on the right node, or no policy requests a move
 * @FOLLOW_VERDICTS: number of verdicts
 */
enum follow_verdict {
	FOLLOW_DIRTY,
	FOLLOW_SHARED,
	FOLLOW_RATE,
	FOLLOW_NOMEM,
	FOLLOW_BUSY,
	FOLLOW_REASONS,
	FOLLOW_TAKE = FOLLOW_REASONS,
	FOLLOW_LEAVE,
	FOLLOW_VERDICTS,
};

/**
 * struct follow_seen - state of a page that decides whether it can move
 * @misplaced: it should be on another node
 * @shared: other processes map it, and the request does not cover them
 * @dirty: it is a dirty file page
 * @held: it is pinned or merged by KSM
 */
struct follow_seen {
	bool misplaced;
	bool shared;
	bool dirty;
	bool held;
};

/**
 * struct follow_window - range of addresses
 * @start: first byte
 * @end: end of the range, exclusive
 */
struct follow_window {
	unsigned long start;
	unsigned long end;
};

bool follow_request_fits(unsigned short mode, unsigned short mode_flags,
			 unsigned long flags);
enum follow_verdict follow_verdict(const struct follow_seen *seen);
bool follow_shared(bool likely, unsigned int mapcount, unsigned int nr_pages,
		   unsigned int max_mapcount);
struct follow_window follow_batch_window(unsigned long addr,
					 unsigned long vm_start,
					 unsigned long vm_end);

/* ---- tasks ---- */

/*
 * A walk is repeated if at least this fraction (1/16) of its pages could not move for
 * now.
 */
#define FOLLOW_LEFT_PART	16

/**
 * enum follow_action - action for a task that stays on another node
 * @FOLLOW_BALANCING: none: NUMA balancing prefers another node for the task
 * @FOLLOW_NODE: none: the node has no memory, or the task may not use it
 * @FOLLOW_POLICY: none: the task has a memory policy
 * @FOLLOW_THREADS: none: the task uses the memory of its parent (vfork)
 * @FOLLOW_DECLINED: number of reasons for no action
 * @FOLLOW_DIRECT: its memory moves now
 * @FOLLOW_LAZY: its memory is marked, and moves at the next access
 */
enum follow_action {
	FOLLOW_BALANCING,
	FOLLOW_NODE,
	FOLLOW_POLICY,
	FOLLOW_THREADS,
	FOLLOW_DECLINED,
	FOLLOW_DIRECT = FOLLOW_DECLINED,
	FOLLOW_LAZY,
};

/**
 * struct follow_facts - facts about a task that stays on another node
 * @node_fits: the node has memory, and the task may use it
 * @policy: the task has a memory policy
 * @balancing: NUMA balancing prefers another node, and the task may run there
 * @borrowed: the task uses the memory of its parent, which waits for it (vfork)
 * @lazy: its cpuset requests migration on access
 * @threads: number of threads of its process
 * @there: number of these threads on the new node
 */
struct follow_facts {
	bool node_fits;
	bool policy;
	bool balancing;
	bool borrowed;
	bool lazy;
	unsigned int threads;
	unsigned int there;
};

/**
 * struct follow_place - home node of a task, and the node it runs on
 * @node: home node: where its memory should be; NUMA_NO_NODE if not known yet
 * @away: other node on which the task was seen last; NUMA_NO_NODE if it was at
 *	home
 * @since: start of its uninterrupted time on @away; jiffies
 * @tried: last time a migration of its memory was decided on; jiffies
 * @has_tried: @tried is valid
 */
struct follow_place {
	int node;
	int away;
	unsigned long since;
	unsigned long tried;
	bool has_tried;
};

/**
 * struct follow_route - which pages move for a task, and how
 * @from: source nodes
 * @to: target node
 * @lazy: pages are marked, not moved
 * @since: a walk that started before this time does not cover the task; jiffies
 */
struct follow_route {
	nodemask_t from;
	int to;
	bool lazy;
	unsigned long since;
};

/**
 * struct follow_claim - walk ownership: one thread walks for its process
 * @exec_id: self_exec_id of the program
 * @walker: PID of the thread
 * @route: the pages that it moves
 * @began: start of the walk; jiffies
 * @when: last heartbeat of the walk; jiffies
 * @taken: the other fields are valid
 * @done: the walk is finished
 */
struct follow_claim {
	u64 exec_id;
	pid_t walker;
	struct follow_route route;
	unsigned long began;
	unsigned long when;
	bool taken;
	bool done;
};

/**
 * enum follow_turn - which thread walks
 * @FOLLOW_MINE: this thread
 * @FOLLOW_WAIT: another thread walks now, or its walk ended too early to cover
 *	this thread
 * @FOLLOW_DONE: none: a recent walk of another thread covers this thread
 */
enum follow_turn {
	FOLLOW_MINE,
	FOLLOW_WAIT,
	FOLLOW_DONE,
};

void follow_settle(struct follow_place *place, int node);
bool follow_stays(struct follow_place *place, int node, unsigned long now,
		  unsigned long settle, unsigned long interval);
enum follow_action follow_action(const struct follow_facts *facts);
bool follow_from_anywhere(const struct follow_facts *facts);
bool follow_walks_again(unsigned long left, unsigned long went);
enum follow_turn follow_turn(const struct follow_claim *claim,
			     const struct follow_route *route,
			     unsigned long now, unsigned long lease,
			     unsigned long settle, unsigned long interval);

/* ---- faults that map a page which is not mapped yet ---- */

/**
 * enum follow_kind - kind of a page that is not mapped yet
 * @FOLLOW_ANON: anonymous memory, in the swap cache
 * @FOLLOW_SHMEM: page of tmpfs, memfd or shared memory
 * @FOLLOW_FILE: page of any other file
 */
enum follow_kind {
	FOLLOW_ANON,
	FOLLOW_SHMEM,
	FOLLOW_FILE,
};

/**
 * struct follow_home - home of a file: the node on which its pages were last needed
 * @key: the file; 0 for none
 * @claim: the node, or a number that stands for a set of nodes; follow_claim_of()
 * @last: time of the last use; jiffies
 */
struct follow_home {
	unsigned long key;
	unsigned int claim;
	unsigned long last;
};

/**
 * struct follow_rate - use of the rate limit of a node
 * @began: start of the current second; jiffies
 * @pages: number of pages moved to the node in this second
 */
struct follow_rate {
	unsigned long began;
	unsigned long pages;
};

/**
 * follow_home_says() - Check whether a home was renewed within the last second
 * @home: slot of the file; other CPUs may change it
 * @key: the file
 * @claim: the home; follow_claim_of()
 * @now: jiffies
 * @second: length of a second; jiffies
 *
 * Inline, since page faults that move nothing call it.
 *
 * Return: true if @claim is the home of the file and needs no renewal yet.
 */
static inline bool follow_home_says(const struct follow_home *home,
				    unsigned long key, unsigned int claim,
				    unsigned long now, unsigned long second)
{
	return READ_ONCE(home->key) == key && READ_ONCE(home->claim) == claim &&
	       time_before(now, READ_ONCE(home->last) + second);
}

/**
 * follow_home_free() - Check whether a file can have a home
 * @home: slot of the file; other CPUs may change it
 * @key: the file
 * @claim: the home; follow_claim_of()
 * @now: jiffies
 * @quiet: time without a use after which a home is given up; jiffies
 *
 * Without this check, tasks of two nodes that use a file by turns would move its pages
 * back and forth.  Inline, since faults that move nothing call it.
 *
 * Return: true unless the file has another home.
 */
static inline bool follow_home_free(const struct follow_home *home,
				    unsigned long key, unsigned int claim,
				    unsigned long now, unsigned long quiet)
{
	return READ_ONCE(home->key) != key || READ_ONCE(home->claim) == claim ||
	       !time_before(now, READ_ONCE(home->last) + quiet);
}

bool follow_reaches(unsigned int level, enum follow_kind kind, bool explicit);
void follow_home_take(struct follow_home *home, unsigned long key,
		      unsigned int claim, unsigned long now);
bool follow_rate_has(const struct follow_rate *rate, unsigned long now,
		     unsigned long second, unsigned long limit,
		     unsigned long nr_pages);
bool follow_rate_takes(struct follow_rate *rate, unsigned long now,
		       unsigned long second, unsigned long limit,
		       unsigned long nr_pages);
void follow_rate_returns(struct follow_rate *rate, unsigned long now,
			 unsigned long second, unsigned long nr_pages);

#endif /* _MM_FOLLOW_DECIDE_H */
