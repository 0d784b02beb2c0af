// SPDX-License-Identifier: GPL-2.0
/*
 * Races with pages that migrate by address space (promote/move_fast). One thread moves
 * pages back to slow memory all the time, so that promotion continues. Others write, and
 * check that each word has the value of their last write. One makes concurrent changes of
 * entries and pages. F5 and so on are the hazards of Documentation/mm/mtier.rst; KUnit's
 * mtier_move_fast tests those that a race may miss.
 *
 * Each check runs for RACE_MS, times terrace_stretch(), and prints how many words were
 * compared: a check without comparisons or without migrations fails.
 *
 * lab: topology=dram-cxl cpus=4 timeout=600s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mtier_util.h"

/* More than a flight, and more than a range. */
#define SIZE	(6 * MT_MB)
#define PAGES	(SIZE / MT_PAGE)
/* Memory of short-lived processes. */
#define OWN	MT_MB
#define CHUNK	64
#define WORDS	(MT_PAGE / sizeof(long))
#define WRITERS	3
#define RACE_MS	4000
#define AGAIN	100	/* naps */

static char *area;
static atomic_bool stop;
static atomic_long compared, wrong;
static volatile long *first_wrong;

static volatile long *word(unsigned long page, unsigned long nr)
{
	return (volatile long *)(area + page * MT_PAGE) + nr;
}

static void compare(volatile long *at, long is, long want)
{
	atomic_fetch_add(&compared, 1);
	if (is != want && !atomic_fetch_add(&wrong, 1))
		first_wrong = at;
}

static unsigned long roll(unsigned int *seed, unsigned long n)
{
	return ((unsigned long)rand_r(seed) << 15 ^ rand_r(seed)) % n;
}

/* Move some pages back to the node that they are promoted from. */
static void *pushing(void *arg)
{
	int slow = mt_slow_node(), nodes[CHUNK], status[CHUNK], i;
	unsigned int seed = 1;
	void *pages[CHUNK];

	(void)arg;
	while (!stop) {
		unsigned long from = roll(&seed, PAGES - CHUNK);

		for (i = 0; i < CHUNK; i++) {
			pages[i] = area + (from + i) * MT_PAGE;
			nodes[i] = slow;
		}
		syscall(SYS_move_pages, 0, CHUNK, pages, nodes, status,
			2 /* MPOL_MF_MOVE */);
	}
	return NULL;
}

/* Write the thread's own pages; their contents must be those written last. */
static void *writing(void *arg)
{
	unsigned long me = (unsigned long)arg, page;
	long round;

	for (round = 1; !stop; round++) {
		for (page = me; page < PAGES; page += WRITERS) {
			volatile long *first = word(page, 0);
			volatile long *last = word(page, WORDS - 1);

			if (round > 1) {
				compare(first, *first, (round - 1) * PAGES + page);
				compare(last, *last, -(round - 1));
			}
			*first = round * PAGES + page;
			*last = -round;
		}
	}
	return NULL;
}

/* Common parts of all checks. */
/* Flushes are deferred in this check. */
static bool waiting;

/* Check whether the race still has to run. */
static bool goes_on(const struct mt_race *r, unsigned int ms)
{
	return mt_race_goes_on(r, ms) ||
	       (waiting && !mt_since(&r->before, "mtier_fast_deferred") &&
		mt_now_ms() - r->start_ms < MT_MOVE_MS);
}

static int race(void *(*adversary)(void *), unsigned long writers)
{
	unsigned int ms = RACE_MS * terrace_stretch();
	pthread_t push, write[WRITERS], other;
	struct mt_race r;
	unsigned long i, naps = 0;
	long long moved;

	area = mt_place(SIZE, mt_slow_node());
	MT_ASSERT(area, "no memory on the slow node");
	mt_race_begin(&r);
	pthread_create(&push, NULL, pushing, NULL);
	for (i = 0; i < writers; i++)
		pthread_create(&write[i], NULL, writing, (void *)i);
	if (adversary)
		pthread_create(&other, NULL, adversary, NULL);
	while (goes_on(&r, ms) && !wrong) {
		mt_nap(10);
		/* Restart: bursts at rest may miss pages that the first bursts find. */
		if (++naps % AGAIN == 0 &&
		    !mt_since(&r.before, "mtier_fast_moved"))
			mt_race_again();
	}
	stop = true;
	if (adversary)
		pthread_join(other, NULL);
	for (i = 0; i < writers; i++)
		pthread_join(write[i], NULL);
	pthread_join(push, NULL);
	moved = mt_since(&r.before, "mtier_fast_moved");
	mt_note("%ld words compared, %lld pages moved by address space, %lld busy",
		compared, moved, mt_since(&r.before, "mtier_fast_busy"));
	MT_DATA(!wrong, "%ld words, the first at %p", wrong,
		(void *)first_wrong);
	MT_ASSERT(compared > 0, "nothing was compared");
	MT_ASSERT(moved > 0, "nothing moved this way");
	return mt_race_end(&r);
}

static int no_write_is_lost(void)
{
	return race(NULL, WRITERS);
}

/* ---- deferred flushes, see tlb_defer_flight.c ---- */

#define DEFER	"/sys/kernel/mm/tlb_defer/mode"

/* The flush of memory without writable entries may be deferred. */
static void write_protect(void)
{
	if (!mt_fork_once())
		atomic_fetch_add(&wrong, 1);
}

static atomic_long said[PAGES];	/* least contents of each page */

static void *rereading(void *arg)
{
	unsigned long page;

	(void)arg;
	while (!stop) {
		for (page = 0; page < PAGES; page++) {
			long least = atomic_load(&said[page]);
			long is = *word(page, 1);

			compare(word(page, 1), is < least ? is : least, least);
		}
	}
	return NULL;
}

/* Write to some pages after all of them were only read for a time. */
static void *writing_rarely(void *arg)
{
	unsigned int seed = 7;
	pthread_t reader;
	long long until;
	long round;
	int i;

	(void)arg;
	pthread_create(&reader, NULL, rereading, NULL);
	for (round = 1; !stop; round++) {
		write_protect();
		mt_race_again();
		until = mt_now_ms() + 10 * (round % 16);
		while (mt_now_ms() < until && !stop)
			mt_touch(area, SIZE, false);
		for (i = 0; i < CHUNK; i++) {
			unsigned long page = roll(&seed, PAGES);

			*word(page, 1) = round;
			atomic_store(&said[page], round);
		}
	}
	pthread_join(reader, NULL);
	return NULL;
}

static int race_waiting(void *(*adversary)(void *), unsigned long writers)
{
	struct mt_snap before;
	int ret;

	MT_NEED(!mt_write(DEFER, "quarantine"), "no tlb_defer");
	waiting = true;
	mt_snap(&before);
	ret = race(adversary, writers);
	mt_write(DEFER, "off");
	mt_note("%lld pages waited for their flush, %lld flushes that others forced",
		mt_since(&before, "mtier_fast_deferred"),
		mt_since(&before, "tlb_defer_forced_write") +
		mt_since(&before, "tlb_defer_forced_unmap"));
	MT_ASSERT(mt_since(&before, "mtier_fast_deferred"), "none waited");
	return ret;
}

static int no_write_is_missed_while_flushes_wait(void)
{
	return race_waiting(writing_rarely, 0);
}

/* ---- MADV_DONTNEED: F5, F25 ---- */

static atomic_ulong watched;	/* page to be dropped */
static atomic_ulong known;	/* page that the reader has read, plus one */
static atomic_ulong dropped;	/* page that was dropped, plus one */

/* Read a page all the time, so that the TLB of this CPU holds it, until it is dropped. */
static void *seeing_it_go(void *arg)
{
	unsigned long gone, page;

	(void)arg;
	while (!stop) {
		page = atomic_load(&watched);
		(void)*word(page, 1);
		atomic_store(&known, page + 1);
		gone = atomic_load(&dropped);
		if (!gone)
			continue;
		compare(word(gone - 1, 1), *word(gone - 1, 1), 0);
		atomic_store(&dropped, 0);
	}
	return NULL;
}

static void drop(unsigned long page, long holds)
{
	atomic_store(&watched, page);
	while (atomic_load(&known) != page + 1 && !stop)
		;
	compare(word(page, 1), *word(page, 1), holds);
	madvise((void *)word(page, 0), MT_PAGE, MADV_DONTNEED);
	atomic_store(&dropped, page + 1);
	while (atomic_load(&dropped) && !stop)
		;
}

static void *dropping(void *arg)
{
	unsigned long page;
	pthread_t reader;
	long long until;
	long round;

	(void)arg;
	pthread_create(&reader, NULL, seeing_it_go, NULL);
	for (round = 1; !stop; round++) {
		/* The policy of a thread prevents promotion, so it is set for the faults only. */
		mt_bind_to(mt_slow_node());
		for (page = 0; page < PAGES; page++)
			*word(page, 1) = round;
		mt_bind_default();
		if (waiting)
			write_protect();
		/* Used for about the time that scans need to find it. */
		mt_race_again();
		until = mt_now_ms() + 10 * (round % 16);
		while (mt_now_ms() < until && !stop)
			for (page = 0; page < PAGES; page++)
				compare(word(page, 1), *word(page, 1), round);
		for (page = 0; page < PAGES && !stop; page++)
			drop(page, round);
	}
	pthread_join(reader, NULL);
	return NULL;
}

static int what_is_dropped_is_gone(void)
{
	return race(dropping, 0);
}

static int what_is_dropped_while_flushes_wait_is_gone(void)
{
	return race_waiting(dropping, 0);
}

/* ---- UFFDIO_WRITEPROTECT: F6 ---- */

static int uffd = -1;

static int protect(unsigned long from, unsigned long n, bool on)
{
	struct uffdio_writeprotect wp = {
		.range.start = (unsigned long)word(from, 0),
		.range.len = n * MT_PAGE,
		.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};

	return ioctl(uffd, UFFDIO_WRITEPROTECT, &wp);
}

/* While pages are write-protected, their contents do not change. */
static void *freezing(void *arg)
{
	unsigned int seed = 2;
	static long was[CHUNK];

	(void)arg;
	while (!stop) {
		unsigned long from = roll(&seed, PAGES - CHUNK), i, again;

		if (protect(from, CHUNK, true))
			atomic_fetch_add(&wrong, 1);
		for (i = 0; i < CHUNK; i++)
			was[i] = *word(from + i, 0);
		for (again = 0; again < 20; again++)
			for (i = 0; i < CHUNK; i++)
				compare(word(from + i, 0), *word(from + i, 0),
					was[i]);
		if (protect(from, CHUNK, false))
			atomic_fetch_add(&wrong, 1);
	}
	return NULL;
}

static void *write_protecting(void *arg)
{
	struct uffdio_register reg = {
		.range = { .start = (unsigned long)area, .len = SIZE },
		.mode = UFFDIO_REGISTER_MODE_WP,
	};

	if (ioctl(uffd, UFFDIO_REGISTER, &reg)) {
		atomic_fetch_add(&wrong, 1);
		return NULL;
	}
	freezing(arg);
	/* Waiting threads continue. */
	ioctl(uffd, UFFDIO_UNREGISTER, &reg.range);
	return NULL;
}

static int write_protection_holds(void)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP,
	};

	uffd = syscall(SYS_userfaultfd, O_CLOEXEC);
	MT_NEED(uffd >= 0 && !ioctl(uffd, UFFDIO_API, &api), "no userfaultfd");
	return race(write_protecting, WRITERS);
}

/* ---- fork: F3, F4 ---- */

/* A child does not see later writes of its parent. */
static void child(void)
{
	unsigned long page;
	long was[64];
	int again;

	for (page = 0; page < PAGES; page += 64) {
		unsigned long i, n = PAGES - page < 64 ? PAGES - page : 64;

		for (i = 0; i < n; i++)
			was[i] = *word(page + i, 0);
		for (again = 0; again < 3; again++)
			for (i = 0; i < n; i++)
				if (*word(page + i, 0) != was[i])
					_exit(2);
		/* Some are copied. */
		*word(page, 2) = page;
	}
	_exit(0);
}

static void *forking(void *arg)
{
	unsigned int seed = 5;
	int status;
	pid_t pid;

	(void)arg;
	while (!stop) {
		pid = fork();
		if (!pid)
			child();
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			continue;
		compare(word(0, 0), status, 0);
		/* Pages shared with a child are not scanned. */
		usleep(roll(&seed, 100000));
	}
	return NULL;
}

static int children_have_their_own(void)
{
	return race(forking, WRITERS);
}

/* ---- references: F1, F2 ---- */

/* A page in a pipe shows later writes to the page. */
static void *splicing(void *arg)
{
	unsigned int seed = 3;
	long got[2];
	int pipes[2];

	(void)arg;
	if (pipe(pipes)) {
		atomic_fetch_add(&wrong, 1);
		return NULL;
	}
	while (!stop) {
		volatile long *at = word(roll(&seed, PAGES), 8);
		struct iovec iov = {
			.iov_base = (void *)at,
			.iov_len = sizeof(got),
		};
		long value = rand_r(&seed);

		*at = 0;
		if (vmsplice(pipes[1], &iov, 1, 0) != sizeof(got))
			continue;
		usleep(rand_r(&seed) % 200);
		*at = value;
		if (read(pipes[0], got, sizeof(got)) == sizeof(got))
			compare(at, got[0], value);
	}
	close(pipes[0]);
	close(pipes[1]);
	return NULL;
}

static int references_keep_a_page(void)
{
	return race(splicing, WRITERS);
}

/* ---- VMAs that change: F8, F9, F15 ---- */

static void *changing(void *arg)
{
	unsigned int seed = 4;

	(void)arg;
	while (!stop) {
		char *p = area + roll(&seed, PAGES - 2 * CHUNK) * MT_PAGE;
		size_t size = (1 + roll(&seed, CHUNK)) * MT_PAGE;

		switch (roll(&seed, 5)) {
		case 0:
			mlock(p, size);
			munlock(p, size);
			break;
		case 1:
			madvise(p, size, MADV_MERGEABLE);
			madvise(p, size, MADV_UNMERGEABLE);
			break;
		case 2:
			madvise(p, size, MADV_COLD);
			break;
		case 3:
			madvise(area, SIZE, MADV_HUGEPAGE);
			madvise(area, MT_HUGE, 25 /* MADV_COLLAPSE */);
			madvise(area, SIZE, MADV_NOHUGEPAGE);
			break;
		case 4:
			mt_mbind(p, size, 0 /* MPOL_DEFAULT */, 0);
			break;
		}
		/* Nor pages that are being changed at that moment. */
		usleep(roll(&seed, 10000));
	}
	return NULL;
}

static int mappings_may_change(void)
{
	return race(changing, WRITERS);
}

/* ---- swap: F14 ---- */

static void *paging_out(void *arg)
{
	unsigned int seed = 5;

	(void)arg;
	while (!stop) {
		madvise(area + roll(&seed, PAGES - CHUNK) * MT_PAGE,
			CHUNK * MT_PAGE, MADV_PAGEOUT);
		usleep(500);
	}
	return NULL;
}

static int pages_may_be_swapped(void)
{
	int ret;

	MT_NEED(mt_swap_on("64M"), "no zram");
	ret = race(paging_out, WRITERS);
	munmap(area, SIZE);
	mt_swap_off();
	return ret;
}

/* ---- address spaces that exit: F16 ---- */

/* Check for the contents of mt_fill(). Reads the memory, so that it migrates. */
static bool as_filled(char *p)
{
	bool same = true;
	size_t off;

	for (off = 0; off < OWN; off += MT_PAGE) {
		same &= *(volatile size_t *)(p + off) == off + 1;
		*(volatile size_t *)(p + off + MT_PAGE / 2) = off;
	}
	return same;
}

/* A process whose pages migrate until it ends: by itself, or by exec. */
static void short_lived(unsigned int rounds, bool again)
{
	char *p = mt_fill(OWN, mt_slow_node(), false);

	while (p && rounds--)
		if (!as_filled(p))
			_exit(2);
	if (again)
		execl("/proc/self/exe", "race_fast", "again", NULL);
	_exit(again);
}

static void *ending(void *arg)
{
	unsigned int seed = 6;
	int status, how;
	pid_t pid;

	(void)arg;
	/* Pages mapped by two processes would not migrate. */
	madvise(area, SIZE, MADV_DONTFORK);
	while (!stop) {
		how = roll(&seed, 3);
		pid = fork();
		if (!pid)
			short_lived(roll(&seed, 300), how == 1);
		if (how == 2) {
			usleep(roll(&seed, 20000));
			kill(pid, SIGKILL);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			continue;
		if (how < 2 || !WIFSIGNALED(status))
			compare(word(0, 0), status, 0);
	}
	return NULL;
}

static int address_spaces_may_end(void)
{
	return race(ending, WRITERS);
}

/* ---- cgroups that shrink and are removed: F12 ---- */

/* Memory of a cgroup at its limit, and then of a removed one. */
static void *moving_house(void *arg)
{
	struct mt_cgroup cg;
	unsigned int i;
	char *p;

	(void)arg;
	while (!stop) {
		if (mt_cgroup_make(&cg, "race", "+memory") ||
		    mt_cgroup_enter(&cg, 0)) {
			atomic_fetch_add(&wrong, 1);
			break;
		}
		p = mt_fill(OWN, mt_slow_node(), false);
		for (i = 0; p && i < 100 && !stop; i++) {
			compare((long *)p, as_filled(p), true);
			/* Not for long: it would only put this thread to sleep. */
			if (i % 20 == 10) {
				mt_cgroup_write(&cg, "memory.high", "512K");
				mt_cgroup_write(&cg, "memory.high", "max");
			}
		}
		mt_cgroup_remove(&cg);
		for (i = 0; p && i < 100 && !stop; i++)
			compare((long *)p, as_filled(p), true);
		munmap(p, OWN);
	}
	return NULL;
}

static int cgroups_may_go(void)
{
	int ret;

	MT_NEED(mt_swap_on("64M"), "no zram");
	ret = race(moving_house, WRITERS);
	munmap(area, SIZE);
	mt_swap_off();
	return ret;
}

int main(int argc, char **argv)
{
	static const struct mt_check checks[] = {
		MT_CHECK("no write is lost", no_write_is_lost),
		MT_CHECK("F5 F25 what is dropped is gone",
			 what_is_dropped_is_gone),
		MT_CHECK("no write is missed while flushes wait",
			 no_write_is_missed_while_flushes_wait),
		MT_CHECK("F5 F25 what is dropped while they wait is gone",
			 what_is_dropped_while_flushes_wait_is_gone),
		MT_CHECK("F6 write protection holds", write_protection_holds),
		MT_CHECK("F3 F4 children have their own",
			 children_have_their_own),
		MT_CHECK("F1 F2 references keep a page",
			 references_keep_a_page),
		MT_CHECK("F8 F9 F13 F15 mappings may change",
			 mappings_may_change),
		MT_CHECK("F14 pages may be swapped", pages_may_be_swapped),
		MT_CHECK("F16 address spaces may end", address_spaces_may_end),
		MT_CHECK("F12 cgroups may shrink and go", cgroups_may_go),
	};

	(void)argv;
	if (argc > 1)		/* runs in a process that ends this way */
		return 0;
	return mt_main(checks, ARRAY_LEN(checks));
}
