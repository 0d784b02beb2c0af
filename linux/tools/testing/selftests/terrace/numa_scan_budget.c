// SPDX-License-Identifier: GPL-2.0
/*
 * NUMA scanning: a scan has the same budget in every mode, and async does the work of
 * sync without a slice in the task.
 *
 * The clock is that of the timing model, in which a flush of a remote TLB costs the
 * sender 3 us. With icount it costs the turn of the other virtual CPU, up to 4 ms, and
 * the pause after a slice is 32 times as long.
 *
 * lab: topology=bench-dram-cxl clock=model timeout=120s debug=no static-keys=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "numa_scan_util.h"

#define SIZE		(64 * MT_MB)
#define ROUND_MS	3000

/* One page in each STRIDE of a large mapping, like a sparse heap */
#define STRIDE		(16 * MT_MB)
#define SPAN		(16 * 1024 * MT_MB)
/* Budget of a scan: far less than SPAN, and more than one page table */
#define SPARSE_MB	16

static void sparse_run(void *arg)
{
	volatile unsigned long *rounds = arg;
	char *p = mmap(NULL, SPAN, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t off;

	if (p == MAP_FAILED || madvise(p, SPAN, MADV_NOHUGEPAGE) ||
	    mt_run_on_cpu(0) || ns_second_thread())
		_exit(1);
	for (;; (*rounds)++)
		for (off = 0; off < SPAN; off += STRIDE)
			((volatile char *)p)[off]++;
}

/* Get the entries walked per scan of the sparse heap, or -1 */
static double entries_a_visit(const char *mode)
{
	volatile unsigned long *rounds;
	long long visits, entries;
	struct mt_snap s;
	pid_t pid;

	rounds = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (rounds == MAP_FAILED || ns_fast(mode, SPARSE_MB))
		return -1;
	pid = mt_spawn(sparse_run, (void *)rounds);
	if (!MT_WAIT(*rounds > 0, 60000))
		return -1;
	mt_snap(&s);
	if (!MT_WAIT(mt_since(&s, "numa_scan_visits") >= 40, 60000))
		return -1;
	visits = mt_since(&s, "numa_scan_visits");
	entries = mt_since(&s, "numa_scan_ptes");
	mt_note("figure mode=%s visits=%lld entries=%lld updates=%lld", mode,
		visits, entries, mt_since(&s, "numa_pte_updates"));
	mt_kill(pid);
	munmap((void *)rounds, MT_PAGE);
	mt_write(NS_MODE, "sync");
	return (double)entries / visits;
}

/*
 * Measured: sliced 1.00 and async 1.03 times the entries of sync. Without the rule of
 * numa_scan_step() it is 6 to 8 times: only page tables with an update count.
 */
static int same_budget(void)
{
	double sync = entries_a_visit("sync"), other;
	static const char * const modes[] = { "sliced", "async" };
	size_t i;

	MT_ASSERT(sync >= 1024, "sync walks %.0f entries a visit", sync);
	for (i = 0; i < ARRAY_LEN(modes); i++) {
		other = entries_a_visit(modes[i]);
		mt_note("%s walks %.2f times the entries of sync", modes[i],
			other / sync);
		MT_ASSERT(other >= 0.8 * sync && other <= 1.25 * sync,
			  "%s walks %.0f entries a visit, sync %.0f", modes[i],
			  other, sync);
	}
	return MT_PASS;
}

/* Work done for a task in ROUND_MS */
struct work {
	long long updates;
	long long slices;	/* in threads */
	long in_task;		/* slices in the task */
};

static int measure(const char *mode, struct work *w)
{
	struct ns_task t = { .size = SIZE, .cpu = 0 };
	struct mt_trace tr;
	struct mt_snap s;
	char line[512];
	long long start;

	if (ns_fast(mode, 64) || ns_task_start(&t) ||
	    mt_trace_open_of(&tr, "numa_scan", "numa_scan_end"))
		return MT_FAIL;
	mt_snap(&s);
	start = mt_now_ms();
	while (mt_now_ms() < start + ROUND_MS) {
		if (!mt_trace_line(&tr, line, sizeof(line)))
			mt_nap(20);
		else if (mt_field(line, "pid") == t.pid)
			w->in_task += !mt_field(line, "cpu");
	}
	ns_note_scans(&s, t.pid);
	w->updates = mt_since(&s, "numa_pte_updates");
	w->slices = mt_since(&s, "numa_scan_slices_async");
	ns_task_stop(&t);
	mt_trace_close(&tr);
	mt_write(NS_MODE, "sync");
	return MT_PASS;
}

static int as_much_as_sync(void)
{
	struct work sync = { 0 }, async = { 0 };

	if (measure("sync", &sync) || measure("async", &async))
		return MT_FAIL;
	mt_note("figure mode=sync updates=%lld in_task=%ld", sync.updates,
		sync.in_task);
	mt_note("figure mode=async updates=%lld in_task=%ld in_threads=%lld",
		async.updates, async.in_task, async.slices);
	mt_note("async makes %.2f times the updates of sync",
		(double)async.updates / sync.updates);
	MT_ASSERT(sync.in_task > 0, "sync never stops the task: this shows nothing");
	MT_ASSERT(async.slices > 0, "no slice in a thread");
	MT_ASSERT(!async.in_task, "%ld slices in the task", async.in_task);
	/* Measured: 0.93. If a slice pays for parts of a tick: 0.65. */
	MT_ASSERT(async.updates * 10 >= sync.updates * 8, "too few updates");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("a visit of a sparse heap walks as much in every mode",
			 same_budget),
		MT_CHECK("async makes the updates of sync, none of them in the task",
			 as_much_as_sync),
	};

	return ns_main(checks, ARRAY_LEN(checks));
}
