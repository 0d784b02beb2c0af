// SPDX-License-Identifier: GPL-2.0
/*
 * Selftest helpers: memory whose Accessed bits the scanner clears but that stays
 * where it is, for checks of who else asks them.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* ---- /sys/kernel/mm/page_idle ---- */

static bool idle_word(uint64_t pfn, bool write, uint64_t *word)
{
	int fd = open("/sys/kernel/mm/page_idle/bitmap",
		      (write ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
	off_t at = pfn / 64 * 8;
	ssize_t n = write ? pwrite(fd, word, 8, at) : pread(fd, word, 8, at);

	close(fd);
	return n == 8;
}

/* How many pages the idle bitmap calls idle. */
int mt_idle_count(const char *p, size_t size)
{
	const char *end = p + size;
	int idle = 0;

	for (; p < end; p += MT_PAGE) {
		uint64_t word = 0, pfn = mt_pfn(p);

		idle += idle_word(pfn, false, &word) && word >> pfn % 64 & 1;
	}
	return idle;
}

/* Mark all; those that are on no LRU list yet cannot be. How many are, or -1. */
int mt_idle_mark(const char *p, size_t size)
{
	size_t at;

	for (at = 0; at < size; at += MT_PAGE) {
		uint64_t pfn = mt_pfn(p + at), word = 1ULL << pfn % 64;

		if (!idle_word(pfn, true, &word))
			return -1;
	}
	return mt_idle_count(p, size);
}
