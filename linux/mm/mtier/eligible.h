/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Page promotion: may this page lie on that node?
 */
#ifndef _MM_MTIER_ELIGIBLE_H
#define _MM_MTIER_ELIGIBLE_H

#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/types.h>

#include "mtier.h"

struct folio;
struct mem_cgroup;
struct mm_struct;
struct vm_area_struct;

/* VMAs held at a time, and whose they are; one more ends the batch early. */
#define MTIER_GUARD_VMAS	64
#define MTIER_GUARD_MMS		16

/**
 * enum mtier_why - may a folio move, and if not, why
 * @MTIER_MAY: it may
 * @MTIER_WHY_POLICY: a memory policy, a cpuset or memory.low keeps it
 * @MTIER_WHY_KIND: its kind is not moved by whom it is mapped: shared program
 *	text, memory shared copy-on-write, a secondary MMU
 * @MTIER_WHY_PINNED: a device may be writing to it
 * @MTIER_WHY_DIRTY: it would have to be written first
 * @MTIER_WHY_BUSY: somebody else works on it or on its VMA
 * @MTIER_WHY_OFF_LRU: it is on no LRU list, or somebody else has isolated it
 * @MTIER_WHY_GONE: it is not there any more
 * @MTIER_WHY_CROWDED: more VMAs than can be held: move the others first
 * @MTIER_NR_WHYS: how many there are
 */
enum mtier_why {
	MTIER_MAY,
	MTIER_WHY_POLICY,
	MTIER_WHY_KIND,
	MTIER_WHY_PINNED,
	MTIER_WHY_DIRTY,
	MTIER_WHY_BUSY,
	MTIER_WHY_OFF_LRU,
	MTIER_WHY_GONE,
	MTIER_WHY_CROWDED,
	MTIER_NR_WHYS,
};

/**
 * struct mtier_rules - what an address space allows, but for its VMAs' policies
 * @mm: the address space
 * @hold: in a guard: it is not torn down
 * @mems: nodes of its owner's cpuset
 * @up: those that its owner's policy lets a page be promoted to
 * @down: those that a page may have to give way to
 * @nr_folios: how many of a batch were found in it
 */
struct mtier_rules {
	struct mm_struct *mm;
	struct mtier_hold hold;
	nodemask_t mems;
	nodemask_t up;
	nodemask_t down;
	unsigned int nr_folios;
};

/**
 * struct mtier_guarded - a VMA whose policy stays as it is while a batch moves
 * @vma: the VMA, read-locked
 * @rules: of its mm, in the guard
 * @varies: its policy is not the same everywhere
 * @allowed: else: what it says
 */
struct mtier_guarded {
	struct vm_area_struct *vma;
	struct mtier_rules *rules;
	bool varies;
	bool allowed;
};

/**
 * struct mtier_protection - the cgroup that was asked last for its protection
 * @memcg: the cgroup; only compared
 * @is: what it said
 */
struct mtier_protection {
	const struct mem_cgroup *memcg;
	bool is;
};

/**
 * struct mtier_guard - whom the folios of a batch belong to
 * @nid: node that they are to be moved to
 * @down: to make room, not because they are hot
 * @nr_mms: used part of @rules
 * @nr_vmas: used part of @vmas
 * @rules: address spaces, held
 * @vmas: their VMAs
 * @spare: for a folio that more VMAs map than fit
 * @memcg: whom it has asked last
 */
struct mtier_guard {
	int nid;
	bool down;
	unsigned int nr_mms;
	unsigned int nr_vmas;
	struct mtier_rules rules[MTIER_GUARD_MMS];
	struct mtier_guarded vmas[MTIER_GUARD_VMAS];
	struct mtier_rules spare;
	struct mtier_protection memcg;
};

/**
 * mtier_may_be_others() - may the pages of a VMA be judged though others map them?
 * @vma: the VMA
 *
 * Return: true for shared mappings of files and of shared memory.
 */
static inline bool mtier_may_be_others(const struct vm_area_struct *vma)
{
	return vma->vm_file && !is_cow_mapping(vma->vm_flags);
}

void mtier_rules_of(struct mm_struct *mm, struct mtier_rules *rules);
void mtier_rules_at(const struct mtier_rules *rules, struct vm_area_struct *vma,
		    unsigned long addr, bool anon, nodemask_t *up,
		    nodemask_t *down);
void mtier_rules_for(const struct mtier_rules *rules, struct vm_area_struct *vma,
		     unsigned long addr, struct folio *folio, nodemask_t *up,
		     nodemask_t *down);
bool mtier_rules_lock(struct mtier_rules *rules, struct vm_area_struct *vma);
bool mtier_policy_by_page(struct vm_area_struct *vma);
bool mtier_vma_eligible(struct vm_area_struct *vma);
bool mtier_shared_stays(struct vm_area_struct *vma, bool on_disk);
enum mtier_why mtier_folio_stays(struct folio *folio,
				 struct vm_area_struct *vma);
bool mtier_single_stays(struct folio *folio, bool down);
bool mtier_folio_protected(struct folio *folio, struct mtier_protection *last);

void mtier_guard_begin(struct mtier_guard *guard, int nid, bool down);
struct mtier_guarded *mtier_guard_at(struct mtier_guard *guard,
				     struct mm_struct *mm, unsigned long addr,
				     enum mtier_why *why);
enum mtier_why mtier_guard_ask(struct mtier_guard *guard, struct folio *folio,
			       struct mtier_guarded *held, unsigned long addr,
			       bool first);
void mtier_guard_end(struct mtier_guard *guard);

#endif /* _MM_MTIER_ELIGIBLE_H */
