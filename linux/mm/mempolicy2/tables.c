// SPDX-License-Identifier: GPL-2.0
/*
 * Tables of interleave weights: allocation, sharing between policies with equal
 * weights, and release.
 *
 * A table is a draft until mpol_weights_share() has found an equal one or has
 * made it known.  After that it is immutable, so two policies have the same
 * weights exactly if they have the same table.  Every known table has a
 * reference: the last one is dropped under the lock.
 *
 * Locking: tables_lock is innermost and taken with interrupts off, as a rebind
 * has them.  RCU keeps a table for a task that reads the weights of its policy.
 *
 * See Documentation/admin-guide/mm/mempolicy2.rst.
 */
#include <linux/rbtree.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include "mempolicy2.h"

static struct rb_root tables = RB_ROOT;
static DEFINE_SPINLOCK(tables_lock);

/**
 * mpol_weights_alloc() - Allocate a draft for weights of all nodes
 * @gfp: allocation flags
 *
 * Return: table with one reference and zero weights, NULL without memory.
 */
struct mpol_weights *mpol_weights_alloc(gfp_t gfp)
{
	struct mpol_weights *m;

	m = kzalloc(struct_size(m, slots, nr_node_ids) + nr_node_ids, gfp);
	if (!m)
		return NULL;
	refcount_set(&m->refs, 1);
	RB_CLEAR_NODE(&m->known);
	m->weight = (u8 *)&m->slots[nr_node_ids];
	return m;
}

/**
 * mpol_given_alloc() - Copy the weights of a mask that the kernel remembers
 * @weight: MAX_NUMNODES weights
 * @nodes: mask, not empty; it may have nodes that cannot exist
 *
 * Return: object with one reference, NULL without memory.
 */
struct mpol_given *mpol_given_alloc(const u8 *weight, const nodemask_t *nodes)
{
	unsigned int nr = find_last_bit(nodes->bits, MAX_NUMNODES) + 1;
	struct mpol_given *given;

	nr = max(nr, nr_node_ids);
	given = kmalloc(struct_size(given, weight, nr), GFP_KERNEL_ACCOUNT);
	if (!given)
		return NULL;
	refcount_set(&given->refs, 1);
	given->nr = nr;
	memcpy(given->weight, weight, nr);
	return given;
}

static void given_put(struct mpol_given *given)
{
	/* No reader uses what the caller gave under RCU. */
	if (given && refcount_dec_and_test(&given->refs))
		kfree(given);
}

/**
 * mpol_weights_put() - Drop a reference
 * @m: table or NULL
 */
void mpol_weights_put(struct mpol_weights *m)
{
	unsigned long flags;
	bool last;

	if (!m || refcount_dec_not_one(&m->refs))
		return;
	/* Under the lock no other policy can find the table. */
	spin_lock_irqsave(&tables_lock, flags);
	last = refcount_dec_and_test(&m->refs);
	if (last && !RB_EMPTY_NODE(&m->known))
		rb_erase(&m->known, &tables);
	spin_unlock_irqrestore(&tables_lock, flags);
	if (!last)
		return;
	given_put(m->given);
	kfree_rcu(m, rcu);
}

static int compare_given(const struct mpol_given *a, const struct mpol_given *b)
{
	if (a == b)
		return 0;
	if (!a || !b)
		return a ? 1 : -1;
	if (a->nr != b->nr)
		return a->nr < b->nr ? -1 : 1;
	return memcmp(a->weight, b->weight, a->nr);
}

/* The order does not matter.  Equal tables can replace each other. */
static int compare_tables(struct rb_node *node_a, const struct rb_node *node_b)
{
	const struct mpol_weights *a, *b;
	int ret;

	a = rb_entry(node_a, struct mpol_weights, known);
	b = rb_entry(node_b, struct mpol_weights, known);
	ret = memcmp(a->weight, b->weight, nr_node_ids);
	if (!ret)
		ret = memcmp(&a->nodes, &b->nodes, sizeof(a->nodes));
	return ret ? ret : compare_given(a->given, b->given);
}

/**
 * mpol_weights_share() - Find the table that all policies with these weights use
 * @m: complete draft with one reference; unchanged if another table is returned
 *
 * Allocates nothing and may be called in atomic context.
 *
 * Return: @m, now in the tree, or an equal table with one more reference.
 */
struct mpol_weights *mpol_weights_share(struct mpol_weights *m)
{
	struct rb_node *found;
	unsigned long flags;

	spin_lock_irqsave(&tables_lock, flags);
	found = rb_find_add(&m->known, &tables, compare_tables);
	if (found) {
		m = rb_entry(found, struct mpol_weights, known);
		refcount_inc(&m->refs);
	}
	spin_unlock_irqrestore(&tables_lock, flags);
	return m;
}

/**
 * mpol_weights_clear() - Make a draft ready for other weights
 * @m: draft
 */
void mpol_weights_clear(struct mpol_weights *m)
{
	given_put(m->given);
	m->given = NULL;
}
