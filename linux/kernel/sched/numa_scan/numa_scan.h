/* SPDX-License-Identifier: GPL-2.0 */
/*
 * NUMA scanning: internal interfaces.
 *
 * A scan pass over an address space ("visit" in the file names) is done in one or more
 * slices.
 *
 * fair.c:     the time of a pass (task_numa_work), and the walk (numa_scan_walk)
 * visit.c:    a slice of the walk, in any thread
 * request.c:  passes of more than one slice, and the thread that does the next slice
 * async.c:    kernel threads that do slices
 * window.c:   the ranges to scan
 * mode.c:     mode and tunables
 *
 * Locking order (outer first):
 *
 * numa_scan_mutex		the mode, the set of threads
 * mmap_lock (read, trylock)	one slice of a walk
 * page table lock
 * numa_scan_lock		mm->numa_scan, the state of every request, the queues
 *
 * A request pins the mm_struct and the task, never the users of the address space:
 * mm_users is not changed, and exit waits for one slice at most.
 */
#ifndef _KERNEL_SCHED_NUMA_SCAN_H
#define _KERNEL_SCHED_NUMA_SCAN_H

#include <linux/jump_label.h>
#include <linux/list.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/numa_scan.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/vmstat.h>

/**
 * enum numa_scan_mode - context of the walk
 * @NUMA_SCAN_SYNC: in the scanned task, a whole pass at once
 * @NUMA_SCAN_ASYNC: in a kernel thread, on an idle CPU of the task's cpuset
 * @NUMA_SCAN_SLICED: in the scanned task, a bounded time at every tick
 */
enum numa_scan_mode {
	NUMA_SCAN_SYNC,
	NUMA_SCAN_ASYNC,
	NUMA_SCAN_SLICED,
};

/**
 * enum numa_scan_state - owner of a request
 * @NUMA_SCAN_ACTIVE: the thread that runs a slice of it
 * @NUMA_SCAN_QUEUED: the queue of a kernel thread
 * @NUMA_SCAN_TICK: the next tick of a thread of its mm
 */
enum numa_scan_state {
	NUMA_SCAN_ACTIVE,
	NUMA_SCAN_QUEUED,
	NUMA_SCAN_TICK,
};

/**
 * struct numa_scan - scan pass over an address space
 * @task: scanned task; its PID and node decide which pages need a fault
 * @mm: scanned address space
 * @pages: rest of the budget, in pages of chunks with changed entries
 * @virtpages: rest of the budget, in pages of all chunks
 * @pids_skipped: a VMA was skipped because @task does not use it
 * @pids_forced: scan such a VMA now, because no other one was found
 * @mof: the task's policy, for VMAs without their own, allows migration on fault
 * @mode: context of this slice
 * @state: owner; numa_scan_lock
 * @dead: its mm exits; the owner frees the request; numa_scan_lock
 * @paused: the slice ended before the pass
 * @resume: start of the next slice, if not the offset of the mm
 * @step_start: start of the current step, see numa_scan_step()
 * @step_end: its end
 * @step_paid: entries of the step were changed, so that the whole step counts
 * @deadline_ns: end of the slice; 0 for none
 * @began_ns: start of the slice
 * @took_ns: duration of the slice; 0 if nothing was done
 * @walked_ns: total time of the slices of the pass
 * @nr_vmas: VMAs visited in this slice
 * @nr_ptes: page table entries scanned in this slice
 * @nr_updates: entries made to fault in this slice
 * @nr_skipped: pages outside of the windows in this slice
 * @tlb: gathers the flushes of the slice; NULL to flush at once
 * @node: node of the task during this slice
 * @since: start of the wait for an idle CPU; jiffies
 * @all: list of all requests; numa_scan_lock
 * @queue: queue of a thread; numa_scan_lock
 * @rcu: a tick may read @state without the lock
 */
struct numa_scan {
	struct task_struct *task;
	struct mm_struct *mm;
	long pages;
	long virtpages;
	bool pids_skipped;
	bool pids_forced;
#ifdef CONFIG_NUMA_SCAN_MODES
	bool mof;
	enum numa_scan_mode mode;
	enum numa_scan_state state;
	bool dead;
	bool paused;
	unsigned long resume;
	unsigned long step_start;
	unsigned long step_end;
	bool step_paid;
	u64 deadline_ns;
	u64 began_ns;
	u64 took_ns;
	u64 walked_ns;
	unsigned long nr_vmas;
	unsigned long nr_ptes;
	unsigned long nr_updates;
	unsigned long nr_skipped;
	struct mmu_gather *tlb;
	int node;
	unsigned long since;
	struct list_head all;
	struct list_head queue;
	struct rcu_head rcu;
#endif
};

struct seq_file;

#ifdef CONFIG_NUMA_SCAN_MODES

/**
 * struct numa_scan_config - tunables, in the units of their files
 * @mode: kernel.numa_balancing_scan_mode
 * @slice_us: longest duration of a slice, in any thread
 * @async_delay_ms: longest wait for an idle CPU
 */
struct numa_scan_config {
	enum numa_scan_mode mode;
	unsigned int slice_us;
	unsigned int async_delay_ms;
};

extern struct numa_scan_config numa_scan_conf;
extern struct mutex numa_scan_mutex;
extern spinlock_t numa_scan_lock;
DECLARE_STATIC_KEY_FALSE(numa_scan_key);

/* ---- visit.c ---- */

/**
 * enum numa_scan_verdict - result of a slice
 * @NUMA_SCAN_DONE: the pass is finished
 * @NUMA_SCAN_MORE: the pass is not finished
 * @NUMA_SCAN_LOCKED: mmap_lock was not available
 * @NUMA_SCAN_GONE: the address space has no users, or its cgroup has opted out
 * @NUMA_SCAN_BUSY: no CPU was available
 */
enum numa_scan_verdict {
	NUMA_SCAN_DONE,
	NUMA_SCAN_MORE,
	NUMA_SCAN_LOCKED,
	NUMA_SCAN_GONE,
	NUMA_SCAN_BUSY,
};

enum numa_scan_verdict numa_scan_slice(struct numa_scan *scan,
				       enum numa_scan_mode mode);

/* ---- request.c ---- */

bool numa_scan_dispatch(struct numa_scan *visit);
u64 numa_scan_walked(struct numa_scan *scan, u64 ns,
		     enum numa_scan_verdict verdict);
bool __numa_scan_continue(struct task_struct *p);
bool __numa_scan_tick(struct task_struct *p);
struct numa_scan *numa_scan_take(struct list_head *queue);
void numa_scan_give_back(struct numa_scan *scan, struct list_head *queue,
			 enum numa_scan_verdict verdict);
void numa_scan_cancel(struct list_head *queue);
unsigned long numa_scan_requests(void);
void numa_scan_show(struct task_struct *p, struct seq_file *m);

/* ---- async.c ---- */

bool numa_scan_enqueue(struct numa_scan *scan, int nid);
int numa_scan_async_start(void);
void numa_scan_async_stop(void);

/* ---- window.c ---- */

unsigned long __numa_scan_next(struct numa_scan *scan,
			       struct vm_area_struct *vma, unsigned long start);
unsigned long __numa_scan_run_end(struct numa_scan *scan,
				  struct vm_area_struct *vma,
				  unsigned long start, unsigned long end);

/* ---- fair.c ---- */

/* The walk is also called from other files. */
#define numa_scan_shared

void numa_scan_walk(struct numa_scan *scan);

/* ---- called by fair.c: start of a pass ---- */

/**
 * numa_scan_continue() - Continue a scan pass, if one waits for this task
 * @p: the current task
 *
 * Return: true if a slice was done.
 */
static inline bool numa_scan_continue(struct task_struct *p)
{
	return static_branch_unlikely(&numa_scan_key) && __numa_scan_continue(p);
}

/**
 * numa_scan_tick() - Check for a slice that this task has to do
 * @p: the current task, in its tick
 *
 * Return: true if it has to return through task_numa_work().
 */
static inline bool numa_scan_tick(struct task_struct *p)
{
	return static_branch_unlikely(&numa_scan_key) && __numa_scan_tick(p);
}

/**
 * numa_scan_init_task() - Initialize the scan counters of a new task
 * @p: the task, a copy of its parent
 */
static inline void numa_scan_init_task(struct task_struct *p)
{
	atomic64_set(&p->numa_scan_remote_ns, 0);
	atomic64_set(&p->numa_scan_owed_ns, 0);
}

bool __numa_scan_one_node(void);

/**
 * numa_scan_one_node() - Check whether a scan of the current task is useless
 *
 * Return: true if its cpuset allows its memory a single node only.
 */
static inline bool numa_scan_one_node(void)
{
	return static_branch_unlikely(&numa_scan_windows_key) &&
	       __numa_scan_one_node();
}

#ifdef CONFIG_NUMA_SCAN_CPUSET

/**
 * numa_scan_opted_out() - Check for an opt-out, and count it
 * @mm: the address space
 *
 * Return: true if its cgroup has opted out.
 */
static inline bool numa_scan_opted_out(struct mm_struct *mm)
{
	if (!numa_scan_off(mm))
		return false;
	count_vm_event(NUMA_SCAN_OPTED_OUT);
	return true;
}

#else

static inline bool numa_scan_opted_out(struct mm_struct *mm)
{
	return false;
}

#endif /* CONFIG_NUMA_SCAN_CPUSET */

/**
 * numa_scan_unwanted() - Check whether to skip a scan
 * @mm: address space of the current task
 *
 * Return: true if none of its pages should be marked.
 */
static inline bool numa_scan_unwanted(struct mm_struct *mm)
{
	return numa_scan_one_node() || numa_scan_opted_out(mm);
}

void numa_scan_begin(struct numa_scan *scan);
void numa_scan_end(struct numa_scan *scan);

/* ---- called by fair.c: the walk ---- */

unsigned long numa_scan_protect(struct numa_scan *scan,
				struct vm_area_struct *vma,
				unsigned long start, unsigned long end);
bool numa_scan_vma_mof(struct numa_scan *scan, struct vm_area_struct *vma);
bool numa_scan_over(struct numa_scan *scan, struct vm_area_struct *vma,
		    unsigned long end);
bool numa_scan_pause(struct numa_scan *scan, struct vm_area_struct *vma);
unsigned long numa_scan_step(struct numa_scan *scan, unsigned long start,
			     unsigned long end);
long numa_scan_step_cost(struct numa_scan *scan, unsigned long start,
			 unsigned long end, unsigned long nr);

/**
 * numa_scan_from() - Get the start address of the walk
 * @scan: the scan pass
 *
 * Return: the address.
 */
static inline unsigned long numa_scan_from(struct numa_scan *scan)
{
	unsigned long from = scan->resume ?: scan->mm->numa_scan_offset;

	scan->resume = 0;
	return from;
}

/**
 * numa_scan_next() - Skip slots without recent accesses
 * @scan: the scan pass
 * @vma: the VMA
 * @start: an address in it
 *
 * Return: the next address to scan; the end of @vma if there is none.
 */
static inline unsigned long numa_scan_next(struct numa_scan *scan,
					   struct vm_area_struct *vma,
					   unsigned long start)
{
	if (!static_branch_unlikely(&numa_scan_windows_key))
		return start;
	return __numa_scan_next(scan, vma, start);
}

/**
 * numa_scan_chunk() - Get the end of the range to walk until the time is checked
 * @scan: the scan pass
 * @vma: the VMA
 * @start: start of the range, from numa_scan_next()
 * @end: upper limit
 *
 * Return: an address greater than @start, or the end of @vma.
 */
static inline unsigned long numa_scan_chunk(struct numa_scan *scan,
					    struct vm_area_struct *vma,
					    unsigned long start,
					    unsigned long end)
{
	if (static_branch_unlikely(&numa_scan_windows_key))
		end = __numa_scan_run_end(scan, vma, start, end);
	return scan->deadline_ns ? numa_scan_step(scan, start, end) : end;
}

/**
 * numa_scan_cost() - Get the part of the budget that a chunk uses up
 * @scan: the scan pass
 * @start: first address of the chunk
 * @end: its end, from numa_scan_chunk()
 * @nr: number of entries changed in it
 *
 * Return: number of pages to subtract from @scan->pages.
 */
static inline long numa_scan_cost(struct numa_scan *scan, unsigned long start,
				  unsigned long end, unsigned long nr)
{
	if (scan->deadline_ns)
		return numa_scan_step_cost(scan, start, end, nr);
	return nr ? (end - start) >> PAGE_SHIFT : 0;
}

#else /* !CONFIG_NUMA_SCAN_MODES: unmodified behaviour */

#define numa_scan_shared			static __always_inline
static inline bool numa_scan_continue(struct task_struct *p)
{
	return false;
}

static inline bool numa_scan_tick(struct task_struct *p)
{
	return false;
}

static inline bool numa_scan_unwanted(struct mm_struct *mm)
{
	return false;
}

static inline bool numa_scan_dispatch(struct numa_scan *visit)
{
	return false;
}

static inline void numa_scan_init_task(struct task_struct *p) { }
static inline void numa_scan_begin(struct numa_scan *scan) { }
static inline void numa_scan_end(struct numa_scan *scan) { }
static inline void numa_scan_show(struct task_struct *p, struct seq_file *m) { }

/* fair.c has the walk only with NUMA balancing, as the functions that these call. */
#ifdef CONFIG_NUMA_BALANCING

static inline unsigned long numa_scan_from(struct numa_scan *scan)
{
	return scan->mm->numa_scan_offset;
}

static inline bool numa_scan_vma_mof(struct numa_scan *scan,
				     struct vm_area_struct *vma)
{
	return vma_policy_mof(vma);
}

static inline unsigned long numa_scan_next(struct numa_scan *scan,
					   struct vm_area_struct *vma,
					   unsigned long start)
{
	return start;
}

static inline unsigned long numa_scan_chunk(struct numa_scan *scan,
					    struct vm_area_struct *vma,
					    unsigned long start,
					    unsigned long end)
{
	return end;
}

static inline long numa_scan_cost(struct numa_scan *scan, unsigned long start,
				  unsigned long end, unsigned long nr)
{
	return nr ? (end - start) >> PAGE_SHIFT : 0;
}

static inline unsigned long numa_scan_protect(struct numa_scan *scan,
					      struct vm_area_struct *vma,
					      unsigned long start,
					      unsigned long end)
{
	return change_prot_numa(vma, start, end);
}

static inline bool numa_scan_over(struct numa_scan *scan,
				  struct vm_area_struct *vma, unsigned long end)
{
	return false;
}

static inline bool numa_scan_pause(struct numa_scan *scan,
				   struct vm_area_struct *vma)
{
	return false;
}

#endif /* CONFIG_NUMA_BALANCING */

#endif /* CONFIG_NUMA_SCAN_MODES */

#endif /* _KERNEL_SCHED_NUMA_SCAN_H */
