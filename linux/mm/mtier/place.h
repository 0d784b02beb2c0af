/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Decision which pages belong into the fast tier, as pure functions.
 *
 * In a burst, some ranges of memory are scanned up to MTIER_LOOKS_MOST times, about
 * mtier_place.tau_ns apart. The access count of a page is the number of scans that
 * found its Accessed bit set. No access count of a page is kept between bursts. The
 * meaning of an access count is not assumed either: it is estimated from the histogram
 * of all access counts (history.c, place.c). pace.c sets the pace of the scans.
 * forecast.c estimates how long the result stays true.
 *
 * As in policy.h, there is no struct page, lock, clock or allocation. All state is in
 * structs that the caller owns and serialises. Each input has a defined result, and
 * arithmetic saturates.
 *
 * Shares, probabilities and rates are in Q16: 65536 is 1.
 */
#ifndef _MM_MTIER_PLACE_H
#define _MM_MTIER_PLACE_H

#include <linux/bits.h>
#include <linux/types.h>

/* Most scans of a burst. The first scan only clears bits, and does not count. */
#define MTIER_LOOKS_MOST		8
/* Fewest scans before an exchange; one less before promotion into free memory. */
#define MTIER_LOOKS_LEAST	3
/* Pages of the smallest burst: enough for estimates with errors of 2 %. */
#define MTIER_BURST_PAGES	4096
/* The same with a small share of a CPU, if scans are expensive. */
#define MTIER_NOTICE_PAGES	512
/* One in this many exchanged pairs is re-checked. */
#define MTIER_AUDIT_EVERY	8
/* Age of a pair at its re-check: 1/8, 1/2, 2 or 8 s. */
#define MTIER_AUDIT_AGES	4
#define MTIER_AUDIT_AGE_NS(i)	(125000000ULL << 2 * (i))
/* Pairs of the first age are also scanned after this part of the scan interval. */
#define MTIER_EARLY_PARTS	16
/* Savings of a pair after this time do not count. */
#define MTIER_HORIZON_NS	(30 * 1000000000ULL)

#define MTIER_Q16		65536U
#define MTIER_TAU_MIN_NS	1000000ULL
#define MTIER_TAU_CAP_NS	(10 * 1000000000ULL)

/*
 * Assumed cost of the scan of a page, before any was measured. It is too high on
 * purpose. With a lower one, the first burst of a slow machine would take as long as
 * many bursts, and so would the rest after it.
 */
#define MTIER_LOOK_NS		400

/**
 * enum mtier_side - fast and slow memory
 * @MTIER_TOP: nodes of the fast tier
 * @MTIER_LOW: nodes of all slower tiers
 * @MTIER_SIDES: number of values
 */
enum mtier_side {
	MTIER_TOP,
	MTIER_LOW,
	MTIER_SIDES,
};

/* Tiers that are counted apart, the fast tier first. Even slower ones count as the last. */
#define MTIER_RANKS		3
/*
 * Pages of large folios are a separate page class (group) on each tier. A scan finds
 * a huge page accessed after one access, or after any number of accesses to any of
 * its pages. Arrays by class have the single pages of each tier first, and the pages
 * of large folios behind them: at MTIER_TOP + MTIER_LARGE, for example.
 */
#define MTIER_LARGE		MTIER_RANKS
#define MTIER_GROUPS		(2 * MTIER_RANKS)
/* Assumed size of each large folio: the most that one entry maps. */
#define MTIER_LARGE_BITS	9
#define MTIER_LARGE_PAGES	((u32)BIT(MTIER_LARGE_BITS))

/**
 * struct mtier_counts - number of pages by access count
 * @pages: base pages, by class and by number of scans that found them accessed
 */
struct mtier_counts {
	u32 pages[MTIER_GROUPS][MTIER_LOOKS_MOST + 1];
};

/**
 * struct mtier_together - how much pages of a range are used together
 * @pages: single pages, summed over ranges
 * @within_q8: Q8 sum over these pages of the squared deviation of their access count from
 *	the mean of the range
 * @chance_q8: Q8 expected sum if no page was used together with others
 */
struct mtier_together {
	u64 pages;
	u64 within_q8;
	u64 chance_q8;
};

/**
 * struct mtier_alone - numbers of independent pages
 * @pages_q8: Q8 numbers, by tier and access count
 */
struct mtier_alone {
	u64 pages_q8[MTIER_RANKS][MTIER_LOOKS_MOST + 1];
};

/**
 * struct mtier_evidence - single pages of a burst, as numbers of independent pages
 * @alone: numbers of independent pages that give the same error
 * @unsure: pages of ranges for which the correlation is unknown
 * @unsure_ranges: number of these ranges
 * @together: sums over the ranges in @alone
 */
struct mtier_evidence {
	struct mtier_alone alone;
	u32 unsure[MTIER_RANKS][MTIER_LOOKS_MOST + 1];
	u32 unsure_ranges[MTIER_RANKS];
	struct mtier_together together;
};

/**
 * struct mtier_worth - estimated access probabilities after a scan
 * @looks: number of scans
 * @known: page classes with enough samples for an estimate
 * @q: Q16 probability that one more scan finds a page of this access count accessed
 * @se: Q16 standard error of @q
 */
struct mtier_worth {
	u32 looks;
	bool known[MTIER_GROUPS];
	u32 q[MTIER_GROUPS][MTIER_LOOKS_MOST + 1];
	u32 se[MTIER_GROUPS][MTIER_LOOKS_MOST + 1];
};

/**
 * struct mtier_place_machine - parameters of the decision that depend on the machine
 * @pages: base pages that may be scanned, by class; on slower tiers, those in use
 * @free: pages that fit into the target nodes without a demotion
 * @spare: pages of the target nodes that nobody maps, and that can be demoted
 * @whole: pages of @spare that can be demoted in blocks of MTIER_LARGE_PAGES
 * @spare_ns: time for which none of these was used
 * @latency_ns: extra latency of an access to the slow tier; 0 for the usual value
 * @move_ns: CPU time of the migration of a single page
 * @look_ns: CPU time of the scan of a page, without @flush_ns; MTIER_LOOK_NS at first
 * @flush_ns: CPU time that a scan takes however few pages it has, that of a TLB flush; 0
 *	at first
 * @share_most: Q16 limit of the share of one CPU for scans; 0 for the usual 25 %
 * @observe: no page migrates, so scans save no CPU time
 */
struct mtier_place_machine {
	u64 pages[MTIER_GROUPS];
	u64 free;
	u64 spare;
	u64 whole;
	u64 spare_ns;
	u32 latency_ns;
	u32 move_ns;
	u32 look_ns;
	u32 flush_ns;
	u32 share_most;
	bool observe;
};

/**
 * struct mtier_place_cost - CPU time of the scans of a burst
 * @ns: CPU time of all scans
 * @ptes: number of page table entries that they have read
 * @scans: number of scans
 * @flushes: number of TLB flushes of an address space
 * @flush_ns: part of @ns that the flushes took
 */
struct mtier_place_cost {
	u64 ns;
	u64 ptes;
	u32 scans;
	u32 flushes;
	u64 flush_ns;
};

/**
 * struct mtier_audit_sum - results of the re-checks of pairs of one age
 * @seen: Q16 scans that found the promoted pages accessed, minus scans that found the
 *	demoted pages accessed; fades
 * @foretold: Q16 number predicted for @seen; fades
 */
struct mtier_audit_sum {
	s64 seen;
	s64 foretold;
};

/**
 * struct mtier_place - state of the decision
 * @hist: access counts by number of scans; those of earlier bursts fade
 * @alone: numbers of independent pages that give the same error as the single pages of
 *	@hist, by number of scans
 * @together: how much pages of a range are used together; earlier bursts fade
 * @tau_ns: scan interval
 * @share: Q16 share of one CPU that scans may take now
 * @credit_ns: CPU time saved up; while it is positive, @share may be large
 * @pages: base pages at the time when new pages last added credit; fades while there
 *	are fewer
 * @audit: results of re-checks, by age
 * @early: results of early scans of pairs, which are so soon that they find few
 *	accesses
 */
struct mtier_place {
	struct mtier_counts hist[MTIER_LOOKS_MOST + 1];
	struct mtier_alone alone[MTIER_LOOKS_MOST + 1];
	struct mtier_together together;
	u64 tau_ns;
	u32 share;
	s64 credit_ns;
	u64 pages;
	struct mtier_audit_sum audit[MTIER_AUDIT_AGES];
	struct mtier_audit_sum early;
};

/**
 * enum mtier_plan_why - reason why no more pages are exchanged
 * @MTIER_PLAN_RATE: the rate limit is reached
 * @MTIER_PLAN_NOBODY: no sampled page is left that may be promoted to the target nodes
 * @MTIER_PLAN_NO_VICTIM: the target nodes have no sampled page left that may be demoted,
 *	and no unused page cache is known
 * @MTIER_PLAN_ALIKE: the next two pages differ too little, or too little is known of
 *	them
 * @MTIER_PLAN_COST: the exchange would cost more than it saves
 * @MTIER_PLAN_SATURATED: nearly every scan finds even the least used fast page
 *	accessed, and the scan interval cannot be shorter; scans cannot find out which
 *	page is used more
 */
enum mtier_plan_why {
	MTIER_PLAN_RATE,
	MTIER_PLAN_NOBODY,
	MTIER_PLAN_NO_VICTIM,
	MTIER_PLAN_ALIKE,
	MTIER_PLAN_COST,
	MTIER_PLAN_SATURATED,
};

#define MTIER_NO_VICTIM		0xff

/**
 * struct mtier_run - plan entry: pages that are exchanged, all alike
 * @low: access count of the pages to promote
 * @top: access count of the pages to demote for them, or MTIER_NO_VICTIM: free memory,
 *	or pages that nobody maps
 * @low_group: class of the pages to promote
 * @top_group: class of the pages to demote
 * @spare: pages that nobody maps are demoted for them
 * @pages: number of pages to promote
 * @gap: Q16 difference of the probabilities that one more scan finds them accessed
 */
struct mtier_run {
	u8 low;
	u8 top;
	u8 low_group;
	u8 top_group;
	bool spare;
	u32 pages;
	u32 gap;
};

/*
 * Each entry but the last uses up an access count of one class, the free memory, or the
 * pages or blocks that nobody maps. The pages of a class are all to promote, or all to
 * demote.
 */
#define MTIER_RUNS_MAX		(MTIER_GROUPS * (MTIER_LOOKS_MOST + 1) + 3)

/**
 * struct mtier_plan - exchange plan, made after a scan
 * @nr: number of plan entries
 * @run: plan entries, highest gain first
 * @pages: number of pages that all entries promote
 * @spare: number of these for which pages that nobody maps are demoted
 * @gain_ns: CPU time that all entries save, minus the cost of their migrations
 * @why: reason why there are no more entries
 */
struct mtier_plan {
	u32 nr;
	struct mtier_run run[MTIER_RUNS_MAX];
	u32 pages;
	u32 spare;
	u64 gain_ns;
	enum mtier_plan_why why;
};

void mtier_place_init(struct mtier_place *p, const struct mtier_place_machine *m);
void mtier_place_hurry(struct mtier_place *p, const struct mtier_place_machine *m);
void mtier_place_looked(struct mtier_place_machine *m, const struct mtier_place_cost *cost);
u64 mtier_place_pages(const struct mtier_place *p,
		      const struct mtier_place_machine *m);
u64 mtier_place_slow_pages(const struct mtier_place_machine *m);
u64 mtier_place_pause_ns(const struct mtier_place *p, u32 random);
void mtier_evidence_add(struct mtier_evidence *e, u32 rank, const u32 *pages, u32 looks);
void mtier_evidence_drop(struct mtier_evidence *e, u32 rank);
void mtier_place_look(struct mtier_place *p, u32 looks, const struct mtier_counts *seen,
		      const struct mtier_evidence *e);
void mtier_place_forget(struct mtier_place *p);
void mtier_place_worth(const struct mtier_place *p, u32 looks,
		       struct mtier_worth *w);
void mtier_place_plan(const struct mtier_place *p,
		      const struct mtier_place_machine *m,
		      const struct mtier_worth *w, const struct mtier_counts *low,
		      const struct mtier_counts *top, u64 limit,
		      struct mtier_plan *plan);
bool mtier_place_enough(u32 looks, u64 gain_ns, u64 total_gain_ns, u64 spent_ns);
bool mtier_place_late(const struct mtier_place *p, u64 gain_ns, u64 took_ns);
u64 mtier_place_tau_max_ns(const struct mtier_place_machine *m);
u32 mtier_place_margin(const struct mtier_place *p,
		       const struct mtier_place_machine *m,
		       const struct mtier_worth *w);
void mtier_place_steer(struct mtier_place *p,
		       const struct mtier_place_machine *m, u32 margin,
		       bool busy);
u64 mtier_place_rest_ns(struct mtier_place *p,
			const struct mtier_place_machine *m, u64 gain_ns,
			u64 spent_ns, u64 burst_ns);
void mtier_place_paid(struct mtier_place *p,
		      const struct mtier_place_machine *m, u64 passed_ns,
		      u64 spent_ns);
void mtier_place_audit(struct mtier_place *p, u64 age_ns, u32 gap, u32 looks, s32 hits);
void mtier_place_early(struct mtier_place *p, u64 gap_rate, u64 tau_ns, u64 since_ns,
		       s32 hits);
u32 mtier_place_factor_q8(const struct mtier_place *p);
void mtier_place_fade(struct mtier_place *p);
void mtier_place_left(const struct mtier_place *p, u32 left[MTIER_AUDIT_AGES]);
u64 mtier_place_horizon_ns(const struct mtier_place *p);
u32 mtier_place_rate(u32 q);
u32 mtier_place_q_at(u32 q, u64 tau_ns, u64 other_ns);

#endif
