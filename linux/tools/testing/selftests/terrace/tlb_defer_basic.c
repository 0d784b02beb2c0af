// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flushes: the switch, the knobs, the counters.
 *
 * lab: topology=dram-cxl cpus=4 append="nopti isolcpus=2,3" timeout=180s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tlb_defer_util.h"

#define PAGES	1024

static int put(const char *knob, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), TD_DIR "%s", knob);
	return mt_write(path, text);
}

static int modes(void)
{
	MT_ASSERT(mt_reads(TD_DIR "mode", "quarantine"), "not on");
	MT_ASSERT(td_mode("buddy") == -EOPNOTSUPP, "buddy is taken");
	MT_ASSERT(td_mode("on") == -EINVAL, "nonsense is taken");
	MT_ASSERT(td_mode("quarantined") == -EINVAL, "more than a name is taken");
	MT_ASSERT(mt_reads(TD_DIR "mode", "quarantine"), "an error switched");
	MT_ASSERT(!td_mode("off") && mt_reads(TD_DIR "mode", "off"),
		  "not off");
	MT_ASSERT(!td_mode("off") && !td_mode("quarantine") &&
		  !td_mode("quarantine"), "twice is an error");
	return MT_PASS;
}

static int knobs(void)
{
	static const struct {
		const char *name;
		const char *least;
		const char *most;
		const char *less;
		const char *more;
	} all[] = {
		{ "limit_ticks", "1", "100", "0", "101" },
		{ "held_limit_bp", "0", "1000", "-1", "1001" },
		{ "backoff_ms", "0", "60000", "-1", "60001" },
		{ "protect", "0", "1", "-1", "2" },
	};
	size_t i;
	int ret;

	for (i = 0; i < ARRAY_LEN(all); i++) {
		long long was;

		MT_ASSERT(!put(all[i].name, all[i].least) &&
			  !put(all[i].name, all[i].most), "%s refuses its ends",
			  all[i].name);
		was = td_knob(all[i].name);
		ret = put(all[i].name, all[i].less);
		MT_ASSERT(ret == -ERANGE || ret == -EINVAL, "%s takes %s",
			  all[i].name, all[i].less);
		MT_ASSERT(put(all[i].name, all[i].more) == -ERANGE,
			  "%s takes %s", all[i].name, all[i].more);
		MT_ASSERT(put(all[i].name, "3x") == -EINVAL,
			  "%s takes nonsense", all[i].name);
		MT_ASSERT(td_knob(all[i].name) == was, "%s changed",
			  all[i].name);
	}
	return MT_PASS;
}

/* Every page that migrates by such a reason ends in one counter. */
static int counters_add_up(void)
{
	char *anon = mmap(NULL, PAGES * MT_PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = td_file(PAGES * MT_PAGE);
	struct mt_snap before;
	long long sum;
	char *p;

	MT_NEED(fd >= 0, "no ext4 on a loop device");
	madvise(anon, PAGES * MT_PAGE, MADV_NOHUGEPAGE);
	p = mmap(NULL, PAGES * MT_PAGE, PROT_READ, MAP_SHARED, fd, 0);
	mt_touch(p, PAGES * MT_PAGE, false);
	mt_touch(anon, PAGES * MT_PAGE, true);
	mt_snap(&before);
	MT_ASSERT(td_move(p, PAGES, td_node_b()) == PAGES &&
		  td_move(anon, PAGES, td_node_b()) == PAGES, "did not move");
	sum = td_judged(&before);
	mt_note("%lld counted, %lld moved", sum,
		mt_since(&before, "pgmigrate_success"));
	/* More than moved: one that is tried again is judged again. */
	MT_ASSERT(sum >= 2 * PAGES, "some were not counted");
	return MT_PASS;
}

/* Huge mappings are flushed when they are cleared, by interrupt: that is a need. */
static int huge_is_refused(void)
{
	struct mt_snap before;
	char *p = mt_place_thp(MT_HUGE, td_node_a());
	struct td_reader r;

	MT_NEED(p && mt_is_thp(p), "no huge page");
	mt_snap(&before);
	td_reader_start(&r, p, TD_READER_CPU);
	MT_ASSERT(td_move(p, 1, td_node_b()) == 1 &&
		  td_move(p, 1, td_node_a()) == 1, "did not move");
	td_reader_stop(&r);
	mt_note("%lld pages of another kind, %lld that needed no flush",
		mt_since(&before, "tlb_defer_refused_kind"),
		mt_since(&before, "tlb_defer_no_need"));
	MT_ASSERT(mt_is_thp(p), "is not huge any more");
	MT_ASSERT(mt_since(&before, "tlb_defer_refused_kind") >=
		  2 * (long long)(MT_HUGE / MT_PAGE), "not counted");
	MT_ASSERT(!mt_since(&before, "tlb_defer_no_need"),
		  "counted as if nobody had been interrupted");
	return MT_PASS;
}

/* An address space that is flushed all the time is left alone. */
static int backs_off(void)
{
	MT_ASSERT(td_back_off(TD_READER_CPU) > 0, "is not left alone");
	return MT_PASS;
}

/* What a migration needs while it runs goes with it; more than slabs vary by. */
static int keeps_nothing(void)
{
	const int times = 2000;
	char *p = td_map_file(MT_PAGE);
	struct mt_snap before;
	int i, moved = 0;

	MT_NEED(p, "no ext4 on a loop device");
	mt_snap(&before);
	for (i = 0; i < times; i++)
		moved += td_move(p, 1, i & 1 ? td_node_a() : td_node_b()) == 1;
	mt_note("%d moves, %lld pages judged", moved, td_judged(&before));
	MT_ASSERT(td_judged(&before) >= times / 2, "too few migrations");
	return MT_PASS;
}

static const struct mt_check checks[] = {
	{ "mode takes what it knows", modes },
	{ "knobs keep to their bounds", knobs },
	{ "who has to be flushed all the time is left alone", backs_off },
	{ "a migration keeps nothing, however many there are", keeps_nothing },
	{ "every page is counted", counters_add_up },
	{ "huge pages are not counted as in no need of a flush",
	  huge_is_refused },
};

int main(void)
{
	return td_main(checks, ARRAY_LEN(checks));
}
