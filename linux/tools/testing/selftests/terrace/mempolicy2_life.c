// SPDX-License-Identifier: GPL-2.0
/*
 * Weighted interleave: the effect of fork, exec, threads and changes of mappings on
 * weights, and rebalancing of allocated memory.
 *
 * lab: topology=dram-cxl timeout=90s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mempolicy2_util.h"
#include "mtier_util.h"

#define PAGES	240
#define SIZE	(PAGES * MP_PAGE)

static bool laid_out(const void *p, size_t size, const char *weights)
{
	return mp_follows(p, size, MP_PAGE, (uintptr_t)p / MP_PAGE, weights);
}

static bool task_is(const char *weights)
{
	struct mp_policy p;

	return !mp_get(&p, NULL, 0) && mp_is(&p, weights);
}

static bool range_is(const void *addr, const char *weights)
{
	struct mp_policy p;

	return !mp_get(&p, addr, MPOL_F_ADDR) && mp_is(&p, weights);
}

/* ---- tasks ---- */

static int child_changes(void *arg)
{
	char *p = mp_map(SIZE);

	if (!task_is("0:5,1:1") || !range_is(arg, "0:1,1:3"))
		return MT_FAIL;
	mp_touch(p, SIZE);
	if (!laid_out(p, SIZE, "0:5,1:1"))
		return MT_FAIL;
	mp_set("0:1,1:9");
	mp_bind(arg, SIZE, "0:8,1:1", 0);
	return task_is("0:1,1:9") ? MT_PASS : MT_FAIL;
}

static int forked(void)
{
	char *p = mp_map(SIZE);

	mp_set("0:5,1:1");
	mp_bind(p, SIZE, "0:1,1:3", 0);
	MT_ASSERT(!mp_in_child(child_changes, p), "the child has others");
	MT_ASSERT(task_is("0:5,1:1") && range_is(p, "0:1,1:3"),
		  "the child changed its parent's");
	return MT_PASS;
}

static void *thread(void *arg)
{
	char *p = mp_map(SIZE);
	bool inherited = task_is("0:5,1:1"), ok;

	(void)arg;
	mp_set("0:1,1:5");
	mp_touch(p, SIZE);
	ok = laid_out(p, SIZE, "0:1,1:5");
	return (void *)(long)(inherited && ok);
}

/* The sample of the seed at small scale: two threads, 5:1 and 1:5. */
static int threads(void)
{
	char *p = mp_map(SIZE);
	pthread_t t;
	void *ok;

	mp_set("0:5,1:1");
	pthread_create(&t, NULL, thread, NULL);
	mp_touch(p, SIZE);
	pthread_join(t, &ok);
	MT_ASSERT(ok, "in the thread");
	MT_ASSERT(task_is("0:5,1:1") && laid_out(p, SIZE, "0:5,1:1"),
		  "the thread changed its parent's");
	return MT_PASS;
}

static int execs(void)
{
	pid_t pid;
	int status;

	mp_set("0:5,1:1");
	setenv("MEMPOLICY2_CHILD", "1", 1);
	pid = vfork();
	if (!pid) {
		execl("/proc/self/exe", "mempolicy2_life", NULL);
		_exit(99);
	}
	waitpid(pid, &status, 0);
	MT_ASSERT(WIFEXITED(status) && !WEXITSTATUS(status), "after exec %x",
		  status);
	return MT_PASS;
}

/* Old and new calls replace each other's policies. */
static int old_calls(void)
{
	struct mp_policy p;
	char *area = mp_map(SIZE);
	unsigned long nodes = 0;
	int mode = -1;

	mp_set("0:5,1:1");
	mp_old_set(MPOL_BIND, 2);
	MT_ASSERT(!mp_get(&p, NULL, 0) && p.param.mode == MPOL_BIND &&
		  p.nodes == 2, "new get of an old policy");
	mp_set("0:5,1:1");
	MT_ASSERT(task_is("0:5,1:1"), "set after old");
	MT_ASSERT(!syscall(SYS_get_mempolicy, &mode, &nodes, MP_NODES + 1,
			   NULL, 0) && mode == MP_WEIGHTED && nodes == 3,
		  "old get of weights: mode %d, nodes %lx", mode, nodes);
	mp_bind(area, SIZE, "0:5,1:1", 0);
	mp_old_bind(area, SIZE, MP_WEIGHTED, 3, 0);
	MT_ASSERT(range_is(area, "0,1"), "global weights by mbind()");
	mp_bind(area, SIZE, NULL, 0);
	mp_touch(area, SIZE);
	MT_ASSERT(laid_out(area, SIZE, "0:5,1:1"), "default is the task's");
	return MT_PASS;
}

/* ---- mappings ---- */

static int split_and_merge(void)
{
	size_t third = SIZE / 3;
	char *p = mp_map(SIZE);

	mp_bind(p, SIZE, "0:5,1:1", 0);
	MT_ASSERT(mp_vmas(p, SIZE) == 1, "one mapping");
	mp_bind(p + third, third, "0:1,1:5", 0);
	MT_ASSERT(mp_vmas(p, SIZE) == 3, "cut into %d", mp_vmas(p, SIZE));
	MT_ASSERT(range_is(p, "0:5,1:1") && range_is(p + third, "0:1,1:5") &&
		  range_is(p + 2 * third, "0:5,1:1"), "weights of the parts");
	/* The same nodes, other weights: must take effect. */
	mp_bind(p + third, third, "0:2,1:5", 0);
	MT_ASSERT(mp_vmas(p, SIZE) == 3 && range_is(p + third, "0:2,1:5"),
		  "other weights did not take effect");
	mp_bind(p + third, third, "0:5,1:1", 0);
	MT_ASSERT(mp_vmas(p, SIZE) == 1, "equal weights: %d mappings",
		  mp_vmas(p, SIZE));
	/* Touched memory has pages by the policy of its part. */
	mp_bind(p + third, third, "0:1,1:5", 0);
	mp_touch(p, SIZE);
	MT_ASSERT(laid_out(p, third, "0:5,1:1") &&
		  laid_out(p + third, third, "0:1,1:5") &&
		  laid_out(p + 2 * third, third, "0:5,1:1"), "pages");
	return MT_PASS;
}

/* The policy of a mapping is that of the model for each page. */
static int random_changes(void)
{
	static const char * const some[] = {
		"0:5,1:1", "0:1,1:5", "0:5,1:2", "0,1", NULL,
	};
	enum { N = 64, STEPS = 3000 };
	char *p = mp_map(N * MP_PAGE);
	const char *model[N] = { NULL };
	struct mp_policy got;
	int i, at, step;

	srandom(99);
	for (step = 0; step < STEPS; step++) {
		int from = random() % N, n = 1 + random() % (N - from);
		const char *w = some[random() % ARRAY_LEN(some)];
		char *a = p + from * MP_PAGE;
		size_t size = n * MP_PAGE;

		switch (random() % 6) {
		case 0:
			munmap(a, size);
			mmap(a, size, PROT_READ | PROT_WRITE, MAP_PRIVATE |
			     MAP_ANONYMOUS | MAP_FIXED, -1, 0);
			w = NULL;
			break;
		case 1:
			mprotect(a, size, random() % 2 ? PROT_READ :
				 PROT_READ | PROT_WRITE);
			continue;
		case 2:
			madvise(a, size, random() % 2 ? MADV_DONTFORK :
				MADV_DOFORK);
			continue;
		default:
			MT_ASSERT(!mp_bind(a, size, w, 0), "bind");
		}
		for (i = from; i < from + n; i++)
			model[i] = w;
		at = random() % N;
		MT_ASSERT(!mp_get(&got, p + at * MP_PAGE, MPOL_F_ADDR) &&
			  (model[at] ? mp_is(&got, model[at]) :
			   got.param.mode == MPOL_DEFAULT),
			  "step %d: page %d is not %s", step, at,
			  model[at] ? model[at] : "default");
	}
	return MT_PASS;
}

/* ---- rebalancing ---- */

static long long migrated(void)
{
	FILE *f = fopen("/proc/vmstat", "re");
	char key[64];
	long long n = -1, v;

	while (fscanf(f, "%63s %lld", key, &v) == 2)
		if (!strcmp(key, "pgmigrate_success"))
			n = v;
	fclose(f);
	return n;
}

/* Memory that is all on one node */
static char *filled(int node, size_t size)
{
	char *p = mp_map(size);

	mp_old_set(MPOL_BIND, 1UL << node);
	mp_touch(p, size);
	mp_set(NULL);
	return p;
}

static int rebalance(void)
{
	char *p = filled(0, SIZE);
	long long before;

	MT_ASSERT(!mp_bind(p, SIZE, "0:5,1:1", MPOL_MF_MOVE), "bind");
	MT_ASSERT(mp_count(p, SIZE, 0) == PAGES, "plain MOVE moved pages that are in the mask");
	MT_ASSERT(!mp_bind(p, SIZE, "0:5,1:1", MP_MF_REBALANCE |
			   MPOL_MF_STRICT), "rebalance");
	MT_ASSERT(laid_out(p, SIZE, "0:5,1:1"), "see above");
	before = migrated();
	mp_bind(p, SIZE, "0:5,1:1", MP_MF_REBALANCE | MPOL_MF_STRICT);
	MT_ASSERT(migrated() - before < 10, "again: %lld pages moved",
		  migrated() - before);
	/* From a node outside of the mask, and back to other weights */
	MT_ASSERT(!mp_bind(p, SIZE, "1:1", MP_MF_REBALANCE | MPOL_MF_STRICT) &&
		  mp_count(p, SIZE, 1) == PAGES, "all to node 1");
	MT_ASSERT(!mp_bind(p, SIZE, "0:1,1:2", MP_MF_REBALANCE) &&
		  laid_out(p, SIZE, "0:1,1:2"), "1:2");
	return MT_PASS;
}

static int rebalance_huge(void)
{
	enum { N = 6 };
	char *p = mp_map(N * MP_HUGE);
	size_t i;

	madvise(p, N * MP_HUGE, MADV_HUGEPAGE);
	mp_old_set(MPOL_BIND, 1);
	for (i = 0; i < N; i++)
		p[i * MP_HUGE] = 1;
	mp_set(NULL);
	MT_NEED(mp_where(p + MP_PAGE) == 0, "no huge pages");
	mp_bind(p, N * MP_HUGE, "0:2,1:1", MP_MF_REBALANCE | MPOL_MF_STRICT);
	for (i = 0; i < N; i++)
		MT_ASSERT(mp_where(p + i * MP_HUGE + MP_PAGE) ==
			  mp_expected((uintptr_t)p / MP_HUGE + i, "0:2,1:1"),
			  "huge page %zu on %d", i,
			  mp_where(p + i * MP_HUGE + MP_PAGE));
	return MT_PASS;
}

static int sleeps(void *arg)
{
	(void)arg;
	pause();
	return 0;
}

/* Pages that another process also maps stay; the private ones next to them move. */
static int rebalance_shared(void)
{
	char *p = filled(0, SIZE);
	pid_t pid = fork();

	if (!pid)
		_exit(sleeps(NULL));
	/* Private by writing: the first half. */
	mp_old_set(MPOL_BIND, 1);
	mp_touch(p, SIZE / 2);
	mp_set(NULL);
	MT_ASSERT(!mp_bind(p, SIZE, "0:1,1:1", MP_MF_REBALANCE |
			   MPOL_MF_STRICT), "rebalance");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	MT_ASSERT(laid_out(p, SIZE / 2, "0:1,1:1"), "ours");
	MT_ASSERT(mp_count(p + SIZE / 2, SIZE / 2, 0) == PAGES / 2,
		  "shared pages moved");
	return MT_PASS;
}

static int rebalance_pinned(void)
{
	char *p = filled(0, SIZE);
	int ret = mt_pin(p, SIZE / 2);

	MT_NEED(!ret, "cannot pin: %s", strerror(-ret));
	MT_NEED(mp_count(p, SIZE, 0) == PAGES, "pinning moved it");
	/* They must not move: that they stay is no failure. */
	MT_ASSERT(!mp_bind(p, SIZE, "1:1", MP_MF_REBALANCE | MPOL_MF_STRICT),
		  "rebalance");
	MT_ASSERT(mp_count(p, SIZE / 2, 0) == PAGES / 2, "pinned pages moved");
	MT_ASSERT(mp_count(p + SIZE / 2, SIZE / 2, 1) == PAGES / 2,
		  "the others did not");
	return MT_PASS;
}

static volatile int stop;

static void *faults(void *arg)
{
	char *p = arg;

	while (!stop) {
		madvise(p, SIZE, MADV_DONTNEED);
		mp_touch(p, SIZE);
	}
	return NULL;
}

static void *binds(void *arg)
{
	static const char * const some[] = {
		"0:5,1:1", "0:1,1:5", "0,1", NULL,
	};
	unsigned int i, seed = (uintptr_t)&i;

	for (i = 0; !stop; i++) {
		char *p = arg;
		size_t at = rand_r(&seed) % (PAGES / 2) * MP_PAGE;

		mp_bind(p + at, SIZE / 2, some[rand_r(&seed) % ARRAY_LEN(some)],
			i % 8 ? 0 : MP_MF_REBALANCE);
	}
	return NULL;
}

static int nothing(void *arg)
{
	mp_touch(arg, SIZE);
	return 0;
}

/* Faults, mbind2() and fork at once; the kernel's own checks detect errors. */
static int concurrent(void)
{
	char *p = mp_map(SIZE), line[1024];
	pthread_t t[3];
	long long until;
	size_t i;

	pthread_create(&t[0], NULL, faults, p);
	pthread_create(&t[1], NULL, binds, p);
	pthread_create(&t[2], NULL, binds, p);
	for (until = mt_now_ms() + 1500; mt_now_ms() < until;) {
		mp_in_child(nothing, p);
		mp_set("0:3,1:1");
		mp_numa_maps(p, line, sizeof(line));
	}
	stop = 1;
	for (i = 0; i < ARRAY_LEN(t); i++)
		pthread_join(t[i], NULL);
	mp_bind(p, SIZE, "0:5,1:1", MP_MF_REBALANCE | MPOL_MF_STRICT);
	MT_ASSERT(laid_out(p, SIZE, "0:5,1:1"), "afterwards");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		{ "B12 fork copies weights, neither changes the other's",
		  forked },
		{ "B12 two threads with weights of their own", threads, 0 },
		{ "B12 exec keeps the task's weights", execs, 0 },
		{ "B11 old and new calls replace each other's policies",
		  old_calls, 0 },
		{ "C14 mappings are cut, merged, and weights take effect",
		  split_and_merge },
		{ "C15 random changes against a model", random_changes, 0 },
		{ "E22 rebalancing, twice", rebalance, 0 },
		{ "E22 rebalancing of huge pages", rebalance_huge, 0 },
		{ "E22 shared pages stay", rebalance_shared },
		{ "E22 pinned pages stay", rebalance_pinned, 0 },
		{ "D19 faults, mbind2, fork at once", concurrent, 0 },
	};

	if (getenv("MEMPOLICY2_CHILD"))
		return task_is("0:5,1:1") ? 0 : 1;
	return mp_main(checks, ARRAY_LEN(checks));
}
