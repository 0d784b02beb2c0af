/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How much may move, and to which node, as pure functions.
 *
 * Nothing here knows struct page, takes a lock, reads a clock or allocates.
 * Callers hand in numbers and get numbers back; whatever state there is lives
 * in small structs that the caller owns and serialises.  The same policy.c is
 * compiled in the kernel and, by tools/testing/mtier, in user space.
 *
 * Two rules hold for every function: each input has a defined result, also the
 * senseless ones (a zero rate, a clock that stepped back), and arithmetic
 * saturates instead of wrapping.
 */
#ifndef _MM_MTIER_POLICY_H
#define _MM_MTIER_POLICY_H

#include <linux/types.h>

/**
 * struct mtier_bucket - what may be moved to a node now
 * @tokens: bytes; below zero what is owed
 * @stamp_ns: time up to which @tokens is paid
 *
 * All zero is a valid bucket.  The caller serialises access.
 */
struct mtier_bucket {
	s64 tokens;
	u64 stamp_ns;
};

u64 mtier_bucket_pay(struct mtier_bucket *b, u64 now_ns, u64 rate, u64 burst,
		     u64 bytes);

void mtier_weights_add(u32 *weights, unsigned int n, unsigned int slot,
		       u32 amount);
void mtier_weights_decay(u32 *weights, unsigned int n);
void mtier_weights_mix(const u32 *top_accesses, const u32 *cpu_threads,
		       u32 *out, unsigned int n);
int mtier_target_pick(u32 *turn, const u32 *weights, unsigned int n);

#endif /* _MM_MTIER_POLICY_H */
