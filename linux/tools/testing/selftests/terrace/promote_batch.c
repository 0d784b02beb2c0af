// SPDX-License-Identifier: GPL-2.0
/*
 * Movement: who does it, in what batches, at what rate, from what queue.
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

#define SIZE	(32 * MT_MB)

static struct mt_trace trace;
static struct mt_snap before;

/* What mtier_migrate said so far. */
static struct {
	long long calls, tried, moved, most, others;
} seen;

static void read_trace(void)
{
	char line[512], name[32], mover[32];

	snprintf(name, sizeof(name), "kpromoted/%d", mt_slow_node());
	snprintf(mover, sizeof(mover), "-%d ", mt_kthread(name));

	while (mt_trace_line(&trace, line, sizeof(line))) {
		long long tried = mt_field(line, "tried");

		if (tried < 0)
			continue;
		seen.calls++;
		seen.tried += tried;
		seen.moved += mt_field(line, "moved");
		if (tried > seen.most)
			seen.most = tried;
		seen.others += !strstr(line, mover);
	}
}

/* Promote @SIZE and read the trace of it. */
static int promote_traced(long long batch)
{
	char *p = mt_place(SIZE, mt_slow_node());
	struct mt_toucher t;
	bool moved;

	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	mt_set("promote/batch_pages", batch);
	MT_ASSERT(!mt_trace_open(&trace, "mtier_migrate"), "no trace event");
	mt_snap(&before);
	mt_on();
	mt_touch_start(&t, p, SIZE);
	moved = MT_WAIT(({
		read_trace();
		mt_all_on(p, SIZE, mt_fast_node());
	}), 15000);
	mt_touch_stop(&t);
	read_trace();
	mt_trace_close(&trace);
	MT_ASSERT(moved, "not all moved");
	mt_note("%lld calls, %lld folios, %lld pages", seen.calls, seen.tried,
		seen.moved);
	return MT_PASS;
}

static int migrator_only(void)
{
	int ret = promote_traced(512);

	MT_ASSERT(ret || !seen.others, "%lld calls by somebody else",
		  seen.others);
	MT_ASSERT(ret || seen.moved >= (long long)(SIZE / MT_PAGE),
		  "the trace says %lld pages", seen.moved);
	return ret;
}

static int in_batches(void)
{
	int ret = promote_traced(512);

	MT_ASSERT(ret || seen.tried >= 128 * seen.calls,
		  "%lld folios in %lld calls", seen.tried, seen.calls);
	MT_ASSERT(ret || seen.most <= 512, "%lld in one call", seen.most);
	return ret;
}

static int small_batches(void)
{
	int ret = promote_traced(16);

	MT_ASSERT(ret || seen.most <= 16, "%lld in one call", seen.most);
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

/* The process runs on both CPUs, so that every flush has to be sent. */
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
	MT_ASSERT(MT_WAIT(mt_all_on(p, SIZE, mt_fast_node()), 15000),
		  "not all moved");
	ipis = shootdowns() - ipis;
	mt_touch_stop(&t[0]);
	mt_touch_stop(&t[1]);
	mt_note("%lld IPIs for %zu pages", ipis, SIZE / MT_PAGE);
	MT_ASSERT(ipis * 8 < (long long)(SIZE / MT_PAGE),
		  "more than one for eight pages");
	return MT_PASS;
}

/* MiB/s that move to the fast node, over @ms */
static double measure(unsigned int ms)
{
	long long from = mt_count("pgpromote_success"), start = mt_now_ms();

	mt_nap(ms);
	from = mt_count("pgpromote_success") - from;
	return from * (double)MT_PAGE / MT_MB * 1000 / (mt_now_ms() - start);
}

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
	mt_set("promote/batch_pages", 64);
	mt_snap(&before);
	mt_on();
	mt_touch_start(&t, p, size);
	MT_ASSERT(MT_WAIT(mt_since(&before, "mtier_throttle_rate") > 3, 10000),
		  "it is never throttled");
	for (i = 0; i < ARRAY_LEN(rates); i++) {
		double rate;

		mt_set("promote/rate_mbps", rates[i]);
		mt_nap(300);
		rate = measure(2000);
		mt_note("limit %d: %.2f MiB/s", rates[i], rate);
		MT_ASSERT(rate < rates[i] * 1.1 && rate > rates[i] * 0.9,
			  "not within 10 %%");
	}
	mt_touch_stop(&t);
	return MT_PASS;
}

/* Huge pages are larger than what a slow rate earns in a second. */
static int huge_at_rate(void)
{
	char *p = mt_place_thp(16 * MT_HUGE, mt_slow_node());
	struct mt_toucher t;
	double rate;

	MT_ASSERT(p, "no huge pages on the slow node");
	mt_fast();
	mt_set("promote/rate_mbps", 4);
	mt_on();
	mt_touch_start(&t, p, 16 * MT_HUGE);
	mt_nap(1500);
	rate = measure(4000);
	mt_touch_stop(&t);
	mt_note("limit 4: %.2f MiB/s in huge pages", rate);
	MT_ASSERT(rate > 2.9 && rate < 5.1, "not within a huge page of it");
	return MT_PASS;
}

/*
 * 32 MiB are hot, the queue holds 4 MiB, 1 MiB/s may leave it.  A scanner that
 * heeds the pressure stops; one that does not pours all of it in.
 */
static int bounded(void)
{
	long long most = 0, now, queued;
	char *p = mt_place(SIZE, mt_slow_node());
	bool paused = false;
	struct mt_toucher t;

	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	mt_set("promote/queue_pages", 1024);
	mt_set("promote/rate_mbps", 1);
	mt_set("promote/batch_pages", 64);
	mt_set("hot/window_ms", 60000);
	mt_snap(&before);
	mt_on();
	mt_touch_start(&t, p, SIZE);
	(void)MT_WAIT(({
		now = mt_queued_now();
		if (now > most)
			most = now;
		paused |= mt_reads("state", "paused_queue");
		false;
	}), 3000);
	mt_touch_stop(&t);
	queued = mt_since(&before, "mtier_queued");
	mt_note("at most %lld waited, %lld came, %lld were dropped, %lld pauses",
		most, queued, mt_since(&before, "mtier_drop_full"),
		mt_since(&before, "mtier_backpressure"));
	MT_ASSERT(most > 512 && most <= 1024, "%lld waited", most);
	MT_ASSERT(mt_since(&before, "mtier_backpressure") > 0 && paused,
		  "the scanner did not pause");
	MT_ASSERT(queued < 4096, "%lld were queued all the same", queued);
	return MT_PASS;
}

/* Without back-pressure the oldest go, and each is counted. */
static int drops_oldest(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	struct mt_toucher t;

	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	mt_set("promote/queue_pages", 8192);
	mt_set("promote/rate_mbps", 1);
	mt_set("promote/batch_pages", 16);
	mt_snap(&before);
	mt_on();
	mt_touch_start(&t, p, SIZE);
	MT_ASSERT(MT_WAIT(mt_queued_now() > 4000, 8000), "%lld are queued",
		  mt_queued_now());
	mt_touch_stop(&t);
	mt_set("promote/queue_pages", 1024);
	MT_ASSERT(mt_queued_now() <= 1024, "%lld in a queue of 1024",
		  mt_queued_now());
	MT_ASSERT(mt_since(&before, "mtier_drop_full") > 2500,
		  "%lld were counted as dropped",
		  mt_since(&before, "mtier_drop_full"));
	return MT_PASS;
}

/* Queued pages are held by nobody: they can be freed, all at once. */
static int no_references(void)
{
	long long was, now;
	struct mt_cgroup cg;
	struct mt_toucher t;
	char *p;

	MT_ASSERT(!mt_cgroup_make(&cg, "queued", "+memory") &&
		  !mt_cgroup_enter(&cg, 0), "no cgroup");
	p = mt_place(SIZE, mt_slow_node());
	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	mt_set("promote/rate_mbps", 1);
	mt_set("promote/batch_pages", 16);
	mt_on();
	mt_touch_start(&t, p, SIZE);
	MT_ASSERT(MT_WAIT(mt_queued_now() > 6000, 8000), "%lld are queued",
		  mt_queued_now());
	mt_touch_stop(&t);
	was = mt_cgroup_stat(&cg, "memory.current", NULL);
	munmap(p, SIZE);
	/* A page is uncharged when its last reference goes. */
	now = mt_cgroup_stat(&cg, "memory.current", NULL);
	mt_cgroup_remove(&cg);
	MT_ASSERT(was - now > (long long)SIZE - 2 * (long long)MT_MB,
		  "of %lld KiB only %lld were freed", was >> 10,
		  (was - now) >> 10);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("M1 only kpromoted moves pages, never the application",
			 migrator_only),
		MT_CHECK("M2 they go in batches", in_batches),
		MT_CHECK("M2 C1 batch_pages is the most in one call",
			 small_batches),
		MT_CHECK("M3 one TLB flush per batch, not per page", few_ipis),
		MT_CHECK("M5 the rate limit is kept within 10 %, also when changed live",
			 at_rate),
		MT_CHECK("M5 huge pages keep it, too", huge_at_rate),
		MT_CHECK("M4 the queue is bounded and the scanner waits for it",
			 bounded),
		MT_CHECK("M4 what no longer fits is dropped and counted",
			 drops_oldest),
		MT_CHECK("M4 a queued page can be freed", no_references),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
