/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Interfaces between the steps of a burst (sampling window) of page promotion.
 *
 *   sweep.c             find the ranges in use (Accessed bits above page tables)
 *   sample.c            draw the memory to scan
 *   look.c, others.c    scan: read and clear Accessed bits ("look" in identifiers)
 *   burst.c             set number and interval of the scans, and decide (place.c)
 *   mark.c              select pages
 *   swap.c              exchange pages
 *   audit.c             re-check exchanged pages later
 *
 * Locking: one thread, kmtierd, does all of it. So only data that is read elsewhere
 * is locked (burst.c, for show.c).
 */
#ifndef _MM_MTIER_BURST_H
#define _MM_MTIER_BURST_H

#include <linux/bitmap.h>
#include <linux/bits.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/types.h>

#include "eligible.h"
#include "file_set.h"
#include "place.h"
#include "range.h"
#include "routes.h"
#include "table_set.h"

struct dentry;
struct mtier_entries;
struct mtier_look;
struct mtier_sample;
struct mtier_slot;

/*
 * State of a page during a burst, in one byte:
 *
 *   COUNT    access count: number of scans after the first that found it accessed
 *   LOW      on the slow tier
 *   TOLD     the young flag of its folio was set before the next scan
 *   LARGE    part of a large folio
 *   GOES     selected for the exchange that is about to start
 */
#define MTIER_PAGE_COUNT	0x0f
#define MTIER_PAGE_LOW		BIT(4)
#define MTIER_PAGE_TOLD		BIT(5)
#define MTIER_PAGE_LARGE	BIT(6)
#define MTIER_PAGE_GOES		BIT(7)
/* To be sampled for a re-check, even if the sample has no other page of its tier. */
#define MTIER_PAGE_ASKED	0xfd
/* A page of the same folio as the page before it, whose byte represents the folio. */
#define MTIER_PAGE_REST		0xfe
/* Not sampled, or removed from the sample. */
#define MTIER_PAGE_NONE		0xff

/**
 * struct mtier_audited - an exchanged page that is sampled again
 * @slot: its address space, held
 * @addr: its address
 * @page: its byte in this burst: one of a range, or @own
 * @own: its byte if it is scanned alone
 * @next: next such page of the same part
 */
struct mtier_audited {
	struct mtier_slot *slot;
	unsigned long addr;
	u8 *page;
	u8 own;
	struct mtier_audited *next;
};

/* Most address spaces that are added to a sample for re-checks. */
#define MTIER_AUDIT_PARTS	32

/**
 * struct mtier_part - the part of a sample that is in one address space
 * @slot: the address space, held
 * @first: index of its first range
 * @nr: number of its ranges
 * @audited: list of single pages outside of these ranges
 */
struct mtier_part {
	struct mtier_slot *slot;
	unsigned int first;
	unsigned int nr;
	struct mtier_audited *audited;
};

/**
 * struct mtier_watch - the sample of a burst
 * @part: parts of the sample, one for each address space
 * @nr_parts: number of entries in @part
 * @at: address of each range, ascending in each part
 * @sides: tiers that each range is sampled for, BIT(side); 0 if the range was removed, and
 *	nothing is known of it
 * @page: MTIER_RANGE_PAGES bytes for each range
 * @route: the same number of bytes: the route of each page that @page says is sampled
 * @routes: the routes, which all bursts share
 * @nr: number of ranges
 * @expected: estimate by sweeps of the pages of its ranges, for each tier
 * @files: pages of files that are scanned in this burst
 * @tables: page tables of other mappers that were scanned in this burst
 * @low_only: all slow memory fits into the fast tier, so of the fast tier only
 *	pages for a re-check are sampled
 */
struct mtier_watch {
	struct mtier_part *part;
	unsigned int nr_parts;
	unsigned long *at;
	u8 *sides;
	u8 *page;
	u8 *route;
	struct mtier_routes *routes;
	unsigned int nr;
	u64 expected[MTIER_SIDES];
	struct mtier_file_set files;
	struct mtier_table_set tables;
	bool low_only;
};

/**
 * struct mtier_sample_sum - ranges that can be drawn
 * @ranges: number of ranges for each tier
 * @pages: estimate of their pages on that tier
 * @weight: sum of the weights of all address spaces
 * @weight_each: the same if all ranges have the same weight
 * @now: time for which that is true
 */
struct mtier_sample_sum {
	unsigned long ranges[MTIER_SIDES];
	u64 pages[MTIER_SIDES];
	u64 weight[MTIER_SIDES];
	u64 weight_each[MTIER_SIDES];
	ktime_t now;
};

/**
 * struct mtier_seen - statistics of bursts, summed up since the start
 * @bursts: bursts, those that found nothing in use included
 * @looks: scans, including the first one of each burst
 * @ptes: pages whose entries were read; a huge page counts all of its base pages
 * @flushes: TLB flushes of an address space
 * @flushed_ns: time that these took, for scans and sweeps
 * @mms: address spaces scanned, in all scans. A scan flushes each of them at most
 *	once, and once more for each other part that it maps memory of
 * @pages: pages sampled in the first scan of each burst, by tier
 * @fixed: pages not sampled in the first scan since they may not migrate, by tier
 * @left: scans of a range that failed because another task had a lock
 * @large: part of @pages that belongs to large folios
 * @common: pages that several processes map, with all of their mappers scanned
 * @shared: pages not sampled for their other mappers: shared copy-on-write, or
 *	mapped by a process with a secondary MMU
 * @told: accesses found by the young flag, since another user cleared the Accessed
 *	bit
 * @taken: pages whose promotion was attempted
 * @promoted: pages promoted
 * @demoted: pages demoted to make room
 * @unmapped: number of these that nobody mapped
 * @spent_ns: CPU time of scans
 * @moved_ns: CPU time of migrations
 * @sweeps: sweeps over the entries above page tables
 * @swept: ranges visited in them
 * @swept_ns: CPU time of sweeps; not part of @spent_ns
 */
struct mtier_seen {
	u64 bursts;
	u64 looks;
	u64 ptes;
	u64 flushes;
	u64 flushed_ns;
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
	u64 unmapped;
	u64 spent_ns;
	u64 moved_ns;
	u64 sweeps;
	u64 swept;
	u64 swept_ns;
};

/* Most pools whose reasons place/why shows. */
#define MTIER_WHYS_MAX		8U

/**
 * struct mtier_why_of - reason why no more pages were promoted to some nodes
 * @nodes: the nodes, those of a pool
 * @why: the reason
 */
struct mtier_why_of {
	nodemask_t nodes;
	enum mtier_plan_why why;
};

/**
 * struct mtier_burst - state that is kept from burst to burst
 * @place: state of the decision
 * @machine: parameters of the decision that depend on the machine
 * @worth: estimated access probabilities after the last scan
 * @hist: access counts at the end of the last burst, by number of scans
 * @seen: statistics
 * @fixed: Q16 share of the pages of a tier that may not migrate
 * @in_use: ranges in use with slow pages
 * @per_range: slow pages that may migrate for each MTIER_RANGE_PAGES that a sweep expects
 * @margin: Q16 hotness threshold: access probability of the last page that fits
 *	into the fast tier
 * @gain_ns: gain of the last burst
 * @spent_ns: CPU time of the scans of the last burst
 * @nr_whys: number of entries in @why
 * @why: reasons why no more pages were exchanged, fast tier first; kept if a burst
 *	sampled no slow page
 * @faded_ns: time at which the results of re-checks were halved last
 * @whole_ns: time before which no large folio is promoted, for lack of a contiguous
 *	block
 */
struct mtier_burst {
	struct mtier_place place;
	struct mtier_place_machine machine;
	struct mtier_worth worth;
	struct mtier_counts hist[MTIER_LOOKS_MOST + 1];
	struct mtier_seen seen;
	u32 fixed[MTIER_SIDES];
	unsigned long in_use;
	u32 per_range;
	u32 margin;
	u64 gain_ns;
	u64 spent_ns;
	unsigned int nr_whys;
	struct mtier_why_of why[MTIER_WHYS_MAX];
	u64 faded_ns;
	u64 whole_ns;
};

/* Most address spaces in a list; all of them are flushed before one more is added. */
#define MTIER_FLUSH_MMS		32

/**
 * struct mtier_flush - address spaces whose TLBs have to be flushed
 * @mm: address spaces, each held (mmgrab)
 * @nr: number of entries in @mm
 */
struct mtier_flush {
	struct mm_struct *mm[MTIER_FLUSH_MMS];
	unsigned int nr;
};

/**
 * struct mtier_others - result of a walk over all VMAs that map a part of a file
 * @reads: the VMA that was drawn cannot change the file; see mtier_only_reads()
 * @above: nodes that pages can be promoted to
 * @low: nodes of the slower tiers
 * @flush: address spaces in which Accessed bits were cleared
 * @seen: statistics of the burst
 * @nobodys: pages that are not sampled, since their use in one of their mappers is
 *	not known
 * @apart: pages of the file that are not scanned here: the VMA that was drawn has
 *	private copies of them, or they were in the sample before the first scan
 * @met: pages that the first scan has found mapped, or that are in @apart
 * @missing: pages of the file that were mapped, but not met when the first scan had read
 *	the VMA that was drawn
 * @tables: page tables of other mappers that this burst has scanned
 * @data: pages that a mapper other than the VMA that was drawn does not execute
 * @stays: pages that may not migrate: [MTIER_LOW] no promotion, [MTIER_TOP] no
 *	demotion
 * @may: pages that the rules of one mapper at least allow to leave a tier
 * @used: pages that any of the other mappers has used
 * @before: bytes of the pages before the scan
 * @found: pages found in the VMA that is scanned now
 * @rules: allowed nodes of the address space of that VMA
 */
struct mtier_others {
	bool reads;
	nodemask_t above;
	nodemask_t low;
	struct mtier_flush *flush;
	struct mtier_seen *seen;
	DECLARE_BITMAP(nobodys, MTIER_RANGE_PAGES);
	DECLARE_BITMAP(apart, MTIER_RANGE_PAGES);
	DECLARE_BITMAP(met, MTIER_RANGE_PAGES);
	DECLARE_BITMAP(missing, MTIER_RANGE_PAGES);
	struct mtier_table_set *tables;
	DECLARE_BITMAP(data, MTIER_RANGE_PAGES);
	unsigned long stays[MTIER_SIDES][BITS_TO_LONGS(MTIER_RANGE_PAGES)];
	unsigned long may[MTIER_SIDES][BITS_TO_LONGS(MTIER_RANGE_PAGES)];
	DECLARE_BITMAP(used, MTIER_RANGE_PAGES);
	u8 before[MTIER_RANGE_PAGES];
	DECLARE_BITMAP(found, MTIER_RANGE_PAGES);
	struct mtier_rules rules;
};

/**
 * struct mtier_swapped - result of an exchange
 * @promoted: base pages promoted
 * @demoted: base pages demoted
 * @unmapped: number of these that nobody mapped
 * @taken: base pages whose promotion was attempted
 * @scattered: the fast tier had no contiguous block for a large folio
 */
struct mtier_swapped {
	unsigned long promoted;
	unsigned long demoted;
	unsigned long unmapped;
	unsigned long taken;
	bool scattered;
};

/**
 * struct mtier_moved - totals of the migrations from and to a slow node
 * @promoted: base pages promoted from it
 * @dropped: folios on it whose promotion was attempted and failed
 * @demoted: base pages demoted to it
 */
struct mtier_moved {
	unsigned long promoted;
	unsigned long dropped;
	unsigned long demoted;
};

/**
 * mtier_watch_range() - Get the bytes of the pages of a range.
 * @watch: the sample
 * @range: index of the range
 *
 * Return: MTIER_RANGE_PAGES bytes.
 */
static inline u8 *mtier_watch_range(const struct mtier_watch *watch,
				    unsigned int range)
{
	return watch->page + (size_t)range * MTIER_RANGE_PAGES;
}

/**
 * mtier_page_side() - Get the tier of a sampled page.
 * @page: byte of the page; not MTIER_PAGE_NONE
 *
 * Return: the tier.
 */
static inline enum mtier_side mtier_page_side(u8 page)
{
	return page & MTIER_PAGE_LOW ? MTIER_LOW : MTIER_TOP;
}

/**
 * mtier_page_watched() - Check whether a page is sampled, for itself or its folio.
 * @page: byte of the page
 *
 * Return: true if it is sampled; false also for a page that another one represents.
 */
static inline bool mtier_page_watched(u8 page)
{
	return page < MTIER_PAGE_ASKED;
}

/**
 * mtier_watch_group() - Get the page class in which a page is counted.
 * @watch: the sample
 * @at: index of the page in it; the page is sampled
 *
 * Return: the class, see place.h.
 */
static inline u32 mtier_watch_group(const struct mtier_watch *watch, size_t at)
{
	return mtier_route_group(&watch->routes->route[watch->route[at]],
				 watch->page[at] & MTIER_PAGE_LARGE);
}

/* ---- sweep.c ---- */

void mtier_sweep(ktime_t now, bool force, u64 tau_ns, struct mtier_seen *seen);
u64 mtier_sweep_next(void);
void mtier_sweep_stop(void);

/* ---- sample.c ---- */

bool mtier_sample_left_out(const struct mtier_slot *slot);
bool mtier_sample_sort(struct mtier_sample *s, const struct mtier_sample *old);
void mtier_sample_sum(struct mtier_sample_sum *sum, ktime_t now);
int mtier_sample_draw(struct mtier_watch *watch, const struct mtier_sample_sum *sum,
		      unsigned long want, bool low_only);
void mtier_sample_drop(struct mtier_watch *watch);

/* ---- look.c ---- */

void mtier_look(struct mtier_watch *watch, bool first, struct mtier_seen *seen);
unsigned int mtier_look_nr(const u8 *page, unsigned int most);
void mtier_look_met(struct mtier_look *l, const struct mtier_entries *e,
		    struct folio *folio, u8 *page);

/* ---- mark.c ---- */

void mtier_mark_count(const struct mtier_watch *watch);
void mtier_mark_counts(const struct mtier_watch *watch, u32 looks,
		       struct mtier_counts *counts, struct mtier_evidence *e);
void mtier_mark_plan(struct mtier_watch *watch, const struct mtier_plan *plan,
		     u32 start);
void mtier_mark_drop(struct mtier_watch *watch);
void mtier_mark_keep(struct mtier_watch *watch);

/* ---- heat.c ---- */

void mtier_heat_note(const struct mtier_watch *watch, u64 window_ns);
void mtier_heat_init(struct dentry *dir);

/* ---- flush.c ---- */

void mtier_flush_later(struct mtier_flush *f, struct mm_struct *mm,
		       struct mtier_seen *seen);
void mtier_flush_now(struct mtier_flush *f, struct mtier_seen *seen);

/* ---- others.c ---- */

/*
 * Most VMAs that are walked for one part of a file; the walk holds the lock of the
 * file.
 */
#define MTIER_OTHERS_MOST	4096

bool mtier_others_copies(struct mtier_others *o, struct vm_area_struct *vma,
			 unsigned long addr, unsigned int nr, const u8 *page);
bool mtier_others_take(struct mtier_others *o, struct mtier_file_set *files,
		       struct vm_area_struct *vma, unsigned long addr,
		       unsigned int nr);
void mtier_others_drop(const struct mtier_others *o, u8 *page, unsigned int nr);
int mtier_others_ask(struct mtier_others *o, const struct mtier_rules *rules,
		     struct vm_area_struct *vma, unsigned long addr,
		     unsigned int nr);
bool mtier_others_look(struct mtier_others *o, struct vm_area_struct *vma,
		       unsigned long addr, unsigned int nr, u8 *page,
		       struct mtier_look *look);

/* ---- audit.c ---- */

int mtier_audit_start(void);
void mtier_audit_stop(void);
void mtier_audit_expire(void);
void mtier_audit_take(struct mtier_watch *w);
void mtier_audit_note(const struct mtier_watch *w,
		      const struct mtier_worth *worth,
		      const struct mtier_plan *plan, u64 tau_ns);
bool mtier_audit_has_young(void);
int mtier_page_young(struct mtier_slot *slot, unsigned long addr);
void mtier_audit_look_early(u64 cleared_ns);
void mtier_audit_judge_early(struct mtier_place *p);
void mtier_audit_judge(struct mtier_place *p, u32 looks, bool all);

/* ---- swap.c ---- */

struct mtier_swapped mtier_swap(struct mtier_watch *watch, const struct mtier_pool *pool,
				const struct mtier_plan *plan);
struct mtier_moved mtier_swap_node(int nid);
int mtier_swap_start(void);
void mtier_swap_stop(void);
int mtier_swap_init(void);

/* ---- machine.c ---- */

/* Fewest pages that have to move in a batch to learn from it. */
#define MTIER_MOVED_LEAST	64

void mtier_seen_add(struct mtier_seen *sum, const struct mtier_seen *s);
void mtier_machine_fixed(const struct mtier_seen *seen);
void mtier_machine_looked(const struct mtier_seen *seen);
void mtier_machine_per_range(const struct mtier_watch *watch,
			     const struct mtier_seen *seen);
void mtier_machine_read(struct mtier_place_machine *m, u64 pages);
void mtier_machine_move_ns(struct mtier_place_machine *m, u64 ns,
			   unsigned long pages);
bool mtier_machine_any_low(void);

/* ---- burst.c ---- */

extern struct mutex mtier_burst_lock;
extern struct mtier_burst mtier_burst;

bool mtier_burst_sleep(u64 when_ns);
int mtier_burst_start(void);
int mtier_burst_ask(void);
void mtier_burst_stop(void);

#endif /* _MM_MTIER_BURST_H */
