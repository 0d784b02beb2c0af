// SPDX-License-Identifier: GPL-2.0
/*
 * Weighted interleave: everything that handles a policy in addition to the first fault of
 * private memory. Swap, tmpfs mounted with a policy, large folios, collapse, slab,
 * migration of hugetlb pages, a full node.
 *
 * lab: topology=dram-cxl timeout=120s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mempolicy2_util.h"
#include "mtier_util.h"

#define PAGES	600
#define SIZE	(PAGES * MP_PAGE)
#define THP	"/sys/kernel/mm/transparent_hugepage/"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif

static bool laid_out(const void *p, size_t size, const char *weights)
{
	return mp_follows(p, size, MP_PAGE, (uintptr_t)p / MP_PAGE, weights);
}

/* The layout of a file in memory depends on its number and the offset. */
static bool file_laid_out(int fd, const char *p, size_t size,
			  const char *weights)
{
	struct stat st;

	fstat(fd, &st);
	return mp_follows(p, size, MP_PAGE, st.st_ino, weights);
}

/* ---- swap ---- */

/*
 * Swap out all of it. MADV_PAGEOUT takes pages from the LRU lists. Pages just touched get
 * there from the batch of the CPU on which they were touched, and only the batch of the
 * calling CPU is emptied. So all of this runs on one CPU.
 */
static bool swapped(char *p)
{
	long left = 0;
	size_t off;

	madvise(p, SIZE, MADV_PAGEOUT);
	for (off = 0; off < SIZE; off += MP_PAGE)
		left += mp_where(p + off) >= 0;
	if (left)
		mt_note("%ld pages are still there", left);
	return !left;
}

static int swap_private_steps(char *p)
{
	mp_bind(p, SIZE, "0:5,1:1", 0);
	mp_touch(p, SIZE);
	MT_ASSERT(MT_WAIT(swapped(p), 5000), "not all of it goes");
	mp_touch(p, SIZE);
	MT_ASSERT(laid_out(p, SIZE, "0:5,1:1"), "back from swap");
	/* The policy changes while it is swapped out: the new one applies. */
	MT_ASSERT(MT_WAIT(swapped(p), 5000), "not all of it goes again");
	mp_bind(p, SIZE, "0:1,1:2", 0);
	mp_touch(p, SIZE);
	MT_ASSERT(laid_out(p, SIZE, "0:1,1:2"), "by another policy");
	return MT_PASS;
}

static int swap_private(void)
{
	int ret;

	MT_ASSERT(!mt_run_on_cpu(0), "cannot stay on one CPU");
	MT_NEED(mt_swap_on("64M"), "no swap on zram");
	ret = swap_private_steps(mp_map(SIZE));
	mt_swap_off();
	return ret;
}

static int swap_shared_steps(char *p, int fd)
{
	mp_bind(p, SIZE, "0:5,1:1", 0);
	mp_touch(p, SIZE);
	MT_ASSERT(MT_WAIT(swapped(p), 5000), "not all of it goes");
	mp_touch(p, SIZE);
	MT_ASSERT(file_laid_out(fd, p, SIZE, "0:5,1:1"), "back from swap");
	return MT_PASS;
}

/* Read-ahead puts pages on the node of the requested page: one at a time here. */
static int swap_shared(void)
{
	int fd = memfd_create("mempolicy2", MFD_CLOEXEC);
	int ret;
	char *p;

	ftruncate(fd, SIZE);
	p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MT_ASSERT(!mt_run_on_cpu(0), "cannot stay on one CPU");
	MT_NEED(mt_swap_on("64M"), "no swap on zram");
	mt_write("/proc/sys/vm/page-cluster", "0");
	ret = swap_shared_steps(p, fd);
	mt_write("/proc/sys/vm/page-cluster", "3");
	mt_swap_off();
	return ret;
}

/* ---- tmpfs mounted with a policy ---- */

static bool new_file_follows(const char *dir, const char *name,
			     const char *weights)
{
	char path[96];
	bool ok;
	char *p;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, SIZE))
		return false;
	p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	mp_touch(p, SIZE);
	ok = file_laid_out(fd, p, SIZE, weights);
	munmap(p, SIZE);
	close(fd);
	return ok;
}

static bool mounted_so(const char *dir, const char *option)
{
	FILE *f = fopen("/proc/self/mounts", "re");
	bool found = false;
	char line[512];

	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, dir) && strstr(line, option);
	if (f)
		fclose(f);
	return found;
}

static int tmpfs_steps(const char *dir)
{
	/* The mode's name has a space, and shmem does not escape it. */
	static const char option[] = "mpol=weighted interleave:0-1";

	mt_write(MP_DIR "node0", "3");
	MT_ASSERT(mounted_so(dir, option), "not shown");
	MT_ASSERT(new_file_follows(dir, "one", "0:3,1:1"), "first file");
	MT_ASSERT(!mount("none", dir, "tmpfs", MS_REMOUNT, "size=64M"),
		  "remount: %s", strerror(errno));
	MT_ASSERT(mounted_so(dir, option) && mounted_so(dir, "size=65536k"),
		  "not shown after a remount");
	mt_write(MP_DIR "node1", "2");
	MT_ASSERT(new_file_follows(dir, "two", "0:3,1:2"), "second file");
	/* A file's own policy takes precedence. */
	mp_set("0:1,1:7");
	MT_ASSERT(new_file_follows(dir, "three", "0:3,1:2"), "third file");
	mp_set(NULL);
	return MT_PASS;
}

static int tmpfs(void)
{
	char dir[] = "/tmp/mempolicy2.XXXXXX";
	int ret;

	MT_NEED(mkdtemp(dir), "no folder: %s", strerror(errno));
	if (mount("none", dir, "tmpfs", 0,
		  "size=32M,mpol=weighted interleave:0-1")) {
		mt_note("mount: %s", strerror(errno));
		rmdir(dir);
		return MT_FAIL;
	}
	ret = tmpfs_steps(dir);
	mt_write(MP_DIR "node0", "1");
	mt_write(MP_DIR "node1", "1");
	umount(dir);
	rmdir(dir);
	return ret;
}

/* ---- large folios ---- */

#define FOLIO	(64UL << 10)

static bool folios_follow(const char *p, size_t n, const char *weights)
{
	size_t i;

	for (i = 0; i < n; i++) {
		int want = mp_expected((uintptr_t)p / FOLIO + i, weights);
		int first = mp_where(p + i * FOLIO);
		int last = mp_where(p + (i + 1) * FOLIO - MP_PAGE);

		if (first == want && last == want)
			continue;
		mt_note("folio %zu on %d to %d, not %d", i, first, last, want);
		return false;
	}
	return true;
}

static int folios_steps(void)
{
	enum { N = 60 };
	char *p = mp_map(N * FOLIO);
	size_t i;

	madvise(p, N * FOLIO, MADV_HUGEPAGE);
	mp_bind(p, N * FOLIO, "0:3,1:2", 0);
	for (i = 0; i < N; i++)
		p[i * FOLIO] = 1;
	MT_ASSERT(mp_where(p + FOLIO - MP_PAGE) >= 0, "no large folios");
	MT_ASSERT(folios_follow(p, N, "0:3,1:2"), "range");
	MT_ASSERT(!mp_bind(p, N * FOLIO, "0:1,1:4", MP_MF_REBALANCE |
			   MPOL_MF_STRICT), "rebalance");
	MT_ASSERT(folios_follow(p, N, "0:1,1:4"), "rebalanced");
	return MT_PASS;
}

/* mTHP: a folio of any order is one turn. */
static int large_folios(void)
{
	int ret;

	MT_NEED(!mt_write(THP "hugepages-64kB/enabled", "always") &&
		!mt_write(THP "hugepages-2048kB/enabled", "never"),
		"no folios of 64 KiB");
	ret = folios_steps();
	mt_write(THP "hugepages-64kB/enabled", "never");
	mt_write(THP "hugepages-2048kB/enabled", "inherit");
	return ret;
}

/* Small pages collapse to one huge page: on the node that has most of them. */
static bool collapses_to(const char *weights, int node)
{
	char *p = mp_map(MP_HUGE);
	bool ok;

	mp_bind(p, MP_HUGE, weights, 0);
	mp_touch(p, MP_HUGE);
	madvise(p, MP_HUGE, MADV_HUGEPAGE);
	ok = !madvise(p, MP_HUGE, MADV_COLLAPSE) &&
	     mp_count(p, MP_HUGE, node) == (long)(MP_HUGE / MP_PAGE);
	if (!ok)
		mt_note("%s: %ld pages on node %d", weights,
			mp_count(p, MP_HUGE, node), node);
	munmap(p, MP_HUGE);
	return ok;
}

static int collapse(void)
{
	char *p = mp_map(MP_HUGE);

	mp_touch(p, MP_HUGE);
	madvise(p, MP_HUGE, MADV_HUGEPAGE);
	MT_NEED(!madvise(p, MP_HUGE, MADV_COLLAPSE), "no collapse: %s",
		strerror(errno));
	MT_ASSERT(collapses_to("0:5,1:1", 0), "mostly on node 0");
	MT_ASSERT(collapses_to("0:1,1:5", 1), "mostly on node 1");
	MT_ASSERT(collapses_to("1:9", 1), "only on node 1");
	return MT_PASS;
}

/* ---- slab ---- */

static long long slab_pages(int node)
{
	char file[80];

	snprintf(file, sizeof(file), "/sys/devices/system/node/node%d/vmstat",
		 node);
	return mt_file_stat(file, "nr_slab_reclaimable") +
	       mt_file_stat(file, "nr_slab_unreclaimable");
}

/* Create empty files, laid out by @weights; returns their number. */
static int make_files(int n, const char *weights)
{
	int i;

	mp_set(weights);
	for (i = 0; i < n; i++)
		if (memfd_create("mempolicy2", MFD_CLOEXEC) < 0)
			break;
	mp_set(NULL);
	return i;
}

/*
 * Inodes and their further allocations take turns by the task's counter. Free objects of
 * existing slabs are used up first, on each node.
 */
static int slab(void)
{
	enum { FILES = 6000, FIRST = 3000 };
	struct rlimit limit = { FIRST + FILES + 100, FIRST + FILES + 100 };
	long long before[2], more[2];
	int i;

	MT_NEED(!setrlimit(RLIMIT_NOFILE, &limit), "no room for files");
	MT_ASSERT(make_files(FIRST, "0:1,1:1") == FIRST, "too few files");
	for (i = 0; i < 2; i++)
		before[i] = slab_pages(i);
	i = make_files(FILES, "0:1,1:4");
	MT_ASSERT(i == FILES, "%d files", i);
	for (i = 0; i < 2; i++)
		more[i] = slab_pages(i) - before[i];
	mt_note("slab pages: %lld on node 0, %lld on node 1", more[0], more[1]);
	MT_NEED(more[0] + more[1] > 500, "hardly any slab pages");
	MT_ASSERT(more[1] * 10 > (more[0] + more[1]) * 7 &&
		  more[1] * 10 < (more[0] + more[1]) * 9,
		  "not four fifths of them on node 1");
	return MT_PASS;
}

/* ---- hugetlb ---- */

static int pool(int node, const char *pages)
{
	char file[128];

	snprintf(file, sizeof(file),
		 "/sys/devices/system/node/node%d/hugepages/hugepages-2048kB/nr_hugepages",
		 node);
	return mt_write(file, pages) || mt_read_ll(file) != atoi(pages);
}

static int hugetlb_steps(void)
{
	enum { N = 8 };
	long per = MP_HUGE / MP_PAGE;
	char *p = mmap(NULL, N * MP_HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE |
		       MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	int where[N], i;

	MT_ASSERT(p != MAP_FAILED, "mmap: %s", strerror(errno));
	mp_old_bind(p, N * MP_HUGE, MPOL_BIND, 1, 0);
	for (i = 0; i < N; i++)
		p[i * MP_HUGE] = i;
	MT_ASSERT(mp_count(p, N * MP_HUGE, 0) == N * per, "not on node 0");
	MT_ASSERT(!mp_bind(p, N * MP_HUGE, "0:1,1:3", MP_MF_REBALANCE |
			   MPOL_MF_STRICT), "rebalance");
	MT_ASSERT(mp_count(p, N * MP_HUGE, 1) == 6 * per, "%ld pages on node 1",
		  mp_count(p, N * MP_HUGE, 1) / per);
	for (i = 0; i < N; i++) {
		where[i] = mp_where(p + i * MP_HUGE);
		MT_ASSERT(p[i * MP_HUGE] == i, "page %d is another one", i);
	}
	/* It is on the node that faults chose: the second time nothing moves. */
	mp_bind(p, N * MP_HUGE, "0:1,1:3", MP_MF_REBALANCE);
	madvise(p, N * MP_HUGE, MADV_DONTNEED);
	for (i = 0; i < N; i++) {
		p[i * MP_HUGE] = 1;
		MT_ASSERT(mp_where(p + i * MP_HUGE) == where[i],
			  "page %d was on %d, a fault puts it on %d", i,
			  where[i], mp_where(p + i * MP_HUGE));
	}
	munmap(p, N * MP_HUGE);
	return MT_PASS;
}

static int hugetlb(void)
{
	int ret = MT_SKIP;

	if (pool(0, "8") || pool(1, "8"))
		mt_note("no hugetlb pages");
	else
		ret = hugetlb_steps();
	mt_write("/proc/sys/vm/nr_hugepages", "0");
	return ret;
}

/* The pool of one node is empty: other nodes are used, and no process is killed. */
static int hugetlb_short(void)
{
	enum { N = 4 };
	int ret = MT_PASS, i;
	char *p;

	MT_NEED(!pool(0, "4") && !pool(1, "0"), "no hugetlb pages");
	p = mmap(NULL, N * MP_HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE |
		 MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	MT_ASSERT(p != MAP_FAILED, "mmap: %s", strerror(errno));
	mp_bind(p, N * MP_HUGE, "0:1,1:3", 0);
	for (i = 0; i < N; i++)
		p[i * MP_HUGE] = 1;
	if (mp_count(p, N * MP_HUGE, 0) != N * (long)(MP_HUGE / MP_PAGE)) {
		mt_note("not all on node 0");
		ret = MT_FAIL;
	}
	munmap(p, N * MP_HUGE);
	mt_write("/proc/sys/vm/nr_hugepages", "0");
	return ret;
}

/* ---- a full node ---- */

/* Leave about 96 MiB of node 1 free: more than its watermarks, which reserve some. */
static bool fill_node(void)
{
	long long free = mt_node_free(1), pages;
	char text[16];

	pages = (free - (96LL << 20)) / (long long)MP_HUGE;
	if (pages <= 0)
		return false;
	snprintf(text, sizeof(text), "%lld", pages);
	pool(1, text);
	free = mt_node_free(1);
	mt_note("%lld MiB are left of node 1", free >> 20);
	return free < 112LL << 20;
}

static int full_steps(void)
{
	size_t size = 256UL << 20;
	char *p = mp_map(size), line[1024], *field;
	long on[2] = { 0 };
	int i;

	mp_bind(p, size, "0:1,1:1", 0);
	mp_touch(p, size);
	MT_ASSERT(mp_numa_maps(p, line, sizeof(line)), "no line");
	for (i = 0; i < 2; i++) {
		field = strstr(line, i ? " N1=" : " N0=");
		on[i] = field ? strtol(field + 4, NULL, 10) : 0;
	}
	mt_note("%ld pages on node 0, %ld on node 1", on[0], on[1]);
	MT_ASSERT(on[0] + on[1] == (long)(size / MP_PAGE), "some are missing");
	MT_ASSERT(on[0] > on[1] && on[1] > 0, "node 1 was not full");
	return MT_PASS;
}

static int full_node(void)
{
	int ret = MT_SKIP;

	if (fill_node())
		ret = full_steps();
	else
		mt_note("node 1 cannot be filled");
	mt_write("/proc/sys/vm/nr_hugepages", "0");
	return ret;
}

/* ---- other code that moves pages ---- */

/* Hint faults do not undo a layout. */
static int balancing(void)
{
	static const char knob[] = "/proc/sys/kernel/numa_balancing";
	static const char period[] = "/sys/kernel/debug/sched/numa_balancing/scan_period_min_ms";
	long long until = mt_now_ms() + 1500;
	char *p = mp_map(SIZE);
	bool ok;

	MT_NEED(!mt_write(knob, "1"), "no NUMA balancing");
	mt_write(period, "50");
	mp_bind(p, SIZE, "0:1,1:3", 0);
	while (mt_now_ms() < until)
		mp_touch(p, SIZE);
	ok = laid_out(p, SIZE, "0:1,1:3");
	mt_write(period, "1000");
	mt_write(knob, "0");
	MT_ASSERT(ok, "see above");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		{ "A3 private memory out to swap and in", swap_private },
		{ "A3 shared memory out to swap and in", swap_shared, 0 },
		{ "C16 tmpfs mounted with weighted interleave", tmpfs, 0 },
		{ "A6 E22 folios of 64 KiB, faulted and rebalanced",
		  large_folios },
		{ "A6 collapse goes where most of it was", collapse, 0 },
		{ "A4 slab", slab, 0 },
		{ "E22 hugetlb pages, rebalanced", hugetlb, 0 },
		{ "A7 a hugetlb pool that is empty", hugetlb_short, 0 },
		{ "A8 a node that is full", full_node, 0 },
		{ "E23 NUMA balancing leaves it alone", balancing, 0 },
	};

	return mp_main(checks, ARRAY_LEN(checks));
}
