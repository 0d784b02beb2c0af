// SPDX-License-Identifier: GPL-2.0
/*
 * Memory policy calls: every row of the table of errors, for every call with that row; a
 * failed call changes nothing.
 *
 * lab: topology=dram-cxl timeout=60s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mempolicy2_util.h"
#include "mtier_util.h"

#define SIZE	sizeof(struct mp_param)

enum call { SET, GET, BIND, CALLS };

static const char * const names[] = { "set", "get", "mbind" };
static char *area;

/* A valid call; tests make one part of it invalid. */
static void good(struct mp_policy *p)
{
	mp_policy(p, MP_WEIGHTED, "0:3,1:1");
}

static long call(enum call which, const void *param, size_t usize)
{
	if (which == SET)
		return mp_set2(param, usize, 0);
	if (which == GET)
		return mp_get2((void *)param, usize, 0, 0);
	return mp_mbind2(area, 4 * MP_PAGE, param, usize, 0);
}

/* Set known policies of the thread and of the area, and check them later. */
static void begin(void)
{
	if (!area)
		area = mp_map(4 * MP_PAGE);
	mp_set("0:7,1:2");
	mp_bind(area, 4 * MP_PAGE, "0:1,1:4", 0);
}

static bool unchanged(void)
{
	struct mp_policy p;

	if (mp_get(&p, NULL, 0) || !mp_is(&p, "0:7,1:2"))
		return false;
	return !mp_get(&p, area, MPOL_F_ADDR) && mp_is(&p, "0:1,1:4") &&
	       mp_vmas(area, 4 * MP_PAGE) == 1;
}

#define REFUSED(expr, err)						\
	do {								\
		long ret_ = (expr);					\
									\
		MT_ASSERT(ret_ == -(err), "%s gave %ld, not %d", #expr,	\
			  ret_, -(err));				\
		MT_ASSERT(unchanged(), "%s changed something", #expr);	\
	} while (0)

/* From zero to two pages: each small size, each edge, some of the others */
static size_t next_size(size_t usize)
{
	if (usize < 128 || (usize >= MP_PAGE - 2 && usize < MP_PAGE + 2))
		return usize + 1;
	if (usize < MP_PAGE && usize + 61 >= MP_PAGE)
		return MP_PAGE - 2;
	if (usize < 2 * MP_PAGE && usize + 61 > 2 * MP_PAGE)
		return 2 * MP_PAGE;
	return usize + 61;
}

/* Get the result for a struct of @usize bytes, with @tail in its last one */
static long wanted(size_t usize, bool tail)
{
	if (usize < SIZE)
		return -EINVAL;
	if (usize > MP_PAGE)
		return -E2BIG;
	return tail && usize > SIZE ? -E2BIG : 0;
}

static int sizes_of(enum call which, char *buf, bool tail)
{
	size_t usize;

	begin();
	for (usize = 0; usize <= 2 * MP_PAGE; usize = next_size(usize)) {
		struct mp_policy p;
		long ret;

		good(&p);
		memset(buf, 0, 2 * MP_PAGE);
		memcpy(buf, &p.param, SIZE);
		if (tail && usize > SIZE)
			buf[usize - 1] = 1;
		ret = call(which, buf, usize);
		MT_ASSERT(ret == wanted(usize, tail),
			  "%s, size %zu tail %d: %ld, not %ld", names[which],
			  usize, tail, ret, wanted(usize, tail));
		if (!ret && which != GET)
			begin();
		MT_ASSERT(usize % 8 || unchanged(), "%s, size %zu changed",
			  names[which], usize);
	}
	MT_ASSERT(call(which, buf, ~0UL) == -E2BIG, "%s, all of memory",
		  names[which]);
	return MT_PASS;
}

static int sizes(void)
{
	char *buf = mp_map(4 * MP_PAGE);
	enum call c;

	for (c = SET; c < CALLS; c++)
		if (sizes_of(c, buf, false) || sizes_of(c, buf, true))
			return MT_FAIL;
	return MT_PASS;
}

static int pointers(void)
{
	char *hole = mmap(NULL, 3 * MP_PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mp_policy p, *edge;
	int c;

	munmap(hole + MP_PAGE, MP_PAGE);
	begin();
	for (c = 0; c < CALLS; c++) {
		REFUSED(call(c, NULL, SIZE), EFAULT);
		REFUSED(call(c, hole + MP_PAGE, SIZE), EFAULT);
		REFUSED(call(c, hole + MP_PAGE - 16, SIZE), EFAULT);
		REFUSED(call(c, (void *)(~0UL - 7), SIZE), EFAULT);

		good(&p);
		p.param.pol_nodes = (uintptr_t)hole + MP_PAGE;
		REFUSED(call(c, &p.param, SIZE), EFAULT);
		good(&p);
		p.param.il_weights = (uintptr_t)hole + MP_PAGE - 32;
		REFUSED(call(c, &p.param, SIZE), EFAULT);
		good(&p);
		p.param.il_weights = ~0ULL - 3;
		REFUSED(call(c, &p.param, SIZE), EFAULT);
	}
	/* Read-only memory is enough to set and not enough to get. */
	edge = (void *)hole;
	good(edge);
	mprotect(hole, MP_PAGE, PROT_READ);
	REFUSED(mp_get2(&edge->param, SIZE, 0, 0), EFAULT);
	MT_ASSERT(!mp_set2(&edge->param, SIZE, 0), "read-only struct to set");
	/* So are a mask and weights that get cannot write. */
	begin();
	good(&p);
	p.param.pol_nodes = (uintptr_t)&edge->nodes;
	REFUSED(mp_get2(&p.param, SIZE, 0, 0), EFAULT);
	good(&p);
	p.param.il_weights = (uintptr_t)edge->weights;
	REFUSED(mp_get2(&p.param, SIZE, 0, 0), EFAULT);
	return MT_PASS;
}

static int reserved(void)
{
	struct mp_policy p;
	size_t i;
	int c;

	begin();
	for (c = 0; c < CALLS; c++) {
		for (i = 0; i < sizeof(p.param.resv); i++) {
			good(&p);
			p.param.resv[i] = 1;
			REFUSED(call(c, &p.param, SIZE), EINVAL);
		}
		good(&p);
		p.param.pol_maxnodes = 0;
		REFUSED(call(c, &p.param, SIZE), EINVAL);
		p.param.il_weights = 0;
		REFUSED(call(c, &p.param, SIZE), EINVAL);
	}
	return MT_PASS;
}

static int flags(void)
{
	struct mp_policy p;
	unsigned int bit;

	begin();
	good(&p);
	for (bit = 0; bit < 64; bit++) {
		unsigned long f = 1UL << bit;

		REFUSED(mp_set2(&p.param, SIZE, f), EINVAL);
		if (!(f & (MPOL_F_ADDR | MP_F_RAW)))
			REFUSED(mp_get2(&p.param, SIZE, 0, f), EINVAL);
		if (bit > 2 && bit != 16 && bit != 17)
			REFUSED(mp_mbind2(area, MP_PAGE, &p.param, SIZE, f),
				EINVAL);
	}
	return MT_PASS;
}

static int modes(void)
{
	static const unsigned int bad_modes[] = { 7, 8, 255, 0x8000, 0xffff };
	static const unsigned int others[] = {
		MPOL_DEFAULT, MPOL_PREFERRED, MPOL_BIND, MPOL_INTERLEAVE,
		MPOL_LOCAL, MPOL_PREFERRED_MANY,
	};
	struct mp_policy p;
	unsigned int bit, i;
	enum call c;

	begin();
	for (c = SET; c < CALLS; c++) {
		if (c == GET)
			continue;
		for (i = 0; i < ARRAY_LEN(bad_modes); i++) {
			good(&p);
			p.param.mode = bad_modes[i];
			REFUSED(call(c, &p.param, SIZE), EINVAL);
		}
		for (bit = 0; bit < 12; bit++) {
			good(&p);
			p.param.mode_flags = 1 << bit;
			REFUSED(call(c, &p.param, SIZE), EINVAL);
		}
		good(&p);
		p.param.mode_flags = MPOL_F_STATIC_NODES |
				     MPOL_F_RELATIVE_NODES;
		REFUSED(call(c, &p.param, SIZE), EINVAL);
		p.param.mode_flags = MPOL_F_NUMA_BALANCING;
		REFUSED(call(c, &p.param, SIZE), EINVAL);
		for (i = 0; i < ARRAY_LEN(others); i++) {
			good(&p);
			p.param.mode = others[i];
			REFUSED(call(c, &p.param, SIZE), EINVAL);
		}
	}
	return MT_PASS;
}

static int nodes(void)
{
	static uint64_t words[4];
	struct mp_policy p;
	enum call c;

	begin();
	for (c = SET; c < CALLS; c++) {
		if (c == GET)
			continue;
		good(&p);
		p.nodes = 0;
		p.param.il_weights = 0;
		REFUSED(call(c, &p.param, SIZE), EINVAL);
		p.param.pol_nodes = 0;
		REFUSED(call(c, &p.param, SIZE), EINVAL);
		mp_policy(&p, MPOL_DEFAULT, "0");
		REFUSED(call(c, &p.param, SIZE), EINVAL);
		mp_policy(&p, MPOL_LOCAL, "0");
		REFUSED(call(c, &p.param, SIZE), EINVAL);
		/* possible or not, it has no memory */
		mp_policy(&p, MP_WEIGHTED, "63:1");
		REFUSED(call(c, &p.param, SIZE), EINVAL);
		/* above every node that can exist */
		good(&p);
		p.param.pol_maxnodes = 256;
		p.param.il_weights = 0;
		p.param.pol_nodes = (uintptr_t)words;
		memset(words, 0, sizeof(words));
		words[0] = 3;
		words[3] = 1;
		REFUSED(call(c, &p.param, SIZE), EINVAL);
		/* bits after the count */
		good(&p);
		p.param.pol_maxnodes = 2;
		p.nodes |= 4;
		REFUSED(call(c, &p.param, SIZE), EINVAL);
		p.param.pol_maxnodes = 1;
		p.nodes = 3;
		REFUSED(call(c, &p.param, SIZE), EINVAL);
	}
	return MT_PASS;
}

/* It is ignored: a program may pass one array of weights with any mask. */
static int weight_outside(void)
{
	static const unsigned int mode_flags[] = {
		0, MPOL_F_STATIC_NODES, MPOL_F_RELATIVE_NODES,
	};
	struct mp_policy p, q;
	unsigned int i;

	for (i = 0; i < ARRAY_LEN(mode_flags); i++) {
		begin();
		good(&p);
		p.nodes = 1;
		p.weights[40] = 9;
		p.param.mode_flags = mode_flags[i];
		MT_ASSERT(!mp_set2(&p.param, SIZE, 0), "set");
		MT_ASSERT(!mp_get(&q, NULL, 0) && mp_is(&q, "0:3"),
			  "it reads as %d,%d", q.weights[0], q.weights[1]);
		MT_ASSERT(!mp_mbind2(area, 4 * MP_PAGE, &p.param, SIZE, 0),
			  "mbind");
		MT_ASSERT(!mp_get(&q, area, MPOL_F_ADDR) && mp_is(&q, "0:3"),
			  "it reads as %d,%d", q.weights[0], q.weights[1]);
	}
	/* No weight inside the mask. */
	good(&p);
	p.weights[0] = 0;
	p.nodes = 1;
	MT_ASSERT(!mp_set2(&p.param, SIZE, 0) && !mp_get(&q, NULL, 0) &&
		  mp_is(&q, "0"), "a policy without weights");
	return MT_PASS;
}

static int home(void)
{
	static const int bad[] = { -1, -2, 63, 64, 1024, 0x7fffffff };
	static const int garbage[] = { -2, -7, 1, 63, 0x7fffffff };
	struct mp_policy p, q;
	size_t i;

	begin();
	for (i = 0; i < ARRAY_LEN(bad); i++) {
		mp_policy(&p, MPOL_BIND, "0,1");
		p.param.home_node = bad[i];
		REFUSED(mp_mbind2(area, MP_PAGE, &p.param, SIZE,
				  MP_MF_HOME_NODE), EINVAL);
	}
	good(&p);
	REFUSED(mp_mbind2(area, MP_PAGE, &p.param, SIZE, MP_MF_HOME_NODE),
		EOPNOTSUPP);
	mp_policy(&p, MPOL_PREFERRED, "1");
	REFUSED(mp_mbind2(area, MP_PAGE, &p.param, SIZE, MP_MF_HOME_NODE),
		EOPNOTSUPP);

	for (i = 0; i < ARRAY_LEN(bad); i++) {
		mp_policy(&p, MPOL_BIND, "0,1");
		p.param.mode_flags = MP_F_HOME_NODE;
		p.param.home_node = bad[i];
		REFUSED(mp_mbind2(area, MP_PAGE, &p.param, SIZE, 0), EINVAL);
		REFUSED(mp_set2(&p.param, SIZE, 0), EINVAL);
	}
	good(&p);
	p.param.mode_flags = MP_F_HOME_NODE;
	REFUSED(mp_mbind2(area, MP_PAGE, &p.param, SIZE, 0), EOPNOTSUPP);
	REFUSED(mp_set2(&p.param, SIZE, 0), EOPNOTSUPP);

	/* Without a flag it is 0 or -1, and has no effect. */
	mp_policy(&p, MPOL_BIND, "0,1");
	for (i = 0; i < ARRAY_LEN(garbage); i++) {
		p.param.home_node = garbage[i];
		REFUSED(mp_mbind2(area, MP_PAGE, &p.param, SIZE, 0), EINVAL);
		REFUSED(mp_set2(&p.param, SIZE, 0), EINVAL);
	}
	for (p.param.home_node = -1; p.param.home_node < 1;
	     p.param.home_node++) {
		MT_ASSERT(!mp_mbind2(area, 4 * MP_PAGE, &p.param, SIZE, 0),
			  "no flag and %d", p.param.home_node);
		mp_get(&q, area, MPOL_F_ADDR);
		MT_ASSERT(q.param.home_node == -1, "home is %d",
			  q.param.home_node);
	}
	p.param.home_node = 1;
	MT_ASSERT(!mp_mbind2(area, 4 * MP_PAGE, &p.param, SIZE,
			     MP_MF_HOME_NODE), "a home node is refused");
	mp_get(&p, area, MPOL_F_ADDR);
	MT_ASSERT(p.param.home_node == 1, "home is %d", p.param.home_node);
	mp_touch(area, MP_PAGE);
	MT_ASSERT(mp_where(area) == 1, "it is on %d", mp_where(area));
	return MT_PASS;
}

static int ranges(void)
{
	struct mp_policy p;
	char *hole;

	begin();
	good(&p);
	REFUSED(mp_mbind2(area + 1, MP_PAGE, &p.param, SIZE, 0), EINVAL);
	REFUSED(mp_mbind2(area + 8, MP_PAGE, &p.param, SIZE, 0), EINVAL);
	REFUSED(mp_mbind2((void *)(~0UL << 12), 2 * MP_PAGE, &p.param, SIZE, 0),
		EINVAL);
	MT_ASSERT(!mp_mbind2(area, 0, &p.param, SIZE, 0), "len 0");
	MT_ASSERT(!mp_mbind2(NULL, 0, &p.param, SIZE, 0), "len 0 at 0");
	MT_ASSERT(unchanged(), "len 0 changed something");

	hole = mmap(NULL, 3 * MP_PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(hole + MP_PAGE, MP_PAGE);
	REFUSED(mp_mbind2(hole, 3 * MP_PAGE, &p.param, SIZE, 0), EFAULT);
	REFUSED(mp_mbind2(hole + MP_PAGE, MP_PAGE, &p.param, SIZE, 0), EFAULT);
	MT_ASSERT(!mp_bind(hole, 3 * MP_PAGE, NULL, 0),
		  "a hole is fine for the default policy");
	/* Rebalancing needs a layout. */
	mp_policy(&p, MPOL_BIND, "0");
	REFUSED(mp_mbind2(area, MP_PAGE, &p.param, SIZE, MP_MF_REBALANCE),
		EINVAL);
	return MT_PASS;
}

/* STRICT without MOVE, and a page that is where it must not be */
static int strict(void)
{
	struct mp_policy p;

	begin();
	mp_touch(area, 4 * MP_PAGE);
	mp_policy(&p, MP_WEIGHTED, mp_where(area) ? "0:1" : "1:1");
	REFUSED(mp_mbind2(area, MP_PAGE, &p.param, SIZE, MPOL_MF_STRICT), EIO);
	MT_ASSERT(!mp_mbind2(area, MP_PAGE, &p.param, SIZE,
			     MPOL_MF_STRICT | MPOL_MF_MOVE), "MOVE");
	return MT_PASS;
}

/* As with mbind(), the policy is set at that time: new pages follow it. */
static int unmovable(void)
{
	struct mp_policy p;
	int ret, other;

	begin();
	mp_touch(area, 4 * MP_PAGE);
	other = !mp_where(area);
	ret = mt_pin(area, MP_PAGE);
	MT_NEED(!ret, "cannot pin: %s", strerror(-ret));
	mp_policy(&p, MP_WEIGHTED, other ? "1:1" : "0:1");
	ret = mp_mbind2(area, MP_PAGE, &p.param, SIZE,
			MPOL_MF_STRICT | MPOL_MF_MOVE);
	MT_ASSERT(ret == -EIO, "it is %d", ret);
	MT_ASSERT(mp_where(area) == !other, "a pinned page moved");
	MT_ASSERT(!mp_mbind2(area, MP_PAGE, &p.param, SIZE, MPOL_MF_MOVE),
		  "without STRICT");
	return MT_PASS;
}

static int get_errors(void)
{
	struct mp_policy p;
	char *hole = mp_map(MP_PAGE);

	begin();
	munmap(hole, MP_PAGE);
	good(&p);
	REFUSED(mp_get2(&p.param, SIZE, (uintptr_t)hole, MPOL_F_ADDR), EFAULT);
	REFUSED(mp_get2(&p.param, SIZE, (uintptr_t)area, 0), EINVAL);
	REFUSED(mp_get2(&p.param, SIZE, (uintptr_t)area, MP_F_RAW),
		EINVAL);
	p.param.pol_maxnodes = 1;
	REFUSED(mp_get2(&p.param, SIZE, 0, 0), ERANGE);
	MT_ASSERT(p.param.pol_maxnodes == 2, "the needed count is %d",
		  p.param.pol_maxnodes);
	MT_ASSERT(!mp_get2(&p.param, SIZE, 0, 0), "with it, it fits");
	MT_ASSERT(p.param.pol_maxnodes == 2, "and the count stays");
	/* Neither buffer: the number of possible nodes. */
	p.param.pol_nodes = 0;
	p.param.il_weights = 0;
	p.param.pol_maxnodes = 0;
	MT_ASSERT(!mp_get2(&p.param, SIZE, 0, 0) && p.param.pol_maxnodes >= 2,
		  "possible nodes: %d", p.param.pol_maxnodes);
	return MT_PASS;
}

/* Not a byte after the size given by the caller */
static int no_overrun(void)
{
	struct mp_policy p;
	unsigned char w[80];
	uint64_t n[3];

	begin();
	memset(w, 0xaa, sizeof(w));
	memset(n, 0xaa, sizeof(n));
	good(&p);
	p.param.pol_maxnodes = 66;
	p.param.pol_nodes = (uintptr_t)n;
	p.param.il_weights = (uintptr_t)w;
	MT_ASSERT(!mp_get2(&p.param, SIZE, 0, 0), "get");
	MT_ASSERT(n[0] == 3 && !n[1] && n[2] == 0xaaaaaaaaaaaaaaaaULL,
		  "mask words %lx %lx %lx", n[0], n[1], n[2]);
	MT_ASSERT(w[0] == 7 && w[1] == 2 && !w[2] && !w[65] && w[66] == 0xaa,
		  "weights %d %d %d %d %d", w[0], w[1], w[2], w[65], w[66]);
	return MT_PASS;
}

static int privileges(void)
{
	struct mp_policy p;

	begin();
	good(&p);
	MT_ASSERT(!setuid(1000), "setuid: %s", strerror(errno));
	REFUSED(mp_mbind2(area, MP_PAGE, &p.param, SIZE, MPOL_MF_MOVE_ALL),
		EPERM);
	MT_ASSERT(!mp_mbind2(area, MP_PAGE, &p.param, SIZE, MP_MF_REBALANCE),
		  "everything else needs no privilege");
	MT_ASSERT(!mp_set2(&p.param, SIZE, 0), "set needs no privilege");
	return MT_PASS;
}

/* A call as made by a 32-bit program */
static long call32(long nr, uint32_t a, uint32_t b, uint32_t c, uint32_t d,
		   uint32_t e)
{
#ifdef __x86_64__
	long ret;

	asm volatile("int $0x80" : "=a" (ret)
		     : "a" (nr), "b" (a), "c" (b), "d" (c), "S" (d), "D" (e)
		     : "memory", "r8", "r9", "r10", "r11");
	return (int)ret;
#else
	(void)nr, (void)a, (void)b, (void)c, (void)d, (void)e;
	return -ENOSYS;
#endif
}

/* The same bytes have the same effect through every ABI. */
static int other_abis(void)
{
	struct mp_policy *p, *q;
	long ret;

	MT_NEED(sizeof(void *) == 8, "only one ABI here");
	p = mmap(NULL, 4 * MP_PAGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | 0x40 /* MAP_32BIT */, -1, 0);
	q = p + 1;
	good(p);
	mp_policy(q, MPOL_DEFAULT, "0:1");
	ret = call32(MP_NR_SET, (uintptr_t)&p->param, SIZE, 0, 0, 0);
	MT_NEED(ret != -ENOSYS, "no 32-bit calls");
	MT_ASSERT(!ret, "set from 32 bits: %ld", ret);
	ret = call32(MP_NR_GET, (uintptr_t)&q->param, SIZE, 0, 0, 0);
	MT_ASSERT(!ret && mp_is(q, "0:3,1:1"), "get from 32 bits: %ld", ret);
	ret = call32(MP_NR_MBIND, (uintptr_t)p + 2 * MP_PAGE, MP_PAGE,
		     (uintptr_t)&p->param, SIZE, 0);
	MT_ASSERT(!ret && !mp_get(q, (char *)p + 2 * MP_PAGE, MPOL_F_ADDR) &&
		  mp_is(q, "0:3,1:1"), "mbind from 32 bits: %ld", ret);
	p->param.resv[0] = 1;
	ret = call32(MP_NR_SET, (uintptr_t)&p->param, SIZE, 0, 0, 0);
	MT_ASSERT(ret == -EINVAL, "reserved from 32 bits: %ld", ret);

	good(p);
	p->weights[1] = 9;
	if (syscall(0x40000000 | SYS_getpid) < 0) {
		mt_note("no x32 calls");
		return MT_PASS;
	}
	ret = syscall(0x40000000 | MP_NR_SET, &p->param, SIZE, 0);
	MT_ASSERT(!ret && !mp_get(q, NULL, 0) && mp_is(q, "0:3,1:9"),
		  "set from x32: %s", strerror(errno));
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		{ "F struct sizes from 0 to two pages, tails", sizes },
		{ "F bad pointers are EFAULT", pointers, 0 },
		{ "F reserved bytes, a count of 0; nothing changes", reserved },
		{ "F unknown flags of each call", flags, 0 },
		{ "F unknown modes and mode flags, weights without need",
		  modes, 0 },
		{ "F no nodes, nodes that are none, bits past the count",
		  nodes, 0 },
		{ "F a weight outside the mask", weight_outside },
		{ "F home node", home, 0 },
		{ "F start, length, holes", ranges, 0 },
		{ "F STRICT and a misplaced page", strict, 0 },
		{ "F STRICT and a page that cannot move", unmovable, 0 },
		{ "F get: address, room, needed count", get_errors, 0 },
		{ "F26 no byte beyond the count is written", no_overrun, 0 },
		{ "F MOVE_ALL needs a privilege, nothing else does",
		  privileges, 0 },
		{ "F26 32-bit and x32 calls with the same bytes", other_abis,
		  0 },
	};

	return mp_main(checks, ARRAY_LEN(checks));
}
