// SPDX-License-Identifier: GPL-2.0
/*
 * ballast: run a program with less memory on one node.
 *
 *   ballast --node N --leave SIZE -- CMD [ARG...]
 *
 * Takes memory of node N until programs find only SIZE of it free, runs CMD, and ends with its exit code
 * (128 plus the number of a signal).  SIZE does not include the memory that the kernel keeps free below its
 * low watermark.  Prints nothing on stdout.
 * node_fill.c says where the memory is held.
 */
#define _GNU_SOURCE
#include <getopt.h>

#include "node_fill.h"


/* Keep the OOM killer from the process that holds the memory; only root can lower the score. */
static void protect(const char *score)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, score, strlen(score)) > 0)
		close(fd);
}

static void unprotect(void)
{
	protect("0");
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
	tg_node_fill(node, leave);
	return tg_run(argv + optind, unprotect);
}
