// SPDX-License-Identifier: GPL-2.0
/*
 * Lazy migration: a thread that never leaves user mode does not go on with what its
 * TLB holds: marking takes its pages away from it as well.
 *
 * Its CPU has nothing else to do, and with nopti interrupts do not flush its TLB.
 *
 * lab: topology=two-socket-cxl append="nopti isolcpus=1" timeout=60s debug=no
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>

#include "follow_util.h"

#define PAGES	8L
#define SIZE	(PAGES * MT_PAGE)
#define ROUNDS	5

struct reader {
	const volatile char *p;
	unsigned long rounds;
	bool failed;
};

static void *reads(void *arg)
{
	struct reader *r = arg;
	long i;

	r->failed = mt_run_on_cpu(1);
	for (;;) {
		for (i = 0; i < PAGES; i++)
			(void)r->p[i * MT_PAGE];
		__atomic_add_fetch(&r->rounds, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static unsigned long rounds(struct reader *r)
{
	return __atomic_load_n(&r->rounds, __ATOMIC_RELAXED);
}

/* To the other node, and so often that no chance flush explains all of it. */
static int spinning(void)
{
	struct reader r = { .p = mt_place(SIZE, 0) };
	unsigned long until;
	pthread_t thread;
	int i, to;

	MT_ASSERT(r.p && !mt_run_on_cpu(0), "no memory on node 0");
	mt_write(FO_BALANCING, "0");
	MT_ASSERT(!pthread_create(&thread, NULL, reads, &r), "no thread");
	for (i = 0, to = 1; i < ROUNDS; i++, to = !to) {
		until = rounds(&r) + 1000;
		MT_ASSERT(MT_WAIT(rounds(&r) > until, 10000) && !r.failed,
			  "it does not read");
		MT_ASSERT(!mp_old_bind((char *)r.p, SIZE, MPOL_BIND, 1UL << to,
				       FO_MOVE), "mbind");
		until = rounds(&r) + 10;
		MT_ASSERT(MT_WAIT(rounds(&r) > until, 10000), "it hangs");
		MT_ASSERT(mt_all_on((char *)r.p, SIZE, to),
			  "round %d: %ld of %ld pages have moved, though all were read",
			  i, mt_pages_on((char *)r.p, SIZE, to), PAGES);
	}
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("R14 who reads all the time finds out at once",
			 spinning),
	};

	return fo_main(checks, ARRAY_LEN(checks));
}
