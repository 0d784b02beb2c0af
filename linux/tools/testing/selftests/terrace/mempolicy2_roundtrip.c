// SPDX-License-Identifier: GPL-2.0
/*
 * Memory policy calls: set_mempolicy2() and mbind2() accept the result of
 * get_mempolicy2(), and the policy is the same then, whichever call had set it.
 *
 * The property test sets random policies by every call, old and new, of the
 * task, of private and of shared memory.  It reads each one, with exactly the room
 * that is needed, resets the policy, sets the result, reads it again, and compares
 * both results and the nodes of the pages.
 *
 *	mempolicy2_roundtrip SECONDS [SEED]
 *
 * repeats it for some seconds instead of 1,000 rounds.
 *
 * lab: topology=three-tier timeout=90s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mempolicy2_util.h"
#include "mtier_util.h"

#define PARAM	sizeof(struct mp_param)
#define PAGES	24
#define SIZE	(PAGES * MP_PAGE)
#define ROUNDS	1000
#define LAST	1024	/* more nodes than any kernel here has */

/* A policy as a program reads it that knows nothing of the kernel's limits */
struct reading {
	struct mp_param param;
	uint64_t nodes[LAST / 64];
	uint8_t weights[LAST];
};

/* Calls that make a policy */
enum maker { OLD_SET, NEW_SET, OLD_BIND, NEW_BIND, OLD_HOME, MAKERS };

static const char * const makers[] = {
	"set_mempolicy", "set_mempolicy2", "mbind", "mbind2",
	"set_mempolicy_home_node",
};

/* Memory that the policy is of, or that a task with the policy touches */
struct place {
	char *p;
	int fd;
};

static struct place private_memory, shared_memory;
static long long seconds;
static unsigned int seed = 4711;

/* ---- reading and setting ---- */

static bool read_at(struct reading *r, const void *addr, unsigned long flags)
{
	flags |= addr ? MPOL_F_ADDR : 0;
	memset(r, 0, sizeof(*r));
	if (mp_get2(&r->param, PARAM, (uintptr_t)addr, flags))
		return false;
	/* Exactly the room that is needed */
	r->param.pol_nodes = (uintptr_t)r->nodes;
	r->param.il_weights = (uintptr_t)r->weights;
	return !mp_get2(&r->param, PARAM, (uintptr_t)addr, flags) &&
	       r->param.pol_nodes == (uintptr_t)r->nodes &&
	       r->param.il_weights == (uintptr_t)r->weights;
}

static long set_at(const struct reading *r, void *addr)
{
	return addr ? mp_mbind2(addr, SIZE, &r->param, PARAM, 0) :
		      mp_set2(&r->param, PARAM, 0);
}

static bool same(const struct reading *a, const struct reading *b)
{
	return a->param.mode == b->param.mode &&
	       a->param.mode_flags == b->param.mode_flags &&
	       a->param.home_node == b->param.home_node &&
	       !memcmp(a->nodes, b->nodes, sizeof(a->nodes)) &&
	       !memcmp(a->weights, b->weights, sizeof(a->weights));
}

static void print(const char *what, const struct reading *r)
{
	mt_note("%s: mode %u flags %x home %d nodes %lx weights %d,%d,%d,%d",
		what, r->param.mode, r->param.mode_flags, r->param.home_node,
		r->nodes[0], r->weights[0], r->weights[1], r->weights[2],
		r->weights[3]);
}

/* Node of each page that is touched anew */
static void lay_out(const struct place *place, int *nodes)
{
	void *pages[PAGES];
	int i;

	if (place->fd < 0)
		madvise(place->p, SIZE, MADV_DONTNEED);
	else
		fallocate(place->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  0, SIZE);
	mp_touch(place->p, SIZE);
	for (i = 0; i < PAGES; i++)
		pages[i] = place->p + i * MP_PAGE;
	syscall(SYS_move_pages, 0, (unsigned long)PAGES, pages, NULL, nodes, 0);
}

static void reset(void *addr)
{
	mp_set(NULL);
	if (addr)
		mp_bind(addr, SIZE, NULL, 0);
}

static bool make_places(void)
{
	mt_run_on_cpu(0);
	private_memory.p = mp_map(SIZE);
	private_memory.fd = -1;
	shared_memory.fd = memfd_create("roundtrip", 0);
	if (!private_memory.p || ftruncate(shared_memory.fd, SIZE))
		return false;
	shared_memory.p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
			       shared_memory.fd, 0);
	return shared_memory.p != MAP_FAILED;
}

/*
 * The property, of a policy that is set already: of @place, or of the task if
 * @of_task, which then allocates the pages of @place.
 */
static int comes_back(const struct place *place, bool of_task)
{
	void *addr = of_task ? NULL : place->p;
	struct reading raw, now, raw2, now2;
	int before[PAGES], after[PAGES];
	long ret;

	MT_ASSERT(read_at(&raw, addr, MP_F_RAW), "it cannot be read");
	MT_ASSERT(read_at(&now, addr, 0), "what is in force cannot be read");
	lay_out(place, before);
	reset(addr);
	ret = set_at(&raw, addr);
	if (ret)
		print("read", &raw);
	MT_ASSERT(!ret, "what was read is refused: %ld", ret);
	MT_ASSERT(read_at(&raw2, addr, MP_F_RAW) && read_at(&now2, addr, 0),
		  "it cannot be read again");
	if (!same(&raw, &raw2) || !same(&now, &now2)) {
		print("read", &raw);
		print("read again", &raw2);
		print("in force", &now);
		print("in force again", &now2);
	}
	MT_ASSERT(same(&raw, &raw2), "it is another policy");
	MT_ASSERT(same(&now, &now2), "another policy is in force");
	lay_out(place, after);
	MT_ASSERT(!memcmp(before, after, sizeof(before)),
		  "mode %u: pages go elsewhere", raw.param.mode);

	/* The other call takes it, and means the same by it. */
	reset(addr);
	ret = set_at(&raw, of_task ? place->p : NULL);
	MT_ASSERT(!ret, "the other call refuses it: %ld", ret);
	lay_out(place, after);
	MT_ASSERT(!memcmp(before, after, sizeof(before)),
		  "mode %u: pages go elsewhere by the other call",
		  raw.param.mode);
	reset(place->p);
	return MT_PASS;
}

/* ---- random policies ---- */

/* Nodes that exist, and some that do not */
static uint64_t random_mask(void)
{
	uint64_t mask = random() & 7;

	if (random() % 3 == 0)
		mask |= 1ULL << random() % 64;
	if (random() % 8 == 0)
		mask |= 0xff;
	return random() % 16 ? mask : 0;
}

static int random_flags(int mode)
{
	int flags = 0;

	if (random() % 2)
		flags = random() % 2 ? MPOL_F_STATIC_NODES :
				       MPOL_F_RELATIVE_NODES;
	if ((mode == MPOL_BIND || mode == MPOL_PREFERRED_MANY) &&
	    random() % 3 == 0)
		flags |= MPOL_F_NUMA_BALANCING;
	return flags;
}

static void random_policy(struct mp_policy *p)
{
	unsigned int nid;

	mp_policy(p, random() % (MP_WEIGHTED + 1), "");
	p->param.mode_flags = random_flags(p->param.mode);
	p->param.home_node = -1;
	if (p->param.mode != MPOL_DEFAULT && p->param.mode != MPOL_LOCAL)
		p->nodes = random_mask();
	if ((p->param.mode == MPOL_BIND ||
	     p->param.mode == MPOL_PREFERRED_MANY) && random() % 2) {
		p->param.mode_flags |= MP_F_HOME_NODE;
		p->param.home_node = random() % 3;
	}
	p->param.il_weights = (uintptr_t)p->weights;
	if (p->param.mode != MP_WEIGHTED || random() % 3 == 0)
		return;
	for (nid = 0; nid < MP_NODES; nid++)
		if (p->nodes >> nid & 1 && random() % 3)
			p->weights[nid] = 1 + random() % 5;
}

static long make(enum maker maker, struct mp_policy *p, char *addr)
{
	int mode = p->param.mode | (p->param.mode_flags & ~MP_F_HOME_NODE);
	long ret;

	switch (maker) {
	case OLD_SET:
		return mp_old_set(mode, p->nodes);
	case NEW_SET:
		return mp_set2(&p->param, PARAM, 0);
	case OLD_BIND:
		return mp_old_bind(addr, SIZE, mode, p->nodes, 0);
	case NEW_BIND:
		return mp_mbind2(addr, SIZE, &p->param, PARAM, 0);
	default:
		ret = mp_old_bind(addr, SIZE, mode, p->nodes, 0);
		if (!ret && syscall(SYS_set_mempolicy_home_node, addr, SIZE,
				    random() % 3UL, 0UL))
			ret = -errno;
		return ret;
	}
}

/* How often each mode was made by each call */
static unsigned int made[MAKERS][MP_WEIGHTED + 1];

static int one_round(unsigned long round)
{
	enum maker maker = random() % MAKERS;
	bool of_task = maker == OLD_SET || maker == NEW_SET;
	struct place *place = random() % 2 ? &private_memory : &shared_memory;
	struct mp_policy p;

	random_policy(&p);
	reset(place->p);
	if (make(maker, &p, place->p))
		return MT_PASS;
	made[maker][p.param.mode]++;
	if (!comes_back(place, of_task))
		return MT_PASS;
	mt_note("round %lu: %s, mode %u flags %x home %d nodes %lx", round,
		makers[maker], p.param.mode, p.param.mode_flags,
		p.param.home_node, p.nodes);
	return MT_FAIL;
}

static int random_policies(void)
{
	unsigned long rounds = (unsigned long)ROUNDS * terrace_stretch();
	long long until = mt_now_ms() + seconds * 1000;
	unsigned int maker, mode;
	unsigned long round;

	MT_NEED(make_places(), "no memory to place");
	srandom(seed);
	for (round = 0; seconds ? mt_now_ms() < until : round < rounds; round++)
		if (one_round(round))
			return MT_FAIL;
	for (maker = 0; maker < MAKERS; maker++) {
		for (mode = 0; mode <= MP_WEIGHTED; mode++) {
			bool has_home = mode == MPOL_BIND ||
					mode == MPOL_PREFERRED_MANY;

			MT_ASSERT(made[maker][mode] ||
				  (maker == OLD_HOME && !has_home),
				  "%s never made mode %u", makers[maker], mode);
		}
	}
	return MT_PASS;
}

/* ---- what was lost ---- */

static int old_relative(void)
{
	struct reading r;

	MT_NEED(make_places(), "no memory to place");
	MT_ASSERT(!mp_old_set(MPOL_INTERLEAVE | MPOL_F_RELATIVE_NODES, 0xff),
		  "set_mempolicy");
	MT_ASSERT(read_at(&r, NULL, MP_F_RAW) && r.nodes[0] == 0xff,
		  "eight positions read as %lx", r.nodes[0]);
	MT_ASSERT(read_at(&r, NULL, 0) && r.nodes[0] == 7,
		  "three nodes in force read as %lx", r.nodes[0]);
	return comes_back(&private_memory, true);
}

static int old_static(void)
{
	struct reading r;

	MT_NEED(make_places(), "no memory to place");
	MT_ASSERT(!mp_old_set(MPOL_BIND | MPOL_F_STATIC_NODES, 0x33),
		  "set_mempolicy");
	MT_ASSERT(read_at(&r, NULL, MP_F_RAW) && r.nodes[0] == 0x33,
		  "the mask reads as %lx", r.nodes[0]);
	MT_ASSERT(read_at(&r, NULL, 0) && r.nodes[0] == 3,
		  "the nodes in force read as %lx", r.nodes[0]);
	return comes_back(&private_memory, true);
}

/* Positions without a node, and their weights */
static int far_positions(void)
{
	struct reading r;
	struct mp_policy p;

	MT_NEED(make_places(), "no memory to place");
	mp_policy(&p, MP_WEIGHTED, "0:1,1:2,62:7");
	p.param.mode_flags = MPOL_F_RELATIVE_NODES;
	MT_ASSERT(!mp_set2(&p.param, PARAM, 0), "set");
	MT_ASSERT(read_at(&r, NULL, MP_F_RAW) && r.weights[62] == 7,
		  "the weight of position 62 is %d", r.weights[62]);
	/* 62 is 2 of three nodes. */
	MT_ASSERT(read_at(&r, NULL, 0) && r.weights[2] == 7 && !r.weights[62],
		  "the weight of node 2 is %d", r.weights[2]);
	return comes_back(&private_memory, true);
}

static int home_node(void)
{
	struct reading r;
	struct mp_policy p;
	char *area;

	MT_NEED(make_places(), "no memory to place");
	area = private_memory.p;
	mp_policy(&p, MPOL_BIND, "0,1");
	p.param.home_node = 1;
	MT_ASSERT(!mp_mbind2(area, SIZE, &p.param, PARAM, MP_MF_HOME_NODE),
		  "mbind2");
	MT_ASSERT(read_at(&r, area, MP_F_RAW) && r.param.home_node == 1 &&
		  r.param.mode_flags == MP_F_HOME_NODE, "home is %d",
		  r.param.home_node);
	reset(area);
	MT_ASSERT(!set_at(&r, area), "mbind2 refuses it");
	mp_touch(area, SIZE);
	MT_ASSERT(mp_count(area, SIZE, 1) == PAGES, "pages left their home");
	/* And so it is for a task. */
	reset(area);
	madvise(area, SIZE, MADV_DONTNEED);
	MT_ASSERT(!set_at(&r, NULL), "set_mempolicy2 refuses it");
	mp_touch(area, SIZE);
	MT_ASSERT(mp_count(area, SIZE, 1) == PAGES, "pages left their home");
	return MT_PASS;
}

/* A struct that has read a policy without weights reads one with weights. */
static int used_again(void)
{
	struct mp_policy p;

	mp_policy(&p, MPOL_DEFAULT, "");
	p.param.il_weights = (uintptr_t)p.weights;
	mp_old_set(MPOL_INTERLEAVE, 3);
	MT_ASSERT(!mp_get2(&p.param, PARAM, 0, MP_F_RAW) && p.nodes == 3,
		  "first");
	mp_set("0:3,1:2");
	MT_ASSERT(!mp_get2(&p.param, PARAM, 0, MP_F_RAW) &&
		  mp_is(&p, "0:3,1:2"), "the second time weights are %d,%d",
		  p.weights[0], p.weights[1]);
	return MT_PASS;
}

/* As the seed's get_mempolicy203 has it: weights that count, whoever set them */
static int weights_in_force(void)
{
	struct mp_policy p;
	int ret = MT_PASS;

	MT_NEED(!mt_write(MP_DIR "node0", "4"), "no global weights");
	mt_write(MP_DIR "node1", "2");
	mp_set("0,1");
	if (mp_in_force(&p, NULL, 0) || !mp_is(&p, "0:4,1:2")) {
		mt_note("global weights read as %d,%d", p.weights[0],
			p.weights[1]);
		ret = MT_FAIL;
	}
	if (mp_get(&p, NULL, 0) || !mp_is(&p, "0,1")) {
		mt_note("none of its own read as %d,%d", p.weights[0],
			p.weights[1]);
		ret = MT_FAIL;
	}
	mp_set("0:0,1:7");
	if (mp_in_force(&p, NULL, 0) || !mp_is(&p, "0:4,1:7") ||
	    mp_get(&p, NULL, 0) || !mp_is(&p, "0:0,1:7")) {
		mt_note("a mixture reads as %d,%d", p.weights[0], p.weights[1]);
		ret = MT_FAIL;
	}
	mt_write(MP_DIR "node0", "1");
	mt_write(MP_DIR "node1", "1");
	return ret;
}

int main(int argc, char **argv)
{
	static const struct mt_check checks[] = {
		{ "F25 positions beyond the nodes there are", old_relative },
		{ "F25 a fixed mask with nodes there are not", old_static },
		{ "F25 weights of such positions", far_positions },
		{ "F25 a home node", home_node },
		{ "F25 a struct that is used again", used_again },
		{ "F25 weights in force and as they were set",
		  weights_in_force },
		{ "F25 random policies of every call", random_policies },
	};

	if (argc > 1)
		seconds = atoll(argv[1]);
	if (argc > 2)
		seed = atoi(argv[2]);
	return mp_main(checks, ARRAY_LEN(checks));
}
