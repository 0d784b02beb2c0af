// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flushes: all events at once. Pages of two files move back and forth; one
 * file is only read, the other is opened and written repeatedly. At the same time free
 * memory is filled, processes start and exit, CPUs and address ranges appear and
 * disappear, memory is compacted and caches are dropped. Two readers check the least
 * contents of each page.
 *
 * 12 s, times TERRACE_STRETCH.
 *
 * lab: topology=dram-cxl cpus=4 append="nopti isolcpus=2,3" timeout=120s debug=yes
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tlb_defer_util.h"

#define RUN_MS	12000
/* Deferred pages needed for a result. */
#define ENOUGH	100
#define PAGES	64
#define SIZE	(PAGES * MT_PAGE)

static atomic_bool stop;
static atomic_ulong missed, looked, writes;
/* Least contents of page k of the written file */
static atomic_ulong version[PAGES];
static char *still, *written;
static int written_fd;

static bool going_on(void)
{
	return !atomic_load_explicit(&stop, memory_order_relaxed);
}

static void *check_versions(void *arg)
{
	size_t i;

	(void)arg;
	mt_run_on_cpu(TD_OTHER_CPU);
	while (going_on()) {
		for (i = 0; i < PAGES; i++) {
			uint64_t least = atomic_load(&version[i]);
			volatile uint64_t *p = (void *)(written + i * MT_PAGE);

			if (p[7] < least)
				atomic_fetch_add(&missed, 1);
		}
		atomic_fetch_add(&looked, 1);
	}
	return NULL;
}

/* Open, write some pages, close; publish their contents. */
static void *write_versions(void *arg)
{
	unsigned int seed = 1;
	uint64_t next = 1000;

	(void)arg;
	while (going_on()) {
		int fd = td_reopen(written_fd, O_RDWR), i;

		for (i = 0; i < 4; i++) {
			size_t k = rand_r(&seed) % PAGES;

			next++;
			if (pwrite(fd, &next, sizeof(next),
				   k * MT_PAGE + 7 * 8) == sizeof(next))
				atomic_store(&version[k], next);
		}
		fsync(fd);
		close(fd);
		atomic_fetch_add(&writes, 1);
		mt_nap(rand_r(&seed) % 20);
	}
	return NULL;
}

static void *move(void *arg)
{
	unsigned int seed = 2;

	(void)arg;
	while (going_on()) {
		int node = rand_r(&seed) & 1 ? td_node_a() : td_node_b();
		size_t from = rand_r(&seed) % PAGES;
		size_t n = 1 + rand_r(&seed) % (PAGES - from);

		td_move((rand_r(&seed) & 1 ? still : written) + from * MT_PAGE,
			n, node);
	}
	return NULL;
}

static void *fill(void *arg)
{
	(void)arg;
	while (going_on()) {
		td_scribble(td_node_a(), 2 << 20);
		td_scribble(td_node_b(), 2 << 20);
	}
	return NULL;
}

static void *come_and_go(void *arg)
{
	unsigned int n = 0;

	(void)arg;
	while (going_on()) {
		void *p = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, written_fd, 0);
		pid_t pid;

		mt_touch(p, SIZE, false);
		mprotect(p, SIZE / 2, PROT_NONE);
		mprotect(p, SIZE / 2, PROT_READ);
		munmap(p, SIZE / 2);
		pid = fork();
		if (!pid) {
			mt_touch(still, SIZE, false);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
		munmap((char *)p + SIZE / 2, SIZE / 2);
		if (n % 8 == 0)
			mt_write("/proc/sys/vm/compact_memory", "1");
		if (n % 8 == 4)
			mt_write("/proc/sys/vm/drop_caches", "1");
		if (n % 4 == 2) {
			mt_write("/sys/devices/system/cpu/cpu1/online", "0");
			mt_write("/sys/devices/system/cpu/cpu1/online", "1");
		}
		if (n++ % 16 == 9) {
			td_mode("off");
			td_mode("quarantine");
		}
	}
	return NULL;
}

static int everything(void)
{
	static void *(* const jobs[])(void *) = {
		check_versions, write_versions, move, move, fill, come_and_go,
	};
	pthread_t threads[ARRAY_LEN(jobs)];
	struct td_looker l;
	struct mt_snap before;
	long long since_ms, until;
	size_t i;
	int fd = td_file(SIZE);

	written_fd = td_file(SIZE);
	MT_NEED(fd >= 0 && written_fd >= 0, "no ext4 on a loop device");
	still = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
	written = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, written_fd, 0);
	mt_snap(&before);
	td_look_at(&l, still, PAGES, TD_READER_CPU);
	since_ms = mt_now_ms();
	until = since_ms + (long long)RUN_MS * terrace_stretch();
	for (i = 0; i < ARRAY_LEN(jobs); i++)
		pthread_create(&threads[i], NULL, jobs[i], NULL);
	/* Longer on a busy host, until there is a result. */
	while (mt_now_ms() < until ||
	       (mt_since(&before, "tlb_defer_pages") <= ENOUGH &&
		mt_now_ms() < until + 4 * RUN_MS))
		mt_nap(50);
	atomic_store(&stop, true);
	for (i = 0; i < ARRAY_LEN(jobs); i++)
		pthread_join(threads[i], NULL);
	td_look_away(&l);
	mt_note("%u s: %lu and %lu rounds of reading, %lu of writing",
		RUN_MS / 1000 * terrace_stretch(), atomic_load(&l.rounds),
		atomic_load(&looked),
		atomic_load(&writes));
	mt_note("%lld pages deferred, %.1f a second; %lld refused for a writer",
		mt_since(&before, "tlb_defer_pages"),
		mt_since(&before, "tlb_defer_pages") * 1000.0 /
		(mt_now_ms() - since_ms),
		mt_since(&before, "tlb_defer_refused_open"));
	mt_note("flushes: %lld open, %lld pressure, %lld late, %lld unmap",
		mt_since(&before, "tlb_defer_flush_open"),
		mt_since(&before, "tlb_defer_flush_pressure"),
		mt_since(&before, "tlb_defer_flush_late"),
		mt_since(&before, "tlb_defer_forced_unmap"));
	MT_ASSERT(!atomic_load(&l.wrong), "%lu wrong words", atomic_load(&l.wrong));
	MT_ASSERT(!atomic_load(&missed), "%lu missed stores",
		  atomic_load(&missed));
	MT_ASSERT(mt_since(&before, "tlb_defer_pages") > ENOUGH,
		  "next to nothing deferred");
	MT_ASSERT(!td_mode("off") && !td_knob("held_kb"), "something waits");
	return MT_PASS;
}

static const struct mt_check checks[] = {
	{ "nobody reads a wrong byte", everything },
};

int main(void)
{
	return td_main(checks, ARRAY_LEN(checks));
}
