/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Internal interfaces of mm/mtier.
 *
 *   mm_slot.c: address spaces --> burst.c and the files it uses: see burst.h
 *   target.c: target nodes    policy.c, history.c, place.c, pace.c, forecast.c: decisions
 *   gather.c --> move.c, move_fast.c, settle.c: migration
 *   eligible.c: pages that may not migrate    rules.c: policies and cpusets of tasks
 *   rate.c, charge.c: rate limit, and accounting of CPU time
 *   core.c: on and off, memory hotplug    sysfs.c, show.c: knobs and statistics
 *   heat.c: the working set of each process
 *   task.c: prctl() and /proc/PID/status
 *
 * Locking order (outer first):
 *
 *   mtier_mutex			on/off, set of nodes, knobs
 *   mmap_lock (read, trylock)		sweep.c, while ranges are listed
 *   VMA lock (read, trylock)		look.c, one range at a time
 *     page table lock			scan of the entries
 *   mtier_slot_lock			mm_slot.c, the list of address spaces
 *   mtier_burst_lock			burst.c, data that is read elsewhere; innermost
 *
 * See eligible.c for the locks that are held while pages are moved.
 */
#ifndef _MM_MTIER_H
#define _MM_MTIER_H

#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mtier.h>
#include <linux/mutex.h>
#include <linux/nodemask.h>
#include <linux/sched/cputime.h>
#include <linux/vmstat.h>

#include "place.h"
#include "policy.h"
#include "working_set.h"

/**
 * struct mtier_config - every knob, in the unit of its sysfs file
 * @delay_ms: time for which a new mm is not scanned
 * @cpu_percent: most CPU time of scans, in percent of one CPU
 * @rate_mbps: limit per target node, MiB/s
 * @target_node: forced target, or NUMA_NO_NODE to choose for each address space
 * @thp_split: split a huge folio if its target has no free huge page
 * @move_fast: move private anonymous base pages by address space
 * @charge: charge the CPU time of kmtierd to the processes that it works for
 * @observe: decide, but move nothing; only changed while promotion is off
 */
struct mtier_config {
	unsigned int delay_ms;
	unsigned int cpu_percent;
	unsigned int rate_mbps;
	int target_node;
	unsigned int thp_split;
	unsigned int move_fast;
	unsigned int charge;
	bool observe;
};

extern struct mtier_config mtier_conf;
extern struct mutex mtier_mutex;
extern struct kobject *mtier_kobj;

struct mtier_slot;

/* ---- target.c ---- */

/**
 * struct mtier_map_node - targets of the pages of a node
 * @up: promotion targets: the nodes of all faster tiers
 * @down: demotion targets: the nodes of all slower tiers
 * @tier: number of its tier, 0 for the fast one
 */
struct mtier_map_node {
	nodemask_t up;
	nodemask_t down;
	unsigned int tier;
};

/**
 * struct mtier_map - target nodes of each node, replaced as a whole under RCU
 * @rcu: for kfree_rcu()
 * @slow: nodes that are not in the top tier and have memory
 * @above: all promotion targets
 * @node: the targets of each node
 */
struct mtier_map {
	struct rcu_head rcu;
	nodemask_t slow;
	nodemask_t above;
	struct mtier_map_node node[];
};

extern struct mtier_map __rcu *mtier_map;

struct mtier_map *mtier_map_make(void);
bool mtier_map_equal(const struct mtier_map *a, const struct mtier_map *b);
nodemask_t mtier_node_up(int nid);
nodemask_t mtier_node_down(int nid);
unsigned int mtier_node_tier(int nid);
nodemask_t mtier_nodes_above(void);
nodemask_t mtier_nodes_fast(void);
nodemask_t mtier_nodes_slow(void);
int mtier_node_below(int nid, const nodemask_t *targets);
unsigned long mtier_node_free_above(int nid, enum zone_watermarks mark);
unsigned long mtier_node_mapped(int nid);
unsigned long mtier_node_mapped_huge(int nid);
int mtier_nearest(int nid, const nodemask_t *targets);
int mtier_slot_weigh(struct mtier_slot *slot);
int mtier_slot_pick(struct mtier_slot *slot, const nodemask_t *up);

/**
 * mtier_mm_promotes() - Check whether pages of an address space are to be promoted.
 * @mm: the mm
 *
 * Return: false if its scan scale is 0.
 */
static inline bool mtier_mm_promotes(const struct mm_struct *mm)
{
	return READ_ONCE(mm->mtier_scan_scale);
}

/* ---- mm_slot.c ---- */

/**
 * struct mtier_sample_side - the ranges of an address space that a tier is sampled from
 * @nr: number of them
 * @next: index in the list from which on they are drawn next
 * @drawn: number of ranges drawn since the list was made
 * @pages: estimate of their pages on that tier
 */
struct mtier_sample_side {
	unsigned int nr;
	unsigned int next;
	unsigned int drawn;
	u64 pages;
};

/**
 * struct mtier_sample - list of the ranges of an address space
 * @at: entries of the ranges with pages to promote or to demote, in the order in which they
 *	are drawn
 * @nr: number of entries in @at
 * @listed: number of ranges that were listed, with and without such pages
 * @side: those for each tier
 * @salt: number that the order depends on
 * @ran_ns: CPU time that the process had used before the last sweep; 0 if not known
 * @listed_ns: time of the listing
 */
struct mtier_sample {
	unsigned long *at;
	unsigned int nr;
	unsigned int listed;
	struct mtier_sample_side side[MTIER_SIDES];
	u32 salt;
	u64 ran_ns;
	u64 listed_ns;
};

/**
 * struct mtier_heat - the working set of an address space, from samples
 * @swept: a sweep has visited it
 * @ranges: number of ranges that each tier is sampled from, by the last sweep
 * @tier: sums of the samples, by tier
 */
struct mtier_heat {
	bool swept;
	u32 ranges[MTIER_SIDES];
	struct mtier_wset tier[MTIER_SIDES];
};

/**
 * struct mtier_allowed - nodes that the tasks of an address space allow (rules.c)
 * @up: targets of promotions that their cpusets and policies allow
 * @down: targets of demotions, likewise
 * @mems_up: targets of promotions that their cpusets allow
 * @mems_down: targets of demotions, likewise
 */
struct mtier_allowed {
	nodemask_t up;
	nodemask_t down;
	nodemask_t mems_up;
	nodemask_t mems_down;
};

/**
 * struct mtier_slot - data of one mm
 * @all: entry in the list of all slots
 * @refs: references, one of them while the mm lives; guarded by mtier_slot_lock
 * @mm: the mm, pinned by mmgrab()
 * @dead: the mm exited or was dropped; the last reference frees the slot
 * @inside: number of times that kmtierd has entered it; its exit waits for 0
 * @not_before: time before which it is not scanned
 * @turn: state of the rotation over the target nodes
 * @top: accesses counted per fast node, decaying
 * @weights: share of each node as target, from @top and the CPUs of its threads
 * @masked: scratch: the weights of the nodes that a page may migrate to
 * @threads: scratch: number of threads that run on the CPUs of each node
 * @allowed: nodes that its tasks allow
 * @allowed_until_ns: time of local_clock() until which @allowed is valid
 * @sample: list of its ranges, in the order in which they are drawn
 * @heat: its working set; guarded by mtier_burst_lock
 */
struct mtier_slot {
	struct list_head all;
	unsigned int refs;
	struct mm_struct *mm;
	bool dead;
	unsigned int inside;
	ktime_t not_before;
	u32 turn;
	u32 *top;
	u32 *weights;
	u32 *masked;
	u32 *threads;
	struct mtier_allowed allowed;
	u64 allowed_until_ns;
	struct mtier_sample sample;
	struct mtier_heat heat;
};

/**
 * struct mtier_hold - an address space that is kept from being torn down
 * @mm: the mm
 * @slot: its slot, entered; NULL if it has none: @mm->mm_users is raised instead
 */
struct mtier_hold {
	struct mm_struct *mm;
	struct mtier_slot *slot;
};

int mtier_slots_start(void);
void mtier_slots_stop(void);
void mtier_slots_adopt(void);
void mtier_slot_get(struct mtier_slot *slot);
struct mtier_slot *mtier_slot_of(struct mm_struct *mm);
void mtier_slot_put(struct mtier_slot *slot);
bool mtier_slot_enter(struct mtier_slot *slot);
bool mtier_slot_pause(struct mtier_slot *slot);
void mtier_slot_leave(struct mtier_slot *slot);
bool mtier_hold(struct mtier_hold *hold, struct mm_struct *mm);
void mtier_release(struct mtier_hold *hold);
struct mtier_slot *mtier_slot_after(struct mtier_slot *prev, ktime_t now);
unsigned long mtier_slots_count(void);

/* ---- burst.c ---- */

/**
 * enum mtier_state - what kmtierd does, for mtier/state
 * @MTIER_STATE_OFF: promotion is off
 * @MTIER_STATE_NO_SLOW_TIER: all memory is in the top tier
 * @MTIER_STATE_IDLE: no mapped page is on a slow node
 * @MTIER_STATE_LOOKING: scanning in a burst
 * @MTIER_STATE_MOVING: exchanging pages
 * @MTIER_STATE_THROTTLED: waiting for the rate limit after a move
 * @MTIER_STATE_RESTING: waiting between two bursts
 */
enum mtier_state {
	MTIER_STATE_OFF,
	MTIER_STATE_NO_SLOW_TIER,
	MTIER_STATE_IDLE,
	MTIER_STATE_LOOKING,
	MTIER_STATE_MOVING,
	MTIER_STATE_THROTTLED,
	MTIER_STATE_RESTING,
};

extern enum mtier_state mtier_state;

/* ---- gather.c ---- */

/**
 * struct mtier_lru - state that decides when LRU batches are drained
 * @off_lru: a folio could not be isolated, as it was not on its LRU list
 * @next: jiffies before which batches are not drained
 * @ms: interval between the last drain and @next
 * @drained: batches were drained, and it is not known yet whether that helped
 */
struct mtier_lru {
	bool off_lru;
	unsigned long next;
	unsigned int ms;
	bool drained;
};

void mtier_lru_init(struct mtier_lru *lru);
void mtier_lru_drain(struct mtier_lru *lru);

/* ---- rate.c ---- */

u64 mtier_rate_pay(int target, u64 bytes);
int mtier_rate_init(void);

/* ---- charge.c ---- */

void mtier_charge_look(struct mm_struct *mm, u64 ns);

/* ---- sysfs.c, show.c, core.c ---- */

extern const struct attribute_group mtier_place_group;

int mtier_sysfs_init(void);
int mtier_sysfs_nodes(const nodemask_t *slow);
void mtier_show_init(void);
int mtier_set_enabled(bool on);
void mtier_nodes_changed(void);

#endif /* _MM_MTIER_H */
