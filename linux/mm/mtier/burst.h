/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Page promotion by bursts of looks: what its parts know of each other.
 *
 *   sample.c: which memory --> look.c, others.c: used or not --> burst.c: how often,
 *   how far apart, what that says (place.c) --> mark.c: which pages --> swap.c: change
 *   places --> audit.c: was that right?
 *
 * All of it is done by one thread, kmtierd, so that nothing here is locked but
 * what others may read (burst.c, for show.c).
 */
#ifndef _MM_MTIER_BURST_H
#define _MM_MTIER_BURST_H

#include <linux/bitmap.h>
#include <linux/bits.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/types.h>

#include "eligible.h"
#include "place.h"
#include "range.h"

struct dentry;
struct mtier_entries;
struct mtier_look;
struct mtier_slot;

/*
 * What is known of a page during a burst, in one byte: the looks that found it
 * accessed, the lower tier, that its folio's young flag is not news, that it is of a
 * large folio, and that it is to change places now.
 */
#define MTIER_PAGE_COUNT	0x0f
#define MTIER_PAGE_LOW		BIT(4)
#define MTIER_PAGE_TOLD		BIT(5)
#define MTIER_PAGE_LARGE	BIT(6)
#define MTIER_PAGE_GOES		BIT(7)
/* To be looked at also where nobody else on its tier is. */
#define MTIER_PAGE_ASKED	0xfd
/* Of the same folio as the page before it, which stands for all of them. */
#define MTIER_PAGE_REST		0xfe
/* Not looked at, or no longer. */
#define MTIER_PAGE_NONE		0xff

/**
 * struct mtier_audited - a page that has changed places, and is looked at again
 * @slot: its address space, held
 * @addr: where
 * @page: what is known of it in this burst: one of a range, or @own
 * @own: the same, where it is looked at alone
 * @next: the next of its part that is
 */
struct mtier_audited {
	struct mtier_slot *slot;
	unsigned long addr;
	u8 *page;
	u8 own;
	struct mtier_audited *next;
};

/* So many address spaces more may be looked at for them. */
#define MTIER_AUDIT_PARTS	32

/**
 * struct mtier_part - what a burst looks at of one address space
 * @slot: the address space, held
 * @first: index of its first range
 * @nr: how many it has
 * @left: ranges of these of which nothing is known, since they left the burst
 * @audited: single pages beside these
 */
struct mtier_part {
	struct mtier_slot *slot;
	unsigned int first;
	unsigned int nr;
	unsigned int left;
	struct mtier_audited *audited;
};

/**
 * struct mtier_watch - what a burst looks at
 * @part: by address space
 * @nr_parts: how many
 * @at: address of each range, ascending in each part
 * @page: MTIER_RANGE_PAGES bytes for each range
 * @nr: ranges
 * @low_only: of the upper tier only what is audited: nobody has to leave it
 */
struct mtier_watch {
	struct mtier_part *part;
	unsigned int nr_parts;
	unsigned long *at;
	u8 *page;
	unsigned int nr;
	bool low_only;
};

/**
 * struct mtier_seen - what bursts did, summed up since the start
 * @bursts: bursts
 * @looks: looks, the first of each burst with them
 * @ptes: pages whose entries were read, which huge pages share
 * @flushes: TLB flushes of an address space
 * @mms: address spaces looked at, in all looks; one flush for each at most, and with
 *	each part of it for others that map the same
 * @pages: pages that were looked at, by side, in the first look of each burst
 * @fixed: and those that were not, as they may not change places
 * @left: ranges that left a burst, since somebody else was at work there
 * @large: how many of @pages were parts of large folios
 * @common: and how many were mapped by several, who were all asked
 * @shared: pages that were not looked at for being mapped by others, too: shared
 *	copy-on-write, or by somebody who is not looked at
 * @told: accesses known from the young flag: somebody else cleared the bit
 * @taken: pages that should go up
 * @promoted: pages that did
 * @demoted: pages that went down for them
 * @spent_ns: CPU time of looks
 * @moved_ns: CPU time of moves
 */
struct mtier_seen {
	u64 bursts;
	u64 looks;
	u64 ptes;
	u64 flushes;
	u64 mms;
	u64 pages[MTIER_SIDES];
	u64 fixed[MTIER_SIDES];
	u64 left;
	u64 large;
	u64 common;
	u64 shared;
	u64 told;
	u64 taken;
	u64 promoted;
	u64 demoted;
	u64 spent_ns;
	u64 moved_ns;
};

/**
 * struct mtier_burst - the state of all bursts
 * @place: of the decision
 * @machine: what that knows of this one
 * @worth: what counts were worth after the last look
 * @hist: counts at the end of the last burst, by number of looks
 * @seen: sums
 * @fixed: Q16 share of the pages of a side that may not change places
 * @margin: Q16 of the last page for which there is room
 * @gain_ns: what the last burst found
 * @spent_ns: what it took
 * @why: why it found no more, if it met pages below; what was said before stands else
 * @faded_ns: when half of the audits was forgotten
 * @whole_ns: before that large folios have no place above
 */
struct mtier_burst {
	struct mtier_place place;
	struct mtier_place_machine machine;
	struct mtier_worth worth;
	struct mtier_counts hist[MTIER_LOOKS_MOST + 1];
	struct mtier_seen seen;
	u32 fixed[MTIER_SIDES];
	u32 margin;
	u64 gain_ns;
	u64 spent_ns;
	enum mtier_plan_why why;
	u64 faded_ns;
	u64 whole_ns;
};

/* Address spaces that are noted; for one more all are flushed. */
#define MTIER_FLUSH_MMS		32

/**
 * struct mtier_flush - whose TLB entries are to be flushed
 * @mm: address spaces, each held (mmgrab)
 * @nr: how many
 */
struct mtier_flush {
	struct mm_struct *mm[MTIER_FLUSH_MMS];
	unsigned int nr;
};

/**
 * struct mtier_others - what others say who map the same part of a file
 * @top: nodes of the upper tier
 * @low: those of the lower
 * @flush: whose Accessed bits were cleared
 * @seen: what is to be counted
 * @theirs: pages that another VMA stands for
 * @nobodys: pages that are not looked at
 * @met: pages that somebody has mapped, in the first look
 * @stays: pages that may not go up, or not down: MTIER_LOW or MTIER_TOP
 * @used: pages that any of them has used
 * @before: what was known of the pages before a look
 * @found: pages of the VMA that is asked
 * @rules: of its address space
 */
struct mtier_others {
	nodemask_t top;
	nodemask_t low;
	struct mtier_flush *flush;
	struct mtier_seen *seen;
	DECLARE_BITMAP(theirs, MTIER_RANGE_PAGES);
	DECLARE_BITMAP(nobodys, MTIER_RANGE_PAGES);
	DECLARE_BITMAP(met, MTIER_RANGE_PAGES);
	unsigned long stays[MTIER_SIDES][BITS_TO_LONGS(MTIER_RANGE_PAGES)];
	DECLARE_BITMAP(used, MTIER_RANGE_PAGES);
	u8 before[MTIER_RANGE_PAGES];
	DECLARE_BITMAP(found, MTIER_RANGE_PAGES);
	struct mtier_rules rules;
};

/**
 * struct mtier_swapped - what came of a plan
 * @promoted: base pages that went up
 * @demoted: base pages that went down
 * @taken: base pages that should go up and had their turn
 * @scattered: above there was no block for a large folio
 */
struct mtier_swapped {
	unsigned long promoted;
	unsigned long demoted;
	unsigned long taken;
	bool scattered;
};

/**
 * struct mtier_moved - what has moved from a node of the lower tier, and to it
 * @promoted: base pages that went up from it
 * @dropped: folios on it that were to go up and did not
 * @demoted: base pages that came down to it
 */
struct mtier_moved {
	unsigned long promoted;
	unsigned long dropped;
	unsigned long demoted;
};

/**
 * mtier_watch_range() - what is known of the pages of a range
 * @watch: what is looked at
 * @range: its index
 *
 * Return: MTIER_RANGE_PAGES bytes.
 */
static inline u8 *mtier_watch_range(const struct mtier_watch *watch,
				    unsigned int range)
{
	return watch->page + (size_t)range * MTIER_RANGE_PAGES;
}

/**
 * mtier_page_side() - where does a page lie that is looked at?
 * @page: what is known of it; not MTIER_PAGE_NONE
 *
 * Return: the side.
 */
static inline enum mtier_side mtier_page_side(u8 page)
{
	return page & MTIER_PAGE_LOW ? MTIER_LOW : MTIER_TOP;
}

/**
 * mtier_page_watched() - is a page looked at, for itself or for its folio?
 * @page: what is known of it
 *
 * Return: true if so; false, too, where another one stands for it.
 */
static inline bool mtier_page_watched(u8 page)
{
	return page < MTIER_PAGE_ASKED;
}

/**
 * mtier_page_group() - with which others is a page counted?
 * @page: what is known of it; it is looked at
 *
 * Return: the group, see place.h.
 */
static inline u32 mtier_page_group(u8 page)
{
	return mtier_page_side(page) +
	       (page & MTIER_PAGE_LARGE ? MTIER_LARGE : 0);
}

/* ---- sample.c ---- */

int mtier_sample_draw(struct mtier_watch *watch, unsigned long want);
void mtier_sample_drop(struct mtier_watch *watch);

/* ---- look.c ---- */

int mtier_look_young(struct mtier_slot *slot, unsigned long addr);
void mtier_look(struct mtier_watch *watch, bool first, struct mtier_seen *seen);
unsigned int mtier_look_nr(const u8 *page, unsigned int most);
void mtier_look_met(struct mtier_look *l, const struct mtier_entries *e,
		    struct folio *folio, u8 *page);

/* ---- mark.c ---- */

void mtier_mark_count(const struct mtier_watch *watch,
		      struct mtier_counts *counts);
void mtier_mark_plan(struct mtier_watch *watch, const struct mtier_plan *plan,
		     u32 start);
void mtier_mark_drop(struct mtier_watch *watch);
void mtier_mark_keep(struct mtier_watch *watch);

/* ---- heat.c ---- */

void mtier_heat_note(const struct mtier_watch *watch, u64 window_ns);
void mtier_heat_init(struct dentry *dir);

/* ---- others.c ---- */

bool mtier_others_own(struct mtier_others *o, struct vm_area_struct *vma,
		      unsigned long addr, unsigned int nr);
int mtier_others_ask(struct mtier_others *o, struct vm_area_struct *vma,
		     unsigned long addr, unsigned int nr);
bool mtier_others_look(struct mtier_others *o, struct vm_area_struct *vma,
		       unsigned long addr, unsigned int nr, u8 *page,
		       struct mtier_look *look);
void mtier_flush_later(struct mtier_flush *f, struct mm_struct *mm,
		       struct mtier_seen *seen);
void mtier_flush_now(struct mtier_flush *f, struct mtier_seen *seen);

/* ---- audit.c ---- */

int mtier_audit_start(void);
void mtier_audit_stop(void);
void mtier_audit_expire(void);
void mtier_audit_take(struct mtier_watch *w);
void mtier_audit_note(const struct mtier_watch *w,
		      const struct mtier_worth *worth,
		      const struct mtier_plan *plan, u64 tau_ns);
bool mtier_audit_has_young(void);
void mtier_audit_look_early(u64 cleared_ns);
void mtier_audit_judge_early(struct mtier_place *p);
void mtier_audit_judge(struct mtier_place *p, u32 looks, bool all);

/* ---- swap.c ---- */

struct mtier_swapped mtier_swap(struct mtier_watch *watch,
				const struct mtier_plan *plan);
struct mtier_moved mtier_swap_node(int nid);
int mtier_swap_start(void);
void mtier_swap_stop(void);
int mtier_swap_init(void);

/* ---- burst.c ---- */

extern struct mutex mtier_burst_lock;
extern struct mtier_burst mtier_burst;

bool mtier_burst_sleep(u64 when_ns);
int mtier_burst_start(void);
int mtier_burst_ask(void);
void mtier_burst_stop(void);

#endif /* _MM_MTIER_BURST_H */
