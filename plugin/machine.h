/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The modelled machine as a text file, one fact a line; the lab writes it from a topology
 * (src/terrace/lab/timing.py, docs/reference/timing-model.md).  Pure.
 */
#ifndef TERRACE_MACHINE_H
#define TERRACE_MACHINE_H

#include <stdio.h>

#include "model.h"

/* Read the machine. Returns 0, or -1 with what is wrong, and where, in @error. */
int machine_read(FILE *file, struct model_config *config, char *error, size_t size);

/* The address of memory at @paddr if the machine's memory had no gap. */
uint64_t machine_without_gap(const struct model_config *config, uint64_t paddr);

/* Print it as the members of a JSON object. */
void machine_print(FILE *out, const struct model_config *config);

#endif /* TERRACE_MACHINE_H */
