/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM fault_migrate

#if !defined(_TRACE_FAULT_MIGRATE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_FAULT_MIGRATE_H

#include <linux/tracepoint.h>
#include <linux/types.h>

/* enum fm_kind */
#define FM_KIND_NAMES			\
	{ 0, "swap" },			\
	{ 1, "shmem" },			\
	{ 2, "file" }

/* enum fm_verdict */
#define FM_VERDICT_NAMES		\
	{ 0, "dirty" },			\
	{ 1, "shared" },		\
	{ 2, "ratelimit" },		\
	{ 3, "nomem" },			\
	{ 4, "busy" },			\
	{ 5, "migrated" }

/*
 * A folio that nobody mapped was on another node than it should be when a fault
 * came to map it.  key: the same for all pages of a file
 */
TRACE_EVENT(fault_migrate,
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
		  __print_symbolic(__entry->kind, FM_KIND_NAMES), __entry->key,
		  __entry->index, __entry->from, __entry->to, __entry->pages,
		  __print_symbolic(__entry->verdict, FM_VERDICT_NAMES))
);

#endif /* _TRACE_FAULT_MIGRATE_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
