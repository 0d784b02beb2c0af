// SPDX-License-Identifier: GPL-2.0
/*
 * Automatic NUMA migration: marked pages in /proc/PID/numa_maps.
 *
 * The marks are counted in the page tables, so the number is exact even if marks were
 * lost. Marks of NUMA balancing look the same and are counted too.
 *
 * Locking: the caller has mmap_lock for read; in it, a page table lock.
 */
#include <linux/hugetlb.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/pagewalk.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>

#include "follow.h"

static bool is_huge_marked(pmd_t pmd)
{
	return pmd_present(pmd) && pmd_protnone(pmd);
}

static bool is_marked(pte_t pte)
{
	return pte_present(pte) && pte_protnone(pte);
}

static int count_marked(pmd_t *pmd, unsigned long addr, unsigned long end,
			struct mm_walk *walk)
{
	unsigned long *marked = walk->private;
	pte_t *first, *pte;
	spinlock_t *ptl;	/* of this page table */

	ptl = pmd_trans_huge_lock(pmd, walk->vma);
	if (ptl) {
		__acquire(ptl);		/* for sparse */
		if (is_huge_marked(*pmd))
			*marked += HPAGE_PMD_NR;
		spin_unlock(ptl);
		return 0;
	}
	first = pte_offset_map_lock(walk->mm, pmd, addr, &ptl);
	if (!first) {
		walk->action = ACTION_AGAIN;
		return 0;
	}
	__acquire(ptl);			/* for sparse */
	for (pte = first; addr != end; pte++, addr += PAGE_SIZE)
		*marked += is_marked(ptep_get(pte));
	pte_unmap_unlock(first, ptl);
	cond_resched();
	return 0;
}

static const struct mm_walk_ops count_ops = {
	.pmd_entry = count_marked,
	.walk_lock = PGWALK_RDLOCK,
};

/*
 * Get the time of the last mark of a process; false if it is not known.
 *
 * The caller holds @task, not its leader. The leader is released after every other thread
 * of its process, and freed an RCU grace period later. So while @task has a pid, the
 * leader and its state stay until the end of the RCU section. exec by another thread
 * releases the old leader first; group_leader of the old leader is the new one then.
 */
static bool last_mark(const struct task_struct *task, unsigned long *when)
{
	const struct numa_follow_task *state;
	const struct task_struct *leader;
	bool known = false;

	guard(rcu)();
	if (!pid_alive(task))
		return false;
	leader = READ_ONCE(task->group_leader);
	state = READ_ONCE(leader->numa_follow);
	if (state && READ_ONCE(state->marked_by) == leader->self_exec_id) {
		known = true;
		*when = READ_ONCE(state->marked);
	}
	return known;
}

/**
 * __numa_follow_show() - Add the marked pages of a mapping to its line in numa_maps
 * @m: the file
 * @vma: the mapping, locked
 * @task: a thread of the process
 */
void __numa_follow_show(struct seq_file *m, struct vm_area_struct *vma,
			struct task_struct *task)
{
	unsigned long marked = 0, when;

	/* In other VMAs, an entry without access rights looks like a mark. */
	if (!follow_walkable(vma) ||
	    walk_page_vma(vma, &count_ops, &marked) || !marked)
		return;
	seq_printf(m, " marked=%lu", marked);
	if (last_mark(task, &when))
		seq_printf(m, " marked_s=%lu", (jiffies - when) / HZ);
}
