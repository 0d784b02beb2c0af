// SPDX-License-Identifier: GPL-2.0
/*
 * Selftest helpers: files, knobs, counters, threads, nodes and CPUs, time.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mtier_util.h"

const struct mt_knob mt_knobs[] = {
	{ "scan/delay_ms", "100", 0, 3600000 },
	{ "scan/cpu_percent", "25", 1, 100 },
	{ "promote/rate_mbps", "1024", 1, 1048576 },
	{ "promote/target_node", "auto", 0, 0 },
	{ "promote/thp", "whole", 0, 0 },
	{ "promote/move_fast", "1", 0, 1 },
	{ "charge", "0", 0, 1 },
};

const size_t mt_nr_knobs = ARRAY_LEN(mt_knobs);

static char saved[ARRAY_LEN(mt_knobs)][32];
static char saved_enabled[8] = "0";

/* ---- time ---- */

long long mt_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

long long mt_now_ms(void)
{
	return mt_now_ns() / 1000000;
}

void mt_nap(unsigned int ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000L };

	nanosleep(&ts, NULL);
}

/* ---- files; a name without a leading slash is below MT_DIR ---- */

static void full_name(char *path, size_t size, const char *file)
{
	snprintf(path, size, "%s%s", *file == '/' ? "" : MT_DIR, file);
}

/* Returns 0 or the kernel's -errno. */
int mt_write(const char *file, const char *text)
{
	char path[256];
	ssize_t n;
	int fd, ret = 0;

	full_name(path, sizeof(path), file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = write(fd, text, strlen(text));
	if (n < 0)
		ret = -errno;
	close(fd);
	return ret;
}

int mt_writef(const char *file, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return mt_write(file, text);
}

/* Whole content without the newline at its end; bytes read or -errno. */
int mt_read(const char *file, char *buf, size_t size)
{
	size_t len = 0;
	char path[256];
	ssize_t n = 0;
	int fd;

	full_name(path, sizeof(path), file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (len < size - 1 && (n = read(fd, buf + len, size - 1 - len)) > 0)
		len += n;
	close(fd);
	if (n < 0)
		return -errno;
	buf[len] = 0;
	if (len && buf[len - 1] == '\n')
		buf[--len] = 0;
	return len;
}

long long mt_read_ll(const char *file)
{
	char buf[64];

	return mt_read(file, buf, sizeof(buf)) < 0 ? -1 : atoll(buf);
}

bool mt_reads(const char *file, const char *text)
{
	char buf[256];

	return mt_read(file, buf, sizeof(buf)) >= 0 && !strcmp(buf, text);
}

/* Check whether @word is the reason why no more pages go to the fastest target. */
bool mt_why(const char *word)
{
	size_t len = strlen(word);
	char buf[256];

	return mt_read("place/why", buf, sizeof(buf)) >= 0 && !strncmp(buf, word, len) &&
	       buf[len] == ' ';
}

/* ---- knobs ---- */

void mt_knobs_save(void)
{
	size_t i;

	for (i = 0; i < mt_nr_knobs; i++)
		mt_read(mt_knobs[i].file, saved[i], sizeof(saved[i]));
	mt_read("enabled", saved_enabled, sizeof(saved_enabled));
}

void mt_knobs_restore(void)
{
	size_t i;

	for (i = 0; i < mt_nr_knobs; i++)
		mt_write(mt_knobs[i].file, saved[i]);
	mt_write("enabled", saved_enabled);
}

void mt_knobs_default(void)
{
	size_t i;

	for (i = 0; i < mt_nr_knobs; i++)
		mt_write(mt_knobs[i].file, mt_knobs[i].initial);
	/* No knob, but a check that ended early may have left it. */
	mt_write("/sys/kernel/debug/mtier/observe", "0");
}

/* Set a knob; an error ends the check. */
void mt_set(const char *knob, long long value)
{
	int ret = mt_writef(knob, "%lld", value);

	if (ret) {
		mt_note("cannot write %lld to %s: %s", value, knob,
			strerror(-ret));
		exit(MT_FAIL);
	}
}

/* Find and move pages at full speed, for checks of other properties. */
void mt_fast(void)
{
	mt_set("scan/delay_ms", 0);
	mt_set("scan/cpu_percent", 90);
	mt_settle();
}

void mt_on(void)
{
	int ret = mt_write("enabled", "1");

	if (ret) {
		mt_note("cannot switch on: %s", strerror(-ret));
		exit(MT_FAIL);
	}
}

void mt_off(void)
{
	mt_write("enabled", "0");
}

/* ---- counters ---- */

/* Fold the per-CPU counters, then read. */
void mt_snap(struct mt_snap *snap)
{
	char buf[16];

	mt_read("/proc/sys/vm/stat_refresh", buf, sizeof(buf));
	mt_read("/proc/vmstat", snap->text, sizeof(snap->text));
}

static long long find_in(const char *text, const char *name)
{
	size_t len = strlen(name);
	const char *at = text;

	while ((at = strstr(at, name))) {
		if ((at == text || at[-1] == '\n') &&
		    (at[len] == ' ' || at[len] == '\t'))
			return atoll(at + len);
		at += len;
	}
	return -1;
}

/* -1 if there is no such counter */
long long mt_get(const struct mt_snap *snap, const char *name)
{
	return find_in(snap->text, name);
}

long long mt_count(const char *name)
{
	struct mt_snap *now = malloc(sizeof(*now));
	long long ret;

	mt_snap(now);
	ret = mt_get(now, name);
	free(now);
	return ret;
}

/* Get the growth of a counter of /proc/vmstat. */
long long mt_since(const struct mt_snap *snap, const char *name)
{
	return mt_count(name) - mt_get(snap, name);
}

/* "name value" in another file, as nodeN/vmstat or memory.stat */
long long mt_file_stat(const char *file, const char *name)
{
	struct mt_snap *now = malloc(sizeof(*now));
	long long ret = -1;

	if (mt_read(file, now->text, sizeof(now->text)) >= 0)
		ret = find_in(now->text, name);
	free(now);
	return ret;
}

static const char * const ends[] = {
	"mtier_promoted_folios", "mtier_drop_gone", "mtier_drop_pinned",
	"mtier_drop_dirty", "mtier_drop_type", "mtier_drop_policy",
	"mtier_fail_isolate", "mtier_fail_nomem", "mtier_fail_busy",
};

/* Get the folios selected for promotion that got a result since @snap. */
long long mt_ended_since(const struct mt_snap *snap)
{
	struct mt_snap *now = malloc(sizeof(*now));
	long long sum = 0;
	size_t i;

	mt_snap(now);
	for (i = 0; i < ARRAY_LEN(ends); i++)
		sum += mt_get(now, ends[i]) - mt_get(snap, ends[i]);
	free(now);
	return sum;
}

/* For a failed check: print every counter of the overlay that has changed. */
void mt_note_since(const struct mt_snap *snap)
{
	struct mt_snap *now = malloc(sizeof(*now));
	char *line, *rest = now->text;

	mt_snap(now);
	while ((line = strsep(&rest, "\n"))) {
		char name[64];
		long long val;

		if (sscanf(line, "%63s %lld", name, &val) != 2)
			continue;
		if (strncmp(name, "mtier_", 6) && strncmp(name, "pgpromote", 9) &&
		    strncmp(name, "pgdemote", 8) && strncmp(name, "pgmigrate", 9))
			continue;
		if (val != mt_get(snap, name))
			mt_note("  %s +%lld", name, val - mt_get(snap, name));
	}
	free(now);
}

/* Check for a kernel on which everything takes several times as long. */
bool mt_debug_kernel(void)
{
	return !access("/sys/kernel/debug/kmemleak", F_OK) ||
	       !access("/proc/lockdep", F_OK);
}

/* ---- kernel threads ---- */

static pid_t find_kthreads(const char *name, unsigned int *count)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	pid_t found = 0;

	while (dir && (entry = readdir(dir))) {
		char file[300], comm[64];

		if (atoi(entry->d_name) <= 0)
			continue;
		snprintf(file, sizeof(file), "/proc/%s/comm", entry->d_name);
		if (mt_read(file, comm, sizeof(comm)) < 0)
			continue;
		if (count && !strcmp(comm, "kmtierd"))
			(*count)++;
		if (name && !strcmp(comm, name))
			found = atoi(entry->d_name);
	}
	if (dir)
		closedir(dir);
	return found;
}

/* 0 if there is none */
pid_t mt_kthread(const char *name)
{
	return find_kthreads(name, NULL);
}

/* Get the number of kernel threads of the overlay. */
unsigned int mt_kthreads(void)
{
	unsigned int n = 0;

	find_kthreads(NULL, &n);
	return n;
}

/* CPU time of a task, us */
long long mt_cpu_us(pid_t pid)
{
	char file[64];
	long long ns;

	snprintf(file, sizeof(file), "/proc/%d/schedstat", pid);
	ns = mt_read_ll(file);
	return ns < 0 ? -1 : ns / 1000;
}

/* ---- nodes and CPUs ---- */

/*
 * Get the nodes of /sys/devices/system/node/@what ("has_memory", "has_cpu"); returns
 * their number.
 */
int mt_nodes(const char *what, int *nodes)
{
	char file[96], buf[256], *at = buf;
	int n = 0;

	snprintf(file, sizeof(file), "/sys/devices/system/node/%s", what);
	if (mt_read(file, buf, sizeof(buf)) <= 0)
		return 0;
	while (*at && n < MT_NODES) {
		long first = strtol(at, &at, 10), last = first;

		if (*at == '-')
			last = strtol(at + 1, &at, 10);
		for (; first <= last && n < MT_NODES; first++)
			nodes[n++] = first;
		if (*at == ',')
			at++;
	}
	return n;
}

static int node_with_cpus(bool with)
{
	int mem[MT_NODES], cpu[MT_NODES], i, j;
	int nr_mem = mt_nodes("has_memory", mem);
	int nr_cpu = mt_nodes("has_cpu", cpu);

	for (i = 0; i < nr_mem; i++) {
		bool has = false;

		for (j = 0; j < nr_cpu; j++)
			has |= mem[i] == cpu[j];
		if (has == with)
			return mem[i];
	}
	return -1;
}

/* The first node without CPUs. */
int mt_slow_node(void)
{
	return node_with_cpus(false);
}

/* The first node with CPUs. */
int mt_fast_node(void)
{
	return node_with_cpus(true);
}

int mt_node_of_cpu(int cpu)
{
	char path[96];
	int node;

	for (node = 0; node < MT_NODES; node++) {
		snprintf(path, sizeof(path),
			 "/sys/devices/system/cpu/cpu%d/node%d", cpu, node);
		if (!access(path, F_OK))
			return node;
	}
	return -1;
}

/* Free memory of a node, bytes */
long long mt_node_free(int node)
{
	char file[96];

	snprintf(file, sizeof(file), "/sys/devices/system/node/node%d/vmstat",
		 node);
	return mt_file_stat(file, "nr_free_pages") * (long long)MT_PAGE;
}

/* Get the largest reserve of a line "protection: (0, 0, 5)" of zoneinfo. */
static long kept_back(const char *line)
{
	const char *at = strchr(line, '(');
	long most = 0, pages;

	while (at && *at && *at != ')') {
		char *end;

		pages = strtol(at + 1, &end, 10);
		most = pages > most ? pages : most;
		at = end;
	}
	return most;
}

/*
 * Read the next line of zoneinfo about @node; @here: the last line was about it, false at
 * first
 */
static bool zone_line(FILE *f, int node, bool *here, char *line, int size)
{
	int nid;

	while (f && fgets(line, size, f)) {
		if (sscanf(line, "Node %d, zone", &nid) == 1)
			*here = nid == node;
		else if (*here)
			return true;
	}
	return false;
}

/* Get the free pages of a node for movable memory before reclaim is needed. */
long mt_node_room(int node)
{
	FILE *f = fopen("/proc/zoneinfo", "re");
	long free = 0, high = 0, room = 0;
	bool here = false;
	char line[256];

	while (zone_line(f, node, &here, line, sizeof(line))) {
		if (sscanf(line, " pages free %ld", &free) == 1 ||
		    sscanf(line, " high %ld", &high) == 1 ||
		    !strstr(line, "protection:"))
			continue;
		high += kept_back(line);
		room += free > high ? free - high : 0;
	}
	if (f)
		fclose(f);
	return room;
}

/*
 * Get the free pages of a node in the lists of CPUs, which no count of free pages
 * includes.
 */
long mt_node_listed(int node)
{
	FILE *f = fopen("/proc/zoneinfo", "re");
	long count, listed = 0;
	bool here = false;
	char line[256];

	while (zone_line(f, node, &here, line, sizeof(line)))
		if (sscanf(line, " count: %ld", &count) == 1)
			listed += count;
	if (f)
		fclose(f);
	return listed;
}

int mt_run_on_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -errno : 0;
}

/* Keep this thread on the CPUs of a node. */
int mt_run_on_node(int node)
{
	cpu_set_t set;
	int cpu;

	CPU_ZERO(&set);
	for (cpu = 0; cpu < 64; cpu++)
		if (mt_node_of_cpu(cpu) == node)
			CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -errno : 0;
}
