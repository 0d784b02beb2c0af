// SPDX-License-Identifier: GPL-2.0
/*
 * Calls that switch capabilities on, and calls that pass through them, without memory:
 * every single allocation is made to fail, one after another, and each time the call
 * returns ENOMEM and has changed nothing, or works without the allocation.
 * mempolicy2_nomem tests memory policies. Needs CONFIG_FAILSLAB, CONFIG_FAIL_PAGE_ALLOC
 * and their files in debugfs; skips without.
 *
 * lab: topology=two-socket-cxl timeout=400s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "follow_util.h"
#include "numa_scan_util.h"
#include "tlb_defer_util.h"

#define SCALE_SET	0x4d540001UL
#define SCALE_GET	0x4d540002UL
#define PAGES		64
#define SIZE		(PAGES * MT_PAGE)
#define NEAR		0
#define FAR		1

static char *area;

/* ---- page promotion ---- */

static long switch_on(void)
{
	return mt_write("enabled", "1");
}

static bool is_off(void)
{
	return mt_reads("enabled", "0") && !mt_kthreads();
}

static int engine(void)
{
	const struct mp_fail_call on = {
		.what = "switch promotion on", .begin = mt_off,
		.call = switch_on, .unchanged = is_off,
	};
	int ret = mp_fail_prepare();

	return ret ? ret : mp_fail_each(&on, 1);
}

static void scale_5(void)
{
	syscall(SYS_prctl, SCALE_SET, 5, 0, 0, 0);
}

static long scale_7(void)
{
	return syscall(SYS_prctl, SCALE_SET, 7, 0, 0, 0) < 0 ? -errno : 0;
}

static bool is_scale_5(void)
{
	return syscall(SYS_prctl, SCALE_GET, 0, 0, 0, 0) == 5;
}

static int scale(void)
{
	const struct mp_fail_call set = {
		.what = "prctl", .begin = scale_5, .call = scale_7,
		.unchanged = is_scale_5,
	};
	int ret = mp_fail_prepare();

	mt_on();
	return ret ? ret : mp_fail_each(&set, 0);
}

static void nothing(void)
{
}

static bool yes(void)
{
	return true;
}

static int fork_while_on(void)
{
	const struct mp_fail_call call = {
		.what = "fork", .begin = nothing, .call = mp_fail_fork,
		.unchanged = yes,
	};
	int ret = mp_fail_prepare();

	mt_on();
	return ret ? ret : mp_fail_each(&call, 10);
}

/* Every tenth allocation of a thread fails. */
static int make_it_fail(const char *thread)
{
	pid_t pid = mt_kthread(thread);
	char file[64];

	MT_ASSERT(pid > 0, "no thread %s", thread);
	snprintf(file, sizeof(file), "/proc/%d/make-it-fail", pid);
	MT_ASSERT(!mt_write(file, "1"), "no %s", file);
	return MT_PASS;
}

/* Write one file of both kinds of fault injection. */
static void fail_set(const char *name, const char *text)
{
	static const char * const kinds[] = { "failslab", "fail_page_alloc" };
	char file[96];
	size_t i;

	for (i = 0; i < ARRAY_LEN(kinds); i++) {
		snprintf(file, sizeof(file), "/sys/kernel/debug/%s/%s", kinds[i],
			 name);
		mt_write(file, text);
	}
}

/*
 * Never without the filter: this program would fail as well, and could not switch it off.
 */
static void fail_each_tenth(bool on)
{
	if (on) {
		fail_set("task-filter", "Y");
		fail_set("times", "-1");
		fail_set("probability", "10");
	} else {
		fail_set("probability", "0");
		fail_set("times", "1");
		fail_set("task-filter", "N");
	}
}

static int promotes(void)
{
	struct mt_race race;
	pid_t pid;
	bool done;

	if (mp_fail_prepare())
		return MT_SKIP;
	mt_race_begin(&race);
	if (make_it_fail("kmtierd"))
		return MT_FAIL;
	fail_each_tenth(true);
	pid = mt_spawn(mt_load_slow, NULL);
	done = MT_WAIT(({ mt_hurry();
			  mt_since(&race.before, "mtier_fail_nomem") >= 20 &&
			  mt_since(&race.before, "pgpromote_success") >= 200; }),
		       2 * MT_MOVE_MS);
	fail_each_tenth(false);
	mt_kill(pid);
	mt_note("%lld pages promoted, %lld had no memory to go to",
		mt_since(&race.before, "pgpromote_success"),
		mt_since(&race.before, "mtier_fail_nomem"));
	MT_ASSERT(done, "too few");
	return mt_race_end(&race);
}

/* ---- scans of NUMA balancing ---- */

static void scan_sync(void)
{
	mt_write(NS_MODE, "sync");
}

static long scan_async(void)
{
	return mt_write(NS_MODE, "async");
}

static bool is_sync(void)
{
	return mt_reads(NS_MODE, "sync") && !mt_kthread("knumascand/0:0");
}

static int threads(void)
{
	const struct mp_fail_call async = {
		.what = "scan in threads", .begin = scan_sync,
		.call = scan_async, .unchanged = is_sync,
	};
	int ret = mp_fail_prepare();

	if (!ret)
		ret = mp_fail_each(&async, 1);
	scan_sync();
	return ret;
}

/* ---- pages that migrate ---- */

/* All pages are on the remote node, and have their contents. */
static void far(void)
{
	if (!area) {
		area = mp_map(SIZE);
		memset(area, 0x5a, SIZE);
	}
	mp_old_bind(area, SIZE, MPOL_BIND, 1UL << FAR, MPOL_MF_MOVE);
	mp_old_bind(area, SIZE, MPOL_DEFAULT, 0, 0);
}

static bool is_intact(void)
{
	size_t i;

	for (i = 0; i < SIZE; i++)
		if (area[i] != 0x5a)
			return false;
	return true;
}

/*
 * A page that did not move is no separate error: some stayed, or some allocation failed.
 */
static long move_near(void)
{
	long ret = mp_old_bind(area, SIZE, MPOL_BIND, 1UL << NEAR,
			       MPOL_MF_MOVE);

	return ret == -EIO || ret > 0 ? -ENOMEM : ret;
}

static long mark_near(void)
{
	return mp_old_bind(area, SIZE, MPOL_BIND, 1UL << NEAR, FO_MOVE);
}

static int moves(const char *what, long (*call)(void))
{
	const struct mp_fail_call move = {
		.what = what, .begin = far, .call = call,
		.unchanged = is_intact,
	};
	int ret = mp_fail_prepare();

	if (!ret)
		ret = mp_fail_each(&move, 1);
	MT_DATA(ret || is_intact(), "a page has another content");
	return ret;
}

static int deferred(void)
{
	int ret;

	MT_NEED(!mt_write(TD_DIR "mode", "quarantine"), "no " TD_DIR "mode");
	ret = moves("mbind with deferred flushes", move_near);
	mt_write(TD_DIR "mode", "off");
	return ret;
}

static int lazily(void)
{
	return moves("mbind that marks", mark_near);
}

/* ---- memory that moves with its task ---- */

static struct mt_cgroup cg;

static void follow_off(void)
{
	am_set(&cg, "auto_migration", 0);
	am_set(&cg, "migrate_on_fault", 0);
}

static long follow_on(void)
{
	return am_set(&cg, "auto_migration", 1) ?:
	       am_set(&cg, "migrate_on_fault", 1);
}

/* The first switch may be done when the second fails: each is checked separately. */
static bool follows_as_said(void)
{
	return am_get(&cg, "migrate_on_fault") == 0;
}

static int follow(void)
{
	const struct mp_fail_call on = {
		.what = "cpuset.auto_migration, cpuset.migrate_on_fault",
		.begin = follow_off, .call = follow_on,
		.unchanged = follows_as_said,
	};
	int ret;

	if (am_cgroup(&cg, NULL, "nomem"))
		return MT_FAIL;
	ret = mp_fail_prepare();
	if (!ret)
		ret = mp_fail_each(&on, 1);
	follow_off();
	am_remove_cgroups();
	return ret;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("promotion is switched on", engine),
		MT_CHECK("prctl of a scan scale", scale),
		MT_CHECK("fork while promotion is on", fork_while_on),
		MT_CHECK("promotion goes on while its thread lacks memory", promotes),
		MT_CHECK("scans get their threads", threads),
		MT_CHECK("pages move with deferred flushes", deferred),
		MT_CHECK("pages are marked", lazily),
		MT_CHECK("a cgroup's memory is to follow", follow),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
