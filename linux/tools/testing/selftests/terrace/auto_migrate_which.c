// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic migration: the pages that move and those that stay, the tasks that are
 * excluded, and the agreement of counters and trace events.
 *
 * The special part is between two parts that move: when both have moved, the walk has
 * passed it.
 *
 * lab: topology=two-socket-cxl timeout=300s debug=yes
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "follow_util.h"
#include "numa_scan_util.h"

#define SIZE	(4 * MT_MB)
#define PAGES	((long)(SIZE / MT_PAGE))

static struct mt_cgroup on;
static struct mt_snap before;

static int begin(struct am_task *t, int lazy, int max_mapcount)
{
	if (am_cgroup_on(&on, "on", lazy))
		return MT_FAIL;
	MT_ASSERT(!am_set(&on, "migrate_max_mapcount", max_mapcount),
		  "no max_mapcount");
	t->cg = &on;
	if (am_start(t))
		return MT_FAIL;
	mt_snap(&before);
	t->s->touch = lazy;
	return MT_PASS;
}

/* Move the task, and wait for the parts that are not special. */
static int passed(struct am_task *t)
{
	bool came, ended;

	if (am_move_all(t, AM_NODE1))
		return MT_FAIL;
	came = MT_WAIT(am_local(t, 1), AM_LONG_MS);
	ended = am_all_ended(t, &before);
	fo_note(&before);
	am_where(t);
	MT_ASSERT(came, "it did not follow");
	MT_ASSERT(ended, "pages without an end");
	return MT_PASS;
}

/* ---- policies ---- */

static char *bound(struct am_task *t)
{
	char *q = mt_place(t->size, 0);

	return q && !mt_mbind(q, t->size, MPOL_BIND, 1) ? q : NULL;
}

static char *preferred(struct am_task *t)
{
	char *q = mt_place(t->size, 0);

	return q && !mt_mbind(q, t->size, MPOL_PREFERRED, 1) ? q : NULL;
}

static char *shmem(struct am_task *t)
{
	return mt_place_file(memfd_create("am", MFD_CLOEXEC), t->size, 0,
			     PROT_READ | PROT_WRITE);
}

static char *bound_shmem(struct am_task *t)
{
	char *q = shmem(t);

	return q && !mt_mbind(q, t->size, MPOL_BIND, 1) ? q : NULL;
}

/* The part between the two others stays, or moves too. */
static int special(char *(*make)(struct am_task *t), int lazy, int stays)
{
	struct am_task t = { .size = SIZE, .special = make };

	if (begin(&t, lazy, 1) || passed(&t))
		return MT_FAIL;
	if (stays) {
		MT_ASSERT(am_all(&t, t.s->q, 0), "it moved");
		/* It is not marked either, which would cost useless faults. */
		MT_ASSERT(fo_since(&before, "marked") < 5 * PAGES / 2,
			  "it was marked");
	} else {
		/* It may be the last part that is accessed. */
		MT_ASSERT(MT_WAIT(am_pages(&t, t.s->q, SIZE, 1) >= PAGES * 95 / 100,
				  AM_LONG_MS), "it stayed");
	}
	return MT_PASS;
}

static int bound_direct(void)
{
	return special(bound, 0, 1);
}

static int bound_lazy(void)
{
	return special(bound, 1, 1);
}

static int preferred_direct(void)
{
	return special(preferred, 0, 1);
}

static int bound_shmem_direct(void)
{
	return special(bound_shmem, 0, 1);
}

static int shmem_direct(void)
{
	return special(shmem, 0, 0);
}

static int shmem_lazy(void)
{
	return special(shmem, 1, 0);
}

static char *clean(struct am_task *t)
{
	int fd = fo_disk_file();

	return fd < 0 ? NULL :
	       mt_place_file(fd, t->size, 0, PROT_READ | PROT_WRITE);
}

static int clean_file(void)
{
	MT_NEED(mt_ext4(), "no ext4 on a loop device");
	return special(clean, 0, 0);
}

/* Dirty, since no writeback happens by itself in this time */
static char *dirty(struct am_task *t)
{
	char *q = clean(t);

	if (q)
		mt_touch(q, t->size, true);
	return q;
}

static int dirty_file(void)
{
	struct am_task t = { .size = SIZE, .special = dirty };

	MT_NEED(mt_ext4(), "no ext4 on a loop device");
	mt_write("/proc/sys/vm/dirty_writeback_centisecs", "0");
	if (begin(&t, 0, 1) || passed(&t))
		return MT_FAIL;
	MT_ASSERT(am_all(&t, t.s->q, 0), "dirty pages have moved");
	MT_ASSERT(fo_since(&before, "refused_dirty") >= PAGES, "not counted");
	return MT_PASS;
}

/* ---- sharers ---- */

/* Shared with a child, which maps neither the part before it nor the part after it */
static char *shared(struct am_task *t)
{
	char *q = mt_place(t->size, 0);

	if (q)
		mt_spawn(fo_hold, NULL);
	return q;
}

static int fork_shared(int lazy, int max_mapcount)
{
	struct am_task t = { .size = SIZE, .special = shared };

	if (begin(&t, lazy, max_mapcount) || passed(&t))
		return MT_FAIL;
	if (max_mapcount == 1) {
		MT_ASSERT(am_all(&t, t.s->q, 0), "shared pages have moved");
		MT_ASSERT(fo_since(&before, "refused_shared") >= PAGES,
			  "not counted");
	} else {
		MT_ASSERT(am_all(&t, t.s->q, 1), "two may share them");
	}
	return MT_PASS;
}

static int shared_1(void)
{
	return fork_shared(0, 1);
}

static int shared_2(void)
{
	return fork_shared(0, 2);
}

static int shared_lazy_1(void)
{
	return fork_shared(1, 1);
}

static int shared_lazy_2(void)
{
	return fork_shared(1, 2);
}

/* Huge pages, each mapped 512 times, by one process */
static char *in_parts(struct am_task *t)
{
	char *q = mt_place_thp(t->size, 0);
	size_t off;

	for (off = 0; q && off < t->size; off += MT_HUGE) {
		mprotect(q + off, MT_PAGE, PROT_READ);
		mprotect(q + off, MT_PAGE, PROT_READ | PROT_WRITE);
	}
	return q;
}

static int thp_in_parts(void)
{
	struct am_task t = {
		.size = SIZE, .special = in_parts, .check = am_is_huge,
	};

	if (begin(&t, 0, 1))
		return MT_FAIL;
	MT_ASSERT(am_asked(&t), "not in one piece");
	if (passed(&t))
		return MT_FAIL;
	MT_ASSERT(am_all(&t, t.s->q, 1), "one process is not many");
	MT_ASSERT(am_asked(&t), "no longer in one piece");
	return MT_PASS;
}

static char *pinned(struct am_task *t)
{
	char *q = mt_place(t->size, 0);

	return q && !mt_pin(q, t->size) ? q : NULL;
}

static int pinned_stays(void)
{
	struct am_task t = { .size = SIZE, .special = pinned };

	if (begin(&t, 0, 1) || passed(&t))
		return MT_FAIL;
	MT_ASSERT(am_all(&t, t.s->q, 0), "pinned pages have moved");
	MT_ASSERT(fo_since(&before, "refused_busy") >= PAGES, "not counted");
	return MT_PASS;
}

static char *referenced(struct am_task *t)
{
	char *q = mt_place(t->size, 0);

	return q && !fo_refer(q, t->size) ? q : NULL;
}

static int goes_back(void)
{
	struct am_task t = { .size = SIZE, .special = referenced };

	if (begin(&t, 0, 1) || passed(&t))
		return MT_FAIL;
	MT_ASSERT(am_all(&t, t.s->q, 0), "they have moved");
	MT_ASSERT(fo_since(&before, "refused_busy") >= PAGES, "not counted");
	/* CPUs keep the last hundred or so in their batches. */
	MT_ASSERT(MT_WAIT(mt_since(&before, "nr_isolated_anon") < PAGES / 2,
			  AM_LONG_MS),
		  "%lld pages are on no list",
		  mt_since(&before, "nr_isolated_anon"));
	return MT_PASS;
}

/* ---- tasks ---- */

/* It was decided that its memory does not move, for @why. */
static int left_alone(struct am_task *t, const char *why)
{
	char name[64];
	bool was;

	snprintf(name, sizeof(name), "declined_%s", why);
	was = MT_WAIT(fo_since(&before, name) > 0 || fo_since(&before, "tasks"),
		      AM_LONG_MS);
	fo_note(&before);
	MT_ASSERT(was, "nothing was decided");
	MT_ASSERT(!fo_since(&before, "tasks"), "memory follows");
	MT_ASSERT(am_all(t, t->s->p, 0) && am_all(t, t->s->r, 0),
		  "memory has moved");
	return MT_PASS;
}

static bool binds_itself(struct am_task *t)
{
	(void)t;
	return !mt_set_policy(MPOL_PREFERRED, 1);
}

static int has_policy(void)
{
	struct am_task t = { .size = SIZE, .check = binds_itself };

	if (begin(&t, 0, 1))
		return MT_FAIL;
	MT_ASSERT(am_asked(&t), "no policy");
	if (am_move(&t, AM_NODE1))
		return MT_FAIL;
	return left_alone(&t, "policy");
}

/* A child that uses the parent's memory, and stays on node 1 for a second */
static bool vforks(struct am_task *t)
{
	pid_t pid = vfork();

	(void)t;
	if (!pid) {
		am_spin(AM_SEEN_MS);
		if (!mt_run_on_cpu(1))
			am_spin(1000);
		_exit(0);
	}
	return pid > 0;
}

static int borrowed(void)
{
	struct am_task t = { .size = SIZE, .check = vforks };

	if (begin(&t, 0, 1))
		return MT_FAIL;
	MT_ASSERT(am_asked(&t), "no child");
	return left_alone(&t, "threads");
}

static int not_in_cpuset(void)
{
	struct am_task t = { .size = SIZE };

	if (begin(&t, 0, 1))
		return MT_FAIL;
	MT_ASSERT(!mt_cgroup_write(&on, "cpuset.mems", "0,2"), "no mems");
	if (am_move(&t, AM_NODE1))
		return MT_FAIL;
	return left_alone(&t, "node");
}

/*
 * The three other threads stay on node 0, and could use the memory there: it is marked.
 * They do not use it, so it moves when they follow.
 */
static int most_threads(void)
{
	struct am_task t = { .size = SIZE, .threads = 3 };

	if (begin(&t, 0, 1) || am_move(&t, AM_NODE1))
		return MT_FAIL;
	MT_ASSERT(MT_WAIT(fo_since(&before, "marked") >= 2 * PAGES, AM_LONG_MS),
		  "it is not marked");
	MT_ASSERT(!fo_since(&before, "moved"), "it moves at once");
	MT_ASSERT(am_pages(&t, t.s->p, SIZE, 0) == PAGES &&
		  am_pages(&t, t.s->r, SIZE, 0) == PAGES, "it has moved");
	if (passed(&t))
		return MT_FAIL;
	MT_ASSERT(MT_WAIT(fo_since(&before, "moved") >= 2 * PAGES, 5000),
		  "it was pulled");
	return MT_PASS;
}

/* No thread of it has been scanned for ten times the usual interval. */
static bool unscanned(struct am_task *t)
{
	long long seq = ns_sched(t->pid, "mm->numa_scan_seq");

	return !MT_WAIT(ns_sched(t->pid, "mm->numa_scan_seq") != seq, 1000);
}

/*
 * NUMA balancing prefers node 0, and nothing changes that; the task is on node
 * 1, and may run on both.
 */
static int preferred_elsewhere(struct am_task *t)
{
	mt_run_on_cpu(0);
	if (begin(t, 0, 1) || ns_fast("sync", 64))
		return MT_FAIL;
	t->s->touch = true;
	MT_ASSERT(MT_WAIT(ns_sched(t->pid, "numa_preferred_nid") == 0, 60000),
		  "no preferred node");
	mt_write(NS_DEBUG "scan_period_max_ms", "60000");
	mt_write(NS_DEBUG "scan_period_min_ms", "60000");
	MT_ASSERT(MT_WAIT(unscanned(t), AM_LONG_MS), "it is still scanned");
	if (am_rounds(t, 2))
		return MT_FAIL;
	t->s->touch = false;
	if (am_rounds(t, 1))
		return MT_FAIL;
	mt_snap(&before);
	return MT_PASS;
}

static int balancing(void)
{
	struct am_task t = { .size = SIZE, .threads = 1 };

	if (preferred_elsewhere(&t) || am_move(&t, AM_NODE1) ||
	    am_move(&t, AM_NODE0 | AM_NODE1) || left_alone(&t, "balancing"))
		return MT_FAIL;
	/* Node 0 is not allowed for it now. */
	return passed(&t);
}

/* The preference stays, and has no effect. */
static int opted_out(void)
{
	struct am_task t = { .size = SIZE, .threads = 1 };
	bool decided;

	if (preferred_elsewhere(&t))
		return MT_FAIL;
	MT_ASSERT(!am_set(&on, "numa_balancing", 0), "cannot opt out");
	if (am_move(&t, AM_NODE1) || am_move(&t, AM_NODE0 | AM_NODE1))
		return MT_FAIL;
	decided = MT_WAIT(fo_since(&before, "tasks") +
			  fo_since(&before, "declined_balancing") > 0, AM_LONG_MS);
	fo_note(&before);
	MT_ASSERT(ns_sched(t.pid, "numa_preferred_nid") == 0, "no preferred node");
	MT_ASSERT(decided && !fo_since(&before, "declined_balancing"),
		  "its memory does not follow");
	return passed(&t);
}

/* NUMA balancing is on, and excludes the cgroup: other marked pages move. */
static int lazy_opted_out(void)
{
	struct am_task t = { .size = SIZE };

	if (begin(&t, 1, 1))
		return MT_FAIL;
	MT_ASSERT(!am_set(&on, "numa_balancing", 0) && !mt_write(FO_BALANCING, "1"),
		  "cannot opt out");
	return passed(&t);
}

static int bind_lazily(void *arg)
{
	char *p;

	(void)arg;
	MT_ASSERT(!mt_cgroup_enter(&on, 0) && !mt_run_on_cpu(0), "cgroup");
	p = mt_place(SIZE, 0);
	MT_ASSERT(p && !mt_mbind_flags(p, SIZE, MPOL_BIND, 2, FO_MOVE), "mbind");
	mt_touch(p, SIZE, false);
	MT_ASSERT(mt_pages_on(p, SIZE, 1) == PAGES, "%ld of %ld pages have moved",
		  mt_pages_on(p, SIZE, 1), PAGES);
	return MT_PASS;
}

static int mbind_opted_out(void)
{
	if (am_cgroup(&on, NULL, "on"))
		return MT_FAIL;
	MT_ASSERT(!am_set(&on, "numa_balancing", 0) && !mt_write(FO_BALANCING, "1"),
		  "cannot opt out");
	return mp_in_child(bind_lazily, NULL);
}

/* ---- counters and trace events ---- */

static const char * const names[] = {
	"tasks", "declined_policy", "marked", "moved",
	"refused_dirty", "refused_shared", "refused_nomem", "refused_busy",
	"pulled",
};

/* In the order of their names */
struct sums {
	long long is[ARRAY_LEN(names)];
};

static void add_events(struct mt_trace *tr, struct sums *s)
{
	static const char * const fields[] = {
		"marked", "moved", "dirty", "shared", "nomem", "busy",
	};
	char line[512];
	size_t i;

	while (mt_trace_line(tr, line, sizeof(line))) {
		if (strstr(line, "numa_follow_task:")) {
			s->is[0] += mt_field_is(line, "action", "direct") ||
				    mt_field_is(line, "action", "lazy");
			s->is[1] += mt_field_is(line, "action", "policy");
		} else if (strstr(line, "numa_follow_walk:")) {
			for (i = 0; i < ARRAY_LEN(fields); i++)
				s->is[2 + i] += mt_field(line, fields[i]);
		} else if (strstr(line, "numa_follow_use:")) {
			s->is[8] += mt_field_is(line, "verdict", "moved") ?
				    mt_field(line, "pages") : 0;
			/* A page that was marked and cannot move at its access */
			for (i = 2; i < ARRAY_LEN(fields); i++)
				if (mt_field_is(line, "verdict", fields[i]))
					s->is[2 + i] += mt_field(line, "pages");
		}
	}
}

static bool equal(const struct sums *s)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(names); i++)
		if (s->is[i] != fo_since(&before, names[i]))
			return false;
	return true;
}

static int adds_up(void)
{
	struct am_task t = { .size = SIZE, .special = shared };
	struct am_task u = { .size = SIZE, .check = binds_itself };
	struct am_task v = { .size = SIZE };
	struct sums s = { 0 };
	struct mt_trace tr;
	struct mt_cgroup lazy;
	size_t i;
	bool same;

	MT_NEED(!mt_trace_open_of(&tr, "numa_follow", NULL), "no tracing");
	if (am_cgroup_on(&lazy, "lazy", 1))
		return MT_FAIL;
	v.cg = &lazy;
	if (begin(&t, 0, 1))
		return MT_FAIL;
	u.cg = &on;
	if (am_start(&u) || am_start(&v))
		return MT_FAIL;
	MT_ASSERT(am_asked(&u), "no policy");
	v.s->touch = true;
	if (am_move(&u, AM_NODE1) || am_move(&v, AM_NODE1) ||
	    am_move(&t, AM_NODE1))
		return MT_FAIL;
	MT_ASSERT(MT_WAIT(am_local(&t, 1) && am_local(&v, 1) &&
			  fo_since(&before, "declined_policy") > 0, AM_LONG_MS),
		  "not everything has happened");
	am_stop(&t);
	am_stop(&u);
	am_stop(&v);
	same = MT_WAIT(({ add_events(&tr, &s); equal(&s); }), 5000);
	for (i = 0; i < ARRAY_LEN(names); i++)
		mt_note("%s: events %lld, counter %lld", names[i], s.is[i],
			fo_since(&before, names[i]));
	mt_trace_close(&tr);
	MT_ASSERT(same, "events and counters differ");
	MT_ASSERT(fo_since(&before, "moved") >= 2 * PAGES * 95 / 100 &&
		  fo_since(&before, "marked") >= 2 * PAGES * 95 / 100 &&
		  fo_since(&before, "pulled") >= 2 * PAGES * 95 / 100 &&
		  fo_since(&before, "refused_shared") >= PAGES &&
		  fo_since(&before, "tasks") >= 2, "there was less to count");
	MT_ASSERT(mt_memcg_same("numa_follow_"), "cgroups say otherwise");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("R18 bound memory stays, direct", bound_direct),
		MT_CHECK("R18 bound memory stays, lazy", bound_lazy),
		MT_CHECK("R18 memory with a preferred node stays",
			 preferred_direct),
		MT_CHECK("R18 bound tmpfs stays", bound_shmem_direct),
		MT_CHECK("R18 tmpfs without a policy follows, direct",
			 shmem_direct),
		MT_CHECK("R18 tmpfs without a policy follows, lazy",
			 shmem_lazy),
		MT_CHECK("R18 a clean file follows", clean_file),
		MT_CHECK("R18 a dirty file stays and is counted", dirty_file),
		MT_CHECK("R18 pages shared by fork stay at 1", shared_1),
		MT_CHECK("R18 pages shared by fork follow at 2", shared_2),
		MT_CHECK("R18 pages shared by fork stay at 1, lazy",
			 shared_lazy_1),
		MT_CHECK("R18 pages shared by fork follow at 2, lazy",
			 shared_lazy_2),
		MT_CHECK("R18 a huge page mapped in parts follows at 1",
			 thp_in_parts),
		MT_CHECK("R18 pinned pages stay and are counted",
			 pinned_stays),
		MT_CHECK("R18 what migration cannot move goes back", goes_back),
		MT_CHECK("a vfork child leaves the memory of its parent alone",
			 borrowed),
		MT_CHECK("a task with a policy is left alone", has_policy),
		MT_CHECK("a node outside of the cpuset gets nothing",
			 not_in_cpuset),
		MT_CHECK("direct: moves by use until most threads are there",
			 most_threads),
		MT_CHECK("NUMA balancing's preferred node wins where it can",
			 balancing),
		MT_CHECK("a preferred node of before does not count after an opt-out",
			 opted_out),
		MT_CHECK("memory of a task that has opted out follows, lazy",
			 lazy_opted_out),
		MT_CHECK("MPOL_MF_LAZY works after an opt-out", mbind_opted_out),
		MT_CHECK("R25 counters equal trace events", adds_up),
	};

	return fo_main(checks, ARRAY_LEN(checks));
}
