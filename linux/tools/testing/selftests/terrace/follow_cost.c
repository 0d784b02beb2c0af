// SPDX-License-Identifier: GPL-2.0
/*
 * Migration on faults: what a page fault pays for it, in instructions, while another
 * cgroup has a level, with every page in its place, and where pages are refused.  Guest
 * time counts instructions here; of many short windows those are left out in which a tick
 * may have been, the dearest third.
 *
 * lab: topology=two-socket-cxl icount=3 timeout=120s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "follow_util.h"

/* Pages that fault-around maps at once, aligned */
#define AROUND	16L
#define WINDOW	(4 * AROUND)
#define WINDOWS	64L
#define PAGES	(WINDOWS * WINDOW)
#define SIZE	(PAGES * MT_PAGE)

/* Cgroups one in another */
#define DEPTH	8

/**
 * struct cost - instructions of a page fault
 * @fd: file, all of it on node 0
 * @cg: cgroup of whoever takes the faults
 * @cpu: where they are taken
 * @task_bind: nodes that the task is bound to; 0 for no policy
 * @vma_bind: nodes that its mapping is bound to; 0 for no policy
 * @write: of one that maps a page to write to
 * @read: of one that maps a page, and its neighbours, to read
 */
struct cost {
	int fd;
	const struct mt_cgroup *cg;
	int cpu;
	unsigned long task_bind;
	unsigned long vma_bind;
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

/* The mapping for the faults, or NULL */
static char *map(const struct cost *c, int prot)
{
	char *p = mmap(NULL, SIZE, prot, MAP_SHARED, c->fd, 0);

	if (p == MAP_FAILED ||
	    (c->vma_bind && mp_old_bind(p, SIZE, MPOL_BIND, c->vma_bind, 0)))
		return NULL;
	return p;
}

static int take_faults(void *arg)
{
	struct cost *c = arg;
	char *p;

	if (mt_run_on_cpu(c->cpu) || (c->cg && mt_cgroup_enter(c->cg, 0)) ||
	    (c->task_bind && mp_old_set(MPOL_BIND, c->task_bind)))
		return MT_FAIL;
	p = map(c, PROT_READ | PROT_WRITE);
	if (!p)
		return MT_FAIL;
	c->write = window(p, MT_PAGE, true) / WINDOW;
	munmap(p, SIZE);
	/* A file on a disk has been written to, and would stay for that. */
	if (fsync(c->fd))
		return MT_FAIL;
	p = map(c, PROT_READ);
	if (!p)
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

/* ---- refused ---- */

/**
 * struct away - pages on node 0 that a task on node 1 uses
 * @why: they stay
 * @kind: of their file
 * @level: of the task
 * @at_home: a task on node 0 used them before
 * @full: node 1 is
 * @rate: MiB a second, or NULL
 * @c: the task
 */
struct away {
	const char *why;
	enum fo_kind kind;
	int level;
	bool at_home;
	bool full;
	const char *rate;
	struct cost c;
};

/* A task on node 0 uses the pages, at a level that includes them without a policy. */
static int use_at_home(const struct away *a, int fd, const struct mt_cgroup *cg)
{
	struct fo_reader r = { .fd = fd, .pages = PAGES, .cg = cg };

	MT_ASSERT(!am_set(cg, "migrate_on_fault", 3), "no level");
	if (a->at_home && fo_read(&r))
		return MT_FAIL;
	MT_ASSERT(!am_set(cg, "migrate_on_fault", a->level), "no level");
	return MT_PASS;
}

/* What faults pay on top of level 0, where the level moves nothing */
static int pays(const struct away *a)
{
	struct cost off = a->c, on;
	struct mt_snap before;
	struct mt_cgroup cg;
	size_t hogged;
	long long came;

	off.fd = fo_file(a->kind, PAGES, 0);
	off.cpu = 1;
	MT_ASSERT(off.fd >= 0, "no file on node 0");
	if (fo_level(&cg, 0))
		return MT_FAIL;
	on = off;
	if (cost(&off, &cg))
		return MT_FAIL;
	if (use_at_home(a, on.fd, &cg))
		return MT_FAIL;
	MT_NEED(!a->full || mt_hog(1, &hogged), "node 1 cannot be filled");
	MT_ASSERT(!a->rate || !mt_write(FO_RATE, a->rate), "no rate");
	mt_snap(&before);
	if (cost(&on, &cg))
		return MT_FAIL;
	came = PAGES - fo_on(on.fd, PAGES, 0);
	mt_note("%s, level %d: %.0f %+.0f (%+.1f %%) to write, %.0f %+.0f (%+.1f %%) to read",
		a->why, a->level, off.write, on.write - off.write,
		(on.write / off.write - 1) * 100, off.read, on.read - off.read,
		(on.read / off.read - 1) * 100);
	mt_note("refused: %lld at home elsewhere, %lld for the rate, %lld nomem; %lld moved",
		fo_since(&before, "refused_shared"), fo_since(&before, "refused_rate"),
		fo_since(&before, "refused_nomem"), came);
	close(off.fd);
	MT_ASSERT(came < PAGES / 4, "too many have moved");
	MT_ASSERT(fo_refused(&before) > 0, "nothing was refused");
	MT_ASSERT(on.write <= off.write * 1.05 && on.read <= off.read * 1.05,
		  "more than a twentieth");
	return MT_PASS;
}

static int all_pay(const struct away *away, size_t n)
{
	MT_NEED(mt_ext4(), "no ext4 on a loop device");
	while (n--)
		if (pays(away++))
			return MT_FAIL;
	return MT_PASS;
}

static int home_elsewhere(void)
{
	static const struct away away[] = {
		{ "tmpfs at home on node 0", FO_SHMEM, 1, .at_home = true },
		{ "tmpfs at home on node 0", FO_SHMEM, 3, .at_home = true },
		{ "a file at home on node 0", FO_DISK, 3, .at_home = true },
	};

	return all_pay(away, ARRAY_LEN(away));
}

static int home_elsewhere_bound(void)
{
	static const struct away away[] = {
		{ "a bound task, tmpfs", FO_SHMEM, 1, .at_home = true,
		  .c.task_bind = AM_NODE1 },
		{ "a bound task, a file", FO_DISK, 2, .at_home = true,
		  .c.task_bind = AM_NODE1 },
		{ "a bound mapping, a file", FO_DISK, 2, .at_home = true,
		  .c.vma_bind = AM_NODE1 },
	};

	return all_pay(away, ARRAY_LEN(away));
}

static int rate_reached(void)
{
	static const struct away away[] = {
		{ "rate reached, tmpfs", FO_SHMEM, 1, .rate = "1" },
		{ "rate reached, a bound task", FO_SHMEM, 1, .rate = "1",
		  .c.task_bind = AM_NODE1 },
	};

	return all_pay(away, ARRAY_LEN(away));
}

static int node_full(void)
{
	static const struct away away[] = {
		{ "node 1 full, tmpfs", FO_SHMEM, 1, .full = true },
		{ "node 1 full, a bound task", FO_SHMEM, 1, .full = true,
		  .c.task_bind = AM_NODE1 },
	};

	return all_pay(away, ARRAY_LEN(away));
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("a level elsewhere costs a fault 10 instructions", elsewhere),
		MT_CHECK("level 3 costs a fault 5 % if pages are in place", in_place),
		MT_CHECK("pages of a file at home elsewhere cost 5 %", home_elsewhere),
		MT_CHECK("so do those that a bound task wants", home_elsewhere_bound),
		MT_CHECK("so do pages while the rate is reached", rate_reached),
		MT_CHECK("so do pages while the node is full", node_full),
	};

	return fo_main(checks, ARRAY_LEN(checks));
}
