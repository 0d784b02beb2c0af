// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that move by address space (promote/move_fast): more pages than any
 * constant of the code, pages of many cgroups, and the switch turned on and off
 * during the moves.
 *
 * lab: topology=dram-cxl timeout=500s debug=yes
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mtier_util.h"

/* Of each of two processes, in many batches */
#define LARGE	(40 * MT_MB)
/* LARGE and SMALL are multiples of it. */
#define PART	(16 * MT_PAGE)
/* More cgroups than a move counts apart */
#define CGROUPS	20
#define SMALL	MT_MB

static struct mt_snap before;

/* One process starts bursts.  If every process did, bursts would use all CPU time. */
static void hurries(void *arg)
{
	(void)arg;
	for (;;) {
		mt_hurry();
		mt_nap(100);
	}
}

static void use(char *p, size_t size)
{
	int i;

	for (i = 0; i < 16; i++)
		mt_touch(p, size, true);
}

/* Look at one part at a time: is all memory before @at, and from there on, fast? */
static bool all_fast(const char *p, size_t size, size_t *at)
{
	while (*at < size && mt_all_on(p + *at, PART, mt_fast_node()))
		*at += PART;
	return *at == size;
}

/*
 * Use memory until all of it is on the fast node.  On the debug kernel, move_pages() takes
 * much longer than the use, and memory that is used seldom does not move.  So all_fast()
 * does not look again at the parts that it has seen there.
 */
static bool used_until_fast(char *p, size_t size, unsigned int ms)
{
	size_t at = 0;

	mt_settle();
	return MT_WAIT(({ use(p, size); all_fast(p, size, &at); }), ms) &&
	       mt_all_on(p, size, mt_fast_node());
}

/* A process that fills memory and exits with 0 if all of it was promoted unchanged. */
static void large_one(void *arg)
{
	char *p = mt_fill(LARGE, mt_slow_node(), false);
	size_t off;

	(void)arg;
	if (!p || !used_until_fast(p, LARGE, 4 * MT_MOVE_MS))
		_exit(2);
	for (off = 0; off < LARGE; off += MT_PAGE)
		if (*(size_t *)(p + off) != off + 1)
			_exit(3);
}

static int two_large_ones(bool turn)
{
	long long pages = 2 * LARGE / MT_PAGE;
	pid_t pid[2], asks;
	int i, bad = 0;

	mt_fast();
	mt_snap(&before);
	mt_on();
	asks = mt_spawn(hurries, NULL);
	for (i = 0; i < 2; i++)
		pid[i] = mt_spawn(large_one, NULL);
	while (turn && mt_since(&before, "pgpromote_success") < pages / 2)
		mt_set("promote/move_fast", ++i & 1);
	for (i = 0; i < 2; i++)
		bad |= mt_reap(pid[i]);
	mt_kill(asks);
	mt_note("of %lld pages %lld by address space", pages,
		mt_since(&before, "mtier_fast_moved"));
	if (bad)
		mt_note_since(&before);
	MT_ASSERT(!bad, "a process ended with %d", bad);
	mt_off();
	MT_ASSERT(mt_since(&before, "mtier_promoted_anon") ==
		  mt_since(&before, "pgpromote_success"), "kinds do not sum up");
	MT_ASSERT(mt_ended_since(&before) == mt_since(&before, "mtier_taken"),
		  "of %lld pages that were taken %lld ended",
		  mt_since(&before, "mtier_taken"), mt_ended_since(&before));
	return MT_PASS;
}

static int all_of_a_large_one(void)
{
	long long pages = 2 * LARGE / MT_PAGE;

	if (two_large_ones(false))
		return MT_FAIL;
	/* Some pages of 20,480 are in per-CPU batches of LRU lists; these pages cannot move. */
	MT_ASSERT(mt_since(&before, "mtier_fast_moved") > pages * 9 / 10,
		  "not most of them");
	return MT_PASS;
}

static int switched_meanwhile(void)
{
	return two_large_ones(true);
}

/* ---- cgroups ---- */

struct member {
	struct mt_cgroup cg;
	int ready[2], go[2];
	pid_t pid;
};

static void member_lives(void *arg)
{
	struct member *m = arg;
	char *p, byte = 0;

	if (mt_cgroup_enter(&m->cg, 0))
		_exit(2);
	p = mt_fill(SMALL, mt_slow_node(), false);
	if (!p || write(m->ready[1], &byte, 1) != 1)
		_exit(3);
	if (!used_until_fast(p, SMALL, 4 * MT_MOVE_MS))
		_exit(4);
	if (mt_filled(p, SMALL) || write(m->ready[1], &byte, 1) != 1 ||
	    read(m->go[0], &byte, 1) != 1)
		_exit(5);
}

/* Anonymous memory on a cgroup's LRU lists of a node, in bytes */
static long long listed(const struct member *m, int node)
{
	char line[256], path[160], sign[16];
	long long bytes = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/memory.numa_stat", m->cg.dir);
	snprintf(sign, sizeof(sign), " N%d=", node);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		/* Of inactive_anon that is a part. */
		char *at = strstr(line, "active_anon") ? strstr(line, sign) :
							 NULL;

		bytes += at ? strtoll(at + strlen(sign), NULL, 10) : 0;
	}
	if (f)
		fclose(f);
	return bytes;
}

/*
 * F12: a page is counted where it was, until it is counted where it is. Some are in
 * per-CPU batches, which no list counts.
 */
static bool lists_are_right(const struct member *m)
{
	return listed(m, mt_fast_node()) > (long long)SMALL / 2 &&
	       listed(m, mt_slow_node()) < (long long)SMALL / 8;
}

static long long promoted(const struct member *m)
{
	return mt_cgroup_stat(&m->cg, "memory.stat", "pgpromote_success");
}

static int each_is_counted(struct member *m, int n)
{
	long long sum = 0;
	int i;

	for (i = 0; i < n; i++) {
		long long up = 0;

		/* The kernel sums up every two seconds. */
		MT_ASSERT(MT_WAIT((up = promoted(&m[i])) >=
				  (long long)(SMALL / MT_PAGE), 10000),
			  "cgroup %d: %lld of %lu pages", i, up,
			  SMALL / MT_PAGE);
		sum += up;
		MT_ASSERT(MT_WAIT(lists_are_right(&m[i]), 10000),
			  "cgroup %d: lists of %lld bytes above, %lld below", i,
			  listed(&m[i], mt_fast_node()),
			  listed(&m[i], mt_slow_node()));
	}
	MT_ASSERT(sum <= mt_since(&before, "pgpromote_success"),
		  "%lld in cgroups, %lld in all", sum,
		  mt_since(&before, "pgpromote_success"));
	return MT_PASS;
}

static int cgroups(int fast)
{
	static struct member m[CGROUPS];
	int i, ret, bad = 0;
	char byte = 0;
	pid_t asks;

	mt_fast();
	mt_set("promote/move_fast", fast);
	for (i = 0; i < CGROUPS; i++) {
		char name[16];

		snprintf(name, sizeof(name), "fast%d-", i);
		MT_NEED(!mt_cgroup_make(&m[i].cg, name, "+memory"),
			"no cgroups");
		MT_ASSERT(!pipe(m[i].ready) && !pipe(m[i].go), "no pipe");
		m[i].pid = mt_spawn(member_lives, &m[i]);
		/* If the child dies, read() of the pipe returns 0. */
		close(m[i].ready[1]);
	}
	for (i = 0; i < CGROUPS; i++)
		MT_ASSERT(read(m[i].ready[0], &byte, 1) == 1, "no memory");
	mt_snap(&before);
	mt_on();
	asks = mt_spawn(hurries, NULL);
	for (i = 0; i < CGROUPS; i++)
		MT_ASSERT(read(m[i].ready[0], &byte, 1) == 1,
			  "cgroup %d did not go up", i);
	mt_kill(asks);
	mt_off();
	ret = each_is_counted(m, CGROUPS);
	mt_note("%lld pages by address space, %lld busy",
		mt_since(&before, "mtier_fast_moved"),
		mt_since(&before, "mtier_fast_busy"));
	for (i = 0; i < CGROUPS; i++) {
		if (write(m[i].go[1], &byte, 1) != 1)
			bad = 1;
		bad |= mt_reap(m[i].pid);
		mt_cgroup_remove(&m[i].cg);
	}
	MT_ASSERT(!bad, "a process ended with %d", bad);
	return ret;
}

static int cgroups_by_address_space(void)
{
	return cgroups(1);
}

static int cgroups_by_folio(void)
{
	return cgroups(0);
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("all of two large processes", all_of_a_large_one),
		MT_CHECK("switched on and off meanwhile", switched_meanwhile),
		MT_CHECK("F12 more cgroups than a move counts apart",
			 cgroups_by_address_space),
		MT_CHECK("so many by migrate_pages()", cgroups_by_folio),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
