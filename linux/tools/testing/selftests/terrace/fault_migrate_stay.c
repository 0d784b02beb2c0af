// SPDX-License-Identifier: GPL-2.0
/*
 * Migration on faults: what is not even tried.  A page that a private mapping only
 * copies stays where it is, since it may be copied from anywhere; and so does one
 * that is wanted on a node that the cpuset does not have.
 *
 * lab: topology=two-socket-cxl timeout=60s debug=yes
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "follow_util.h"

#define PAGES	64L
#define SIZE	(PAGES * MT_PAGE)

/* Whoever uses a file, and how */
struct user {
	int fd;
	const struct mt_cgroup *cg;
	bool copies;
};

/* On node 0: stores alone, since a read before them is a fault of its own. */
static int use(void *arg)
{
	const struct user *u = arg;
	volatile char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
				u->copies ? MAP_PRIVATE : MAP_SHARED, u->fd, 0);
	long i;

	if (p == MAP_FAILED || mt_cgroup_enter(u->cg, 0) || mt_run_on_cpu(0))
		return MT_FAIL;
	for (i = 0; i < PAGES; i++)
		p[i * MT_PAGE] = u->copies ? 'x' : 'a' + i % 26;
	return MT_PASS;
}

/* A cgroup with level 1, and a new file on node 1 */
static int begin(struct user *u, struct mt_cgroup *cg)
{
	u->cg = cg;
	if (fo_level(cg, 1))
		return MT_FAIL;
	u->fd = fo_file(FO_SHMEM, PAGES, 1);
	MT_ASSERT(u->fd >= 0, "no file on node 1");
	return MT_PASS;
}

static int private_writes(void)
{
	struct user u = { .copies = true };
	struct mt_cgroup cg;
	long n;

	if (begin(&u, &cg))
		return MT_FAIL;
	MT_ASSERT(!mp_in_child(use, &u), "nobody wrote");
	n = fo_on(u.fd, PAGES, 0);
	MT_DATA(fo_intact(u.fd, PAGES), "the file says something else now");
	MT_ASSERT(!n, "%ld pages moved", n);
	/* But not because they cannot. */
	u.copies = false;
	MT_ASSERT(!mp_in_child(use, &u) && fo_on(u.fd, PAGES, 0) == PAGES,
		  "nor do they for a shared mapping");
	return MT_PASS;
}

/* A page that could not be had there anyway would be isolated for nothing. */
static int not_allowed(void)
{
	struct user u = { 0 };
	struct mt_snap before;
	struct mt_cgroup cg;

	if (begin(&u, &cg))
		return MT_FAIL;
	MT_ASSERT(!mt_cgroup_write(&cg, "cpuset.mems", "1"), "cpuset.mems");
	mt_snap(&before);
	MT_ASSERT(!mp_in_child(use, &u), "nobody used it");
	MT_ASSERT(!fo_on(u.fd, PAGES, 0), "pages moved");
	MT_ASSERT(!fo_faulted(&before, NULL) && !fo_refused(&before),
		  "%lld have moved, %lld were tried", fo_faulted(&before, NULL),
		  fo_refused(&before));
	/* But not because nobody looked. */
	fo_drain();
	MT_ASSERT(!mt_cgroup_write(&cg, "cpuset.mems", "0-1"), "cpuset.mems");
	MT_ASSERT(!mp_in_child(use, &u), "nobody used it");
	MT_ASSERT(fo_on(u.fd, PAGES, 0) == PAGES &&
		  fo_faulted(&before, "shmem") == PAGES,
		  "nor do they move where they may: %lld", fo_faulted(&before, NULL));
	MT_DATA(fo_intact(u.fd, PAGES), "the file says something else now");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("what is copied on a write does not move",
			 private_writes),
		MT_CHECK("a node that the cpuset does not have is not tried",
			 not_allowed),
	};

	return fo_main(checks, ARRAY_LEN(checks));
}
