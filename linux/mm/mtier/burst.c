// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: bursts (sampling windows).
 *
 * In a burst, kmtierd finds the ranges in use (sweep.c), draws some of them
 * (sample.c), and scans these up to MTIER_LOOKS_MOST times (look.c). After each scan,
 * place.c decides for each pool of target nodes (routes.c) which pages are exchanged, and
 * swap.c exchanges them. pace.c sets the scan interval, the number of scans, and the time
 * that kmtierd rests after the burst. No access count of a page is kept when a burst is
 * over.
 *
 * While observe in /sys/kernel/debug/mtier is set, no page migrates. Pages that would
 * migrate are counted, and leave the burst as if they had migrated.
 *
 * Locking: mtier_burst_lock protects the state that other threads may read. Only
 * kmtierd changes that state, with the lock held. Other threads hold the lock to read
 * it. It is the innermost lock. mtier_burst_asked is set under mtier_mutex, and
 * cleared by kmtierd without a lock.
 */
#include <linux/freezer.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/memory-tiers.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/pgtable.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/sched/cputime.h>
#include <trace/events/mtier.h>

#include "burst.h"
#include "mtier.h"
#include "unmapped.h"

/* Time to wait if there is nothing to scan, or no memory to scan it with. */
#define MTIER_BURST_IDLE_NS	NSEC_PER_SEC
/* Nice value of kmtierd. */
#define MTIER_NICE		(-5)
/* Interval at which the results of re-checks (audit.c) are halved. */
#define MTIER_FADE_NS		(10ULL * NSEC_PER_SEC)
/* Longest wait for the rate limit after a scan. Later, its result is out of date. */
#define MTIER_DRAIN_NS		(2ULL * NSEC_PER_SEC)
/* Time without large folios, after the fast tier had no contiguous block for one. */
#define MTIER_SCATTERED_NS	NSEC_PER_SEC
/* A plan covers at least this time of the rate limit. Pages of high gain go first. */
#define MTIER_PLAN_NS		(100ULL * NSEC_PER_MSEC)

/* State of bursts that other threads may read; see above. */
DEFINE_MUTEX(mtier_burst_lock);
struct mtier_burst mtier_burst;
/* Value of mtier/state. */
enum mtier_state mtier_state;
static struct task_struct *mtier_burst_task;
/* The current plan; too large for the stack. */
static struct mtier_plan mtier_burst_plan;

/* A burst was requested. */
static bool mtier_burst_asked;

/* Check whether @when_ns has passed. If @rest, check also for a requested burst. */
static bool mtier_burst_due(u64 when_ns, bool rest)
{
	return ktime_get_ns() >= when_ns || (rest && READ_ONCE(mtier_burst_asked));
}

/*
 * Sleep until @when_ns; if @rest, also until a burst is requested. Returns false if
 * no burst may start, or the current one must end.
 */
static bool mtier_burst_wait(u64 when_ns, bool rest)
{
	ktime_t until = ns_to_ktime(when_ns);
	bool frozen = false;

	while (!kthread_freezable_should_stop(&frozen)) {
		if (frozen)
			return false;
		set_current_state(TASK_INTERRUPTIBLE | TASK_FREEZABLE);
		if (!kthread_should_stop() && !mtier_burst_due(when_ns, rest))
			schedule_hrtimeout(&until, HRTIMER_MODE_ABS);
		__set_current_state(TASK_RUNNING);
		if (mtier_burst_due(when_ns, rest))
			return !kthread_should_stop();
	}
	return false;
}

/**
 * mtier_burst_sleep() - Sleep during a burst.
 * @when_ns: time to sleep until, of ktime_get_ns()
 *
 * Context: kmtierd.
 * Return: false if the burst must end.
 */
bool mtier_burst_sleep(u64 when_ns)
{
	return mtier_burst_wait(when_ns, false);
}

/**
 * struct mtier_round - state of the burst in progress
 * @watch: the sample
 * @seen: statistics of this burst
 * @looks: number of scans that count: all but the first
 * @start_ns: time at which the burst began
 * @first_ns: time at which the first scan began
 * @look_ns: time at which the last scan began
 * @ran_ns: CPU time of kmtierd at the start of the burst, after its sweep
 * @early: too few scans for exchanges: pages are only promoted into free memory
 * @undone: part of the last plan was not attempted, although many pages were promoted
 * @late: migrations took longer than the scan interval, so the next scan would be
 *	late
 * @gain_ns: gain of the exchanges of this burst
 * @noted: the sample was added to the working sets
 */
struct mtier_round {
	struct mtier_watch watch;
	struct mtier_seen seen;
	u32 looks;
	u64 start_ns;
	u64 first_ns;
	u64 look_ns;
	u64 ran_ns;
	bool early;
	bool undone;
	bool late;
	u64 gain_ns;
	bool noted;
};

static u64 mtier_round_spent(const struct mtier_round *r)
{
	return task_sched_runtime(current) - r->ran_ns - r->seen.moved_ns;
}

/* Account for the unmapped page cache of a pool that a plan has used. */
static void mtier_round_spare(struct mtier_pool *pool, const struct mtier_plan *plan)
{
	u32 i;

	for (i = 0; i < plan->nr; i++)
		if (plan->run[i].spare && plan->run[i].low_group >= MTIER_LARGE)
			pool->whole -= min_t(u64, pool->whole, plan->run[i].pages);
	pool->spare -= min_t(u64, pool->spare, plan->spare);
	pool->whole = min(pool->whole, pool->spare);
}

/* Observe only: account for a plan as if it was carried out. Returns the gain. */
static u64 mtier_round_pretend(struct mtier_round *r, struct mtier_pool *pool,
			       const struct mtier_plan *plan)
{
	u32 i;

	mtier_mark_drop(&r->watch);
	r->seen.taken += plan->pages;
	for (i = 0; i < plan->nr; i++)
		if (plan->run[i].top == MTIER_NO_VICTIM && !plan->run[i].spare)
			pool->pretended += plan->run[i].pages;
	return plan->gain_ns;
}

/*
 * Exchange the pages of a plan. Returns the gain of the pages that migrated. If DRAM
 * is below its watermarks, victims are demoted first to make room. They count in the
 * gain, since the next bursts use that room.
 */
static u64 mtier_round_swap(struct mtier_round *r, struct mtier_pool *pool,
			    const struct mtier_plan *plan)
{
	u64 ran_ns = task_sched_runtime(current);
	struct mtier_swapped did;

	WRITE_ONCE(mtier_state, MTIER_STATE_MOVING);
	did = mtier_swap(&r->watch, pool, plan);
	WRITE_ONCE(mtier_state, MTIER_STATE_LOOKING);
	ran_ns = task_sched_runtime(current) - ran_ns;
	r->seen.moved_ns += ran_ns;
	r->seen.taken += did.taken;
	r->seen.promoted += did.promoted;
	r->seen.demoted += did.demoted;
	r->seen.unmapped += did.unmapped;
	r->undone = did.taken < plan->pages && did.promoted >= MTIER_MOVED_LEAST;
	if (did.scattered)
		mtier_burst.whole_ns = ktime_get_ns() + MTIER_SCATTERED_NS;
	mutex_lock(&mtier_burst_lock);
	mtier_machine_move_ns(&mtier_burst.machine, ran_ns,
			      did.promoted + did.demoted);
	mutex_unlock(&mtier_burst_lock);
	return mul_u64_u64_div_u64(plan->gain_ns,
				   min_t(u64, plan->pages,
					 max(did.promoted, did.demoted)),
				   plan->pages);
}

/*
 * Get the number of pages to promote at most: what the rate allows until about the
 * next scan.
 */
static u64 mtier_round_limit(const struct mtier_round *r)
{
	u64 rate = (u64)READ_ONCE(mtier_conf.rate_mbps) << (20 - PAGE_SHIFT);
	u64 ns = max(MTIER_PLAN_NS, mtier_burst.place.tau_ns * 3 / 2);

	if (mtier_conf.observe)
		return U32_MAX;
	return max(mul_u64_u64_div_u64(rate, ns, NSEC_PER_SEC), 1);
}

/* Add the sample to the working sets, once: pages that migrate leave the sample. */
static void mtier_round_heat(struct mtier_round *r)
{
	if (!r->noted)
		mtier_heat_note(&r->watch, r->look_ns - r->first_ns);
	r->noted = true;
}

/* Plan the exchanges that are possible now between a pool and slower nodes. */
static void mtier_round_plan(struct mtier_round *r, struct mtier_pool *pool,
			     struct mtier_plan *plan)
{
	struct mtier_burst *b = &mtier_burst;
	struct mtier_place_machine machine = b->machine;
	struct mtier_counts low, top;
	u32 g;

	machine.free = mtier_pool_free(pool);
	machine.spare = pool->spare;
	machine.whole = pool->whole;
	machine.spare_ns = pool->spare_ns;
	mtier_pool_enter(r->watch.routes, pool);
	mtier_pool_count(r->watch.routes, &low, &top);
	if (r->early || !READ_ONCE(numa_demotion_enabled)) {
		memset(&top, 0, sizeof(top));
		machine.spare = 0;
		machine.whole = 0;
	}
	if (ktime_get_ns() < b->whole_ns)
		for (g = MTIER_LARGE; g < MTIER_GROUPS; g++)
			memset(low.pages[g], 0, sizeof(low.pages[g]));
	mtier_place_plan(&b->place, &machine, &b->worth, &low, &top,
			 mtier_round_limit(r), plan);
	pool->why = plan->why;
}

/* Carry out a plan. Returns the gain. */
static u64 mtier_round_do(struct mtier_round *r, struct mtier_pool *pool,
			  const struct mtier_plan *plan)
{
	struct mtier_burst *b = &mtier_burst;
	u64 gain_ns;

	mtier_round_heat(r);
	mtier_mark_plan(&r->watch, plan, get_random_u32());
	mutex_lock(&mtier_burst_lock);
	mtier_audit_judge(&b->place, r->looks, false);
	mutex_unlock(&mtier_burst_lock);
	mtier_audit_note(&r->watch, &b->worth, plan, b->place.tau_ns);
	if (mtier_conf.observe)
		gain_ns = mtier_round_pretend(r, pool, plan);
	else
		gain_ns = mtier_round_swap(r, pool, plan);
	mtier_round_spare(pool, plan);
	r->gain_ns += gain_ns;
	return gain_ns;
}

/* Check whether no more pages may be exchanged: the last scan is too old, e.g. */
static bool mtier_round_over(const struct mtier_round *r)
{
	return kthread_should_stop() || ktime_get_ns() - r->look_ns > MTIER_DRAIN_NS;
}

/*
 * Exchange pages with a pool after a scan. Pages over the rate limit wait for it, and the
 * next burst waits with them. Otherwise scans would use CPU time for pages that cannot
 * migrate. If too few victims were demoted to make room, planned pages were not
 * attempted. They are retried with the next plan.
 */
static u64 mtier_round_pool(struct mtier_round *r, struct mtier_pool *pool)
{
	struct mtier_plan *plan = &mtier_burst_plan;
	u64 all_ns = 0, gain_ns;

	for (;;) {
		mtier_round_plan(r, pool, plan);
		if (!plan->pages)
			return all_ns;
		gain_ns = mtier_round_do(r, pool, plan);
		all_ns += gain_ns;
		mtier_mark_count(&r->watch);
		/* If no page could migrate now, none could with the next plan. */
		if ((pool->why != MTIER_PLAN_RATE && !r->undone) || !gain_ns ||
		    mtier_round_over(r))
			return all_ns;
		cond_resched();
	}
}

/*
 * Exchange pages with each pool after a scan, while its result is not out of date.
 * Returns the gain.
 */
static u64 mtier_round_act(struct mtier_round *r)
{
	struct mtier_routes *rs = r->watch.routes;
	u64 gain_ns = 0, start_ns = ktime_get_ns();
	unsigned int i;

	/* While nothing migrates, the room that earlier plans took counts as used. */
	if (!mtier_conf.observe)
		mtier_pools_room(rs);
	for (i = 0; i < rs->nr_pools && !mtier_round_over(r); i++)
		/* With room, no pages have to be compared. */
		if (!r->early || mtier_pool_free(&rs->pool[i]) >= MTIER_MOVED_LEAST)
			gain_ns += mtier_round_pool(r, &rs->pool[i]);
	r->late |= mtier_place_late(&mtier_burst.place, gain_ns,
				    ktime_get_ns() - start_ns);
	return gain_ns;
}

/* Evaluate the last scan, and exchange pages. Returns true if the burst is over. */
static bool mtier_round_judge(struct mtier_round *r)
{
	struct mtier_burst *b = &mtier_burst;
	struct mtier_evidence evidence;
	struct mtier_counts counts;
	u64 gain_ns;
	u32 g;

	mtier_mark_counts(&r->watch, r->looks, &counts, &evidence);
	/* Pages sampled for a re-check do not represent their tier. */
	for (g = MTIER_TOP; r->watch.low_only && g < MTIER_GROUPS; g += MTIER_LARGE)
		memset(counts.pages[g], 0, sizeof(counts.pages[g]));
	if (r->watch.low_only)
		mtier_evidence_drop(&evidence, MTIER_TOP);
	mutex_lock(&mtier_burst_lock);
	mtier_place_look(&b->place, r->looks, &counts, &evidence);
	mtier_place_worth(&b->place, r->looks, &b->worth);
	mutex_unlock(&mtier_burst_lock);
	if (!mtier_routes_any_up(r->watch.routes))
		return true;
	/*
	 * Promotion into free memory demotes no page, and is certain after fewer
	 * scans.
	 */
	r->early = r->looks < MTIER_LOOKS_LEAST;
	if (r->looks + 1 < MTIER_LOOKS_LEAST ||
	    (r->early && mtier_pools_most_free(r->watch.routes) < MTIER_MOVED_LEAST))
		return false;
	gain_ns = mtier_round_act(r);
	return r->late || mtier_place_enough(r->looks, gain_ns, r->gain_ns,
					     mtier_round_spent(r));
}

/*
 * Accessed bits have just been cleared. Scan the recently exchanged pairs soon after
 * that, to estimate how often they are used. Returns false if the burst was cut
 * short.
 */
static bool mtier_round_early(struct mtier_round *r)
{
	struct mtier_burst *b = &mtier_burst;
	u64 now = ktime_get_ns(), cleared_ns = (r->look_ns + now) / 2;

	if (!mtier_audit_has_young())
		return true;
	if (!mtier_burst_sleep(now + b->place.tau_ns / MTIER_EARLY_PARTS))
		return false;
	mtier_audit_look_early(cleared_ns);
	mutex_lock(&mtier_burst_lock);
	mtier_audit_judge_early(&b->place);
	mutex_unlock(&mtier_burst_lock);
	return true;
}

/* Run all scans of a burst. Returns false if the burst was cut short. */
static bool mtier_round_looks(struct mtier_round *r)
{
	u64 pause_ns;

	r->look_ns = ktime_get_ns();
	r->first_ns = r->look_ns;
	mtier_look(&r->watch, true, &r->seen);
	mtier_pools_make(r->watch.routes);
	mtier_pools_room(r->watch.routes);
	if (!mtier_round_early(r))
		return false;
	do {
		pause_ns = mtier_place_pause_ns(&mtier_burst.place,
						get_random_u32());
		if (!mtier_burst_sleep(r->look_ns + pause_ns))
			return false;
		r->look_ns = ktime_get_ns();
		mtier_look(&r->watch, false, &r->seen);
		r->looks++;
	} while (!mtier_round_judge(r));
	return true;
}

/* Keep the reasons why no more pages were exchanged, for place/why. */
static void mtier_round_tell(const struct mtier_round *r)
{
	const struct mtier_routes *rs = r->watch.routes;
	struct mtier_burst *b = &mtier_burst;
	unsigned int i;

	lockdep_assert_held(&mtier_burst_lock);
	b->nr_whys = min(rs->nr_pools, MTIER_WHYS_MAX);
	for (i = 0; i < b->nr_whys; i++) {
		b->why[i].nodes = rs->pool[i].nodes;
		b->why[i].why = rs->pool[i].why;
	}
}

/*
 * End a burst: set the parameters of the next one. Returns the time to rest until
 * then.
 */
static u64 mtier_round_end(struct mtier_round *r)
{
	u64 burst_ns = ktime_get_ns() - r->start_ns, rest_ns;
	struct mtier_burst *b = &mtier_burst;

	mtier_round_heat(r);
	r->seen.spent_ns = mtier_round_spent(r);
	mutex_lock(&mtier_burst_lock);
	mtier_audit_judge(&b->place, r->looks, true);
	mtier_seen_add(&b->seen, &r->seen);
	mtier_machine_fixed(&r->seen);
	mtier_machine_per_range(&r->watch, &r->seen);
	mtier_machine_looked(&r->seen);
	b->gain_ns = r->gain_ns;
	b->spent_ns = r->seen.spent_ns;
	b->margin = mtier_place_margin(&b->place, &b->machine, &b->worth);
	trace_mtier_burst(r->watch.nr, r->watch.nr_parts, r->looks,
			  b->place.tau_ns, b->margin, r->seen.taken,
			  r->gain_ns, r->seen.spent_ns,
			  r->watch.routes->nr_pools ? r->watch.routes->pool[0].why :
						      MTIER_PLAN_NOBODY);
	/* A change of the scan interval restarts the counting. */
	memcpy(b->hist, b->place.hist, sizeof(b->hist));
	/*
	 * The use of the slow tier decides. If no slow page was sampled, nothing is
	 * known.
	 */
	if (r->seen.pages[MTIER_LOW]) {
		mtier_round_tell(r);
		mtier_place_steer(&b->place, &b->machine, b->margin,
				  r->gain_ns > 2 * r->seen.spent_ns);
	}
	rest_ns = mtier_place_rest_ns(&b->place, &b->machine, r->gain_ns,
				      r->seen.spent_ns, burst_ns);
	mutex_unlock(&mtier_burst_lock);
	return rest_ns;
}

/* Get the reason why there was nothing to scan, for mtier/state. */
static enum mtier_state mtier_burst_idle(bool low)
{
	nodemask_t slow = mtier_nodes_slow();

	if (nodes_empty(slow))
		return MTIER_STATE_NO_SLOW_TIER;
	return low ? MTIER_STATE_RESTING : MTIER_STATE_IDLE;
}

/*
 * Check whether the fast tier has room for all slow pages in use, so that no page has
 * to be demoted. With several target nodes, pages to demote are sampled in any case: some
 * of the nodes may be full, and pages may not go to the others. The use of several fast
 * nodes also decides which of them a page is promoted to.
 */
static bool mtier_burst_low_only(u64 free, u64 low)
{
	nodemask_t above = mtier_nodes_above();

	return free >= low && nodes_weight(above) == 1 && !mtier_conf.observe;
}

/* Find the ranges in use, and count them. */
static void mtier_burst_sweep(struct mtier_sample_sum *sum, bool asked)
{
	struct mtier_burst *b = &mtier_burst;
	struct mtier_seen did = { };
	ktime_t now = ktime_get();

	mtier_sweep(now, asked, b->place.tau_ns, &did);
	mtier_sample_sum(sum, now);
	mutex_lock(&mtier_burst_lock);
	b->seen.sweeps += did.sweeps;
	b->seen.swept += did.swept;
	b->seen.swept_ns += did.swept_ns;
	b->seen.flushes += did.flushes;
	b->seen.flushed_ns += did.flushed_ns;
	b->in_use = sum->ranges[MTIER_LOW];
	mutex_unlock(&mtier_burst_lock);
}

/*
 * Mark unmapped page cache that may have to make room, for later bursts. @low: pages in
 * use on slow nodes
 */
static void mtier_burst_mark(u64 low)
{
	nodemask_t above = mtier_nodes_above();
	u64 free;
	int nid;

	if (!READ_ONCE(numa_demotion_enabled))
		return;
	for_each_node_mask(nid, above) {
		free = mtier_node_free_above(nid, WMARK_HIGH);
		if (low > free)
			mtier_unmapped_mark(nid, 2 * (low - free));
	}
}

/* Draw the sample of a burst. False if there is nothing to scan. */
static bool mtier_burst_draw(struct mtier_round *r, bool asked)
{
	struct mtier_burst *b = &mtier_burst;
	struct mtier_sample_sum sum;
	u64 low, pages;

	mtier_burst_sweep(&sum, asked);
	mutex_lock(&mtier_burst_lock);
	mtier_machine_read(&b->machine, sum.pages[MTIER_LOW]);
	if (asked)
		mtier_place_hurry(&b->place, &b->machine);
	mutex_unlock(&mtier_burst_lock);
	low = mtier_place_slow_pages(&b->machine);
	mtier_burst_mark(low);
	/* Sweeps and marks are no scans, and have separate limits. */
	r->ran_ns = task_sched_runtime(current);
	pages = mtier_place_pages(&b->place, &b->machine);
	if (mtier_sample_draw(&r->watch, &sum, pages / MTIER_RANGE_PAGES,
			      mtier_burst_low_only(b->machine.free, low)))
		return false;
	r->watch.routes = mtier_routes_begin();
	return true;
}

/*
 * Count a burst that found nothing in use. Returns the time to rest: until the next
 * sweep, or longer if memory was in use and there was none to scan it with.
 */
static u64 mtier_burst_empty(const struct mtier_round *r)
{
	u64 now_ns = ktime_get_ns(), next_ns = mtier_sweep_next();
	struct mtier_burst *b = &mtier_burst;

	mutex_lock(&mtier_burst_lock);
	mtier_seen_add(&b->seen, &r->seen);
	trace_mtier_burst(0, 0, 0, b->place.tau_ns, 0, 0, 0, 0, MTIER_PLAN_NOBODY);
	mutex_unlock(&mtier_burst_lock);
	return b->in_use ? MTIER_BURST_IDLE_NS : next_ns - min(next_ns, now_ns);
}

/* Run one burst. Returns the time to rest. */
static u64 mtier_burst_run(void)
{
	struct mtier_round r = { .start_ns = ktime_get_ns() };
	bool asked = xchg(&mtier_burst_asked, false);
	u64 rest_ns = MTIER_BURST_IDLE_NS;
	bool low;

	mtier_audit_expire();
	low = mtier_machine_any_low();
	if (!low || !mtier_burst_draw(&r, asked)) {
		if (low)
			rest_ns = mtier_burst_empty(&r);
		WRITE_ONCE(mtier_state, mtier_burst_idle(low));
		return rest_ns;
	}
	WRITE_ONCE(mtier_state, MTIER_STATE_LOOKING);
	mtier_audit_take(&r.watch);
	if (mtier_round_looks(&r))
		rest_ns = mtier_round_end(&r);
	mtier_sample_drop(&r.watch);
	WRITE_ONCE(mtier_state, MTIER_STATE_RESTING);
	return rest_ns;
}

/*
 * Account for the time since @since_ns, which had no scans. Scans may use more CPU
 * time after it, and old results fade.
 */
static void mtier_burst_rested(u64 since_ns)
{
	struct mtier_burst *b = &mtier_burst;
	u64 now = ktime_get_ns();

	mutex_lock(&mtier_burst_lock);
	mtier_place_paid(&b->place, &b->machine, now - since_ns, 0);
	if (now - b->faded_ns >= MTIER_FADE_NS) {
		mtier_place_fade(&b->place);
		b->faded_ns = now;
	}
	mutex_unlock(&mtier_burst_lock);
}

static int mtier_burst_thread(void *unused)
{
	set_freezable();
	/*
	 * Each moment that a page in use stays on the slow tier costs its users more
	 * than the migration does. On busy CPUs, the limits on scans and on the rate
	 * shall determine the speed of promotion, and not the number of threads on
	 * these CPUs.
	 */
	set_user_nice(current, MTIER_NICE);
	while (!kthread_freezable_should_stop(NULL)) {
		u64 rest_ns = mtier_burst_run();
		u64 now = ktime_get_ns();

		mtier_burst_wait(now + rest_ns, true);
		mtier_burst_rested(now);
	}
	return 0;
}

/**
 * mtier_burst_start() - Start kmtierd.
 *
 * Return: 0; -EOPNOTSUPP if the CPUs do not set Accessed bits by themselves, since
 * each scan would then cost a fault for each page; -ENOMEM, or the error of thread
 * creation.
 */
int mtier_burst_start(void)
{
	struct mtier_burst *b = &mtier_burst;
	struct task_struct *p;
	int ret;

	if (!arch_has_hw_pte_young())
		return -EOPNOTSUPP;
	ret = mtier_audit_start();
	if (!ret)
		ret = mtier_routes_start();
	if (!ret)
		ret = mtier_swap_start();
	if (ret)
		goto err;
	mutex_lock(&mtier_burst_lock);
	*b = (struct mtier_burst) {
		.faded_ns = ktime_get_ns(),
		.per_range = MTIER_RANGE_PAGES,
	};
	mtier_burst_asked = false;
	/* Ranges in use are not known yet. They bring credit when a sweep finds them. */
	mtier_machine_read(&b->machine, 0);
	mtier_place_init(&b->place, &b->machine);
	mutex_unlock(&mtier_burst_lock);
	p = kthread_run(mtier_burst_thread, NULL, "kmtierd");
	ret = PTR_ERR_OR_ZERO(p);
	if (ret)
		goto err;
	mtier_burst_task = p;
	return 0;
err:
	mtier_swap_stop();
	mtier_routes_stop();
	mtier_audit_stop();
	return ret;
}

/**
 * mtier_burst_ask() - Request a burst at once, which scans as much as the first one.
 *
 * A burst in progress is not disturbed; the requested one follows it without a rest.
 *
 * Return: 0, or -ENODEV if promotion is off.
 */
int mtier_burst_ask(void)
{
	lockdep_assert_held(&mtier_mutex);
	if (!mtier_burst_task)
		return -ENODEV;
	WRITE_ONCE(mtier_burst_asked, true);
	wake_up_process(mtier_burst_task);
	return 0;
}

/**
 * mtier_burst_stop() - Stop kmtierd and wait for its end.
 */
void mtier_burst_stop(void)
{
	if (mtier_burst_task)
		kthread_stop(mtier_burst_task);
	mtier_burst_task = NULL;
	mtier_sweep_stop();
	mtier_unmapped_stop();
	mtier_swap_stop();
	mtier_routes_stop();
	mtier_audit_stop();
	WRITE_ONCE(mtier_state, MTIER_STATE_OFF);
}
