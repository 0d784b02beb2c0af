// SPDX-License-Identifier: GPL-2.0
/*
 * Interleave weights that belong to one policy: their objects, and what becomes
 * of them wherever mm/mempolicy.c copies, compares, rebinds, asks or frees a
 * policy.
 *
 * A policy with weights is a struct mempolicy2 and has MPOL_F_WEIGHTS; all other
 * policies stay as they were.  Weights are immutable objects that VMAs share
 * after a split and tasks share after a fork; a rebind makes new ones.
 *
 * Locking, outermost first:
 *
 *	mmap_lock (write)	policies of VMAs, their weights; rebind may sleep
 *	task->alloc_lock	policy of a task, its weights and its spare
 *	  mems_allowed_seq	written during a rebind: nothing may be allocated
 *				(the page allocator would wait for it), hence
 *				the spare, brought by mpol2_rebind_prepare()
 *	shared_policy.lock	policies of a shared object, never rebound
 *	RCU			a task reads the weights of its own policy
 *				without any lock, so what a rebind replaces is
 *				freed after a grace period
 *
 * See Documentation/admin-guide/mm/mempolicy2.rst.
 */
#include <linux/init.h>
#include <linux/jhash.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "mempolicy2.h"

static struct kmem_cache *mempolicy2_cache;
static struct kmem_cache *mempolicy2_task_cache;

/**
 * mpol_weights_alloc - Room for weights of all nodes
 * @gfp: how to allocate
 *
 * Return: object with one reference and zero weights, NULL without memory.
 */
struct mpol_weights *mpol_weights_alloc(gfp_t gfp)
{
	struct mpol_weights *m;

	m = kzalloc(struct_size(m, slots, nr_node_ids) + nr_node_ids, gfp);
	if (!m)
		return NULL;
	refcount_set(&m->refs, 1);
	m->weight = (u8 *)&m->slots[nr_node_ids];
	return m;
}

/**
 * mpol_weights_put - Drop a reference
 * @m: weights or NULL
 */
void mpol_weights_put(struct mpol_weights *m)
{
	if (!m || !refcount_dec_and_test(&m->refs))
		return;
	/* Nobody reads what the user gave under RCU. */
	mpol_weights_put(m->user);
	kfree_rcu(m, rcu);
}

/* The weights of a policy that cannot change meanwhile. */
static struct mpol_weights *weights_of(struct mempolicy2 *p)
{
	return rcu_dereference_protected(p->weights, true);
}

/* Where a task's policy keeps room for its next rebind; NULL for any other. */
static struct mpol_weights **spare_of(struct mempolicy *pol)
{
	if (!(pol->flags & MPOL_F_TASK))
		return NULL;
	return &container_of(pol, struct mempolicy2_task, policy.pol)->spare;
}

/* Weights as they were given, and in an object of their own if remembered. */
static struct mpol_weights *weights_from(const u8 *weight, unsigned short flags)
{
	struct mpol_weights *m = mpol_weights_alloc(GFP_KERNEL_ACCOUNT);

	if (!m)
		return NULL;
	memcpy(m->weight, weight, nr_node_ids);
	if (flags & (MPOL_F_STATIC_NODES | MPOL_F_RELATIVE_NODES)) {
		m->user = mpol_weights_alloc(GFP_KERNEL_ACCOUNT);
		if (!m->user) {
			kfree(m);
			return NULL;
		}
		memcpy(m->user->weight, weight, nr_node_ids);
	}
	return m;
}

/* A policy with nothing set but what frees it: the flags, and a task's spare. */
static struct mempolicy *alloc_policy(unsigned short flags)
{
	struct mempolicy2_task *p;

	if (!(flags & MPOL_F_TASK))
		return kmem_cache_alloc(mempolicy2_cache, GFP_KERNEL);
	p = kmem_cache_alloc(mempolicy2_task_cache, GFP_KERNEL);
	if (!p)
		return NULL;
	p->spare = mpol_weights_alloc(GFP_KERNEL_ACCOUNT);
	if (!p->spare) {
		kmem_cache_free(mempolicy2_task_cache, p);
		return NULL;
	}
	return &p->policy.pol;
}

static struct mempolicy *new_with_weights(unsigned short mode,
					  unsigned short flags,
					  const struct mpol2_request *req)
{
	struct mpol_weights *m = weights_from(req->weight, flags);
	struct mempolicy *pol;

	if (!m)
		return ERR_PTR(-ENOMEM);
	flags |= MPOL_F_WEIGHTS | (req->task ? MPOL_F_TASK : 0);
	pol = alloc_policy(flags);
	if (!pol) {
		mpol_weights_put(m);
		return ERR_PTR(-ENOMEM);
	}
	memset(pol, 0, sizeof(*pol));
	atomic_set(&pol->refcnt, 1);
	pol->mode = mode;
	pol->flags = flags;
	pol->home_node = NUMA_NO_NODE;
	RCU_INIT_POINTER(to_mempolicy2(pol)->weights, m);
	return pol;
}

/**
 * mpol2_new - mpol_new() for a struct mpol2_request
 * @mode: mode
 * @flags: mode flags with MPOL_F_REQUEST
 * @nodes: node mask in the request
 *
 * Return: policy with one reference whose nodes are not set yet, NULL for the
 * default one, or an error pointer.
 */
struct mempolicy *mpol2_new(unsigned short mode, unsigned short flags,
			    nodemask_t *nodes)
{
	struct mpol2_request *req;
	struct mempolicy *pol;

	req = container_of(nodes, struct mpol2_request, nodes);
	flags &= ~MPOL_F_REQUEST;
	if (!req->weight) {
		pol = mpol_new(mode, flags, nodes);
		if (!IS_ERR_OR_NULL(pol))
			pol->home_node = req->home_node;
		return pol;
	}
	if (nodes_empty(*nodes))
		return ERR_PTR(-EINVAL);
	return new_with_weights(mode, flags, req);
}

/**
 * __mpol2_free - Free a policy with weights
 * @pol: policy without any reference
 *
 * Return: true.
 */
bool __mpol2_free(struct mempolicy *pol)
{
	struct mpol_weights **spare = spare_of(pol);

	mpol_weights_put(weights_of(to_mempolicy2(pol)));
	if (spare) {
		kfree(*spare);
		kmem_cache_free(mempolicy2_task_cache, pol);
	} else {
		kmem_cache_free(mempolicy2_cache, pol);
	}
	return true;
}

/**
 * __mpol2_dup_alloc - Room for a copy of a policy with weights
 * @old: what will be copied
 *
 * The copy of a task's policy gets a spare: fork makes it another task's.
 *
 * Return: policy without contents, NULL without memory.
 */
struct mempolicy *__mpol2_dup_alloc(struct mempolicy *old)
{
	return alloc_policy(old->flags);
}

/* Weights of 0 follow the global ones. */
/**
 * __mpol2_copy - Share the weights of a policy with its copy
 * @new: from __mpol2_dup_alloc()
 * @old: original; a task's is locked, any other cannot change
 */
void __mpol2_copy(struct mempolicy *new, struct mempolicy *old)
{
	struct mpol_weights *m = weights_of(to_mempolicy2(old));

	refcount_inc(&m->refs);
	RCU_INIT_POINTER(to_mempolicy2(new)->weights, m);
}

/**
 * __mpol2_split - Policy of the second half of a shared range that is cut
 * @copy: in: copy of struct mempolicy, too small for weights; out: @old itself
 * @old: original; policies in a shared object never change, so two may share
 *
 * Called under shared_policy.lock.
 */
void __mpol2_split(struct mempolicy **copy, struct mempolicy *old)
{
	(*copy)->flags &= ~MPOL_F_WEIGHTS;
	mpol_put(*copy);
	mpol_get(old);
	*copy = old;
}

/**
 * __mpol2_equal - Do two policies have the same weights?
 * @a: policy with weights
 * @b: policy with weights
 *
 * Return: true if they do, weights of the user included.
 */
bool __mpol2_equal(struct mempolicy *a, struct mempolicy *b)
{
	const struct mpol_weights *x = weights_of(to_mempolicy2(a));
	const struct mpol_weights *y = weights_of(to_mempolicy2(b));

	if (x == y)
		return true;
	if (x->user != y->user &&
	    memcmp(x->user->weight, y->user->weight, nr_node_ids))
		return false;
	return !memcmp(x->weight, y->weight, nr_node_ids);
}

/**
 * __mpol2_hash - A number that tells the weights of policies apart
 * @pol: policy with weights: the current task's, or one with a reference
 *
 * Return: the same for the same weights in force.
 */
u32 __mpol2_hash(const struct mempolicy *pol)
{
	const struct mempolicy2 *p = container_of(pol, struct mempolicy2, pol);
	u32 hash;

	rcu_read_lock();
	hash = jhash(rcu_dereference(p->weights)->weight, nr_node_ids, 0);
	rcu_read_unlock();
	return hash;
}

/**
 * __mpol2_contextualize - Find the weights in force when nodes are
 * @pol: new policy that nobody else knows, its nodes set
 * @allowed: nodes with memory that the task may use
 */
void __mpol2_contextualize(struct mempolicy *pol, const nodemask_t *allowed)
{
	struct mpol_weights *m = weights_of(to_mempolicy2(pol));
	nodemask_t nodes;
	int nid;

	if (pol->flags & MPOL_F_RELATIVE_NODES) {
		mpol_fold_relative(m->user->weight, &pol->w.user_nodemask,
				   allowed, m->weight, &nodes);
	} else {
		for (nid = 0; nid < nr_node_ids; nid++)
			if (!node_isset(nid, pol->nodes))
				m->weight[nid] = 0;
	}
	mpol_layout(m, &pol->nodes);
}

/**
 * __mpol2_rebind - Move weights with their nodes
 * @pol: policy, its nodes and masks still the old ones
 * @mems: nodes the task may use from now on
 *
 * A task's policy has a spare and its reader is kept safe by RCU; any other is
 * locked for writing and its caller may sleep.
 */
void __mpol2_rebind(struct mempolicy *pol, const nodemask_t *mems)
{
	struct mempolicy2 *p = to_mempolicy2(pol);
	struct mpol_weights **spare = spare_of(pol);
	struct mpol_weights *old = weights_of(p), *new = NULL;
	nodemask_t nodes;

	if (spare)
		swap(*spare, new);
	if (!new)
		new = mpol_weights_alloc(GFP_KERNEL | __GFP_NOFAIL);
	new->user = old->user;
	if (new->user)
		refcount_inc(&new->user->refs);
	if (pol->flags & MPOL_F_STATIC_NODES)
		mpol_fold_static(new->user->weight, &pol->w.user_nodemask, mems,
				 new->weight, &nodes);
	else if (pol->flags & MPOL_F_RELATIVE_NODES)
		mpol_fold_relative(new->user->weight, &pol->w.user_nodemask,
				   mems, new->weight, &nodes);
	else
		mpol_fold_remap(old->weight, &pol->nodes,
				&pol->w.cpuset_mems_allowed, mems, new->weight,
				&nodes);
	mpol_layout(new, &nodes);
	rcu_assign_pointer(p->weights, new);
	mpol_weights_put(old);
}

/* Where @tsk's policy, locked, has room for a spare and none; else NULL. */
static struct mpol_weights **wants_spare(struct task_struct *tsk)
{
	struct mempolicy *pol = tsk->mempolicy;
	struct mpol_weights **spare;

	lockdep_assert_held(&tsk->alloc_lock);
	if (!pol || !mpol2_has_weights(pol))
		return NULL;
	spare = spare_of(pol);
	return spare && !*spare ? spare : NULL;
}

/**
 * mpol2_rebind_prepare - Make sure that a task's policy can be rebound
 * @tsk: task whose nodes will change
 *
 * Policies of tasks are made with a spare; this replaces one that was used.
 */
void mpol2_rebind_prepare(struct task_struct *tsk)
{
	struct mpol_weights *room, **spare;

	might_sleep();
	task_lock(tsk);
	spare = wants_spare(tsk);
	task_unlock(tsk);
	if (!spare)
		return;

	room = mpol_weights_alloc(GFP_KERNEL | __GFP_NOFAIL);
	task_lock(tsk);
	spare = wants_spare(tsk);
	if (spare)
		swap(*spare, room);
	task_unlock(tsk);
	kfree(room);
}

/* The weight of a node, its own or, if that is 0, the global one. */
static u8 weight_in(const struct mpol_weights *m, const struct mpol_global *g,
		    int nid)
{
	return m->weight[nid] ? m->weight[nid] : g->weight[nid];
}

/* By global weights alone: a cpuset may change the nodes meanwhile. */
static unsigned int global_nid(struct mempolicy *pol, pgoff_t ilx)
{
	nodemask_t nodes;
	unsigned int nid;

	barrier();
	nodes = pol->nodes;
	barrier();
	nid = mpol_global_nid(mpol_global(), &nodes, ilx);
	/* As mm/mempolicy.c does for a mask that is empty */
	return likely(nid < MAX_NUMNODES) ? nid : numa_node_id();
}

/**
 * mpol2_nid - Node of an interleave index
 * @pol: weighted interleave policy, with or without weights of its own
 * @ilx: index
 *
 * Return: node.
 */
unsigned int mpol2_nid(struct mempolicy *pol, pgoff_t ilx)
{
	const struct mpol_weights *m;
	unsigned int nid;

	rcu_read_lock();
	if (mpol2_has_weights(pol)) {
		m = rcu_dereference(to_mempolicy2(pol)->weights);
		nid = m->nr_live ? mpol_live_nid(m, mpol_global(), ilx) :
				   mpol_slot_nid(m, ilx % m->total);
	} else {
		nid = global_nid(pol, ilx);
	}
	rcu_read_unlock();
	return nid;
}

/**
 * mpol2_next_node - Node of this task's next page that has no index
 * @pol: policy with weights of the current task
 *
 * Return: node.
 */
unsigned int mpol2_next_node(struct mempolicy *pol)
{
	struct task_struct *me = current;
	const struct mpol_weights *m;
	unsigned int nid = me->il_prev;
	u8 weight;

	rcu_read_lock();
	m = rcu_dereference(to_mempolicy2(pol)->weights);
	if (!me->il_weight || !node_isset(nid, m->nodes)) {
		nid = next_node_in(nid, m->nodes);
		me->il_prev = nid;
		me->il_weight = MPOL_WEIGHT_MAX;
	}
	/* A rebind may have made it smaller meanwhile. */
	weight = weight_in(m, mpol_global(), nid);
	me->il_weight = min(me->il_weight, weight) - 1;
	rcu_read_unlock();
	return nid;
}

/**
 * mpol2_fill_weights - Weights for the bulk allocator
 * @pol: weighted interleave policy, with or without weights of its own
 * @nodes: nodes that will get pages
 * @weights: nr_node_ids bytes; those of @nodes are written
 */
void mpol2_fill_weights(struct mempolicy *pol, const nodemask_t *nodes,
			u8 *weights)
{
	const struct mpol_weights *m = NULL;
	const struct mpol_global *g;
	int nid;

	rcu_read_lock();
	g = mpol_global();
	if (mpol2_has_weights(pol))
		m = rcu_dereference(to_mempolicy2(pol)->weights);
	for_each_node_mask(nid, *nodes)
		weights[nid] = m ? weight_in(m, g, nid) : g->weight[nid];
	rcu_read_unlock();
}

/**
 * mpol2_raw_weights - Weights as a user would give them again
 * @pol: policy that cannot change meanwhile
 * @weight: nr_node_ids bytes, written; 0 without weights
 */
void mpol2_raw_weights(struct mempolicy *pol, u8 *weight)
{
	struct mpol_weights *m;

	memset(weight, 0, nr_node_ids);
	if (!mpol2_has_weights(pol))
		return;
	m = weights_of(to_mempolicy2(pol));
	if (m->user)
		m = m->user;
	memcpy(weight, m->weight, nr_node_ids);
}

/**
 * mpol2_effective_weights - Pages each node gets in a round now
 * @pol: weighted interleave policy that cannot change meanwhile
 * @weight: nr_node_ids bytes, written; 0 for nodes that get none
 */
void mpol2_effective_weights(struct mempolicy *pol, u8 *weight)
{
	memset(weight, 0, nr_node_ids);
	mpol2_fill_weights(pol, &pol->nodes, weight);
}

/**
 * mpol2_show - Append a policy's own weights to a line of numa_maps
 * @m: the line
 * @vma: what it is about
 * @task_policy: policy that holds where the VMA has none
 */
void mpol2_show(struct seq_file *m, struct vm_area_struct *vma,
		struct mempolicy *task_policy)
{
	const struct mpol_weights *weights;
	struct mempolicy *pol, *vma_pol;
	char separator = '=';
	unsigned int i;
	pgoff_t ilx;

	vma_pol = __get_vma_policy(vma, vma->vm_start, &ilx);
	pol = vma_pol ? vma_pol : task_policy;
	if (pol && mpol2_has_weights(pol)) {
		seq_puts(m, " weights");
		rcu_read_lock();
		weights = rcu_dereference(to_mempolicy2(pol)->weights);
		for (i = 0; i < weights->nr; i++) {
			int nid = weights->slots[i].nid;

			seq_printf(m, "%c%d:%u", separator, nid,
				   weights->weight[nid]);
			separator = ',';
		}
		rcu_read_unlock();
	}
	mpol_cond_put(vma_pol);
}

static int __init mempolicy2_init(void)
{
	mempolicy2_cache = KMEM_CACHE(mempolicy2, SLAB_PANIC);
	mempolicy2_task_cache = KMEM_CACHE(mempolicy2_task, SLAB_PANIC);
	mpol_global_init();
	return 0;
}
subsys_initcall(mempolicy2_init);
