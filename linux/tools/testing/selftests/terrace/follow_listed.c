// SPDX-License-Identifier: GPL-2.0
/*
 * Marked pages are listed in numa_maps, with the time since the last mark; and other
 * calls can move them at once, or drop the marks.
 *
 * lab: topology=two-socket-cxl timeout=180s debug=yes
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "follow_util.h"

#define PAGES	800L
#define SIZE	(PAGES * MT_PAGE)
#define QUARTER	(SIZE / 4)

static struct mt_snap before;

/* Get the value of @key, with "=", from a line of numa_maps; -1: none */
static long said(const char *line, const char *key)
{
	const char *at = strstr(line, key);

	return at ? atol(at + strlen(key)) : -1;
}

/* Get the pages listed as marked, of all mappings of a process or of the one at @p */
static long listed(pid_t pid, const char *p)
{
	char path[64], line[1024];
	long sum = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/numa_maps", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if ((!p || strtoul(line, NULL, 16) == (uintptr_t)p) &&
		    said(line, " marked=") > 0)
			sum += said(line, " marked=");
	if (f)
		fclose(f);
	return sum;
}

static long age_s(const char *p)
{
	char line[1024];

	return mp_numa_maps(p, line, sizeof(line)) ? said(line, " marked_s=") : -1;
}

/* Allocate memory on node 0 and mark all of it to move to node 1 */
static char *marked(bool huge)
{
	size_t size = huge ? 2 * MT_HUGE : SIZE;
	char *p;

	if (mt_run_on_cpu(0))
		return NULL;
	p = huge ? mt_place_thp(size, 0) : mt_place(size, 0);
	mt_snap(&before);
	if (!p || mp_old_bind(p, size, MPOL_BIND, 2, FO_MOVE))
		return NULL;
	return p;
}

static int counted(void)
{
	char *p = marked(false);

	MT_ASSERT(p, "nothing is marked");
	MT_ASSERT(listed(getpid(), p) == PAGES, "%ld of %ld are listed",
		  listed(getpid(), p), PAGES);
	mt_touch(p, SIZE / 2, true);
	fo_note(&before);
	MT_ASSERT(listed(getpid(), p) == PAGES - fo_since(&before, "pulled"),
		  "%ld with half of it used", listed(getpid(), p));
	mt_touch(p, SIZE, true);
	MT_ASSERT(!listed(getpid(), NULL), "still listed");
	return MT_PASS;
}

static int counted_huge(void)
{
	long pages = MT_HUGE / MT_PAGE;
	char *p = marked(true);

	MT_ASSERT(p, "nothing is marked");
	MT_ASSERT(listed(getpid(), p) == 2 * pages, "%ld are listed",
		  listed(getpid(), p));
	mt_touch(p, MT_PAGE, true);
	MT_ASSERT(listed(getpid(), p) == pages, "%ld with one of two used",
		  listed(getpid(), p));
	return MT_PASS;
}

/* An entry without access is not a mark. */
static int others_are_not(void)
{
	char *p = marked(false), *none = mt_place(SIZE, 0);

	MT_ASSERT(p && none, "nothing is marked");
	MT_ASSERT(!mprotect(none, SIZE, PROT_NONE), "mprotect");
	MT_ASSERT(listed(getpid(), NULL) == PAGES, "%ld of %ld are listed",
		  listed(getpid(), NULL), PAGES);
	return MT_PASS;
}

static int ages(void)
{
	long long start_ms = mt_now_ms(), end_ms;
	char *p = marked(false);
	long age, least;

	MT_ASSERT(p, "nothing is marked");
	end_ms = mt_now_ms();
	MT_ASSERT(MT_WAIT(age_s(p) >= 2, AM_LONG_MS), "it does not age");
	least = (mt_now_ms() - end_ms) / 1000 - 1;
	age = age_s(p);
	MT_ASSERT(age >= least && age <= (mt_now_ms() - start_ms) / 1000 + 1,
		  "%ld s after %lld ms", age, mt_now_ms() - start_ms);
	/* Of the whole process */
	MT_ASSERT(marked(false) && age_s(p) < 2, "not since the last mark");
	return MT_PASS;
}

/* The same process, another program: the marks and their age are gone. */
static void marks_and_execs(void *arg)
{
	(void)arg;
	if (marked(false))
		execl("/proc/self/exe", "follow_listed", "again", NULL);
	_exit(1);
}

static int ages_after_exec(void)
{
	MT_ASSERT(!mt_reap(mt_spawn(marks_and_execs, NULL)),
		  "of the second program it is not known");
	return MT_PASS;
}

/* The other program */
static int again(void)
{
	char *p = marked(false);

	return !p || age_s(p) < 0;
}

/* R24: each marked page has one of four results. */
static int adds_up(void)
{
	char *p = marked(false);
	long long ended;

	MT_ASSERT(p, "nothing is marked");
	munmap(p + QUARTER, QUARTER);
	/* The process no longer needs it on the near node */
	MT_ASSERT(!mprotect(p + 2 * QUARTER, QUARTER, PROT_READ), "mprotect");
	/*
	 * This is a separate mapping now: no neighbours of the next quarter move with it.
	 */
	mt_touch(p, QUARTER, true);
	ended = fo_since(&before, "pulled") + fo_refused(&before);
	fo_note(&before);
	MT_ASSERT(ended + 2 * PAGES / 4 + listed(getpid(), NULL) == PAGES,
		  "%lld used, %ld freed, %ld dropped, %ld waiting of %ld", ended,
		  PAGES / 4, PAGES / 4, listed(getpid(), NULL), PAGES);
	MT_ASSERT(listed(getpid(), NULL) == PAGES / 4, "the last quarter");
	MT_ASSERT(mt_all_on(p + 2 * QUARTER, 2 * QUARTER, 0), "some have moved");
	return MT_PASS;
}

/* Move at once: the same call without MPOL_MF_LAZY */
static int moved_by_mbind(void)
{
	char *p = marked(false);

	MT_ASSERT(p, "nothing is marked");
	MT_ASSERT(!mp_old_bind(p, SIZE, MPOL_BIND, 2, MPOL_MF_MOVE), "mbind");
	MT_ASSERT(mt_all_on(p, SIZE, 1), "%ld of %ld pages have moved",
		  mt_pages_on(p, SIZE, 1), PAGES);
	MT_ASSERT(!listed(getpid(), NULL), "still listed");
	return MT_PASS;
}

static struct mt_cgroup on;

/* A process that moved from node 0 to 1, with its memory marked */
static int gone(struct am_task *t)
{
	if (am_cgroup_on(&on, "on", 1))
		return MT_FAIL;
	t->cg = &on;
	if (am_start(t))
		return MT_FAIL;
	mt_snap(&before);
	if (am_move_all(t, AM_NODE1))
		return MT_FAIL;
	MT_ASSERT(am_all_ended(t, &before), "not marked");
	return MT_PASS;
}

/* Of another process; migrate_pages() moves it at once. */
static int moved_by_migrate_pages(unsigned int threads)
{
	struct am_task t = { .size = SIZE, .threads = threads };
	unsigned long from = 1, to = 2;

	if (gone(&t))
		return MT_FAIL;
	mt_note("%ld are listed", listed(t.pid, NULL));
	fo_note(&before);
	MT_ASSERT(listed(t.pid, NULL) >= 2 * PAGES * 95 / 100, "not listed");
	MT_ASSERT(syscall(SYS_migrate_pages, t.pid, 64UL, &from, &to) >= 0,
		  "migrate_pages");
	MT_ASSERT(am_local(&t, 1), "it has not moved");
	MT_ASSERT(listed(t.pid, NULL) <= 2 * PAGES / 100, "%ld still listed",
		  listed(t.pid, NULL));
	am_stop(&t);
	return MT_PASS;
}

static int moved_by_other(void)
{
	return moved_by_migrate_pages(0);
}

static int moved_by_other_threads(void)
{
	return moved_by_migrate_pages(2);
}

static char *shared_memory(void)
{
	char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	mt_touch(p, SIZE, true);
	return p;
}

/* NUMA balancing marks memory from the lowest address on: the pinned one first. */
static int pinned_is_not(void)
{
	char *above = shared_memory(), *pinned = shared_memory();

	/* Nothing is listed before pages are marked. */
	MT_ASSERT(above && pinned && marked(false), "nothing is marked");
	MT_ASSERT(pinned < above, "mapped in another order");
	MT_ASSERT(!mt_pin(pinned, SIZE), "no io_uring");
	MT_ASSERT(!mt_write(FO_BALANCING, "1"), "no NUMA balancing");
	MT_ASSERT(MT_WAIT((am_spin(20), listed(getpid(), above) == PAGES), AM_LONG_MS),
		  "%ld of %ld that are not pinned", listed(getpid(), above), PAGES);
	MT_ASSERT(!listed(getpid(), pinned), "%ld of %ld that are pinned",
		  listed(getpid(), pinned), PAGES);
	return MT_PASS;
}

int main(int argc, char **argv)
{
	static const struct mt_check checks[] = {
		MT_CHECK("R24 what is marked is listed until it is used", counted),
		MT_CHECK("R24 what is marked is listed, huge pages", counted_huge),
		MT_CHECK("R24 what has no access is not listed", others_are_not),
		MT_CHECK("NUMA balancing marks no pinned shared memory", pinned_is_not),
		MT_CHECK("R24 marks have an age", ages),
		MT_CHECK("R24 marks have an age after exec", ages_after_exec),
		MT_CHECK("R24 each mark is used, freed, dropped or listed", adds_up),
		MT_CHECK("R24 mbind moves what waits", moved_by_mbind),
		MT_CHECK("R24 migrate_pages moves what waits", moved_by_other),
		MT_CHECK("R24 migrate_pages moves what waits, threads",
			 moved_by_other_threads),
	};

	if (argc == 2 && !strcmp(argv[1], "again"))
		return again();
	return fo_main(checks, ARRAY_LEN(checks));
}
