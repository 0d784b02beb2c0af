// SPDX-License-Identifier: GPL-2.0
/*
 * Selftest helper: memory blocks that are hidden at boot, added by a file for
 * tests as a driver adds those of a CXL device, and go on- and offline.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mtier_util.h"

static unsigned long first;

/* The numbers of a node's memory blocks, @max of them at most; how many there are */
int mt_blocks_of(int node, int *ids, int max)
{
	char path[96];
	struct dirent *e;
	DIR *dir;
	int n = 0;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d", node);
	dir = opendir(path);
	while (dir && (e = readdir(dir)) && n < max)
		if (!strncmp(e->d_name, "memory", 6) &&
		    strspn(e->d_name + 6, "0123456789") ==
		    strlen(e->d_name + 6))
			ids[n++] = atoi(e->d_name + 6);
	if (dir)
		closedir(dir);
	return n;
}

/* Block number @id of the machine, to @state; -errno */
int mt_block_state(unsigned long id, const char *state)
{
	char file[96];

	snprintf(file, sizeof(file), "/sys/devices/system/memory/memory%lu/state",
		 id);
	return mt_write(file, state);
}

/* The @nth one of those added */
int mt_added_state(unsigned int nth, const char *state)
{
	return mt_block_state(first + nth, state);
}

/*
 * Add @n blocks from physical address @base by writing to @probe, once per boot;
 * they are offline then.
 */
int mt_blocks_add(const char *probe, unsigned long base, unsigned int n)
{
	unsigned long size;
	char text[32];
	unsigned int i;
	int ret;

	MT_NEED(!access(probe, W_OK), "no %s", probe);
	mt_read("/sys/devices/system/memory/block_size_bytes", text,
		sizeof(text));
	size = strtoul(text, NULL, 16);
	MT_NEED(size, "no block size");
	first = base / size;
	for (i = 0; i < n; i++) {
		ret = mt_writef(probe, "0x%lx", base + i * size);
		MT_NEED(!ret || ret == -EEXIST, "memory at 0x%lx: %s",
			base + i * size, strerror(-ret));
	}
	return MT_PASS;
}

/* -EINVAL: it is so already. */
static bool is(unsigned int nth, const char *state)
{
	int ret = mt_added_state(nth, state);

	return !ret || ret == -EINVAL;
}

/* The first @n that were added come. */
int mt_blocks_online(unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		MT_ASSERT(is(i, "online_movable"), "block %u does not come", i);
	return MT_PASS;
}

/* They go, at once or as soon as nobody holds a page of them. */
int mt_blocks_offline(unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		MT_ASSERT(MT_WAIT(is(i, "offline"), 5000),
			  "block %u does not go", i);
	return MT_PASS;
}
