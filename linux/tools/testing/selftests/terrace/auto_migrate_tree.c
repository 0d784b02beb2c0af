// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic migration: the files of cgroups, what they take and refuse, what
 * holds below others, and changes while tasks run.
 *
 * lab: topology=two-socket-cxl timeout=240s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <unistd.h>

#include "follow_util.h"

#define SIZE	MT_MB

static struct mt_cgroup a, b, c;
static struct mt_snap before;

/* Three below each other: a, b, c, all of them with it off */
static int three(void)
{
	return am_cgroup(&a, NULL, "a") ?: am_cgroup(&b, &a, "b") ?:
	       am_cgroup(&c, &b, "c");
}

static int all_on(void)
{
	MT_ASSERT(!am_set(&a, "auto_migration", 1) &&
		  !am_set(&b, "auto_migration", 1) &&
		  !am_set(&c, "auto_migration", 1), "cannot switch it on");
	return MT_PASS;
}

static int all_intervals(long long s)
{
	MT_ASSERT(!am_set(&a, "auto_migrate_interval", s) &&
		  !am_set(&b, "auto_migrate_interval", s) &&
		  !am_set(&c, "auto_migrate_interval", s), "no interval");
	return MT_PASS;
}

static int follows(struct am_task *t, int node)
{
	if (am_move(t, node ? AM_NODE1 : AM_NODE0))
		return MT_FAIL;
	if (MT_WAIT(am_local(t, node), AM_LONG_MS))
		return MT_PASS;
	am_where(t);
	mt_note("it did not follow to node %d", node);
	return MT_FAIL;
}

/*
 * It is moved, and that it does not follow is known when a canary has twice, an
 * interval apart.
 */
static int stays(struct am_task *t, int from)
{
	struct am_task canary = { .size = SIZE };
	struct mt_cgroup on;
	int ret;

	if (am_cgroup_on(&on, "on", 0))
		return MT_FAIL;
	canary.cg = &on;
	ret = am_start(&canary) ?: am_move(t, from ? AM_NODE0 : AM_NODE1) ?:
	      am_runs(t, 200) ?: follows(&canary, 1) ?: follows(&canary, 0) ?:
	      am_runs(t, 200);
	am_stop(&canary);
	(void)MT_WAIT(!rmdir(on.dir) || errno != EBUSY, AM_LONG_MS);
	if (ret)
		return MT_FAIL;
	MT_ASSERT(am_local(t, from), "it followed");
	return MT_PASS;
}

/* ---- files ---- */

static const struct {
	const char *file;
	long long initial;
	const char *good[4];
	const char *einval[8];
	const char *erange[4];
} files[] = {
	{ "auto_migration", 0, { "0", "1" },
	  { "2", "-1", "x", "", "1.5", "0 1", "max" },
	  { "99999999999999999999" } },
	{ "auto_migrate_interval", 30, { "1", "30", "86400" },
	  { "-1", "x", "", "30s", "1.5" },
	  { "0", "86401", "99999999999999999999" } },
	{ "auto_migrate_lazy", 0, { "0", "1" },
	  { "2", "-1", "yes", "" }, { "99999999999999999999" } },
	{ "migrate_max_mapcount", 1, { "1", "2", "1000000" },
	  { "-1", "x", "", "2 2" },
	  { "0", "1000001", "99999999999999999999" } },
};

static int write_text(const struct mt_cgroup *cg, const char *file,
		      const char *text)
{
	char name[64], line[64];

	snprintf(name, sizeof(name), "cpuset.%s", file);
	snprintf(line, sizeof(line), "%s\n", text);
	return mt_cgroup_write(cg, name, line);
}

static int values(void)
{
	size_t i, j;

	if (am_cgroup(&a, NULL, "a"))
		return MT_FAIL;
	for (i = 0; i < ARRAY_LEN(files); i++) {
		const char *file = files[i].file;
		long long last;

		MT_ASSERT(am_get(&a, file) == files[i].initial,
			  "%s begins with %lld", file, am_get(&a, file));
		for (j = 0; j < 4 && files[i].good[j]; j++) {
			MT_ASSERT(!write_text(&a, file, files[i].good[j]) &&
				  am_get(&a, file) == atoll(files[i].good[j]),
				  "%s: %s reads as %lld", file,
				  files[i].good[j], am_get(&a, file));
		}
		last = am_get(&a, file);
		for (j = 0; j < 8 && files[i].einval[j]; j++)
			MT_ASSERT(write_text(&a, file, files[i].einval[j]) ==
				  -EINVAL && am_get(&a, file) == last,
				  "%s takes '%s'", file, files[i].einval[j]);
		for (j = 0; j < 4 && files[i].erange[j]; j++)
			MT_ASSERT(write_text(&a, file, files[i].erange[j]) ==
				  -ERANGE && am_get(&a, file) == last,
				  "%s takes '%s'", file, files[i].erange[j]);
	}
	return MT_PASS;
}

static int not_on_root(void)
{
	char path[128];
	size_t i;

	for (i = 0; i < ARRAY_LEN(files); i++) {
		snprintf(path, sizeof(path), "/sys/fs/cgroup/cpuset.%s",
			 files[i].file);
		MT_ASSERT(access(path, F_OK), "there is %s", path);
	}
	return MT_PASS;
}

/* A new cgroup has its parent's values, and keeps them. */
static int inherited(void)
{
	static const long long values[] = { 1, 77, 1, 9 };
	size_t i;

	if (am_cgroup(&a, NULL, "a"))
		return MT_FAIL;
	for (i = 0; i < ARRAY_LEN(files); i++)
		MT_ASSERT(!am_set(&a, files[i].file, values[i]), "%s",
			  files[i].file);
	if (am_cgroup(&b, &a, "b"))
		return MT_FAIL;
	for (i = 0; i < ARRAY_LEN(files); i++) {
		MT_ASSERT(am_get(&b, files[i].file) == values[i],
			  "%s begins with %lld", files[i].file,
			  am_get(&b, files[i].file));
		am_set(&a, files[i].file, files[i].initial);
		MT_ASSERT(am_get(&b, files[i].file) == values[i],
			  "%s changes with the parent's", files[i].file);
	}
	return MT_PASS;
}

/* ---- what is left below others ---- */

/* How the values of cgroups from one up to the top become one */
enum rule { LOWEST, HIGHEST };

static const struct limit {
	const char *file;
	enum rule rule;
	long long least;
	long long most;
} limits[] = {
	{ "auto_migration", LOWEST, 0, 1 },
	{ "auto_migrate_interval", HIGHEST, 1, 86400 },
	{ "auto_migrate_lazy", HIGHEST, 0, 1 },
	{ "migrate_max_mapcount", LOWEST, 1, 1000000 },
	{ "migrate_on_fault", LOWEST, 0, 3 },
};

/* In the order of a chain from the top, and of @limits */
#define CHAIN	3
static long long says[CHAIN][ARRAY_LEN(limits)];

static int effective_is(const struct mt_cgroup *cg, size_t limit, long long value)
{
	char file[64];

	snprintf(file, sizeof(file), "%s.effective", limits[limit].file);
	MT_ASSERT(am_get(cg, file) == value, "%s: %s is %lld, not %lld", cg->dir, file,
		  am_get(cg, file), value);
	MT_ASSERT(am_set(cg, file, value), "%s can be written to", file);
	return MT_PASS;
}

/* Of all cgroups of a chain, all of them */
static int all_effective(struct mt_cgroup *const chain[CHAIN])
{
	size_t i, j;

	for (j = 0; j < ARRAY_LEN(limits); j++) {
		bool lowest = limits[j].rule == LOWEST;
		long long left = says[0][j];

		for (i = 0; i < CHAIN; i++) {
			left = lowest ? MIN(left, says[i][j]) :
					MAX(left, says[i][j]);
			if (effective_is(chain[i], j, left))
				return MT_FAIL;
		}
	}
	return MT_PASS;
}

/* Whatever is written in whatever order, each cgroup shows what is left for it. */
static int effective(void)
{
	struct mt_cgroup *const chain[CHAIN] = { &a, &b, &c };
	unsigned int seed = 20;
	size_t i, j, step;

	if (three())
		return MT_FAIL;
	for (i = 0; i < CHAIN; i++)
		for (j = 0; j < ARRAY_LEN(limits); j++)
			says[i][j] = am_get(chain[i], limits[j].file);
	if (all_effective(chain))
		return MT_FAIL;
	for (step = 0; step < 300; step++) {
		long long span;

		i = rand_r(&seed) % CHAIN;
		j = rand_r(&seed) % ARRAY_LEN(limits);
		span = limits[j].most - limits[j].least + 1;
		says[i][j] = limits[j].least + rand_r(&seed) % span;
		MT_ASSERT(!am_set(chain[i], limits[j].file, says[i][j]),
			  "%s is refused", limits[j].file);
		if (all_effective(chain))
			return MT_FAIL;
	}
	return MT_PASS;
}

/* ---- what holds ---- */

/* On in the leaf only; then everywhere; then off in the middle, and at the top. */
static int enabled(void)
{
	struct am_task t = { .size = SIZE, .cg = &c };

	if (three() || all_intervals(1))
		return MT_FAIL;
	MT_ASSERT(!am_set(&c, "auto_migration", 1), "cannot switch it on");
	if (am_start(&t) || stays(&t, 0))
		return MT_FAIL;
	/* It is at home on node 1 now, where its memory is not. */
	if (all_on() || am_runs(&t, 200))
		return MT_FAIL;
	MT_ASSERT(am_local(&t, 0), "it followed a move of before");
	if (am_move(&t, AM_NODE0) || am_runs(&t, 200) || follows(&t, 1))
		return MT_FAIL;
	am_set(&b, "auto_migration", 0);
	if (stays(&t, 1))
		return MT_FAIL;
	am_set(&b, "auto_migration", 1);
	am_set(&a, "auto_migration", 0);
	return am_move(&t, AM_NODE1) ?: am_runs(&t, 200) ?: stays(&t, 1);
}

/* The longest interval counts, wherever it is. */
static int intervals(void)
{
	struct am_task t = { .size = SIZE, .cg = &c };

	if (three() || all_on() || all_intervals(1))
		return MT_FAIL;
	am_set(&b, "auto_migrate_interval", 1000);
	if (am_start(&t) || follows(&t, 1))
		return MT_FAIL;
	mt_snap(&before);
	if (stays(&t, 1))
		return MT_FAIL;
	/* It is still away from home: shorter, it is time at once. */
	am_set(&b, "auto_migrate_interval", 1);
	MT_ASSERT(MT_WAIT(am_local(&t, 0), AM_LONG_MS),
		  "a change does not hold at once");
	return MT_PASS;
}

/* One lazy one is enough. */
static int lazies(void)
{
	struct am_task t = { .size = SIZE, .cg = &c };

	if (three() || all_on() || all_intervals(1))
		return MT_FAIL;
	am_set(&a, "auto_migrate_lazy", 1);
	if (am_start(&t))
		return MT_FAIL;
	mt_snap(&before);
	if (am_move(&t, AM_NODE1))
		return MT_FAIL;
	MT_ASSERT(MT_WAIT(fo_since(&before, "marked") > 0, AM_LONG_MS),
		  "nothing is marked");
	MT_ASSERT(!fo_since(&before, "moved"), "pages move at once");
	return MT_PASS;
}

static char *shared(struct am_task *t)
{
	char *q = mt_place(t->size, 0);

	if (q && !fork())
		for (;;)
			pause();
	return q;
}

/* The smallest number of sharers counts; a change holds for the next time. */
static int mapcounts(void)
{
	struct am_task t = { .size = SIZE, .cg = &c, .special = shared };

	if (three() || all_on() || all_intervals(1))
		return MT_FAIL;
	am_set(&a, "migrate_max_mapcount", 5);
	am_set(&c, "migrate_max_mapcount", 5);
	if (am_start(&t) || follows(&t, 1))
		return MT_FAIL;
	MT_ASSERT(am_all(&t, t.s->q, 0), "shared pages followed");
	am_set(&b, "migrate_max_mapcount", 2);
	if (follows(&t, 0) || follows(&t, 1))
		return MT_FAIL;
	MT_ASSERT(MT_WAIT(am_all(&t, t.s->q, 1), AM_LONG_MS),
		  "two may share them");
	return MT_PASS;
}

/* From where it is off to where it is on, and back, with memory and all */
static int changes_cgroup(void)
{
	struct am_task t = { .size = SIZE };
	struct mt_cgroup off, on;

	if (am_cgroup(&off, NULL, "off") || am_cgroup_on(&on, "for", 0))
		return MT_FAIL;
	t.cg = &off;
	if (am_start(&t) || stays(&t, 0) || am_move(&t, AM_NODE0) ||
	    am_runs(&t, 200))
		return MT_FAIL;
	MT_ASSERT(!mt_cgroup_enter(&on, t.pid), "it cannot go there");
	/* It is at home where a tick meets it there. */
	if (am_runs(&t, 200) || follows(&t, 1))
		return MT_FAIL;
	MT_ASSERT(!mt_cgroup_enter(&off, t.pid), "it cannot go back");
	return stays(&t, 1);
}

/* ---- the key ---- */

static long long asking(void)
{
	return mt_read_ll(FO_DEBUG "cpusets");
}

/* The key counts cgroups: written twice, inherited, removed while it is on. */
static int counted(void)
{
	long long none;

	MT_NEED(asking() >= 0, "no " FO_DEBUG "cpusets");
	/* Those of checks before may still be going. */
	(void)MT_WAIT(!asking(), 5000);
	none = asking();
	if (am_cgroup(&a, NULL, "a"))
		return MT_FAIL;
	am_set(&a, "auto_migration", 1);
	am_set(&a, "auto_migration", 1);
	MT_ASSERT(asking() == none + 1, "one: %lld", asking() - none);
	if (am_cgroup(&b, &a, "b") || am_cgroup(&c, &b, "c"))
		return MT_FAIL;
	MT_ASSERT(asking() == none + 3, "three: %lld", asking() - none);
	am_set(&b, "auto_migration", 0);
	am_set(&b, "auto_migration", 0);
	MT_ASSERT(asking() == none + 2, "two: %lld", asking() - none);
	MT_ASSERT(!rmdir(c.dir), "cannot remove it");
	MT_ASSERT(MT_WAIT(asking() == none + 1, 10000), "one is gone: %lld",
		  asking() - none);
	/* The controller goes, and the cpuset with it. */
	MT_ASSERT(!mt_cgroup_write(&b, "cgroup.subtree_control", "-cpuset") &&
		  !mt_cgroup_write(&a, "cgroup.subtree_control", "-cpuset"),
		  "cannot take it away");
	MT_ASSERT(!rmdir(b.dir) && !rmdir(a.dir), "cannot remove them");
	MT_ASSERT(MT_WAIT(asking() == none, 10000), "all are gone: %lld",
		  asking() - none);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("R19 what files take, refuse and begin with", values),
		MT_CHECK("R19 the root has none of them", not_on_root),
		MT_CHECK("R19 a new cgroup begins with its parent's values",
			 inherited),
		MT_CHECK("R19 each cgroup shows what those above leave of its values",
			 effective),
		MT_CHECK("R19 on only where all above have it on, at once",
			 enabled),
		MT_CHECK("R19 the longest interval counts, at once", intervals),
		MT_CHECK("R19 lazy if one of them is", lazies),
		MT_CHECK("R19 the smallest number of sharers counts, at once",
			 mapcounts),
		MT_CHECK("R19 a task moved from one cgroup to another",
			 changes_cgroup),
		MT_CHECK("R19 the last cgroup that goes switches it off",
			 counted),
	};

	return fo_main(checks, ARRAY_LEN(checks));
}
