/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM numa_follow

#if !defined(_TRACE_NUMA_FOLLOW_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_NUMA_FOLLOW_H

#include <linux/tracepoint.h>
#include <linux/types.h>

/* enum follow_verdict; the last one is that of moved pages */
#define FOLLOW_VERDICT_NAMES		\
	{ 0, "dirty" },			\
	{ 1, "shared" },		\
	{ 2, "rate" },			\
	{ 3, "nomem" },			\
	{ 4, "busy" },			\
	{ 5, "moved" }

/* enum follow_kind */
#define FOLLOW_KIND_NAMES		\
	{ 0, "anon" },			\
	{ 1, "shmem" },			\
	{ 2, "file" }

/* enum follow_action */
#define FOLLOW_ACTION_NAMES		\
	{ 0, "balancing" },		\
	{ 1, "node" },			\
	{ 2, "policy" },		\
	{ 3, "threads" },		\
	{ 4, "direct" },		\
	{ 5, "lazy" }

/*
 * mbind(), or a tick, has walked a range: number of its pages by enum follow_verdict.
 * from, to: nodes of a task that has moved
 */
TRACE_EVENT(numa_follow_walk,
	TP_PROTO(bool tick, unsigned long start, unsigned long end, int from,
		 int to, unsigned long moved, const unsigned long *pages),
	TP_ARGS(tick, start, end, from, to, moved, pages),
	TP_STRUCT__entry(
		__field(unsigned long, start)
		__field(unsigned long, end)
		__field(unsigned long, marked)
		__field(unsigned long, moved)
		__field(unsigned long, dirty)
		__field(unsigned long, shared)
		__field(unsigned long, nomem)
		__field(unsigned long, busy)
		__field(int, from)
		__field(int, to)
		__field(bool, tick)
	),
	TP_fast_assign(
		__entry->start = start;
		__entry->end = end;
		__entry->marked = pages[5];
		__entry->moved = moved;
		__entry->dirty = pages[0];
		__entry->shared = pages[1];
		__entry->nomem = pages[3];
		__entry->busy = pages[4];
		__entry->from = from;
		__entry->to = to;
		__entry->tick = tick;
	),
	TP_printk("by=%s start=%#lx end=%#lx from=%d to=%d marked=%lu moved=%lu dirty=%lu shared=%lu nomem=%lu busy=%lu",
		  __entry->tick ? "tick" : "mbind", __entry->start,
		  __entry->end, __entry->from, __entry->to, __entry->marked,
		  __entry->moved, __entry->dirty, __entry->shared,
		  __entry->nomem, __entry->busy)
);

/*
 * An access to a page that mbind() or a tick has marked: the page and its neighbours
 * moved, or not. nid: target node, if it is known
 */
TRACE_EVENT(numa_follow_use,
	TP_PROTO(unsigned long addr, bool tick, int nid, bool neighbour,
		 u32 verdict, unsigned long pages),
	TP_ARGS(addr, tick, nid, neighbour, verdict, pages),
	TP_STRUCT__entry(
		__field(unsigned long, addr)
		__field(unsigned long, pages)
		__field(int, nid)
		__field(u32, verdict)
		__field(bool, tick)
		__field(bool, neighbour)
	),
	TP_fast_assign(
		__entry->addr = addr;
		__entry->pages = pages;
		__entry->nid = nid;
		__entry->verdict = verdict;
		__entry->tick = tick;
		__entry->neighbour = neighbour;
	),
	TP_printk("addr=%#lx by=%s nid=%d neighbour=%d verdict=%s pages=%lu",
		  __entry->addr, __entry->tick ? "tick" : "mbind",
		  __entry->nid, __entry->neighbour,
		  __print_symbolic(__entry->verdict, FOLLOW_VERDICT_NAMES),
		  __entry->pages)
);

/*
 * A task has been on another node for the settle time: its memory moves, or the reason
 * why not
 */
TRACE_EVENT(numa_follow_task,
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
		  __print_symbolic(__entry->action, FOLLOW_ACTION_NAMES))
);

/*
 * A fault found an unmapped folio on another node than its target. key: the same for all
 * pages of a file
 */
TRACE_EVENT(numa_follow_fault,
	TP_PROTO(u32 kind, unsigned long key, unsigned long index, int from,
		 int to, unsigned long pages, u32 verdict),
	TP_ARGS(kind, key, index, from, to, pages, verdict),
	TP_STRUCT__entry(
		__field(void *, key)
		__field(unsigned long, index)
		__field(unsigned long, pages)
		__field(int, from)
		__field(int, to)
		__field(u32, kind)
		__field(u32, verdict)
	),
	TP_fast_assign(
		__entry->key = (void *)key;
		__entry->index = index;
		__entry->pages = pages;
		__entry->from = from;
		__entry->to = to;
		__entry->kind = kind;
		__entry->verdict = verdict;
	),
	TP_printk("kind=%s key=%p index=%lu from=%d to=%d pages=%lu verdict=%s",
		  __print_symbolic(__entry->kind, FOLLOW_KIND_NAMES),
		  __entry->key, __entry->index, __entry->from, __entry->to,
		  __entry->pages,
		  __print_symbolic(__entry->verdict, FOLLOW_VERDICT_NAMES))
);

#endif /* _TRACE_NUMA_FOLLOW_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
