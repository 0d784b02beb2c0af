// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic NUMA migration in the tick: the memory of a task moves with it.
 *
 * Every tick compares the node of its CPU with the home node of the task that it
 * interrupts. If a task stays on another node for the settle time, and its last migration
 * is at least an interval ago, the tick queues task work. On the return to user mode, the
 * work decides, makes the new node the home, and walks the address space, one slice a
 * tick (slice.c). The first tick of a task, and of a program after exec, only sets the
 * home node.
 *
 * The tick is used instead of set_task_cpu() because it does nothing under run queue
 * locks, adds no cost to short moves, and is the same for every scheduling class. In
 * return, a move is noticed up to one tick late. A task that never runs at a tick, or
 * runs on a CPU without ticks (nohz_full), is not noticed at all.
 *
 * A task gets its state at the first tick that finds it in a cpuset with auto_migration,
 * and keeps it until the task is freed.
 *
 * Locking: while the task work is queued or runs, the state of a task belongs to the
 * work. Otherwise it belongs to the tick on the CPU of the task. So it needs no lock. The
 * walk ownership of a process is in the state of its leader, under siglock, which is the
 * innermost lock. See Documentation/admin-guide/mm/numa_follow.rst.
 */
#include <linux/cpumask.h>
#include <linux/cpuset.h>
#include <linux/jiffies.h>
#include <linux/lockdep.h>
#include <linux/memory-tiers.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/numa_scan.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/sched/sysctl.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/task_work.h>
#include <linux/topology.h>

#include <trace/events/numa_follow.h>

#include "follow.h"

/* Time that a task has to be on another node before the node becomes its home */
#define SETTLE		msecs_to_jiffies(100)
/*
 * A thread that walks updates its heartbeat every tick. Without one for this time, it has
 * gone.
 */
#define LEASE		HZ
/* Interval at which waiting threads check on the walk */
#define LOOK_AGAIN	(HZ / 10)
/* While no page moves, a walk is repeated after 1, 2, 4, ... and at most 32 intervals. */
#define MAX_IDLE_SHIFT	5U

static bool due(struct follow_place *place, int node,
		const struct numa_follow_limits *limits)
{
	return follow_stays(place, node, jiffies, SETTLE, limits->interval_s * HZ);
}

/* Reset the state for a new program. */
static void begin(struct numa_follow_task *state, u64 exec_id)
{
	state->place = (struct follow_place) { 0 };
	follow_settle(&state->place, NUMA_NO_NODE);
	nodes_clear(state->homes);
	state->trip = (struct follow_trip) { 0 };
	state->pulling = false;
	state->exec_id = exec_id;
}

/* Migration is off for this task: make its present node the home. */
static void leave_alone(struct numa_follow_task *state, int node)
{
	follow_settle(&state->place, node);
	state->trip.on = false;
}

/**
 * follow_is_of_program() - Check whether a state belongs to the running program
 * @state: state of the current task
 *
 * Return: false if the task has called exec since.
 */
bool follow_is_of_program(const struct numa_follow_task *state)
{
	return state->exec_id == current->self_exec_id;
}

/*
 * Get or allocate the state of the current task, or of the leader of its process, for
 * which several threads may allocate at once. NULL without memory.
 */
static struct numa_follow_task *state_of(struct task_struct *p)
{
	struct numa_follow_task *state = READ_ONCE(p->numa_follow), *old;

	if (state)
		return state;
	state = kzalloc(sizeof(*state), GFP_KERNEL_ACCOUNT);
	if (!state)
		return NULL;
	begin(state, p->self_exec_id);
	old = cmpxchg(&p->numa_follow, NULL, state);
	if (!old)
		return state;
	kfree(state);
	return old;
}

/**
 * follow_note_marks() - Note that the current task has marked pages of its process
 *
 * The time is for numa_maps only, so an allocation failure is ignored.
 */
void follow_note_marks(void)
{
	struct numa_follow_task *leader = state_of(current->group_leader);

	if (!leader)
		return;
	WRITE_ONCE(leader->marked, jiffies);
	WRITE_ONCE(leader->marked_by, current->self_exec_id);
}

/* ---- on the return to user mode ---- */

/* Check whether NUMA balancing will move the task, and so its memory, to another node. */
static bool balancing_objects(int to)
{
	int preferred = READ_ONCE(current->numa_preferred_nid);

	if (!(READ_ONCE(sysctl_numa_balancing_mode) & NUMA_BALANCING_NORMAL))
		return false;
	/*
	 * The preferred node dates from before the cgroup opted out, and has no effect.
	 */
	if (numa_scan_off(current->mm))
		return false;
	if (preferred == NUMA_NO_NODE || preferred == to)
		return false;
	return cpumask_intersects(cpumask_of_node(preferred),
				  current->cpus_ptr);
}

static void count_threads(struct follow_facts *facts, int to)
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

/* Only the task itself changes its sighand. */
static spinlock_t *claim_lock(void)
{
	return &rcu_dereference_protected(current->sighand, true)->siglock;
}

/* Walk ownership of the process; not taken if it is of another program. */
static struct follow_claim *claim_of(struct numa_follow_task *leader)
{
	struct follow_claim *claim = &leader->claim;

	lockdep_assert_held(claim_lock());
	if (claim->exec_id != current->self_exec_id)
		claim->taken = false;
	return claim;
}

/* Take the walk ownership of the process, unless another thread has it. */
static enum follow_turn take_turn(const struct follow_route *route,
				  unsigned long interval)
{
	struct numa_follow_task *leader = state_of(current->group_leader);
	struct follow_claim *claim;
	enum follow_turn turn;

	if (!leader)
		return FOLLOW_WAIT;
	spin_lock_irq(claim_lock());
	claim = claim_of(leader);
	turn = follow_turn(claim, route, jiffies, LEASE, SETTLE, interval);
	if (turn == FOLLOW_MINE)
		*claim = (struct follow_claim) {
			.exec_id = current->self_exec_id,
			.walker = task_pid_nr(current),
			.route = *route,
			.began = jiffies,
			.when = jiffies,
			.taken = true,
		};
	spin_unlock_irq(claim_lock());
	return turn;
}

/* Update the heartbeat of the walk of this thread, or mark the walk finished. */
static void show_turn(const struct follow_trip *trip)
{
	struct numa_follow_task *leader = state_of(current->group_leader);
	struct follow_claim *claim;

	if (!leader)
		return;
	spin_lock_irq(claim_lock());
	claim = claim_of(leader);
	if (claim->taken && claim->walker == task_pid_nr(current)) {
		claim->when = jiffies;
		claim->done = !trip->on;
	}
	spin_unlock_irq(claim_lock());
}

/* Slow memory is promoted by its heat, at a limited rate. */
static void take_slow_out(nodemask_t *nodes)
{
	int nid;

	for_each_node_mask(nid, *nodes)
		if (!node_is_toptier(nid))
			node_clear(nid, *nodes);
}

static void set_out(struct numa_follow_task *state, int to, bool lazy,
		    bool anywhere)
{
	struct follow_trip *trip = &state->trip;
	struct follow_route *route = &trip->route;

	*trip = (struct follow_trip) { .on = true, .from = state->place.node };
	node_set(trip->from, state->homes);
	route->from = anywhere ? node_states[N_MEMORY] : state->homes;
	node_clear(to, route->from);
	take_slow_out(&route->from);
	route->to = to;
	route->lazy = lazy;
	/*
	 * Until now, the task may have moved marked pages to its old node by using them.
	 */
	route->since = lazy ? jiffies : state->place.since;
	trip->again = jiffies;
	follow_settle(&state->place, to);
}

/* The task has stayed on another node: decide, and make that node its home. */
static void act(struct numa_follow_task *state, int to,
		const struct numa_follow_limits *limits)
{
	struct follow_facts facts = {
		.node_fits = node_state(to, N_MEMORY) &&
			     node_isset(to, cpuset_current_mems_allowed),
		.policy = current->mempolicy,
		.balancing = balancing_objects(to),
		.borrowed = !!current->vfork_done,
		.lazy = limits->lazy,
	};
	enum follow_action action;

	count_threads(&facts, to);
	action = follow_action(&facts);
	state->place.tried = jiffies;
	state->place.has_tried = true;
	if (action < FOLLOW_DECLINED) {
		follow_count(NUMA_FOLLOW_DECLINED_BALANCING + action, 1);
		trace_numa_follow_task(task_pid_nr(current), state->place.node,
				       to, action);
		return;
	}
	set_out(state, to, action == FOLLOW_LAZY, follow_from_anywhere(&facts));
}

/* Check whether this thread walks. Ownership may change between two slices. */
static bool is_mine(struct follow_trip *trip, unsigned long interval)
{
	if (trip->mine)
		return true;
	switch (take_turn(&trip->route, interval)) {
	case FOLLOW_WAIT:
		trip->again = jiffies + LOOK_AGAIN;
		return false;
	case FOLLOW_DONE:
		trip->on = false;
		return false;
	case FOLLOW_MINE:
		break;
	}
	follow_count(NUMA_FOLLOW_TASKS, 1);
	trace_numa_follow_task(task_pid_nr(current), trip->from, trip->route.to,
			       trip->route.lazy ? FOLLOW_LAZY : FOLLOW_DIRECT);
	trip->mine = true;
	trip->left = 0;
	trip->went = 0;
	return true;
}

/* Repeat the walk after one interval or several. */
static void walk_later(struct follow_trip *trip, unsigned long interval)
{
	unsigned int shift = trip->moved ? 0 : trip->idle;

	trip->idle = min(shift + 1, MAX_IDLE_SHIFT);
	trip->moved = false;
	trip->resume = 0;
	trip->mine = false;
	trip->again = jiffies + (interval << shift);
	/* A tick may read it as soon as @on is set. */
	barrier();
	WRITE_ONCE(trip->on, true);
}

/**
 * follow_stayed() - Account for marked pages that a fault could not move for now
 * @nid: node of the pages; NUMA_NO_NODE if it is not known
 * @nr_pages: number of pages
 *
 * The pages have lost their marks. Once enough pages have stayed, the walk is repeated
 * after an interval, in the thread that uses the pages.
 */
void follow_stayed(int nid, unsigned long nr_pages)
{
	struct numa_follow_task *state = current->numa_follow;
	struct follow_trip *trip = &state->trip;
	struct follow_route *route = &trip->route;
	struct numa_follow_limits limits;

	trip->left += nr_pages;
	if (trip->on || !follow_walks_again(trip->left, trip->went) ||
	    !numa_follow_limits_of(current, &limits))
		return;
	/* Another thread has walked for this one. */
	if (!route->lazy || route->to != state->place.node) {
		if (nid == NUMA_NO_NODE)
			return;
		trip->from = nid;
		route->from = nodemask_of_node(nid);
		route->to = state->place.node;
		route->lazy = true;
	}
	route->since = jiffies;
	walk_later(trip, limits.interval_s * HZ);
}

/* Walk one slice, or check on the thread that walks. */
static void visit(struct numa_follow_task *state,
		  const struct numa_follow_limits *limits)
{
	unsigned long interval = limits->interval_s * HZ;
	struct follow_trip *trip = &state->trip;

	if (!node_isset(trip->route.to, cpuset_current_mems_allowed)) {
		trip->on = false;
		return;
	}
	trip->max_mapcount = limits->max_mapcount;
	trip->until = jiffies + interval;
	if (!is_mine(trip, interval))
		return;
	trip->on = !follow_slice(trip);
	show_turn(trip);
	if (!trip->on && follow_walks_again(trip->left, trip->went))
		walk_later(trip, interval);
}

static void follow(struct numa_follow_task *state)
{
	struct numa_follow_limits limits;
	int node = numa_node_id();

	if (!follow_is_of_program(state))
		begin(state, current->self_exec_id);
	if (!numa_follow_limits_of(current, &limits)) {
		leave_alone(state, node);
		return;
	}
	if (due(&state->place, node, &limits))
		act(state, node, &limits);
	if (state->trip.on && state->place.node == node)
		visit(state, &limits);
}

static void follow_work(struct callback_head *work)
{
	struct numa_follow_task *state = NULL;

	/* exit_task_work() runs after exit_mm(). */
	if (!(current->flags & PF_EXITING) && !fatal_signal_pending(current))
		state = state_of(current);
	if (state)
		follow(state);
	/*
	 * From here on the state belongs to the tick. The tick runs on this CPU, so a
	 * compiler barrier is enough.
	 */
	barrier();
	WRITE_ONCE(work->next, work);
}

/* ---- in the tick ---- */

static bool has_work(struct task_struct *p, int node)
{
	struct numa_follow_task *state = READ_ONCE(p->numa_follow);
	struct numa_follow_limits limits;

	/* The state cannot be allocated here. */
	if (!state)
		return numa_follow_limits_of(p, &limits);
	if (state->exec_id != p->self_exec_id)
		begin(state, p->self_exec_id);
	if (state->place.node == NUMA_NO_NODE || state->place.node == node) {
		follow_settle(&state->place, node);
		return state->trip.on &&
		       !time_before(jiffies, state->trip.again);
	}
	if (!numa_follow_limits_of(p, &limits)) {
		leave_alone(state, node);
		return false;
	}
	return due(&state->place, node, &limits);
}

/**
 * __numa_follow_tick() - Check the node of the task that a tick interrupts
 * @p: task that runs on this CPU
 *
 * Does not sleep or allocate, and takes no lock.
 */
void __numa_follow_tick(struct task_struct *p)
{
	struct callback_head *work = &p->numa_follow_work;

	lockdep_assert_irqs_disabled();
	if (!p->mm || (p->flags & (PF_EXITING | PF_KTHREAD | PF_USER_WORKER)))
		return;
	if (READ_ONCE(work->next) != work)
		return;
	if (has_work(p, numa_node_id()))
		task_work_add(p, work, TWA_RESUME | TWAF_NO_ALLOC);
}

/**
 * numa_follow_fork() - Initialize a new task, without a home node
 * @p: task, a copy of its parent
 */
void numa_follow_fork(struct task_struct *p)
{
	p->numa_follow = NULL;
	init_task_work(&p->numa_follow_work, follow_work);
	/* A work that points to itself is not queued; see __numa_follow_tick() */
	p->numa_follow_work.next = &p->numa_follow_work;
}

/**
 * numa_follow_free() - Free the state of a task
 * @p: task without users
 */
void numa_follow_free(struct task_struct *p)
{
	kfree(p->numa_follow);
}
