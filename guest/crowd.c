// SPDX-License-Identifier: GPL-2.0
/*
 * crowd: run a program beside other processes, as on a server.
 *
 *   crowd [--idle N] [--ranges N] [--busy N] [--busy-size SIZE] [--busy-ms N] [--node N] -- CMD [ARG...]
 *
 * An idle process has one page in each of --ranges ranges of 2 MiB, touches them once, and sleeps.  A busy one uses
 * all pages of --busy-size every --busy-ms.  Their pages are on --node at first and may be migrated.  When all of them are
 * ready, CMD is run.  crowd ends with CMD's exit code (128 plus the number of a signal), or with 1 if one of the
 * processes ended before CMD did, or a busy one never ran.  Prints nothing on stdout.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "terrace_guest.h"

#define PAGE		4096u
#define RANGE		(2u << 20)
#define MOST		10000u

static uint64_t nr_idle, nr_ranges = 40, nr_busy, busy_size = 256 << 10, busy_ms = 100;
static int node = -1;
static pid_t child[2 * MOST];
static uint64_t nr_children;
/* Rounds of each busy process. */
static uint64_t *rounds;

/* New memory with one page in every @step bytes, on --node. */
static char *make_memory(uint64_t size, uint64_t step)
{
	char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int err = 0;

	if (at == MAP_FAILED)
		tg_die(TG_EXIT_FAILED, "%llu bytes: %s", (unsigned long long)size, strerror(errno));
	madvise(at, size, MADV_NOHUGEPAGE);
	if (node >= 0)
		err = tg_bind_task_memory(node);
	for (uint64_t i = 0; i < size; i += step)
		at[i] = 1;
	if (node >= 0 && !err)
		err = tg_bind_task_memory(-1);
	if (err)
		tg_die(TG_EXIT_FAILED, "--node %d: %s", node, strerror(-err));
	return at;
}

static void say_ready(int end)
{
	if (write(end, "", 1) != 1)
		_exit(TG_EXIT_FAILED);
	close(end);
}

static void __attribute__((noreturn)) be_idle(int end)
{
	make_memory(nr_ranges * RANGE, RANGE);
	say_ready(end);
	for (;;)
		pause();
}

static void __attribute__((noreturn)) be_busy(int end, uint64_t *done)
{
	struct timespec pause = { (time_t)(busy_ms / 1000), (long)(busy_ms % 1000) * 1000000 };
	volatile char *at = make_memory(busy_size, PAGE);

	for (;;) {
		for (uint64_t i = 0; i < busy_size; i += PAGE)
			at[i]++;
		if (!(*done)++)
			say_ready(end);
		nanosleep(&pause, NULL);
	}
}

static void start_all(void)
{
	uint64_t all = nr_idle + nr_busy;
	int ends[2];
	char byte;

	rounds = mmap(NULL, (nr_busy + 1) * sizeof(*rounds), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (rounds == MAP_FAILED || pipe2(ends, O_CLOEXEC))
		tg_die(TG_EXIT_FAILED, "starting: %s", strerror(errno));
	for (; nr_children < all; nr_children++) {
		pid_t pid = fork();

		if (pid < 0)
			tg_die(TG_EXIT_FAILED, "process %llu of %llu: %s", (unsigned long long)nr_children,
			       (unsigned long long)all, strerror(errno));
		if (pid) {
			child[nr_children] = pid;
			continue;
		}
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[0]);
		if (nr_children < nr_idle)
			be_idle(ends[1]);
		be_busy(ends[1], &rounds[nr_children - nr_idle]);
	}
	close(ends[1]);
	for (uint64_t ready = 0; ready < all; ready++)
		if (read(ends[0], &byte, 1) != 1)
			tg_die(TG_EXIT_FAILED, "only %llu of %llu processes started", (unsigned long long)ready,
			       (unsigned long long)all);
	close(ends[0]);
}

/*
 * The number of processes that did not do their part while CMD ran, for @ns.  The first round is before CMD starts; in a
 * second beyond ten rounds' time there is another one.
 */
static uint64_t stop_all(uint64_t ns)
{
	uint64_t missing = 0, least = ns > busy_ms * 10000000 + 1000000000 ? 2 : 1;

	for (uint64_t i = 0; i < nr_children; i++) {
		bool ended = waitpid(child[i], NULL, WNOHANG) != 0;

		missing += ended || (i >= nr_idle && rounds[i - nr_idle] < least);
		if (!ended)
			kill(child[i], SIGKILL);
	}
	while (wait(NULL) > 0)
		;
	return missing;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "idle", required_argument, NULL, 'i' },
		{ "ranges", required_argument, NULL, 'r' },
		{ "busy", required_argument, NULL, 'b' },
		{ "busy-size", required_argument, NULL, 's' },
		{ "busy-ms", required_argument, NULL, 'm' },
		{ "node", required_argument, NULL, 'n' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	uint64_t missing, began;
	int c, code;

	while ((c = getopt_long(argc, argv, "+h", options, NULL)) != -1) {
		switch (c) {
		case 'i':
			nr_idle = tg_number("--idle", optarg, 0, MOST);
			break;
		case 'r':
			nr_ranges = tg_number("--ranges", optarg, 1, 100000);
			break;
		case 'b':
			nr_busy = tg_number("--busy", optarg, 0, MOST);
			break;
		case 's':
			busy_size = tg_size("--busy-size", optarg);
			break;
		case 'm':
			busy_ms = tg_number("--busy-ms", optarg, 1, 3600000);
			break;
		case 'n':
			node = (int)tg_number("--node", optarg, 0, TG_MAX_NODES - 1);
			break;
		case 'h':
			puts("usage: crowd [--idle N] [--ranges N] [--busy N] [--busy-size SIZE] [--busy-ms N] [--node N]\n"
			     "             -- CMD [ARG...]\n"
			     "Runs CMD beside idle processes, which have a page in each of --ranges ranges (40), and busy\n"
			     "ones, which use --busy-size (256K) every --busy-ms (100).");
			return 0;
		default:
			tg_die(TG_EXIT_USAGE, "try --help");
		}
	}
	if (!(nr_idle + nr_busy) || optind == argc)
		tg_die(TG_EXIT_USAGE, "--idle or --busy, and a command are needed; try --help");
	start_all();
	began = tg_clock_ns(CLOCK_MONOTONIC);
	code = tg_run(argv + optind, NULL);
	missing = stop_all(tg_clock_ns(CLOCK_MONOTONIC) - began);
	if (missing && !code)
		tg_die(TG_EXIT_FAILED, "%llu of %llu processes ended early or never ran", (unsigned long long)missing,
		       (unsigned long long)(nr_idle + nr_busy));
	return code;
}
