// SPDX-License-Identifier: GPL-2.0
/*
 * Weighted interleave: where pages go, for every kind of memory that has a
 * policy, against a model that knows only weights and indexes.
 *
 * lab: topology=dram-cxl timeout=60s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mempolicy2_util.h"

#define PAGES	600
#define SIZE	(PAGES * MP_PAGE)

static const char * const ratios[] = {
	"0:5,1:1", "0:1,1:5", "0:9,1:1", "0:255,1:1", "0:255,1:255", "0:1,1:1",
	"1:7",
};

/* Private memory is laid out by its address. */
static unsigned long index_of(const void *p)
{
	return (uintptr_t)p / MP_PAGE;
}

static bool laid_out(const void *p, size_t size, const char *weights)
{
	return mp_follows(p, size, MP_PAGE, index_of(p), weights);
}

static int task_policy(void)
{
	size_t i;
	char *p;

	for (i = 0; i < ARRAY_LEN(ratios); i++) {
		p = mp_map(SIZE);
		MT_ASSERT(!mp_set(ratios[i]), "set %s", ratios[i]);
		mp_touch(p, SIZE);
		mp_set(NULL);
		MT_ASSERT(laid_out(p, SIZE, ratios[i]), "%s", ratios[i]);
		munmap(p, SIZE);
	}
	return MT_PASS;
}

static int range_policy(void)
{
	size_t i, off;
	char *p;

	for (i = 0; i < ARRAY_LEN(ratios); i++) {
		p = mp_map(SIZE);
		MT_ASSERT(!mp_bind(p, SIZE, ratios[i], 0), "bind %s",
			  ratios[i]);
		/* In any order: index decides, not time. */
		for (off = 0; off < PAGES; off++)
			p[off * 7 % PAGES * MP_PAGE] = 1;
		MT_ASSERT(laid_out(p, SIZE, ratios[i]), "%s", ratios[i]);
		madvise(p, SIZE, MADV_DONTNEED);
		mp_touch(p, SIZE);
		MT_ASSERT(laid_out(p, SIZE, ratios[i]), "again %s", ratios[i]);
		munmap(p, SIZE);
	}
	return MT_PASS;
}

/* Whole rounds are exact, and a range wins over the task. */
static int whole_rounds(void)
{
	char *p = mp_map(SIZE);

	mp_set("0:1,1:5");
	mp_bind(p, SIZE, "0:5,1:1", 0);
	mp_touch(p, SIZE);
	mp_set(NULL);
	MT_ASSERT(mp_count(p, SIZE, 0) == 500 && mp_count(p, SIZE, 1) == 100,
		  "%ld on 0, %ld on 1", mp_count(p, SIZE, 0),
		  mp_count(p, SIZE, 1));
	return MT_PASS;
}

/* Weight 0 follows the global weight at the moment of the fault. */
static int follows_global(void)
{
	char *p = mp_map(SIZE);
	bool ok;

	MT_ASSERT(!mp_bind(p, SIZE, "0:2,1:0", 0), "bind");
	mt_write(MP_DIR "node1", "3");
	mt_write(MP_DIR "node0", "100");
	mp_touch(p, SIZE);
	ok = laid_out(p, SIZE, "0:2,1:3");
	madvise(p, SIZE, MADV_DONTNEED);
	mt_write(MP_DIR "node1", "6");
	mp_touch(p, SIZE);
	ok &= laid_out(p, SIZE, "0:2,1:6");
	/* A policy without weights follows the global weights. */
	mp_bind(p, SIZE, "0,1", 0);
	madvise(p, SIZE, MADV_DONTNEED);
	mt_write(MP_DIR "node0", "4");
	mp_touch(p, SIZE);
	ok &= laid_out(p, SIZE, "0:4,1:6");
	/* A policy with weights does not follow the global ones. */
	mp_bind(p, SIZE, "0:1,1:2", 0);
	madvise(p, SIZE, MADV_DONTNEED);
	mp_touch(p, SIZE);
	ok &= laid_out(p, SIZE, "0:1,1:2");
	mt_write(MP_DIR "node0", "1");
	mt_write(MP_DIR "node1", "1");
	MT_ASSERT(ok, "see above");
	return MT_PASS;
}

static int huge_pages(void)
{
	enum { N = 12 };
	char *p = mp_map(N * MP_HUGE);
	size_t i;

	madvise(p, N * MP_HUGE, MADV_HUGEPAGE);
	mp_bind(p, N * MP_HUGE, "0:2,1:1", 0);
	for (i = 0; i < N; i++)
		p[i * MP_HUGE] = 1;
	for (i = 0; i < N; i++) {
		int want = mp_expected((uintptr_t)p / MP_HUGE + i, "0:2,1:1");

		MT_NEED(mp_where(p + i * MP_HUGE + MP_PAGE) >= 0,
			"no huge page");
		MT_ASSERT(mp_where(p + i * MP_HUGE) == want, "page %zu on %d",
			  i, mp_where(p + i * MP_HUGE));
	}
	return MT_PASS;
}

static int hugetlb(void)
{
	enum { N = 8 };
	char file[96];
	int ret = MT_PASS;
	size_t i;
	char *p;

	for (i = 0; i < 2; i++) {
		snprintf(file, sizeof(file),
			 "/sys/devices/system/node/node%zu/hugepages/hugepages-2048kB/nr_hugepages",
			 i);
		MT_NEED(!mt_write(file, "8") && mt_read_ll(file) == 8,
			"no hugetlb pages");
	}
	p = mmap(NULL, N * MP_HUGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	MT_ASSERT(p != MAP_FAILED, "mmap");
	mp_bind(p, N * MP_HUGE, "0:1,1:3", 0);
	for (i = 0; i < N; i++)
		p[i * MP_HUGE] = 1;
	/* 1:3 of 8 pages, wherever the round begins */
	for (i = 0; i < 2; i++) {
		long n = mp_count(p, N * MP_HUGE, i) / (MP_HUGE / MP_PAGE);

		if (n != (i ? 6 : 2)) {
			mt_note("%ld on node %zu", n, i);
			ret = MT_FAIL;
		}
	}
	munmap(p, N * MP_HUGE);
	mt_write("/proc/sys/vm/nr_hugepages", "0");
	return ret;
}

/* A file in memory is laid out by its number and the offset. */
static bool file_laid_out(int fd, const char *p, size_t from, size_t size,
			  const char *weights)
{
	struct stat st;

	fstat(fd, &st);
	return mp_follows(p + from, size, MP_PAGE,
			  st.st_ino + from / MP_PAGE, weights);
}

static int use_shared(void *arg)
{
	mp_touch(arg, SIZE);
	return 0;
}

static int shared_file(void)
{
	int fd = memfd_create("mempolicy2", MFD_CLOEXEC);
	size_t third = SIZE / 3;
	struct mp_policy got;
	char *p;

	ftruncate(fd, SIZE);
	p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	mp_bind(p, SIZE, "0:5,1:1", 0);
	/* Cut it: both sides keep their weights. */
	mp_bind(p + third, third, "0:1,1:2", 0);
	MT_ASSERT(!mp_get(&got, p, MPOL_F_ADDR) && mp_is(&got, "0:5,1:1"),
		  "left part");
	MT_ASSERT(!mp_get(&got, p + 2 * third, MPOL_F_ADDR) &&
		  mp_is(&got, "0:5,1:1"), "right part");
	/* The policy belongs to the file: it outlives the mapping. */
	munmap(p, SIZE);
	p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	mp_in_child(use_shared, p);
	mp_touch(p, SIZE);
	MT_ASSERT(file_laid_out(fd, p, 0, third, "0:5,1:1") &&
		  file_laid_out(fd, p, third, third, "0:1,1:2") &&
		  file_laid_out(fd, p, 2 * third, third, "0:5,1:1"),
		  "see above");
	return MT_PASS;
}

static int sysv(void)
{
	int id = shmget(IPC_PRIVATE, SIZE, IPC_CREAT | 0600);
	struct mp_policy got;
	char *p;

	MT_NEED(id >= 0, "shmget: %s", strerror(errno));
	p = shmat(id, NULL, 0);
	shmctl(id, IPC_RMID, NULL);
	MT_ASSERT(!mp_bind(p, SIZE, "0:5,1:1", 0), "bind");
	mp_in_child(use_shared, p);
	mp_touch(p, SIZE);
	MT_ASSERT(!mp_get(&got, p, MPOL_F_ADDR) && mp_is(&got, "0:5,1:1"),
		  "policy");
	MT_ASSERT(mp_count(p, SIZE, 0) == 500, "%ld on 0",
		  mp_count(p, SIZE, 0));
	return MT_PASS;
}

/* mremap() keeps policy and index of a mapping, so later faults continue the order. */
static int moved_mapping(void)
{
	char *p = mp_map(SIZE), *to = mp_map(SIZE), *q;
	unsigned long first = index_of(p);

	mp_bind(p, SIZE, "0:5,1:1", 0);
	mp_touch(p, SIZE / 2);
	q = mremap(p, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	MT_ASSERT(q == to, "mremap");
	mp_touch(q, SIZE);
	MT_ASSERT(mp_follows(q, SIZE, MP_PAGE, first, "0:5,1:1"), "moved");
	return MT_PASS;
}

static int copied(void *arg)
{
	char *p = arg;

	mp_touch(p, SIZE);
	return laid_out(p, SIZE, "0:5,1:1") ? MT_PASS : MT_FAIL;
}

/* Copies of pages after fork go where the pages were. */
static int copy_on_write(void)
{
	char *p = mp_map(SIZE);

	mp_bind(p, SIZE, "0:5,1:1", 0);
	mp_touch(p, SIZE);
	MT_ASSERT(!mp_in_child(copied, p), "in the child");
	return MT_PASS;
}

static int numa_maps(void)
{
	char *p = mp_map(SIZE), line[1024];

	mp_bind(p, SIZE, "0:5,1:1", 0);
	mp_touch(p, SIZE);
	MT_ASSERT(mp_numa_maps(p, line, sizeof(line)), "no line");
	MT_ASSERT(strstr(line, " weighted interleave:0-1 anon=600 dirty=600 "),
		  "old fields: %s", line);
	MT_ASSERT(strstr(line, " kernelpagesize_kB=4 weights=0:5,1:1"),
		  "weights: %s", line);
	mp_bind(p, SIZE, "0,1", 0);
	mp_numa_maps(p, line, sizeof(line));
	MT_ASSERT(!strstr(line, "weights="), "global ones: %s", line);
	mp_bind(p, SIZE, NULL, 0);
	mp_set("0:0,1:7");
	mp_numa_maps(p, line, sizeof(line));
	mp_set(NULL);
	MT_ASSERT(strstr(line, " weights=0:0,1:7"), "task's: %s", line);
	return MT_PASS;
}

static int interleave_hit(void)
{
	long long before[2], after[2];
	char *p = mp_map(SIZE);
	int i;

	mp_bind(p, SIZE, "0:5,1:1", 0);
	for (i = 0; i < 2; i++)
		before[i] = mp_node_stat(i, "interleave_hit");
	mp_touch(p, SIZE);
	for (i = 0; i < 2; i++)
		after[i] = mp_node_stat(i, "interleave_hit");
	/* Per-CPU counters are folded now and then only. */
	MT_ASSERT(after[0] - before[0] >= 250 && after[1] - before[1] >= 20,
		  "%lld and %lld hits", after[0] - before[0],
		  after[1] - before[1]);
	return MT_PASS;
}

/* Page cache has no index: the task's own count decides. */
static int page_cache(void)
{
	enum { N = 1000 };
	int fd = open("/dev/ram7", O_RDONLY | O_CLOEXEC);
	static char buf[MP_PAGE];
	long on, i;
	char *p;

	MT_NEED(fd >= 0, "no /dev/ram7");
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	mp_set("0:1,1:4");
	for (i = 0; i < N; i++)
		if (pread(fd, buf, MP_PAGE, i * MP_PAGE) != (ssize_t)MP_PAGE)
			break;
	mp_set(NULL);
	MT_NEED(i == N, "only %ld pages", i);
	p = mmap(NULL, N * MP_PAGE, PROT_READ, MAP_SHARED, fd, 0);
	for (i = 0; i < N; i++)
		(void)*(volatile char *)(p + i * MP_PAGE);
	on = mp_count(p, N * MP_PAGE, 1);
	MT_ASSERT(on >= N * 78 / 100 && on <= N * 82 / 100,
		  "%ld of %d pages on node 1", on, N);
	return MT_PASS;
}

/* Pages of the largest vmalloc area of zram, its table, by node; false without any */
static bool zram_table(long *on0, long *on1)
{
	FILE *f = fopen("/proc/vmallocinfo", "re");
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		char *zero = strstr(line, " N0="), *one = strstr(line, " N1=");
		long here0 = zero ? strtol(zero + 4, NULL, 10) : 0;
		long here1 = one ? strtol(one + 4, NULL, 10) : 0;

		if (!strstr(line, "zram") && !strstr(line, "disksize_store"))
			continue;
		if (here0 + here1 <= *on0 + *on1)
			continue;
		*on0 = here0;
		*on1 = here1;
	}
	if (f)
		fclose(f);
	return *on0 + *on1 > 0;
}

static int bulk_with(const char *own, long share0, long share1)
{
	long on0 = 0, on1 = 0, want0;
	bool found;

	mp_set(own);
	mt_write("/sys/block/zram0/disksize", "512M");
	mp_set(NULL);
	found = zram_table(&on0, &on1);
	mt_write("/sys/block/zram0/reset", "1");
	MT_NEED(found && on0 + on1 > 400, "no zram table of some size");
	want0 = (on0 + on1) * share0 / (share0 + share1);
	/* Page tables and slabs also take turns of the interleaving. */
	MT_ASSERT(labs(on0 - want0) < 16 + share0 + share1,
		  "%s: %ld on 0, %ld on 1", own, on0, on1);
	return MT_PASS;
}

/* The bulk allocator, of vmalloc: own weights, and global ones never set. */
static int bulk(void)
{
	int ret = bulk_with("0:5,1:1", 5, 1);

	if (!ret)
		ret = bulk_with("0:1,1:6", 1, 6);
	if (!ret)
		ret = bulk_with("0:3,1:0", 3, 1);
	return ret ? ret : bulk_with("0,1", 1, 1);
}

int main(void)
{
	static const struct mt_check checks[] = {
		{ "A1 A2 private memory, policy of the task", task_policy },
		{ "A1 A2 A3 private memory, policy of the range", range_policy,
		  0 },
		{ "A1 B11 whole rounds are exact, the range wins",
		  whole_rounds, 0 },
		{ "B10 weight 0 follows the global weight", follows_global, 0 },
		{ "A6 huge pages", huge_pages, 0 },
		{ "A7 hugetlb pages", hugetlb, 0 },
		{ "C16 a shared file, cut, unmapped, used by another process",
		  shared_file, 0 },
		{ "C16 System V shared memory", sysv, 0 },
		{ "A3 a mapping that was moved", moved_mapping, 0 },
		{ "A3 copies after fork", copy_on_write, 0 },
		{ "C17 numa_maps", numa_maps, 0 },
		{ "A9 interleave_hit", interleave_hit, 0 },
		{ "A4 page cache", page_cache, 0 },
		{ "A5 the bulk allocator", bulk, 0 },
	};

	return mp_main(checks, ARRAY_LEN(checks));
}
