/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The ledger: snapshots of all counters at the region markers and at the end, and the JSON made of
 * their differences.  docs/reference/timing-model.md lists every key.
 */
#ifndef TERRACE_REPORT_H
#define TERRACE_REPORT_H

#include "kinds.h"
#include "model.h"

/* Counters of a vCPU, for each kind in [0] user, [1] kernel mode. */
struct cpu_counts {
	struct model_counts of[MAX_KINDS][2];
};

struct step {
	uint64_t t_ps, insns, app_insns, kernel_insns, shootdowns;
	uint64_t app_misses[MODEL_MAX_NODES], bytes[MODEL_MAX_NODES];
};

void report_setup(const struct model *m, const struct cpu_counts *counts);

/* The model begins. */
void report_start(void);

/* Note all counters under the marker's @number. */
void report_region(unsigned int number);

/* The region that is open: true between an odd marker and the next even one. */
bool report_in_region(void);

/* Add a point to the time series. */
void report_step(void);

/* Write the ledger. Returns 0 or -errno. */
int report_write(const char *path);

#endif /* TERRACE_REPORT_H */
