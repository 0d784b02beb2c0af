/* SPDX-License-Identifier: GPL-2.0 */
/* Pages that follow: what is decided without a page, a lock or a clock. */
#ifndef _MM_FOLLOW_DECIDE_H
#define _MM_FOLLOW_DECIDE_H

#include <linux/compiler.h>
#include <linux/jiffies.h>
#include <linux/nodemask_types.h>
#include <linux/numa_follow_types.h>
#include <linux/types.h>

/* Pages that one hint fault pulls at most, itself included, unless folios are large */
#define FOLLOW_BATCH_PAGES	16

/* ---- pages ---- */

/**
 * enum follow_verdict - what becomes of a page, whoever comes across it
 * @FOLLOW_DIRTY: it stays: it is of a file and has to be written back first
 * @FOLLOW_SHARED: it stays: others use it, too, and were not asked
 * @FOLLOW_RATE: it stays: too many have moved within a second
 * @FOLLOW_NOMEM: it stays: too little memory is free where it should be
 * @FOLLOW_BUSY: it stays: it is pinned, merged by KSM, or somebody else holds it
 * @FOLLOW_REASONS: how many reasons to stay there are
 * @FOLLOW_TAKE: it moves, now or when it is used next
 * @FOLLOW_LEAVE: it is where it should be, or nobody asks for more
 * @FOLLOW_VERDICTS: how many there are
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
 * struct follow_seen - what is seen of a page
 * @misplaced: it should be on another node
 * @shared: others use it, too, and the one who asks has no say over it
 * @dirty: it belongs to a file and is dirty
 * @held: it is pinned, merged by KSM, or not to be had for another reason
 */
struct follow_seen {
	bool misplaced;
	bool shared;
	bool dirty;
	bool held;
};

/**
 * struct follow_window - a stretch of addresses
 * @start: first byte
 * @end: end
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

/* A walk is repeated if this part of its pages, or more, stayed for now. */
#define FOLLOW_LEFT_PART	16

/**
 * enum follow_action - what becomes of a task that stays on another node
 * @FOLLOW_BALANCING: nothing: NUMA balancing prefers another node for it
 * @FOLLOW_NODE: nothing: it may have no memory there, or there is none
 * @FOLLOW_POLICY: nothing: it has a memory policy
 * @FOLLOW_THREADS: nothing: its memory is that of others, who run elsewhere
 * @FOLLOW_DECLINED: how many reasons for nothing there are
 * @FOLLOW_DIRECT: its memory moves now
 * @FOLLOW_LAZY: its memory moves when it is used next
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
 * struct follow_facts - what is known of a task that stays on another node
 * @node_fits: it may have memory there, and there is some
 * @policy: it has a memory policy
 * @balancing: NUMA balancing wants it on another node, where it may run
 * @borrowed: its memory is its parent's, which waits for it
 * @lazy: its cpuset wants pages to move when they are used
 * @threads: of its process
 * @there: of these, on the new node
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
 * struct follow_place - where a task is at home, and where it was seen
 * @node: home: where its memory should be; NUMA_NO_NODE if not yet known
 * @away: other node where it was seen last; NUMA_NO_NODE if it was at home
 * @since: first time it was seen there without a break; jiffies
 * @tried: last time its memory was to follow; jiffies
 * @has_tried: there was such a time
 */
struct follow_place {
	int node;
	int away;
	unsigned long since;
	unsigned long tried;
	bool has_tried;
};

/**
 * struct follow_route - which pages follow a task, and how
 * @from: nodes where they are
 * @to: where they go
 * @lazy: they are marked, not moved
 * @since: only a walk that has begun after that does for the task; jiffies
 */
struct follow_route {
	nodemask_t from;
	int to;
	bool lazy;
	unsigned long since;
};

/**
 * struct follow_claim - one thread walks for all of its process
 * @exec_id: self_exec_id of the program
 * @walker: which thread
 * @route: what it walks for
 * @began: when it did; jiffies
 * @when: last sign of it; jiffies
 * @taken: there is or was such a walk
 * @done: it has come to the end
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
 * enum follow_turn - who walks?
 * @FOLLOW_MINE: this thread
 * @FOLLOW_WAIT: another one does right now, or has a moment ago, too early for this one
 * @FOLLOW_DONE: nobody: another one has not long ago
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

/* ---- faults that map what nobody maps ---- */

/**
 * enum follow_kind - what a page is that nobody maps
 * @FOLLOW_ANON: anonymous memory, in the swap cache
 * @FOLLOW_SHMEM: of tmpfs, memfd or shared memory
 * @FOLLOW_FILE: of any other file
 */
enum follow_kind {
	FOLLOW_ANON,
	FOLLOW_SHMEM,
	FOLLOW_FILE,
};

/**
 * struct follow_home - where the pages of a file were wanted last
 * @key: the file; 0 for none
 * @claim: who wanted them: a node, or what stands for a set of nodes
 * @last: when; jiffies
 */
struct follow_home {
	unsigned long key;
	unsigned int claim;
	unsigned long last;
};

/**
 * struct follow_rate - pages that have come to a node within a second
 * @began: of that second; jiffies
 * @pages: so many
 */
struct follow_rate {
	unsigned long began;
	unsigned long pages;
};

/**
 * follow_home_says - Has somebody claimed a file's pages for a node within a second?
 * @home: where the file is looked up; others may change it
 * @key: the file
 * @claim: where they are wanted
 * @now: jiffies
 * @second: how long that is; jiffies
 *
 * In page faults that move nothing, so inline.
 *
 * Return: true if so: to claim them again would say nothing new.
 */
static inline bool follow_home_says(const struct follow_home *home,
				    unsigned long key, unsigned int claim,
				    unsigned long now, unsigned long second)
{
	return READ_ONCE(home->key) == key && READ_ONCE(home->claim) == claim &&
	       time_before(now, READ_ONCE(home->last) + second);
}

/**
 * follow_home_free - Check whether a file can have a home
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
