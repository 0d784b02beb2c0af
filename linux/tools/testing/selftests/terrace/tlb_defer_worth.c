// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flushes: the benefit. Pages write-protected by a fork move back and forth
 * with move_pages(), 1 to 512 at a time, while up to 15 other CPUs use the address space
 * all the time, on memory that does not move.
 *
 * Guest time counts the instructions of all CPUs. The CPUs that use the address space
 * only count in a loop. The time without their share is the cost of the moves on all
 * CPUs, including interrupts, and flushes in timer interrupts until all frames are freed.
 * The counting threads pause after each round, which ends their turn: otherwise they
 * would get the time in which a page moves, which is more than a tick. The worker of
 * tlb_defer has only the CPU that moves the pages. So it is late, which must not
 * interrupt other CPUs.
 *
 * lab: topology=dram-cxl cpus=16 icount=2 timeout=300s debug=no
 * lab: append="nopti isolcpus=1-15 skew_tick=1"
 */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tlb_defer_util.h"

#define CPUS	16
/* First CPU that is not this program's */
#define FIRST	1
#define PAGES	2048L
#define NS_PER_INSN	4
#define CALIBRATE_MS	40
#define LIMIT		1.15

/**
 * struct counter - a thread that keeps a CPU busy, and counts
 * @n: rounds of its loop
 * @apart: a cache line between this and the others
 * @stop: end
 * @cpu: its CPU
 * @thread: the thread
 */
struct counter {
	volatile unsigned long n;
	char apart[64];
	atomic_bool stop;
	int cpu;
	pthread_t thread;
};

static struct counter counters[CPUS];

static void *count(void *arg)
{
	struct counter *c = arg;

	mt_run_on_cpu(c->cpu);
	while (!atomic_load_explicit(&c->stop, memory_order_relaxed)) {
		c->n++;
		__builtin_ia32_pause();
	}
	return NULL;
}

static void count_on(int others)
{
	int i;

	for (i = 0; i < others; i++) {
		counters[i] = (struct counter){ .cpu = FIRST + i };
		pthread_create(&counters[i].thread, NULL, count, &counters[i]);
		while (!counters[i].n)
			mt_nap(1);
	}
}

static void count_off(int others)
{
	int i;

	for (i = 0; i < others; i++) {
		atomic_store(&counters[i].stop, true);
		pthread_join(counters[i].thread, NULL);
	}
}

static unsigned long counted(int others)
{
	unsigned long sum = 0;
	int i;

	for (i = 0; i < others; i++)
		sum += counters[i].n;
	return sum;
}

/* Measure nanoseconds of one round, including timer interrupts */
static double round_ns(int others)
{
	unsigned long n = counted(others);
	long long ns = mt_now_ns();

	if (!others)
		return 0;
	mt_nap(CALIBRATE_MS);
	ns = mt_now_ns() - ns;
	return (double)ns / (counted(others) - n);
}

/**
 * struct cell - cost of moving a page
 * @interrupts: of other CPUs, for their TLBs
 * @flushes: of CPUs, in their timer interrupts
 * @insns: instructions, on all CPUs
 */
struct cell {
	double interrupts;
	double flushes;
	double insns;
};

static bool move(char *p, int batch, int node)
{
	void *at[512];
	int nodes[512], status[512], i;
	long done;

	for (done = 0; done < PAGES; done += batch) {
		for (i = 0; i < batch; i++) {
			at[i] = p + (done + i) * MT_PAGE;
			nodes[i] = node;
		}
		if (syscall(SYS_move_pages, 0, batch, at, nodes, status,
			    MPOL_MF_MOVE))
			return false;
		for (i = 0; i < batch; i++)
			if (status[i] != node)
				return false;
	}
	return true;
}

static int measure(const char *mode, char *p, int others, int batch,
		   struct cell *cell)
{
	unsigned long rounds;
	struct mt_snap before;
	long long ns, interrupts;
	double round;

	td_mode(mode);
	round = round_ns(others);
	mt_snap(&before);
	interrupts = td_ipis();
	rounds = counted(others);
	ns = mt_now_ns();
	MT_ASSERT(move(p, batch, td_node_b()) && move(p, batch, td_node_a()),
		  "not all have moved");
	while (td_knob("held_kb") > 0)
		mt_nap(1);
	ns = mt_now_ns() - ns;
	rounds = counted(others) - rounds;
	cell->interrupts = (td_ipis() - interrupts) / (2.0 * PAGES);
	cell->flushes = mt_since(&before, "tlb_defer_tick_flush") / (2.0 * PAGES);
	cell->insns = (ns - rounds * round) / NS_PER_INSN / (2.0 * PAGES);
	return MT_PASS;
}

static int worth(int others)
{
	static const int batches[] = { 1, 8, 32, 128, 512 };
	char *p = mt_fill(PAGES * MT_PAGE, td_node_a(), false);
	size_t i;

	MT_ASSERT(p && mt_fork_once(), "no memory");
	count_on(others);
	mt_note("%d CPUs; a page: interrupts off, on, flushes in ticks on, instructions off, on",
		others + 1);
	for (i = 0; i < ARRAY_LEN(batches); i++) {
		struct cell off, on;

		if (measure("off", p, others, batches[i], &off) ||
		    measure("quarantine", p, others, batches[i], &on))
			return MT_FAIL;
		mt_note("%3d at a time  %7.4f %7.4f  %7.4f  %5.0f %5.0f", batches[i],
			off.interrupts, on.interrupts, on.flushes, off.insns, on.insns);
		MT_ASSERT(on.interrupts * 10 <= off.interrupts,
			  "more than a tenth of the interrupts");
		/* The lists of free pages change 5 % of it. */
		MT_ASSERT(on.insns <= off.insns * LIMIT, "it takes too long");
	}
	count_off(others);
	return MT_PASS;
}

/* There is no interrupt to save: no page is deferred. */
static int one(void)
{
	struct mt_snap before;
	int ret;

	mt_snap(&before);
	ret = worth(0);
	MT_ASSERT(!mt_since(&before, "tlb_defer_pages"), "some waited");
	MT_ASSERT(mt_since(&before, "tlb_defer_no_need") >= PAGES,
		  "not counted as such");
	return ret;
}

static int two(void)
{
	return worth(1);
}

static int four(void)
{
	return worth(3);
}

static int eight(void)
{
	return worth(7);
}

static int sixteen(void)
{
	return worth(15);
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("one CPU", one),
		MT_CHECK("two CPUs", two),
		MT_CHECK("four CPUs", four),
		MT_CHECK("eight CPUs", eight),
		MT_CHECK("sixteen CPUs", sixteen),
	};

	return td_main(checks, ARRAY_LEN(checks));
}
