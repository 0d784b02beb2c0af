/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pages that nobody maps move to where they should be when a fault maps them again:
 * the calls that page faults make.  All of them are empty without
 * CONFIG_NUMA_FAULT_MIGRATE, and a nop until a cpuset asks for it.  See
 * mm/fault_migrate/look.c.
 */
#ifndef _LINUX_FAULT_MIGRATE_H
#define _LINUX_FAULT_MIGRATE_H

#include <linux/jump_label.h>
#include <linux/mm_types.h>

/* What cpuset.migrate_on_fault may be: less than this */
#define FAULT_MIGRATE_LEVELS	4

#ifdef CONFIG_NUMA_FAULT_MIGRATE

/* Counts the cpusets with migrate_on_fault */
DECLARE_STATIC_KEY_FALSE(fault_migrate_key);

void __fault_migrate_cached(struct vm_fault *vmf);
unsigned int __fault_migrate_level(struct address_space *mapping);
bool fault_migrate_later(struct vm_area_struct *vma, unsigned long addr,
			 struct folio *folio, unsigned int level);
struct folio *__fault_migrate_swap(struct vm_fault *vmf, swp_entry_t entry,
				   struct folio *folio);

/**
 * fault_migrate_cached - A fault is about to map what may be in the page cache
 * @vmf: fault; no page table is locked
 */
static inline void fault_migrate_cached(struct vm_fault *vmf)
{
	if (static_branch_unlikely(&fault_migrate_key))
		__fault_migrate_cached(vmf);
}

/**
 * fault_migrate_level - Which pages of a file do faults of this task move?
 * @mapping: of the file
 *
 * Return: the level, 0 if it reaches none of them.
 */
static inline unsigned int fault_migrate_level(struct address_space *mapping)
{
	if (static_branch_unlikely(&fault_migrate_key))
		return __fault_migrate_level(mapping);
	return 0;
}

/**
 * fault_migrate_swap - A fault has looked into the swap cache
 * @vmf: fault; no page table is locked
 * @entry: what it has looked for
 * @folio: what it has found, with a reference, or NULL
 *
 * Return: the folio to go on with, with a reference; NULL if there is none.
 */
static inline struct folio *fault_migrate_swap(struct vm_fault *vmf,
					       swp_entry_t entry,
					       struct folio *folio)
{
	if (static_branch_unlikely(&fault_migrate_key) && folio)
		return __fault_migrate_swap(vmf, entry, folio);
	return folio;
}

#else /* !CONFIG_NUMA_FAULT_MIGRATE */

/* Macros: an inline, however empty, can change what gcc makes of the caller. */
#define fault_migrate_cached(vmf)			do { } while (0)
#define fault_migrate_level(mapping)			0
#define fault_migrate_later(vma, addr, folio, level)	false
#define fault_migrate_swap(vmf, entry, folio)		(folio)

#endif /* CONFIG_NUMA_FAULT_MIGRATE */

#endif /* _LINUX_FAULT_MIGRATE_H */
