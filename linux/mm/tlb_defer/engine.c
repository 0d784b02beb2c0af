// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flush of migrated pages: the core.
 *
 * The whole machine has one set of generations (gen.c). A worker closes the open
 * generation every tick. Each CPU that is behind flushes in its own timer interrupt, and
 * publishes up to which generation it is clean. When all CPUs of a generation are clean,
 * its frames are freed: in the tick after the close, or one tick later if the worker ran
 * before the tick of some CPU. A CPU without a tick in time gets an interrupt. All CPUs
 * get one if the frames are needed sooner.
 *
 * Ordering. The remover of a translation clears the entry, increments tlb_gen (full
 * barrier), and later commits under the lock (batch.c). A generation is closed under the
 * lock, and a CPU reads the open generation (acquire) before it compares its tlb_gen. So
 * a CPU that publishes "clean up to g" has observed every tlb_gen that was incremented
 * before a commit to g. The worker reads the published values (acquire) before it frees
 * frames.
 *
 * Locking: flush_mutex serialises flushes. page table lock -> tlb_defer_lock; the latter
 * is innermost, and never taken in an interrupt. The timer interrupt takes no lock. No
 * memory is allocated under flush_mutex, so reclaim can take it.
 */
#define pr_fmt(fmt) "tlb_defer: " fmt

#include <linux/cpu.h>
#include <linux/jiffies.h>
#include <linux/memory.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/vmstat.h>
#include <linux/workqueue.h>
#include <asm/tlbflush.h>

#include "gen.h"
#include "tlb_defer.h"

#define CREATE_TRACE_POINTS
#include <trace/events/tlb_defer.h>

/*
 * An address space with this many more forced flushes than generations is not deferred
 * for backoff_ms.
 */
#define TLB_DEFER_FORCED_MORE	8
/* Most pages that migration unmaps at a time */
#define TLB_DEFER_BATCH		512L
/* From this number on, the counts of older generations and flushes are halved. */
#define TLB_DEFER_FORGET	256

static DEFINE_SPINLOCK(tlb_defer_lock);
static DEFINE_MUTEX(flush_mutex);

/* Written under tlb_defer_lock; open and done can be read without it. */
static struct tlb_defer_ring ring;
static struct list_head frames[TLB_DEFER_GENS];

/* CPUs that the current flush has to reach; under flush_mutex. */
static struct arch_tlbflush_unmap_batch flush_batch;

/* Written only by its own CPU, in the timer interrupt. */
static DEFINE_PER_CPU(u64, cpu_done);

static atomic_long_t held[MAX_NUMNODES];
static atomic_long_t held_all;
static unsigned long paused_until;

/* jiffies of the last tick that started the worker */
static unsigned long sent_at;

static struct workqueue_struct *workqueue;
static void work_fn(struct work_struct *work);
static DECLARE_DELAYED_WORK(work, work_fn);

/* ---- commit ---- */

static unsigned int index_of(u64 gen)
{
	return gen & (TLB_DEFER_GENS - 1);
}

static void kick(void)
{
	if (!delayed_work_pending(&work))
		queue_delayed_work(workqueue, &work, 1);
}

/**
 * tlb_defer_open() - Register a batch in an address space
 * @mm: address space; the caller holds the page table lock of an entry it has
 *	cleared
 * @again: the batch was registered before, and a flush was forced since
 *
 * From here on, a change of an entry of @mm flushes @mm first. tlb_defer_seal() or
 * tlb_defer_close() must follow, once for all calls of a batch.
 *
 * Return: the epoch of @mm. If the epoch has changed when the batch has cleared its next
 * entry (full barrier), the batch must call this again.
 */
u32 tlb_defer_open(struct mm_struct *mm, bool again)
{
	struct tlb_defer_mm *state = &mm->tlb_defer;
	u32 epoch;

	spin_lock(&tlb_defer_lock);
	if (!again)
		state->open++;
	WRITE_ONCE(state->gen, TLB_DEFER_UNSEALED);
	epoch = state->epoch;
	state->noted = epoch;
	spin_unlock(&tlb_defer_lock);
	return epoch;
}

/*
 * End a batch. If this or another batch has registered itself after the last forced
 * flush, @mm depends on the committed generation; otherwise that flush covered the batch.
 */
static void close_locked(struct tlb_defer_mm *state)
{
	lockdep_assert_held(&tlb_defer_lock);
	if (!--state->open && state->gen == TLB_DEFER_UNSEALED)
		WRITE_ONCE(state->gen, state->sealed > ring.done ?
			   state->sealed : 0);
}

/**
 * tlb_defer_seal() - Commit removed translations to the open generation
 * @mms: address spaces; the caller has cleared the entries, incremented tlb_gen
 *	after each and called tlb_defer_open()
 * @nr: number of address spaces
 * @cpus: CPUs that used one of them after that
 *
 * Return: the generation after which no CPU uses the translations.
 */
u64 tlb_defer_seal(struct mm_struct *const *mms, unsigned int nr,
		   const struct cpumask *cpus)
{
	unsigned int i;
	u64 gen;

	spin_lock(&tlb_defer_lock);
	gen = tlb_defer_ring_seal(&ring, cpumask_bits(cpus));
	for (i = 0; i < nr; i++) {
		struct tlb_defer_mm *state = &mms[i]->tlb_defer;

		if (state->counted != (u32)gen && state->batches < U16_MAX) {
			state->counted = gen;
			state->batches++;
		}
		state->sealed = gen;
		tlb_defer_protect_saved(&state->protect);
		close_locked(state);
	}
	spin_unlock(&tlb_defer_lock);
	kick();
	return gen;
}

/**
 * tlb_defer_close() - End a batch whose CPUs were all flushed
 * @mms: address spaces passed to tlb_defer_open()
 * @nr: number of address spaces
 */
void tlb_defer_close(struct mm_struct *const *mms, unsigned int nr)
{
	unsigned int i;

	spin_lock(&tlb_defer_lock);
	for (i = 0; i < nr; i++)
		close_locked(&mms[i]->tlb_defer);
	spin_unlock(&tlb_defer_lock);
}

/**
 * tlb_defer_mm_done() - Check that no flush of an address space is deferred
 * @mm: address space; the caller holds the page table lock of the entry in
 *	question
 *
 * Return: true if none is. Then the generation is cleared, so that the next check is
 * cheap.
 */
bool tlb_defer_mm_done(struct mm_struct *mm)
{
	struct tlb_defer_mm *state = &mm->tlb_defer;

	if (READ_ONCE(state->gen) > tlb_defer_done())
		return false;
	spin_lock(&tlb_defer_lock);
	/* A batch may have committed entries of @mm since the check. */
	if (state->gen <= ring.done)
		WRITE_ONCE(state->gen, 0);
	spin_unlock(&tlb_defer_lock);
	return true;
}

/**
 * tlb_defer_mm_flush() - Start a forced flush of an address space
 * @mm: address space; the caller flushes it next, which is a full barrier before
 *	it reads the mask of CPUs
 *
 * If a batch clears an entry and then reads the epoch from before this call, the flush
 * covers that entry. A batch that reads the new epoch registers itself again.
 *
 * Return: the new epoch, for tlb_defer_mm_flushed().
 */
u32 tlb_defer_mm_flush(struct mm_struct *mm)
{
	struct tlb_defer_mm *state = &mm->tlb_defer;
	u32 epoch;

	spin_lock(&tlb_defer_lock);
	epoch = state->epoch + 1;
	WRITE_ONCE(state->epoch, epoch);
	spin_unlock(&tlb_defer_lock);
	return epoch;
}

/**
 * tlb_defer_mm_flushed() - End a forced flush of an address space
 * @mm: address space
 * @epoch: return value of tlb_defer_mm_flush()
 *
 * If forced flushes outnumber generations, deferral costs more than the flush of the
 * migration would have. Then this mm is not deferred for backoff_ms.
 */
void tlb_defer_mm_flushed(struct mm_struct *mm, u32 epoch)
{
	unsigned int ms = READ_ONCE(tlb_defer_conf.backoff_ms);
	struct tlb_defer_mm *state = &mm->tlb_defer;

	spin_lock(&tlb_defer_lock);
	/* A batch that has registered itself since may have cleared entries since. */
	if ((s32)(state->noted - epoch) < 0) {
		WRITE_ONCE(state->gen, 0);
		state->sealed = 0;
	}
	if (state->forced < U16_MAX)
		state->forced++;
	if (ms && state->forced > state->batches + TLB_DEFER_FORCED_MORE) {
		WRITE_ONCE(state->resume, (jiffies + msecs_to_jiffies(ms)) | 1);
		state->forced = 0;
		state->batches = 0;
		count_vm_event(TLB_DEFER_BACKOFFS);
	} else if (state->batches > TLB_DEFER_FORGET) {
		state->batches /= 2;
		state->forced /= 2;
	}
	spin_unlock(&tlb_defer_lock);
}

/**
 * tlb_defer_mm_stored() - Stop to leave entries write-protected, after too many stores
 * @mm: address space
 */
void tlb_defer_mm_stored(struct mm_struct *mm)
{
	struct tlb_defer_protect *protect = &mm->tlb_defer.protect;

	spin_lock(&tlb_defer_lock);
	/* Another task may have done it. */
	if (tlb_defer_protect_fails(protect)) {
		tlb_defer_protect_stop(protect, jiffies,
				       READ_ONCE(tlb_defer_conf.backoff_ms));
		count_vm_event(TLB_DEFER_PROTECT_STOPS);
	}
	spin_unlock(&tlb_defer_lock);
}

/**
 * tlb_defer_done() - Get the newest generation that is done
 *
 * Return: no CPU uses a translation that was committed to this generation.
 */
u64 tlb_defer_done(void)
{
	/* Pairs with tlb_defer_ring_finish() and _retire() */
	return smp_load_acquire(&ring.done);
}

static void hold_more(int nid, long pages)
{
	atomic_long_add(pages, &held[nid]);
	atomic_long_add(pages, &held_all);
}

/* Drop the reference of each folio, and empty the list. */
static void put_frames(struct list_head *folios)
{
	struct folio *folio, *next;

	list_for_each_entry_safe(folio, next, folios, lru)
		folio_put(folio);
	INIT_LIST_HEAD(folios);
}

/**
 * tlb_defer_hold() - Hold frames until a generation is done (C)
 * @folios: source folios of a migration, each with a reference for this; empty
 *	afterwards
 * @nid: their node
 * @pages: number of their pages
 * @gen: return value of tlb_defer_seal() for the last of their translations
 */
void tlb_defer_hold(struct list_head *folios, int nid, long pages, u64 gen)
{
	spin_lock(&tlb_defer_lock);
	/*
	 * If @gen is done already, all CPUs flushed during the copy: free the frames now.
	 */
	if (gen > ring.done) {
		hold_more(nid, pages);
		list_splice_tail_init(folios, &frames[index_of(gen)]);
	}
	spin_unlock(&tlb_defer_lock);
	put_frames(folios);
}

/* ---- CPUs ---- */

/*
 * Run the worker now if it is pending. The first CPU of each tick does this. The worker's
 * own timer expires up to two ticks late, and serves a machine on which no CPU ticks.
 */
static void send_worker(void)
{
	unsigned long last = READ_ONCE(sent_at), now = jiffies;

	if (last != now && delayed_work_pending(&work) &&
	    try_cmpxchg(&sent_at, &last, now))
		mod_delayed_work(workqueue, &work, 0);
}

/**
 * __tlb_defer_tick() - Catch up with the closed generations on this CPU
 *
 * Context: timer interrupt, interrupts off.
 */
void __tlb_defer_tick(void)
{
	/* Before tlb_gen is read: see "Ordering" */
	u64 closed = smp_load_acquire(&ring.open) - 1;

	send_worker();
	if (__this_cpu_read(cpu_done) >= closed || tlb_defer_forever())
		return;
	if (tlb_defer_arch_catch_up())
		__count_vm_event(TLB_DEFER_TICK_FLUSH);
	/* After the flush; pairs with cpu_clean() */
	smp_store_release(this_cpu_ptr(&cpu_done), closed);
}

static bool cpu_clean(int cpu, u64 gen, void *data)
{
	if (tlb_defer_forever())
		return false;
	/* Pairs with __tlb_defer_tick() */
	return smp_load_acquire(per_cpu_ptr(&cpu_done, cpu)) >= gen ||
	       tlb_defer_arch_idle(cpu);
}

/* ---- end of a generation ---- */

/* Move the frames of generations that are done since @before to @list. */
static void collect(u64 before, struct list_head *list)
{
	lockdep_assert_held(&tlb_defer_lock);
	for (; before < ring.done; before++) {
		list_splice_tail_init(&frames[index_of(before + 1)], list);
		count_vm_event(TLB_DEFER_GENERATIONS);
	}
}

static void free_frames(struct list_head *list)
{
	int nid = NUMA_NO_NODE;
	struct folio *folio;
	long pages = 0;

	list_for_each_entry(folio, list, lru) {
		if (folio_nid(folio) != nid) {
			if (pages)
				hold_more(nid, -pages);
			nid = folio_nid(folio);
			pages = 0;
		}
		pages += folio_nr_pages(folio);
	}
	if (pages)
		hold_more(nid, -pages);
	put_frames(list);
}

static enum vm_event_item event_of(enum tlb_defer_why why)
{
	switch (why) {
	case TLB_DEFER_LATE:
		return TLB_DEFER_FLUSH_LATE;
	case TLB_DEFER_CAP:
		return TLB_DEFER_FLUSH_CAP;
	case TLB_DEFER_OPEN:
		return TLB_DEFER_FLUSH_OPEN;
	case TLB_DEFER_PRESSURE:
		return TLB_DEFER_FLUSH_PRESSURE;
	case TLB_DEFER_COMPACT:
		return TLB_DEFER_FLUSH_COMPACT;
	case TLB_DEFER_STOP:
		break;
	}
	return TLB_DEFER_FLUSH_STOP;
}

/*
 * Flush until @gen, which is closed, is done. Uses the architecture's batch flush, like
 * reclaim, so that hypervisors can use their own way to reach CPUs.
 */
static void flush_to(u64 gen, enum tlb_defer_why why)
{
	struct cpumask *cpus = &flush_batch.cpumask;
	LIST_HEAD(list);
	u64 before;
	int cpu, nr;

	lockdep_assert_held(&flush_mutex);

	spin_lock(&tlb_defer_lock);
	tlb_defer_ring_cpus(&ring, gen, cpumask_bits(cpus));
	spin_unlock(&tlb_defer_lock);
	/* Orders the removal of translations before the read of what CPUs have loaded */
	smp_mb();
	for_each_cpu(cpu, cpus)
		if (cpu_clean(cpu, gen, NULL))
			cpumask_clear_cpu(cpu, cpus);
	nr = cpumask_weight(cpus);
	if (nr) {
		count_vm_event(event_of(why));
		count_vm_events(TLB_DEFER_FLUSH_CPUS, nr);
		arch_tlbbatch_flush(&flush_batch);
	}
	trace_tlb_defer_flush(gen, why, nr);

	spin_lock(&tlb_defer_lock);
	before = ring.done;
	tlb_defer_ring_finish(&ring, gen);
	collect(before, &list);
	spin_unlock(&tlb_defer_lock);
	free_frames(&list);
}

/**
 * tlb_defer_flush_all() - Flush everything that was deferred before the call
 * @why: reason, for the counters
 *
 * May sleep. A concurrent caller finds nothing left to do after it gets the mutex.
 */
void tlb_defer_flush_all(enum tlb_defer_why why)
{
	bool all;
	u64 gen;

	might_sleep();
	mutex_lock(&flush_mutex);
	do {
		spin_lock(&tlb_defer_lock);
		/*
		 * If the generation is used and cannot be closed, too many are pending:
		 * loop.
		 */
		all = tlb_defer_ring_close(&ring, jiffies) ||
		      !ring.slot[index_of(ring.open)].used;
		gen = ring.open - 1;
		spin_unlock(&tlb_defer_lock);
		if (gen > tlb_defer_done())
			flush_to(gen, why);
	} while (!all);
	mutex_unlock(&flush_mutex);
}

/**
 * tlb_defer_flush_unsealed() - Flush also the entries of batches without a commit
 * @why: reason, for the counters
 *
 * Flushes all online CPUs, since only the batch has its mask of CPUs. Covers the entries
 * that were cleared before the call, but ends no generation.
 */
void tlb_defer_flush_unsealed(enum tlb_defer_why why)
{
	struct cpumask *cpus = &flush_batch.cpumask;
	int cpu;

	mutex_lock(&flush_mutex);
	cpumask_copy(cpus, cpu_online_mask);
	/* Orders the removal of translations before the read of what CPUs have loaded */
	smp_mb();
	for_each_cpu(cpu, cpus)
		if (tlb_defer_arch_idle(cpu))
			cpumask_clear_cpu(cpu, cpus);
	if (!cpumask_empty(cpus)) {
		count_vm_event(event_of(why));
		count_vm_events(TLB_DEFER_FLUSH_CPUS, cpumask_weight(cpus));
		arch_tlbbatch_flush(&flush_batch);
	}
	mutex_unlock(&flush_mutex);
}

/* Runs every tick while a generation is not done. */
static void work_fn(struct work_struct *unused)
{
	unsigned int ticks = READ_ONCE(tlb_defer_conf.limit_ticks);
	LIST_HEAD(list);
	u64 before, late;
	bool busy;

	spin_lock(&tlb_defer_lock);
	tlb_defer_ring_close(&ring, jiffies);
	/* Orders the removal of translations before the read of what CPUs have loaded */
	smp_mb();
	before = ring.done;
	tlb_defer_ring_retire(&ring, cpu_clean, NULL);
	collect(before, &list);
	late = tlb_defer_ring_overdue(&ring, jiffies, ticks);
	spin_unlock(&tlb_defer_lock);
	free_frames(&list);

	if (late && !tlb_defer_forever()) {
		mutex_lock(&flush_mutex);
		if (late > tlb_defer_done())
			flush_to(late, TLB_DEFER_LATE);
		mutex_unlock(&flush_mutex);
	}

	spin_lock(&tlb_defer_lock);
	busy = tlb_defer_ring_busy(&ring);
	spin_unlock(&tlb_defer_lock);
	if (busy)
		queue_delayed_work(workqueue, &work, 1);
}

/**
 * tlb_defer_work_ready() - Check that the worker exists
 *
 * Return: false if there was no memory for it at boot.
 */
bool tlb_defer_work_ready(void)
{
	return workqueue;
}

/**
 * tlb_defer_work_end() - Stop the worker; nothing may be deferred
 */
void tlb_defer_work_end(void)
{
	cancel_delayed_work_sync(&work);
}

/* ---- memory ---- */

static long limit_of(int nid)
{
	return (u64)NODE_DATA(nid)->node_present_pages *
	       READ_ONCE(tlb_defer_conf.held_limit_bp) / 10000;
}

/**
 * tlb_defer_room() - Get the number of frames of a node that may still be deferred
 * @nid: node
 *
 * Each migrating task can exceed the limit by one batch, since it checks in advance.
 *
 * Return: number of pages.
 */
long tlb_defer_room(int nid)
{
	return max(limit_of(nid) - atomic_long_read(&held[nid]), 0L);
}

/**
 * tlb_defer_make_room() - Make room for a batch of deferred frames of a node
 * @nid: node
 *
 * May sleep: if there is too little room, it flushes, which frees all deferred frames.
 */
void tlb_defer_make_room(int nid)
{
	if (atomic_long_read(&held[nid]) &&
	    tlb_defer_room(nid) < min(limit_of(nid) / 8, TLB_DEFER_BATCH))
		tlb_defer_flush_all(TLB_DEFER_CAP);
}

/**
 * tlb_defer_paused() - Check for recent memory pressure
 *
 * Return: true for 0.1 s after an allocation needed the deferred frames.
 */
bool tlb_defer_paused(void)
{
	return time_before(jiffies, READ_ONCE(paused_until));
}

/**
 * tlb_defer_short() - Check whether a node is short of free frames
 * @nid: node
 *
 * Allocations are not affected while a node has as many free pages as the sum of its
 * lowest watermarks. Below that they reclaim, or soon will, and each deferred frame makes
 * the shortage worse. The caller may demote, compact or reclaim.
 *
 * Return: true if all zones together have fewer free pages than that.
 */
bool tlb_defer_short(int nid)
{
	struct pglist_data *pgdat = NODE_DATA(nid);
	unsigned long free = 0, least = 0;
	int i;

	for (i = 0; i < MAX_NR_ZONES; i++) {
		struct zone *zone = &pgdat->node_zones[i];

		if (!populated_zone(zone))
			continue;
		free += zone_page_state(zone, NR_FREE_PAGES);
		least += min_wmark_pages(zone);
	}
	return free < least;
}

/**
 * __tlb_defer_compacted() - Free all deferred frames after compaction of a block
 */
void __tlb_defer_compacted(void)
{
	if (atomic_long_read(&held_all))
		tlb_defer_flush_all(TLB_DEFER_COMPACT);
}

/**
 * __tlb_defer_drain() - Free all deferred frames, because memory is short
 */
void __tlb_defer_drain(void)
{
	if (!atomic_long_read(&held_all))
		return;
	WRITE_ONCE(paused_until, jiffies + HZ / 10);
	tlb_defer_flush_all(TLB_DEFER_PRESSURE);
}

/**
 * tlb_defer_held_pages() - Get the amount of deferred memory
 *
 * Return: number of pages.
 */
long tlb_defer_held_pages(void)
{
	return atomic_long_read(&held_all);
}

#ifdef CONFIG_MEMORY_HOTPLUG
static int memory_changed(struct notifier_block *self, unsigned long action,
			  void *arg)
{
	if (action == MEM_GOING_OFFLINE)
		tlb_defer_drain(true);
	return NOTIFY_OK;
}
#endif

static int __init tlb_defer_init(void)
{
	unsigned int i;

	for (i = 0; i < TLB_DEFER_GENS; i++)
		INIT_LIST_HEAD(&frames[i]);
	tlb_defer_ring_init(&ring, 1);
	workqueue = alloc_workqueue("tlb_defer", WQ_HIGHPRI | WQ_UNBOUND |
				    WQ_MEM_RECLAIM, 1);
	if (!workqueue)
		pr_err("no memory for a workqueue, staying off\n");
#ifdef CONFIG_MEMORY_HOTPLUG
	hotplug_memory_notifier(memory_changed, DEFAULT_CALLBACK_PRI);
#endif
	return 0;
}
core_initcall(tlb_defer_init);
