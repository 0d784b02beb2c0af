// SPDX-License-Identifier: GPL-2.0
/*
 * Target node: cpusets and memory policies are respected.  Each refusal has a
 * canary (see mt_stays()) that is promoted meanwhile.
 *
 * lab: topology=dram-cxl timeout=600s debug=yes
 */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "burst_util.h"

#define SIZE	(256 * MT_PAGE)

static unsigned long slow(void)
{
	return 1UL << mt_slow_node();
}

static unsigned long fast(void)
{
	return 1UL << mt_fast_node();
}

/* Memory on the slow node under a policy of its own: stays or moves? */
static int range(int mode, unsigned long nodes, bool moves)
{
	char *p = mt_place(SIZE, mt_slow_node());
	int ret;

	MT_ASSERT(p, "no memory on the slow node");
	ret = mt_mbind(p, SIZE, mode, nodes);
	MT_NEED(!ret, "mbind mode %d: %s", mode, strerror(-ret));
	MT_ASSERT(mt_all_on(p, SIZE, mt_slow_node()), "mbind moved it");
	mt_fast();
	mt_on();
	if (moves)
		MT_ASSERT(mt_moves_to(p, SIZE, mt_fast_node(), MT_MOVE_MS),
			  "it did not move");
	else
		MT_ASSERT(mt_stays(p, SIZE, mt_slow_node()), "it moved");
	return MT_PASS;
}

static int bind_slow(void)
{
	return range(MPOL_BIND, slow(), false);
}

static int bind_both(void)
{
	return range(MPOL_BIND, slow() | fast(), true);
}

static int prefer_slow(void)
{
	return range(MPOL_PREFERRED, slow(), false);
}

static int prefer_fast(void)
{
	return range(MPOL_PREFERRED, fast(), true);
}

static int prefer_many(void)
{
	return range(MPOL_PREFERRED_MANY, slow(), false);
}

static int interleave(void)
{
	return range(MPOL_INTERLEAVE, slow() | fast(), false);
}

static int local(void)
{
	return range(MPOL_LOCAL, 0, true);
}

/* The policy of the task counts where a range has none. */
static int task_policy(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	struct mt_snap before;
	struct mt_toucher t;
	void *canary;

	MT_ASSERT(p, "no memory on the slow node");
	canary = mt_place(SIZE, mt_slow_node());
	MT_ASSERT(canary && !mt_mbind(canary, SIZE, MPOL_BIND, slow() | fast()),
		  "no canary");
	MT_ASSERT(!mt_set_policy(MPOL_BIND, slow()), "set_mempolicy");
	mt_fast();
	mt_snap(&before);
	mt_on();
	mt_touch_start(&t, p, SIZE);
	MT_ASSERT(mt_moves_to(canary, SIZE, mt_fast_node(), MT_MOVE_MS),
		  "a range with a policy of its own did not move");
	mt_touch_stop(&t);
	MT_ASSERT(mt_all_on(p, SIZE, mt_slow_node()), "the other one moved");
	MT_ASSERT(!mt_set_policy(MPOL_DEFAULT, 0), "set_mempolicy");
	MT_ASSERT(mt_moves_to(p, SIZE, mt_fast_node(), MT_MOVE_MS),
		  "it stayed when the policy was gone");
	return MT_PASS;
}

/* tmpfs keeps a policy for parts of a file, whoever maps it. */
static int shared_policy(void)
{
	int fd = memfd_create("policy", MFD_CLOEXEC);
	char *p = mt_place_file(fd, 2 * SIZE, mt_slow_node(), PROT_READ |
				PROT_WRITE);

	MT_ASSERT(p, "no shmem on the slow node");
	MT_ASSERT(!mt_mbind(p, SIZE, MPOL_BIND, slow()), "mbind");
	mt_fast();
	mt_on();
	MT_ASSERT(mt_stays(p, SIZE, mt_slow_node()), "the bound half moved");
	MT_ASSERT(mt_moves_to(p + SIZE, SIZE, mt_fast_node(), MT_MOVE_MS),
		  "the free half stayed");
	return MT_PASS;
}

/* What a process in a cpuset and the check tell each other */
struct bound {
	volatile bool ready;
	volatile bool over;
};

static void bound_child(void *arg)
{
	char *p = mt_fill(SIZE, mt_slow_node(), false);
	struct bound *b = arg;

	b->ready = true;
	while (!b->over)
		mt_touch(p, SIZE, false);
	_exit(mt_all_on(p, SIZE, mt_slow_node()) ? 0 : 1);
}

/* Memory of which nothing is special moves, and after that some bursts pass. */
static int canary_moves(void)
{
	void *p = mt_place(SIZE, mt_slow_node());

	MT_ASSERT(p, "no memory on the slow node");
	mt_on();
	MT_ASSERT(mt_moves_to(p, SIZE, mt_fast_node(), MT_MOVE_MS),
		  "the canary stayed");
	MT_ASSERT(mt_bursts_pass(4), "no bursts");
	return MT_PASS;
}

/* cpuset.mems without DRAM: nothing of its processes goes there. */
static int cpuset(void)
{
	struct bound *b = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct mt_cgroup cg;
	char nodes[16];
	pid_t pid;
	int ret;

	MT_ASSERT(b != MAP_FAILED, "mmap");
	MT_NEED(!mt_cgroup_make(&cg, "mems", "+cpuset"), "no cpuset");
	snprintf(nodes, sizeof(nodes), "%d", mt_slow_node());
	MT_NEED(!mt_cgroup_write(&cg, "cpuset.mems", nodes), "no cpuset.mems");
	mt_fast();
	MT_ASSERT(!mt_cgroup_enter(&cg, 0), "cannot enter");
	pid = mt_spawn(bound_child, b);
	mt_write("/sys/fs/cgroup/cgroup.procs", "0");
	MT_ASSERT(MT_WAIT(b->ready, 10000), "it has no memory");
	ret = canary_moves();
	b->over = true;
	if (mt_reap(pid)) {
		mt_note("pages left their cpuset");
		ret = MT_FAIL;
	}
	mt_cgroup_remove(&cg);
	return ret;
}

/* Forced by the admin: still not against a policy. */
static int forced(void)
{
	char *p = mt_place(SIZE, mt_slow_node());

	MT_ASSERT(p && !mt_mbind(p, SIZE, MPOL_BIND, slow()), "mbind");
	mt_fast();
	mt_set("promote/target_node", mt_fast_node());
	mt_on();
	MT_ASSERT(mt_stays(p, SIZE, mt_slow_node()), "it moved");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("T8 a range bound to the slow node stays", bind_slow),
		MT_CHECK("T8 one bound to both nodes moves", bind_both),
		MT_CHECK("T8 one that prefers the slow node stays",
			 prefer_slow),
		MT_CHECK("T8 one that prefers the fast node moves", prefer_fast),
		MT_CHECK("T8 one that prefers many, all slow, stays",
			 prefer_many),
		MT_CHECK("T8 an interleaved range stays as it is", interleave),
		MT_CHECK("T8 a range with a local policy moves", local),
		MT_CHECK("T8 the policy of the task counts, that of a range counts more",
			 task_policy),
		MT_CHECK("T8 the policy of a part of a tmpfs file", shared_policy),
		MT_CHECK("T8 cpuset.mems without DRAM keeps pages out of DRAM",
			 cpuset),
		MT_CHECK("T8 T6 a forced target does not override a policy",
			 forced),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
