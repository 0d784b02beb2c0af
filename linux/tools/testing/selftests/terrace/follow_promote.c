// SPDX-License-Identifier: GPL-2.0
/*
 * Promotion goes by the policy of a file whoever maps it: a part that is bound to slow
 * memory stays there, also while it is used by a mapping that is not the one that
 * mbind() was called with, or is a part of a huge page.
 *
 * lab: topology=dram-cxl timeout=400s debug=yes
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "follow_util.h"

#define PAGES	512L
#define SIZE	(PAGES * MT_PAGE)
#define HALF	(SIZE / 2)

/* How a file is used that another mapping has bound in part */
struct use {
	const char *what;
	int flags;
	bool same;	/* by the mapping that mbind() was called with */
	size_t from;	/* where the bound half begins */
};

static const struct use uses[] = {
	{ "the mapping itself", MAP_SHARED, true, 0 },
	{ "another shared mapping", MAP_SHARED, false, HALF },
	{ "a private mapping", MAP_PRIVATE, false, 0 },
	{ "a private mapping", MAP_PRIVATE, false, HALF },
};

/* All of a file is on slow memory, and half of it is bound there. */
static char *bound(enum fo_kind kind, size_t from, int *fd)
{
	int slow = mt_slow_node();
	char *p;

	*fd = fo_file(kind, PAGES, slow);
	if (*fd < 0)
		return NULL;
	p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (p == MAP_FAILED ||
	    mp_old_bind(p + from, HALF, MPOL_BIND, 1UL << slow, 0))
		return NULL;
	return p;
}

/* Keep the bound half hot until a canary has gone up, three times over. */
static int hot(enum fo_kind kind, const struct use *u)
{
	int slow = mt_slow_node(), fd;
	char *p, *q;
	bool stayed;

	p = bound(kind, u->from, &fd);
	MT_ASSERT(p, "no file on the slow node");
	q = u->same ? p : mmap(NULL, SIZE, PROT_READ, u->flags, fd, 0);
	MT_ASSERT(q != MAP_FAILED, "mmap");
	if (!u->same)
		munmap(p, SIZE);
	mt_fast();
	mt_on();
	stayed = mt_stays(q + u->from, HALF, slow);
	mt_off();
	mt_note("%s, %s half, used by %s: %ld of %ld bound pages are left on slow memory",
		kind == FO_SHMEM ? "tmpfs" : "ext4", u->from ? "second" : "first", u->what,
		mt_pages_on(q + u->from, HALF, slow), PAGES / 2);
	munmap(q, SIZE);
	close(fd);
	return stayed ? MT_PASS : MT_FAIL;
}

static int promotion(enum fo_kind kind)
{
	int ret = MT_PASS;
	size_t i;

	MT_NEED(kind == FO_SHMEM || mt_ext4(), "no ext4 on a loop device");
	MT_NEED(!mt_write(FO_POLICY, "1"), "no CONFIG_MAPPED_FILE_POLICY");
	for (i = 0; i < ARRAY_LEN(uses); i++)
		if (hot(kind, &uses[i]))
			ret = MT_FAIL;
	return ret;
}

static int promotion_shmem(void)
{
	return promotion(FO_SHMEM);
}

static int promotion_disk(void)
{
	return promotion(FO_DISK);
}

#define SHMEM_HUGE	"/sys/kernel/mm/transparent_hugepage/shmem_enabled"

/* At an address where one entry can map all of it */
static char *map_huge(int fd)
{
	char *p = mt_map_aligned(MT_HUGE);

	p = mmap(p, MT_HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	return p == MAP_FAILED || madvise(p, MT_HUGE, MADV_HUGEPAGE) ? NULL : p;
}

/* A file that is one huge page on slow memory */
static char *huge_file(int *fd)
{
	char *p;

	*fd = fo_new(FO_SHMEM);
	p = ftruncate(*fd, MT_HUGE) ? NULL : map_huge(*fd);
	if (!p || mt_bind_to(mt_slow_node()))
		return NULL;
	mt_touch(p, MT_HUGE, true);
	mt_bind_default();
	return mt_is_thp(p) && mt_all_on(p, MT_HUGE, mt_slow_node()) ? p : NULL;
}

/* Half of it is bound, from @from on; it moves as a whole or not at all. */
static int huge_half(size_t from)
{
	int slow = mt_slow_node(), fd;
	char *p, *q;
	long left;

	p = huge_file(&fd);
	MT_ASSERT(p, "no huge page on the slow node");
	MT_ASSERT(!mp_old_bind(p + from, MT_HUGE / 2, MPOL_BIND, 1UL << slow, 0),
		  "mbind");
	q = map_huge(fd);
	MT_ASSERT(q, "mmap");
	munmap(p, MT_HUGE);
	mt_fast();
	mt_on();
	mt_stays(q + from, MT_HUGE / 2, slow);
	mt_off();
	left = mt_pages_on(q + from, MT_HUGE / 2, slow);
	mt_note("a huge page, %s half bound: %ld of 256 bound pages are left on slow memory",
		from ? "second" : "first", left);
	munmap(q, MT_HUGE);
	close(fd);
	return left == 256 ? MT_PASS : MT_FAIL;
}

static int huge(void)
{
	int ret;

	MT_NEED(!access(SHMEM_HUGE, W_OK), "no huge pages in tmpfs");
	ret = mt_write(SHMEM_HUGE, "advise");
	MT_NEED(!ret, "no huge pages in tmpfs: %d", ret);
	ret = huge_half(0) | huge_half(MT_HUGE / 2);
	mt_write(SHMEM_HUGE, "never");
	return ret;
}

/* What a private mapping has copied is anonymous, and goes up as such. */
static int copies(void)
{
	int slow = mt_slow_node(), fd;
	char *p, *q;

	MT_NEED(mt_ext4(), "no ext4 on a loop device");
	MT_NEED(!mt_write(FO_POLICY, "1"), "no CONFIG_MAPPED_FILE_POLICY");
	p = bound(FO_DISK, 0, &fd);
	MT_ASSERT(p, "no file on the slow node");
	munmap(p, SIZE);
	q = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	MT_ASSERT(q != MAP_FAILED && !mt_bind_to(slow), "mmap");
	mt_touch(q, SIZE, true);
	MT_ASSERT(!mt_bind_default() && mt_all_on(q, SIZE, slow),
		  "the copies are not on the slow node");
	mt_fast();
	mt_on();
	MT_ASSERT(mt_moves_to(q, SIZE, mt_fast_node(), MT_MOVE_MS),
		  "copies of bound pages stayed");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("promotion leaves a bound part of a tmpfs file",
			 promotion_shmem),
		MT_CHECK("promotion leaves a bound part of a file on a disk",
			 promotion_disk),
		MT_CHECK("promotion leaves a huge page that is bound in part", huge),
		MT_CHECK("promotion takes private copies of bound pages", copies),
	};

	return fo_main(checks, ARRAY_LEN(checks));
}
