// SPDX-License-Identifier: GPL-2.0
/*
 * Observability: counters that add up, states that say why, events that tell
 * who, from where and where to.
 *
 * lab: topology=dram-cxl icount=2 timeout=120s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mtier_util.h"

#define SIZE	(16 * MT_MB)
#define PAGES	((long long)(SIZE / MT_PAGE))

static struct mt_snap before;

static const char * const counters[] = {
	"mtier_scan_visits", "mtier_scan_ptes", "mtier_scan_flushes",
	"mtier_young_slow", "mtier_young_top", "mtier_hint_faults", "mtier_skip_shared",
	"mtier_skip_pinned", "mtier_skip_policy", "mtier_records",
	"mtier_queued", "mtier_drop_full", "mtier_drop_off", "mtier_drop_cold",
	"mtier_drop_gone", "mtier_drop_pinned", "mtier_drop_dirty",
	"mtier_drop_type", "mtier_drop_policy", "mtier_fail_isolate",
	"mtier_fail_full", "mtier_fail_nomem", "mtier_fail_busy",
	"mtier_promoted_folios",
	"mtier_promoted_anon", "mtier_promoted_file", "mtier_promoted_shmem",
	"mtier_promoted_thp", "mtier_split_thp", "mtier_demoted",
	"mtier_fast_moved", "mtier_fast_kind", "mtier_fast_busy",
	"mtier_fast_deferred", "mtier_fast_nomem", "mtier_fast_poison",
	"mtier_throttle_rate",
	"mtier_throttle_cpu", "mtier_backpressure",
};

static int all_there(void)
{
	char *line, *rest = before.text;
	size_t i;

	mt_snap(&before);
	for (i = 0; i < ARRAY_LEN(counters); i++)
		MT_ASSERT(mt_get(&before, counters[i]) >= 0, "no %s",
			  counters[i]);
	while ((line = strsep(&rest, "\n"))) {
		bool known = strncmp(line, "mtier_", 6);
		size_t len = strcspn(line, " ");

		for (i = 0; i < ARRAY_LEN(counters); i++)
			known |= strlen(counters[i]) == len &&
				 !strncmp(line, counters[i], len);
		MT_ASSERT(known, "no test knows of %s", line);
	}
	return MT_PASS;
}

/* Some of everything: what moves, is freed, cools down, does not fit. */
static void mixed_load(void)
{
	long long queued;
	struct mt_toucher t;
	int i;

	for (i = 0; i < 4; i++) {
		char *p = mt_fill(SIZE, mt_slow_node(), i == 2);

		mt_set("promote/rate_mbps", i & 1 ? 4 : 1024);
		queued = mt_count("mtier_queued");
		mt_touch_start(&t, p, SIZE);
		(void)MT_WAIT(mt_count("mtier_queued") >
			      queued + (i == 2 ? 4 : PAGES / 2), 5000);
		mt_touch_stop(&t);
		if (i == 1)
			mt_set("promote/queue_pages", 1024);
		munmap(p, SIZE);
	}
}

static int adds_up(void)
{
	mt_fast();
	mt_set("hot/window_ms", 1000);
	mt_snap(&before);
	mt_on();
	mixed_load();
	mt_off();
	MT_ASSERT(mt_since(&before, "mtier_queued") > PAGES, "little happened");
	if (mt_ended_since(&before) == mt_since(&before, "mtier_queued"))
		return MT_PASS;
	mt_note_since(&before);
	mt_note("queued %lld, ended %lld", mt_since(&before, "mtier_queued"),
		mt_ended_since(&before));
	return MT_FAIL;
}

static int scan_counts(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	char *top = mt_place(SIZE, mt_fast_node());
	struct mt_toucher t;

	MT_ASSERT(p && top, "no memory");
	mt_fast();
	mt_set("hot/room_percent", 100);
	mt_set("hot/accesses", 15);
	mt_touch_start(&t, top, SIZE);
	mt_snap(&before);
	mt_touch(p, SIZE, false);
	mt_on();
	MT_ASSERT(MT_WAIT(mt_since(&before, "mtier_young_slow") >= PAGES, 5000),
		  "young_slow +%lld", mt_since(&before, "mtier_young_slow"));
	MT_ASSERT(MT_WAIT(mt_since(&before, "mtier_young_top") >= PAGES, 5000),
		  "young_top +%lld", mt_since(&before, "mtier_young_top"));
	mt_touch_stop(&t);
	mt_off();
	MT_ASSERT(mt_since(&before, "mtier_scan_ptes") >= 2 * PAGES,
		  "scan_ptes +%lld", mt_since(&before, "mtier_scan_ptes"));
	MT_ASSERT(mt_since(&before, "mtier_scan_visits") > 0, "no visits");
	/* Each access that was seen is one record, and no page became hot. */
	MT_ASSERT(mt_since(&before, "mtier_records") >= PAGES &&
		  mt_since(&before, "mtier_records") <=
		  mt_since(&before, "mtier_young_slow"), "records +%lld",
		  mt_since(&before, "mtier_records"));
	MT_ASSERT(!mt_since(&before, "mtier_queued"), "queued +%lld",
		  mt_since(&before, "mtier_queued"));
	return MT_PASS;
}

/* nodeN: its own share of the counters */
static int node_counts(void)
{
	char *p, file[64];

	mt_fast();
	mt_on();
	snprintf(file, sizeof(file), "node%d/promoted", mt_slow_node());
	mt_snap(&before);
	MT_ASSERT(!mt_read_ll(file), "%lld before it began", mt_read_ll(file));
	/* Not sooner: what is there when it is switched on may move at once. */
	p = mt_place(SIZE, mt_slow_node());
	MT_ASSERT(p, "no memory on the slow node");
	MT_ASSERT(mt_moves_to(p, SIZE, mt_fast_node(), 10000), "not promoted");
	MT_ASSERT(MT_WAIT(mt_read_ll(file) ==
			  mt_since(&before, "pgpromote_success"), 2000),
		  "%s is %lld, pgpromote_success +%lld", file, mt_read_ll(file),
		  mt_since(&before, "pgpromote_success"));
	return MT_PASS;
}

/* What each event says, by name. */
static const struct {
	const char *event;
	const char *fields[9];
} events[] = {
	{ "mtier_scan_start:", { "pid", "mm", "address", "period_ms",
		"size_mb" } },
	{ "mtier_scan_end:", { "pid", "mm", "ptes", "young_slow", "young_top",
		"next_ms", "size_mb", "stop" } },
	{ "mtier_hot:", { "pfn", "source", "target", "heat" } },
	{ "mtier_migrate:", { "source", "target", "tried", "moved",
		"outcome" } },
};

static int traced(void)
{
	long long lines[ARRAY_LEN(events)] = { 0 }, moved = 0, young = 0;
	char *p = mt_place(SIZE, mt_slow_node());
	struct mt_trace trace;
	char line[512];
	size_t i, f;

	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	MT_ASSERT(!mt_trace_open(&trace, NULL), "no trace events");
	mt_snap(&before);
	mt_on();
	MT_ASSERT(mt_moves_to(p, SIZE, mt_fast_node(), 10000), "not promoted");
	mt_off();
	while (mt_trace_line(&trace, line, sizeof(line))) {
		for (i = 0; i < ARRAY_LEN(events); i++) {
			if (!strstr(line, events[i].event))
				continue;
			lines[i]++;
			for (f = 0; events[i].fields[f]; f++) {
				char field[32];

				snprintf(field, sizeof(field), " %s=",
					 events[i].fields[f]);
				MT_ASSERT(strstr(line, field),
					  "no %s in '%s'", field, line);
			}
		}
		if (strstr(line, "mtier_migrate:"))
			moved += mt_field(line, "moved");
		if (strstr(line, "mtier_scan_end:"))
			young += mt_field(line, "young_slow");
	}
	mt_trace_close(&trace);
	for (i = 0; i < ARRAY_LEN(events); i++)
		MT_ASSERT(lines[i], "%s was never seen", events[i].event);
	MT_ASSERT(moved == mt_since(&before, "pgpromote_success"),
		  "the trace says %lld moved, pgpromote_success +%lld", moved,
		  mt_since(&before, "pgpromote_success"));
	MT_ASSERT(lines[2] == mt_since(&before, "mtier_queued"),
		  "%lld pages got hot, %lld were queued", lines[2],
		  mt_since(&before, "mtier_queued"));
	return MT_PASS;
}

/* Generic tools see who moved the pages and why. */
static int migrate_reason(void)
{
	char path[256], text[4096];
	struct mt_trace trace;
	bool seen = false;
	char line[512];
	char *p;

	p = mt_place(MT_MB, mt_slow_node());
	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	MT_ASSERT(!mt_trace_open(&trace, "mtier_migrate"), "no trace events");
	snprintf(path, sizeof(path), "%s/events/migrate/mm_migrate_pages/format",
		 trace.dir);
	MT_NEED(mt_read(path, text, sizeof(text)) > 0, "no such event");
	snprintf(path, sizeof(path), "%s/events/migrate/mm_migrate_pages/enable",
		 trace.dir);
	mt_write(path, "1");
	mt_on();
	MT_ASSERT(mt_moves_to(p, MT_MB, mt_fast_node(), 10000), "not promoted");
	mt_off();
	while (mt_trace_line(&trace, line, sizeof(line)))
		seen |= strstr(line, "mm_migrate_pages") &&
			strstr(line, "tier_promote");
	mt_trace_close(&trace);
	MT_ASSERT(seen, "no migration with the reason tier_promote");
	return MT_PASS;
}

static bool node_is(const char *state)
{
	char file[64];

	snprintf(file, sizeof(file), "node%d/state", mt_slow_node());
	return mt_reads(file, state);
}

/*
 * Each state can be seen when there is cause for it.  no_slow_tier has a machine
 * of its own (scan_no_tier), and so has target_full (promote_full).  The state
 * no_target has none: a node is slow only if it is below a tier with CPUs, that
 * tier has memory, never all of which can go, and so a node is always above.
 */
static int states(void)
{
	struct mt_toucher t;
	char *p;

	MT_ASSERT(mt_reads("state", "off"), "not off");
	mt_fast();
	mt_on();
	MT_ASSERT(MT_WAIT(mt_reads("state", "idle"), 3000), "never idle");
	MT_ASSERT(node_is("idle"), "the migrator is not idle");

	p = mt_place(4 * SIZE, mt_slow_node()) ?: mt_fill(4 * SIZE,
							  mt_slow_node(), false);
	mt_set("promote/rate_mbps", 1);
	mt_set("promote/queue_pages", 1024);
	mt_set("scan/cpu_percent", 1);
	mt_touch_start(&t, p, 4 * SIZE);
	MT_ASSERT(MT_WAIT(mt_reads("state", "paused_cpu"), 8000),
		  "never paused_cpu");
	mt_set("scan/cpu_percent", 90);
	MT_ASSERT(MT_WAIT(mt_reads("state", "paused_queue"), 8000),
		  "never paused_queue");
	MT_ASSERT(MT_WAIT(node_is("throttled"), 8000), "never throttled");
	mt_set("promote/rate_mbps", 1048576);
	MT_ASSERT(MT_WAIT(node_is("migrating"), 8000), "never migrating");
	MT_ASSERT(MT_WAIT(mt_reads("state", "scanning"), 8000),
		  "never scanning");
	mt_touch_stop(&t);
	munmap(p, 4 * SIZE);
	mt_off();
	MT_ASSERT(mt_reads("state", "off"), "not off again");
	return MT_PASS;
}

static int cpu_time(void)
{
	char *p = mt_place(4 * SIZE, mt_slow_node()), name[32];
	long long scan, move;

	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	mt_on();
	snprintf(name, sizeof(name), "kpromoted/%d", mt_slow_node());
	scan = mt_cpu_us(mt_kthread("kmmscand"));
	move = mt_cpu_us(mt_kthread(name));
	MT_ASSERT(mt_moves_to(p, 4 * SIZE, mt_fast_node(), 15000),
		  "not promoted");
	scan = mt_cpu_us(mt_kthread("kmmscand")) - scan;
	move = mt_cpu_us(mt_kthread(name)) - move;
	mt_note("for %lld pages: kmmscand %lld us, %s %lld us", 4 * PAGES, scan,
		name, move);
	MT_ASSERT(scan > 0 && move > 0, "no time at all");
	MT_ASSERT(move > scan / 4, "moving costs nothing");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("O1 every counter is there and has a test", all_there),
		MT_CHECK("O1 what was queued is what ended, reason by reason",
			 adds_up),
		MT_CHECK("O1 what the scanner saw", scan_counts),
		MT_CHECK("O3 what left a node is counted there", node_counts),
		MT_CHECK("O4 the four events and their fields", traced),
		MT_CHECK("O4 migrations have a reason of their own",
			 migrate_reason),
		MT_CHECK("O5 the state says what goes on, and why nothing moves", states),
		MT_CHECK("O6 CPU time is told by thread", cpu_time),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
