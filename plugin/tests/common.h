/* SPDX-License-Identifier: GPL-2.0 */
/* What the tests of the model share: the sources, a small machine, and TAP. */
#ifndef TERRACE_MODEL_TESTS_H
#define TERRACE_MODEL_TESTS_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "../balance.c"
#include "../machine.c"
#include "../model.c"

static const char *test_name;
static bool test_ok;

#define CHECK(condition, ...) do {							\
	if (!(condition)) {								\
		if (test_ok)								\
			printf("# %s:%d: %s: ", test_name, __LINE__, #condition),	\
			printf(__VA_ARGS__), putchar('\n');				\
		test_ok = false;							\
	}										\
} while (0)

static uint64_t random_state;

static inline uint64_t rnd(uint64_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % below;
}

/* Virtual pages are where the test put them: at the same address, or as moved[] says. */
#define MAX_MOVED 64
static uint64_t moved_from[MAX_MOVED], moved_to[MAX_MOVED];
static unsigned int nr_moved, nr_lookups;
static bool map_huge;

static inline bool identity(uintptr_t context, uint64_t vaddr, uint64_t *paddr, bool *huge)
{
	(void)context;
	nr_lookups++;
	*huge = map_huge;
	*paddr = vaddr & 0x7fffffffffffull;
	for (unsigned int i = 0; i < nr_moved; i++)
		if (moved_from[i] == vaddr >> 12)
			*paddr = moved_to[i] << 12 | (vaddr & 0xfff);
	return true;
}

#define GIB (1ull << 30)

/* Two nodes: fast memory with two CPUs, slow memory. */
static inline struct model_config small_machine(void)
{
	struct model_config c = {
		.name = "small", .nr_nodes = 2, .nr_cpus = 2, .pde_entries = 32, .insn_ps = 500,
		.overlap_random = 4, .overlap_stream = 16, .overlap_store = 8, .cores_per_cpu = 1,
		.window_ps = 10000000, .shootdown_send_ps = 2000000, .shootdown_receive_ps = 1000000,
		.curve = { .4, .8, 1.5, 3, 80 },
	};

	c.node[0].size = c.node[1].base = c.node[1].size = 4 * GIB;
	c.node[0].write_cost = c.node[1].write_cost = 1;
	c.access[0][0].latency_ps = 80000;
	c.access[0][1].latency_ps = 250000;
	c.access[0][0].bandwidth = 64;
	c.access[0][1].bandwidth = 20;
	c.cache[MODEL_L1].size = 32 << 10;
	c.cache[MODEL_L1].ways = 8;
	c.cache[MODEL_L2].size = 256 << 10;
	c.cache[MODEL_L2].ways = 8;
	c.cache[MODEL_L2].latency_ps = 7000;
	c.cache[MODEL_LLC].size = 2 << 20;
	c.cache[MODEL_LLC].ways = 16;
	c.cache[MODEL_LLC].latency_ps = 30000;
	c.tlb[MODEL_DTLB_4K].entries = 64;
	c.tlb[MODEL_DTLB_4K].ways = 4;
	c.tlb[MODEL_DTLB_2M].entries = 32;
	c.tlb[MODEL_DTLB_2M].ways = 4;
	c.tlb[MODEL_STLB].entries = 512;
	c.tlb[MODEL_STLB].ways = 8;
	c.tlb[MODEL_STLB].latency_ps = 4000;
	return c;
}

static inline struct model *make(const struct model_config *c)
{
	const char *error;
	struct model *m = model_new(c, identity, &error);

	if (!m) {
		printf("Bail out! %s\n", error);
		exit(1);
	}
	nr_moved = nr_lookups = 0;
	map_huge = false;
	return m;
}

struct test {
	const char *name;
	void (*run)(void);
};

#define TEST(function) { #function, function }

/* Run them all; the exit code. */
static int run_tests(const struct test *tests, unsigned int count)
{
	unsigned int failed = 0;

	printf("TAP version 13\n1..%u\n", count);
	for (unsigned int i = 0; i < count; i++) {
		test_name = tests[i].name;
		test_ok = true;
		random_state = 88172645463325252ull;
		tests[i].run();
		printf("%sok %u - %s\n", test_ok ? "" : "not ", i + 1, test_name);
		failed += !test_ok;
	}
	return failed != 0;
}

#endif /* TERRACE_MODEL_TESTS_H */
