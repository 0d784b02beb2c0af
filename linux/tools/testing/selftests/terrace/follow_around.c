// SPDX-License-Identifier: GPL-2.0
/*
 * Migration on faults: pages that cannot move now cost no fault each, and take nothing
 * of what may move within a second; and a file does not wander between two policies.
 *
 * lab: topology=two-socket-cxl timeout=240s debug=no
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "follow_util.h"

/* Pages that vm.migrate_on_fault_mbps at 1 lets come to a node in a second */
#define SECOND	256L
#define PAGES	4096L

/* ---- rate ---- */

/*
 * Held by somebody, and mapped by nobody: as many pages of node 1 as may move within a
 * second, none of which can.
 */
static int held(int (*hold)(void *p, size_t size))
{
	int fd = fo_file(FO_SHMEM, SECOND, 1);
	char *p;

	if (fd < 0)
		return -1;
	p = fo_map(fd, SECOND);
	if (!p || hold(p, SECOND * MT_PAGE))
		return -1;
	munmap(p, SECOND * MT_PAGE);
	return fd;
}

/* Right after them come pages that could move: nothing has moved in this second. */
static int takes_nothing(int (*hold)(void *p, size_t size))
{
	/* So few that what the checks before have moved in this second leaves room */
	const long few = 16;
	struct fo_reader a = { .pages = SECOND }, b = { .pages = few };
	struct mt_snap before;
	struct mt_cgroup cg;
	long long start;

	if (fo_level(&cg, 1))
		return MT_FAIL;
	a.cg = &cg;
	b.cg = &cg;
	a.fd = held(hold);
	MT_NEED(a.fd >= 0, "nobody holds them");
	b.fd = fo_file(FO_SHMEM, few, 1);
	MT_ASSERT(b.fd >= 0, "no file on node 1");
	MT_ASSERT(!mt_write(FO_RATE, "1"), "no rate");
	mt_snap(&before);
	start = mt_now_ms();
	if (fo_read(&a) || fo_read(&b))
		return MT_FAIL;
	mt_note("within %lld ms: %lld pages refused as busy, %lld for the rate; %lld moved",
		mt_now_ms() - start,
		fo_since(&before, "refused_busy"),
		fo_since(&before, "refused_rate"), fo_faulted(&before, NULL));
	MT_ASSERT(!fo_on(a.fd, SECOND, 0), "what somebody holds has moved");
	MT_ASSERT(fo_faulted(&before, "shmem") >= 0, "something else has moved");
	MT_ASSERT(fo_on(b.fd, few, 0) == few,
		  "pages that could not move took the place of %ld that could",
		  few - fo_on(b.fd, few, 0));
	return MT_PASS;
}

static int pinned(void)
{
	return takes_nothing(mt_pin);
}

FO_THREADS(pinned)

static int referenced(void)
{
	return takes_nothing(fo_refer);
}

FO_THREADS(referenced)

/* ---- fault-around ---- */

/* Faults of a process on node 0 that reads a file of node 1; -1 if it could not */
static long faults(int fd, const struct mt_cgroup *cg)
{
	struct fo_reader r = { .fd = fd, .pages = PAGES, .cg = cg };

	return fo_read(&r) ? -1 : r.faults;
}

/* At most twice the faults of level 0, and one for each page that moves */
static int faults_stay_few(int fd, const struct mt_cgroup *cg, const char *why)
{
	long few = faults(fd, NULL), have;
	struct mt_snap before;
	long long moved;

	mt_snap(&before);
	have = faults(fd, cg);
	moved = fo_faulted(&before, "file");
	mt_note("%s: %ld faults for %ld pages, %ld at level 0; %lld moved", why, have,
		PAGES, few, moved);
	mt_note("refused: %lld for the rate, %lld nomem, %lld busy",
		fo_since(&before, "refused_rate"),
		fo_since(&before, "refused_nomem"),
		fo_since(&before, "refused_busy"));
	MT_ASSERT(few > 0 && few < PAGES / 8, "no fault-around at level 0");
	MT_ASSERT(moved >= 0, "other pages than those of the file have moved");
	MT_ASSERT(have >= 0 && have <= 2 * few + moved,
		  "%ld faults, not %lld at most", have, 2 * few + moved);
	return MT_PASS;
}

static int begin(struct mt_cgroup *cg, int *fd)
{
	MT_NEED(mt_ext4(), "no ext4 on a loop device");
	if (fo_level(cg, 3))
		return MT_FAIL;
	*fd = fo_file(FO_DISK, PAGES, 1);
	MT_ASSERT(*fd >= 0, "no file on node 1");
	return MT_PASS;
}

static int rate(void)
{
	struct mt_cgroup cg;
	int fd, ret;

	ret = begin(&cg, &fd);
	if (ret)
		return ret;
	MT_ASSERT(!mt_write(FO_RATE, "1"), "no rate");
	return faults_stay_few(fd, &cg, "rate reached");
}

FO_THREADS(rate)

static int full(void)
{
	struct mt_cgroup cg;
	size_t hogged;
	int fd, ret;

	ret = begin(&cg, &fd);
	if (ret)
		return ret;
	MT_NEED(mt_hog(0, &hogged), "node 0 cannot be filled");
	return faults_stay_few(fd, &cg, "node full");
}

FO_THREADS(full)

/* The pages move after the node has room again, in the task that was refused. */
static int room_again(void *arg)
{
	struct fo_reader *r = arg;
	struct mt_snap before;
	char *p, *hog;
	size_t hogged;
	long came;

	hog = mt_hog(0, &hogged);
	MT_NEED(hog, "node 0 cannot be filled");
	mt_snap(&before);
	p = fo_use(r);
	MT_ASSERT(p, "cannot use it");
	came = mt_pages_on(p, PAGES * MT_PAGE, 0);
	mt_note("node full: %ld of %ld moved, %lld refused", came, PAGES,
		fo_since(&before, "refused_nomem"));
	MT_ASSERT(came < PAGES / 2 && fo_since(&before, "refused_nomem") > 0,
		  "nothing was refused");
	munmap(hog, hogged);
	/* No other mapping: the task remembers the last one in which it was refused. */
	MT_ASSERT(MT_WAIT(!madvise(p, PAGES * MT_PAGE, MADV_DONTNEED) &&
			  (fo_touch(p, PAGES * MT_PAGE),
			   mt_all_on(p, PAGES * MT_PAGE, 0)), 20000),
		  "with room on the node %ld of %ld are there",
		  fo_on(r->fd, PAGES, 0), PAGES);
	return MT_PASS;
}

static int full_for_a_moment(void)
{
	struct fo_reader r = { .pages = PAGES };
	struct mt_cgroup cg;
	int ret;

	ret = begin(&cg, &r.fd);
	if (ret)
		return ret;
	r.cg = &cg;
	return mp_in_child(room_again, &r);
}

/* ---- homes ---- */

/* What a task does whose policy spreads pages by weights */
struct spread {
	struct fo_reader r;
	const char *weights;
};

static int spread(void *arg)
{
	struct spread *s = arg;

	return mp_set(s->weights) ? MT_FAIL : fo_read(&s->r);
}

/* R22, of two tasks that agree on the nodes and not on the shares */
static int by_turns(void)
{
	static const char * const weights[] = { "0:3,1:1", "0:1,1:3" };
	const long pages = 64;
	struct spread s = { .r = { .pages = pages } };
	struct mt_snap before;
	struct mt_cgroup cg;
	long long moves;
	int i;

	if (fo_level(&cg, 1))
		return MT_FAIL;
	s.r.cg = &cg;
	s.r.fd = fo_file(FO_SHMEM, pages, 1);
	MT_ASSERT(s.r.fd >= 0, "no file on node 1");
	mt_snap(&before);
	for (i = 0; i < 20; i++) {
		s.weights = weights[i % 2];
		MT_ASSERT(!mp_in_child(spread, &s), "nobody used it");
	}
	moves = fo_faulted(&before, "shmem");
	mt_note("20 turns: %lld moves of %ld pages, %lld refused", moves, pages,
		fo_since(&before, "refused_shared"));
	/* It takes less than a minute: each page to its first place, and once more. */
	MT_ASSERT(moves > 0 && moves <= 2 * pages, "%lld moves", moves);
	return MT_PASS;
}

FO_THREADS(by_turns)

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("pinned pages take nothing of the rate", pinned),
		MT_CHECK("pinned pages take nothing of the rate, threads",
			 pinned_threads),
		MT_CHECK("what is held gives back what it took of the rate",
			 referenced),
		MT_CHECK("what is held gives back what it took of the rate, threads",
			 referenced_threads),
		MT_CHECK("R22 pages do not wander between two sets of weights",
			 by_turns),
		MT_CHECK("R22 pages do not wander between two sets of weights, threads",
			 by_turns_threads),
		MT_CHECK("fault-around while the rate is reached", rate),
		MT_CHECK("fault-around while the rate is reached, threads",
			 rate_threads),
		MT_CHECK("fault-around while the node is full", full),
		MT_CHECK("fault-around while the node is full, threads",
			 full_threads),
		MT_CHECK("pages that a full node refused come when it has room",
			 full_for_a_moment),
	};

	return fo_main(checks, ARRAY_LEN(checks));
}
