// SPDX-License-Identifier: GPL-2.0
/*
 * Races: dozens of processes map the same file, and change their mappings while its pages
 * migrate and idle mappings of them are removed. Each process writes its own word of each
 * page, and finds it again.
 *
 * lab: topology=dram-cxl timeout=600s debug=yes
 */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mtier_util.h"

#define SIZE		(8 * MT_MB)
#define PAGES		((long)(SIZE / MT_PAGE))
#define IDLERS		24
#define WORKERS		3
#define RACE_MS		4000
#define ENOUGH		(PAGES / 4)
#define LIMIT_MS	120000
#define PRESENT		(1ULL << 63)

/**
 * struct pool - what all processes share
 * @fd: the file
 * @idle: number of idle processes that have mapped it
 * @gone: pages that the first idle process no longer has mapped at the end
 * @stop: the end
 */
struct pool {
	int fd;
	volatile int idle;
	volatile long gone;
	volatile bool stop;
};

static struct pool *pool;

static char *map_pool(void)
{
	char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, pool->fd, 0);

	if (p == MAP_FAILED)
		_exit(10);
	return p;
}

/* Map all pages, and wait. The first one counts the pages that it lost. */
static void idle(void *arg)
{
	char *p = map_pool();
	long i;

	mt_touch(p, SIZE, false);
	__atomic_add_fetch(&pool->idle, 1, __ATOMIC_SEQ_CST);
	while (!pool->stop)
		mt_nap(100);
	if (arg)
		_exit(0);
	for (i = 0; i < PAGES; i++)
		pool->gone += !(mt_pagemap(p + i * MT_PAGE) & PRESENT);
	_exit(0);
}

/* Write the word of this process in each page, and check what it wrote before. */
static void write_all(char *p, int me, unsigned int round)
{
	long i;

	for (i = 0; i < PAGES; i++) {
		volatile unsigned int *word = (unsigned int *)(p + i * MT_PAGE) + me;

		if (*word != round)
			_exit(11);
		*word = round + 1;
	}
}

/* Change the mapping between two rounds. */
static char *change(char *p, unsigned int how)
{
	pid_t pid;

	switch (how % 6) {
	case 0:
		munmap(p, SIZE);
		return map_pool();
	case 1:
		mprotect(p, SIZE, PROT_READ);
		mprotect(p, SIZE, PROT_READ | PROT_WRITE);
		break;
	case 2:
		mlock(p, SIZE / 2);
		munlock(p, SIZE / 2);
		break;
	case 3:
		madvise(p, SIZE, MADV_DONTNEED);
		break;
	case 4:
		pid = fork();
		if (!pid)
			_exit(0);
		mt_reap(pid);
		break;
	default:
		p = mremap(p, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED,
			   mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		if (p == MAP_FAILED)
			_exit(12);
	}
	return p;
}

static void work(void *arg)
{
	int me = (long)arg;
	unsigned int round = 0;
	char *p = map_pool();

	while (!pool->stop) {
		write_all(p, me, round++);
		p = change(p, round + me);
		/* Rest, so that page tables look idle, and VMAs are not always locked. */
		mt_nap(round % 8 ? 40 : 150);
	}
	_exit(0);
}

/* Private copies stay what they are. */
static void copy(void *arg)
{
	char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, pool->fd, 0);
	long i;

	(void)arg;
	for (i = 0; i < PAGES; i += 2)
		*(long *)(p + i * MT_PAGE) = ~i;
	while (!pool->stop) {
		mt_nap(50);
		for (i = 0; i < PAGES; i += 2)
			if (*(long *)(p + i * MT_PAGE) != ~i)
				_exit(13);
	}
	_exit(0);
}

/* Send all pages to the slow node again. */
static void send_back(char *p)
{
	static void *pages[SIZE / MT_PAGE];
	static int nodes[SIZE / MT_PAGE], status[SIZE / MT_PAGE];
	long i;

	for (i = 0; i < PAGES; i++) {
		pages[i] = p + i * MT_PAGE;
		nodes[i] = mt_slow_node();
	}
	syscall(SYS_move_pages, 0, PAGES, pages, nodes, status, MPOL_MF_MOVE_ALL);
}

static long long up(const struct mt_race *r)
{
	return mt_since(&r->before, "mtier_promoted_shmem");
}

static int mappers_change(void)
{
	pid_t pid[IDLERS + WORKERS + 1];
	struct mt_race r;
	int i, bad = 0;
	char *p;

	pool = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MT_ASSERT(pool != MAP_FAILED, "no memory");
	pool->fd = memfd_create("pool", MFD_CLOEXEC);
	p = map_pool();
	MT_ASSERT(!ftruncate(pool->fd, SIZE), "no file");
	mt_bind_to(mt_slow_node());
	for (i = 0; i < PAGES; i++)
		*(volatile long *)(p + i * MT_PAGE) = 0;
	mt_bind_default();
	for (i = 0; i < IDLERS; i++)
		pid[i] = mt_spawn(idle, (void *)(long)i);
	MT_ASSERT(MT_WAIT(pool->idle == IDLERS, 60000), "%d are ready", pool->idle);
	for (i = 0; i < WORKERS; i++)
		pid[IDLERS + i] = mt_spawn(work, (void *)(long)(4 + i));
	pid[IDLERS + WORKERS] = mt_spawn(copy, NULL);
	mt_race_begin(&r);
	while (mt_race_goes_on(&r, RACE_MS) ||
	       (up(&r) < ENOUGH && mt_now_ms() - r.start_ms < LIMIT_MS)) {
		mt_race_again();
		mt_nap(20);
		if (mt_pages_on(p, SIZE, mt_fast_node()) > PAGES / 2)
			send_back(p);
	}
	pool->stop = true;
	for (i = 0; i < IDLERS + WORKERS + 1; i++)
		bad |= mt_reap(pid[i]);
	mt_note("%lld pages promoted; an idle process lost %ld of %ld mappings", up(&r),
		pool->gone, PAGES);
	close(pool->fd);
	MT_ASSERT(!bad, "a process ended with %d", bad);
	MT_ASSERT(up(&r) >= ENOUGH, "too few pages for a race");
	MT_ASSERT(pool->gone > PAGES / 16, "no idle mappings were removed");
	return mt_race_end(&r);
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("race: dozens of mappers change their mappings", mappers_change),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
