// SPDX-License-Identifier: GPL-2.0
/* Selftest helpers: everything at once. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "churn_util.h"
#include "mtier_util.h"

/* Not random for anybody else: each worker repeats its own sequence. */
static unsigned int seed;

unsigned int churn_roll(unsigned int n)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 16) % n;
}

/* A page's first word is its offset plus one, whatever happened to it. */
void churn_fill(char *p, size_t size)
{
	size_t off;

	for (off = 0; off < size; off += MT_PAGE)
		*(size_t *)(p + off) = off + 1;
}

/**
 * struct churn_shared - what all processes see
 * @wrong: how many have read something else, also those that nobody waits for
 */
struct churn_shared {
	atomic_ulong wrong;
};

static struct churn_shared *shared;

/* It is not: that is counted, and ends the process with 2. */
void churn_verify(const char *p, size_t size)
{
	size_t off;

	for (off = 0; off < size; off += MT_PAGE) {
		if (*(const volatile size_t *)(p + off) == off + 1)
			continue;
		atomic_fetch_add(&shared->wrong, 1);
		_exit(2);
	}
}

unsigned long churn_wrong(void)
{
	return atomic_load(&shared->wrong);
}

void churn_spin(char *p, size_t size)
{
	unsigned int rounds = 1 + churn_roll(30);

	while (rounds--)
		mt_touch(p, size, false);
}

/* CHURN_SIZE on a node, filled: of tmpfs, of huge pages, of small ones */
char *churn_memory(int node)
{
	char *p;
	int fd;

	switch (churn_roll(4)) {
	case 0:
		fd = memfd_create("churn", MFD_CLOEXEC);
		if (ftruncate(fd, CHURN_SIZE))
			_exit(3);
		mt_bind_to(node);
		p = mmap(NULL, CHURN_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
			 fd, 0);
		churn_fill(p, CHURN_SIZE);
		mt_bind_default();
		close(fd);
		return p;
	case 1:
		return mt_fill(CHURN_SIZE, node, true);
	default:
		return mt_fill(CHURN_SIZE, node, false);
	}
}

/**
 * struct churner - what a worker does
 * @which: of the workers; each has its own sequence
 * @life: of one process
 */
struct churner {
	unsigned int which;
	void (*life)(void);
};

static unsigned long turn;

static void live(void *arg)
{
	const struct churner *c = arg;

	seed ^= turn * 8191;
	c->life();
}

static void worker(void *arg)
{
	const struct churner *c = arg;

	seed = 1 + c->which;
	signal(SIGCHLD, SIG_DFL);
	for (turn = 0;; turn++) {
		int ret = mt_reap(mt_spawn(live, arg));

		if (ret && ret != 128 + SIGKILL) {
			mt_note("a process ended with %d", ret);
			_exit(ret);
		}
	}
}

/* Processes that live, one after the other, until one has something to say. */
pid_t churn_start(unsigned int which, void (*life)(void))
{
	struct churner c = { which, life };

	if (!shared)
		shared = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return mt_spawn(worker, &c);
}
