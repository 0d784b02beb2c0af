// SPDX-License-Identifier: GPL-2.0
/*
 * Pages to demote are found where they are: in one process, beside hundreds whose memory is
 * on the slow node, and has no page that could make room.
 *
 * Time counts instructions.
 *
 * lab: topology=dram-cxl-small-dram icount=2 timeout=300s debug=no
 */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <sys/mman.h>

#include "idle_util.h"

#define DEMOTION	"/sys/kernel/mm/numa/demotion_enabled"
#define HOT		(32 * MT_MB)
#define COLD		(64 * MT_MB)
#define PAGES(size)	((long)((size) / MT_PAGE))
#define IDLERS		300
#define IDLE_RANGES	40
/* Limit for 90 % of the hot pages. */
#define FOUND_MS	5000

/*
 * DRAM is full of cold memory and of memory that cannot leave. The idle processes have
 * 12,000 ranges, and the cold memory 32.
 */
static int beside_many_processes(void)
{
	struct mt_idle idle = { .nr = IDLERS, .ranges = IDLE_RANGES };
	struct mt_snap before;
	struct mt_toucher t;
	char *p, *hog, *cold;
	long long demoted;
	size_t size, room;
	bool found;

	MT_NEED(!mt_write(DEMOTION, "1"), "no demotion");
	MT_ASSERT(!mt_idle_start(&idle), "not all processes are ready");
	size = (mt_node_free(mt_fast_node()) - COLD) & ~(MT_HUGE - 1);
	hog = mt_fill(size, mt_fast_node(), false);
	MT_ASSERT(hog && !mlock(hog, size), "no memory in DRAM");
	cold = mt_map_aligned(2 * COLD);
	MT_ASSERT(cold && !madvise(cold, 2 * COLD, MADV_NOHUGEPAGE), "no address space");
	mt_set_policy(MPOL_PREFERRED, 1UL << mt_fast_node());
	room = mt_use_free(cold, 2 * COLD, mt_fast_node());
	mt_bind_default();
	p = mt_place(HOT, mt_slow_node());
	MT_ASSERT(p, "no memory on the slow node");
	mt_set("scan/delay_ms", 0);
	mt_snap(&before);
	mt_touch_start(&t, p, HOT);
	mt_on();
	found = MT_WAIT(mt_pages_on(p, HOT, mt_fast_node()) > PAGES(HOT) * 9 / 10, FOUND_MS);
	mt_touch_stop(&t);
	mt_off();
	demoted = mt_since(&before, "mtier_demoted");
	mt_idle_stop(&idle);
	mt_note("beside %zu MiB of cold memory: %ld of %ld hot pages, %lld demoted, %lld bursts",
		room / MT_MB, mt_pages_on(p, HOT, mt_fast_node()), PAGES(HOT), demoted,
		mt_burst_value("bursts"));
	MT_ASSERT(room > HOT, "DRAM has %zu MiB of cold memory", room / MT_MB);
	MT_ASSERT(found, "the hot pages found no room");
	MT_ASSERT(demoted > PAGES(HOT) / 2, "%lld pages were demoted", demoted);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("victims beside 300 idle processes", beside_many_processes),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
