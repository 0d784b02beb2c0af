// SPDX-License-Identifier: GPL-2.0
/*
 * Selftest helpers: memory whose Accessed bits the scanner clears but that stays
 * where it is, for checks of who else asks them.
 */
#include <sys/mman.h>

#include "mtier_util.h"

/* Memory on the slow node that is scanned and never gets hot enough to move. */
void *mt_watched(size_t size)
{
	mt_fast();
	mt_set("hot/room_percent", 100);
	mt_set("hot/accesses", 15);
	mt_set("hot/window_ms", 100);
	return mt_place(size, mt_slow_node());
}

/* No TLB may know of the pages, or using them sets no bit. */
void mt_flush(void *p, size_t size)
{
	mprotect(p, size, PROT_NONE);
	mprotect(p, size, PROT_READ | PROT_WRITE);
}

/* Use the memory once and let the scanner see, and clear, all of it. */
bool mt_used_and_scanned(void *p, size_t size)
{
	long long pages = size / MT_PAGE;
	struct mt_snap before;
	bool seen;

	mt_flush(p, size);
	mt_snap(&before);
	mt_touch(p, size, false);
	mt_on();
	seen = MT_WAIT(mt_since(&before, "mtier_young_slow") >= pages, 5000);
	mt_off();
	if (!seen)
		mt_note("the scanner saw %lld accesses",
			mt_since(&before, "mtier_young_slow"));
	return seen;
}
