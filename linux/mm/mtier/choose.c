// SPDX-License-Identifier: GPL-2.0
/*
 * Decisions of memory tiering, as pure functions: which pages to choose when
 * more of them are in use than there is room for, and which of those that have
 * the room to move out for them.
 *
 * Locking: none; every function works on its arguments only.  See policy.h, and
 * tools/testing/mtier for this file in user space.
 */
#include <linux/limits.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/types.h>

#include "policy.h"

/**
 * mtier_probe_ms - time in which an access counts
 * @level: from mtier_probe_adapt(), not 0
 *
 * An Accessed bit tells that there was an access, not how many. The shorter the
 * time between clearing and reading it, the busier is a page whose bit is set.
 *
 * Return: 128 ms at level 1, half of that at each further one; below 4 ms 0,
 * which means as soon as the walk comes round.
 */
u32 mtier_probe_ms(u32 level)
{
	u32 ms = level < 32 ? 256U >> level : 0;

	return ms < 4 ? 0 : ms;
}

/**
 * mtier_probe_start - how choosy to be at first
 * @mapped: base pages in use on slow nodes, by anybody
 * @room: base pages that there is room for
 *
 * Where all can move, which goes first matters little. Where not, what goes
 * first may be all that goes: begin with the busiest, and take the others as
 * long as there is room.
 *
 * Return: the level of the first visit.
 */
u32 mtier_probe_start(u64 mapped, u64 room)
{
	return mapped > room ? MTIER_PROBE_START : 0;
}

/**
 * mtier_probe_adapt - choose the busiest of more pages than there is room for
 * @level: of the visit that is over; 0: any access since the last visit counts
 * @found: base pages that it found accessed
 * @seen: base pages that it looked at; at level 0 @found will do
 * @room: base pages that there is room for
 *
 * Where all of @found can move there is less to choose.  Else the busiest
 * eighth to thirty-second of what was seen is to be found.
 *
 * Return: the level of the next visit, 0 to MTIER_PROBE_MAX.
 */
u32 mtier_probe_adapt(u32 level, u64 found, u64 seen, u64 room)
{
	level = min_t(u32, level, MTIER_PROBE_MAX);
	if (found > room && found > seen / 8)
		return min_t(u32, level + 1 + (found > seen / 2),
			     MTIER_PROBE_MAX);
	if (found <= room / 4)
		return level / 2;
	if (found <= room || found < seen / 32)
		return level - min_t(u32, level, 1);
	return level;
}

/**
 * mtier_probe_window_ms - window in which only accesses in a row count
 * @look_ms: time between two looks at the same page
 * @accesses: how many of them are wanted
 *
 * A page of middling use is met accessed now and then, a busy one each time:
 * while pages are chosen only accesses in a row count. What is counted fades over
 * the window, see mtier_rec_heat(): it has to be as long as all but the last take,
 * and as what is between them is rounded up to. How long a large address space
 * takes to be seen whole says nothing of its pages, so there is no upper bound but
 * that of the records' clock, MTIER_WINDOW_MAX.
 *
 * Return: a window in which so many looks in a row reach @accesses, and as many
 * with one between that found nothing do not, or take longer.
 */
u32 mtier_probe_window_ms(u32 look_ms, u32 accesses)
{
	u64 gaps = max_t(u64, accesses, 2) - 1;
	u64 between = (u64)look_ms + MTIER_TICK_MS;
	u64 window = between * gaps + look_ms / 2 + MTIER_TICK_MS;

	return min_t(u64, window, U32_MAX);
}

/**
 * mtier_visit_mb - how much of an address space is looked at in a visit
 * @pace_mb: what its pace says
 * @mapped_mb: what there is
 * @b: limits; only the largest visit counts here
 *
 * However little was found lately: a part of what is large takes long to show
 * that something is in use there again.
 *
 * Return: MiB, so that all is seen in MTIER_VISITS visits unless a visit would
 * be larger than allowed.
 */
u32 mtier_visit_mb(u32 pace_mb, u32 mapped_mb,
		   const struct mtier_pace_bounds *b)
{
	u32 part_mb = mapped_mb / MTIER_VISITS + !!(mapped_mb % MTIER_VISITS);

	return max_t(u32, pace_mb, min_t(u32, part_mb, b->size_max_mb));
}

/**
 * mtier_cold_look - note a look at a page of a node that is full
 * @rec: the record so far, 0 if there is none
 * @now_tick: from mtier_tick()
 * @idle: the page was not accessed since its bit was cleared
 * @p: @accesses is how many looks in a row must find it idle, @window_ticks from
 *	mtier_cold_window_ms()
 * @cold: where to put whether it is by now worth moving out
 *
 * The record is that of a hot page turned around: it counts the looks that found
 * no access, and a single access makes all of them forgotten.
 *
 * Return: the new record.
 */
u32 mtier_cold_look(u32 rec, u32 now_tick, bool idle,
		    const struct mtier_hot_params *p, bool *cold)
{
	struct mtier_hot_params strict = *p;
	enum mtier_verdict verdict;

	*cold = false;
	if (!idle)
		return 0;
	strict.room = false;
	rec = mtier_rec_touch(rec, now_tick, &strict, &verdict);
	*cold = verdict == MTIER_HOT;
	return rec;
}

/**
 * mtier_cold_window_ms - window in which looks count as in a row
 * @look_ms: time between two looks at the same page
 * @looks: how many of them are wanted
 *
 * What is counted fades over the window, see mtier_rec_heat(): it has to be
 * several times as long as what is counted takes, or that is never reached.
 *
 * Return: ms.
 */
u32 mtier_cold_window_ms(u32 look_ms, u32 looks)
{
	u64 between = max_t(u64, look_ms, 2 * MTIER_TICK_MS);

	looks = min_t(u32, looks, MTIER_FREQ_MAX);
	return min_t(u64, between * looks * 4, U32_MAX);
}

/**
 * mtier_exchange_accesses - accesses that make a page hot
 * @accesses: as many where there is room
 * @full: there is none, and another page has to go for it
 *
 * An exchange is two moves, and pages of like use would change places for ever:
 * who comes has to show one more access in a row.
 *
 * Return: accesses, at most MTIER_FREQ_MAX.
 */
u8 mtier_exchange_accesses(u32 accesses, bool full)
{
	return min_t(u64, (u64)accesses + full, MTIER_FREQ_MAX);
}

/**
 * mtier_may_queue - is there a point in queueing a hot page now?
 * @fill: entries in the queue
 * @batch: entries that are moved at once
 * @full: its target has no room
 *
 * Who waits for room gets stale: whoever is hot when there is some shall go.
 *
 * Return: false if a batch waits already for a target that is full.
 */
bool mtier_may_queue(u64 fill, u64 batch, bool full)
{
	return !full || fill < batch;
}
