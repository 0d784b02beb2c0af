// SPDX-License-Identifier: GPL-2.0
/*
 * Observations from outside the workload: the nodes of a fixed, evenly spread set of pages, by a
 * move_pages() call that moves nothing, and how the kernel's own counters grow.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <sched.h>

#include "wl.h"

#define MAX_SAMPLES	20000u
#define MAX_SETS	2u
#define SCAN_WATCH_NS	1000000000ull

struct probe_set {
	unsigned int count, nr_samples;
	void *page[WL_MAX_PROBES];
	struct wl_sample sample[MAX_SAMPLES];
};

bool wl_node_is_fast[TG_MAX_NODES], wl_node_has_memory[TG_MAX_NODES], wl_knows_nodes;
static struct probe_set sets[MAX_SETS];
static int answer[WL_MAX_PROBES];

/* On a kernel without memory nodes everything is node 0, and fast. */
void wl_read_nodes(void)
{
	wl_knows_nodes = tg_read_nodes("/sys/devices/system/node/has_memory", wl_node_has_memory) &&
			 tg_read_nodes("/sys/devices/system/node/has_cpu", wl_node_is_fast);
	if (!wl_knows_nodes)
		wl_node_is_fast[0] = true;
}

/* One page at a seeded place in each of --probes equal stretches of pages (first + i) * stride. */
void wl_choose_probes(uint64_t first, uint64_t count, uint64_t stride, unsigned int set)
{
	struct probe_set *s = &sets[set];

	s->count = (unsigned int)(wl.probes < count ? wl.probes : count);
	for (unsigned int i = 0; i < s->count; i++) {
		uint64_t from = count * i / s->count, to = count * (i + 1) / s->count;
		uint64_t at = first + from + wl_mix(wl.seed + i) % (to - from);

		s->page[i] = (void *)wl_page(at * stride % wl_pages);
	}
}

void wl_take_sample(unsigned int set)
{
	struct probe_set *s = &sets[set];
	struct wl_sample *now = &s->sample[s->nr_samples];

	if (s->nr_samples == MAX_SAMPLES)
		return;
	now->ns = wl_now() - wl_start_ns;
	if (!tg_query_nodes(s->count, s->page, answer)) {
		for (unsigned int i = 0; i < s->count; i++) {
			now->known += answer[i] >= 0;
			now->fast += answer[i] >= 0 && wl_node_is_fast[answer[i]];
		}
	}
	s->nr_samples++;
}

const struct wl_sample *wl_samples(unsigned int set, unsigned int *count)
{
	*count = sets[set].nr_samples;
	return sets[set].sample;
}

void wl_print_samples(const char *name, unsigned int set)
{
	const struct probe_set *s = &sets[set];

	printf("  \"%s\": [", name);
	for (unsigned int i = 0; i < s->nr_samples; i++)
		printf("%s[%.3f, %u, %u]", i ? ", " : "", (double)s->sample[i].ns / 1e6, s->sample[i].fast,
		       s->sample[i].known);
	printf("],\n");
}

/* ---- the kernel's counters ---- */

static uint64_t count_shootdowns(void)
{
	static char text[262144];
	uint64_t sum = 0;
	char *line;

	if (tg_read_file("/proc/interrupts", text, sizeof(text)) <= 0)
		return 0;
	line = strstr(text, "TLB:");
	if (!line)
		return 0;
	line += 4;
	for (;;) {
		char *end;
		unsigned long long value = strtoull(line, &end, 10);

		if (end == line)
			return sum;
		sum += value;
		line = end;
	}
}

/* Terrace's kernel thread, and those that also move pages in the stock kernel. */
static bool is_mover(const char *name)
{
	static const char * const names[] = { "kmtierd", "kswapd", "kcompactd", "kdamond" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(name, names[i], strlen(names[i])))
			return true;
	return false;
}

static void read_kthreads(struct wl_counters *c)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;

	while (proc && c->nr_kthreads < WL_MAX_KTHREADS && (entry = readdir(proc))) {
		struct wl_kthread *k = &c->kthreads[c->nr_kthreads];
		char path[64], text[128];

		k->pid = atoi(entry->d_name);
		if (k->pid <= 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/comm", k->pid);
		if (tg_read_file(path, k->name, sizeof(k->name)) <= 0 || !is_mover(k->name))
			continue;
		k->name[strcspn(k->name, "\n")] = 0;
		snprintf(path, sizeof(path), "/proc/%d/schedstat", k->pid);
		if (tg_read_file(path, text, sizeof(text)) <= 0)
			continue;
		k->cpu_ns = strtoull(text, NULL, 10);
		c->nr_kthreads++;
	}
	if (proc)
		closedir(proc);
}

void wl_read_counters(struct wl_counters *c)
{
	if (tg_read_file("/proc/vmstat", c->vmstat, sizeof(c->vmstat)) <= 0)
		c->vmstat[0] = 0;
	c->shootdowns = count_shootdowns();
	read_kthreads(c);
}

static uint64_t lookup(const char *vmstat, const char *name, size_t length)
{
	for (const char *line = vmstat; line && *line; ) {
		if (!strncmp(line, name, length) && line[length] == ' ')
			return strtoull(line + length, NULL, 10);
		line = strchr(line, '\n');
		line += line != NULL;
	}
	return 0;
}

/* Growth of every counter that has to do with moving pages. */
void wl_print_vmstat(const struct wl_counters *before, const struct wl_counters *after)
{
	static const char * const wanted[] = { "pgpromote_", "pgdemote_", "pgmigrate_", "numa_hint",
					       "numa_pte_updates", "numa_pages_migrated", "mtier_",
					       "nr_tlb_", "tlb_defer_", "numa_follow_", "pgfault " };
	const char *comma = "";

	printf("  \"vmstat\": {");
	for (const char *line = after->vmstat; line && *line; ) {
		size_t length = strcspn(line, " ");

		for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
			if (strncmp(line, wanted[i], strlen(wanted[i])))
				continue;
			printf("%s\"%.*s\": %lld", comma, (int)length, line,
			       (long long)(strtoull(line + length, NULL, 10) -
					   lookup(before->vmstat, line, length)));
			comma = ", ";
		}
		line = strchr(line, '\n');
		line += line != NULL;
	}
	printf("},\n");
}

/*
 * The time of the first sample that finds pages scanned, by NUMA balancing or by Terrace.  Looked for in the
 * first second only: a read of /proc/vmstat with each sample of a long run would cost the workload time.
 */
static bool scan_began;
static double scan_began_ms;

void wl_watch_scan(void)
{
	static const char * const scanned[] = { "numa_pte_updates", "mtier_looks" };
	static char text[sizeof(wl_result.before.vmstat)];
	uint64_t now = wl_now() - wl_start_ns;

	if (scan_began || now > SCAN_WATCH_NS || tg_read_file("/proc/vmstat", text, sizeof(text)) <= 0)
		return;
	for (size_t i = 0; i < sizeof(scanned) / sizeof(scanned[0]); i++)
		if (lookup(text, scanned[i], strlen(scanned[i])) >
		    lookup(wl_result.before.vmstat, scanned[i], strlen(scanned[i])))
			scan_began = true;
	scan_began_ms = (double)now / 1e6;
}

void wl_print_scan(void)
{
	if (scan_began)
		printf("  \"scan_began_ms\": %.3f,\n", scan_began_ms);
	else
		printf("  \"scan_began_ms\": null,\n");
}

/* CPU time of @k, read in "after", since "before". */
uint64_t wl_kthread_ns(const struct wl_counters *before, const struct wl_kthread *k)
{
	for (unsigned int i = 0; i < before->nr_kthreads; i++)
		if (before->kthreads[i].pid == k->pid)
			return k->cpu_ns - before->kthreads[i].cpu_ns;
	return k->cpu_ns;
}

/* Samples are due on time however busy the CPUs are; where that is not allowed they may come late. */
void wl_go_first(void)
{
	struct sched_param param = { .sched_priority = 1 };

	sched_setscheduler(0, SCHED_FIFO, &param);
}
