/* SPDX-License-Identifier: GPL-2.0 */
/* Migration on faults: what is decided without a folio or a lock. */
#ifndef _MM_FAULT_MIGRATE_DECIDE_H
#define _MM_FAULT_MIGRATE_DECIDE_H

#include <linux/compiler.h>
#include <linux/jiffies.h>
#include <linux/types.h>

/**
 * enum fm_kind - what a page is that nobody maps
 * @FM_SWAP: anonymous memory, in the swap cache
 * @FM_SHMEM: of tmpfs, memfd or shared memory
 * @FM_FILE: of any other file
 */
enum fm_kind {
	FM_SWAP,
	FM_SHMEM,
	FM_FILE,
};

/**
 * enum fm_verdict - what becomes of a page that a fault is about to map
 * @FM_DIRTY: it stays: it has to be written back first
 * @FM_SHARED: it stays: another node uses what it is part of, too
 * @FM_RATE: it stays: too many have moved within a second
 * @FM_NOMEM: it stays: its node is nearly full
 * @FM_BUSY: it stays: somebody holds it
 * @FM_REASONS: how many reasons to stay there are
 * @FM_MOVE: it moves
 * @FM_LEAVE: it is where it should be, or nobody asks for more
 */
enum fm_verdict {
	FM_DIRTY,
	FM_SHARED,
	FM_RATE,
	FM_NOMEM,
	FM_BUSY,
	FM_REASONS,
	FM_MOVE = FM_REASONS,
	FM_LEAVE,
};

/**
 * struct fm_page - what is known of a page that a fault is about to map
 * @kind: what it is
 * @explicit: a policy was set for it, or for the task
 * @misplaced: it should be on another node
 * @mapped: somebody maps it already
 * @dirty: its file does not have it yet
 * @held: nobody may take it: it is pinned, not on a list, or poisoned
 */
struct fm_page {
	enum fm_kind kind;
	bool explicit;
	bool misplaced;
	bool mapped;
	bool dirty;
	bool held;
};

/**
 * struct fm_home - where the pages of a file were wanted last
 * @key: the file; 0 for none
 * @claim: who wanted them: a node, or what stands for a set of nodes
 * @last: when; jiffies
 */
struct fm_home {
	unsigned long key;
	unsigned int claim;
	unsigned long last;
};

/**
 * struct fm_rate - pages that have come to a node within a second
 * @began: of that second; jiffies
 * @pages: so many
 */
struct fm_rate {
	unsigned long began;
	unsigned long pages;
};

/**
 * fm_claimed - Has somebody claimed a file's pages for a node within a second?
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
static inline bool fm_claimed(const struct fm_home *home, unsigned long key,
			      unsigned int claim, unsigned long now,
			      unsigned long second)
{
	return READ_ONCE(home->key) == key && READ_ONCE(home->claim) == claim &&
	       time_before(now, READ_ONCE(home->last) + second);
}

bool fm_reaches(unsigned int level, enum fm_kind kind, bool explicit);
enum fm_verdict fm_verdict(const struct fm_page *page);
bool fm_may_claim(const struct fm_home *home, unsigned long key,
		  unsigned int claim, unsigned long now, unsigned long quiet);
void fm_claim(struct fm_home *home, unsigned long key, unsigned int claim,
	      unsigned long now);
bool fm_rate_has(const struct fm_rate *rate, unsigned long now,
		 unsigned long second, unsigned long limit,
		 unsigned long nr_pages);
bool fm_rate_takes(struct fm_rate *rate, unsigned long now,
		   unsigned long second, unsigned long limit,
		   unsigned long nr_pages);
void fm_rate_returns(struct fm_rate *rate, unsigned long now,
		     unsigned long second, unsigned long nr_pages);

#endif /* _MM_FAULT_MIGRATE_DECIDE_H */
