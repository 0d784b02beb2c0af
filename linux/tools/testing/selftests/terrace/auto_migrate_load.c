// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic migration under a transient load: one thread per CPU that streams through its
 * own memory for 60 rounds. In ten of them twice as many programs as CPUs run at the same
 * time, on one of the CPUs. The scheduler moves threads then; their memory has to be near
 * them afterwards.
 *
 * lab: topology=two-socket-cxl icount=2 timeout=1800s debug=no
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "follow_util.h"

#define CPUS		2
#define ROUNDS		60
#define LOAD_FROM	20
#define LOAD_TO		30
#define BACK_BY		(LOAD_TO + 10)
#define ENOUGH		95	/* percent of pages where they are used */
#define TRIALS		8

#define SIZE		(4 * MT_MB)
#define PASSES		24	/* through it in a round */

/* Percentage of a thread's pages on its node at the end of a round, for each thread */
static int (*near)[ROUNDS];

static int percent_near(const char *p)
{
	int cpu = sched_getcpu();

	return mt_pages_on(p, SIZE, mt_node_of_cpu(cpu)) * 100 /
	       (long)(SIZE / MT_PAGE);
}

static void stream(char *p)
{
	size_t i;
	int pass;

	for (pass = 0; pass < PASSES; pass++)
		for (i = 0; i < SIZE / sizeof(long); i += 2)
			((volatile long *)p)[i] += pass;
}

/*
 * A program of the load computes, and has little memory. All of them run on the first
 * CPU, like those of a container: its thread moves to the other one, and when they have
 * exited, one of two threads returns.
 */
static void computes(void *arg)
{
	(void)arg;
	mt_run_on_cpu(0);
	for (;;)
		am_spin(1000);
}

static void rounds(int me)
{
	char *p = mp_map(SIZE);
	cpu_set_t all;
	pid_t jobs[2];
	int round, i;

	/* Start at the first touch; after that the scheduler may move it. */
	if (mt_run_on_cpu(me))
		_exit(MT_FAIL);
	mp_touch(p, SIZE);
	CPU_ZERO(&all);
	for (i = 0; i < CPUS; i++)
		CPU_SET(i, &all);
	if (sched_setaffinity(0, sizeof(all), &all))
		_exit(MT_FAIL);
	for (round = 0; round < ROUNDS; round++) {
		/* Each thread starts its part of the load. */
		for (i = 0; round == LOAD_FROM && i < 2; i++)
			jobs[i] = mt_spawn(computes, NULL);
		for (i = 0; round == LOAD_TO && i < 2; i++)
			mt_kill(jobs[i]);
		stream(p);
		near[me][round] = percent_near(p);
	}
	_exit(MT_PASS);
}

static int trial(void *arg)
{
	pid_t pid[CPUS];
	int i, status, bad = 0;

	if (arg && mt_cgroup_enter(arg, 0))
		return MT_FAIL;
	for (i = 0; i < CPUS; i++) {
		pid[i] = fork();
		if (!pid[i])
			rounds(i);
	}
	for (i = 0; i < CPUS; i++) {
		waitpid(pid[i], &status, 0);
		bad += !WIFEXITED(status) || WEXITSTATUS(status);
	}
	return bad ? MT_FAIL : MT_PASS;
}

/* Average over all threads: near pages in the rounds from @from to before @to */
static int average(int from, int to)
{
	int sum = 0, i, round;

	for (i = 0; i < CPUS; i++)
		for (round = from; round < to; round++)
			sum += near[i][round];
	return sum / (CPUS * (to - from));
}

/* Trials with it on in a mode, or off: sum of the near pages at the end */
static int trials(const char *name, int lazy, int n, int *worst)
{
	struct mt_cgroup cg;
	int i;

	*worst = 100;
	if (am_cgroup_on(&cg, name, lazy > 0))
		return MT_FAIL;
	MT_ASSERT(lazy >= 0 || !am_set(&cg, "auto_migration", 0), "not off");
	MT_ASSERT(!am_set(&cg, "auto_migrate_interval", 1), "no interval");
	for (i = 0; i < n; i++) {
		int end;

		if (mp_in_child(trial, &cg))
			return MT_FAIL;
		end = average(BACK_BY, ROUNDS);
		mt_note("%s: %d %% near before, %d with the load, %d in the next ten, %d then",
			name, average(5, LOAD_FROM), average(LOAD_FROM, LOAD_TO),
			average(LOAD_TO, BACK_BY), end);
		*worst = end < *worst ? end : *worst;
		if (lazy < 0 && end < ENOUGH)
			break;
	}
	return MT_PASS;
}

static int after_a_load(void)
{
	int off, direct, lazy;

	near = mmap(NULL, sizeof(*near) * CPUS, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MT_ASSERT(near != MAP_FAILED, "no memory");
	if (trials("off", -1, TRIALS, &off) ||
	    trials("direct", 0, 3, &direct) || trials("lazy", 1, 3, &lazy))
		return MT_FAIL;
	MT_ASSERT(off < ENOUGH, "the scheduler has moved nobody for good");
	MT_ASSERT(direct >= ENOUGH, "direct: %d %% near", direct);
	MT_ASSERT(lazy >= ENOUGH, "lazy: %d %% near", lazy);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("R20 memory is near again after a load", after_a_load),
	};

	return fo_main(checks, ARRAY_LEN(checks));
}
