// SPDX-License-Identifier: GPL-2.0
/*
 * Observability: counters that add up, states and words with the reason, events with
 * number, source and target.
 *
 * lab: topology=dram-cxl icount=2 timeout=600s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "burst_util.h"

#define SIZE	(16 * MT_MB)
#define PAGES	((long long)(SIZE / MT_PAGE))

static struct mt_snap before;

static const char * const counters[] = {
	"mtier_bursts", "mtier_looks", "mtier_look_ptes", "mtier_look_flushes",
	"mtier_hint_faults", "mtier_taken", "mtier_drop_gone",
	"mtier_drop_pinned", "mtier_drop_dirty", "mtier_drop_type",
	"mtier_drop_policy", "mtier_fail_isolate", "mtier_fail_nomem",
	"mtier_fail_busy", "mtier_promoted_folios", "mtier_promoted_anon",
	"mtier_promoted_file", "mtier_promoted_shmem", "mtier_promoted_thp",
	"mtier_split_thp", "mtier_fast_moved", "mtier_fast_kind",
	"mtier_fast_busy", "mtier_fast_deferred", "mtier_fast_nomem",
	"mtier_fast_poison", "mtier_demoted", "mtier_throttle_rate",
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

/*
 * A mix: pages that migrate, wait for the rate limit, are freed in between, and huge
 * pages.
 */
static void mixed_load(void)
{
	struct mt_toucher t;
	long long taken;
	int i;

	for (i = 0; i < 4; i++) {
		char *p = mt_fill(SIZE, mt_slow_node(), i == 2);

		mt_set("promote/rate_mbps", i & 1 ? 4 : 1024);
		taken = mt_count("mtier_taken");
		mt_touch_start(&t, p, SIZE);
		(void)MT_WAIT(mt_count("mtier_taken") >
			      taken + (i == 2 ? 4 : PAGES / 2), MT_MOVE_MS);
		mt_touch_stop(&t);
		munmap(p, SIZE);
	}
}

static int adds_up(void)
{
	mt_fast();
	mt_snap(&before);
	mt_on();
	mixed_load();
	mt_off();
	MT_ASSERT(mt_since(&before, "mtier_taken") > PAGES, "little happened");
	if (mt_ended_since(&before) == mt_since(&before, "mtier_taken"))
		return MT_PASS;
	mt_note_since(&before);
	mt_note("taken %lld, ended %lld", mt_since(&before, "mtier_taken"),
		mt_ended_since(&before));
	return MT_FAIL;
}

/* With observe set, only scans are counted. */
static int look_counts(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	long long bursts, looks, ptes;
	struct mt_toucher t;
	bool passed;

	MT_ASSERT(p, "no memory on the slow node");
	mt_snap(&before);
	mt_touch_start(&t, p, SIZE);
	passed = !mt_observe_on() && mt_bursts_pass(4);
	mt_touch_stop(&t);
	mt_off();
	bursts = mt_since(&before, "mtier_bursts");
	looks = mt_since(&before, "mtier_looks");
	ptes = mt_since(&before, "mtier_look_ptes");
	mt_note("%lld bursts, %lld looks at %lld entries, %lld flushes", bursts,
		looks, ptes, mt_since(&before, "mtier_look_flushes"));
	MT_ASSERT(passed, "no bursts");
	MT_ASSERT(bursts >= 4 && looks >= 2 * bursts, "too few");
	MT_ASSERT(ptes >= PAGES, "they did not see all of it");
	MT_ASSERT(mt_since(&before, "mtier_look_flushes") > 0, "no flushes");
	MT_ASSERT(!mt_since(&before, "mtier_taken") &&
		  !mt_since(&before, "mtier_demoted"), "pages were taken");
	return MT_PASS;
}

/* nodeN: the counters of the node */
static int node_counts(void)
{
	char *p, up[64], dropped[64];

	mt_fast();
	mt_on();
	snprintf(up, sizeof(up), "node%d/promoted", mt_slow_node());
	snprintf(dropped, sizeof(dropped), "node%d/dropped", mt_slow_node());
	mt_snap(&before);
	MT_ASSERT(!mt_read_ll(up), "%lld before it began", mt_read_ll(up));
	/* Placed after the switch: memory that exists before may migrate at once. */
	p = mt_place(SIZE, mt_slow_node());
	MT_ASSERT(p, "no memory on the slow node");
	MT_ASSERT(mt_moves_to(p, SIZE, mt_fast_node(), MT_MOVE_MS),
		  "not promoted");
	MT_ASSERT(MT_WAIT(mt_read_ll(up) ==
			  mt_since(&before, "pgpromote_success"), 2000),
		  "%s is %lld, pgpromote_success +%lld", up, mt_read_ll(up),
		  mt_since(&before, "pgpromote_success"));
	MT_ASSERT(MT_WAIT(mt_read_ll(dropped) == mt_ended_since(&before) -
			  mt_since(&before, "mtier_promoted_folios"), 2000),
		  "%s is %lld, taken %lld, promoted %lld", dropped,
		  mt_read_ll(dropped), mt_since(&before, "mtier_taken"),
		  mt_since(&before, "mtier_promoted_folios"));
	return MT_PASS;
}

static bool why_is_a_word(void)
{
	static const char * const words[] = {
		"rate", "nobody", "no_victim", "alike", "cost",
		"saturated",
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(words); i++)
		if (mt_why(words[i]))
			return true;
	return false;
}

/* Check values with a range against their range. */
static bool out_of_range(void)
{
	static const struct {
		const char *file;
		long long least, most;
	} values[] = {
		{ "place/tau_us", 1000, 10000000 },
		{ "place/share_ppm", 1, 50000 },
		{ "place/margin_ppm", 0, 1000000 },
		{ "place/trust_percent", 0, 100 },
		{ "place/gain_us", 0, 1000000000 },
		{ "place/cost_us", 0, 1000000000 },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(values); i++) {
		long long value = mt_read_ll(values[i].file);

		if (value < values[i].least || value > values[i].most) {
			mt_note("%s is %lld", values[i].file, value);
			return true;
		}
	}
	return false;
}

/* place/: the last burst, and totals */
static int place_tells(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	long long up;

	MT_ASSERT(p && mt_place(MT_MB, mt_slow_node()),
		  "no memory on the slow node");
	mt_fast();
	/* 50,000 ppm */
	mt_set("scan/cpu_percent", 5);
	mt_snap(&before);
	mt_on();
	MT_ASSERT(mt_moves_to(p, SIZE, mt_fast_node(), MT_MOVE_MS),
		  "not promoted");
	/* A burst is added at its end. */
	MT_ASSERT(mt_bursts_pass(1), "no bursts");
	MT_ASSERT(MT_WAIT((up = mt_read_ll("place/promoted")) ==
			  mt_since(&before, "pgpromote_success"), 10000),
		  "place/promoted is %lld, pgpromote_success +%lld", up,
		  mt_since(&before, "pgpromote_success"));
	MT_ASSERT(mt_read_ll("place/taken") >= up, "of %lld taken %lld went up",
		  mt_read_ll("place/taken"), up);
	MT_ASSERT(mt_read_ll("place/demoted") == mt_since(&before, "mtier_demoted"),
		  "place/demoted is %lld", mt_read_ll("place/demoted"));
	MT_ASSERT(why_is_a_word(), "place/why is no word of ours");
	MT_ASSERT(!out_of_range(), "out of range");
	return MT_PASS;
}

/* Fields of each event, by name. */
static const struct {
	const char *event;
	const char *fields[10];
} events[] = {
	{ "mtier_burst:", { "ranges", "mms", "looks", "tau_ns", "margin_q16",
		"pairs", "gain_ns", "spent_ns", "why" } },
	{ "mtier_migrate:", { "source", "target", "tried", "moved",
		"outcome", "waited_ns" } },
	{ "mtier_owner:", { "pid", "source", "target", "down", "folios",
		"comm" } },
};

/* Contents of the trace so far: lines by event, pages that migrated */
static struct {
	long long lines[ARRAY_LEN(events)];
	long long moved, tried;
	/* Folios of this process in promotion batches. */
	long long mine;
} said;

static int read_line(const char *line)
{
	size_t i, f;

	for (i = 0; i < ARRAY_LEN(events); i++) {
		if (!strstr(line, events[i].event))
			continue;
		said.lines[i]++;
		for (f = 0; events[i].fields[f]; f++) {
			char field[32];

			snprintf(field, sizeof(field), " %s=",
				 events[i].fields[f]);
			MT_ASSERT(strstr(line, field), "no %s in '%s'", field,
				  line);
		}
	}
	if (strstr(line, "mtier_migrate:")) {
		said.moved += mt_field(line, "moved");
		said.tried += mt_field(line, "tried");
		MT_ASSERT(mt_field(line, "waited_ns") > 0 &&
			  mt_field(line, "waited_ns") < 60 * 1000000000LL,
			  "waited_ns of '%s'", line);
	}
	if (strstr(line, "mtier_owner:") && !mt_field(line, "down") &&
	    mt_field(line, "pid") == getpid())
		said.mine += mt_field(line, "folios");
	return MT_PASS;
}

/* The fourth event, mtier_demote, needs a separate machine (promote_full). */
static int traced(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	struct mt_trace trace;
	char line[512];
	size_t i;

	/* Idle memory stays there, so that bursts continue. */
	MT_ASSERT(p && mt_place(MT_MB, mt_slow_node()),
		  "no memory on the slow node");
	mt_fast();
	MT_ASSERT(!mt_trace_open(&trace, NULL), "no trace events");
	mt_snap(&before);
	mt_on();
	MT_ASSERT(mt_moves_to(p, SIZE, mt_fast_node(), MT_MOVE_MS),
		  "not promoted");
	MT_ASSERT(mt_bursts_pass(1), "no bursts");
	mt_off();
	while (mt_trace_line(&trace, line, sizeof(line)))
		if (read_line(line))
			return MT_FAIL;
	mt_trace_close(&trace);
	for (i = 0; i < ARRAY_LEN(events); i++)
		MT_ASSERT(said.lines[i], "%s was never seen", events[i].event);
	MT_ASSERT(said.moved == mt_since(&before, "pgpromote_success"),
		  "the trace says %lld moved, pgpromote_success +%lld",
		  said.moved, mt_since(&before, "pgpromote_success"));
	/* Base pages; pages that could not move were selected again. */
	MT_ASSERT(said.mine >= PAGES, "%lld of %lld folios are this process's",
		  said.mine, PAGES);
	MT_ASSERT(said.tried <= mt_since(&before, "mtier_taken"),
		  "the trace says %lld tried, %lld were taken", said.tried,
		  mt_since(&before, "mtier_taken"));
	MT_ASSERT(said.lines[0] == mt_since(&before, "mtier_bursts"),
		  "%lld bursts, %lld counted", said.lines[0],
		  mt_since(&before, "mtier_bursts"));
	return MT_PASS;
}

/* Generic tools show the process that migrated the pages, and the reason. */
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
	MT_ASSERT(mt_moves_to(p, MT_MB, mt_fast_node(), MT_MOVE_MS),
		  "not promoted");
	mt_off();
	while (mt_trace_line(&trace, line, sizeof(line)))
		seen |= strstr(line, "mm_migrate_pages") &&
			strstr(line, "tier_promote");
	mt_trace_close(&trace);
	MT_ASSERT(seen, "no migration with the reason tier_promote");
	return MT_PASS;
}

/* Like MT_WAIT(), but without a sleep: some states are short. */
static bool seen(const char *state)
{
	long long until = mt_now_ms() + MT_MOVE_MS;

	while (mt_now_ms() < until)
		if (mt_reads("state", state))
			return true;
	return false;
}

/*
 * Each state is visible when it has a cause; no_slow_tier is tested in another program.
 */
static int states(void)
{
	struct mt_toucher t;
	char *p;

	MT_ASSERT(mt_reads("state", "off"), "not off");
	mt_fast();
	mt_on();
	MT_ASSERT(MT_WAIT(mt_reads("state", "idle"), 10000), "never idle");

	/* Idle memory, which stays, so that there is something to scan. */
	MT_ASSERT(mt_fill(MT_HUGE, mt_slow_node(), false), "no memory");
	p = mt_fill(4 * SIZE, mt_slow_node(), false);
	mt_set("promote/rate_mbps", 1);
	mt_touch_start(&t, p, 4 * SIZE);
	MT_ASSERT(seen("looking"), "never looking");
	MT_ASSERT(seen("throttled"), "never throttled");
	mt_set("promote/rate_mbps", 1048576);
	MT_ASSERT(seen("moving"), "never moving");
	MT_ASSERT(seen("resting"), "never resting");
	mt_touch_stop(&t);
	munmap(p, 4 * SIZE);
	mt_off();
	MT_ASSERT(mt_reads("state", "off"), "not off again");
	return MT_PASS;
}

/* CPU time of the thread, at most the elapsed time */
static int cpu_time(void)
{
	char *p = mt_place(4 * SIZE, mt_slow_node());
	long long ran, start;
	struct mt_toucher t;
	pid_t pid;
	bool up;

	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	mt_snap(&before);
	start = mt_now_ms();
	mt_on();
	pid = mt_kthread("kmtierd");
	MT_ASSERT(pid, "no kmtierd");
	mt_touch_start(&t, p, 4 * SIZE);
	up = MT_WAIT(mt_since(&before, "pgpromote_success") >= 2 * PAGES,
		     MT_MOVE_MS);
	mt_touch_stop(&t);
	ran = mt_cpu_us(pid);
	start = mt_now_ms() - start;
	mt_note("kmtierd ran %lld us of %lld ms for %lld pages", ran, start,
		mt_since(&before, "pgpromote_success"));
	MT_ASSERT(up, "not promoted");
	MT_ASSERT(ran > 0 && ran <= (start + 1) * 1000, "that cannot be");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("O1 every counter is there and has a test", all_there),
		MT_CHECK("O1 what was taken is what ended, reason by reason",
			 adds_up),
		MT_CHECK("O1 what looks see is counted, and nothing else",
			 look_counts),
		MT_CHECK("O3 what left a node is counted there", node_counts),
		MT_CHECK("O5 place tells of the last burst and of all",
			 place_tells),
		MT_CHECK("O4 the events and their fields", traced),
		MT_CHECK("O4 migrations have a reason of their own",
			 migrate_reason),
		MT_CHECK("O5 the state says what goes on", states),
		MT_CHECK("O6 CPU time is told by thread", cpu_time),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
