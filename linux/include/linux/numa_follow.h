/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Automatic NUMA migration: calls of mbind(), page faults, the scheduler and cpusets.
 * They are empty without CONFIG_NUMA_FOLLOW, and nops until a program or a cpuset enables
 * them. mm/follow/where.c finds the target node of a page; mm/follow/mbind.c, tick.c and
 * fault.c move pages to it.
 */
#ifndef _LINUX_NUMA_FOLLOW_H
#define _LINUX_NUMA_FOLLOW_H

#include <linux/bitops.h>
#include <linux/bits.h>
#include <linux/jump_label.h>
#include <linux/jump_label_ratelimit.h>
#include <linux/mempolicy.h>
#include <linux/migrate.h>
#include <linux/mm_types.h>
#include <linux/numa_follow_types.h>
#include <linux/vmstat.h>

struct cgroup_subsys_state;
struct seq_file;
struct task_struct;

/* Number of levels of cpuset.migrate_on_fault */
#define NUMA_FOLLOW_LEVELS	4

/* Fault-around may map pages of every node */
#define NUMA_FOLLOW_NONE	(-2)

#ifdef CONFIG_NUMA_FOLLOW

/* Flag that mbind() accepts in addition to MPOL_MF_VALID */
#define NUMA_FOLLOW_FLAG	MPOL_MF_LAZY

/*
 * In mempolicy.flags: a hint fault moves a page to the node of this policy. Unlike
 * MPOL_F_MOF it does not make NUMA balancing scan for such pages.
 */
#define MPOL_F_LAZY		BIT(8)
/* With MPOL_F_LAZY: pages that other processes map move too. */
#define MPOL_F_LAZY_ALL		BIT(9)

/*
 * In mm->flags, with those of linux/sched/coredump.h: the address space has had marked
 * pages.
 */
#define MMF_NUMA_FOLLOW		63

/* Number of address spaces with MMF_NUMA_FOLLOW */
extern struct static_key_false_deferred numa_follow_marks;
/* Number of cpusets with auto_migration */
DECLARE_STATIC_KEY_FALSE(numa_follow_tasks);
/* Number of cpusets with migrate_on_fault */
DECLARE_STATIC_KEY_FALSE(numa_follow_faults);

/* ---- by mbind() ---- */

bool __numa_follow_request(unsigned short mode, unsigned short *mode_flags,
			   unsigned long *flags);
int __numa_follow_takes(struct mm_struct *mm, unsigned long start,
			unsigned long end);
void __numa_follow_mark(struct mm_struct *mm, unsigned long start,
			unsigned long end);

/**
 * numa_follow_request() - Take MPOL_MF_LAZY out of the flags of mbind()
 * @mode: mode of the policy
 * @mode_flags: mode flags of the policy; MPOL_F_LAZY and MPOL_F_LAZY_ALL are added
 * @flags: flags of the call; the flags that move pages at once are removed
 * @lazy: set to whether the call has MPOL_MF_LAZY
 *
 * Return: false if MPOL_MF_LAZY contradicts the rest of the call.
 */
static inline bool numa_follow_request(unsigned short mode,
				       unsigned short *mode_flags,
				       unsigned long *flags, bool *lazy)
{
	*lazy = *flags & MPOL_MF_LAZY;
	return !*lazy || __numa_follow_request(mode, mode_flags, flags);
}

/**
 * numa_follow_takes() - Check whether the pages of a range can be marked
 * @mm: address space, locked for writing
 * @start: first byte
 * @end: end of the range
 * @lazy: from numa_follow_request(); if false, nothing is checked
 *
 * Return: 0 or -EINVAL.
 */
static inline int numa_follow_takes(struct mm_struct *mm, unsigned long start,
				    unsigned long end, bool lazy)
{
	return lazy ? __numa_follow_takes(mm, start, end) : 0;
}

/**
 * numa_follow_mark() - Mark misplaced pages for migration at their next access
 * @mm: address space, not locked
 * @start: first byte
 * @end: end of the range
 * @lazy: from numa_follow_request(); if false, nothing is done
 *
 * Marks the pages whose policy is lazy.
 */
static inline void numa_follow_mark(struct mm_struct *mm, unsigned long start,
				    unsigned long end, bool lazy)
{
	if (lazy)
		__numa_follow_mark(mm, start, end);
}

/* ---- hint faults of marked pages ---- */

bool __numa_follow_misplaced(struct mempolicy *pol, pgoff_t ilx,
			     struct folio *folio, int *nid);
int __numa_follow_prepare(struct vm_fault *vmf, struct folio *folio, int nid);
void __numa_follow_pulled(struct vm_fault *vmf, int nr_pages, int nid);
void __numa_follow_failed(struct vm_fault *vmf, int nr_pages);
void numa_follow_promoted(struct lruvec *lruvec, int from, int nid,
			  unsigned int nr_pages);

/**
 * numa_follow_misplaced() - Find the target node of a marked page
 * @pol: policy of the page
 * @ilx: where interleaving is
 * @folio: folio of a hint fault, under its page table lock
 * @nid: set to the target node; NUMA_NO_NODE: the page stays
 *
 * Return: true if @nid is set, false if NUMA balancing has to decide.
 */
static inline bool numa_follow_misplaced(struct mempolicy *pol, pgoff_t ilx,
					 struct folio *folio, int *nid)
{
	return static_branch_unlikely(&numa_follow_marks.key) &&
	       __numa_follow_misplaced(pol, ilx, folio, nid);
}

/**
 * numa_follow_prepare() - Isolate a folio that a hint fault will move
 * @vmf: fault
 * @vma: its VMA; the caller has it in a register
 * @folio: folio, under its page table lock
 * @nid: target node
 *
 * Return: that of migrate_misplaced_folio_prepare(), which it calls.
 */
static inline int numa_follow_prepare(struct vm_fault *vmf,
				      struct vm_area_struct *vma,
				      struct folio *folio, int nid)
{
	if (static_branch_unlikely(&numa_follow_marks.key))
		return __numa_follow_prepare(vmf, folio, nid);
	return migrate_misplaced_folio_prepare(folio, vma, nid);
}

/**
 * numa_follow_pulled() - Account for a folio that a hint fault has moved
 * @vmf: fault; no page table is locked
 * @nr_pages: number of pages of the folio
 * @nid: its new node
 *
 * If mm/follow has marked the folio, counts it and moves its marked neighbours.
 */
static inline void numa_follow_pulled(struct vm_fault *vmf, int nr_pages,
				      int nid)
{
	if (static_branch_unlikely(&numa_follow_marks.key))
		__numa_follow_pulled(vmf, nr_pages, nid);
}

/**
 * numa_follow_failed() - Account for an isolated folio that a hint fault did not move
 * @vmf: fault; no page table is locked
 * @nr_pages: number of pages of the folio
 */
static inline void numa_follow_failed(struct vm_fault *vmf, int nr_pages)
{
	if (static_branch_unlikely(&numa_follow_marks.key))
		__numa_follow_failed(vmf, nr_pages);
}

/* ---- numa_maps ---- */

void __numa_follow_show(struct seq_file *m, struct vm_area_struct *vma,
			struct task_struct *task);

/**
 * numa_follow_show() - Add the marked pages of a mapping to its line in numa_maps
 * @m: the file
 * @vma: the mapping, locked
 * @task: a thread of the process
 */
static inline void numa_follow_show(struct seq_file *m,
				    struct vm_area_struct *vma,
				    struct task_struct *task)
{
	if (static_branch_unlikely(&numa_follow_marks.key))
		__numa_follow_show(m, vma, task);
}

/* ---- address spaces with marked pages ---- */

void __numa_follow_dup_mm(struct mm_struct *mm);
void __numa_follow_exit_mm(struct mm_struct *mm);

/**
 * numa_follow_init_mm() - Clear the flag of a new mm
 * @mm: a new mm, its flags set
 *
 * MMF_INIT_MASK is an int with bit 31 set (MMF_TOPDOWN_MASK). Extended to the width of
 * mm->flags, it copies all higher bits.
 */
static inline void numa_follow_init_mm(struct mm_struct *mm)
{
	__clear_bit(MMF_NUMA_FOLLOW, &mm->flags);
}

/**
 * numa_follow_dup_mm() - Count an mm whose marks fork has copied
 * @mm: the copy
 * @oldmm: mm of the current task
 */
static inline void numa_follow_dup_mm(struct mm_struct *mm,
				      struct mm_struct *oldmm)
{
	if (static_branch_unlikely(&numa_follow_marks.key) &&
	    test_bit(MMF_NUMA_FOLLOW, &oldmm->flags))
		__numa_follow_dup_mm(mm);
}

/**
 * numa_follow_exit_mm() - Uncount an mm whose page tables are freed
 * @mm: mm without users
 */
static inline void numa_follow_exit_mm(struct mm_struct *mm)
{
	if (static_branch_unlikely(&numa_follow_marks.key) &&
	    test_bit(MMF_NUMA_FOLLOW, &mm->flags))
		__numa_follow_exit_mm(mm);
}

/* ---- by the tick ---- */

void numa_follow_fork(struct task_struct *p);
void numa_follow_free(struct task_struct *p);
void __numa_follow_tick(struct task_struct *p);

/**
 * numa_follow_tick() - Note the node of the task that a tick interrupts
 * @p: task that runs on this CPU
 *
 * Called with interrupts off and without locks.
 */
static inline void numa_follow_tick(struct task_struct *p)
{
	if (static_branch_unlikely(&numa_follow_tasks))
		__numa_follow_tick(p);
}

/* ---- cpusets ---- */

void numa_follow_css_online(struct cgroup_subsys_state *css);
void numa_follow_css_offline(struct cgroup_subsys_state *css);
bool numa_follow_limits_of(struct task_struct *p,
			   struct numa_follow_limits *limits);
unsigned int __numa_follow_level(void);

/**
 * numa_follow_level() - Get cpuset.migrate_on_fault of the current task
 *
 * Return: the level, 0 to 3.
 */
static inline unsigned int numa_follow_level(void)
{
	if (static_branch_unlikely(&numa_follow_faults))
		return __numa_follow_level();
	return 0;
}

/* ---- faults on pages that are not mapped yet ---- */

bool __numa_follow_fault(struct vm_fault *vmf, vm_fault_t ret,
			 unsigned int level);
int __numa_follow_around(struct vm_fault *vmf, unsigned int level);
bool numa_follow_later(struct vm_area_struct *vma, unsigned long addr,
		       struct folio *folio);
struct folio *__numa_follow_swap(struct vm_fault *vmf, swp_entry_t entry,
				 struct folio *folio, unsigned int level);

/**
 * numa_follow_fault() - Move the page that ->fault() returned, if misplaced
 * @vmf: fault; no page table is locked
 * @ret: return value of the file's ->fault()
 *
 * Return: true if the reference to the page was dropped: the caller calls ->fault()
 * again.
 */
static inline bool numa_follow_fault(struct vm_fault *vmf, vm_fault_t ret)
{
	unsigned int level = numa_follow_level();

	return level && __numa_follow_fault(vmf, ret, level);
}

/**
 * numa_follow_around() - Get the node whose pages fault-around may map
 * @vmf: fault; no page table is locked
 *
 * Return: the node, and numa_follow_later() decides for each page of another node;
 * NUMA_FOLLOW_NONE if fault-around may map all pages.
 */
static inline int numa_follow_around(struct vm_fault *vmf)
{
	unsigned int level = numa_follow_level();

	return level ? __numa_follow_around(vmf, level) : NUMA_FOLLOW_NONE;
}

/**
 * numa_follow_leaves() - Check whether fault-around leaves out a page
 * @place: node from numa_follow_around()
 * @vma: VMA that the page is about to be mapped in, locked
 * @addr: address
 * @folio: folio of the page cache, locked; the page table is locked
 *
 * Return: true if the page is misplaced, and its own fault can move it.
 */
static inline bool numa_follow_leaves(int place, struct vm_area_struct *vma,
				      unsigned long addr, struct folio *folio)
{
	return place != NUMA_FOLLOW_NONE && folio_nid(folio) != place &&
	       numa_follow_later(vma, addr, folio);
}

/**
 * numa_follow_mapped() - Count pages that fault-around has mapped
 * @place: node from numa_follow_around()
 * @nr_pages: number of pages
 *
 * Each of them was compared with @place, or with the target node of its policy.
 */
static inline void numa_follow_mapped(int place, unsigned long nr_pages)
{
	if (place != NUMA_FOLLOW_NONE)
		count_vm_events(NUMA_FOLLOW_CHECKED, nr_pages);
}

/**
 * numa_follow_swap() - Move the folio that a fault has found in the swap cache, if misplaced
 * @vmf: fault; no page table is locked
 * @entry: its swap entry
 * @folio: the folio, with a reference, or NULL
 *
 * Return: the folio that the fault uses, with a reference, or NULL.
 */
static inline struct folio *numa_follow_swap(struct vm_fault *vmf,
					     swp_entry_t entry,
					     struct folio *folio)
{
	unsigned int level = folio ? numa_follow_level() : 0;

	if (level)
		return __numa_follow_swap(vmf, entry, folio, level);
	return folio;
}

#else /* !CONFIG_NUMA_FOLLOW */

#define NUMA_FOLLOW_FLAG	0

/* Macros: even an empty inline can change the code that gcc makes of the caller. */
#define numa_follow_request(mode, mode_flags, flags, lazy)	((void)(lazy), true)
#define numa_follow_takes(mm, start, end, lazy)			0
#define numa_follow_mark(mm, start, end, lazy)			do { } while (0)
#define numa_follow_misplaced(pol, ilx, folio, nid)		false
#define numa_follow_prepare(vmf, vma, folio, nid)	\
	migrate_misplaced_folio_prepare(folio, vma, nid)
#define numa_follow_pulled(vmf, nr_pages, nid)			do { } while (0)
#define numa_follow_failed(vmf, nr_pages)			do { } while (0)
#define numa_follow_promoted(lruvec, from, nid, nr_pages)	((void)(from))
#define numa_follow_show(m, vma, task)				do { } while (0)
#define numa_follow_init_mm(mm)					do { } while (0)
#define numa_follow_dup_mm(mm, oldmm)				do { } while (0)
#define numa_follow_exit_mm(mm)					do { } while (0)
#define numa_follow_fork(p)					do { } while (0)
#define numa_follow_free(p)					do { } while (0)
#define numa_follow_tick(p)					do { } while (0)
#define numa_follow_css_online(css)				do { } while (0)
#define numa_follow_css_offline(css)				do { } while (0)
#define numa_follow_fault(vmf, ret)				false
#define numa_follow_around(vmf)					NUMA_FOLLOW_NONE
#define numa_follow_leaves(place, vma, addr, folio)		((void)(place), false)
#define numa_follow_mapped(place, nr_pages)			do { } while (0)
#define numa_follow_swap(vmf, entry, folio)			(folio)

#endif /* CONFIG_NUMA_FOLLOW */

#endif /* _LINUX_NUMA_FOLLOW_H */
