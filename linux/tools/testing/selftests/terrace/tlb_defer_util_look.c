// SPDX-License-Identifier: GPL-2.0
/*
 * Selftest helpers: threads that look at every page of a file all the time, and
 * somebody who fills what becomes free with other things.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tlb_defer_util.h"

#define REUSE_PAGES	256

static void *look(void *arg)
{
	struct td_looker *l = arg;
	size_t i, word = 0;

	mt_run_on_cpu(l->cpu);
	while (!atomic_load_explicit(&l->stop, memory_order_relaxed)) {
		for (i = 0; i < l->pages; i++)
			if (l->p[i * MT_PAGE / 8 + word] != i + 1)
				atomic_fetch_add(&l->wrong, 1);
		word = (word + 61) % (MT_PAGE / 8);
		atomic_fetch_add(&l->rounds, 1);
	}
	return NULL;
}

/* Let a thread look at pages k full of k + 1, all the time. */
void td_look_at(struct td_looker *l, void *p, size_t pages, int cpu)
{
	memset(l, 0, sizeof(*l));
	l->p = p;
	l->pages = pages;
	l->cpu = cpu;
	pthread_create(&l->thread, NULL, look, l);
	while (!atomic_load(&l->rounds))
		mt_nap(1);
}

void td_look_away(struct td_looker *l)
{
	atomic_store(&l->stop, true);
	pthread_join(l->thread, NULL);
}

/* Take frames of a node from two CPUs, write all over them, and let them go. */
void td_scribble(int node, size_t size)
{
	int cpu;

	for (cpu = 0; cpu < 2; cpu++) {
		void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		mt_run_on_cpu(cpu);
		madvise(p, size, MADV_NOHUGEPAGE);
		mt_bind_to(node);
		memset(p, 0x6b, size);
		mt_bind_default();
		munmap(p, size);
	}
	mt_run_on_cpu(0);
}

/* A file of td_file(), mapped and read */
void *td_map_file(size_t size)
{
	int fd = td_file(size);
	volatile char *p;
	size_t off;

	if (fd < 0)
		return NULL;
	p = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	for (off = 0; off < size; off += MT_PAGE)
		(void)p[off];
	close(fd);
	return (void *)p;
}

/* Nobody reads what the next owner of a frame writes. */
int td_reuse(bool forever, unsigned int times)
{
	struct td_looker one, two;
	struct mt_snap before;
	void *p = td_map_file(REUSE_PAGES * MT_PAGE);
	unsigned long wrong;
	unsigned int i;

	MT_NEED(p, "no ext4 on a loop device");
	td_forever(forever);
	mt_snap(&before);
	td_look_at(&one, p, REUSE_PAGES / 4, TD_READER_CPU);
	td_look_at(&two, p, REUSE_PAGES, TD_OTHER_CPU);
	for (i = 0; i < times; i++) {
		int to = i & 1 ? td_node_a() : td_node_b();
		int from = i & 1 ? td_node_b() : td_node_a();

		td_move(p, REUSE_PAGES, to);
		td_scribble(from, 4 * REUSE_PAGES * MT_PAGE);
		/* Also after the worker has had its turn */
		mt_nap(8);
		td_scribble(from, 2 * REUSE_PAGES * MT_PAGE);
	}
	td_look_away(&one);
	td_look_away(&two);
	wrong = atomic_load(&one.wrong) + atomic_load(&two.wrong);
	mt_note("%lld pages deferred, %lld generations",
		mt_since(&before, "tlb_defer_pages"),
		mt_since(&before, "tlb_defer_generations"));
	MT_ASSERT(!wrong, "%lu times somebody else's bytes", wrong);
	MT_ASSERT(mt_since(&before, "tlb_defer_pages") > times * REUSE_PAGES / 2,
		  "too few were deferred");
	return MT_PASS;
}

/* ---- frames that wait ---- */

/*
 * A file that is looked at all the time, with generations that never pass. Who looks
 * sleeps on pages that move: others keep its CPU from being idle.
 */
void *td_watch(struct td_looker *l, size_t pages)
{
	void *p = td_map_file(pages * MT_PAGE);

	td_forever(true);
	if (!p)
		return NULL;
	td_use_others();
	td_look_at(l, p, pages, TD_READER_CPU);
	return p;
}

/* Moved to the second node, so that the frames of the first one wait */
int td_wait_begins(struct td_looker *l, void **p, size_t pages)
{
	*p = td_watch(l, pages);
	MT_NEED(*p, "no ext4 on a loop device");
	MT_ASSERT(td_all_moved(*p, pages, td_node_b()), "did not move");
	MT_ASSERT(td_knob("held_kb") > 0, "nothing waits");
	return MT_PASS;
}

int td_right_to_the_end(struct td_looker *l)
{
	td_look_away(l);
	td_leave_others();
	MT_ASSERT(!atomic_load(&l->wrong), "somebody else's bytes");
	return MT_PASS;
}
