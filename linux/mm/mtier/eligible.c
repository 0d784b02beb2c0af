// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: may this page lie on that node?
 *
 * The one answer, for both directions. It is asked twice: when a page is looked
 * at for the first time (look.c, others.c), and when it is moved (gather.c), of
 * everybody who maps it. In between its owner may have said otherwise, and others
 * may have come. A page that is mapped once is asked of the
 * VMA that it was met in; only others take a walk over those who map them.
 *
 * When it is moved an answer has to hold until it has arrived. mbind() and its
 * likes lock a VMA for writing, look where its pages are, and set the policy. So
 * the VMAs of a batch stay locked for reading until the batch is over: a page
 * has arrived, or is still where it was and its new policy is asked, before
 * mbind() looks. A cpuset that changes meanwhile is seen with the next batch.
 * Who maps a folio with more VMAs than a batch can hold is asked as well, but
 * not held.
 *
 * Memory of a cgroup below its memory.min or memory.low does not give way to
 * others, as it would not to reclaim. Nor does what is locked into memory. Nor what a
 * secondary MMU maps: its TLBs are not flushed between two looks, so that what it
 * uses looks idle.
 *
 * Locking, outer first; all but the last two are only tried:
 *
 *   VMA lock (read)		held from a folio of the batch to its end
 *     folio lock
 *       i_mmap_rwsem or anon_vma lock (read)
 *         VMA lock (read)	of the next one
 *         page table lock, or task_lock() and what cpusets need
 */
#include <linux/cpuset.h>
#include <linux/file_policy.h>
#include <linux/hugetlb.h>
#include <linux/ksm.h>
#include <linux/memcontrol.h>
#include <linux/memremap.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/mmu_notifier.h>
#include <linux/pagemap.h>
#include <linux/rmap.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/secretmem.h>
#include <linux/shmem_fs.h>

#include "eligible.h"
#include "mtier.h"

/* Leave in @mask the nodes that a policy lets a page be moved to. */
static void mtier_policy_mask(struct mempolicy *pol, bool down,
			      nodemask_t *mask)
{
	if (!pol)
		return;
	switch (pol->mode) {
	case MPOL_DEFAULT:
	case MPOL_LOCAL:
		return;
	case MPOL_PREFERRED:
	case MPOL_PREFERRED_MANY:
		/* Where it was put was asked for, not only allowed. */
		if (down)
			break;
		fallthrough;
	case MPOL_BIND:
		nodes_and(*mask, *mask, pol->nodes);
		return;
	default:
		/* Interleaving: the page is where its policy wants it. */
		break;
	}
	nodes_clear(*mask);
}

/**
 * mtier_rules_of() - ask an address space what holds for all of its VMAs
 * @mm: the mm, which is not freed meanwhile
 * @rules: filled
 *
 * Context: may not hold task_lock() of anybody.
 */
void mtier_rules_of(struct mm_struct *mm, struct mtier_rules *rules)
{
	struct task_struct *p;

	rules->mm = mm;
	rules->nr_folios = 0;
	rules->mems = NODE_MASK_ALL;
	rules->up = NODE_MASK_ALL;
	rules->down = NODE_MASK_ALL;
	rcu_read_lock();
	p = rcu_dereference(mm->owner);
	if (p)
		get_task_struct(p);
	rcu_read_unlock();
	if (!p)
		return;
	rules->mems = cpuset_mems_allowed(p);
	rules->up = rules->mems;
	rules->down = rules->mems;
	task_lock(p);
	mtier_policy_mask(p->mempolicy, false, &rules->up);
	mtier_policy_mask(p->mempolicy, true, &rules->down);
	task_unlock(p);
	put_task_struct(p);
}

/**
 * mtier_rules_at() - where may a page at an address be moved to?
 * @rules: of the VMA's mm
 * @vma: the VMA, it or its mm locked for reading
 * @addr: an address in it
 * @anon: it is anonymous: not, or no longer, a page of the VMA's file
 * @up: set to the nodes that it may be promoted to
 * @down: set to those that it may have to give way to
 */
void mtier_rules_at(const struct mtier_rules *rules, struct vm_area_struct *vma,
		    unsigned long addr, bool anon, nodemask_t *up,
		    nodemask_t *down)
{
	struct mempolicy *pol;
	pgoff_t ilx;

	pol = get_own_page_policy(vma, addr, anon, &ilx);
	if (!pol) {
		*up = rules->up;
		*down = rules->down;
		return;
	}
	*up = rules->mems;
	*down = rules->mems;
	mtier_policy_mask(pol, false, up);
	mtier_policy_mask(pol, true, down);
	mpol_cond_put(pol);
}

/*
 * Can the policy differ inside of a VMA? True for files, shared memory among them, as
 * their policies may belong to the file: mbind() by another process, or on another
 * mapping, does not split this VMA.
 */
static bool mtier_policy_varies(struct vm_area_struct *vma)
{
	return vma->vm_file;
}

/**
 * mtier_policy_by_page() - does it, maybe from page to page?
 * @vma: the VMA
 *
 * Return: true if its file has policies for parts of itself.
 */
bool mtier_policy_by_page(struct vm_area_struct *vma)
{
	struct address_space *mapping = vma->vm_file ?
					vma->vm_file->f_mapping : NULL;

	if (mapping && shmem_mapping(mapping))
		return !RB_EMPTY_ROOT(&SHMEM_I(mapping->host)->policy.root);
	return mapping && file_policy_has(mapping);
}

/**
 * mtier_rules_for() - where may a folio be moved to, as far as a VMA has a say?
 * @rules: of the VMA's mm
 * @vma: the VMA, it or its mm locked for reading
 * @addr: where it maps a page of the folio
 * @folio: the folio, mapped there; NULL for all that has no policy of its own
 * @up: set to the nodes that it may be promoted to
 * @down: set to those that it may have to give way to
 *
 * A large one moves as one: it may go where all of its pages in the VMA may.
 */
void mtier_rules_for(const struct mtier_rules *rules, struct vm_area_struct *vma,
		     unsigned long addr, struct folio *folio, nodemask_t *up,
		     nodemask_t *down)
{
	bool anon = !folio || folio_test_anon(folio);
	nodemask_t page_up, page_down;
	pgoff_t at, end;

	mtier_rules_at(rules, vma, addr, anon, up, down);
	if (!folio || !folio_test_large(folio) || !mtier_policy_by_page(vma))
		return;
	at = max(folio->index, vma->vm_pgoff);
	end = min(folio_next_index(folio), vma->vm_pgoff + vma_pages(vma));
	for (; at < end; at++) {
		addr = vma->vm_start + ((at - vma->vm_pgoff) << PAGE_SHIFT);
		mtier_rules_at(rules, vma, addr, anon, &page_up, &page_down);
		nodes_and(*up, *up, page_up);
		nodes_and(*down, *down, page_down);
	}
}

/**
 * mtier_vma_eligible() - can a VMA's pages be moved at all?
 * @vma: the VMA
 *
 * Return: true if so.
 */
bool mtier_vma_eligible(struct vm_area_struct *vma)
{
	if (vma->vm_flags & (VM_PFNMAP | VM_IO | VM_MIXEDMAP))
		return false;
	if (is_vm_hugetlb_page(vma) || vma_is_dax(vma) ||
	    vma_is_secretmem(vma))
		return false;
	return vma_is_accessible(vma) && vma_migratable(vma);
}

/**
 * mtier_shared_stays() - does a VMA keep where they are folios that others map, too?
 * @vma: the VMA
 * @on_disk: they are page cache of a file system on disk
 *
 * Return: true for text of shared libraries, and memory shared copy-on-write.
 */
bool mtier_shared_stays(struct vm_area_struct *vma, bool on_disk)
{
	return (on_disk && vma->vm_flags & VM_EXEC) ||
	       is_cow_mapping(vma->vm_flags);
}

/**
 * mtier_folio_stays() - is a folio one that nobody moves?
 * @folio: the folio
 * @vma: a VMA that maps it
 *
 * Return: MTIER_MAY, MTIER_WHY_KIND, MTIER_WHY_PINNED; or MTIER_WHY_GONE for
 * what is no subject of promotion at all.
 */
enum mtier_why mtier_folio_stays(struct folio *folio,
				 struct vm_area_struct *vma)
{
	if (folio_is_zone_device(folio) || folio_test_ksm(folio) ||
	    folio_test_hugetlb(folio))
		return MTIER_WHY_GONE;
	if (folio_test_anon(folio) && folio_maybe_dma_pinned(folio))
		return MTIER_WHY_PINNED;
	if (mtier_shared_stays(vma, folio_is_file_lru(folio)) &&
	    folio_likely_mapped_shared(folio))
		return MTIER_WHY_KIND;
	return MTIER_MAY;
}

/* Is a folio one that has to stay in fast memory, whoever uses what? */
static bool mtier_folio_locked(struct folio *folio, struct vm_area_struct *vma)
{
	/* SHM_LOCK is no flag of a VMA. */
	return vma->vm_flags & VM_LOCKED || folio_test_unevictable(folio) ||
	       mm_has_notifiers(vma->vm_mm);
}

/**
 * mtier_single_stays() - does a folio stay that one mm maps, whose VMA is not locked?
 * @folio: the folio
 * @down: may it have to give way?
 *
 * Return: true if it stays where it is.
 */
bool mtier_single_stays(struct folio *folio, bool down)
{
	if (folio_test_anon(folio) ? folio_maybe_dma_pinned(folio) :
				     folio_is_file_lru(folio) &&
				     folio_test_dirty(folio))
		return true;
	return down && folio_test_unevictable(folio);
}

/* Is a cgroup below what it is promised? */
static bool mtier_memcg_protected(struct mem_cgroup *memcg)
{
	struct mem_cgroup *at = NULL, *next, *parent;

	if (!memcg)
		return false;
	/* Each needs what its parent's is: from the root to it. */
	while (at != memcg) {
		next = memcg;
		while ((parent = parent_mem_cgroup(next)) != at)
			next = parent;
		mem_cgroup_calculate_protection(NULL, next);
		at = next;
	}
	return mem_cgroup_below_min(NULL, memcg) ||
	       mem_cgroup_below_low(NULL, memcg);
}

/**
 * mtier_folio_protected() - does a folio's cgroup use less than it is promised?
 * @folio: the folio, on which there is a reference
 * @last: which cgroup was asked before, and what it said; mostly the same
 *
 * Return: true if so: it does not give way.
 */
bool mtier_folio_protected(struct folio *folio, struct mtier_protection *last)
{
	struct mem_cgroup *memcg = get_mem_cgroup_from_folio(folio);

	if (memcg != last->memcg) {
		last->memcg = memcg;
		last->is = mtier_memcg_protected(memcg);
	}
	mem_cgroup_put(memcg);
	return last->is;
}

static bool mtier_allows(const struct mtier_guard *g,
			 const struct mtier_rules *rules,
			 struct vm_area_struct *vma, unsigned long addr,
			 struct folio *folio)
{
	nodemask_t up, down;

	mtier_rules_for(rules, vma, addr, folio, &up, &down);
	return node_isset(g->nid, g->down ? down : up);
}

/* The rules of an mm whose VMA is locked. */
static struct mtier_rules *mtier_guard_mm(struct mtier_guard *g,
					  struct mm_struct *mm,
					  enum mtier_why *why)
{
	unsigned int i;

	for (i = 0; i < g->nr_mms; i++)
		if (g->rules[i].mm == mm)
			return &g->rules[i];
	*why = MTIER_WHY_CROWDED;
	if (g->nr_mms == MTIER_GUARD_MMS)
		return NULL;
	/* It is on its way out. */
	*why = MTIER_WHY_BUSY;
	if (!mtier_hold(&g->rules[g->nr_mms].hold, mm))
		return NULL;
	mtier_rules_of(mm, &g->rules[g->nr_mms]);
	return &g->rules[g->nr_mms++];
}

/*
 * Lock a VMA that rmap has found. munmap() has taken some of those out of their
 * address space: it gives up its write lock then, and frees them without waiting for
 * anybody who might read-lock them so late.
 */
static bool mtier_vma_lock(struct vm_area_struct *vma)
{
	if (!vma_start_read(vma))
		return false;
	if (!vma->detached)
		return true;
	vma_end_read(vma);
	return false;
}

/* Hold a VMA that is locked, and whose mm is known. */
static struct mtier_guarded *mtier_guard_hold(struct mtier_guard *g,
					      struct vm_area_struct *vma,
					      struct mtier_rules *rules)
{
	struct mtier_guarded *held = &g->vmas[g->nr_vmas++];

	held->vma = vma;
	held->rules = rules;
	held->varies = mtier_policy_varies(vma);
	held->allowed = mtier_vma_eligible(vma) &&
			mtier_allows(g, rules, vma, vma->vm_start, NULL);
	return held;
}

/* A VMA that is held, from now on if it was not yet. */
static struct mtier_guarded *mtier_guard_vma(struct mtier_guard *g,
					     struct vm_area_struct *vma,
					     enum mtier_why *why)
{
	struct mtier_rules *rules;
	unsigned int i;

	for (i = g->nr_vmas; i-- > 0;)
		if (g->vmas[i].vma == vma)
			return &g->vmas[i];
	*why = MTIER_WHY_CROWDED;
	if (g->nr_vmas == MTIER_GUARD_VMAS)
		return NULL;
	*why = MTIER_WHY_BUSY;
	if (!mtier_vma_lock(vma))
		return NULL;
	rules = mtier_guard_mm(g, vma->vm_mm, why);
	if (rules)
		return mtier_guard_hold(g, vma, rules);
	vma_end_read(vma);
	return NULL;
}

/**
 * mtier_guard_at() - hold the VMA at an address
 * @guard: of the batch
 * @mm: the address space, pinned
 * @addr: the address
 * @why: set if there is none to be had: MTIER_WHY_GONE, MTIER_WHY_BUSY, or
 *	MTIER_WHY_CROWDED
 *
 * Return: the VMA, which stays locked for reading until mtier_guard_end(), as
 * its page tables stay until then; or NULL.
 */
struct mtier_guarded *mtier_guard_at(struct mtier_guard *guard,
				     struct mm_struct *mm, unsigned long addr,
				     enum mtier_why *why)
{
	struct mtier_rules *rules;
	struct vm_area_struct *vma;
	unsigned int i;

	for (i = guard->nr_vmas; i-- > 0;) {
		vma = guard->vmas[i].vma;
		if (vma->vm_mm == mm && addr >= vma->vm_start &&
		    addr < vma->vm_end)
			return &guard->vmas[i];
	}
	*why = MTIER_WHY_CROWDED;
	if (guard->nr_vmas == MTIER_GUARD_VMAS)
		return NULL;
	rules = mtier_guard_mm(guard, mm, why);
	if (!rules) {
		if (*why == MTIER_WHY_BUSY)
			*why = MTIER_WHY_GONE;
		return NULL;
	}
	vma = lock_vma_under_rcu(mm, addr);
	if (vma)
		return mtier_guard_hold(guard, vma, rules);
	*why = mtree_load(&mm->mm_mt, addr) ? MTIER_WHY_BUSY : MTIER_WHY_GONE;
	return NULL;
}

/**
 * mtier_rules_lock() - lock a VMA that rmap has found, to ask what it says
 * @rules: set to what its mm says, for mtier_rules_at()
 * @vma: the VMA, which rmap's lock keeps
 *
 * Return: false if somebody is about to change it, or is on its way out; else it is
 * locked for reading, until vma_end_read().
 */
bool mtier_rules_lock(struct mtier_rules *rules, struct vm_area_struct *vma)
{
	if (!mtier_vma_lock(vma))
		return false;
	/* Until rmap's lock is dropped exit_mmap() cannot free the VMA. */
	if (atomic_read(&vma->vm_mm->mm_users)) {
		mtier_rules_of(vma->vm_mm, rules);
		return true;
	}
	vma_end_read(vma);
	return false;
}

/* More VMAs map a folio than can be held: ask this one all the same. */
static enum mtier_why mtier_ask_spare(struct mtier_guard *g,
				      struct folio *folio,
				      struct vm_area_struct *vma,
				      unsigned long addr)
{
	bool may;

	if (!mtier_rules_lock(&g->spare, vma))
		return MTIER_WHY_BUSY;
	may = mtier_vma_eligible(vma) &&
	      mtier_allows(g, &g->spare, vma, addr, folio);
	vma_end_read(vma);
	return may ? MTIER_MAY : MTIER_WHY_POLICY;
}

/**
 * struct mtier_question - what is carried through a walk of a folio's VMAs
 * @guard: of the batch
 * @first: the batch is empty but for this folio
 * @why: the answer so far
 */
struct mtier_question {
	struct mtier_guard *guard;
	bool first;
	enum mtier_why why;
};

/* What somebody who maps a folio says. */
static enum mtier_why mtier_ask_held(struct mtier_guard *g,
				     struct folio *folio,
				     struct mtier_guarded *held,
				     unsigned long addr)
{
	if (held->varies)
		held->allowed = mtier_vma_eligible(held->vma) &&
				mtier_allows(g, held->rules, held->vma, addr,
					     folio);
	return held->allowed ? MTIER_MAY : MTIER_WHY_POLICY;
}

/* What is to be said of a folio for being mapped in a VMA. */
static enum mtier_why mtier_ask_kind(const struct mtier_guard *g,
				     struct folio *folio,
				     struct vm_area_struct *vma)
{
	enum mtier_why why = mtier_folio_stays(folio, vma);

	if (why == MTIER_MAY && g->down && mtier_folio_locked(folio, vma))
		return MTIER_WHY_KIND;
	return why;
}

static enum mtier_why mtier_ask_vma(struct mtier_question *q,
				    struct folio *folio,
				    struct vm_area_struct *vma,
				    unsigned long addr)
{
	struct mtier_guarded *held;
	enum mtier_why why;

	why = mtier_ask_kind(q->guard, folio, vma);
	if (why != MTIER_MAY)
		return why;
	held = mtier_guard_vma(q->guard, vma, &why);
	if (held)
		return mtier_ask_held(q->guard, folio, held, addr);
	return why == MTIER_WHY_CROWDED && q->first ?
	       mtier_ask_spare(q->guard, folio, vma, addr) : why;
}

/* rmap callback: the first that says no is enough. */
static bool mtier_ask_one(struct folio *folio, struct vm_area_struct *vma,
			  unsigned long addr, void *arg)
{
	DEFINE_FOLIO_VMA_WALK(pvmw, folio, vma, addr, 0);
	struct mtier_question *q = arg;

	if (!page_vma_mapped_walk(&pvmw))
		return true;
	addr = pvmw.address;
	page_vma_mapped_walk_done(&pvmw);
	q->why = mtier_ask_vma(q, folio, vma, addr);
	return q->why == MTIER_MAY;
}

/**
 * mtier_guard_begin() - a batch is to be collected
 * @guard: the guard, of which nothing is held
 * @nid: node that its folios go to
 * @down: to make room
 */
void mtier_guard_begin(struct mtier_guard *guard, int nid, bool down)
{
	WARN_ON_ONCE(guard->nr_vmas || guard->nr_mms);
	guard->nid = nid;
	guard->down = down;
	guard->memcg = (struct mtier_protection) { };
}

/* Ask everybody who maps a folio. */
static enum mtier_why mtier_ask_all(struct mtier_guard *g, struct folio *folio,
				    bool first)
{
	struct mtier_question q = {
		.guard = g,
		.first = first,
		.why = MTIER_WHY_GONE,
	};
	struct rmap_walk_control rwc = {
		.rmap_one = mtier_ask_one,
		.arg = &q,
		.anon_lock = folio_lock_anon_vma_read,
		.try_lock = true,
	};

	if (!folio_trylock(folio))
		return MTIER_WHY_BUSY;
	rmap_walk(folio, &rwc);
	folio_unlock(folio);
	return rwc.contended ? MTIER_WHY_BUSY : q.why;
}

/**
 * mtier_guard_ask() - may a folio move, as far as those are concerned who map it?
 * @guard: of the batch; holds their VMAs from now on
 * @folio: the folio, on which the caller has a reference
 * @held: a VMA that maps it
 * @addr: where
 * @first: no other folio is in the batch
 *
 * Return: the answer, which holds until mtier_guard_end(). Never
 * MTIER_WHY_CROWDED where @first.
 */
enum mtier_why mtier_guard_ask(struct mtier_guard *guard, struct folio *folio,
			       struct mtier_guarded *held, unsigned long addr,
			       bool first)
{
	enum mtier_why why;

	if (guard->down && mtier_folio_protected(folio, &guard->memcg))
		return MTIER_WHY_POLICY;
	/*
	 * A large one may be mapped once, but by several VMAs of an mm; and what was
	 * judged for others by others only.
	 */
	if (folio_test_large(folio) || folio_likely_mapped_shared(folio) ||
	    mtier_may_be_others(held->vma))
		return mtier_ask_all(guard, folio, first);
	why = mtier_ask_kind(guard, folio, held->vma);
	return why == MTIER_MAY ? mtier_ask_held(guard, folio, held, addr) : why;
}

/**
 * mtier_guard_end() - the batch is over: let go of everybody
 * @guard: the guard
 */
void mtier_guard_end(struct mtier_guard *guard)
{
	while (guard->nr_vmas)
		vma_end_read(guard->vmas[--guard->nr_vmas].vma);
	while (guard->nr_mms)
		mtier_release(&guard->rules[--guard->nr_mms].hold);
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/eligible_kunit.c"
#endif
