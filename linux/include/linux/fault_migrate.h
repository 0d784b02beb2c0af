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

unsigned int auto_migrate_fault_level(void);
bool __fault_migrate_moved(struct vm_fault *vmf, vm_fault_t ret,
			   unsigned int level);
int __fault_migrate_around(struct vm_fault *vmf, unsigned int level);
bool fault_migrate_later(struct vm_area_struct *vma, unsigned long addr,
			 struct folio *folio);
struct folio *__fault_migrate_swap(struct vm_fault *vmf, swp_entry_t entry,
				   struct folio *folio, unsigned int level);

/* Pages of a file that nobody asks about, wherever they are */
#define FAULT_MIGRATE_NONE	(-2)

/**
 * fault_migrate_level - What do faults of the current task move?
 *
 * Return: the level, 0 to 3.
 */
static inline unsigned int fault_migrate_level(void)
{
	if (static_branch_unlikely(&fault_migrate_key))
		return auto_migrate_fault_level();
	return 0;
}

/**
 * fault_migrate_moved - A fault has got a page from a file: was it moved?
 * @vmf: fault; no page table is locked
 * @ret: what the file's ->fault() has returned
 *
 * Return: true if the page was given back to be moved: ->fault() has to be called
 * again.
 */
static inline bool fault_migrate_moved(struct vm_fault *vmf, vm_fault_t ret)
{
	unsigned int level = fault_migrate_level();

	return level && __fault_migrate_moved(vmf, ret, level);
}

/**
 * fault_migrate_around - Which pages of a file may fault-around map?
 * @vmf: fault; no page table is locked
 *
 * Return: the node whose pages it may; of others fault_migrate_later() has to be
 * asked, one by one; FAULT_MIGRATE_NONE if it may map all of them.
 */
static inline int fault_migrate_around(struct vm_fault *vmf)
{
	unsigned int level = fault_migrate_level();

	return level ? __fault_migrate_around(vmf, level) : FAULT_MIGRATE_NONE;
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
	unsigned int level = folio ? fault_migrate_level() : 0;

	if (level)
		return __fault_migrate_swap(vmf, entry, folio, level);
	return folio;
}

#else /* !CONFIG_NUMA_FAULT_MIGRATE */

/* Macros: an inline, however empty, can change what gcc makes of the caller. */
#define FAULT_MIGRATE_NONE				(-2)
#define fault_migrate_moved(vmf, ret)			false
#define fault_migrate_around(vmf)			FAULT_MIGRATE_NONE
#define fault_migrate_later(vma, addr, folio)		false
#define fault_migrate_swap(vmf, entry, folio)		(folio)

#endif /* CONFIG_NUMA_FAULT_MIGRATE */

#endif /* _LINUX_FAULT_MIGRATE_H */
