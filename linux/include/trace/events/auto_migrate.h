/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM auto_migrate

#if !defined(_TRACE_AUTO_MIGRATE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_AUTO_MIGRATE_H

#include <linux/tracepoint.h>
#include <linux/types.h>

/* enum auto_action */
#define AUTO_ACTION_NAMES		\
	{ 0, "balancing" },		\
	{ 1, "node" },			\
	{ 2, "policy" },		\
	{ 3, "threads" },		\
	{ 4, "direct" },		\
	{ 5, "lazy" }

/* A task has been on another node for long enough: its memory follows, or why not */
TRACE_EVENT(auto_migrate_task,
	TP_PROTO(int pid, int from, int to, u32 action),
	TP_ARGS(pid, from, to, action),
	TP_STRUCT__entry(
		__field(int, pid)
		__field(int, from)
		__field(int, to)
		__field(u32, action)
	),
	TP_fast_assign(
		__entry->pid = pid;
		__entry->from = from;
		__entry->to = to;
		__entry->action = action;
	),
	TP_printk("pid=%d from=%d to=%d action=%s", __entry->pid,
		  __entry->from, __entry->to,
		  __print_symbolic(__entry->action, AUTO_ACTION_NAMES))
);

/* What became of the pages that one visit has seen; refused: by enum lazy_reason */
TRACE_EVENT(auto_migrate_slice,
	TP_PROTO(int pid, int from, int to, unsigned long scanned,
		 unsigned long marked, unsigned long moved,
		 const unsigned long *refused),
	TP_ARGS(pid, from, to, scanned, marked, moved, refused),
	TP_STRUCT__entry(
		__field(int, pid)
		__field(int, from)
		__field(int, to)
		__field(unsigned long, scanned)
		__field(unsigned long, marked)
		__field(unsigned long, moved)
		__field(unsigned long, dirty)
		__field(unsigned long, shared)
		__field(unsigned long, nomem)
		__field(unsigned long, busy)
	),
	TP_fast_assign(
		__entry->pid = pid;
		__entry->from = from;
		__entry->to = to;
		__entry->scanned = scanned;
		__entry->marked = marked;
		__entry->moved = moved;
		__entry->dirty = refused[0];
		__entry->shared = refused[1];
		__entry->nomem = refused[2];
		__entry->busy = refused[3];
	),
	TP_printk("pid=%d from=%d to=%d scanned=%lu marked=%lu moved=%lu dirty=%lu shared=%lu nomem=%lu busy=%lu",
		  __entry->pid, __entry->from, __entry->to, __entry->scanned,
		  __entry->marked, __entry->moved, __entry->dirty,
		  __entry->shared, __entry->nomem, __entry->busy)
);

/* An access has moved a page; neighbour: it came along with the one touched */
TRACE_EVENT(auto_migrate_pull,
	TP_PROTO(unsigned long addr, int nid, unsigned long pages,
		 bool neighbour),
	TP_ARGS(addr, nid, pages, neighbour),
	TP_STRUCT__entry(
		__field(unsigned long, addr)
		__field(unsigned long, pages)
		__field(int, nid)
		__field(bool, neighbour)
	),
	TP_fast_assign(
		__entry->addr = addr;
		__entry->pages = pages;
		__entry->nid = nid;
		__entry->neighbour = neighbour;
	),
	TP_printk("addr=%#lx nid=%d pages=%lu neighbour=%d", __entry->addr,
		  __entry->nid, __entry->pages, __entry->neighbour)
);

#endif /* _TRACE_AUTO_MIGRATE_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
