// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that hundreds of processes map, and one of them uses, are promoted. A reader that
 * maps a file thousands of times does not keep its pages on the slow node.
 *
 * Time counts instructions.
 *
 * lab: topology=dram-cxl icount=2 timeout=600s debug=no
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "burst_util.h"

#define POOL		(64 * MT_MB)
#define SMALL		(8 * MT_MB)
#define PAGES(size)	((long)((size) / MT_PAGE))
#define READER_MAPS	3000

/**
 * struct pool - shared memory
 * @fd: its file
 * @size: bytes
 * @maps: number of mappings that each process makes
 * @how: flags for mmap()
 * @ready: number of processes that have mapped all of it
 */
struct pool {
	int fd;
	size_t size;
	int maps;
	int how;
	volatile int *ready;
};

static void map_and_wait(void *arg)
{
	struct pool *pool = arg;
	int i;

	for (i = 0; i < pool->maps; i++) {
		char *p = mmap(NULL, pool->size, PROT_READ, pool->how, pool->fd, 0);

		if (p == MAP_FAILED)
			_exit(1);
		/* One mapping of many has pages. */
		if (!i)
			mt_touch(p, pool->size, false);
	}
	__atomic_fetch_add(pool->ready, 1, __ATOMIC_SEQ_CST);
	for (;;)
		pause();
}

/* Memory that @nr processes map, and this one uses, comes up in @limit_ms. */
static int comes_up(int nr, struct pool *pool, unsigned int limit_ms)
{
	pid_t *pids = calloc(nr, sizeof(*pids));
	struct mt_snap before;
	struct mt_toucher t;
	long long start;
	char *p;
	bool up;
	int i;

	pool->fd = memfd_create("pool", MFD_CLOEXEC);
	pool->ready = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MT_ASSERT(pids && pool->fd >= 0 && pool->ready != MAP_FAILED, "no memory");
	p = mt_place_file(pool->fd, pool->size, mt_slow_node(), PROT_READ | PROT_WRITE);
	MT_ASSERT(p, "no memory on the slow node");
	for (i = 0; i < nr; i++)
		pids[i] = mt_spawn(map_and_wait, pool);
	MT_ASSERT(MT_WAIT(*pool->ready == nr, 120000), "%d of %d processes are ready",
		  *pool->ready, nr);
	MT_ASSERT(mt_all_on(p, pool->size, mt_slow_node()), "it is not on the slow node");
	mt_set("scan/delay_ms", 0);
	mt_touch_start(&t, p, pool->size);
	mt_snap(&before);
	start = mt_now_ms();
	mt_on();
	up = MT_WAIT(mt_pages_on(p, pool->size, mt_fast_node()) > PAGES(pool->size) * 9 / 10,
		     limit_ms);
	mt_note("%d processes: %ld of %ld pages are fast after %lld ms", nr,
		mt_pages_on(p, pool->size, mt_fast_node()), PAGES(pool->size),
		mt_now_ms() - start);
	mt_note("%lld bursts, %lld ms of CPU time, scans %lld ms, migrations %lld ms",
		mt_burst_value("bursts"), mt_cpu_us(mt_kthread("kmtierd")) / 1000,
		mt_burst_value("all_spent_ns") / 1000000, mt_burst_value("all_moved_ns") / 1000000);
	mt_touch_stop(&t);
	mt_off();
	if (!up)
		mt_note_since(&before);
	for (i = 0; i < nr; i++)
		mt_kill(pids[i]);
	munmap(p, pool->size);
	close(pool->fd);
	MT_ASSERT(up, "it stayed");
	return MT_PASS;
}

/* The limits are what stock NUMA balancing needs. */
static int by_200(void)
{
	struct pool pool = { .size = POOL, .maps = 1, .how = MAP_SHARED };

	return comes_up(200, &pool, 24800);
}

static int by_300(void)
{
	struct pool pool = { .size = POOL, .maps = 1, .how = MAP_SHARED };

	return comes_up(300, &pool, 35500);
}

/* More than are scanned. */
static int by_1500(void)
{
	struct pool pool = { .size = SMALL, .maps = 1, .how = MAP_SHARED };

	return comes_up(1500, &pool, 60000);
}

static int by_a_reader_with_many_mappings(void)
{
	struct pool pool = { .size = SMALL, .maps = READER_MAPS, .how = MAP_PRIVATE };

	return comes_up(1, &pool, 20000);
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("64 MiB that 200 processes map", by_200),
		MT_CHECK("64 MiB that 300 processes map", by_300),
		MT_CHECK("8 MiB that 1,500 processes map", by_1500),
		MT_CHECK("8 MiB that a reader maps 3,000 times", by_a_reader_with_many_mappings),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
