/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Decisions of memory tiering, as pure functions.
 *
 * Nothing here knows struct page, takes a lock, reads a clock or allocates.
 * Callers hand in numbers and get numbers back; whatever state there is lives
 * in small structs that the caller owns and serialises.  The same policy.c is
 * compiled in the kernel and, by tools/testing/mtier, in user space.
 *
 * Two rules hold for every function: each input has a defined result, also the
 * senseless ones (a zero rate, a clock that stepped back), and arithmetic
 * saturates instead of wrapping.
 */
#ifndef _MM_MTIER_POLICY_H
#define _MM_MTIER_POLICY_H

#include <linux/bits.h>
#include <linux/types.h>

/*
 * Hotness record: what is remembered of one frame, in 32 bits.
 *
 *   31            18 17   14 13          2 1     0
 *  +----------------+-------+-------------+-------+
 *  | tick           | freq  | claim       | flags |
 *  +----------------+-------+-------------+-------+
 *
 * tick   when it was last touched, in units of 128 ms, modulo 2^14 (35 min)
 * freq   accesses counted at that time, 0-15, see mtier_rec_touch()
 * claim  when it was last claimed, in the same units, modulo 2^12 (8 min); only
 *        with MTIER_REC_CLAIM
 * flags  MTIER_REC_*
 *
 * The value 0 means never seen.
 */
#define MTIER_TICK_MS		128
#define MTIER_TICK_BITS		14
#define MTIER_FREQ_MAX		15

/* Longest window: a page may rest one window plus a quarter of the wrap. */
#define MTIER_WINDOW_MAX	(BIT(MTIER_TICK_BITS) / 2)

/* A record this much "from the future" was written by a CPU slightly ahead. */
#define MTIER_TICK_SLACK	64

/* Who has claimed a page has so long to get it moved before others may. */
#define MTIER_CLAIM_TICKS	16

#define MTIER_REC_VALID		BIT(0)	/* the record is in use */
#define MTIER_REC_CLAIM		BIT(1)	/* the claim field is meaningful */

/**
 * enum mtier_verdict - what a record says of its page
 * @MTIER_COLD: leave it where it is
 * @MTIER_HOT: worth moving up
 */
enum mtier_verdict {
	MTIER_COLD,
	MTIER_HOT,
};

/**
 * struct mtier_hot_params - what counts as hot
 * @window_ticks: accesses less than this many ticks apart count together;
 *	mtier_window_ticks() makes it from ms
 * @accesses: how many of them make a page hot, 1-15; 0 is taken as 1
 * @room: the target node has ample free memory, so the first access suffices
 * @full: it has none at all, see mtier_may_queue()
 */
struct mtier_hot_params {
	u32 window_ticks;
	u8 accesses;
	bool room;
	bool full;
};

u32 mtier_tick(u64 now_ms);
u32 mtier_window_ticks(u32 window_ms);

u32 mtier_rec_touch(u32 rec, u32 now_tick, const struct mtier_hot_params *p,
		    enum mtier_verdict *v);
u32 mtier_rec_told(u32 rec, u32 now_tick, const struct mtier_hot_params *p);
u32 mtier_rec_heat(u32 rec, u32 now_tick, u32 window_ticks);
bool mtier_rec_is_hot(u32 rec, u32 now_tick, const struct mtier_hot_params *p);
u32 mtier_rec_age(u32 rec, u32 now_tick, u32 window_ticks);
u8 mtier_rec_freq(u32 rec);
u32 mtier_rec_claim(u32 rec, u32 now_tick, bool *mine);

bool mtier_room(u64 free_pages, u64 wmark_pages, u64 node_pages, u32 percent);
u32 mtier_window_adjust(u32 cur, u32 ref, u64 candidates, u64 budget);

/**
 * struct mtier_pace - how fast one mm is scanned
 * @period_ms: time between two visits, before mtier_pace_scale()
 * @size_mb: address space walked in one visit
 * @useful: the last visit found an accessed slow-tier page
 */
struct mtier_pace {
	u32 period_ms;
	u32 size_mb;
	bool useful;
};

/**
 * struct mtier_pace_bounds - limits of every pace
 * @period_min_ms: shortest period
 * @period_max_ms: longest period, not below @period_min_ms
 * @size_min_mb: smallest visit
 * @size_max_mb: largest visit, not below @size_min_mb
 */
struct mtier_pace_bounds {
	u32 period_min_ms;
	u32 period_max_ms;
	u32 size_min_mb;
	u32 size_max_mb;
};

void mtier_pace_init(struct mtier_pace *p, u32 period_ms, u32 size_mb,
		     const struct mtier_pace_bounds *b);
void mtier_pace_adapt(struct mtier_pace *p, bool useful_now,
		      const struct mtier_pace_bounds *b);
void mtier_pace_backoff(struct mtier_pace *p,
			const struct mtier_pace_bounds *b);
u32 mtier_pace_scale(u32 period_ms, u32 scale);

/* Levels of mtier_probe_adapt(): where choosing begins, and where it ends. */
#define MTIER_PROBE_START	7
#define MTIER_PROBE_MAX		7

/* Most visits in which all of an address space is seen. */
#define MTIER_VISITS		16

u32 mtier_probe_ms(u32 level);
u32 mtier_probe_start(u64 mapped, u64 room);
u32 mtier_probe_adapt(u32 level, u64 found, u64 seen, u64 room);
u32 mtier_probe_window_ms(u32 look_ms, u32 accesses);
u32 mtier_visit_mb(u32 pace_mb, u32 mapped_mb,
		   const struct mtier_pace_bounds *b);
u32 mtier_cold_look(u32 rec, u32 now_tick, bool idle,
		    const struct mtier_hot_params *p, bool *cold);
u32 mtier_cold_window_ms(u32 look_ms, u32 looks);
u8 mtier_exchange_accesses(u32 accesses, bool full);
u64 mtier_cpu_pause_ns(u64 ran_ns, u32 percent);
bool mtier_pressure(u64 fill, u64 cap, bool was);
bool mtier_may_queue(u64 fill, u64 batch, bool full);

/**
 * struct mtier_bucket - what may be moved to a node now
 * @tokens: bytes; below zero what is owed
 * @stamp_ns: time up to which @tokens is paid
 *
 * All zero is a valid bucket.  The caller serialises access.
 */
struct mtier_bucket {
	s64 tokens;
	u64 stamp_ns;
};

u64 mtier_bucket_pay(struct mtier_bucket *b, u64 now_ns, u64 rate, u64 burst,
		     u64 bytes);

void mtier_weights_add(u32 *weights, unsigned int n, unsigned int slot,
		       u32 amount);
void mtier_weights_decay(u32 *weights, unsigned int n);
void mtier_weights_mix(const u32 *top_accesses, const u32 *cpu_threads,
		       u32 *out, unsigned int n);
int mtier_target_pick(u32 *turn, const u32 *weights, unsigned int n);

#endif /* _MM_MTIER_POLICY_H */
