/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How NUMA balancing scans address spaces (kernel/sched/numa_scan/): what memory
 * management sees of it.
 */
#ifndef _LINUX_NUMA_SCAN_H
#define _LINUX_NUMA_SCAN_H

#include <linux/jump_label.h>
#include <linux/jump_label_ratelimit.h>
#include <linux/mm.h>
#include <linux/mm_types.h>
#include <linux/topology.h>

struct cgroup_subsys_state;

#ifdef CONFIG_NUMA_SCAN_CPUSET

/* Counts the cpusets that have opted out */
extern struct static_key_false_deferred numa_scan_off_key;

bool __numa_scan_off(struct mm_struct *mm);
void numa_scan_css_offline(struct cgroup_subsys_state *css);

/**
 * numa_scan_off() - Check whether the cgroup of an address space has opted out
 * @mm: the mm; NULL for a kernel thread
 *
 * Return: true if NUMA balancing is not to scan it (cpuset.numa_balancing).
 */
static inline bool numa_scan_off(struct mm_struct *mm)
{
	return static_branch_unlikely(&numa_scan_off_key.key) &&
	       __numa_scan_off(mm);
}

/**
 * numa_scan_off_cpusets() - Get the number of cpusets that have opted out
 *
 * Return: their number, with those that have opted in again less than a second ago.
 */
static inline int numa_scan_off_cpusets(void)
{
	return static_key_count(&numa_scan_off_key.key.key);
}

#else

static inline void numa_scan_css_offline(struct cgroup_subsys_state *css) { }

static inline bool numa_scan_off(struct mm_struct *mm)
{
	return false;
}

static inline int numa_scan_off_cpusets(void)
{
	return 0;
}

#endif /* CONFIG_NUMA_SCAN_CPUSET */

#ifdef CONFIG_NUMA_SCAN_MODES

DECLARE_STATIC_KEY_FALSE(numa_scan_windows_key);

void __numa_scan_exit(struct mm_struct *mm);
void __numa_scan_touch(struct vm_area_struct *vma, unsigned long addr);

/* change_protection(): flags that carry the node of the task that is served */
#define NUMA_SCAN_CP_SHIFT	16

/**
 * numa_scan_cp_node() - pass the local node to change_protection()
 * @nid: the node
 *
 * Return: what to add to its flags.
 */
static inline unsigned long numa_scan_cp_node(int nid)
{
	return (unsigned long)(nid + 1) << NUMA_SCAN_CP_SHIFT;
}

/**
 * numa_scan_local_node() - the node whose pages need no hint fault
 * @cp_flags: flags of change_protection()
 *
 * Return: the node of the task that is scanned, wherever the scanner runs.
 */
static inline int numa_scan_local_node(unsigned long cp_flags)
{
	int nid = (int)(cp_flags >> NUMA_SCAN_CP_SHIFT) - 1;

	return nid == NUMA_NO_NODE ? numa_node_id() : nid;
}

/**
 * numa_scan_unmovable() - Check whether a hint fault would be in vain
 * @folio: a mapped folio
 *
 * Return: true if the folio is pinned (long-term I/O, registered buffers). Linux checks it
 * for private mappings; a shared one was marked, and faulted, in every scan.
 */
static inline bool numa_scan_unmovable(struct folio *folio)
{
	return folio_maybe_dma_pinned(folio);
}

/**
 * numa_scan_init_mm() - nobody scans a new address space
 * @mm: the mm
 */
static inline void numa_scan_init_mm(struct mm_struct *mm)
{
	mm->numa_scan = NULL;
}

/**
 * numa_scan_exit() - forget the scan of an address space, or wait for it
 * @mm: the mm; no user is left. Before exit_mmap().
 */
static inline void numa_scan_exit(struct mm_struct *mm)
{
	if (unlikely(READ_ONCE(mm->numa_scan)))
		__numa_scan_exit(mm);
}

/**
 * numa_scan_touch() - a hint fault showed that a place is used
 * @vma: the VMA
 * @addr: the address in it
 */
static inline void numa_scan_touch(struct vm_area_struct *vma,
				   unsigned long addr)
{
	if (static_branch_unlikely(&numa_scan_windows_key))
		__numa_scan_touch(vma, addr);
}

#else

static inline int numa_scan_local_node(unsigned long cp_flags)
{
	return numa_node_id();
}

static inline bool numa_scan_unmovable(struct folio *folio)
{
	return false;
}

static inline void numa_scan_init_mm(struct mm_struct *mm) { }
static inline void numa_scan_exit(struct mm_struct *mm) { }
static inline void numa_scan_touch(struct vm_area_struct *vma,
				   unsigned long addr) { }

#endif /* CONFIG_NUMA_SCAN_MODES */

#endif /* _LINUX_NUMA_SCAN_H */
