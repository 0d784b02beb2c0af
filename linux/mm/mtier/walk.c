// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: reading the Accessed bits of one address space, a slice at a
 * time.
 *
 * Under a page table lock nothing happens but reading and clearing bits and
 * noting what was met in an array; that is reported (hotness.c, and what is hot
 * to its migrator) after the lock is dropped.  Only entries of slow-tier pages
 * are cleared: the bits of top-tier pages are read as a sign of where the mm runs
 * and left alone, but while pages of full nodes are looked for that may give way
 * (cold.c).
 * Page tables that map nothing on a slow node therefore cost one read per
 * entry, and frames that have no record are told from the section number
 * without touching struct page.
 *
 * Reclaim, page_idle and DAMON share the Accessed bit.  When ours clears it,
 * the folio is marked young and not idle, so that they still learn of the
 * access, the multi-generational LRU when it is about to evict the page.  Dirty,
 * soft-dirty and uffd-wp bits are not touched.
 *
 * A cleared bit may stay clear while a CPU holds the translation in its TLB.
 * One flush per mm and visit (knob scan/flush_tlb; per chunk where pages are
 * chosen) bounds how long a busy page can look idle.
 *
 * Locking: mmap_lock is taken by trylock and held for slice_us at most; below
 * it the page table lock.  There is one scanner, so one static walk state.
 */
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/page_idle.h>
#include <linux/pagewalk.h>
#include <linux/rmap.h>
#include <linux/sched/clock.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <trace/events/mtier.h>

#include "eligible.h"
#include "mtier.h"
#include "range.h"

/**
 * struct mtier_hit - an accessed folio of a slow node, or one of a full node
 * @pfn: its first frame
 * @addr: where it is mapped
 * @nr: its base pages
 * @nid: its node
 * @full: that is a full one
 * @idle: and the folio was not accessed
 * @shared: others may map it, too
 */
struct mtier_hit {
	unsigned long pfn;
	unsigned long addr;
	unsigned int nr;
	int nid;
	bool full;
	bool idle;
	bool shared;
};

/**
 * struct mtier_walk - state of one slice
 * @slot: the mm
 * @deadline: local_clock() at which the slice is over
 * @stop: why it ended
 * @rules: what the mm's cpuset and its owner's policy allow
 * @above: nodes that hot pages go to
 * @up: nodes that pages at this place may be promoted to
 * @may_down: they may have to give way
 * @varies: this VMA's policy is not the same everywhere: it is asked for each hit
 * @open: nodes with room for a batch
 * @full: nodes whose pages may give way, if this visit looks for such
 * @slow: nodes they go to
 * @section: section that @tracked and @section_nid are about
 * @tracked: it is on a slow node
 * @section_nid: node of the first page met in it
 * @source: slow node that @targets is about
 * @targets: nodes a page of @source may go to
 * @strict: @targets is fewer than the tier has
 * @params_target: node that @params is about
 * @params: what makes a page hot that goes there
 * @nr_hits: used part of @hits
 * @hits: accessed folios found under the current page table lock
 */
struct mtier_walk {
	struct mtier_slot *slot;
	u64 deadline;
	enum mtier_stop stop;
	struct mtier_rules rules;
	nodemask_t above;
	nodemask_t up;
	bool may_down;
	bool varies;
	nodemask_t open;
	nodemask_t full;
	nodemask_t slow;
	unsigned long section;
	bool tracked;
	int section_nid;
	int source;
	nodemask_t targets;
	bool strict;
	int params_target;
	struct mtier_hot_params params;
	unsigned int nr_hits;
	struct mtier_hit hits[PTRS_PER_PTE];
};

static struct mtier_walk *mtier_walk;

/* Where pages at an address may go; false if nowhere above. */
static bool mtier_ask_at(struct mtier_walk *w, struct vm_area_struct *vma,
			 unsigned long addr)
{
	nodemask_t down;

	w->source = NUMA_NO_NODE;
	mtier_rules_at(&w->rules, vma, addr, &w->up, &down);
	w->may_down = nodes_intersects(down, w->slow);
	return nodes_intersects(w->up, w->above);
}

/* Sets w->targets for pages of @nid: nodes above it that are allowed. */
static void mtier_set_source(struct mtier_walk *w, int nid)
{
	int forced = READ_ONCE(mtier_conf.target_node);
	nodemask_t up = mtier_node_up(nid), open;

	w->source = nid;
	if (forced != NUMA_NO_NODE)
		up = nodemask_of_node(forced);
	nodes_and(w->targets, up, w->up);
	w->strict = !nodes_equal(w->targets, up) || forced != NUMA_NO_NODE;
	/* The ordered fallback of a page that may not go everywhere. */
	nodes_and(open, w->targets, w->open);
	if (!nodes_empty(open))
		w->targets = open;
}

/* The next target for a page of w->source, by the mm's weights. */
static int mtier_pick(struct mtier_walk *w)
{
	struct mtier_slot *slot = w->slot;
	u32 *masked = slot->masked;
	int nid;

	if (nodes_empty(w->targets))
		return NUMA_NO_NODE;
	if (nodes_weight(w->targets) == 1)
		return first_node(w->targets);
	for (nid = 0; nid < nr_node_ids; nid++)
		masked[nid] = node_isset(nid, w->targets) ?
			      slot->weights[nid] : 0;
	nid = mtier_target_pick(&slot->turn, masked, nr_node_ids);
	return nid >= 0 ? nid : mtier_nearest(w->source, &w->targets);
}

/*
 * What makes a page hot: while choosing only accesses in a row do, else those
 * within the window as well. An address space that takes longer than the window to
 * be seen whole would have no hot pages otherwise.
 */
static struct mtier_hot_params mtier_walk_params(struct mtier_walk *w,
						 int target)
{
	struct mtier_hot_params params = mtier_hot_params_for(target);
	u32 window_ms;

	window_ms = mtier_probe_window_ms(w->slot->look_ms, params.accesses);
	if (w->slot->pass != MTIER_PASS_LOOK)
		window_ms = max(window_ms, mtier_hot_window_ms());
	params.window_ticks = mtier_window_ticks(window_ms);
	return params;
}

/* An accessed page of a slow node. */
static void mtier_report_hot(struct mtier_walk *w, const struct mtier_hit *hit,
			     u32 now)
{
	struct mtier_range_key at;
	unsigned int heat;
	int target;

	if (hit->nid != w->source)
		mtier_set_source(w, hit->nid);
	target = mtier_pick(w);
	if (target == NUMA_NO_NODE) {
		count_vm_event(MTIER_SKIP_POLICY);
		return;
	}
	if (target != w->params_target)
		w->params = mtier_walk_params(w, target);
	w->params_target = target;
	heat = mtier_hot_touch(hit->pfn, now, &w->params);
	if (!heat || (hit->shared && !mtier_hot_claim(hit->pfn, now)))
		return;
	at = mtier_range_at(w->slot->mm, hit->addr, target, w->strict);
	if (!mtier_promote_note(hit->nid, &at, mtier_range_page(hit->addr), now,
				w->params.full, false))
		return;
	mtier_hot_candidate(hit->nr);
	trace_mtier_hot(hit->pfn, hit->nid, target, heat);
}

/* A page of a full node, which was looked at. */
static void mtier_report_cold(struct mtier_walk *w, const struct mtier_hit *hit,
			      u32 now, const struct mtier_hot_params *cold)
{
	struct mtier_range_key at;

	/* Which node it goes to is decided when there is need. */
	at = mtier_range_at(w->slot->mm, hit->addr, NUMA_NO_NODE, false);
	mtier_cold_note(hit->nid, &at, mtier_range_page(hit->addr), hit->pfn,
			hit->idle, now, cold);
}

/* Report what was found; no page table lock is held. */
static void mtier_report(struct mtier_walk *w, struct vm_area_struct *vma)
{
	struct mtier_hot_params cold = mtier_cold_params(w->slot->look_ms);
	u32 now = mtier_now_tick();
	unsigned int i;

	w->params_target = NUMA_NO_NODE;
	for (i = 0; i < w->nr_hits; i++) {
		struct mtier_hit *hit = &w->hits[i];

		if (w->varies)
			mtier_ask_at(w, vma, hit->addr);
		if (!hit->full)
			mtier_report_hot(w, hit, now);
		else if (w->may_down)
			mtier_report_cold(w, hit, now, &cold);
	}
	w->nr_hits = 0;
}

/* Is @pfn on a slow node? If it is not, counts @nr accesses to a top one. */
static bool mtier_pfn_slow(struct mtier_walk *w, unsigned long pfn,
			   unsigned int nr)
{
	unsigned long section = pfn_to_section_nr(pfn);

	if (section != w->section) {
		if (!pfn_valid(pfn))
			return false;
		w->section = section;
		w->tracked = mtier_hot_tracked(pfn);
		w->section_nid = pfn_to_nid(pfn);
	}
	if (w->tracked)
		return true;
	w->slot->nr_top += nr;
	mtier_weights_add(w->slot->top, nr_node_ids, w->section_nid, nr);
	return false;
}

/* Folios that are not to be moved however hot they are. */
static bool mtier_folio_eligible(struct folio *folio,
				 struct vm_area_struct *vma)
{
	enum mtier_why why = mtier_folio_stays(folio, vma);

	if (why == MTIER_WHY_PINNED)
		count_vm_event(MTIER_SKIP_PINNED);
	else if (why == MTIER_WHY_KIND)
		count_vm_event(MTIER_SKIP_SHARED);
	return why == MTIER_MAY;
}

/* We cleared a folio's bit: let reclaim and idle tracking know. */
static void mtier_cleared(struct mtier_slot *slot, struct folio *folio)
{
	slot->nr_cleared++;
	folio_set_young(folio);
	if (folio_test_idle(folio))
		folio_clear_idle(folio);
}

/* May this folio, of no slow node, have to give way to others? */
static bool mtier_may_give_way(struct mtier_walk *w, struct folio *folio,
			       struct vm_area_struct *vma)
{
	return folio && node_isset(folio_nid(folio), w->full) &&
	       mtier_folio_gives_way(folio, vma);
}

/* Looked at: one page of it in use means that all of it is. */
static void mtier_look_full(struct mtier_walk *w, unsigned long addr,
			    struct folio *folio, bool young)
{
	struct mtier_hit *last = w->nr_hits ? &w->hits[w->nr_hits - 1] : NULL;

	if (last && last->pfn == folio_pfn(folio)) {
		last->idle &= !young;
		return;
	}
	w->hits[w->nr_hits++] = (struct mtier_hit) {
		.pfn = folio_pfn(folio),
		.addr = addr,
		.nr = folio_nr_pages(folio),
		.nid = folio_nid(folio),
		.full = true,
		.idle = !young,
	};
}

/* A page of a full node: arm it, or see whether it was used since. */
static void mtier_pte_full(struct mtier_walk *w, struct vm_area_struct *vma,
			   unsigned long addr, pte_t *pte, pte_t entry)
{
	struct folio *folio = vm_normal_folio(vma, addr, entry);

	if (!mtier_may_give_way(w, folio, vma))
		return;
	if (w->slot->pass == MTIER_PASS_ARM) {
		if (ptep_clear_young_notify(vma, addr, pte))
			mtier_cleared(w->slot, folio);
		return;
	}
	mtier_look_full(w, addr, folio, pte_young(entry));
}

/* The bit of a page of a slow node is cleared: note the hit. */
static void mtier_hit(struct mtier_walk *w, unsigned long addr,
		      struct folio *folio)
{
	unsigned long pfn = folio_pfn(folio);
	struct mtier_slot *slot = w->slot;

	mtier_cleared(slot, folio);
	if (slot->pass == MTIER_PASS_ARM) {
		slot->nr_armed++;
		return;
	}
	/* One access of a large folio, however many of its pages show it. */
	if (w->nr_hits && w->hits[w->nr_hits - 1].pfn == pfn)
		return;
	slot->nr_slow++;
	slot->nr_found += folio_nr_pages(folio);
	w->hits[w->nr_hits++] = (struct mtier_hit) {
		.pfn = pfn,
		.addr = addr,
		.nr = folio_nr_pages(folio),
		.nid = folio_nid(folio),
		.shared = folio_likely_mapped_shared(folio),
	};
}

static void mtier_pte(struct mtier_walk *w, struct vm_area_struct *vma,
		      unsigned long addr, pte_t *pte)
{
	bool look = w->slot->pass == MTIER_PASS_LOOK;
	pte_t entry = ptep_get(pte);
	struct folio *folio;

	/* A secondary MMU (a KVM guest) has Accessed bits of its own. */
	if (!pte_present(entry) ||
	    (!pte_young(entry) && !look && !mm_has_notifiers(vma->vm_mm)))
		return;
	/* The zero page is nobody's memory: not where the mm runs. */
	if (is_zero_pfn(pte_pfn(entry)))
		return;
	if (!mtier_pfn_slow(w, pte_pfn(entry), !!pte_young(entry))) {
		if (!nodes_empty(w->full) && (w->varies || w->may_down))
			mtier_pte_full(w, vma, addr, pte, entry);
		return;
	}
	w->slot->nr_seen += look;
	if (!pte_young(entry) && !mm_has_notifiers(vma->vm_mm))
		return;
	folio = vm_normal_folio(vma, addr, entry);
	if (!folio || !mtier_node_is_slow(folio_nid(folio)) ||
	    !mtier_folio_eligible(folio, vma))
		return;
	if (ptep_clear_young_notify(vma, addr, pte))
		mtier_hit(w, addr, folio);
}

#ifdef CONFIG_TRANSPARENT_HUGEPAGE
static void mtier_pmd_full(struct mtier_walk *w, struct vm_area_struct *vma,
			   unsigned long addr, pmd_t *pmd, pmd_t entry)
{
	struct folio *folio = pmd_folio(entry);

	if (!mtier_may_give_way(w, folio, vma))
		return;
	if (w->slot->pass == MTIER_PASS_ARM) {
		if (pmdp_clear_young_notify(vma, addr, pmd))
			mtier_cleared(w->slot, folio);
		return;
	}
	mtier_look_full(w, addr, folio, pmd_young(entry));
}

static void mtier_pmd(struct mtier_walk *w, struct vm_area_struct *vma,
		      unsigned long addr, pmd_t *pmd)
{
	bool look = w->slot->pass == MTIER_PASS_LOOK;
	pmd_t entry = pmdp_get(pmd);
	struct folio *folio;

	if (!pmd_present(entry) ||
	    (!pmd_young(entry) && !look && !mm_has_notifiers(vma->vm_mm)))
		return;
	folio = vm_normal_folio_pmd(vma, addr, entry);
	if (!folio)
		return;
	if (!mtier_pfn_slow(w, pmd_pfn(entry),
			    pmd_young(entry) ? HPAGE_PMD_NR : 0)) {
		if (!nodes_empty(w->full) && (w->varies || w->may_down))
			mtier_pmd_full(w, vma, addr, pmd, entry);
		return;
	}
	w->slot->nr_seen += look ? HPAGE_PMD_NR : 0;
	if ((!pmd_young(entry) && !mm_has_notifiers(vma->vm_mm)) ||
	    !mtier_node_is_slow(folio_nid(folio)) ||
	    !mtier_folio_eligible(folio, vma))
		return;
	if (pmdp_clear_young_notify(vma, addr, pmd))
		mtier_hit(w, addr, folio);
}
#else
static void mtier_pmd(struct mtier_walk *w, struct vm_area_struct *vma,
		      unsigned long addr, pmd_t *pmd)
{
}
#endif

/* Is a chunk armed? See MTIER_CHUNK_BYTES. */
static bool mtier_chunk_armed(const struct mtier_slot *slot)
{
	u64 part_ns = mtier_probe_ms(slot->probe) * (NSEC_PER_MSEC / 4);

	return slot->chunk <= 0 && ktime_get_ns() - slot->chunk_ns >= part_ns;
}

/*
 * After every page table and every VMA: is it enough for now? Nonzero ends the
 * walk. Whoever wants the CPU gets it when the lock is free again.
 */
static int mtier_pause(struct mtier_walk *w, unsigned long next)
{
	struct mtier_slot *slot = w->slot;

	slot->cursor = next;
	if (slot->pass != MTIER_PASS_LOOK && slot->budget <= 0)
		w->stop = MTIER_STOP_SIZE;
	else if (slot->pass == MTIER_PASS_ARM && mtier_chunk_armed(slot))
		w->stop = MTIER_STOP_CHUNK;
	else if (local_clock() >= w->deadline || need_resched() ||
		 mmap_lock_is_contended(slot->mm))
		w->stop = MTIER_STOP_TIME;
	else if (mtier_promote_pressure())
		w->stop = MTIER_STOP_FULL;
	else
		return 0;
	return 1;
}

/* One page table (or huge page): collect under its lock, report after it. */
static int mtier_pmd_entry(pmd_t *pmd, unsigned long addr, unsigned long next,
			   struct mm_walk *walk)
{
	struct vm_area_struct *vma = walk->vma;
	struct mtier_walk *w = walk->private;
	unsigned long at = addr;
	pte_t *start, *pte;
	spinlock_t *ptl;	/* of this page table */

	if (w->slot->pass != MTIER_PASS_LOOK)
		w->slot->budget -= next - addr;
	w->slot->chunk -= next - addr;

	ptl = pmd_trans_huge_lock(pmd, vma);
	if (ptl) {
		__acquire(ptl);		/* which sparse cannot see */
		mtier_pmd(w, vma, addr, pmd);
		w->slot->nr_ptes++;
		spin_unlock(ptl);
	} else {
		start = pte_offset_map_lock(walk->mm, pmd, addr, &ptl);
		if (!start)
			return mtier_pause(w, next);
		__acquire(ptl);		/* nor this */
		for (pte = start; at < next; pte++, at += PAGE_SIZE)
			mtier_pte(w, vma, at, pte);
		w->slot->nr_ptes += pte - start;
		pte_unmap_unlock(start, ptl);
	}
	mtier_report(w, vma);
	return mtier_pause(w, next);
}

static int mtier_hole(unsigned long addr, unsigned long next, int depth,
		      struct mm_walk *walk)
{
	return mtier_pause(walk->private, next);
}

static int mtier_test_walk(unsigned long addr, unsigned long next,
			   struct mm_walk *walk)
{
	struct mtier_walk *w = walk->private;

	if (mtier_vma_eligible(walk->vma)) {
		w->varies = mtier_policy_varies(walk->vma);
		if (mtier_ask_at(w, walk->vma, addr) || w->varies)
			return 0;
		/* For who wonders why nothing moves. */
		count_vm_event(MTIER_SKIP_POLICY);
	}
	/* There can be tens of thousands of such VMAs. */
	return mtier_pause(w, next) ? -EAGAIN : 1;
}

static const struct mm_walk_ops mtier_walk_ops = {
	.pmd_entry	= mtier_pmd_entry,
	.pte_hole	= mtier_hole,
	.test_walk	= mtier_test_walk,
	.walk_lock	= PGWALK_RDLOCK,
};

static void mtier_node_masks(struct mtier_walk *w)
{
	unsigned long want = READ_ONCE(mtier_conf.batch_pages);
	int forced = READ_ONCE(mtier_conf.target_node);
	nodemask_t above = mtier_nodes_above();
	int nid;

	w->above = forced == NUMA_NO_NODE ? above : nodemask_of_node(forced);
	w->slow = mtier_nodes_slow();
	nodes_clear(w->open);
	nodes_clear(w->full);
	for_each_node_state(nid, N_MEMORY) {
		if (mtier_node_free_above(nid, WMARK_HIGH) >= want)
			node_set(nid, w->open);
		if (w->slot->cold && w->slot->pass != MTIER_PASS_PLAIN &&
		    node_isset(nid, above) && !mtier_node_is_slow(nid) &&
		    !mtier_node_room(nid))
			node_set(nid, w->full);
	}
}

/**
 * mtier_walk_slice() - walk an address space for slice_us at most
 * @slot: the mm, with a visit under way; its cursor, budget and counts change
 *
 * Return: why it ended.
 */
enum mtier_stop mtier_walk_slice(struct mtier_slot *slot)
{
	struct mtier_walk *w = mtier_walk;
	struct mm_struct *mm = slot->mm;
	unsigned long ptes = slot->nr_ptes, slow = slot->nr_slow;
	unsigned long top = slot->nr_top, end = mm->task_size;

	if (!mmget_not_zero(mm))
		return MTIER_STOP_EXIT;

	w->slot = slot;
	w->section = ULONG_MAX;
	w->nr_hits = 0;
	if (slot->pass == MTIER_PASS_LOOK)
		end = min(end, slot->chunk_end);
	mtier_rules_of(mm, &w->rules);
	mtier_node_masks(w);

	w->stop = MTIER_STOP_LOCK;
	if (mmap_read_trylock(mm)) {
		w->stop = MTIER_STOP_END;
		w->deadline = local_clock() +
			      READ_ONCE(mtier_conf.slice_us) * NSEC_PER_USEC;
		if (!test_bit(MMF_UNSTABLE, &mm->flags) &&
		    slot->cursor < end)
			walk_page_range(mm, slot->cursor, end,
					&mtier_walk_ops, w);
		mmap_read_unlock(mm);
	}
	mmput_async(mm);

	count_vm_events(MTIER_SCAN_PTES, slot->nr_ptes - ptes);
	count_vm_events(MTIER_YOUNG_SLOW, slot->nr_slow - slow);
	count_vm_events(MTIER_YOUNG_TOP, slot->nr_top - top);
	return w->stop;
}

/**
 * mtier_walk_init() - allocate the scanner's walk state
 *
 * Return: 0 or -ENOMEM.
 */
int mtier_walk_init(void)
{
	mtier_walk = kvzalloc(sizeof(*mtier_walk), GFP_KERNEL);
	return mtier_walk ? 0 : -ENOMEM;
}

/**
 * mtier_walk_exit() - free it; the scanner has stopped
 */
void mtier_walk_exit(void)
{
	kvfree(mtier_walk);
	mtier_walk = NULL;
}
