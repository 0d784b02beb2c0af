// SPDX-License-Identifier: GPL-2.0
/*
 * Hint faults check for marks only while an address space is left that has had marked
 * pages: it counts over fork, not over exec, and no longer once it has exited.
 *
 * The last check has guest time count instructions: what a hint fault of NUMA balancing
 * costs before there are marks, while there are some, and after the last one is gone.
 *
 * lab: topology=two-socket-cxl icount=3 timeout=180s debug=no
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "follow_util.h"

#define PAGES	64L
#define SIZE	(PAGES * MT_PAGE)

/* For the instructions of a hint fault */
#define WINDOW	16L
#define WINDOWS	64L
#define HINTED	(WINDOW * WINDOWS)

static long long counted(void)
{
	return mt_read_ll(FO_DEBUG "marked_mms");
}

/* The key is switched off a second after the last one is gone. */
static bool comes_to(long long n)
{
	return MT_WAIT(counted() == n, AM_LONG_MS);
}

static bool mark(void)
{
	char *p = mt_run_on_cpu(0) ? NULL : mt_place(SIZE, 0);

	return p && !mp_old_bind(p, SIZE, MPOL_BIND, 2, FO_MOVE);
}

/* Set by a process that has marked pages; begin() maps it. */
static volatile bool *ready;

static void marks(void *arg)
{
	(void)arg;
	if (!mark())
		_exit(1);
	*ready = true;
	fo_hold(NULL);
}

/* A process that has marked pages, and sleeps; or -1 */
static pid_t marked_process(void)
{
	pid_t pid;

	*ready = false;
	pid = mt_spawn(marks, NULL);
	if (MT_WAIT(*ready || mt_zombie(pid), AM_LONG_MS) && *ready)
		return pid;
	mt_kill(pid);
	return -1;
}

static int begin(void)
{
	MT_ASSERT(counted() >= 0, "no CONFIG_NUMA_FOLLOW_DEBUG");
	MT_ASSERT(comes_to(0), "%lld count before anything is marked", counted());
	/* Not later: one mapping more makes a fault some 20 instructions cheaper or dearer. */
	ready = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MT_ASSERT(ready != MAP_FAILED, "mmap");
	return MT_PASS;
}

static int processes_count(void)
{
	pid_t one, two;

	if (begin())
		return MT_FAIL;
	one = marked_process();
	MT_ASSERT(one > 0 && counted() == 1, "%lld count, of one", counted());
	two = marked_process();
	MT_ASSERT(two > 0 && counted() == 2, "%lld count, of two", counted());
	mt_kill(one);
	MT_ASSERT(comes_to(1), "%lld count, of one that is left", counted());
	mt_kill(two);
	MT_ASSERT(comes_to(0), "%lld count, and all are gone", counted());
	return MT_PASS;
}

static int marks_count_once(void)
{
	int i;

	if (begin())
		return MT_FAIL;
	for (i = 0; i < 3; i++)
		MT_ASSERT(mark() && counted() == 1, "%lld count after call %d",
			  counted(), i);
	return MT_PASS;
}

/* Children have their parent's marks; those that begin without any do not count. */
static int children_count(void)
{
	pid_t before, child, grandchild_of;

	if (begin())
		return MT_FAIL;
	before = mt_spawn(fo_hold, NULL);
	MT_ASSERT(mark() && counted() == 1, "%lld count", counted());
	child = mt_spawn(fo_hold, NULL);
	grandchild_of = mt_spawn(fo_hold, NULL);
	MT_ASSERT(comes_to(3), "%lld count, of a process and two children", counted());
	mt_kill(child);
	mt_kill(before);
	MT_ASSERT(comes_to(2), "%lld count, one child gone", counted());
	mt_kill(grandchild_of);
	MT_ASSERT(comes_to(1), "%lld count, both gone", counted());
	return MT_PASS;
}

/* They share an address space. */
static void *thread_marks(void *arg)
{
	return mark() ? arg : NULL;
}

static int threads_count_once(void)
{
	pthread_t threads[4];
	void *fine;
	int i;

	if (begin())
		return MT_FAIL;
	for (i = 0; i < 4; i++)
		MT_ASSERT(!pthread_create(&threads[i], NULL, thread_marks, &fine),
			  "no thread");
	for (i = 0; i < 4; i++) {
		pthread_join(threads[i], &fine);
		MT_ASSERT(fine, "nothing is marked");
	}
	MT_ASSERT(counted() == 1, "%lld count, of one with four threads", counted());
	return MT_PASS;
}

static void marks_and_execs(void *arg)
{
	(void)arg;
	if (!mark())
		_exit(1);
	*ready = true;
	while (*ready)
		sched_yield();
	execl("/proc/self/exe", "follow_marks", "pause", NULL);
	_exit(1);
}

static int programs_begin_without(void)
{
	pid_t pid;

	if (begin())
		return MT_FAIL;
	*ready = false;
	pid = mt_spawn(marks_and_execs, NULL);
	MT_ASSERT(MT_WAIT(*ready || mt_zombie(pid), AM_LONG_MS) && *ready,
		  "it has marked nothing");
	MT_ASSERT(counted() == 1, "%lld count before exec", counted());
	*ready = false;
	MT_ASSERT(comes_to(0), "%lld count after exec", counted());
	MT_ASSERT(!mt_zombie(pid), "it has not called exec");
	mt_kill(pid);
	return MT_PASS;
}

/* ---- what a hint fault costs ---- */

/*
 * Instructions of a hint fault of NUMA balancing, the median of windows. The mapping is
 * shared: pages that are local to a process with one thread are not scanned.
 */
static double hint_fault(void)
{
	char *p = mmap(NULL, HINTED * MT_PAGE, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	long long took[WINDOWS], t;
	struct mt_snap s;
	size_t i, off;
	bool all;

	if (p == MAP_FAILED || mt_run_on_cpu(0))
		return -1;
	mt_touch(p, HINTED * MT_PAGE, true);
	mt_snap(&s);
	mt_write(FO_BALANCING, "1");
	all = MT_WAIT((am_spin(20), mt_since(&s, "numa_pte_updates") >= HINTED), AM_LONG_MS);
	mt_write(FO_BALANCING, "0");
	if (!all)
		return -1;
	mt_snap(&s);
	for (i = 0; i < WINDOWS; i++) {
		t = mt_now_ns();
		for (off = 0; off < WINDOW; off++)
			(void)*(volatile char *)(p + (i * WINDOW + off) * MT_PAGE);
		took[i] = mt_now_ns() - t;
	}
	if (mt_since(&s, "numa_hint_faults") < HINTED * 9 / 10)
		return -1;
	munmap(p, HINTED * MT_PAGE);
	qsort(took, WINDOWS, sizeof(took[0]), fo_cheaper);
	return took[WINDOWS / 2] / fo_instruction_ns() / WINDOW;
}

static int costs_nothing_afterwards(void)
{
	double before, with, after;
	pid_t pid;

	if (begin())
		return MT_FAIL;
	before = hint_fault();
	pid = marked_process();
	MT_ASSERT(pid > 0, "nothing is marked");
	with = hint_fault();
	mt_kill(pid);
	MT_ASSERT(comes_to(0), "%lld count", counted());
	after = hint_fault();
	mt_note("a hint fault: %.0f instructions; %+.0f with marks elsewhere, %+.0f without again",
		before, with - before, after - before);
	MT_ASSERT(before > 0 && with > 0 && after > 0, "too few hint faults");
	MT_ASSERT(with > before + 20, "marks are not checked for");
	MT_ASSERT(after < before + 5, "they still are when all are gone");
	return MT_PASS;
}

int main(int argc, char **argv)
{
	static const struct mt_check checks[] = {
		MT_CHECK("each process with marks counts until it exits", processes_count),
		MT_CHECK("however often it marks", marks_count_once),
		MT_CHECK("children count for the marks of their parent", children_count),
		MT_CHECK("threads count once", threads_count_once),
		MT_CHECK("exec begins without marks", programs_begin_without),
		MT_CHECK("hint faults cost nothing more when all are gone",
			 costs_nothing_afterwards),
	};

	if (argc > 1 && !strcmp(argv[1], "pause")) {
		fo_hold(NULL);
		return 0;
	}
	return fo_main(checks, ARRAY_LEN(checks));
}
