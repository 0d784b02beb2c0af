// SPDX-License-Identifier: GPL-2.0
/*
 * Hotness: DRAM is full of memory that is in use. What is used more takes the
 * place of what is used less, and of nothing else.  It has a boot of its own:
 * kswapd, which finds nothing while demotion is off, gives DRAM up for good.
 *
 * lab: topology=dram-cxl-small-dram icount=2 boot=own timeout=800s debug=no
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "mempolicy2_util.h"
#include "mtier_util.h"

#define RECLAIM		"/sys/fs/cgroup/memory.reclaim"
#define DEMOTION	"/sys/kernel/mm/numa/demotion_enabled"

/*
 * More than what comes: DRAM is filled to below the watermark that migrators leave
 * free, some 800 pages, and those give way, too, once kswapd has given up.
 */
#define WARM	(12 * MT_MB)
/* More than what hides in per-CPU lists, where frames are free for migrators only */
#define HOT	(8 * MT_MB)
#define HOT_PAGES	((long)(HOT / MT_PAGE))

/**
 * struct scene - DRAM full of memory that is in use
 * @hog: a process whose memory fills most of it, locked, and is not scanned
 * @warm: the rest of DRAM, all of it used once in a while
 * @warm_size: its size
 * @stays: in DRAM, used all the time
 * @comes: on the slow node, used all the time
 * @frames: where the pages of what stays were at the beginning
 * @touch: who uses these three
 * @warm_in: pages of the warm memory in DRAM at the end
 * @stays_in: of what stays
 * @stayed: and how many of these never left
 * @comes_in: of what comes
 */
struct scene {
	pid_t hog;
	char *warm, *stays, *comes;
	size_t warm_size;
	uint64_t frames[HOT_PAGES];
	struct mt_toucher touch[3];
	long warm_in, stays_in, stayed, comes_in;
};

static char node_demoted[96];
static struct mt_cgroup kept;
static struct mt_snap before;
static long long isolated_before;

static long on_fast(const char *p, size_t size)
{
	return mt_pages_on(p, size, mt_fast_node());
}

static long long demoted(void)
{
	return mt_read_ll(node_demoted);
}

/* Pages off their lists, to the page */
static long long isolated(void)
{
	mt_write("/proc/sys/vm/stat_refresh", "1");
	return mt_count("nr_isolated_anon") + mt_count("nr_isolated_file");
}

/*
 * Nothing is free above the watermark. What was unmapped a moment ago is in the
 * lists of this CPU, which no watermark counts; what is taken comes from there.
 */
static bool plug(int node)
{
	const size_t most = 64 * MT_MB, step = 16 * MT_PAGE;
	char *p = mp_map(most);
	size_t off = 0;

	mt_set_policy(MPOL_PREFERRED, 1UL << node);
	for (; mt_node_room(node) > 0 && off < most; off += step)
		mt_touch(p + off, step, true);
	mt_bind_default();
	return off < most && !mlock(p, off);
}

/*
 * kswapd is to have no part in it: while DRAM is filled demotion is off, so that
 * there is no place for it to put anything.  What else it could take goes now.
 */
static void clean(void)
{
	int i;

	mt_write(DEMOTION, "0");
	for (i = 0; i < 64 && !mt_write(RECLAIM, "8M"); i++)
		;
}

/* All that this process has is promised to it. */
static bool keep(void)
{
	return !mt_cgroup_make(&kept, "kept", "+memory") &&
	       !mt_cgroup_write(&kept, "memory.min", "max") &&
	       !mt_cgroup_enter(&kept, 0);
}

/* And it gets what others leave of the CPUs. */
static void hush_kswapd(int policy)
{
	struct sched_param none = {};
	char name[16];

	snprintf(name, sizeof(name), "kswapd%d", mt_fast_node());
	sched_setscheduler(mt_kthread(name), policy, &none);
}

/* What it still finds is taken as soon as it is free, until it finds nothing. */
static bool plug_for_good(int node)
{
	do {
		if (!plug(node))
			return false;
	} while (MT_WAIT(mt_node_room(node) > 0, 500));
	return true;
}

/* Memory on @node that children can map, too */
static char *place_shared(size_t size, int node)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	mt_bind_to(node);
	mt_touch(p, size, true);
	mt_bind_default();
	return mt_all_on(p, size, node) ? p : NULL;
}

/*
 * Takes DRAM but for what the others need.  Nobody looks whether it is used: its
 * idle pages, locked or not, would fill the queue of those that may give way.
 */
static void hogger(void *arg)
{
	long room = (WARM + HOT) / MT_PAGE;
	size_t size = 0, off = 0;
	int *ready = arg;
	char *p;

	if (prctl(MT_SCALE_SET, 0, 0, 0, 0) < 0)
		_exit(1);
	p = mt_hog(mt_fast_node(), &size);
	for (; p && mt_node_room(mt_fast_node()) < room && off < size;
	     off += MT_MB)
		munmap(p + off, MT_MB);
	if (!p || write(ready[1], "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static bool hog(struct scene *s)
{
	int ready[2];
	char byte;
	bool ok;

	if (pipe(ready))
		return false;
	s->hog = mt_spawn(hogger, ready);
	close(ready[1]);
	ok = read(ready[0], &byte, 1) == 1;
	close(ready[0]);
	return ok;
}

/*
 * What stays lies lowest, where the scan begins: it would be the first to go.
 */
static bool scene_fill(struct scene *s, bool shared)
{
	int fast = mt_fast_node();
	long i;

	mt_run_on_cpu(0);
	/* First: what it inherits would be shared copy-on-write, and stay for that. */
	if (!hog(s))
		return false;
	s->comes = mt_place(HOT, mt_slow_node());
	if (!s->comes)
		return false;
	s->warm_size = (mt_node_room(fast) - HOT_PAGES) * MT_PAGE;
	s->warm = mt_place(s->warm_size, fast);
	s->stays = shared ? place_shared(HOT, fast) : mt_place(HOT, fast);
	if (!s->stays || !s->warm || s->stays > s->warm || !plug_for_good(fast))
		return false;
	for (i = 0; i < HOT_PAGES; i++)
		s->frames[i] = mt_pfn(s->stays + i * MT_PAGE);
	mt_run_on_node(fast);
	return true;
}

/* Two of them never rest, one on each CPU. */
static void scene_run(struct scene *s)
{
	int i;

	mt_write(DEMOTION, "1");

	s->touch[0] = (struct mt_toucher) {
		.p = s->warm, .size = s->warm_size, .rest_ms = 300, .cpu = -1,
	};
	s->touch[1] = (struct mt_toucher) {
		.p = s->stays, .size = HOT, .cpu = 0,
	};
	s->touch[2] = (struct mt_toucher) {
		.p = s->comes, .size = HOT, .cpu = 1,
	};
	for (i = 0; i < 3; i++) {
		s->touch[i].step = MT_PAGE;
		mt_toucher_run(&s->touch[i]);
	}
	hush_kswapd(SCHED_IDLE);
}

static void scene_end(struct scene *s)
{
	long i;

	/* As long as all is as it was: kswapd takes what it likes. */
	s->warm_in = on_fast(s->warm, s->warm_size);
	s->stays_in = on_fast(s->stays, HOT);
	s->comes_in = on_fast(s->comes, HOT);
	for (i = 0; i < HOT_PAGES; i++)
		s->stayed += mt_pfn(s->stays + i * MT_PAGE) == s->frames[i];
	for (i = 0; i < 3; i++)
		mt_touch_stop(&s->touch[i]);
	mt_kill(s->hog);
	hush_kswapd(SCHED_OTHER);
	mt_note("in DRAM: %ld of %ld pages that were to come, %ld of %ld to stay",
		s->comes_in, HOT_PAGES, s->stays_in, HOT_PAGES);
	mt_note("%ld of these never left; %ld of %ld warm; %lld demoted",
		s->stayed, s->warm_in, (long)(s->warm_size / MT_PAGE),
		demoted());
	mt_note_since(&before);
}

/* How many of the warm pages gave way, but for what kswapd got hold of */
static long warm_gone(const struct scene *s)
{
	return (long)(s->warm_size / MT_PAGE) - s->warm_in -
	       mt_since(&before, "pgdemote_kswapd");
}

/* Likewise, how many of those that stay ever did, though they may be back. */
static long hot_gone(const struct scene *s)
{
	return HOT_PAGES - s->stayed - mt_since(&before, "pgdemote_kswapd");
}

static void ready(void)
{
	snprintf(node_demoted, sizeof(node_demoted), "node%d/demoted",
		 mt_slow_node());
	mt_fast();
	mt_set("hot/accesses", 2);
	mt_set("hot/room_percent", 100);
	mt_set("hot/cold_looks", 3);
	mt_set("promote/batch_pages", 64);
	clean();
	isolated_before = isolated();
	mt_snap(&before);
}

static int exchange(void)
{
	struct scene s = {};
	bool all;

	ready();
	MT_NEED(scene_fill(&s, false), "DRAM cannot be filled");
	scene_run(&s);
	mt_on();
	all = MT_WAIT(on_fast(s.comes, HOT) >= HOT_PAGES * 9 / 10, 120000);
	/* Whoever goes by mistake comes again, and goes again. */
	mt_nap(3000);
	scene_end(&s);
	MT_ASSERT(all, "the hot pages did not get in");
	MT_ASSERT(demoted() >= HOT_PAGES / 8, "nothing gave way to them");
	/*
	 * A hot page that goes is back soon, in another frame. Some batches of 64
	 * do, 182 pages at most; 892 at least if pages in use give way, too.
	 */
	MT_ASSERT(hot_gone(&s) <= HOT_PAGES / 4, "hot pages gave way");
	MT_ASSERT(s.comes_in >= HOT_PAGES * 9 / 10, "and those that came");
	MT_ASSERT(mt_since(&before, "mtier_demoted") == demoted(),
		  "mtier_demoted counts %lld",
		  mt_since(&before, "mtier_demoted"));
	/* Others may have some at this moment, but not for long. */
	mt_off();
	MT_ASSERT(MT_WAIT(isolated() <= isolated_before, 10000),
		  "%lld pages are isolated for ever",
		  isolated() - isolated_before);
	return MT_PASS;
}

static void idler(void *p)
{
	mt_touch(p, HOT, false);
	for (;;)
		pause();
}

/* One process uses it all the time, six others have it mapped and do not. */
static int idle_mappers(void)
{
	pid_t pid[6];
	struct scene s = {};
	bool all;
	int i;

	ready();
	MT_NEED(scene_fill(&s, true), "DRAM cannot be filled");
	/* What they inherit would be shared copy-on-write, and stay for that. */
	MT_ASSERT(!madvise(s.comes, HOT, MADV_DONTFORK) &&
		  !madvise(s.warm, s.warm_size, MADV_DONTFORK), "madvise");
	for (i = 0; i < 6; i++)
		pid[i] = mt_spawn(idler, s.stays);
	scene_run(&s);
	mt_on();
	all = MT_WAIT(on_fast(s.comes, HOT) >= HOT_PAGES * 9 / 10, 120000);
	mt_nap(3000);
	for (i = 0; i < 6; i++)
		mt_kill(pid[i]);
	scene_end(&s);
	MT_ASSERT(all, "the hot pages did not get in");
	MT_ASSERT(s.stays_in == HOT_PAGES,
		  "idle mappers voted pages out that are in use");
	return MT_PASS;
}

/* All of it was armed and looked at thirty times, which took a visit each. */
static bool looked(const struct scene *s)
{
	return mt_since(&before, "mtier_scan_ptes") >
	       60 * (long long)(s->warm_size / MT_PAGE + 2 * HOT_PAGES);
}

/* What is idle of other programs may go. */
static int policy(void)
{
	struct scene s = {};
	bool enough;

	ready();
	MT_NEED(scene_fill(&s, false), "DRAM cannot be filled");
	/* The warm memory may lie nowhere else. */
	MT_ASSERT(!mp_old_bind(s.warm, s.warm_size, MPOL_BIND,
			       1UL << mt_fast_node(), 0), "mbind");
	scene_run(&s);
	mt_on();
	enough = MT_WAIT(looked(&s), 60000);
	scene_end(&s);
	MT_ASSERT(enough, "nobody looked");
	MT_ASSERT(warm_gone(&s) <= 0,
		  "bound pages gave way");
	return MT_PASS;
}

/* What a cgroup is promised does not go, as it would not for reclaim. */
static int promised(void)
{
	struct scene s = {};
	bool enough;

	ready();
	MT_NEED(keep(), "no cgroup with memory.min");
	MT_NEED(scene_fill(&s, false), "DRAM cannot be filled");
	scene_run(&s);
	mt_on();
	enough = MT_WAIT(looked(&s), 60000);
	scene_end(&s);
	mt_cgroup_remove(&kept);
	MT_ASSERT(enough, "nobody looked");
	/* Others, which are promised nothing, may have lost some. */
	MT_ASSERT(warm_gone(&s) <= 0 && s.stays_in == HOT_PAGES,
		  "memory below memory.min gave way");
	return MT_PASS;
}

/* Whoever switches demotion off gets none. */
static int switched_off(void)
{
	struct scene s = {};
	bool enough;

	ready();
	MT_NEED(scene_fill(&s, false), "DRAM cannot be filled");
	scene_run(&s);
	mt_write(DEMOTION, "0");
	mt_on();
	enough = MT_WAIT(looked(&s), 60000);
	scene_end(&s);
	mt_write(DEMOTION, "1");
	MT_ASSERT(enough, "nobody looked");
	MT_ASSERT(!demoted(), "pages were demoted");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("H6 demotion switched off: nothing gives way",
			 switched_off),
		MT_CHECK("H6 pages bound to a full node do not give way",
			 policy),
		MT_CHECK("H6 memory below its memory.min does not give way",
			 promised),
		MT_CHECK("H6 shared memory in use stays, however many map it idly",
			 idle_mappers),
		MT_CHECK("H6 hotter pages take the place of colder ones",
			 exchange),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
