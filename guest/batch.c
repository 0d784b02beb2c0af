// SPDX-License-Identifier: GPL-2.0
/*
 * Run several test programs one after the other in one boot of the small guest.
 *
 *   batch MARK leaks|noleaks clock|busy SECONDS NAME PROGRAM [SECONDS NAME PROGRAM ...]
 *
 * Each program runs in a new process group and a new folder in $TERRACE_SCRATCH. Its output and error output are printed
 * between lines that begin with MARK, a random word:
 *
 *   MARK start NAME
 *   MARK differs WHAT: VALUE before, VALUE after
 *   MARK end NAME exit|signal|timeout NUMBER MILLISECONDS
 *
 * SECONDS is the time limit of a program. With "busy", only time in which the CPUs are busy counts. Where time counts
 * instructions, the clock of an idle guest runs fast, and the guest is idle while the host reads a file for it or takes
 * its output.
 *
 * After a program that was killed at its limit, the batch ends with "MARK stopped" instead of "MARK done".
 *
 * "differs" compares the state of the machine (state.c) before and after the program.
 *
 * The kernel log gets a line at each start, so that messages of the kernel can be assigned to a program. After each
 * program, its processes, its files in $TERRACE_SCRATCH and its traces are removed. With "leaks", kmemleak scans at the
 * end, and its report follows a line "MARK leaks".
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "state.h"

#define TRACES "/sys/kernel/tracing/instances"
#define KMEMLEAK "/sys/kernel/debug/kmemleak"
#define LEAK_AGE_S 6		/* kmemleak reports no object younger than 5 s */
#define UNMOUNT_TRIES 500	/* one each 10 ms */
#define IDLE_TIMES 100		/* with "busy": factor of the limit while the CPUs are idle */

static const char *mark;
static bool busy;

static long long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = write(fd, text, strlen(text));
	close(fd);
	return n < 0 ? -1 : 0;
}

static void log_to_kernel(const char *what, const char *name)
{
	char line[300];

	snprintf(line, sizeof(line), "<6>terrace-test: %s %s\n", what, name);
	write_file("/dev/kmsg", line);
}

static pid_t start(const char *name, const char *program)
{
	const char *scratch = getenv("TERRACE_SCRATCH");
	char folder[300];
	pid_t pid = fork();

	if (pid)
		return pid;
	setpgid(0, 0);
	dup2(1, 2);
	write_file("/proc/self/oom_score_adj", "0");
	snprintf(folder, sizeof(folder), "%s/%s", scratch ? scratch : "/tmp", name);
	if (mkdir(folder, 0755) || chdir(folder)) {
		printf("batch: %s: %s\n", folder, strerror(errno));
		fflush(stdout);
		_exit(126);
	}
	execl(program, program, (char *)NULL);
	printf("batch: %s: %s\n", program, strerror(errno));
	fflush(stdout);
	_exit(127);
}

/* Get the busy time of the CPUs, on average, in ms; steps of 10 ms. */
static long long busy_ms(void)
{
	long long user, nice, system, idle, iowait, irq, softirq;
	FILE *file = fopen("/proc/stat", "re");
	int n = 0;

	if (file) {
		n = fscanf(file, "cpu %lld %lld %lld %lld %lld %lld %lld", &user, &nice, &system, &idle, &iowait,
			   &irq, &softirq);
		fclose(file);
	}
	if (n != 7)
		return now_ms();
	return (user + nice + system + irq + softirq) * 10 / sysconf(_SC_NPROCESSORS_ONLN);
}

/* Read the program now, so that the guest need not wait for the host later. */
static void read_ahead(const char *program)
{
	static char piece[1 << 16];
	int fd = open(program, O_RDONLY | O_CLOEXEC);

	while (fd >= 0 && read(fd, piece, sizeof(piece)) > 0)
		;
	if (fd >= 0)
		close(fd);
}

/* Wait for the program. Returns 1 if it was killed at its limit. */
static int wait_for(pid_t pid, long seconds, int *status)
{
	struct timespec left = { .tv_sec = 1 };
	long long limit = seconds * 1000, began = now_ms(), busy_began = busy_ms();
	sigset_t child;

	/* Reading the busy time disturbs the program, so only "busy" does that. */
	if (!busy)
		left.tv_sec = seconds;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	for (;;) {
		if (waitpid(pid, status, WNOHANG) == pid)
			return 0;
		if (busy ? busy_ms() - busy_began >= limit || now_ms() - began >= limit * IDLE_TIMES :
			   now_ms() - began >= limit)
			break;
		sigtimedwait(&child, NULL, &left);
	}
	kill(-pid, SIGKILL);
	kill(pid, SIGKILL);
	waitpid(pid, status, 0);
	return 1;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st;
	(void)kind;
	return ftw->level ? remove(path) : 0;
}

/* Unmount a folder once no process has it open. False if that failed. */
static bool unmounted(const char *where)
{
	struct timespec nap = { .tv_nsec = 10000000 };

	for (int tries = 0; tries < UNMOUNT_TRIES; tries++) {
		if (!umount2(where, 0))
			return true;
		nanosleep(&nap, NULL);
	}
	return false;
}

/* Unmount all below `folder`, last mount first. */
static void unmount_below(const char *folder)
{
	char line[1024], where[512], last[512];
	size_t len = strlen(folder);

	do {
		FILE *file = fopen("/proc/self/mounts", "re");

		last[0] = '\0';
		while (file && fgets(line, sizeof(line), file))
			if (sscanf(line, "%*s %511s", where) == 1 && !strncmp(where, folder, len) && where[len] == '/')
				strcpy(last, where);
		if (file)
			fclose(file);
	} while (last[0] && unmounted(last));
}

static void remove_traces(void)
{
	DIR *folder = opendir(TRACES);
	struct dirent *entry;

	while (folder && (entry = readdir(folder)))
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR);
	if (folder)
		closedir(folder);
}

/* Remove processes, traces, mounts and files of a program; files are memory. */
static void clean_up(void)
{
	const char *scratch = getenv("TERRACE_SCRATCH");

	kill(-1, SIGKILL);
	remove_traces();
	if (!scratch)
		return;
	unmount_below(scratch);
	nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* The state after the program is the state before the next one. */
static struct state *compare(struct state *before)
{
	struct state *after = state_settled(before);
	char prefix[80];

	snprintf(prefix, sizeof(prefix), "%s differs", mark);
	state_differences(before, after, prefix);
	state_free(before);
	return after;
}

/* Run a program. @killed: set if it did not end in time. */
static struct state *run(long seconds, const char *name, const char *program, struct state *state, bool *killed)
{
	const char *how = "exit";
	int status = 0, number;
	long long began, took;
	pid_t pid;

	read_ahead(program);
	began = now_ms();
	printf("%s start %s\n", mark, name);
	fflush(stdout);
	log_to_kernel("start", name);
	pid = start(name, program);
	if (pid < 0) {
		printf("batch: fork: %s\n", strerror(errno));
		status = 126 << 8;
	} else if (wait_for(pid, seconds, &status)) {
		how = "timeout";
		*killed = true;
	} else if (WIFSIGNALED(status)) {
		how = "signal";
	}
	number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
	took = now_ms() - began;
	clean_up();
	printf("\n");
	state = compare(state);
	log_to_kernel("end", name);
	printf("%s end %s %s %d %lld\n", mark, name, how, number, took);
	fflush(stdout);
	return state;
}

/* Leaks from before the tests do not count. */
static void forget_leaks(void)
{
	write_file(KMEMLEAK, "scan");
	sleep(LEAK_AGE_S);
	write_file(KMEMLEAK, "scan");
	write_file(KMEMLEAK, "clear");
}

/* Scan twice: the second scan finds pointers that were moved during the first. */
static void show_leaks(void)
{
	char text[4096];
	bool scanned;
	ssize_t n;
	int fd;

	log_to_kernel("start", "kmemleak");
	sleep(LEAK_AGE_S);
	/* kmemleak refuses a scan once it has disabled itself; that is not "no leaks". */
	scanned = !write_file(KMEMLEAK, "scan") && !write_file(KMEMLEAK, "scan");
	fd = open(KMEMLEAK, O_RDONLY | O_CLOEXEC);
	printf("%s leaks %s\n", mark, fd < 0 || !scanned ? "unavailable" : "read");
	fflush(stdout);
	while (fd >= 0 && (n = read(fd, text, sizeof(text))) > 0)
		if (write(1, text, n) != n)
			break;
	printf("\n%s leaks end\n", mark);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	bool killed = false;
	struct state *state;
	sigset_t child;
	int leaks;

	if (argc < 7 || (argc - 4) % 3) {
		fprintf(stderr, "usage: batch MARK leaks|noleaks clock|busy SECONDS NAME PROGRAM ...\n");
		return 2;
	}
	mark = argv[1];
	leaks = !strcmp(argv[2], "leaks");
	busy = !strcmp(argv[3], "busy");
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	write_file("/proc/self/oom_score_adj", "-1000");	/* tests may run out of memory, the batch may not */
	if (leaks)
		forget_leaks();
	state = state_settled(NULL);
	for (int i = 4; i + 2 < argc && !killed; i += 3)
		state = run(atol(argv[i]), argv[i + 1], argv[i + 2], state, &killed);
	state_free(state);
	/* A killed program has not restored what it had set: the others need another boot. */
	if (killed) {
		printf("%s stopped\n", mark);
		return 0;
	}
	if (leaks)
		show_leaks();
	printf("%s done\n", mark);
	return 0;
}
