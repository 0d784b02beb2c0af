// SPDX-License-Identifier: GPL-2.0
/*
 * Generations of deferred TLB flushes: tests of each function, and a model of two CPUs
 * and two address spaces that tries every order of events up to a number of steps. It
 * runs in user space as well, with more steps (tools/testing/mtier).
 */
#include <kunit/test.h>
#include <linux/limits.h>

#include "../gen.h"

#ifndef GEN_MODEL_STEPS
#define GEN_MODEL_STEPS	8
#endif

static const unsigned long both[BITS_TO_LONGS(NR_CPUS)] = { 3 };
static const unsigned long second[BITS_TO_LONGS(NR_CPUS)] = { 2 };

static struct tlb_defer_ring *new_ring(struct kunit *test, u64 first)
{
	struct tlb_defer_ring *ring =
		kunit_kzalloc(test, sizeof(*ring), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, ring);
	tlb_defer_ring_init(ring, first);
	return ring;
}

static bool always(int cpu, u64 gen, void *data)
{
	return true;
}

/* @data: array of the newest clean generation of each CPU */
static bool by_done(int cpu, u64 gen, void *data)
{
	return ((u64 *)data)[cpu] >= gen;
}

static void an_empty_generation_stays_open(struct kunit *test)
{
	struct tlb_defer_ring *ring = new_ring(test, 1);

	KUNIT_EXPECT_FALSE(test, tlb_defer_ring_close(ring, 0));
	KUNIT_EXPECT_FALSE(test, tlb_defer_ring_busy(ring));
	KUNIT_EXPECT_EQ(test, tlb_defer_ring_seal(ring, both), 1);
	KUNIT_EXPECT_TRUE(test, tlb_defer_ring_busy(ring));
	KUNIT_EXPECT_TRUE(test, tlb_defer_ring_close(ring, 0));
	KUNIT_EXPECT_FALSE(test, tlb_defer_ring_close(ring, 0));
	KUNIT_EXPECT_EQ(test, tlb_defer_ring_seal(ring, both), 2);
}

static void the_open_generation_is_never_done(struct kunit *test)
{
	struct tlb_defer_ring *ring = new_ring(test, 1);

	tlb_defer_ring_seal(ring, both);
	tlb_defer_ring_retire(ring, always, NULL);
	KUNIT_EXPECT_EQ(test, ring->done, 0);
	tlb_defer_ring_close(ring, 0);
	tlb_defer_ring_retire(ring, always, NULL);
	KUNIT_EXPECT_EQ(test, ring->done, 1);
	KUNIT_EXPECT_FALSE(test, tlb_defer_ring_busy(ring));
}

static void generations_are_done_in_order(struct kunit *test)
{
	struct tlb_defer_ring *ring = new_ring(test, 1);
	u64 done[NR_CPUS] = { 0, 2 };

	/* Generation 1 needs CPUs 0 and 1, generation 2 only CPU 1. */
	tlb_defer_ring_seal(ring, both);
	tlb_defer_ring_close(ring, 0);
	tlb_defer_ring_seal(ring, second);
	tlb_defer_ring_close(ring, 0);
	tlb_defer_ring_retire(ring, by_done, done);
	KUNIT_EXPECT_EQ(test, ring->done, 0);
	done[0] = 1;
	tlb_defer_ring_retire(ring, by_done, done);
	KUNIT_EXPECT_EQ(test, ring->done, 2);
}

static void no_more_than_the_ring_holds_are_under_way(struct kunit *test)
{
	struct tlb_defer_ring *ring = new_ring(test, 1);
	unsigned int i;

	for (i = 0; i < TLB_DEFER_GENS - 1; i++) {
		tlb_defer_ring_seal(ring, both);
		KUNIT_EXPECT_TRUE(test, tlb_defer_ring_close(ring, 0));
	}
	tlb_defer_ring_seal(ring, second);
	KUNIT_EXPECT_FALSE(test, tlb_defer_ring_close(ring, 0));
	/*
	 * The ring is full; a commit to the open generation still works and is not lost.
	 */
	KUNIT_EXPECT_EQ(test, tlb_defer_ring_seal(ring, both),
			TLB_DEFER_GENS);
	tlb_defer_ring_finish(ring, 1);
	KUNIT_EXPECT_TRUE(test, tlb_defer_ring_close(ring, 0));
}

static void a_flush_reaches_all_that_came_before(struct kunit *test)
{
	struct tlb_defer_ring *ring = new_ring(test, 1);
	unsigned long cpus[BITS_TO_LONGS(NR_CPUS)];

	tlb_defer_ring_seal(ring, both);
	tlb_defer_ring_close(ring, 0);
	tlb_defer_ring_seal(ring, second);
	tlb_defer_ring_close(ring, 0);
	tlb_defer_ring_cpus(ring, 2, cpus);
	KUNIT_EXPECT_EQ(test, cpus[0], 3);
	tlb_defer_ring_finish(ring, 2);
	tlb_defer_ring_cpus(ring, 2, cpus);
	KUNIT_EXPECT_EQ(test, cpus[0], 0);
	/* The end of a slower flush, for an earlier generation, changes nothing. */
	tlb_defer_ring_finish(ring, 1);
	KUNIT_EXPECT_EQ(test, ring->done, 2);
}

/* The time starts at the close, not at the first commit: the close may be late. */
static void lateness_counts_from_the_close(struct kunit *test)
{
	const unsigned long start = -2;	/* ticks wrap */
	struct tlb_defer_ring *ring = new_ring(test, 1);

	tlb_defer_ring_seal(ring, both);
	KUNIT_EXPECT_EQ(test, tlb_defer_ring_overdue(ring, start + 9, 3), 0);
	tlb_defer_ring_close(ring, start);
	KUNIT_EXPECT_EQ(test, tlb_defer_ring_overdue(ring, start + 2, 3), 0);
	KUNIT_EXPECT_EQ(test, tlb_defer_ring_overdue(ring, start + 3, 3), 1);
	tlb_defer_ring_seal(ring, both);
	tlb_defer_ring_close(ring, start + 3);
	KUNIT_EXPECT_EQ(test, tlb_defer_ring_overdue(ring, start + 5, 3), 1);
	KUNIT_EXPECT_EQ(test, tlb_defer_ring_overdue(ring, start + 6, 3), 2);
	tlb_defer_ring_finish(ring, 2);
	KUNIT_EXPECT_EQ(test, tlb_defer_ring_overdue(ring, start + 9, 3), 0);
}

/* Numbers at which the ring starts over, and at which narrower counters would wrap. */
static void generations_go_on_where_others_wrap(struct kunit *test)
{
	static const u64 ends[] = { 2 * TLB_DEFER_GENS, 1ULL << 16, 1ULL << 31,
				    1ULL << 32 };
	unsigned long cpus[BITS_TO_LONGS(NR_CPUS)];
	unsigned int i;
	u64 gen;

	for (i = 0; i < ARRAY_SIZE(ends); i++) {
		struct tlb_defer_ring *ring = new_ring(test, ends[i] - 8);

		for (gen = ends[i] - 8; gen < ends[i] + 8; gen++) {
			KUNIT_EXPECT_EQ(test, tlb_defer_ring_seal(ring, both),
					gen);
			KUNIT_EXPECT_TRUE(test, tlb_defer_ring_close(ring, 0));
			KUNIT_EXPECT_EQ(test,
					tlb_defer_ring_overdue(ring, 3, 3), gen);
			tlb_defer_ring_cpus(ring, gen, cpus);
			KUNIT_EXPECT_EQ(test, cpus[0], 3);
			if (gen & 1)
				tlb_defer_ring_retire(ring, always, NULL);
			else
				tlb_defer_ring_finish(ring, gen);
			KUNIT_EXPECT_EQ(test, ring->done, gen);
			KUNIT_EXPECT_FALSE(test, tlb_defer_ring_busy(ring));
		}
	}
}

/* ---- model ---- */

enum { CPUS = 2, MMS = 2, FRAMES = 2 };

/* Faults of the engine; the model has to detect each. */
enum flaw {
	FLAW_NONE,
	FLAW_ORDER,	/* done when closed */
	FLAW_TICK,	/* a tick does not flush */
	FLAW_OPEN,	/* a tick counts for the open generation */
	FLAW_LATE_READ,	/* a tick reads the generation after its flush */
	FLAW_MASK,	/* CPU 1 is missing in the mask */
	FLAW_LAZY,	/* leaving lazy mode does not compare */
};

/**
 * struct cpu_model - CPU with a TLB that is tagged by address space
 * @mm: loaded address space
 * @lazy: a kernel thread runs and uses no user translation
 * @ctx_gen: tlb_gen it has flushed each mm to; 0 if it never used the mm
 * @stale: frames that its translations of each mm may still map
 * @done: published generation
 * @ticking: in the timer interrupt, after reading @closed
 * @closed: generation that it will publish
 */
struct cpu_model {
	u8 mm;
	bool lazy;
	u8 ctx_gen[MMS];
	u8 stale[MMS];
	u64 done;
	bool ticking;
	u64 closed;
};

/**
 * struct frame_model - old frame of a page that migrated
 * @gen: generation until which it is held, 0 if unused
 * @freed: the frame has a new owner
 */
struct frame_model {
	u64 gen;
	bool freed;
};

/**
 * struct model - one state
 * @cpu: CPUs
 * @mm_gen: mm->context.tlb_gen; only mm 0 migrates
 * @frame: frames
 * @cleared: frame whose entry was cleared, not kept yet; -1 for none
 * @ring: the generations, as in the engine
 */
struct model {
	struct cpu_model cpu[CPUS];
	u8 mm_gen[MMS];
	struct frame_model frame[FRAMES];
	int cleared;
	struct tlb_defer_ring ring;
};

/**
 * struct search - walk through all states
 * @at: the state at each step
 * @flaw: the fault
 * @steps: number of steps
 * @states: number of states visited
 * @bad: number of states in which a CPU could use a freed frame
 */
struct search {
	struct model *at;
	enum flaw flaw;
	unsigned int steps;
	unsigned long states;
	unsigned long bad;
};

static void flush_cpu(struct model *m, struct cpu_model *cpu)
{
	cpu->stale[cpu->mm] = 0;
	cpu->ctx_gen[cpu->mm] = m->mm_gen[cpu->mm];
}

static void catch_up(struct model *m, struct cpu_model *cpu)
{
	if (!cpu->lazy && cpu->ctx_gen[cpu->mm] != m->mm_gen[cpu->mm])
		flush_cpu(m, cpu);
}

/* switch_mm_irqs_off() */
static void load(struct model *m, struct cpu_model *cpu, u8 mm, enum flaw flaw)
{
	bool check = mm != cpu->mm || (cpu->lazy && flaw != FLAW_LAZY);

	/* An interrupt cannot be followed by a switch before it ends. */
	if (cpu->ticking)
		return;
	cpu->mm = mm;
	cpu->lazy = false;
	if (check && cpu->ctx_gen[mm] != m->mm_gen[mm])
		flush_cpu(m, cpu);
}

static void rest(struct cpu_model *cpu)
{
	if (!cpu->ticking)
		cpu->lazy = true;
}

static void unmap(struct model *m, enum flaw flaw)
{
	unsigned long cpus[BITS_TO_LONGS(NR_CPUS)] = {};
	int f, c;

	if (m->cleared >= 0)
		return;
	for (f = 0; f < FRAMES && m->frame[f].gen; f++)
		;
	if (f == FRAMES)
		return;
	m->cleared = f;
	for (c = 0; c < CPUS; c++) {
		if (m->cpu[c].ctx_gen[0])
			m->cpu[c].stale[0] |= 1 << f;
		if (m->cpu[c].mm == 0 && !(flaw == FLAW_MASK && c == 1))
			cpus[0] |= 1UL << c;
	}
	m->mm_gen[0]++;
	tlb_defer_ring_seal(&m->ring, cpus);
}

static void keep(struct model *m)
{
	if (m->cleared < 0)
		return;
	m->frame[m->cleared].gen = tlb_defer_ring_seal(&m->ring, NULL);
	m->cleared = -1;
}

static void tick_begins(struct model *m, struct cpu_model *cpu, enum flaw flaw)
{
	u64 closed = m->ring.open - (flaw == FLAW_OPEN ? 0 : 1);

	if (cpu->ticking || cpu->done >= closed)
		return;
	cpu->ticking = true;
	cpu->closed = closed;
	if (flaw == FLAW_LATE_READ)
		catch_up(m, cpu);
}

static void tick_ends(struct model *m, struct cpu_model *cpu, enum flaw flaw)
{
	if (!cpu->ticking)
		return;
	if (flaw == FLAW_LATE_READ)
		cpu->closed = m->ring.open - 1;
	else if (flaw != FLAW_TICK)
		catch_up(m, cpu);
	cpu->done = cpu->closed;
	cpu->closed = 0;
	cpu->ticking = false;
}

/**
 * struct clean_arg - argument of the model's clean()
 * @m: state
 * @flaw: the fault
 */
struct clean_arg {
	struct model *m;
	enum flaw flaw;
};

static bool clean(int cpu, u64 gen, void *data)
{
	struct clean_arg *arg = data;

	return arg->flaw == FLAW_ORDER || arg->m->cpu[cpu].done >= gen ||
	       arg->m->cpu[cpu].lazy;
}

/* Give frames of generations that are done a new owner. */
static void free_done(struct model *m)
{
	int f;

	for (f = 0; f < FRAMES; f++)
		if (m->frame[f].gen && m->frame[f].gen <= m->ring.done)
			m->frame[f].freed = true;
}

static void force(struct model *m)
{
	unsigned long cpus[BITS_TO_LONGS(NR_CPUS)];
	u64 gen = m->ring.open - 1;
	int c;

	tlb_defer_ring_cpus(&m->ring, gen, cpus);
	for (c = 0; c < CPUS; c++)
		if (cpus[0] & (1UL << c))
			catch_up(m, &m->cpu[c]);
	tlb_defer_ring_finish(&m->ring, gen);
}

enum { EVENTS = 14 };

static void happen(struct model *m, int event, enum flaw flaw)
{
	struct clean_arg arg = { m, flaw };
	struct cpu_model *cpu0 = &m->cpu[0], *cpu1 = &m->cpu[1];

	switch (event) {
	case 0:
		unmap(m, flaw);
		break;
	case 1:
		keep(m);
		break;
	case 2:
		tlb_defer_ring_close(&m->ring, 0);
		break;
	case 3:
		tick_begins(m, cpu0, flaw);
		break;
	case 4:
		tick_ends(m, cpu0, flaw);
		break;
	case 5:
		tick_begins(m, cpu1, flaw);
		break;
	case 6:
		tick_ends(m, cpu1, flaw);
		break;
	case 7:
		load(m, cpu0, 0, flaw);
		break;
	case 8:
		load(m, cpu0, 1, flaw);
		break;
	case 9:
		rest(cpu0);
		break;
	case 10:
		rest(cpu1);
		break;
	case 11:
		load(m, cpu1, 0, flaw);
		break;
	case 12:
		tlb_defer_ring_retire(&m->ring, clean, &arg);
		break;
	case 13:
		force(m);
		break;
	}
	free_done(m);
}

/* Check whether a CPU can reach a frame with a new owner. */
static bool unsafe(const struct model *m)
{
	int c, f;

	for (c = 0; c < CPUS; c++)
		for (f = 0; f < FRAMES; f++)
			if (m->frame[f].freed && !m->cpu[c].lazy &&
			    m->cpu[c].stale[m->cpu[c].mm] & (1 << f))
				return true;
	return false;
}

static void search_from(struct search *s, unsigned int step)
{
	int event;

	if (step == s->steps)
		return;
	for (event = 0; event < EVENTS; event++) {
		struct model *next = &s->at[step + 1];

		memcpy(next, &s->at[step], sizeof(*next));
		happen(next, event, s->flaw);
		if (!memcmp(next, &s->at[step], sizeof(*next)))
			continue;
		s->states++;
		if (unsafe(next))
			s->bad++;
		else
			search_from(s, step + 1);
	}
}

static unsigned long find_bad(struct kunit *test, enum flaw flaw, u64 first,
			      unsigned int steps)
{
	struct search s = { .flaw = flaw, .steps = steps };
	struct model *m;

	s.at = kunit_kzalloc(test, (steps + 1) * sizeof(*s.at), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, s.at);
	m = s.at;
	m->cleared = -1;
	m->mm_gen[0] = 1;
	m->mm_gen[1] = 1;
	m->cpu[0].ctx_gen[0] = 1;
	m->cpu[1].ctx_gen[0] = 1;
	m->cpu[0].done = first - 1;
	m->cpu[1].done = first - 1;
	tlb_defer_ring_init(&m->ring, first);
	search_from(&s, 0);
	KUNIT_EXPECT_GT(test, s.states, 1000UL);
	return s.bad;
}

static void no_order_of_events_frees_a_frame_in_use(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, find_bad(test, FLAW_NONE, 1, GEN_MODEL_STEPS), 0);
}

/* Where the ring starts over, and where 32 bits end */
static void numbers_do_not_matter(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, find_bad(test, FLAW_NONE, TLB_DEFER_GENS - 1,
				       GEN_MODEL_STEPS - 1), 0);
	KUNIT_EXPECT_EQ(test, find_bad(test, FLAW_NONE, U32_MAX,
				       GEN_MODEL_STEPS - 1), 0);
}

static void the_model_finds_every_flaw(struct kunit *test)
{
	KUNIT_EXPECT_GT(test, find_bad(test, FLAW_ORDER, 1, 5), 0);
	KUNIT_EXPECT_GT(test, find_bad(test, FLAW_MASK, 1, 5), 0);
	KUNIT_EXPECT_GT(test, find_bad(test, FLAW_LAZY, 1, 6), 0);
	KUNIT_EXPECT_GT(test, find_bad(test, FLAW_TICK, 1, 8), 0);
	KUNIT_EXPECT_GT(test, find_bad(test, FLAW_OPEN, 1, 8), 0);
}

#if GEN_MODEL_STEPS >= 10
/* Detecting this fault takes more steps than the kernel test has time for. */
static void the_model_finds_a_late_look_at_the_generation(struct kunit *test)
{
	KUNIT_EXPECT_GT(test, find_bad(test, FLAW_LATE_READ, 1, 10), 0);
}
#endif

static struct kunit_case tlb_defer_gen_cases[] = {
	KUNIT_CASE(an_empty_generation_stays_open),
	KUNIT_CASE(the_open_generation_is_never_done),
	KUNIT_CASE(generations_are_done_in_order),
	KUNIT_CASE(no_more_than_the_ring_holds_are_under_way),
	KUNIT_CASE(a_flush_reaches_all_that_came_before),
	KUNIT_CASE(lateness_counts_from_the_close),
	KUNIT_CASE(generations_go_on_where_others_wrap),
	KUNIT_CASE_SLOW(no_order_of_events_frees_a_frame_in_use),
	KUNIT_CASE_SLOW(numbers_do_not_matter),
	KUNIT_CASE_SLOW(the_model_finds_every_flaw),
#if GEN_MODEL_STEPS >= 10
	KUNIT_CASE_SLOW(the_model_finds_a_late_look_at_the_generation),
#endif
	{}
};

static struct kunit_suite tlb_defer_gen_suite = {
	.name = "tlb_defer_gen",
	.test_cases = tlb_defer_gen_cases,
};

kunit_test_suite(tlb_defer_gen_suite);
