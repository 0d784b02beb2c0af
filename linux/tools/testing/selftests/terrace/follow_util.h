/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the selftests of pages that follow their users share: files on a node that
 * nobody maps, and who maps them next.
 */
#ifndef FOLLOW_UTIL_H
#define FOLLOW_UTIL_H

#include "auto_migrate_util.h"
#include "lazy_migrate_util.h"

#define FO_RATE		"/proc/sys/vm/migrate_on_fault_mbps"
#define FO_RATE_DEFAULT	"256"
#define FO_POLICY	"/proc/sys/vm/mapped_file_policy"

int fo_main(const struct mt_check *checks, size_t n);

/*
 * Memory is used by two threads of a process, the upper half by the second; set for one
 * check by those that FO_THREADS() makes of others.
 */
extern bool fo_threads;

void fo_touch(char *p, size_t size);

#define FO_THREADS(check)			\
	static int check##_threads(void)	\
	{					\
		fo_threads = true;		\
		return check();			\
	}

/* A file of tmpfs, or one on a disk */
enum fo_kind { FO_SHMEM, FO_DISK };

int fo_new(enum fo_kind kind);
int fo_file(enum fo_kind kind, long pages, int node);
int fo_bind(int fd, long pages, unsigned long nodes);
long fo_on(int fd, long pages, int node);
int fo_level(struct mt_cgroup *cg, int level);

/**
 * struct fo_reader - a process that maps a file, reads it and goes
 * @fd: the file
 * @pages: from the first on
 * @cg: its cgroup; NULL for none
 * @cpu: where it runs
 * @flags: MAP_SHARED or MAP_PRIVATE
 * @faults: minor faults that it took
 */
struct fo_reader {
	int fd;
	long pages;
	const struct mt_cgroup *cg;
	int cpu;
	int flags;
	long faults;
};

int fo_read(struct fo_reader *r);
void fo_drain(void);

#endif /* FOLLOW_UTIL_H */
