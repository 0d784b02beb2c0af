// SPDX-License-Identifier: GPL-2.0
/*
 * Migration: by which thread, in which batches, at which rate.
 *
 * lab: topology=dram-cxl icount=2 timeout=400s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mtier_util.h"

#define SIZE	(32 * MT_MB)
#define PAGES	((long long)(SIZE / MT_PAGE))
/* All pages except those that a burst missed by chance; later bursts find them. */
#define MOST	(PAGES * 95 / 100)
/* The most in one call, and a number that counts as many */
#define BATCH	512
#define MANY	128

static struct mt_trace trace;
static struct mt_snap before;

/* Contents of mtier_migrate so far. */
static struct {
	long long calls, tried, in_many, moved, most, others;
} seen;

static void read_trace(void)
{
	char line[512], mover[32];

	snprintf(mover, sizeof(mover), "-%d ", mt_kthread("kmtierd"));
	while (mt_trace_line(&trace, line, sizeof(line))) {
		long long tried = mt_field(line, "tried");

		if (tried < 0)
			continue;
		seen.calls++;
		seen.tried += tried;
		seen.in_many += tried >= MANY ? tried : 0;
		seen.moved += mt_field(line, "moved");
		if (tried > seen.most)
			seen.most = tried;
		seen.others += !strstr(line, mover);
	}
}

static bool most_moved(const char *p)
{
	return mt_pages_on(p, SIZE, mt_fast_node()) >= MOST;
}

/* Promote @SIZE and read the trace of it. */
static int promote_traced(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	struct mt_toucher t;
	bool moved;

	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	MT_ASSERT(!mt_trace_open(&trace, "mtier_migrate"), "no trace event");
	mt_snap(&before);
	mt_on();
	mt_touch_start(&t, p, SIZE);
	moved = MT_WAIT(({
		read_trace();
		most_moved(p);
	}), MT_MOVE_MS);
	mt_touch_stop(&t);
	read_trace();
	mt_trace_close(&trace);
	MT_ASSERT(moved, "it did not move");
	mt_note("%lld calls, %lld folios, %lld pages", seen.calls, seen.tried,
		seen.moved);
	return MT_PASS;
}

static int kmtierd_only(void)
{
	int ret = promote_traced();

	MT_ASSERT(ret || !seen.others, "%lld calls by somebody else",
		  seen.others);
	MT_ASSERT(ret || seen.moved >= MOST, "the trace says %lld pages",
		  seen.moved);
	return ret;
}

static int in_batches(void)
{
	int ret = promote_traced();

	MT_ASSERT(ret || seen.in_many >= seen.tried / 2,
		  "of %lld folios %lld in calls of %d and more", seen.tried,
		  seen.in_many, MANY);
	MT_ASSERT(ret || seen.most <= BATCH, "%lld in one call", seen.most);
	return ret;
}

/* TLB shootdowns received by all CPUs */
static long long shootdowns(void)
{
	char text[16384], *at;
	long long sum = 0;

	if (mt_read("/proc/interrupts", text, sizeof(text)) < 0)
		return -1;
	at = strstr(text, "TLB:");
	if (!at)
		return -1;
	for (at += 4;;) {
		char *end;
		long long n = strtoll(at, &end, 10);

		if (end == at)
			return sum;
		sum += n;
		at = end;
	}
}

/* The process runs on both CPUs, so every flush needs an interrupt. */
static int few_ipis(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	struct mt_toucher t[2];
	long long ipis;
	int i;

	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	for (i = 0; i < 2; i++) {
		t[i] = (struct mt_toucher) {
			.p = p, .size = SIZE, .step = MT_PAGE, .cpu = i,
		};
		mt_toucher_run(&t[i]);
	}
	ipis = shootdowns();
	MT_NEED(ipis >= 0, "no TLB line in /proc/interrupts");
	mt_on();
	MT_ASSERT(MT_WAIT(most_moved(p), MT_MOVE_MS), "it did not move");
	ipis = shootdowns() - ipis;
	mt_touch_stop(&t[0]);
	mt_touch_stop(&t[1]);
	mt_note("%lld IPIs for %lld pages, for looks, too", ipis, PAGES);
	MT_ASSERT(ipis * 8 < PAGES, "more than one for eight pages");
	return MT_PASS;
}

/* Measure MiB/s migrated to the fast node, over @ms */
static double measure(unsigned int ms)
{
	long long from = mt_count("pgpromote_success"), start = mt_now_ms();

	mt_nap(ms);
	from = mt_count("pgpromote_success") - from;
	return from * (double)MT_PAGE / MT_MB * 1000 / (mt_now_ms() - start);
}

/*
 * Unused rate is not saved up for long while pages are scanned; the full rate need not be
 * used.
 */
static int at_rate(void)
{
	size_t size = 160 * MT_MB;
	char *p = mt_place(size, mt_slow_node());
	static const int rates[] = { 8, 24 };
	struct mt_toucher t;
	size_t i;

	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	mt_set("promote/rate_mbps", rates[0]);
	mt_snap(&before);
	mt_on();
	mt_touch_start(&t, p, size);
	MT_ASSERT(MT_WAIT(mt_since(&before, "mtier_throttle_rate") > 3,
			  MT_MOVE_MS), "it is never throttled");
	for (i = 0; i < ARRAY_LEN(rates); i++) {
		double rate;

		mt_set("promote/rate_mbps", rates[i]);
		mt_nap(300);
		rate = measure(2000);
		mt_note("limit %d: %.2f MiB/s", rates[i], rate);
		MT_ASSERT(rate < rates[i] * 1.1, "more than it allows");
		MT_ASSERT(rate > rates[i] * 0.5, "less than half of it");
	}
	mt_touch_stop(&t);
	return MT_PASS;
}

/* Huge pages are larger than the pages that a low rate allows in one plan. */
static int huge_at_rate(void)
{
	const size_t size = 24 * MT_HUGE;
	char *p = mt_place_thp(size, mt_slow_node());
	struct mt_toucher t;
	bool throttled;
	double rate;

	MT_ASSERT(p, "no huge pages on the slow node");
	mt_fast();
	mt_set("promote/rate_mbps", 4);
	mt_snap(&before);
	mt_on();
	mt_touch_start(&t, p, size);
	throttled = MT_WAIT(mt_since(&before, "mtier_throttle_rate") > 1,
			    MT_MOVE_MS);
	rate = measure(4000);
	mt_touch_stop(&t);
	mt_note("limit 4: %.2f MiB/s in huge pages", rate);
	MT_ASSERT(throttled, "it is never throttled");
	MT_ASSERT(rate < 5.1, "more than a huge page above it");
	MT_ASSERT(rate > 1.5, "less than half of it");
	return MT_PASS;
}

/*
 * Pages that wait for the rate limit have no additional reference: they can be freed, all
 * at once.
 */
static int no_references(void)
{
	long long was, now;
	struct mt_cgroup cg;
	struct mt_toucher t;
	bool wait;
	char *p;

	MT_ASSERT(!mt_cgroup_make(&cg, "freed", "+memory") &&
		  !mt_cgroup_enter(&cg, 0), "no cgroup");
	p = mt_place(SIZE, mt_slow_node());
	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	mt_set("promote/rate_mbps", 1);
	mt_on();
	mt_touch_start(&t, p, SIZE);
	wait = MT_WAIT(mt_reads("state", "throttled"), MT_MOVE_MS);
	mt_touch_stop(&t);
	was = mt_cgroup_stat(&cg, "memory.current", NULL);
	munmap(p, SIZE);
	/* A page is uncharged when its last reference is dropped. */
	now = mt_cgroup_stat(&cg, "memory.current", NULL);
	mt_cgroup_remove(&cg);
	MT_ASSERT(wait, "no pages wait");
	MT_ASSERT(was - now > (long long)SIZE - 2 * (long long)MT_MB,
		  "of %lld KiB only %lld were freed", was >> 10,
		  (was - now) >> 10);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("M1 only kmtierd moves pages, never the application",
			 kmtierd_only),
		MT_CHECK("M2 they go in batches", in_batches),
		MT_CHECK("M3 one TLB flush per batch, not per page", few_ipis),
		MT_CHECK("M5 the rate limit is kept, also when changed live",
			 at_rate),
		MT_CHECK("M5 huge pages keep it, too", huge_at_rate),
		MT_CHECK("M4 a page that waits for the rate can be freed",
			 no_references),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
