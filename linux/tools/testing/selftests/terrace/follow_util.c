// SPDX-License-Identifier: GPL-2.0
/*
 * Selftest helpers: counters of automatic NUMA migration, files on a node without
 * mappings, and processes that map them next.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include "follow_util.h"

bool fo_threads;

static const char *missing(void)
{
	return mt_count("numa_follow_marked") < 0 ? "no CONFIG_NUMA_FOLLOW" : NULL;
}

static void reset(void)
{
	fo_threads = false;
	am_remove_cgroups();
	mt_off();
	mt_write(FO_BALANCING, "0");
	mt_write(FO_RATE, FO_RATE_DEFAULT);
	mt_write(FO_POLICY, "0");
}

/* Run @n checks and print TAP; the return value is main()'s. */
int fo_main(const struct mt_check *checks, size_t n)
{
	static const struct mt_suite suite = {
		.missing = missing,
		.reset = reset,
		.enter = mt_knobs_default,
	};
	int ret;

	mt_knobs_save();
	ret = mt_run_suite(&suite, checks, n);
	mt_knobs_restore();
	return ret;
}

/* ---- counters ---- */

long long fo_since(const struct mt_snap *s, const char *name)
{
	char full[80];

	snprintf(full, sizeof(full), "numa_follow_%s", name);
	return mt_since(s, full);
}

/* For any reason and any caller */
long long fo_refused(const struct mt_snap *s)
{
	return fo_since(s, "refused_dirty") + fo_since(s, "refused_shared") +
	       fo_since(s, "refused_rate") + fo_since(s, "refused_nomem") +
	       fo_since(s, "refused_busy");
}

/* Exactly @nr pages were refused for @reason, and none for another one. */
bool fo_refused_only(const struct mt_snap *s, const char *reason, long long n)
{
	long long have, all = fo_refused(s);
	char name[64];

	snprintf(name, sizeof(name), "refused_%s", reason);
	have = fo_since(s, name);
	if (have == n && all == n)
		return true;
	mt_note("%lld pages refused as %s, %lld in all, not %lld", have, reason,
		all, n);
	return false;
}

/*
 * Get the pages that faults have moved before they were mapped, of all kinds if @kind is
 * NULL; -1 if pages of other kinds moved.
 */
long long fo_faulted(const struct mt_snap *s, const char *kind)
{
	static const char * const kinds[] = { "anon", "shmem", "file" };
	long long n, all = 0, others = 0;
	char name[64];
	size_t i;

	for (i = 0; i < ARRAY_LEN(kinds); i++) {
		snprintf(name, sizeof(name), "faulted_%s", kinds[i]);
		n = fo_since(s, name);
		all += n;
		if (!kind || !n || !strcmp(kinds[i], kind))
			continue;
		mt_note("%lld pages of kind %s moved, not only %s", n, kinds[i], kind);
		others += n;
	}
	return others ? -1 : all;
}

/* Get the pages that a walk for a task had to move, by all results */
long long fo_ended(const struct mt_snap *s)
{
	return fo_since(s, "marked") + fo_since(s, "moved") + fo_refused(s);
}

/*
 * Check that exactly these numbers of pages were marked and migrated; otherwise print the
 * numbers.
 */
bool fo_is(const struct mt_snap *s, long long marked, long long pulled)
{
	long long m = fo_since(s, "marked"), p = fo_since(s, "pulled");

	if (m == marked && p == pulled)
		return true;
	mt_note("%lld pages marked, %lld pulled, not %lld and %lld", m, p,
		marked, pulled);
	return false;
}

/* Print the counters since the snapshot. */
void fo_note(const struct mt_snap *s)
{
	mt_note("tasks %lld; declined: %lld balancing, %lld node, %lld policy, %lld threads",
		fo_since(s, "tasks"), fo_since(s, "declined_balancing"),
		fo_since(s, "declined_node"), fo_since(s, "declined_policy"),
		fo_since(s, "declined_threads"));
	mt_note("pages marked %lld, pulled %lld, moved at once %lld, in faults %lld",
		fo_since(s, "marked"), fo_since(s, "pulled"),
		fo_since(s, "moved"), fo_faulted(s, NULL));
	mt_note("refused: %lld dirty, %lld shared, %lld rate, %lld nomem, %lld busy",
		fo_since(s, "refused_dirty"), fo_since(s, "refused_shared"),
		fo_since(s, "refused_rate"), fo_since(s, "refused_nomem"),
		fo_since(s, "refused_busy"));
}

/* ---- files ---- */

/* Pages in the LRU batch of a CPU cannot be moved. */
void fo_drain(void)
{
	char *p = mp_map(MT_PAGE);

	mp_touch(p, MT_PAGE);
	mp_old_bind(p, MT_PAGE, MPOL_PREFERRED, 1, MPOL_MF_MOVE);
	munmap(p, MT_PAGE);
}

/* Create an empty file on a disk; -1 if that fails */
int fo_disk_file(void)
{
	const char *dir = mt_ext4();
	char path[160];
	int fd;

	if (!dir)
		return -1;
	snprintf(path, sizeof(path), "%s/follow.%d", dir, getpid());
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	unlink(path);
	return fd;
}

/* Create an empty file of either kind */
int fo_new(enum fo_kind kind)
{
	return kind == FO_SHMEM ? memfd_create("follow", MFD_CLOEXEC) :
				  fo_disk_file();
}

/* Arguments of fo_file() */
struct filler {
	int fd;
	long pages;
	int node;
};

static int fill(void *arg)
{
	const struct filler *f = arg;
	char text[MT_PAGE];
	long i;

	if (mt_bind_to(f->node))
		return MT_FAIL;
	for (i = 0; i < f->pages; i++) {
		memset(text, 'a' + i % 26, sizeof(text));
		if (pwrite(f->fd, text, sizeof(text), i * MT_PAGE) !=
		    (ssize_t)sizeof(text))
			return MT_FAIL;
	}
	return fsync(f->fd) ? MT_FAIL : MT_PASS;
}

/* Create a file whose pages are on a node, clean and unmapped; or -1 */
int fo_file(enum fo_kind kind, long pages, int node)
{
	struct filler f = { .fd = fo_new(kind), .pages = pages, .node = node };

	if (f.fd < 0 || mp_in_child(fill, &f))
		return -1;
	fo_drain();
	return fo_on(f.fd, pages, node) == pages ? f.fd : -1;
}

/* Check the contents that fo_file() has written. */
bool fo_intact(int fd, long pages)
{
	char c;
	long i;

	for (i = 0; i < pages; i++)
		if (pread(fd, &c, 1, i * MT_PAGE) != 1 || c != 'a' + i % 26)
			return false;
	return true;
}

/* Map its first pages, shared and writable; or NULL */
char *fo_map(int fd, long pages)
{
	char *p = mmap(NULL, pages * MT_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED,
		       fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Bind it by a shared mapping, which is removed afterwards */
int fo_bind(int fd, long pages, int mode, unsigned long nodes)
{
	char *p = fo_map(fd, pages);

	MT_ASSERT(p && !mp_old_bind(p, pages * MT_PAGE, mode, nodes, 0), "mbind");
	munmap(p, pages * MT_PAGE);
	return MT_PASS;
}

/* Get the number of its pages on a node, by a process without a level. */
long fo_on(int fd, long pages, int node)
{
	char *p = fo_map(fd, pages);
	long n;

	if (!p)
		return -1;
	mt_touch(p, pages * MT_PAGE, false);
	n = mt_pages_on(p, pages * MT_PAGE, node);
	munmap(p, pages * MT_PAGE);
	return n;
}

/* ---- processes that map them ---- */

static size_t half;

static void *touch_half(void *p)
{
	mt_touch(p, half, false);
	return p;
}

/* Read all of it, by one thread or by two. */
void fo_touch(char *p, size_t size)
{
	pthread_t thread;

	half = fo_threads ? size / 2 / MT_PAGE * MT_PAGE : 0;
	if (half && !pthread_create(&thread, NULL, touch_half, p))
		pthread_join(thread, NULL);
	else
		half = 0;
	mt_touch(p + half, size - half, false);
}

/* Create a cgroup with a level of migration on faults */
int fo_level(struct mt_cgroup *cg, int level)
{
	static unsigned int made;
	char name[32];

	/* Children of a check create cgroups too. */
	snprintf(name, sizeof(name), "level%d.%u", getpid(), made++);
	if (am_cgroup(cg, NULL, name))
		return MT_FAIL;
	MT_ASSERT(!am_set(cg, "migrate_on_fault", level), "no level %d", level);
	return MT_PASS;
}

static long minor_faults(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return used.ru_minflt;
}

/* The work of fo_read(), in this process; the mapping, or NULL */
char *fo_use(struct fo_reader *r)
{
	size_t size = r->pages * MT_PAGE, off;
	long step = r->step ? r->step : 1, before;
	char *p = mmap(NULL, size, PROT_READ | (r->write ? PROT_WRITE : 0),
		       r->private ? MAP_PRIVATE : MAP_SHARED, r->fd, 0);

	if (p == MAP_FAILED || (r->cg && mt_cgroup_enter(r->cg, 0)) ||
	    mt_run_on_cpu(r->cpu))
		return NULL;
	if (r->bind && mp_old_bind(p, size, MPOL_BIND, r->bind, 0))
		return NULL;
	before = minor_faults();
	if (step == 1 && !r->write)
		fo_touch(p, size);
	else
		for (off = 0; off < size; off += step * MT_PAGE)
			mt_touch(p + off, MT_PAGE, r->write);
	r->faults = minor_faults() - before;
	return p;
}

static int reader(void *arg)
{
	return fo_use(arg) ? MT_PASS : MT_FAIL;
}

/* Another process uses the file once, and has exited when this returns. */
int fo_read(struct fo_reader *r)
{
	struct fo_reader *both = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int ret;

	MT_ASSERT(both != MAP_FAILED, "mmap");
	*both = *r;
	ret = mp_in_child(reader, both);
	*r = *both;
	munmap(both, MT_PAGE);
	MT_ASSERT(!ret, "nobody used it");
	return MT_PASS;
}

/* ---- references that keep pages in place ---- */

/* Capacity of a pipe */
#define PIPE_SIZE	(16 * MT_PAGE)

/* Take references that no flag shows: such pages are isolated, and cannot move. */
int fo_refer(void *p, size_t size)
{
	struct iovec iov = { .iov_len = PIPE_SIZE };
	int pipes[2];
	size_t off;

	for (off = 0; off < size; off += PIPE_SIZE) {
		iov.iov_base = (char *)p + off;
		if (pipe(pipes) || vmsplice(pipes[1], &iov, 1, 0) != PIPE_SIZE)
			return -1;
	}
	return 0;
}

/* A process that shares its parent's memory and does nothing; for mt_spawn() */
void fo_hold(void *arg)
{
	(void)arg;
	for (;;)
		pause();
}

/* Guest nanoseconds of an instruction */
double fo_instruction_ns(void)
{
	const long n = 10000;
	long long best = 0, t;
	int i;

	for (i = 0; i < 20; i++) {
		long left = n;

		t = mt_now_ns();
		__asm__ volatile("1: dec %0\n\tjnz 1b" : "+r" (left));
		t = mt_now_ns() - t;
		best = !best || t < best ? t : best;
	}
	return best / (2.0 * n);
}

/* For qsort(): the lower cost first */
int fo_cheaper(const void *a, const void *b)
{
	long long x = *(const long long *)a, y = *(const long long *)b;

	return (x > y) - (x < y);
}
