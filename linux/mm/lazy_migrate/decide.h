/* SPDX-License-Identifier: GPL-2.0 */
/* Lazy migration: what is decided without looking at a page, a lock or a clock. */
#ifndef _MM_LAZY_MIGRATE_DECIDE_H
#define _MM_LAZY_MIGRATE_DECIDE_H

#include <linux/types.h>

/* Pages that one fault pulls at most, itself included, unless folios are large */
#define LAZY_BATCH_PAGES	16

/**
 * enum lazy_reason - why a misplaced page is not moved
 * @LAZY_DIRTY: page of a file that has to be written back first
 * @LAZY_SHARED: others map it, and they were not asked: MPOL_MF_MOVE only
 * @LAZY_NOMEM: too little free memory on the node it should go to
 * @LAZY_BUSY: pinned, merged by KSM, locked, or held by somebody else
 * @LAZY_REASONS: how many there are
 */
enum lazy_reason {
	LAZY_DIRTY,
	LAZY_SHARED,
	LAZY_NOMEM,
	LAZY_BUSY,
	LAZY_REASONS,
};

/* What becomes of a page that mbind() comes across, beside a lazy_reason */
enum {
	LAZY_MARK = LAZY_REASONS,	/* the next access faults */
	LAZY_LEAVE,			/* it may stay where it is */
};

/**
 * struct lazy_page - what mbind() sees of a page
 * @policy: its policy is a lazy one
 * @local: that policy is MPOL_LOCAL: only the next access tells the node
 * @misplaced: the policy wants it elsewhere
 * @dirty: it belongs to a file and is dirty
 * @shared: others map it, too
 * @held: it is pinned, or merged by KSM
 */
struct lazy_page {
	bool policy;
	bool local;
	bool misplaced;
	bool dirty;
	bool shared;
	bool held;
};

/**
 * struct lazy_window - a stretch of addresses
 * @start: first byte
 * @end: end
 */
struct lazy_window {
	unsigned long start;
	unsigned long end;
};

bool lazy_request_fits(unsigned short mode, unsigned short mode_flags,
		       unsigned long flags);
int lazy_verdict(const struct lazy_page *page, bool move_all);
struct lazy_window lazy_batch(unsigned long addr, unsigned long vm_start,
			      unsigned long vm_end);

#endif /* _MM_LAZY_MIGRATE_DECIDE_H */
