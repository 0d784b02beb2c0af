// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that follow, by the tick: the memory of a task follows it to another node.
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
 * A task has a state from the first time on that a tick finds it in a cpuset with
 * auto_migration, and until it is gone.
 *
 * Locks: a task's state belongs to its work while that is queued or runs, and
 * else to the tick on the CPU that the task runs on: no lock.  Who walks for a
 * process is in its leader's, under siglock; nothing is taken inside of it.
 * See Documentation/admin-guide/mm/numa_follow.rst.
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

/* So long a task has to be on another node before it is at home there */
#define SETTLE		msecs_to_jiffies(100)
/* Who walks for its process shows every tick that it is still there. */
#define LEASE		HZ
/* And whoever waits for it looks so often */
#define LOOK_AGAIN	(HZ / 10)
/* While no page moves, a walk is repeated after 1, 2, 4, ... and at most 32 intervals. */
#define MAX_IDLE_SHIFT	5U

static bool due(struct follow_place *place, int node,
		const struct numa_follow_limits *limits)
{
	return follow_stays(place, node, jiffies, SETTLE, limits->interval_s * HZ);
}

/* Nothing is known of this program yet. */
static void begin(struct numa_follow_task *state, u64 exec_id)
{
	state->place = (struct follow_place) { 0 };
	follow_settle(&state->place, NUMA_NO_NODE);
	nodes_clear(state->homes);
	state->trip = (struct follow_trip) { 0 };
	state->pulling = false;
	state->exec_id = exec_id;
}

/* No longer, or not yet, of interest: where it is, it is at home. */
static void leave_alone(struct numa_follow_task *state, int node)
{
	follow_settle(&state->place, node);
	state->trip.on = false;
}

/**
 * follow_is_of_program - Is a state that of the program that runs?
 * @state: state of the current task
 *
 * Return: false if the task has called exec since.
 */
bool follow_is_of_program(const struct numa_follow_task *state)
{
	return state->exec_id == current->self_exec_id;
}

/*
 * The state of the current task, or of the leader of its process, whose other threads
 * may come first.  NULL without memory.
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
 * follow_note_marks - The current task has marked pages of its process
 *
 * Nobody needs to know when: without memory for it, nobody does.
 */
void follow_note_marks(void)
{
	struct numa_follow_task *leader = state_of(current->group_leader);

	if (!leader)
		return;
	WRITE_ONCE(leader->marked, jiffies);
	WRITE_ONCE(leader->marked_by, current->self_exec_id);
}

/* ---- on the way back to user mode ---- */

/* Where NUMA balancing wants a task, and can have it, its memory is going, too. */
static bool balancing_objects(int to)
{
	int preferred = READ_ONCE(current->numa_preferred_nid);

	if (!(READ_ONCE(sysctl_numa_balancing_mode) & NUMA_BALANCING_NORMAL))
		return false;
	/* What it preferred before the cgroup opted out, it does not move tasks to. */
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

/* Its own: only the task itself changes it. */
static spinlock_t *claim_lock(void)
{
	return &rcu_dereference_protected(current->sighand, true)->siglock;
}

/* Who walks for the process, if there is such a claim already */
static struct follow_claim *claim_of(struct numa_follow_task *leader)
{
	struct follow_claim *claim = &leader->claim;

	lockdep_assert_held(claim_lock());
	if (claim->exec_id != current->self_exec_id)
		claim->taken = false;
	return claim;
}

/* Take the turn of walking for the process, unless another thread has it. */
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

/* A sign that this thread walks, or is done */
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

/* Slow memory is promoted by how hot it is, at a limited rate. */
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
	/* It may have used what was marked until now from where it comes. */
	route->since = lazy ? jiffies : state->place.since;
	trip->again = jiffies;
	follow_settle(&state->place, to);
}

/* This task has stayed on another node: decide, and make it its home. */
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

/* Is it for this thread to walk?  Whose turn it is may change. */
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

/* Begin the walk once more, an interval from now or several. */
static void walk_later(struct follow_trip *trip, unsigned long interval)
{
	unsigned int shift = trip->moved ? 0 : trip->idle;

	trip->idle = min(shift + 1, MAX_IDLE_SHIFT);
	trip->moved = false;
	trip->resume = 0;
	trip->mine = false;
	trip->again = jiffies + (interval << shift);
	/* A tick may look at it as soon as it is on. */
	barrier();
	WRITE_ONCE(trip->on, true);
}

/**
 * follow_stayed() - Account for marked pages that a fault could not move for now
 * @nid: node where they are; NUMA_NO_NODE if it is not known
 * @nr_pages: number of pages
 *
 * They are marked no more. Once many have stayed, the walk begins again after an interval,
 * in the thread that needs the pages.
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

/* One slice of the walk, or a look at whoever walks */
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

	/* exit_task_work() comes after exit_mm(). */
	if (!(current->flags & PF_EXITING) && !fatal_signal_pending(current))
		state = state_of(current);
	if (state)
		follow(state);
	/* From here on it is the tick's; that is this CPU's, so nothing more. */
	barrier();
	WRITE_ONCE(work->next, work);
}

/* ---- in the tick ---- */

static bool has_work(struct task_struct *p, int node)
{
	struct numa_follow_task *state = READ_ONCE(p->numa_follow);
	struct numa_follow_limits limits;

	/* It cannot be allocated here. */
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
 * __numa_follow_tick - See where the task is that a tick interrupts
 * @p: task that runs on this CPU
 *
 * Neither sleeps nor allocates, and takes no lock.
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
 * numa_follow_fork - A new task has no home yet
 * @p: task, a copy of its parent
 */
void numa_follow_fork(struct task_struct *p)
{
	p->numa_follow = NULL;
	init_task_work(&p->numa_follow_work, follow_work);
	/* Against adding it twice: see __numa_follow_tick() */
	p->numa_follow_work.next = &p->numa_follow_work;
}

/**
 * numa_follow_free - A task is gone
 * @p: task, which nobody refers to any more
 */
void numa_follow_free(struct task_struct *p)
{
	kfree(p->numa_follow);
}
