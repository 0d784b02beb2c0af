// SPDX-License-Identifier: GPL-2.0
/*
 * Migration: requests about the node of a page are obeyed at the time of the migration,
 * not only at the time of the scan.
 *
 * lab: topology=dram-cxl timeout=400s debug=yes
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "burst_util.h"
#include "mempolicy2_util.h"

/* Many batches */
#define LARGE	(48 * MT_MB)
#define HALF	(128 * MT_PAGE)
#define ROUNDS	12

#define FILES	"/proc/sys/vm/mapped_file_policy"

static struct mt_snap before;

static unsigned long on(int node)
{
	return 1UL << node;
}

static long bind_slow(void *p, size_t size)
{
	return mp_old_bind(p, size, MPOL_BIND, on(mt_slow_node()),
			   MPOL_MF_MOVE | MPOL_MF_STRICT);
}

static long unbind(void *p, size_t size)
{
	return mp_old_bind(p, size, MPOL_DEFAULT, 0, 0);
}

/* Bursts that have enough time for a forbidden migration */
#define LATER	2

/* The rate limit holds pages back, and some pages were promoted. */
static bool throttled(const struct mt_snap *since)
{
	return mt_since(since, "pgpromote_success") > 0 &&
	       mt_reads("state", "throttled");
}

/*
 * The rate limit holds pages back; mbind() binds the memory to its present node; then the
 * limit is lifted.
 */
static int bound_once(char *p)
{
	bool some, bound, later;
	struct mt_snap then;
	long there, late;

	mt_snap(&then);
	some = MT_WAIT(throttled(&then), MT_MOVE_MS);
	/* EIO: some pages are isolated by another task; try again. */
	bound = MT_WAIT(!bind_slow(p, LARGE), 10000);
	there = mt_pages_on(p, LARGE, mt_slow_node());
	mt_set("promote/rate_mbps", 1024);
	later = mt_bursts_pass(LATER);
	late = mt_pages_on(p, LARGE, mt_slow_node());
	mt_set("promote/rate_mbps", 1);
	unbind(p, LARGE);
	mt_note("%ld of %ld pages on the slow node after mbind(), %ld later",
		there, (long)(LARGE / MT_PAGE), late);
	MT_ASSERT(some && later, "nothing was promoted, or no bursts follow");
	MT_ASSERT(bound, "mbind() does not succeed");
	MT_ASSERT(there == (long)(LARGE / MT_PAGE), "mbind() left pages behind");
	MT_ASSERT(late == there, "bound pages were moved");
	return MT_PASS;
}

/* Repeat until a burst has selected pages that were bound before their migration. */
static int bound_meanwhile(void)
{
	char *p = mt_place(LARGE, mt_slow_node());
	struct mt_toucher t;
	int round, ret = MT_PASS;

	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	mt_set("promote/rate_mbps", 1);
	mt_snap(&before);
	mt_on();
	mt_touch_start(&t, p, LARGE);
	for (round = 0; round < ROUNDS && ret == MT_PASS &&
	     !mt_since(&before, "mtier_drop_policy"); round++)
		ret = bound_once(p);
	mt_touch_stop(&t);
	mt_off();
	mt_note_since(&before);
	MT_ASSERT(ret || mt_since(&before, "mtier_drop_policy") > 0,
		  "mtier_drop_policy counts nothing");
	MT_ASSERT(ret || mt_ended_since(&before) ==
			 mt_since(&before, "mtier_taken"),
		  "taken %lld, ended %lld", mt_since(&before, "mtier_taken"),
		  mt_ended_since(&before));
	return ret;
}

/* At full speed mbind() runs between batches, and takes effect exactly. */
static int bound_at_full_speed(void)
{
	char *p = mt_place(LARGE, mt_slow_node());
	int round, early = 0, caught = 0;
	struct mt_toucher t;
	bool later = true;
	long there;

	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	mt_set("promote/rate_mbps", 65536);
	mt_snap(&before);
	mt_on();
	mt_touch_start(&t, p, LARGE);
	for (round = 0; round < ROUNDS && later; round++) {
		struct mt_snap then;

		mt_snap(&then);
		early += !MT_WAIT(mt_since(&then, "pgpromote_success") > 0,
				  MT_MOVE_MS);
		if (!MT_WAIT(!bind_slow(p, LARGE), 10000))
			break;
		there = mt_pages_on(p, LARGE, mt_slow_node());
		caught += there < (long)(LARGE / MT_PAGE);
		later = mt_bursts_pass(LATER);
		caught += !mt_all_on(p, LARGE, mt_slow_node());
		unbind(p, LARGE);
	}
	mt_touch_stop(&t);
	mt_note_since(&before);
	MT_ASSERT(round == ROUNDS, "mbind() does not succeed, or no bursts");
	MT_ASSERT(!early, "in %d of %d rounds nothing was promoted", early,
		  ROUNDS);
	MT_ASSERT(!caught, "%d times bound pages were in DRAM", caught);
	return MT_PASS;
}

/*
 * Bind the first half of a file, through another mapping than the accessed one, whose VMA
 * is not split.
 */
static int half_of(int fd)
{
	char *p, *q;

	p = mt_place_file(fd, 2 * HALF, mt_slow_node(), PROT_READ | PROT_WRITE);
	MT_NEED(p, "no file on the slow node");
	MT_ASSERT(!bind_slow(p, HALF), "mbind");
	q = mmap(NULL, 2 * HALF, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MT_ASSERT(q != MAP_FAILED, "mmap");
	munmap(p, 2 * HALF);
	mt_touch(q, 2 * HALF, false);
	MT_ASSERT(mt_all_on(q, 2 * HALF, mt_slow_node()), "it is not there");
	mt_fast();
	mt_on();
	MT_ASSERT(mt_moves_to(q + HALF, HALF, mt_fast_node(), MT_MOVE_MS),
		  "the free half stayed");
	MT_ASSERT(mt_stays(q, HALF, mt_slow_node()), "the bound half moved");
	munmap(q, 2 * HALF);
	return MT_PASS;
}

static int half_of_tmpfs(void)
{
	return half_of(memfd_create("half", MFD_CLOEXEC));
}

static int half_of_ext4(void)
{
	const char *dir = mt_ext4();
	char path[160];
	int fd, ret;

	MT_NEED(dir, "no ext4");
	MT_NEED(!mt_write(FILES, "1"), "no CONFIG_MAPPED_FILE_POLICY");
	snprintf(path, sizeof(path), "%s/half", dir);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	unlink(path);
	ret = half_of(fd);
	close(fd);
	mt_write(FILES, "0");
	return ret;
}

/*
 * More address spaces than are flushed at once (32) map the same memory; one is bound.
 * Their other memory is many times larger.
 */
#define MANY	40

static void maps_it(void *p)
{
	mt_touch(p, HALF, false);
	for (;;)
		pause();
}

static void maps_it_bound(void *p)
{
	/* A policy of this mapping only: the memory itself has no policy. */
	mt_set_policy(MPOL_BIND, on(mt_slow_node()));
	maps_it(p);
}

/* All mappers are checked, in addition to the representative VMA. */
static int one_of_many(void)
{
	void *p = mmap(NULL, HALF, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid[MANY];
	int i, ret;

	MT_ASSERT(p != MAP_FAILED, "mmap");
	mt_bind_to(mt_slow_node());
	mt_touch(p, HALF, true);
	mt_bind_default();
	MT_ASSERT(mt_all_on(p, HALF, mt_slow_node()), "it is not there");
	for (i = 0; i < MANY; i++)
		pid[i] = mt_spawn(i == MANY / 2 ? maps_it_bound : maps_it, p);
	mt_fast();
	mt_on();
	ret = mt_stays(p, HALF, mt_slow_node());
	mt_kill(pid[MANY / 2]);
	MT_ASSERT(ret, "it moved although one of them is bound");
	/* All of it is scanned again. */
	mt_off();
	mt_on();
	ret = mt_moves_to(p, HALF, mt_fast_node(), 2 * MT_MOVE_MS);
	for (i = 0; i < MANY; i++)
		if (i != MANY / 2)
			mt_kill(pid[i]);
	MT_ASSERT(ret, "it stayed when that one was gone");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("T8 what is bound while it waits stays",
			 bound_meanwhile),
		MT_CHECK("T8 mbind() is exact at full speed",
			 bound_at_full_speed),
		MT_CHECK("T8 half of a tmpfs file is bound by another mapping",
			 half_of_tmpfs),
		MT_CHECK("T8 half of an ext4 file is bound by another mapping",
			 half_of_ext4),
		MT_CHECK("T8 one of many that share memory is bound",
			 one_of_many),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
