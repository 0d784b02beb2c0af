/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM mtier

#if !defined(_TRACE_MTIER_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_MTIER_H

#include <linux/tracepoint.h>
#include <linux/types.h>

/* Why a slice of a scan visit ended: enum mtier_stop */
#define MTIER_STOP_NAMES			\
	{ 0, "end" },				\
	{ 1, "size" },				\
	{ 2, "time" },				\
	{ 3, "lock" },				\
	{ 4, "exit" },				\
	{ 5, "full" }

/* What became of a batch: enum mtier_outcome */
#define MTIER_OUTCOME_NAMES			\
	{ 0, "moved" },				\
	{ 1, "partly" },			\
	{ 2, "nomem" },				\
	{ 3, "busy" }

/* Units: period in ms, size in MiB of mapped memory. */
TRACE_EVENT(mtier_scan_start,
	TP_PROTO(pid_t pid, u64 mm_id, u64 address, u32 period_ms, u32 size_mb),
	TP_ARGS(pid, mm_id, address, period_ms, size_mb),
	TP_STRUCT__entry(
		__field(u64, mm_id)
		__field(u64, address)
		__field(pid_t, pid)
		__field(u32, period_ms)
		__field(u32, size_mb)
	),
	TP_fast_assign(
		__entry->mm_id = mm_id;
		__entry->address = address;
		__entry->pid = pid;
		__entry->period_ms = period_ms;
		__entry->size_mb = size_mb;
	),
	TP_printk("pid=%d mm=%llu address=0x%llx period_ms=%u size_mb=%u",
		  __entry->pid, __entry->mm_id, __entry->address,
		  __entry->period_ms, __entry->size_mb)
);

/*
 * ptes: entries read; young_*: found accessed; next_ms: time to next visit;
 * probe: how choosy that will be, see mtier_probe_adapt()
 */
TRACE_EVENT(mtier_scan_end,
	TP_PROTO(pid_t pid, u64 mm_id, u64 address, u64 ptes, u64 young_slow,
		 u64 young_top, u32 next_ms, u32 size_mb, u32 stop, u32 probe),
	TP_ARGS(pid, mm_id, address, ptes, young_slow, young_top, next_ms,
		size_mb, stop, probe),
	TP_STRUCT__entry(
		__field(u64, mm_id)
		__field(u64, address)
		__field(u64, ptes)
		__field(u64, young_slow)
		__field(u64, young_top)
		__field(pid_t, pid)
		__field(u32, next_ms)
		__field(u32, size_mb)
		__field(u32, stop)
		__field(u32, probe)
	),
	TP_fast_assign(
		__entry->mm_id = mm_id;
		__entry->address = address;
		__entry->ptes = ptes;
		__entry->young_slow = young_slow;
		__entry->young_top = young_top;
		__entry->pid = pid;
		__entry->next_ms = next_ms;
		__entry->size_mb = size_mb;
		__entry->stop = stop;
		__entry->probe = probe;
	),
	TP_printk("pid=%d mm=%llu address=0x%llx ptes=%llu young_slow=%llu young_top=%llu next_ms=%u size_mb=%u stop=%s probe=%u",
		  __entry->pid, __entry->mm_id, __entry->address,
		  __entry->ptes, __entry->young_slow, __entry->young_top,
		  __entry->next_ms, __entry->size_mb,
		  __print_symbolic(__entry->stop, MTIER_STOP_NAMES),
		  __entry->probe)
);

/* Why a burst found no more pages that should change places: enum mtier_plan_why */
#define MTIER_PLAN_NAMES			\
	{ 0, "rate" },				\
	{ 1, "nobody" },			\
	{ 2, "no_victim" },			\
	{ 3, "alike" },				\
	{ 4, "cost" }

/*
 * ranges: of 2 MiB, of so many mms; margin_q16: how often, of 65536, a look finds
 * the last page accessed for which there is room; pairs: that should change places
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

/* A record became hot and its frame was queued. */
TRACE_EVENT(mtier_hot,
	TP_PROTO(u64 pfn, int source, int target, u32 heat),
	TP_ARGS(pfn, source, target, heat),
	TP_STRUCT__entry(
		__field(u64, pfn)
		__field(int, source)
		__field(int, target)
		__field(u32, heat)
	),
	TP_fast_assign(
		__entry->pfn = pfn;
		__entry->source = source;
		__entry->target = target;
		__entry->heat = heat;
	),
	TP_printk("pfn=0x%llx source=%d target=%d heat=%u",
		  __entry->pfn, __entry->source, __entry->target,
		  __entry->heat)
);

/* tried: folios handed to migrate_pages(); moved: base pages that moved */
DECLARE_EVENT_CLASS(mtier_move,
	TP_PROTO(int source, int target, u32 tried, u64 moved, u32 outcome),
	TP_ARGS(source, target, tried, moved, outcome),
	TP_STRUCT__entry(
		__field(u64, moved)
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
	),
	TP_printk("source=%d target=%d tried=%u moved=%llu outcome=%s",
		  __entry->source, __entry->target, __entry->tried,
		  __entry->moved,
		  __print_symbolic(__entry->outcome, MTIER_OUTCOME_NAMES))
);

/* Up, for being hot */
DEFINE_EVENT(mtier_move, mtier_migrate,
	TP_PROTO(int source, int target, u32 tried, u64 moved, u32 outcome),
	TP_ARGS(source, target, tried, moved, outcome)
);

/* Down, to make room for others */
DEFINE_EVENT(mtier_move, mtier_demote,
	TP_PROTO(int source, int target, u32 tried, u64 moved, u32 outcome),
	TP_ARGS(source, target, tried, moved, outcome)
);

#endif /* _TRACE_MTIER_H */

#include <trace/define_trace.h>
