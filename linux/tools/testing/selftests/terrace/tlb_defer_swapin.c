// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flushes: a store in a page that reclaim has just unmapped (A5).
 *
 * A reader has a stale translation to the old frame of a page. Reclaim unmaps the new
 * one, leaves it in the swap cache, since a pipe holds a reference, and flushes after all
 * folios that it took from the list. Before that, a store maps the page from the swap
 * cache again, writable. The reader must see it.
 *
 * The writer is a real-time thread on the CPU of reclaim, and each page that reclaim
 * writes out wakes it, by a trace event. So it runs between two folios, and reclaim
 * continues only after the store and a check by the reader. The test also checks that
 * reclaim has not flushed: otherwise the reader would have mapped the page itself.
 *
 * lab: topology=dram-cxl cpus=4 append="nopti isolcpus=2,3" timeout=200s debug=no
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tlb_defer_util.h"

/* Number of pages after the tested one, and to reclaim: the tested one is scanned */
#define LOOK_PAGES	200
#define LOOK		"128K swappiness=200"

/* It is isolated, and is not the last one of its batch. */
#define TAKE_PAGES	1800
#define TAKE		"3M swappiness=200"

static struct td_reader r;
static struct mt_cgroup cg;
/* An unmapped file in memory: its reclaim needs no flush. */
static int filler;

/**
 * struct storer - a real-time thread that stores in a page once it is swapped out
 * @trace: has a line for each page that reclaim writes out
 * @page: the page, or 0 for none
 * @number: value to store
 * @stored: number of stores
 * @end: no more rounds
 */
struct storer {
	struct mt_trace trace;
	atomic_uintptr_t page;
	uint64_t number;
	unsigned int stored;
	atomic_bool end;
	pthread_t thread;
};

static struct storer s;

static bool swapped(uintptr_t page)
{
	return mt_pagemap((void *)page) >> 62 & 1;
}

/* Reclaim must not continue in this time, so this does not sleep. */
static void spin_while_read(void)
{
	unsigned long from = atomic_load(&r.rounds);

	while (atomic_load(&r.rounds) - from < 3)
		__builtin_ia32_pause();
}

static void *storer(void *unused)
{
	const struct sched_param param = { .sched_priority = 1 };
	char text[4096];
	uintptr_t page;

	mt_run_on_cpu(0);
	sched_setscheduler(0, SCHED_FIFO, &param);
	while (read(s.trace.fd, text, sizeof(text)) > 0 && !atomic_load(&s.end)) {
		page = atomic_load(&s.page);
		if (!page || !swapped(page))
			continue;
		*(volatile uint64_t *)page = s.number;
		atomic_store_explicit(&r.flag, s.number, memory_order_release);
		spin_while_read();
		s.stored++;
		atomic_store(&s.page, 0);
	}
	return unused;
}

static int start_storer(void)
{
	MT_ASSERT(!mt_trace_open_of(&s.trace, "vmscan", "mm_vmscan_write_folio"),
		  "cannot trace");
	/* Block in read(). */
	MT_ASSERT(!fcntl(s.trace.fd, F_SETFL, 0), "cannot wait for a line");
	MT_ASSERT(!pthread_create(&s.thread, NULL, storer, NULL),
		  "cannot start a thread");
	return MT_PASS;
}

static void stop_storer(void)
{
	char path[128];

	atomic_store(&s.end, true);
	snprintf(path, sizeof(path), "%s/trace_marker", s.trace.dir);
	mt_write(path, "end");
	pthread_join(s.thread, NULL);
	mt_trace_close(&s.trace);
}

/* Unmapped pages of the cgroup, on the target node of the migration */
static bool fill(unsigned int pages)
{
	char bytes[MT_PAGE];

	memset(bytes, 0x5a, sizeof(bytes));
	for (; pages; pages--)
		if (write(filler, bytes, sizeof(bytes)) != sizeof(bytes))
			return false;
	return true;
}

/* Read pages in from swap while a child shares their swap entries. */
static bool read_shared(void *p, size_t size)
{
	int fds[2];
	pid_t pid;
	char c;

	if (pipe(fds))
		return false;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		close(fds[1]);
		_exit(read(fds[0], &c, 1) != 0);
	}
	close(fds[0]);
	mt_touch(p, size, false);
	close(fds[1]);
	return waitpid(pid, NULL, 0) == pid;
}

/* A read that pins pages, so that each one becomes private */
static bool read_pinned(void *p, size_t size)
{
	struct iovec from = { .iov_base = p, .iov_len = size };
	struct iovec to = { .iov_base = malloc(size), .iov_len = size };
	ssize_t n = process_vm_readv(getpid(), &to, 1, &from, 1, 0);

	free(to.iov_base);
	return n == (ssize_t)size;
}

/*
 * Pages that are clean, not writable and exclusive, though their mapping is writable:
 * only these are deferred, and are writable after swap-in. A child that shared them
 * prevents write access when they are read in; it has exited when they are pinned. They
 * are locked, so that reclaim takes the page that a round has unlocked. All of that is
 * before the first round, since after a fork each write is a fault that flushes.
 */
static char *pages_to_defer(size_t size)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t off;

	munlock(p, size);
	madvise(p, size, MADV_NOHUGEPAGE);
	mt_bind_to(td_node_a());
	for (off = 0; off < size; off += MT_PAGE) {
		*(uint64_t *)(p + off) = 1;
		if (!td_swap_out(p + off))
			return NULL;
	}
	if (!read_shared(p, size) || !read_pinned(p, size) ||
	    mlock2(p, size, MLOCK_ONFAULT))
		return NULL;
	mt_bind_to(td_node_b());
	return p;
}

/* Migrate an inactive page that the reader reads. */
static bool defer(uint64_t *p)
{
	munlock(p, MT_PAGE);
	madvise(p, MT_PAGE, MADV_COLD);
	r.page = p;
	td_reader_hold(&r, false);
	return td_all_moved(p, 1, td_node_b());
}

/*
 * The entry shows that the page was accessed, so reclaim rotates it once and clears that.
 * The reader does not set it again: it uses the old frame. The pipe's reference is taken
 * after that, since the page could not migrate with it, and pages that were referenced
 * twice are not reclaimed for long.
 */
static int one_round(uint64_t *p, uint64_t number, const int pipe_fds[2])
{
	struct iovec page = { .iov_base = p, .iov_len = MT_PAGE };
	char bytes[MT_PAGE];

	MT_ASSERT(defer(p), "did not move");
	MT_ASSERT(fill(LOOK_PAGES), "cannot fill");
	mt_cgroup_write(&cg, "memory.reclaim", LOOK);
	MT_ASSERT(vmsplice(pipe_fds[1], &page, 1, 0) == (ssize_t)MT_PAGE,
		  "cannot put it into a pipe");
	MT_ASSERT(fill(TAKE_PAGES), "cannot fill");
	s.number = number;
	atomic_store(&s.page, (uintptr_t)p);
	mt_cgroup_write(&cg, "memory.reclaim", TAKE);
	atomic_store(&s.page, 0);
	td_reader_hold(&r, true);
	atomic_store(&r.flag, 0);
	madvise(p, MT_PAGE, MADV_DONTNEED);
	MT_ASSERT(read(pipe_fds[0], bytes, MT_PAGE) == (ssize_t)MT_PAGE &&
		  !ftruncate(filler, 0) && !lseek(filler, 0, SEEK_SET),
		  "cannot clean up");
	return MT_PASS;
}

static int rounds(unsigned int times)
{
	char *p = pages_to_defer(times * MT_PAGE);
	int pipe_fds[2];
	unsigned int i;

	MT_ASSERT(p && !pipe(pipe_fds), "no pages or no pipe");
	if (start_storer())
		return MT_FAIL;
	td_reader_start(&r, p, TD_READER_CPU);
	td_reader_hold(&r, true);
	for (i = 0; i < times; i++)
		if (one_round((uint64_t *)(p + i * MT_PAGE), i + 2, pipe_fds))
			return MT_FAIL;
	td_reader_stop(&r);
	stop_storer();
	return MT_PASS;
}

static int by_swapin(void)
{
	const unsigned int times = td_times(12);
	struct mt_snap before;

	MT_NEED(td_swap_on(), "no swap on zram");
	MT_NEED(!mt_cgroup_make(&cg, "swapin", "+memory"), "no memory cgroup");
	/* Only the page of the round may be reclaimed from this process. */
	MT_ASSERT(!mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) &&
		  !mt_cgroup_enter(&cg, 0), "cannot enter the cgroup");
	filler = memfd_create("filler", MFD_CLOEXEC);
	MT_ASSERT(filler >= 0, "no file in memory");
	td_forever(true);
	mt_snap(&before);
	if (rounds(times))
		return MT_FAIL;
	mt_note("%lld pages deferred, %u stores, %lld flushes, %lu stale reads",
		mt_since(&before, "tlb_defer_pages"), s.stored,
		mt_since(&before, "tlb_defer_forced_write"),
		atomic_load(&r.stale));
	close(filler);
	mt_cgroup_remove(&cg);
	MT_DATA(!atomic_load(&r.stale), "missed a store %lu times",
		atomic_load(&r.stale));
	MT_ASSERT(s.stored >= times / 2, "too few stores in time");
	return MT_PASS;
}

static const struct mt_check checks[] = {
	{ "A5: a store in a page that reclaim has unmapped is seen",
	  by_swapin },
};

int main(void)
{
	return td_main(checks, ARRAY_LEN(checks));
}
