// SPDX-License-Identifier: GPL-2.0
/*
 * Bursts: the Accessed bits that looks clear are missed by nobody, no other bit
 * changes, and no TLB hides an access from them.
 *
 * lab: topology=dram-cxl icount=2 timeout=400s debug=no
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "burst_util.h"

#define PAGES	64
#define SIZE	(PAGES * MT_PAGE)

#define SOFT_DIRTY	(1ULL << 55)
#define UFFD_WP		(1ULL << 57)

/* smaps asks the Accessed bit and the young flag, as reclaim does. */
static int referenced(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	long kb;

	MT_ASSERT(p, "no memory on the slow node");
	MT_ASSERT(!mt_write("/proc/self/clear_refs", "1"), "clear_refs");
	kb = mt_smaps_kb(p, "Referenced");
	MT_ASSERT(!kb, "%ld KiB are referenced after clear_refs", kb);
	MT_ASSERT(mt_used_and_looked_at(p, SIZE), "not looked at");
	kb = mt_smaps_kb(p, "Referenced");
	MT_ASSERT(kb >= (long)(SIZE >> 10), "%ld of %ld KiB are referenced", kb,
		  (long)(SIZE >> 10));
	return MT_PASS;
}

static int count_bit(const char *p, uint64_t bit)
{
	int i, n = 0;

	for (i = 0; i < PAGES; i++)
		n += !!(mt_pagemap(p + i * MT_PAGE) & bit);
	return n;
}

/* Have it promoted. */
static bool comes_up(char *p)
{
	return !mt_bursts_on() && mt_moves_to(p, SIZE, mt_fast_node(), 120000);
}

static int soft_dirty(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	int i;

	MT_ASSERT(p, "no memory on the slow node");
	MT_ASSERT(!mt_write("/proc/self/clear_refs", "4"), "clear_refs");
	for (i = 0; i < PAGES / 2; i++)
		p[i * MT_PAGE] = 1;
	MT_ASSERT(count_bit(p, SOFT_DIRTY) == PAGES / 2, "%d are soft-dirty",
		  count_bit(p, SOFT_DIRTY));
	MT_ASSERT(mt_used_and_looked_at(p, SIZE), "not looked at");
	MT_ASSERT(count_bit(p, SOFT_DIRTY) == PAGES / 2,
		  "after looks %d are soft-dirty", count_bit(p, SOFT_DIRTY));
	MT_ASSERT(comes_up(p), "not promoted");
	/* Migration may mark more (it does for dirty pages), but none less. */
	MT_ASSERT(count_bit(p, SOFT_DIRTY) >= PAGES / 2,
		  "after promotion %d are soft-dirty",
		  count_bit(p, SOFT_DIRTY));
	return MT_PASS;
}

static int uffd_wp(void)
{
	struct uffdio_api api = {
		.api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP,
	};
	struct uffdio_writeprotect wp = { .mode = UFFDIO_WRITEPROTECT_MODE_WP };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_WP };
	char *p = mt_place(SIZE, mt_slow_node());
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);

	MT_ASSERT(p, "no memory on the slow node");
	MT_NEED(fd >= 0 && !ioctl(fd, UFFDIO_API, &api), "no userfaultfd");
	reg.range.start = (uintptr_t)p;
	reg.range.len = SIZE;
	wp.range = reg.range;
	MT_NEED(!ioctl(fd, UFFDIO_REGISTER, &reg), "no write-protect mode");
	MT_NEED(!ioctl(fd, UFFDIO_WRITEPROTECT, &wp), "cannot protect");
	MT_ASSERT(count_bit(p, UFFD_WP) == PAGES, "%d are protected",
		  count_bit(p, UFFD_WP));
	MT_ASSERT(comes_up(p), "not promoted");
	MT_ASSERT(count_bit(p, UFFD_WP) == PAGES,
		  "after promotion %d are protected", count_bit(p, UFFD_WP));
	return MT_PASS;
}

/*
 * Pages so hot that their translations never leave the TLB by themselves. Others do
 * flush it: the guest's init once a second, where it happens to beat on that CPU.
 * So it is not enough to see them now and then: most of the time each look has to.
 */
static int spinning(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	struct mt_toucher t;
	long sum[3] = { };
	bool passed = true;
	int i, c;

	MT_ASSERT(p, "no memory on the slow node");
	t = (struct mt_toucher) {
		.p = p, .size = SIZE, .step = MT_PAGE, .cpu = 1,
	};
	mt_run_on_cpu(0);
	mt_toucher_run(&t);
	if (mt_observe_on())
		return MT_FAIL;
	for (i = 0; passed && i < 20; i++) {
		passed = mt_bursts_pass(1);
		for (c = 0; c <= 2; c++)
			sum[c] += mt_burst_counted(2, "low", c);
	}
	mt_touch_stop(&t);
	mt_off();
	mt_note("%ld, %ld, %ld pages accessed in 0, 1, 2 of 2 looks", sum[0],
		sum[1], sum[2]);
	MT_ASSERT(passed, "not enough bursts");
	MT_ASSERT(sum[2] >= PAGES, "they were never seen in both looks");
	MT_ASSERT(sum[2] > 2 * sum[1], "looks have missed them");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("A11 who asks for referenced pages learns of an access",
			 referenced),
		MT_CHECK("A11 soft-dirty bits survive looks and promotion",
			 soft_dirty),
		MT_CHECK("A11 userfaultfd's write protection survives promotion",
			 uffd_wp),
		MT_CHECK("A3 A11 pages that never leave the TLB are found in use",
			 spinning),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
