// SPDX-License-Identifier: GPL-2.0
/*
 * Run every KUnit suite that is linked in, in user space, and report in KTAP.
 *
 * Usage: policy-test [-x] [FILTER]: only cases with FILTER in their name; with
 * -x stop after the first that fails.
 * Exit code: 0 all passed, 1 some failed, 2 nothing matched.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <kunit/test.h>

#define FAILURES_SHOWN	10

static struct kunit_suite *suites;
static bool stop_at_failure;
static unsigned int failures;

void shim_register(struct kunit_suite *suite)
{
	struct kunit_suite **at = &suites;

	while (*at && strcmp((*at)->name, suite->name) < 0)
		at = &(*at)->next;
	suite->next = *at;
	*at = suite;
}

void shim_fail(struct kunit *test, bool fatal, const char *file, int line,
	       const char *what, s64 left, s64 right)
{
	test->failed = true;
	if (failures++ < FAILURES_SHOWN)
		printf("    # %s: EXPECTATION FAILED at %s:%d\n"
		       "        Expected %s, but left is %lld (0x%llx) and right is %lld (0x%llx)\n",
		       test->name, file, line, what, left, left, right, right);
	if (fatal)
		longjmp(test->give_up, 1);
}

void kunit_info(struct kunit *test, const char *format, ...)
{
	va_list args;

	printf("    # %s: ", test->name);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

void *kunit_kzalloc(struct kunit *test, size_t size, int gfp)
{
	void *p = NULL;

	(void)gfp;
	if (test->nr_allocated < ARRAY_SIZE(test->allocated)) {
		p = calloc(1, size);
		test->allocated[test->nr_allocated++] = p;
	}
	return p;
}

/* One case with one parameter; true if it passed. */
static bool run_once(const struct kunit_case *c, const void *param)
{
	struct kunit test = { .name = c->name, .param_value = param };

	if (!setjmp(test.give_up))
		c->run_case(&test);
	for (unsigned int i = 0; i < test.nr_allocated; i++)
		free(test.allocated[i]);
	return !test.failed;
}

static bool run_params(const struct kunit_case *c)
{
	char desc[KUNIT_PARAM_DESC_SIZE] = "";
	const void *param = NULL;
	unsigned int nr = 0;
	bool passed = true;

	printf("        KTAP version 1\n        # Subtest: %s\n", c->name);
	while ((param = c->generate_params(param, desc))) {
		bool ok = run_once(c, param);

		printf("        %s %u %s\n", ok ? "ok" : "not ok", ++nr, desc);
		memset(desc, 0, sizeof(desc));
		passed &= ok;
	}
	printf("        1..%u\n", nr);
	return passed;
}

/* Number of cases that match; *passed is cleared if one of them fails. */
static unsigned int run_suite(const struct kunit_suite *suite,
			      const char *filter, bool *passed)
{
	unsigned int nr = 0;

	printf("    KTAP version 1\n    # Subtest: %s\n", suite->name);
	for (const struct kunit_case *c = suite->test_cases; c->run_case; c++) {
		bool ok;

		if (!strstr(c->name, filter))
			continue;
		ok = c->generate_params ? run_params(c) : run_once(c, NULL);
		printf("    %s %u %s\n", ok ? "ok" : "not ok", ++nr, c->name);
		*passed &= ok;
		if (!ok && stop_at_failure)
			break;
	}
	printf("    1..%u\n", nr);
	return nr;
}

int main(int argc, char **argv)
{
	const char *filter;
	unsigned int nr = 0, matched = 0;
	bool all = true;

	stop_at_failure = argc > 1 && !strcmp(argv[1], "-x");
	argv += stop_at_failure;
	argc -= stop_at_failure;
	filter = argc > 1 ? argv[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("KTAP version 1\n");
	for (struct kunit_suite *suite = suites; suite; suite = suite->next) {
		bool passed = true;

		matched += run_suite(suite, filter, &passed);
		printf("%s %u %s\n", passed ? "ok" : "not ok", ++nr, suite->name);
		all &= passed;
		if (!all && stop_at_failure)
			break;
	}
	printf("1..%u\n", nr);
	if (!matched) {
		fprintf(stderr, "policy-test: no case has \"%s\" in its name\n", filter);
		return 2;
	}
	return all ? 0 : 1;
}
