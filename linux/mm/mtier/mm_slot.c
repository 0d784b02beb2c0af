// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: the address spaces there are.
 *
 * A slot is made at fork and exec and freed at exit. It pins the mm_struct
 * (mmgrab) but not its users: a program that has exited would keep its executable and
 * its file systems busy until kmtierd drops them. kmtierd enters a slot instead, for
 * one range of 2 MiB or one batch of pages, and the exit waits until it has left. While
 * it is inside, exit_mmap() has not begun: VMAs, page tables and the maple tree stay.
 *
 * kmtierd goes over all slots, and holds those that it works on by a reference. An exit
 * marks the slot dead, so that nobody enters it again, and the last reference frees it.
 *
 * Locking: mtier_slot_lock guards the list, mm->mtier_slot, and @dead, @inside and
 * @refs of every slot. All other fields belong to kmtierd.
 */
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/wait_bit.h>

#include "mtier.h"

static DEFINE_SPINLOCK(mtier_slot_lock);
/* All of them, until the last reference is gone. */
static LIST_HEAD(mtier_slots);
static bool mtier_slots_open;
static unsigned long mtier_nr_slots;
/* Changes when one goes that may have stood for others who map the same. */
static unsigned int mtier_nr_shares;
static struct kmem_cache *mtier_slot_cache;

static void mtier_slot_free(struct mtier_slot *slot)
{
	mmdrop(slot->mm);
	kfree(slot->top);
	kvfree(slot->sample.at);
	kmem_cache_free(mtier_slot_cache, slot);
}

/* Was that the last reference? Then the caller frees it, without the lock. */
static bool mtier_slot_unref(struct mtier_slot *slot)
{
	lockdep_assert_held(&mtier_slot_lock);
	if (--slot->refs)
		return false;
	list_del(&slot->all);
	return true;
}

/* @born: when whose it is began, since it is looked at when that was a while ago. */
static void mtier_slot_add(struct mm_struct *mm, ktime_t born, gfp_t gfp)
{
	struct mtier_slot *slot;

	slot = kmem_cache_zalloc(mtier_slot_cache, gfp | __GFP_NOWARN);
	if (!slot)
		return;		/* this mm is not looked at, and that is all */
	slot->mm = mm;

	spin_lock(&mtier_slot_lock);
	if (!mtier_slots_open || mm->mtier_slot) {
		spin_unlock(&mtier_slot_lock);
		kmem_cache_free(mtier_slot_cache, slot);
		return;
	}
	mmgrab(mm);
	mm->mtier_slot = slot;
	slot->refs = 1;
	list_add_tail(&slot->all, &mtier_slots);
	slot->not_before = ktime_add_ms(born, READ_ONCE(mtier_conf.delay_ms));
	mtier_nr_slots++;
	spin_unlock(&mtier_slot_lock);
}

/**
 * __mtier_add_mm() - give an address space a slot
 * @mm: the mm; the caller holds a user reference
 *
 * Context: may sleep.
 */
void __mtier_add_mm(struct mm_struct *mm)
{
	mtier_slot_add(mm, ktime_get(), GFP_KERNEL_ACCOUNT);
}

/* Take the slot of an exiting mm, and close it; NULL if it has none. */
static struct mtier_slot *mtier_slot_close(struct mm_struct *mm)
{
	struct mtier_slot *slot;

	spin_lock(&mtier_slot_lock);
	slot = mm->mtier_slot;
	if (slot) {
		mm->mtier_slot = NULL;
		if (READ_ONCE(slot->sample.stands))
			WRITE_ONCE(mtier_nr_shares, mtier_nr_shares + 1);
		mtier_nr_slots--;
		WRITE_ONCE(slot->dead, true);
	}
	spin_unlock(&mtier_slot_lock);
	return slot;
}

static bool mtier_slot_left(struct mtier_slot *slot)
{
	bool left;

	spin_lock(&mtier_slot_lock);
	left = !slot->inside;
	spin_unlock(&mtier_slot_lock);
	return left;
}

/**
 * __mtier_del_mm() - take the slot of an address space away
 * @mm: the mm; no user reference is left, so it cannot be added again
 *
 * Waits until kmtierd has left the address space: at most one range or one batch.
 *
 * Context: may sleep; before exit_mmap().
 */
void __mtier_del_mm(struct mm_struct *mm)
{
	struct mtier_slot *slot = mtier_slot_close(mm);

	if (!slot)
		return;
	wait_var_event(&slot->inside, mtier_slot_left(slot));
	mtier_slot_put(slot);
}

/**
 * mtier_slot_enter() - keep the address space of a slot from being torn down
 * @slot: the slot, held
 *
 * Context: kmtierd, not in atomic context: the exit of a process waits for the
 * mtier_slot_leave() that belongs to it.
 * Return: false if its mm has exited.
 */
bool mtier_slot_enter(struct mtier_slot *slot)
{
	bool alive;

	spin_lock(&mtier_slot_lock);
	alive = !slot->dead;
	if (alive)
		slot->inside++;
	spin_unlock(&mtier_slot_lock);
	return alive;
}

/**
 * mtier_slot_leave() - let the address space of a slot be torn down
 * @slot: the slot, from mtier_slot_enter()
 */
void mtier_slot_leave(struct mtier_slot *slot)
{
	bool wake;

	spin_lock(&mtier_slot_lock);
	WARN_ON_ONCE(!slot->inside);
	wake = !--slot->inside && slot->dead;
	spin_unlock(&mtier_slot_lock);
	/* Only the address is used: the slot may be freed by now. */
	if (wake)
		wake_up_var(&slot->inside);
}

/**
 * mtier_slot_pause() - let an exit and other tasks of this CPU go first
 * @slot: the slot, from mtier_slot_enter()
 *
 * Return: false if its mm has exited; then the slot is left.
 */
bool mtier_slot_pause(struct mtier_slot *slot)
{
	if (!READ_ONCE(slot->dead) && !need_resched())
		return true;
	mtier_slot_leave(slot);
	cond_resched();
	return mtier_slot_enter(slot);
}

/**
 * mtier_hold() - keep an address space from being torn down, whether it has a slot or not
 * @hold: filled
 * @mm: the mm; it is not freed meanwhile
 *
 * There was no memory for the slot of some, and fork has not made that of others yet.
 *
 * Return: false if it has exited.
 */
bool mtier_hold(struct mtier_hold *hold, struct mm_struct *mm)
{
	bool has;

	spin_lock(&mtier_slot_lock);
	hold->mm = mm;
	hold->slot = mm->mtier_slot;
	has = hold->slot;
	if (has)
		hold->slot->inside++;
	spin_unlock(&mtier_slot_lock);
	return has || mmget_not_zero(mm);
}

/**
 * mtier_release() - let an address space be torn down
 * @hold: of mtier_hold()
 */
void mtier_release(struct mtier_hold *hold)
{
	if (hold->slot)
		mtier_slot_leave(hold->slot);
	else
		mmput_async(hold->mm);
}

/**
 * mtier_slot_get() - hold a slot
 * @slot: a slot that is held already
 */
void mtier_slot_get(struct mtier_slot *slot)
{
	spin_lock(&mtier_slot_lock);
	slot->refs++;
	spin_unlock(&mtier_slot_lock);
}

/**
 * mtier_slot_put() - let go of a slot
 * @slot: from mtier_slot_get() or mtier_slot_after()
 *
 * Context: may sleep.
 */
void mtier_slot_put(struct mtier_slot *slot)
{
	bool last;

	spin_lock(&mtier_slot_lock);
	last = mtier_slot_unref(slot);
	spin_unlock(&mtier_slot_lock);
	if (last)
		mtier_slot_free(slot);
}

/**
 * mtier_slot_after() - go over all address spaces
 * @prev: the one before, which is let go of; NULL to begin
 * @now: the time
 *
 * Those that came a short time ago (scan/delay_ms), or went, are left out. What
 * comes while somebody goes over them is met or not.
 *
 * Context: may sleep.
 * Return: the next slot, held; NULL at the end.
 */
struct mtier_slot *mtier_slot_after(struct mtier_slot *prev, ktime_t now)
{
	struct mtier_slot *slot;
	bool last = false;

	spin_lock(&mtier_slot_lock);
	/* A slot that is held stays in the list. */
	slot = prev ? prev : list_entry(&mtier_slots, struct mtier_slot, all);
	list_for_each_entry_continue(slot, &mtier_slots, all)
		if (!slot->dead && slot->not_before <= now)
			break;
	if (list_entry_is_head(slot, &mtier_slots, all))
		slot = NULL;
	else
		slot->refs++;
	if (prev)
		last = mtier_slot_unref(prev);
	spin_unlock(&mtier_slot_lock);
	if (last)
		mtier_slot_free(prev);
	return slot;
}

/**
 * mtier_slot_ready() - does mtier_slot_after() come to an address space?
 * @mm: the mm
 * @now: the time
 *
 * Return: true if so; if it is old enough, and known at all.
 */
bool mtier_slot_ready(struct mm_struct *mm, ktime_t now)
{
	struct mtier_slot *slot;
	bool ready;

	spin_lock(&mtier_slot_lock);
	slot = mm->mtier_slot;
	ready = slot && slot->not_before <= now;
	spin_unlock(&mtier_slot_lock);
	return ready;
}

/**
 * mtier_slots_shares() - who stands for those who map the same memory?
 *
 * Return: a number that is another one when some of them have gone.
 */
unsigned int mtier_slots_shares(void)
{
	return READ_ONCE(mtier_nr_shares);
}

/**
 * mtier_slots_count() - how many address spaces are known
 *
 * Return: the number of slots whose mm has not exited.
 */
unsigned long mtier_slots_count(void)
{
	return READ_ONCE(mtier_nr_slots);
}

/**
 * mtier_slots_start() - accept address spaces
 *
 * Return: 0 or -ENOMEM.
 */
int mtier_slots_start(void)
{
	if (!mtier_slot_cache)
		mtier_slot_cache = KMEM_CACHE(mtier_slot, SLAB_ACCOUNT);
	if (!mtier_slot_cache)
		return -ENOMEM;
	spin_lock(&mtier_slot_lock);
	mtier_slots_open = true;
	spin_unlock(&mtier_slot_lock);
	return 0;
}

static bool mtier_slot_adopt(struct task_struct *t)
{
	struct mm_struct *mm;

	/* The task lock keeps t->mm, and with it a user reference. */
	task_lock(t);
	mm = t->mm;
	if (mm)
		mtier_slot_add(mm, ns_to_ktime(t->start_time), GFP_ATOMIC);
	task_unlock(t);
	return mm;
}

/**
 * mtier_slots_adopt() - give a slot to every process that is there already
 *
 * Called with the static key on, so that nobody slips through: a process that
 * forks now registers its child itself.
 */
void mtier_slots_adopt(void)
{
	struct task_struct *p, *t;

	rcu_read_lock();
	for_each_process(p) {
		if (p->flags & PF_KTHREAD)
			continue;
		/* The leader may have gone before its threads. */
		for_each_thread(p, t)
			if (mtier_slot_adopt(t))
				break;
	}
	rcu_read_unlock();
}

/**
 * mtier_slots_stop() - forget all address spaces
 *
 * kmtierd has stopped and the static key is off; a fork that had seen it on finds
 * the list closed.
 */
void mtier_slots_stop(void)
{
	struct mtier_slot *slot;

	spin_lock(&mtier_slot_lock);
	mtier_slots_open = false;
	while ((slot = list_first_entry_or_null(&mtier_slots, struct mtier_slot,
						all))) {
		/* Exit may have passed while the key was off: mm is pinned. */
		slot->mm->mtier_slot = NULL;
		WARN_ON_ONCE(!mtier_slot_unref(slot));
		spin_unlock(&mtier_slot_lock);
		mtier_slot_free(slot);
		cond_resched();
		spin_lock(&mtier_slot_lock);
	}
	mtier_nr_slots = 0;
	spin_unlock(&mtier_slot_lock);
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/mm_slot_kunit.c"
#endif
