// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic migration: the memory of a task follows it to another node.
 *
 * Every tick compares the node of its CPU with the home of the task that it
 * interrupts.  A task that stays on another node for the settle time, and whose
 * last move is an interval ago, gets a piece of task work; on its way back to user
 * mode that decides, makes the new node its home, and walks the address space,
 * a slice for every tick (slice.c).  The first tick of a task, and of a program
 * after exec, only says where home is.
 *
 * Why the tick and not set_task_cpu(): nothing is done under the locks of run
 * queues, moves that do not last cost nothing, and it is the same for every
 * scheduling class.  The price is that a move is seen up to a tick late, and that
 * who never runs when a tick comes, or runs on a CPU without ticks (nohz_full), is
 * not seen at all.
 *
 * Locks: a task's state belongs to its work while that is queued or runs, and
 * else to the tick on the CPU that the task runs on: no lock.  Who walks for a
 * process is in its leader, under siglock; nothing is taken inside of it.
 * See Documentation/admin-guide/mm/auto_migrate.rst.
 */
#include <linux/cpumask.h>
#include <linux/cpuset.h>
#include <linux/jiffies.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/sched/sysctl.h>
#include <linux/sched/task.h>
#include <linux/task_work.h>
#include <linux/topology.h>

#include "../lazy_migrate/count.h"
#include "auto_migrate.h"

#define CREATE_TRACE_POINTS
#include <trace/events/auto_migrate.h>

/* So long a task has to be on another node before it is at home there */
#define SETTLE		msecs_to_jiffies(100)
/* Who walks for its process shows every tick that it is still there. */
#define LEASE		HZ

static bool due(struct auto_migrate_place *place, int node,
		const struct auto_migrate_limits *limits)
{
	return auto_seen(place, node, jiffies, SETTLE, limits->interval_s * HZ);
}

/* Nothing is known of this program yet. */
static void begin(struct auto_migrate_task *a, u64 exec_id)
{
	a->place = (struct auto_migrate_place) { 0 };
	auto_settle(&a->place, NUMA_NO_NODE);
	a->walk = (struct auto_migrate_walk) { 0 };
	a->pulling = false;
	a->exec_id = exec_id;
}

/* No longer, or not yet, of interest: where it is, it is at home. */
static void leave_alone(struct auto_migrate_task *a, int node)
{
	auto_settle(&a->place, node);
	a->walk.on = false;
}

/**
 * auto_migrate_current - Is a state that of the program that runs?
 * @a: state of the current task
 *
 * Return: false if the task has called exec since.
 */
bool auto_migrate_current(const struct auto_migrate_task *a)
{
	return a->exec_id == current->self_exec_id;
}

/* ---- on the way back to user mode ---- */

/* Where NUMA balancing wants a task, and can have it, its memory is going, too. */
static bool balancing_objects(int to)
{
	int preferred = READ_ONCE(current->numa_preferred_nid);

	if (!(READ_ONCE(sysctl_numa_balancing_mode) & NUMA_BALANCING_NORMAL))
		return false;
	if (preferred == NUMA_NO_NODE || preferred == to)
		return false;
	return cpumask_intersects(cpumask_of_node(preferred),
				  current->cpus_ptr);
}

static void count_threads(struct auto_facts *facts, int to)
{
	struct task_struct *t;

	rcu_read_lock();
	for_each_thread(current, t) {
		if (READ_ONCE(t->flags) & PF_EXITING)
			continue;
		facts->threads++;
		facts->there += cpu_to_node(task_cpu(t)) == to;
	}
	rcu_read_unlock();
}

static enum auto_action action_for(int to,
				   const struct auto_migrate_limits *limits)
{
	struct auto_facts facts = {
		.node_fits = node_state(to, N_MEMORY) &&
			     node_isset(to, cpuset_current_mems_allowed),
		.policy = current->mempolicy,
		.balancing = balancing_objects(to),
		.borrowed = !!current->vfork_done,
		.lazy = limits->lazy,
	};

	count_threads(&facts, to);
	return auto_action(&facts);
}

/* Its own: only the task itself changes it. */
static spinlock_t *claim_lock(void)
{
	return &rcu_dereference_protected(current->sighand, true)->siglock;
}

/* Take the turn of walking for the process, unless another thread has it. */
static enum auto_turn take_turn(int from, int to, bool lazy,
				unsigned long interval)
{
	struct auto_migrate_claim *claim;
	enum auto_turn turn;

	spin_lock_irq(claim_lock());
	claim = &current->group_leader->auto_migrate.claim;
	if (claim->exec_id != current->self_exec_id)
		claim->taken = false;
	turn = auto_turn(claim, from, to, lazy, jiffies, LEASE, interval);
	if (turn == AUTO_TAKE)
		*claim = (struct auto_migrate_claim) {
			.exec_id = current->self_exec_id,
			.when = jiffies,
			.from = from,
			.to = to,
			.lazy = lazy,
			.taken = true,
		};
	spin_unlock_irq(claim_lock());
	return turn;
}

/* A sign that this thread walks, or is done */
static void show_turn(const struct auto_migrate_walk *walk, int to)
{
	struct auto_migrate_claim *claim;

	spin_lock_irq(claim_lock());
	claim = &current->group_leader->auto_migrate.claim;
	if (claim->exec_id == current->self_exec_id &&
	    claim->from == walk->from && claim->to == to &&
	    claim->lazy == walk->lazy) {
		claim->when = jiffies;
		claim->done = !walk->on;
	}
	spin_unlock_irq(claim_lock());
}

/* This task has stayed on another node: decide, and make it its home. */
static void act(struct auto_migrate_task *a, int to,
		const struct auto_migrate_limits *limits)
{
	enum auto_action action = action_for(to, limits);
	int from = a->place.node;

	a->place.tried = jiffies;
	a->place.has_tried = true;
	if (action < AUTO_DECLINED) {
		count_follow_events(NUMA_AUTOMIG_DECLINED_BALANCING + action, 1);
		trace_auto_migrate_task(task_pid_nr(current), from, to, action);
		return;
	}
	auto_settle(&a->place, to);
	a->walk = (struct auto_migrate_walk) {
		.on = true,
		.lazy = action == AUTO_LAZY,
		.from = from,
	};
}

/* Is it for this thread to walk?  Whose turn it is may change. */
static bool is_mine(struct auto_migrate_walk *walk, int to,
		    unsigned long interval)
{
	if (walk->mine)
		return true;
	switch (take_turn(walk->from, to, walk->lazy, interval)) {
	case AUTO_WAIT:
		return false;
	case AUTO_DONE:
		walk->on = false;
		return false;
	case AUTO_TAKE:
		break;
	}
	count_follow_events(NUMA_AUTOMIG_TASKS, 1);
	trace_auto_migrate_task(task_pid_nr(current), walk->from, to,
				walk->lazy ? AUTO_LAZY : AUTO_DIRECT);
	walk->mine = true;
	return true;
}

/* One slice of the walk, or a look at whoever walks */
static void visit(struct auto_migrate_task *a,
		  const struct auto_migrate_limits *limits)
{
	unsigned long interval = limits->interval_s * HZ;
	struct auto_migrate_walk *walk = &a->walk;
	int to = a->place.node;

	walk->max_mapcount = limits->max_mapcount;
	walk->until = jiffies + interval;
	if (!is_mine(walk, to, interval))
		return;
	walk->on = !auto_slice(walk, to);
	show_turn(walk, to);
}

static void follow(struct auto_migrate_task *a)
{
	struct auto_migrate_limits limits;
	int node = numa_node_id();

	if (!auto_migrate_current(a)) {
		begin(a, current->self_exec_id);
		return;
	}
	if (!auto_limits_of(current, &limits)) {
		leave_alone(a, node);
		return;
	}
	if (due(&a->place, node, &limits))
		act(a, node, &limits);
	if (a->walk.on && a->place.node == node)
		visit(a, &limits);
}

static void auto_migrate_work(struct callback_head *work)
{
	/* exit_task_work() comes after exit_mm(). */
	if (!(current->flags & PF_EXITING) && !fatal_signal_pending(current))
		follow(&current->auto_migrate);
	/* From here on it is the tick's; that is this CPU's, so nothing more. */
	barrier();
	WRITE_ONCE(work->next, work);
}

/* ---- in the tick ---- */

static bool has_work(struct task_struct *p, int node)
{
	struct auto_migrate_task *a = &p->auto_migrate;
	struct auto_migrate_limits limits;

	if (a->exec_id != p->self_exec_id)
		begin(a, p->self_exec_id);
	if (a->place.node == NUMA_NO_NODE || a->place.node == node) {
		auto_settle(&a->place, node);
		return a->walk.on;
	}
	/* Only of those that are away: it looks up the tree. */
	if (!auto_limits_of(p, &limits)) {
		leave_alone(a, node);
		return false;
	}
	return due(&a->place, node, &limits);
}

/**
 * __auto_migrate_tick - See where the task is that a tick interrupts
 * @p: task that runs on this CPU
 *
 * Neither sleeps nor allocates, and takes no lock.
 */
void __auto_migrate_tick(struct task_struct *p)
{
	struct callback_head *work = &p->auto_migrate.work;

	lockdep_assert_irqs_disabled();
	if (!p->mm || (p->flags & (PF_EXITING | PF_KTHREAD | PF_USER_WORKER)))
		return;
	if (READ_ONCE(work->next) != work)
		return;
	if (has_work(p, numa_node_id()))
		task_work_add(p, work, TWA_RESUME | TWAF_NO_ALLOC);
}

/**
 * auto_migrate_init - A new task has no home yet
 * @p: task, a copy of its parent
 *
 * A copy cannot tell by itself: addresses and ids of tasks are used again.
 */
void auto_migrate_init(struct task_struct *p)
{
	struct auto_migrate_task *a = &p->auto_migrate;

	init_task_work(&a->work, auto_migrate_work);
	/* Against adding it twice: see __auto_migrate_tick() */
	a->work.next = &a->work;
	a->claim = (struct auto_migrate_claim) { 0 };
	begin(a, p->self_exec_id);
}
