/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM numa_scan

#if !defined(_TRACE_NUMA_SCAN_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_NUMA_SCAN_H

#include <linux/tracepoint.h>
#include <linux/types.h>

/* Context of the scan: enum numa_scan_mode */
#define NUMA_SCAN_MODE_NAMES		\
	{ 0, "sync" },			\
	{ 1, "async" },			\
	{ 2, "sliced" }

/* pid: of the scanned task, not of the scanning thread */
TRACE_EVENT(numa_scan_begin,
	TP_PROTO(pid_t pid, u32 mode, u32 cpu),
	TP_ARGS(pid, mode, cpu),
	TP_STRUCT__entry(
		__field(pid_t, pid)
		__field(u32, mode)
		__field(u32, cpu)
	),
	TP_fast_assign(
		__entry->pid = pid;
		__entry->mode = mode;
		__entry->cpu = cpu;
	),
	TP_printk("pid=%d mode=%s cpu=%u", __entry->pid,
		  __print_symbolic(__entry->mode, NUMA_SCAN_MODE_NAMES),
		  __entry->cpu)
);

/* ptes: entries scanned; updates: entries made to fault; skipped: outside of windows */
TRACE_EVENT(numa_scan_end,
	TP_PROTO(pid_t pid, u32 mode, u32 cpu, u64 ptes, u64 updates,
		 u64 skipped, u64 ns),
	TP_ARGS(pid, mode, cpu, ptes, updates, skipped, ns),
	TP_STRUCT__entry(
		__field(u64, ptes)
		__field(u64, updates)
		__field(u64, skipped)
		__field(u64, ns)
		__field(pid_t, pid)
		__field(u32, mode)
		__field(u32, cpu)
	),
	TP_fast_assign(
		__entry->ptes = ptes;
		__entry->updates = updates;
		__entry->skipped = skipped;
		__entry->ns = ns;
		__entry->pid = pid;
		__entry->mode = mode;
		__entry->cpu = cpu;
	),
	TP_printk("pid=%d mode=%s cpu=%u ptes=%llu updates=%llu skipped=%llu ns=%llu",
		  __entry->pid,
		  __print_symbolic(__entry->mode, NUMA_SCAN_MODE_NAMES),
		  __entry->cpu, __entry->ptes, __entry->updates,
		  __entry->skipped, __entry->ns)
);

#endif /* _TRACE_NUMA_SCAN_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
