/* SPDX-License-Identifier: GPL-2.0 */
/*
 * User-space stand-in: as much of KUnit as the tests of mm/mtier use.
 *
 * Suites register themselves before main(); runner.c runs them and reports in
 * KTAP.  Values in failure messages are shown as 64-bit integers.
 */
#ifndef _MTIER_SHIM_KUNIT_TEST_H
#define _MTIER_SHIM_KUNIT_TEST_H

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <linux/bits.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

#define ARRAY_SIZE(a)			(sizeof(a) / sizeof((a)[0]))
#define struct_size(p, member, n)	\
	(sizeof(*(p)) + (size_t)(n) * sizeof(*(p)->member))
#define GFP_KERNEL			0
#define KUNIT_PARAM_DESC_SIZE		128

struct kunit {
	const void *param_value;
	const char *name;
	bool failed;
	jmp_buf give_up;
	void *allocated[16];
	unsigned int nr_allocated;
};

struct kunit_case {
	void (*run_case)(struct kunit *test);
	const char *name;
	const void *(*generate_params)(const void *prev, char *desc);
};

struct kunit_suite {
	const char *name;
	struct kunit_case *test_cases;
	struct kunit_suite *next;
};

void shim_register(struct kunit_suite *suite);
void shim_fail(struct kunit *test, bool fatal, const char *file, int line,
	       const char *what, s64 left, s64 right);
void kunit_info(struct kunit *test, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void *kunit_kzalloc(struct kunit *test, size_t size, int gfp);

#define KUNIT_CASE(test_name)	\
	{ .run_case = test_name, .name = #test_name }
#define KUNIT_CASE_SLOW(test_name)	KUNIT_CASE(test_name)
#define KUNIT_CASE_PARAM(test_name, gen_params)	\
	{ .run_case = test_name, .name = #test_name, .generate_params = gen_params }

#define KUNIT_ARRAY_PARAM_DESC(name, array, member)				\
	static const void *name##_gen_params(const void *prev, char *desc)	\
	{									\
		typeof(&(array)[0]) next_ = prev;				\
										\
		next_ = next_ ? next_ + 1 : (array);				\
		if (next_ == (array) + ARRAY_SIZE(array))			\
			return NULL;						\
		snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%s", next_->member);	\
		return next_;							\
	}

#define kunit_test_suite(suite)							\
	__attribute__((constructor)) static void register_##suite(void)		\
	{									\
		shim_register(&(suite));					\
	}									\
	struct kunit_suite

#define SHIM_BINARY(test, fatal, left, op, right) do {				\
	typeof(left) left_ = (left);						\
	typeof(right) right_ = (right);						\
										\
	if (!(left_ op right_))							\
		shim_fail(test, fatal, __FILE__, __LINE__,			\
			  #left " " #op " " #right, (s64)left_, (s64)right_);	\
} while (0)

#define KUNIT_EXPECT_EQ(test, l, r)	SHIM_BINARY(test, false, l, ==, r)
#define KUNIT_EXPECT_NE(test, l, r)	SHIM_BINARY(test, false, l, !=, r)
#define KUNIT_EXPECT_LT(test, l, r)	SHIM_BINARY(test, false, l, <, r)
#define KUNIT_EXPECT_LE(test, l, r)	SHIM_BINARY(test, false, l, <=, r)
#define KUNIT_EXPECT_GT(test, l, r)	SHIM_BINARY(test, false, l, >, r)
#define KUNIT_EXPECT_GE(test, l, r)	SHIM_BINARY(test, false, l, >=, r)
#define KUNIT_EXPECT_TRUE(test, c)	SHIM_BINARY(test, false, c, ==, true)
#define KUNIT_EXPECT_FALSE(test, c)	SHIM_BINARY(test, false, c, ==, false)
#define KUNIT_ASSERT_EQ(test, l, r)	SHIM_BINARY(test, true, l, ==, r)
#define KUNIT_ASSERT_NE(test, l, r)	SHIM_BINARY(test, true, l, !=, r)
#define KUNIT_ASSERT_LT(test, l, r)	SHIM_BINARY(test, true, l, <, r)
#define KUNIT_ASSERT_LE(test, l, r)	SHIM_BINARY(test, true, l, <=, r)
#define KUNIT_ASSERT_GT(test, l, r)	SHIM_BINARY(test, true, l, >, r)
#define KUNIT_ASSERT_GE(test, l, r)	SHIM_BINARY(test, true, l, >=, r)
#define KUNIT_ASSERT_TRUE(test, c)	SHIM_BINARY(test, true, c, ==, true)
#define KUNIT_ASSERT_FALSE(test, c)	SHIM_BINARY(test, true, c, ==, false)
#define KUNIT_ASSERT_NOT_NULL(test, p)						\
	SHIM_BINARY(test, true, (size_t)(p), !=, (size_t)0)

#define MODULE_DESCRIPTION(text)	struct kunit_suite
#define MODULE_LICENSE(text)		struct kunit_suite

#endif
