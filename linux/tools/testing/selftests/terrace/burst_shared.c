// SPDX-License-Identifier: GPL-2.0
/*
 * Bursts and memory that several processes map: it is used if any of them uses it, it
 * moves when it is, and gives way when none does. What one of them may not have
 * looked at, or moved, is left alone.
 *
 * Not on static-keys, where CPUs take turns: looks find who had one.
 *
 * lab: topology=dram-cxl-small-dram timeout=600s debug=yes static-keys=no
 */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "burst_util.h"

#define DEMOTION	"/sys/kernel/mm/numa/demotion_enabled"
/* Several times what the smallest burst looks at */
#define SIZE		(32 * MT_MB)
#define PAGES		((long)(SIZE / MT_PAGE))
/* One round over it is short: it is found by looks that are close, too. */
#define SMALL		(SIZE / 4)
#define FILL_MAX	(512 * MT_MB)
/* Who only maps it: enough to outvote who uses it. */
#define IDLERS		4
/* What the check and the system themselves do meanwhile */
#define NOISE		512

/**
 * struct shared - memory that others map, too
 * @p: start
 * @size: bytes
 * @ready: how many of them have mapped all of it
 * @pid: who they are
 * @nr: how many
 */
struct shared {
	char *p;
	size_t size;
	unsigned int *ready;
	pid_t pid[2 * IDLERS];
	unsigned int nr;
};

static struct mt_snap before;

/* So much shared memory on a node; each page says which it is. */
static bool share(struct shared *s, size_t size, int node)
{
	const int how = MAP_SHARED | MAP_ANONYMOUS;
	size_t off;

	*s = (struct shared) { .size = size };
	s->p = mmap(NULL, size, PROT_READ | PROT_WRITE, how, -1, 0);
	s->ready = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE, how, -1, 0);
	if (s->p == MAP_FAILED || s->ready == MAP_FAILED)
		return false;
	mt_set_policy(MPOL_PREFERRED, 1UL << node);
	for (off = 0; off < size; off += MT_PAGE)
		*(size_t *)(s->p + off) = off + 1;
	mt_bind_default();
	return mt_pages_on(s->p, size, node) == (long)(size / MT_PAGE);
}

static bool same(const struct shared *s)
{
	size_t off;

	for (off = 0; off < s->size; off += MT_PAGE)
		if (*(size_t *)(s->p + off) != off + 1)
			return false;
	return true;
}

static void map_all(struct shared *s)
{
	mt_touch(s->p, s->size, false);
	__atomic_add_fetch(s->ready, 1, __ATOMIC_SEQ_CST);
}

static void idle(void *arg)
{
	map_all(arg);
	for (;;)
		pause();
}

static void use(void *arg)
{
	struct shared *s = arg;

	map_all(s);
	for (;;)
		mt_touch(s->p, s->size, false);
}

static void use_some(void *arg)
{
	struct shared *s = arg;

	map_all(s);
	for (;;)
		mt_touch(s->p, SIZE, false);
}

/* Every other page, and nothing else is mapped. */
static void use_every_other(struct shared *s, size_t first)
{
	size_t off;

	/* A page that is read brings its neighbours with it. */
	for (off = first; off < s->size; off += 2 * MT_PAGE)
		*(volatile size_t *)(s->p + off) = off + 1;
	__atomic_add_fetch(s->ready, 1, __ATOMIC_SEQ_CST);
	for (;;)
		for (off = first; off < s->size; off += 2 * MT_PAGE)
			(void)*(volatile char *)(s->p + off);
}

static void use_even(void *arg)
{
	use_every_other(arg, 0);
}

static void use_odd(void *arg)
{
	use_every_other(arg, MT_PAGE);
}

static void idle_scale_0(void *arg)
{
	prctl(MT_SCALE_SET, 0, 0, 0, 0);
	idle(arg);
}

/* A mapping without access rights is not scanned. */
static void idle_without_rights(void *arg)
{
	struct shared *s = arg;

	mt_touch(s->p, s->size, false);
	mprotect(s->p, s->size, PROT_NONE);
	__atomic_add_fetch(s->ready, 1, __ATOMIC_SEQ_CST);
	for (;;)
		pause();
}

static void idle_bound(void *arg)
{
	mt_set_policy(MPOL_BIND, 1UL << mt_slow_node());
	idle(arg);
}

static bool with(struct shared *s, void (*fn)(void *))
{
	s->pid[s->nr++] = mt_spawn(fn, s);
	return MT_WAIT(__atomic_load_n(s->ready, __ATOMIC_SEQ_CST) >= s->nr,
		       60000);
}

static void alone(struct shared *s)
{
	while (s->nr)
		mt_kill(s->pid[--s->nr]);
	munmap(s->p, s->size);
	munmap(s->ready, MT_PAGE);
}

/* Pages of the slow node that bursts found in use in 0, 1, 2 of 2 looks, added up. */
static bool counted(unsigned int bursts, long sum[3])
{
	unsigned int i, c;

	sum[0] = 0;
	sum[1] = 0;
	sum[2] = 0;
	for (i = 0; i < bursts; i++) {
		if (!mt_bursts_pass(1))
			return false;
		for (c = 0; c <= 2; c++)
			sum[c] += mt_burst_counted(2, "low", c);
	}
	mt_note("%ld, %ld, %ld pages accessed in 0, 1, 2 of 2 looks", sum[0],
		sum[1], sum[2]);
	mt_note("%lld looked at that several map, %lld left alone, %lld fixed",
		mt_burst_value("common"), mt_burst_value("shared"),
		mt_burst_value("fixed_low"));
	return true;
}

/* One uses it, several do not. Who comes first is not known: each has its turn. */
static int seen_as_used(void (*first)(void *), void (*last)(void *))
{
	struct shared s;
	long sum[3];
	bool seen;
	int i;

	MT_ASSERT(share(&s, SMALL, mt_slow_node()), "no memory on the slow node");
	seen = with(&s, first);
	for (i = 0; i < IDLERS; i++)
		seen &= with(&s, idle);
	seen = seen && with(&s, last) && !mt_observe_on() &&
	       counted(10, sum);
	mt_off();
	alone(&s);
	MT_ASSERT(seen, "not enough bursts");
	MT_ASSERT(sum[1] + sum[2] > PAGES / 16, "few are in use");
	MT_ASSERT(sum[0] < (sum[1] + sum[2]) / 4, "many seem to be idle");
	return MT_PASS;
}

static int who_uses_it_counts(void)
{
	int verdict = seen_as_used(use, idle);

	return verdict == MT_PASS ? seen_as_used(idle, use) : verdict;
}

static int left_alone(void (*other)(void *), const char *line)
{
	long long lines;
	struct shared s;
	long sum[3];
	bool seen;

	MT_ASSERT(share(&s, SMALL, mt_slow_node()), "no memory on the slow node");
	seen = with(&s, use) && with(&s, other) && !mt_observe_on() &&
	       counted(10, sum);
	lines = mt_burst_value(line);
	mt_off();
	alone(&s);
	MT_ASSERT(seen, "not enough bursts");
	MT_ASSERT(lines > PAGES / 16, "%s: %lld", line, lines);
	/* They are in use; what others have there is idle, or little. */
	MT_ASSERT(sum[1] + sum[2] < lines / 4, "they were looked at");
	return MT_PASS;
}

static int nobodys(void)
{
	return left_alone(idle_without_rights, "shared");
}

/* The scan scale of one mapper does not hide the use by another one. */
static int scale_0_hides_nothing(void)
{
	int verdict = seen_as_used(use, idle_scale_0);

	return verdict == MT_PASS ? seen_as_used(idle_scale_0, use) : verdict;
}

static int bound(void)
{
	return left_alone(idle_bound, "fixed_low");
}

/* ---- they move ---- */

/* With checks of the kernel on, looks cost so much that bursts are rare. */
static long most(void)
{
	return mt_debug_kernel() ? PAGES / 8 : PAGES * 9 / 10;
}

static int comes_up(void)
{
	struct shared s;
	bool all, ok;

	MT_ASSERT(share(&s, SIZE, mt_slow_node()), "no memory on the slow node");
	ok = with(&s, idle) && with(&s, use) && with(&s, idle);
	mt_snap(&before);
	ok = ok && !mt_bursts_on();
	all = ok && MT_WAIT(mt_pages_on(s.p, SIZE, mt_fast_node()) > most(),
			    120000);
	mt_off();
	mt_note_where("shared", s.p, SIZE);
	mt_note_since(&before);
	ok = same(&s);
	alone(&s);
	MT_ASSERT(all, "it did not come up");
	MT_ASSERT(ok, "its contents changed");
	MT_ASSERT(mt_since(&before, "mtier_taken") == mt_ended_since(&before),
		  "not every page has an end");
	return MT_PASS;
}

/* Who stands for both has mapped only what it uses itself. */
static int half_of_each(void)
{
	struct shared s;
	bool ok, all;

	MT_ASSERT(share(&s, SIZE, mt_slow_node()), "no memory on the slow node");
	ok = with(&s, use_even) && with(&s, use_odd) &&
	     !madvise(s.p, SIZE, MADV_DONTNEED);
	mt_snap(&before);
	ok = ok && !mt_bursts_on();
	all = ok && MT_WAIT(mt_since(&before, "mtier_promoted_shmem") > most(),
			    120000);
	mt_off();
	mt_note_since(&before);
	ok = same(&s) && mt_pages_on(s.p, SIZE, mt_fast_node()) > most();
	alone(&s);
	MT_ASSERT(all && ok, "it did not come up, or is not the same");
	return MT_PASS;
}

/* All of DRAM but for the shared memory in it. Locked, as it takes no part. */
static bool fill(void)
{
	char *p = mt_map_aligned(FILL_MAX);
	size_t size = 0;

	if (!p || madvise(p, FILL_MAX, MADV_NOHUGEPAGE))
		return false;
	mt_set_policy(MPOL_PREFERRED, 1UL << mt_fast_node());
	for (; mt_node_room(mt_fast_node()) > 16 && size < FILL_MAX;
	     size += 16 * MT_PAGE)
		mt_touch(p + size, 16 * MT_PAGE, true);
	mt_bind_default();
	return size < FILL_MAX && !mlock(p, size);
}

/* Of what several map in DRAM one uses a part: others go. */
static int gives_way(void)
{
	struct mt_toucher t;
	struct shared s;
	long used, unused;
	bool ok, intact;
	char *hot;

	MT_NEED(share(&s, 8 * SIZE, mt_fast_node()), "no memory on the fast node");
	ok = with(&s, idle) && with(&s, use_some) && with(&s, idle);
	/* Not before: those would share it copy-on-write. */
	hot = mt_place(4 * SIZE, mt_slow_node());
	MT_ASSERT(hot, "no memory on the slow node");
	MT_NEED(ok && fill(), "DRAM cannot be filled");
	mt_write(DEMOTION, "1");
	mt_snap(&before);
	mt_touch_start(&t, hot, 4 * SIZE);
	ok = !mt_bursts_on() &&
	     MT_WAIT(mt_pages_on(s.p, s.size, mt_slow_node()) > PAGES, 120000);
	mt_touch_stop(&t);
	mt_off();
	mt_note_where("hot", hot, 4 * SIZE);
	mt_note_where("used by one", s.p, SIZE);
	mt_note_where("used by none", s.p + SIZE, 7 * SIZE);
	mt_note_since(&before);
	used = mt_pages_on(s.p, SIZE, mt_slow_node());
	unused = mt_pages_on(s.p + SIZE, 7 * SIZE, mt_slow_node());
	intact = same(&s);
	alone(&s);
	MT_ASSERT(ok, "nothing gave way");
	MT_ASSERT(intact, "contents changed");
	MT_ASSERT(unused > PAGES / 2 - NOISE, "%ld idle pages went", unused);
	/* A process that waits for a CPU during a burst uses nothing in it: once. */
	MT_ASSERT(used < unused / 7 / 4 + MT_HUGE / MT_PAGE,
		  "%ld went that one uses", used);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("what one of several uses is used", who_uses_it_counts),
		MT_CHECK("what is mapped without access rights as well is left alone", nobodys),
		MT_CHECK("what is shared with scan scale 0 is used if another uses it",
			 scale_0_hides_nothing),
		MT_CHECK("P12 what is shared with who is bound stays", bound),
		MT_CHECK("shared pages in use come up", comes_up),
		MT_CHECK("so do those that each one maps alone", half_of_each),
		MT_CHECK("idle shared pages give way, used ones do not", gives_way),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
