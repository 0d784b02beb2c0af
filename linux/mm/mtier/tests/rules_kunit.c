// SPDX-License-Identifier: GPL-2.0
/*
 * Nodes that the policies and cpusets of several tasks allow. Included by ../rules.c.
 */
#include <kunit/test.h>

/* Two sockets with DRAM, a CXL node of each, as in struct mtier_map. */
#define DRAM_A	0
#define DRAM_B	1
#define CXL_A	2
#define CXL_B	3

static nodemask_t rules_nodes(unsigned long bits)
{
	nodemask_t nodes = NODE_MASK_NONE;
	unsigned int n;

	for_each_set_bit(n, &bits, BITS_PER_LONG)
		node_set(n, nodes);
	return nodes;
}

#define RULES_DRAM	(BIT(DRAM_A) | BIT(DRAM_B))
#define RULES_CXL	(BIT(CXL_A) | BIT(CXL_B))
#define RULES_EVERY	(RULES_DRAM | RULES_CXL)

static void rules_begin(struct mtier_reading *r)
{
	mtier_read_begin(r, NULL);
	r->from[MTIER_LOW] = rules_nodes(RULES_CXL);
	r->from[MTIER_TOP] = rules_nodes(RULES_DRAM);
}

/* Add a task of a cpuset, with a policy if @mode is not MPOL_DEFAULT. */
static void rules_add(struct mtier_reading *r, unsigned long mems, int mode,
		      unsigned long nodes)
{
	struct mempolicy pol = { .mode = mode, .nodes = rules_nodes(nodes) };

	r->mems = rules_nodes(mems);
	mtier_read_cpuset(r);
	mtier_read_policy(r, mode == MPOL_DEFAULT ? NULL : &pol);
}

static unsigned long rules_up(const struct mtier_reading *r)
{
	return mtier_allow_result(&r->policy[MTIER_LOW])->bits[0] & RULES_EVERY;
}

static unsigned long rules_down(const struct mtier_reading *r)
{
	return mtier_allow_result(&r->policy[MTIER_TOP])->bits[0] & RULES_EVERY;
}

/* A task with another policy between two with the default policy. */
static void rules_three(struct mtier_reading *r, int mode, unsigned long nodes)
{
	rules_begin(r);
	rules_add(r, RULES_EVERY, MPOL_DEFAULT, 0);
	rules_add(r, RULES_EVERY, mode, nodes);
	rules_add(r, RULES_EVERY, MPOL_DEFAULT, 0);
}

static void without_policies_all_nodes_are_allowed(struct kunit *test)
{
	struct mtier_reading *r = &mtier_reading;

	rules_begin(r);
	KUNIT_EXPECT_EQ(test, rules_up(r), RULES_EVERY);
	rules_three(r, MPOL_LOCAL, 0);
	KUNIT_EXPECT_EQ(test, rules_up(r), RULES_EVERY);
	KUNIT_EXPECT_EQ(test, rules_down(r), RULES_EVERY);
}

static void a_task_bound_to_slow_memory_keeps_pages_there(struct kunit *test)
{
	struct mtier_reading *r = &mtier_reading;

	rules_three(r, MPOL_BIND, BIT(CXL_A));
	KUNIT_EXPECT_EQ(test, rules_up(r), BIT(CXL_A));
	/* Pages in DRAM are not of this task. */
	KUNIT_EXPECT_EQ(test, rules_down(r), RULES_EVERY);
	rules_three(r, MPOL_BIND, BIT(CXL_A) | BIT(DRAM_B));
	KUNIT_EXPECT_EQ(test, rules_up(r), BIT(CXL_A) | BIT(DRAM_B));
	KUNIT_EXPECT_EQ(test, rules_down(r), BIT(CXL_A) | BIT(DRAM_B));
}

static void a_task_bound_to_fast_memory_keeps_pages_there(struct kunit *test)
{
	struct mtier_reading *r = &mtier_reading;

	rules_three(r, MPOL_BIND, BIT(DRAM_A));
	/* Pages on slow nodes are not of this task: they may go to the other socket. */
	KUNIT_EXPECT_EQ(test, rules_up(r), RULES_EVERY);
	KUNIT_EXPECT_EQ(test, rules_down(r) & RULES_CXL, 0);
}

static void pages_on_preferred_and_interleaved_nodes_stay(struct kunit *test)
{
	struct mtier_reading *r = &mtier_reading;

	rules_three(r, MPOL_PREFERRED, BIT(CXL_A));
	KUNIT_EXPECT_EQ(test, rules_up(r) & RULES_DRAM, 0);
	KUNIT_EXPECT_EQ(test, rules_down(r), RULES_EVERY);
	rules_three(r, MPOL_PREFERRED_MANY, BIT(DRAM_A));
	KUNIT_EXPECT_EQ(test, rules_up(r), RULES_EVERY);
	KUNIT_EXPECT_EQ(test, rules_down(r), 0);
	rules_three(r, MPOL_INTERLEAVE, RULES_DRAM);
	KUNIT_EXPECT_EQ(test, rules_up(r), RULES_EVERY);
	KUNIT_EXPECT_EQ(test, rules_down(r), 0);
	rules_three(r, MPOL_INTERLEAVE, RULES_EVERY);
	KUNIT_EXPECT_EQ(test, rules_up(r), 0);
}

/* Pages that none of the tasks can have allocated: all of them are asked. */
static void if_no_task_has_allocated_them_all_are_asked(struct kunit *test)
{
	struct mtier_reading *r = &mtier_reading;

	rules_begin(r);
	rules_add(r, RULES_EVERY, MPOL_BIND, BIT(DRAM_A) | BIT(DRAM_B));
	rules_add(r, RULES_EVERY, MPOL_BIND, BIT(DRAM_A));
	KUNIT_EXPECT_EQ(test, rules_up(r), BIT(DRAM_A));
	rules_add(r, RULES_EVERY, MPOL_BIND, BIT(DRAM_B));
	KUNIT_EXPECT_EQ(test, rules_up(r), 0);
}

static void a_cpuset_of_one_task_holds_for_vma_policies_too(struct kunit *test)
{
	struct mtier_reading *r = &mtier_reading;

	rules_begin(r);
	rules_add(r, RULES_EVERY, MPOL_DEFAULT, 0);
	rules_add(r, BIT(CXL_A) | BIT(DRAM_A), MPOL_DEFAULT, 0);
	KUNIT_EXPECT_EQ(test, rules_up(r), BIT(CXL_A) | BIT(DRAM_A));
	KUNIT_EXPECT_EQ(test, mtier_allow_result(&r->cpuset[MTIER_LOW])->bits[0] & RULES_EVERY,
			BIT(CXL_A) | BIT(DRAM_A));
	/* A policy does not. */
	rules_three(r, MPOL_BIND, BIT(CXL_A));
	KUNIT_EXPECT_EQ(test, mtier_allow_result(&r->cpuset[MTIER_LOW])->bits[0] & RULES_EVERY,
			RULES_EVERY);
}

/* A task that only holds a reference to an address space has no rules for it. */
static void other_references_allow_all(struct kunit *test)
{
	struct mtier_allowed allowed;
	struct mm_struct *mm = mm_alloc();

	KUNIT_ASSERT_NOT_NULL(test, mm);
	rcu_assign_pointer(mm->owner, &init_task);
	mtier_peers_next_ns = 0;
	KUNIT_EXPECT_TRUE(test, mtier_rules_read(mm, &allowed));
	KUNIT_EXPECT_TRUE(test, nodes_subset(node_states[N_MEMORY], allowed.up));
	KUNIT_EXPECT_TRUE(test, nodes_subset(node_states[N_MEMORY], allowed.mems_down));
	/* The next search is not due: no page may migrate. */
	mtier_peers_next_ns = U64_MAX;
	KUNIT_EXPECT_FALSE(test, mtier_rules_read(mm, &allowed));
	KUNIT_EXPECT_TRUE(test, nodes_empty(allowed.up));
	KUNIT_EXPECT_TRUE(test, nodes_empty(allowed.mems_up));
	mtier_peers_next_ns = 0;
	rcu_assign_pointer(mm->owner, NULL);
	mmput(mm);
}

static struct kunit_case mtier_rules_cases[] = {
	KUNIT_CASE(without_policies_all_nodes_are_allowed),
	KUNIT_CASE(a_task_bound_to_slow_memory_keeps_pages_there),
	KUNIT_CASE(a_task_bound_to_fast_memory_keeps_pages_there),
	KUNIT_CASE(pages_on_preferred_and_interleaved_nodes_stay),
	KUNIT_CASE(if_no_task_has_allocated_them_all_are_asked),
	KUNIT_CASE(a_cpuset_of_one_task_holds_for_vma_policies_too),
	KUNIT_CASE(other_references_allow_all),
	{ }
};

static struct kunit_suite mtier_rules_suite = {
	.name = "mtier_rules",
	.test_cases = mtier_rules_cases,
};

kunit_test_suite(mtier_rules_suite);
