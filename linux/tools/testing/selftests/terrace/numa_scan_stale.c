// SPDX-License-Identifier: GPL-2.0
/*
 * NUMA balancing's tiering mode writes down when a page of slow memory was marked,
 * where its other modes keep who used it last. When the mode has changed since, such
 * a time is no task: read as one it names CPUs that do not exist.
 *
 * lab: topology=two-socket-cxl timeout=90s debug=yes
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>

#include "follow_util.h"
#include "numa_scan_util.h"
#include "tlb_defer_util.h"

#define PAGES	512L
#define SIZE	(PAGES * MT_PAGE)
#define FAST	0
#define SLOW	2
/* What is left of a time as a CPU is this long the same one. */
#define SAME_CPU_MS	256

/*
 * Memory on the slow node whose pages were marked in tiering mode and have not been
 * used since; then the mode changes.
 */
static int stamp(void)
{
	struct mt_snap s;
	bool marked;

	MT_ASSERT(!mt_write(FO_BALANCING, "2"), "no tiering mode");
	mt_snap(&s);
	/* It has to run to be scanned; slow memory alone is marked in that mode. */
	marked = MT_WAIT(({ am_spin(10);
			    mt_since(&s, "numa_pte_updates") >= PAGES; }), 30000);
	mt_write(FO_BALANCING, "1");
	MT_ASSERT(marked, "%lld pages were marked",
		  mt_since(&s, "numa_pte_updates"));
	return MT_PASS;
}

/* Let such pages come to fast memory somehow, and use them. */
static int bring(int (*how)(char *p))
{
	int round;

	for (round = 0; round < 3; round++) {
		char *p = mt_place(SIZE, SLOW);

		MT_ASSERT(p, "no memory on the slow node");
		MT_ASSERT(!mt_run_on_cpu(0), "cannot run on node 0");
		if (ns_fast("sync", 64))
			return MT_FAIL;
		/* At another time, which is another CPU */
		mt_nap(2 * SAME_CPU_MS);
		if (stamp() || how(p))
			return MT_FAIL;
		munmap(p, SIZE);
	}
	return MT_PASS;
}

/*
 * A page is marked anew where it is now: by a task of another node. Only read: a
 * write to a page that has moved forgets who used it.
 */
static int moved(char *p)
{
	struct mt_snap s;

	MT_ASSERT(td_move(p, PAGES, FAST) == PAGES, "did not move");
	MT_ASSERT(!mt_run_on_cpu(1), "cannot run on node 1");
	mt_snap(&s);
	MT_ASSERT(MT_WAIT(({ mt_touch(p, SIZE, false);
			     am_spin(10);
			     mt_since(&s, "numa_hint_faults") >= PAGES; }),
			  30000),
		  "%lld faults", mt_since(&s, "numa_hint_faults"));
	return MT_PASS;
}

static int move(void)
{
	return bring(moved);
}

static int pulled(char *p)
{
	MT_ASSERT(!mp_old_bind(p, SIZE, MPOL_BIND, 1UL << FAST, FO_MOVE),
		  "mbind");
	mt_touch(p, SIZE, true);
	MT_ASSERT(mt_pages_on(p, SIZE, FAST) >= PAGES * 9 / 10,
		  "%ld pages came", mt_pages_on(p, SIZE, FAST));
	return MT_PASS;
}

static int pull(void)
{
	return bring(pulled);
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("pages that are moved bring no time along", move),
		MT_CHECK("pages that are pulled bring no time along", pull),
	};

	return ns_main(checks, ARRAY_LEN(checks));
}
