/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Runs checks and prints TAP: each in a process group of its own, from a known
 * state.  A check returns MT_PASS, MT_FAIL or MT_SKIP.  Those that are the better
 * the longer they run take terrace_stretch() times as long.
 */
#ifndef TERRACE_RUN_H
#define TERRACE_RUN_H

#include <stdbool.h>
#include <stddef.h>

enum mt_result {
	MT_PASS = 0,
	MT_FAIL = 1,
	MT_SKIP = 4,
};

/**
 * struct mt_check - one thing to prove
 * @name: what, beginning with its ids in the checklist
 * @run: does it; its process ends with it
 */
struct mt_check {
	const char *name;
	int (*run)(void);
};

#define MT_CHECK(what, fn)	{ .name = (what), .run = (fn) }

/**
 * struct mt_suite - what the checks of one capability have in common
 * @missing: why none of them can run here; NULL if they can
 * @reset: makes what a check must find, whatever ran before it; may be NULL
 * @enter: the first thing in a check's process; may be NULL
 */
struct mt_suite {
	const char *(*missing)(void);
	void (*reset)(void);
	void (*enter)(void);
};

extern long long mt_limit_ms;

unsigned int terrace_stretch(void);
int mt_run_suite(const struct mt_suite *suite, const struct mt_check *checks,
		 size_t n);
void mt_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* In a check: fail, with the reason, unless @cond. */
#define MT_ASSERT(cond, ...)						\
	do {								\
		if (!(cond)) {						\
			mt_note(__VA_ARGS__);				\
			return MT_FAIL;					\
		}							\
	} while (0)

/*
 * The same for what memory or files hold: whoever reads the notes of a failed
 * check knows by these words that it is not to be tried again.
 */
#define MT_DATA(cond, fmt, ...)						\
	MT_ASSERT(cond, "wrong data: " fmt, ##__VA_ARGS__)

/* In a check: skip, with the reason, unless @cond. */
#define MT_NEED(cond, ...)						\
	do {								\
		if (!(cond)) {						\
			mt_note(__VA_ARGS__);				\
			return MT_SKIP;					\
		}							\
	} while (0)

#define ARRAY_LEN(a)	(sizeof(a) / sizeof((a)[0]))

#endif /* TERRACE_RUN_H */
