// SPDX-License-Identifier: GPL-2.0
/*
 * Lazy migration: pages that cannot move stay, can be used, and are counted by reason;
 * and counters and trace events agree.
 *
 * lab: topology=dram-cxl timeout=180s debug=yes
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "follow_util.h"

#define SIZE	(1 * MT_MB)
#define PAGES	((long)(SIZE / MT_PAGE))

static struct mt_snap before;

static char *file_on_slow(int *fd)
{
	*fd = fo_disk_file();
	return *fd < 0 ? NULL :
	       mt_place_file(*fd, SIZE, FO_SLOW, PROT_READ | PROT_WRITE);
}

/* Dirty at mbind(); after writeback they move like other pages. */
static int dirty(void)
{
	char *p;
	int fd;

	p = file_on_slow(&fd);
	MT_NEED(fd >= 0, "no ext4 on a loop device");
	MT_ASSERT(p, "no file on the slow node");
	mt_touch(p, SIZE, true);
	mt_snap(&before);
	MT_ASSERT(!mp_old_bind(p, SIZE, MPOL_BIND, FO_FAST, FO_MOVE), "mbind");
	MT_ASSERT(fo_refused_only(&before, "dirty", PAGES), "after mbind");
	mt_touch(p, SIZE, false);
	MT_ASSERT(mt_all_on(p, SIZE, FO_SLOW), "dirty pages moved");
	MT_ASSERT(fo_is(&before, 0, 0), "dirty");

	MT_ASSERT(!fsync(fd), "fsync");
	MT_ASSERT(!mp_old_bind(p, SIZE, MPOL_BIND, FO_FAST, FO_MOVE), "mbind again");
	mt_touch(p, SIZE, false);
	MT_ASSERT(mt_all_on(p, SIZE, 0), "clean pages: %ld came",
		  mt_pages_on(p, SIZE, 0));
	MT_ASSERT(fo_is(&before, PAGES, PAGES), "clean");
	return MT_PASS;
}

/* Dirty at the access: one page stays, its neighbours move. */
static int dirtied(void)
{
	char *p, c = 1;
	int fd;

	p = file_on_slow(&fd);
	MT_NEED(fd >= 0, "no ext4 on a loop device");
	MT_ASSERT(p, "no file on the slow node");
	mt_snap(&before);
	MT_ASSERT(!mp_old_bind(p, SIZE, MPOL_BIND, FO_FAST, FO_MOVE), "mbind");
	MT_ASSERT(pwrite(fd, &c, 1, 8 * MT_PAGE + 64) == 1, "pwrite");
	mt_touch(p, SIZE, false);
	MT_ASSERT(mt_pages_on(p, SIZE, 0) == PAGES - 1, "%ld of %ld came",
		  mt_pages_on(p, SIZE, 0), PAGES);
	MT_ASSERT(mt_pages_on(p + 8 * MT_PAGE, MT_PAGE, FO_SLOW) == 1,
		  "it was another one that stayed");
	MT_ASSERT(fo_is(&before, PAGES, PAGES - 1), "counted");
	MT_ASSERT(fo_refused_only(&before, "dirty", 1), "refused");
	return MT_PASS;
}

/* Mapped by another process too: only MOVE_ALL moves it. */
static int shared(void)
{
	char *p = mt_place(SIZE, FO_SLOW);
	pid_t child;

	MT_ASSERT(p, "no memory on the slow node");
	child = mt_spawn(fo_hold, NULL);
	mt_snap(&before);
	MT_ASSERT(!mp_old_bind(p, SIZE, MPOL_BIND, FO_FAST, FO_MOVE), "mbind");
	MT_ASSERT(fo_refused_only(&before, "shared", PAGES), "with MOVE");
	mt_touch(p, SIZE, false);
	MT_ASSERT(mt_all_on(p, SIZE, FO_SLOW), "shared pages moved");
	MT_ASSERT(!mp_old_bind(p, SIZE, MPOL_BIND, FO_FAST, FO_MOVE_ALL),
		  "mbind with MOVE_ALL");
	MT_ASSERT(fo_is(&before, PAGES, 0), "with MOVE_ALL");
	mt_touch(p, SIZE, false);
	MT_ASSERT(mt_all_on(p, SIZE, 0), "%ld came", mt_pages_on(p, SIZE, 0));
	MT_DATA(!mt_filled(p, SIZE), "another content");
	MT_ASSERT(fo_is(&before, PAGES, PAGES), "pulled");
	mt_kill(child);
	return MT_PASS;
}

static int pinned(void)
{
	char *p = mt_place(SIZE, FO_SLOW);

	MT_ASSERT(p, "no memory on the slow node");
	MT_NEED(!mt_pin(p, SIZE / 2), "no io_uring");
	mt_snap(&before);
	MT_ASSERT(!mp_old_bind(p, SIZE, MPOL_BIND, FO_FAST, FO_MOVE), "mbind");
	MT_ASSERT(fo_refused_only(&before, "busy", PAGES / 2), "after mbind");
	mt_touch(p, SIZE, true);
	MT_ASSERT(mt_all_on(p, SIZE / 2, FO_SLOW), "pinned pages moved");
	MT_ASSERT(mt_all_on(p + SIZE / 2, SIZE / 2, 0), "the others did not");
	MT_ASSERT(fo_is(&before, PAGES / 2, PAGES / 2), "counted");
	return MT_PASS;
}

/* A swapped-out page has no mark; it is swapped in on the node of the policy. */
static int swapped(void)
{
	char *p = mt_place(SIZE, FO_SLOW);
	bool right;

	MT_ASSERT(p, "no memory on the slow node");
	MT_NEED(mt_swap_on("64M"), "no swap on zram");
	MT_ASSERT(!mp_old_bind(p, SIZE, MPOL_BIND, FO_FAST, FO_MOVE), "mbind");
	madvise(p, SIZE, MADV_PAGEOUT);
	right = !mt_filled(p, SIZE) && mt_all_on(p, SIZE, 0);
	if (!right)
		mt_note_where("after swap", p, SIZE);
	mt_swap_off();
	return right ? MT_PASS : MT_FAIL;
}

/* The exit of a process, and the unmap of a range, leave nothing behind. */
static int gone(void)
{
	char *p = mt_place(4 * SIZE, FO_SLOW);
	pid_t child;

	MT_ASSERT(p, "no memory on the slow node");
	mt_snap(&before);
	MT_ASSERT(!mp_old_bind(p, 4 * SIZE, MPOL_BIND, FO_FAST, FO_MOVE), "mbind");
	/* The child inherits marks, and its accesses move pages of the parent. */
	child = fork();
	if (!child) {
		/* Only in the first part */
		mt_touch(p, SIZE, true);
		_exit(mt_filled(p, SIZE));
	}
	MT_ASSERT(!mt_reap(child), "the child's memory is wrong");
	munmap(p + SIZE, SIZE);
	MT_ASSERT(!mprotect(p + 2 * SIZE, SIZE, PROT_READ), "mprotect");
	MT_ASSERT(!mt_filled(p, SIZE) && mt_all_on(p, SIZE, 0),
		  "the first part");
	mt_touch(p + 2 * SIZE, SIZE, false);
	MT_ASSERT(mt_all_on(p + 2 * SIZE, SIZE, FO_SLOW),
		  "marks outlive mprotect");
	mt_touch(p + 3 * SIZE, SIZE, false);
	MT_ASSERT(mt_all_on(p + 3 * SIZE, SIZE, 0), "the last part");
	return MT_PASS;
}

/* ---- counters and trace events ---- */

struct sums {
	long long marked;
	long long pulled;
	long long dirty;
	long long shared;
	long long lines;
};

static void add_events(struct mt_trace *t, struct sums *s)
{
	char line[512];

	while (mt_trace_line(t, line, sizeof(line))) {
		s->lines++;
		if (!mt_field_is(line, "by", "mbind"))
			continue;
		if (strstr(line, "numa_follow_walk:")) {
			s->marked += mt_field(line, "marked");
			s->dirty += mt_field(line, "dirty");
			s->shared += mt_field(line, "shared");
		} else if (mt_field_is(line, "verdict", "moved")) {
			s->pulled += mt_field(line, "pages");
		} else if (mt_field_is(line, "verdict", "dirty")) {
			s->dirty += mt_field(line, "pages");
		} else if (mt_field_is(line, "verdict", "shared")) {
			s->shared += mt_field(line, "pages");
		}
	}
}

static bool equal(const struct sums *s)
{
	return s->marked == fo_since(&before, "marked") &&
	       s->pulled == fo_since(&before, "pulled") &&
	       s->dirty == fo_since(&before, "refused_dirty") &&
	       s->shared == fo_since(&before, "refused_shared");
}

static int counters(void)
{
	char *p, *f, *h, c = 1;
	struct sums s = { 0 };
	struct mt_trace t;
	pid_t child;
	int fd;

	f = file_on_slow(&fd);
	MT_NEED(fd >= 0, "no ext4 on a loop device");
	p = mt_place(SIZE, FO_SLOW);
	h = mt_place_thp(MT_HUGE, FO_SLOW);
	MT_ASSERT(f && p && h, "no memory on the slow node");
	MT_NEED(!mt_trace_open_of(&t, "numa_follow", NULL), "no tracing");
	mt_snap(&before);

	mp_old_bind(p, SIZE, MPOL_BIND, FO_FAST, FO_MOVE);
	mp_old_bind(f, SIZE, MPOL_BIND, FO_FAST, FO_MOVE);
	mp_old_bind(h, MT_HUGE, MPOL_BIND, FO_FAST, FO_MOVE);
	MT_ASSERT(pwrite(fd, &c, 1, 3 * MT_PAGE + 64) == 1, "pwrite");
	mt_touch(p, SIZE / 2, true);
	mt_touch(f, SIZE, false);
	mt_touch(h, MT_PAGE, true);
	child = mt_spawn(fo_hold, NULL);
	mp_old_bind(p, SIZE, MPOL_BIND, 1UL << FO_SLOW, FO_MOVE);
	mt_kill(child);

	MT_ASSERT(MT_WAIT(({ add_events(&t, &s); equal(&s); }), 5000),
		  "events and counters: marked %lld %lld, pulled %lld %lld, dirty %lld %lld, shared %lld %lld",
		  s.marked, fo_since(&before, "marked"),
		  s.pulled, fo_since(&before, "pulled"),
		  s.dirty, fo_since(&before, "refused_dirty"),
		  s.shared, fo_since(&before, "refused_shared"));
	mt_trace_close(&t);
	MT_ASSERT(mt_memcg_same("numa_follow_"), "cgroups say otherwise");
	mt_note("%lld events: %lld marked, %lld pulled, %lld dirty, %lld shared",
		s.lines, s.marked, s.pulled, s.dirty, s.shared);
	MT_ASSERT(s.marked == 2 * PAGES + 512, "marked");
	MT_ASSERT(s.pulled == PAGES / 2 + PAGES - 1 + 512, "pulled");
	MT_ASSERT(s.dirty == 1, "dirty");
	MT_ASSERT(s.shared == PAGES / 2, "shared");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("R14 dirty pages of a file are refused and counted",
			 dirty),
		MT_CHECK("R14 a page that becomes dirty meanwhile", dirtied),
		MT_CHECK("R14 shared pages need MOVE_ALL", shared),
		MT_CHECK("R14 pinned pages are refused and counted", pinned),
		MT_CHECK("P14 what was swapped out follows the policy", swapped),
		MT_CHECK("P14 fork, munmap, mprotect, exit", gone),
		MT_CHECK("R25 counters equal trace events", counters),
	};

	return fo_main(checks, ARRAY_LEN(checks));
}
