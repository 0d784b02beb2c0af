// SPDX-License-Identifier: GPL-2.0
/*
 * Races: what happens to the machine while the engine runs: CPUs and memory go
 * and come, cgroups change, swap goes, everything is frozen.
 *
 * lab: topology=dram-cxl timeout=600s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/swap.h>
#include <unistd.h>

#include "mtier_util.h"

#define SIZE	(8 * MT_MB)

static struct mt_race race;

static int cpu_hotplug(void)
{
	const char *cpu = "/sys/devices/system/cpu/cpu1/online";
	pid_t pid[2];
	int i;

	MT_NEED(!access(cpu, W_OK), "CPU 1 cannot go");
	mt_race_begin(&race);
	for (i = 0; i < 2; i++)
		pid[i] = mt_spawn(mt_load_slow, NULL);
	if (mt_race_moved(&race))
		return MT_FAIL;
	for (i = 0; i < 12; i++) {
		int ret = mt_write(cpu, "0");

		MT_ASSERT(!ret || ret == -EBUSY, "offline: %s", strerror(-ret));
		mt_nap(80);
		ret = mt_write(cpu, "1");
		MT_ASSERT(!ret, "online: %s", strerror(-ret));
		mt_nap(80);
	}
	mt_kill(pid[0]);
	mt_kill(pid[1]);
	return mt_race_end(&race);
}

/* On and off while CPUs go and come: both take the hotplug lock. */
static int cpu_hotplug_switch(void)
{
	const char *cpu = "/sys/devices/system/cpu/cpu1/online";
	pid_t pid;
	int i;

	MT_NEED(!access(cpu, W_OK), "CPU 1 cannot go");
	mt_fast();
	fflush(stdout);
	pid = fork();
	if (!pid) {
		for (i = 0; i < 100; i++)
			mt_write("enabled", i & 1 ? "1" : "0");
		_exit(0);
	}
	for (i = 0; i < 8; i++) {
		mt_write(cpu, "0");
		mt_write(cpu, "1");
	}
	mt_reap(pid);
	mt_off();
	MT_ASSERT(MT_WAIT(!mt_kthreads(), 1000), "%u threads are left", mt_kthreads());
	return MT_PASS;
}

/* Blocks of a node go and come under promotion out of, or into, them. */
static int memory_offline(int node)
{
	int ids[256], n, i, went = 0, round;
	pid_t pid[2];

	n = mt_blocks_of(node, ids, 256);
	MT_NEED(n > 4, "%d memory blocks on node %d", n, node);
	mt_race_begin(&race);
	for (i = 0; i < 2; i++)
		pid[i] = mt_spawn(mt_load_slow, NULL);
	if (mt_race_moved(&race))
		return MT_FAIL;
	for (round = 0; round < (mt_debug_kernel() ? 1 : 2); round++) {
		for (i = 0; i < n; i += 3) {
			if (mt_block_state(ids[i], "offline"))
				continue;
			went++;
			mt_nap(20);
			MT_ASSERT(!mt_block_state(ids[i], "online_movable") ||
				  !mt_block_state(ids[i], "online"),
				  "block %d does not come back", ids[i]);
		}
	}
	mt_kill(pid[0]);
	mt_kill(pid[1]);
	mt_note("%d of %d blocks went and came", went, n);
	MT_NEED(went, "no block could go");
	return mt_race_end(&race);
}

static int slow_offline(void)
{
	return memory_offline(mt_slow_node());
}

static int fast_offline(void)
{
	return memory_offline(mt_fast_node());
}

/* A process is moved between cgroups, with and without access to DRAM. */
static int cgroup_moves(void)
{
	struct mt_cgroup cg[2];
	char nodes[16];
	pid_t pid[2];
	int i;

	MT_NEED(!mt_cgroup_make(&cg[0], "a", "+memory +cpuset") &&
		!mt_cgroup_make(&cg[1], "b", "+memory +cpuset"), "no cgroups");
	snprintf(nodes, sizeof(nodes), "%d", mt_slow_node());
	mt_race_begin(&race);
	for (i = 0; i < 2; i++)
		pid[i] = mt_spawn(mt_load_slow, NULL);
	if (mt_race_moved(&race))
		return MT_FAIL;
	for (i = 0; i < 60; i++) {
		mt_cgroup_enter(&cg[i & 1], pid[i / 2 & 1]);
		mt_cgroup_write(&cg[1], "cpuset.mems", i & 4 ? nodes : "");
		mt_nap(20);
	}
	mt_kill(pid[0]);
	mt_kill(pid[1]);
	mt_cgroup_remove(&cg[0]);
	mt_cgroup_remove(&cg[1]);
	return mt_race_end(&race);
}

/* The cgroup dies while its pages are looked at, or on their way. */
static int cgroup_dies(void)
{
	struct mt_cgroup cg;
	int i;

	mt_race_begin(&race);
	for (i = 0; i < 12 || mt_race_goes_on(&race, 0); i++) {
		pid_t pid = mt_spawn(mt_load_stays, NULL);

		MT_NEED(!mt_cgroup_make(&cg, "dies", "+memory"), "no cgroups");
		mt_cgroup_enter(&cg, pid);
		mt_race_again();
		/* Longer each time, until pages of it are on their way. */
		mt_nap(50 + i * i * 4);
		mt_kill(pid);
		mt_cgroup_remove(&cg);
		MT_ASSERT(access(cg.dir, F_OK), "%s cannot be removed", cg.dir);
	}
	return mt_race_end(&race);
}

/* Use slow memory until some of it has moved, then more than the cgroup may have. */
static void outgrow(void *arg)
{
	struct mt_snap before;
	char *p = mt_fill(SIZE, mt_slow_node(), false);

	(void)arg;
	mt_snap(&before);
	do {
		mt_hurry();
		mt_touch(p, SIZE, true);
	} while (!mt_since(&before, "pgpromote_success"));
	for (;;)
		mt_touch(mmap(NULL, MT_MB, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), MT_MB, true);
}

/* A process is killed for its cgroup's memory while its pages are on their way. */
static int cgroup_full(void)
{
	struct mt_cgroup cg;
	int i;

	MT_NEED(!mt_cgroup_make(&cg, "full", "+memory"), "no cgroups");
	mt_cgroup_write(&cg, "memory.max", "24M");
	mt_cgroup_write(&cg, "memory.swap.max", "0");
	mt_race_begin(&race);
	for (i = 0; i < 12; i++) {
		int held[2], ret;
		pid_t pid;

		MT_ASSERT(!pipe(held), "no pipe");
		pid = fork();
		if (!pid) {
			char byte;

			/* Not before it is in the cgroup. */
			if (read(held[0], &byte, 1) == 1)
				outgrow(NULL);
			_exit(1);
		}
		ret = mt_cgroup_enter(&cg, pid);
		MT_ASSERT(!ret && write(held[1], "", 1) == 1, "enter: %d", ret);
		close(held[0]);
		close(held[1]);
		ret = mt_reap(pid);
		MT_ASSERT(ret == 128 + SIGKILL, "ended with %d, not killed", ret);
	}
	MT_ASSERT(mt_cgroup_stat(&cg, "memory.events", "oom_kill") == i,
		  "%lld of %d killed", mt_cgroup_stat(&cg, "memory.events",
						       "oom_kill"), i);
	mt_cgroup_remove(&cg);
	MT_ASSERT(access(cg.dir, F_OK), "%s cannot be removed", cg.dir);
	return mt_race_end(&race);
}

/* Pages go to swap, come back by faults and by swapoff, and are promoted. */
static int swapping(void)
{
	int i, bad = 0;
	char *p;

	MT_NEED(mt_swap_on("128M"), "no swap on zram");
	p = mt_place(SIZE, mt_slow_node());
	MT_ASSERT(p, "no memory on the slow node");
	mt_race_begin(&race);
	for (i = 0; i < 8 && !bad; i++) {
		struct mt_toucher t;
		size_t off;

		madvise(p, SIZE, MADV_PAGEOUT);
		mt_bind_to(mt_slow_node());
		mt_touch_start(&t, p, SIZE);
		if (i & 1) {
			bad = swapoff("/dev/zram0");
			bad |= swapon("/dev/zram0", 0);
		}
		mt_nap(150);
		mt_touch_stop(&t);
		mt_bind_default();
		for (off = 0; off < SIZE; off += MT_PAGE)
			bad |= *(size_t *)(p + off) != off + 1;
	}
	mt_swap_off();
	MT_ASSERT(!bad, "round %d: swapoff failed or content is lost", i);
	mt_off();
	return mt_race_balanced(&race);
}

/*
 * Suspend as far as the freezer, with pages that wait for the limit of the rate and
 * without.  Not further: once its devices were suspended the lab's virtio ports stay
 * silent.
 */
static int freezing(void)
{
	pid_t pid;
	int i, ret = 0;

	MT_NEED(!mt_write("/sys/power/pm_test", "freezer"), "no pm_test");
	mt_write("/sys/module/suspend/parameters/pm_test_delay", "1");
	mt_race_begin(&race);
	pid = mt_spawn(mt_load_slow, NULL);
	if (mt_race_moved(&race))
		return MT_FAIL;
	for (i = 0; i < 3 && !ret; i++) {
		mt_set("promote/rate_mbps", i == 1 ? 1 : 1024);
		mt_nap(100);
		ret = mt_write("/sys/power/state", "freeze");
	}
	mt_write("/sys/power/pm_test", "none");
	mt_nap(200);
	mt_kill(pid);
	MT_ASSERT(!ret, "suspend: %s", strerror(-ret));
	return mt_race_end(&race);
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("race: a CPU goes and comes", cpu_hotplug),
		MT_CHECK("race: on and off while a CPU goes and comes",
			 cpu_hotplug_switch),
		MT_CHECK("race T5: memory of the slow node goes and comes",
			 slow_offline),
		MT_CHECK("race T5: memory of the fast node goes and comes",
			 fast_offline),
		MT_CHECK("race: processes move between cgroups and cpusets",
			 cgroup_moves),
		MT_CHECK("race: a cgroup ends under its pages", cgroup_dies),
		MT_CHECK("race: swap and swapoff", swapping),
		MT_CHECK("race A2: the freezer stops and thaws the thread",
			 freezing),
		MT_CHECK("race: a cgroup's memory is not enough", cgroup_full),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
