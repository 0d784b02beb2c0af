// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flush of migrated pages: on and off.
 *
 * On patches the hooks in. A fork that began before is not told of by a hook, so an
 * address space that is older is not deferred until it was seen without one (D7). Off
 * waits for the migrations that may defer and flushes what they did, after which no
 * hook has anything left to do.
 *
 * Locks: mode_mutex serialises switching; it is taken before flush_mutex (engine.c).
 */
#include <linux/atomic.h>
#include <linux/export.h>
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/wait_bit.h>

#include "tlb_defer.h"

DEFINE_STATIC_KEY_FALSE(tlb_defer_key);
/* get_write_access() is inline, in whatever module opens a file for writing. */
EXPORT_SYMBOL(tlb_defer_key);

struct tlb_defer_conf tlb_defer_conf = {
	.limit_ticks = 3,
	.held_limit_bp = 50,
	.backoff_ms = 1000,
};

static DEFINE_MUTEX(mode_mutex);

/* Migrations under way that may defer; the waiter is tlb_defer_set_mode(). */
static atomic_t batches;

/* See tlb_defer_forks_known() */
u32 tlb_defer_switched_on;

/**
 * tlb_defer_init_mm() - Nothing is deferred in a new address space
 * @mm: it; may be a copy of another one
 */
void tlb_defer_init_mm(struct mm_struct *mm)
{
	mm->tlb_defer = (struct tlb_defer_mm){
		.switched_on = READ_ONCE(tlb_defer_switched_on),
	};
}

/**
 * __tlb_defer_forks_known() - Is no fork of an old address space under way? (D7)
 * @mm: it, older than the mode; the caller holds the page table lock of an entry
 *
 * A fork that began while all was off has not told. It holds mmap_lock until
 * its flush, so once the lock was seen free there is none of that kind: who takes
 * it after that finds the hooks on.
 *
 * Return: true if there is none, and never will be.
 */
bool __tlb_defer_forks_known(struct mm_struct *mm)
{
	/* Pairs with start() */
	u32 now = smp_load_acquire(&tlb_defer_switched_on);

	if (rwsem_is_locked(&mm->mmap_lock))
		return false;
	WRITE_ONCE(mm->tlb_defer.switched_on, now);
	return true;
}

/**
 * tlb_defer_batches() - Is there a migration that may defer?
 *
 * Return: true if so. A caller that has a full barrier before this, and for which
 * it is false, sees all sealed that was cleared before the barrier.
 */
bool tlb_defer_batches(void)
{
	/* Pairs with tlb_defer_leave() */
	return atomic_read_acquire(&batches);
}

/**
 * tlb_defer_enter() - A migration that may defer begins
 *
 * Return: false if it may not. Else tlb_defer_leave() has to follow.
 */
bool tlb_defer_enter(void)
{
	atomic_inc(&batches);
	/* Pairs with tlb_defer_set_mode(): it sees us, or we see its mode. */
	smp_mb__after_atomic();
	if (READ_ONCE(tlb_defer_conf.mode) == TLB_DEFER_QUARANTINE)
		return true;
	tlb_defer_leave();
	return false;
}

/**
 * tlb_defer_leave() - A migration that may defer is over
 */
void tlb_defer_leave(void)
{
	if (atomic_dec_and_test(&batches))
		wake_up_var(&batches);
}

static void start(void)
{
	/* The hooks first, then what they watch. */
	static_branch_enable(&tlb_defer_key);
	/* Pairs with tlb_defer_forks_known() */
	smp_store_release(&tlb_defer_switched_on, tlb_defer_switched_on + 1);
	WRITE_ONCE(tlb_defer_conf.mode, TLB_DEFER_QUARANTINE);
}

static void stop(void)
{
	WRITE_ONCE(tlb_defer_conf.mode, TLB_DEFER_OFF);
	/* Pairs with tlb_defer_enter() */
	smp_mb();
	wait_var_event(&batches, !atomic_read(&batches));
	tlb_defer_flush_all(TLB_DEFER_STOP);
	/* Nothing waits any more, so no hook has anything to do. */
	static_branch_disable(&tlb_defer_key);
	tlb_defer_work_end();
}

/**
 * tlb_defer_set_mode() - Switch
 * @mode: what to switch to
 *
 * When it returns from TLB_DEFER_OFF, nothing is deferred any more.
 *
 * Return: 0 or -ENOMEM.
 */
int tlb_defer_set_mode(enum tlb_defer_mode mode)
{
	guard(mutex)(&mode_mutex);
	if (mode == tlb_defer_conf.mode)
		return 0;
	if (!tlb_defer_work_ready())
		return -ENOMEM;
	if (mode == TLB_DEFER_OFF)
		stop();
	else
		start();
	return 0;
}
