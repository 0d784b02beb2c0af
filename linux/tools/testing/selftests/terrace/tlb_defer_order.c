// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flushes: no store is missed. A reader spins on a page, on a separate CPU
 * and without system calls, so that its translation stays. The page migrates, a writer
 * stores a number in it and then sets a flag; a reader that has read the flag must read
 * the number.
 *
 * Stale translations are kept until a flush is forced (forever). The last check repeats
 * everything with the default knobs.
 *
 * lab: topology=dram-cxl cpus=4 append="nopti isolcpus=2,3" timeout=400s debug=yes
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

static struct td_reader r;
static unsigned int times;
/* Generations end by themselves. */
static bool pass;

static void *map_anon(void)
{
	void *p = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*(uint64_t *)p = 1;
	return p;
}

static void say(uint64_t number)
{
	atomic_store_explicit(&r.flag, number, memory_order_release);
}

/* Get the other node than that of a page */
static int other_node(void *p)
{
	return mt_all_on(p, MT_PAGE, td_node_a()) ? td_node_b() : td_node_a();
}

static bool migrate(void *p)
{
	return td_move(p, 1, other_node(p)) == 1;
}

/* After all rounds: check for stale reads, and that a stale read was possible. */
static int judge(const struct mt_snap *before, const char *counter)
{
	td_reader_stop(&r);
	mt_note("%lld pages deferred, %lld %s", mt_since(before, "tlb_defer_pages"),
		mt_since(before, counter), counter);
	MT_ASSERT(!atomic_load(&r.stale), "missed a store %lu times",
		  atomic_load(&r.stale));
	/* After the tick there is nothing left to flush. */
	MT_ASSERT(pass || mt_since(before, counter) >= times / 2,
		  "too few %s", counter);
	return MT_PASS;
}

/* ---- A: through the address space ---- */

/* Make a clean, read-only, exclusive anonymous page; the mapping stays so. */
static bool make_read_only(uint64_t *p)
{
	bool out;

	td_reader_hold(&r, true);
	out = td_swap_out(p);
	mprotect(p, MT_PAGE, PROT_READ);
	td_reader_hold(&r, false);
	return out;
}

static int by_mprotect(void)
{
	uint64_t *p = map_anon(), i;
	struct mt_snap before;

	MT_NEED(td_swap_on(), "no swap on zram");
	td_forever(!pass);
	mt_snap(&before);
	td_reader_start(&r, p, TD_READER_CPU);
	for (i = 2; i < times + 2; i++) {
		MT_ASSERT(make_read_only(p), "not swapped out");
		MT_ASSERT(migrate(p), "did not move");
		mprotect(p, MT_PAGE, PROT_READ | PROT_WRITE);
		*(volatile uint64_t *)p = i;
		say(i);
		td_reader_pass(&r);
	}
	return judge(&before, "tlb_defer_forced_unmap");
}

static atomic_int move_to;
static atomic_bool moved, stay;

static void *mover(void *p)
{
	mt_run_on_cpu(1);
	td_move(p, 1, atomic_load(&move_to));
	atomic_store(&moved, true);
	/* A thread that exits frees memory, which flushes (A1). */
	while (atomic_load(&stay))
		mt_nap(1);
	return NULL;
}

static pthread_t start_to_move(void *p)
{
	pthread_t thread;

	atomic_store(&move_to, other_node(p));
	atomic_store(&moved, false);
	pthread_create(&thread, NULL, mover, p);
	return thread;
}

/* Check whether the entries of a page are cleared, as during the copy */
static bool cleared(uint64_t address)
{
	return mt_pagemap((void *)address) >> 62 & 1;
}

/*
 * Without a sleep: the time window is short. A round that is too late proves nothing;
 * judge() requires enough of the others.
 */
static void spin_until(bool (*cond)(uint64_t), uint64_t arg)
{
	long long until = mt_now_ms() + 2000;

	while (!cond(arg) && mt_now_ms() < until)
		;
}

/*
 * Unmapped during the migration: munmap finds no translation to flush, but the reader may
 * have one.
 */
static int by_other_mapping(void)
{
	const int prot = PROT_READ | PROT_WRITE;
	const int fixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	int fd = td_file(2 * MT_PAGE);
	struct mt_snap before;
	pthread_t thread;
	uint64_t *p, i;

	MT_NEED(fd >= 0, "no ext4 on a loop device");
	p = mmap(NULL, MT_PAGE, PROT_READ, MAP_SHARED, fd, 0);
	td_forever(!pass);
	td_race_us(60000);
	mt_snap(&before);
	td_reader_start(&r, p, TD_READER_CPU);
	for (i = 2; i < times + 2; i++) {
		td_reader_hold(&r, true);
		say(0);
		mmap(p, MT_PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
		td_reader_hold(&r, false);
		thread = start_to_move(p);
		spin_until(cleared, (uintptr_t)p);
		mmap(p, MT_PAGE, prot, fixed, -1, 0);
		*(volatile uint64_t *)p = i;
		say(i);
		td_reader_pass(&r);
		pthread_join(thread, NULL);
	}
	return judge(&before, "tlb_defer_forced_unmap");
}

/* FOLL_FORCE: a debugger stores in read-only memory. */
static int by_force(void)
{
	int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	uint64_t *p = map_anon(), i;
	struct mt_snap before;

	MT_NEED(td_swap_on(), "no swap on zram");
	td_forever(!pass);
	mt_snap(&before);
	td_reader_start(&r, p, TD_READER_CPU);
	for (i = 2; i < times + 2; i++) {
		MT_ASSERT(make_read_only(p), "not swapped out");
		MT_ASSERT(migrate(p), "did not move");
		MT_ASSERT(pwrite(mem, &i, sizeof(i), (uintptr_t)p) ==
			  sizeof(i), "cannot poke");
		say(i);
		td_reader_pass(&r);
		mprotect(p, MT_PAGE, PROT_READ | PROT_WRITE);
	}
	return judge(&before, "tlb_defer_forced_write");
}

/* A child that shares the swap entry and exits on request */
static pid_t sharer(int *pipe_fd)
{
	int fds[2];
	pid_t pid;
	char c;

	if (pipe(fds))
		return -1;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		close(fds[1]);
		if (read(fds[0], &c, 1))
			_exit(1);
		_exit(0);
	}
	close(fds[0]);
	*pipe_fd = fds[1];
	return pid;
}

/*
 * A write fault that reuses the page: shared with a child when it was read in, so
 * read-only, and private when it is written.
 */
static int by_reuse(void)
{
	uint64_t *p = map_anon(), i;
	struct mt_snap before;
	int fd = -1;
	pid_t pid;

	MT_NEED(td_swap_on(), "no swap on zram");
	td_forever(!pass);
	mt_snap(&before);
	td_reader_start(&r, p, TD_READER_CPU);
	for (i = 2; i < times + 2; i++) {
		td_reader_hold(&r, true);
		MT_ASSERT(td_swap_out(p), "not swapped out");
		pid = sharer(&fd);
		td_reader_hold(&r, false);
		MT_ASSERT(migrate(p), "did not move");
		close(fd);
		waitpid(pid, NULL, 0);
		*(volatile uint64_t *)p = i;
		say(i);
		td_reader_pass(&r);
	}
	mt_note("%lld pages reused", mt_since(&before, "pgreuse"));
	return judge(&before, "tlb_defer_forced_write");
}

/* ---- D: translations that are not read-only ---- */

/*
 * Writable and clean: a TLB that holds it loses no store, but another CPU can store
 * without a fault.
 */
static int writable_is_flushed(void)
{
	uint64_t *p = map_anon(), i;
	struct mt_snap before;

	MT_NEED(td_swap_on(), "no swap on zram");
	td_forever(!pass);
	mt_snap(&before);
	td_reader_start(&r, p, TD_READER_CPU);
	for (i = 2; i < times + 2; i++) {
		td_reader_hold(&r, true);
		MT_ASSERT(td_swap_out(p), "not swapped out");
		td_reader_hold(&r, false);
		MT_ASSERT(migrate(p), "did not move");
		*(volatile uint64_t *)p = i;
		say(i);
		td_reader_pass(&r);
	}
	if (judge(&before, "tlb_defer_refused_write"))
		return MT_FAIL;
	MT_ASSERT(!mt_since(&before, "tlb_defer_pages"), "was deferred");
	return MT_PASS;
}

/*
 * Dirty, and write protected by a finished fork: TLBs agree with the entry, since fork
 * has flushed.
 */
static int dirty_waits(void)
{
	uint64_t *p = map_anon(), i;
	struct mt_snap before;
	int fd = -1;
	pid_t pid;

	td_forever(!pass);
	mt_snap(&before);
	td_reader_start(&r, p, TD_READER_CPU);
	for (i = 2; i < times + 2; i++) {
		pid = sharer(&fd);
		td_reader_pass(&r);
		/* Mapped twice: only all of its mappings move */
		MT_ASSERT(migrate(p), "did not move");
		close(fd);
		waitpid(pid, NULL, 0);
		*(volatile uint64_t *)p = i;
		say(i);
		td_reader_pass(&r);
	}
	if (judge(&before, "tlb_defer_forced_write"))
		return MT_FAIL;
	MT_ASSERT(mt_since(&before, "tlb_defer_pages") >= times / 2,
		  "was not deferred");
	return MT_PASS;
}

/* ---- D: an address space during fork ---- */

/* Memory whose entries fork copies after that of the page, which takes time. */
#define STORM_BULK	(td_times(320) * MT_MB)

/**
 * struct counter - a thread that counts in a word of a page, without system calls
 * @page: the page
 * @cpu: its CPU, which selects the word
 * @count: last value
 * @lost: number of times that the word did not have the stored value
 */
struct counter {
	volatile uint64_t *page;
	int cpu;
	atomic_ulong count;
	unsigned long lost;
	pthread_t thread;
};

static atomic_bool counted;

static void *count_up(void *arg)
{
	struct counter *c = arg;
	volatile uint64_t *word = &c->page[c->cpu];
	uint64_t n;

	mt_run_on_cpu(c->cpu);
	for (n = 0; !atomic_load_explicit(&counted, memory_order_relaxed); n++) {
		c->lost += *word != n;
		*word = n + 1;
		atomic_store_explicit(&c->count, n + 1, memory_order_relaxed);
	}
	return NULL;
}

/* Both have stored in the page since its copy or move: they have a private page again. */
static void counters_pass(struct counter c[2])
{
	int i;

	for (i = 0; i < 2; i++) {
		unsigned long from = atomic_load(&c[i].count);

		while (atomic_load(&c[i].count) - from < 3)
			mt_nap(1);
	}
}

/* Get the pages that fork had write protected when they were unmapped */
static long long raced(const struct mt_snap *before)
{
	return mt_since(before, "tlb_defer_refused_pending") +
	       mt_since(before, "tlb_defer_pages");
}

/* Wait for this number of race windows */
static bool window_came(uint64_t windows)
{
	return (uint64_t)mt_read_ll(TD_DEBUG "race_windows") >= windows;
}

/* The fork starts before the entry is judged. */
static void fork_while_it_moves(char *p)
{
	uint64_t windows = mt_read_ll(TD_DEBUG "race_windows");
	pthread_t thread = start_to_move(p);
	pid_t pid;

	spin_until(window_came, windows + 1);
	pid = fork();
	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	pthread_join(thread, NULL);
}

/*
 * Fork write protects page after page and flushes at its end. A migration in between
 * finds an entry that is not writable, while other CPUs store in the page all the time. A
 * round in which fork or the move was too late proves nothing.
 */
static int fork_storm(void)
{
	struct counter c[2] = { { .cpu = TD_READER_CPU }, { .cpu = TD_OTHER_CPU } };
	const size_t size = MT_PAGE + STORM_BULK;
	char *p = mt_map_aligned(size);
	struct mt_snap before;
	unsigned int forks, i;

	madvise(p, size, MADV_NOHUGEPAGE);
	memset(p, 0, size);
	atomic_store(&counted, false);
	td_forever(!pass);
	td_race_us(mt_debug_kernel() ? 60000 : 5000);
	mt_snap(&before);
	for (i = 0; i < 2; i++) {
		c[i].page = (void *)p;
		pthread_create(&c[i].thread, NULL, count_up, &c[i]);
	}
	for (forks = 0; forks < 10 * times && raced(&before) < times / 2;
	     forks++) {
		counters_pass(c);
		fork_while_it_moves(p);
	}
	atomic_store(&counted, true);
	for (i = 0; i < 2; i++)
		pthread_join(c[i].thread, NULL);
	munmap(p, size);
	mt_note("%u forks, %lld of them in between, %lu and %lu stores", forks,
		raced(&before), atomic_load(&c[0].count),
		atomic_load(&c[1].count));
	MT_ASSERT(!c[0].lost && !c[1].lost, "stores were lost %lu times",
		  c[0].lost + c[1].lost);
	MT_ASSERT(raced(&before) >= times / 2, "too few in between");
	return MT_PASS;
}

/*
 * Writable and not dirty: once fork has write protected the entry, it does not show that
 * a TLB may hold it writable. No store is lost in this machine, which walks the page
 * table again before it sets the dirty bit; so check whether the flush was deferred. Fork
 * waits until an entry was judged: that was before its flush.
 */
static int fork_is_told(void)
{
	volatile uint64_t *p = map_anon();
	struct mt_snap before;
	unsigned int forks;

	MT_NEED(td_swap_on(), "no swap on zram");
	td_forever(!pass);
	td_use_others();
	/* Once without a fork, or all would be ineligible because the mode is new. */
	MT_ASSERT(td_swap_out((void *)p), "not swapped out");
	mprotect((void *)p, MT_PAGE, PROT_READ);
	(void)*p;
	mt_snap(&before);
	pthread_join(start_to_move((void *)p), NULL);
	MT_ASSERT(mt_since(&before, "tlb_defer_pages"), "was not deferred");
	mprotect((void *)p, MT_PAGE, PROT_READ | PROT_WRITE);
	mt_snap(&before);
	for (forks = 0; forks < 10 * times; forks++) {
		if (mt_since(&before, "tlb_defer_refused_pending") +
		    mt_since(&before, "tlb_defer_pages") >= times / 2)
			break;
		MT_ASSERT(td_swap_out((void *)p), "not swapped out");
		(void)*p;
		td_race_us(30000);
		fork_while_it_moves((void *)p);
		td_race_us(0);
	}
	td_leave_others();
	mt_note("%u forks, %lld refused in between, %lld deferred", forks,
		mt_since(&before, "tlb_defer_refused_pending"),
		mt_since(&before, "tlb_defer_pages"));
	MT_ASSERT(!mt_since(&before, "tlb_defer_pages"), "was deferred");
	MT_ASSERT(mt_since(&before, "tlb_defer_refused_pending") >= times / 2,
		  "too few in between");
	return MT_PASS;
}

/* ---- B: through the file ---- */

static bool store(int fd, uint64_t number)
{
	return pwrite(fd, &number, sizeof(number), 0) == sizeof(number);
}

static int by_open(void)
{
	int fd = td_file(MT_PAGE), writer;
	struct mt_snap before;
	uint64_t i;
	void *p;

	MT_NEED(fd >= 0, "no ext4 on a loop device");
	p = mmap(NULL, MT_PAGE, PROT_READ, MAP_SHARED, fd, 0);
	td_forever(!pass);
	mt_snap(&before);
	td_reader_start(&r, p, TD_READER_CPU);
	for (i = 2; i < times + 2; i++) {
		MT_ASSERT(migrate(p), "did not move");
		writer = td_reopen(fd, O_RDWR);
		MT_ASSERT(writer >= 0 && store(writer, i), "cannot write");
		say(i);
		td_reader_pass(&r);
		fsync(writer);
		close(writer);
	}
	return judge(&before, "tlb_defer_flush_open");
}

/* A shared writable mapping is another way to store: nothing is deferred. */
static int writers_are_seen(void)
{
	int fd = td_file(MT_PAGE), writer;
	struct mt_snap before;
	volatile uint64_t *w;
	uint64_t i;
	void *p;

	MT_NEED(fd >= 0, "no ext4 on a loop device");
	writer = td_reopen(fd, O_RDWR);
	p = mmap(NULL, MT_PAGE, PROT_READ, MAP_SHARED, fd, 0);
	w = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, writer, 0);
	close(writer);
	td_forever(!pass);
	mt_snap(&before);
	td_reader_start(&r, p, TD_READER_CPU);
	for (i = 2; i < times + 2; i++) {
		munmap((void *)w, MT_PAGE);
		writer = td_reopen(fd, O_RDWR);
		MT_ASSERT(migrate(p), "did not move");
		w = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED,
			 writer, 0);
		close(writer);
		*w = i;
		say(i);
		td_reader_pass(&r);
		msync((void *)w, MT_PAGE, MS_SYNC);
	}
	MT_ASSERT(!mt_since(&before, "tlb_defer_pages"), "was deferred");
	return judge(&before, "tlb_defer_refused_open");
}

/* The file is opened in a window of the migration of its page. */
static int open_in_window(unsigned int window, const char *counter)
{
	int fd = td_file(MT_PAGE), writer;
	struct mt_snap before;
	pthread_t thread;
	uint64_t i, windows;
	void *p;

	MT_NEED(fd >= 0, "no ext4 on a loop device");
	p = mmap(NULL, MT_PAGE, PROT_READ, MAP_SHARED, fd, 0);
	td_race_us(60000);
	mt_snap(&before);
	td_reader_start(&r, p, TD_READER_CPU);
	for (i = 2; i < times + 2; i++) {
		/* A flush for other deferred entries would cover this one as well. */
		td_forever(false);
		MT_ASSERT(MT_WAIT(!td_knob("held_kb"), 10000), "still waits");
		td_forever(!pass);
		windows = mt_read_ll(TD_DEBUG "race_windows");
		atomic_store(&stay, true);
		thread = start_to_move(p);
		spin_until(window_came, windows + window);
		writer = td_reopen(fd, O_RDWR);
		/* A task that waits for the page would keep it from moving. */
		MT_ASSERT(MT_WAIT(atomic_load(&moved), 10000), "does not move");
		MT_ASSERT(writer >= 0 && store(writer, i), "cannot write");
		say(i);
		td_reader_pass(&r);
		atomic_store(&stay, false);
		pthread_join(thread, NULL);
		fsync(writer);
		close(writer);
	}
	return judge(&before, counter);
}

/* The entry is cleared, and could have been deferred. */
static int open_before_settled(void)
{
	return open_in_window(2, "tlb_defer_joined");
}

static int open_before_sealed(void)
{
	return open_in_window(3, "tlb_defer_flush_open");
}

static int with_defaults(void);

static const struct mt_check checks[] = {
	{ "A1: a store after mprotect is seen", by_mprotect },
	{ "A1: what is mapped instead is seen", by_other_mapping },
	{ "A2: a store after a write fault is seen", by_reuse },
	{ "A4: a store by a debugger is seen", by_force },
	{ "D1: a store through a writable page is seen", writable_is_flushed },
	{ "D1: a store in a page that was dirty when it moved is seen", dirty_waits },
	{ "D7: no store is lost while the address space is forked",
	  fork_storm },
	{ "D7: a clean page does not wait while the address space is forked",
	  fork_is_told },
	{ "B1: a store by somebody who has the file open is seen",
	  writers_are_seen },
	{ "B2: a store after opening the file is seen", by_open },
	{ "B2: a store after opening it before all is unmapped is seen",
	  open_before_sealed },
	{ "B3: a store by who opens the file meanwhile is seen",
	  open_before_settled },
	{ "all of it with the default knobs", with_defaults },
};

static int with_defaults(void)
{
	struct mt_snap before;
	size_t i;
	int ret;

	pass = true;
	mt_snap(&before);
	for (i = 0; checks[i].run != with_defaults; i++) {
		mt_note("%s", checks[i].name);
		td_race_us(0);
		ret = checks[i].run();
		if (ret)
			return ret;
	}
	MT_ASSERT(mt_since(&before, "tlb_defer_pages") >= times,
		  "too few were deferred");
	return MT_PASS;
}

int main(void)
{
	times = td_times(24);
	return td_main(checks, ARRAY_LEN(checks));
}
