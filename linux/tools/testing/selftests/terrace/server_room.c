// SPDX-License-Identifier: GPL-2.0
/*
 * Page cache that no process maps fills DRAM. It makes room for hot pages if it is not used:
 * page cache of a file that was read once, and tmpfs. Page cache that is read again and
 * again stays.
 *
 * Time counts instructions.
 *
 * lab: topology=dram-cxl-small-dram icount=2 timeout=600s debug=no
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "burst_util.h"

#define DEMOTION	"/sys/kernel/mm/numa/demotion_enabled"
#define LRU_GEN		"/sys/kernel/mm/lru_gen/enabled"
#define HOT		(48 * MT_MB)
#define PAGES(size)	((long)((size) / MT_PAGE))
/*
 * Limit for 90 % of the hot pages. NUMA balancing (mode 2) finds 70 to 95 % in 15 s; an
 * eighth of them if they are huge.
 */
#define FOUND_MS	15000
/* Limit if other threads use the CPUs. NUMA balancing needs 9 s, or more than 15. */
#define BESIDE_MS	30000
/* More than there is of DRAM. */
#define CACHE		(600 * MT_MB)
#define STEP		MT_MB

static char buf[STEP];
static struct mt_snap before;

/* Make a file without blocks: pages read from it are clean page cache. */
static int sparse_file(const char *name, size_t size)
{
	const char *dir = mt_ext4();
	char path[256];
	int fd;

	if (!dir)
		return -1;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, size))
		return -1;
	unlink(path);
	return fd;
}

static void read_part(int fd, off_t from, size_t size)
{
	off_t off;

	for (off = from; off < from + (off_t)size; off += STEP)
		if (pread(fd, buf, STEP, off) != (ssize_t)STEP)
			break;
}

/* Read a file until DRAM is full. Returns the number of bytes. */
static size_t fill_by_reads(int fd, off_t from, size_t most)
{
	size_t done = 0;

	mt_set_policy(MPOL_PREFERRED, 1UL << mt_fast_node());
	while (done < most && mt_node_room(mt_fast_node()) > 64) {
		read_part(fd, from + done, STEP);
		done += STEP;
	}
	mt_bind_default();
	return done;
}

/* Count the pages of a file that are on a node, although nobody has mapped them. */
static long cached_on(int fd, off_t from, size_t size, int node)
{
	char *p = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, from);
	long on;

	if (p == MAP_FAILED)
		return -1;
	madvise(p, size, MADV_POPULATE_READ);
	on = mt_pages_on(p, size, node);
	munmap(p, size);
	return on;
}

/* Get the time until 90 % of the memory is in DRAM; -1 after the limit. */
static long long found_ms(char *p, size_t size, unsigned int limit_ms)
{
	long long start = mt_now_ms();

	if (!MT_WAIT(mt_pages_on(p, size, mt_fast_node()) > PAGES(size) * 9 / 10,
		     limit_ms))
		return -1;
	return mt_now_ms() - start;
}

static void tell(const char *what, char *p, long long took)
{
	char why[64] = "";

	mt_read(MT_DIR "place/why", why, sizeof(why));
	mt_note("%s: %ld of %ld pages, 90 %% after %lld ms; why %s, demoted %lld, kswapd %lld",
		what, mt_pages_on(p, HOT, mt_fast_node()), PAGES(HOT), took, why,
		mt_since(&before, "mtier_demoted"), mt_since(&before, "pgdemote_kswapd"));
}

static int full_of(int fd, size_t cached, bool huge, const char *what)
{
	long long took, unmapped;
	struct mt_toucher t;
	char *p;

	MT_NEED(fd >= 0, "no file");
	MT_NEED(!mt_write(DEMOTION, "1"), "no demotion");
	p = huge ? mt_place_thp(HOT, mt_slow_node()) : mt_place(HOT, mt_slow_node());
	MT_ASSERT(p, "no memory on the slow node");
	if (!cached)
		cached = fill_by_reads(fd, 0, CACHE);
	MT_ASSERT(cached < CACHE, "DRAM cannot be filled");
	mt_note("%s: %zu MiB, room for %ld pages", what, cached / MT_MB,
		mt_node_room(mt_fast_node()));
	mt_set("scan/delay_ms", 0);
	mt_snap(&before);
	mt_touch_start(&t, p, HOT);
	mt_on();
	took = found_ms(p, HOT, FOUND_MS);
	mt_touch_stop(&t);
	tell(what, p, took);
	/* kswapd may run still, since the file was read: it demotes the same pages. */
	unmapped = mt_burst_value("unmapped") + mt_since(&before, "pgdemote_kswapd");
	mt_off();
	mt_note_since(&before);
	close(fd);
	MT_ASSERT(took >= 0, "hot pages did not get in");
	MT_ASSERT(unmapped > PAGES(HOT) / 2, "%lld pages that nobody maps were demoted", unmapped);
	return MT_PASS;
}

static int read_once(void)
{
	return full_of(sparse_file("once", CACHE), 0, false, "read once");
}

static int huge_pages(void)
{
	return full_of(sparse_file("huge", CACHE), 0, true, "huge pages");
}

/* Write to a file in memory until DRAM is full. Returns its size. */
static size_t fill_memfd(int fd)
{
	size_t off;

	mt_set_policy(MPOL_PREFERRED, 1UL << mt_fast_node());
	for (off = 0; mt_node_room(mt_fast_node()) > 64 && off < CACHE; off += STEP)
		if (pwrite(fd, buf, STEP, off) != (ssize_t)STEP)
			break;
	mt_bind_default();
	return off;
}

static int tmpfs(void)
{
	int fd = memfd_create("unmapped", MFD_CLOEXEC);

	MT_ASSERT(fd >= 0, "no memfd");
	return full_of(fd, fill_memfd(fd), false, "tmpfs");
}

#define SHMEM_HUGE	"/sys/kernel/mm/transparent_hugepage/shmem_enabled"

/* The page cache is in folios that are larger than the room that a batch lacks. */
static int tmpfs_huge(void)
{
	int ret;

	MT_NEED(!mt_write(SHMEM_HUGE, "force"), "no huge pages in shared memory");
	ret = tmpfs();
	mt_write(SHMEM_HUGE, "never");
	return ret;
}

/* ---- page cache that may not leave ---- */

/*
 * Fill DRAM with a file that is not used. @hold keeps it there: no page of it leaves until
 * @let.
 */
static int kept(int fd, size_t cached, int (*hold)(int fd, size_t size), void (*let)(void))
{
	struct mt_toucher t;
	long long held, freed, took;
	bool bursts;
	char *p;

	MT_NEED(fd >= 0, "no file");
	MT_NEED(!mt_write(DEMOTION, "1"), "no demotion");
	p = mt_place(HOT, mt_slow_node());
	MT_ASSERT(p, "no memory on the slow node");
	if (!cached)
		cached = fill_by_reads(fd, 0, CACHE);
	MT_ASSERT(cached < CACHE, "DRAM cannot be filled");
	MT_NEED(!hold(fd, cached), "it cannot be held");
	mt_set("scan/delay_ms", 0);
	mt_snap(&before);
	mt_touch_start(&t, p, HOT);
	mt_on();
	/* In this time most of it leaves if it may. */
	mt_nap(5000);
	bursts = mt_bursts_pass(4);
	held = mt_burst_value("unmapped");
	let();
	took = found_ms(p, HOT, FOUND_MS);
	freed = mt_burst_value("unmapped");
	mt_touch_stop(&t);
	tell("kept", p, took);
	mt_off();
	mt_note("while it was kept %lld pages that nobody maps left, then %lld", held,
		freed - held);
	close(fd);
	MT_ASSERT(bursts, "no bursts");
	/* Of the system's own files. */
	MT_ASSERT(held < PAGES(HOT) / 8, "%lld pages left", held);
	MT_ASSERT(took >= 0 && freed - held > PAGES(HOT) / 2, "the rest did not leave later");
	return MT_PASS;
}

static struct mt_cgroup protected;

static int protect(int fd, size_t size)
{
	(void)fd;
	(void)size;
	return mt_cgroup_write(&protected, "memory.low", "max");
}

static void unprotect(void)
{
	mt_cgroup_write(&protected, "memory.low", "0");
}

/* Page cache of a cgroup below its memory.low, as reclaim leaves it alone. */
static int memory_low(void)
{
	int fd = sparse_file("low", CACHE), ret;
	size_t cached;

	MT_NEED(fd >= 0, "no file");
	MT_NEED(!mt_cgroup_make(&protected, "protected", "+memory"), "no memory cgroup");
	mt_write(DEMOTION, "1");
	mt_cgroup_enter(&protected, 0);
	cached = fill_by_reads(fd, 0, CACHE);
	ret = kept(fd, cached, protect, unprotect);
	mt_cgroup_remove(&protected);
	return ret;
}

static char *mapped;
static size_t mapped_size;

/* A policy of the file remains when its mapping is gone. */
static int bind_file(int fd, size_t size)
{
	mapped_size = size;
	mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mapped == MAP_FAILED)
		return -1;
	return mt_mbind(mapped, size, MPOL_BIND, 1UL << mt_fast_node());
}

static void unbind_file(void)
{
	mt_mbind(mapped, mapped_size, MPOL_DEFAULT, 0);
}

static int bound(void)
{
	int fd = memfd_create("bound", MFD_CLOEXEC), ret;
	size_t off = 0;

	MT_ASSERT(fd >= 0, "no memfd");
	off = fill_memfd(fd);
	ret = kept(fd, off, bind_file, unbind_file);
	munmap(mapped, mapped_size);
	return ret;
}

/* ---- page cache in use ---- */

/**
 * struct reader - a thread that reads a part of a file again and again
 * @fd: the file
 * @size: bytes from its start
 * @rest_ms: time to sleep after each round
 */
struct reader {
	int fd;
	size_t size;
	unsigned int rest_ms;
	volatile bool stop;
	volatile unsigned long rounds;
	pthread_t thread;
};

static void *reader(void *arg)
{
	struct reader *r = arg;

	while (!r->stop) {
		read_part(r->fd, 0, r->size);
		r->rounds++;
		if (r->rest_ms)
			mt_nap(r->rest_ms);
	}
	return NULL;
}

#define IN_USE		(128 * MT_MB)

/* Part of the page cache is read again and again: the rest makes room. */
static int in_use_with(unsigned int rest_ms)
{
	struct reader r = { .fd = sparse_file("used", CACHE), .size = IN_USE,
			    .rest_ms = rest_ms };
	struct mt_toucher t;
	long long took;
	size_t cached;
	long stayed;
	char *p;

	MT_NEED(r.fd >= 0, "no file");
	MT_NEED(!mt_write(DEMOTION, "1"), "no demotion");
	p = mt_place(HOT, mt_slow_node());
	MT_ASSERT(p, "no memory on the slow node");
	mt_run_on_node(mt_fast_node());
	read_part(r.fd, 0, IN_USE);
	cached = fill_by_reads(r.fd, IN_USE, CACHE - IN_USE);
	MT_ASSERT(cached < CACHE - IN_USE, "DRAM cannot be filled");
	mt_set("scan/delay_ms", 0);
	MT_ASSERT(!pthread_create(&r.thread, NULL, reader, &r), "no thread");
	/* Read once, it is not in use yet. */
	MT_ASSERT(MT_WAIT(r.rounds > 2, BESIDE_MS), "the file is not read");
	mt_snap(&before);
	mt_touch_start(&t, p, HOT);
	mt_on();
	took = found_ms(p, HOT, BESIDE_MS);
	mt_touch_stop(&t);
	mt_off();
	r.stop = true;
	pthread_join(r.thread, NULL);
	stayed = cached_on(r.fd, 0, IN_USE, mt_fast_node());
	tell("in use", p, took);
	mt_note("of the page cache in use %ld of %ld pages stayed; it was read %lu times",
		stayed, PAGES(IN_USE), r.rounds);
	close(r.fd);
	MT_ASSERT(took >= 0, "hot pages did not get in");
	MT_ASSERT(r.rounds > 2, "the file was read %lu times", r.rounds);
	MT_ASSERT(stayed > PAGES(IN_USE) * 49 / 50, "page cache in use was demoted");
	return MT_PASS;
}

static int in_use(void)
{
	return in_use_with(0);
}

/* So that each page is read every 0.5 to 0.9 s; kmtierd looks again after 0.25 s. */
#define IN_USE_REST_MS	400

static int in_use_later(void)
{
	return in_use_with(IN_USE_REST_MS);
}

#define RARE		(32 * MT_MB)
/* Between two uses of the slow memory; the file is read in less. */
#define RARE_MS		800
#define RARE_LONG_MS	10000

/*
 * All of the page cache is used more often than the slow memory, and stays. Then the file is
 * not read any more, and the slow memory is used more often: the page cache makes room.
 */
static int used_more(void)
{
	struct reader r = { .fd = sparse_file("more", CACHE) };
	struct mt_toucher t = { .size = RARE, .step = MT_PAGE, .rest_ms = RARE_MS, .cpu = -1 };
	const size_t leave = 96 * MT_MB;
	long long looked, bursts, took;
	long stayed, up;
	size_t size;
	char *hog;

	MT_NEED(r.fd >= 0, "no file");
	MT_NEED(!mt_write(DEMOTION, "1"), "no demotion");
	t.p = mt_place(RARE, mt_slow_node());
	MT_ASSERT(t.p, "no memory on the slow node");
	/* Memory that cannot leave, so that the file is read often. */
	size = (mt_node_free(mt_fast_node()) - leave) & ~(MT_HUGE - 1);
	hog = mt_fill(size, mt_fast_node(), false);
	MT_ASSERT(hog && !mlock(hog, size), "no memory in DRAM");
	mt_run_on_node(mt_fast_node());
	r.size = fill_by_reads(r.fd, 0, CACHE);
	mt_set("scan/delay_ms", 0);
	MT_ASSERT(!pthread_create(&r.thread, NULL, reader, &r), "no thread");
	mt_toucher_run(&t);
	mt_snap(&before);
	mt_on();
	mt_nap(RARE_LONG_MS);
	up = mt_pages_on(t.p, RARE, mt_fast_node());
	looked = mt_since(&before, "mtier_look_ptes");
	r.stop = true;
	pthread_join(r.thread, NULL);
	mt_snap(&before);
	bursts = mt_burst_value("bursts");
	t.rest_ms = 1;
	took = found_ms(t.p, RARE, FOUND_MS);
	tell("used less", t.p, took);
	mt_note("%lld bursts scanned %lld pages", mt_burst_value("bursts") - bursts,
		mt_since(&before, "mtier_look_ptes"));
	mt_touch_stop(&t);
	mt_off();
	mt_note("%zu MiB were read %lu times, the slow memory was used %lu times; %ld pages of it",
		r.size / MT_MB, r.rounds, t.rounds, up);
	stayed = cached_on(r.fd, 0, r.size, mt_fast_node());
	mt_note("of the page cache %ld of %ld pages are in DRAM at last", stayed, PAGES(r.size));
	munmap(hog, size);
	close(r.fd);
	MT_ASSERT(looked > PAGES(RARE), "%lld pages were scanned", looked);
	MT_ASSERT(up < PAGES(RARE) / 10, "page cache that is used more was demoted");
	MT_ASSERT(took >= 0, "page cache that is not used does not make room");
	return MT_PASS;
}

static int with_mglru(int (*check)(void))
{
	int ret;

	MT_NEED(!access(LRU_GEN, W_OK), "no " LRU_GEN);
	mt_write(LRU_GEN, "y");
	ret = check();
	mt_write(LRU_GEN, "n");
	return ret;
}

static int read_once_mglru(void)
{
	return with_mglru(read_once);
}

static int in_use_mglru(void)
{
	return with_mglru(in_use);
}

static int in_use_later_mglru(void)
{
	return with_mglru(in_use_later);
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("DRAM full of a file that was read once", read_once),
		MT_CHECK("the same with MGLRU", read_once_mglru),
		MT_CHECK("the same, and the hot pages are huge", huge_pages),
		MT_CHECK("DRAM full of tmpfs that nobody maps", tmpfs),
		MT_CHECK("the same in huge pages", tmpfs_huge),
		MT_CHECK("page cache of a protected cgroup stays", memory_low),
		MT_CHECK("tmpfs that is bound to DRAM stays", bound),
		MT_CHECK("page cache that is read again and again stays", in_use),
		MT_CHECK("the same with MGLRU", in_use_mglru),
		MT_CHECK("page cache that is read every half a second or more stays", in_use_later),
		MT_CHECK("that too with MGLRU", in_use_later_mglru),
		MT_CHECK("page cache that is used more than slow memory stays", used_more),
	};

	/* Before time counts: the guest's clock runs on while it waits for the host. */
	mt_ext4();
	return mt_main(checks, ARRAY_LEN(checks));
}
