// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: whether a page may migrate to a node, in both directions.
 *
 * The check is made twice: when a page is scanned for the first time (look.c,
 * others.c), and when it is isolated to be moved (gather.c). In between, a policy
 * may have changed, and new mappings may exist. A private base page that is mapped
 * once is checked for the VMA it was found in. For all other folios an rmap walk
 * checks each VMA that maps the folio.
 *
 * A mapper that can change the pages of its file has a veto. One that only reads them
 * has none: any user who may read the file can have such a mapping. For them a page
 * stays if all of its mappers forbid the migration. Page cache of a file system on disk
 * is shared program text, and stays, if all VMAs that map it are executable.
 *
 * The result of the second check has to hold until the page has arrived. mbind()
 * locks a VMA for writing, looks up where its pages are, and sets the policy. So
 * the VMAs of a batch stay read-locked until the end of the batch. When mbind()
 * looks up the pages, a page has arrived, or is still on its old node. In the
 * second case its new policy is checked later. A change of a cpuset, or of the
 * policy of a thread, takes effect with a later batch, after 0.1 s at the latest
 * (rules.c). A folio with more VMAs than a batch can hold is checked for each of
 * its VMAs. VMAs beyond that limit are not held. If a file has many mappers, these are
 * checked once for all folios of a batch (wide.c).
 *
 * Three kinds of pages are never demoted to make room. The first is memory of a
 * cgroup below its memory.min or memory.low, which reclaim would not take. The
 * second is memory that is locked. The third is memory that a secondary MMU maps:
 * its TLBs are not flushed between two scans, so pages that it uses look idle.
 *
 * Locking, outer first. All are trylocks, except for the page table lock and the locks
 * of rules.c:
 *
 *   VMA lock (read)		held from a folio of the batch to its end
 *     folio lock
 *       i_mmap_rwsem or anon_vma lock (read)
 *         VMA lock (read)	of the next VMA
 *         page table lock, or the locks of rules.c
 */
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
#include <linux/secretmem.h>
#include <linux/shmem_fs.h>

#include "eligible.h"
#include "mtier.h"

/**
 * mtier_rules_at() - Get the nodes that a page at an address may migrate to.
 * @rules: allowed nodes of the VMA's mm
 * @vma: the VMA; the VMA or its mm is locked for reading
 * @addr: an address in the VMA
 * @anon: the page is anonymous, not a page of the VMA's file
 * @up: set to the nodes that it may be promoted to
 * @down: set to the nodes that it may be demoted to
 */
void mtier_rules_at(const struct mtier_rules *rules, struct vm_area_struct *vma,
		    unsigned long addr, bool anon, nodemask_t *up,
		    nodemask_t *down)
{
	struct mempolicy *pol;
	pgoff_t ilx;

	pol = get_own_page_policy(vma, addr, anon, &ilx);
	if (!pol) {
		*up = rules->allowed.up;
		*down = rules->allowed.down;
		return;
	}
	*up = rules->allowed.mems_up;
	*down = rules->allowed.mems_down;
	mtier_policy_mask(pol, false, up);
	mtier_policy_mask(pol, true, down);
	mpol_cond_put(pol);
}

/*
 * Check whether the policy can differ within a VMA. True for files and shared
 * memory: their policies may belong to the file. mbind() by another process, or on
 * another mapping, does not split this VMA.
 */
static bool mtier_policy_varies(struct vm_area_struct *vma)
{
	return vma->vm_file;
}

/**
 * mtier_policy_by_page() - Check whether the policy may differ from page to page.
 * @vma: the VMA
 *
 * Return: true if its file has policies for parts of the file.
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
 * mtier_rules_for() - Get the nodes that a VMA allows for a folio that it maps.
 * @rules: allowed nodes of the VMA's mm
 * @vma: the VMA; the VMA or its mm is locked for reading
 * @addr: address at which the VMA maps a page of the folio
 * @folio: the folio, mapped there; NULL for pages that have the policy of the VMA
 * @up: set to the nodes that it may be promoted to
 * @down: set to the nodes that it may be demoted to
 *
 * A large folio moves as a whole: it may migrate to the nodes that are allowed for
 * all of its pages in the VMA.
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
 * mtier_vma_eligible() - Check whether the pages of a VMA can migrate at all.
 * @vma: the VMA
 *
 * Return: true if they can.
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
 * mtier_folio_is_text() - Check whether a folio is shared program text for a mapper.
 * @folio: the folio
 * @vma: a VMA that maps it
 *
 * A folio is shared program text, and stays on its node, if this is true for each VMA
 * that maps it. So one executable mapping does not keep the data of others in place.
 *
 * Return: true if it is page cache of a file system on disk that several processes map,
 * and @vma is executable.
 */
bool mtier_folio_is_text(struct folio *folio, struct vm_area_struct *vma)
{
	return vma->vm_flags & VM_EXEC && folio_is_file_lru(folio) &&
	       folio_likely_mapped_shared(folio);
}

/**
 * mtier_folio_stays() - Check whether a folio may not migrate to any node.
 * @folio: the folio
 * @vma: a VMA that maps it
 *
 * Shared program text is left to the caller, which knows all mappers.
 *
 * Return: MTIER_MAY, MTIER_WHY_KIND, or MTIER_WHY_PINNED. MTIER_WHY_GONE for a
 * folio that is never promoted or demoted by its type.
 */
enum mtier_why mtier_folio_stays(struct folio *folio,
				 struct vm_area_struct *vma)
{
	if (folio_is_zone_device(folio) || folio_test_ksm(folio) ||
	    folio_test_hugetlb(folio))
		return MTIER_WHY_GONE;
	if (folio_test_anon(folio) && folio_maybe_dma_pinned(folio))
		return MTIER_WHY_PINNED;
	/* Shared copy-on-write. Page cache in a private mapping is no copy. */
	if (folio_test_anon(folio) && is_cow_mapping(vma->vm_flags) &&
	    folio_likely_mapped_shared(folio))
		return MTIER_WHY_KIND;
	return MTIER_MAY;
}

/* Check whether a folio has to stay in fast memory, however little it is used. */
static bool mtier_folio_locked(struct folio *folio, struct vm_area_struct *vma)
{
	/* SHM_LOCK sets no flag of a VMA. */
	return vma->vm_flags & VM_LOCKED || folio_test_unevictable(folio) ||
	       mm_has_notifiers(vma->vm_mm);
}

/**
 * mtier_single_stays() - Check whether a folio stays for reasons of its state.
 * @folio: the folio
 * @down: it would be demoted
 *
 * This is the check of a folio with one mapper in a VMA that is not locked. Locked
 * VMAs and other mappers are left to the caller.
 *
 * Return: true if it stays on its node.
 */
bool mtier_single_stays(struct folio *folio, bool down)
{
	if (folio_test_anon(folio) ? folio_maybe_dma_pinned(folio) :
				     folio_is_file_lru(folio) &&
				     folio_test_dirty(folio))
		return true;
	return down && folio_test_unevictable(folio);
}

/* Check whether a cgroup is below its memory.min or memory.low. */
static bool mtier_memcg_protected(struct mem_cgroup *memcg)
{
	struct mem_cgroup *at = NULL, *next, *parent;

	if (!memcg)
		return false;
	/* The result depends on the parent: calculate from the root to @memcg. */
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
 * mtier_folio_protected() - Check whether the cgroup of a folio is protected.
 * @folio: the folio, on which there is a reference
 * @last: the cgroup checked last, with its result; most often the same cgroup
 *
 * Return: true if the cgroup is below its memory.min or memory.low, so that the
 * folio may not be demoted.
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

/* Check whether the policy of a file allows one of its pages on a slower node. */
static bool mtier_file_allows_at(struct address_space *mapping, pgoff_t index,
				 int nid)
{
	nodemask_t down = NODE_MASK_ALL;
	struct mempolicy *pol;

	pol = shmem_mapping(mapping) ?
	      mpol_shared_policy_lookup(&SHMEM_I(mapping->host)->policy, index) :
	      file_policy_at(mapping, index);
	mtier_policy_mask(pol, true, &down);
	mpol_cond_put(pol);
	return node_isset(nid, down);
}

/**
 * mtier_file_allows() - Check whether the policy of a file allows a demotion.
 * @folio: a folio of page cache, on which there is a reference
 * @nid: target node
 *
 * This is for folios that nobody maps: no policy of a VMA and no cpuset applies.
 *
 * Return: true if it is allowed for each page of the folio. False also if the folio is
 * locked, or has left the page cache.
 */
bool mtier_file_allows(struct folio *folio, int nid)
{
	struct address_space *mapping;
	bool allows = false;
	pgoff_t i;

	/* The lock keeps the folio in the page cache, and so the inode. */
	if (!folio_trylock(folio))
		return false;
	mapping = folio_mapping(folio);
	for (i = 0; mapping && i < folio_nr_pages(folio); i++) {
		allows = mtier_file_allows_at(mapping, folio->index + i, nid);
		if (!allows)
			break;
	}
	folio_unlock(folio);
	return allows;
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

/*
 * Get the allowed nodes of an mm. The mm is added to the guard if it is new. The
 * caller prevents it from being freed.
 */
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
	/* The process exits. */
	*why = MTIER_WHY_BUSY;
	if (!mtier_hold(&g->rules[g->nr_mms].hold, mm))
		return NULL;
	mtier_rules_of(mm, &g->rules[g->nr_mms]);
	return &g->rules[g->nr_mms++];
}

/**
 * mtier_vma_lock() - Lock a VMA that rmap has found.
 * @vma: the VMA; the lock of rmap keeps it from being freed
 *
 * munmap() may have detached the VMA from its address space. It drops its write lock
 * then, and frees the VMA without waiting for new readers.
 *
 * Return: true if the VMA is locked for reading, until vma_end_read().
 */
bool mtier_vma_lock(struct vm_area_struct *vma)
{
	if (!vma_start_read(vma))
		return false;
	if (!vma->detached)
		return true;
	vma_end_read(vma);
	return false;
}

/* Add a locked VMA to the guard. */
static struct mtier_guarded *mtier_guard_hold(struct mtier_guard *g,
					      struct vm_area_struct *vma,
					      struct mtier_rules *rules)
{
	struct mtier_guarded *held = &g->vmas[g->nr_vmas++];

	mtier_vma_keep(vma);
	held->vma = vma;
	held->rules = rules;
	held->varies = mtier_policy_varies(vma);
	held->allowed = mtier_vma_eligible(vma) &&
			mtier_allows(g, rules, vma, vma->vm_start, NULL);
	return held;
}

/* Get a VMA of the guard. The VMA is locked and added if it is new. */
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
 * mtier_guard_at() - Get the VMA at an address, and keep it locked.
 * @guard: the guard of the batch
 * @mm: the address space, pinned
 * @addr: the address
 * @why: set if the result is NULL: MTIER_WHY_GONE, MTIER_WHY_BUSY, or
 *	MTIER_WHY_CROWDED
 *
 * Return: the VMA, or NULL. The VMA stays locked for reading until
 * mtier_guard_end(), and keeps its page tables.
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
 * mtier_rules_lock() - Lock a VMA that rmap has found, and get its allowed nodes.
 * @rules: set to the allowed nodes of its mm, for mtier_rules_at()
 * @vma: the VMA; the lock of rmap keeps it from being freed
 *
 * Return: true if the VMA is locked for reading, until vma_end_read(). False if a
 * writer has it locked, or if its process exits.
 */
bool mtier_rules_lock(struct mtier_rules *rules, struct vm_area_struct *vma)
{
	if (!mtier_vma_lock(vma))
		return false;
	/* exit_mmap() cannot free the VMA before the lock of rmap is dropped. */
	if (atomic_read(&vma->vm_mm->mm_users)) {
		mtier_rules_of(vma->vm_mm, rules);
		return true;
	}
	vma_end_read(vma);
	return false;
}

/* The guard has no space for this VMA: check the folio without holding the VMA. */
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
 * struct mtier_question - state of an rmap walk over the VMAs of a folio
 * @guard: the guard of the batch
 * @first: the batch has no other folio
 * @why: the result so far; MTIER_WHY_GONE if no mapper was found
 * @nr_vmas: number of VMAs that the walk has met
 * @allowed: a mapper allows the migration
 * @text: the folio is shared program text for all mappers found
 */
struct mtier_question {
	struct mtier_guard *guard;
	bool first;
	enum mtier_why why;
	unsigned int nr_vmas;
	bool allowed;
	bool text;
};

/* Check a folio for the policy of a VMA that maps it. */
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

/* Check a folio for its type, and for the kind of a VMA that maps it. */
static enum mtier_why mtier_ask_kind(const struct mtier_guard *g,
				     struct folio *folio,
				     struct vm_area_struct *vma)
{
	enum mtier_why why = mtier_folio_stays(folio, vma);

	if (why == MTIER_MAY && g->down && mtier_folio_locked(folio, vma))
		return MTIER_WHY_KIND;
	return why;
}

/* Check a folio for the rules of a VMA that maps it. */
static enum mtier_why mtier_ask_rules(struct mtier_question *q,
				      struct folio *folio,
				      struct vm_area_struct *vma,
				      unsigned long addr)
{
	struct mtier_guarded *held;
	enum mtier_why why;

	held = mtier_guard_vma(q->guard, vma, &why);
	if (held)
		return mtier_ask_held(q->guard, folio, held, addr);
	return why == MTIER_WHY_CROWDED && q->first ?
	       mtier_ask_spare(q->guard, folio, vma, addr) : why;
}

static enum mtier_why mtier_ask_vma(struct mtier_question *q,
				    struct folio *folio,
				    struct vm_area_struct *vma,
				    unsigned long addr)
{
	bool reads = !folio_test_anon(folio) && mtier_only_reads(vma);
	enum mtier_why why;

	why = mtier_ask_kind(q->guard, folio, vma);
	if (why != MTIER_MAY)
		return why;
	q->text &= mtier_folio_is_text(folio, vma);
	/* A mapper that only reads matters if no other one allows the migration. */
	if (reads && q->allowed)
		return MTIER_MAY;
	why = mtier_ask_rules(q, folio, vma, addr);
	q->allowed |= why == MTIER_MAY;
	return reads && why != MTIER_WHY_CROWDED ? MTIER_MAY : why;
}

/* rmap callback. The walk ends at the first VMA that forbids the migration. */
static bool mtier_ask_one(struct folio *folio, struct vm_area_struct *vma,
			  unsigned long addr, void *arg)
{
	DEFINE_FOLIO_VMA_WALK(pvmw, folio, vma, addr, 0);
	struct mtier_question *q = arg;

	q->nr_vmas++;
	if (!page_vma_mapped_walk(&pvmw))
		return true;
	addr = pvmw.address;
	page_vma_mapped_walk_done(&pvmw);
	q->why = mtier_ask_vma(q, folio, vma, addr);
	return q->why == MTIER_MAY;
}

/**
 * mtier_guard_begin() - Begin a batch.
 * @guard: the guard; it holds nothing
 * @nid: target node of the batch
 * @down: the batch is a demotion
 */
void mtier_guard_begin(struct mtier_guard *guard, int nid, bool down)
{
	WARN_ON_ONCE(guard->nr_vmas || guard->nr_mms || guard->wide.nr_held);
	guard->nid = nid;
	guard->down = down;
	guard->memcg = (struct mtier_protection) { };
}

/* Get the result of a walk in which no single VMA has forbidden the migration. */
static enum mtier_why mtier_ask_end(const struct mtier_question *q)
{
	if (q->why != MTIER_MAY)
		return q->why;
	if (q->text)
		return MTIER_WHY_KIND;
	return q->allowed ? MTIER_MAY : MTIER_WHY_POLICY;
}

/*
 * Check a folio for each VMA that maps it. @held can be one of them. It covers the
 * folio in any case, so its rules count like those of the others.
 */
static enum mtier_why mtier_ask_all(struct mtier_guard *g, struct folio *folio,
				    struct mtier_guarded *held,
				    unsigned long addr, bool first)
{
	struct mtier_question q = {
		.guard = g,
		.first = first,
		.why = MTIER_WHY_GONE,
		.text = true,
	};
	struct rmap_walk_control rwc = {
		.rmap_one = mtier_ask_one,
		.arg = &q,
		.anon_lock = folio_lock_anon_vma_read,
		.try_lock = true,
	};

	if (!folio_trylock(folio))
		return MTIER_WHY_BUSY;
	q.allowed = mtier_ask_held(g, folio, held, addr) == MTIER_MAY;
	rmap_walk(folio, &rwc);
	if (!folio_test_anon(folio))
		mtier_wide_met(&g->wide, folio, q.nr_vmas);
	folio_unlock(folio);
	return rwc.contended ? MTIER_WHY_BUSY : mtier_ask_end(&q);
}

/**
 * mtier_guard_ask() - Check whether all mappers of a folio allow it to migrate.
 * @guard: the guard of the batch; holds the VMAs of the folio afterwards
 * @folio: the folio, on which the caller has a reference
 * @held: a VMA that maps it
 * @addr: address of the folio in that VMA
 * @first: the batch has no other folio
 *
 * Return: the result. It holds until mtier_guard_end(), for the VMAs that the guard
 * has space for. It is never MTIER_WHY_CROWDED if @first.
 */
enum mtier_why mtier_guard_ask(struct mtier_guard *guard, struct folio *folio,
			       struct mtier_guarded *held, unsigned long addr,
			       bool first)
{
	enum mtier_why why;

	if (guard->down && mtier_folio_protected(folio, &guard->memcg))
		return MTIER_WHY_POLICY;
	why = held->vma->vm_file ? mtier_wide_check(guard, folio, held, first) :
				   MTIER_WHY_GONE;
	if (why != MTIER_WHY_GONE)
		return why;
	/*
	 * Several VMAs of one mm can map a large folio that counts as mapped once.
	 * A folio of a file may be mapped only by VMAs other than @held.
	 */
	if (folio_test_large(folio) || folio_likely_mapped_shared(folio) ||
	    (mtier_may_be_others(held->vma) && !folio_test_anon(folio)))
		return mtier_ask_all(guard, folio, held, addr, first);
	why = mtier_ask_kind(guard, folio, held->vma);
	return why == MTIER_MAY ? mtier_ask_held(guard, folio, held, addr) : why;
}

/**
 * mtier_guard_end() - End a batch: unlock its VMAs, and release its address spaces.
 * @guard: the guard
 */
void mtier_guard_end(struct mtier_guard *guard)
{
	mtier_wide_end(&guard->wide);
	while (guard->nr_vmas)
		mtier_vma_end(guard->vmas[--guard->nr_vmas].vma);
	while (guard->nr_mms)
		mtier_release(&guard->rules[--guard->nr_mms].hold);
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/eligible_kunit.c"
#endif
