// SPDX-License-Identifier: GPL-2.0
/*
 * Races: an application changes its address space while it is scanned and its pages
 * migrate. Contents survive, the counters add up, and (checked by the lab) the kernel
 * reports nothing.
 *
 * lab: topology=dram-cxl timeout=600s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mtier_util.h"

#define SIZE	(4 * MT_MB)
#define RACE_MS	2500

/* Run @fn in a few processes repeatedly for a time. */
static int race(void (*fn)(void *), int workers)
{
	struct mt_race r;
	pid_t pid[8];
	int i, bad = 0, rounds = 0;

	mt_race_begin(&r);
	while (!bad && mt_race_goes_on(&r, RACE_MS)) {
		for (i = 0; i < workers; i++)
			pid[i] = mt_spawn(fn, (void *)(long)(rounds + i));
		mt_race_again();
		for (i = 0; i < workers; i++)
			bad |= mt_reap(pid[i]);
		rounds++;
	}
	mt_note("%d rounds, %lld pages promoted", rounds,
		mt_since(&r.before, "pgpromote_success"));
	MT_ASSERT(!bad, "a process ended with %d", bad);
	return mt_race_end(&r);
}

static int content_ok(const char *p, size_t from, size_t size)
{
	size_t off;

	for (off = 0; off < size; off += MT_PAGE)
		if (*(const size_t *)(p + off) != from + off + 1)
			return 0;
	return 1;
}

static char *slow_memory(size_t size)
{
	char *p = mt_map_aligned(size);
	size_t off;

	madvise(p, size, MADV_NOHUGEPAGE);
	mt_bind_to(mt_slow_node());
	for (off = 0; off < size; off += MT_PAGE)
		*(size_t *)(p + off) = off + 1;
	mt_bind_default();
	return p;
}

/* Use memory for a time, then check it. */
static void use(char *p, size_t size, unsigned int ms)
{
	long long until = mt_now_ms() + ms;

	do
		mt_touch(p, size, false);
	while (mt_now_ms() < until);
	if (!content_ok(p, 0, size))
		_exit(2);
}

/*
 * Short and longer lives: on any host some end before, some after a migration. They get
 * longer with each round without one.
 */
static long life_ms(void *arg)
{
	long n = (long)arg % 12, times = 1 + (long)arg / 24;

	return 10 + n * n * 4 * times;
}

static void exiting(void *arg)
{
	use(slow_memory(SIZE), SIZE, life_ms(arg));
}

static void unmapping(void *arg)
{
	char *p = slow_memory(SIZE);
	size_t off;

	use(p, SIZE, life_ms(arg));
	for (off = 0; off < SIZE; off += 64 * MT_PAGE) {
		munmap(p + off, 64 * MT_PAGE);
		if (off + 64 * MT_PAGE < SIZE &&
		    !content_ok(p + off + 64 * MT_PAGE, off + 64 * MT_PAGE,
				64 * MT_PAGE))
			_exit(3);
	}
}

static void remapping(void *arg)
{
	char *p = slow_memory(SIZE), *to;
	int i;

	for (i = 0; i < 10; i++) {
		use(p, SIZE, life_ms(arg) / 4);
		to = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
		p = mremap(p, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
		if (p == MAP_FAILED)
			_exit(4);
	}
	use(p, SIZE, 0);
}

static void forking(void *arg)
{
	char *p = slow_memory(SIZE);
	int i;

	use(p, SIZE, life_ms(arg) / 2);
	for (i = 0; i < 4; i++) {
		pid_t pid = fork();

		if (!pid) {
			use(p, SIZE, 10);
			p[64] = 1;
			use(p, SIZE, 20);
			_exit(0);
		}
		use(p, SIZE, life_ms(arg) / 4);
		if (mt_reap(pid))
			_exit(5);
	}
}

static void execing(void *arg)
{
	char *p = slow_memory(SIZE);

	use(p, SIZE, life_ms(arg));
	setenv("MTIER_EXIT", "1", 1);
	execl("/proc/self/exe", "race_memory", NULL);
	_exit(6);
}

/* Some leave their memory alone long enough to have all of it scanned. */
static void protecting(void *arg)
{
	char *p = slow_memory(SIZE);
	bool often = (long)arg & 1;
	int i;

	for (i = 0; i < (often ? 30 : 4); i++) {
		mprotect(p + SIZE / 4, SIZE / 2, i & 1 ? PROT_READ : PROT_READ |
			 PROT_WRITE);
		use(p, SIZE, life_ms(arg) / (often ? 30 : 1));
	}
	use(p, SIZE, 0);
}

static void dropping(void *arg)
{
	char *p = slow_memory(SIZE);
	int i;

	for (i = 0; i < 10; i++) {
		size_t off = i % 4 * (SIZE / 4), at;

		use(p, SIZE, life_ms(arg) / 10);
		madvise(p + off, SIZE / 4, i & 1 ? MADV_DONTNEED : MADV_FREE);
		mt_bind_to(mt_slow_node());
		for (at = off; at < off + SIZE / 4; at += MT_PAGE)
			*(size_t *)(p + at) = at + 1;
		mt_bind_default();
	}
	use(p, SIZE, 10);
}

/*
 * Every other one lives this long after it has its memory, which on a slow host takes
 * longer than all lives; the others may be killed before.
 */
static void killed(void *arg)
{
	volatile bool *ready = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid = fork();

	if (!pid) {
		char *p = slow_memory(SIZE);

		*ready = true;
		for (;;)
			mt_touch(p, SIZE, true);
	}
	while ((long)arg % 2 && !*ready)
		mt_nap(1);
	mt_nap(life_ms(arg));
	mt_kill(pid);
}

static void *exec_under(void *p)
{
	for (;;)
		mt_touch(p, SIZE, true);
	return NULL;
}

/* One thread execs while others use the memory. */
static void threads_exec(void *arg)
{
	char *p = slow_memory(SIZE);
	pthread_t t[3];
	int i;

	for (i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, exec_under, p);
	mt_nap(life_ms(arg));
	setenv("MTIER_EXIT", "1", 1);
	execl("/proc/self/exe", "race_memory", NULL);
	_exit(7);
}

/* Huge pages split, collapse and migrate at the same time. */
static void splitting(void *arg)
{
	char *p = mt_map_aligned(2 * MT_HUGE);
	size_t off;
	int i;

	madvise(p, 2 * MT_HUGE, MADV_HUGEPAGE);
	mt_bind_to(mt_slow_node());
	for (off = 0; off < 2 * MT_HUGE; off += MT_PAGE)
		*(size_t *)(p + off) = off + 1;
	mt_bind_default();
	for (i = 0; i < 6; i++) {
		use(p, 2 * MT_HUGE, life_ms(arg) / 6);
		switch (i % 3) {
		case 0:	/* split the mapping */
			mprotect(p + MT_HUGE / 2, MT_PAGE, PROT_READ);
			break;
		case 1:	/* split the folio: reclaim a part of it */
			madvise(p, MT_PAGE, MADV_PAGEOUT);
			break;
		case 2:	/* and make it huge again */
			mprotect(p, 2 * MT_HUGE, PROT_READ | PROT_WRITE);
			madvise(p, 2 * MT_HUGE, 25 /* MADV_COLLAPSE */);
			break;
		}
	}
	use(p, 2 * MT_HUGE, 0);
}

static int exits(void)
{
	return race(exiting, 4);
}

static int unmaps(void)
{
	return race(unmapping, 3);
}

static int remaps(void)
{
	return race(remapping, 3);
}

static int forks(void)
{
	return race(forking, 3);
}

static int execs(void)
{
	return race(execing, 4);
}

static int protects(void)
{
	return race(protecting, 3);
}

static int drops(void)
{
	return race(dropping, 3);
}

static int kills(void)
{
	return race(killed, 3);
}

static int threaded_execs(void)
{
	return race(threads_exec, 2);
}

static int splits(void)
{
	return race(splitting, 3);
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("race: exit", exits),
		MT_CHECK("race: exec", execs),
		MT_CHECK("race: exec of one thread of several", threaded_execs),
		MT_CHECK("race: kill", kills),
		MT_CHECK("race: munmap", unmaps),
		MT_CHECK("race: mremap", remaps),
		MT_CHECK("race: fork and copy on write", forks),
		MT_CHECK("race: mprotect", protects),
		MT_CHECK("race: MADV_DONTNEED and MADV_FREE", drops),
		MT_CHECK("race: huge pages split and collapse", splits),
	};

	if (getenv("MTIER_EXIT"))
		return 0;
	return mt_main(checks, ARRAY_LEN(checks));
}
