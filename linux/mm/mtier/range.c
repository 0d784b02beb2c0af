// SPDX-License-Identifier: GPL-2.0
/*
 * Page promotion: pages that wait to be moved, by range of an address space.
 *
 * Who finds a page knows whose it is and where it is mapped, and so does who
 * moves it: what waits is a bit in the range of the address space that maps it,
 * 2 MiB as a page table does. It holds no reference to a page, and says nothing
 * of one: a page that is unmapped, freed, merged, or moved meanwhile is simply
 * not there when its turn comes, and whatever is there by then is asked as if it
 * had been found now. A second report of a page that waits changes nothing.
 *
 * Ranges are taken oldest first. When more pages wait than may, the oldest range
 * goes, being the one whose heat is the most likely to be gone. An exit takes what
 * waits of its address space along.
 *
 * A range that is taken stays in the tree, so that what is reported meanwhile is
 * not lost and nothing waits twice; when it is released the pages that were dealt
 * with are crossed out, and others go to the end of the line.
 *
 * Locking: mtier_ranges.lock, innermost.
 */
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "mtier.h"
#include "range.h"

/* Ranges looked at for one that goes the same way as another. */
#define MTIER_RANGES_AHEAD	64

static struct kmem_cache *mtier_range_cache;

static int mtier_range_cmp(const struct mtier_range_key *a,
			   const struct mtier_range_key *b)
{
	if (a->mm != b->mm)
		return a->mm < b->mm ? -1 : 1;
	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	if (a->target != b->target)
		return a->target - b->target;
	return a->strict - b->strict;
}

static int mtier_range_find_cmp(const void *key, const struct rb_node *node)
{
	return mtier_range_cmp(key, &rb_entry(node, struct mtier_range,
					      node)->key);
}

static bool mtier_range_less(struct rb_node *a, const struct rb_node *b)
{
	return mtier_range_cmp(&rb_entry(a, struct mtier_range, node)->key,
			       &rb_entry(b, struct mtier_range, node)->key) < 0;
}

/* Free ranges that are in no set; outside of its lock. */
static void mtier_range_free(struct list_head *gone)
{
	struct mtier_range *range, *next;

	list_for_each_entry_safe(range, next, gone, list) {
		mmdrop(range->key.mm);
		kmem_cache_free(mtier_range_cache, range);
	}
}

/* The range of a key; made if there is none. NULL without memory. */
static struct mtier_range *mtier_range_of(struct mtier_ranges *set,
					  const struct mtier_range_key *key)
{
	struct mtier_range *range;
	struct rb_node *node;

	lockdep_assert_held(&set->lock);
	node = rb_find(key, &set->tree, mtier_range_find_cmp);
	if (node)
		return rb_entry(node, struct mtier_range, node);
	range = kmem_cache_zalloc(mtier_range_cache,
				  GFP_NOWAIT | __GFP_NOMEMALLOC | __GFP_NOWARN);
	if (!range)
		return NULL;
	range->key = *key;
	mmgrab(key->mm);
	rb_add(&range->node, &set->tree, mtier_range_less);
	list_add_tail(&range->list, &set->fifo);
	WRITE_ONCE(set->nr, set->nr + 1);
	return range;
}

/* Take a range that nobody has taken out of its set. */
static unsigned int mtier_range_out(struct mtier_ranges *set,
				    struct mtier_range *range,
				    struct list_head *gone)
{
	lockdep_assert_held(&set->lock);
	rb_erase(&range->node, &set->tree);
	list_move_tail(&range->list, gone);
	WRITE_ONCE(set->nr, set->nr - 1);
	WRITE_ONCE(set->fill, set->fill - range->nr);
	return range->nr;
}

/**
 * mtier_ranges_start() - get ready for the first set
 *
 * Return: 0 or -ENOMEM.
 */
int mtier_ranges_start(void)
{
	if (!mtier_range_cache)
		mtier_range_cache = KMEM_CACHE(mtier_range, 0);
	return mtier_range_cache ? 0 : -ENOMEM;
}

/**
 * mtier_ranges_init() - make an empty set
 * @set: the set
 * @cap: most pages that may wait in it, not 0
 */
void mtier_ranges_init(struct mtier_ranges *set, unsigned int cap)
{
	spin_lock_init(&set->lock);
	set->tree = RB_ROOT;
	INIT_LIST_HEAD(&set->fifo);
	set->cap = cap;
	set->fill = 0;
	set->nr = 0;
}

/**
 * mtier_ranges_add() - have a page wait
 * @set: the set
 * @key: its range; the caller has a reference to the users of the mm
 * @page: its number in the range
 * @now: mtier_now_tick()
 * @dropped: set to the number of pages that made room, mostly 0; NULL: none shall,
 *	as what they leave cannot be freed under a lock
 *
 * Context: process context, not under the lock of a set; with @dropped under no
 * spinlock at all.
 * Return: how many pages wait now; 0 if this one did before; -ENOMEM; -ENOSPC
 * without @dropped if as many wait as may.
 */
int mtier_ranges_add(struct mtier_ranges *set,
		     const struct mtier_range_key *key, unsigned int page,
		     u32 now, unsigned int *dropped)
{
	struct mtier_range *range, *oldest;
	LIST_HEAD(gone);
	int fill = 0;

	if (dropped)
		*dropped = 0;
	spin_lock(&set->lock);
	if (!dropped && set->fill >= set->cap) {
		spin_unlock(&set->lock);
		return -ENOSPC;
	}
	range = mtier_range_of(set, key);
	if (!range) {
		spin_unlock(&set->lock);
		return -ENOMEM;
	}
	WRITE_ONCE(range->tick, now);
	if (!__test_and_set_bit(page, range->pages)) {
		range->nr++;
		WRITE_ONCE(set->fill, set->fill + 1);
		oldest = list_first_entry_or_null(&set->fifo,
						  struct mtier_range, list);
		if (dropped && set->fill > set->cap && oldest &&
		    oldest != range)
			*dropped = mtier_range_out(set, oldest, &gone);
		fill = set->fill;
	}
	spin_unlock(&set->lock);
	mtier_range_free(&gone);
	return fill;
}

static bool mtier_range_alike(const struct mtier_range_key *a,
			      const struct mtier_range_key *b)
{
	return a->target == b->target && a->strict == b->strict;
}

/**
 * mtier_ranges_take() - take the range that waits for longest
 * @set: the set
 * @like: take one that goes the same way, of those that are next; NULL: any
 * @pages: MTIER_RANGE_PAGES bits, set to the pages that wait
 *
 * Return: the range, for mtier_ranges_release(), or NULL.
 */
struct mtier_range *mtier_ranges_take(struct mtier_ranges *set,
				      const struct mtier_range_key *like,
				      unsigned long *pages)
{
	unsigned int left = MTIER_RANGES_AHEAD;
	struct mtier_range *range, *found = NULL;

	spin_lock(&set->lock);
	list_for_each_entry(range, &set->fifo, list) {
		if (!like || mtier_range_alike(&range->key, like)) {
			found = range;
			break;
		}
		if (!--left)
			break;
	}
	if (found) {
		list_del_init(&found->list);
		bitmap_copy(pages, found->pages, MTIER_RANGE_PAGES);
	}
	spin_unlock(&set->lock);
	return found;
}

/**
 * mtier_ranges_release() - give a range back
 * @set: the set
 * @range: from mtier_ranges_take(); not to be used any more
 * @done: pages that wait no longer, of those that it said
 *
 * Return: how many pages went because the address space did.
 */
unsigned int mtier_ranges_release(struct mtier_ranges *set,
				  struct mtier_range *range,
				  const unsigned long *done)
{
	unsigned int nr = bitmap_weight(done, MTIER_RANGE_PAGES), lost = 0;
	LIST_HEAD(gone);

	spin_lock(&set->lock);
	bitmap_andnot(range->pages, range->pages, done, MTIER_RANGE_PAGES);
	range->nr -= nr;
	if (range->dead) {
		lost = range->nr;
		nr += lost;
		list_add(&range->list, &gone);
	}
	WRITE_ONCE(set->fill, set->fill - nr);
	if (!range->dead && !range->nr)
		mtier_range_out(set, range, &gone);
	else if (!range->dead)
		list_add_tail(&range->list, &set->fifo);
	spin_unlock(&set->lock);
	mtier_range_free(&gone);
	return lost;
}

/**
 * mtier_ranges_shrink() - let the oldest go
 * @set: the set
 * @keep: most pages that stay, but for those of a range that is taken
 *
 * Return: how many pages went.
 */
unsigned int mtier_ranges_shrink(struct mtier_ranges *set, unsigned int keep)
{
	struct mtier_range *range, *next;
	unsigned int nr = 0;
	LIST_HEAD(gone);

	spin_lock(&set->lock);
	list_for_each_entry_safe(range, next, &set->fifo, list) {
		if (set->fill <= keep)
			break;
		nr += mtier_range_out(set, range, &gone);
	}
	spin_unlock(&set->lock);
	mtier_range_free(&gone);
	return nr;
}

/* The first range of an mm. */
static struct rb_node *mtier_range_first(struct mtier_ranges *set,
					 struct mm_struct *mm)
{
	struct rb_node *node = set->tree.rb_node, *first = NULL;

	while (node) {
		if (rb_entry(node, struct mtier_range, node)->key.mm < mm) {
			node = node->rb_right;
		} else {
			first = node;
			node = node->rb_left;
		}
	}
	return first;
}

/**
 * mtier_ranges_forget() - an address space goes, and with it what waits of it
 * @set: the set
 * @mm: the mm, of which no page is reported any more
 *
 * Return: how many pages went; those of a range that is taken are left to who
 * took it.
 */
unsigned int mtier_ranges_forget(struct mtier_ranges *set,
				 struct mm_struct *mm)
{
	struct rb_node *node, *next;
	struct mtier_range *range;
	unsigned int nr = 0;
	LIST_HEAD(gone);

	/* Who reported a page had the mm in use then: that is over, and seen. */
	if (!READ_ONCE(set->nr))
		return 0;
	spin_lock(&set->lock);
	for (node = mtier_range_first(set, mm); node; node = next) {
		next = rb_next(node);
		range = rb_entry(node, struct mtier_range, node);
		if (range->key.mm != mm)
			break;
		if (!list_empty(&range->list)) {
			nr += mtier_range_out(set, range, &gone);
			continue;
		}
		range->dead = true;
		rb_erase(&range->node, &set->tree);
		WRITE_ONCE(set->nr, set->nr - 1);
	}
	spin_unlock(&set->lock);
	mtier_range_free(&gone);
	return nr;
}

#ifdef CONFIG_MTIER_KUNIT_TEST
#include "tests/range_kunit.c"
#endif
