// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: scan scale of a process, and hint faults.
 *
 * The scan scale belongs to the address space, so all threads share it. Like
 * PR_SET_THP_DISABLE, it is inherited at fork and kept at exec. So a parent can set
 * it for a program that does not use this prctl(). The scale only changes how often
 * slow memory is scanned for pages to promote, compared with other address spaces and
 * within the limit cpu_percent. Pages are demoted alike with each scale. So no
 * privilege is required.
 */
#include <linux/mm.h>
#include <linux/mm_types.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/vmstat.h>

#include "mtier.h"

/**
 * mtier_init_mm() - Initialise the fields of a new mm.
 * @mm: the mm; at fork, a copy of the mm of the parent
 */
void mtier_init_mm(struct mm_struct *mm)
{
	mm->mtier_slot = NULL;
	mm->mtier_scan_scale = current->mm ?
		READ_ONCE(current->mm->mtier_scan_scale) : MTIER_SCALE_DEFAULT;
}

/**
 * mtier_task_mem() - Print the scan scale for /proc/PID/status.
 * @m: output file
 * @mm: the address space
 */
void mtier_task_mem(struct seq_file *m, struct mm_struct *mm)
{
	seq_printf(m, "MtierScanScale:\t%u\n", READ_ONCE(mm->mtier_scan_scale));
}

/**
 * mtier_prctl_set() - Implement prctl(PR_MTIER_SCAN_SCALE_SET).
 * @mm: the caller's address space
 * @scale: 0 promotes no pages, 5 is normal, 10 scans slow memory twice as often
 * @arg3: must be 0
 * @arg4: must be 0
 * @arg5: must be 0
 *
 * Return: 0, or -EINVAL without any change.
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
 * mtier_prctl_get() - Implement prctl(PR_MTIER_SCAN_SCALE_GET).
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
 * __mtier_hint_fault() - Check whether a hint fault must not promote a page.
 * @folio: folio of the page
 *
 * The tiering mode of NUMA balancing removes the access rights to pages of slow
 * nodes. A fault soon after that indicates a hot page, and promotes it. While
 * kmtierd runs, only kmtierd promotes, under one rate limit, and such a fault ends
 * without a migration. Faults that migrate a page for another reason are not
 * affected.
 *
 * Return: true if the fault must leave the page in place.
 */
bool __mtier_hint_fault(struct folio *folio)
{
	if (!folio_use_access_time(folio))
		return false;
	count_vm_event(MTIER_HINT_FAULTS);
	return true;
}
