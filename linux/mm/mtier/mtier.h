/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Page promotion: what its rooms know of each other.
 *
 *   scan.c + walk.c --hot--> range.c --> promote.c --> gather.c --> move.c
 *        |     |    --idle--> range.c --> cold.c -------^            move_fast.c
 *        |   hotness.c: what is known of each frame
 *   mm_slot.c: which mm is due        target.c: where to
 *   core.c: on, off, nodes coming and going     policy.c: every decision
 *   burst.c, sample.c, look.c, swap.c: the other engine, with place.c; see burst.h
 *   eligible.c: what may not move, and where not to, for all of these
 *
 * Locking order (outer first):
 *
 *   mtier_mutex			on/off, set of nodes, knobs
 *     mem_hotplug_lock (read)		while sections are listed
 *   mmap_lock (read, trylock)		walk.c and sample.c, one slice at a time
 *   VMA lock (read, trylock)		look.c, one range at a time
 *     page table lock			only reading and noting below it
 *   mtier_slot_lock			mm_slot.c, the queue of due mms
 *   mtier_burst_lock			burst.c, what can be read of it; innermost
 *   mtier_ranges.lock			range.c, pages that wait; innermost
 *   mtier_dest.lock			rate.c, the rate bucket; innermost
 *
 * What is locked while pages move: eligible.c.
 */
#ifndef _MM_MTIER_H
#define _MM_MTIER_H

#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mtier.h>
#include <linux/mutex.h>
#include <linux/nodemask.h>
#include <linux/percpu.h>
#include <linux/sched/cputime.h>
#include <linux/spinlock.h>
#include <linux/timerqueue.h>
#include <linux/vmstat.h>
#include <linux/wait.h>

#include "policy.h"
#include "range.h"

/**
 * enum mtier_engine - who finds the pages that are to move
 * @MTIER_ENGINE_VISITS: the scanner, visit by visit, with records
 * @MTIER_ENGINE_OBSERVE: nobody: bursts of looks (burst.c) say what they would move
 * @MTIER_ENGINE_BURSTS: bursts of looks
 */
enum mtier_engine {
	MTIER_ENGINE_VISITS,
	MTIER_ENGINE_OBSERVE,
	MTIER_ENGINE_BURSTS,
};

/**
 * struct mtier_config - every knob, in the unit of its sysfs file
 * @delay_ms: a new mm is left alone for so long
 * @period_min_ms: shortest time between two visits of an mm
 * @period_start_ms: the first one
 * @period_max_ms: longest one
 * @size_min_mb: least mapped memory walked in a visit
 * @size_start_mb: that of the first visit
 * @size_max_mb: most
 * @cpu_percent: cap of the scanner, or of looks, of one CPU
 * @slice_us: longest hold of mmap_lock
 * @flush_tlb: flush an mm's TLB entries after clearing Accessed bits
 * @window_ms: accesses less than this apart count together
 * @accesses: so many of them make a page hot when DRAM is contended
 * @room_percent: free share of a node that counts as ample room
 * @cold_looks: looks in a row that find no access make a page of a full node
 *	give way; 0: which do is left to reclaim
 * @rate_mbps: limit per target node, MiB/s
 * @batch_pages: base pages per migrate_pages() call
 * @queue_pages: most pages of a node that wait to be moved
 * @target_node: forced target, or NUMA_NO_NODE for the scanner's choice
 * @thp_split: split a huge folio when its target has no free huge page
 * @move_fast: private anonymous base pages move by address space
 * @charge: the threads' time is charged to whom they work for
 * @engine: who finds pages; changes while all is off
 */
struct mtier_config {
	unsigned int delay_ms;
	unsigned int period_min_ms;
	unsigned int period_start_ms;
	unsigned int period_max_ms;
	unsigned int size_min_mb;
	unsigned int size_start_mb;
	unsigned int size_max_mb;
	unsigned int cpu_percent;
	unsigned int slice_us;
	unsigned int flush_tlb;
	unsigned int window_ms;
	unsigned int accesses;
	unsigned int room_percent;
	unsigned int cold_looks;
	unsigned int rate_mbps;
	unsigned int batch_pages;
	unsigned int queue_pages;
	int target_node;
	unsigned int thp_split;
	unsigned int move_fast;
	unsigned int charge;
	enum mtier_engine engine;
};

extern struct mtier_config mtier_conf;
extern struct mutex mtier_mutex;
extern struct kobject *mtier_kobj;

/* Most base pages of a batch. */
#define MTIER_BATCH_MAX		4096U

struct mtier_move;
struct mtier_slot;

/* ---- target.c ---- */

/**
 * struct mtier_map - which node feeds which, replaced as a whole under RCU
 * @rcu: for kfree_rcu()
 * @slow: nodes that are not in the top tier and have memory
 * @above: nodes that some slow node feeds
 * @up: @up[n] are the nodes of the next tier above node n that has any
 */
struct mtier_map {
	struct rcu_head rcu;
	nodemask_t slow;
	nodemask_t above;
	nodemask_t up[];
};

extern struct mtier_map __rcu *mtier_map;

struct mtier_map *mtier_map_make(void);
bool mtier_map_equal(const struct mtier_map *a, const struct mtier_map *b);
bool mtier_node_is_slow(int nid);
nodemask_t mtier_node_up(int nid);
nodemask_t mtier_nodes_above(void);
nodemask_t mtier_nodes_slow(void);
int mtier_node_below(int nid);
unsigned long mtier_node_free_above(int nid, enum zone_watermarks mark);
unsigned long mtier_room_above(void);
bool mtier_node_room(int nid);
bool mtier_node_full(int nid);
unsigned long mtier_node_mapped(int nid);
unsigned long mtier_node_mapped_huge(int nid);
int mtier_fallback(int source, unsigned long nr_pages);
int mtier_nearest(int nid, const nodemask_t *targets);
int mtier_slot_weigh(struct mtier_slot *slot);

/* ---- mm_slot.c ---- */

/**
 * struct mtier_sample - ranges of an address space, in random order
 * @at: address of each
 * @nr: how many there are
 * @next: those before it were drawn since the order was made anew
 * @rss: pages that were mapped when they were listed
 * @old: all were drawn: list them anew
 * @shared: some of its memory may be mapped by others, too
 * @stands: of that some is listed here
 * @shares: mtier_slots_shares() when they were listed
 * @listed_ns: when that was
 */
struct mtier_sample {
	unsigned long *at;
	unsigned int nr;
	unsigned int next;
	unsigned long rss;
	bool old;
	bool shared;
	bool stands;
	unsigned int shares;
	u64 listed_ns;
};

/**
 * enum mtier_stop - why a slice ended
 * @MTIER_STOP_END: the end of the address space, or of what was armed
 * @MTIER_STOP_SIZE: the visit's size is used up
 * @MTIER_STOP_TIME: slice_us is over, or somebody waits for mmap_lock
 * @MTIER_STOP_LOCK: mmap_lock was not to be had
 * @MTIER_STOP_EXIT: the mm has no users any more
 * @MTIER_STOP_FULL: the queues are full
 * @MTIER_STOP_CHUNK: enough is armed
 */
enum mtier_stop {
	MTIER_STOP_END,
	MTIER_STOP_SIZE,
	MTIER_STOP_TIME,
	MTIER_STOP_LOCK,
	MTIER_STOP_EXIT,
	MTIER_STOP_FULL,
	MTIER_STOP_CHUNK,
};

/**
 * enum mtier_pass - what a walk does with the Accessed bits it clears
 * @MTIER_PASS_PLAIN: reports them: an access since the last visit
 * @MTIER_PASS_ARM: nothing, so that those found next are new
 * @MTIER_PASS_LOOK: reports them: an access since the bits were armed
 */
enum mtier_pass {
	MTIER_PASS_PLAIN,
	MTIER_PASS_ARM,
	MTIER_PASS_LOOK,
};

/**
 * struct mtier_slot - what the scanner knows of one mm
 * @node: place in the queue of due mms, keyed by due time; mtier_slot_lock
 * @all: place in the list of all
 * @refs: those that work on it, and one while the mm lives; mtier_slot_lock
 * @mm: the mm, pinned by mmgrab()
 * @busy: the scanner works on it outside the lock
 * @dead: the mm exited or was dropped meanwhile; the last reference frees it
 * @roused: whoever is busy gives it back as due at once
 * @not_before: its next visit may not begin sooner, whoever asks
 * @cursor: address at which the next slice starts
 * @cycle_start: when the cursor left the start of the address space
 * @cycle_ms: time between two such moments, the last time; 0: not yet known
 * @look_ms: time between two looks at the same page
 * @probe: how choosy the next visit is, see mtier_probe_adapt()
 * @cold: this visit looks for pages that may give way, too
 * @visit: a visit is under way, the fields below are live
 * @pass: what the next slice does
 * @last: @pass is about the last chunk, because of @stop
 * @stop: why the visit will end
 * @chunk_start: where the chunk begins that is armed, then looked at
 * @chunk_end: where it ends, once it is armed
 * @chunk: bytes of mapped memory left in it
 * @chunk_ns: ktime_get_ns() when arming it began
 * @budget: bytes of mapped memory left in this visit
 * @visit_start: when the visit began
 * @pace: period and size, adapted after every visit
 * @nr_ptes: page table entries read in this visit
 * @nr_slow: accessed slow-tier folios found in this visit
 * @nr_found: base pages of them
 * @nr_seen: slow-tier pages looked at, accessed or not; only in a look
 * @nr_top: accessed top-tier pages seen in this visit
 * @nr_cleared: Accessed bits cleared in this visit since the last TLB flush
 * @nr_armed: how many of them only to see whether they are set again
 * @turn: whose turn it is of the target nodes
 * @top: accesses seen per top-tier node, decaying
 * @weights: share of each node as target, mixed from @top and CPU placement
 * @masked: scratch: the weights of the nodes that a page may go to
 * @threads: scratch: threads that run on each node's CPUs
 * @sample: its memory, in the order in which bursts look at it
 */
struct mtier_slot {
	struct timerqueue_node node;
	struct list_head all;
	unsigned int refs;
	struct mm_struct *mm;
	bool busy;
	bool dead;
	bool roused;
	bool visit;
	ktime_t not_before;
	unsigned long cursor;
	ktime_t cycle_start;
	u32 cycle_ms;
	u32 look_ms;
	u32 probe;
	bool cold;
	enum mtier_pass pass;
	bool last;
	enum mtier_stop stop;
	unsigned long chunk_start;
	unsigned long chunk_end;
	s64 chunk;
	u64 chunk_ns;
	s64 budget;
	ktime_t visit_start;
	struct mtier_pace pace;
	unsigned long nr_ptes;
	unsigned long nr_slow;
	unsigned long nr_found;
	unsigned long nr_seen;
	unsigned long nr_top;
	unsigned long nr_cleared;
	unsigned long nr_armed;
	u32 turn;
	u32 *top;
	u32 *weights;
	u32 *masked;
	u32 *threads;
	struct mtier_sample sample;
};

int mtier_slots_start(void);
void mtier_slots_stop(void);
void mtier_slots_adopt(void);
struct mtier_slot *mtier_slot_next(ktime_t now, ktime_t *due);
void mtier_slot_requeue(struct mtier_slot *slot, ktime_t due);
void mtier_slot_rouse(struct mm_struct *mm);
void mtier_slot_get(struct mtier_slot *slot);
void mtier_slot_put(struct mtier_slot *slot);
struct mtier_slot *mtier_slot_after(struct mtier_slot *prev, ktime_t now);
bool mtier_slot_ready(struct mm_struct *mm, ktime_t now);
unsigned int mtier_slots_shares(void);
unsigned long mtier_slots_count(void);

/* ---- walk.c ---- */

int mtier_walk_init(void);
void mtier_walk_exit(void);
enum mtier_stop mtier_walk_slice(struct mtier_slot *slot);

/* ---- scan.c ---- */

/**
 * enum mtier_state - what the scanner does, for mtier/state
 * @MTIER_STATE_OFF: switched off
 * @MTIER_STATE_NO_SLOW_TIER: all memory is in the top tier
 * @MTIER_STATE_IDLE: no mm is due, or no mapped page is on a slow node
 * @MTIER_STATE_SCANNING: walking
 * @MTIER_STATE_PAUSED_CPU: resting for its CPU cap
 * @MTIER_STATE_PAUSED_QUEUE: waiting for the migrators
 */
enum mtier_state {
	MTIER_STATE_OFF,
	MTIER_STATE_NO_SLOW_TIER,
	MTIER_STATE_IDLE,
	MTIER_STATE_SCANNING,
	MTIER_STATE_PAUSED_CPU,
	MTIER_STATE_PAUSED_QUEUE,
};

extern enum mtier_state mtier_scan_state;
void mtier_scan_kick(ktime_t due);

int mtier_scan_start(void);
void mtier_scan_stop(void);

/* ---- hotness.c ---- */

int mtier_hot_add_node(int nid, bool above);
void mtier_hot_prune(void);
void mtier_hot_keep(const nodemask_t *slow, const nodemask_t *above);
void mtier_hot_free(void);
bool mtier_hot_tracked(unsigned long pfn);
bool mtier_hot_recheck(unsigned long pfn,
		       const struct mtier_hot_params *params);
unsigned int mtier_hot_touch(unsigned long pfn, u32 now,
			     const struct mtier_hot_params *params);
void mtier_hot_told(unsigned long pfn, u32 now,
		    const struct mtier_hot_params *params);
bool mtier_hot_claim(unsigned long pfn, u32 now);
void mtier_hot_candidate(unsigned int nr);
bool mtier_hot_idle(unsigned long pfn, bool idle, u32 now,
		    const struct mtier_hot_params *params);
void mtier_hot_forget(unsigned long pfn);
void mtier_hot_age(void);
void mtier_hot_adjust(ktime_t now);
unsigned int mtier_hot_window_ms(void);
void mtier_hot_window_reset(void);
unsigned long mtier_hot_bytes(void);
struct mtier_hot_params mtier_hot_params_for(int target);

/* ---- gather.c ---- */

/**
 * struct mtier_lru - when who moves pages has LRU batches drained
 * @off_lru: a folio was not on its LRU list when it was to be isolated
 * @next: jiffies before which they are not drained
 * @ms: how long that was from the last time
 * @drained: they were, and it is not known yet whether that has helped
 */
struct mtier_lru {
	bool off_lru;
	unsigned long next;
	unsigned int ms;
	bool drained;
};

void mtier_lru_init(struct mtier_lru *lru);
void mtier_lru_drain(struct mtier_lru *lru);

/* ---- promote.c ---- */

/**
 * enum mtier_node_state - what a node's migrator does, for nodeN/state
 * @MTIER_NODE_IDLE: nothing waits
 * @MTIER_NODE_MIGRATING: moving pages
 * @MTIER_NODE_THROTTLED: waiting for its rate limit
 * @MTIER_NODE_TARGET_FULL: no node above has room; kswapd was woken
 * @MTIER_NODE_NO_TARGET: there is no node above
 */
enum mtier_node_state {
	MTIER_NODE_IDLE,
	MTIER_NODE_MIGRATING,
	MTIER_NODE_THROTTLED,
	MTIER_NODE_TARGET_FULL,
	MTIER_NODE_NO_TARGET,
};

/**
 * struct mtier_node - the migrator of one slow node
 * @nid: the node
 * @hot: what it is to move
 * @wait: where its thread sleeps
 * @thread: kpromoted/N
 * @state: for nodeN/state
 * @kobj: nodeN in sysfs
 * @nr_promoted: pages moved off this node
 * @nr_dropped: folios that waited and were not moved
 * @nr_demoted: pages moved down to this node to make room for others
 * @fail_score: recent failures against successes, 0-100, for the scanner
 * @fail_stamp: jiffies of the last batch; old news does not count
 * @lru: when it has LRU batches drained
 * @retry_ms: how long it waited for room the last time
 * @pressure: too many wait for the scanner to go on
 * @move: what is moved at once
 * @down: what is moved out of its way
 */
struct mtier_node {
	int nid;
	struct mtier_ranges hot;
	wait_queue_head_t wait;
	struct task_struct *thread;
	enum mtier_node_state state;
	struct kobject *kobj;
	atomic_long_t nr_promoted;
	atomic_long_t nr_dropped;
	atomic_long_t nr_demoted;
	unsigned int fail_score;
	unsigned long fail_stamp;
	struct mtier_lru lru;
	unsigned int retry_ms;
	bool pressure;
	struct mtier_move *move;
	struct mtier_move *down;
};

extern struct mtier_node __rcu **mtier_nodes;

int mtier_promote_add_node(int nid);
void mtier_promote_del_node(int nid);
bool mtier_promote_note(int nid, const struct mtier_range_key *at,
			unsigned int page, u32 now, bool full, bool locked);
void mtier_promote_forget(struct mm_struct *mm);
int mtier_promote_init(void);
void mtier_promote_resize(unsigned int cap);
void mtier_promote_count(struct mtier_node *node, const struct mtier_move *mv);

/* ---- pressure.c ---- */

bool mtier_promote_may_queue(int nid, bool full);
bool mtier_promote_pressure(void);
bool mtier_promote_failing(void);

/* ---- rate.c ---- */

u64 mtier_rate_pay(int target, u64 bytes);
int mtier_rate_init(void);

/* ---- cold.c ---- */

bool mtier_cold_prepare(void);
void mtier_cold_keep(const nodemask_t *above);
void mtier_cold_free(void);
struct mtier_hot_params mtier_cold_params(u32 look_ms);
void mtier_cold_note(int nid, const struct mtier_range_key *at,
		     unsigned int page, unsigned long pfn, bool idle, u32 now,
		     const struct mtier_hot_params *params);
void mtier_cold_forget(struct mm_struct *mm);
unsigned long mtier_cold_demote(struct mtier_node *node, int nid,
				unsigned long want);
int mtier_cold_init(void);

/* ---- charge.c ---- */

void mtier_charge_scan(struct mm_struct *mm, u64 ns);

/* ---- sysfs.c, core.c ---- */

int mtier_sysfs_init(void);
int mtier_sysfs_add_node(struct mtier_node *node);
void mtier_sysfs_del_node(struct mtier_node *node);
int mtier_set_enabled(bool on);
void mtier_nodes_changed(void);

static inline u32 mtier_now_tick(void)
{
	return mtier_tick(ktime_to_ms(ktime_get()));
}

#endif /* _MM_MTIER_H */
