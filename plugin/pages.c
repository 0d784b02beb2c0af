// SPDX-License-Identifier: GPL-2.0
/* Misses by virtual page; pages.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "kinds.h"
#include "pages.h"

#define FIRST_SLOTS	(1u << 16)

struct slot {
	uint64_t page, count;	/* count 0: empty */
};

static struct table {
	struct slot *slot;
	uint64_t slots, used;
} tables[MAX_VCPUS];

static struct slot *find(const struct table *t, uint64_t page)
{
	uint64_t at = page * 0x9e3779b97f4a7c15u >> 24;

	while (t->slot[at & (t->slots - 1)].count && t->slot[at & (t->slots - 1)].page != page)
		at++;
	return &t->slot[at & (t->slots - 1)];
}

static bool grow(struct table *t)
{
	struct table more = { .slots = t->slots ? 2 * t->slots : FIRST_SLOTS, .used = t->used };

	more.slot = calloc(more.slots, sizeof(*more.slot));
	if (!more.slot)
		return false;
	for (uint64_t i = 0; i < t->slots; i++)
		if (t->slot[i].count)
			*find(&more, t->slot[i].page) = t->slot[i];
	free(t->slot);
	*t = more;
	return true;
}

static void add(struct table *t, uint64_t page, uint64_t count)
{
	struct slot *slot;

	if (2 * t->used >= t->slots && !grow(t))
		return;
	slot = find(t, page);
	t->used += !slot->count;
	slot->page = page;
	slot->count += count;
}

void pages_add(unsigned int vcpu, uint64_t page)
{
	add(&tables[vcpu], page, 1);
}

static int by_page(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;

	return x->page < y->page ? -1 : x->page > y->page;
}

int pages_write(const char *path, unsigned int nr_vcpus)
{
	FILE *out = fopen(path, "w");
	struct table all = { 0 };
	uint64_t kept = 0;

	if (!out)
		return -errno;
	for (unsigned int i = 0; i < nr_vcpus; i++)
		for (uint64_t j = 0; j < tables[i].slots; j++)
			if (tables[i].slot[j].count)
				add(&all, tables[i].slot[j].page, tables[i].slot[j].count);
	for (uint64_t i = 0; i < all.slots; i++)
		if (all.slot[i].count)
			all.slot[kept++] = all.slot[i];
	if (kept)
		qsort(all.slot, kept, sizeof(*all.slot), by_page);
	for (uint64_t i = 0; i < kept; i++)
		fprintf(out, "%" PRIx64 " %" PRIu64 "\n", all.slot[i].page, all.slot[i].count);
	free(all.slot);
	return fclose(out) ? -errno : 0;
}
