/* SPDX-License-Identifier: GPL-2.0 */
/* What the selftests of lazy migration share. */
#ifndef LAZY_MIGRATE_UTIL_H
#define LAZY_MIGRATE_UTIL_H

#include <linux/mempolicy.h>
#include <stdbool.h>
#include <stddef.h>

#include "mempolicy2_util.h"
#include "mtier_util.h"

#ifndef MPOL_LOCAL
#define MPOL_LOCAL	4
#endif
#ifndef MPOL_PREFERRED_MANY
#define MPOL_PREFERRED_MANY	5
#endif

#define LZ_BALANCING	"/proc/sys/kernel/numa_balancing"

/* What mbind() is asked for */
#define LZ_MOVE		(MPOL_MF_MOVE | MPOL_MF_LAZY)
#define LZ_MOVE_ALL	(MPOL_MF_MOVE_ALL | MPOL_MF_LAZY)

/* With two nodes everything is on the slow one, and bound to the other (a mask). */
#define LZ_SLOW		1
#define LZ_FAST		1UL

int lz_main(const struct mt_check *checks, size_t n);

/**
 * struct lz_figures - what /proc/vmstat says since a moment
 * @before: that moment
 */
struct lz_figures {
	struct mt_snap before;
};

void lz_begin(struct lz_figures *f);
bool lz_is(const struct lz_figures *f, long long marked, long long pulled);
bool lz_refused(const struct lz_figures *f, const char *reason, long long n);
long long lz_refused_all(const struct lz_figures *f);
bool lz_intact(const char *p, size_t size);
int lz_ext4_file(void);

#endif /* LAZY_MIGRATE_UTIL_H */
