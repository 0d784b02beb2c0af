// SPDX-License-Identifier: GPL-2.0
/* Promotion beside a full node. */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tiers_util.h"

#define DEMOTION	"/sys/kernel/mm/numa/demotion_enabled"
#define HOT		(SERVER_PAGES * MT_PAGE)
#define FILL_MAX	(2048UL * MT_MB)
#define FOUND_MS	20000

static struct mt_cgroup cpuset;

/* Fill a node with idle memory that can leave. */
static char *fill(int node)
{
	char *p = mt_map_aligned(FILL_MAX);

	if (p && !madvise(p, FILL_MAX, MADV_NOHUGEPAGE) &&
	    !mt_set_policy(MPOL_PREFERRED, 1UL << node))
		mt_use_free(p, FILL_MAX, node);
	mt_bind_default();
	return p;
}

static void fill_and_wait(void *arg)
{
	struct mt_server *s = arg;
	size_t size;
	char *p, c;

	p = s->locked ? mt_hog(s->full, &size) : fill(s->full);
	if (p && s->full_too)
		p = mt_hog(s->full_too, &size);
	s->ready = p ? 1 : -1;
	close(s->wake[1]);
	_exit(read(s->wake[0], &c, 1) > 0);
}

/* Count the pages that are where they belong. */
static long well_placed(const char *p, struct mt_server *s)
{
	int nid;

	for (nid = 0; nid < SERVER_NODES; nid++)
		s->on[nid] = mt_pages_on(p, HOT, nid);
	return s->to < 0 ? SERVER_PAGES - s->on[s->from] : s->on[s->to];
}

static void use_hot(void *arg)
{
	struct mt_server *s = arg;
	char *p = mt_place(HOT, s->from);
	struct mt_toucher t;
	long long start_ms;

	if (!p || (s->allowed && mt_cgroup_enter(&cpuset, getpid())))
		_exit(1);
	mt_touch_start(&t, p, HOT);
	s->placed = 1;
	MT_WAIT(s->placed == 2, 60000);
	start_ms = mt_now_ms();
	s->took_ms = MT_WAIT(well_placed(p, s) > SERVER_PAGES * 9 / 10, FOUND_MS) ?
		     mt_now_ms() - start_ms : -1;
	mt_touch_stop(&t);
	_exit(0);
}

static bool cpuset_make(const struct mt_server *s)
{
	return !s->allowed ||
	       (!mt_cgroup_make(&cpuset, "tiers", "+cpuset") &&
		!mt_cgroup_write(&cpuset, "cpuset.mems", s->allowed));
}

/* Start both processes, and promotion. */
static int server_start(struct mt_server *s, pid_t *other, pid_t *hot)
{
	MT_ASSERT(!pipe(s->wake), "no pipe");
	MT_NEED(cpuset_make(s), "no cpuset");
	MT_ASSERT(!mt_write(DEMOTION, s->no_demotion ? "0" : "1"), "no demotion");
	*other = mt_spawn(fill_and_wait, s);
	close(s->wake[0]);
	MT_ASSERT(MT_WAIT(s->ready, 120000) && s->ready > 0, "node %d is not full", s->full);
	*hot = mt_spawn(use_hot, s);
	MT_ASSERT(MT_WAIT(s->placed, 60000), "no memory");
	mt_set("scan/delay_ms", 0);
	return MT_PASS;
}

/*
 * Fill a node, use memory of another one, and wait until its pages are where they belong.
 * @result has what was found, and @before the counters at the start.
 */
int mt_server_run(const struct mt_server *want, struct mt_server **result,
		  struct mt_snap *before)
{
	struct mt_server *s = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t other, hot;
	int ret;

	MT_ASSERT(s != MAP_FAILED, "no memory");
	*s = *want;
	ret = server_start(s, &other, &hot);
	if (ret)
		return ret;
	mt_snap(before);
	mt_on();
	s->placed = 2;
	ret = mt_reap(hot);
	mt_read("place/why", s->why, sizeof(s->why));
	close(s->wake[1]);
	mt_reap(other);
	mt_off();
	if (s->allowed)
		mt_cgroup_remove(&cpuset);
	s->why[strcspn(s->why, "\n")] = '\0';
	mt_note("%ld, %ld, %ld of %ld pages on nodes 0, 1, 2; %ld ms, %lld demoted, why: %s",
		s->on[0], s->on[1], s->on[2], SERVER_PAGES, s->took_ms,
		mt_since(before, "mtier_demoted"), s->why);
	*result = s;
	return ret;
}

/*
 * Check that the pages get where they belong, and, with @by_exchange, that other pages make
 * room for them.
 */
int mt_server_goes(const struct mt_server *want, bool by_exchange)
{
	struct mt_snap before;
	struct mt_server *s;
	int ret = mt_server_run(want, &s, &before);
	long long dropped = mt_since(&before, "mtier_drop_policy");

	if (ret)
		return ret;
	MT_ASSERT(s->took_ms >= 0, "%ld of %ld pages are still on node %d", s->on[s->from],
		  SERVER_PAGES, s->from);
	MT_ASSERT(dropped < SERVER_PAGES / 64, "%lld pages were sent where they may not go",
		  dropped);
	if (by_exchange)
		MT_ASSERT(mt_since(&before, "mtier_demoted") > SERVER_PAGES / 4, "no exchange");
	return MT_PASS;
}

/* Without room on the only node that they may use, pages stay, and place/why names it. */
int mt_server_full(const struct mt_server *want)
{
	struct mt_snap before;
	struct mt_server *s;
	int ret = mt_server_run(want, &s, &before);
	char why[32];

	if (ret)
		return ret;
	snprintf(why, sizeof(why), "no_victim %d", want->to);
	/* Reclaim for the memory that fills the node leaves some of it free. */
	MT_ASSERT(s->took_ms < 0, "they left");
	MT_ASSERT(!strcmp(s->why, why), "%s", s->why);
	return MT_PASS;
}
