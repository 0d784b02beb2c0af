/* SPDX-License-Identifier: GPL-2.0 */
/* Many processes with memory that they use rarely or never. */
#ifndef IDLE_UTIL_H
#define IDLE_UTIL_H

#include "burst_util.h"

/**
 * struct mt_idle - processes with one page in each of their ranges, on the slow node
 * @nr: number of processes
 * @ranges: ranges of 2 MiB of each process
 * @every_ms: time between two uses of all pages; 0: none
 * @ready: number of processes that have their memory
 * @pids: the processes
 */
struct mt_idle {
	int nr;
	long ranges;
	unsigned int every_ms;
	volatile int *ready;
	pid_t *pids;
};

int mt_idle_start(struct mt_idle *idle);
void mt_idle_stop(struct mt_idle *idle);

#endif /* IDLE_UTIL_H */
