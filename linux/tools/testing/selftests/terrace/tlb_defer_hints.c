// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flushes of hint scans: a CPU can access a page through a translation from
 * before a hint scan of NUMA balancing. No store through it is lost when the page migrates,
 * and none is possible after mprotect().
 *
 * A thread stores to a page all the time, on a separate CPU and without system calls, so
 * that its translation stays. Stale translations are kept until a flush is forced
 * (forever). The last check counts the interrupts of scans with the default knobs.
 *
 * lab: topology=dram-cxl cpus=4 append="nopti isolcpus=2,3" timeout=400s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tlb_defer_util.h"

#define BALANCING	"/sys/kernel/debug/sched/numa_balancing/"
#define MODE		"/proc/sys/kernel/numa_balancing"
#define SIZE		(16 * MT_MB)
#define FEW		64

static struct mt_snap before;

static long long since(const char *counter)
{
	return mt_since(&before, counter);
}

static void scan_at_once(void)
{
	mt_write(BALANCING "scan_delay_ms", "1");
	mt_write(BALANCING "scan_period_min_ms", "20");
	mt_write(BALANCING "scan_period_max_ms", "20");
}

/* Let the address space be scanned, at least twice from its start to its end. */
static bool scanned(void)
{
	struct mt_snap start;
	bool done;

	mt_snap(&start);
	mt_write(MODE, "1");
	done = MT_WAIT(mt_since(&start, "tlb_defer_hint_scans") >= 3, 10000);
	mt_write(MODE, "0");
	return done;
}

/* ---- a thread that stores ---- */

/**
 * struct writer - stores growing numbers to a page
 * @page: the page
 * @said: the number that it has stored
 * @held: a store failed, and it waits until it is false
 * @stop: end
 */
static struct writer {
	volatile uint64_t *page;
	atomic_ulong said;
	atomic_bool held;
	atomic_bool stop;
	pthread_t thread;
} writer;

/* SIGSEGV: the page is read-only. The store is repeated. */
static void hold(int sig)
{
	(void)sig;
	atomic_store(&writer.held, true);
	while (atomic_load(&writer.held))
		;
}

static void *stores(void *arg)
{
	unsigned long n = 0;

	(void)arg;
	mt_run_on_cpu(TD_READER_CPU);
	while (!atomic_load_explicit(&writer.stop, memory_order_relaxed)) {
		*writer.page = ++n;
		atomic_store_explicit(&writer.said, n, memory_order_release);
	}
	return NULL;
}

static void writer_start(void *page)
{
	const struct sigaction action = { .sa_handler = hold };

	sigaction(SIGSEGV, &action, NULL);
	writer.page = page;
	atomic_store(&writer.said, 0);
	atomic_store(&writer.stop, false);
	if (pthread_create(&writer.thread, NULL, stores, NULL))
		exit(MT_FAIL);
	while (!atomic_load(&writer.said))
		;
}

static void writer_stop(void)
{
	atomic_store(&writer.stop, true);
	pthread_join(writer.thread, NULL);
	signal(SIGSEGV, SIG_DFL);
}

/* Wait until the writer has stored some more, then check that the page has it. */
static bool store_arrives(void)
{
	unsigned long now = atomic_load(&writer.said), said;

	while (atomic_load(&writer.said) < now + 1000)
		;
	said = atomic_load_explicit(&writer.said, memory_order_acquire);
	return *writer.page >= said;
}

/* ---- what a store can meet ---- */

static void *one_page(void)
{
	char *p = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*p = 1;
	return p;
}

static int begin(char **p)
{
	scan_at_once();
	*p = one_page();
	td_forever(true);
	td_mode("quarantine");
	mt_snap(&before);
	return MT_PASS;
}

static void end(char *p)
{
	td_forever(false);
	td_mode("off");
	munmap(p, MT_PAGE);
	mt_note("%lld hint scans without a flush, %lld pages writable, %lld waited",
		since("tlb_defer_hint_scans"),
		since("tlb_defer_refused_write"), since("tlb_defer_pages"));
}

static bool move(char *p)
{
	int node = mt_all_on(p, MT_PAGE, td_node_a()) ? td_node_b() :
							td_node_a();

	return td_move(p, 1, node) == 1;
}

/* The page moves after a scan; before that, it is read if @read. */
static int moves_after_scan(bool read)
{
	unsigned int i, lost = 0, times = td_times(12);
	bool ok = true;
	char *p;

	begin(&p);
	writer_start(p);
	for (i = 0; ok && i < times; i++) {
		ok = scanned();
		if (read)
			(void)*(volatile char *)p;
		ok = ok && move(p);
		lost += ok && !store_arrives();
	}
	writer_stop();
	end(p);
	MT_ASSERT(ok, "no scan or no move, in round %u", i);
	MT_ASSERT(!lost, "%u of %u times stores were lost", lost, times);
	MT_ASSERT(since("tlb_defer_hint_scans") >= times, "too few scans");
	return MT_PASS;
}

static int stores_while_it_moves(void)
{
	return moves_after_scan(false);
}

static int stores_after_a_read(void)
{
	return moves_after_scan(true);
}

/* After mprotect(), the page must not change. */
static bool stays_as_it_is(char *p)
{
	uint64_t first;
	long long end_ns;

	if (mprotect(p, MT_PAGE, PROT_READ))
		return false;
	first = *writer.page;
	end_ns = mt_now_ns() + 5000000;
	while (mt_now_ns() < end_ns)
		if (*writer.page != first)
			return false;
	return true;
}

static int stores_after_mprotect(void)
{
	unsigned int i, times = td_times(12);
	bool ok = true, same = true;
	char *p;

	begin(&p);
	writer_start(p);
	for (i = 0; ok && same && i < times; i++) {
		ok = scanned();
		same = stays_as_it_is(p);
		ok = ok && MT_WAIT(atomic_load(&writer.held), 5000);
		mprotect(p, MT_PAGE, PROT_READ | PROT_WRITE);
		atomic_store(&writer.held, false);
		ok = ok && store_arrives();
	}
	writer_stop();
	end(p);
	MT_ASSERT(same, "a store after mprotect(), in round %u", i);
	MT_ASSERT(ok, "no scan, or no fault, in round %u", i);
	return MT_PASS;
}

/* ---- interrupts ---- */

/* Pages migrate one by one after a scan, and nobody uses them in between. */
static int one_flush_for_a_scan(void)
{
	long long i, moved = 0;
	char *p = mt_map_aligned(FEW * MT_PAGE);

	madvise(p, FEW * MT_PAGE, MADV_NOHUGEPAGE);
	mt_bind_to(td_node_a());
	mt_touch(p, FEW * MT_PAGE, true);
	mt_bind_default();
	scan_at_once();
	td_forever(true);
	td_mode("quarantine");
	td_use_others();
	MT_ASSERT(scanned(), "no scan");
	mt_snap(&before);
	for (i = 0; i < FEW; i++)
		moved += td_move(p + i * MT_PAGE, 1, td_node_b());
	td_leave_others();
	munmap(p, FEW * MT_PAGE);
	td_forever(false);
	td_mode("off");
	mt_note("%lld of %d pages moved: %lld without a flush, %lld flushes of all",
		moved, FEW, since("tlb_defer_no_need"),
		since("tlb_defer_forced_unmap"));
	MT_ASSERT(moved == FEW, "not all moved");
	MT_ASSERT(since("tlb_defer_no_need") >= FEW - 2, "too many flushed");
	MT_ASSERT(since("tlb_defer_forced_unmap") >= 1, "the scan was not flushed");
	return MT_PASS;
}

/* Interrupts while memory is scanned some times; reads it all the time */
static long long interrupts(char *p, const char *mode, long long faults)
{
	long long ipis;

	td_mode(mode);
	mt_snap(&before);
	ipis = td_ipis();
	mt_write(MODE, "1");
	if (!MT_WAIT((mt_touch(p, SIZE, false),
		      since("numa_hint_faults") >= faults), MT_MOVE_MS))
		return -1;
	mt_write(MODE, "0");
	ipis = td_ipis() - ipis;
	mt_note("%-10s %lld interrupts, %lld entries scanned, %lld hint faults",
		mode, ipis, since("numa_pte_updates"),
		since("numa_hint_faults"));
	mt_note("  %lld scans without a flush", since("tlb_defer_hint_scans"));
	return ipis;
}

static int scans_interrupt_nobody(void)
{
	const long long faults = 8 * (SIZE / MT_PAGE);
	char *p = mt_map_aligned(SIZE);
	long long off, on;

	madvise(p, SIZE, MADV_NOHUGEPAGE);
	mt_touch(p, SIZE, true);
	scan_at_once();
	td_use_others();
	off = interrupts(p, "off", faults);
	on = interrupts(p, "quarantine", faults);
	td_leave_others();
	td_mode("off");
	munmap(p, SIZE);
	MT_ASSERT(off > 0 && on >= 0, "too few hint faults");
	MT_ASSERT(since("tlb_defer_hint_scans") > 0, "no scan was deferred");
	MT_ASSERT(on * 4 <= off, "more than a quarter of the interrupts");
	return MT_PASS;
}

static const struct mt_check checks[] = {
	{ "no store is lost when a page migrates after a hint scan",
	  stores_while_it_moves },
	{ "no store is lost if the page was read in between",
	  stores_after_a_read },
	{ "A1: no store after mprotect() reaches a page that was scanned",
	  stores_after_mprotect },
	{ "one flush is enough for the writable pages of a scan",
	  one_flush_for_a_scan },
	{ "hint scans interrupt no CPU", scans_interrupt_nobody },
};

int main(void)
{
	return td_main(checks, ARRAY_LEN(checks));
}
