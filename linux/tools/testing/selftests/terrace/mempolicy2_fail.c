// SPDX-License-Identifier: GPL-2.0
/*
 * Selftest helpers: make allocations of this thread fail, one at a time. Needs
 * CONFIG_FAILSLAB, CONFIG_FAIL_PAGE_ALLOC and their files in debugfs.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/rseq.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mempolicy2_util.h"
#include "mtier_util.h"

static int nth_fd = -1;

/*
 * Pages fail too, or slabs only. The pages that a call needs depend on earlier calls (a
 * slab that is full, a stack trace seen for the first time), so "the nth" is a different
 * one each time. The slabs that it needs do not, without those that the kernel's checks
 * use for themselves.
 */
bool mp_fail_pages(bool on)
{
	return !mt_write("/sys/kernel/debug/fail_page_alloc/min-order",
			 on ? "0" : "20");
}

/* Only slabs that a call allocates from are counted, and fail. */
static bool choose_slabs(void)
{
	DIR *dir = opendir("/sys/kernel/slab");
	struct dirent *entry;
	char path[320];
	int chosen = 0;

	while (dir && (entry = readdir(dir))) {
		bool own = strncmp(entry->d_name, "kmemleak", 8) &&
			   strncmp(entry->d_name, "debug_objects", 13);

		snprintf(path, sizeof(path), "/sys/kernel/slab/%s/failslab",
			 entry->d_name);
		chosen += !mt_write(path, own ? "1" : "0");
	}
	if (dir)
		closedir(dir);
	return chosen > 0;
}

/*
 * If the kernel cannot allocate a page while it writes the thread's rseq area, after a
 * fork, the thread gets a SIGSEGV: not the subject of this test.
 */
static void leave_rseq(void)
{
	struct rseq *area = (void *)((char *)__builtin_thread_pointer() +
				     __rseq_offset);

	if (__rseq_size)
		syscall(SYS_rseq, area, sizeof(*area), RSEQ_FLAG_UNREGISTER,
			RSEQ_SIG);
}

/* Skip if allocations cannot be made to fail; MT_PASS if they can. */
int mp_fail_prepare(void)
{
	static const struct {
		const char *file;
		const char *value;
	} knobs[] = {
		{ "failslab/ignore-gfp-wait", "N" },
		{ "failslab/verbose", "0" },
		{ "failslab/cache-filter", "Y" },
		{ "fail_page_alloc/ignore-gfp-wait", "N" },
		{ "fail_page_alloc/ignore-gfp-highmem", "N" },
		{ "fail_page_alloc/verbose", "0" },
	};
	char file[96];
	size_t i;

	nth_fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	MT_NEED(nth_fd >= 0, "no allocation can be made to fail here");
	for (i = 0; i < ARRAY_LEN(knobs); i++) {
		snprintf(file, sizeof(file), "/sys/kernel/debug/%s",
			 knobs[i].file);
		MT_NEED(!mt_write(file, knobs[i].value), "no %s", file);
	}
	MT_NEED(mp_fail_pages(true), "no pages that fail");
	MT_NEED(choose_slabs(), "no slabs that fail");
	leave_rseq();
	return MT_PASS;
}

/* The @nth allocation from here on fails; 0 for none. */
void mp_fail(unsigned int nth)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", nth);

	if (pwrite(nth_fd, text, len, 0) != len)
		_exit(MT_FAIL);
}

/* Check whether an allocation has failed since. */
bool mp_has_failed(void)
{
	char text[16] = "";

	if (pread(nth_fd, text, sizeof(text) - 1, 0) <= 0)
		_exit(MT_FAIL);
	return !atoi(text);
}

/*
 * Make the call with its first allocation failing, its second, and so on, until there are
 * no more; at least @least of them make it fail. If the call works without an allocation,
 * that one may have been the kernel's own, made only this time before the intended one:
 * then repeat it.
 */
static int each_of(const struct mp_fail_call *c, int least)
{
	int refused = 0, survived = 0, again = 0;
	unsigned int nth;

	for (nth = 1; nth < MP_FAIL_MOST; nth++) {
		bool failed;
		long ret;

		c->begin();
		mp_fail(nth);
		ret = c->call();
		failed = mp_has_failed();
		mp_fail(0);
		if (!failed) {
			MT_ASSERT(!ret, "%s: %ld with memory", c->what, ret);
			break;
		}
		MT_ASSERT(!ret || ret == -ENOMEM, "%s: %ld when %u failed",
			  c->what, ret, nth);
		MT_ASSERT(!ret || c->unchanged(), "%s: changed when %u failed",
			  c->what, nth);
		*(ret ? &refused : &survived) += 1;
		again = ret || again == 2 ? 0 : again + 1;
		nth -= again > 0;
	}
	mt_note("%s: ENOMEM %d times, did without %d times", c->what, refused,
		survived);
	MT_ASSERT(nth < MP_FAIL_MOST, "%s: no end", c->what);
	MT_ASSERT(refused >= least, "%s: less than %d", c->what, least);
	return MT_PASS;
}

/* The same with pages, and then with slabs only, whose number is known. */
int mp_fail_each(const struct mp_fail_call *c, int least)
{
	int ret = each_of(c, 0);

	mp_fail_pages(false);
	if (!ret)
		ret = each_of(c, least);
	mp_fail_pages(true);
	return ret;
}

/* A call for that: fork a child that exits at once. */
long mp_fail_fork(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	if (pid < 0)
		return -errno;
	waitpid(pid, NULL, 0);
	return 0;
}
