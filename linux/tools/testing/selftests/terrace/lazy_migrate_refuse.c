// SPDX-License-Identifier: GPL-2.0
/*
 * Lazy migration: pages that cannot move stay, can be used, and are counted by
 * reason; and the counters say what the trace events say.
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

#include "lazy_migrate_util.h"

#define SIZE	(1 * MT_MB)
#define PAGES	((long)(SIZE / MT_PAGE))

static struct lz_figures figures;

static char *file_on_slow(int *fd)
{
	*fd = lz_ext4_file();
	return *fd < 0 ? NULL :
	       mt_place_file(*fd, SIZE, LZ_SLOW, PROT_READ | PROT_WRITE);
}

/* Dirty when mbind() comes; written back, it is as good as others. */
static int dirty(void)
{
	char *p;
	int fd;

	p = file_on_slow(&fd);
	MT_NEED(fd >= 0, "no ext4 on a loop device");
	MT_ASSERT(p, "no file on the slow node");
	mt_touch(p, SIZE, true);
	lz_begin(&figures);
	MT_ASSERT(!mp_old_bind(p, SIZE, MPOL_BIND, LZ_FAST, LZ_MOVE), "mbind");
	MT_ASSERT(lz_refused(&figures, "dirty", PAGES), "after mbind");
	mt_touch(p, SIZE, false);
	MT_ASSERT(mt_all_on(p, SIZE, LZ_SLOW), "dirty pages moved");
	MT_ASSERT(lz_is(&figures, 0, 0), "dirty");

	MT_ASSERT(!fsync(fd), "fsync");
	MT_ASSERT(!mp_old_bind(p, SIZE, MPOL_BIND, LZ_FAST, LZ_MOVE), "mbind again");
	mt_touch(p, SIZE, false);
	MT_ASSERT(mt_all_on(p, SIZE, 0), "clean pages: %ld came",
		  mt_pages_on(p, SIZE, 0));
	MT_ASSERT(lz_is(&figures, PAGES, PAGES), "clean");
	return MT_PASS;
}

/* Dirty when it is used: one page stays, its neighbours come. */
static int dirtied(void)
{
	char *p, c = 1;
	int fd;

	p = file_on_slow(&fd);
	MT_NEED(fd >= 0, "no ext4 on a loop device");
	MT_ASSERT(p, "no file on the slow node");
	lz_begin(&figures);
	MT_ASSERT(!mp_old_bind(p, SIZE, MPOL_BIND, LZ_FAST, LZ_MOVE), "mbind");
	MT_ASSERT(pwrite(fd, &c, 1, 8 * MT_PAGE + 64) == 1, "pwrite");
	mt_touch(p, SIZE, false);
	MT_ASSERT(mt_pages_on(p, SIZE, 0) == PAGES - 1, "%ld of %ld came",
		  mt_pages_on(p, SIZE, 0), PAGES);
	MT_ASSERT(mt_pages_on(p + 8 * MT_PAGE, MT_PAGE, LZ_SLOW) == 1,
		  "it was another one that stayed");
	MT_ASSERT(lz_is(&figures, PAGES, PAGES - 1), "counted");
	MT_ASSERT(lz_refused(&figures, "dirty", 1), "refused");
	return MT_PASS;
}

static void hold(void *arg)
{
	(void)arg;
	for (;;)
		pause();
}

/* Others map it, too: only MOVE_ALL takes it. */
static int shared(void)
{
	char *p = mt_place(SIZE, LZ_SLOW);
	pid_t child;

	MT_ASSERT(p, "no memory on the slow node");
	child = mt_spawn(hold, NULL);
	lz_begin(&figures);
	MT_ASSERT(!mp_old_bind(p, SIZE, MPOL_BIND, LZ_FAST, LZ_MOVE), "mbind");
	MT_ASSERT(lz_refused(&figures, "shared", PAGES), "with MOVE");
	mt_touch(p, SIZE, false);
	MT_ASSERT(mt_all_on(p, SIZE, LZ_SLOW), "shared pages moved");
	MT_ASSERT(!mp_old_bind(p, SIZE, MPOL_BIND, LZ_FAST, LZ_MOVE_ALL),
		  "mbind with MOVE_ALL");
	MT_ASSERT(lz_is(&figures, PAGES, 0), "with MOVE_ALL");
	mt_touch(p, SIZE, false);
	MT_ASSERT(mt_all_on(p, SIZE, 0), "%ld came", mt_pages_on(p, SIZE, 0));
	MT_DATA(lz_intact(p, SIZE), "another content");
	MT_ASSERT(lz_is(&figures, PAGES, PAGES), "pulled");
	mt_kill(child);
	return MT_PASS;
}

static int pinned(void)
{
	char *p = mt_place(SIZE, LZ_SLOW);

	MT_ASSERT(p, "no memory on the slow node");
	MT_NEED(!mt_pin(p, SIZE / 2), "no io_uring");
	lz_begin(&figures);
	MT_ASSERT(!mp_old_bind(p, SIZE, MPOL_BIND, LZ_FAST, LZ_MOVE), "mbind");
	MT_ASSERT(lz_refused(&figures, "busy", PAGES / 2), "after mbind");
	mt_touch(p, SIZE, true);
	MT_ASSERT(mt_all_on(p, SIZE / 2, LZ_SLOW), "pinned pages moved");
	MT_ASSERT(mt_all_on(p + SIZE / 2, SIZE / 2, 0), "the others did not");
	MT_ASSERT(lz_is(&figures, PAGES / 2, PAGES / 2), "counted");
	return MT_PASS;
}

/* What was swapped out has no mark; it comes back where the policy wants it. */
static int swapped(void)
{
	char *p = mt_place(SIZE, LZ_SLOW);
	bool right;

	MT_ASSERT(p, "no memory on the slow node");
	MT_NEED(mt_swap_on("64M"), "no swap on zram");
	MT_ASSERT(!mp_old_bind(p, SIZE, MPOL_BIND, LZ_FAST, LZ_MOVE), "mbind");
	madvise(p, SIZE, MADV_PAGEOUT);
	right = lz_intact(p, SIZE) && mt_all_on(p, SIZE, 0);
	if (!right)
		mt_note_where("after swap", p, SIZE);
	mt_swap_off();
	return right ? MT_PASS : MT_FAIL;
}

/* A process that ends, and a range that goes, leave nothing behind. */
static int gone(void)
{
	char *p = mt_place(4 * SIZE, LZ_SLOW);
	pid_t child;

	MT_ASSERT(p, "no memory on the slow node");
	lz_begin(&figures);
	MT_ASSERT(!mp_old_bind(p, 4 * SIZE, MPOL_BIND, LZ_FAST, LZ_MOVE), "mbind");
	/* Its child takes marks along, and pages from under the parent. */
	child = fork();
	if (!child) {
		/* Only in the first part */
		mt_touch(p, SIZE, true);
		_exit(lz_intact(p, SIZE) ? 0 : 1);
	}
	MT_ASSERT(!mt_reap(child), "the child's memory is wrong");
	munmap(p + SIZE, SIZE);
	MT_ASSERT(!mprotect(p + 2 * SIZE, SIZE, PROT_READ), "mprotect");
	MT_ASSERT(lz_intact(p, SIZE) && mt_all_on(p, SIZE, 0),
		  "the first part");
	mt_touch(p + 2 * SIZE, SIZE, false);
	MT_ASSERT(mt_all_on(p + 2 * SIZE, SIZE, LZ_SLOW),
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
		if (strstr(line, "mm_lazy_mark:"))
			s->marked += mt_field(line, "marked");
		else if (strstr(line, "mm_lazy_pull:"))
			s->pulled += mt_field(line, "pages");
		else if (mt_field_is(line, "reason", "dirty"))
			s->dirty += mt_field(line, "pages");
		else if (mt_field_is(line, "reason", "shared"))
			s->shared += mt_field(line, "pages");
	}
}

static bool equal(const struct sums *s)
{
	const struct mt_snap *b = &figures.before;

	return s->marked == mt_since(b, "numa_lazy_marked") &&
	       s->pulled == mt_since(b, "numa_lazy_pulled") &&
	       s->dirty == mt_since(b, "numa_lazy_refused_dirty") &&
	       s->shared == mt_since(b, "numa_lazy_refused_shared");
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
	p = mt_place(SIZE, LZ_SLOW);
	h = mt_place_thp(MT_HUGE, LZ_SLOW);
	MT_ASSERT(f && p && h, "no memory on the slow node");
	MT_NEED(!mt_trace_open_of(&t, "lazy_migrate", NULL), "no tracing");
	lz_begin(&figures);

	mp_old_bind(p, SIZE, MPOL_BIND, LZ_FAST, LZ_MOVE);
	mp_old_bind(f, SIZE, MPOL_BIND, LZ_FAST, LZ_MOVE);
	mp_old_bind(h, MT_HUGE, MPOL_BIND, LZ_FAST, LZ_MOVE);
	MT_ASSERT(pwrite(fd, &c, 1, 3 * MT_PAGE + 64) == 1, "pwrite");
	mt_touch(p, SIZE / 2, true);
	mt_touch(f, SIZE, false);
	mt_touch(h, MT_PAGE, true);
	child = mt_spawn(hold, NULL);
	mp_old_bind(p, SIZE, MPOL_BIND, 1UL << LZ_SLOW, LZ_MOVE);
	mt_kill(child);

	MT_ASSERT(MT_WAIT(({ add_events(&t, &s); equal(&s); }), 5000),
		  "events and counters: marked %lld %lld, pulled %lld %lld, dirty %lld %lld, shared %lld %lld",
		  s.marked, mt_since(&figures.before, "numa_lazy_marked"),
		  s.pulled, mt_since(&figures.before, "numa_lazy_pulled"),
		  s.dirty, mt_since(&figures.before, "numa_lazy_refused_dirty"),
		  s.shared,
		  mt_since(&figures.before, "numa_lazy_refused_shared"));
	mt_trace_close(&t);
	MT_ASSERT(mt_memcg_same("numa_lazy_"), "cgroups say otherwise");
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

	return lz_main(checks, ARRAY_LEN(checks));
}
