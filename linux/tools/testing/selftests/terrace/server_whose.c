// SPDX-License-Identifier: GPL-2.0
/*
 * The memory policy and the cpuset of each thread hold for the pages that the thread can
 * have allocated, and no process keeps fast memory by its scan scale.
 *
 * In each check of a policy, another range of the same process is promoted in the same
 * time. It has a VMA policy, so the policies of threads do not apply to it. The cpuset of
 * a thread does, so there it is memory of another process.
 *
 * Time counts instructions.
 *
 * lab: topology=dram-cxl icount=2 timeout=300s debug=no
 */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "burst_util.h"

#define SIZE		(16 * MT_MB)
#define PAGES(size)	((long)((size) / MT_PAGE))
#define FOUND_MS	20000

/* ---- policies and cpusets of threads ---- */

/**
 * struct user - a task that allocates memory under its own rules, and uses it
 * @restrict_self: sets the policy or the cpuset of the calling task
 * @p: its memory
 * @ready: it has filled its memory; negative: it could not be restricted
 * @stop: it is to end
 */
struct user {
	int (*restrict_self)(void);
	char *p;
	volatile int ready;
	volatile bool stop;
};

static struct mt_cgroup cpuset;

static int bind_to_slow(void)
{
	return mt_bind_to(mt_slow_node());
}

static int bind_to_fast(void)
{
	return mt_bind_to(mt_fast_node());
}

static int prefer_slow(void)
{
	return mt_set_policy(MPOL_PREFERRED, 1UL << mt_slow_node());
}

static int enter_cpuset(void)
{
	char tid[16];

	snprintf(tid, sizeof(tid), "%ld", (long)syscall(SYS_gettid));
	return mt_cgroup_write(&cpuset, "cgroup.threads", tid);
}

/* Fill memory and use it until the end. */
static void *use(void *arg)
{
	struct user *u = arg;

	if (u->restrict_self()) {
		u->ready = -1;
		return NULL;
	}
	mt_touch(u->p, SIZE, true);
	u->ready = 1;
	while (!u->stop) {
		mt_touch(u->p, SIZE, false);
		mt_nap(1);
	}
	return NULL;
}

static bool user_map(struct user *u)
{
	u->p = mt_map_aligned(SIZE);
	/* A child would share it copy-on-write: it would stay for that. */
	return u->p && !madvise(u->p, SIZE, MADV_NOHUGEPAGE) &&
	       !madvise(u->p, SIZE, MADV_DONTFORK);
}

static bool user_start(struct user *u, pthread_t *thread)
{
	return user_map(u) && !pthread_create(thread, NULL, use, u) &&
	       MT_WAIT(u->ready, 60000) && u->ready > 0;
}

/* A range in use on the slow node, to which no policy of a thread applies. */
static char *place_free(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	unsigned long both = 1UL << mt_slow_node() | 1UL << mt_fast_node();

	return p && !mt_mbind(p, SIZE, MPOL_BIND, both) ? p : NULL;
}

static bool comes_up(char *p)
{
	bool up = MT_WAIT(mt_pages_on(p, SIZE, mt_fast_node()) > PAGES(SIZE) * 9 / 10,
			  FOUND_MS);

	mt_note("%ld of %ld pages are fast", mt_pages_on(p, SIZE, mt_fast_node()),
		PAGES(SIZE));
	return up;
}

static bool range_comes_up(void)
{
	char *p = place_free();
	struct mt_toucher t;
	bool up;

	if (!p)
		return false;
	mt_touch_start(&t, p, SIZE);
	mt_on();
	up = comes_up(p);
	mt_touch_stop(&t);
	return up;
}

static void neighbour(void *arg)
{
	struct mt_toucher t;
	char *p = mt_place(SIZE, mt_slow_node());

	(void)arg;
	if (!p)
		_exit(1);
	mt_touch_start(&t, p, SIZE);
	_exit(!comes_up(p));
}

static bool neighbour_comes_up(void)
{
	mt_on();
	return !mt_reap(mt_spawn(neighbour, NULL));
}

/* The memory of @u stays while other memory is promoted. */
static int stays_beside(struct user *u, bool (*other_comes_up)(void))
{
	struct mt_snap before;
	long long bursts;
	bool up, passed;
	long left;

	MT_ASSERT(mt_all_on(u->p, SIZE, mt_slow_node()), "it is not on the slow node");
	mt_set("scan/delay_ms", 0);
	mt_snap(&before);
	up = other_comes_up();
	bursts = mt_burst_value("bursts");
	passed = MT_WAIT(mt_burst_value("bursts") >= bursts + 4, FOUND_MS);
	mt_off();
	left = PAGES(SIZE) - mt_pages_on(u->p, SIZE, mt_slow_node());
	mt_note("%ld pages left, %lld dropped for a policy", left,
		mt_since(&before, "mtier_drop_policy"));
	MT_ASSERT(up, "nothing was promoted meanwhile");
	MT_ASSERT(!left, "%ld pages left the nodes of their thread", left);
	MT_ASSERT(passed, "no bursts");
	return MT_PASS;
}

static int stays(struct user *u)
{
	return stays_beside(u, range_comes_up);
}

static int stays_beside_a_neighbour(struct user *u)
{
	return stays_beside(u, neighbour_comes_up);
}

/* All of the memory of @u, and of a thread without a policy, comes up. */
static int moves(struct user *u)
{
	struct mt_toucher t;
	bool up, also;
	char *p = mt_place(SIZE, mt_slow_node());

	MT_ASSERT(p, "no memory on the slow node");
	mt_set("scan/delay_ms", 0);
	mt_touch_start(&t, p, SIZE);
	mt_on();
	up = comes_up(p);
	also = comes_up(u->p);
	mt_touch_stop(&t);
	mt_off();
	MT_ASSERT(up && also, "it stayed");
	return MT_PASS;
}

static int of_a_thread(int (*restrict_self)(void), int (*then)(struct user *))
{
	struct user u = { .restrict_self = restrict_self };
	pthread_t thread;
	int ret;

	MT_ASSERT(user_start(&u, &thread), "no thread");
	ret = then(&u);
	u.stop = true;
	pthread_join(thread, NULL);
	return ret;
}

static int bound_stays(void)
{
	return of_a_thread(bind_to_slow, stays);
}

static int preferred_stays(void)
{
	return of_a_thread(prefer_slow, stays);
}

static int in_a_cpuset_stays(void)
{
	char nodes[16];
	int ret;

	snprintf(nodes, sizeof(nodes), "%d", mt_slow_node());
	MT_NEED(!mt_cgroup_make(&cpuset, "thread", "+cpuset") &&
		!mt_cgroup_write(&cpuset, "cgroup.type", "threaded") &&
		!mt_cgroup_write(&cpuset, "cpuset.mems", nodes), "no threaded cpuset");
	ret = of_a_thread(enter_cpuset, stays_beside_a_neighbour);
	mt_cgroup_remove(&cpuset);
	return ret;
}

/* A thread bound to fast memory does not keep the slow pages of other threads. */
static int bound_to_fast(void)
{
	return of_a_thread(bind_to_fast, moves);
}

/* The policy of a thread ends with the thread. */
static int until_it_ends(void)
{
	struct user u = { .restrict_self = bind_to_slow };
	struct mt_toucher t;
	pthread_t thread;
	int ret;

	MT_ASSERT(user_start(&u, &thread), "no thread");
	ret = stays(&u);
	u.stop = true;
	pthread_join(thread, NULL);
	if (ret)
		return ret;
	mt_touch_start(&t, u.p, SIZE);
	mt_on();
	ret = comes_up(u.p);
	mt_touch_stop(&t);
	MT_ASSERT(ret, "it stays without a thread that is bound");
	return MT_PASS;
}

/* More threads than are read without a pause. The last one is bound. */
#define THREADS		1500

static volatile bool threads_end;

static void *wait_for_the_end(void *arg)
{
	(void)arg;
	while (!threads_end)
		mt_nap(200);
	return NULL;
}

static int one_of_many(void)
{
	static pthread_t thread[THREADS];
	pthread_attr_t attr;
	int ret, i;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	for (i = 0; i < THREADS; i++)
		MT_ASSERT(!pthread_create(&thread[i], &attr, wait_for_the_end, NULL),
			  "%d threads", i);
	ret = bound_stays();
	threads_end = true;
	for (i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	return ret;
}

static int use_as_process(void *arg)
{
	use(arg);
	return 0;
}

/* A process that shares the address space, as after vfork(), is no thread of the owner. */
static int of_a_process(void)
{
	struct user u = { .restrict_self = bind_to_slow };
	char *stack = mmap(NULL, MT_MB, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int pid, ret;

	MT_ASSERT(stack != MAP_FAILED && user_map(&u), "no memory");
	pid = clone(use_as_process, stack + MT_MB, CLONE_VM | SIGCHLD, &u);
	MT_ASSERT(pid > 0, "clone");
	MT_ASSERT(MT_WAIT(u.ready, 60000) && u.ready > 0, "it has no memory");
	ret = stays(&u);
	u.stop = true;
	waitpid(pid, NULL, 0);
	return ret;
}

/* ---- scan scales ---- */

#define DEMOTION	"/sys/kernel/mm/numa/demotion_enabled"
#define HOT		(32 * MT_MB)
#define FILL_MAX	(4096UL * MT_MB)
#define NOBODY		65534

/**
 * struct hostile - a process that fills fast memory and leaves it idle
 * @scale: its scan scale
 * @ready: it has filled it
 * @slow: pages of it on the slow node at the end
 * @wake: pipe on which it waits for the end
 */
struct hostile {
	int scale;
	volatile bool ready;
	volatile long slow;
	int wake[2];
};

static void fill_and_wait(void *arg)
{
	struct hostile *h = arg;
	char *p = mmap(NULL, FILL_MAX, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t size;
	char c;

	if (p == MAP_FAILED || madvise(p, FILL_MAX, MADV_NOHUGEPAGE) || setuid(NOBODY) ||
	    prctl(MT_SCALE_SET, h->scale, 0, 0, 0))
		_exit(1);
	size = mt_use_free(p, FILL_MAX, mt_fast_node());
	h->ready = true;
	close(h->wake[1]);
	if (read(h->wake[0], &c, 1) > 0)
		_exit(1);
	h->slow = mt_pages_on(p, size, mt_slow_node());
	_exit(0);
}

/* Hot pages of another process that become fast, and pages of the hostile one slow. */
static int beside_hostile(int scale, long *fast, long *slow)
{
	struct hostile *h = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct mt_snap before;
	struct mt_toucher t;
	pid_t pid;
	char *p;

	MT_ASSERT(h != MAP_FAILED && !pipe(h->wake), "no memory");
	h->scale = scale;
	pid = mt_spawn(fill_and_wait, h);
	close(h->wake[0]);
	p = mt_place(HOT, mt_slow_node());
	MT_ASSERT(p && MT_WAIT(h->ready, 120000), "no memory");
	MT_ASSERT(!mt_write(DEMOTION, "1"), "no demotion");
	mt_set("scan/delay_ms", 0);
	mt_touch_start(&t, p, HOT);
	mt_snap(&before);
	mt_on();
	MT_WAIT(mt_pages_on(p, HOT, mt_fast_node()) > PAGES(HOT) * 95 / 100, FOUND_MS);
	mt_touch_stop(&t);
	mt_off();
	*fast = mt_pages_on(p, HOT, mt_fast_node());
	close(h->wake[1]);
	MT_ASSERT(!mt_reap(pid), "the hostile process failed");
	*slow = h->slow;
	mt_note("scan scale %d: %ld of %ld hot pages are fast, %ld idle pages slow, %lld demoted",
		scale, *fast, PAGES(HOT), *slow, mt_since(&before, "mtier_demoted"));
	munmap(p, HOT);
	return MT_PASS;
}

/* Idle memory is demoted whether the scan scale is 0, 1 or 5. */
static int scales_hold_nothing(void)
{
	long fast[3], slow[3];
	int scale[3] = { 5, 0, 1 };
	int i, ret;

	for (i = 0; i < 3; i++) {
		ret = beside_hostile(scale[i], &fast[i], &slow[i]);
		if (ret)
			return ret;
	}
	for (i = 0; i < 3; i++)
		MT_ASSERT(fast[i] > PAGES(HOT) * 9 / 10 && fast[i] > fast[0] * 95 / 100,
			  "with scale %d %ld hot pages are fast", scale[i], fast[i]);
	for (i = 0; i < 3; i++)
		MT_ASSERT(slow[i] > PAGES(HOT) / 4, "with scale %d %ld idle pages are slow",
			  scale[i], slow[i]);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("memory of a thread bound to the slow node stays", bound_stays),
		MT_CHECK("memory of a thread that prefers the slow node stays", preferred_stays),
		MT_CHECK("memory of a thread in a cpuset of the slow node stays",
			 in_a_cpuset_stays),
		MT_CHECK("memory of a process that shares the address space stays", of_a_process),
		MT_CHECK("one bound thread of many is found", one_of_many),
		MT_CHECK("a thread bound to the fast node keeps no other memory", bound_to_fast),
		MT_CHECK("the memory of a thread is free when it has ended", until_it_ends),
		MT_CHECK("a process holds no fast memory by its scan scale", scales_hold_nothing),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
