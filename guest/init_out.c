// SPDX-License-Identifier: GPL-2.0
/*
 * Send the files below /run/terrace/out to the host through the port terrace.files, after the command has ended.
 *
 * The stream is a sequence of records. A record is a line, the name (NAMELEN bytes, relative to the folder), and for a
 * regular file SIZE bytes of contents:
 *
 *   d MODE NAMELEN          a folder, before everything in it; MODE is octal
 *   f MODE SIZE NAMELEN     a regular file
 *   x REASON NAMELEN        an entry that is not sent: link, device, fifo, socket, mount, deep, limit, error
 *   end                     the last record, without a name
 *
 * src/terrace/lab/out.py reads it, and trusts nothing in it.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init.h"

#define MAX_DEPTH 64

struct sender {
	int port;
	bool broken;			/* the host no longer reads */
	dev_t device;			/* of the folder itself: other mounts are not sent */
	unsigned long long left;	/* bytes of contents that the host accepts */
	char name[PATH_MAX];
	char buf[65536];
};

static void send_bytes(struct sender *s, const void *data, size_t len)
{
	const char *at = data;

	while (len && !s->broken) {
		ssize_t n = write(s->port, at, len);

		if (n > 0) {
			at += n;
			len -= n;
		} else if (n < 0 && errno != EINTR) {
			s->broken = true;
		}
	}
}

static void send_record(struct sender *s, const char *head)
{
	char line[96];
	size_t len = strlen(s->name);

	send_bytes(s, line, snprintf(line, sizeof(line), "%s %zu\n", head, len));
	send_bytes(s, s->name, len);
}

static void send_skipped(struct sender *s, const char *reason)
{
	char head[64];

	snprintf(head, sizeof(head), "x %s", reason);
	send_record(s, head);
}

/* Send exactly @size bytes: the host counts on the size in the record. */
static void send_contents(struct sender *s, int fd, unsigned long long size)
{
	bool failed = false;

	while (size && !s->broken) {
		size_t part = size < sizeof(s->buf) ? size : sizeof(s->buf);
		ssize_t n = failed ? 0 : read(fd, s->buf, part);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			failed = true;
			memset(s->buf, 0, part);
			n = part;
		}
		send_bytes(s, s->buf, n);
		size -= n;
	}
	if (failed)
		send_skipped(s, "error");
}

static void send_file(struct sender *s, int parent, const char *entry)
{
	int fd = openat(parent, entry, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	char head[96];

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		send_skipped(s, "error");
	} else if ((unsigned long long)st.st_size > s->left) {
		send_skipped(s, "limit");
	} else {
		s->left -= st.st_size;
		snprintf(head, sizeof(head), "f %o %llu", st.st_mode & 0777, (unsigned long long)st.st_size);
		send_record(s, head);
		send_contents(s, fd, st.st_size);
	}
	if (fd >= 0)
		close(fd);
}

static const char *reason_of(mode_t mode)
{
	if (S_ISLNK(mode))
		return "link";
	if (S_ISFIFO(mode))
		return "fifo";
	if (S_ISSOCK(mode))
		return "socket";
	return "device";
}

static void send_folder(struct sender *s, int parent, const char *entry, int depth);

static void send_entry(struct sender *s, int parent, const char *entry, int depth)
{
	struct stat st;
	char head[64];

	if (fstatat(parent, entry, &st, AT_SYMLINK_NOFOLLOW)) {
		send_skipped(s, "error");
	} else if (st.st_dev != s->device) {
		send_skipped(s, "mount");
	} else if (S_ISREG(st.st_mode)) {
		send_file(s, parent, entry);
	} else if (!S_ISDIR(st.st_mode)) {
		send_skipped(s, reason_of(st.st_mode));
	} else if (depth == MAX_DEPTH) {
		send_skipped(s, "deep");
	} else {
		snprintf(head, sizeof(head), "d %o", st.st_mode & 0777);
		send_record(s, head);
		send_folder(s, parent, entry, depth + 1);
	}
}

/* Send what is in a folder; @s->name is its name on entry and on return. */
static void send_folder(struct sender *s, int parent, const char *entry, int depth)
{
	int fd = openat(parent, entry, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	size_t len = strlen(s->name);
	struct dirent *one;

	if (!folder) {
		if (fd >= 0)
			close(fd);
		send_skipped(s, "error");
		return;
	}
	while (!s->broken && (one = readdir(folder))) {
		if (!strcmp(one->d_name, ".") || !strcmp(one->d_name, ".."))
			continue;
		if (len + strlen(one->d_name) + 2 > sizeof(s->name)) {
			send_skipped(s, "deep");
			continue;
		}
		snprintf(s->name + len, sizeof(s->name) - len, "%s%s", len ? "/" : "", one->d_name);
		send_entry(s, fd, one->d_name, depth);
		s->name[len] = '\0';
	}
	closedir(folder);
}

void send_files(int port)
{
	static struct sender s;
	struct stat st;

	s.port = port;
	s.left = strtoull(conf.out, NULL, 10);
	if (!stat(OUT_DIR, &st)) {
		s.device = st.st_dev;
		send_folder(&s, AT_FDCWD, OUT_DIR, 0);
	}
	send_bytes(&s, "end\n", 4);
}
