// SPDX-License-Identifier: GPL-2.0
/*
 * Selftest helpers: memory whose next access sets its Accessed bits, and the state of
 * these pages in the idle bitmap, for checks of other users of Accessed bits.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mtier_util.h"

/* Flush the pages from all TLBs, so that an access sets the Accessed bit. */
void mt_flush(void *p, size_t size)
{
	mprotect(p, size, PROT_NONE);
	mprotect(p, size, PROT_READ | PROT_WRITE);
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

/* Count the pages that the idle bitmap reports as idle. */
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

/*
 * Mark all pages idle; pages that are on no LRU list yet cannot be marked. Returns the
 * number of idle pages, or -1.
 */
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
