/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the selftests of the memory policy calls share: the calls, weights in a
 * form that is easy to write, and where pages are.
 */
#ifndef MEMPOLICY2_UTIL_H
#define MEMPOLICY2_UTIL_H

#include <linux/mempolicy.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mtier_util.h"

#define MP_NR_SET	960L
#define MP_NR_GET	961L
#define MP_NR_MBIND	962L

#define MP_F_RAW	(1UL << 5)
#define MP_F_HOME_NODE	(1U << 12) /* in mode_flags */
#define MP_MF_HOME_NODE	(1UL << 16)
#define MP_MF_REBALANCE	(1UL << 17)

#define MP_WEIGHTED	6	/* MPOL_WEIGHTED_INTERLEAVE */
#define MP_NODES	64
#define MP_PAGE		4096UL
#define MP_HUGE		(2UL << 20)
#define MP_DIR		"/sys/kernel/mm/mempolicy/weighted_interleave/"

/* struct mpol_param of <linux/mempolicy2.h> */
struct mp_param {
	uint16_t mode;
	uint16_t mode_flags;
	int32_t home_node;
	uint16_t pol_maxnodes;
	uint8_t resv[6];
	uint64_t pol_nodes;
	uint64_t il_weights;
} __attribute__((aligned(8)));

/* A policy with all its memory; @param points into it. */
struct mp_policy {
	struct mp_param param;
	uint64_t nodes;
	uint8_t weights[MP_NODES];
};

int mp_main(const struct mt_check *checks, size_t n);

/* The calls; -errno if they fail. */
long mp_set2(const void *param, size_t usize, unsigned long flags);
long mp_get2(void *param, size_t usize, unsigned long addr,
	     unsigned long flags);
long mp_mbind2(const void *start, size_t len, const void *param, size_t usize,
	       unsigned long flags);

void mp_policy(struct mp_policy *p, int mode, const char *weights);
long mp_set(const char *weights);
long mp_bind(const void *start, size_t len, const char *weights,
	     unsigned long flags);
long mp_get(struct mp_policy *p, const void *addr, unsigned long flags);
long mp_in_force(struct mp_policy *p, const void *addr, unsigned long flags);
bool mp_is(const struct mp_policy *p, const char *weights);
long mp_old_bind(void *start, size_t len, int mode, unsigned long nodes,
		 unsigned long flags);
long mp_old_set(int mode, unsigned long nodes);

void *mp_map(size_t size);
void mp_touch(void *p, size_t size);
int mp_where(const void *p);
long mp_count(const void *p, size_t size, int node);
int mp_expected(unsigned long index, const char *weights);
bool mp_follows(const void *p, size_t size, size_t unit, unsigned long first,
		const char *weights);
bool mp_numa_maps(const void *p, char *line, size_t size);
int mp_vmas(const void *p, size_t size);

long long mp_node_stat(int node, const char *name);
int mp_in_child(int (*fn)(void *), void *arg);

/* mempolicy2_fail.c */

/* More allocations than any of the calls makes */
#define MP_FAIL_MOST	4000

/**
 * struct mp_fail_call - a call of which every single allocation is made to fail
 * @what: its name
 * @begin: makes what it finds
 * @call: 0 or -errno
 * @unchanged: whether all is as begin() made it, once it has failed
 */
struct mp_fail_call {
	const char *what;
	void (*begin)(void);
	long (*call)(void);
	bool (*unchanged)(void);
};

int mp_fail_each(const struct mp_fail_call *c, int least);
long mp_fail_fork(void);
int mp_fail_prepare(void);
bool mp_fail_pages(bool on);
void mp_fail(unsigned int nth);
bool mp_has_failed(void);

/* mempolicy2_measure.c */
int mp_faults_cost(double limit);
int mp_print_faults(void);

#endif /* MEMPOLICY2_UTIL_H */
