// SPDX-License-Identifier: GPL-2.0
/* Selftest helpers: memory policies with weights, and where pages are. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mempolicy2_util.h"

static const char *missing(void)
{
	return mp_get2(NULL, 0, 0, 0) == -ENOSYS ?
	       "no memory policy calls with weights" : NULL;
}

/* Run @n checks and print TAP; the return value is main()'s. */
int mp_main(const struct mt_check *checks, size_t n)
{
	static const struct mt_suite suite = {
		.missing = missing,
	};

	return mt_run_suite(&suite, checks, n);
}

/* Run @fn in a child; returns what it returns. */
int mp_in_child(int (*fn)(void *), void *arg)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		status = fn(arg);
		fflush(stdout);
		_exit(status);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : MT_FAIL;
}

/* ---- calls ---- */

static long result(long ret)
{
	return ret < 0 ? -errno : ret;
}

long mp_set2(const void *param, size_t usize, unsigned long flags)
{
	return result(syscall(MP_NR_SET, param, usize, flags));
}

long mp_get2(void *param, size_t usize, unsigned long addr,
	     unsigned long flags)
{
	return result(syscall(MP_NR_GET, param, usize, addr, flags));
}

long mp_mbind2(const void *start, size_t len, const void *param, size_t usize,
	       unsigned long flags)
{
	return result(syscall(MP_NR_MBIND, start, len, param, usize, flags));
}

long mp_old_bind(void *start, size_t len, int mode, unsigned long nodes,
		 unsigned long flags)
{
	return result(syscall(SYS_mbind, start, len, mode,
			      nodes ? &nodes : NULL, nodes ? MP_NODES + 1 : 0,
			      flags));
}

long mp_old_set(int mode, unsigned long nodes)
{
	return result(syscall(SYS_set_mempolicy, mode, nodes ? &nodes : NULL,
			      nodes ? MP_NODES + 1 : 0));
}

/* A policy from a text as "0:5,1:1"; a bare "0" is a node without a weight. */
void mp_policy(struct mp_policy *p, int mode, const char *weights)
{
	char *end;

	memset(p, 0, sizeof(*p));
	p->param.mode = mode;
	p->param.pol_maxnodes = MP_NODES;
	p->param.pol_nodes = (uintptr_t)&p->nodes;
	while (*weights) {
		long nid = strtol(weights, &end, 10);

		p->nodes |= 1ULL << nid;
		if (*end == ':') {
			p->weights[nid] = strtol(end + 1, &end, 10);
			p->param.il_weights = (uintptr_t)p->weights;
		}
		weights = *end ? end + 1 : end;
	}
}

/* Policy of this thread; NULL is the default one. */
long mp_set(const char *weights)
{
	struct mp_policy p;

	mp_policy(&p, weights ? MP_WEIGHTED : MPOL_DEFAULT,
		  weights ? weights : "");
	return mp_set2(&p.param, sizeof(p.param), 0);
}

/* Policy of a range */
long mp_bind(const void *start, size_t len, const char *weights,
	     unsigned long flags)
{
	struct mp_policy p;

	mp_policy(&p, weights ? MP_WEIGHTED : MPOL_DEFAULT,
		  weights ? weights : "");
	return mp_mbind2(start, len, &p.param, sizeof(p.param), flags);
}

/* The policy in force of this thread, or with MPOL_F_ADDR at @addr */
long mp_in_force(struct mp_policy *p, const void *addr, unsigned long flags)
{
	mp_policy(p, MPOL_DEFAULT, "");
	p->param.il_weights = (uintptr_t)p->weights;
	return mp_get2(&p->param, sizeof(p->param), (uintptr_t)addr, flags);
}

/* The same as it was set */
long mp_get(struct mp_policy *p, const void *addr, unsigned long flags)
{
	return mp_in_force(p, addr, flags | MP_F_RAW);
}

/* Is it weighted interleave with just these nodes and weights? */
bool mp_is(const struct mp_policy *p, const char *weights)
{
	struct mp_policy want;

	mp_policy(&want, MP_WEIGHTED, weights);
	return p->param.mode == MP_WEIGHTED && p->nodes == want.nodes &&
	       !memcmp(p->weights, want.weights, sizeof(want.weights));
}

/* ---- memory ---- */

/* Anonymous memory in base pages, nothing touched, aligned to a huge page */
void *mp_map(size_t size)
{
	char *raw = mmap(NULL, size + MP_HUGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *p;

	if (raw == MAP_FAILED)
		return NULL;
	p = (char *)(((uintptr_t)raw + MP_HUGE - 1) & ~(MP_HUGE - 1));
	if (p > raw)
		munmap(raw, p - raw);
	munmap(p + size, raw + MP_HUGE - p);
	madvise(p, size, MADV_NOHUGEPAGE);
	return p;
}

/* Write to every page that belongs to nobody yet */
void mp_touch(void *p, size_t size)
{
	size_t off;

	for (off = 0; off < size; off += MP_PAGE)
		*(volatile char *)((char *)p + off) = 1;
}

/* Node of a page, or -errno */
int mp_where(const void *p)
{
	void *page = (void *)p;
	int status;

	if (syscall(SYS_move_pages, 0, 1UL, &page, NULL, &status, 0))
		return -errno;
	return status;
}

long mp_count(const void *p, size_t size, int node)
{
	size_t off;
	long n = 0;

	for (off = 0; off < size; off += MP_PAGE)
		n += mp_where((char *)p + off) == node;
	return n;
}

/* The model: node whose turn @index is. */
int mp_expected(unsigned long index, const char *weights)
{
	struct mp_policy p;
	unsigned long total = 0, nid;

	mp_policy(&p, MP_WEIGHTED, weights);
	for (nid = 0; nid < MP_NODES; nid++)
		total += p.weights[nid];
	index %= total;
	for (nid = 0; index >= p.weights[nid]; nid++)
		index -= p.weights[nid];
	return nid;
}

/*
 * Is each page where the model has it?  @unit is the size of a folio, @first
 * the index of the first one.
 */
bool mp_follows(const void *p, size_t size, size_t unit, unsigned long first,
		const char *weights)
{
	unsigned long bad = 0;
	size_t off;

	for (off = 0; off < size; off += MP_PAGE) {
		int want = mp_expected(first + off / unit, weights);
		int have = mp_where((char *)p + off);

		if (have == want)
			continue;
		if (!bad++)
			mt_note("page %zu is on %d, not %d", off / MP_PAGE,
				have, want);
	}
	if (bad)
		mt_note("%lu of %zu pages are not where %s wants them", bad,
			size / MP_PAGE, weights);
	return !bad;
}

/* The line of numa_maps for the mapping that starts at @p */
bool mp_numa_maps(const void *p, char *line, size_t size)
{
	FILE *f = fopen("/proc/self/numa_maps", "re");
	bool found = false;

	while (f && !found && fgets(line, size, f))
		found = strtoul(line, NULL, 16) == (uintptr_t)p;
	if (f)
		fclose(f);
	line[strcspn(line, "\n")] = '\0';
	return found;
}

/* Mappings that a range consists of */
int mp_vmas(const void *p, size_t size)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long from, to;
	char line[512];
	int n = 0;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx", &from, &to) == 2 &&
		    to > (uintptr_t)p && from < (uintptr_t)p + size)
			n++;
	if (f)
		fclose(f);
	return n;
}

/* A counter of a node, from its numastat file */
long long mp_node_stat(int node, const char *name)
{
	long long value = -1, v;
	char file[96], key[64];
	FILE *f;

	snprintf(file, sizeof(file), "/sys/devices/system/node/node%d/numastat",
		 node);
	f = fopen(file, "re");
	while (f && fscanf(f, "%63s %lld", key, &v) == 2)
		if (!strcmp(key, name))
			value = v;
	if (f)
		fclose(f);
	return value;
}
