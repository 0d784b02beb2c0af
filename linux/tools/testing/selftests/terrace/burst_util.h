/* SPDX-License-Identifier: GPL-2.0 */
/* What the selftests of bursts share. */
#ifndef BURST_UTIL_H
#define BURST_UTIL_H

#include "mtier_util.h"

char *mt_place_both(size_t size);
long long mt_burst_value(const char *name);
long mt_burst_counted(unsigned int looks, const char *group, unsigned int count);
int mt_observe(bool on);
bool mt_bursts_pass(unsigned int nr);
int mt_bursts_on(void);
int mt_observe_on(void);
bool mt_used_and_looked_at(void *p, size_t size);

#endif /* BURST_UTIL_H */
