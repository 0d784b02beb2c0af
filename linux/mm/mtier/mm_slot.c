// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: the list of address spaces.
 *
 * A slot is made at fork and exec, and freed at exit. It pins the mm_struct
 * (mmgrab) but not its users. A reference to the users would delay the exit: the
 * executable and the file systems of an exited program would stay busy until
 * kmtierd drops it. Instead, kmtierd enters a slot for one range of 2 MiB, or for
 * one batch of pages. The exit waits until kmtierd has left the slot. While kmtierd
 * is inside, exit_mmap() has not begun, so the VMAs, the page tables and the maple
 * tree stay.
 *
 * kmtierd iterates over all slots, and holds a reference to those that it works on.
 * An exit marks the slot dead. A dead slot cannot be entered, and is freed with its
 * last reference.
 *
 * Locking: mtier_slot_lock guards the list, mm->mtier_slot, and @dead, @inside and
 * @refs of every slot. mtier_burst_lock guards @heat. All other fields belong to
 * kmtierd.
 */
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/wait_bit.h>

#include "mtier.h"

static DEFINE_SPINLOCK(mtier_slot_lock);
/* All slots, until their last reference is dropped. */
static LIST_HEAD(mtier_slots);
static bool mtier_slots_open;
static unsigned long mtier_nr_slots;
static struct kmem_cache *mtier_slot_cache;

static void mtier_slot_free(struct mtier_slot *slot)
{
	mmdrop(slot->mm);
	kfree(slot->top);
	kvfree(slot->sample.at);
	kmem_cache_free(mtier_slot_cache, slot);
}

/*
 * Drop a reference. True for the last one: the caller frees the slot, without the
 * lock.
 */
static bool mtier_slot_unref(struct mtier_slot *slot)
{
	lockdep_assert_held(&mtier_slot_lock);
	if (--slot->refs)
		return false;
	list_del(&slot->all);
	return true;
}

/* @born: start of the process. It is not scanned in the delay_ms after that. */
static void mtier_slot_add(struct mm_struct *mm, ktime_t born, gfp_t gfp)
{
	struct mtier_slot *slot;

	slot = kmem_cache_zalloc(mtier_slot_cache, gfp | __GFP_NOWARN);
	if (!slot)
		return;		/* only this mm is not scanned */
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
 * __mtier_add_mm() - Make a slot for an address space.
 * @mm: the mm; the caller holds a user reference
 *
 * Context: may sleep.
 */
void __mtier_add_mm(struct mm_struct *mm)
{
	mtier_slot_add(mm, ktime_get(), GFP_KERNEL_ACCOUNT);
}

/* Take the slot from an exiting mm, and close it. NULL if the mm has none. */
static struct mtier_slot *mtier_slot_close(struct mm_struct *mm)
{
	struct mtier_slot *slot;

	spin_lock(&mtier_slot_lock);
	slot = mm->mtier_slot;
	if (slot) {
		mm->mtier_slot = NULL;
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
 * __mtier_del_mm() - Remove the slot of an address space.
 * @mm: the mm; it has no user reference, so it cannot be added again
 *
 * Waits until kmtierd has left the address space, for at most one range or one
 * batch.
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
 * mtier_slot_enter() - Prevent the teardown of the address space of a slot.
 * @slot: the slot, held
 *
 * Context: kmtierd, not in atomic context: the exit of the process waits for the
 * matching mtier_slot_leave().
 * Return: false if the process has exited.
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
 * mtier_slot_leave() - Allow the teardown of the address space of a slot.
 * @slot: the slot, from mtier_slot_enter()
 */
void mtier_slot_leave(struct mtier_slot *slot)
{
	bool wake;

	spin_lock(&mtier_slot_lock);
	WARN_ON_ONCE(!slot->inside);
	wake = !--slot->inside && slot->dead;
	spin_unlock(&mtier_slot_lock);
	/* The slot may be freed already: wake_up_var() only uses the address. */
	if (wake)
		wake_up_var(&slot->inside);
}

/**
 * mtier_slot_pause() - Let a waiting exit, or another task of this CPU, run first.
 * @slot: the slot, from mtier_slot_enter()
 *
 * Return: true if the slot is still entered. False if the process has exited; the
 * slot is left then.
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
 * mtier_hold() - Prevent the teardown of an address space, with or without a slot.
 * @hold: filled
 * @mm: the mm; the caller prevents it from being freed
 *
 * An address space has no slot if there was no memory for one, or if fork has not
 * made it yet.
 *
 * Return: false if the process has exited.
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
 * mtier_release() - Allow the teardown of an address space.
 * @hold: from mtier_hold()
 */
void mtier_release(struct mtier_hold *hold)
{
	if (hold->slot)
		mtier_slot_leave(hold->slot);
	else
		mmput_async(hold->mm);
}

/**
 * mtier_slot_get() - Take a reference to a slot.
 * @slot: a slot with a reference
 */
void mtier_slot_get(struct mtier_slot *slot)
{
	spin_lock(&mtier_slot_lock);
	slot->refs++;
	spin_unlock(&mtier_slot_lock);
}

/**
 * mtier_slot_of() - Get the slot of an address space.
 * @mm: the mm; the caller prevents it from being freed
 *
 * Return: the slot, with a reference; NULL if it has none.
 */
struct mtier_slot *mtier_slot_of(struct mm_struct *mm)
{
	struct mtier_slot *slot;

	spin_lock(&mtier_slot_lock);
	slot = mm->mtier_slot;
	if (slot)
		slot->refs++;
	spin_unlock(&mtier_slot_lock);
	return slot;
}

/**
 * mtier_slot_put() - Drop a reference to a slot.
 * @slot: from mtier_slot_get(), mtier_slot_of(), or mtier_slot_after()
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
 * mtier_slot_after() - Get the next slot of an iteration over all address spaces.
 * @prev: the slot before it, whose reference is dropped; NULL to begin
 * @now: the time
 *
 * Address spaces younger than scan/delay_ms, and those of exited processes, are
 * left out. A slot that is added during the iteration may be visited or not.
 *
 * Context: may sleep.
 * Return: the next slot, with a reference; NULL at the end.
 */
struct mtier_slot *mtier_slot_after(struct mtier_slot *prev, ktime_t now)
{
	struct mtier_slot *slot;
	bool last = false;

	spin_lock(&mtier_slot_lock);
	/* A slot with a reference stays in the list. */
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
 * mtier_slots_count() - Count the address spaces.
 *
 * Return: the number of slots whose process has not exited.
 */
unsigned long mtier_slots_count(void)
{
	return READ_ONCE(mtier_nr_slots);
}

/**
 * mtier_slots_start() - Begin to accept address spaces.
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
 * mtier_slots_adopt() - Make a slot for every process that exists already.
 *
 * Called with the static key on, so that no process is missed: a process that forks
 * at the same time adds its child itself.
 */
void mtier_slots_adopt(void)
{
	struct task_struct *p, *t;

	rcu_read_lock();
	for_each_process(p) {
		if (p->flags & PF_KTHREAD)
			continue;
		/* The leader can exit before the other threads. */
		for_each_thread(p, t)
			if (mtier_slot_adopt(t))
				break;
	}
	rcu_read_unlock();
}

/**
 * mtier_slots_stop() - Free all slots.
 *
 * kmtierd has stopped and the static key is off. The list is closed, for a fork
 * that has read the key while it was on.
 */
void mtier_slots_stop(void)
{
	struct mtier_slot *slot;

	spin_lock(&mtier_slot_lock);
	mtier_slots_open = false;
	while ((slot = list_first_entry_or_null(&mtier_slots, struct mtier_slot,
						all))) {
		/*
		 * An exit with the key off has not removed the slot; the mm is
		 * pinned.
		 */
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
