// SPDX-License-Identifier: GPL-2.0
/*
 * Lazy migration without MOVE_ALL never moves pages that other processes map, also if the
 * pages were marked before: by NUMA balancing, or by an earlier mbind() when one process
 * mapped them.
 *
 * lab: topology=two-socket-cxl timeout=120s debug=yes
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "follow_util.h"
#include "numa_scan_util.h"

#define SIZE	(256 * MT_PAGE)
#define PAGES	((long)(SIZE / MT_PAGE))

static struct mt_snap before;

/* Set by a process that also maps the pages */
static volatile bool *mapped;

/* Shared memory on node 0; this process maps it, and runs on node 1. */
static char *begin(void)
{
	int fd = fo_new(FO_SHMEM);
	char *p;

	mapped = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (fd < 0 || mapped == MAP_FAILED || mt_run_on_cpu(1))
		return NULL;
	p = mt_place_file(fd, SIZE, 0, PROT_READ | PROT_WRITE);
	fo_drain();
	mt_snap(&before);
	return p;
}

/* Map all from the second page on, and sleep: no tick, so no NUMA balancing. */
static void maps_rest(void *arg)
{
	/* Otherwise a fault next to it would map the first too. */
	munmap(arg, MT_PAGE);
	mt_touch((char *)arg + MT_PAGE, SIZE - MT_PAGE, false);
	*mapped = true;
	for (;;)
		pause();
}

/* The same with all of them */
static void maps_all(void *arg)
{
	mt_touch(arg, SIZE, false);
	*mapped = true;
	for (;;)
		pause();
}

/* A second process has pages in its page table; it exits with the check. */
static int share(char *p, void (*fn)(void *))
{
	mt_spawn(fn, p);
	MT_ASSERT(MT_WAIT(*mapped, 10000), "nobody else maps them");
	return MT_PASS;
}

static int bind(char *p, unsigned long flags)
{
	MT_ASSERT(!mp_old_bind(p, SIZE, MPOL_BIND, 2, flags), "mbind");
	return MT_PASS;
}

/* They move to node 1 at their access, or none of them does. */
static int used(char *p, bool moves)
{
	long refused, came;

	fo_touch(p, SIZE);
	came = mt_pages_on(p, SIZE, 1);
	refused = fo_since(&before, "refused_shared");
	mt_note("%lld marked by mbind(), %ld refused as shared; used, %ld of %ld moved",
		fo_since(&before, "marked"), refused, came, PAGES);
	MT_ASSERT(came == (moves ? PAGES : 0), "%ld moved, not %ld", came,
		  moves ? PAGES : 0);
	MT_ASSERT(moves || refused >= PAGES, "%ld were refused, not %ld",
		  refused, PAGES);
	return MT_PASS;
}

/* mbind() has found all of them, marked before or not, and refused them. */
static int bind_refused(char *p)
{
	long long n = -fo_since(&before, "refused_shared");

	if (bind(p, FO_MOVE))
		return MT_FAIL;
	n += fo_since(&before, "refused_shared");
	MT_ASSERT(n == PAGES, "mbind() has refused %lld of %ld", n, PAGES);
	return MT_PASS;
}

/* They stay; a caller with MPOL_MF_MOVE_ALL moves them. */
static int stay_without_all(char *p)
{
	return used(p, false) ?: bind(p, FO_MOVE_ALL) ?: used(p, true);
}

static int never_marked(void)
{
	char *p = begin();

	MT_ASSERT(p, "no shared memory on node 0");
	return share(p, maps_all) ?: bind_refused(p) ?: stay_without_all(p);
}

FO_THREADS(never_marked)

/* Run, without using the pages, until NUMA balancing has scanned everything. */
static int balanced(void)
{
	long long rounds = ns_sched(getpid(), "mm->numa_scan_seq") + 2;
	bool done;

	mt_snap(&before);
	if (ns_fast("sync", 64))
		return MT_FAIL;
	done = MT_WAIT(({ am_spin(20);
			  ns_sched(getpid(), "mm->numa_scan_seq") >= rounds &&
			  mt_since(&before, "numa_pte_updates") >= PAGES; }),
		       60000);
	mt_write(FO_BALANCING, "0");
	mt_note("NUMA balancing has marked %lld pages",
		mt_since(&before, "numa_pte_updates"));
	MT_ASSERT(done, "NUMA balancing does not come by");
	return MT_PASS;
}

static int by_balancing(void)
{
	char *p = begin();

	MT_ASSERT(p, "no shared memory on node 0");
	if (share(p, maps_all) || balanced())
		return MT_FAIL;
	mt_snap(&before);
	return bind_refused(p) ?: stay_without_all(p);
}

FO_THREADS(by_balancing)

static int by_mbind(void)
{
	char *p = begin();

	MT_ASSERT(p, "no shared memory on node 0");
	if (bind(p, FO_MOVE) || share(p, maps_all))
		return MT_FAIL;
	MT_ASSERT(fo_is(&before, PAGES, 0), "they were not marked");
	mt_snap(&before);
	return bind_refused(p) ?: stay_without_all(p);
}

FO_THREADS(by_mbind)

/* mbind() is not called again: the access itself has to check it. */
static int meanwhile(void)
{
	char *p = begin();

	MT_ASSERT(p, "no shared memory on node 0");
	if (bind(p, FO_MOVE) || share(p, maps_all))
		return MT_FAIL;
	MT_ASSERT(fo_is(&before, PAGES, 0), "they were not marked");
	return stay_without_all(p);
}

FO_THREADS(meanwhile)

/* The accessed page is mapped by one process, its neighbours by two. */
static int neighbours(void)
{
	char *p = begin();
	long came;

	MT_ASSERT(p, "no shared memory on node 0");
	if (bind(p, FO_MOVE) || share(p, maps_rest))
		return MT_FAIL;
	MT_ASSERT(fo_is(&before, PAGES, 0), "they were not marked");
	mt_touch(p, MT_PAGE, false);
	came = mt_pages_on(p, SIZE, 1);
	mt_note("1 page was used, %ld moved", came);
	MT_ASSERT(mt_pages_on(p, MT_PAGE, 1) == 1, "its own page did not");
	MT_ASSERT(came == 1, "%ld shared pages moved along", came - 1);
	return MT_PASS;
}

/* A child maps them all, without an access. */
static void has_all(void *arg)
{
	(void)arg;
	*mapped = true;
	for (;;)
		pause();
}

/* Anonymous memory, marked and then shared by fork() */
static int forked(char *p, size_t size)
{
	long pages = size / MT_PAGE, came;

	MT_ASSERT(p, "no memory on node 0");
	MT_ASSERT(!mp_old_bind(p, size, MPOL_BIND, 2, FO_MOVE), "mbind");
	if (share(p, has_all))
		return MT_FAIL;
	MT_ASSERT(fo_is(&before, pages, 0), "they were not marked");
	fo_touch(p, size);
	came = mt_pages_on(p, size, 1);
	mt_note("read, %ld of %ld pages moved that a child has, too", came, pages);
	MT_DATA(!mt_filled(p, size), "another content");
	return came ? MT_FAIL : MT_PASS;
}

static int forked_small(void)
{
	MT_ASSERT(begin(), "no shared memory on node 0");
	return forked(mt_place(SIZE, 0), SIZE);
}

FO_THREADS(forked_small)

static int forked_huge(void)
{
	char *p;

	MT_ASSERT(begin(), "no shared memory on node 0");
	p = mt_place_thp(MT_HUGE, 0);
	mt_snap(&before);
	return forked(p, MT_HUGE);
}

FO_THREADS(forked_huge)

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("shared pages stay without MOVE_ALL", never_marked),
		MT_CHECK("shared pages stay without MOVE_ALL, threads",
			 never_marked_threads),
		MT_CHECK("shared pages that NUMA balancing has marked stay",
			 by_balancing),
		MT_CHECK("shared pages that NUMA balancing has marked stay, threads",
			 by_balancing_threads),
		MT_CHECK("pages that are shared since an mbind() stay in the next",
			 by_mbind),
		MT_CHECK("pages that are shared since an mbind() stay in the next, threads",
			 by_mbind_threads),
		MT_CHECK("pages that are shared since they were marked stay",
			 meanwhile),
		MT_CHECK("pages that are shared since they were marked stay, threads",
			 meanwhile_threads),
		MT_CHECK("pages that are shared do not go along with one that is not",
			 neighbours),
		MT_CHECK("pages that a child has since they were marked stay",
			 forked_small),
		MT_CHECK("pages that a child has since they were marked stay, threads",
			 forked_small_threads),
		MT_CHECK("huge pages that a child has since they were marked stay",
			 forked_huge),
		MT_CHECK("huge pages that a child has since they were marked stay, threads",
			 forked_huge_threads),
	};

	return fo_main(checks, ARRAY_LEN(checks));
}
