/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM lazy_migrate

#if !defined(_TRACE_LAZY_MIGRATE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_LAZY_MIGRATE_H

#include <linux/tracepoint.h>
#include <linux/types.h>

/* enum lazy_reason */
#define LAZY_REASON_NAMES		\
	{ 0, "dirty" },			\
	{ 1, "shared" },		\
	{ 2, "nomem" },			\
	{ 3, "busy" }

/* Pages of a stretch that will move when they are used next */
TRACE_EVENT(mm_lazy_mark,
	TP_PROTO(unsigned long start, unsigned long end, unsigned long marked),
	TP_ARGS(start, end, marked),
	TP_STRUCT__entry(
		__field(unsigned long, start)
		__field(unsigned long, end)
		__field(unsigned long, marked)
	),
	TP_fast_assign(
		__entry->start = start;
		__entry->end = end;
		__entry->marked = marked;
	),
	TP_printk("start=%#lx end=%#lx marked=%lu", __entry->start,
		  __entry->end, __entry->marked)
);

/* neighbour: it came along with another page that was touched */
TRACE_EVENT(mm_lazy_pull,
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

/* addr: of the touched page, or the start of the stretch that was looked at */
TRACE_EVENT(mm_lazy_refuse,
	TP_PROTO(unsigned long addr, u32 reason, unsigned long pages),
	TP_ARGS(addr, reason, pages),
	TP_STRUCT__entry(
		__field(unsigned long, addr)
		__field(unsigned long, pages)
		__field(u32, reason)
	),
	TP_fast_assign(
		__entry->addr = addr;
		__entry->pages = pages;
		__entry->reason = reason;
	),
	TP_printk("addr=%#lx reason=%s pages=%lu", __entry->addr,
		  __print_symbolic(__entry->reason, LAZY_REASON_NAMES),
		  __entry->pages)
);

#endif /* _TRACE_LAZY_MIGRATE_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
