/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the two programs that run all capabilities at once: random numbers, memory
 * with known contents, and processes that run one after the other.
 */
#ifndef CHURN_UTIL_H
#define CHURN_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define CHURN_SIZE	(6UL << 20)

unsigned int churn_roll(unsigned int n);
void churn_fill(char *p, size_t size);
void churn_verify(const char *p, size_t size);
unsigned long churn_wrong(void);
void churn_spin(char *p, size_t size);
char *churn_memory(int node);
pid_t churn_start(unsigned int which, void (*life)(void));

#endif /* CHURN_UTIL_H */
