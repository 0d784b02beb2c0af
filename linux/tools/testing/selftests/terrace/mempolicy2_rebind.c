// SPDX-License-Identifier: GPL-2.0
/*
 * Weighted interleave: weights when a cpuset gives a task other nodes, and on a
 * machine with three of them.
 *
 * lab: topology=three-tier timeout=60s debug=yes
 */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mempolicy2_util.h"
#include "mtier_util.h"

#define SIZE	(90 * MP_PAGE)

static struct mt_cgroup group;

static int enter(const char *mems)
{
	int ret = mt_cgroup_make(&group, "mempolicy2", "+cpuset");

	if (!ret)
		ret = mt_cgroup_write(&group, "cpuset.mems", mems);
	return ret ? ret : mt_cgroup_enter(&group, getpid());
}

static void mems(const char *list)
{
	mt_cgroup_write(&group, "cpuset.mems", list);
}

/* Effective weights of the task and of the range are these. */
static bool in_force(const void *range, const char *weights)
{
	struct mp_policy task, area;

	if (mp_in_force(&task, NULL, 0) ||
	    mp_in_force(&area, range, MPOL_F_ADDR))
		return false;
	if (mp_is(&task, weights) && mp_is(&area, weights))
		return true;
	mt_note("not %s: task %lx %d,%d,%d; range %lx %d,%d,%d", weights,
		task.nodes, task.weights[0], task.weights[1], task.weights[2],
		area.nodes, area.weights[0], area.weights[1], area.weights[2]);
	return false;
}

static long set_both(void *range, const char *weights, int mode_flags)
{
	struct mp_policy p;

	mp_policy(&p, MP_WEIGHTED, weights);
	p.param.mode_flags = mode_flags;
	return mp_mbind2(range, SIZE, &p.param, sizeof(p.param), 0) |
	       mp_set2(&p.param, sizeof(p.param), 0);
}

static int leave(int ret)
{
	mp_set(NULL);
	mt_cgroup_enter(&(struct mt_cgroup){ "/sys/fs/cgroup" }, getpid());
	mt_cgroup_remove(&group);
	return ret;
}

static int remap_steps(char *p)
{
	MT_ASSERT(!set_both(p, "0:5,1:3", 0), "set");
	mems("1,2");
	MT_ASSERT(in_force(p, "1:5,2:3"), "0,1 became 1,2");
	mp_touch(p, SIZE);
	MT_ASSERT(mp_follows(p, SIZE, MP_PAGE, (uintptr_t)p / MP_PAGE,
			     "1:5,2:3"), "pages");
	/* Two fold into one: the sum. */
	mems("2");
	MT_ASSERT(in_force(p, "2:8"), "folded");
	mems("0");
	MT_ASSERT(in_force(p, "0:8"), "moved on");
	return MT_PASS;
}

static int remap(void)
{
	MT_NEED(!enter("0,1"), "no cpuset");
	return leave(remap_steps(mp_map(SIZE)));
}

static int capped_steps(char *p)
{
	MT_ASSERT(!set_both(p, "0:200,1:100", 0), "set");
	mems("2");
	MT_ASSERT(in_force(p, "2:255"), "capped");
	return MT_PASS;
}

static int capped(void)
{
	MT_NEED(!enter("0,1"), "no cpuset");
	return leave(capped_steps(mp_map(SIZE)));
}

static int static_steps(char *p)
{
	struct mp_policy got;

	MT_ASSERT(!set_both(p, "0:5,1:3", MPOL_F_STATIC_NODES), "set");
	mems("1,2");
	MT_ASSERT(in_force(p, "1:3"), "the intersection");
	/* None is left: all, by global weights. */
	mems("2");
	MT_ASSERT(in_force(p, "2:1"), "empty");
	mems("0-2");
	MT_ASSERT(in_force(p, "0:5,1:3"), "back again");
	MT_ASSERT(!mp_get(&got, p, MPOL_F_ADDR) && mp_is(&got, "0:5,1:3"),
		  "what the user gave");
	return MT_PASS;
}

static int by_id(void)
{
	MT_NEED(!enter("0-2"), "no cpuset");
	return leave(static_steps(mp_map(SIZE)));
}

static int relative_steps(char *p)
{
	struct mp_policy got;

	MT_ASSERT(!set_both(p, "0:5,1:3,2:2", MPOL_F_RELATIVE_NODES), "set");
	MT_ASSERT(in_force(p, "0:5,1:3,2:2"), "three of three");
	mems("1,2");
	/* Position 2 folds onto position 0. */
	MT_ASSERT(in_force(p, "1:7,2:3"), "three of two");
	mems("2");
	MT_ASSERT(in_force(p, "2:10"), "three of one");
	mems("0-2");
	MT_ASSERT(in_force(p, "0:5,1:3,2:2"), "back again");
	MT_ASSERT(!mp_get(&got, NULL, 0) && mp_is(&got, "0:5,1:3,2:2"),
		  "what the user gave");
	/* Set while there are fewer nodes than positions */
	mems("0,2");
	MT_ASSERT(!set_both(p, "0:5,1:3,2:2", MPOL_F_RELATIVE_NODES), "set");
	MT_ASSERT(in_force(p, "0:7,2:3"), "set within two");
	return MT_PASS;
}

static int by_position(void)
{
	MT_NEED(!enter("0-2"), "no cpuset");
	return leave(relative_steps(mp_map(SIZE)));
}

/* What the user gave stays, also of modes whose nodes a cpuset leaves alone. */
static int kept_steps(char *p)
{
	static const int modes[] = { MPOL_PREFERRED, MPOL_PREFERRED_MANY };
	static const int flags[] = {
		MPOL_F_STATIC_NODES, MPOL_F_RELATIVE_NODES,
	};
	struct mp_policy got;
	unsigned int i;

	for (i = 0; i < 4; i++) {
		int mode = modes[i % 2], flag = flags[i / 2];

		MT_ASSERT(!mp_old_set(mode | flag, 0x22) &&
			  !mp_old_bind(p, SIZE, mode | flag, 0x22, 0),
			  "mode %d flag %x", mode, flag);
		mems("1");
		mems("0-2");
		MT_ASSERT(!mp_get(&got, NULL, 0) && got.nodes == 0x22,
			  "mode %d flag %x: the task's mask is %lx", mode,
			  flag, got.nodes);
		MT_ASSERT(!mp_set2(&got.param, sizeof(got.param), 0), "again");
		MT_ASSERT(!mp_get(&got, p, MPOL_F_ADDR) && got.nodes == 0x22,
			  "mode %d flag %x: the range's mask is %lx", mode,
			  flag, got.nodes);
	}
	return MT_PASS;
}

static int kept(void)
{
	MT_NEED(!enter("0-2"), "no cpuset");
	return leave(kept_steps(mp_map(SIZE)));
}

/* A new child's policy can be rebound like its parent's. */
static int child_steps(void *p)
{
	mems("1,2");
	MT_ASSERT(in_force(p, "1:5,2:3"), "the child's");
	mems("0,2");
	mems("0,1");
	MT_ASSERT(in_force(p, "0:5,1:3"), "many times");
	return MT_PASS;
}

static int forked_steps(char *p)
{
	MT_ASSERT(!set_both(p, "0:5,1:3", 0), "set");
	return mp_in_child(child_steps, p);
}

static int forked(void)
{
	MT_NEED(!enter("0,1"), "no cpuset");
	return leave(forked_steps(mp_map(SIZE)));
}

/* Nodes that exist and have memory, none of which the cpuset allows */
static int refused_steps(char *p)
{
	MT_ASSERT(!set_both(p, "0:5,1:3", 0), "set");
	MT_ASSERT(mp_set("2:1") == -EINVAL && mp_bind(p, SIZE, "2:1", 0) ==
		  -EINVAL, "a node outside the cpuset");
	MT_ASSERT(in_force(p, "0:5,1:3"), "changed");
	MT_ASSERT(!set_both(p, "1:4,2:3", 0) && in_force(p, "1:4"),
		  "one inside and one outside");
	return MT_PASS;
}

static int refused(void)
{
	MT_NEED(!enter("0,1"), "no cpuset");
	return leave(refused_steps(mp_map(SIZE)));
}

static volatile int stop;

static void *rebinds(void *arg)
{
	static const char * const lists[] = { "0,1", "1,2", "2", "0-2" };
	unsigned int i;

	(void)arg;
	for (i = 0; !stop; i++)
		mems(lists[i % ARRAY_LEN(lists)]);
	return NULL;
}

static void *sets(void *arg)
{
	unsigned int i;

	for (i = 0; !stop; i++)
		set_both(arg, i % 2 ? "0:5,1:1,2:7" : "0,1,2:255", i % 3 ?
			 MPOL_F_RELATIVE_NODES : MPOL_F_STATIC_NODES);
	return NULL;
}

static int nothing(void *arg)
{
	mp_touch(arg, SIZE);
	return 0;
}

static int race_steps(char *p)
{
	struct mp_policy got;
	long long until;
	pthread_t t[2];

	pthread_create(&t[0], NULL, rebinds, NULL);
	pthread_create(&t[1], NULL, sets, p);
	for (until = mt_now_ms() + 1500; mt_now_ms() < until;) {
		set_both(p, "0:5,1:1,2:7", MPOL_F_RELATIVE_NODES);
		madvise(p, SIZE, MADV_DONTNEED);
		mp_touch(p, SIZE);
		mp_in_child(nothing, p);
		MT_ASSERT(!mp_in_force(&got, NULL, 0) && got.nodes,
			  "a policy without nodes");
	}
	stop = 1;
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	mems("0-2");
	set_both(p, "0:5,1:1,2:7", 0);
	MT_ASSERT(in_force(p, "0:5,1:1,2:7"), "afterwards");
	return MT_PASS;
}

static int race(void)
{
	MT_NEED(!enter("0-2"), "no cpuset");
	return leave(race_steps(mp_map(SIZE)));
}

/* Three nodes, weights with a hole in them */
static int three_nodes(void)
{
	char *p = mp_map(SIZE);

	mp_bind(p, SIZE, "0:4,1:2,2:3", 0);
	mp_touch(p, SIZE);
	MT_ASSERT(mp_follows(p, SIZE, MP_PAGE, (uintptr_t)p / MP_PAGE,
			     "0:4,1:2,2:3"), "three");
	mp_bind(p, SIZE, "0:4,2:3", MP_MF_REBALANCE);
	MT_ASSERT(mp_follows(p, SIZE, MP_PAGE, (uintptr_t)p / MP_PAGE,
			     "0:4,2:3"), "two, not beside each other");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		{ "A1 three nodes, a hole in the mask", three_nodes, 0 },
		{ "D18 weights move with their nodes", remap },
		{ "D18 a sum stops at 255", capped, 0 },
		{ "D18 static nodes keep weights by id", by_id,
		  0 },
		{ "D18 relative nodes fold weights by position", by_position },
		{ "D18 a mask that is kept is the one that was given", kept },
		{ "F nodes that the cpuset does not allow", refused, 0 },
		{ "D18 B12 after a fork", forked, 0 },
		{ "D19 rebind, set, faults, fork at once", race, 0 },
	};

	return mp_main(checks, ARRAY_LEN(checks));
}
