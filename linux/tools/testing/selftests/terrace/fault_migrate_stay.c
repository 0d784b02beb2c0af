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
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "auto_migrate_util.h"
#include "mempolicy2_util.h"

#define PAGES	64L
#define SIZE	(PAGES * MT_PAGE)

static const char *missing(void)
{
	return access("/proc/sys/vm/migrate_on_fault_mbps", F_OK) ?
	       "no CONFIG_NUMA_FAULT_MIGRATE" : NULL;
}

/* Whoever uses a file, and how */
struct user {
	int fd;
	const struct mt_cgroup *cg;
	bool copies;
};

/* Its pages come to node 1, and onto their list: else they could not move. */
static int fill(void *arg)
{
	const struct user *u = arg;
	char text[MT_PAGE], *p;
	long i;

	if (mt_run_on_cpu(1))
		return MT_FAIL;
	memset(text, 'a', sizeof(text));
	for (i = 0; i < PAGES; i++)
		if (write(u->fd, text, sizeof(text)) != (ssize_t)sizeof(text))
			return MT_FAIL;
	p = mp_map(MT_PAGE);
	mp_touch(p, MT_PAGE);
	mp_old_bind(p, MT_PAGE, MPOL_PREFERRED, 1, MPOL_MF_MOVE);
	return MT_PASS;
}

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
		p[i * MT_PAGE] = u->copies ? 'x' : 'a';
	return MT_PASS;
}

/* Pages of the file on node 0, and whether it has its text; a look moves none. */
static long on_0(int fd, bool *intact)
{
	char *p = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
	long i, n;

	mt_touch(p, SIZE, false);
	for (i = 0, *intact = true; i < PAGES; i++)
		*intact &= p[i * MT_PAGE] == 'a';
	n = mt_pages_on(p, SIZE, 0);
	munmap(p, SIZE);
	return n;
}

/* A cgroup with level 1, and a new file on node 1 */
static int begin(struct user *u, struct mt_cgroup *cg)
{
	bool intact;

	u->cg = cg;
	MT_ASSERT(!am_cgroup(cg, NULL, "level1") &&
		  !am_set(cg, "migrate_on_fault", 1), "no level 1");
	u->fd = memfd_create("fault_migrate", MFD_CLOEXEC);
	MT_ASSERT(u->fd >= 0 && !mp_in_child(fill, u) && !on_0(u->fd, &intact),
		  "no file on node 1");
	return MT_PASS;
}

static int private_writes(void)
{
	struct user u = { .copies = true };
	struct mt_cgroup cg;
	bool intact;
	long n;

	if (begin(&u, &cg))
		return MT_FAIL;
	MT_ASSERT(!mp_in_child(use, &u), "nobody wrote");
	n = on_0(u.fd, &intact);
	MT_DATA(intact, "the file says something else now");
	MT_ASSERT(!n, "%ld pages moved", n);
	/* But not because they cannot. */
	u.copies = false;
	MT_ASSERT(!mp_in_child(use, &u) && on_0(u.fd, &intact) == PAGES,
		  "nor do they for a shared mapping");
	return MT_PASS;
}

/* A page that could not be had there anyway would be isolated for nothing. */
static int not_allowed(void)
{
	struct mt_cgroup cg;
	struct mt_snap before;
	struct user u = { 0 };
	bool intact;

	if (begin(&u, &cg))
		return MT_FAIL;
	MT_ASSERT(!mt_cgroup_write(&cg, "cpuset.mems", "1"), "cpuset.mems");
	mt_snap(&before);
	MT_ASSERT(!mp_in_child(use, &u), "nobody used it");
	MT_ASSERT(!on_0(u.fd, &intact) && intact, "pages moved");
	MT_ASSERT(mt_since(&before, "numa_misplaced_checked") > 0 &&
		  !mt_since(&before, "numa_misplaced_attempted"),
		  "%lld were looked at, %lld tried",
		  mt_since(&before, "numa_misplaced_checked"),
		  mt_since(&before, "numa_misplaced_attempted"));
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
	static const struct mt_suite suite = {
		.missing = missing,
		.reset = am_remove_cgroups,
	};

	return mt_run_suite(&suite, checks, ARRAY_LEN(checks));
}
