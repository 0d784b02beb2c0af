// SPDX-License-Identifier: GPL-2.0
/*
 * scantrace: what NUMA balancing scans and skips of a process with mappings of many kinds.
 *
 *   scantrace SEQUENCES
 *
 * Switches NUMA balancing on, touches memory until so many scans of the whole address space are over, and prints as
 * JSON, per scan in the mean, page table entries updated and hint faults, and per mapping and reason how often it was
 * skipped.  Needs CONFIG_SCHED_DEBUG and tracing; runs on the stock kernel as on any other.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "terrace_guest.h"

#define MB		(1ul << 20)
#define TRACING		"/sys/kernel/tracing/instances/scantrace"
#define BALANCING	"/sys/kernel/debug/sched/numa_balancing/"
#define EVENT		TRACING "/events/sched/sched_skip_vma_numa/enable"
#define MAPPINGS	5
#define REASONS		16

struct mapping {
	const char *name;
	char *start;
	size_t size;
	struct { char name[32]; long n; } skips[REASONS];
};

static struct mapping mappings[MAPPINGS] = {
	{ .name = "used", .size = 16 * MB },
	{ .name = "unused", .size = 4 * MB },
	{ .name = "inaccessible", .size = 4 * MB },
	{ .name = "shared", .size = 4 * MB },
	{ .name = "file", .size = 4096 },
};

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		tg_die(TG_EXIT_FAILED, "%s: %s", path, strerror(errno));
	close(fd);
}

/* The number behind a name and what parts them */
static long number(const char *path, const char *name)
{
	static char text[65536];
	char *at;

	if (tg_read_file(path, text, sizeof(text)) <= 0)
		tg_die(TG_EXIT_FAILED, "cannot read %s", path);
	at = strstr(text, name);
	if (!at)
		tg_die(TG_EXIT_FAILED, "%s has no %s", path, name);
	return strtol(at + strlen(name) + strspn(at + strlen(name), " :"), NULL, 10);
}

static long sequence(void)
{
	return number("/proc/self/sched", "mm->numa_scan_seq");
}

static void map_all(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	for (int i = 0; i < MAPPINGS; i++) {
		struct mapping *m = &mappings[i];
		int prot = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;

		if (!strcmp(m->name, "shared"))
			flags = MAP_SHARED | MAP_ANONYMOUS;
		if (!strcmp(m->name, "file")) {
			prot = PROT_READ;
			flags = MAP_PRIVATE;
		}
		/* A page without access before each keeps neighbours from merging. */
		m->start = mmap(NULL, m->size + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		m->start = mmap(m->start + 4096, m->size, prot, flags | MAP_FIXED,
				flags & MAP_ANONYMOUS ? -1 : fd, 0);
		if (m->start == MAP_FAILED)
			tg_die(TG_EXIT_FAILED, "mmap: %s", strerror(errno));
		if (prot & PROT_WRITE)
			memset(m->start, 1, m->size);
		if (!strcmp(m->name, "inaccessible"))
			mprotect(m->start, m->size, PROT_NONE);
	}
}

static void touch(const char *p, size_t size)
{
	for (size_t i = 0; i < size; i += 4096)
		(void)*(const volatile char *)(p + i);
}

static void touch_all(void)
{
	touch(mappings[0].start, mappings[0].size);
	touch(mappings[3].start, mappings[3].size);
}

/*
 * Until so many scans are over, and all that the last one marked had its fault: or else the count of
 * faults depends on where in the pass the scan came.  The next scan is much farther away than one pass.
 */
static void touch_until(long last)
{
	while (sequence() < last)
		touch_all();
	touch_all();
}

static void count_skip(const char *line)
{
	const char *start = strstr(line, "vm_start="), *reason = strstr(line, "reason=");
	unsigned long at;

	if (!start || !reason)
		return;
	at = strtoul(start + 9, NULL, 16);
	reason += 7;
	for (int i = 0; i < MAPPINGS; i++) {
		struct mapping *m = &mappings[i];
		size_t length = strcspn(reason, " \n");

		if (at != (unsigned long)m->start)
			continue;
		for (int j = 0; j < REASONS; j++) {
			if (!m->skips[j].name[0] && length < sizeof(m->skips[j].name))
				memcpy(m->skips[j].name, reason, length);
			if (strlen(m->skips[j].name) == length && !strncmp(m->skips[j].name, reason, length)) {
				m->skips[j].n++;
				return;
			}
		}
	}
}

static void count_skips(void)
{
	char line[512], mine[32];
	FILE *f = fopen(TRACING "/trace", "re");

	if (!f)
		tg_die(TG_EXIT_FAILED, "%s: %s", TRACING "/trace", strerror(errno));
	snprintf(mine, sizeof(mine), "-%d ", getpid());
	while (fgets(line, sizeof(line), f))
		if (strstr(line, mine))
			count_skip(line);
	fclose(f);
}

/* A second thread: local pages are worth a fault then. */
static void *idle(void *arg)
{
	for (;;)
		pause();
	return arg;
}

int main(int argc, char **argv)
{
	long first, last, updates, faults;
	pthread_t thread;

	if (argc != 2)
		tg_die(TG_EXIT_USAGE, "say how many scans");
	last = tg_number("scans", argv[1], 1, 1000);
	mkdir(TRACING, 0700);
	put(BALANCING "scan_delay_ms", "1");
	put(BALANCING "scan_period_min_ms", "100");
	put(BALANCING "scan_period_max_ms", "100");
	put(BALANCING "scan_size_mb", "64");
	map_all();
	if (pthread_create(&thread, NULL, idle, NULL))
		tg_die(TG_EXIT_FAILED, "no thread");
	put("/proc/sys/kernel/numa_balancing", "1");

	/* The first two scans look at everything. */
	touch_until(2);
	put(EVENT, "1");
	first = sequence();
	updates = number("/proc/vmstat", "numa_pte_updates");
	faults = number("/proc/vmstat", "numa_hint_faults");
	touch_until(first + last);
	put(EVENT, "0");
	updates = number("/proc/vmstat", "numa_pte_updates") - updates;
	faults = number("/proc/vmstat", "numa_hint_faults") - faults;
	last = sequence() - first;
	count_skips();

	printf("{\"updates\": %.1f, \"faults\": %.1f, \"skips\": {", (double)updates / last, (double)faults / last);
	for (int i = 0; i < MAPPINGS; i++) {
		printf("%s\"%s\": {", i ? ", " : "", mappings[i].name);
		for (int j = 0; j < REASONS && mappings[i].skips[j].name[0]; j++)
			printf("%s\"%s\": %.2f", j ? ", " : "", mappings[i].skips[j].name,
			       (double)mappings[i].skips[j].n / last);
		printf("}");
	}
	printf("}}\n");
	return 0;
}
