/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM mtier

#if !defined(_TRACE_MTIER_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_MTIER_H

#include <linux/sched.h>
#include <linux/tracepoint.h>
#include <linux/types.h>

/* Result of a batch: enum mtier_outcome */
#define MTIER_OUTCOME_NAMES			\
	{ 0, "moved" },				\
	{ 1, "partly" },			\
	{ 2, "nomem" },				\
	{ 3, "busy" }

/* Reason why a burst found no more pages to exchange: enum mtier_plan_why */
#define MTIER_PLAN_NAMES			\
	{ 0, "rate" },				\
	{ 1, "nobody" },			\
	{ 2, "no_victim" },			\
	{ 3, "alike" },				\
	{ 4, "cost" },				\
	{ 5, "saturated" }

/*
 * ranges: of 2 MiB, in @mms address spaces; margin_q16: access probability per scan, in
 * 1/65536, of the last page that fits in the fast tier; pairs: to exchange
 */
TRACE_EVENT(mtier_burst,
	TP_PROTO(u32 ranges, u32 mms, u32 looks, u64 tau_ns, u32 margin_q16,
		 u64 pairs, u64 gain_ns, u64 spent_ns, u32 why),
	TP_ARGS(ranges, mms, looks, tau_ns, margin_q16, pairs, gain_ns, spent_ns,
		why),
	TP_STRUCT__entry(
		__field(u64, tau_ns)
		__field(u64, pairs)
		__field(u64, gain_ns)
		__field(u64, spent_ns)
		__field(u32, ranges)
		__field(u32, mms)
		__field(u32, looks)
		__field(u32, margin_q16)
		__field(u32, why)
	),
	TP_fast_assign(
		__entry->tau_ns = tau_ns;
		__entry->pairs = pairs;
		__entry->gain_ns = gain_ns;
		__entry->spent_ns = spent_ns;
		__entry->ranges = ranges;
		__entry->mms = mms;
		__entry->looks = looks;
		__entry->margin_q16 = margin_q16;
		__entry->why = why;
	),
	TP_printk("ranges=%u mms=%u looks=%u tau_ns=%llu margin_q16=%u pairs=%llu gain_ns=%llu spent_ns=%llu why=%s",
		  __entry->ranges, __entry->mms, __entry->looks,
		  __entry->tau_ns, __entry->margin_q16, __entry->pairs,
		  __entry->gain_ns, __entry->spent_ns,
		  __print_symbolic(__entry->why, MTIER_PLAN_NAMES))
);

/* enum mtier_side */
#define MTIER_TIER_NAMES			\
	{ 0, "fast" },				\
	{ 1, "slow" }

/*
 * A sampling window of an address space in one tier is over.
 * pid, comm: of the process that owns the address space, 0 if that has none any more
 * ranges: sampled in this window; of: all of the address space
 * looked: pages of the tier in @ranges; used: those of them accessed in the window
 * present, in_use, error: estimates for the whole address space, from this window and
 * those before; error is the standard error of in_use
 * rss: pages that are mapped, in all tiers
 */
TRACE_EVENT(mtier_heat,
	TP_PROTO(const struct task_struct *owner, u32 tier, u32 ranges, u32 of,
		 u64 looked, u64 used, u64 window_ns, u64 present, u64 in_use,
		 u64 error, unsigned long rss),
	TP_ARGS(owner, tier, ranges, of, looked, used, window_ns, present, in_use,
		error, rss),
	TP_STRUCT__entry(
		__field(u64, looked)
		__field(u64, used)
		__field(u64, window_ns)
		__field(u64, present)
		__field(u64, in_use)
		__field(u64, error)
		__field(unsigned long, rss)
		__field(pid_t, pid)
		__field(u32, tier)
		__field(u32, ranges)
		__field(u32, of)
		__array(char, comm, TASK_COMM_LEN)
	),
	TP_fast_assign(
		__entry->looked = looked;
		__entry->used = used;
		__entry->window_ns = window_ns;
		__entry->present = present;
		__entry->in_use = in_use;
		__entry->error = error;
		__entry->rss = rss;
		__entry->pid = owner ? owner->tgid : 0;
		__entry->tier = tier;
		__entry->ranges = ranges;
		__entry->of = of;
		if (owner)
			memcpy(__entry->comm, owner->comm, TASK_COMM_LEN);
		else
			__entry->comm[0] = '\0';
	),
	TP_printk("pid=%d tier=%s ranges=%u of=%u looked=%llu used=%llu window_ns=%llu present=%llu in_use=%llu error=%llu rss=%lu comm=%s",
		  __entry->pid,
		  __print_symbolic(__entry->tier, MTIER_TIER_NAMES),
		  __entry->ranges, __entry->of, __entry->looked, __entry->used,
		  __entry->window_ns, __entry->present, __entry->in_use,
		  __entry->error, __entry->rss, __entry->comm)
);

/*
 * One event for each address space with folios in a batch, before the event of the batch.
 * A folio is counted where it was found.
 *
 * pid, comm: process that owns the address space, 0 if there is none left
 */
TRACE_EVENT(mtier_owner,
	TP_PROTO(const struct task_struct *owner, u32 folios, int source,
		 int target, bool down),
	TP_ARGS(owner, folios, source, target, down),
	TP_STRUCT__entry(
		__field(pid_t, pid)
		__field(u32, folios)
		__field(int, source)
		__field(int, target)
		__field(bool, down)
		__array(char, comm, TASK_COMM_LEN)
	),
	TP_fast_assign(
		__entry->pid = owner ? owner->tgid : 0;
		__entry->folios = folios;
		__entry->source = source;
		__entry->target = target;
		__entry->down = down;
		if (owner)
			memcpy(__entry->comm, owner->comm, TASK_COMM_LEN);
		else
			__entry->comm[0] = '\0';
	),
	TP_printk("pid=%d source=%d target=%d down=%d folios=%u comm=%s",
		  __entry->pid, __entry->source, __entry->target,
		  __entry->down, __entry->folios, __entry->comm)
);

/*
 * tried: folios selected; moved: base pages migrated; waited_ns: time since the selection
 */
DECLARE_EVENT_CLASS(mtier_move,
	TP_PROTO(int source, int target, u32 tried, u64 moved, u32 outcome,
		 u64 waited_ns),
	TP_ARGS(source, target, tried, moved, outcome, waited_ns),
	TP_STRUCT__entry(
		__field(u64, moved)
		__field(u64, waited_ns)
		__field(int, source)
		__field(int, target)
		__field(u32, tried)
		__field(u32, outcome)
	),
	TP_fast_assign(
		__entry->moved = moved;
		__entry->source = source;
		__entry->target = target;
		__entry->tried = tried;
		__entry->outcome = outcome;
		__entry->waited_ns = waited_ns;
	),
	TP_printk("source=%d target=%d tried=%u moved=%llu outcome=%s waited_ns=%llu",
		  __entry->source, __entry->target, __entry->tried,
		  __entry->moved,
		  __print_symbolic(__entry->outcome, MTIER_OUTCOME_NAMES),
		  __entry->waited_ns)
);

/* Promotion of hot pages */
DEFINE_EVENT(mtier_move, mtier_migrate,
	TP_PROTO(int source, int target, u32 tried, u64 moved, u32 outcome,
		 u64 waited_ns),
	TP_ARGS(source, target, tried, moved, outcome, waited_ns)
);

/* Demotion, to make room for promotions */
DEFINE_EVENT(mtier_move, mtier_demote,
	TP_PROTO(int source, int target, u32 tried, u64 moved, u32 outcome,
		 u64 waited_ns),
	TP_ARGS(source, target, tried, moved, outcome, waited_ns)
);

#endif /* _TRACE_MTIER_H */

#include <trace/define_trace.h>
