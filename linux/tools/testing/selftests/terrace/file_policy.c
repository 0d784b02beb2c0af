// SPDX-License-Identifier: GPL-2.0
/*
 * Memory policies of mapped files: one process sets the policy, and page faults, read(),
 * write() and read-ahead of every process use it, until the inode is evicted.
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
#include <sys/syscall.h>
#include <unistd.h>

#include "mempolicy2_util.h"

#define SYSCTL	"/proc/sys/vm/mapped_file_policy"
#define DEBUG	"/sys/kernel/debug/file_policy/"

#define SIZE	MT_MB
#define PAGES	((long)(SIZE / MT_PAGE))
/* The part with a policy: the second quarter */
#define FROM	(SIZE / 4)
#define PART	(SIZE / 4)
#define PART_PAGES	((long)(PART / MT_PAGE))
#define SLOW	1
#define ON_SLOW	(1UL << SLOW)

static char path[160];

static const char *missing(void)
{
	return access(SYSCTL, F_OK) ? "no CONFIG_MAPPED_FILE_POLICY" : NULL;
}

static void reset(void)
{
	mt_write(SYSCTL, "0");
}

/* ---- the file ---- */

static char *map_as(int how, int prot, int flags)
{
	int fd = open(path, how | O_CLOEXEC);
	char *p = mmap(NULL, SIZE, prot, flags, fd, 0);

	close(fd);
	return p == MAP_FAILED ? NULL : p;
}

static char *map(void)
{
	return map_as(O_RDWR, PROT_READ | PROT_WRITE, MAP_SHARED);
}

/* Write the whole file from the start. */
static bool fill(void)
{
	static char text[SIZE];
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done;

	memset(text, 'x', SIZE);
	done = pwrite(fd, text, SIZE, 0) == (ssize_t)SIZE && !fsync(fd);
	close(fd);
	return done;
}

/* Drop its pages from memory, but keep the inode. */
static bool uncache(void)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool done = !fsync(fd) && !posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);

	close(fd);
	return done;
}

/* Create a file on a disk without pages in memory, and run this process on node 0. */
static bool make(const char *on)
{
	const char *dir = mt_ext4();
	int fd;

	if (!dir || mt_write(SYSCTL, on) || mt_run_on_cpu(0))
		return false;
	snprintf(path, sizeof(path), "%s/policy", dir);
	unlink(path);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return false;
	close(fd);
	return fill() && uncache();
}

static bool bind_part(char *p, int mode, unsigned long nodes)
{
	return !mp_old_bind(p + FROM, PART, mode, nodes, 0);
}

/* ---- ways to read pages into memory ---- */

static int by_fault(void *arg)
{
	char *p = map();

	(void)arg;
	if (!p || madvise(p, SIZE, MADV_RANDOM))
		return MT_FAIL;
	mt_touch(p, SIZE, false);
	return MT_PASS;
}

static int by_read_ahead(void *arg)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	(void)arg;
	return fd < 0 || readahead(fd, 0, SIZE) ? MT_FAIL : MT_PASS;
}

static int by_read(void *arg)
{
	static char text[SIZE];
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	(void)arg;
	return pread(fd, text, SIZE, 0) == (ssize_t)SIZE ? MT_PASS : MT_FAIL;
}

static int by_write(void *arg)
{
	(void)arg;
	return !truncate(path, 0) && fill() ? MT_PASS : MT_FAIL;
}

static int by_private_fault(void *arg)
{
	char *p = map_as(O_RDONLY, PROT_READ, MAP_PRIVATE);

	(void)arg;
	if (!p)
		return MT_FAIL;
	mt_touch(p, SIZE, false);
	return MT_PASS;
}

/* Count the pages of the file on the slow node, for its part and the rest */
static void count(long *part, long *rest)
{
	char *p = map();

	*part = *rest = -1;
	if (!p)
		return;
	mt_touch(p, SIZE, false);
	*part = mt_pages_on(p + FROM, PART, SLOW);
	*rest = mt_pages_on(p, SIZE, SLOW) - *part;
	munmap(p, SIZE);
}

/* Another process reads the file: this number of pages is on the slow node. */
static int brought(int (*by)(void *), const char *what, long part)
{
	long in_part, in_rest;

	MT_ASSERT(!mp_in_child(by, NULL), "%s: could not", what);
	count(&in_part, &in_rest);
	MT_ASSERT(in_part == part && !in_rest,
		  "%s: %ld pages of the part and %ld of the rest on the slow node, not %ld and 0",
		  what, in_part, in_rest, part);
	MT_ASSERT(uncache(), "cannot drop the pages");
	return MT_PASS;
}

/* ---- checks ---- */

static int off_is_as_ever(void)
{
	char *p;

	MT_NEED(make("0"), "no ext4 on a loop device");
	p = map();
	MT_ASSERT(p && bind_part(p, MPOL_BIND, ON_SLOW), "mbind");
	return brought(by_fault, "fault", 0) ?: brought(by_read, "read", 0);
}

static int everybody_goes_by_it(void)
{
	char *p;

	MT_NEED(make("1"), "no ext4 on a loop device");
	p = map();
	MT_ASSERT(p && bind_part(p, MPOL_BIND, ON_SLOW), "mbind");
	if (brought(by_fault, "fault", PART_PAGES) ||
	    brought(by_private_fault, "private fault", PART_PAGES) ||
	    brought(by_read, "read", PART_PAGES) ||
	    brought(by_read_ahead, "readahead", PART_PAGES))
		return MT_FAIL;
	/* The process that set the policy may exit. */
	munmap(p, SIZE);
	return brought(by_write, "write", PART_PAGES) ?:
	       brought(by_read, "read after truncation", PART_PAGES);
}

/* The policy that a process without policy calls reads for the file */
static int told(void *arg)
{
	int fd = open(path, O_RDWR | O_CLOEXEC), mode = -1;
	unsigned long nodes = 0;
	char line[256];
	char *p;

	(void)arg;
	p = mmap(NULL, PART, PROT_READ, MAP_SHARED, fd, FROM);
	MT_ASSERT(p != MAP_FAILED, "mmap");
	MT_ASSERT(!syscall(SYS_get_mempolicy, &mode, &nodes, 64UL, p,
			   MPOL_F_ADDR), "get_mempolicy");
	MT_ASSERT(mode == MPOL_BIND && nodes == ON_SLOW, "mode %d, nodes %lx",
		  mode, nodes);
	mt_touch(p, PART, false);
	MT_ASSERT(mp_numa_maps(p, line, sizeof(line)), "not in numa_maps");
	MT_ASSERT(strstr(line, " bind:1 "), "numa_maps: %s", line);
	return MT_PASS;
}

static int everybody_sees_it(void)
{
	char *p;

	MT_NEED(make("1"), "no ext4 on a loop device");
	p = map();
	MT_ASSERT(p && bind_part(p, MPOL_BIND, ON_SLOW), "mbind");
	return mp_in_child(told, NULL);
}

static int takes_back(void *arg)
{
	char *p = map();

	(void)arg;
	return p && bind_part(p, MPOL_DEFAULT, 0) ? MT_PASS : MT_FAIL;
}

/* Its own mapping has had the policy all the time, which does not matter. */
static int the_last_word_holds(void)
{
	char *p;

	MT_NEED(make("1"), "no ext4 on a loop device");
	p = map();
	MT_ASSERT(p && bind_part(p, MPOL_BIND, ON_SLOW), "mbind");
	MT_ASSERT(!mp_in_child(takes_back, NULL), "mbind in another process");
	if (brought(by_fault, "taken back by another process", 0))
		return MT_FAIL;
	MT_ASSERT(bind_part(p, MPOL_BIND, ON_SLOW), "mbind again");
	return brought(by_fault, "set again", PART_PAGES);
}

/* A process that may not write to the file does not set its policy. */
static int readers_have_no_say(void)
{
	char *p;

	MT_NEED(make("1"), "no ext4 on a loop device");
	p = map_as(O_RDONLY, PROT_READ, MAP_SHARED);
	MT_ASSERT(p && bind_part(p, MPOL_BIND, ON_SLOW), "mbind");
	if (brought(by_fault, "bound by a reader", 0))
		return MT_FAIL;
	p = map_as(O_RDWR, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	MT_ASSERT(p && bind_part(p, MPOL_BIND, ON_SLOW), "mbind");
	return brought(by_fault, "bound by who copies", 0);
}

static int weights_hold(void)
{
	long part, rest, ret;
	char *p;

	MT_NEED(make("1"), "no ext4 on a loop device");
	p = map();
	MT_ASSERT(p, "mmap");
	ret = mp_bind(p, SIZE, "0:3,1:1", 0);
	MT_ASSERT(!ret, "mbind2: %ld", ret);
	MT_ASSERT(!mp_in_child(by_read, NULL), "read");
	count(&part, &rest);
	MT_ASSERT(labs(part + rest - PAGES / 4) <= 1,
		  "%ld of %ld pages on the slow node", part + rest, PAGES);
	return MT_PASS;
}

/* Pages in memory move if the call requests it. */
static int pages_move(void)
{
	char *p;

	MT_NEED(make("1"), "no ext4 on a loop device");
	p = map();
	MT_ASSERT(p, "mmap");
	mt_touch(p, SIZE, false);
	MT_ASSERT(!mp_old_bind(p + FROM, PART, MPOL_BIND, ON_SLOW, MPOL_MF_MOVE),
		  "mbind");
	MT_ASSERT(mt_pages_on(p, SIZE, SLOW) == PART_PAGES,
		  "%ld pages on the slow node", mt_pages_on(p, SIZE, SLOW));
	return MT_PASS;
}

static long long files(void)
{
	return mt_read_ll(DEBUG "files");
}

/* The policies are freed with the inode; reading the file again does not restore them. */
static int gone_with_the_inode(void)
{
	long long before;
	char *p;

	MT_NEED(files() >= 0, "no " DEBUG "files");
	MT_NEED(make("1"), "no ext4 on a loop device");
	before = files();
	p = map();
	MT_ASSERT(p && bind_part(p, MPOL_BIND, ON_SLOW), "mbind");
	MT_ASSERT(files() == before + 1, "%lld files have policies, not %lld",
		  files(), before + 1);
	munmap(p, SIZE);
	MT_ASSERT(uncache(), "cannot drop the pages");
	MT_ASSERT(MT_WAIT(!mt_write("/proc/sys/vm/drop_caches", "3") &&
			  files() == before, 4000), "the policy outlives it");
	return brought(by_read, "after it was gone", 0);
}

/* An open file keeps its inode, even if caches are dropped */
static int open_it_stays(void)
{
	int fd, i;
	char *p;

	MT_NEED(make("1"), "no ext4 on a loop device");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	p = map();
	MT_ASSERT(fd >= 0 && p && bind_part(p, MPOL_BIND, ON_SLOW), "mbind");
	munmap(p, SIZE);
	MT_ASSERT(uncache(), "cannot drop the pages");
	for (i = 0; i < 20; i++)
		MT_ASSERT(!mt_write("/proc/sys/vm/drop_caches", "3"), "cannot drop");
	if (brought(by_read, "while it is open", PART_PAGES))
		return MT_FAIL;
	close(fd);
	return MT_PASS;
}

/* ---- races ---- */

/* Set or remove the policy of one of the part's pages. */
static void binds(void *arg)
{
	unsigned int n = getpid();
	char *p = map();

	(void)arg;
	while (p) {
		n = n * 1103515245 + 12345;
		mp_old_bind(p + (n >> 16) % PAGES * MT_PAGE, MT_PAGE,
			    n & 256 ? MPOL_BIND : MPOL_DEFAULT,
			    n & 256 ? 1UL << (n >> 9 & 1) : 0, 0);
	}
}

static void reads(void *arg)
{
	(void)arg;
	while (!by_read(NULL) && !by_fault(NULL))
		uncache();
}

/* Files with policies are created and removed. */
static int come_and_go(void *arg)
{
	char name[200];
	int fd, i;

	(void)arg;
	for (i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "%s.%d", path, i);
		fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		unlink(name);
		if (fd < 0 || ftruncate(fd, MT_PAGE))
			return MT_FAIL;
		mp_old_bind(mmap(NULL, MT_PAGE, PROT_WRITE, MAP_SHARED, fd, 0),
			    MT_PAGE, MPOL_BIND, ON_SLOW, 0);
		close(fd);
	}
	return MT_PASS;
}

static int race(void)
{
	int i, ret = MT_PASS;
	long long before;
	pid_t pid[3];

	MT_NEED(make("1"), "no ext4 on a loop device");
	before = files();
	for (i = 0; i < 3; i++)
		pid[i] = mt_spawn(i < 2 ? binds : reads, NULL);
	for (i = 0; i < 5 && !ret; i++) {
		ret = mp_in_child(come_and_go, NULL);
		mt_write(SYSCTL, i % 2 ? "1" : "0");
	}
	for (i = 0; i < 3; i++)
		mt_kill(pid[i]);
	MT_ASSERT(!ret, "files could not be made");
	unlink(path);
	MT_ASSERT(MT_WAIT(files() == before, 10000),
		  "%lld files have policies, not %lld", files(), before);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("R23 switched off it is as ever", off_is_as_ever),
		MT_CHECK("R23 page faults, read-ahead, read and write go by it",
			 everybody_goes_by_it),
		MT_CHECK("R23 numa_maps and get_mempolicy tell everybody",
			 everybody_sees_it),
		MT_CHECK("R23 whoever set it last is obeyed",
			 the_last_word_holds),
		MT_CHECK("R23 who cannot write has no say",
			 readers_have_no_say),
		MT_CHECK("R23 weights", weights_hold),
		MT_CHECK("R23 pages that are there move when asked", pages_move),
		MT_CHECK("R23 it is gone with the inode", gone_with_the_inode),
		MT_CHECK("R23 it stays while the file is open", open_it_stays),
		MT_CHECK("R26 files come and go while policies change", race),
	};
	static const struct mt_suite suite = {
		.missing = missing,
		.reset = reset,
	};

	return mt_run_suite(&suite, checks, ARRAY_LEN(checks));
}
