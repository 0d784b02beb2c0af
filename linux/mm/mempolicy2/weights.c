// SPDX-License-Identifier: GPL-2.0
/*
 * Interleave weights of a policy: the calls that mm/mempolicy.c makes where it
 * creates, copies, compares, rebinds, uses or frees a policy.
 *
 * A policy with weights is a struct mempolicy2 and has MPOL_F_WEIGHTS; all other
 * policies stay as they were.  Weights are immutable tables that all policies
 * with equal weights share, see tables.c; a rebind makes or finds another one.
 *
 * Locking, outermost first:
 *
 *	mmap_lock (write)	policies of VMAs, their weights; rebind may sleep
 *	task->alloc_lock	policy of a task, its weights and its spare
 *	  mems_allowed_seq	written during a rebind: nothing may be allocated
 *				(the page allocator would wait for it), hence
 *				the spare, brought by mpol2_rebind_prepare()
 *	shared_policy.lock	policies of a shared object, never rebound
 *	  tables_lock		tables.c
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

/* The caller protects the policy. */
static struct mpol_weights *weights_of(struct mempolicy2 *p)
{
	return rcu_dereference_protected(p->weights, true);
}

/* The spare table of a task's policy; NULL for any other policy. */
static struct mpol_weights **spare_of(struct mempolicy *pol)
{
	if (!(pol->flags & MPOL_F_TASK))
		return NULL;
	return &container_of(pol, struct mempolicy2_task, policy.pol)->spare;
}

/* A draft with the weights of a request, and with a copy if they are remembered */
static struct mpol_weights *weights_from(const struct mpol2_request *req,
					 unsigned short flags)
{
	struct mpol_weights *m = mpol_weights_alloc(GFP_KERNEL_ACCOUNT);

	if (!m)
		return NULL;
	memcpy(m->weight, req->weight, nr_node_ids);
	if (flags & (MPOL_F_STATIC_NODES | MPOL_F_RELATIVE_NODES)) {
		m->given = mpol_given_alloc(req->weight, &req->nodes);
		if (!m->given) {
			mpol_weights_put(m);
			return NULL;
		}
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
	struct mpol_weights *m = weights_from(req, flags);
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
 * mpol2_new() - mpol_new() for a struct mpol2_request
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
 * __mpol2_free() - Free a policy with weights
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
 * __mpol2_dup_alloc() - Room for a copy of a policy with weights
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

/**
 * __mpol2_copy() - Share the weights of a policy with its copy
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
 * __mpol2_split() - Policy of the second half of a shared range that is cut
 * @copy: in: copy of struct mempolicy, which has no room for weights; out: @old
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
 * __mpol2_equal() - Compare the weights of two policies
 * @a: policy with weights
 * @b: policy with weights
 *
 * Return: true if they are the same, those given by the user included.
 */
bool __mpol2_equal(struct mempolicy *a, struct mempolicy *b)
{
	/* Equal ones share a table. */
	return weights_of(to_mempolicy2(a)) == weights_of(to_mempolicy2(b));
}

/**
 * __mpol2_hash() - Hash the weights of a policy
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
 * __mpol2_contextualize() - Find the weights in force when nodes are
 * @pol: new policy that nobody else knows, its nodes set
 * @allowed: nodes with memory that the task may use
 */
void __mpol2_contextualize(struct mempolicy *pol, const nodemask_t *allowed)
{
	struct mempolicy2 *p = to_mempolicy2(pol);
	struct mpol_weights *m = weights_of(p), *shared;
	nodemask_t nodes;
	int nid;

	if (pol->flags & MPOL_F_RELATIVE_NODES) {
		mpol_fold_relative(m->given->weight, &pol->w.user_nodemask,
				   allowed, m->weight, &nodes);
	} else {
		for (nid = 0; nid < nr_node_ids; nid++)
			if (!node_isset(nid, pol->nodes))
				m->weight[nid] = 0;
	}
	mpol_layout(m, &pol->nodes);
	shared = mpol_weights_share(m);
	if (shared == m)
		return;
	RCU_INIT_POINTER(p->weights, shared);
	mpol_weights_put(m);
}

/* The weights of @pol, now @old, for the nodes of @mems; @new is a draft. */
static void fold(const struct mempolicy *pol, const struct mpol_weights *old,
		 const nodemask_t *mems, struct mpol_weights *new)
{
	nodemask_t nodes;

	new->given = old->given;
	if (new->given)
		refcount_inc(&new->given->refs);
	if (pol->flags & MPOL_F_STATIC_NODES)
		mpol_fold_static(new->given->weight, &pol->w.user_nodemask,
				 mems, new->weight, &nodes);
	else if (pol->flags & MPOL_F_RELATIVE_NODES)
		mpol_fold_relative(new->given->weight, &pol->w.user_nodemask,
				   mems, new->weight, &nodes);
	else
		mpol_fold_remap(old->weight, &pol->nodes,
				&pol->w.cpuset_mems_allowed, mems, new->weight,
				&nodes);
	mpol_layout(new, &nodes);
}

/**
 * __mpol2_rebind() - Move weights with their nodes
 * @pol: policy with the old nodes and masks
 * @mems: new nodes that the task may use
 *
 * A task's policy has a spare and its reader is kept safe by RCU; any other is
 * locked for writing, and its caller may sleep.
 */
void __mpol2_rebind(struct mempolicy *pol, const nodemask_t *mems)
{
	struct mempolicy2 *p = to_mempolicy2(pol);
	struct mpol_weights **spare = spare_of(pol);
	struct mpol_weights *old = weights_of(p), *new = NULL, *shared;

	if (spare)
		swap(*spare, new);
	if (!new)
		new = mpol_weights_alloc(GFP_KERNEL | __GFP_NOFAIL);
	fold(pol, old, mems, new);
	shared = mpol_weights_share(new);
	rcu_assign_pointer(p->weights, shared);
	mpol_weights_put(old);
	if (shared == new)
		return;
	mpol_weights_clear(new);
	if (spare)
		*spare = new;
	else
		kfree(new);
}

/* The empty spare of the policy of @tsk, which is locked; NULL if there is none. */
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
 * mpol2_rebind_prepare() - Make sure that a task's policy can be rebound
 * @tsk: task whose nodes will change
 *
 * A task's policy is created with a spare; this replaces a spare that was used.
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

/* Get the weight of a node: its own or, if that is 0, the global one. */
static u8 weight_in(const struct mpol_weights *m, const struct mpol_global *g,
		    int nid)
{
	return m->weight[nid] ? m->weight[nid] : g->weight[nid];
}

/* Get a node by global weights alone. A cpuset may change the nodes at the same time. */
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
 * mpol2_nid() - Find the node of an interleave index
 * @pol: weighted interleave policy, also one without weights
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
 * mpol2_next_node() - Get the node of this task's next page without an index
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
	/* A rebind may have made it smaller. */
	weight = weight_in(m, mpol_global(), nid);
	me->il_weight = min(me->il_weight, weight) - 1;
	rcu_read_unlock();
	return nid;
}

/**
 * mpol2_fill_weights() - Get the weights for the bulk allocator
 * @pol: weighted interleave policy, also one without weights
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
 * mpol2_raw_weights() - Read weights as a user would give them again
 * @pol: policy that the caller protects
 * @weight: MAX_NUMNODES bytes, all 0; written if the policy has weights
 */
void mpol2_raw_weights(struct mempolicy *pol, u8 *weight)
{
	const struct mpol_weights *m;

	if (!mpol2_has_weights(pol))
		return;
	m = weights_of(to_mempolicy2(pol));
	if (m->given)
		memcpy(weight, m->given->weight, m->given->nr);
	else
		memcpy(weight, m->weight, nr_node_ids);
}

/**
 * mpol2_show() - Append a policy's own weights to a line of numa_maps
 * @m: the line
 * @vma: VMA of the line
 * @task_policy: policy that applies if the VMA has none
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
