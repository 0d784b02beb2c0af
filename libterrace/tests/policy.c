// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Tests of libterrace: objects and text on every kernel, the calls on a kernel
 * with them, errors and fallbacks on a kernel without them.  Prints TAP.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <terrace/policy.h>
#include <unistd.h>

static int number, failures;

static void result(int ok, const char *what, const char *more)
{
	printf("%s %d %s%s\n", ok ? "ok" : "not ok", ++number, what, more);
	failures += !ok;
}

#define OK(cond, what)		result(cond, what, "")
#define SKIP(what, why)		result(1, what, " # SKIP " why)

static void objects(void)
{
	struct terrace_policy *p;

	OK(terrace_policy_new(&p, 7) == -EINVAL, "an unknown mode is refused");
	OK(!terrace_policy_new(&p, TERRACE_BIND), "a policy can be made");
	OK(terrace_policy_home(p) == -1 && !terrace_policy_nodes(p),
	   "it has no nodes and no home");
	OK(terrace_policy_set_node(p, 1, 3) == -EINVAL,
	   "weights belong to weighted interleave");
	OK(terrace_policy_set_node(p, 1024, 0) == -ERANGE, "nodes end at 1023");
	OK(!terrace_policy_set_node(p, 1023, 0) &&
	   terrace_policy_nodes(p) == 1024 &&
	   terrace_policy_has_node(p, 1023) && !terrace_policy_has_node(p, 3),
	   "nodes are remembered");
	OK(!terrace_policy_set_home(p, 1) && terrace_policy_home(p) == 1,
	   "so is a home");
	OK(terrace_policy_set_flags(p, 1) == -EINVAL &&
	   !terrace_policy_set_flags(p, TERRACE_F_STATIC_NODES) &&
	   terrace_policy_flags(p) == TERRACE_F_STATIC_NODES, "and flags");
	terrace_policy_free(p);
	terrace_policy_free(NULL);
}

static void texts(void)
{
	static const char * const bad[] = {
		"", ",", "0=", "=1", "0=1,", "0=x", "1-0", "0,0", "0=1 ",
		"x", "-1", "0--1", "0=-1", " 0",
	};
	struct terrace_policy *p;
	unsigned int i, refused = 0;

	OK(!terrace_policy_parse(&p, "0=9,2-3=4,7") &&
	   terrace_policy_mode(p) == TERRACE_WEIGHTED_INTERLEAVE &&
	   terrace_policy_weight(p, 0) == 9 &&
	   terrace_policy_weight(p, 2) == 4 &&
	   terrace_policy_weight(p, 3) == 4 &&
	   terrace_policy_has_node(p, 7) && !terrace_policy_weight(p, 7) &&
	   !terrace_policy_has_node(p, 1), "0=9,2-3=4,7 is understood");
	terrace_policy_free(p);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused += terrace_policy_parse(&p, bad[i]) == -EINVAL;
	OK(refused == i, "texts that are none are refused");
	OK(terrace_policy_parse(&p, "0=256") == -ERANGE &&
	   terrace_policy_parse(&p, "1024=1") == -ERANGE &&
	   terrace_policy_parse(&p, "0=99999999999999999999") == -ERANGE,
	   "numbers that are too large are refused");
}

static void without_calls(void)
{
	struct terrace_policy *p, *q;
	enum terrace_result how;
	int ret;

	terrace_policy_parse(&p, "0=3");
	OK(terrace_policy_apply_thread(p, 0, NULL) == -ENOSYS,
	   "an older kernel is told of");
	OK(terrace_policy_read_thread(&q, 0) == -ENOSYS, "also when reading");
	ret = terrace_policy_read_thread(&q, TERRACE_READ_FALLBACK);
	if (ret == -ENOSYS || ret == -EPERM) {
		SKIP("unless an older call will do", "no policies here");
	} else {
		OK(!ret && terrace_policy_mode(q) == TERRACE_DEFAULT &&
		   !terrace_policy_nodes(q), "unless an older call will do");
		terrace_policy_free(q);
	}
	OK(terrace_policy_apply_thread(p, TERRACE_FALLBACK, NULL) == -EINVAL,
	   "nobody falls back without knowing");
	ret = terrace_policy_apply_thread(p, TERRACE_FALLBACK, &how);
	if (ret == -EINVAL || ret == -ENOSYS || ret == -EPERM)
		SKIP("the fallback is told of", "no weighted interleave here");
	else
		OK(!ret && how == TERRACE_GLOBAL_WEIGHTS,
		   "the fallback is told of");
	terrace_policy_free(p);
}

static int same(const struct terrace_policy *p, const struct terrace_policy *q)
{
	unsigned int node;

	for (node = 0; node < 1024; node++)
		if (terrace_policy_has_node(p, node) !=
		    terrace_policy_has_node(q, node) ||
		    terrace_policy_weight(p, node) !=
		    terrace_policy_weight(q, node))
			return 0;
	return terrace_policy_mode(p) == terrace_policy_mode(q) &&
	       terrace_policy_home(p) == terrace_policy_home(q);
}

static void with_calls(void)
{
	size_t size = 64 << 12;
	char *area = mmap(NULL, size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct terrace_policy *p, *q = NULL;
	enum terrace_result how;
	unsigned int weight;

	terrace_policy_parse(&p, "0=3");
	OK(!terrace_policy_apply_thread(p, TERRACE_FALLBACK, &how) &&
	   how == TERRACE_APPLIED, "a thread's policy is set");
	OK(!terrace_policy_read_thread(&q, 0) && same(p, q), "and read");
	terrace_policy_free(q);
	OK(!terrace_policy_apply_range(p, area, size, 0, NULL),
	   "a range's policy is set");
	OK(!terrace_policy_read_range(&q, area, 0) && same(p, q), "and read");
	terrace_policy_free(q);
	memset(area, 1, size);
	OK(!terrace_policy_apply_range(p, area, size, TERRACE_REBALANCE |
				       TERRACE_STRICT, &how) &&
	   how == TERRACE_APPLIED, "it can be rebalanced");
	OK(terrace_policy_apply_thread(p, TERRACE_MOVE, NULL) == -EINVAL &&
	   terrace_policy_apply_range(p, NULL, size, 0, NULL) == -EINVAL,
	   "a thread has no pages to move");
	terrace_policy_free(p);

	terrace_policy_parse(&p, "0");
	OK(!terrace_policy_apply_thread(p, 0, NULL) &&
	   !terrace_policy_read_thread(&q, TERRACE_EFFECTIVE) &&
	   !terrace_global_weight(0, &weight) &&
	   terrace_policy_weight(q, 0) == weight,
	   "effective weights are the global ones");
	terrace_policy_free(p);
	terrace_policy_free(q);
	terrace_policy_new(&p, TERRACE_BIND);
	terrace_policy_set_node(p, 0, 0);
	terrace_policy_set_home(p, 0);
	OK(!terrace_policy_apply_thread(p, 0, NULL) &&
	   !terrace_policy_read_thread(&q, 0) && same(p, q),
	   "a thread has a home node");
	terrace_policy_free(q);
	OK(!terrace_policy_apply_range(p, area, size, 0, NULL) &&
	   !terrace_policy_read_range(&q, area, 0) && same(p, q) &&
	   !terrace_policy_apply_range(q, area, size, 0, NULL),
	   "so has a range, and what was read is applied again");
	terrace_policy_free(p);
	terrace_policy_free(q);
	terrace_policy_new(&p, TERRACE_DEFAULT);
	OK(!terrace_policy_apply_thread(p, 0, NULL), "and all goes back");
	terrace_policy_free(p);
}

/* Pages of a range that are on @node */
static int pages_on(char *area, size_t size, int node)
{
	size_t page = 4096, i;
	int n = 0, where;
	void *at;

	for (i = 0; i < size / page; i++) {
		at = area + i * page;
		n += !syscall(SYS_move_pages, 0, 1UL, &at, NULL, &where, 0) &&
		     where == node;
	}
	return n;
}

/* With a fallback, which must not do more than was requested */
static int lazily(const struct terrace_policy *p, void *area, size_t size,
		  unsigned int flags)
{
	enum terrace_result how;

	return terrace_policy_apply_range(p, area, size, flags | TERRACE_MOVE |
					  TERRACE_LAZY | TERRACE_FALLBACK,
					  &how);
}

/* Half of what is marked is used; up to 16 pages, aligned, move together. */
static void lazy(void)
{
	const size_t size = 64 * 4096, unit = 16 * 4096;
	enum terrace_result how;
	struct terrace_policy *p;
	char *area = mmap(NULL, size + unit, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	area += -(uintptr_t)area % unit;
	terrace_policy_new(&p, TERRACE_BIND);
	terrace_policy_set_node(p, 1, 0);
	OK(terrace_policy_apply_range(p, area, size, TERRACE_LAZY, NULL) ==
	   -EINVAL, "lazy says how pages move, not that they do");
	OK(lazily(p, area, size, TERRACE_STRICT) == -EINVAL &&
	   lazily(p, area, size, TERRACE_REBALANCE) == -EINVAL,
	   "who wants to know now, or wants all, cannot be lazy");
	terrace_policy_apply_range(p, area, size, 0, NULL);
	memset(area, 1, size);
	terrace_policy_free(p);
	terrace_policy_new(&p, TERRACE_BIND);
	terrace_policy_set_node(p, 0, 0);
	OK(!terrace_policy_apply_range(p, area, size, TERRACE_MOVE |
				       TERRACE_LAZY | TERRACE_FALLBACK, &how),
	   "pages can be moved when they are used");
	if (how == TERRACE_AT_ONCE) {
		OK(pages_on(area, size, 0) == 64, "or are moved at once");
		SKIP("what is not used stays", "no CONFIG_NUMA_FOLLOW");
	} else {
		OK(pages_on(area, size, 1) == 64, "none has moved yet");
		memset(area, 2, size / 2);
		OK(pages_on(area, size, 0) == 32 &&
		   pages_on(area, size, 1) == 32, "what is not used stays");
	}
	terrace_policy_free(p);
}

int main(void)
{
	printf("TAP version 13\n");
	objects();
	texts();
	OK(terrace_set_global_weight(0, 0) == -ERANGE &&
	   terrace_set_global_weight(0, 256) == -ERANGE &&
	   terrace_set_global_weight(5000, 1) == -ERANGE,
	   "global weights are 1 to 255");
	if (terrace_supported()) {
		without_calls();
	} else {
		with_calls();
		lazy();
	}
	printf("1..%d\n", number);
	return failures != 0;
}
