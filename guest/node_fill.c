// SPDX-License-Identifier: GPL-2.0
/*
 * Take memory of a node until programs find only so much of it free.
 *
 * The memory is in pipes without a reader: it belongs to no address space and is on no LRU list, so the kernel
 * neither reclaims nor migrates nor scans it, as if the machine had less.  Mlocked memory would not do:
 * DAMON and migrate_pages(2) move it.
 */
#define _GNU_SOURCE
#include "node_fill.h"

#define STEP		(16u << 20)	/* for each pipe, a power of two */
#define CLOSE_ENOUGH	(256u << 10)	/* per-CPU lists and the like */
#define MAX_ROUNDS	100000u

uint64_t tg_node_free(int node)
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

uint64_t tg_node_reserve(int node)
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

/* In steps that shrink with what is left. */
void tg_node_fill(int node, uint64_t leave)
{
	uint64_t free_now = tg_node_free(node), reserve = tg_node_reserve(node), room = 0;
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
		free_now = tg_node_free(node);
	}
	err = tg_bind_task_memory(-1);
	if (err)
		tg_die(TG_EXIT_FAILED, "back to the default policy: %s", strerror(-err));
}
