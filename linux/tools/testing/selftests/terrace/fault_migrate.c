// SPDX-License-Identifier: GPL-2.0
/*
 * Migration on faults: unmapped pages move to the node of the policy of the process that
 * maps them next; which pages at which level, and that they do not move back and forth.
 *
 * lab: topology=two-socket-cxl timeout=240s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "follow_util.h"

#define PAGES	64L
#define SIZE	(PAGES * MT_PAGE)
#define AROUND	16		/* pages that fault-around maps */
#define LEVELS	4
#define SLOW	2		/* node without CPUs */

/* ---- users of files ---- */

/* The last is bound to node 0 by the process that maps it. */
enum kind { SHMEM, CACHE, CACHE_POLICY };

/* Create a file whose pages are on node 1, clean and unmapped; or -1 */
static int file(enum kind kind, long pages)
{
	return fo_file(kind == SHMEM ? FO_SHMEM : FO_DISK, pages, 1);
}

/* Another process uses the first pages of a file: all, on node @cpu. */
static int use(int fd, const struct mt_cgroup *cg, int cpu, long pages)
{
	struct fo_reader r = { .fd = fd, .cg = cg, .cpu = cpu, .pages = pages };

	return fo_read(&r);
}

/* ---- which pages ---- */

/* Bound to node 0 by a task of node 1; or the task is on node 0 */
static int one_level(const struct mt_cgroup *cg, int n, enum kind kind)
{
	bool moves = n >= (kind == SHMEM ? 1 : kind == CACHE ? 3 : 2);
	struct fo_reader r = {
		.cg = cg, .pages = PAGES, .fd = file(kind, PAGES),
		.cpu = kind == CACHE_POLICY, .bind = kind == CACHE_POLICY,
	};

	MT_ASSERT(r.fd >= 0, "no file on node 1");
	if (fo_read(&r))
		return MT_FAIL;
	MT_ASSERT(fo_on(r.fd, PAGES, 0) == (moves ? PAGES : 0),
		  "level %d, kind %d: %ld of %ld pages on node 0", n, kind,
		  fo_on(r.fd, PAGES, 0), PAGES);
	MT_DATA(fo_intact(r.fd, PAGES), "it says something else now");
	close(r.fd);
	return MT_PASS;
}

static int levels(void)
{
	struct mt_cgroup cg;
	int kind, n;

	MT_NEED(mt_ext4(), "no ext4 on a loop device");
	for (n = 0; n < LEVELS; n++) {
		if (fo_level(&cg, n))
			return MT_FAIL;
		for (kind = SHMEM; kind <= CACHE_POLICY; kind++)
			if (one_level(&cg, n, kind))
				return MT_FAIL;
	}
	return MT_PASS;
}

/* ---- anonymous memory ---- */

static int look(void *arg)
{
	if (mt_run_on_cpu(1))
		return MT_FAIL;
	mt_touch(arg, SIZE, false);
	fo_drain();
	return mt_pages_on(arg, SIZE, 1) == PAGES ? MT_PASS : MT_FAIL;
}

/*
 * Swapped out, and swapped in by a child on node 1 that exits: in the swap cache, and
 * unmapped. Then it is used on node 0.
 */
static int swap_cache_at(void *arg)
{
	long n = (long)arg;
	struct mt_cgroup cg;
	struct mt_snap before;
	char *p = mp_map(SIZE);

	if (fo_level(&cg, n))
		return MT_FAIL;
	MT_ASSERT(!mt_cgroup_enter(&cg, 0) && !mt_run_on_cpu(0), "cgroup");
	mp_touch(p, SIZE);
	fo_drain();
	MT_ASSERT(!madvise(p, SIZE, MADV_PAGEOUT), "MADV_PAGEOUT");
	MT_ASSERT(!mt_pages_on(p, SIZE, 0), "not swapped out");
	MT_ASSERT(!mp_in_child(look, p), "not swapped in on node 1");
	mt_snap(&before);
	mt_touch(p, SIZE, false);
	MT_ASSERT(mt_pages_on(p, SIZE, 0) == (n ? PAGES : 0),
		  "level %ld: %ld of %ld pages on node 0", n,
		  mt_pages_on(p, SIZE, 0), PAGES);
	MT_ASSERT(fo_faulted(&before, "anon") == (n ? PAGES : 0),
		  "another number was counted");
	return MT_PASS;
}

static int swap_cache(void)
{
	int ret;

	MT_NEED(mt_swap_on("64M"), "no swap on zram");
	ret = mp_in_child(swap_cache_at, (void *)0L) ?:
	      mp_in_child(swap_cache_at, (void *)1L);
	mt_swap_off();
	return ret;
}

/* ---- the target node ---- */

/* tmpfs has the policy itself: every other page belongs to node 0. */
/* Half of the pages of a file on one node move to the other one, for any user. */
static int interleaved_from(int node, const struct mt_cgroup *cg)
{
	int fd = fo_file(FO_SHMEM, PAGES, node);

	MT_ASSERT(fd >= 0, "no file on node %d", node);
	if (fo_bind(fd, PAGES, MPOL_INTERLEAVE, 3))
		return MT_FAIL;
	MT_ASSERT(!use(fd, cg, 0, PAGES), "nobody used it");
	MT_ASSERT(fo_on(fd, PAGES, 0) == PAGES / 2,
		  "from node %d: %ld of %ld pages on node 0", node,
		  fo_on(fd, PAGES, 0), PAGES);
	MT_ASSERT(!use(fd, cg, 0, PAGES) && fo_on(fd, PAGES, 0) == PAGES / 2,
		  "they moved again");
	close(fd);
	return MT_PASS;
}

static int interleaved(void)
{
	struct mt_cgroup cg;

	if (fo_level(&cg, 1))
		return MT_FAIL;
	return interleaved_from(1, &cg) ?: interleaved_from(0, &cg);
}

/* Move every other page to another node, without a policy */
static bool scatter(int fd, int node)
{
	int nodes[PAGES / 2], status[PAGES / 2];
	void *pages[PAGES / 2];
	char *p = fo_map(fd, PAGES);
	long i, moved;

	mt_touch(p, SIZE, false);
	for (i = 0; i < PAGES / 2; i++) {
		pages[i] = p + 2 * i * MT_PAGE;
		nodes[i] = node;
	}
	syscall(SYS_move_pages, 0, PAGES / 2, pages, nodes, status,
		MPOL_MF_MOVE);
	moved = mt_pages_on(p, SIZE, node);
	munmap(p, SIZE);
	return moved == PAGES / 2;
}

/* Pages on slow memory are left to promotion, and the rest of the file moves. */
static int slow_pages(void)
{
	int fd = file(SHMEM, PAGES);
	struct mt_cgroup cg;

	if (fo_level(&cg, 1))
		return MT_FAIL;
	MT_ASSERT(fd >= 0 && scatter(fd, SLOW), "no file on both nodes");
	MT_ASSERT(!use(fd, &cg, 0, PAGES), "nobody used it");
	MT_ASSERT(fo_on(fd, PAGES, 0) == PAGES / 2 &&
		  fo_on(fd, PAGES, SLOW) == PAGES / 2,
		  "%ld pages on node 0, %ld on the slow one", fo_on(fd, PAGES, 0),
		  fo_on(fd, PAGES, SLOW));
	return MT_PASS;
}

/* A process that may not use node 0 leaves them in place. */
static int not_allowed(void)
{
	struct mt_cgroup cg;
	int fd = file(SHMEM, PAGES);

	MT_ASSERT(fd >= 0, "no file on node 1");
	if (fo_level(&cg, 1))
		return MT_FAIL;
	MT_ASSERT(!mt_cgroup_write(&cg, "cpuset.mems", "1"), "cpuset.mems");
	MT_ASSERT(!use(fd, &cg, 0, PAGES), "nobody used it");
	MT_ASSERT(!fo_on(fd, PAGES, 0), "%ld pages moved", fo_on(fd, PAGES, 0));
	return MT_PASS;
}

/* ---- pages that stay ---- */

static int reads_and_writes(void *arg)
{
	const struct fo_reader *r = arg;
	static char text[SIZE];

	if (mt_cgroup_enter(r->cg, 0) || mt_run_on_cpu(0))
		return MT_FAIL;
	return pread(r->fd, text, SIZE, 0) == SIZE &&
	       pwrite(r->fd, text, SIZE, 0) == SIZE ? MT_PASS : MT_FAIL;
}

static int read_and_write(void)
{
	struct mt_cgroup cg;
	struct fo_reader r = { .cg = &cg };

	MT_NEED(mt_ext4(), "no ext4 on a loop device");
	if (fo_level(&cg, 3))
		return MT_FAIL;
	r.fd = file(CACHE, PAGES);
	MT_ASSERT(r.fd >= 0, "no file on node 1");
	MT_ASSERT(!mp_in_child(reads_and_writes, &r), "cannot");
	MT_ASSERT(!fo_on(r.fd, PAGES, 0), "%ld pages moved",
		  fo_on(r.fd, PAGES, 0));
	return MT_PASS;
}

static int dirty(void)
{
	struct mt_cgroup cg;
	struct mt_snap before;
	char c = 'x';
	long i;
	int fd;

	MT_NEED(mt_ext4(), "no ext4 on a loop device");
	if (fo_level(&cg, 3))
		return MT_FAIL;
	mt_write("/proc/sys/vm/dirty_writeback_centisecs", "0");
	fd = file(CACHE, PAGES);
	MT_ASSERT(fd >= 0, "no file on node 1");
	for (i = 0; i < PAGES; i++)
		MT_ASSERT(pwrite(fd, &c, 1, i * MT_PAGE) == 1, "write");
	mt_snap(&before);
	MT_ASSERT(!use(fd, &cg, 0, PAGES), "nobody used it");
	MT_ASSERT(!fo_on(fd, PAGES, 0), "%ld pages moved", fo_on(fd, PAGES, 0));
	/* Fault-around maps their neighbours, without a check of these. */
	MT_ASSERT(fo_since(&before, "refused_dirty") >= PAGES / AROUND,
		  "it was not counted");
	return MT_PASS;
}

/* A fault does not move pages that another process maps, here this process. */
static int mapped(void)
{
	int fd = file(SHMEM, PAGES);
	struct mt_cgroup cg;
	struct mt_snap before;
	char *p;

	if (fo_level(&cg, 1))
		return MT_FAIL;
	MT_ASSERT(fd >= 0, "no file on node 1");
	p = fo_map(fd, PAGES);
	mt_touch(p, SIZE, false);
	mt_snap(&before);
	MT_ASSERT(!use(fd, &cg, 0, PAGES), "nobody used it");
	MT_ASSERT(!fo_faulted(&before, NULL) && !fo_refused(&before), "it looked");
	MT_ASSERT(mt_pages_on(p, SIZE, 1) == PAGES, "%ld pages moved",
		  PAGES - mt_pages_on(p, SIZE, 1));
	return MT_PASS;
}

/* Fault-around maps only the neighbours that are in their place. */
static int around(void *arg)
{
	struct fo_reader *r = arg;
	char *p = fo_use(r);
	long i, present = 0;

	MT_ASSERT(p, "cannot use it");
	for (i = 0; i < PAGES; i++)
		present += !!(mt_pagemap(p + i * MT_PAGE) >> 63);
	MT_ASSERT(present == PAGES / r->step, "%ld pages are mapped, not %ld",
		  present, PAGES / r->step);
	return MT_PASS;
}

static int fault_around(void)
{
	struct fo_reader r = { .pages = PAGES, .step = AROUND };
	struct mt_cgroup cg;

	if (fo_level(&cg, 1))
		return MT_FAIL;
	r.cg = &cg;
	r.fd = file(SHMEM, PAGES);
	MT_ASSERT(r.fd >= 0, "no file on node 1");
	if (mp_in_child(around, &r))
		return MT_FAIL;
	MT_ASSERT(fo_on(r.fd, PAGES, 0) == PAGES / AROUND,
		  "%ld pages on node 0, not %ld", fo_on(r.fd, PAGES, 0),
		  PAGES / AROUND);
	return MT_PASS;
}

/* ---- guards ---- */

/* R22: tasks of two nodes use it in turns, and it does not move back and forth. */
static int by_turns(void)
{
	struct mt_cgroup cg;
	struct mt_snap before;
	long long moves;
	int fd, i;

	MT_NEED(mt_ext4(), "no ext4 on a loop device");
	if (fo_level(&cg, 3))
		return MT_FAIL;
	fd = file(CACHE, PAGES);
	MT_ASSERT(fd >= 0, "no file on node 1");
	mt_snap(&before);
	for (i = 0; i < 20; i++)
		MT_ASSERT(!use(fd, &cg, i % 2, PAGES), "nobody used it");
	moves = fo_faulted(&before, "file");
	mt_note("20 turns: %lld moves, %lld refused", moves,
		fo_since(&before, "refused_shared"));
	/* It takes less than a minute: 4 moves per page, and one at the start. */
	MT_ASSERT(moves >= PAGES && moves <= 4 * PAGES, "%lld moves of %ld pages",
		  moves, PAGES);
	return MT_PASS;
}

/* 1 MiB per second, of 32: the rest stays. */
static int rate(void)
{
	const long pages = 8192, second = 256;
	struct mt_cgroup cg;
	struct mt_snap before;
	long long ms, moved;
	int fd;

	if (fo_level(&cg, 1))
		return MT_FAIL;
	fd = file(SHMEM, pages);
	MT_ASSERT(fd >= 0, "no file on node 1");
	MT_ASSERT(!mt_write(FO_RATE, "1"), "no rate");
	mt_snap(&before);
	ms = mt_now_ms();
	/* Earlier moves may have used up the limit of the second. */
	do {
		MT_ASSERT(!use(fd, &cg, 0, pages), "nobody used it");
		moved = fo_faulted(&before, "shmem");
	} while (!moved && mt_now_ms() < ms + 10000);
	ms = mt_now_ms() - ms;
	MT_ASSERT(moved > 0 && moved <= second * (ms / 1000 + 2),
		  "%lld pages within %lld ms", moved, ms);
	MT_ASSERT(fo_since(&before, "refused_rate") > 0, "nothing was refused");
	return MT_PASS;
}

/* ---- control and counters ---- */

static int knobs(void)
{
	static const char * const bad[] = { "4", "-1", "x", "", "1.5", "0 1" };
	static const char * const bad_rate[] = { "0", "1048577", "-1", "x" };
	struct mt_cgroup a, b;
	size_t i;
	int fd;

	if (fo_level(&a, 2) || am_cgroup(&b, &a, "b"))
		return MT_FAIL;
	MT_ASSERT(am_get(&b, "migrate_on_fault") == 2, "not its parent's");
	for (i = 0; i < ARRAY_LEN(bad); i++) {
		char line[16];

		snprintf(line, sizeof(line), "%s\n", bad[i]);
		MT_ASSERT(mt_cgroup_write(&b, "cpuset.migrate_on_fault", line) ==
			  -EINVAL, "'%s' is taken", bad[i]);
		MT_ASSERT(am_get(&b, "migrate_on_fault") == 2, "it changed");
	}
	for (i = 0; i < ARRAY_LEN(bad_rate); i++)
		MT_ASSERT(mt_write(FO_RATE, bad_rate[i]) == -EINVAL &&
			  mt_read_ll(FO_RATE) == atoi(FO_RATE_DEFAULT),
			  "rate '%s' is taken", bad_rate[i]);
	/* The lowest level of the ancestors applies, and a write takes effect at once. */
	MT_ASSERT(!am_set(&b, "migrate_on_fault", 3) &&
		  !am_set(&a, "migrate_on_fault", 0), "cannot set it");
	fd = file(SHMEM, PAGES);
	MT_ASSERT(fd >= 0 && !use(fd, &b, 0, PAGES) && !fo_on(fd, PAGES, 0),
		  "they moved");
	MT_ASSERT(!am_set(&a, "migrate_on_fault", 1) && !use(fd, &b, 0, PAGES) &&
		  fo_on(fd, PAGES, 0) == PAGES, "they did not move");
	return MT_PASS;
}

static const char * const ends[] = {
	"dirty", "shared", "rate", "nomem", "busy", "moved",
};

/* Get the pages by result, from events */
static void add_events(struct mt_trace *tr, long long *pages)
{
	char line[512];
	size_t i;

	while (mt_trace_line(tr, line, sizeof(line)))
		for (i = 0; i < ARRAY_LEN(ends); i++)
			if (mt_field_is(line, "verdict", ends[i]))
				pages[i] += mt_field(line, "pages");
}

static int counters(void)
{
	long long told[ARRAY_LEN(ends)] = { 0 };
	struct mt_cgroup cg;
	struct mt_snap before;
	struct mt_trace tr;
	bool same = true;
	size_t i;
	int fd;

	MT_NEED(!mt_trace_open_of(&tr, "numa_follow", NULL), "no tracing");
	if (fo_level(&cg, 1))
		return MT_FAIL;
	fd = file(SHMEM, PAGES);
	MT_ASSERT(fd >= 0, "no file on node 1");
	mt_snap(&before);
	MT_ASSERT(!use(fd, &cg, 0, PAGES) && !use(fd, &cg, 1, PAGES) &&
		  !use(fd, &cg, 0, PAGES), "nobody used it");
	add_events(&tr, told);
	mt_trace_close(&tr);
	for (i = 0; i < ARRAY_LEN(ends); i++) {
		char name[64];
		long long n;

		snprintf(name, sizeof(name), "refused_%s", ends[i]);
		n = i < ARRAY_LEN(ends) - 1 ? fo_since(&before, name) :
					      fo_faulted(&before, "shmem");
		if (n == told[i])
			continue;
		mt_note("%s: counted %lld, told %lld", ends[i], n, told[i]);
		same = false;
	}
	MT_ASSERT(same, "events and counters differ");
	MT_ASSERT(told[5] == PAGES && told[1] > 0, "there was less to count");
	MT_ASSERT(mt_memcg_same("numa_follow_"), "cgroups say otherwise");
	return MT_PASS;
}

/* ---- races ---- */

static void wanders(void *arg)
{
	struct fo_reader r = *(struct fo_reader *)arg;

	mt_cgroup_enter(r.cg, 0);
	r.cg = NULL;
	for (;;) {
		char *p = fo_use(&r);

		r.cpu = !r.cpu;
		r.write = !r.write;
		munmap(p, r.pages * MT_PAGE);
	}
}

/* Pages are added, removed and punched out while two processes map and unmap them. */
static int race(void)
{
	struct mt_cgroup cg;
	struct fo_reader r = { .cg = &cg, .pages = PAGES };
	struct mt_snap before;
	unsigned int n = 1;
	pid_t pid[2];
	int i;

	if (fo_level(&cg, 1))
		return MT_FAIL;
	r.fd = file(SHMEM, PAGES);
	MT_ASSERT(r.fd >= 0, "no file on node 1");
	mt_snap(&before);
	for (i = 0; i < 2; i++) {
		r.cpu = i;
		pid[i] = mt_spawn(wanders, &r);
	}
	for (i = 0; i < 4000; i++) {
		n = n * 1103515245 + 12345;
		fallocate(r.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  (n >> 16) % PAGES * MT_PAGE, MT_PAGE);
		if (i % 64 == 0)
			am_set(&cg, "migrate_on_fault", i / 64 % 2);
		if (i % 1000 == 0)
			mt_nap(20);
	}
	for (i = 0; i < 2; i++)
		mt_kill(pid[i]);
	MT_ASSERT(fo_faulted(&before, NULL) + fo_refused(&before) > 0,
		  "nothing has moved, and nothing was to");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("which pages at which level", levels),
		MT_CHECK("pages in the swap cache", swap_cache),
		MT_CHECK("a policy that spreads pages", interleaved),
		MT_CHECK("pages on slow memory stay, others do not", slow_pages),
		MT_CHECK("nodes that the cpuset does not have", not_allowed),
		MT_CHECK("read() and write() move nothing", read_and_write),
		MT_CHECK("dirty pages of files stay", dirty),
		MT_CHECK("pages that others map stay", mapped),
		MT_CHECK("fault-around leaves misplaced pages out",
			 fault_around),
		MT_CHECK("R22 pages do not wander", by_turns),
		MT_CHECK("so many may move in a second", rate),
		MT_CHECK("values that are taken and refused, and cgroups", knobs),
		MT_CHECK("R25 counters say what events do", counters),
		MT_CHECK("R26 pages come and go", race),
	};

	return fo_main(checks, ARRAY_LEN(checks));
}
