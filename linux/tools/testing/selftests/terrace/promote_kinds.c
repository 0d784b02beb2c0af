// SPDX-License-Identifier: GPL-2.0
/*
 * Promotion of every kind of memory that an application can have, seen from
 * where its pages are and from the counters.
 *
 * lab: topology=dram-cxl timeout=600s debug=yes
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mtier_util.h"

#define SIZE	(8 * MT_MB)

static struct mt_snap before;

/* Use memory that is on the slow node until all of it has left. */
static int promote(char *p, size_t size)
{
	int fast = mt_fast_node();
	struct mt_toucher t;
	bool moved;
	size_t off;

	MT_ASSERT(p, "no such memory on the slow node");
	mt_fast();
	mt_snap(&before);
	mt_on();
	mt_touch_start(&t, p, size);
	moved = MT_WAIT(mt_all_on(p, size, fast), MT_MOVE_MS);
	mt_touch_stop(&t);
	if (!moved) {
		mt_note_where("after the time", p, size);
		mt_note_since(&before);
		return MT_FAIL;
	}
	for (off = 0; off < size; off += MT_PAGE)
		MT_DATA(*(size_t *)(p + off) == off + 1,
			"page %zu has another content", off / MT_PAGE);
	return MT_PASS;
}

/* What was promoted counts as @kind and in pgpromote_success. */
static int counted(const char *kind, size_t size)
{
	long long pages = size / MT_PAGE;
	long long kind_pages = mt_since(&before, kind);
	long long all = mt_since(&before, "pgpromote_success");

	MT_ASSERT(kind_pages >= pages, "%s counts %lld of %lld pages", kind,
		  kind_pages, pages);
	MT_ASSERT(all >= pages, "pgpromote_success counts %lld of %lld", all,
		  pages);
	return MT_PASS;
}

static int anon(void)
{
	int ret = promote(mt_place(SIZE, mt_slow_node()), SIZE) ?:
		counted("mtier_promoted_anon", SIZE);

	/* All but what is in per-CPU batches of LRU lists, and that is less. */
	MT_ASSERT(ret || mt_since(&before, "mtier_fast_moved") >=
			 (long long)(SIZE / MT_PAGE / 2),
		  "%lld moved by address space",
		  mt_since(&before, "mtier_fast_moved"));
	return ret;
}

static int anon_one_by_one(void)
{
	int ret;

	mt_set("promote/move_fast", 0);
	ret = promote(mt_place(SIZE, mt_slow_node()), SIZE) ?:
		counted("mtier_promoted_anon", SIZE);
	MT_ASSERT(ret || !mt_since(&before, "mtier_fast_moved"),
		  "%lld moved by address space",
		  mt_since(&before, "mtier_fast_moved"));
	return ret;
}

static int thp(void)
{
	int slow = mt_slow_node();
	char *p = mt_place_thp(4 * MT_HUGE, slow);
	int ret = promote(p, 4 * MT_HUGE) ?:
		counted("mtier_promoted_anon", 4 * MT_HUGE);
	int i;

	for (i = 0; !ret && i < 4; i++)
		MT_ASSERT(mt_is_thp(p + i * MT_HUGE), "%d was split", i);
	MT_ASSERT(ret || mt_since(&before, "mtier_promoted_thp") >= 4,
		  "mtier_promoted_thp +%lld",
		  mt_since(&before, "mtier_promoted_thp"));
	return ret;
}

/* A huge page that is mapped by single entries. */
static int pte_mapped_thp(void)
{
	char *p = mt_place_thp(2 * MT_HUGE, mt_slow_node());
	char *gap;

	MT_ASSERT(p, "no huge pages on the slow node");
	/* Another protection for one page splits the huge mapping only. */
	gap = p + MT_HUGE / 2;
	MT_ASSERT(!mprotect(gap, MT_PAGE, PROT_READ), "mprotect");
	MT_ASSERT(!mprotect(gap, MT_PAGE, PROT_READ | PROT_WRITE), "mprotect");
	MT_NEED(mt_smaps_kb(p, "AnonHugePages") < (long)(2 * MT_HUGE >> 10) &&
		mt_is_thp(p), "the mapping was not split");
	return promote(p, 2 * MT_HUGE);
}

static int mthp(void)
{
	const char *knob =
		"/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled";
	char *p = mt_map_aligned(SIZE);
	size_t off;
	int ret;

	MT_NEED(!mt_write(knob, "always"), "this kernel has no 64 KiB folios");
	mt_bind_to(mt_slow_node());
	for (off = 0; off < SIZE; off += MT_PAGE)
		*(size_t *)(p + off) = off + 1;
	mt_bind_default();
	MT_NEED(mt_is_thp(p), "no large folio was given");
	ret = promote(p, SIZE);
	mt_write(knob, "never");
	return ret;
}

static int shmem(void)
{
	int fd = memfd_create("mtier", MFD_CLOEXEC);

	return promote(mt_place_file(fd, SIZE, mt_slow_node(),
				     PROT_READ | PROT_WRITE), SIZE) ?:
		counted("mtier_promoted_shmem", SIZE);
}

static int anon_shared(void)
{
	char *p;
	size_t off;

	mt_bind_to(mt_slow_node());
	p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		 -1, 0);
	for (off = 0; off < SIZE; off += MT_PAGE)
		*(size_t *)(p + off) = off + 1;
	mt_bind_default();
	return promote(p, SIZE) ?:
		counted("mtier_promoted_shmem", SIZE);
}

static int file(int prot)
{
	const char *dir = mt_ext4();
	char path[160];
	int fd;

	MT_NEED(dir, "no ext4 on a loop device");
	snprintf(path, sizeof(path), "%s/file.%d", dir, getpid());
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	MT_ASSERT(fd >= 0, "cannot make a file");
	return promote(mt_place_file(fd, SIZE, mt_slow_node(), prot), SIZE) ?:
		counted("mtier_promoted_file", SIZE);
}

static int file_written(void)
{
	return file(PROT_READ | PROT_WRITE);
}

/* NUMA balancing never sees these: no hint fault for read-only file maps. */
static int file_read(void)
{
	return file(PROT_READ);
}

/* Huge, in page tables that hold many VMAs, at addresses far apart. */
static int many_vmas(void)
{
	enum { N = 64 };
	size_t each = SIZE / N;
	char *p = mt_place(SIZE, mt_slow_node());
	int i;

	for (i = 0; p && i < N; i += 2)
		mprotect(p + i * each, each, PROT_READ);
	return promote(p, SIZE);
}

static int mlocked(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	int ret;

	MT_ASSERT(p && !mlock(p, SIZE), "mlock");
	ret = promote(p, SIZE);
	MT_ASSERT(ret || mt_smaps_kb(p, "Locked") == (long)(SIZE >> 10),
		  "%ld KiB are still locked", mt_smaps_kb(p, "Locked"));
	return ret;
}

static void *outlives(void *p)
{
	_exit(p && mt_moves_to(p, MT_MB, mt_fast_node(), MT_MOVE_MS) ? 0 : 1);
}

static void leaderless(void *arg)
{
	pthread_t thread;

	(void)arg;
	pthread_create(&thread, NULL, outlives, mt_place(MT_MB,
							 mt_slow_node()));
	pthread_exit(NULL);
}

/* Whose cpuset and policy count, when the first thread has ended? */
static int no_leader(void)
{
	pid_t pid;

	mt_fast();
	pid = mt_spawn(leaderless, NULL);
	mt_nap(300);
	mt_on();
	MT_ASSERT(!mt_reap(pid), "its memory stayed");
	return MT_PASS;
}

/* With the multi-generational LRU lists in charge of reclaim. */
static int mglru(void)
{
	const char *knob = "/sys/kernel/mm/lru_gen/enabled";
	int ret;

	MT_NEED(!mt_write(knob, "y"), "no MGLRU");
	ret = promote(mt_place(SIZE, mt_slow_node()), SIZE) ?:
		counted("mtier_promoted_anon", SIZE);
	mt_off();
	mt_write(knob, "n");
	return ret;
}

/* All kinds at once: what counts by kind adds up to the generic counter. */
static int adds_up(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	long long kinds, all;
	int ret = promote(p, SIZE);

	mt_off();
	kinds = mt_since(&before, "mtier_promoted_anon") +
		mt_since(&before, "mtier_promoted_file") +
		mt_since(&before, "mtier_promoted_shmem");
	all = mt_since(&before, "pgpromote_success");
	MT_ASSERT(ret || kinds == all,
		  "by kind %lld, pgpromote_success %lld", kinds, all);
	return ret;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("A10 O1 anonymous pages are promoted and counted", anon),
		MT_CHECK("A10 O1 so they are by migrate_pages()", anon_one_by_one),
		MT_CHECK("A10 M7 a huge page is promoted whole", thp),
		MT_CHECK("A10 a huge page mapped by small entries is promoted", pte_mapped_thp),
		MT_CHECK("A10 a large folio of 64 KiB is promoted", mthp),
		MT_CHECK("A10 shmem is promoted and counted", shmem),
		MT_CHECK("A10 shared anonymous memory is promoted", anon_shared),
		MT_CHECK("A10 pages of a mapped file are promoted and counted", file_written),
		MT_CHECK("A10 so are those of a file mapped read-only", file_read),
		MT_CHECK("A10 many mappings in one page table", many_vmas),
		MT_CHECK("M9 mlocked memory is promoted and stays locked", mlocked),
		MT_CHECK("A10 memory of a process whose first thread has ended",
			 no_leader),
		MT_CHECK("A11 M9 with MGLRU on", mglru),
		MT_CHECK("O1 O2 the kinds add up to pgpromote_success", adds_up),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
