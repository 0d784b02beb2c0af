// SPDX-License-Identifier: GPL-2.0
/*
 * Hotness: a program that is larger than what is looked at in one go, and DRAM is
 * full of what another one does not use.  All that is hot of it comes, however long
 * the scanner takes to see the whole of it.  The knobs are as after boot.  So is
 * kswapd, which a program before it may have made give up.
 *
 * lab: topology=dram-cxl-small-dram icount=2 boot=own timeout=900s debug=no
 */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mtier_util.h"

#define DEMOTION	"/sys/kernel/mm/numa/demotion_enabled"

/* Several times what a scan armed before it waited, and what a window is long */
#define LARGE	(1400 * MT_MB)
#define NTH	20

static long hot_on(const char *p, int node)
{
	enum { CHUNK = 512 };
	const void *at[CHUNK];
	int status[CHUNK], i, n;
	size_t off = 0;
	long sum = 0;

	while (off < LARGE) {
		for (n = 0; n < CHUNK && off < LARGE; off += NTH * MT_PAGE)
			at[n++] = p + off;
		if (syscall(SYS_move_pages, 0, n, at, NULL, status, 0))
			return -1;
		for (i = 0; i < n; i++)
			sum += status[i] == node;
	}
	return sum;
}

/* Whoever was here first, and is idle since; it says when it is. */
static void idler(void *arg)
{
	const size_t most = 1024 * MT_MB;
	char *p = mt_map_aligned(most);
	int *ready = arg;
	char byte;

	mt_set_policy(MPOL_PREFERRED, 1UL << mt_fast_node());
	byte = p && mt_use_free(p, most, mt_fast_node()) < most;
	if (write(ready[1], &byte, 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static int all_hot_pages_come(void)
{
	long hot_pages = (LARGE / MT_PAGE + NTH - 1) / NTH, come = 0;
	struct mt_snap before;
	struct mt_toucher t;
	long long start;
	char byte = 0;
	int ready[2];
	pid_t pid;
	char *p;

	MT_ASSERT(!pipe(ready), "pipe");
	pid = mt_spawn(idler, ready);
	MT_ASSERT(read(ready[0], &byte, 1) == 1 && byte, "DRAM cannot be filled");
	/* Now, not before: what a child has inherited is shared copy-on-write. */
	p = mt_place(LARGE, mt_slow_node());
	MT_NEED(p, "not so much memory on the slow node");
	mt_knobs_default();
	mt_write(DEMOTION, "1");
	mt_snap(&before);
	t = (struct mt_toucher) {
		.p = p, .size = LARGE, .step = NTH * MT_PAGE, .rest_ms = 120,
		.cpu = -1,
	};
	mt_toucher_run(&t);
	mt_on();
	start = mt_now_ms();
	(void)MT_WAIT(({
		mt_nap(1000);
		come = hot_on(p, mt_fast_node());
		come >= hot_pages * 98 / 100;
	}), 120000);
	mt_note("%ld of %ld hot pages in DRAM after %lld ms", come, hot_pages,
		mt_now_ms() - start);
	mt_touch_stop(&t);
	mt_kill(pid);
	mt_note_since(&before);
	MT_ASSERT(come >= hot_pages * 98 / 100, "they do not come");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("H1 H5 all hot pages of a large program come into a full DRAM",
			 all_hot_pages_come),
	};

	return mt_main(checks, ARRAY_LEN(checks));
}
