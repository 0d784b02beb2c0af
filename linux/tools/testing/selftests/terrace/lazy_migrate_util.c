// SPDX-License-Identifier: GPL-2.0
/* Selftest helpers: lazy migration, its counters, and a file on a disk. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lazy_migrate_util.h"

static const char *missing(void)
{
	return mt_count("numa_lazy_marked") < 0 ?
	       "no CONFIG_NUMA_LAZY_MIGRATE" : NULL;
}

static void reset(void)
{
	mt_write(LZ_BALANCING, "0");
}

/* Run @n checks and print TAP; the return value is main()'s. */
int lz_main(const struct mt_check *checks, size_t n)
{
	static const struct mt_suite suite = {
		.missing = missing,
		.reset = reset,
	};

	return mt_run_suite(&suite, checks, n);
}

void lz_begin(struct lz_figures *f)
{
	mt_snap(&f->before);
}

/* Just so many pages were marked and pulled; otherwise it says how many. */
bool lz_is(const struct lz_figures *f, long long marked, long long pulled)
{
	long long m = mt_since(&f->before, "numa_lazy_marked");
	long long p = mt_since(&f->before, "numa_lazy_pulled");

	if (m == marked && p == pulled)
		return true;
	mt_note("%lld pages marked, %lld pulled, not %lld and %lld", m, p,
		marked, pulled);
	return false;
}

/* Just so many pages were refused for @reason, and none for another. */
bool lz_refused(const struct lz_figures *f, const char *reason, long long n)
{
	long long have, all = lz_refused_all(f);
	char name[64];

	snprintf(name, sizeof(name), "numa_lazy_refused_%s", reason);
	have = mt_since(&f->before, name);
	if (have == n && all == n)
		return true;
	mt_note("%lld pages refused as %s, %lld in all, not %lld", have, reason,
		all, n);
	return false;
}

long long lz_refused_all(const struct lz_figures *f)
{
	return mt_since(&f->before, "numa_lazy_refused_dirty") +
	       mt_since(&f->before, "numa_lazy_refused_shared") +
	       mt_since(&f->before, "numa_lazy_refused_nomem") +
	       mt_since(&f->before, "numa_lazy_refused_busy");
}

/* What mt_place() and its like have written is still there. */
bool lz_intact(const char *p, size_t size)
{
	size_t off;

	for (off = 0; off < size; off += MT_PAGE) {
		if (*(size_t *)(p + off) == off + 1)
			continue;
		mt_note("page %zu has another content", off / MT_PAGE);
		return false;
	}
	return true;
}

/* A new file on a disk, or -1 if that cannot be had. */
int lz_ext4_file(void)
{
	const char *dir = mt_ext4();
	char path[160];
	int fd;

	if (!dir)
		return -1;
	snprintf(path, sizeof(path), "%s/lazy.%d", dir, getpid());
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	unlink(path);
	return fd;
}
