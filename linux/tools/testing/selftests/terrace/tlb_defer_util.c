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

/* How often to do what is done @n times: less where all takes longer */
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
	/* Without generations that pass, every forced flush is one too many. */
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

/* Interrupts that CPU @which got to flush its TLB, since boot; all CPUs: -1 */
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

/* Pages about which was asked since @before whether they can wait: each has one end. */
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
 * Have this address space flushed before its time, with somebody reading on @cpu,
 * until it is left alone for a minute; returns after how many moves, or -1.
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
	/* However long a move takes here: more flushes than generations. */
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

/* Move pages to a node; returns how many are there now. */
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
 * Have all pages moved. One that somebody looks at this moment, or that is in
 * the batch of another CPU, moves when it is asked for again.
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

/* Send a page to swap; false if it did not go. */
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

/* The same file once more */
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

/* Keep it away from the page, or let it go on. */
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

/* Let it read the page a few times more. */
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
 * Have two CPUs use this address space all the time, on memory that stays: they sleep
 * on no page that moves, and so are not left out as idle.
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
