/* SPDX-License-Identifier: GPL-2.0 */
/* Page promotion: whether a page may migrate to a node. */
#ifndef _MM_MTIER_ELIGIBLE_H
#define _MM_MTIER_ELIGIBLE_H

#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/types.h>

#include "mtier.h"

struct folio;
struct mem_cgroup;
struct mempolicy;
struct mm_struct;
struct vm_area_struct;

/* Most VMAs and address spaces of a batch; the next one ends the batch early. */
#define MTIER_GUARD_VMAS	64
#define MTIER_GUARD_MMS		16
/* Most VMAs that are held for a part of a file. */
#define MTIER_WIDE_VMAS		4096

/**
 * enum mtier_why - result of the check whether a folio may migrate
 * @MTIER_MAY: the folio may migrate
 * @MTIER_WHY_POLICY: forbidden by a memory policy, a cpuset or memory.low
 * @MTIER_WHY_KIND: not moved for its type, or for its mappers: shared program text,
 *	memory that is shared copy-on-write, a secondary MMU, locked memory if
 *	demoted
 * @MTIER_WHY_PINNED: pinned, for DMA for example
 * @MTIER_WHY_DIRTY: dirty page cache, which needs writeback first
 * @MTIER_WHY_BUSY: the folio or its VMA is locked by another task
 * @MTIER_WHY_OFF_LRU: on no LRU list, or isolated by another task
 * @MTIER_WHY_GONE: freed, unmapped or replaced since it was scanned
 * @MTIER_WHY_CROWDED: more VMAs than a batch can hold: end the batch first
 * @MTIER_NR_WHYS: number of results
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
 * struct mtier_rules - nodes that an address space allows, without its VMAs'
 * policies
 * @mm: the address space
 * @hold: reference of a guard that prevents the teardown of @mm
 * @allowed: nodes that its tasks allow
 * @nr_folios: number of folios of the batch that were found in @mm
 */
struct mtier_rules {
	struct mm_struct *mm;
	struct mtier_hold hold;
	struct mtier_allowed allowed;
	unsigned int nr_folios;
};

/**
 * struct mtier_guarded - a VMA whose policy cannot change during a batch
 * @vma: the VMA, read-locked
 * @rules: allowed nodes of its mm, part of the guard
 * @varies: the policy can differ from page to page
 * @allowed: the policy allows the target; where @varies, for the folio checked last
 */
struct mtier_guarded {
	struct vm_area_struct *vma;
	struct mtier_rules *rules;
	bool varies;
	bool allowed;
};

/**
 * struct mtier_protection - the cgroup whose protection was checked last
 * @memcg: the cgroup; without a reference, only compared
 * @is: result of the check
 */
struct mtier_protection {
	const struct mem_cgroup *memcg;
	bool is;
};

/**
 * struct mtier_wide_held - a VMA that covers a part of a file, and allows the migration
 * @vma: the VMA, read-locked
 * @hold: prevents the teardown of its address space
 */
struct mtier_wide_held {
	struct vm_area_struct *vma;
	struct mtier_hold hold;
};

/**
 * struct mtier_wide - all VMAs that cover a file, or a part of it; see wide.c
 * @many: the file for which an rmap walk met many VMAs last; only compared
 * @mapping: the file; NULL if there is none in this batch
 * @first: offset of the first page of the part in the file, in pages
 * @last: offset of its last page
 * @may: no VMA forbids the migration
 * @allowed: one VMA at least allows the migration
 * @data: one VMA at least does not execute the file
 * @nr_held: number of entries in @held
 * @held: the VMAs that count, but not the one that maps the first folio
 */
struct mtier_wide {
	const struct address_space *many;
	struct address_space *mapping;
	pgoff_t first;
	pgoff_t last;
	bool may;
	bool allowed;
	bool data;
	unsigned int nr_held;
	struct mtier_wide_held held[MTIER_WIDE_VMAS];
};

/**
 * struct mtier_guard - address spaces and VMAs that the folios of a batch belong to
 * @nid: target node of the batch
 * @down: the batch is a demotion
 * @nr_mms: number of entries in @rules
 * @nr_vmas: number of entries in @vmas
 * @rules: address spaces, held
 * @vmas: their VMAs, read-locked
 * @spare: scratch for a folio that is mapped by more VMAs than fit
 * @wide: VMAs that cover a part of a file with many mappers
 * @memcg: the cgroup whose protection was checked last
 */
struct mtier_guard {
	int nid;
	bool down;
	unsigned int nr_mms;
	unsigned int nr_vmas;
	struct mtier_rules rules[MTIER_GUARD_MMS];
	struct mtier_guarded vmas[MTIER_GUARD_VMAS];
	struct mtier_rules spare;
	struct mtier_wide wide;
	struct mtier_protection memcg;
};

/**
 * mtier_may_be_others() - Check whether a VMA is scanned with its other mappers.
 * @vma: the VMA
 *
 * A private mapping maps pages of the file and private copies of them. This is about
 * the pages of the file; the copies are scanned as private memory. An executable
 * private mapping is program text, and is scanned alone.
 *
 * Return: true for mappings of files and of shared memory, except program text.
 */
static inline bool mtier_may_be_others(struct vm_area_struct *vma)
{
	if (!vma->vm_file || !is_cow_mapping(vma->vm_flags))
		return vma->vm_file;
	return !vma_is_anonymous(vma) && !(vma->vm_flags & VM_EXEC);
}

/**
 * mtier_has_no_copies() - Check whether a VMA only maps pages that others can map.
 * @vma: the VMA
 *
 * Return: true if mtier_may_be_others() is, and the VMA has no private copies.
 */
static inline bool mtier_has_no_copies(struct vm_area_struct *vma)
{
	return mtier_may_be_others(vma) && !READ_ONCE(vma->anon_vma);
}

/**
 * mtier_only_reads() - Check whether a VMA cannot change the pages of its file.
 * @vma: the VMA, which maps a file
 *
 * Any user who may read a file can have such a mapping. So it has no veto: a page
 * stays for the rules of such mappers only if all of its mappers forbid the migration.
 *
 * Return: true for private mappings, and for files opened only for reading.
 */
static inline bool mtier_only_reads(const struct vm_area_struct *vma)
{
	return !(vma->vm_flags & VM_SHARED);
}

/**
 * mtier_vma_keep() - Prepare to hold a VMA lock together with many others.
 * @vma: the VMA, read-locked
 *
 * lockdep can track fewer locks than a batch holds. All of them are taken by trylock.
 */
static inline void mtier_vma_keep(struct vm_area_struct *vma)
{
	rwsem_release(&vma->vm_lock->lock.dep_map, _RET_IP_);
}

/**
 * mtier_vma_end() - Unlock a VMA.
 * @vma: the VMA, from mtier_vma_keep()
 */
static inline void mtier_vma_end(struct vm_area_struct *vma)
{
	rwsem_acquire_read(&vma->vm_lock->lock.dep_map, 0, 1, _RET_IP_);
	vma_end_read(vma);
}

/* ---- rules.c ---- */

void mtier_policy_mask(struct mempolicy *pol, bool down, nodemask_t *mask);
void mtier_rules_of(struct mm_struct *mm, struct mtier_rules *rules);

/* ---- eligible.c ---- */

void mtier_rules_at(const struct mtier_rules *rules, struct vm_area_struct *vma,
		    unsigned long addr, bool anon, nodemask_t *up,
		    nodemask_t *down);
void mtier_rules_for(const struct mtier_rules *rules, struct vm_area_struct *vma,
		     unsigned long addr, struct folio *folio, nodemask_t *up,
		     nodemask_t *down);
bool mtier_vma_lock(struct vm_area_struct *vma);
bool mtier_rules_lock(struct mtier_rules *rules, struct vm_area_struct *vma);
bool mtier_policy_by_page(struct vm_area_struct *vma);
bool mtier_vma_eligible(struct vm_area_struct *vma);
bool mtier_folio_is_text(struct folio *folio, struct vm_area_struct *vma);
enum mtier_why mtier_folio_stays(struct folio *folio,
				 struct vm_area_struct *vma);
bool mtier_single_stays(struct folio *folio, bool down);
bool mtier_file_allows(struct folio *folio, int nid);
bool mtier_folio_protected(struct folio *folio, struct mtier_protection *last);

void mtier_guard_begin(struct mtier_guard *guard, int nid, bool down);
struct mtier_guarded *mtier_guard_at(struct mtier_guard *guard,
				     struct mm_struct *mm, unsigned long addr,
				     enum mtier_why *why);
enum mtier_why mtier_guard_ask(struct mtier_guard *guard, struct folio *folio,
			       struct mtier_guarded *held, unsigned long addr,
			       bool first);
void mtier_guard_end(struct mtier_guard *guard);

/* ---- wide.c ---- */

enum mtier_why mtier_wide_check(struct mtier_guard *g, struct folio *folio,
				const struct mtier_guarded *held, bool first);
void mtier_wide_met(struct mtier_wide *w, struct folio *folio, unsigned int nr_vmas);
bool mtier_wide_fits(const struct mtier_wide *w, unsigned long pages);
void mtier_wide_end(struct mtier_wide *w);

#endif /* _MM_MTIER_ELIGIBLE_H */
