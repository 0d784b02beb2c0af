// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flushes: batches in which some pages can be deferred and some cannot.
 * Interrupts are counted, not pages: one page that cannot be deferred would cost as many
 * as a whole batch of them.
 *
 * Guest time counts instructions, and CPUs run in turns: see tlb_defer_cost.c. The CPUs
 * that are interrupted spin on memory that does not move, so that none sleeps on a page
 * that moves and counts as idle.
 *
 * lab: cpus=4 append="nopti isolcpus=2,3 skew_tick=1" icount=2 timeout=240s debug=no
 */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tlb_defer_util.h"

#define BATCH	512
#define BATCHES	20
#define PAGES	(BATCHES * BATCH)
#define OTHERS	20

/**
 * struct mix - pages in the order in which they move
 * @at: their addresses
 * @file: mapped read-only: they can be deferred
 * @anon: written to: they cannot
 * @nr: number of pages
 */
struct mix {
	void *at[PAGES];
	char *file;
	char *anon;
	size_t nr;
};

/**
 * struct cost - cost of moving them back and forth
 * @interrupts: TLB interrupts of other CPUs
 * @flushes: CPUs that flushed in their ticks
 * @clean: batches without a flush
 * @flushed: batches with one
 */
struct cost {
	long long interrupts;
	long long flushes;
	long long clean;
	long long flushed;
};

/* @k of each batch cannot be deferred, evenly distributed */
static void mix_up(struct mix *mix, size_t nr, unsigned int k)
{
	size_t i, file = 0, anon = 0;

	mix->nr = nr;
	for (i = 0; i < nr; i++) {
		unsigned int in = i % BATCH;
		bool cannot = (in + 1) * k / BATCH != in * k / BATCH;

		mix->at[i] = cannot ? mix->anon + anon++ * MT_PAGE :
				      mix->file + file++ * MT_PAGE;
	}
}

static bool mix_move(struct mix *mix, int node)
{
	static int nodes[PAGES], status[PAGES];
	size_t i, there = 0;

	for (i = 0; i < mix->nr; i++)
		nodes[i] = node;
	syscall(SYS_move_pages, 0, mix->nr, mix->at, nodes, status,
		MPOL_MF_MOVE);
	for (i = 0; i < mix->nr; i++)
		there += status[i] == node;
	return there == mix->nr;
}

static int mix_cost(struct mix *mix, struct cost *cost)
{
	long long interrupts = td_ipis();
	struct mt_snap before;

	mt_snap(&before);
	MT_ASSERT(mix_move(mix, td_node_b()) && mix_move(mix, td_node_a()),
		  "not all have moved");
	/* Deferred flushes belong to it. */
	MT_ASSERT(MT_WAIT(!td_knob("held_kb"), 2000), "some still wait");
	*cost = (struct cost) {
		.interrupts = td_ipis() - interrupts,
		.flushes = mt_since(&before, "tlb_defer_tick_flush"),
		.clean = mt_since(&before, "tlb_defer_batch_clean"),
		.flushed = mt_since(&before, "tlb_defer_batch_flushed"),
	};
	return MT_PASS;
}

/* With the mode off and on, @k of each batch of @nr pages that cannot be deferred */
static int off_and_on(struct mix *mix, size_t nr, unsigned int k,
		      struct cost *off, struct cost *on)
{
	int ret;

	mix_up(mix, nr, k);
	td_mode("off");
	ret = mix_cost(mix, off);
	if (ret)
		return ret;
	td_mode("quarantine");
	ret = mix_cost(mix, on);
	mt_note("%3u of %d cannot wait, %2zu batches at a time:", k, BATCH,
		nr / BATCH);
	mt_note("  %3lld interrupts off, %3lld on; %3lld flushes in ticks",
		off->interrupts, on->interrupts, on->flushes);
	mt_note("  %3lld batches without a flush, %lld with one", on->clean,
		on->flushed);
	return ret;
}

static int mix_init(struct mix *mix)
{
	mix->file = td_map_file(PAGES * MT_PAGE);
	MT_NEED(mix->file, "no ext4 on a loop device");
	mix->anon = mmap(NULL, PAGES * MT_PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(mix->anon, PAGES * MT_PAGE, MADV_NOHUGEPAGE);
	mt_touch(mix->anon, PAGES * MT_PAGE, true);
	return MT_PASS;
}

static struct mix mix;
static struct td_reader one;

static int compare(size_t nr, const unsigned int *ks, size_t n,
		   int (*judge)(const struct cost *off, const struct cost *on))
{
	int ret = mix_init(&mix);
	size_t i;

	if (ret)
		return ret;
	td_use_others();
	for (i = 0; !ret && i < n; i++) {
		struct cost off, on;

		ret = off_and_on(&mix, nr, ks[i], &off, &on);
		if (!ret)
			ret = judge(&off, &on);
	}
	td_leave_others();
	return ret;
}

/* A deferred batch makes each CPU flush once, in a tick, including the migrating one. */
static int no_more(const struct cost *off, const struct cost *on)
{
	MT_ASSERT(on->interrupts <= off->interrupts, "more than while off");
	MT_ASSERT(on->flushes <= 3 * on->clean, "CPUs flush more than once");
	return MT_PASS;
}

static int a_tenth(const struct cost *off, const struct cost *on)
{
	MT_ASSERT(off->interrupts > BATCHES, "too few while off");
	MT_ASSERT(on->interrupts * 10 <= off->interrupts, "more than a tenth");
	return no_more(off, on);
}

static int few_of_many(void)
{
	static const unsigned int ks[] = { 0, 1, 4, 16 };

	return compare(PAGES, ks, ARRAY_LEN(ks), a_tenth);
}

static int many_of_many(void)
{
	static const unsigned int ks[] = { 17, 64, 256, 512 };

	return compare(PAGES, ks, ARRAY_LEN(ks), no_more);
}

/* Pages that cannot be deferred cannot be merged with other batches. */
static int one_batch(void)
{
	static const unsigned int ks[] = { 0, 1, 16, 64, 512 };

	return compare(BATCH, ks, ARRAY_LEN(ks), no_more);
}

/* ---- CPUs that a flush does not reach ---- */

/* A separate process that reads a page of a file, on an unused CPU */
static pid_t start_reading(const volatile char *p, atomic_ulong *reads)
{
	pid_t pid = fork();

	if (!pid) {
		mt_run_on_cpu(TD_OTHER_CPU);
		for (;; atomic_fetch_add(reads, 1))
			(void)*p;
	}
	while (!atomic_load(reads))
		mt_nap(1);
	return pid;
}

/*
 * A page of this process cannot be deferred, and its flush does not reach other
 * processes: pages that they map too have to wait for their flush.
 */
static int others_still_read(unsigned int n)
{
	int nodes[] = { td_node_b(), td_node_b() }, status[2];
	char *file = td_map_file(MT_PAGE), *anon = mt_map_aligned(MT_PAGE);
	atomic_ulong *reads = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	void *at[] = { file, anon };
	struct mt_snap before;
	pid_t pid[OTHERS];
	long long held;
	unsigned int i;

	MT_NEED(file, "no ext4 on a loop device");
	for (i = 0; i < n; i++)
		pid[i] = start_reading(file, &reads[i]);
	td_reader_start(&one, &reads[n], TD_READER_CPU);
	/* After all forks, so that it is private */
	mt_touch(anon, MT_PAGE, true);
	td_forever(true);
	mt_snap(&before);
	syscall(SYS_move_pages, 0, 2, at, nodes, status, MPOL_MF_MOVE_ALL);
	held = td_knob("held_kb");
	td_reader_stop(&one);
	for (i = 0; i < n; i++) {
		kill(pid[i], SIGKILL);
		waitpid(pid[i], NULL, 0);
	}
	mt_note("%u others: %lld batches with a flush, %lld KiB wait", n,
		mt_since(&before, "tlb_defer_batch_flushed"), held);
	MT_ASSERT(status[0] == nodes[0] && status[1] == nodes[1],
		  "did not move: %d, %d", status[0], status[1]);
	MT_ASSERT(mt_since(&before, "tlb_defer_batch_flushed") == 1,
		  "no flush was due");
	MT_ASSERT(held == (long long)MT_PAGE / 1024, "does not wait");
	return MT_PASS;
}

static int one_still_reads(void)
{
	return others_still_read(1);
}

static int many_still_read(void)
{
	return others_still_read(OTHERS);
}

/* ---- cost of a page ---- */

/*
 * It has used the address space, and sleeps: no CPU is interrupted, and all guest time is
 * that of this program.
 */
static void *sleeper(void *arg)
{
	int *fds = arg;
	char c;

	mt_run_on_cpu(TD_READER_CPU);
	return (void *)(long)read(fds[0], &c, 1);
}

/* Each page in a separate call */
static void move_singly(const struct mix *mix, int node)
{
	size_t i;

	for (i = 0; i < mix->nr; i++)
		td_move(mix->at[i], 1, node);
}

/*
 * Get the instructions for the move of one page of @PAGES, @k of 512 of which cannot be
 * deferred, all in one call, or each in one
 */
static long long insns_a_page(const char *mode, unsigned int k, bool singly)
{
	long long least = 0, ns;
	unsigned int i;

	mix_up(&mix, PAGES, k);
	td_mode(mode);
	for (i = 0; i < 4; i++) {
		int node = i & 1 ? td_node_a() : td_node_b();

		ns = mt_now_ns();
		if (singly)
			move_singly(&mix, node);
		else
			mix_move(&mix, node);
		ns = mt_now_ns() - ns;
		least = !least || ns < least ? ns : least;
	}
	/* icount=2: an instruction takes 4 ns */
	return least / 4 / PAGES;
}

static int little(unsigned int k, bool singly)
{
	long long off = insns_a_page("off", k, singly), on;
	struct mt_snap before;

	mt_snap(&before);
	on = insns_a_page("quarantine", k, singly);
	mt_note("%u of %d cannot wait%s: %lld instructions a page off, %lld on", k,
		BATCH, singly ? ", one a call" : "", off, on);
	MT_ASSERT(on * 100 <= off * 112, "more than 12 %% more");
	MT_ASSERT(!mt_since(&before, "tlb_defer_pages"),
		  "some waited, and there was no interrupt to be saved");
	return MT_PASS;
}

/* Measured: 1 % for pages that cannot be deferred, 2 to 4 for deferred ones. */
static int little_a_page(void)
{
	static const unsigned int ks[] = { 0, 16, 512 };
	pthread_t thread;
	size_t i;
	int ret = mix_init(&mix), fds[2];

	if (ret)
		return ret;
	if (pipe(fds) || pthread_create(&thread, NULL, sleeper, fds))
		return MT_FAIL;
	for (i = 0; !ret && i < ARRAY_LEN(ks); i++)
		ret = little(ks[i], false);
	ret = ret ?: little(0, true) ?: little(BATCH, true);
	close(fds[1]);
	pthread_join(thread, NULL);
	return ret;
}

static const struct mt_check checks[] = {
	{ "one page in 32 that cannot wait leaves a tenth of the interrupts",
	  few_of_many },
	{ "with more of them there are no more interrupts than while off",
	  many_of_many },
	{ "nor with batches of which no other follows", one_batch },
	{ "frames that one CPU can still read wait for it", one_still_reads },
	{ "so if it is of more processes than a batch remembers",
	  many_still_read },
	{ "a page costs little more than while off", little_a_page },
};

int main(void)
{
	return td_main(checks, ARRAY_LEN(checks));
}
