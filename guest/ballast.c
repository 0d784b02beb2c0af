// SPDX-License-Identifier: GPL-2.0
/*
 * ballast: run a program with less memory on one node.
 *
 *   ballast --node N --leave SIZE -- CMD [ARG...]
 *
 * Takes memory of node N until programs find only SIZE of it free, runs CMD, and ends with its exit code
 * (128 plus the number of a signal).  SIZE does not include the memory that the kernel keeps free below its
 * low watermark.  Prints nothing on stdout.
 *
 * The memory is in pipes without a reader: it belongs to no address space and is on no LRU list, so the kernel
 * neither reclaims nor migrates nor scans it, as if the machine had less.  Mlocked memory would not do:
 * DAMON and migrate_pages(2) move it.
 */
#define _GNU_SOURCE
#include <getopt.h>

#include "terrace_guest.h"

#define STEP		(16u << 20)	/* for each pipe, a power of two */
#define CLOSE_ENOUGH	(256u << 10)	/* per-CPU lists and the like */
#define MAX_ROUNDS	100000u
#define NO_COMMAND	127

static uint64_t node_free(int node)
{
	char path[64], text[4096], *found;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/meminfo", node);
	if (tg_read_file(path, text, sizeof(text)) <= 0)
		tg_die(TG_EXIT_USAGE, "--node: this machine has no node %d", node);
	found = strstr(text, "MemFree:");
	if (!found)
		tg_die(TG_EXIT_FAILED, "%s has no MemFree", path);
	return strtoull(found + 8, NULL, 10) << 10;
}

/*
 * Free memory of a node that a program does not get before the kernel tries another node: the low watermarks,
 * and the lowmem reserve.
 */
static uint64_t node_reserve(int node)
{
	FILE *file = fopen("/proc/zoneinfo", "re");
	unsigned long long low = 0, managed = 0, kept, reserve = 0;
	char line[512], *next;
	int of = -1;

	if (!file)
		tg_die(TG_EXIT_FAILED, "/proc/zoneinfo: %s", strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		sscanf(line, "Node %d, zone", &of);
		if (of != node)
			continue;
		if (sscanf(line, " low %llu", &low) == 1 || sscanf(line, " managed %llu", &managed) == 1)
			continue;
		next = strstr(line, "protection: (");
		if (!next || !managed)
			continue;
		/* One number for each zone of a request, the largest for the highest zone. */
		for (kept = 0, next += 13; isdigit((unsigned char)*next); next += strspn(next, ", ")) {
			unsigned long long pages = strtoull(next, &next, 10);

			kept = pages > kept ? pages : kept;
		}
		reserve += low + kept;
	}
	fclose(file);
	return reserve * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* A pipe with room for STEP bytes; it stays open, and only here, for as long as this process lives. */
static int new_pipe(void)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) || fcntl(ends[1], F_SETPIPE_SZ, STEP) < 0)
		tg_die(TG_EXIT_FAILED, "a pipe of %u bytes: %s", STEP, strerror(errno));
	return ends[1];
}

/* Fill the pipe with @size bytes of this node. */
static void fill(int end, uint64_t size)
{
	static const char nothing[64 << 10];

	while (size) {
		ssize_t done = write(end, nothing, size < sizeof(nothing) ? size : sizeof(nothing));

		if (done <= 0)
			tg_die(TG_EXIT_FAILED, "filling a pipe, %llu bytes before its end: %s",
			       (unsigned long long)size, strerror(errno));
		size -= (uint64_t)done;
	}
}

/* Take what is too much, in steps that shrink with what is left. */
static void load(int node, uint64_t leave)
{
	uint64_t free_now = node_free(node), reserve = node_reserve(node), room = 0;
	int err, end = -1;

	if (free_now < leave + reserve)
		tg_die(TG_EXIT_USAGE, "--leave: node %d has only %llu bytes free, not %llu and a reserve of %llu",
		       node, (unsigned long long)free_now, (unsigned long long)leave,
		       (unsigned long long)reserve);
	leave += reserve;
	err = tg_bind_task_memory(node);
	if (err)
		tg_die(TG_EXIT_FAILED, "binding to node %d: %s", node, strerror(-err));
	for (unsigned int round = 0; free_now > leave + CLOSE_ENOUGH && round < MAX_ROUNDS; round++) {
		uint64_t part = (free_now - leave) / 2 & ~4095ull;

		if (!room) {
			end = new_pipe();
			room = STEP;
		}
		part = part < room ? part : room;
		fill(end, part);
		room -= part;
		free_now = node_free(node);
	}
	err = tg_bind_task_memory(-1);
	if (err)
		tg_die(TG_EXIT_FAILED, "back to the default policy: %s", strerror(-err));
}

/* Keep the OOM killer from the process that holds the memory; only root can lower the score. */
static void protect(const char *score)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, score, strlen(score)) > 0)
		close(fd);
}

static int run(char **argv)
{
	pid_t pid = fork();

	if (pid < 0)
		tg_die(TG_EXIT_FAILED, "fork: %s", strerror(errno));
	if (!pid) {
		protect("0");
		execvp(argv[0], argv);
		fprintf(stderr, "ballast: %s: %s\n", argv[0], strerror(errno));
		_exit(NO_COMMAND);
	}
	return tg_wait(pid);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "node", required_argument, NULL, 'n' },
		{ "leave", required_argument, NULL, 'l' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	uint64_t leave = 0;
	int c, node = -1;

	while ((c = getopt_long(argc, argv, "+h", options, NULL)) != -1) {
		switch (c) {
		case 'n':
			node = (int)tg_number("--node", optarg, 0, TG_MAX_NODES - 1);
			break;
		case 'l':
			leave = tg_size("--leave", optarg);
			break;
		case 'h':
			puts("usage: ballast --node N --leave SIZE -- CMD [ARG...]\n"
			     "Takes memory of node N until programs find SIZE of it free, then runs CMD.");
			return 0;
		default:
			tg_die(TG_EXIT_USAGE, "try --help");
		}
	}
	if (node < 0 || !leave || optind == argc)
		tg_die(TG_EXIT_USAGE, "--node, --leave and a command are needed; try --help");
	protect("-1000");
	load(node, leave);
	return run(argv + optind);
}
