/* SPDX-License-Identifier: GPL-2.0 */
/* What the selftests of bursts share. */
#ifndef BURST_UTIL_H
#define BURST_UTIL_H

#include "mtier_util.h"

#define MT_BURST_DIR	"/sys/kernel/debug/mtier/"

long long mt_burst_value(const char *name);
void mt_observe(bool on);
bool mt_bursts_pass(unsigned int nr);
int mt_observe_on(void);

#endif /* BURST_UTIL_H */
