// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flushes: frames that wait are given back when memory is short,
 * before somebody is killed for it, and when a range of it is wanted.
 *
 * The second node is small, 128 MiB: the rest is hidden at boot and added by the
 * memory probe file, where a check wants memory that the kernel does not use.
 *
 * lab: topology=dram-cxl cpus=4 timeout=120s debug=no
 * lab: append="nopti isolcpus=2,3 memmap=1920M$4G"
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tlb_defer_util.h"

#define PROBE	"/sys/devices/system/memory/probe"
#define BASE	(4UL << 30)
#define BLOCKS	8
#define GIGANTIC "/sys/devices/system/node/node%d/hugepages/hugepages-1048576kB/nr_hugepages"

/* Of the small node; a tenth of a node may wait at most. */
#define HELD	3072UL
/* Of memory that was added */
#define LOTS	4096
/* What the kernel may use for itself while somebody takes all the rest */
#define SLACK	(HELD / 4)

static int there_and_back(void *p)
{
	MT_ASSERT(td_all_moved(p, HELD, td_node_b()) &&
		  td_all_moved(p, HELD, td_node_a()), "did not move");
	return MT_PASS;
}

/* The second node's frames wait: as many as will. */
static int small_node_waits(void *p)
{
	int ret;

	mt_write(TD_DIR "held_limit_bp", "1000");
	ret = there_and_back(p);
	if (ret)
		return ret;
	MT_ASSERT(td_knob("held_kb") >= (long long)HELD * 4,
		  "only %lld KiB wait", td_knob("held_kb"));
	return MT_PASS;
}

/* ---- memory is short ---- */

/**
 * struct want - somebody who takes memory of the second node
 * @pages: how much of it
 * @got: how much so far; shared with who has sent it
 */
struct want {
	size_t pages;
	atomic_ulong got;
};

static void take(void *arg)
{
	struct want *w = arg;
	size_t size = w->pages * MT_PAGE;
	char *p = mt_map_aligned(size);
	size_t off;

	mt_write("/proc/self/oom_score_adj", "1000");
	madvise(p, size, MADV_NOHUGEPAGE);
	mt_bind_to(td_node_b());
	for (off = 0; off < size; off += MT_PAGE) {
		p[off] = 1;
		atomic_fetch_add(&w->got, 1);
	}
}

static struct want *wanted(size_t pages)
{
	struct want *w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	w->pages = pages;
	return w;
}

/* More than is free, and less than that with what waits */
static int short_of_memory(void)
{
	struct mt_snap before;
	struct td_looker l;
	struct want *w;
	long room;
	void *p = td_watch(&l, HELD);
	int ret;

	MT_NEED(p, "no ext4 on a loop device");
	ret = small_node_waits(p);
	if (ret)
		return ret;
	room = mt_node_room(td_node_b());
	mt_snap(&before);
	w = wanted(room + HELD - SLACK);
	ret = mt_reap(mt_spawn(take, w));
	mt_note("%ld pages were free, %lu waited, %lu of %zu taken, %lld killed",
		room, HELD, atomic_load(&w->got), w->pages,
		mt_since(&before, "oom_kill"));
	MT_ASSERT(!ret && !mt_since(&before, "oom_kill"),
		  "killed although there was memory");
	MT_ASSERT(mt_since(&before, "tlb_defer_flush_pressure") > 0,
		  "nobody asked for them");
	return td_right_to_the_end(&l);
}

/* How much somebody gets until he is killed for it */
static unsigned long until_killed(void)
{
	struct want *w = wanted(1 << 16);
	struct mt_snap before;

	mt_snap(&before);
	if (mt_reap(mt_spawn(take, w)) != 128 + 9 ||
	    !mt_since(&before, "oom_kill"))
		return 0;
	return atomic_load(&w->got);
}

static int out_of_memory(void)
{
	unsigned long off, on;
	struct td_looker l;
	void *p = td_watch(&l, HELD);
	int ret;

	MT_NEED(p, "no ext4 on a loop device");
	td_mode("off");
	ret = there_and_back(p);
	if (ret)
		return ret;
	off = until_killed();
	td_mode("quarantine");
	ret = small_node_waits(p);
	if (ret)
		return ret;
	on = until_killed();
	mt_note("%lu pages taken until killed, %lu while %lu waited", off, on,
		HELD);
	MT_ASSERT(off && on, "nobody was killed");
	MT_ASSERT(!td_knob("held_kb"), "%lld KiB still wait",
		  td_knob("held_kb"));
	MT_ASSERT(on + 2 * SLACK >= off, "killed although there was memory");
	return td_right_to_the_end(&l);
}

/* ---- a range of memory is wanted ---- */

/* All added blocks to @state, from whatever a check before this one has left */
static int blocks(const char *state)
{
	unsigned int i;
	int ret = mt_blocks_add(PROBE, BASE, BLOCKS);

	if (ret || mt_blocks_offline(BLOCKS))
		return ret ?: MT_FAIL;
	for (i = 0; i < BLOCKS; i++)
		MT_ASSERT(!mt_added_state(i, state), "block %u does not come", i);
	return MT_PASS;
}

static void offline(void *id)
{
	_exit(mt_block_state(*(unsigned long *)id, "offline") ? 1 : 0);
}

static int block_goes(void)
{
	struct td_looker l;
	unsigned long id;
	char text[32];
	pid_t pid;
	void *p;
	int ret = blocks("online_movable");

	if (ret)
		return ret;
	p = td_watch(&l, 256);
	MT_NEED(p, "no ext4 on a loop device");
	mt_read("/sys/devices/system/memory/block_size_bytes", text,
		sizeof(text));
	MT_ASSERT(td_all_moved(p, 256, td_node_b()), "did not move");
	id = mt_pfn(p) * MT_PAGE / strtoul(text, NULL, 16);
	MT_ASSERT(td_all_moved(p, 256, td_node_a()), "did not move");
	MT_ASSERT(td_knob("held_kb") > 0, "nothing waits");
	/* Offlining tries for as long as it is let. */
	pid = mt_spawn(offline, &id);
	if (!MT_WAIT(mt_zombie(pid), 10000)) {
		mt_kill(pid);
		MT_ASSERT(false, "%lld KiB wait, and block %lu does not go",
			  td_knob("held_kb"), id);
	}
	MT_ASSERT(!mt_reap(pid), "block %lu does not go", id);
	return td_right_to_the_end(&l);
}

/* Is this page in the memory that was added? */
static bool added(const void *p)
{
	uint64_t at = mt_pfn(p) * MT_PAGE;

	return at >= BASE && at < BASE + (1UL << 30);
}

/*
 * A page of 1 GiB is allocated as contiguous memory is for devices. There is one
 * place for it, the added blocks, and frames wait there.
 */
static int contiguous(void)
{
	int ret = mt_blocks_add(PROBE, BASE, BLOCKS);
	struct td_looker l;
	char file[128];
	size_t hogged;
	void *p;

	if (ret)
		return ret;
	snprintf(file, sizeof(file), GIGANTIC, td_node_b());
	MT_NEED(!access(file, W_OK), "no pages of 1 GiB");
	/* More is moved than there is room for elsewhere on the node. */
	MT_ASSERT(!mt_blocks_offline(BLOCKS) && mt_hog(td_node_b(), &hogged),
		  "cannot fill the node");
	ret = blocks("online_kernel");
	if (ret)
		return ret;
	ret = td_wait_begins(&l, &p, LOTS);
	if (ret)
		return ret;
	MT_ASSERT(added((char *)p + (LOTS - 1) * MT_PAGE), "is elsewhere");
	MT_ASSERT(td_all_moved(p, LOTS, td_node_a()), "did not move");
	MT_ASSERT(td_knob("held_kb") > 0, "nothing waits");
	mt_write(file, "1");
	ret = mt_read_ll(file);
	mt_write(file, "0");
	MT_ASSERT(ret == 1, "%lld KiB wait, and there is no page of 1 GiB",
		  td_knob("held_kb"));
	return td_right_to_the_end(&l);
}

static const struct mt_check checks[] = {
	{ "C: memory that waits is given before anybody is killed",
	  short_of_memory },
	{ "C: nothing waits when somebody is killed for memory",
	  out_of_memory },
	{ "C: a memory block goes of which frames wait", block_goes },
	{ "C: contiguous memory is had of which frames wait", contiguous },
};

int main(void)
{
	return td_main(checks, ARRAY_LEN(checks));
}
