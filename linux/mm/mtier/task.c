// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: what a process can say about itself, and what its faults say.
 *
 * The scan scale belongs to the address space, so all threads share it. Like
 * PR_SET_THP_DISABLE it is inherited over fork and kept over exec: a parent
 * can set it for a program that knows nothing of it. It only asks to be looked at
 * less or more often than others, within cpu_percent, so it needs no privilege.
 */
#include <linux/mm.h>
#include <linux/mm_types.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/vmstat.h>

#include "mtier.h"

/**
 * mtier_init_mm() - set up the fields of a new mm
 * @mm: the mm, which at fork is a copy of its parent's
 */
void mtier_init_mm(struct mm_struct *mm)
{
	mm->mtier_slot = NULL;
	mm->mtier_scan_scale = current->mm ?
		READ_ONCE(current->mm->mtier_scan_scale) : MTIER_SCALE_DEFAULT;
}

/**
 * mtier_task_mem() - our line of /proc/PID/status
 * @m: where to print
 * @mm: the address space
 */
void mtier_task_mem(struct seq_file *m, struct mm_struct *mm)
{
	seq_printf(m, "MtierScanScale:\t%u\n", READ_ONCE(mm->mtier_scan_scale));
}

/**
 * mtier_prctl_set() - prctl(PR_MTIER_SCAN_SCALE_SET)
 * @mm: the caller's address space
 * @scale: 0 never looked at, 5 normal, 10 twice as often
 * @arg3: must be 0
 * @arg4: must be 0
 * @arg5: must be 0
 *
 * Return: 0, or -EINVAL and nothing changed.
 */
int mtier_prctl_set(struct mm_struct *mm, unsigned long scale,
		    unsigned long arg3, unsigned long arg4, unsigned long arg5)
{
	if (scale > MTIER_SCALE_MAX || arg3 || arg4 || arg5)
		return -EINVAL;
	WRITE_ONCE(mm->mtier_scan_scale, scale);
	return 0;
}

/**
 * mtier_prctl_get() - prctl(PR_MTIER_SCAN_SCALE_GET)
 * @mm: the caller's address space
 * @arg2: must be 0
 * @arg3: must be 0
 * @arg4: must be 0
 * @arg5: must be 0
 *
 * Return: the scale, or -EINVAL.
 */
int mtier_prctl_get(struct mm_struct *mm, unsigned long arg2,
		    unsigned long arg3, unsigned long arg4, unsigned long arg5)
{
	if (arg2 || arg3 || arg4 || arg5)
		return -EINVAL;
	return READ_ONCE(mm->mtier_scan_scale);
}

/**
 * __mtier_hint_fault() - a hint fault is to move a page, maybe because it is hot
 * @folio: its folio
 *
 * With the tiering mode of NUMA balancing the kernel takes away access rights to
 * pages of slow nodes, and a fault that finds one hot by how soon it comes moves it.
 * While the engine runs there is one who judges, and one limit: the fault is over
 * without. What it moves for another reason it moves.
 *
 * Return: true if the fault is to leave the page where it is.
 */
bool __mtier_hint_fault(struct folio *folio)
{
	if (!folio_use_access_time(folio))
		return false;
	count_vm_event(MTIER_HINT_FAULTS);
	return true;
}
