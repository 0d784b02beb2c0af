// SPDX-License-Identifier: GPL-2.0
/*
 * Migration: pages that are never promoted, however hot. Each check has a canary that is
 * promoted in the same time, so that "it stayed" is significant.
 *
 * lab: topology=dram-cxl icount=2 timeout=600s debug=yes
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "burst_util.h"

#define SIZE	(256 * MT_PAGE)
#define PAGES	((long long)(SIZE / MT_PAGE))

static struct mt_snap before;

static void begin(void)
{
	mt_fast();
	mt_snap(&before);
	mt_on();
}

/* It stays: only canaries moved or failed. */
static int stays(void *p, size_t size)
{
	MT_ASSERT(p, "no such memory on the slow node");
	begin();
	if (!mt_stays(p, size, mt_slow_node())) {
		mt_note_since(&before);
		return MT_FAIL;
	}
	return MT_PASS;
}

static long long failures(void)
{
	/* Not mtier_fail_isolate: fresh canaries are in per-CPU batches at first. */
	return mt_since(&before, "mtier_fail_busy") +
	       mt_since(&before, "mtier_drop_pinned");
}

static int pinned(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	int ret;

	MT_ASSERT(p, "no memory on the slow node");
	ret = mt_pin(p, SIZE);
	MT_NEED(!ret, "cannot pin memory: %s", strerror(-ret));
	/* A long-term pin may move pages to another node. */
	MT_NEED(mt_all_on(p, SIZE, mt_slow_node()), "pinning moved it");
	if (stays(p, SIZE))
		return MT_FAIL;
	/* It was not even tried. */
	if (failures() < PAGES)
		return MT_PASS;
	mt_note_since(&before);
	return MT_FAIL;
}

static void user(void *p)
{
	for (;;) {
		mt_touch(p, SIZE, false);
		mt_nap(1);
	}
}

/*
 * Shared copy-on-write memory after a fork: the accessing process and the duration of the
 * sharing are unknown.
 */
static int copy_on_write(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	pid_t pid[2];
	int ret;

	MT_ASSERT(p, "no memory on the slow node");
	pid[0] = mt_spawn(user, p);
	pid[1] = mt_spawn(user, p);
	ret = stays(p, SIZE);
	mt_kill(pid[0]);
	mt_kill(pid[1]);
	return ret;
}

/* Once it is private, it moves. */
static int after_fork(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	pid_t pid;

	MT_ASSERT(p, "no memory on the slow node");
	pid = mt_spawn(user, p);
	begin();
	MT_ASSERT(mt_bursts_pass(2), "no bursts");
	MT_ASSERT(mt_all_on(p, SIZE, mt_slow_node()), "it did not stay");
	mt_kill(pid);
	MT_ASSERT(mt_moves_to(p, SIZE, mt_fast_node(), MT_MOVE_MS),
		  "it stayed after the child was gone");
	return MT_PASS;
}

static bool mapped_twice(const char *p)
{
	int fd = open("/proc/kpagecount", O_RDONLY | O_CLOEXEC);
	uint64_t count;
	size_t off;

	for (off = 0; off < SIZE; off += MT_PAGE)
		if (pread(fd, &count, 8, mt_pfn(p + off) * 8) != 8 || count < 2)
			break;
	close(fd);
	return off == SIZE;
}

/* Program text mapped by two processes. */
static int shared_text(void)
{
	int fd = mt_scratch_file("text");
	char *p;
	pid_t pid;
	int ret;

	p = mt_place_file(fd, SIZE, mt_slow_node(), PROT_READ);
	MT_NEED(fd >= 0 && p, "no file on the slow node");
	munmap(p, SIZE);
	p = mmap(NULL, SIZE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	MT_ASSERT(p != MAP_FAILED, "mmap");
	pid = mt_spawn(user, p);
	mt_touch(p, SIZE, false);
	/* Wait until the child has mapped it: only mapped pages count as shared. */
	MT_ASSERT(MT_WAIT(mapped_twice(p), 5000), "the child does not use it");
	ret = stays(p, SIZE);
	mt_kill(pid);
	return ret;
}

static int ksm(void)
{
	const char *run = "/sys/kernel/mm/ksm/run";
	size_t off;
	char *p;
	int ret;

	MT_NEED(!access(run, W_OK), "no KSM");
	p = mt_place(SIZE, mt_slow_node());
	MT_ASSERT(p, "no memory on the slow node");
	for (off = 0; off < SIZE; off += MT_PAGE)
		memset(p + off, 7, MT_PAGE);
	MT_ASSERT(!madvise(p, SIZE, MADV_MERGEABLE), "madvise");
	mt_write("/sys/kernel/mm/ksm/merge_across_nodes", "1");
	mt_write("/sys/kernel/mm/ksm/sleep_millisecs", "5");
	mt_write("/sys/kernel/mm/ksm/pages_to_scan", "2000");
	mt_write(run, "1");
	(void)MT_WAIT(mt_read_ll("/sys/kernel/mm/ksm/pages_sharing") >
		      PAGES * 3 / 4, 8000);
	mt_write(run, "0");
	MT_NEED(mt_read_ll("/sys/kernel/mm/ksm/pages_sharing") > PAGES / 2 &&
		mt_pages_on(p, SIZE, mt_slow_node()) > PAGES / 2,
		"it was not merged on the slow node");
	begin();
	ret = !mt_stays(p, MT_PAGE, mt_slow_node());
	mt_write(run, "2");
	mt_write(run, "0");
	return ret ? MT_FAIL : MT_PASS;
}

static int hugetlb(void)
{
	char file[128];
	char *p;
	int ret;

	snprintf(file, sizeof(file),
		 "/sys/devices/system/node/node%d/hugepages/hugepages-2048kB/nr_hugepages",
		 mt_slow_node());
	MT_NEED(!mt_write(file, "2") && mt_read_ll(file) == 2,
		"no hugetlb pages on the slow node");
	mt_bind_to(mt_slow_node());
	p = mmap(NULL, 2 * MT_HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE |
		 MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (p != MAP_FAILED)
		mt_touch(p, 2 * MT_HUGE, true);
	mt_bind_default();
	ret = p == MAP_FAILED ? MT_SKIP : stays(p, 2 * MT_HUGE);
	if (p != MAP_FAILED)
		munmap(p, 2 * MT_HUGE);
	mt_write(file, "0");
	return ret;
}

/* Get the slow pages that the last bursts have scanned, or found unmovable */
static long long seen_now(void)
{
	long used = mt_burst_counted(1, "low", 1);
	long idle = mt_burst_counted(1, "low", 0);

	return (used > 0 ? used : 0) + (idle > 0 ? idle : 0) +
	       mt_burst_value("fixed_low");
}

/* Get the most that some observing bursts have scanned; -1: no bursts */
static long long seen_slow(char *p, int bursts)
{
	long long most = 0, now;
	struct mt_toucher t;

	mt_touch_start(&t, p, SIZE);
	if (mt_observe_on())
		return -1;
	for (; bursts && mt_bursts_pass(1); bursts--) {
		now = seen_now();
		most = now > most ? now : most;
	}
	mt_touch_stop(&t);
	mt_off();
	return bursts ? -1 : most;
}

/* Neither moved nor scanned: no access to it is ever reported. */
static int secret(void)
{
	int fd = syscall(447 /* memfd_secret */, O_CLOEXEC);
	long long seen;
	size_t off;
	char *p;

	MT_NEED(fd >= 0 && !ftruncate(fd, SIZE), "no secretmem");
	mt_bind_to(mt_slow_node());
	p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MT_NEED(p != MAP_FAILED, "cannot map secretmem");
	for (off = 0; off < SIZE; off += MT_PAGE)
		*(size_t *)(p + off) = off + 1;
	mt_bind_default();
	MT_ASSERT(mt_all_on(p, SIZE, mt_slow_node()), "it is not on the slow node");
	if (stays(p, SIZE))
		return MT_FAIL;
	for (off = 0; off < SIZE; off += MT_PAGE)
		MT_ASSERT(*(size_t *)(p + off) == off + 1,
			  "the page at offset %zu has changed", off);
	seen = seen_slow(p, 8);
	mt_note("8 bursts saw %lld pages of slow memory at most", seen);
	MT_ASSERT(seen >= 0, "too few bursts");
	MT_ASSERT(seen < PAGES / 2, "its Accessed bits were looked at");
	return MT_PASS;
}

/* References that no flag shows: the migration fails. */
static int referenced(void)
{
	struct iovec iov;
	struct mt_toucher t;
	int pipes[2], i, ret = 0;
	char *p;

	p = mt_place(SIZE, mt_slow_node());
	MT_ASSERT(p, "no memory on the slow node");
	for (i = 0; i < PAGES && !ret; i += 16) {
		iov.iov_base = p + i * MT_PAGE;
		iov.iov_len = 16 * MT_PAGE;
		ret = pipe(pipes) || vmsplice(pipes[1], &iov, 1, 0) < 0;
	}
	MT_NEED(!ret, "cannot splice memory into pipes");
	begin();
	mt_touch_start(&t, p, SIZE);
	ret = !MT_WAIT(mt_since(&before, "mtier_fail_busy") >= PAGES,
		       MT_MOVE_MS);
	mt_touch_stop(&t);
	mt_off();
	MT_ASSERT(!ret, "%lld failures were counted",
		  mt_since(&before, "mtier_fail_busy"));
	MT_ASSERT(mt_all_on(p, SIZE, mt_slow_node()), "it moved");
	MT_ASSERT(mt_ended_since(&before) == mt_since(&before, "mtier_taken"),
		  "taken %lld, ended %lld", mt_since(&before, "mtier_taken"),
		  mt_ended_since(&before));
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("M9 memory pinned by a device is left alone", pinned),
		MT_CHECK("M9 memory shared copy-on-write is left alone",
			 copy_on_write),
		MT_CHECK("M9 it is promoted when the others are gone",
			 after_fork),
		MT_CHECK("M9 shared program text is left alone", shared_text),
		MT_CHECK("M9 merged pages (KSM) are left alone", ksm),
		MT_CHECK("M9 hugetlb pages are left alone", hugetlb),
		MT_CHECK("M9 secret memory is left alone, not even looked at", secret),
		MT_CHECK("M6 what cannot be moved stays and is counted",
			 referenced),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
