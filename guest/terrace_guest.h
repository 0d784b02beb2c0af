/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by Terrace's guest programs: raw NUMA calls (a static program without libnuma), parsing
 * of sizes and numbers, reading of small kernel files, and markers for the lab's QEMU plugins.
 */
#ifndef TERRACE_GUEST_H
#define TERRACE_GUEST_H

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TG_MAX_NODES	1024
#define TG_EXIT_FAILED	1
#define TG_EXIT_USAGE	2

/* From the mempolicy ABI; libnuma's header is not needed for three constants. */
#define TG_MPOL_DEFAULT	0
#define TG_MPOL_BIND	2

/*
 * Markers are a no-op instruction whose 32-bit displacement carries a message: 0x5454KKNN.  Without
 * a plugin they do nothing, on real machines as in QEMU.  plugin/insn_count.c reads them.
 */
#define TG_MARK_TASK	1	/* NN: the running thread is of kind NN from now on */
#define TG_MARK_REGION	2	/* NN: a boundary; the plugin notes all counts here */

#define TG_MARK(kind, number)								\
	asm volatile(".byte 0x0f, 0x1f, 0x84, 0x00\n\t.long %c0"			\
		     : : "i"(0x54540000 | (kind) << 8 | (number)) : "memory")

/* Say what is wrong, in one line, and leave. */
static inline __attribute__((noreturn, format(printf, 2, 3)))
void tg_die(int code, const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fputs(program_invocation_short_name, stderr);
	fputs(": ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(code);
}

static inline uint64_t tg_clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* An unsigned decimal number within [low, high]; @what names it in the error. */
static inline uint64_t tg_number(const char *what, const char *text, uint64_t low, uint64_t high)
{
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || !isdigit((unsigned char)text[0]) || *end || value < low || value > high)
		tg_die(TG_EXIT_USAGE, "%s: '%s' is not a whole number from %llu to %llu", what, text,
		       (unsigned long long)low, (unsigned long long)high);
	return value;
}

/* A size in bytes with an optional K, M or G (powers of 1024). */
static inline uint64_t tg_size(const char *what, const char *text)
{
	char *end;
	uint64_t value;
	unsigned int shift = 0;

	errno = 0;
	value = strtoull(text, &end, 10);
	switch (*end) {
	case 'k': case 'K':
		shift = 10;
		break;
	case 'm': case 'M':
		shift = 20;
		break;
	case 'g': case 'G':
		shift = 30;
		break;
	}
	if (shift)
		end++;
	if (errno || !isdigit((unsigned char)text[0]) || *end || !value || value > UINT64_MAX >> shift)
		tg_die(TG_EXIT_USAGE, "%s: '%s' is not a size such as 4096, 64M or 1G", what, text);
	return value << shift;
}

/* Read a whole small file; returns its length, or -errno. The text ends in NUL. */
static inline ssize_t tg_read_file(const char *path, char *text, size_t size)
{
	size_t used = 0;
	ssize_t got = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	while (used + 1 < size && (got = read(fd, text + used, size - 1 - used)) > 0)
		used += (size_t)got;
	close(fd);
	text[used] = 0;
	return got < 0 ? -EIO : (ssize_t)used;
}

/* Write a kernel file: @text is PATH=VALUE, @option names it in an error. */
static inline void tg_set_knob(char *text, const char *option)
{
	char *value = strchr(text, '=');
	ssize_t length;
	int fd;

	if (!value)
		tg_die(TG_EXIT_USAGE, "%s: '%s' is not PATH=VALUE", option, text);
	*value++ = 0;
	length = (ssize_t)strlen(value);
	fd = open(text, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, value, (size_t)length) != length)
		tg_die(TG_EXIT_FAILED, "%s: writing '%s' to %s: %s", option, value, text, strerror(errno));
	close(fd);
	value[-1] = '=';
}

/* Wait for a child; returns its exit code, or 128 plus the number of the signal that ended it. */
static inline int tg_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			tg_die(TG_EXIT_FAILED, "waiting: %s", strerror(errno));
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

#define TG_NO_COMMAND	127

/* Run a program, in a child that calls @first before (or NULL). Returns what tg_wait() does. */
static inline int tg_run(char **argv, void (*first)(void))
{
	pid_t pid = fork();

	if (pid < 0)
		tg_die(TG_EXIT_FAILED, "fork: %s", strerror(errno));
	if (!pid) {
		if (first)
			first();
		execvp(argv[0], argv);
		fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, argv[0], strerror(errno));
		_exit(TG_NO_COMMAND);
	}
	return tg_wait(pid);
}

/* The node list that the kernel wrote to @path, such as "0,2-3": sets @in[node]; false if there is none. */
static inline bool tg_read_nodes(const char *path, bool in[TG_MAX_NODES])
{
	char text[4096];
	char *next = text;

	memset(in, 0, TG_MAX_NODES * sizeof(*in));
	if (tg_read_file(path, text, sizeof(text)) <= 0)
		return false;
	while (isdigit((unsigned char)*next)) {
		unsigned long low = strtoul(next, &next, 10), high = low;

		if (*next == '-')
			high = strtoul(next + 1, &next, 10);
		for (; low <= high && low < TG_MAX_NODES; low++)
			in[low] = true;
		if (*next == ',')
			next++;
	}
	return true;
}

/* The task's memory policy: bind to one node, or back to the default. Returns 0 or -errno. */
static inline int tg_bind_task_memory(int node)
{
	const unsigned int word_bits = 8 * sizeof(unsigned long);
	unsigned long mask[TG_MAX_NODES / (8 * sizeof(unsigned long))] = { 0 };
	long ret;

	if (node < 0) {
		ret = syscall(SYS_set_mempolicy, TG_MPOL_DEFAULT, NULL, 0);
	} else {
		mask[(unsigned int)node / word_bits] = 1ul << ((unsigned int)node % word_bits);
		ret = syscall(SYS_set_mempolicy, TG_MPOL_BIND, mask, TG_MAX_NODES + 1);
	}
	return ret ? -errno : 0;
}

/* Ask where @count pages lie: node, or -errno, of each in @nodes. Moves nothing. Returns 0 or -errno. */
static inline int tg_query_nodes(unsigned long count, void **pages, int *nodes)
{
	return syscall(SYS_move_pages, 0, count, pages, NULL, nodes, 0) ? -errno : 0;
}

#endif /* TERRACE_GUEST_H */
