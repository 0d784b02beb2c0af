// SPDX-License-Identifier: GPL-2.0
/* Selftest helpers: deferred TLB flushes. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tlb_defer_util.h"

#define LIMIT_MS	4000000

static const char *mount_dir;

/* Get the number of rounds for @n: less if everything takes longer */
unsigned int td_times(unsigned int n)
{
	return mt_debug_kernel() ? n / 6 : n;
}

/* ---- switches ---- */

int td_mode(const char *mode)
{
	return mt_write(TD_DIR "mode", mode);
}

void td_forever(bool on)
{
	mt_write(TD_DEBUG "forever", on ? "Y" : "N");
	/* If generations do not end, every forced flush exceeds their number. */
	mt_write(TD_DIR "backoff_ms", on ? "0" : "1000");
}

void td_race_us(unsigned int us)
{
	mt_writef(TD_DEBUG "race_us", "%u", us);
}

long long td_knob(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), TD_DIR "%s", name);
	return mt_read_ll(path);
}

/* Get the TLB interrupts of CPU @which since boot; all CPUs: -1 */
long long td_ipis_of(int which)
{
	FILE *f = fopen("/proc/interrupts", "re");
	long long sum = 0;
	char line[4096];

	while (f && fgets(line, sizeof(line), f)) {
		char *at = strstr(line, "TLB:");
		int cpu;

		if (!at)
			continue;
		at += 4;
		for (cpu = 0;; cpu++) {
			char *end;
			long long n = strtoll(at, &end, 10);

			if (end == at)
				break;
			sum += which < 0 || which == cpu ? n : 0;
			at = end;
		}
	}
	if (f)
		fclose(f);
	return sum;
}

long long td_ipis(void)
{
	return td_ipis_of(-1);
}

/* Get the pages judged since @before: each has one result. */
long long td_judged(const struct mt_snap *before)
{
	static const char * const ends[] = {
		"tlb_defer_pages", "tlb_defer_joined", "tlb_defer_no_need",
		"tlb_defer_refused_write", "tlb_defer_refused_pending",
		"tlb_defer_refused_file", "tlb_defer_refused_open",
		"tlb_defer_refused_kind", "tlb_defer_refused_full",
		"tlb_defer_refused_pressure", "tlb_defer_refused_backoff",
	};
	long long sum = 0;
	size_t i;

	for (i = 0; i < ARRAY_LEN(ends); i++)
		sum += mt_since(before, ends[i]);
	return sum;
}

/*
 * Force flushes of this address space, with a reader on @cpu, until it is in back-off for
 * a minute; returns the number of moves, or -1.
 */
int td_back_off(int cpu)
{
	char *p = td_map_file(2 * MT_PAGE);
	struct td_reader r;
	struct mt_snap before;
	bool done = false;
	int i;

	if (!p)
		return -1;
	/* For any duration of a move: more flushes than generations. */
	td_forever(true);
	mt_write(TD_DIR "backoff_ms", "60000");
	mt_snap(&before);
	td_reader_start(&r, p + MT_PAGE, cpu);
	for (i = 0; i < 2000 && !done; i++) {
		mt_touch(p, MT_PAGE, false);
		td_move(p, 1, i & 1 ? td_node_a() : td_node_b());
		mprotect(p, MT_PAGE, PROT_NONE);
		mprotect(p, MT_PAGE, PROT_READ);
		done = mt_since(&before, "tlb_defer_refused_backoff");
	}
	td_reader_stop(&r);
	mt_note("after %d moves: %lld forced flushes, %lld back-offs", i,
		mt_since(&before, "tlb_defer_forced_unmap"),
		mt_since(&before, "tlb_defer_backoffs"));
	return done ? i : -1;
}

/* ---- checks ---- */

static const char *missing(void)
{
	return access(TD_DIR "mode", W_OK) ?
	       "no " TD_DIR "mode: CONFIG_TLB_DEFER and root" : NULL;
}

static void reset(void)
{
	td_forever(false);
	td_race_us(0);
	td_mode("off");
	mt_write(TD_DIR "limit_ticks", "3");
	mt_write(TD_DIR "held_limit_bp", "50");
	mt_write("/proc/sys/kernel/numa_balancing", "0");
}

static void enter(void)
{
	mt_run_on_cpu(0);
	td_mode("quarantine");
}

/* Run @n checks and print TAP; the return value is main()'s. */
int td_main(const struct mt_check *checks, size_t n)
{
	static const struct mt_suite suite = {
		.missing = missing,
		.reset = reset,
		.enter = enter,
	};
	int ret;

	mt_limit_ms = LIMIT_MS;
	ret = mt_run_suite(&suite, checks, n);
	/* The checks share it. */
	mt_swap_off();
	if (mount_dir) {
		umount2(mount_dir, MNT_DETACH);
		rmdir(mount_dir);
	}
	return ret;
}

/* ---- pages ---- */

static int node_with_memory(int which)
{
	int nodes[MT_NODES], n = mt_nodes("has_memory", nodes);

	return which < n ? nodes[which] : -1;
}

int td_node_a(void)
{
	return node_with_memory(0);
}

int td_node_b(void)
{
	return node_with_memory(1);
}

/* Move pages to a node; returns the number that is there now. */
long td_move(void *p, size_t pages, int node)
{
	enum { CHUNK = 512 };
	void *at[CHUNK];
	int nodes[CHUNK], status[CHUNK];
	long there = 0;
	size_t done, i, n;

	for (done = 0; done < pages; done += n) {
		n = pages - done < CHUNK ? pages - done : CHUNK;
		for (i = 0; i < n; i++) {
			at[i] = (char *)p + (done + i) * MT_PAGE;
			nodes[i] = node;
			status[i] = -1;
		}
		syscall(SYS_move_pages, 0, n, at, nodes, status, MPOL_MF_MOVE_ALL);
		for (i = 0; i < n; i++)
			there += status[i] == node;
	}
	return there;
}

/*
 * Move all pages. A page that is in use at this moment, or in the batch of another CPU,
 * moves when it is requested again.
 */
bool td_all_moved(void *p, size_t pages, int node)
{
	return MT_WAIT(td_move(p, pages, node) == (long)pages, 10000);
}

bool td_swap_on(void)
{
	if (!access("/sys/block/zram0/disksize", W_OK) &&
	    mt_read_ll("/sys/block/zram0/disksize") > 0)
		return true;
	return mt_swap_on("64M");
}

/* Swap out a page; false if it was not. */
bool td_swap_out(void *p)
{
	return MT_WAIT(!madvise(p, MT_PAGE, MADV_PAGEOUT) &&
		       mt_pagemap(p) >> 62 & 1, 5000);
}

/*
 * A file on ext4 on a loop device, clean, with page k full of k + 1, opened for
 * reading only. Returns the descriptor or -1.
 */
int td_file(size_t size)
{
	uint64_t page[MT_PAGE / 8];
	size_t off, i;
	char path[256];
	int fd;

	mount_dir = mt_ext4();
	if (!mount_dir)
		return -1;
	snprintf(path, sizeof(path), "%s/file.%d", mount_dir, getpid());
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	for (off = 0; fd >= 0 && off < size; off += MT_PAGE) {
		for (i = 0; i < MT_PAGE / 8; i++)
			page[i] = off / MT_PAGE + 1;
		if (pwrite(fd, page, MT_PAGE, off) != (ssize_t)MT_PAGE)
			return -1;
	}
	if (fd < 0 || fsync(fd))
		return -1;
	close(fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	unlink(path);
	return fd;
}

/* Open the same file again */
int td_reopen(int fd, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, flags | O_CLOEXEC);
}

/* ---- a reader ---- */

static void *reader(void *arg)
{
	struct td_reader *r = arg;
	uint64_t said, seen;

	mt_run_on_cpu(r->cpu);
	while (!atomic_load_explicit(&r->stop, memory_order_relaxed)) {
		if (atomic_load_explicit(&r->hold, memory_order_acquire)) {
			atomic_store(&r->held, true);
			continue;
		}
		atomic_store_explicit(&r->held, false, memory_order_relaxed);
		said = atomic_load_explicit(&r->flag, memory_order_acquire);
		seen = *r->page;
		if (seen < said)
			atomic_fetch_add(&r->stale, 1);
		atomic_fetch_add_explicit(&r->rounds, 1, memory_order_release);
	}
	return NULL;
}

void td_reader_start(struct td_reader *r, void *page, int cpu)
{
	memset(r, 0, sizeof(*r));
	r->page = page;
	r->cpu = cpu;
	if (pthread_create(&r->thread, NULL, reader, r)) {
		mt_note("cannot start a thread");
		exit(MT_FAIL);
	}
	td_reader_pass(r);
}

/* Keep it away from the page, or let it continue. */
void td_reader_hold(struct td_reader *r, bool hold)
{
	atomic_store(&r->hold, hold);
	if (!hold) {
		td_reader_pass(r);
		return;
	}
	while (!atomic_load(&r->held))
		mt_nap(1);
}

/* Wait until it has read the page a few times more. */
void td_reader_pass(struct td_reader *r)
{
	unsigned long from = atomic_load(&r->rounds);

	while (atomic_load(&r->rounds) - from < 3)
		mt_nap(1);
}

void td_reader_stop(struct td_reader *r)
{
	atomic_store(&r->stop, true);
	pthread_join(r->thread, NULL);
}

static struct td_reader others[2];

/*
 * Let two CPUs use this address space all the time, on memory that stays: they do not
 * sleep on a page that moves, and so do not count as idle.
 */
void td_use_others(void)
{
	static uint64_t page[MT_PAGE / 8] __attribute__((aligned(MT_PAGE)));

	page[0] = 1;
	td_reader_start(&others[0], page, TD_READER_CPU);
	td_reader_start(&others[1], page, TD_OTHER_CPU);
}

void td_leave_others(void)
{
	td_reader_stop(&others[0]);
	td_reader_stop(&others[1]);
}
