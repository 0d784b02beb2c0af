/* SPDX-License-Identifier: GPL-2.0 */
/* Misses to memory by virtual page: a growing hash table for each vCPU, so there is no lock. */
#ifndef TERRACE_PAGES_H
#define TERRACE_PAGES_H

#include <stdint.h>

void pages_add(unsigned int vcpu, uint64_t page);

/* Write "PAGE COUNT" lines, page numbers in hexadecimal, ascending. Returns 0 or -errno. */
int pages_write(const char *path, unsigned int nr_vcpus);

#endif /* TERRACE_PAGES_H */
