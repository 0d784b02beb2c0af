// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that follow: how many a walk scans, and how many faults check for misplacement,
 * whatever becomes of them.
 *
 * lab: topology=two-socket-cxl timeout=120s debug=yes
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "follow_util.h"

#define PAGES	1024L
#define SIZE	(PAGES * MT_PAGE)
/* Other pages of a static program: code, data, stack, the C library's heap */
#define OTHERS	512

static struct mt_snap before;

static int counted(const char *name, long long least, long long most)
{
	long long n = fo_since(&before, name);

	MT_ASSERT(n >= least && n <= most, "%lld pages %s, not %lld to %lld", n, name,
		  least, most);
	return MT_PASS;
}

static int exactly(const char *name, long long n)
{
	return counted(name, n, n);
}

/* ---- faults ---- */

static int reads(int fd, const struct mt_cgroup *cg, int cpu)
{
	struct fo_reader r = { .fd = fd, .cg = cg, .cpu = cpu, .pages = PAGES };

	mt_snap(&before);
	return fo_read(&r);
}

/*
 * Each page once, in place, or misplaced and moved, with the neighbours that fault-around
 * maps; none while the file is at home on another node.
 */
static int files(void)
{
	struct mt_cgroup cg;
	int fd = fo_file(FO_SHMEM, PAGES, 1);

	MT_ASSERT(fd >= 0, "no file on node 1");
	/* Without a level nothing is checked. */
	if (fo_level(&cg, 0) || reads(fd, &cg, 1) || exactly("checked", 0))
		return MT_FAIL;
	am_set(&cg, "migrate_on_fault", 1);
	if (reads(fd, &cg, 1) || exactly("checked", PAGES) ||
	    exactly("faulted_shmem", 0))
		return MT_FAIL;
	MT_ASSERT(!fo_refused(&before), "pages in place were refused");
	/* The file is at home on node 1 now: refused without a check of each page. */
	if (reads(fd, &cg, 0) || exactly("checked", 0) ||
	    counted("refused_shared", 1, PAGES / 16))
		return MT_FAIL;
	close(fd);
	/* A file that has no home yet moves. */
	fd = fo_file(FO_SHMEM, PAGES, 1);
	if (reads(fd, &cg, 0) || exactly("checked", PAGES) ||
	    exactly("faulted_shmem", PAGES))
		return MT_FAIL;
	close(fd);
	return MT_PASS;
}

/* ---- marks ---- */

/* Marked by mbind(), used: each page is scanned once and checked once. */
static int marks(void)
{
	char *p;

	MT_ASSERT(!mt_run_on_cpu(0), "cannot run on node 0");
	p = mt_place(SIZE, 0);
	MT_ASSERT(p, "no memory on node 0");
	mt_snap(&before);
	MT_ASSERT(!mt_mbind_flags(p, SIZE, MPOL_BIND, 2, FO_MOVE), "mbind");
	if (exactly("scanned", PAGES) || exactly("marked", PAGES) ||
	    exactly("checked", 0))
		return MT_FAIL;
	mt_touch(p, SIZE, false);
	if (exactly("checked", PAGES))
		return MT_FAIL;
	MT_ASSERT(fo_since(&before, "pulled") + fo_refused(&before) == PAGES,
		  "%lld pages pulled", fo_since(&before, "pulled"));
	munmap(p, SIZE);
	/* In place: scanned, and not marked. */
	p = mt_place(SIZE, 1);
	mt_snap(&before);
	MT_ASSERT(p && !mt_mbind_flags(p, SIZE, MPOL_BIND, 2, FO_MOVE), "mbind");
	if (exactly("scanned", PAGES) || exactly("marked", 0))
		return MT_FAIL;
	munmap(p, SIZE);
	return MT_PASS;
}

/* ---- a task that moves ---- */

/*
 * Its memory is scanned once, all of it: the walk by the tick passes over two parts of
 * SIZE, and little else.
 */
static int walk(int lazy)
{
	struct am_task t = { .size = SIZE };
	struct mt_cgroup cg;

	if (am_cgroup_on(&cg, "on", lazy))
		return MT_FAIL;
	am_set(&cg, "auto_migrate_interval", 60);
	t.cg = &cg;
	if (am_start(&t))
		return MT_FAIL;
	mt_snap(&before);
	t.s->touch = lazy;
	if (am_move(&t, AM_NODE1))
		return MT_FAIL;
	MT_ASSERT(MT_WAIT(am_local(&t, 1), AM_LONG_MS), "it did not follow");
	am_stop(&t);
	fo_note(&before);
	mt_note("%lld pages scanned, %lld checked", fo_since(&before, "scanned"),
		fo_since(&before, "checked"));
	return counted("scanned", 2 * PAGES, 2 * PAGES + OTHERS);
}

static int direct(void)
{
	return walk(0) ?: exactly("checked", 0);
}

/* Each page that is used is checked, and that is how it moves. */
static int lazy(void)
{
	return walk(1) ?:
	       counted("checked", fo_since(&before, "pulled"), 2 * PAGES + OTHERS);
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("faults check each page of a file once", files),
		MT_CHECK("marked pages are scanned once and checked once", marks),
		MT_CHECK("a task's memory is scanned once, at once", direct),
		MT_CHECK("a task's memory is scanned once, lazy", lazy),
	};

	return fo_main(checks, ARRAY_LEN(checks));
}
