// SPDX-License-Identifier: GPL-2.0
/*
 * Lazy migration: what mbind() and mbind2() take and refuse with MPOL_MF_LAZY,
 * and that what they refuse changes nothing.
 *
 * lab: topology=two-socket-cxl timeout=60s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "follow_util.h"

#define PAGES	64UL
#define SIZE	(PAGES * MT_PAGE)

#define NUMA_BALANCING_FLAG	(1 << 13)	/* MPOL_F_NUMA_BALANCING */

static char *area;
static struct mt_snap before;

static int begin(void)
{
	MT_ASSERT(!mt_run_on_cpu(0), "cannot run on node 0");
	area = mt_place(SIZE, 0);
	MT_ASSERT(area, "no memory on node 0");
	mt_snap(&before);
	return MT_PASS;
}

/* No policy, no marks: using it moves nothing. */
static int untouched(const char *what)
{
	struct mp_policy p;

	MT_ASSERT(!mp_get(&p, area, MPOL_F_ADDR) &&
		  p.param.mode == MPOL_DEFAULT, "%s: it has policy %d", what,
		  p.param.mode);
	mt_touch(area, SIZE, false);
	MT_ASSERT(mt_all_on(area, SIZE, 0), "%s: pages have moved", what);
	MT_ASSERT(fo_is(&before, 0, 0), "%s", what);
	return MT_PASS;
}

/* Both calls, with one node mask */
static int refused(int mode, unsigned long nodes, unsigned long flags, int err)
{
	unsigned int mode_flags = mode & NUMA_BALANCING_FLAG;
	struct mp_policy p;
	char what[64];
	long ret;

	snprintf(what, sizeof(what), "mode %#x nodes %#lx flags %#lx", mode,
		 nodes, flags);
	ret = mp_old_bind(area, SIZE, mode, nodes, flags);
	MT_ASSERT(ret == -err, "mbind %s: %ld", what, ret);
	mp_policy(&p, mode & ~mode_flags, "");
	p.param.mode_flags = mode_flags;
	p.nodes = nodes;
	ret = mp_mbind2(area, SIZE, &p.param, sizeof(p.param), flags);
	MT_ASSERT(ret == -err, "mbind2 %s: %ld", what, ret);
	return untouched(what);
}

/* Every combination of the flags that mbind() has */
static int flags(void)
{
	unsigned long f;
	int ret = begin();

	for (f = 0; !ret && f < 8; f++) {
		bool moves = f & (MPOL_MF_MOVE | MPOL_MF_MOVE_ALL);

		if (!moves || (f & MPOL_MF_STRICT))
			ret = refused(MPOL_BIND, 2, f | MPOL_MF_LAZY, EINVAL);
	}
	return ret;
}

static int policies(void)
{
	int ret = begin();

	/* Nothing to go by */
	ret = ret ?: refused(MPOL_DEFAULT, 0, FO_MOVE, EINVAL);
	/* It is NUMA balancing's to say. */
	ret = ret ?: refused(MPOL_BIND | NUMA_BALANCING_FLAG, 2, FO_MOVE,
			     EINVAL);
	/* No nodes, no such node, no such flag, no such policy */
	ret = ret ?: refused(MPOL_BIND, 0, FO_MOVE, EINVAL);
	ret = ret ?: refused(MPOL_BIND, 1UL << 63, FO_MOVE, EINVAL);
	ret = ret ?: refused(MPOL_BIND, 2, FO_MOVE | 1UL << 20, EINVAL);
	ret = ret ?: refused(77, 2, FO_MOVE, EINVAL);
	return ret;
}

static int ranges(void)
{
	int ret = begin();

	if (ret)
		return ret;
	MT_ASSERT(mp_old_bind(area + 1, SIZE, MPOL_BIND, 2, FO_MOVE) == -EINVAL,
		  "an address inside of a page");
	MT_ASSERT(!mp_old_bind(area, 0, MPOL_BIND, 2, FO_MOVE), "no length");
	ret = untouched("no length");
	munmap(area + SIZE, MT_PAGE);
	MT_ASSERT(mp_old_bind(area, SIZE + MT_PAGE, MPOL_BIND, 2, FO_MOVE) ==
		  -EFAULT, "a range that ends in a hole");
	return ret ?: untouched("a range that ends in a hole");
}

/* It moves them now, so not later. */
static int not_with_rebalance(void)
{
	int ret = begin();

	if (ret)
		return ret;
	MT_ASSERT(mp_bind(area, SIZE, "0:1,1:1",
			  MP_MF_REBALANCE | FO_MOVE) == -EINVAL, "it was taken");
	return untouched("rebalance");
}

static int needs_a_capability(void)
{
	int ret = begin();

	if (ret)
		return ret;
	MT_ASSERT(!setresuid(65534, 65534, 65534), "cannot be nobody");
	MT_ASSERT(mp_old_bind(area, SIZE, MPOL_BIND, 2, FO_MOVE_ALL) == -EPERM,
		  "nobody may move what others map");
	MT_ASSERT(!mp_old_bind(area, SIZE, MPOL_BIND, 2, FO_MOVE),
		  "nobody may not move its own");
	return MT_PASS;
}

/* Every policy that names a place, by both calls; it looks as it always did. */
static int taken(void)
{
	static const struct {
		int mode;
		unsigned long nodes;
	} good[] = {
		{ MPOL_PREFERRED, 2 }, { MPOL_BIND, 2 }, { MPOL_INTERLEAVE, 3 },
		{ MPOL_LOCAL, 0 }, { MPOL_PREFERRED_MANY, 6 },
		{ MP_WEIGHTED, 3 },
	};
	struct mp_policy p;
	size_t i;

	for (i = 0; i < 2 * ARRAY_LEN(good); i++) {
		int mode = good[i / 2].mode, ret = begin();
		long err;

		if (ret)
			return ret;
		mp_policy(&p, mode, "");
		p.nodes = good[i / 2].nodes;
		if (i % 2)
			err = mp_mbind2(area, SIZE, &p.param, sizeof(p.param),
					FO_MOVE);
		else
			err = mp_old_bind(area, SIZE, mode, p.nodes, FO_MOVE);
		MT_ASSERT(!err, "mode %d: %ld", mode, err);
		MT_ASSERT(fo_since(&before, "marked") > 0,
			  "mode %d marks nothing", mode);
		MT_ASSERT(mt_all_on(area, SIZE, 0), "mode %d moves now", mode);
		MT_ASSERT(!mp_get(&p, area, MPOL_F_ADDR) &&
			  p.param.mode == mode && !p.param.mode_flags,
			  "mode %d reads as %d, flags %#x", mode, p.param.mode,
			  p.param.mode_flags);
	}
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("R13 needs MOVE or MOVE_ALL, and no STRICT", flags),
		MT_CHECK("R13 policies and nodes that give no place", policies),
		MT_CHECK("R13 ranges that mbind refuses", ranges),
		MT_CHECK("R13 not together with rebalancing", not_with_rebalance),
		MT_CHECK("R13 MOVE_ALL needs CAP_SYS_NICE, MOVE does not",
			 needs_a_capability),
		MT_CHECK("R13 every policy that names a place, by both calls",
			 taken),
	};

	return fo_main(checks, ARRAY_LEN(checks));
}
