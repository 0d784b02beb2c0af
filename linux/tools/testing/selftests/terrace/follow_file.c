// SPDX-License-Identifier: GPL-2.0
/*
 * Migration on faults and automatic migration go by the policy of a file whoever maps
 * it: a bound page stays on its node, also for a reader on another node whose mapping
 * is private.
 *
 * lab: topology=two-socket-cxl timeout=120s debug=yes
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "follow_util.h"

#define PAGES	64L
#define SIZE	(PAGES * MT_PAGE)

/* Of a file that is bound to node 1 a reader on node 0 moves no page. */
static int reads(const struct mt_cgroup *cg, enum fo_kind kind, bool private)
{
	struct fo_reader r = { .pages = PAGES, .cg = cg, .private = private };
	long n;

	r.fd = fo_file(kind, PAGES, 1);
	MT_ASSERT(r.fd >= 0, "no file on node 1");
	if (fo_bind(r.fd, PAGES, MPOL_BIND, 2) || fo_read(&r))
		return MT_FAIL;
	n = fo_on(r.fd, PAGES, 1);
	close(r.fd);
	mt_note("%s, %s mapping: %ld of %ld bound pages have left their node",
		kind == FO_SHMEM ? "tmpfs" : "ext4",
		private ? "private" : "shared", PAGES - n, PAGES);
	return n == PAGES ? MT_PASS : MT_FAIL;
}

static int readers(void)
{
	struct mt_cgroup cg;
	int ret = MT_PASS, kind;

	MT_NEED(mt_ext4(), "no ext4 on a loop device");
	MT_NEED(!mt_write(FO_POLICY, "1"), "no CONFIG_MAPPED_FILE_POLICY");
	if (fo_level(&cg, 3))
		return MT_FAIL;
	for (kind = FO_SHMEM; kind <= FO_DISK; kind++) {
		if (reads(&cg, kind, false))
			ret = MT_FAIL;
		if (reads(&cg, kind, true))
			ret = MT_FAIL;
	}
	return ret;
}

FO_THREADS(readers)

/* The halves of a file are bound to two nodes, and each is on the other node. */
static int halves_of(enum fo_kind kind, const struct mt_cgroup *cg)
{
	const long half = PAGES / 2;
	struct fo_reader a = { .pages = half, .cg = cg, .cpu = 0 };
	struct fo_reader r = { .pages = PAGES, .cg = cg, .cpu = 1 };
	char text[MT_PAGE] = "x";
	char *p;
	long i, there;

	r.fd = fo_new(kind);
	p = r.fd < 0 ? NULL : fo_map(r.fd, PAGES);
	MT_ASSERT(p, "no file");
	for (i = 0; i < PAGES; i++) {
		if (i % half == 0)
			MT_ASSERT(!mt_bind_to(i < half), "no policy");
		MT_ASSERT(pwrite(r.fd, text, sizeof(text), i * MT_PAGE) ==
			  (ssize_t)sizeof(text), "pwrite");
	}
	MT_ASSERT(!fsync(r.fd) && !mt_bind_default(), "fsync");
	fo_drain();
	MT_ASSERT(!mp_old_bind(p, half * MT_PAGE, MPOL_BIND, 1, 0) &&
		  !mp_old_bind(p + half * MT_PAGE, half * MT_PAGE, MPOL_BIND, 2, 0),
		  "mbind");
	munmap(p, SIZE);
	MT_ASSERT(fo_on(r.fd, half, 1) == half && fo_on(r.fd, PAGES, 0) == half,
		  "pages are not where they were written");
	/* A task on each node, which has its part bound to its node */
	a.fd = r.fd;
	if (fo_read(&a) || fo_read(&r))
		return MT_FAIL;
	there = fo_on(r.fd, half, 0) + fo_on(r.fd, PAGES, 1) - fo_on(r.fd, half, 1);
	mt_note("%s: %ld of %ld pages are where their part is bound to",
		kind == FO_SHMEM ? "tmpfs" : "ext4", there, PAGES);
	close(r.fd);
	return there == PAGES ? MT_PASS : MT_FAIL;
}

static int halves(void)
{
	struct mt_cgroup cg;

	MT_NEED(mt_ext4(), "no ext4 on a loop device");
	MT_NEED(!mt_write(FO_POLICY, "1"), "no CONFIG_MAPPED_FILE_POLICY");
	if (fo_level(&cg, 3))
		return MT_FAIL;
	return halves_of(FO_SHMEM, &cg) ?: halves_of(FO_DISK, &cg);
}

/* Memory without a policy follows a task; the file of this mapping has one. */
static int follower_fd;

static char *map_private(struct am_task *t)
{
	char *p = mmap(NULL, t->size, PROT_READ, MAP_PRIVATE, follower_fd, 0);

	if (p == MAP_FAILED)
		return NULL;
	mt_touch(p, t->size, false);
	return p;
}

static int follower(void)
{
	struct am_task t = { .size = SIZE, .special = map_private };
	struct mt_cgroup cg;
	long left;

	MT_NEED(mt_ext4(), "no ext4 on a loop device");
	MT_NEED(!mt_write(FO_POLICY, "1"), "no CONFIG_MAPPED_FILE_POLICY");
	follower_fd = fo_file(FO_DISK, PAGES, 0);
	MT_ASSERT(follower_fd >= 0, "no file on node 0");
	if (fo_bind(follower_fd, PAGES, MPOL_BIND, 1) || am_cgroup_on(&cg, "on", 0))
		return MT_FAIL;
	t.cg = &cg;
	if (am_start(&t) || am_move(&t, AM_NODE1))
		return MT_FAIL;
	/* The last part is walked after the file's, or with it. */
	MT_ASSERT(MT_WAIT(am_local(&t, 1), AM_LONG_MS) && !am_runs(&t, AM_SEEN_MS),
		  "its memory does not follow");
	left = am_pages(&t, t.s->q, SIZE, 0);
	mt_note("a task has moved: %ld of %ld bound pages went with it", PAGES - left,
		PAGES);
	am_stop(&t);
	return left == PAGES ? MT_PASS : MT_FAIL;
}

/* The copies of a writer on node 0 do not belong to the file. */
static int writes(void *arg)
{
	char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE,
		       *(int *)arg, 0);

	MT_ASSERT(p != MAP_FAILED && !mt_run_on_cpu(0), "mmap");
	mt_touch(p, SIZE, true);
	MT_ASSERT(mt_all_on(p, SIZE, 0), "%ld of %ld copies are elsewhere",
		  PAGES - mt_pages_on(p, SIZE, 0), PAGES);
	return MT_PASS;
}

static int copies(void)
{
	int fd;

	MT_NEED(mt_ext4(), "no ext4 on a loop device");
	MT_NEED(!mt_write(FO_POLICY, "1"), "no CONFIG_MAPPED_FILE_POLICY");
	fd = fo_file(FO_DISK, PAGES, 1);
	MT_ASSERT(fd >= 0, "no file on node 1");
	return fo_bind(fd, PAGES, MPOL_BIND, 2) ?: mp_in_child(writes, &fd);
}

/*
 * Copies that were paged out are brought in by swap read-ahead, and lie in the swap cache
 * when their own fault comes. The child has the same entries: without it zram would be
 * read without the swap cache.
 */
static int paged_out(void *arg)
{
	char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE,
		       *(int *)arg, 0);
	struct mt_cgroup cg;
	struct mt_snap s;
	pid_t child;

	if (fo_level(&cg, 1))
		return MT_FAIL;
	MT_ASSERT(p != MAP_FAILED && !mt_cgroup_enter(&cg, 0) && !mt_run_on_cpu(0), "mmap");
	mt_touch(p, SIZE, true);
	fo_drain();
	MT_ASSERT(!madvise(p, SIZE, MADV_PAGEOUT) && !mt_pages_on(p, SIZE, 0),
		  "not paged out");
	child = mt_spawn(fo_hold, NULL);
	mt_snap(&s);
	mt_touch(p, SIZE, false);
	mt_kill(child);
	mt_note("%lld pages read ahead, %lld of them used; %ld of %ld pages on node 0",
		mt_since(&s, "swap_ra"), mt_since(&s, "swap_ra_hit"),
		mt_pages_on(p, SIZE, 0), PAGES);
	MT_ASSERT(mt_since(&s, "swap_ra_hit") > 0, "no read-ahead");
	MT_ASSERT(mt_all_on(p, SIZE, 0), "they went to the node of the file");
	return MT_PASS;
}

static int copies_paged_out(void)
{
	int fd, ret;

	MT_NEED(mt_ext4(), "no ext4 on a loop device");
	MT_NEED(!mt_write(FO_POLICY, "1"), "no CONFIG_MAPPED_FILE_POLICY");
	MT_NEED(mt_swap_on("64M"), "no swap on zram");
	fd = fo_file(FO_DISK, PAGES, 1);
	MT_ASSERT(fd >= 0, "no file on node 1");
	ret = fo_bind(fd, PAGES, MPOL_BIND, 2) ?: mp_in_child(paged_out, &fd);
	mt_swap_off();
	return ret;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("a bound file stays, whoever reads it", readers),
		MT_CHECK("a bound file stays, whichever threads read it",
			 readers_threads),
		MT_CHECK("each part of a file goes where that part is bound to", halves),
		MT_CHECK("a bound file does not follow who reads it", follower),
		MT_CHECK("private copies do not go by the policy of their file",
			 copies),
		MT_CHECK("nor when they were paged out", copies_paged_out),
	};

	return fo_main(checks, ARRAY_LEN(checks));
}
