// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flush of migrated pages: the engine.
 *
 * One set of generations for the whole machine (gen.c). A worker closes the
 * open one every tick; each CPU flushes in its own timer interrupt, if it is
 * behind, and publishes up to which generation it is clean. When all CPUs of a
 * generation are, its frames are freed: in the tick after the one in which it was
 * closed, or one later if the worker was faster than some CPU's tick. Who does
 * not tick in time gets an interrupt; so does everybody if the frames are needed
 * sooner.
 *
 * Ordering. The remover of a translation clears the entry, increments tlb_gen
 * (full barrier), and later seals under the lock (batch.c). Closing happens under
 * the lock, and a CPU reads the open generation (acquire) before it compares its tlb_gen: if
 * it says "clean up to g", it has seen every tlb_gen that was incremented
 * before something was sealed in g. The worker reads what CPUs published
 * (acquire) before it frees.
 *
 * Locks: flush_mutex serialises flushes; page table lock -> tlb_defer_lock, the
 * latter innermost, never from an interrupt. The timer interrupt takes none.
 * Nobody who holds flush_mutex allocates memory, so that reclaim can take it.
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

/* So many forced flushes more than generations make an address space rest */
#define TLB_DEFER_FORCED_MORE	8
/* Pages that migration unmaps at a time, at most */
#define TLB_DEFER_BATCH		512L
/* Older generations and flushes count half from here on */
#define TLB_DEFER_FORGET	256

static DEFINE_SPINLOCK(tlb_defer_lock);
static DEFINE_MUTEX(flush_mutex);

/* All under tlb_defer_lock, but open and done can be read without. */
static struct tlb_defer_ring ring;
static struct list_head frames[TLB_DEFER_GENS];

/* CPUs that the flush under way has to reach; under flush_mutex. */
static struct arch_tlbflush_unmap_batch flush_batch;

/* Written by its own CPU only, in the timer interrupt. */
static DEFINE_PER_CPU(u64, cpu_done);

static atomic_long_t held[MAX_NUMNODES];
static atomic_long_t held_all;
static unsigned long paused_until;

/* jiffies of the last tick that sent the worker */
static unsigned long sent_at;

static struct workqueue_struct *workqueue;
static void work_fn(struct work_struct *work);
static DECLARE_DELAYED_WORK(work, work_fn);

/* ---- sealing ---- */

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
 * tlb_defer_open() - A batch collects translations of an address space
 * @mm: whose; the caller holds the page table lock of an entry it has cleared
 * @again: it did before, and saw that a flush was forced since
 *
 * From now on who changes an entry of @mm flushes it first. tlb_defer_seal() or
 * tlb_defer_close() has to follow, once for all calls of a batch.
 *
 * Return: the epoch of @mm. If it has another one when the batch has cleared the
 * next entry (full barrier), this is to be called again.
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
 * A batch has collected all. If it, or another one, has noted itself after the last
 * forced flush, @mm waits for what was sealed; else that flush covered it.
 */
static void close_locked(struct tlb_defer_mm *state)
{
	lockdep_assert_held(&tlb_defer_lock);
	if (!--state->open && state->gen == TLB_DEFER_UNSEALED)
		WRITE_ONCE(state->gen, state->sealed > ring.done ?
			   state->sealed : 0);
}

/**
 * tlb_defer_seal() - Put the removal of translations into the open generation
 * @mms: whose; the caller has cleared the entries, incremented tlb_gen after each
 *	and called tlb_defer_open()
 * @nr: how many address spaces
 * @cpus: CPUs that used one of them after that
 *
 * Return: the generation after which no CPU uses them.
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
		close_locked(state);
	}
	spin_unlock(&tlb_defer_lock);
	kick();
	return gen;
}

/**
 * tlb_defer_close() - All CPUs were flushed instead
 * @mms: address spaces that tlb_defer_open() was called for
 * @nr: how many
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
 * tlb_defer_mm_done() - Is all flushed that was deferred of an address space?
 * @mm: it; the caller holds the page table lock of the entry that it asks for
 *
 * Return: true if so. It is then forgotten: the next one need not ask.
 */
bool tlb_defer_mm_done(struct mm_struct *mm)
{
	struct tlb_defer_mm *state = &mm->tlb_defer;

	if (READ_ONCE(state->gen) > tlb_defer_done())
		return false;
	spin_lock(&tlb_defer_lock);
	/* Something else of @mm may have been sealed meanwhile. */
	if (state->gen <= ring.done)
		WRITE_ONCE(state->gen, 0);
	spin_unlock(&tlb_defer_lock);
	return true;
}

/**
 * tlb_defer_mm_flush() - An address space has to be flushed before its time
 * @mm: it; the caller flushes it next, which is a full barrier before it reads
 *	which CPUs to flush
 *
 * A batch that clears an entry and then reads the epoch from before this call has
 * cleared it in time for that flush. Who reads the new one notes itself again.
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
 * tlb_defer_mm_flushed() - An address space was flushed before its time
 * @mm: it
 * @epoch: of tlb_defer_mm_flush()
 *
 * If that happens more often than there were generations, deferring costs more
 * than the flush that migration would have done: leave this mm alone for a while.
 */
void tlb_defer_mm_flushed(struct mm_struct *mm, u32 epoch)
{
	unsigned int ms = READ_ONCE(tlb_defer_conf.backoff_ms);
	struct tlb_defer_mm *state = &mm->tlb_defer;

	spin_lock(&tlb_defer_lock);
	/* Whoever has noted itself since may have cleared entries since. */
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
 * tlb_defer_done() - Up to which generation is everything flushed?
 *
 * Return: no CPU uses a translation that was sealed in this generation.
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

/* Their lists end here. */
static void put_frames(struct list_head *folios)
{
	struct folio *folio, *next;

	list_for_each_entry_safe(folio, next, folios, lru)
		folio_put(folio);
	INIT_LIST_HEAD(folios);
}

/**
 * tlb_defer_hold() - Hold frames until a generation is done (C)
 * @folios: sources of a migration, each with a reference for this; empty afterwards
 * @nid: their node
 * @pages: how many they are
 * @gen: of tlb_defer_seal(), for the last of their translations
 */
void tlb_defer_hold(struct list_head *folios, int nid, long pages, u64 gen)
{
	spin_lock(&tlb_defer_lock);
	/* Or else all of its CPUs have flushed while they were copied. */
	if (gen > ring.done) {
		hold_more(nid, pages);
		list_splice_tail_init(folios, &frames[index_of(gen)]);
	}
	spin_unlock(&tlb_defer_lock);
	put_frames(folios);
}

/* ---- CPUs ---- */

/*
 * Have the worker run now, if it waits for something: the first CPU of each tick
 * does. The worker's own timer, which comes up to two ticks late, is for a machine
 * on which no CPU ticks.
 */
static void send_worker(void)
{
	unsigned long last = READ_ONCE(sent_at), now = jiffies;

	if (last != now && delayed_work_pending(&work) &&
	    try_cmpxchg(&sent_at, &last, now))
		mod_delayed_work(workqueue, &work, 0);
}

/**
 * __tlb_defer_tick() - Catch up with what was closed by now
 *
 * From the timer interrupt, interrupts off.
 */
void __tlb_defer_tick(void)
{
	/* Before tlb_gen: see "Ordering" */
	u64 closed = smp_load_acquire(&ring.open) - 1;

	send_worker();
	if (__this_cpu_read(cpu_done) >= closed || tlb_defer_forever())
		return;
	if (tlb_defer_arch_catch_up())
		__count_vm_event(TLB_DEFER_TICK_FLUSH);
	/* The flush before the word; pairs with cpu_clean() */
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

/* ---- the end of a generation ---- */

/* Take the frames of generations that are done since @before. */
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
 * Flush until @gen, which is closed, is done. Goes through the architecture's
 * batch flush, as reclaim does: a hypervisor knows how to reach its CPUs.
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
	/* The removal of translations, then what CPUs have loaded */
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
 * tlb_defer_flush_all() - Flush all that was deferred before the call
 * @why: reason, for the counters
 *
 * May sleep. Whoever waits for the same finds nothing left to do.
 */
void tlb_defer_flush_all(enum tlb_defer_why why)
{
	bool all;
	u64 gen;

	might_sleep();
	mutex_lock(&flush_mutex);
	do {
		spin_lock(&tlb_defer_lock);
		/* Not closed although used: too many are; it comes next. */
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
 * tlb_defer_flush_unsealed() - Flush also what batches have not sealed yet
 * @why: reason, for the counters
 *
 * All CPUs: which ones a batch has collected is known to nobody else. It covers
 * the entries that were cleared before the call, but ends no generation.
 */
void tlb_defer_flush_unsealed(enum tlb_defer_why why)
{
	struct cpumask *cpus = &flush_batch.cpumask;
	int cpu;

	mutex_lock(&flush_mutex);
	cpumask_copy(cpus, cpu_online_mask);
	/* The removal of translations, then what CPUs have loaded */
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

/* Every tick, while there is something that is not done. */
static void work_fn(struct work_struct *unused)
{
	unsigned int ticks = READ_ONCE(tlb_defer_conf.limit_ticks);
	LIST_HEAD(list);
	u64 before, late;
	bool busy;

	spin_lock(&tlb_defer_lock);
	tlb_defer_ring_close(&ring, jiffies);
	/* The removal of translations, then what CPUs have loaded */
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
 * tlb_defer_work_ready() - Can the worker run?
 *
 * Return: false if there was no memory for it at boot.
 */
bool tlb_defer_work_ready(void)
{
	return workqueue;
}

/**
 * tlb_defer_work_end() - Nothing is deferred any more, nor will be
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
 * tlb_defer_room() - How many more frames of a node may wait?
 * @nid: node
 *
 * Every migrator can go over the limit by one batch, since it asks before.
 *
 * Return: pages.
 */
long tlb_defer_room(int nid)
{
	return max(limit_of(nid) - atomic_long_read(&held[nid]), 0L);
}

/**
 * tlb_defer_make_room() - See that a batch of frames of a node may wait
 * @nid: node
 *
 * May sleep: flushes, which frees all that wait, if there is too little room.
 */
void tlb_defer_make_room(int nid)
{
	if (atomic_long_read(&held[nid]) &&
	    tlb_defer_room(nid) < min(limit_of(nid) / 8, TLB_DEFER_BATCH))
		tlb_defer_flush_all(TLB_DEFER_CAP);
}

/**
 * tlb_defer_paused() - Was memory short a moment ago?
 *
 * Return: true for a tenth of a second after frames were needed back.
 */
bool tlb_defer_paused(void)
{
	return time_before(jiffies, READ_ONCE(paused_until));
}

/**
 * tlb_defer_short() - Is somebody waiting for free frames of a node?
 * @nid: node
 *
 * Whoever demotes, compacts or reclaims: a node that has as much free as the first
 * of its watermarks asks for leaves allocations alone. Below it they reclaim, or
 * are about to, and a frame that waits makes that worse.
 *
 * Return: true if it has less than that in all zones together.
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
 * __tlb_defer_compacted() - Compaction has emptied a block: give back all frames
 */
void __tlb_defer_compacted(void)
{
	if (atomic_long_read(&held_all))
		tlb_defer_flush_all(TLB_DEFER_COMPACT);
}

/**
 * __tlb_defer_drain() - Somebody needs memory: give back all frames
 */
void __tlb_defer_drain(void)
{
	if (!atomic_long_read(&held_all))
		return;
	WRITE_ONCE(paused_until, jiffies + HZ / 10);
	tlb_defer_flush_all(TLB_DEFER_PRESSURE);
}

/**
 * tlb_defer_held_pages() - How much memory waits for a flush?
 *
 * Return: pages.
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
