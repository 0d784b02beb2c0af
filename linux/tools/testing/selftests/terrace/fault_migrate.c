// SPDX-License-Identifier: GPL-2.0
/*
 * Migration on faults: pages that nobody maps are where the policy of whoever maps
 * them next wants them; which ones at which level, and that they do not wander.
 *
 * lab: topology=two-socket-cxl timeout=240s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "auto_migrate_util.h"
#include "lazy_migrate_util.h"
#include "mempolicy2_util.h"

#define RATE		"/proc/sys/vm/migrate_on_fault_mbps"
#define RATE_DEFAULT	"256"

#define PAGES	64L
#define SIZE	(PAGES * MT_PAGE)
#define AROUND	16		/* pages that fault-around maps */
#define LEVELS	4
#define SLOW	2		/* node without CPUs */

static const char *missing(void)
{
	return access(RATE, F_OK) ? "no CONFIG_NUMA_FAULT_MIGRATE" : NULL;
}

static void reset(void)
{
	am_remove_cgroups();
	mt_write(AM_BALANCING, "0");
	mt_write(RATE, RATE_DEFAULT);
}

/* ---- files, and who uses them ---- */

enum kind { SHMEM, CACHE, CACHE_POLICY };

/* A process that maps a file, uses it and goes */
struct user {
	int fd;
	const struct mt_cgroup *cg;	/* which says the level; NULL for none */
	int cpu;			/* which is its node, too */
	long pages;			/* from the first on */
	long step;			/* from one page to the next */
	int bind;			/* to a node; -1 for not */
	bool write;			/* not only read */
};

/* Pages that wait in a batch of a CPU cannot be moved. */
static void drain(void)
{
	char *p = mp_map(MT_PAGE);

	mp_touch(p, MT_PAGE);
	mp_old_bind(p, MT_PAGE, MPOL_PREFERRED, 1, MPOL_MF_MOVE);
	munmap(p, MT_PAGE);
}

static char *map(int fd, size_t size)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* What use() does, in this process; the mapping */
static char *use_here(const struct user *u)
{
	char *p = map(u->fd, u->pages * MT_PAGE);
	long i;

	if ((u->cg && mt_cgroup_enter(u->cg, 0)) || mt_run_on_cpu(u->cpu) || !p)
		return NULL;
	if (u->bind >= 0 && mp_old_bind(p, u->pages * MT_PAGE, MPOL_BIND,
					1UL << u->bind, 0))
		return NULL;
	for (i = 0; i < u->pages; i += u->step)
		mt_touch(p + i * MT_PAGE, MT_PAGE, u->write);
	return p;
}

static int user(void *arg)
{
	return use_here(arg) ? MT_PASS : MT_FAIL;
}

/* Another process uses the first pages of a file: all, on node @cpu. */
static int use(int fd, const struct mt_cgroup *cg, int cpu, long pages)
{
	struct user u = {
		.fd = fd, .cg = cg, .cpu = cpu, .pages = pages, .step = 1,
		.bind = -1,
	};

	return mp_in_child(user, &u);
}

/* Its pages on a node; by a process that no level is about. */
static long on(int fd, long pages, int node)
{
	char *p = map(fd, pages * MT_PAGE);
	long n;

	if (!p)
		return -1;
	mt_touch(p, pages * MT_PAGE, false);
	n = mt_pages_on(p, pages * MT_PAGE, node);
	munmap(p, pages * MT_PAGE);
	return n;
}

static int fill(void *arg)
{
	const struct user *u = arg;
	char text[MT_PAGE];
	long i;

	if (mt_run_on_cpu(u->cpu))
		return MT_FAIL;
	for (i = 0; i < u->pages; i++) {
		memset(text, 'a' + i % 26, sizeof(text));
		if (pwrite(u->fd, text, sizeof(text), i * MT_PAGE) !=
		    (ssize_t)sizeof(text))
			return MT_FAIL;
	}
	drain();
	return MT_PASS;
}

static bool intact(int fd, long pages)
{
	char c;
	long i;

	for (i = 0; i < pages; i++)
		if (pread(fd, &c, 1, i * MT_PAGE) != 1 || c != 'a' + i % 26)
			return false;
	return true;
}

/* A new file whose pages are on node 1, clean, and that nobody maps; or -1 */
static int file(enum kind kind, long pages)
{
	struct user u = { .cpu = 1, .pages = pages };

	u.fd = kind == SHMEM ? memfd_create("fault_migrate", MFD_CLOEXEC) :
			       lz_ext4_file();
	if (u.fd < 0 || mp_in_child(fill, &u))
		return -1;
	if ((kind != SHMEM && fsync(u.fd)) || on(u.fd, pages, 1) != pages)
		return -1;
	return u.fd;
}

static int level(struct mt_cgroup *cg, int n)
{
	char name[16];

	snprintf(name, sizeof(name), "level%d", n);
	if (am_cgroup(cg, NULL, name))
		return MT_FAIL;
	MT_ASSERT(!am_set(cg, "migrate_on_fault", n), "no level %d", n);
	return MT_PASS;
}

/* ---- which ones ---- */

/* Bound to node 0 by a task of node 1; or the task is on node 0 */
static int one_level(const struct mt_cgroup *cg, int n, enum kind kind)
{
	bool moves = n >= (kind == SHMEM ? 1 : kind == CACHE ? 3 : 2);
	struct user u = {
		.cg = cg, .pages = PAGES, .step = 1, .bind = -1,
		.fd = file(kind, PAGES),
	};

	if (kind == CACHE_POLICY) {
		u.cpu = 1;
		u.bind = 0;
	}
	MT_ASSERT(u.fd >= 0, "no file on node 1");
	MT_ASSERT(!mp_in_child(user, &u), "nobody used it");
	MT_ASSERT(on(u.fd, PAGES, 0) == (moves ? PAGES : 0),
		  "level %d, kind %d: %ld of %ld pages on node 0", n, kind,
		  on(u.fd, PAGES, 0), PAGES);
	MT_DATA(intact(u.fd, PAGES), "it says something else now");
	close(u.fd);
	return MT_PASS;
}

static int levels(void)
{
	struct mt_cgroup cg;
	int kind, n;

	MT_NEED(mt_ext4(), "no ext4 on a loop device");
	for (n = 0; n < LEVELS; n++) {
		if (level(&cg, n))
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
	drain();
	return mt_pages_on(arg, SIZE, 1) == PAGES ? MT_PASS : MT_FAIL;
}

/*
 * Swapped out, and brought in by a child on node 1 which goes: in the swap cache, and
 * mapped by nobody.  Then it is used on node 0.
 */
static int swap_cache_at(void *arg)
{
	long n = (long)arg;
	struct mt_cgroup cg;
	struct mt_snap before;
	char *p = mp_map(SIZE);

	if (level(&cg, n))
		return MT_FAIL;
	MT_ASSERT(!mt_cgroup_enter(&cg, 0) && !mt_run_on_cpu(0), "cgroup");
	mp_touch(p, SIZE);
	drain();
	MT_ASSERT(!madvise(p, SIZE, MADV_PAGEOUT), "MADV_PAGEOUT");
	MT_ASSERT(!mt_pages_on(p, SIZE, 0), "not swapped out");
	MT_ASSERT(!mp_in_child(look, p), "not swapped in on node 1");
	mt_snap(&before);
	mt_touch(p, SIZE, false);
	MT_ASSERT(mt_pages_on(p, SIZE, 0) == (n ? PAGES : 0),
		  "level %ld: %ld of %ld pages on node 0", n,
		  mt_pages_on(p, SIZE, 0), PAGES);
	MT_ASSERT(mt_since(&before, "numa_misplaced_migrated") ==
		  (n ? PAGES : 0), "another number was counted");
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

/* ---- where to ---- */

/* tmpfs has the policy itself: every other page belongs to node 0. */
static int interleaved(void)
{
	struct user u = { .pages = PAGES, .step = 1, .bind = -1 };
	struct mt_cgroup cg;
	char *p;

	if (level(&cg, 1))
		return MT_FAIL;
	u.fd = file(SHMEM, PAGES);
	MT_ASSERT(u.fd >= 0, "no file on node 1");
	p = map(u.fd, SIZE);
	MT_ASSERT(!mp_old_bind(p, SIZE, MPOL_INTERLEAVE, 3, 0), "mbind");
	munmap(p, SIZE);
	u.cg = &cg;
	MT_ASSERT(!mp_in_child(user, &u), "nobody used it");
	MT_ASSERT(on(u.fd, PAGES, 0) == PAGES / 2,
		  "%ld of %ld pages on node 0", on(u.fd, PAGES, 0), PAGES);
	MT_ASSERT(!mp_in_child(user, &u) && on(u.fd, PAGES, 0) == PAGES / 2,
		  "they moved again");
	return MT_PASS;
}

/* Every other page to another node, by nobody's policy */
static bool scatter(int fd, int node)
{
	int nodes[PAGES / 2], status[PAGES / 2];
	void *pages[PAGES / 2];
	char *p = map(fd, SIZE);
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

/* What is on slow memory is left to promotion, and the rest of the file moves. */
static int slow_pages(void)
{
	int fd = file(SHMEM, PAGES);
	struct mt_cgroup cg;

	if (level(&cg, 1))
		return MT_FAIL;
	MT_ASSERT(fd >= 0 && scatter(fd, SLOW), "no file on both nodes");
	MT_ASSERT(!use(fd, &cg, 0, PAGES), "nobody used it");
	MT_ASSERT(on(fd, PAGES, 0) == PAGES / 2 &&
		  on(fd, PAGES, SLOW) == PAGES / 2,
		  "%ld pages on node 0, %ld on the slow one", on(fd, PAGES, 0),
		  on(fd, PAGES, SLOW));
	return MT_PASS;
}

/* Whoever may not have memory on node 0 leaves them where they are. */
static int not_allowed(void)
{
	struct mt_cgroup cg;
	int fd = file(SHMEM, PAGES);

	MT_ASSERT(fd >= 0, "no file on node 1");
	if (level(&cg, 1))
		return MT_FAIL;
	MT_ASSERT(!mt_cgroup_write(&cg, "cpuset.mems", "1"), "cpuset.mems");
	MT_ASSERT(!use(fd, &cg, 0, PAGES), "nobody used it");
	MT_ASSERT(!on(fd, PAGES, 0), "%ld pages moved", on(fd, PAGES, 0));
	return MT_PASS;
}

/* ---- what stays ---- */

static int reads_and_writes(void *arg)
{
	const struct user *u = arg;
	static char text[SIZE];

	if (mt_cgroup_enter(u->cg, 0) || mt_run_on_cpu(0))
		return MT_FAIL;
	return pread(u->fd, text, SIZE, 0) == SIZE &&
	       pwrite(u->fd, text, SIZE, 0) == SIZE ? MT_PASS : MT_FAIL;
}

static int read_and_write(void)
{
	struct mt_cgroup cg;
	struct user u = { .cg = &cg };

	MT_NEED(mt_ext4(), "no ext4 on a loop device");
	if (level(&cg, 3))
		return MT_FAIL;
	u.fd = file(CACHE, PAGES);
	MT_ASSERT(u.fd >= 0, "no file on node 1");
	MT_ASSERT(!mp_in_child(reads_and_writes, &u), "cannot");
	MT_ASSERT(!on(u.fd, PAGES, 0), "%ld pages moved", on(u.fd, PAGES, 0));
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
	if (level(&cg, 3))
		return MT_FAIL;
	mt_write("/proc/sys/vm/dirty_writeback_centisecs", "0");
	fd = file(CACHE, PAGES);
	MT_ASSERT(fd >= 0, "no file on node 1");
	for (i = 0; i < PAGES; i++)
		MT_ASSERT(pwrite(fd, &c, 1, i * MT_PAGE) == 1, "write");
	mt_snap(&before);
	MT_ASSERT(!use(fd, &cg, 0, PAGES), "nobody used it");
	MT_ASSERT(!on(fd, PAGES, 0), "%ld pages moved", on(fd, PAGES, 0));
	/* Their neighbours come along by fault-around, and are not asked for. */
	MT_ASSERT(mt_since(&before, "numa_misplaced_refused_dirty") >=
		  PAGES / AROUND, "it was not counted");
	return MT_PASS;
}

/* What somebody else maps, here this process, is not for a fault to decide. */
static int mapped(void)
{
	int fd = file(SHMEM, PAGES);
	struct mt_cgroup cg;
	struct mt_snap before;
	char *p;

	if (level(&cg, 1))
		return MT_FAIL;
	MT_ASSERT(fd >= 0, "no file on node 1");
	p = map(fd, SIZE);
	mt_touch(p, SIZE, false);
	mt_snap(&before);
	MT_ASSERT(!use(fd, &cg, 0, PAGES), "nobody used it");
	MT_ASSERT(!mt_since(&before, "numa_misplaced_checked"), "it looked");
	MT_ASSERT(mt_pages_on(p, SIZE, 1) == PAGES, "%ld pages moved",
		  PAGES - mt_pages_on(p, SIZE, 1));
	return MT_PASS;
}

/* Who uses one page has its neighbours mapped only where they belong. */
static int around(void *arg)
{
	const struct user *u = arg;
	char *p = use_here(u);
	long i, present = 0;

	MT_ASSERT(p, "cannot use it");
	for (i = 0; i < PAGES; i++)
		present += !!(mt_pagemap(p + i * MT_PAGE) >> 63);
	MT_ASSERT(present == PAGES / u->step, "%ld pages are mapped, not %ld",
		  present, PAGES / u->step);
	return MT_PASS;
}

static int fault_around(void)
{
	struct user u = { .pages = PAGES, .step = AROUND, .bind = -1 };
	struct mt_cgroup cg;

	if (level(&cg, 1))
		return MT_FAIL;
	u.cg = &cg;
	u.fd = file(SHMEM, PAGES);
	MT_ASSERT(u.fd >= 0, "no file on node 1");
	if (mp_in_child(around, &u))
		return MT_FAIL;
	MT_ASSERT(on(u.fd, PAGES, 0) == PAGES / AROUND,
		  "%ld pages on node 0, not %ld", on(u.fd, PAGES, 0),
		  PAGES / AROUND);
	return MT_PASS;
}

/* ---- guards ---- */

/* R22: tasks of two nodes use it by turns, and it does not wander. */
static int by_turns(void)
{
	struct mt_cgroup cg;
	struct mt_snap before;
	long long moves;
	int fd, i;

	MT_NEED(mt_ext4(), "no ext4 on a loop device");
	if (level(&cg, 3))
		return MT_FAIL;
	fd = file(CACHE, PAGES);
	MT_ASSERT(fd >= 0, "no file on node 1");
	mt_snap(&before);
	for (i = 0; i < 20; i++)
		MT_ASSERT(!use(fd, &cg, i % 2, PAGES), "nobody used it");
	moves = mt_since(&before, "numa_misplaced_migrated");
	mt_note("20 turns: %lld moves, %lld refused", moves,
		mt_since(&before, "numa_misplaced_refused_shared"));
	/* It takes less than a minute: 4 moves a page, and one to begin with. */
	MT_ASSERT(moves >= PAGES && moves <= 4 * PAGES, "%lld moves of %ld pages",
		  moves, PAGES);
	return MT_PASS;
}

/* 1 MiB a second, of 32: what it does not take stays. */
static int rate(void)
{
	const long pages = 8192, second = 256;
	struct mt_cgroup cg;
	struct mt_snap before;
	long long ms, moved;
	int fd;

	if (level(&cg, 1))
		return MT_FAIL;
	fd = file(SHMEM, pages);
	MT_ASSERT(fd >= 0, "no file on node 1");
	MT_ASSERT(!mt_write(RATE, "1"), "no rate");
	mt_snap(&before);
	ms = mt_now_ms();
	/* What moved just before this may have been all that a second takes. */
	do {
		MT_ASSERT(!use(fd, &cg, 0, pages), "nobody used it");
		moved = mt_since(&before, "numa_misplaced_migrated");
	} while (!moved && mt_now_ms() < ms + 10000);
	ms = mt_now_ms() - ms;
	MT_ASSERT(moved && moved <= second * (ms / 1000 + 2),
		  "%lld pages within %lld ms", moved, ms);
	MT_ASSERT(mt_since(&before, "numa_misplaced_refused_ratelimit") > 0,
		  "nothing was refused");
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

	if (level(&a, 2) || am_cgroup(&b, &a, "b"))
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
		MT_ASSERT(mt_write(RATE, bad_rate[i]) == -EINVAL &&
			  mt_read_ll(RATE) == atoi(RATE_DEFAULT),
			  "rate '%s' is taken", bad_rate[i]);
	/* The lowest level above it counts, and what is written holds at once. */
	MT_ASSERT(!am_set(&b, "migrate_on_fault", 3) &&
		  !am_set(&a, "migrate_on_fault", 0), "cannot set it");
	fd = file(SHMEM, PAGES);
	MT_ASSERT(fd >= 0 && !use(fd, &b, 0, PAGES) && !on(fd, PAGES, 0),
		  "they moved");
	MT_ASSERT(!am_set(&a, "migrate_on_fault", 1) && !use(fd, &b, 0, PAGES) &&
		  on(fd, PAGES, 0) == PAGES, "they did not move");
	return MT_PASS;
}

static const char * const ends[] = {
	"dirty", "shared", "ratelimit", "nomem", "busy", "migrated",
};

/* Pages by what became of them, as events tell */
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
	char name[64];
	bool same = true;
	size_t i;
	int fd;

	MT_NEED(!mt_trace_open_of(&tr, "fault_migrate", NULL), "no tracing");
	if (level(&cg, 1))
		return MT_FAIL;
	fd = file(SHMEM, PAGES);
	MT_ASSERT(fd >= 0, "no file on node 1");
	mt_snap(&before);
	MT_ASSERT(!use(fd, &cg, 0, PAGES) && !use(fd, &cg, 1, PAGES) &&
		  !use(fd, &cg, 0, PAGES), "nobody used it");
	add_events(&tr, told);
	mt_trace_close(&tr);
	for (i = 0; i < ARRAY_LEN(ends); i++) {
		snprintf(name, sizeof(name), "numa_misplaced_%s%s",
			 i < ARRAY_LEN(ends) - 1 ? "refused_" : "", ends[i]);
		if (mt_since(&before, name) == told[i])
			continue;
		mt_note("%s: counted %lld, told %lld", ends[i],
			mt_since(&before, name), told[i]);
		same = false;
	}
	MT_ASSERT(same, "events and counters differ");
	MT_ASSERT(told[5] == PAGES && told[1] > 0, "there was less to count");
	MT_ASSERT(mt_since(&before, "numa_misplaced_attempted") ==
		  told[3] + told[4] + told[5], "attempts without an end");
	MT_ASSERT(mt_memcg_same("numa_misplaced_"), "cgroups say otherwise");
	return MT_PASS;
}

/* ---- races ---- */

static void wanders(void *arg)
{
	struct user u = *(struct user *)arg;

	mt_cgroup_enter(u.cg, 0);
	u.cg = NULL;
	for (;;) {
		char *p = use_here(&u);

		u.cpu = !u.cpu;
		u.write = !u.write;
		munmap(p, u.pages * MT_PAGE);
	}
}

/* Pages come, go and are punched out while two processes map and unmap them. */
static int race(void)
{
	struct mt_cgroup cg;
	struct user u = { .cg = &cg, .pages = PAGES, .step = 1, .bind = -1 };
	struct mt_snap before;
	unsigned int n = 1;
	pid_t pid[2];
	int i;

	if (level(&cg, 1))
		return MT_FAIL;
	u.fd = file(SHMEM, PAGES);
	MT_ASSERT(u.fd >= 0, "no file on node 1");
	mt_snap(&before);
	for (i = 0; i < 2; i++) {
		u.cpu = i;
		pid[i] = mt_spawn(wanders, &u);
	}
	for (i = 0; i < 4000; i++) {
		n = n * 1103515245 + 12345;
		fallocate(u.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  (n >> 16) % PAGES * MT_PAGE, MT_PAGE);
		if (i % 64 == 0)
			am_set(&cg, "migrate_on_fault", i / 64 % 2);
		if (i % 1000 == 0)
			mt_nap(20);
	}
	for (i = 0; i < 2; i++)
		mt_kill(pid[i]);
	MT_ASSERT(mt_since(&before, "numa_misplaced_checked") > 0,
		  "nothing was looked at");
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
	static const struct mt_suite suite = {
		.missing = missing,
		.reset = reset,
	};

	return mt_run_suite(&suite, checks, ARRAY_LEN(checks));
}
