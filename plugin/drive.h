/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The model drives QEMU: the guest's clock, whose turn it is, and what the guest's TLBs still hold.
 *
 * The plugin interface only observes.  What is changed here goes through functions that QEMU has
 * for itself; a QEMU that is built with modules, as Debian's is, exports all of them, and they are
 * found by name when the plugin loads.  No structure of QEMU's is known to us.
 */
#ifndef TERRACE_DRIVE_H
#define TERRACE_DRIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "model.h"

/* Find what is needed of QEMU. Returns NULL, or the name of the function that it does not export. */
const char *drive_setup(const struct model *m);

/* When the accelerator has been set up, thus with the first vCPU: take its clock. False without -icount. */
bool drive_take_clock(void);

/* From now on the guest's clock goes by the model; until then by instructions, as -icount has it. */
void drive_start(void);

/*
 * The vCPU's clock has reached what the last call gave it (0 at first): its turn ends behind the
 * block that runs.  Returns the clock at which its next turn ends.
 */
uint64_t drive_turn_over(const struct model_cpu *cpu);

/* The vCPU halts: nobody waits for it until its clock goes on. */
void drive_halted(const struct model_cpu *cpu);

/* The modelled TLB has no place for the page any more: QEMU's forgets it as well. */
void drive_evicted(const struct model_cpu *cpu, uint64_t vaddr);

/* Nanoseconds since drive_start() in which all CPUs were idle. False, and 0: the guest's clock is not driven. */
bool drive_all_idle_ns(uint64_t *ns);

/* The furthest that a vCPU was ahead of another one that worked, since the last call; ps. */
uint64_t drive_take_skew_ps(void);

#endif /* TERRACE_DRIVE_H */
