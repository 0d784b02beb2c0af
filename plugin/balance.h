/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Demand and response: how much longer than when idle does each node take to answer, when all vCPUs
 * want of it what they published?  Pure.
 */
#ifndef TERRACE_BALANCE_H
#define TERRACE_BALANCE_H

#include "model.h"

#define BALANCE_MAX_FACTOR	256.0

/*
 * As @cpu sees it, at its own time and with its own window.  @factor of each node: in, where to begin; out, the answer.  @used: the utilisation at it.
 *
 * In a window a vCPU works for other_ps and waits stall_ps[n] x factor[n] for node n; the nodes are
 * busy for load[n] of that.  So utilisation falls as any factor rises, the curve wants a factor
 * that rises with utilisation, and there is one set of factors at which both agree.
 */
void balance(const struct model *m, const struct model_cpu *cpu, double *factor, double *used);

#endif /* TERRACE_BALANCE_H */
