// SPDX-License-Identifier: GPL-2.0
/* The runner of all selftests here. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mtier_util.h"
#include "terrace_run.h"

/* A check that takes longer is broken, also on a slow host; scaled by the stretch. */
long long mt_limit_ms = 300000;

#define STRETCH_MAX	1000

/*
 * Get the factor for the duration of long checks: TERRACE_STRETCH, 1 if it is not set.
 * Ends the program for an invalid value.
 */
unsigned int terrace_stretch(void)
{
	const char *text = getenv("TERRACE_STRETCH");
	long n;

	if (!text)
		return 1;
	n = strtol(text, NULL, 10);
	if (strspn(text, "0123456789") == strlen(text) && n >= 1 &&
	    n <= STRETCH_MAX)
		return n;
	printf("Bail out! TERRACE_STRETCH is '%s', not a whole number from 1 to %d\n",
	       text, STRETCH_MAX);
	exit(MT_FAIL);
}

/* Print a note about the check that runs. */
void mt_note(const char *fmt, ...)
{
	va_list ap;

	printf("# ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
}

/*
 * Sleep until the process has ended: polling would take a CPU from a thread that should
 * have it, and with it the contents of its TLB.
 */
static bool ends_within(pid_t pid, long long limit_ms)
{
	long long until = mt_now_ms() + limit_ms, left;
	struct pollfd end = {
		.fd = syscall(SYS_pidfd_open, pid, 0), .events = POLLIN,
	};
	bool ended;

	if (end.fd < 0) {
		mt_note("pidfd_open: %s", strerror(errno));
		return false;
	}
	while (!(ended = poll(&end, 1, 0) > 0)) {
		left = until - mt_now_ms();
		if (left <= 0)
			break;
		poll(&end, 1, left < INT_MAX ? left : INT_MAX);
	}
	close(end.fd);
	return ended;
}

static int wait_for(pid_t pid)
{
	long long limit_ms = mt_limit_ms * terrace_stretch();
	bool ended = ends_within(pid, limit_ms);
	int status;

	/* And its group: its children must not outlive it. */
	kill(-pid, SIGKILL);
	waitpid(pid, &status, 0);
	if (!ended) {
		mt_note("took longer than %lld s", limit_ms / 1000);
		return MT_FAIL;
	}
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	mt_note("ended by signal %d", WTERMSIG(status));
	return MT_FAIL;
}

/*
 * Settings of Linux that checks change: each check starts with those that the program
 * found, and so does the next program.
 */
#define BALANCING	"/sys/kernel/debug/sched/numa_balancing/"
#define KSM		"/sys/kernel/mm/ksm/"

static struct {
	const char *file;
	char text[64];
} kept[] = {
	{ .file = BALANCING "scan_delay_ms" },
	{ .file = BALANCING "scan_period_min_ms" },
	{ .file = BALANCING "scan_period_max_ms" },
	{ .file = BALANCING "scan_size_mb" },
	{ .file = KSM "pages_to_scan" },
	{ .file = KSM "sleep_millisecs" },
	{ .file = "/proc/sys/vm/dirty_writeback_centisecs" },
	{ .file = "/proc/sys/vm/compaction_proactiveness" },
	{ .file = "/sys/kernel/mm/numa/demotion_enabled" },
};

static void keep_settings(void)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(kept); i++)
		if (mt_read(kept[i].file, kept[i].text,
			    sizeof(kept[i].text)) < 0)
			kept[i].text[0] = '\0';
}

static void put_settings_back(void)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(kept); i++)
		if (kept[i].text[0])
			mt_write(kept[i].file, kept[i].text);
}

static void reset(const struct mt_suite *suite)
{
	put_settings_back();
	if (suite->reset)
		suite->reset();
}

static int run_one(const struct mt_suite *suite, const struct mt_check *check)
{
	pid_t pid;

	reset(suite);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		setpgid(0, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (suite->enter)
			suite->enter();
		int ret = check->run();

		fflush(stdout);
		_exit(ret);
	}
	setpgid(pid, pid);
	return wait_for(pid);
}

/* Returns whether the result is acceptable. */
static bool report(int number, int ret, const char *name, long long ms)
{
	bool ok = ret == MT_PASS || ret == MT_SKIP;

	printf("# %lld.%03lld s\n", ms / 1000, ms % 1000);
	printf("%s %d %s%s\n", ok ? "ok" : "not ok", number, name,
	       ret == MT_SKIP ? " # SKIP see above" : "");
	fflush(stdout);
	return ok;
}

/* Run one check; @number is that of its result. */
static bool run_check(const struct mt_suite *suite,
		      const struct mt_check *check, int number)
{
	long long start = mt_now_ms();
	int ret = run_one(suite, check);

	return report(number, ret, check->name, mt_now_ms() - start);
}

/* TERRACE_ONLY selects checks by parts of their names, one per line. */
static bool wanted(const struct mt_check *check)
{
	const char *only = getenv("TERRACE_ONLY");
	char part[256];

	if (!only)
		return true;
	while (*only) {
		size_t length = strcspn(only, "\n");

		snprintf(part, sizeof(part), "%.*s", (int)length, only);
		if (length && strstr(check->name, part))
			return true;
		only += length + !!only[length];
	}
	return false;
}

/* Run @n checks and print TAP; the return value is main()'s. */
int mt_run_suite(const struct mt_suite *suite, const struct mt_check *checks,
		 size_t n)
{
	const char *missing = suite->missing();
	bool ok = true;
	int results = 0;
	size_t i;

	printf("TAP version 13\n");
	terrace_stretch();
	keep_settings();
	if (missing) {
		printf("1..0 # SKIP %s\n", missing);
		return MT_SKIP;
	}
	for (i = 0; i < n; i++)
		if (wanted(&checks[i]))
			results++;
	printf("1..%d\n", results);
	fflush(stdout);

	results = 0;
	for (i = 0; i < n; i++) {
		if (!wanted(&checks[i]))
			continue;
		ok &= run_check(suite, &checks[i], ++results);
	}
	reset(suite);
	return ok ? MT_PASS : MT_FAIL;
}
