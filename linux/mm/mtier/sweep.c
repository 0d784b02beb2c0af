// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: find the ranges of each address space, and those in use.
 *
 * CPUs set the Accessed bit in every level of the page table that they read. The entry
 * above a page table (a non-leaf PMD entry) shows whether any page of its 2 MiB was used
 * since the bit was cleared. So one sweep over these entries finds the ranges in use
 * among all mapped memory, without a look at a single page.
 *
 * A sweep visits each address space whose threads have run since the last sweep, and
 * makes the list of its ranges anew, with 8 bytes for each. Nothing can be in use in
 * the others. sample.c draws from these lists.
 *
 * A range is listed for one tier or both, with an estimate of its pages (peek.c):
 *
 *   LOW	in use, with pages on a slow tier: pages to promote
 *   TOP	with pages on a tier that has a slower one below it: pages to demote
 *
 * All ranges in use are read for that. Of the others, which are many, one in
 * MTIER_READ_IDLE is read in a sweep; the rest have the same pages as in the list before.
 * All ranges of a process that does not run are read when those with pages to demote were
 * drawn, and may be empty.
 *
 * Ranges of a process with scan scale 0 are not listed for LOW. A part of a file that such
 * a process uses is listed for LOW by another mapper that uses it.
 *
 * The bit of an entry is not set again while a CPU has the translation cached. So the
 * TLB of an address space is flushed after a sweep that cleared a bit of it.
 *
 * The walk of the multi-generational LRU clears the same bits, and skips page tables
 * whose bit is clear. It finds less there then; reclaim reads the Accessed bits of the
 * pages before it evicts them, and a sweep does not touch these.
 *
 * Huge pages have one bit for both. It is read only, since it is for the look to clear.
 * Where CPUs do not set the bits of non-leaf entries, all ranges count as in use.
 *
 * Shared file memory is listed once, not for each mapper. A part of a file that is in
 * use is listed for the mapper that a sweep meets first. One that is not in use is
 * listed for one of its m mappers on average: each lists it with probability 1/m. The
 * looks ask all mappers anyway (others.c). Each private mapping lists its ranges.
 *
 * Locking: mmap_lock is only tried, and held for at most MTIER_LIST_NS. Below it, the
 * lock of a page table. The lists belong to kmtierd.
 */
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/pagemap.h>
#include <linux/pagewalk.h>
#include <linux/random.h>
#include <linux/sched/clock.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "burst.h"
#include "eligible.h"
#include "file_set.h"
#include "mtier.h"
#include "peek.h"

/* Longest hold of mmap_lock, and most ranges listed in it. */
#define MTIER_LIST_NS		NSEC_PER_MSEC
#define MTIER_LISTED_MAX	512
/* A list is made anew after this time, though no thread has run. */
#define MTIER_LIST_AGE_NS	(60ULL * NSEC_PER_SEC)
/*
 * Sweeps take at most one part in this many of the time of one CPU: 2 %, or half of what
 * scans may take if that is less.
 */
#define MTIER_SWEEP_PARTS(cpu_percent)	max(50U, 200U / (cpu_percent))
/* Time between two sweeps: that of some scans, within bounds. */
#define MTIER_SWEEP_SCANS	4
#define MTIER_SWEEP_MIN_NS	(100ULL * NSEC_PER_MSEC)
#define MTIER_SWEEP_MAX_NS	(1ULL * NSEC_PER_SEC)
/* The same if no slow memory is in use, to find soon when that changes. */
#define MTIER_SWEEP_QUIET_NS	(250ULL * NSEC_PER_MSEC)
/* One in this many ranges that are not in use is read by a sweep. */
#define MTIER_READ_IDLE		8
/* All of a process that does not run are read when so large a part of them was drawn. */
#define MTIER_READ_DRAWN	32
/* Most threads whose run time is read. */
#define MTIER_RAN_THREADS	256

/**
 * struct mtier_listing - state of a walk that lists ranges
 * @peek: the tiers of nodes
 * @sides: tiers that ranges of this address space can be listed for
 * @every: read all ranges, also those not in use
 * @nr_met: counter of ranges, from a random number on
 * @at: entry of each range found since the lock was taken
 * @key: what each of them maps of a file, if it is in use and maps nothing else
 * @nr: number of entries in @at
 * @last: address of the range visited last
 * @young: that range is in use
 * @read: it is read although it is not in use
 * @cleared: a bit was cleared
 * @cursor: address at which the walk continues
 * @deadline: time at which the walk drops the lock
 */
struct mtier_listing {
	struct mtier_peek peek;
	unsigned long sides;
	bool every;
	unsigned int nr_met;
	unsigned long at[MTIER_LISTED_MAX];
	struct mtier_file_key key[MTIER_LISTED_MAX];
	unsigned int nr;
	unsigned long last;
	bool young;
	bool read;
	bool cleared;
	unsigned long cursor;
	u64 deadline;
};

/* All of these are used by kmtierd alone, and too large for its stack. */
static struct mtier_listing mtier_listing;
static struct mtier_flush mtier_sweep_flush;
/* Pages of files in ranges in use that this sweep has met, by tier. */
static struct mtier_file_set mtier_sweep_files[MTIER_SIDES];
/* Time of the next sweep; 0: none was made since promotion was switched on. */
static u64 mtier_sweep_next_ns;
/* Running mean of the time of a sweep. A sweep that meets much new memory is rare. */
static u64 mtier_sweep_mean_ns;

/* ---- one range ---- */

/* Set the cursor. A nonzero result ends the walk until the next hold of the lock. */
static int mtier_list_pause(struct mtier_listing *l, struct mm_struct *mm,
			    unsigned long next)
{
	l->cursor = next;
	return l->nr == MTIER_LISTED_MAX || local_clock() >= l->deadline ||
	       need_resched() || mmap_lock_is_contended(mm);
}

/* Read the Accessed bit of an entry, and clear it if there is a page table below. */
static bool mtier_sweep_young(struct mtier_listing *l, struct vm_area_struct *vma,
			      unsigned long addr, pmd_t *pmd)
{
	pmd_t entry = pmdp_get_lockless(pmd);
	spinlock_t *ptl;	/* of the table above */

	if (!pmd_present(entry))
		return false;
	if (pmd_leaf(entry))
		return pmd_young(entry);
	if (!arch_has_hw_nonleaf_pmd_young())
		return true;
	if (!pmd_young(entry))
		return false;
	/* It may have become another entry, in which the bit has another meaning. */
	ptl = pmd_lock(vma->vm_mm, pmd);
	entry = pmdp_get(pmd);
	if (pmd_present(entry) && !pmd_leaf(entry))
		l->cleared |= pmdp_test_and_clear_young(vma, addr, pmd);
	spin_unlock(ptl);
	return true;
}

/*
 * List a range that is not in use for the pages that can be demoted from it. Of a part of
 * a file with m mappers, each lists it with probability 1/m. Then the list before knows
 * nothing of it.
 */
static unsigned long mtier_list_idle(struct mtier_listing *l, struct vm_area_struct *vma,
				     unsigned long addr, unsigned long next, pmd_t *pmd)
{
	unsigned int mappers = 1;

	if (mtier_peek_once(vma))
		mappers = mtier_peek_mappers(vma, addr, next, pmd);
	if (mappers > 1 && get_random_u32_below(mappers))
		return 0;
	if (mappers == 1 && !l->read)
		return MTIER_RANGE_UNREAD;
	return mtier_peek(&l->peek, vma, pmd, addr);
}

/*
 * Get the tiers that a range can be listed for. Nothing is promoted that is not in use, and
 * locked memory is not demoted.
 */
static unsigned long mtier_list_sides(const struct mtier_listing *l,
				      const struct vm_area_struct *vma)
{
	unsigned long sides = l->young ? l->sides : MTIER_RANGE_TOP;

	return vma->vm_flags & VM_LOCKED ? sides & ~MTIER_RANGE_TOP : sides;
}

static struct mtier_file_key mtier_list_key(struct vm_area_struct *vma,
					    unsigned long addr,
					    unsigned long next)
{
	struct mtier_file_key key = { };

	if (!mtier_peek_once(vma))
		return key;
	key.mapping = vma->vm_file->f_mapping;
	key.first = linear_page_index(vma, addr);
	key.nr = (next - addr) >> PAGE_SHIFT;
	return key;
}

/* Add a range. It can be part of two VMAs: it is listed once. */
static void mtier_list_add(struct mtier_listing *l, struct vm_area_struct *vma,
			   unsigned long addr, unsigned long next,
			   unsigned long pages)
{
	unsigned long at = (addr & PMD_MASK) | pages;
	struct mtier_file_key *key;

	if (l->nr && !((l->at[l->nr - 1] ^ at) & PMD_MASK)) {
		l->at[l->nr - 1] = mtier_range_merge(l->at[l->nr - 1], at);
		l->key[l->nr - 1].mapping = NULL;
		return;
	}
	key = &l->key[l->nr];
	*key = (struct mtier_file_key) { };
	if (l->young)
		*key = mtier_list_key(vma, addr, next);
	l->at[l->nr++] = at;
}

static int mtier_list_pmd(pmd_t *pmd, unsigned long addr, unsigned long next,
			  struct mm_walk *walk)
{
	struct mtier_listing *l = walk->private;
	unsigned long sides, pages = 0;

	if (pmd_none(pmdp_get_lockless(pmd)))
		return mtier_list_pause(l, walk->mm, next);
	/* The bit was read for the first of the VMAs of a range. */
	if (l->last != (addr & PMD_MASK)) {
		l->young = mtier_sweep_young(l, walk->vma, addr, pmd);
		l->read = l->every || !(l->nr_met++ % MTIER_READ_IDLE);
	}
	l->last = addr & PMD_MASK;
	sides = mtier_list_sides(l, walk->vma);
	if (sides && l->young)
		pages = mtier_peek(&l->peek, walk->vma, pmd, addr);
	else if (sides)
		pages = mtier_list_idle(l, walk->vma, addr, next, pmd);
	pages = mtier_range_only(pages, sides);
	if (pages)
		mtier_list_add(l, walk->vma, addr, next, pages);
	return mtier_list_pause(l, walk->mm, next);
}

static int mtier_list_hole(unsigned long addr, unsigned long next, int depth,
			   struct mm_walk *walk)
{
	return mtier_list_pause(walk->private, walk->mm, next);
}

static int mtier_list_vma(unsigned long addr, unsigned long next,
			  struct mm_walk *walk)
{
	if (mtier_vma_eligible(walk->vma))
		return 0;
	/* Also pause at skipped VMAs: there can be tens of thousands of them. */
	return mtier_list_pause(walk->private, walk->mm, next) ? -EAGAIN : 1;
}

static const struct mm_walk_ops mtier_list_ops = {
	.pmd_entry	= mtier_list_pmd,
	.pte_hole	= mtier_list_hole,
	.test_walk	= mtier_list_vma,
	.walk_lock	= PGWALK_RDLOCK,
};

/* ---- one address space ---- */

/* List the ranges that one hold of the lock allows. False if the trylock fails. */
static bool mtier_list_locked(struct mtier_listing *l, struct mm_struct *mm)
{
	if (!mmap_read_trylock(mm))
		return false;
	l->deadline = local_clock() + MTIER_LIST_NS;
	if (!walk_page_range(mm, l->cursor, mm->task_size, &mtier_list_ops, l))
		l->cursor = mm->task_size;
	mmap_read_unlock(mm);
	return true;
}

/*
 * List more ranges of @slot. False if kmtierd must stop, the process has exited, or
 * mmap_lock is not available.
 */
static bool mtier_list_some(struct mtier_listing *l, struct mtier_slot *slot)
{
	bool listed;

	l->nr = 0;
	if (kthread_should_stop() || !mtier_slot_enter(slot))
		return false;
	listed = mtier_list_locked(l, slot->mm);
	mtier_slot_leave(slot);
	return listed;
}

/*
 * Get the tiers of @sides for which no other mapper has listed a part of a file. There is
 * a set for each tier: one mapper can have pages of the part on the slow tier only, and
 * another on the fast tier only.
 */
static unsigned long mtier_list_new(const struct mtier_file_key *key,
				    unsigned long sides)
{
	unsigned long new = 0;
	unsigned int side;

	for (side = 0; side < MTIER_SIDES; side++) {
		struct mtier_file_set *met = &mtier_sweep_files[side];

		if (!(sides & BIT(side)) || mtier_file_set_all(met, key))
			continue;
		mtier_file_set_add(met, key);
		new |= BIT(side);
	}
	return new;
}

/* Leave out the ranges that another mapper has listed. False if there is no memory. */
static bool mtier_list_files(struct mtier_listing *l)
{
	unsigned int i, side, nr = 0;
	unsigned long at;

	for (i = 0; i < l->nr; i++)
		nr += !!l->key[i].mapping;
	for (side = 0; nr && side < MTIER_SIDES; side++)
		if (mtier_file_set_room(&mtier_sweep_files[side], nr))
			return false;
	for (i = 0, nr = 0; i < l->nr; i++) {
		at = l->at[i];
		if (l->key[i].mapping)
			at = mtier_range_only(at, mtier_list_new(&l->key[i],
								 mtier_range_sides(at)));
		if (at & ~PMD_MASK)
			l->at[nr++] = at;
	}
	l->nr = nr;
	return true;
}

/* Append the ranges found last to the new list. False if there is no memory. */
static bool mtier_list_keep(struct mtier_sample *new, unsigned int *room,
			    const struct mtier_listing *l)
{
	unsigned int nr = l->nr, want = new->nr + nr;
	const unsigned long *at = l->at;
	unsigned long *larger;

	/* The walk before this one ended within the same range. */
	if (nr && new->nr && !((new->at[new->nr - 1] ^ at[0]) & PMD_MASK)) {
		new->at[new->nr - 1] = mtier_range_merge(new->at[new->nr - 1], *at++);
		nr--;
	}
	if (want > *room) {
		want = max(want, 2 * *room);
		larger = kvrealloc(new->at, want * sizeof(*new->at),
				   GFP_KERNEL | __GFP_NOWARN);
		if (!larger)
			return false;
		new->at = larger;
		*room = want;
	}
	memcpy(new->at + new->nr, at, nr * sizeof(*at));
	new->nr += nr;
	return true;
}

/* List all ranges of @slot in the order of their addresses. */
static bool mtier_list_all(struct mtier_listing *l, struct mtier_slot *slot,
			   struct mtier_sample *new)
{
	unsigned int room = 0;

	l->sides = MTIER_RANGE_TOP;
	if (mtier_mm_promotes(slot->mm))
		l->sides |= MTIER_RANGE_LOW;
	l->nr_met = get_random_u8();
	l->cursor = 0;
	l->last = 1;
	l->cleared = false;
	while (l->cursor < slot->mm->task_size) {
		if (!mtier_list_some(l, slot) || !mtier_list_files(l) ||
		    !mtier_list_keep(new, &room, l))
			return false;
		cond_resched();
	}
	return true;
}

/*
 * Append the ranges of the old list that a listing which failed has not reached: bits of
 * those before were cleared, and are known from it alone.
 */
static bool mtier_list_rest(const struct mtier_listing *l, struct mtier_sample *new,
			    const struct mtier_sample *old)
{
	unsigned int i, nr = new->nr;
	unsigned long *at;

	if (!old->nr)
		return nr;
	at = kvrealloc(new->at, (nr + old->nr) * sizeof(*at),
		       GFP_KERNEL | __GFP_NOWARN);
	if (!at)
		return false;
	for (i = 0; i < old->nr; i++)
		if ((old->at[i] & PMD_MASK) >= l->cursor)
			at[nr++] = old->at[i];
	sort(at + new->nr, nr - new->nr, sizeof(*at), mtier_range_cmp, NULL);
	new->at = at;
	new->nr = nr;
	return true;
}

/*
 * List the ranges of an address space. With @every all of them are read. Without memory
 * for the new list the old one stays.
 */
static void mtier_sweep_slot(struct mtier_slot *slot, bool every, struct mtier_seen *seen)
{
	struct mtier_sample new = {
		.ran_ns = slot->sample.ran_ns,
		.listed_ns = ktime_get_ns(),
		.salt = slot->sample.salt ?: get_random_u32() | 1,
	};
	bool all, kept;

	mtier_listing.every = every;
	all = mtier_list_all(&mtier_listing, slot, &new);
	new.listed = new.nr;
	if (mtier_listing.cleared)
		mtier_flush_later(&mtier_sweep_flush, slot->mm, seen);
	seen->swept += new.nr;
	/* The next sweep tries again, whether the process has run or not. */
	if (!all)
		new.ran_ns = 0;
	kept = all || mtier_list_rest(&mtier_listing, &new, &slot->sample);
	if (kept && mtier_sample_sort(&new, &slot->sample)) {
		kvfree(slot->sample.at);
		slot->sample = new;
		return;
	}
	kvfree(new.at);
	slot->sample.ran_ns = 0;
}

/* ---- all of them ---- */

/*
 * Get the CPU time of all threads of a process. 0 if it is not known, and the address
 * space may be in use: it has more threads than are read, or other users.
 */
static u64 mtier_sweep_ran_ns(struct mm_struct *mm)
{
	int users = atomic_read(&mm->mm_users);
	struct task_struct *p, *t;
	unsigned int n = 0;
	u64 ns = 1;

	rcu_read_lock();
	p = users <= MTIER_RAN_THREADS ? rcu_dereference(mm->owner) : NULL;
	if (p) {
		ns += READ_ONCE(p->signal->sum_sched_runtime);
		for_each_thread(p, t) {
			ns += READ_ONCE(t->se.sum_exec_runtime);
			users -= READ_ONCE(t->mm) == mm;
			if (++n == MTIER_RAN_THREADS)
				break;
		}
	}
	rcu_read_unlock();
	return p && users <= 0 ? ns : 0;
}

/* Check whether any range of an address space can have been used since the last sweep. */
static bool mtier_sweep_ran(struct mtier_slot *slot)
{
	struct mtier_sample *s = &slot->sample;
	u64 ran_ns = mtier_sweep_ran_ns(slot->mm), then_ns = s->ran_ns;

	s->ran_ns = ran_ns;
	return !ran_ns || ran_ns != then_ns;
}

/*
 * Check whether the ranges of a process that has not run have to be read: the list is old,
 * or those with pages to demote were drawn. To read a range costs less than to scan it, so
 * some can be read for each one drawn.
 */
static bool mtier_sweep_unread(const struct mtier_sample *s)
{
	const struct mtier_sample_side *top = &s->side[MTIER_TOP];

	return ktime_get_ns() - s->listed_ns >= MTIER_LIST_AGE_NS ||
	       (top->drawn >= max(top->nr, 1U) &&
		top->drawn >= s->listed / MTIER_READ_DRAWN);
}

/* Publish for heat.c how many ranges each tier of an address space is sampled from. */
static void mtier_sweep_tell(struct mtier_slot *slot)
{
	u32 side;

	for (side = 0; side < MTIER_SIDES; side++)
		WRITE_ONCE(slot->heat.ranges[side], slot->sample.side[side].nr);
	WRITE_ONCE(slot->heat.swept, true);
}

/* No thread has run: nothing is in use. */
static void mtier_sweep_quiet(struct mtier_sample *s)
{
	struct mtier_sample_side *low = &s->side[MTIER_LOW];
	unsigned int i;

	if (!low->nr)
		return;
	for (i = 0; i < s->nr; i++)
		s->at[i] = mtier_range_only(s->at[i], MTIER_RANGE_TOP);
	low->nr = 0;
	low->pages = 0;
}

/* Bring the list of an address space up to date. */
static void mtier_sweep_update(struct mtier_slot *slot, struct mtier_seen *seen)
{
	if (mtier_sweep_ran(slot)) {
		mtier_sweep_slot(slot, false, seen);
		return;
	}
	mtier_sweep_quiet(&slot->sample);
	if (mtier_sweep_unread(&slot->sample))
		mtier_sweep_slot(slot, true, seen);
}

/*
 * Get the time until the next sweep. Where scans are far apart, rare accesses count,
 * so a sweep has to wait for them as well. @used: slow memory is in use.
 */
static u64 mtier_sweep_rest_ns(u64 spent_ns, u64 tau_ns, bool used)
{
	unsigned int parts = MTIER_SWEEP_PARTS(READ_ONCE(mtier_conf.cpu_percent));
	u64 longest = used ? MTIER_SWEEP_MAX_NS : MTIER_SWEEP_QUIET_NS;

	return max(spent_ns * parts,
		   clamp(tau_ns * MTIER_SWEEP_SCANS, MTIER_SWEEP_MIN_NS, longest));
}

/*
 * Account for the time of a sweep. Bits that the first sweep finds can be as old as the
 * system: the next one follows soon, and the first one is no measure of what it costs.
 */
static void mtier_sweep_spent(u64 spent_ns)
{
	if (mtier_sweep_next_ns)
		mtier_sweep_mean_ns = (3 * mtier_sweep_mean_ns + spent_ns) / 4;
}

/* The next sweep meets all files anew. */
static void mtier_sweep_forget(void)
{
	u32 side;

	for (side = 0; side < MTIER_SIDES; side++)
		mtier_file_set_clear(&mtier_sweep_files[side]);
}

/**
 * mtier_sweep() - Find the ranges in use, if it is time for that.
 * @now: the time
 * @force: it is time
 * @tau_ns: time between two scans
 * @seen: statistics
 *
 * Context: kmtierd; may sleep.
 */
void mtier_sweep(ktime_t now, bool force, u64 tau_ns, struct mtier_seen *seen)
{
	u64 ran_ns = task_sched_runtime(current), spent_ns;
	struct mtier_slot *slot = NULL;
	bool used = false;

	if (!force && ktime_get_ns() < mtier_sweep_next_ns)
		return;
	mtier_listing.peek.slow = mtier_nodes_slow();
	mtier_listing.peek.middle = mtier_nodes_above();
	while ((slot = mtier_slot_after(slot, now))) {
		if (mtier_sample_left_out(slot))
			continue;
		mtier_sweep_update(slot, seen);
		mtier_sweep_tell(slot);
		used |= slot->sample.side[MTIER_LOW].nr;
		cond_resched();
	}
	mtier_flush_now(&mtier_sweep_flush, seen);
	mtier_sweep_forget();
	spent_ns = task_sched_runtime(current) - ran_ns;
	seen->sweeps++;
	seen->swept_ns += spent_ns;
	mtier_sweep_spent(spent_ns);
	mtier_sweep_next_ns = ktime_get_ns() +
			      mtier_sweep_rest_ns(mtier_sweep_mean_ns, tau_ns, used);
}

/**
 * mtier_sweep_next() - Get the time of the next sweep.
 *
 * Context: kmtierd.
 * Return: the time, of ktime_get_ns().
 */
u64 mtier_sweep_next(void)
{
	return mtier_sweep_next_ns;
}

/**
 * mtier_sweep_stop() - Free the memory of sweeps.
 */
void mtier_sweep_stop(void)
{
	u32 side;

	for (side = 0; side < MTIER_SIDES; side++)
		mtier_file_set_free(&mtier_sweep_files[side]);
	mtier_sweep_next_ns = 0;
	mtier_sweep_mean_ns = 0;
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/sweep_kunit.c"
#endif
