// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: the scan thread.
 *
 * kmmscand takes the address space that is due for longest, walks a slice of
 * it, and puts it back: at once if its visit is not over, else one period
 * later. A visit covers size_mb of mapped memory from where the last one
 * stopped, or ends at the end of the address space. Period and size adapt to
 * whether visits find accessed pages on slow nodes (policy.c).
 *
 * When more pages turn out to be accessed than there is room for, the busiest
 * are wanted. Then a visit goes over a chunk of memory twice, a short time apart:
 * once to clear Accessed bits and once to see which are set again, the shorter
 * the more there are (mtier_probe_adapt()). Pages of full nodes are looked at in
 * the same way, by the same clock: who is idle there gives way (cold.c).
 *
 * The thread pays for what it does: after every slice it owes a rest that
 * keeps it below cpu_percent of one CPU, and it stops while a migrator's queue
 * is under pressure.
 */
#include <linux/freezer.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/sched/clock.h>
#include <linux/sched/mm.h>
#include <trace/events/mtier.h>

#include <asm/tlbflush.h>

#include "mtier.h"

/* Rests shorter than this are saved up. */
#define MTIER_REST_MIN_NS	(4 * NSEC_PER_MSEC)
/* How long to leave an mm whose mmap_lock was taken. */
#define MTIER_LOCK_RETRY_MS	10
/* Longest sleep: nodes and knobs are looked at again after it. */
#define MTIER_SLEEP_MAX_MS	1000
/* Wait between two looks at full queues. */
#define MTIER_FULL_WAIT_MS	20

/*
 * Cleared and looked at again in one go: as much as is walked in a ms or two, and
 * more where the wait between the two is so long that it would take most of the
 * time: as much as is walked in a part of it.
 */
#define MTIER_CHUNK_BYTES	(16 << 20)

/* Longest time without giving others the CPU: some of these chunks. */
#define MTIER_GO_MAX_NS		(8 * NSEC_PER_MSEC)

/* Before all others: what lies between arming and looking would count as time. */
#define MTIER_DUE_FIRST		0

enum mtier_state mtier_scan_state;
static DECLARE_WAIT_QUEUE_HEAD(mtier_scan_wait);
static struct task_struct *mtier_scan_task;
/* When the thread will look at the queue by itself, and: it shall do so now. */
static ktime_t mtier_scan_next;
static bool mtier_scan_kicked;

static struct mtier_pace_bounds mtier_scan_bounds(void)
{
	return (struct mtier_pace_bounds) {
		.period_min_ms = READ_ONCE(mtier_conf.period_min_ms),
		.period_max_ms = READ_ONCE(mtier_conf.period_max_ms),
		.size_min_mb = READ_ONCE(mtier_conf.size_min_mb),
		.size_max_mb = READ_ONCE(mtier_conf.size_max_mb),
	};
}

static pid_t mtier_slot_pid(struct mtier_slot *slot)
{
	struct task_struct *p;
	pid_t pid = 0;

	rcu_read_lock();
	p = rcu_dereference(slot->mm->owner);
	if (p)
		pid = p->pid;
	rcu_read_unlock();
	return pid;
}

/* Only an identifier for traces, stable while the mm lives. */
static u64 mtier_slot_id(struct mtier_slot *slot)
{
	return hash_long((unsigned long)slot->mm, 32);
}

/* The next chunk starts here, with taking away what bits there are. */
static void mtier_chunk_arm(struct mtier_slot *slot)
{
	slot->pass = MTIER_PASS_ARM;
	slot->chunk_start = slot->cursor;
	slot->chunk = MTIER_CHUNK_BYTES;
	slot->chunk_ns = ktime_get_ns();
}

/* Base pages of slow nodes that page tables point to. */
static unsigned long mtier_slow_mapped(void)
{
	unsigned long sum = 0;
	int nid;

	for_each_node_state(nid, N_MEMORY)
		if (mtier_node_is_slow(nid))
			sum += mtier_node_mapped(nid);
	return sum;
}

static u32 mtier_period_ms(struct mtier_slot *slot)
{
	u32 scale = READ_ONCE(slot->mm->mtier_scan_scale);

	return mtier_pace_scale(slot->pace.period_ms,
				scale ?: MTIER_SCALE_DEFAULT);
}

/* How long does it take until the same page is looked at again? */
static void mtier_cycle(struct mtier_slot *slot, ktime_t now)
{
	s64 ms = ktime_ms_delta(now, slot->cycle_start);

	if (!slot->cursor) {
		if (slot->cycle_start)
			slot->cycle_ms = min_t(s64, ms, U32_MAX);
		slot->cycle_start = now;
	}
	slot->look_ms = slot->cycle_ms ?: mtier_period_ms(slot);
}

/* Memory that an address space maps. */
static u32 mtier_slot_mb(struct mtier_slot *slot)
{
	return min_t(unsigned long, get_mm_rss(slot->mm) >> (20 - PAGE_SHIFT),
		     U32_MAX);
}

static int mtier_visit_begin(struct mtier_slot *slot, ktime_t now)
{
	struct mtier_pace_bounds bounds = mtier_scan_bounds();

	if (mtier_slot_weigh(slot))
		return -ENOMEM;
	if (!slot->pace.period_ms) {
		mtier_pace_init(&slot->pace,
				READ_ONCE(mtier_conf.period_start_ms),
				READ_ONCE(mtier_conf.size_start_mb), &bounds);
		slot->probe = mtier_probe_start(mtier_slow_mapped(),
						mtier_room_above());
	}
	mtier_cycle(slot, now);
	slot->visit = true;
	slot->visit_start = now;
	WRITE_ONCE(slot->not_before, ktime_add_ms(now, bounds.period_min_ms));
	slot->budget = (s64)mtier_visit_mb(slot->pace.size_mb,
					   mtier_slot_mb(slot), &bounds) << 20;
	slot->nr_ptes = 0;
	slot->nr_slow = 0;
	slot->nr_found = 0;
	slot->nr_seen = 0;
	slot->nr_top = 0;
	slot->nr_cleared = 0;
	slot->nr_armed = 0;
	slot->last = false;
	slot->pass = MTIER_PASS_PLAIN;
	slot->cold = slot->probe && mtier_cold_prepare();
	if (slot->probe)
		mtier_chunk_arm(slot);
	trace_mtier_scan_start(mtier_slot_pid(slot), mtier_slot_id(slot),
			       slot->cursor, slot->pace.period_ms,
			       slot->pace.size_mb);
	return 0;
}

/* Make busy pages set their Accessed bit again: after a visit, or a chunk. */
static void mtier_visit_flush(struct mtier_slot *slot)
{
	if (!slot->nr_cleared || !READ_ONCE(mtier_conf.flush_tlb) ||
	    !mmget_not_zero(slot->mm))
		return;
	flush_tlb_mm(slot->mm);
	slot->nr_cleared = 0;
	count_vm_event(MTIER_SCAN_FLUSHES);
	mmput_async(slot->mm);
}

/*
 * A chunk is armed: look at it again after a while, its first page as long after
 * that was armed as its last one after it. Returns when.
 */
static ktime_t mtier_chunk_look(struct mtier_slot *slot, enum mtier_stop stop)
{
	u32 ms = mtier_probe_ms(slot->probe);
	ktime_t due;

	mtier_visit_flush(slot);
	due = ktime_add_ms(ns_to_ktime(slot->chunk_ns), ms);
	due = max(due, ktime_add_ms(ktime_get(), ms / 2));
	slot->last = stop != MTIER_STOP_CHUNK;
	slot->stop = stop;
	slot->chunk_end = stop == MTIER_STOP_END ? slot->mm->task_size :
						   slot->cursor;
	slot->cursor = slot->chunk_start;
	slot->pass = MTIER_PASS_LOOK;
	return ms ? due : MTIER_DUE_FIRST;
}

/* Returns when the mm is due again. */
static ktime_t mtier_visit_end(struct mtier_slot *slot, enum mtier_stop stop)
{
	struct mtier_pace_bounds bounds = mtier_scan_bounds();
	ktime_t due, now = ktime_get();
	u32 period;

	/* After a look there is a flush before the next one. */
	if (slot->pass == MTIER_PASS_PLAIN)
		mtier_visit_flush(slot);
	mtier_pace_adapt(&slot->pace, slot->nr_slow || slot->nr_armed, &bounds);
	if (mtier_promote_failing())
		mtier_pace_backoff(&slot->pace, &bounds);
	slot->probe = mtier_probe_adapt(slot->probe, slot->nr_found,
					slot->nr_seen, mtier_room_above());
	if (stop == MTIER_STOP_END)
		slot->cursor = 0;
	slot->visit = false;

	period = mtier_period_ms(slot);
	due = ktime_add_ms(slot->visit_start, period);
	count_vm_event(MTIER_SCAN_VISITS);
	trace_mtier_scan_end(mtier_slot_pid(slot), mtier_slot_id(slot),
			     slot->cursor, slot->nr_ptes, slot->nr_slow,
			     slot->nr_top, period, slot->pace.size_mb, stop,
			     slot->probe);
	return ktime_before(due, now) ? now : due;
}

/* Is there a chunk that is armed, or partly, and not yet looked at? */
static bool mtier_in_chunk(const struct mtier_slot *slot)
{
	return slot->visit && (slot->pass == MTIER_PASS_LOOK ||
			       (slot->pass == MTIER_PASS_ARM &&
				slot->cursor != slot->chunk_start));
}

/* A walk came to its end: that of the visit, or of a part of it. */
static ktime_t mtier_walk_over(struct mtier_slot *slot, enum mtier_stop stop)
{
	switch (slot->pass) {
	case MTIER_PASS_PLAIN:
		break;
	case MTIER_PASS_ARM:
		return mtier_chunk_look(slot, stop);
	case MTIER_PASS_LOOK:
		slot->cursor = slot->chunk_end;
		if (slot->last)
			return mtier_visit_end(slot, slot->stop);
		mtier_chunk_arm(slot);
		return ktime_get();
	}
	return mtier_visit_end(slot, stop);
}

/* One slice of a mm; returns when it is due again. */
static ktime_t mtier_scan_slot(struct mtier_slot *slot, ktime_t now)
{
	u64 later = READ_ONCE(mtier_conf.period_max_ms);
	enum mtier_stop stop;

	if (!READ_ONCE(slot->mm->mtier_scan_scale))
		return ktime_add_ms(now, later);
	if (!slot->visit && mtier_visit_begin(slot, now))
		return ktime_add_ms(now, later);

	stop = mtier_walk_slice(slot);
	switch (stop) {
	case MTIER_STOP_END:
	case MTIER_STOP_SIZE:
	case MTIER_STOP_CHUNK:
		return mtier_walk_over(slot, stop);
	case MTIER_STOP_LOCK:
		return ktime_add_ms(now, MTIER_LOCK_RETRY_MS);
	case MTIER_STOP_EXIT:
		/* Its exit takes the slot away. */
		return ktime_add_ms(now, later);
	case MTIER_STOP_TIME:
	case MTIER_STOP_FULL:
		break;
	}
	return mtier_in_chunk(slot) ? MTIER_DUE_FIRST : ktime_get();
}

/*
 * As mtier_scan_slot(), but a chunk without a wait between its two passes is done
 * in one go: on a busy CPU each time that somebody else has his turn is several
 * times as long as arming and looking take, and pages of middling use are met,
 * too. Not for longer, though, however many VMAs a chunk is scattered over.
 */
static ktime_t mtier_scan_slices(struct mtier_slot *slot, ktime_t now)
{
	u64 end = local_clock() + MTIER_GO_MAX_NS;
	ktime_t due = mtier_scan_slot(slot, now);

	while (due == MTIER_DUE_FIRST && mtier_in_chunk(slot) &&
	       local_clock() < end && !mtier_promote_pressure())
		due = mtier_scan_slot(slot, ktime_get());
	return due;
}

/* Does any slow node have pages that page tables can point to? */
static enum mtier_state mtier_worth_scanning(void)
{
	bool slow = false;
	int nid;

	for_each_node_state(nid, N_MEMORY) {
		if (!mtier_node_is_slow(nid))
			continue;
		slow = true;
		if (mtier_node_mapped(nid))
			return MTIER_STATE_SCANNING;
	}
	return slow ? MTIER_STATE_IDLE : MTIER_STATE_NO_SLOW_TIER;
}

/**
 * mtier_scan_kick() - an mm has become due sooner than others
 * @due: when; called after it was queued
 *
 * Costs a comparison unless the scanner would sleep past @due.
 *
 * Context: any but NMI.
 */
void mtier_scan_kick(ktime_t due)
{
	/* Pairs with that in mtier_scan_thread(): queue, then look. */
	smp_mb();
	if (!ktime_before(due, READ_ONCE(mtier_scan_next)))
		return;
	WRITE_ONCE(mtier_scan_kicked, true);
	wake_up(&mtier_scan_wait);
}

/* Rest, but not past a stop. */
static void mtier_scan_rest(enum mtier_state state, u64 ns)
{
	WRITE_ONCE(mtier_scan_state, state);
	wait_event_freezable_timeout(mtier_scan_wait, kthread_should_stop(),
				     nsecs_to_jiffies(ns) + 1);
}

/* Nothing to do: as mtier_scan_rest(), but a kick ends it. */
static void mtier_scan_sleep(enum mtier_state state, u64 ns)
{
	WRITE_ONCE(mtier_scan_state, state);
	WRITE_ONCE(mtier_scan_next, ktime_add_ns(ktime_get(), ns));
	wait_event_freezable_timeout(mtier_scan_wait,
				     READ_ONCE(mtier_scan_kicked) ||
				     kthread_should_stop(),
				     nsecs_to_jiffies(ns) + 1);
}

/* How long to sleep until @due, in ns. */
static u64 mtier_until(ktime_t now, ktime_t due)
{
	u64 max = MTIER_SLEEP_MAX_MS * NSEC_PER_MSEC;

	return min_t(u64, max, ktime_to_ns(ktime_sub(due, now)));
}

static int mtier_scan_thread(void *unused)
{
	u64 debt_ns = 0;

	set_freezable();
	while (!kthread_freezable_should_stop(NULL)) {
		struct mtier_slot *slot;
		enum mtier_state worth;
		ktime_t now, due;
		bool in_chunk;
		u64 ran;

		WRITE_ONCE(mtier_scan_kicked, false);
		WRITE_ONCE(mtier_scan_next, KTIME_MAX);
		/* Who queues an mm from here on kicks: look, then sleep. */
		smp_mb();
		worth = mtier_worth_scanning();
		if (worth != MTIER_STATE_SCANNING) {
			mtier_scan_sleep(worth,
					 MTIER_SLEEP_MAX_MS * NSEC_PER_MSEC);
			continue;
		}
		if (mtier_promote_pressure()) {
			count_vm_event(MTIER_BACKPRESSURE);
			mtier_scan_rest(MTIER_STATE_PAUSED_QUEUE,
					MTIER_FULL_WAIT_MS * NSEC_PER_MSEC);
			continue;
		}
		now = ktime_get();
		mtier_hot_adjust(now);
		slot = mtier_slot_next(now, &due);
		if (!slot) {
			mtier_scan_sleep(MTIER_STATE_IDLE,
					 mtier_until(now, due));
			continue;
		}
		WRITE_ONCE(mtier_scan_state, MTIER_STATE_SCANNING);
		ran = task_sched_runtime(current);
		due = mtier_scan_slices(slot, now);
		in_chunk = mtier_in_chunk(slot);
		ran = task_sched_runtime(current) - ran;
		mtier_charge_scan(slot->mm, ran);
		mtier_slot_requeue(slot, due);

		debt_ns += mtier_cpu_pause_ns(ran,
				READ_ONCE(mtier_conf.cpu_percent));
		/* A rest would make the time between arming and looking longer. */
		if (debt_ns >= MTIER_REST_MIN_NS && !in_chunk) {
			count_vm_event(MTIER_THROTTLE_CPU);
			mtier_scan_rest(MTIER_STATE_PAUSED_CPU, debt_ns);
			debt_ns = 0;
		}
		cond_resched();
	}
	return 0;
}

/**
 * mtier_scan_start() - start kmmscand
 *
 * Return: 0 or the error of making a thread.
 */
int mtier_scan_start(void)
{
	struct task_struct *p;

	p = kthread_run(mtier_scan_thread, NULL, "kmmscand");
	if (IS_ERR(p))
		return PTR_ERR(p);
	mtier_scan_task = p;
	return 0;
}

/**
 * mtier_scan_stop() - stop kmmscand and wait for it
 */
void mtier_scan_stop(void)
{
	if (mtier_scan_task)
		kthread_stop(mtier_scan_task);
	mtier_scan_task = NULL;
	WRITE_ONCE(mtier_scan_state, MTIER_STATE_OFF);
}
