/* SPDX-License-Identifier: GPL-2.0 */
/*
 * NUMA scanning: what its rooms know of each other.
 *
 *   fair.c: when (task_numa_work), and the walk (numa_scan_walk)
 *   visit.c: a slice of the walk, in whatever thread
 *   request.c: visits that take more than one slice, and who does the next
 *   async.c: the threads that do them elsewhere    window.c: where to look
 *   mode.c: the knobs
 *
 * Locking order (outer first):
 *
 *   numa_scan_mutex		the mode, the set of threads
 *     mmap_lock (read, trylock)	one slice of a walk
 *       page table lock
 *     numa_scan_lock		mm->numa_scan, the state of every request,
 *				the queues
 *
 * A request pins the mm_struct and the task, never the address space: mm_users
 * stays what the scanned task makes it, and exit never waits for more than a
 * slice.
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
 * enum numa_scan_mode - where the walk is done
 * @NUMA_SCAN_SYNC: in the scanned task, all of a visit at once
 * @NUMA_SCAN_ASYNC: in a thread, on an idle CPU of the task's cpuset
 * @NUMA_SCAN_SLICED: in the scanned task, a bounded time at every tick
 */
enum numa_scan_mode {
	NUMA_SCAN_SYNC,
	NUMA_SCAN_ASYNC,
	NUMA_SCAN_SLICED,
};

/**
 * enum numa_scan_state - who has a request
 * @NUMA_SCAN_ACTIVE: whoever runs a slice of it
 * @NUMA_SCAN_QUEUED: the queue of a thread
 * @NUMA_SCAN_TICK: the next tick of a thread of its mm
 */
enum numa_scan_state {
	NUMA_SCAN_ACTIVE,
	NUMA_SCAN_QUEUED,
	NUMA_SCAN_TICK,
};

/**
 * struct numa_scan - one visit of an address space
 * @task: for whom; its PID and node say what is worth a fault
 * @mm: what is walked
 * @pages: what is left of the visit, counting what had something to mark
 * @virtpages: what is left, counting everything
 * @pids_skipped: a VMA was left out because @task does not use it
 * @pids_forced: take such a VMA now, nothing else was found
 * @mof: policy of the task, for VMAs without their own, allows migration
 * @mode: how this slice is done
 * @state: who has it; numa_scan_lock
 * @dead: its mm exits; whoever has it frees it; numa_scan_lock
 * @paused: the slice ended before the visit
 * @resume: where the next slice starts, if not at the mm's own offset
 * @step_start: where the step at hand began, see numa_scan_step()
 * @step_end: where it ends
 * @step_paid: entries of it were changed, so that all of it counts
 * @deadline_ns: when the slice is to end; 0 for never
 * @began_ns: when it began
 * @took_ns: how long it took; 0 if nothing was done
 * @walked_ns: time of all slices of the visit
 * @nr_vmas: VMAs looked at in this slice
 * @nr_ptes: page table entries looked at in this slice
 * @nr_updates: of these, made to fault
 * @nr_skipped: pages outside of the windows in this slice
 * @tlb: gathers what is to be flushed at the end of the slice; NULL to flush
 *	at once
 * @node: the task's node during this slice
 * @since: jiffies since it has been waiting for an idle CPU
 * @all: all requests; numa_scan_lock
 * @queue: those of a thread; numa_scan_lock
 * @rcu: a tick may look at @state without the lock
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
 * struct numa_scan_config - the knobs, in the units of their files
 * @mode: kernel.numa_balancing_scan_mode
 * @slice_us: longest time in a row, in whatever thread
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
 * enum numa_scan_verdict - what became of a slice
 * @NUMA_SCAN_DONE: the visit is over
 * @NUMA_SCAN_MORE: there is more to do
 * @NUMA_SCAN_LOCKED: mmap_lock was not to be had
 * @NUMA_SCAN_GONE: nobody uses the address space any more, or its cgroup has opted out
 * @NUMA_SCAN_BUSY: there was no CPU for it
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

/* The walk has users in other files. */
#define numa_scan_shared

void numa_scan_walk(struct numa_scan *scan);

/* ---- called by fair.c: the trigger ---- */

/**
 * numa_scan_continue() - go on with a visit, if that is what the work is for
 * @p: the current task
 *
 * Return: true if it was, and the work is done.
 */
static inline bool numa_scan_continue(struct task_struct *p)
{
	return static_branch_unlikely(&numa_scan_key) && __numa_scan_continue(p);
}

/**
 * numa_scan_tick() - is there a slice for this task to do?
 * @p: the current task, in its tick
 *
 * Return: true if it has to return through task_numa_work().
 */
static inline bool numa_scan_tick(struct task_struct *p)
{
	return static_branch_unlikely(&numa_scan_key) && __numa_scan_tick(p);
}

/**
 * numa_scan_init_task() - nobody has scanned for a new task
 * @p: the task, a copy of its parent
 */
static inline void numa_scan_init_task(struct task_struct *p)
{
	atomic64_set(&p->numa_scan_remote_ns, 0);
	atomic64_set(&p->numa_scan_owed_ns, 0);
}

bool __numa_scan_one_node(void);

/**
 * numa_scan_one_node() - would a scan of the current task be for nothing?
 *
 * Return: true if its cpuset leaves its memory a single node.
 */
static inline bool numa_scan_one_node(void)
{
	return static_branch_unlikely(&numa_scan_windows_key) &&
	       __numa_scan_one_node();
}

#ifdef CONFIG_NUMA_SCAN_CPUSET

/**
 * numa_scan_opted_out() - Check, and count, that a scan is left out
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
 * numa_scan_unwanted() - Check whether a scan is to be left out
 * @mm: address space of the current task
 *
 * Return: true if nothing of it is to be marked.
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
 * numa_scan_from() - where the walk starts
 * @scan: the visit
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
 * numa_scan_next() - skip what nobody has used
 * @scan: the visit
 * @vma: the VMA
 * @start: an address in it
 *
 * Return: the next address worth a look; the end of @vma if there is none.
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
 * numa_scan_chunk() - how far to go before looking at the clock
 * @scan: the visit
 * @vma: the VMA
 * @start: where, from numa_scan_next()
 * @end: farthest
 *
 * Return: an address beyond @start, or the end of @vma.
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
 * @scan: the visit
 * @start: first address of the chunk
 * @end: its end, from numa_scan_chunk()
 * @nr: number of entries changed in it
 *
 * Return: number of pages to take off @scan->pages.
 */
static inline long numa_scan_cost(struct numa_scan *scan, unsigned long start,
				  unsigned long end, unsigned long nr)
{
	if (scan->deadline_ns)
		return numa_scan_step_cost(scan, start, end, nr);
	return nr ? (end - start) >> PAGE_SHIFT : 0;
}

#else /* !CONFIG_NUMA_SCAN_MODES: as if it were not there */

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

/* The walk: fair.c has it only for NUMA balancing, as it has what they call. */
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
