// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flushes: pages that were written to and that tiering moves again and again.
 * The first migration flushes and leaves their entries write-protected, the next ones are
 * deferred. A store takes a write fault, and an address space with too many of them stops.
 *
 * Memory of this process is demoted by memory.reclaim and comes back by move_pages(). Two
 * other CPUs use the address space all the time. Guest time counts instructions: see
 * tlb_defer_mixed.c.
 *
 * lab: topology=dram-cxl cpus=4 append="nopti isolcpus=2,3 skew_tick=1" icount=2
 * lab: timeout=300s debug=no
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tlb_defer_util.h"

#define BALANCING	"/sys/kernel/debug/sched/numa_balancing/"
#define DEMOTION	"/sys/kernel/mm/numa/demotion_enabled"
#define SIZE		(16 * MT_MB)
#define PAGES		((long long)(SIZE / MT_PAGE))
/* Stores that need not be paid for, see mm/tlb_defer/tlb_defer.h */
#define OWED		512
/* Reclaim need not demote all. */
#define MOST(n)		((n) * 9 / 10)

static struct mt_cgroup cg;
static struct mt_snap before;

static long long since(const char *counter)
{
	return mt_since(&before, counter);
}

/* ---- memory that goes down and comes back ---- */

static int begin(char **p)
{
	MT_NEED(!mt_write(DEMOTION, "1"), "no demotion");
	MT_NEED(!mt_cgroup_make(&cg, "protect", "+memory") &&
		!mt_cgroup_enter(&cg, 0), "no memory cgroup");
	*p = mt_map_aligned(SIZE);
	madvise(*p, SIZE, MADV_NOHUGEPAGE);
	mt_bind_to(mt_fast_node());
	mt_touch(*p, SIZE, true);
	mt_bind_default();
	return MT_PASS;
}

static void end(char *p)
{
	td_mode("off");
	munmap(p, SIZE);
	mt_cgroup_enter(&(struct mt_cgroup){ "/sys/fs/cgroup" }, 0);
	mt_cgroup_remove(&cg);
	mt_write(DEMOTION, "0");
}

/* Demote most of it. */
static int demote(char *p)
{
	int i;

	MT_NEED(!madvise(p, SIZE, MADV_COLD), "no MADV_COLD");
	for (i = 0; i < 16 &&
	     mt_pages_on(p, SIZE, mt_slow_node()) < MOST(PAGES); i++)
		/* Fails if it reclaimed less. */
		mt_cgroup_write(&cg, "memory.reclaim", "4M swappiness=200");
	MT_ASSERT(mt_pages_on(p, SIZE, mt_slow_node()) >= MOST(PAGES),
		  "only %zu pages were demoted",
		  mt_pages_on(p, SIZE, mt_slow_node()));
	return MT_PASS;
}

static int come_back(char *p)
{
	MT_ASSERT(td_move(p, PAGES, mt_fast_node()) == PAGES, "stayed down");
	return MT_PASS;
}

/**
 * struct cycle - cost of moving memory down and up once
 * @interrupts: TLB interrupts of other CPUs
 * @waited: pages with a deferred flush
 * @writable: pages that could not wait since they were writable
 * @protected: entries that stayed write-protected
 */
struct cycle {
	long long interrupts;
	long long waited;
	long long writable;
	long long protected;
};

static int run_cycle(char *p, const char *name, struct cycle *c)
{
	long long interrupts = td_ipis();
	int ret;

	mt_snap(&before);
	ret = demote(p) ?: come_back(p);
	if (ret)
		return ret;
	MT_ASSERT(MT_WAIT(!td_knob("held_kb"), 2000), "some still wait");
	*c = (struct cycle) {
		.interrupts = td_ipis() - interrupts,
		.waited = since("tlb_defer_pages"),
		.writable = since("tlb_defer_refused_write"),
		.protected = since("tlb_defer_protected"),
	};
	mt_note("%-8s %4lld interrupts; %lld waited, %lld were writable, %lld stayed protected",
		name, c->interrupts, c->waited, c->writable, c->protected);
	return MT_PASS;
}

/* ---- the next migration waits ---- */

static int cycles(char *p)
{
	struct cycle off, first, next;
	int ret;

	td_mode("off");
	ret = run_cycle(p, "off", &off);
	td_mode("quarantine");
	ret = ret ?: run_cycle(p, "first", &first);
	ret = ret ?: run_cycle(p, "second", &next);
	if (ret)
		return ret;
	MT_ASSERT(off.interrupts > PAGES / 64, "too few interrupts while off");
	MT_ASSERT(!off.protected, "off, and some stayed protected");
	MT_ASSERT(first.writable >= MOST(PAGES), "not most were writable");
	MT_ASSERT(first.protected >= MOST(PAGES), "not most stayed protected");
	MT_ASSERT(first.waited >= MOST(PAGES), "not most waited on their way up");
	MT_ASSERT(next.waited >= 2 * MOST(PAGES), "not most waited");
	MT_ASSERT(next.interrupts * 10 <= off.interrupts, "more than a tenth");
	return MT_PASS;
}

static int written_pages_wait(void)
{
	char *p;
	int ret = begin(&p);

	if (ret)
		return ret;
	td_use_others();
	ret = cycles(p);
	td_leave_others();
	end(p);
	return ret;
}

static int not_with_the_knob_off(void)
{
	struct cycle one, two;
	char *p;
	int ret = begin(&p);

	if (ret)
		return ret;
	mt_write(TD_DIR "protect", "0");
	td_mode("quarantine");
	td_use_others();
	ret = run_cycle(p, "first", &one) ?: run_cycle(p, "second", &two);
	td_leave_others();
	mt_write(TD_DIR "protect", "1");
	end(p);
	if (ret)
		return ret;
	MT_ASSERT(!one.protected && !two.protected, "some stayed protected");
	MT_ASSERT(two.writable >= MOST(PAGES), "not most were writable");
	return MT_PASS;
}

/* Nobody is interrupted, so there is nothing to save. */
static int not_for_one_cpu(void)
{
	struct cycle one;
	char *p;
	int ret = begin(&p);

	if (ret)
		return ret;
	td_mode("quarantine");
	ret = run_cycle(p, "alone", &one);
	end(p);
	if (ret)
		return ret;
	MT_ASSERT(!one.protected, "some stayed protected");
	return MT_PASS;
}

/* A user who moves pages has no reason to expect write faults. */
static int not_by_move_pages(void)
{
	char *p;
	int ret = begin(&p);

	if (ret)
		return ret;
	td_mode("quarantine");
	td_use_others();
	mt_snap(&before);
	MT_ASSERT(td_move(p, PAGES, mt_slow_node()) == PAGES, "did not move");
	td_leave_others();
	end(p);
	MT_ASSERT(since("tlb_defer_refused_write") == PAGES,
		  "not all were writable");
	MT_ASSERT(!since("tlb_defer_protected"), "some stayed protected");
	return MT_PASS;
}

/* ---- stores ---- */

/* Each page that was demoted is written to: the address space stops after some. */
static int stores_stop_it(char *p)
{
	long long ns;
	int ret;

	mt_snap(&before);
	ret = demote(p);
	if (ret)
		return ret;
	MT_ASSERT(since("tlb_defer_protected") >= MOST(PAGES),
		  "not most stayed protected");
	ns = mt_now_ns();
	mt_touch(p, SIZE, true);
	ns = mt_now_ns() - ns;
	mt_note("%lld write faults counted, %lld stops; %lld ns for a store",
		since("tlb_defer_protect_stores"),
		since("tlb_defer_protect_stops"), ns / PAGES);
	MT_ASSERT(since("tlb_defer_protect_stores") >= OWED &&
		  since("tlb_defer_protect_stores") <= PAGES,
		  "%lld stores were counted",
		  since("tlb_defer_protect_stores"));
	MT_ASSERT(since("tlb_defer_protect_stops") == 1, "it did not stop once");
	/* What was protected before is made writable by each fault; nothing is added. */
	ret = come_back(p);
	mt_snap(&before);
	ret = ret ?: demote(p);
	if (ret)
		return ret;
	MT_ASSERT(!since("tlb_defer_protected"), "it goes on");
	return MT_PASS;
}

static int who_stores_stops(void)
{
	char *p;
	int ret = begin(&p);

	if (ret)
		return ret;
	mt_write(TD_DIR "backoff_ms", "60000");
	td_mode("quarantine");
	td_use_others();
	ret = stores_stop_it(p);
	td_leave_others();
	mt_write(TD_DIR "backoff_ms", "1000");
	end(p);
	return ret;
}

static void scan_at_once(void)
{
	mt_write(BALANCING "scan_delay_ms", "1");
	mt_write(BALANCING "scan_period_min_ms", "50");
	mt_write(BALANCING "scan_period_max_ms", "100");
}

/* Read all pages but the first one, on a CPU without stale translations. */
static void read_others(char *p)
{
	static int cpu;

	cpu = !cpu;
	mt_run_on_cpu(cpu);
	mt_touch(p + MT_PAGE, SIZE - MT_PAGE, false);
}

/*
 * Make entries inaccessible, also that of the first page. Hint scans leave out ranges
 * without hint faults.
 */
static int scanned(char *p)
{
	struct mt_snap start;
	bool done;

	mt_snap(&start);
	mt_write("/proc/sys/kernel/numa_balancing", "1");
	done = MT_WAIT((read_others(p),
			mt_since(&start, "tlb_defer_hint_scans") >= 3), 10000);
	mt_write("/proc/sys/kernel/numa_balancing", "0");
	MT_ASSERT(done, "no hint scans");
	return MT_PASS;
}

/* A store while a reader may still read the old frame (A2) */
static int store_in_rounds(char *p, struct td_reader *r, bool scan)
{
	uint64_t i, *word = (uint64_t *)p;
	int ret = MT_PASS;

	for (i = 1; !ret && i <= td_times(12); i++) {
		ret = demote(p) ?: come_back(p);
		if (scan && !ret)
			ret = scanned(p);
		*(volatile uint64_t *)word = i;
		atomic_store_explicit(&r->flag, i, memory_order_release);
		td_reader_pass(r);
	}
	return ret;
}

static int store_is_seen(bool scan)
{
	struct td_reader r;
	char *p;
	int ret = begin(&p);

	if (ret)
		return ret;
	memset(p, 0, MT_PAGE);
	td_forever(true);
	td_mode("quarantine");
	mt_snap(&before);
	td_reader_start(&r, p, TD_READER_CPU);
	ret = store_in_rounds(p, &r, scan);
	td_reader_stop(&r);
	mt_note("%lld waited, %lld flushes that a store forced",
		since("tlb_defer_pages"), since("tlb_defer_forced_write"));
	td_forever(false);
	end(p);
	if (ret)
		return ret;
	MT_ASSERT(!atomic_load(&r.stale), "missed a store %lu times",
		  atomic_load(&r.stale));
	MT_ASSERT(since("tlb_defer_forced_write") >= td_times(12) / 2,
		  "too few forced flushes");
	return MT_PASS;
}

static int a_store_is_seen(void)
{
	return store_is_seen(false);
}

/* The fault of the store is a hint fault, of a page that was deferred before. */
static int a_store_by_a_hint_fault_is_seen(void)
{
	scan_at_once();
	return store_is_seen(true);
}

/* ---- hint faults ---- */

static void use(char *p, bool write)
{
	size_t off;

	/* Stores without a load: that would be a hint fault of a read. */
	for (off = 0; write && off < SIZE; off += MT_PAGE)
		*(volatile char *)(p + off) = 1;
	if (!write)
		mt_touch(p, SIZE, false);
}

/* Hint faults on the node that the pages are on */
static bool hinted(char *p, bool write, long long faults)
{
	bool done;

	mt_snap(&before);
	if (mt_write("/proc/sys/kernel/numa_balancing", "1"))
		return false;
	done = MT_WAIT((use(p, write),
			since("numa_hint_faults") >= faults), MT_MOVE_MS);
	mt_write("/proc/sys/kernel/numa_balancing", "0");
	mt_note("%s: %lld hint faults, %lld entries stayed protected",
		write ? "writes" : "reads", since("numa_hint_faults"),
		since("tlb_defer_protected"));
	return done;
}

static int hint_faults(char *p)
{
	scan_at_once();
	td_mode("off");
	MT_ASSERT(hinted(p, false, PAGES), "too few hint faults, off");
	MT_ASSERT(!since("tlb_defer_protected"), "off, and some stayed protected");
	td_mode("quarantine");
	MT_ASSERT(hinted(p, true, PAGES), "too few hint faults of writes");
	MT_ASSERT(since("tlb_defer_protected") < PAGES / 8,
		  "a hint fault of a write left the entry protected");
	MT_ASSERT(hinted(p, false, PAGES), "too few hint faults of reads");
	MT_ASSERT(since("tlb_defer_protected") >= PAGES / 2,
		  "a hint fault of a read made the entry writable");
	return MT_PASS;
}

static int hint_faults_of_reads(void)
{
	char *p;
	int ret = begin(&p);

	if (ret)
		return ret;
	td_use_others();
	ret = hint_faults(p);
	td_leave_others();
	end(p);
	return ret;
}

static const struct mt_check checks[] = {
	{ "pages that were written wait from the second migration on",
	  written_pages_wait },
	{ "not if protect is 0", not_with_the_knob_off },
	{ "not if no other CPU would be interrupted", not_for_one_cpu },
	{ "move_pages() leaves entries writable", not_by_move_pages },
	{ "an address space that stores to most of them stops",
	  who_stores_stops },
	{ "A2: a store in such a page is seen", a_store_is_seen },
	{ "A2: a store by a hint fault is seen",
	  a_store_by_a_hint_fault_is_seen },
	{ "hint faults of reads that migrate nothing leave entries protected",
	  hint_faults_of_reads },
};

int main(void)
{
	return td_main(checks, ARRAY_LEN(checks));
}
