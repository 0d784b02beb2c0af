// SPDX-License-Identifier: GPL-2.0
/*
 * Lazy migration: no page moves before its access, and accessed pages move to the node of
 * their policy; for every kind of memory, with NUMA balancing off and on.
 *
 * lab: topology=two-socket-cxl timeout=180s debug=yes
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "follow_util.h"
#include "numa_scan_util.h"

/* Half of it is an odd number of batches, and no border of huge pages. */
#define SIZE	(800 * MT_PAGE)
#define BATCH	16

#ifndef SYS_set_mempolicy_home_node
#define SYS_set_mempolicy_home_node	450
#endif

static struct mt_snap before;

/* Run a separate process on node 0, with balancing as given. */
static int begin(int balancing)
{
	MT_ASSERT(!mt_writef(FO_BALANCING, "%d", balancing), "no balancing");
	MT_ASSERT(!mt_run_on_cpu(0), "cannot run on node 0");
	return MT_PASS;
}

/* The same, with memory on node 0 that will be bound to another node */
static char *begin_with(int balancing)
{
	char *p = begin(balancing) ? NULL : mt_place(SIZE, 0);

	if (!p)
		mt_note("no memory on node 0");
	mt_snap(&before);
	return p;
}

/* Get the bytes that move when @size bytes from @p on are used, including neighbours. */
static size_t with_batch(const char *p, size_t size)
{
	uintptr_t window = BATCH * MT_PAGE, end = (uintptr_t)p + size;

	return (end + window - 1) / window * window - (uintptr_t)p;
}

/*
 * Memory on node 0 is bound to node 1, by a process on node 0: used pages move, although
 * they leave their user.
 */
static int half(char *p, size_t size)
{
	long pages = size / MT_PAGE;
	size_t goes = with_batch(p, size / 2);

	MT_ASSERT(p, "no such memory on node 0");
	mt_snap(&before);
	MT_ASSERT(!mp_old_bind(p, size, MPOL_BIND, 2, FO_MOVE), "mbind");
	MT_ASSERT(mt_all_on(p, size, 0), "%ld of %ld pages moved at once",
		  mt_pages_on(p, size, 1), pages);
	MT_ASSERT(fo_is(&before, pages, 0), "after mbind");

	mt_touch(p, size / 2, false);
	mt_note("of %ld pages 0 moved at once, %ld with half of it touched",
		pages, mt_pages_on(p, size, 1));
	MT_ASSERT(mt_all_on(p, goes, 1), "the half that was touched: %ld",
		  mt_pages_on(p, goes, 1));
	MT_ASSERT(mt_all_on(p + goes, size - goes, 0), "the other half: %ld",
		  mt_pages_on(p + goes, size - goes, 0));
	MT_ASSERT(fo_is(&before, pages, goes / MT_PAGE), "half");

	MT_DATA(!mt_filled(p, size), "another content");
	MT_ASSERT(mt_all_on(p, size, 1), "all of it");
	MT_ASSERT(fo_is(&before, pages, pages), "all of it");
	MT_ASSERT(!fo_refused(&before), "some were refused");
	return MT_PASS;
}

static int anon_off(void)
{
	return begin(0) ?: half(mt_place(SIZE, 0), SIZE);
}

static int anon_on(void)
{
	return begin(1) ?: half(mt_place(SIZE, 0), SIZE);
}

static int anon_tiering(void)
{
	return begin(2) ?: half(mt_place(SIZE, 0), SIZE);
}

static int thp(int balancing)
{
	char *p;

	if (begin(balancing))
		return MT_FAIL;
	p = mt_place_thp(4 * MT_HUGE, 0);
	return half(p, 4 * MT_HUGE) ?:
	       mt_is_thp(p) && mt_is_thp(p + 3 * MT_HUGE) ? MT_PASS : MT_FAIL;
}

static int thp_off(void)
{
	return thp(0);
}

static int thp_on(void)
{
	return thp(1);
}

/* A huge page moves as a whole, also if the range ends inside it. */
static int thp_in_part(void)
{
	char *p;

	if (begin(0))
		return MT_FAIL;
	p = mt_place_thp(2 * MT_HUGE, 0);
	MT_ASSERT(p, "no huge pages on node 0");
	/* The same policy as before does not split the mapping. */
	MT_ASSERT(!mp_old_bind(p, 2 * MT_HUGE, MPOL_BIND, 2, FO_MOVE), "mbind");
	mprotect(p, 2 * MT_HUGE, PROT_READ);
	mprotect(p, 2 * MT_HUGE, PROT_READ | PROT_WRITE);
	mt_snap(&before);
	MT_ASSERT(!mp_old_bind(p + MT_HUGE / 2, MT_HUGE, MPOL_BIND, 2, FO_MOVE),
		  "mbind of two halves");
	MT_ASSERT(fo_is(&before, 2 * MT_HUGE / MT_PAGE, 0), "marked");
	mt_touch(p + MT_HUGE / 2, MT_PAGE, true);
	MT_ASSERT(mt_all_on(p, MT_HUGE, 1) && mt_is_thp(p), "the first one");
	MT_ASSERT(mt_all_on(p + MT_HUGE, MT_HUGE, 0), "the second one");
	return MT_PASS;
}

static int shmem(int balancing)
{
	int fd = memfd_create("lazy", MFD_CLOEXEC);

	return begin(balancing) ?:
	       half(mt_place_file(fd, SIZE, 0, PROT_READ | PROT_WRITE), SIZE);
}

static int shmem_off(void)
{
	return shmem(0);
}

static int shmem_on(void)
{
	return shmem(1);
}

static int file(int balancing, int prot)
{
	int fd = fo_disk_file();

	MT_NEED(fd >= 0, "no ext4 on a loop device");
	return begin(balancing) ?: half(mt_place_file(fd, SIZE, 0, prot), SIZE);
}

static int file_off(void)
{
	return file(0, PROT_READ | PROT_WRITE);
}

static int file_on(void)
{
	return file(1, PROT_READ | PROT_WRITE);
}

static int file_read_only(void)
{
	return file(0, PROT_READ);
}

/* One access in every aligned 16 pages moves all of them, in one fault. */
static int batch(void)
{
	long pages = SIZE / MT_PAGE;
	char *p = begin_with(0);
	long long faults;
	size_t off;

	if (!p)
		return MT_FAIL;
	MT_ASSERT(!mp_old_bind(p, SIZE, MPOL_BIND, 2, FO_MOVE), "mbind");
	/* Not their first page: there are neighbours on both sides. */
	for (off = 5 * MT_PAGE; off < SIZE; off += BATCH * MT_PAGE)
		mt_touch(p + off, MT_PAGE, false);
	faults = mt_since(&before, "numa_hint_faults");
	mt_note("%lld faults pulled %ld pages", faults,
		mt_pages_on(p, SIZE, 1));
	MT_ASSERT(mt_all_on(p, SIZE, 1), "not all of them came");
	MT_ASSERT(faults == pages / BATCH, "%lld faults", faults);
	MT_ASSERT(fo_is(&before, pages, pages), "counted");
	MT_ASSERT(mt_since(&before, "numa_pages_migrated") == pages,
		  "numa_pages_migrated +%lld",
		  mt_since(&before, "numa_pages_migrated"));
	return MT_PASS;
}

/* Unmarked neighbours stay: the range ends between them. */
static int batch_in_range(void)
{
	size_t from = 5 * MT_PAGE, size = 40 * MT_PAGE;
	char *p = begin_with(0);

	if (!p)
		return MT_FAIL;
	MT_ASSERT(!mp_old_bind(p + from, size, MPOL_BIND, 2, FO_MOVE), "mbind");
	mt_touch(p, SIZE, true);
	MT_ASSERT(mt_all_on(p + from, size, 1), "the range");
	MT_ASSERT(mt_pages_on(p, SIZE, 1) == 40, "%ld pages moved",
		  mt_pages_on(p, SIZE, 1));
	MT_ASSERT(fo_is(&before, 40, 40), "counted");
	return MT_PASS;
}

/*
 * Each page moves to the exact node of its interleave index, also with its own weights.
 */
static int interleaved(int balancing, const char *weights, long moving)
{
	char *p = begin_with(balancing);

	if (!p)
		return MT_FAIL;
	MT_ASSERT(!mp_bind(p, SIZE, weights, FO_MOVE), "mbind2");
	MT_ASSERT(mt_all_on(p, SIZE, 0), "pages moved at once");
	MT_ASSERT(fo_is(&before, moving, 0), "marked");
	mt_touch(p, SIZE, true);
	MT_ASSERT(mp_follows(p, SIZE, MP_PAGE, (uintptr_t)p / MP_PAGE, weights),
		  "not where it should be");
	MT_ASSERT(fo_is(&before, moving, moving), "pulled");
	return MT_PASS;
}

static int interleaved_off(void)
{
	return interleaved(0, "0:3,1:1", SIZE / MT_PAGE / 4);
}

static int interleaved_on(void)
{
	return interleaved(1, "0:2,1:1,2:1", SIZE / MT_PAGE / 2);
}

static void *sleeper(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/* Use a range on node 0 until NUMA balancing has scanned it @n times. */
static bool scanned(char *p, unsigned int n)
{
	long long until = ns_sched(getpid(), "mm->numa_scan_seq") + n;
	/* All the time, since its run time counts. */
	struct mt_toucher t = {
		.p = p, .size = SIZE, .step = MT_PAGE, .write = true,
	};
	bool done;

	mt_toucher_run(&t);
	done = MT_WAIT(ns_sched(getpid(), "mm->numa_scan_seq") >= until, 60000);
	mt_touch_stop(&t);
	return done;
}

/*
 * NUMA balancing has recorded uses of these pages by this thread on node 0, and would
 * require two accesses from another node before it moves any.
 */
static int settled(void)
{
	pthread_t thread;
	char *p;

	if (begin(1) || ns_fast("sync", 64))
		return MT_FAIL;
	p = mt_place(SIZE, 0);
	MT_ASSERT(p, "no memory on node 0");
	/* Local pages of a single thread are never scanned. */
	MT_ASSERT(!pthread_create(&thread, NULL, sleeper, NULL), "no thread");
	mt_snap(&before);
	MT_ASSERT(scanned(p, 7), "%lld scans",
		  ns_sched(getpid(), "mm->numa_scan_seq"));
	MT_ASSERT(mt_since(&before, "numa_hint_faults") >
		  (long long)(SIZE / MT_PAGE), "%lld hint faults",
		  mt_since(&before, "numa_hint_faults"));
	MT_ASSERT(mt_all_on(p, SIZE, 0), "it did not stay on node 0");
	MT_ASSERT(!mp_old_bind(p, SIZE, MPOL_PREFERRED, 2, FO_MOVE), "mbind");
	mt_touch(p, SIZE, false);
	MT_ASSERT(mt_all_on(p, SIZE, 1), "%ld of %lu pages came",
		  mt_pages_on(p, SIZE, 1), SIZE / MT_PAGE);
	return MT_PASS;
}

/* ---- the first user ---- */

struct reader {
	char *p;
	int cpu;
	pthread_barrier_t *done;
};

static void *read_there(void *arg)
{
	struct reader *r = arg;

	if (!mt_run_on_cpu(r->cpu))
		mt_touch(r->p, SIZE / 2, false);
	pthread_barrier_wait(r->done);
	/* More than one thread until the end */
	return sleeper(NULL);
}

static int next_toucher(int balancing, char **area)
{
	static pthread_barrier_t done;
	static struct reader r[2];
	pthread_t thread;
	char *p;
	int i;

	if (begin(balancing))
		return MT_FAIL;
	p = mt_place(SIZE, 2);
	MT_ASSERT(p, "no memory on node 2");
	mt_snap(&before);
	MT_ASSERT(!mp_old_bind(p, SIZE, MPOL_LOCAL, 0, FO_MOVE), "mbind");
	MT_ASSERT(mt_all_on(p, SIZE, 2), "pages moved at once");
	pthread_barrier_init(&done, NULL, 3);
	for (i = 0; i < 2; i++) {
		r[i] = (struct reader) {
			.p = p + i * SIZE / 2, .cpu = i, .done = &done,
		};
		MT_ASSERT(!pthread_create(&thread, NULL, read_there, &r[i]),
			  "no thread");
	}
	pthread_barrier_wait(&done);
	mt_note("%ld of %lu pages of the first half on node 0, %ld of the second on node 1",
		mt_pages_on(p, SIZE / 2, 0), SIZE / 2 / MT_PAGE,
		mt_pages_on(p + SIZE / 2, SIZE / 2, 1));
	MT_ASSERT(mt_all_on(p, SIZE / 2, 0), "the first half");
	MT_ASSERT(mt_all_on(p + SIZE / 2, SIZE / 2, 1), "the second half");
	MT_ASSERT(fo_is(&before, SIZE / MT_PAGE, SIZE / MT_PAGE), "counted");
	*area = p;
	return MT_PASS;
}

static int first_toucher_off(void)
{
	char *p;

	return next_toucher(0, &p);
}

static int first_toucher_on(void)
{
	char *p;

	return next_toucher(1, &p);
}

/* Sequences of scans pass in which no page of the range gets a hint fault. */
static int not_scanned(void)
{
	struct mt_snap s;
	long long faults;
	char *p;

	if (next_toucher(1, &p) || ns_fast("sync", 64))
		return MT_FAIL;
	mt_snap(&s);
	MT_ASSERT(scanned(p, 6), "the process is not scanned at all");
	faults = mt_since(&s, "numa_hint_faults");
	mt_note("6 scans of the process, %lld hint faults", faults);
	/* Its code and stacks are scanned, and are less than that. */
	MT_ASSERT(faults < (long long)(SIZE / MT_PAGE / 2), "%lld hint faults",
		  faults);
	return MT_PASS;
}

/*
 * Memory on the slow node is bound to both others, with node 1 as the home node. It moves
 * to the node on which the allocator puts new pages of the same policy, for any user.
 */
static int home_node(void)
{
	char *p = begin(0) ? NULL : mt_place(SIZE, mt_slow_node()), *fresh = mp_map(SIZE);

	MT_ASSERT(p, "no memory on the slow node");
	mt_snap(&before);
	MT_ASSERT(!mp_old_bind(p, SIZE, MPOL_BIND, 3, FO_MOVE) &&
		  !mp_old_bind(fresh, SIZE, MPOL_BIND, 3, 0), "mbind");
	MT_ASSERT(!syscall(SYS_set_mempolicy_home_node, p, SIZE, 1, 0) &&
		  !syscall(SYS_set_mempolicy_home_node, fresh, SIZE, 1, 0), "no home node");
	mp_touch(fresh, SIZE);
	MT_ASSERT(mt_all_on(fresh, SIZE, 1), "new pages are not at home");
	mt_touch(p, SIZE, false);
	MT_ASSERT(mt_all_on(p, SIZE, 1), "%ld of %ld pages went to node 1",
		  mt_pages_on(p, SIZE, 1), (long)(SIZE / MT_PAGE));
	MT_ASSERT(fo_is(&before, SIZE / MT_PAGE, SIZE / MT_PAGE), "all of it");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("R13 R14 anonymous pages, balancing 0", anon_off),
		MT_CHECK("R13 R14 anonymous pages, balancing 1", anon_on),
		MT_CHECK("R13 R14 anonymous pages, balancing 2", anon_tiering),
		MT_CHECK("R14 huge pages, balancing 0", thp_off),
		MT_CHECK("R14 huge pages, balancing 1", thp_on),
		MT_CHECK("R14 a huge page of which half is in the range",
			 thp_in_part),
		MT_CHECK("R14 tmpfs, balancing 0", shmem_off),
		MT_CHECK("R14 tmpfs, balancing 1", shmem_on),
		MT_CHECK("R14 a clean file, balancing 0", file_off),
		MT_CHECK("R14 a clean file, balancing 1", file_on),
		MT_CHECK("R14 a clean file mapped for reading", file_read_only),
		MT_CHECK("R14 one fault pulls 16 pages", batch),
		MT_CHECK("R14 neighbours out of the range stay", batch_in_range),
		MT_CHECK("R14 interleaved 3:1, balancing 0", interleaved_off),
		MT_CHECK("R14 interleaved 2:1:1, balancing 1", interleaved_on),
		MT_CHECK("pages go to the home node of their policy", home_node),
		MT_CHECK("P2 the first access counts, whoever came before",
			 settled),
		MT_CHECK("R15 local is where the next access comes from, balancing 0",
			 first_toucher_off),
		MT_CHECK("R15 local is where the next access comes from, balancing 1",
			 first_toucher_on),
		MT_CHECK("R15 the range is not scanned afterwards",
			 not_scanned),
	};

	return fo_main(checks, ARRAY_LEN(checks));
}
