// SPDX-License-Identifier: GPL-2.0
/*
 * Migration on faults: a page that nobody maps is about to be mapped.
 *
 * It is in the swap cache or the page cache, wherever it was needed first.  If the
 * policy that holds where it is mapped wants it on another node, it is moved before:
 * no page table names it, no TLB has it, and the fault waits for the page anyway.
 * read() and write() never move anything.
 *
 * Files are used by many.  So that tasks of two nodes do not carry a page back and
 * forth, a file has a home: the node where a fault wanted its pages last.  It has
 * another one only when nobody at home has wanted them for HOME_QUIET_S.  Homes are
 * found in a table in which a file may take another one's place: then that one's
 * is forgotten, and it may move once more.  Anonymous memory has no need of it:
 * to be mapped by nobody again, it has to be swapped out first.
 *
 * Fault-around maps the neighbours of a page under RCU and the page table's lock,
 * where nothing can move.  It leaves out those that should and can: each has a fault of
 * its own then, and moves in it.  What cannot move now, as the node is full or the rate
 * is reached, is mapped with the rest.
 *
 * Locks: the caller has the VMA locked.  In it: the page table lock and RCU, for
 * fault-around only; then the lock of one home, or of one node's rate.  Neither of
 * them is held while a folio moves.
 */
#include <linux/auto_migrate.h>
#include <linux/cpuset.h>
#include <linux/dax.h>
#include <linux/fault_migrate.h>
#include <linux/file_policy.h>
#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/memory-tiers.h>
#include <linux/mempolicy.h>
#include <linux/mempolicy2.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/pagemap.h>
#include <linux/shmem_fs.h>
#include <linux/spinlock.h>
#include <linux/swap.h>
#include <linux/swapops.h>
#include <linux/sysctl.h>

#include "../internal.h"
#include "../lazy_migrate/count.h"
#include "../swap.h"
#include "decide.h"

#define CREATE_TRACE_POINTS
#include <trace/events/fault_migrate.h>

#define HOME_QUIET_S	60
#define HOME_BITS	9

#define MBPS_DEFAULT	256
#define MBPS_MAX	1048576

static unsigned int rate_mbps = MBPS_DEFAULT;

struct home_slot {
	spinlock_t lock;	/* of @home */
	struct fm_home home;
};

static struct home_slot homes[1 << HOME_BITS];

static DEFINE_SPINLOCK(rate_lock);
static struct fm_rate rates[MAX_NUMNODES];

/**
 * struct look - a folio that a fault is about to map
 * @vma: where
 * @addr: where
 * @folio: the folio; the caller has a reference
 * @page: what is known of it
 * @key: what it is a part of: a file, which has a home, or swap
 * @index: its place there
 * @here: node of the CPU that asks for it
 * @to: where it should be
 * @claim: what stands for that as a home
 */
struct look {
	struct vm_area_struct *vma;
	unsigned long addr;
	struct folio *folio;
	struct fm_page page;
	unsigned long key;
	unsigned long index;
	int here;
	int to;
	unsigned int claim;
};

/* ---- where it should be ---- */

/* As the policy of a task that has none: near the CPU that uses the page. */
static bool by_default(const struct mempolicy *pol)
{
	return pol->mode == MPOL_PREFERRED && pol->flags & MPOL_F_MORON;
}

static int nearest(int nid, nodemask_t *nodes)
{
	struct zoneref *z;

	z = first_zones_zonelist(node_zonelist(nid, GFP_HIGHUSER),
				 gfp_zone(GFP_HIGHUSER), nodes);
	return zonelist_zone(z) ? zonelist_node_idx(z) : NUMA_NO_NODE;
}

/* A page that the policy allows where it is stays there. */
static int node_by(struct mempolicy *pol, pgoff_t ilx, int here, int now)
{
	int nid = here;
	nodemask_t *nodes;

	nodes = policy_nodemask(GFP_HIGHUSER_MOVABLE, pol, ilx, &nid);
	if (nodes)
		return node_isset(now, *nodes) ? now : nearest(here, nodes);
	/* Slow memory is promoted by how hot it is, at a limited rate. */
	if (by_default(pol) && !node_is_toptier(now))
		return now;
	return nid;
}

/*
 * What the policy says of all pages, wherever this one is: one node, or a number that
 * stands for several, and the shares that they have.
 */
static unsigned int claim_of(const struct mempolicy *pol, int here)
{
	unsigned int nodes = 0;
	int n;

	if (by_default(pol) || pol->mode == MPOL_LOCAL)
		return here;
	if (nodes_weight(pol->nodes) == 1)
		return first_node(pol->nodes);
	for_each_node_mask(n, pol->nodes)
		nodes = nodes * 31 + n + 1;
	nodes = nodes * 31 + pol->mode;
	return MAX_NUMNODES + hash_32(nodes ^ mpol2_hash(pol), 30);
}

static void find_place(struct look *l)
{
	int now = folio_nid(l->folio);
	struct mempolicy *pol;
	pgoff_t ilx;

	/* Once: it may be another CPU's a moment later. */
	l->here = numa_node_id();
	pol = get_page_policy(l->vma, l->addr, folio_test_anon(l->folio),
			      folio_order(l->folio), &ilx);
	l->page.explicit = !by_default(pol);
	l->to = node_by(pol, ilx, l->here, now);
	l->claim = claim_of(pol, l->here);
	mpol_cond_put(pol);
	if (l->to == NUMA_NO_NODE || !node_state(l->to, N_MEMORY) ||
	    !node_isset(l->to, cpuset_current_mems_allowed))
		l->to = now;
	l->page.misplaced = l->to != now;
}

/* ---- whether it goes there ---- */

/* All that can be told without moving it; false if the level does not reach it. */
static bool look_at(struct look *l, unsigned int level)
{
	struct folio *folio = l->folio;

	if (!fm_reaches(level, l->page.kind, true) ||
	    folio_is_zone_device(folio) || !vma_migratable(l->vma))
		return false;
	find_place(l);
	if (!fm_reaches(level, l->page.kind, l->page.explicit))
		return false;
	l->page.mapped = folio_mapped(folio);
	l->page.dirty = folio_is_file_lru(folio) && folio_test_dirty(folio);
	l->page.held = folio_maybe_dma_pinned(folio) || !folio_test_lru(folio);
	return true;
}

static struct home_slot *slot_of(const struct look *l)
{
	return &homes[hash_long(l->key, HOME_BITS)];
}

/* Whether its pages may be wanted there; with @use they are. */
static bool at_home(const struct look *l, bool use)
{
	struct home_slot *slot = slot_of(l);
	unsigned long now = jiffies;
	bool may;

	if (l->page.kind == FM_SWAP)
		return true;
	spin_lock(&slot->lock);
	may = fm_may_claim(&slot->home, l->key, l->claim, now,
			   HOME_QUIET_S * HZ);
	if (may && use)
		fm_claim(&slot->home, l->key, l->claim, now);
	spin_unlock(&slot->lock);
	return may;
}

/* Pages that may come to a node within a second */
static unsigned long rate_limit(void)
{
	return READ_ONCE(rate_mbps) * (1UL << (20 - PAGE_SHIFT));
}

static bool rate_takes(const struct look *l, unsigned long nr_pages)
{
	bool takes;

	spin_lock(&rate_lock);
	takes = fm_rate_takes(&rates[l->to], jiffies, HZ, rate_limit(),
			      nr_pages);
	spin_unlock(&rate_lock);
	return takes;
}

static void rate_returns(const struct look *l, unsigned long nr_pages)
{
	spin_lock(&rate_lock);
	fm_rate_returns(&rates[l->to], jiffies, HZ, nr_pages);
	spin_unlock(&rate_lock);
}

/* As migrate_misplaced_folio_prepare() will ask: no zone would have to reclaim. */
static bool has_room(int nid, unsigned long nr_pages)
{
	struct pglist_data *pgdat = NODE_DATA(nid);
	int z;

	for (z = pgdat->nr_zones - 1; z >= 0; z--) {
		struct zone *zone = pgdat->node_zones + z;

		if (managed_zone(zone) &&
		    zone_watermark_ok(zone, 0, high_wmark_pages(zone) + nr_pages,
				      ZONE_MOVABLE, ALLOC_CMA))
			return true;
	}
	return false;
}

/* Could it come there now?  Others may be faster. */
static bool could_come(const struct look *l)
{
	unsigned long nr_pages = folio_nr_pages(l->folio);

	return fm_rate_has(&rates[l->to], jiffies, HZ, rate_limit(), nr_pages) &&
	       has_room(l->to, nr_pages);
}

/* FM_MOVE: it is isolated, and the caller's reference is gone. */
static enum fm_verdict take(struct look *l)
{
	struct folio *folio = l->folio;
	unsigned long nr_pages = folio_nr_pages(folio);
	enum fm_verdict verdict = fm_verdict(&l->page);
	bool home = l->page.mapped || at_home(l, true);

	if (verdict != FM_MOVE)
		return verdict;
	if (!home)
		return FM_SHARED;
	if (!rate_takes(l, nr_pages))
		return FM_RATE;
	if (!migrate_misplaced_folio_prepare(folio, l->vma, l->to)) {
		folio_put(folio);
		return FM_MOVE;
	}
	rate_returns(l, nr_pages);
	return folio_test_lru(folio) ? FM_NOMEM : FM_BUSY;
}

static void account(const struct look *l, enum fm_verdict verdict, int from,
		    unsigned long nr_pages)
{
	if (l->page.mapped)
		return;
	count_follow_events(NUMA_MISPLACED_CHECKED, nr_pages);
	if (verdict == FM_LEAVE)
		return;
	if (verdict == FM_MOVE || verdict == FM_NOMEM || verdict == FM_BUSY)
		count_follow_events(NUMA_MISPLACED_ATTEMPTED, nr_pages);
	if (verdict != FM_MOVE)
		count_follow_events(NUMA_MISPLACED_REFUSED_DIRTY + verdict,
				    nr_pages);
	else
		count_follow_events(NUMA_MISPLACED_MIGRATED, nr_pages);
	trace_fault_migrate(l->page.kind, l->key, l->index, from, l->to,
			    nr_pages, verdict);
}

/*
 * Move the folio if it should be elsewhere.  Returns true if the caller's reference
 * to it is gone, and it has to be looked up again.
 */
static bool look_and_move(struct look *l, unsigned int level)
{
	unsigned long nr_pages = folio_nr_pages(l->folio);
	int from = folio_nid(l->folio);
	enum fm_verdict verdict;
	bool gone;

	if (!look_at(l, level))
		return false;
	verdict = take(l);
	gone = verdict == FM_MOVE;
	if (gone && migrate_misplaced_folio(l->folio, l->vma, l->to)) {
		rate_returns(l, nr_pages);
		verdict = FM_BUSY;
	}
	account(l, verdict, from, nr_pages);
	return gone;
}

/* ---- calls ---- */

/* Is it that of a regular file, with pages of its own? */
static bool has_cache(struct address_space *mapping)
{
	return mapping->host && S_ISREG(mapping->host->i_mode) &&
	       !dax_mapping(mapping);
}

static enum fm_kind kind_of(struct address_space *mapping)
{
	return shmem_mapping(mapping) ? FM_SHMEM : FM_FILE;
}

static struct look look_in(struct vm_area_struct *vma, unsigned long addr,
			   struct address_space *mapping, struct folio *folio)
{
	return (struct look) {
		.vma = vma,
		.addr = addr,
		.folio = folio,
		.page.kind = kind_of(mapping),
		/* A new file at the address of an old one is another file. */
		.key = (unsigned long)mapping ^ mapping->host->i_ino,
		.index = folio->index,
	};
}

/**
 * __fault_migrate_level - Which pages of a file do faults of this task move?
 * @mapping: of the file
 *
 * Return: the level, 0 if it reaches none of them.
 */
unsigned int __fault_migrate_level(struct address_space *mapping)
{
	unsigned int level = auto_migrate_fault_level();

	if (!fm_reaches(level, kind_of(mapping), true) || !has_cache(mapping))
		return 0;
	return level;
}

/**
 * __fault_migrate_cached - A fault is about to map what may be in the page cache
 * @vmf: fault; no page table is locked
 *
 * What is written to a private mapping is copied: it does not matter where from.
 */
void __fault_migrate_cached(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct address_space *mapping;
	unsigned int level;
	struct folio *folio;
	struct look l;

	if (!vma->vm_file || is_vm_hugetlb_page(vma))
		return;
	if (vmf->flags & FAULT_FLAG_WRITE && !(vma->vm_flags & VM_SHARED))
		return;
	mapping = vma->vm_file->f_mapping;
	level = __fault_migrate_level(mapping);
	if (!level)
		return;
	folio = filemap_get_folio(mapping, vmf->pgoff);
	if (IS_ERR(folio))
		return;
	l = look_in(vma, vmf->address, mapping, folio);
	if (!folio_test_uptodate(folio) || !look_and_move(&l, level))
		folio_put(folio);
}

/**
 * fault_migrate_later - Has a page of the page cache to have its own fault?
 * @vma: VMA that it is about to be mapped in, locked
 * @addr: where
 * @folio: its folio, locked; the page table is, too
 * @level: fault_migrate_level(), not 0
 *
 * Return: true if it is misplaced and can be moved now.
 */
bool fault_migrate_later(struct vm_area_struct *vma, unsigned long addr,
			 struct folio *folio, unsigned int level)
{
	struct look l;

	if (folio_mapped(folio))
		return false;
	l = look_in(vma, addr, vma->vm_file->f_mapping, folio);
	return look_at(&l, level) && fm_verdict(&l.page) == FM_MOVE &&
	       at_home(&l, false) && could_come(&l);
}

/**
 * __fault_migrate_swap - A fault has found a folio in the swap cache
 * @vmf: fault; no page table is locked
 * @entry: what it has looked for
 * @folio: what it has found, with a reference
 *
 * The caller holds the swap device.
 *
 * Return: the folio to go on with, with a reference; NULL if there is none any more.
 */
struct folio *__fault_migrate_swap(struct vm_fault *vmf, swp_entry_t entry,
				   struct folio *folio)
{
	struct look l = {
		.vma = vmf->vma,
		.addr = vmf->address,
		.folio = folio,
		.page.kind = FM_SWAP,
		.key = swp_type(entry),
		.index = swp_offset(entry),
	};

	if (!folio_test_uptodate(folio) ||
	    !look_and_move(&l, auto_migrate_fault_level()))
		return folio;
	return swap_cache_get_folio(entry, vmf->vma, vmf->address);
}

static unsigned int mbps_max = MBPS_MAX;

static struct ctl_table fault_migrate_sysctls[] = {
	{
		.procname	= "migrate_on_fault_mbps",
		.data		= &rate_mbps,
		.maxlen		= sizeof(rate_mbps),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ONE,
		.extra2		= &mbps_max,
	},
};

static int __init fault_migrate_init(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(homes); i++)
		spin_lock_init(&homes[i].lock);
	register_sysctl_init("vm", fault_migrate_sysctls);
	return 0;
}
late_initcall(fault_migrate_init);
