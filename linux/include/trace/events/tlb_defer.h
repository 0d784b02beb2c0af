/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM tlb_defer

#if !defined(_TRACE_TLB_DEFER_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_TLB_DEFER_H

#include <linux/tracepoint.h>
#include <linux/types.h>

/* The page could be deferred, and was merged into a flush that was due. */
#define TLB_DEFER_REFUSAL_JOINED	9

/* In the order of the vm events tlb_defer_refused_* */
#define TLB_DEFER_REFUSAL_NAMES			\
	{ 0, "none" },				\
	{ 1, "write" },				\
	{ 2, "pending" },			\
	{ 3, "file" },				\
	{ 4, "open" },				\
	{ 5, "kind" },				\
	{ 6, "full" },				\
	{ 7, "pressure" },			\
	{ 8, "backoff" },			\
	{ TLB_DEFER_REFUSAL_JOINED, "joined" }

/* enum tlb_defer_why */
#define TLB_DEFER_WHY_NAMES			\
	{ 0, "late" },				\
	{ 1, "cap" },				\
	{ 2, "open" },				\
	{ 3, "pressure" },			\
	{ 4, "compact" },			\
	{ 5, "stop" }

/* A folio was judged; entries: number of its entries that were deferred */
TRACE_EVENT(tlb_defer_folio,
	TP_PROTO(u64 pfn, u32 nr_pages, u32 entries, u32 refused),
	TP_ARGS(pfn, nr_pages, entries, refused),
	TP_STRUCT__entry(
		__field(u64, pfn)
		__field(u32, nr_pages)
		__field(u32, entries)
		__field(u32, refused)
	),
	TP_fast_assign(
		__entry->pfn = pfn;
		__entry->nr_pages = nr_pages;
		__entry->entries = entries;
		__entry->refused = refused;
	),
	TP_printk("pfn=0x%llx nr_pages=%u entries=%u refused=%s",
		  __entry->pfn, __entry->nr_pages, __entry->entries,
		  __print_symbolic(__entry->refused, TLB_DEFER_REFUSAL_NAMES))
);

/* Pages of an address space migrated together; waits: their flush is deferred */
TRACE_EVENT(tlb_defer_flight,
	TP_PROTO(u32 pages, u32 writable, bool waits, u32 refused),
	TP_ARGS(pages, writable, waits, refused),
	TP_STRUCT__entry(
		__field(u32, pages)
		__field(u32, writable)
		__field(bool, waits)
		__field(u32, refused)
	),
	TP_fast_assign(
		__entry->pages = pages;
		__entry->writable = writable;
		__entry->waits = waits;
		__entry->refused = refused;
	),
	TP_printk("pages=%u writable=%u waits=%u refused=%s",
		  __entry->pages, __entry->writable, __entry->waits,
		  __print_symbolic(__entry->refused, TLB_DEFER_REFUSAL_NAMES))
);

/* cpus: number of CPUs interrupted */
TRACE_EVENT(tlb_defer_flush,
	TP_PROTO(u64 gen, u32 why, u32 cpus),
	TP_ARGS(gen, why, cpus),
	TP_STRUCT__entry(
		__field(u64, gen)
		__field(u32, why)
		__field(u32, cpus)
	),
	TP_fast_assign(
		__entry->gen = gen;
		__entry->why = why;
		__entry->cpus = cpus;
	),
	TP_printk("gen=%llu why=%s cpus=%u", __entry->gen,
		  __print_symbolic(__entry->why, TLB_DEFER_WHY_NAMES),
		  __entry->cpus)
);

#endif /* _TRACE_TLB_DEFER_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
