// SPDX-License-Identifier: GPL-2.0
/*
 * Migration on faults under a load like a build: many short programs on both nodes that
 * map the same files. The cost at each level, and the number of moves of a page.
 *
 * lab: topology=two-socket-cxl icount=2 timeout=1800s debug=no
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "follow_util.h"

#define FILES		16
#define FILE_PAGES	16L
#define FILE_SIZE	(FILE_PAGES * MT_PAGE)
#define JOBS		32
#define ROUNDS		12
#define TRIALS		5

static int files[FILES];

/* ---- the load ---- */

static int make_files(void)
{
	static char text[FILE_SIZE];
	int i;

	memset(text, 'x', sizeof(text));
	for (i = 0; i < FILES; i++) {
		files[i] = fo_disk_file();
		MT_NEED(files[i] >= 0, "no ext4 on a loop device");
		MT_ASSERT(write(files[i], text, FILE_SIZE) == FILE_SIZE &&
			  !fsync(files[i]), "cannot fill a file");
	}
	return MT_PASS;
}

/* The work of a compiler: map the input, compute, write, and exit. */
static void job(int n)
{
	int i, out = memfd_create("object", MFD_CLOEXEC);
	char *p = mp_map(MT_MB / 2);

	mp_touch(p, MT_MB / 2);
	for (i = 0; i < FILES; i++) {
		char *f = mmap(NULL, FILE_SIZE, PROT_READ, MAP_SHARED,
			       files[(n + i) % FILES], 0);

		if (f == MAP_FAILED)
			_exit(MT_FAIL);
		mt_touch(f, FILE_SIZE, false);
		munmap(f, FILE_SIZE);
	}
	if (write(out, p, MT_MB / 4) != MT_MB / 4)
		_exit(MT_FAIL);
	_exit(MT_PASS);
}

/* JOBS short processes, two at a time, for each round */
static int build(void *arg)
{
	int n, running = 0, status, bad = 0;

	if (mt_cgroup_enter(arg, 0))
		return MT_FAIL;
	for (n = 0; n < JOBS * ROUNDS; n++) {
		pid_t pid = fork();

		if (!pid) {
			mt_run_on_cpu(n % 2);
			job(n);
		}
		running++;
		while (running >= 2 || (running && n == JOBS * ROUNDS - 1)) {
			wait(&status);
			bad += !WIFEXITED(status) || WEXITSTATUS(status);
			running--;
		}
	}
	return bad ? MT_FAIL : MT_PASS;
}

/* ---- one level ---- */

/**
 * struct result - result of a build
 * @usage_us: CPU time
 * @system_us: its part in the kernel; sampled by ticks
 * @tried: pages that moved, or could not
 * @moved: pages that moved
 */
struct result {
	long long usage_us;
	long long system_us;
	long long tried;
	long long moved;
};

static int measure(int level, struct result *r)
{
	struct mt_cgroup cg;
	struct mt_snap before;

	if (fo_level(&cg, level))
		return MT_FAIL;
	mt_snap(&before);
	MT_ASSERT(!mp_in_child(build, &cg), "a job failed");
	r->usage_us = mt_cgroup_stat(&cg, "cpu.stat", "usage_usec");
	r->system_us = mt_cgroup_stat(&cg, "cpu.stat", "system_usec");
	r->moved = fo_faulted(&before, NULL);
	r->tried = r->moved + fo_since(&before, "refused_nomem") +
		   fo_since(&before, "refused_busy");
	mt_note("level %d: %lld ms, kernel %lld; %lld pages tried, %lld moved, %lld refused",
		level, r->usage_us / 1000, r->system_us / 1000, r->tried,
		r->moved, fo_refused(&before));
	return MT_PASS;
}

/*
 * The smallest CPU time of several builds each, in turns: they differ by a few percent,
 * by the placement of data.
 */
static int cost_of_level_1(void)
{
	struct result off, one, r;
	int i;

	for (i = 0; i < TRIALS; i++) {
		if (measure(0, &r))
			return MT_FAIL;
		off = !i || r.usage_us < off.usage_us ? r : off;
		if (measure(1, &r))
			return MT_FAIL;
		one = !i || r.usage_us < one.usage_us ? r : one;
	}
	mt_note("level 1: %+.2f %% of the time in the kernel",
		100. * (one.usage_us - off.usage_us) / off.system_us);
	MT_ASSERT(one.usage_us - off.usage_us <= off.system_us * 3 / 100,
		  "level 1 costs more than 3 %% of the time in the kernel");
	return MT_PASS;
}

static int like_a_build(void)
{
	struct result two, three;
	const long pages = FILES * FILE_PAGES;

	if (make_files() || cost_of_level_1() || measure(2, &two) ||
	    measure(3, &three))
		return MT_FAIL;
	/* If files have no homes, level 3 moves more than four times as many. */
	MT_ASSERT(two.tried * 25 <= pages,
		  "level 2: %lld attempts of %ld pages", two.tried, pages);
	MT_ASSERT(three.moved <= pages, "level 3: %lld moves of %ld pages",
		  three.moved, pages);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("R21 R22 a load like a build", like_a_build),
	};
	/*
	 * It takes 170 s, and time passes while a guest that counts instructions waits
	 * for its files.
	 */
	mt_limit_ms = 1800000;
	return fo_main(checks, ARRAY_LEN(checks));
}
