/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Scans of address spaces by NUMA balancing (kernel/sched/numa_scan/): interface for mm.
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

/* Number of cpusets that have opted out */
extern struct static_key_false_deferred numa_scan_off_key;

bool __numa_scan_off(struct mm_struct *mm);
void numa_scan_css_offline(struct cgroup_subsys_state *css);

/**
 * numa_scan_off() - Check whether the cgroup of an address space has opted out
 * @mm: the mm; NULL for a kernel thread
 *
 * Return: true if NUMA balancing must not scan it (cpuset.numa_balancing).
 */
static inline bool numa_scan_off(struct mm_struct *mm)
{
	return static_branch_unlikely(&numa_scan_off_key.key) &&
	       __numa_scan_off(mm);
}

/**
 * numa_scan_off_cpusets() - Get the number of cpusets that have opted out
 *
 * Return: their number, including cpusets that have opted in again less than a second
 * ago.
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

/* change_protection(): bits of the flags that carry the local node of the scanned task */
#define NUMA_SCAN_CP_SHIFT	16

/**
 * numa_scan_cp_node() - Encode the local node for change_protection()
 * @nid: the node
 *
 * Return: bits to add to its flags.
 */
static inline unsigned long numa_scan_cp_node(int nid)
{
	return (unsigned long)(nid + 1) << NUMA_SCAN_CP_SHIFT;
}

/**
 * numa_scan_local_node() - Get the node whose pages need no hint fault
 * @cp_flags: flags of change_protection()
 *
 * Return: the node of the scanned task, independent of the CPU of the scanner.
 */
static inline int numa_scan_local_node(unsigned long cp_flags)
{
	int nid = (int)(cp_flags >> NUMA_SCAN_CP_SHIFT) - 1;

	return nid == NUMA_NO_NODE ? numa_node_id() : nid;
}

/**
 * numa_scan_unmovable() - Check whether a hint fault could not move a folio
 * @folio: a mapped folio
 *
 * Return: true if the folio is pinned (long-term I/O, registered buffers). Linux checks
 * this for private mappings only; a pinned folio of a shared mapping was marked, and
 * faulted, in every scan.
 */
static inline bool numa_scan_unmovable(struct folio *folio)
{
	return folio_maybe_dma_pinned(folio);
}

/**
 * numa_scan_init_mm() - Initialize a new address space without a scanner
 * @mm: the mm
 */
static inline void numa_scan_init_mm(struct mm_struct *mm)
{
	mm->numa_scan = NULL;
}

/**
 * numa_scan_exit() - Cancel the scan of an address space, or wait for it
 * @mm: the mm; no user is left. Called before exit_mmap().
 */
static inline void numa_scan_exit(struct mm_struct *mm)
{
	if (unlikely(READ_ONCE(mm->numa_scan)))
		__numa_scan_exit(mm);
}

/**
 * numa_scan_touch() - Note that a hint fault has accessed a subrange
 * @vma: the VMA
 * @addr: address of the fault
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
