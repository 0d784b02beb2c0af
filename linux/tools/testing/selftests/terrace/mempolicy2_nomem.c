// SPDX-License-Identifier: GPL-2.0
/*
 * Memory policy calls without memory: every single allocation of every call is made to
 * fail, one after another. Each time the call returns ENOMEM or succeeds without the
 * allocation, and a failed call changed nothing. Needs CONFIG_FAILSLAB,
 * CONFIG_FAIL_PAGE_ALLOC and their files in debugfs; skips without.
 *
 * lab: topology=dram-cxl timeout=120s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mempolicy2_util.h"
#include "mtier_util.h"

#define PAGES	8
#define SIZE	(PAGES * MP_PAGE)

static char *area;

/* ---- state that must be the same afterwards ---- */

static void begin(void)
{
	if (!area) {
		area = mp_map(SIZE);
		mp_touch(area, SIZE);
	}
	mp_set("0:7,1:2");
	mp_bind(area, SIZE, "0:1,1:4", 0);
}

static bool pages_are(const char *p, const char *weights)
{
	struct mp_policy got;
	size_t off;

	for (off = 0; off < SIZE; off += MP_PAGE)
		if (mp_get(&got, p + off, MPOL_F_ADDR) || !mp_is(&got, weights))
			return false;
	return true;
}

static bool unchanged(void)
{
	struct mp_policy got;

	return !mp_get(&got, NULL, 0) && mp_is(&got, "0:7,1:2") &&
	       pages_are(area, "0:1,1:4");
}

static int each_fails(const char *what, long (*call)(void), int least)
{
	const struct mp_fail_call all = {
		.what = what, .begin = begin, .call = call,
		.unchanged = unchanged,
	};

	return mp_fail_each(&all, least);
}

/* ---- the calls ---- */

static long set_weights(void)
{
	return mp_set("0:3,1:1");
}

static long set_flags(int flags)
{
	struct mp_policy p;

	mp_policy(&p, MP_WEIGHTED, "0:3,1:1");
	p.param.mode_flags = flags;
	return mp_set2(&p.param, sizeof(p.param), 0);
}

static long set_static(void)
{
	return set_flags(MPOL_F_STATIC_NODES);
}

static long set_relative(void)
{
	return set_flags(MPOL_F_RELATIVE_NODES);
}

static long set_global(void)
{
	return mp_set("0,1");
}

/* Weights as given, as remembered, of the policy, its spare: four or five */
static int sets(void)
{
	int ret = mp_fail_prepare();

	if (!ret)
		ret = each_fails("set", set_weights, 4);
	if (!ret)
		ret = each_fails("set static", set_static, 5);
	if (!ret)
		ret = each_fails("set relative", set_relative, 5);
	return ret ? ret : each_fails("set global", set_global, 1);
}

static long bind_all(void)
{
	return mp_bind(area, SIZE, "0:3,1:1", 0);
}

static long bind_middle(void)
{
	return mp_bind(area + SIZE / 4, SIZE / 2, "0:3,1:1", 0);
}

static long bind_move(void)
{
	return mp_bind(area, SIZE, "0:3,1:1", MPOL_MF_MOVE);
}

static long bind_rebalance(void)
{
	return mp_bind(area, SIZE, "0:3,1:1", MP_MF_REBALANCE);
}

static int binds(void)
{
	int ret = mp_fail_prepare();

	if (!ret)
		ret = each_fails("mbind", bind_all, 3);
	if (!ret)
		ret = each_fails("mbind a part", bind_middle, 5);
	if (!ret)
		ret = each_fails("mbind and move", bind_move, 3);
	return ret ? ret : each_fails("rebalance", bind_rebalance, 4);
}

static long get(void)
{
	struct mp_policy p;

	return mp_get(&p, NULL, 0);
}

static long get_at(void)
{
	struct mp_policy p;

	return mp_get(&p, area, MPOL_F_ADDR);
}

static int gets(void)
{
	int ret = mp_fail_prepare();

	if (!ret)
		ret = each_fails("get", get, 1);
	return ret ? ret : each_fails("get at an address", get_at, 1);
}

/* ---- a shared object ---- */

static char *file;

static bool file_unchanged(void)
{
	return pages_are(file, "0:5,1:1");
}

/*
 * Cut in the middle: both remaining parts keep their weights, or the call changes
 * nothing.
 */
static int cut_steps(int least)
{
	int refused = 0;
	unsigned int nth;

	for (nth = 1; nth < MP_FAIL_MOST; nth++) {
		bool failed;
		long ret;

		mp_bind(file, SIZE, "0:5,1:1", 0);
		mp_fail(nth);
		ret = mp_bind(file + SIZE / 4, SIZE / 2, "0:1,1:3", 0);
		failed = mp_has_failed();
		mp_fail(0);
		if (!failed)
			break;
		MT_ASSERT(!ret || ret == -ENOMEM, "%ld when %u failed", ret,
			  nth);
		MT_ASSERT(!ret || file_unchanged(), "changed when %u failed",
			  nth);
		refused += !!ret;
	}
	mt_note("cut a shared range: ENOMEM %d times", refused);
	MT_ASSERT(nth < MP_FAIL_MOST && refused >= least, "that is not all of them");
	return MT_PASS;
}

static int shared(void)
{
	int fd = memfd_create("mempolicy2", MFD_CLOEXEC);
	int ret = mp_fail_prepare();

	if (ret)
		return ret;
	ftruncate(fd, SIZE);
	file = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ret = cut_steps(0);
	mp_fail_pages(false);
	return ret ? ret : cut_steps(4);
}

/* ---- a mapped file ---- */

#define FILE_POLICY	"/proc/sys/vm/mapped_file_policy"

static char *map_file(const char *path, int how, int prot)
{
	int fd = open(path, how | O_CLOEXEC, 0600);
	char *p = mmap(NULL, SIZE, prot, MAP_SHARED, fd, 0);

	close(fd);
	return p == MAP_FAILED ? NULL : p;
}

/*
 * One allocation fails, for a new file without a policy. A process that can only read the
 * file has its own policy, and reads it until the file has one. *@failed: whether an
 * allocation failed.
 */
static int bind_file(const char *path, unsigned int nth, bool *failed,
		     int *refused)
{
	struct mp_policy told;
	char *all, *own;
	long ret;

	all = map_file(path, O_RDWR | O_CREAT | O_EXCL, PROT_WRITE);
	own = map_file(path, O_RDONLY, PROT_READ);
	MT_ASSERT(all && own && !unlink(path), "no file to map");
	MT_ASSERT(!mp_old_bind(own, SIZE, MPOL_PREFERRED, 2, 0), "mbind");
	mp_fail(nth);
	ret = mp_old_bind(all, SIZE / 2, MPOL_BIND, 1, 0);
	*failed = mp_has_failed();
	mp_fail(0);
	MT_ASSERT(!ret || (ret == -ENOMEM && *failed), "%ld at %u", ret, nth);
	MT_ASSERT(!mp_get(&told, own, MPOL_F_ADDR), "get");
	MT_ASSERT(told.param.mode == (ret ? MPOL_PREFERRED : MPOL_BIND),
		  "mode %u after %ld when %u failed", told.param.mode, ret, nth);
	*refused += !!ret;
	munmap(all, SIZE);
	munmap(own, SIZE);
	return MT_PASS;
}

static int file_steps(int least)
{
	const char *dir = mt_ext4();
	int refused = 0, ret = MT_PASS;
	bool failed = true;
	unsigned int nth;
	char path[200];

	MT_NEED(dir, "no ext4 on a loop device");
	snprintf(path, sizeof(path), "%s/nomem", dir);
	for (nth = 1; failed && !ret && nth < MP_FAIL_MOST; nth++)
		ret = bind_file(path, nth, &failed, &refused);
	if (ret)
		return ret;
	mt_note("mbind of a file: ENOMEM %d times", refused);
	MT_ASSERT(!failed && refused >= least, "that is not all of them");
	return MT_PASS;
}

static int mapped_file(void)
{
	int ret;

	MT_NEED(!mt_write(FILE_POLICY, "1"), "no CONFIG_MAPPED_FILE_POLICY");
	ret = mp_fail_prepare() ?: file_steps(0);
	mp_fail_pages(false);
	ret = ret ?: file_steps(3);
	mt_write(FILE_POLICY, "0");
	return ret;
}

/* ---- fork ---- */

static int fork_fails(void)
{
	int ret = mp_fail_prepare();

	return ret ? ret : each_fails("fork", mp_fail_fork, 10);
}

int main(void)
{
	static const struct mt_check checks[] = {
		{ "F set without memory", sets },
		{ "F mbind without memory", binds, 0 },
		{ "F get without memory", gets, 0 },
		{ "F mbind of a shared object without memory", shared, 0 },
		{ "F mbind of a mapped file without memory", mapped_file, 0 },
		{ "F fork without memory", fork_fails, 0 },
	};

	return mp_main(checks, ARRAY_LEN(checks));
}
