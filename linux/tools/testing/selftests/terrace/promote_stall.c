// SPDX-License-Identifier: GPL-2.0
/*
 * How long a thread waits that writes to pages while they move, by address space
 * and by migrate_pages(), and how often the moves interrupt another CPU. Guest
 * time counts instructions, so that two runs differ by little; what is noted is
 * the distribution.
 *
 * lab: topology=dram-cxl icount=2 timeout=300s debug=no
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mtier_util.h"

#define SIZE	(32 * MT_MB)
#define PAGES	(SIZE / MT_PAGE)
/* All but what a burst by chance did not find in use */
#define MOST	((long)(PAGES * 95 / 100))
/* Waits of 2^n us and more, from one microsecond on */
#define BINS	16
#define FIRST_NS	1024

/**
 * struct waits - of one writer
 * @bin: how many writes took 2^n us to less than twice that, of those of a microsecond and more
 * @longest_ns: the longest
 * @writes: how many there were
 */
struct waits {
	unsigned long bin[BINS];
	long long longest_ns;
	unsigned long writes;
};

static struct mt_snap before;
static volatile bool stop;
static char *area;

static void note_wait(struct waits *w, long long ns)
{
	unsigned int n = 0;

	w->writes++;
	if (ns > w->longest_ns)
		w->longest_ns = ns;
	if (ns < FIRST_NS)
		return;
	while (n < BINS - 1 && ns >= 2LL * FIRST_NS << n)
		n++;
	w->bin[n]++;
}

static void *writing(void *arg)
{
	struct waits *w = arg;
	unsigned int seed = 1;
	long long then, now;

	mt_run_on_cpu(1);
	then = mt_now_ns();
	while (!stop) {
		unsigned long page = (rand_r(&seed) ^ rand_r(&seed) << 15) % PAGES;

		*(volatile size_t *)(area + page * MT_PAGE + 8) = page;
		now = mt_now_ns();
		note_wait(w, now - then);
		then = now;
	}
	return NULL;
}

static void print(const char *how, const struct waits *w)
{
	char line[512];
	int n, len = 0;

	for (n = 0; n < BINS; n++)
		if (w->bin[n])
			len += snprintf(line + len, sizeof(line) - len,
					" %d us: %lu", 1 << n, w->bin[n]);
	mt_note("%s: %lu writes, the longest took %lld us", how, w->writes,
		w->longest_ns / 1000);
	mt_note("so many took so long, to twice that:%s", len ? line : " none");
}

static bool most_moved(void)
{
	return mt_pages_on(area, SIZE, mt_fast_node()) >= MOST;
}

static int measure(int fast, const char *how, struct waits *w)
{
	pthread_t writer;
	bool moved;

	area = mt_place(SIZE, mt_slow_node());
	MT_ASSERT(area, "no memory on the slow node");
	mt_fast();
	mt_set("promote/move_fast", fast);
	mt_snap(&before);
	memset(w, 0, sizeof(*w));
	stop = false;
	pthread_create(&writer, NULL, writing, w);
	mt_on();
	moved = MT_WAIT(most_moved(), MT_MOVE_MS);
	stop = true;
	pthread_join(writer, NULL);
	mt_off();
	print(how, w);
	mt_note("%s: %lld of %lu pages by address space", how,
		mt_since(&before, "mtier_fast_moved"), PAGES);
	MT_ASSERT(moved, "it did not move");
	return MT_PASS;
}

static int stalls(void)
{
	static struct waits by_space, by_folio;

	if (measure(1, "by address space", &by_space) ||
	    measure(0, "by migrate_pages()", &by_folio))
		return MT_FAIL;
	/*
	 * The longest wait is a matter of what else the mover's CPU had to do. Half
	 * a second is somebody who was not woken.
	 */
	MT_ASSERT(by_space.longest_ns < 500000000LL, "too long");
	return MT_PASS;
}

/* TLB shootdowns that a CPU has received */
static long long shootdowns(int cpu)
{
	char text[16384], *at;
	long long n = -1;

	if (mt_read("/proc/interrupts", text, sizeof(text)) < 0)
		return -1;
	at = strstr(text, "TLB:");
	for (at = at ? at + 4 : NULL; at && cpu >= 0; cpu--)
		n = strtoll(at, &at, 10);
	return n;
}

static atomic_bool spins;

/* Never sleeps, and touches nothing that moves. */
static void *spinning(void *arg)
{
	(void)arg;
	mt_run_on_cpu(1);
	spins = true;
	while (!stop)
		;
	return NULL;
}

/* Interrupts of the CPU, those for looks left out: one for each of their flushes */
static int count(int fast, long long *ipis)
{
	struct mt_toucher t;
	pthread_t spinner;
	cpu_set_t cpus;
	bool moved;

	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	area = mt_place(SIZE, mt_slow_node());
	MT_ASSERT(area, "no memory on the slow node");
	mt_fast();
	mt_set("promote/move_fast", fast);
	stop = false;
	spins = false;
	pthread_create(&spinner, NULL, spinning, NULL);
	/* CPUs take turns: all could have moved before it is there. */
	while (!spins)
		mt_nap(1);
	t = (struct mt_toucher) {
		.p = area, .size = SIZE, .step = MT_PAGE, .cpu = 0,
	};
	mt_toucher_run(&t);
	mt_snap(&before);
	*ipis = shootdowns(1);
	mt_on();
	/* A mover on the same CPU would flush it without an interrupt. */
	MT_ASSERT(!sched_setaffinity(mt_kthread("kmtierd"), sizeof(cpus), &cpus),
		  "kmtierd cannot be pinned");
	moved = MT_WAIT(most_moved(), MT_MOVE_MS);
	*ipis = shootdowns(1) - *ipis;
	mt_off();
	mt_note("%lld interrupts; looks flushed %lld times", *ipis,
		mt_since(&before, "mtier_look_flushes"));
	MT_ASSERT(*ipis > 0, "it was not interrupted");
	*ipis -= mt_since(&before, "mtier_look_flushes");
	mt_touch_stop(&t);
	stop = true;
	pthread_join(spinner, NULL);
	MT_ASSERT(moved, "it did not move");
	return MT_PASS;
}

static int interrupts(void)
{
	long long by_space, by_folio;

	if (count(1, &by_space) || count(0, &by_folio))
		return MT_FAIL;
	mt_note("a CPU that never sleeps is interrupted for %lu pages", PAGES);
	mt_note("%lld times or more, by migrate_pages() %lld times", by_space,
		by_folio);
	MT_ASSERT(by_space < (long long)(PAGES / 64), "not once a batch");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("who writes to pages that move does not wait for long",
			 stalls),
		MT_CHECK("who does not sleep is interrupted once a batch",
			 interrupts),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
