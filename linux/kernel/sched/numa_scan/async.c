// SPDX-License-Identifier: GPL-2.0
/*
 * NUMA scanning: kernel threads that scan for tasks.
 *
 * The threads knumascand/N:0, knumascand/N:1, ... serve tasks that ran on node N when
 * their scan pass was due. There is one thread for each four CPUs of the node, so that a
 * pass that waits for its CPU or for mmap_lock does not delay other processes. Before
 * each slice a thread moves to an idle CPU, near the task if possible. The CPU must be in
 * the task's cpuset and other than the task's own; the affinity of the task does not
 * matter, since cpusets are the means to reserve CPUs for such work. So changes of
 * cpusets and hotplug take effect with the next slice. The time of a slice, and of the
 * migration to the CPU, is charged to the task.
 *
 * The threads run at nice 0, whatever the nice value of the task is. With a lower
 * priority, or SCHED_IDLE, the next task that wakes on the CPU would preempt the thread
 * while it holds mmap_lock, and threads of the scanned process would wait for both. A
 * slice is short, and the task pays for it.
 *
 * If no CPU is idle for async_delay_ms, the pass returns to the task, which does it in
 * slices. A pass for a group that is throttled by cpu.max is held until the task runs
 * again.
 *
 * Locking: numa_scan_mutex for changes of the set of threads; numa_scan_lock for the
 * queues.
 */
#include <linux/cpuset.h>
#include <linux/freezer.h>
#include <linux/kthread.h>
#include <linux/mmu_context.h>
#include <linux/sched/cputime.h>
#include <linux/sched/isolation.h>
#include <linux/sched/remote_charge.h>
#include <linux/slab.h>
#include <linux/vmstat.h>
#include <linux/wait.h>

#include "../sched.h"
#include "numa_scan.h"

/* CPUs of a node per thread, and the most threads of a node */
#define NUMA_SCAN_THREAD_CPUS	4
#define NUMA_SCAN_THREADS_MAX	8

/**
 * struct numa_scan_thread - knumascand/N:M
 * @task: the thread
 * @node: its node
 * @allowed: scratch: CPUs allowed for the current pass
 * @near: scratch: those of @allowed on the node of the task
 */
struct numa_scan_thread {
	struct task_struct *task;
	struct numa_scan_node *node;
	cpumask_var_t allowed;
	cpumask_var_t near;
};

/**
 * struct numa_scan_node - threads of a node
 * @queue: scan passes that wait for a thread; numa_scan_lock
 * @wait: idle threads
 * @nr: number of threads
 * @threads: the threads
 */
struct numa_scan_node {
	struct list_head queue;
	wait_queue_head_t wait;
	unsigned int nr;
	struct numa_scan_thread threads[NUMA_SCAN_THREADS_MAX];
};

/* By node; NULL for a node without threads. Changed under both locks. */
static struct numa_scan_node *numa_scan_nodes[MAX_NUMNODES];

/**
 * numa_scan_enqueue() - Queue a scan pass for a thread
 * @scan: the scan pass, active
 * @nid: node of the CPU that its task runs on
 *
 * Return: false if there is no thread; then nothing has changed.
 */
bool numa_scan_enqueue(struct numa_scan *scan, int nid)
{
	struct numa_scan_node *node;

	spin_lock(&numa_scan_lock);
	node = numa_scan_nodes[nid];
	if (node) {
		WRITE_ONCE(scan->state, NUMA_SCAN_QUEUED);
		list_add_tail(&scan->queue, &node->queue);
		/*
		 * Under the lock: a node whose threads have stopped is not in the array.
		 */
		wake_up(&node->wait);
	}
	spin_unlock(&numa_scan_lock);
	return node;
}

/* Check for a CPU that is idle, or runs only this thread. */
static bool numa_scan_cpu_free(int cpu)
{
	if (cpu == raw_smp_processor_id())
		return single_task_running();
	return available_idle_cpu(cpu);
}

static int numa_scan_find(const struct cpumask *mask, int not)
{
	int cpu;

	for_each_cpu_wrap(cpu, mask, not + 1)
		if (cpu != not && numa_scan_cpu_free(cpu))
			return cpu;
	return nr_cpu_ids;
}

/*
 * Set the CPUs on which a slice for @p may run: its cpuset, without isolated CPUs unless
 * the cpuset has no others. Returns false if only the task's own CPU is left.
 */
static bool numa_scan_allowed(struct numa_scan_thread *t, struct task_struct *p)
{
	int own = task_cpu(p);

	cpuset_cpus_allowed(p, t->allowed);
	cpumask_and(t->allowed, t->allowed, cpu_active_mask);
	if (cpumask_and(t->near, t->allowed,
			housekeeping_cpumask(HK_TYPE_DOMAIN)) &&
	    cpumask_and(t->near, t->near,
			housekeeping_cpumask(HK_TYPE_TICK)))
		cpumask_copy(t->allowed, t->near);
	cpumask_and(t->near, t->allowed, cpumask_of_node(cpu_to_node(own)));
	return cpumask_any_but(t->allowed, own) < nr_cpu_ids;
}

/* Move to an idle CPU of the task's cpuset; returns false if there is none now. */
static bool numa_scan_go(struct numa_scan_thread *t, struct task_struct *p)
{
	int cpu, own = task_cpu(p);

	cpu = numa_scan_find(t->near, own);
	if (cpu >= nr_cpu_ids)
		cpu = numa_scan_find(t->allowed, own);
	if (cpu >= nr_cpu_ids || set_cpus_allowed_ptr(current, cpumask_of(cpu)))
		return false;
	/* The cpuset may have changed during the migration. */
	cpuset_cpus_allowed(p, t->allowed);
	return raw_smp_processor_id() == cpu && cpumask_test_cpu(cpu, t->allowed);
}

#ifdef CONFIG_CFS_BANDWIDTH
/* Check whether cpu.max has throttled the task's group. Only a hint. */
static bool numa_scan_throttled(struct task_struct *p)
{
	bool throttled;

	rcu_read_lock();
	throttled = READ_ONCE(task_group(p)->cfs_rq[task_cpu(p)]->throttle_count);
	rcu_read_unlock();
	return throttled;
}
#else
static bool numa_scan_throttled(struct task_struct *p)
{
	return false;
}
#endif

/*
 * Charge all of the time to the task. Only the time of the walk sets the pace of its
 * scans.
 */
static void numa_scan_charge(struct numa_scan *scan, u64 ns,
			     enum numa_scan_verdict verdict)
{
	struct task_struct *p = scan->task;

	atomic64_add(numa_scan_walked(scan, ns, verdict), &p->numa_scan_owed_ns);
	atomic64_add(ns, &p->numa_scan_remote_ns);
	remote_charge_post(p, ns);
}

/* Do one slice of a scan pass, which may be freed. Returns false if nothing was done. */
static bool numa_scan_serve(struct numa_scan_thread *t, struct numa_scan *scan)
{
	unsigned long delay =
		msecs_to_jiffies(READ_ONCE(numa_scan_conf.async_delay_ms));
	enum numa_scan_verdict verdict = NUMA_SCAN_BUSY;
	struct list_head *next = &t->node->queue;
	struct task_struct *p = scan->task;
	u64 ran = task_sched_runtime(current);
	bool alone = false;

	scan->took_ns = 0;
	if (!READ_ONCE(p->mm)) {
		verdict = NUMA_SCAN_GONE;
	} else if (numa_scan_throttled(p)) {
		count_vm_event(NUMA_SCAN_HELD);
		scan->since = jiffies;
	} else {
		alone = !numa_scan_allowed(t, p);
		if (!alone && numa_scan_go(t, p))
			verdict = numa_scan_slice(scan, NUMA_SCAN_ASYNC);
	}
	if (verdict == NUMA_SCAN_MORE)
		scan->since = jiffies;
	else if ((alone || time_after_eq(jiffies, scan->since + delay)) &&
		 (verdict == NUMA_SCAN_BUSY || verdict == NUMA_SCAN_LOCKED))
		next = NULL;
	if (!next)
		count_vm_event(verdict == NUMA_SCAN_LOCKED ?
			       NUMA_SCAN_FALLBACKS_LOCKED : NUMA_SCAN_FALLBACKS);
	numa_scan_charge(scan, task_sched_runtime(current) - ran, verdict);
	numa_scan_give_back(scan, next, verdict);
	return verdict != NUMA_SCAN_BUSY && verdict != NUMA_SCAN_LOCKED;
}

static bool numa_scan_queued(struct numa_scan_node *node)
{
	return !list_empty_careful(&node->queue);
}

/* An idle thread may be woken on any housekeeping CPU. */
static void numa_scan_go_home(void)
{
	set_cpus_allowed_ptr(current, housekeeping_cpumask(HK_TYPE_KTHREAD));
}

/* Each queued pass wakes one idle thread. */
static void numa_scan_idle(struct numa_scan_node *node)
{
	numa_scan_go_home();
	___wait_event(node->wait, numa_scan_queued(node) || kthread_should_stop(),
		      (TASK_INTERRUPTIBLE | TASK_FREEZABLE), 1, 0, schedule());
}

static int numa_scan_threadfn(void *arg)
{
	struct numa_scan_thread *t = arg;
	struct numa_scan *scan;

	set_freezable();
	while (!kthread_freezable_should_stop(NULL)) {
		scan = numa_scan_take(&t->node->queue);
		if (!scan) {
			numa_scan_idle(t->node);
			continue;
		}
		/* Without a CPU for this pass, try again after a tick. */
		if (!numa_scan_serve(t, scan) && numa_scan_queued(t->node))
			wait_event_freezable_timeout(t->node->wait,
						     kthread_should_stop(), 1);
		cond_resched();
	}
	return 0;
}

static int numa_scan_thread_start(struct numa_scan_node *node, int nid)
{
	struct numa_scan_thread *t = &node->threads[node->nr];
	struct task_struct *task = ERR_PTR(-ENOMEM);

	t->node = node;
	if (zalloc_cpumask_var(&t->allowed, GFP_KERNEL) &&
	    zalloc_cpumask_var(&t->near, GFP_KERNEL))
		task = kthread_create_on_node(numa_scan_threadfn, t, nid,
					      "knumascand/%d:%u", nid, node->nr);
	if (IS_ERR(task)) {
		free_cpumask_var(t->allowed);
		free_cpumask_var(t->near);
		return PTR_ERR(task);
	}
	t->task = task;
	/* The thread chooses its CPUs; user space must not set its affinity. */
	task->flags |= PF_NO_SETAFFINITY;
	node->nr++;
	wake_up_process(task);
	return 0;
}

static void numa_scan_threads_stop(struct numa_scan_node *node)
{
	unsigned int i;

	for (i = 0; i < node->nr; i++) {
		kthread_stop(node->threads[i].task);
		free_cpumask_var(node->threads[i].allowed);
		free_cpumask_var(node->threads[i].near);
	}
}

static int numa_scan_node_start(int nid)
{
	struct numa_scan_node *node = kzalloc(sizeof(*node), GFP_KERNEL);
	unsigned int want = DIV_ROUND_UP(cpumask_weight(cpumask_of_node(nid)),
					 NUMA_SCAN_THREAD_CPUS);
	int ret = 0;

	if (!node)
		return -ENOMEM;
	INIT_LIST_HEAD(&node->queue);
	init_waitqueue_head(&node->wait);
	/* At least one: a CPU can go offline at any time. */
	want = clamp_t(unsigned int, want, 1, NUMA_SCAN_THREADS_MAX);
	while (!ret && node->nr < want)
		ret = numa_scan_thread_start(node, nid);
	if (ret) {
		numa_scan_threads_stop(node);
		kfree(node);
		return ret;
	}
	spin_lock(&numa_scan_lock);
	numa_scan_nodes[nid] = node;
	spin_unlock(&numa_scan_lock);
	return 0;
}

static void numa_scan_node_stop(int nid)
{
	struct numa_scan_node *node = numa_scan_nodes[nid];

	if (!node)
		return;
	spin_lock(&numa_scan_lock);
	numa_scan_nodes[nid] = NULL;
	spin_unlock(&numa_scan_lock);
	numa_scan_threads_stop(node);
	numa_scan_cancel(&node->queue);
	kfree(node);
}

/**
 * numa_scan_async_start() - Start the threads
 *
 * A node that gets its first CPU later has no thread: its tasks are scanned in slices.
 *
 * Return: 0 or an error; then there are no threads.
 */
int numa_scan_async_start(void)
{
	int nid, ret;

	lockdep_assert_held(&numa_scan_mutex);

	for_each_node_state(nid, N_CPU) {
		ret = numa_scan_node_start(nid);
		if (ret) {
			numa_scan_async_stop();
			return ret;
		}
	}
	return 0;
}

/**
 * numa_scan_async_stop() - Stop the threads and wait for them
 */
void numa_scan_async_stop(void)
{
	int nid;

	lockdep_assert_held(&numa_scan_mutex);

	for_each_node(nid)
		numa_scan_node_stop(nid);
}
