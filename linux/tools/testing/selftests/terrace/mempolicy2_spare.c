// SPDX-License-Identifier: GPL-2.0
/*
 * Policies of shared memory: mbind() of the middle of a range allocates a policy
 * for the range's second half.  If another process has split the range since,
 * the policy is freed.  Nothing was written to that policy, so nothing in it may
 * be read.  The slab is filled with 0x6b (slab_debug=P).  In 0x6b the flag of a
 * policy with weights is set: code that reads the flags follows a bad pointer.
 *
 * The processes wait for each other in loops: both have to run at once.
 *
 * lab: topology=dram-cxl append="slab_debug=P,numa_policy" timeout=120s static-keys=no
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mempolicy2_util.h"
#include "mtier_util.h"

#define ROUNDS	4000
#define PAGES	3UL
/* Most turns of an empty loop that one process waits for the other */
#define SKEW	400

/* Shared by both processes */
struct race {
	atomic_uint begun;	/* rounds */
	atomic_uint ended;	/* of them, in the other process */
	atomic_uint failed;	/* calls */
	char *area;		/* PAGES of shared memory, at the same address in both */
	char *whole;		/* the same memory again: one range whatever happens to area */
};

/*
 * Give a range a policy.  If the mapping has this policy already, mbind() does
 * not look at the file, so each round uses a different policy.
 */
static void bind(struct race *r, char *start, size_t size, unsigned int round)
{
	if (mp_old_bind(start, size, round % 2 ? MPOL_BIND : MPOL_INTERLEAVE, 1, 0))
		atomic_fetch_add(&r->failed, 1);
}

/* Give the middle of the area a policy, a bit sooner or later. */
static void split(struct race *r, unsigned int round, unsigned int *seed)
{
	volatile unsigned int wait = rand_r(seed) % SKEW;

	while (wait)
		wait--;
	bind(r, r->area + MP_PAGE, MP_PAGE, round);
}

static void other(void *arg)
{
	struct race *r = arg;
	unsigned int round, seed = 2;

	if (mt_run_on_cpu(1))
		atomic_fetch_add(&r->failed, 1);
	for (round = 1; round <= ROUNDS; round++) {
		while (atomic_load(&r->begun) < round)
			;
		split(r, round, &seed);
		atomic_store(&r->ended, round);
	}
}

/* Memory of a file without a name; twice if @again is not NULL. */
static void *shared(size_t size, char **again)
{
	int fd = memfd_create("shared", MFD_CLOEXEC);
	char *p = MAP_FAILED, *q = MAP_FAILED;

	if (fd >= 0 && !ftruncate(fd, size)) {
		p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		q = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	}
	close(fd);
	if (again)
		*again = q;
	return p == MAP_FAILED || q == MAP_FAILED ? NULL : p;
}

static int both_split(void)
{
	struct race *r = shared(sizeof(*r), NULL);
	unsigned int round, seed = 1;
	pid_t pid;

	MT_ASSERT(r, "no memory");
	r->area = shared(PAGES * MP_PAGE, &r->whole);
	MT_ASSERT(r->area, "no memory");
	MT_ASSERT(!mt_run_on_cpu(0), "no CPU 0");
	pid = mt_spawn(other, r);
	for (round = 1; round <= ROUNDS; round++) {
		bind(r, r->whole, PAGES * MP_PAGE, round);
		atomic_store(&r->begun, round);
		split(r, round, &seed);
		while (atomic_load(&r->ended) < round && !mt_zombie(pid))
			;
		if (atomic_load(&r->ended) < round)
			break;
	}
	mt_kill(pid);
	MT_ASSERT(round > ROUNDS, "the other process ended in round %u", round);
	MT_ASSERT(!r->failed, "%u calls failed", r->failed);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		{ "C14 two processes split the same range", both_split },
	};

	return mp_main(checks, ARRAY_LEN(checks));
}
