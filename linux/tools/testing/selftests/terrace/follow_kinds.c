// SPDX-License-Identifier: GPL-2.0
/*
 * Lazy migration: the result of mbind() for hugetlbfs pages is correct, and pages
 * promoted from slow memory are counted as promoted.
 *
 * lab: topology=two-socket-cxl timeout=120s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#include "follow_util.h"

#define SIZE	(256 * MT_PAGE)
#define PAGES	((long)(SIZE / MT_PAGE))

#define HUGE_OF		"/sys/devices/system/node/node%d/hugepages/hugepages-2048kB/"
#define NR_HUGE		4L
#define HUGE_SIZE	(NR_HUGE * MT_HUGE)

static bool reserve(int node, long n)
{
	char file[128];

	snprintf(file, sizeof(file), HUGE_OF "nr_hugepages", node);
	return !mt_writef(file, "%ld", n) && mt_read_ll(file) == n;
}

/* Either it is rejected, or they move at their next access. */
static int hugetlb_moves(void)
{
	long base = HUGE_SIZE / MT_PAGE, moved, ret;
	char *p;

	p = mmap(NULL, HUGE_SIZE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	MT_ASSERT(p != MAP_FAILED && !mt_bind_to(0), "mmap");
	mt_touch(p, HUGE_SIZE, true);
	MT_ASSERT(!mt_bind_default() && mt_all_on(p, HUGE_SIZE, 0),
		  "they are not on node 0");
	ret = mp_old_bind(p, HUGE_SIZE, MPOL_BIND, 2, FO_MOVE);
	mt_touch(p, HUGE_SIZE, true);
	moved = mt_pages_on(p, HUGE_SIZE, 1);
	munmap(p, HUGE_SIZE);
	mt_note("mbind() returns %ld; used, %ld of %ld huge pages have moved", ret,
		moved / (long)(MT_HUGE / MT_PAGE), NR_HUGE);
	if (ret == -EINVAL)
		return moved ? MT_FAIL : MT_PASS;
	MT_ASSERT(!ret, "it is refused for another reason");
	MT_ASSERT(moved == base, "it says yes, and they do not move");
	return MT_PASS;
}

static int hugetlb(void)
{
	int ret;

	MT_NEED(reserve(0, NR_HUGE) && reserve(1, NR_HUGE), "no huge pages");
	ret = hugetlb_moves();
	reserve(0, 0);
	reserve(1, 0);
	return ret;
}

/* ---- tiers ---- */

/* Promotions by an access count like promotions by NUMA balancing. */
static int counted(int balancing)
{
	char *p = mt_place(SIZE, mt_slow_node());
	struct mt_snap before;
	long long promoted;

	MT_ASSERT(p, "no memory on the slow node");
	MT_ASSERT(!mt_writef(FO_BALANCING, "%d", balancing), "no balancing");
	fo_drain();
	mt_snap(&before);
	MT_ASSERT(!mp_old_bind(p, SIZE, MPOL_BIND, FO_FAST, FO_MOVE), "mbind");
	fo_touch(p, SIZE);
	MT_ASSERT(mt_all_on(p, SIZE, 0), "%ld came up", mt_pages_on(p, SIZE, 0));
	promoted = mt_since(&before, "pgpromote_success");
	mt_note("balancing %d: %lld pulled up, %lld counted as promoted", balancing,
		fo_since(&before, "pulled"), promoted);
	munmap(p, SIZE);
	return promoted == PAGES ? MT_PASS : MT_FAIL;
}

static int tiers(void)
{
	int ret = MT_PASS, i;

	for (i = 0; i <= 2; i++)
		if (counted(i))
			ret = MT_FAIL;
	return ret;
}

FO_THREADS(tiers)

/* So do pages that a fault moves because of a policy, before it maps them. */
static int tiers_fault(void)
{
	struct fo_reader r = { .pages = PAGES };
	struct mt_snap before;
	struct mt_cgroup cg;

	if (fo_level(&cg, 1))
		return MT_FAIL;
	r.cg = &cg;
	r.fd = fo_file(FO_SHMEM, PAGES, mt_slow_node());
	MT_ASSERT(r.fd >= 0, "no file on the slow node");
	if (fo_bind(r.fd, PAGES, MPOL_BIND, FO_FAST))
		return MT_FAIL;
	mt_snap(&before);
	if (fo_read(&r))
		return MT_FAIL;
	mt_note("%ld of %ld pages came up, %lld counted as promoted",
		fo_on(r.fd, PAGES, 0), PAGES,
		mt_since(&before, "pgpromote_success"));
	MT_ASSERT(fo_on(r.fd, PAGES, 0) == PAGES, "they did not move");
	MT_ASSERT(mt_since(&before, "pgpromote_success") == PAGES,
		  "another number was counted");
	return MT_PASS;
}

FO_THREADS(tiers_fault)

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("huge pages of hugetlbfs move when used, or EINVAL",
			 hugetlb),
		MT_CHECK("what lazy migration brings up counts as promoted", tiers),
		MT_CHECK("what lazy migration brings up counts as promoted, threads",
			 tiers_threads),
		MT_CHECK("what a fault brings up counts as promoted", tiers_fault),
		MT_CHECK("what a fault brings up counts as promoted, threads",
			 tiers_fault_threads),
	};

	return fo_main(checks, ARRAY_LEN(checks));
}
