// SPDX-License-Identifier: GPL-2.0
/*
 * Bursts: all of an address space is found, however small the pieces, wherever they
 * are, and whatever else goes on in it.
 *
 * lab: topology=dram-cxl icount=2 timeout=300s debug=no
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

#include "burst_util.h"

#define SIZE	(32 * MT_MB)
#define PAGES	((long)(SIZE / MT_PAGE))

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
	char *p = mt_place(SIZE, mt_slow_node());
	struct mt_toucher t;
	pthread_t thread;
	bool moved;

	MT_ASSERT(p, "no memory on the slow node");
	MT_ASSERT(!pthread_create(&thread, NULL, mapper, NULL), "no thread");
	mt_touch_start(&t, p, SIZE);
	mt_set("scan/delay_ms", 0);
	mt_on();
	/* The last of them are found by the bursts of a machine at rest. */
	moved = MT_WAIT(mt_pages_on(p, SIZE, mt_fast_node()) > PAGES * 9 / 10,
			180000);
	mt_touch_stop(&t);
	stop = true;
	pthread_join(thread, NULL);
	mt_off();
	mt_note_where("used", p, SIZE);
	MT_ASSERT(moved, "it was not found");
	return MT_PASS;
}

/* One page in each of many page tables, spread over terabytes. */
static int sparse(void)
{
	enum { N = 64 };
	size_t gap = 32UL << 30, i;
	char *p = mmap(NULL, N * gap, PROT_READ | PROT_WRITE, MAP_PRIVATE |
		       MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct mt_toucher t;
	long on = 0;

	MT_NEED(p != MAP_FAILED, "no address space of %zu GiB", N * gap >> 30);
	/* Not huge: one page each. */
	madvise(p, N * gap, MADV_NOHUGEPAGE);
	mt_bind_to(mt_slow_node());
	for (i = 0; i < N; i++)
		p[i * gap] = 1;
	mt_bind_default();
	t = (struct mt_toucher) {
		.p = p, .size = N * gap, .step = gap, .rest_ms = 1, .cpu = -1,
	};
	mt_toucher_run(&t);
	mt_set("scan/delay_ms", 0);
	mt_on();
	(void)MT_WAIT(({
		for (on = i = 0; i < N; i++)
			on += mt_pages_on(p + i * gap, MT_PAGE, mt_fast_node());
		on >= N * 9 / 10;
	}), 180000);
	mt_touch_stop(&t);
	mt_off();
	MT_ASSERT(on >= N * 9 / 10, "%ld of %d pages were found", on, N);
	return MT_PASS;
}

static char *map_page(unsigned long at)
{
	return mmap((void *)at, MT_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE |
		    MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
}

/* The highest and the lowest address that a process can have. */
static int ends(void)
{
	char *low = map_page(0x10000), *high = map_page(0x7fffffffe000);
	struct mt_toucher tl, th;
	bool moved;

	MT_NEED(low != MAP_FAILED && high != MAP_FAILED, "cannot map there");
	mt_bind_to(mt_slow_node());
	*low = *high = 1;
	mt_bind_default();
	mt_set("scan/delay_ms", 0);
	mt_touch_start(&tl, low, MT_PAGE);
	mt_touch_start(&th, high, MT_PAGE);
	mt_on();
	moved = MT_WAIT(mt_all_on(low, MT_PAGE, mt_fast_node()) &&
			mt_all_on(high, MT_PAGE, mt_fast_node()), 180000);
	mt_touch_stop(&tl);
	mt_touch_stop(&th);
	mt_off();
	mt_note_where("lowest", low, MT_PAGE);
	mt_note_where("highest", high, MT_PAGE);
	MT_ASSERT(moved, "one of them was missed");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("A9 memory is found though mmap_lock is contended",
			 contended),
		MT_CHECK("A3 single pages in 2 TiB of address space are found",
			 sparse),
		MT_CHECK("A3 so are the lowest and the highest page", ends),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
