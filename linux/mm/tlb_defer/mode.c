// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred TLB flush of migrated pages: switching on and off.
 *
 * Switching on patches the hooks in. A fork that started earlier did not pass a hook, so
 * an older address space is not deferred until it was seen without a fork (D7). Switching
 * off waits for the migrations that may defer, and flushes their deferred entries. After
 * that the hooks have nothing left to do.
 *
 * Locking: mode_mutex serialises switching; it is taken before flush_mutex (engine.c).
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
/*
 * get_write_access() is inline, so each module that opens files for writing uses the key.
 */
EXPORT_SYMBOL(tlb_defer_key);

struct tlb_defer_conf tlb_defer_conf = {
	.limit_ticks = 3,
	.held_limit_bp = 50,
	.backoff_ms = 1000,
	.protect = 1,
};

static DEFINE_MUTEX(mode_mutex);

/* Migrations in progress that may defer; tlb_defer_set_mode() waits for 0. */
static atomic_t batches;

/* See tlb_defer_forks_known() */
u32 tlb_defer_switched_on;

/**
 * tlb_defer_init_mm() - Initialize a new address space, with nothing deferred
 * @mm: address space; may be a copy of another one
 */
void tlb_defer_init_mm(struct mm_struct *mm)
{
	mm->tlb_defer = (struct tlb_defer_mm){
		.switched_on = READ_ONCE(tlb_defer_switched_on),
	};
}

/**
 * __tlb_defer_forks_known() - Check that no old fork of an address space is in progress
 * (D7)
 * @mm: address space, older than the mode; the caller holds the page table lock of
 *	an entry
 *
 * A fork that started before the hooks were enabled holds mmap_lock until its flush. Once
 * the lock was seen free, no such fork is left: a later fork passes the hooks.
 *
 * Return: true if there is none; then there never will be one.
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
 * tlb_defer_batches() - Check for migrations that may defer
 *
 * Return: true if there is one. If false, everything that was cleared before a full
 * barrier of the caller is committed.
 */
bool tlb_defer_batches(void)
{
	/* Pairs with tlb_defer_leave() */
	return atomic_read_acquire(&batches);
}

/**
 * tlb_defer_enter() - Register a migration that may defer
 *
 * Return: false if it may not defer. Otherwise tlb_defer_leave() must follow.
 */
bool tlb_defer_enter(void)
{
	atomic_inc(&batches);
	/*
	 * Pairs with tlb_defer_set_mode(): it observes the count, or this observes the
	 * mode.
	 */
	smp_mb__after_atomic();
	if (READ_ONCE(tlb_defer_conf.mode) == TLB_DEFER_QUARANTINE)
		return true;
	tlb_defer_leave();
	return false;
}

/**
 * tlb_defer_leave() - End a migration that may defer
 */
void tlb_defer_leave(void)
{
	if (atomic_dec_and_test(&batches))
		wake_up_var(&batches);
}

static void start(void)
{
	/* The hooks first, then the entries that they protect. */
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
	/* Nothing is deferred, so the hooks have nothing to do. */
	static_branch_disable(&tlb_defer_key);
	tlb_defer_work_end();
}

/**
 * tlb_defer_set_mode() - Switch the mode
 * @mode: new mode
 *
 * Nothing is deferred when a switch to TLB_DEFER_OFF returns.
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
