// SPDX-License-Identifier: GPL-2.0
/*
 * NUMA scanning: the threads that do it beside the scanned tasks.
 *
 * knumascand/N serves tasks that ran on node N when their visit was due. Before
 * each slice it looks for an idle CPU in the task's cpuset (not its affinity:
 * that is how CPUs are set apart for such work) other than the task's own, near
 * it first, and moves there. Cpusets and hotplug are thus followed from one
 * slice to the next. What a slice costs, with the way there, is posted to the
 * task as its own time.
 *
 * Without an idle CPU for async_delay_ms the visit goes back to the task, which
 * does it in slices. A visit of a group that its cpu.max has stopped is held: it
 * is for the time when the task runs again.
 *
 * Locking: the set of threads is changed under numa_scan_mutex; queues belong to
 * numa_scan_lock.
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

/**
 * struct numa_scan_thread - knumascand/N
 * @task: the thread
 * @queue: visits that wait for it; numa_scan_lock
 * @wait: where it sleeps
 * @allowed: scratch: where it may run for the visit at hand
 * @near: scratch: which of these it would rather have
 */
struct numa_scan_thread {
	struct task_struct *task;
	struct list_head queue;
	wait_queue_head_t wait;
	cpumask_var_t allowed;
	cpumask_var_t near;
};

/* By node; NULL while there is none. Changed under both locks. */
static struct numa_scan_thread *numa_scan_threads[MAX_NUMNODES];

/**
 * numa_scan_enqueue() - hand a visit to a thread
 * @scan: the visit, active
 * @nid: the node of the CPU that its task runs on
 *
 * Return: false if there is no thread; then nothing has changed.
 */
bool numa_scan_enqueue(struct numa_scan *scan, int nid)
{
	struct numa_scan_thread *t;

	spin_lock(&numa_scan_lock);
	t = numa_scan_threads[nid];
	if (t) {
		WRITE_ONCE(scan->state, NUMA_SCAN_QUEUED);
		list_add_tail(&scan->queue, &t->queue);
		/* Under the lock: a thread that is gone is not in the array. */
		wake_up(&t->wait);
	}
	spin_unlock(&numa_scan_lock);
	return t;
}

/* A CPU that has nothing to do but, perhaps, run this very thread. */
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
 * Where a slice for @p may run: its cpuset, without CPUs set apart for others
 * unless there is nothing else in it. False if that is no more than its own CPU.
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

/* Go to an idle CPU of the task's cpuset; false if there is none now. */
static bool numa_scan_go(struct numa_scan_thread *t, struct task_struct *p)
{
	int cpu, own = task_cpu(p);

	cpu = numa_scan_find(t->near, own);
	if (cpu >= nr_cpu_ids)
		cpu = numa_scan_find(t->allowed, own);
	if (cpu >= nr_cpu_ids || set_cpus_allowed_ptr(current, cpumask_of(cpu)))
		return false;
	if (task_nice(current) != task_nice(p))
		set_user_nice(current, task_nice(p));
	/* The cpuset may have changed on the way. */
	cpuset_cpus_allowed(p, t->allowed);
	return raw_smp_processor_id() == cpu && cpumask_test_cpu(cpu, t->allowed);
}

#ifdef CONFIG_CFS_BANDWIDTH
/* Has cpu.max stopped the task's group? Only a hint. */
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

/* All of it is the task's; only the walk sets its pace, as it does in the task. */
static void numa_scan_charge(struct task_struct *p, u64 ns, u64 walk_ns)
{
	atomic64_add(min(ns, walk_ns), &p->numa_scan_owed_ns);
	atomic64_add(ns, &p->numa_scan_remote_ns);
	remote_charge_post(p, ns);
}

/* One slice of a visit; it may be gone afterwards. False if nothing was done. */
static bool numa_scan_serve(struct numa_scan_thread *t, struct numa_scan *scan)
{
	unsigned long delay =
		msecs_to_jiffies(READ_ONCE(numa_scan_conf.async_delay_ms));
	enum numa_scan_verdict verdict = NUMA_SCAN_BUSY;
	struct list_head *next = &t->queue;
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
		count_vm_event(NUMA_SCAN_FALLBACKS);
	numa_scan_charge(p, task_sched_runtime(current) - ran, scan->took_ns);
	numa_scan_give_back(scan, next, verdict);
	return verdict != NUMA_SCAN_BUSY && verdict != NUMA_SCAN_LOCKED;
}

static bool numa_scan_queued(struct numa_scan_thread *t)
{
	return !list_empty_careful(&t->queue);
}

/* Nobody's CPU: where the thread is when it is woken, and decides. */
static void numa_scan_go_home(void)
{
	set_cpus_allowed_ptr(current, housekeeping_cpumask(HK_TYPE_KTHREAD));
	set_user_nice(current, 0);
}

static int numa_scan_threadfn(void *arg)
{
	struct numa_scan_thread *t = arg;
	struct numa_scan *scan;

	set_freezable();
	while (!kthread_freezable_should_stop(NULL)) {
		scan = numa_scan_take(&t->queue);
		if (!scan) {
			numa_scan_go_home();
			wait_event_freezable(t->wait, numa_scan_queued(t) ||
					     kthread_should_stop());
			continue;
		}
		/* No CPU for this one: look again a tick later, not all the time. */
		if (!numa_scan_serve(t, scan) && numa_scan_queued(t))
			wait_event_freezable_timeout(t->wait,
						     kthread_should_stop(), 1);
		cond_resched();
	}
	return 0;
}

static void numa_scan_thread_free(struct numa_scan_thread *t)
{
	free_cpumask_var(t->allowed);
	free_cpumask_var(t->near);
	kfree(t);
}

static int numa_scan_thread_start(int nid)
{
	struct numa_scan_thread *t = kzalloc(sizeof(*t), GFP_KERNEL);
	struct task_struct *task = ERR_PTR(-ENOMEM);

	if (!t)
		return -ENOMEM;
	INIT_LIST_HEAD(&t->queue);
	init_waitqueue_head(&t->wait);
	if (zalloc_cpumask_var(&t->allowed, GFP_KERNEL) &&
	    zalloc_cpumask_var(&t->near, GFP_KERNEL))
		task = kthread_create_on_node(numa_scan_threadfn, t, nid,
					      "knumascand/%d", nid);
	if (IS_ERR(task)) {
		numa_scan_thread_free(t);
		return PTR_ERR(task);
	}
	t->task = task;
	/* Its affinity is its own business: user space cannot set it. */
	task->flags |= PF_NO_SETAFFINITY;
	spin_lock(&numa_scan_lock);
	numa_scan_threads[nid] = t;
	spin_unlock(&numa_scan_lock);
	wake_up_process(task);
	return 0;
}

static void numa_scan_thread_stop(int nid)
{
	struct numa_scan_thread *t = numa_scan_threads[nid];

	if (!t)
		return;
	spin_lock(&numa_scan_lock);
	numa_scan_threads[nid] = NULL;
	spin_unlock(&numa_scan_lock);
	kthread_stop(t->task);
	numa_scan_cancel(&t->queue);
	numa_scan_thread_free(t);
}

/**
 * numa_scan_async_start() - start the threads
 *
 * Nodes whose first CPU comes later have none: their tasks are scanned in
 * slices.
 *
 * Return: 0 or an error; then there is none.
 */
int numa_scan_async_start(void)
{
	int nid, ret;

	lockdep_assert_held(&numa_scan_mutex);

	for_each_node_state(nid, N_CPU) {
		ret = numa_scan_thread_start(nid);
		if (ret) {
			numa_scan_async_stop();
			return ret;
		}
	}
	return 0;
}

/**
 * numa_scan_async_stop() - stop the threads and wait for them
 */
void numa_scan_async_stop(void)
{
	int nid;

	lockdep_assert_held(&numa_scan_mutex);

	for_each_node(nid)
		numa_scan_thread_stop(nid);
}
