/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the selftests of automatic NUMA migration: counters, files on a node without
 * mappings, and processes that map them next.
 */
#ifndef FOLLOW_UTIL_H
#define FOLLOW_UTIL_H

#include "auto_migrate_util.h"
#include "mempolicy2_util.h"

#ifndef MPOL_LOCAL
#define MPOL_LOCAL	4
#endif
#ifndef MPOL_PREFERRED_MANY
#define MPOL_PREFERRED_MANY	5
#endif

#define FO_DEBUG	"/sys/kernel/debug/numa_follow/"
#define FO_BALANCING	"/proc/sys/kernel/numa_balancing"
#define FO_RATE		"/proc/sys/vm/migrate_on_fault_mbps"
#define FO_RATE_DEFAULT	"256"
#define FO_POLICY	"/proc/sys/vm/mapped_file_policy"

/* Flags of mbind() in these tests */
#define FO_MOVE		(MPOL_MF_MOVE | MPOL_MF_LAZY)
#define FO_MOVE_ALL	(MPOL_MF_MOVE_ALL | MPOL_MF_LAZY)

/* With two nodes, all memory is on the slow one, and bound to the other (a mask). */
#define FO_SLOW		1
#define FO_FAST		1UL

int fo_main(const struct mt_check *checks, size_t n);

/* Counters of /proc/vmstat, "numa_follow_" before their names */
long long fo_since(const struct mt_snap *s, const char *name);
long long fo_refused(const struct mt_snap *s);
bool fo_refused_only(const struct mt_snap *s, const char *reason, long long n);
long long fo_faulted(const struct mt_snap *s, const char *kind);
long long fo_ended(const struct mt_snap *s);
bool fo_is(const struct mt_snap *s, long long marked, long long pulled);
void fo_note(const struct mt_snap *s);

/*
 * Memory is used by two threads of a process, the upper half by the second; set for one
 * check by the checks that FO_THREADS() creates from others.
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

int fo_disk_file(void);
int fo_new(enum fo_kind kind);
int fo_file(enum fo_kind kind, long pages, int node);
bool fo_intact(int fd, long pages);
char *fo_map(int fd, long pages);
int fo_bind(int fd, long pages, int mode, unsigned long nodes);
long fo_on(int fd, long pages, int node);
int fo_level(struct mt_cgroup *cg, int level);

/**
 * struct fo_reader - a process that maps a file, uses it and exits
 * @fd: the file
 * @pages: number of pages, from the first on
 * @step: distance of used pages; 0 for all
 * @cg: its cgroup; NULL for none
 * @cpu: its CPU
 * @bind: nodes that its mapping is bound to; 0 for no policy
 * @private: the mapping is private
 * @write: it writes too
 * @faults: number of its minor faults
 */
struct fo_reader {
	int fd;
	long pages;
	long step;
	const struct mt_cgroup *cg;
	int cpu;
	unsigned long bind;
	bool private;
	bool write;
	long faults;
};

char *fo_use(struct fo_reader *r);
int fo_read(struct fo_reader *r);
void fo_drain(void);
int fo_refer(void *p, size_t size);
void fo_hold(void *arg);
double fo_instruction_ns(void);
int fo_cheaper(const void *a, const void *b);

#endif /* FOLLOW_UTIL_H */
