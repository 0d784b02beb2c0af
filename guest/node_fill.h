/* SPDX-License-Identifier: GPL-2.0 */
/* Free memory of a node, and how to make it less. */
#ifndef TERRACE_NODE_FILL_H
#define TERRACE_NODE_FILL_H

#include "terrace_guest.h"

/* Free bytes of a node. */
uint64_t tg_node_free(int node);
/*
 * Free memory of a node that a program does not get before the kernel tries another node: the low watermarks,
 * and the lowmem reserve.
 */
uint64_t tg_node_reserve(int node);
/* Take memory of the node until programs find @leave bytes of it; the caller holds it until it ends. */
void tg_node_fill(int node, uint64_t leave);

#endif /* TERRACE_NODE_FILL_H */
