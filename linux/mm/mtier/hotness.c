// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: what is remembered of every slow-tier page frame, and of those
 * of a top tier that is too small, once pages have to be chosen.
 *
 * Four bytes a frame (0.1 % of slow memory), in one array per memory section
 * of a slow node, found by the section's number in a flat table (8 bytes per
 * 128 MiB of address space): a lookup is two loads, and there are several per
 * promoted page.  A record says when the frame was last seen accessed and how
 * often; policy.c knows the encoding.  Updates are a cmpxchg, so any source may
 * report from any context but NMI and nobody waits for anybody.
 *
 * A record belongs to the frame, not to the page in it: when a page is freed
 * its heat stays until the window is over.  Whoever is in the frame then may be
 * moved sooner than he deserves, and that is all: what moves is found anew by the
 * page table that maps it.
 *
 * Locking: readers use RCU.  The table and its sections are changed under
 * mtier_mutex.
 */
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "mtier.h"

/**
 * struct mtier_section - the records of one memory section
 * @rcu: for kvfree_rcu()
 * @nid: node that the section was found on
 * @above: a node that pages go to: records count idle looks, not accesses
 * @rec: a record per page frame
 */
struct mtier_section {
	struct rcu_head rcu;
	int nid;
	bool above;
	u32 rec[PAGES_PER_SECTION];
};

/* How often the effective window follows the flow of candidates. */
#define MTIER_ADJUST_MS		5000

/**
 * struct mtier_table - the sections that have records
 * @rcu: for kvfree_rcu()
 * @nr: size of @sec
 * @sec: the records of a section, or NULL, by section number
 */
struct mtier_table {
	struct rcu_head rcu;
	unsigned long nr;
	struct mtier_section __rcu *sec[];
};

static struct mtier_table __rcu *mtier_table;
static atomic_long_t mtier_nr_sections;

/* Base pages that became hot since the last adjustment of the window. */
static atomic_long_t mtier_candidates;
static unsigned int mtier_window_ms;
static ktime_t mtier_adjusted;

static struct mtier_section *mtier_section_of(unsigned long pfn)
{
	struct mtier_table *table = rcu_dereference(mtier_table);
	unsigned long nr = pfn_to_section_nr(pfn);

	if (!table || nr >= table->nr)
		return NULL;
	return rcu_dereference(table->sec[nr]);
}

/* The record of any frame that has one. */
static u32 *mtier_rec_any(unsigned long pfn)
{
	struct mtier_section *sec = mtier_section_of(pfn);

	return sec ? &sec->rec[pfn & (PAGES_PER_SECTION - 1)] : NULL;
}

/* That of a frame of a slow node. */
static u32 *mtier_rec_of(unsigned long pfn)
{
	struct mtier_section *sec = mtier_section_of(pfn);

	return sec && !sec->above ? mtier_rec_any(pfn) : NULL;
}

/**
 * mtier_hot_window_ms() - the window in force
 *
 * Return: ms; not above the knob.
 */
unsigned int mtier_hot_window_ms(void)
{
	return READ_ONCE(mtier_window_ms) ?: READ_ONCE(mtier_conf.window_ms);
}

/**
 * mtier_hot_window_reset() - put a new value of the knob in force
 */
void mtier_hot_window_reset(void)
{
	WRITE_ONCE(mtier_window_ms, 0);
}

/**
 * mtier_hot_adjust() - make candidates match what the rate limit lets through
 * @now: the time
 *
 * When more pages become hot than can be moved, a shorter window lets only the
 * hotter ones pass; when there is rate to spare it grows again, up to the knob.
 * Called by the scanner.
 */
void mtier_hot_adjust(ktime_t now)
{
	s64 ms = ktime_ms_delta(now, mtier_adjusted);
	u32 window, ref = READ_ONCE(mtier_conf.window_ms);
	u64 budget, candidates;

	if (ms < MTIER_ADJUST_MS)
		return;
	mtier_adjusted = now;
	candidates = atomic_long_xchg(&mtier_candidates, 0);
	budget = div_u64((u64)READ_ONCE(mtier_conf.rate_mbps) * ms,
			 MSEC_PER_SEC) << (20 - PAGE_SHIFT);
	/*
	 * Not above what the administrator calls together, and not so short
	 * that no page is ever seen twice.
	 */
	window = mtier_window_adjust(mtier_hot_window_ms(), ref, candidates,
				     budget);
	window = max(window, 2 * READ_ONCE(mtier_conf.period_min_ms));
	WRITE_ONCE(mtier_window_ms, min(window, ref));
}

/**
 * mtier_hot_params_for() - what makes a page hot that wants to go to a node
 * @target: the node
 *
 * Return: the knobs in force, and whether the node has ample room or none.
 */
struct mtier_hot_params mtier_hot_params_for(int target)
{
	u32 accesses = READ_ONCE(mtier_conf.accesses);
	bool full = mtier_node_full(target);
	bool exchange = full && READ_ONCE(mtier_conf.cold_looks);

	return (struct mtier_hot_params) {
		.window_ticks =
			mtier_window_ticks(mtier_hot_window_ms()),
		.accesses = mtier_exchange_accesses(accesses, exchange),
		.room = mtier_node_room(target),
		.full = full,
	};
}

/**
 * mtier_hot_touch() - note an access to a frame
 * @pfn: the page frame; of a large folio the first one
 * @now: mtier_now_tick(), which may be some ms old
 * @params: mtier_hot_params_for() where it would go, likewise
 *
 * Context: any but NMI.
 * Return: how many accesses count by now if they make it hot; else 0, as for a
 * frame that is not on a slow node.
 */
unsigned int mtier_hot_touch(unsigned long pfn, u32 now,
			     const struct mtier_hot_params *params)
{
	enum mtier_verdict verdict = MTIER_COLD;
	u32 *rec, old, new = 0;

	rcu_read_lock();
	rec = mtier_rec_of(pfn);
	if (rec) {
		old = READ_ONCE(*rec);
		do {
			new = mtier_rec_touch(old, now, params, &verdict);
		} while (!try_cmpxchg(rec, &old, new));
		count_vm_event(MTIER_RECORDS);
	}
	rcu_read_unlock();
	return verdict == MTIER_HOT ? mtier_rec_freq(new) : 0;
}

/**
 * mtier_hot_told() - note that somebody else finds a page hot
 * @pfn: the page frame; of a large folio the first one
 * @now: mtier_now_tick()
 * @params: mtier_hot_params_for() where it would go
 *
 * Context: any but NMI.
 */
void mtier_hot_told(unsigned long pfn, u32 now,
		    const struct mtier_hot_params *params)
{
	u32 *rec, old;

	rcu_read_lock();
	rec = mtier_rec_of(pfn);
	if (rec) {
		old = READ_ONCE(*rec);
		while (!try_cmpxchg(rec, &old, mtier_rec_told(old, now, params)))
			;
		count_vm_event(MTIER_RECORDS);
	}
	rcu_read_unlock();
}

/**
 * mtier_hot_claim() - is it for the caller to have a hot page moved?
 * @pfn: the page frame, for which mtier_hot_touch() said that it is hot
 * @now: mtier_now_tick()
 *
 * Return: false if somebody else who maps the page claimed it a moment ago.
 */
bool mtier_hot_claim(unsigned long pfn, u32 now)
{
	bool mine = true;
	u32 *rec, old, new;

	rcu_read_lock();
	rec = mtier_rec_of(pfn);
	if (rec) {
		old = READ_ONCE(*rec);
		do {
			new = mtier_rec_claim(old, now, &mine);
		} while (mine && !try_cmpxchg(rec, &old, new));
	}
	rcu_read_unlock();
	return mine;
}

/**
 * mtier_hot_candidate() - a page has become worth moving
 * @nr: base pages of it
 */
void mtier_hot_candidate(unsigned int nr)
{
	atomic_long_add(nr, &mtier_candidates);
}

/**
 * mtier_hot_forget() - the page has left its frame, and its heat with it
 * @pfn: the frame
 */
void mtier_hot_forget(unsigned long pfn)
{
	u32 *rec;

	rcu_read_lock();
	rec = mtier_rec_any(pfn);
	if (rec)
		WRITE_ONCE(*rec, 0);
	rcu_read_unlock();
}

/**
 * mtier_hot_recheck() - is a frame still hot, or cold, just before it is moved?
 * @pfn: the frame
 * @params: mtier_hot_params_for() the node it goes to; or mtier_cold_params()
 *
 * Return: the verdict at this moment.
 */
bool mtier_hot_recheck(unsigned long pfn, const struct mtier_hot_params *params)
{
	u32 *rec, val = 0;

	rcu_read_lock();
	rec = mtier_rec_any(pfn);
	if (rec)
		val = READ_ONCE(*rec);
	rcu_read_unlock();
	return val && mtier_rec_is_hot(val, mtier_now_tick(), params);
}

/**
 * mtier_hot_idle() - note a look at a page of a node that is full
 * @pfn: its first frame
 * @idle: it was not accessed since its bit was cleared
 * @now: mtier_now_tick()
 * @params: from mtier_cold_params()
 *
 * Context: the scanner.
 * Return: true if it is by now worth moving out.
 */
bool mtier_hot_idle(unsigned long pfn, bool idle, u32 now,
		    const struct mtier_hot_params *params)
{
	u32 *rec, old, new;
	bool cold = false;

	rcu_read_lock();
	rec = mtier_rec_any(pfn);
	if (rec && !mtier_rec_of(pfn)) {
		old = READ_ONCE(*rec);
		do {
			new = mtier_cold_look(old, now, idle, params, &cold);
		} while (new != old && !try_cmpxchg(rec, &old, new));
	}
	rcu_read_unlock();
	return cold;
}

/**
 * mtier_hot_tracked() - can a page be promoted from a frame?
 * @pfn: the frame
 *
 * Return: true for frames in sections of a slow node.
 */
bool mtier_hot_tracked(unsigned long pfn)
{
	bool ret;

	rcu_read_lock();
	ret = mtier_rec_of(pfn);
	rcu_read_unlock();
	return ret;
}

static void mtier_age_section(struct mtier_section *sec, u32 now, u32 window)
{
	unsigned long i;

	for (i = 0; i < PAGES_PER_SECTION; i++) {
		u32 old = READ_ONCE(sec->rec[i]);

		if (old)
			try_cmpxchg(&sec->rec[i], &old,
				    mtier_rec_age(old, now, window));
	}
}

/**
 * mtier_hot_age() - forget what is older than any window
 *
 * Called often enough that the records' clock never wraps unnoticed.
 */
void mtier_hot_age(void)
{
	u32 now = mtier_now_tick();
	struct mtier_table *table;
	struct mtier_section *sec;
	unsigned long nr;

	/* One section is one RCU section: deletion waits only that long. */
	for (nr = 0;; nr++) {
		rcu_read_lock();
		table = rcu_dereference(mtier_table);
		if (!table || nr >= table->nr) {
			rcu_read_unlock();
			break;
		}
		sec = rcu_dereference(table->sec[nr]);
		if (sec)
			mtier_age_section(sec, now, MTIER_WINDOW_MAX);
		rcu_read_unlock();
		cond_resched();
	}
}

static struct mtier_table *mtier_table_held(void)
{
	return rcu_dereference_protected(mtier_table,
					 lockdep_is_held(&mtier_mutex));
}

static struct mtier_section *mtier_section_held(struct mtier_table *table,
						unsigned long nr)
{
	return rcu_dereference_protected(table->sec[nr],
					 lockdep_is_held(&mtier_mutex));
}

/* Make the table hold section @nr. */
static int mtier_table_grow(unsigned long nr)
{
	struct mtier_table *old = mtier_table_held(), *new;

	if (old && nr < old->nr)
		return 0;
	new = kvzalloc(struct_size(new, sec, nr + 1), GFP_KERNEL);
	if (!new)
		return -ENOMEM;
	new->nr = nr + 1;
	if (old)
		memcpy(new->sec, old->sec, flex_array_size(old, sec, old->nr));
	rcu_assign_pointer(mtier_table, new);
	if (old)
		kvfree_rcu(old, rcu);
	return 0;
}

static int mtier_hot_add_section(unsigned long nr, int nid, bool above)
{
	struct mtier_section *sec;

	if (mtier_table_grow(nr))
		return -ENOMEM;
	if (mtier_section_held(mtier_table_held(), nr))
		return 0;
	/*
	 * Not kvzalloc(): kmalloc() rounds up to twice the size. Records of a full
	 * node are made when it is full, and shall not be what fills it.
	 */
	sec = above ? vzalloc_node(sizeof(*sec), mtier_node_below(nid)) :
		      vzalloc(sizeof(*sec));
	if (!sec)
		return -ENOMEM;
	sec->nid = nid;
	sec->above = above;
	rcu_assign_pointer(mtier_table_held()->sec[nr], sec);
	atomic_long_inc(&mtier_nr_sections);
	return 0;
}

/**
 * mtier_hot_add_node() - make records for all memory of a node
 * @nid: the node; memory that has records already keeps them
 * @above: a node that pages go to, not a slow one
 *
 * Return: 0 or -ENOMEM.
 */
int mtier_hot_add_node(int nid, bool above)
{
	unsigned long pfn, end;
	int ret = 0;

	lockdep_assert_held(&mtier_mutex);

	get_online_mems();
	end = node_end_pfn(nid);
	if (end)
		ret = mtier_table_grow(pfn_to_section_nr(end - 1));
	for (pfn = node_start_pfn(nid); pfn < end && !ret;
	     pfn = SECTION_ALIGN_DOWN(pfn) + PAGES_PER_SECTION) {
		struct page *page = pfn_to_online_page(pfn);

		if (page && page_to_nid(page) == nid)
			ret = mtier_hot_add_section(pfn_to_section_nr(pfn),
						    nid, above);
		cond_resched();
	}
	put_online_mems();
	return ret;
}

/* Free the records of all sections that @gone() says so of. */
static void mtier_hot_del(bool (*gone)(const struct mtier_section *sec,
				       unsigned long nr, const nodemask_t *keep),
			  const nodemask_t *keep)
{
	struct mtier_table *table = mtier_table_held();
	struct mtier_section *sec;
	unsigned long nr;

	lockdep_assert_held(&mtier_mutex);
	for (nr = 0; table && nr < table->nr; nr++) {
		sec = mtier_section_held(table, nr);
		if (!sec || !gone(sec, nr, keep))
			continue;
		RCU_INIT_POINTER(table->sec[nr], NULL);
		atomic_long_dec(&mtier_nr_sections);
		kvfree_rcu(sec, rcu);
	}
}

static bool mtier_gone_offline(const struct mtier_section *sec,
			       unsigned long nr, const nodemask_t *keep)
{
	return !online_section_nr(nr);
}

static bool mtier_gone_slow(const struct mtier_section *sec, unsigned long nr,
			    const nodemask_t *keep)
{
	return !sec->above && !node_isset(sec->nid, *keep);
}

static bool mtier_gone_above(const struct mtier_section *sec, unsigned long nr,
			     const nodemask_t *keep)
{
	return sec->above && !node_isset(sec->nid, *keep);
}

static bool mtier_gone_always(const struct mtier_section *sec,
			      unsigned long nr, const nodemask_t *keep)
{
	return true;
}

/**
 * mtier_hot_prune() - free the records of memory that went offline
 */
void mtier_hot_prune(void)
{
	mtier_hot_del(mtier_gone_offline, NULL);
}

/**
 * mtier_hot_keep() - free the records of nodes that need them no more
 * @slow: nodes whose accesses are still counted
 * @above: nodes whose idle looks are
 */
void mtier_hot_keep(const nodemask_t *slow, const nodemask_t *above)
{
	mtier_hot_del(mtier_gone_slow, slow);
	mtier_hot_del(mtier_gone_above, above);
}

/**
 * mtier_hot_free() - free all records
 */
void mtier_hot_free(void)
{
	struct mtier_table *table = mtier_table_held();

	mtier_hot_del(mtier_gone_always, NULL);
	RCU_INIT_POINTER(mtier_table, NULL);
	if (table)
		kvfree_rcu(table, rcu);
	WRITE_ONCE(mtier_window_ms, 0);
	atomic_long_set(&mtier_candidates, 0);
}

/**
 * mtier_hot_bytes() - memory used by records
 *
 * Return: bytes.
 */
unsigned long mtier_hot_bytes(void)
{
	return atomic_long_read(&mtier_nr_sections) *
	       PAGE_ALIGN(sizeof(struct mtier_section));
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/hotness_kunit.c"
#endif
