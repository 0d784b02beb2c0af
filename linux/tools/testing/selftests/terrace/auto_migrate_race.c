// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic migration: everything at once. Processes fork, exec, exit and are
 * killed, map and unmap and split, while they are moved from node to node, cgroups
 * come and go and their files are written.
 *
 * 9 s, times TERRACE_STRETCH.
 *
 * lab: topology=two-socket-cxl timeout=120s debug=yes
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "follow_util.h"

#define RUN_MS	9000
#define WORKERS	4

static void *toucher(void *arg)
{
	int i;

	for (i = 0; i < 40; i++)
		mt_touch(arg, 4 * MT_MB, i & 1);
	return NULL;
}

/* Threads, forks, and a mapping that is split, moved, shrunk and grown */
static void worker(void *arg)
{
	long n = (long)arg;

	for (;; n++) {
		char *p = mt_map_aligned(8 * MT_MB), *q;
		pthread_t thread;
		pid_t pid;

		if (!p)
			_exit(1);
		if (n % 2)
			madvise(p, 8 * MT_MB, MADV_HUGEPAGE);
		mt_touch(p, 8 * MT_MB, true);
		if (pthread_create(&thread, NULL, toucher, p))
			_exit(1);
		pid = fork();
		if (!pid) {
			mt_touch(p, 4 * MT_MB, n & 1);
			am_spin(n % 3 * 60);
			if (n % 3 == 0)
				execl("/proc/self/exe", "auto_migrate_race",
				      "spin", NULL);
			_exit(0);
		}
		am_spin(n % 5 * 50);
		mprotect(p + 5 * MT_MB, MT_MB, PROT_READ);
		munmap(p + 7 * MT_MB, MT_MB);
		pthread_join(thread, NULL);
		mprotect(p + 5 * MT_MB, MT_MB, PROT_READ | PROT_WRITE);
		q = mremap(p, 7 * MT_MB, 9 * MT_MB, MREMAP_MAYMOVE);
		if (n % 4 == 0)
			kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		if (q != MAP_FAILED)
			munmap(q, 9 * MT_MB);
		else
			munmap(p, 7 * MT_MB);
	}
}

/* All values, and a cgroup that comes and goes with it on */
static void writer(void *arg)
{
	const struct mt_cgroup *cg = arg;
	struct mt_cgroup child;
	unsigned int i;

	for (i = 0;; i++) {
		am_set(cg, "auto_migrate_lazy", i % 2);
		am_set(cg, "migrate_max_mapcount", 1 + i % 3);
		am_set(cg, "auto_migrate_interval", i % 16 ? 1 : 30);
		am_set(cg, "auto_migration", i % 8 != 7);
		mt_cgroup_write(cg, "cpuset.mems", i % 6 ? "0-2" : "0,2");
		if (!am_cgroup(&child, cg, "child"))
			rmdir(child.dir);
		mt_nap(70);
	}
}

/* From node to node, some of them too fast to settle, some into the cgroup */
static void mover(void *arg)
{
	const pid_t *pid = arg;
	unsigned int i;

	for (i = 0;; i++) {
		struct am_task t = { .pid = pid[i % WORKERS] };

		am_move_all(&t, i / WORKERS % 2 ? AM_NODE0 : AM_NODE1);
		mt_nap(i % 7 ? 40 : 150);
	}
}

static void balancer(void *arg)
{
	unsigned int i;

	(void)arg;
	for (i = 0;; i++) {
		mt_writef(FO_BALANCING, "%u", i % 3);
		mt_nap(300);
	}
}

static int all_at_once(void)
{
	static pid_t pid[WORKERS];
	pid_t move, write, balance;
	struct mt_cgroup cg;
	struct mt_snap s;
	long long until;
	int i, n = 0;

	if (am_cgroup_on(&cg, "race", 0))
		return MT_FAIL;
	mt_snap(&s);
	write = mt_spawn(writer, &cg);
	balance = mt_spawn(balancer, NULL);
	until = mt_now_ms() + (long long)RUN_MS * terrace_stretch();
	for (; mt_now_ms() < until || !fo_since(&s, "tasks"); n++) {
		MT_ASSERT(mt_now_ms() < until + AM_LONG_MS, "nothing follows");
		for (i = 0; i < WORKERS; i++) {
			pid[i] = mt_spawn(worker, (void *)(long)i);
			mt_cgroup_enter(&cg, pid[i]);
		}
		move = mt_spawn(mover, pid);
		mt_nap(1500);
		mt_kill(move);
		for (i = 0; i < WORKERS; i++)
			mt_kill(pid[i]);
	}
	mt_kill(write);
	mt_kill(balance);
	mt_note("%u s: %d rounds", RUN_MS / 1000 * terrace_stretch(), n);
	fo_note(&s);
	MT_ASSERT(fo_ended(&s) > 0, "no page was marked, moved or refused");
	return MT_PASS;
}

int main(int argc, char **argv)
{
	static const struct mt_check checks[] = {
		MT_CHECK("R26 forks, exits, mappings, cgroups and moves at once",
			 all_at_once),
	};

	if (argc > 1 && !strcmp(argv[1], "spin")) {
		am_spin(150);
		return 0;
	}
	return fo_main(checks, ARRAY_LEN(checks));
}
