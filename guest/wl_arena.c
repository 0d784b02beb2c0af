// SPDX-License-Identifier: GPL-2.0
/*
 * The arena: all data of a workload in one mapping at a fixed address, so that page N of one run is
 * page N of the next.
 *
 * Pages are touched one after the other while the task is bound as --place says, or to --start-node, or not at all;
 * after that the task's policy is the default again.
 *
 * Some workloads use the arena as an array of pages, each with a tag in its first word and one
 * counter for each thread from word WL_FIRST_COUNTER on.  A thread that writes adds one to its own
 * counter and counts that for itself too.  A lost write leaves a sum too small; a page with another
 * page's content has the wrong tag.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "wl.h"

#define BATCH	4096u

char *wl_arena;
uint64_t wl_pages;
bool wl_arena_untouched;
static uint64_t taken;

/* The nodes that have memory, for an error. */
static const char *memory_nodes(void)
{
	static char text[256];
	size_t used = 0;

	for (int node = 0; node < TG_MAX_NODES && used + 8 < sizeof(text); node++)
		if (wl_node_has_memory[node])
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%d", used ? ", " : "", node);
	return text;
}

static void require_node(const char *what, int node)
{
	if (!wl_knows_nodes)
		tg_die(TG_EXIT_USAGE, "%s: node %d: this kernel knows no memory nodes; leave the option out", what,
		       node);
	if (!wl_node_has_memory[node])
		tg_die(TG_EXIT_USAGE, "%s: node %d has no memory; nodes that have: %s", what, node, memory_nodes());
}

/* The node of every page: as --place has it in lines "PAGE COUNT NODE", else that of --start-node. */
static int16_t *read_place(void)
{
	FILE *file = fopen(wl.place, "re");
	char line[128], rest;
	unsigned long long first, count;
	unsigned int number = 0;
	int16_t *home;
	int node;

	if (!file)
		tg_die(TG_EXIT_USAGE, "--place: %s: %s", wl.place, strerror(errno));
	home = malloc(wl_pages * sizeof(*home));
	if (!home)
		tg_die(TG_EXIT_FAILED, "--place: no memory for %llu pages", (unsigned long long)wl_pages);
	for (uint64_t page = 0; page < wl_pages; page++)
		home[page] = (int16_t)wl.start_node;
	while (fgets(line, sizeof(line), file)) {
		number++;
		if (line[strspn(line, " \t\n")] == 0 || line[0] == '#')
			continue;
		if (sscanf(line, "%llu %llu %d %c", &first, &count, &node, &rest) != 3)
			tg_die(TG_EXIT_USAGE, "--place: %s:%u: not 'PAGE COUNT NODE'", wl.place, number);
		if (first >= wl_pages || !count || count > wl_pages - first)
			tg_die(TG_EXIT_USAGE, "--place: %s:%u: pages %llu+%llu are not within the arena's %llu",
			       wl.place, number, first, count, (unsigned long long)wl_pages);
		if (node < 0 || node >= TG_MAX_NODES)
			tg_die(TG_EXIT_USAGE, "--place: %s:%u: node %d is not from 0 to %d", wl.place, number, node,
			       TG_MAX_NODES - 1);
		require_node("--place", node);
		for (unsigned long long page = first; page < first + count; page++)
			home[page] = (int16_t)node;
	}
	fclose(file);
	return home;
}

static void bind_task(int node)
{
	int err = tg_bind_task_memory(node);

	if (err)
		tg_die(TG_EXIT_FAILED, "binding to node %d: %s", node, strerror(-err));
}

/* Touch the pages whose home @node is, all of them without @home. -1: wherever the kernel puts them. */
static void touch(const int16_t *home, int node)
{
	if (node >= 0)
		bind_task(node);
	for (uint64_t page = 0; page < wl_pages; page++)
		if (!home || home[page] == node)
			*wl_page(page) = 0;
	if (node >= 0)
		bind_task(-1);
}

/*
 * A page goes by the task's policy while it is touched and has none of its own: each run of pages would then be a
 * mapping of its own.  Those of a scattered hot set are more than vm.max_map_count allows, and what they take of the
 * kernel's memory is taken from the very node that has little left.
 */
static void touch_all(void)
{
	int16_t *home = wl.place ? read_place() : NULL;

	if (!home) {
		touch(NULL, wl.start_node);
		return;
	}
	for (int node = 0; node < TG_MAX_NODES; node++)
		if (wl_node_has_memory[node])
			touch(home, node);
	/* Last, so that nobody who has a home finds it full of them. */
	touch(home, -1);
	free(home);
}

/* mbind2() and its struct, of <linux/mempolicy2.h> */
#define NR_MBIND2		962
#define WEIGHTED_INTERLEAVE	6

struct policy {
	uint16_t mode, mode_flags;
	int32_t home_node;
	uint16_t max_nodes;
	uint8_t reserved[6];
	uint64_t nodes, weights;
};

/* "9,1" is 9 pages to node 0 for each one to node 1; 0 leaves a node out. */
static void weigh_range(void)
{
	uint64_t mask[TG_MAX_NODES / 64] = { 0 };
	uint8_t weights[TG_MAX_NODES] = { 0 };
	struct policy policy = {
		.mode = WEIGHTED_INTERLEAVE, .max_nodes = TG_MAX_NODES,
		.nodes = (uintptr_t)mask, .weights = (uintptr_t)weights,
	};
	const char *next = wl.weights;
	char *end;

	for (unsigned int node = 0; ; node++, next = end + 1) {
		unsigned long weight = strtoul(next, &end, 10);

		if (end == next || weight > 255 || node >= TG_MAX_NODES || (*end && *end != ','))
			tg_die(TG_EXIT_USAGE, "--weights: '%s' is not a list of 0 to 255 such as 9,1", wl.weights);
		if (weight)
			require_node("--weights", (int)node);
		weights[node] = (uint8_t)weight;
		mask[node / 64] |= (uint64_t)!!weight << (node % 64);
		if (!*end)
			break;
	}
	if (syscall(NR_MBIND2, wl_arena, wl.size, &policy, sizeof(policy), 0))
		tg_die(TG_EXIT_FAILED, "--weights %s: mbind2: %s", wl.weights, strerror(errno));
}

void wl_arena_make(int fd)
{
	int flags = MAP_FIXED_NOREPLACE | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);

	wl_pages = wl.size / WL_PAGE;
	if (wl.start_node >= 0)
		require_node("--start-node", wl.start_node);
	wl_arena = mmap((void *)WL_ADDRESS, wl.size, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (wl_arena == MAP_FAILED)
		tg_die(TG_EXIT_FAILED, "mapping %llu bytes: %s", (unsigned long long)wl.size, strerror(errno));
	madvise(wl_arena, wl.size, wl.thp ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	if (wl.weights)
		weigh_range();
	if (!wl_arena_untouched)
		touch_all();
}

uint64_t wl_left(void)
{
	return wl.size - taken;
}

void *wl_take(uint64_t bytes, const char *what)
{
	char *start = wl_arena + taken;

	bytes = (bytes + 63) & ~63ull;
	if (bytes > wl_left())
		tg_die(TG_EXIT_USAGE, "--size: %llu bytes are too few: %s needs %llu more than are left",
		       (unsigned long long)wl.size, what, (unsigned long long)(bytes - wl_left()));
	taken += bytes;
	return start;
}

uint64_t wl_sum(const void *start, uint64_t bytes)
{
	const uint64_t *word = start;
	uint64_t sum = 0;

	for (uint64_t i = 0; i < bytes / 8; i++)
		sum = (sum << 1 | sum >> 63) + word[i];
	return sum;
}

/* ---- where pages lie ---- */

/* Pages (first + i) * stride modulo the arena's; exact, and as long as it takes. */
struct wl_placement wl_look(uint64_t first, uint64_t count, uint64_t stride)
{
	static void *page[BATCH];
	static int node[BATCH];
	struct wl_placement place = { .pages = count };

	for (uint64_t done = 0; done < count; done += BATCH) {
		uint64_t part = count - done < BATCH ? count - done : BATCH;

		for (uint64_t i = 0; i < part; i++)
			page[i] = (void *)wl_page((first + done + i) * stride % wl_pages);
		if (tg_query_nodes(part, page, node)) {
			place.absent += part;
			continue;
		}
		for (uint64_t i = 0; i < part; i++) {
			if (node[i] >= 0 && node[i] < TG_MAX_NODES)
				place.by_node[node[i]]++;
			else
				place.absent++;
		}
	}
	return place;
}

void wl_print_placement(const char *name, const struct wl_placement *p)
{
	const char *comma = "";

	printf("  \"%s\": {\"pages\": %llu, \"absent\": %llu, \"by_node\": {", name, (unsigned long long)p->pages,
	       (unsigned long long)p->absent);
	for (int node = 0; node < TG_MAX_NODES; node++) {
		if (!p->by_node[node])
			continue;
		printf("%s\"%d\": %llu", comma, node, (unsigned long long)p->by_node[node]);
		comma = ", ";
	}
	printf("}},\n");
}

/* ---- tagged pages ---- */

void wl_pages_fill(void)
{
	for (uint64_t page = 0; page < wl_pages; page++)
		wl_page(page)[0] = wl_tag(page);
}

/* Does every page hold what was written to it, and nothing else? */
void wl_pages_verify(void)
{
	uint64_t seen[WL_MAX_THREADS] = { 0 };

	for (uint64_t page = 0; page < wl_pages; page++) {
		volatile uint64_t *word = wl_page(page);

		if (word[0] != wl_tag(page))
			wl_wrong("page %llu has tag %#llx instead of %#llx", (unsigned long long)page,
				 (unsigned long long)word[0], (unsigned long long)wl_tag(page));
		for (unsigned int t = 0; t < wl.threads; t++)
			seen[t] += word[WL_FIRST_COUNTER + t];
	}
	for (unsigned int t = 0; t < wl.threads; t++) {
		if (wl_workers[t].wrong)
			wl_wrong("thread %u met %llu wrong tags", t, (unsigned long long)wl_workers[t].wrong);
		if (seen[t] != wl_workers[t].writes)
			wl_wrong("thread %u wrote %llu times and the pages have %llu of it", t,
				 (unsigned long long)wl_workers[t].writes, (unsigned long long)seen[t]);
	}
}

void wl_pages_sabotage(const char *kind)
{
	volatile uint64_t *page = wl_page(wl_below(wl_hash(99, 0), wl_pages)), *other = wl_page(0);

	if (!strcmp(kind, "flip")) {
		page[0] ^= 0x100;
	} else if (!strcmp(kind, "lose")) {
		for (uint64_t i = 0; i < wl_pages; i++) {
			if (!wl_page(i)[WL_FIRST_COUNTER])
				continue;
			wl_page(i)[WL_FIRST_COUNTER]--;
			return;
		}
	} else if (!strcmp(kind, "swap")) {
		for (unsigned int i = 0; i < WL_PAGE / 8; i++) {
			uint64_t word = page[i];

			page[i] = other[i];
			other[i] = word;
		}
	} else {
		tg_die(TG_EXIT_USAGE, "--sabotage: '%s' is not " WL_PAGES_SABOTAGE, kind);
	}
}
