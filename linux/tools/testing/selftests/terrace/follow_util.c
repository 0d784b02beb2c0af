// SPDX-License-Identifier: GPL-2.0
/* Selftest helpers: files on a node that nobody maps, and who maps them next. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "follow_util.h"

bool fo_threads;

static const char *missing(void)
{
	if (access(FO_RATE, F_OK))
		return "no CONFIG_NUMA_FAULT_MIGRATE";
	if (mt_count("numa_lazy_marked") < 0)
		return "no CONFIG_NUMA_LAZY_MIGRATE";
	return access(FO_POLICY, F_OK) ? "no CONFIG_MAPPED_FILE_POLICY" : NULL;
}

static void reset(void)
{
	fo_threads = false;
	am_remove_cgroups();
	mt_off();
	mt_write(LZ_BALANCING, "0");
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

/* ---- files ---- */

/* Pages that wait in a batch of a CPU cannot be moved. */
void fo_drain(void)
{
	char *p = mp_map(MT_PAGE);

	mp_touch(p, MT_PAGE);
	mp_old_bind(p, MT_PAGE, MPOL_PREFERRED, 1, MPOL_MF_MOVE);
	munmap(p, MT_PAGE);
}

/* An empty one; -1 if it cannot be had */
int fo_new(enum fo_kind kind)
{
	return kind == FO_SHMEM ? memfd_create("follow", MFD_CLOEXEC) :
				  lz_ext4_file();
}

/* What fo_file() is told */
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

	memset(text, 'a', sizeof(text));
	if (mt_bind_to(f->node))
		return MT_FAIL;
	for (i = 0; i < f->pages; i++)
		if (pwrite(f->fd, text, sizeof(text), i * MT_PAGE) !=
		    (ssize_t)sizeof(text))
			return MT_FAIL;
	return fsync(f->fd) ? MT_FAIL : MT_PASS;
}

/* A new file whose pages are on a node, clean, and that nobody maps; or -1 */
int fo_file(enum fo_kind kind, long pages, int node)
{
	struct filler f = { .fd = fo_new(kind), .pages = pages, .node = node };

	if (f.fd < 0 || mp_in_child(fill, &f))
		return -1;
	fo_drain();
	return fo_on(f.fd, pages, node) == pages ? f.fd : -1;
}

/* By a shared mapping that is gone afterwards */
int fo_bind(int fd, long pages, unsigned long nodes)
{
	size_t size = pages * MT_PAGE;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	MT_ASSERT(p != MAP_FAILED && !mp_old_bind(p, size, MPOL_BIND, nodes, 0),
		  "mbind");
	munmap(p, size);
	return MT_PASS;
}

/* Its pages on a node; by a process that no level is about. */
long fo_on(int fd, long pages, int node)
{
	char *p = mmap(NULL, pages * MT_PAGE, PROT_READ, MAP_SHARED, fd, 0);
	long n;

	if (p == MAP_FAILED)
		return -1;
	mt_touch(p, pages * MT_PAGE, false);
	n = mt_pages_on(p, pages * MT_PAGE, node);
	munmap(p, pages * MT_PAGE);
	return n;
}

/* ---- who maps them ---- */

static size_t half;

static void *touch_half(void *p)
{
	mt_touch(p, half, false);
	return p;
}

/* Read it all, by one thread or by two. */
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

/* A cgroup with a level of migration on faults */
int fo_level(struct mt_cgroup *cg, int level)
{
	char name[16];

	snprintf(name, sizeof(name), "level%d", level);
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

static int reader(void *arg)
{
	struct fo_reader *r = arg;
	size_t size = r->pages * MT_PAGE;
	char *p = mmap(NULL, size, PROT_READ, r->flags, r->fd, 0);
	long before;

	if (p == MAP_FAILED || (r->cg && mt_cgroup_enter(r->cg, 0)) ||
	    mt_run_on_cpu(r->cpu))
		return MT_FAIL;
	before = minor_faults();
	fo_touch(p, size);
	r->faults = minor_faults() - before;
	return MT_PASS;
}

/* Another process reads it once; it is gone when this returns. */
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
	MT_ASSERT(!ret, "nobody read it");
	return MT_PASS;
}
