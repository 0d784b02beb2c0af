// SPDX-License-Identifier: LGPL-2.1-only
/* libterrace: the weights that hold for everybody. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

#define FILES	"/sys/kernel/mm/mempolicy/weighted_interleave/node%u"

static int open_weight(unsigned int node, int how)
{
	char path[80];
	int fd;

	if (node >= MAX_NODES)
		return -ERANGE;
	snprintf(path, sizeof(path), FILES, node);
	fd = open(path, how | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int terrace_global_weight(unsigned int node, unsigned int *weight)
{
	int fd = open_weight(node, O_RDONLY);
	char text[16];
	ssize_t n;

	if (fd < 0)
		return fd;
	n = read(fd, text, sizeof(text) - 1);
	if (n < 0)
		n = -errno;
	close(fd);
	if (n < 0)
		return n;
	text[n] = '\0';
	*weight = strtoul(text, NULL, 10);
	return *weight && *weight <= MAX_WEIGHT ? 0 : -EPROTO;
}

int terrace_set_global_weight(unsigned int node, unsigned int weight)
{
	char text[16];
	int fd, len, ret = 0;

	if (!weight || weight > MAX_WEIGHT)
		return -ERANGE;
	fd = open_weight(node, O_WRONLY);
	if (fd < 0)
		return fd;
	len = snprintf(text, sizeof(text), "%u\n", weight);
	if (write(fd, text, len) != len)
		ret = -errno;
	close(fd);
	return ret;
}
