// SPDX-License-Identifier: GPL-2.0
/*
 * pagecache: run a program on a machine whose fast memory is full of page cache.
 *
 *   pagecache --node N [--size SIZE] -- CMD [ARG...]
 *
 * Reads a file once, with the task's memory bound to node N, until SIZE of it is there, or (without --size) until programs
 * find nothing free on the node.  Then CMD takes the place of this program.  The file has no blocks, on ext4 on a
 * loop device: its pages are clean, nobody maps them, and reading them costs no disk.  It stays open in CMD, so the pages
 * stay until the kernel reclaims them.  Needs root and e2fsprogs.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <sys/mount.h>

#include "node_fill.h"

#define STEP		(1u << 20)
#define CLOSE_ENOUGH	(256u << 10)
#define FILE_SIZE	(1ull << 40)
/* Reads in a row that add nothing: reclaim takes as much as is read. */
#define MOST_IDLE	8u

/* Page cache of a node in bytes, that of tmpfs excluded. */
static uint64_t cached(int node)
{
	char path[64], text[4096], *file, *shmem;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/meminfo", node);
	if (tg_read_file(path, text, sizeof(text)) <= 0)
		tg_die(TG_EXIT_USAGE, "--node: this machine has no node %d", node);
	file = strstr(text, "FilePages:");
	shmem = strstr(text, "Shmem:");
	if (!file || !shmem)
		tg_die(TG_EXIT_FAILED, "%s has no FilePages or no Shmem", path);
	return (strtoull(file + 10, NULL, 10) - strtoull(shmem + 6, NULL, 10)) << 10;
}

/* A file of holes on a file system that is mounted for as long as the file is open. */
static int make_file(void)
{
	char place[] = "/tmp/pagecache.XXXXXX", text[512];
	int fd;

	if (!mkdtemp(place))
		tg_die(TG_EXIT_FAILED, "%s: %s", place, strerror(errno));
	snprintf(text, sizeof(text),
		 "truncate -s 16M %s.img && mkfs.ext4 -q -O ^has_journal %s.img && mount -o loop %s.img %s; "
		 "code=$?; rm -f %s.img; exit $code", place, place, place, place, place);
	if (system(text))
		tg_die(TG_EXIT_FAILED, "no ext4 on a loop device; it needs root and e2fsprogs");
	snprintf(text, sizeof(text), "%s/holes", place);
	fd = open(text, O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, FILE_SIZE))
		tg_die(TG_EXIT_FAILED, "%s: %s", text, strerror(errno));
	umount2(place, MNT_DETACH);
	rmdir(place);
	return fd;
}

static bool is_full(int node)
{
	return tg_node_free(node) <= tg_node_reserve(node) + CLOSE_ENOUGH;
}

static void fill(int node, uint64_t size)
{
	static char buffer[STEP];
	uint64_t before = cached(node), now, most = before;
	unsigned int idle = 0;
	int fd = make_file(), err = tg_bind_task_memory(node);

	if (err)
		tg_die(TG_EXIT_FAILED, "binding to node %d: %s", node, strerror(-err));
	for (off_t at = 0; size ? most < before + size : !is_full(node) && idle < MOST_IDLE; at += STEP) {
		if (pread(fd, buffer, STEP, at) != (ssize_t)STEP)
			tg_die(TG_EXIT_FAILED, "reading the file: %s", strerror(errno));
		now = cached(node);
		idle = now > most ? 0 : idle + 1;
		most = now > most ? now : most;
		if (size && most < before + size && (is_full(node) || idle == MOST_IDLE))
			tg_die(TG_EXIT_USAGE, "--size: node %d is full with %llu bytes of page cache", node,
			       (unsigned long long)(cached(node) - before));
	}
	err = tg_bind_task_memory(-1);
	if (err)
		tg_die(TG_EXIT_FAILED, "back to the default policy: %s", strerror(-err));
	if (cached(node) == before)
		tg_die(TG_EXIT_FAILED, "node %d has no room for page cache", node);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "node", required_argument, NULL, 'n' },
		{ "size", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	uint64_t size = 0;
	int c, node = -1;

	while ((c = getopt_long(argc, argv, "+h", options, NULL)) != -1) {
		switch (c) {
		case 'n':
			node = (int)tg_number("--node", optarg, 0, TG_MAX_NODES - 1);
			break;
		case 's':
			size = tg_size("--size", optarg);
			break;
		case 'h':
			puts("usage: pagecache --node N [--size SIZE] -- CMD [ARG...]\n"
			     "Fills node N with clean page cache, SIZE of it or all that is free, then runs CMD.");
			return 0;
		default:
			tg_die(TG_EXIT_USAGE, "try --help");
		}
	}
	if (node < 0 || optind == argc)
		tg_die(TG_EXIT_USAGE, "--node and a command are needed; try --help");
	fill(node, size);
	execvp(argv[optind], argv + optind);
	tg_die(TG_EXIT_FAILED, "%s: %s", argv[optind], strerror(errno));
}
