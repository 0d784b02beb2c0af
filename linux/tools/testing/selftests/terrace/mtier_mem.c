// SPDX-License-Identifier: GPL-2.0
/* Selftest helpers: allocate memory on a chosen node, get its node, and use it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "burst_util.h"

/* Set the nodes of the next pages of this thread. */
int mt_set_policy(int mode, unsigned long nodes)
{
	return syscall(SYS_set_mempolicy, mode, nodes ? &nodes : NULL,
		       nodes ? MT_NODES + 1 : 0) ? -errno : 0;
}

int mt_bind_to(int node)
{
	return mt_set_policy(MPOL_BIND, 1UL << node);
}

int mt_bind_default(void)
{
	return mt_set_policy(MPOL_DEFAULT, 0);
}

int mt_mbind_flags(void *p, size_t size, int mode, unsigned long nodes,
		   unsigned int flags)
{
	return syscall(SYS_mbind, p, size, mode, nodes ? &nodes : NULL,
		       nodes ? MT_NODES + 1 : 0, flags) ? -errno : 0;
}

int mt_mbind(void *p, size_t size, int mode, unsigned long nodes)
{
	return mt_mbind_flags(p, size, mode, nodes, 0);
}

/* Get unmapped addresses for @size bytes, aligned to a huge page. */
void *mt_map_aligned(size_t size)
{
	char *raw = mmap(NULL, size + MT_HUGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *p;

	if (raw == MAP_FAILED)
		return NULL;
	p = (char *)(((uintptr_t)raw + MT_HUGE - 1) & ~(MT_HUGE - 1));
	if (p > raw)
		munmap(raw, p - raw);
	munmap(p + size, raw + MT_HUGE - p);
	return p;
}

/* Get memory filled from @node; promotion may move it at any time. */
void *mt_fill(size_t size, int node, bool huge)
{
	char *p = mt_map_aligned(size);
	size_t off;

	if (!p)
		return NULL;
	madvise(p, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	mt_bind_to(node);
	for (off = 0; off < size; off += MT_PAGE)
		*(size_t *)(p + off) = off + 1;
	mt_bind_default();
	return p;
}

/* Check the contents written by mt_fill(): MT_PASS, or the result of MT_DATA(). */
int mt_filled(const char *p, size_t size)
{
	size_t off;

	for (off = 0; off < size; off += MT_PAGE)
		MT_DATA(*(const size_t *)(p + off) == off + 1,
			"page %zu has another content", off / MT_PAGE);
	return MT_PASS;
}

/* A child that has exited leaves all memory write-protected. False if there was none. */
bool mt_fork_once(void)
{
	pid_t pid = fork();
	int status = 1;

	if (!pid)
		_exit(0);
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

/* Get anonymous base pages on @node, with no policy; NULL if they are on another one. */
void *mt_place(size_t size, int node)
{
	void *p = mt_fill(size, node, false);

	if (!p || mt_all_on(p, size, node))
		return p;
	mt_note_where("placed", p, size);
	return NULL;
}

/* The same in huge pages; NULL also if some page is not huge. */
void *mt_place_thp(size_t size, int node)
{
	char *p = mt_fill(size, node, true);
	size_t off;

	for (off = 0; p && off < size; off += MT_HUGE)
		if (!mt_is_thp(p + off))
			return NULL;
	return p && mt_all_on(p, size, node) ? p : NULL;
}

/* Fill a file with pages on @node and map it. */
void *mt_place_file(int fd, size_t size, int node, int prot)
{
	static char buf[MT_PAGE];
	size_t off;
	char *p;

	mt_bind_to(node);
	for (off = 0; off < size; off += MT_PAGE) {
		*(size_t *)buf = off + 1;
		if (pwrite(fd, buf, MT_PAGE, off) != (ssize_t)MT_PAGE)
			break;
	}
	mt_bind_default();
	if (off < size || fsync(fd))
		return NULL;
	p = mmap(NULL, size, prot, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return NULL;
	for (off = 0; off < size; off += MT_PAGE)
		(void)*(volatile char *)(p + off);
	return mt_all_on(p, size, node) ? p : NULL;
}

/* Base pages of a range on @node; pages that are not there do not count. */
long mt_pages_on(const void *p, size_t size, int node)
{
	enum { CHUNK = 512 };
	void *pages[CHUNK];
	int status[CHUNK];
	size_t off;
	long on = 0;

	for (off = 0; off < size; off += CHUNK * MT_PAGE) {
		size_t n = (size - off) / MT_PAGE, i;

		if (n > CHUNK)
			n = CHUNK;
		for (i = 0; i < n; i++)
			pages[i] = (char *)p + off + i * MT_PAGE;
		if (syscall(SYS_move_pages, 0, n, pages, NULL, status, 0))
			return -errno;
		for (i = 0; i < n; i++)
			on += status[i] == node;
	}
	return on;
}

bool mt_all_on(const void *p, size_t size, int node)
{
	return mt_pages_on(p, size, node) == (long)(size / MT_PAGE);
}

/*
 * New pages are in the LRU batches of the CPUs and cannot be isolated there: put all of
 * them on their lists, like move_pages() at its start.
 */
void mt_settle(void)
{
	static char here;
	void *page = (void *)((uintptr_t)&here & ~(MT_PAGE - 1));
	int node = mt_fast_node(), status;

	here++;
	syscall(SYS_move_pages, 0, 1, &page, &node, &status, MPOL_MF_MOVE);
}

/* Enable swap on the first zram device, with a size in its syntax ("64M") */
bool mt_swap_on(const char *size)
{
	return !mt_write("/sys/block/zram0/disksize", size) &&
	       !system("mkswap /dev/zram0 >/dev/null 2>&1") &&
	       !swapon("/dev/zram0", 0);
}

void mt_swap_off(void)
{
	swapoff("/dev/zram0");
	mt_write("/sys/block/zram0/reset", "1");
}

void mt_note_where(const char *what, const void *p, size_t size)
{
	int nodes[MT_NODES], n = mt_nodes("has_memory", nodes), i;

	for (i = 0; i < n; i++)
		mt_note("%s: %ld of %zu pages on node %d", what,
			mt_pages_on(p, size, nodes[i]), size / MT_PAGE,
			nodes[i]);
}

uint64_t mt_pagemap(const void *p)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = 0;

	if (pread(fd, &entry, sizeof(entry), (uintptr_t)p / MT_PAGE * 8) != 8)
		entry = 0;
	close(fd);
	return entry;
}

/* 0 if no page is mapped there */
uint64_t mt_pfn(const void *p)
{
	uint64_t entry = mt_pagemap(p);

	return entry >> 63 ? entry & ((1ULL << 55) - 1) : 0;
}

/* Check whether the page mapped there is part of a huge one. */
bool mt_is_thp(const void *p)
{
	int fd = open("/proc/kpageflags", O_RDONLY | O_CLOEXEC);
	uint64_t flags = 0, pfn = mt_pfn(p);

	if (!pfn || pread(fd, &flags, sizeof(flags), pfn * 8) != 8)
		flags = 0;
	close(fd);
	return flags >> 22 & 1;
}

/* Get a field of /proc/self/smaps for the mapping that contains @p, in KiB. */
long mt_smaps_kb(const void *p, const char *field)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	unsigned long from, to;
	bool here = false;
	char line[512];
	long kb = -1;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			here = (uintptr_t)p >= from && (uintptr_t)p < to;
		else if (here && !strncmp(line, field, strlen(field)) &&
			 line[strlen(field)] == ':')
			kb = atol(line + strlen(field) + 1);
	}
	if (f)
		fclose(f);
	return kb;
}

/*
 * Pin memory like a device, for the life of this process: a buffer registered with
 * io_uring. Returns 0 or -errno.
 */
int mt_pin(void *p, size_t size)
{
	struct iovec iov = { .iov_base = p, .iov_len = size };
	struct io_uring_params params = { 0 };
	int fd = syscall(SYS_io_uring_setup, 1, &params);

	if (fd < 0)
		return -errno;
	if (syscall(SYS_io_uring_register, fd, IORING_REGISTER_BUFFERS, &iov, 1))
		return -errno;
	return 0;
}

/* Create a file in the scratch folder of the lab. */
int mt_scratch_file(const char *name)
{
	const char *dir = getenv("TERRACE_SCRATCH");
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s.%d", dir ? dir : "/tmp", name,
		 getpid());
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd >= 0)
		unlink(path);
	return fd;
}

/*
 * Get the folder where ext4 is mounted, on a loop device: a file system with dirty pages
 * and writeback. NULL if that fails.
 */
const char *mt_ext4(void)
{
	const char *scratch = getenv("TERRACE_SCRATCH") ?: "/tmp";
	static char dir[128];
	char cmd[640];

	snprintf(dir, sizeof(dir), "%s/ext4", scratch);
	snprintf(cmd, sizeof(cmd),
		 "d=%s; mountpoint -q $d || (mkdir -p $d && truncate -s 64M $d.img && mkfs.ext4 -q -O ^has_journal $d.img && mount -o loop $d.img $d) >/dev/null 2>&1",
		 dir);
	return system(cmd) ? NULL : dir;
}

/* ---- using memory ---- */

void mt_touch(volatile char *p, size_t size, bool write)
{
	size_t off;

	for (off = 0; off < size; off += MT_PAGE) {
		if (write)
			p[off + 64]++;
		else
			(void)p[off];
	}
}

static void *toucher(void *arg)
{
	struct mt_toucher *t = arg;
	size_t off;

	if (t->cpu >= 0)
		mt_run_on_cpu(t->cpu);
	while (!t->stop) {
		for (off = 0; off < t->size && !t->stop; off += t->step) {
			if (t->write)
				((volatile char *)t->p)[off + 64]++;
			else
				(void)((volatile char *)t->p)[off];
		}
		t->rounds++;
		if (t->rest_ms)
			mt_nap(t->rest_ms);
	}
	return NULL;
}

/* Start a toucher whose fields the caller has filled in. */
void mt_toucher_run(struct mt_toucher *t)
{
	pthread_t thread;

	t->stop = false;
	t->rounds = 0;
	if (pthread_create(&thread, NULL, toucher, t)) {
		mt_note("cannot start a thread");
		exit(MT_FAIL);
	}
	t->thread = thread;
}

/* Read every page of a range, with a rest of 1 ms between rounds. */
void mt_touch_start(struct mt_toucher *t, void *p, size_t size)
{
	*t = (struct mt_toucher) {
		.p = p, .size = size, .step = MT_PAGE, .rest_ms = 1, .cpu = -1,
	};
	mt_toucher_run(t);
}

void mt_touch_stop(struct mt_toucher *t)
{
	t->stop = true;
	pthread_join(t->thread, NULL);
}

/* Use a range until all of it is on @node; false if that takes over @ms. */
bool mt_moves_to(void *p, size_t size, int node, unsigned int ms)
{
	struct mt_toucher t;
	bool moved;

	mt_settle();
	mt_touch_start(&t, p, size);
	moved = MT_WAIT(({ mt_hurry(); mt_all_on(p, size, node); }), ms);
	mt_touch_stop(&t);
	if (!moved)
		mt_note_where("when time was up", p, size);
	return moved;
}

/* Least number of bursts that scan the canary and the memory that must stay. */
#define STAYS_BURSTS	3

/* Ordinary memory moves, from the first bursts on. */
static bool canary_moves(int node)
{
	void *p, *idle;
	bool moved;

	mt_off();
	p = mt_place(MT_MB, node);
	/* Without idle memory there, no bursts would follow. */
	idle = mt_place(MT_MB, node);
	mt_on();
	moved = p && mt_moves_to(p, MT_MB, mt_fast_node(), MT_MOVE_MS);
	if (p)
		munmap(p, MT_MB);
	if (!moved)
		mt_note("the canary did not move");
	moved = moved && idle && mt_bursts_pass(STAYS_BURSTS);
	if (idle)
		munmap(idle, MT_MB);
	return moved;
}

/*
 * Use a range that must stay on @node. The time is that in which a canary moves, three
 * times; each time from the switch of promotion, after which bursts follow each other and
 * soon scan all memory.
 */
bool mt_stays(void *p, size_t size, int node)
{
	struct mt_toucher t;
	bool stayed;
	int i;

	mt_touch_start(&t, p, size);
	for (i = 0; i < 3; i++)
		if (!canary_moves(node))
			break;
	mt_touch_stop(&t);
	stayed = mt_all_on(p, size, node);
	if (!stayed)
		mt_note_where("what should have stayed", p, size);
	return i == 3 && stayed;
}

/*
 * Use memory of @p, up to @most bytes, until nothing is free on @node above its
 * watermark. Memory of an earlier check may still be freed: repeat until nothing more is
 * freed. Returns the size, @most if more is free. The policy must allocate from that
 * node.
 */
size_t mt_use_free(char *p, size_t most, int node)
{
	size_t off = 0;
	int quiet = 0;

	while (quiet < 10 && off < most) {
		if (mt_node_room(node) > 0) {
			mt_touch(p + off, MT_MB, true);
			off += MT_MB;
			quiet = 0;
		} else {
			mt_nap(20);
			quiet++;
		}
	}
	return off;
}

/*
 * Allocate all free memory on @node, permanently, without reclaim. NULL if it cannot be
 * kept.
 */
char *mt_hog(int node, size_t *size)
{
	size_t room = mt_node_free(node) + 1024 * MT_MB;
	char *p = mt_map_aligned(room);
	size_t off;

	if (!p)
		return NULL;
	mt_set_policy(MPOL_PREFERRED, 1UL << node);
	off = mt_use_free(p, room - 64 * MT_MB, node);
	/*
	 * The rest below the watermark; memory that does not fit is allocated on another
	 * node.
	 */
	for (room = off + 64 * MT_MB; off < room; off += MT_MB)
		mt_touch(p + off, MT_MB, true);
	mt_bind_default();
	*size = off & ~(MT_HUGE - 1);
	return mlock(p, *size) ? NULL : p;
}
