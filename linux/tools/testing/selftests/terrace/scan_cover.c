// SPDX-License-Identifier: GPL-2.0
/*
 * Scan: all of an address space is walked, however small the pieces.
 *
 * lab: topology=dram-cxl icount=2 timeout=120s debug=no
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mtier_util.h"

#define SIZE	(64 * MT_MB)

/*
 * 64 MiB at 8 MiB a visit and a visit every 200 ms: 8 visits see it all.  Half
 * as much again is allowed, for two visits of what else is mapped and for moving
 * the last that was found, but not for going round twice; a scanner that forgets
 * where it was never gets there.
 */
#define VISIT_MS	200
#define PROMISED_MS	(SIZE / (8 * MT_MB) * VISIT_MS)

static int in_time(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	long long start;
	bool moved;

	MT_ASSERT(p, "no memory on the slow node");
	mt_set("scan/delay_ms", 0);
	mt_set3("period", "ms", VISIT_MS, VISIT_MS, VISIT_MS);
	mt_set3("size", "mb", 8, 8, 8);
	mt_set("scan/cpu_percent", 100);
	mt_settle();
	mt_on();
	start = mt_now_ms();
	moved = mt_moves_to(p, SIZE, mt_fast_node(), PROMISED_MS * 3 / 2);
	mt_note("%lld ms, promised were %lu", mt_now_ms() - start, PROMISED_MS);
	MT_ASSERT(moved, "not all was found in time");
	return MT_PASS;
}

static struct mt_trace trace;

/* A visit starts where the one before it ended, or at 0 after the end. */
static int resumes(void)
{
	long long next = -1, starts = 0, wrong = 0;
	char line[512];
	char *p = mt_place(SIZE, mt_slow_node());

	MT_ASSERT(p, "no memory on the slow node");
	mt_set("hot/room_percent", 100);
	mt_set("hot/accesses", 15);
	mt_set("scan/delay_ms", 0);
	mt_set3("period", "ms", 50, 50, 50);
	mt_set3("size", "mb", 4, 4, 4);
	mt_on();
	MT_ASSERT(!mt_trace_open(&trace, NULL), "no trace events");
	(void)MT_WAIT(({
		while (mt_trace_line(&trace, line, sizeof(line))) {
			if (mt_field(line, "pid") != getpid())
				continue;
			if (strstr(line, "mtier_scan_end:")) {
				next = mt_field(line, "address");
			} else if (strstr(line, "mtier_scan_start:") &&
				   next >= 0) {
				starts++;
				wrong += mt_field(line, "address") != next;
			}
		}
		starts >= 40;
	}), 10000);
	mt_trace_close(&trace);
	MT_ASSERT(starts >= 20, "only %lld visits", starts);
	MT_ASSERT(!wrong, "%lld of %lld visits started elsewhere", wrong,
		  starts);
	return MT_PASS;
}

static volatile bool stop;

/* Somebody who wants mmap_lock for writing all the time. */
static void *mapper(void *arg)
{
	(void)arg;
	while (!stop) {
		void *p = mmap(NULL, MT_PAGE, PROT_READ, MAP_PRIVATE |
			       MAP_ANONYMOUS, -1, 0);

		munmap(p, MT_PAGE);
	}
	return NULL;
}

static int contended(void)
{
	char *p = mt_place(SIZE / 2, mt_slow_node());
	pthread_t thread;
	bool moved;

	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	mt_set("scan/slice_us", 50);
	mt_set("scan/cpu_percent", 100);
	mt_on();
	pthread_create(&thread, NULL, mapper, NULL);
	moved = mt_moves_to(p, SIZE / 2, mt_fast_node(), 40000);
	stop = true;
	pthread_join(thread, NULL);
	MT_ASSERT(moved, "pages were missed");
	return MT_PASS;
}

static int shortest_slice(void)
{
	char *p = mt_place(SIZE, mt_slow_node());

	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	mt_set("scan/slice_us", 50);
	mt_on();
	MT_ASSERT(mt_moves_to(p, SIZE, mt_fast_node(), 40000),
		  "pages were missed");
	return MT_PASS;
}

/* One page in each of many page tables, spread over terabytes. */
static int sparse(void)
{
	enum { N = 512 };
	size_t gap = 4UL << 30, i;
	char *p = mmap(NULL, N * gap, PROT_READ | PROT_WRITE, MAP_PRIVATE |
		       MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct mt_toucher t;
	long on = 0;

	MT_NEED(p != MAP_FAILED, "no address space of %zu GiB", N * gap >> 30);
	mt_bind_to(mt_slow_node());
	for (i = 0; i < N; i++)
		p[i * gap] = 1;
	mt_bind_default();
	mt_fast();
	mt_on();
	t = (struct mt_toucher) {
		.p = p, .size = N * gap, .step = gap, .rest_ms = 5, .cpu = -1,
	};
	mt_toucher_run(&t);
	(void)MT_WAIT(({
		for (on = i = 0; i < N; i++)
			on += mt_pages_on(p + i * gap, MT_PAGE, mt_fast_node());
		on == N;
	}), 10000);
	mt_touch_stop(&t);
	MT_ASSERT(on == N, "%ld of %d pages were found", on, N);
	return MT_PASS;
}

/* The highest and the lowest address that a process can have. */
static int ends(void)
{
	char *low = mmap((void *)0x10000, MT_PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
			 0);
	char *high = mmap((void *)0x7fffffffe000, MT_PAGE, PROT_READ |
			  PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS |
			  MAP_FIXED_NOREPLACE, -1, 0);

	MT_NEED(low != MAP_FAILED && high != MAP_FAILED, "cannot map there");
	mt_bind_to(mt_slow_node());
	*low = *high = 1;
	mt_bind_default();
	mt_fast();
	mt_on();
	MT_ASSERT(mt_moves_to(low, MT_PAGE, mt_fast_node(), 5000),
		  "the lowest page was missed");
	MT_ASSERT(mt_moves_to(high, MT_PAGE, mt_fast_node(), 5000),
		  "the highest page was missed");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("A3 all of the memory is found in the time that size and period promise",
			 in_time),
		MT_CHECK("A9 a visit starts where the last one ended", resumes),
		MT_CHECK("A9 nothing is missed though mmap_lock is contended",
			 contended),
		MT_CHECK("A9 nothing is missed in the shortest slices",
			 shortest_slice),
		MT_CHECK("A3 single pages in 2 TiB of address space are found",
			 sparse),
		MT_CHECK("A3 so are the lowest and the highest page", ends),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
