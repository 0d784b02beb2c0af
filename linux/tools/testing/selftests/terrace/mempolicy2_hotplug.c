// SPDX-License-Identifier: GPL-2.0
/*
 * Global weights when memory is added and removed: files exist for nodes with memory,
 * "auto" computes again, weights set by a user are kept, and policies continue. All
 * memory of node 1 is hidden at boot and added by a file for tests, like a driver adds
 * that of a CXL device.
 *
 * lab: topology=dram-cxl append="memmap=2G$4G" timeout=120s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mempolicy2_util.h"
#include "mtier_util.h"

#define BASE	(4UL << 30)
#define BLOCKS	2
#define PAGES	120
#define SIZE	(PAGES * MP_PAGE)
#define AUTO	MP_DIR "auto"
#define NODE0	MP_DIR "node0"
#define NODE1	MP_DIR "node1"

/* Once per boot; they are offline then. */
static int add(void)
{
	return mt_blocks_add("/sys/kernel/debug/mempolicy2/add_memory_node1",
			     BASE, BLOCKS);
}

static bool there(const char *file)
{
	return !access(file, F_OK);
}

static int files_steps(void)
{
	MT_ASSERT(there(NODE0) && !there(NODE1), "before it comes");
	MT_ASSERT(!mt_blocks_online(1) && there(NODE1), "after it came");
	MT_ASSERT(mt_read_ll(NODE1) == 1, "its weight is %lld",
		  mt_read_ll(NODE1));
	/* More memory of the node changes nothing, nor does the removal of a part. */
	MT_ASSERT(!mt_added_state(1, "online_movable") && there(NODE1), "a second block");
	MT_ASSERT(MT_WAIT(!mt_added_state(1, "offline"), 5000) && there(NODE1), "one block less");
	MT_ASSERT(!mt_write(NODE1, "7"), "cannot be set");
	MT_ASSERT(!mt_blocks_offline(1) && !there(NODE1), "after it went");
	MT_ASSERT(there(NODE0) && mt_write(NODE1, "3") == -ENOENT,
		  "the other node's file is gone, too");
	/* The user's weight is restored. */
	MT_ASSERT(!mt_blocks_online(1) && mt_read_ll(NODE1) == 7, "it comes back with %lld",
		  mt_read_ll(NODE1));
	mt_write(NODE1, "1");
	return mt_blocks_offline(1);
}

static int files(void)
{
	int ret = add();

	return ret ? ret : files_steps();
}

/* The machine's HMAT has 64 and 20 GB/s: 3 and 1. */
static int auto_steps(void)
{
	MT_ASSERT(!mt_write(AUTO, "true"), "auto");
	MT_ASSERT(mt_read_ll(NODE0) == 1, "alone it has %lld",
		  mt_read_ll(NODE0));
	if (mt_blocks_online(1))
		return MT_FAIL;
	/* 64 and 20 GB/s */
	MT_ASSERT(mt_read_ll(NODE0) == 7 && mt_read_ll(NODE1) == 2,
		  "together %lld and %lld", mt_read_ll(NODE0),
		  mt_read_ll(NODE1));
	if (mt_blocks_offline(1))
		return MT_FAIL;
	MT_ASSERT(mt_read_ll(NODE0) == 1 && mt_reads(AUTO, "true"),
		  "alone again it has %lld", mt_read_ll(NODE0));
	/* Not on any more: the user's weights are unchanged. */
	if (mt_blocks_online(1))
		return MT_FAIL;
	mt_write(NODE0, "5");
	MT_ASSERT(!mt_blocks_offline(1) && !mt_blocks_online(1) && mt_read_ll(NODE0) == 5 &&
		  mt_read_ll(NODE1) == 2, "by hand %lld and %lld",
		  mt_read_ll(NODE0), mt_read_ll(NODE1));
	mt_write(NODE0, "1");
	return mt_blocks_offline(1);
}

static int automatic(void)
{
	int ret = add();

	return ret ? ret : auto_steps();
}

static bool laid_out(const char *p, const char *weights)
{
	return mp_follows(p, SIZE, MP_PAGE, (uintptr_t)p / MP_PAGE, weights);
}

static void bind_with(char *p, int mode_flags)
{
	struct mp_policy pol;

	mp_policy(&pol, MP_WEIGHTED, "0:2,1:3");
	pol.param.mode_flags = mode_flags;
	mp_mbind2(p, SIZE, &pol.param, sizeof(pol.param), 0);
	mp_touch(p, SIZE);
}

static bool refaults_as(char *p, const char *weights)
{
	madvise(p, SIZE, MADV_DONTNEED);
	mp_touch(p, SIZE);
	return laid_out(p, weights);
}

static bool in_force(const char *p, const char *weights)
{
	struct mp_policy got;

	return !mp_in_force(&got, p, MPOL_F_ADDR) &&
	       mp_is(&got, weights);
}

/*
 * Policies of a removed node: pages are saved and allocated on other nodes from then on.
 * When it is back, STATIC_NODES uses it again; a policy that follows the task's nodes was
 * folded onto the remaining ones, like node masks.
 */
static int policy_steps(char *by_id, char *moving)
{
	if (mt_blocks_online(1))
		return MT_FAIL;
	bind_with(by_id, MPOL_F_STATIC_NODES);
	bind_with(moving, 0);
	MT_ASSERT(laid_out(by_id, "0:2,1:3") && laid_out(moving, "0:2,1:3"),
		  "while it is there");
	if (mt_blocks_offline(1))
		return MT_FAIL;
	MT_ASSERT(mp_count(by_id, SIZE, 0) == PAGES &&
		  mp_count(moving, SIZE, 0) == PAGES, "not all was saved");
	MT_ASSERT(refaults_as(by_id, "0:1") && refaults_as(moving, "0:1"),
		  "faults while it is away");
	if (mt_blocks_online(1))
		return MT_FAIL;
	MT_ASSERT(MT_WAIT(in_force(by_id, "0:2,1:3"), 2000) &&
		  refaults_as(by_id, "0:2,1:3"), "after it came back");
	MT_ASSERT(in_force(moving, "0:5") && refaults_as(moving, "0:1"),
		  "what had moved moves back");
	munmap(by_id, SIZE);
	munmap(moving, SIZE);
	return mt_blocks_offline(1);
}

static int policy(void)
{
	int ret = add();

	return ret ? ret : policy_steps(mp_map(SIZE), mp_map(SIZE));
}

/* A node without memory: there is no weight to set. */
static int refused(void)
{
	int ret = add();
	struct mp_policy p;

	if (ret)
		return ret;
	mp_set("0:4");
	MT_ASSERT(mp_set("1:3") == -EINVAL, "only a node without memory");
	MT_ASSERT(!mp_get(&p, NULL, 0) && mp_is(&p, "0:4"), "changed");
	/* Next to a node with memory it is left out, as in every policy. */
	MT_ASSERT(!mp_set("0:4,1:3"), "one with and one without memory");
	MT_ASSERT(!mp_in_force(&p, NULL, 0) && mp_is(&p, "0:4"),
		  "nodes %lx in force", p.nodes);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		{ "D20 files follow nodes with memory", files, 0 },
		{ "D20 auto computes again when memory comes or goes",
		  automatic, 0 },
		{ "D20 a policy of a node that goes and comes back", policy,
		  0 },
		{ "D20 nodes without memory are refused or left out", refused,
		  0 },
	};

	return mp_main(checks, ARRAY_LEN(checks));
}
