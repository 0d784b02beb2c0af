// SPDX-License-Identifier: GPL-2.0
/*
 * Migration on faults: what a page fault pays for it, in instructions, while another
 * cgroup has a level, and at level 3 with every page in its place.  Guest time counts
 * instructions here; of many short windows those are left out in which a tick may have
 * been, the dearest third.
 *
 * lab: topology=two-socket-cxl icount=3 timeout=120s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "follow_util.h"

/* Fault-around maps so many pages at once, from an aligned one on */
#define AROUND	16L
#define WINDOW	(4 * AROUND)
#define WINDOWS	64L
#define PAGES	(WINDOWS * WINDOW)
#define SIZE	(PAGES * MT_PAGE)

/* Cgroups one in another */
#define DEPTH	8

/**
 * struct cost - instructions of a page fault
 * @fd: file of tmpfs, all of it on node 0
 * @cg: cgroup of whoever takes the faults, on node 0
 * @write: of one that maps a page to write to
 * @read: of one that maps a page, and its neighbours, to read
 */
struct cost {
	int fd;
	const struct mt_cgroup *cg;
	double write;
	double read;
};

/*
 * Instructions of a window in which the first page of each @step bytes is used: the median.
 * More than half of the windows agree to 5 in 28,000; a third have an interrupt or a new page
 * table in them, and now and then one does without something that all others do, which moved
 * their mean by 10 a fault.
 */
static double window(char *p, size_t step, bool write)
{
	long long took[WINDOWS], t;
	size_t at, off, i = 0;

	for (at = 0; at < SIZE; at += WINDOW * MT_PAGE) {
		t = mt_now_ns();
		for (off = 0; off < WINDOW * MT_PAGE; off += step) {
			volatile char *c = p + at + off;

			if (write)
				*c = 1;
			else
				(void)*c;
		}
		took[i++] = mt_now_ns() - t;
	}
	qsort(took, WINDOWS, sizeof(took[0]), fo_cheaper);
	return took[WINDOWS / 2] / fo_instruction_ns();
}

static int take_faults(void *arg)
{
	struct cost *c = arg;
	char *p;

	if (mt_run_on_cpu(0) || (c->cg && mt_cgroup_enter(c->cg, 0)))
		return MT_FAIL;
	p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
	if (p == MAP_FAILED)
		return MT_FAIL;
	c->write = window(p, MT_PAGE, true) / WINDOW;
	munmap(p, SIZE);
	p = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, c->fd, 0);
	if (p == MAP_FAILED)
		return MT_FAIL;
	c->read = window(p, AROUND * MT_PAGE, false) * AROUND / WINDOW;
	munmap(p, SIZE);
	return MT_PASS;
}

/* By another process, in a cgroup or in none */
static int cost(struct cost *c, const struct mt_cgroup *cg)
{
	static struct cost *both;

	if (!both)
		both = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MT_ASSERT(both != MAP_FAILED, "mmap");
	*both = *c;
	both->cg = cg;
	MT_ASSERT(!mp_in_child(take_faults, both), "no faults");
	*c = *both;
	return MT_PASS;
}

/* Cgroups one in another, none of which has a level; the innermost comes last. */
static int deep(struct mt_cgroup *cg)
{
	int i;

	if (am_cgroup(&cg[0], NULL, "deep"))
		return MT_FAIL;
	for (i = 1; i < DEPTH; i++)
		if (am_cgroup(&cg[i], &cg[i - 1], "deep"))
			return MT_FAIL;
	return MT_PASS;
}

static int begin(struct cost *c)
{
	c->fd = fo_file(FO_SHMEM, PAGES, 0);
	MT_ASSERT(c->fd >= 0, "no file on node 0");
	return MT_PASS;
}

static int elsewhere(void)
{
	struct cost off = { 0 }, shallow, innermost;
	struct mt_cgroup cg[DEPTH], other;

	if (begin(&off) || deep(cg))
		return MT_FAIL;
	shallow = off;
	innermost = off;
	if (cost(&off, &cg[DEPTH - 1]) || fo_level(&other, 3) ||
	    cost(&shallow, &cg[0]) || cost(&innermost, &cg[DEPTH - 1]))
		return MT_FAIL;
	mt_note("no level: %.0f instructions to write, %.0f to read with %ld around",
		off.write, off.read, AROUND);
	mt_note("a level in another cgroup: %+.0f and %+.0f, %d cgroups deep %+.0f and %+.0f",
		shallow.write - off.write, shallow.read - off.read, DEPTH,
		innermost.write - off.write, innermost.read - off.read);
	/* Half an instruction is what clocks and calls of them leave. */
	MT_ASSERT(shallow.write <= off.write + 10.5 && shallow.read <= off.read + 10.5 &&
		  innermost.write <= off.write + 10.5 &&
		  innermost.read <= off.read + 10.5, "more than 10");
	return MT_PASS;
}

static int in_place(void)
{
	struct cost off = { 0 }, on;
	struct mt_cgroup cg;

	if (begin(&off) || fo_level(&cg, 0))
		return MT_FAIL;
	on = off;
	if (cost(&off, &cg))
		return MT_FAIL;
	MT_ASSERT(!am_set(&cg, "migrate_on_fault", 3), "no level");
	if (cost(&on, &cg))
		return MT_FAIL;
	mt_note("level 0: %.0f instructions to write, %.0f to read with %ld around",
		off.write, off.read, AROUND);
	mt_note("level 3, in place: %+.0f (%+.1f %%) and %+.0f (%+.1f %%)",
		on.write - off.write, (on.write / off.write - 1) * 100,
		on.read - off.read, (on.read / off.read - 1) * 100);
	MT_ASSERT(on.write <= off.write * 1.05 && on.read <= off.read * 1.05,
		  "more than a twentieth");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("a level elsewhere costs a fault 10 instructions", elsewhere),
		MT_CHECK("level 3 costs a fault 5 % if pages are in place", in_place),
	};

	return fo_main(checks, ARRAY_LEN(checks));
}
