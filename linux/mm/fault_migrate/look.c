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
 * Page faults ask once they have the page, locked: what is on the node of the CPU, and
 * has no policy, is in its place, and that is all they pay for.  What moves they look up
 * again.
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
	/* Once: it may be another CPU's a moment later. */
	int here = numa_node_id();
	struct mempolicy *pol;
	pgoff_t ilx;

	pol = get_page_policy(l->vma, l->addr, folio_test_anon(l->folio),
			      folio_order(l->folio), &ilx);
	l->page.explicit = !by_default(pol);
	l->to = node_by(pol, ilx, here, now);
	l->claim = claim_of(pol, here);
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
	l->page.held = folio_maybe_dma_pinned(folio) || !folio_test_lru(folio) ||
		       folio_contain_hwpoisoned_page(folio);
	return true;
}

static struct home_slot *slot_of(unsigned long key)
{
	return &homes[hash_long(key, HOME_BITS)];
}

/* Whether a file's pages may be wanted somewhere; with @use they are. */
static noinline bool claim_slowly(struct home_slot *slot, unsigned long key,
				  unsigned int claim, bool use)
{
	unsigned long now = jiffies;
	bool may;

	spin_lock(&slot->lock);
	may = fm_may_claim(&slot->home, key, claim, now, HOME_QUIET_S * HZ);
	if (may && use)
		fm_claim(&slot->home, key, claim, now);
	spin_unlock(&slot->lock);
	return may;
}

static __always_inline bool may_claim(unsigned long key, unsigned int claim,
				      bool use)
{
	struct home_slot *slot = slot_of(key);

	return fm_claimed(&slot->home, key, claim, jiffies, HZ) ||
	       claim_slowly(slot, key, claim, use);
}

static bool at_home(const struct look *l, bool use)
{
	return l->page.kind == FM_SWAP || may_claim(l->key, l->claim, use);
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

/* What take() would say now, if nobody else is faster: nothing is taken. */
static enum fm_verdict foresee(const struct look *l)
{
	unsigned long nr_pages = folio_nr_pages(l->folio);
	enum fm_verdict verdict = fm_verdict(&l->page);

	if (verdict != FM_MOVE)
		return verdict;
	if (!at_home(l, false))
		return FM_SHARED;
	if (!fm_rate_has(&rates[l->to], jiffies, HZ, rate_limit(), nr_pages))
		return FM_RATE;
	return has_room(l->to, nr_pages) ? FM_MOVE : FM_NOMEM;
}

/* FM_MOVE: it is isolated. */
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
	if (!migrate_misplaced_folio_prepare(folio, l->vma, l->to))
		return FM_MOVE;
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
 * to it is gone, with the lock if it was @locked, and it has to be looked up again.
 */
static bool look_and_move(struct look *l, unsigned int level, bool locked)
{
	unsigned long nr_pages = folio_nr_pages(l->folio);
	int from = folio_nid(l->folio);
	enum fm_verdict verdict;
	bool gone;

	if (!look_at(l, level))
		return false;
	verdict = take(l);
	gone = verdict == FM_MOVE;
	if (gone) {
		if (locked)
			folio_unlock(l->folio);
		folio_put(l->folio);
	}
	if (gone && migrate_misplaced_folio(l->folio, l->vma, l->to)) {
		rate_returns(l, nr_pages);
		verdict = FM_BUSY;
	}
	account(l, verdict, from, nr_pages);
	return gone;
}

/* ---- calls ---- */

/* A new file at the address of an old one is another file. */
static unsigned long key_of(const struct address_space *mapping)
{
	return (unsigned long)mapping ^ mapping->host->i_ino;
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
		.key = key_of(mapping),
		.index = folio->index,
	};
}

/* What is written to a private mapping is copied: it does not matter where from. */
static bool is_copied(const struct vm_fault *vmf)
{
	return vmf->flags & FAULT_FLAG_WRITE &&
	       !(vmf->vma->vm_flags & VM_SHARED);
}

/* Have parts of a file, or all of it, a policy that is its own? */
static __always_inline bool has_policies(struct address_space *mapping,
					 bool shmem)
{
	if (shmem)
		return READ_ONCE(SHMEM_I(mapping->host)->policy.root.rb_node);
	return file_policy_has(mapping);
}

/*
 * Where are pages of a file in their place, whatever else there is to say of them?
 * Without any policy that is the node of the CPU; NUMA_NO_NODE if each has to be
 * looked at; FAULT_MIGRATE_NONE if none is to move.
 *
 * Who has a level pays for this in every fault: see follow_cost among the selftests.
 */
static __always_inline int place_of_all(struct vm_fault *vmf,
					struct address_space *mapping,
					unsigned int level)
{
	bool shmem = shmem_mapping(mapping);
	int here;

	/* As fm_reaches() has it, explicit or not */
	if (!shmem && level < 2)
		return FAULT_MIGRATE_NONE;
	if (is_copied(vmf))
		return FAULT_MIGRATE_NONE;
	if (vmf->vma->vm_policy || current->mempolicy ||
	    has_policies(mapping, shmem))
		return NUMA_NO_NODE;
	if (!shmem && level < 3)
		return FAULT_MIGRATE_NONE;
	here = numa_node_id();
	/* Who uses what is in place is at home there, too. */
	may_claim(key_of(mapping), here, true);
	return here;
}

/* Is it that of a regular file, with pages of its own? */
static bool has_cache(struct address_space *mapping)
{
	return S_ISREG(mapping->host->i_mode) && !dax_mapping(mapping);
}

/* The page that a fault has got, locked; see fault_migrate_moved() */
static noinline bool move_found(struct vm_fault *vmf,
				struct address_space *mapping,
				unsigned int level)
{
	struct folio *folio = page_folio(vmf->page);
	struct look l;

	if (folio->mapping != mapping || folio_mapped(folio) ||
	    !has_cache(mapping))
		return false;
	l = look_in(vmf->vma, vmf->address, mapping, folio);
	if (!look_and_move(&l, level, true))
		return false;
	vmf->page = NULL;
	return true;
}

/**
 * __fault_migrate_moved - A fault has got a page from a file: was it moved?
 * @vmf: fault; no page table is locked
 * @ret: what the file's ->fault() has returned
 * @level: of the current task, not 0
 *
 * What does not come locked is not from the page cache.
 *
 * Return: true if the page was given back to be moved: ->fault() has to be called
 * again.
 */
bool __fault_migrate_moved(struct vm_fault *vmf, vm_fault_t ret,
			   unsigned int level)
{
	struct file *file = vmf->vma->vm_file;
	int place;

	if (ret & (VM_FAULT_ERROR | VM_FAULT_NOPAGE | VM_FAULT_RETRY |
		   VM_FAULT_DONE_COW) || !(ret & VM_FAULT_LOCKED) || !file)
		return false;
	place = place_of_all(vmf, file->f_mapping, level);
	if (place == FAULT_MIGRATE_NONE || place == page_to_nid(vmf->page))
		return false;
	return move_found(vmf, file->f_mapping, level);
}

/**
 * __fault_migrate_around - Which pages of a file may fault-around map?
 * @vmf: fault; no page table is locked
 * @level: of the current task, not 0
 *
 * Return: the node whose pages it may; of others fault_migrate_later() has to be
 * asked, one by one; FAULT_MIGRATE_NONE if it may map all of them.
 */
int __fault_migrate_around(struct vm_fault *vmf, unsigned int level)
{
	return place_of_all(vmf, vmf->vma->vm_file->f_mapping, level);
}

/**
 * fault_migrate_later - Has a page of the page cache to have its own fault?
 * @vma: VMA that it is about to be mapped in, locked
 * @addr: where
 * @folio: its folio, locked; the page table is, too
 *
 * Return: true if it is misplaced and can be moved now.
 */
bool fault_migrate_later(struct vm_area_struct *vma, unsigned long addr,
			 struct folio *folio)
{
	struct address_space *mapping = vma->vm_file->f_mapping;
	enum fm_verdict verdict;
	struct look l;

	if (folio_mapped(folio) || !has_cache(mapping))
		return false;
	l = look_in(vma, addr, mapping, folio);
	if (!look_at(&l, auto_migrate_fault_level()))
		return false;
	verdict = foresee(&l);
	/* What moves is counted when it does. */
	if (verdict == FM_MOVE)
		return true;
	account(&l, verdict, folio_nid(folio), folio_nr_pages(folio));
	return false;
}

/**
 * __fault_migrate_swap - A fault has found a folio in the swap cache
 * @vmf: fault; no page table is locked
 * @entry: what it has looked for
 * @folio: what it has found, with a reference
 * @level: of the current task, not 0
 *
 * The caller holds the swap device.
 *
 * Return: the folio to go on with, with a reference; NULL if there is none any more.
 */
struct folio *__fault_migrate_swap(struct vm_fault *vmf, swp_entry_t entry,
				   struct folio *folio, unsigned int level)
{
	struct look l = {
		.vma = vmf->vma,
		.addr = vmf->address,
		.folio = folio,
		.page.kind = FM_SWAP,
		.key = swp_type(entry),
		.index = swp_offset(entry),
	};

	if (!folio_test_uptodate(folio) || !look_and_move(&l, level, false))
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
