// SPDX-License-Identifier: GPL-2.0
/*
 * The state of the machine when no test program runs: whatever a program made is gone by then, so what is not as it was
 * before the program is a leak, a wrong count, or a setting that was not put back.
 *
 * A state is a list of names with a value each, as text. It is taken once all that frees memory later has done so: RCU,
 * per-CPU lists of pages and of slabs, counters of each CPU, address spaces that idle CPUs still hold, page cache. What is
 * not through after one round gets others, for the kernel's own threads have their own pace; a difference is what stays.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "state.h"

#define ROUNDS 20		/* as often is looked again at least, ... */
#define SETTLE_S 30		/* ... and for so long, ... */
#define NAP_NS 50000000L	/* ... each time so much later */
#define FREE_SLACK_KB 2048	/* what page tables, stacks and caches of the kernel may keep of memory, ... */
#define NOTES_SLACK_KB 32768	/* ... and a kernel that notes who allocated what */
#define KMEMLEAK "/sys/kernel/debug/kmemleak"
#define KMALLOC_SLACK 200LL	/* objects of one size: programs leave up to 57, which slabs need to know whom to charge */
#define P9_SLACK 400LL	/* of the size of what the guest has open of the host: up to 110 */
#define TEXT_SIZE 65536
#define CGROUPS "/sys/fs/cgroup/"
#define OWN_CGROUP CGROUPS "terrace-drain"

#define EXACT (-1LL)

static const struct timespec nap = { .tv_nsec = NAP_NS };

struct item {
	char *name;
	char *value;
	long long slack;	/* so much more than before is nothing, nor is less; EXACT: any difference is one */
};

struct state {
	struct item *items;
	size_t n, room;
	long long free_kb;
	bool notes;		/* kmemleak is there: it finds what leaks, and takes memory */
	long long blocks;	/* of memory; one that was added has its struct pages for good */
};

/* Each object of these is somebody's: an address space, a task, a policy, a page table's owner. */
enum whose { FOR_ITSELF, A_THREAD, A_PROCESS };

static const struct cache {
	const char *name;
	enum whose whose;	/* threads of the kernel come and go: what each has is not counted */
} caches[] = {
	{ "task_struct", A_THREAD }, { "pid", A_THREAD }, { "signal_cache", A_PROCESS }, { "sighand_cache", A_PROCESS },
	{ "files_cache", FOR_ITSELF }, { "fs_cache", FOR_ITSELF }, { "mm_struct", FOR_ITSELF },
	{ "vm_area_struct", FOR_ITSELF }, { "anon_vma", FOR_ITSELF }, { "numa_policy", FOR_ITSELF },
	{ "shared_policy_node", FOR_ITSELF }, { "mempolicy2", FOR_ITSELF }, { "mempolicy2_task", FOR_ITSELF },
	{ "mtier_slot", FOR_ITSELF },
};

static const char *const vm_counters[] = { "nr_isolated_anon", "nr_isolated_file", "nr_mlock", "nr_writeback", "nr_shmem" };

static const char *const huge_counters[] = { "HugePages_Total", "HugePages_Free", "HugePages_Rsvd", "HugePages_Surp" };

/* ---- files ---- */

static char text[TEXT_SIZE];
/* Taken right behind the draining: a page that is used for the first time later is in a list of its CPU, not on the LRU. */
static char vmstat[TEXT_SIZE];

/* What a file holds, without the last line's end, in a `into` of TEXT_SIZE bytes; NULL when it cannot be read. */
static char *slurp_into(char *into, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t len = 0;
	ssize_t n = -1;

	if (fd < 0)
		return NULL;
	while (len < TEXT_SIZE - 1 && (n = read(fd, into + len, TEXT_SIZE - 1 - len)) > 0)
		len += n;
	close(fd);
	if (n < 0 && !len)
		return NULL;
	if (len && into[len - 1] == '\n')
		len--;
	into[len] = '\0';
	return into;
}

/* The same in a buffer that the next one overwrites. */
static char *slurp(const char *path)
{
	return slurp_into(text, path);
}

static void put(const char *path, const char *words)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, words, strlen(words)) < 0)
		fprintf(stderr, "batch: %s: %s\n", path, strerror(errno));
	close(fd);
}

/* The number behind `name` at the beginning of a line of what slurp() gave; -1 when there is none. */
static long long number(const char *file, const char *name)
{
	size_t len = strlen(name);

	for (const char *line = file; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
		if (!strncmp(line, name, len) && (line[len] == ' ' || line[len] == ':'))
			return atoll(line + len + 1);
	return -1;
}

static long long vm(const char *name)
{
	return number(vmstat, name);
}

static long long sum(const char *const *names, size_t n)
{
	long long all = 0;

	for (size_t i = 0; i < n; i++)
		all += vm(names[i]);
	return all;
}

#define SUM(...) \
	sum((const char *const[]){ __VA_ARGS__ }, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

/* ---- a state ---- */

static void *must(void *memory)
{
	if (!memory) {
		fprintf(stderr, "batch: no memory\n");
		exit(2);
	}
	return memory;
}

static void make_room(struct state *state)
{
	if (state->n == state->room) {
		state->room = state->room ? 2 * state->room : 256;
		state->items = must(realloc(state->items, state->room * sizeof(*state->items)));
	}
}

__attribute__((format(printf, 3, 4))) static void add(struct state *state, const char *name, const char *fmt, ...)
{
	struct item *item;
	va_list ap;

	make_room(state);
	item = &state->items[state->n++];
	item->name = must(strdup(name));
	item->slack = EXACT;
	va_start(ap, fmt);
	if (vasprintf(&item->value, fmt, ap) < 0)
		must(NULL);
	va_end(ap);
}

static void add_about(struct state *state, const char *name, long long value, long long slack)
{
	add(state, name, "%lld", value);
	state->items[state->n - 1].slack = slack;
}

void state_free(struct state *state)
{
	for (size_t i = 0; state && i < state->n; i++) {
		free(state->items[i].name);
		free(state->items[i].value);
	}
	if (state)
		free(state->items);
	free(state);
}

static const char *value_of(const struct state *state, const char *name)
{
	for (size_t i = 0; i < state->n; i++)
		if (!strcmp(state->items[i].name, name))
			return state->items[i].value;
	return "-";
}

/* ---- what it is made of ---- */

/* Entries of a folder whose names end with a digit: of /proc the processes, of a process its threads, blocks of memory */
static long long count_ids(const char *path)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	long long n = 0;

	while (folder && (entry = readdir(folder)))
		n += !!isdigit(entry->d_name[strlen(entry->d_name) - 1]);
	if (folder)
		closedir(folder);
	return n;
}

static long long count_threads(void)
{
	DIR *folder = opendir("/proc");
	struct dirent *entry;
	long long n = 0;
	char path[300];

	while (folder && (entry = readdir(folder))) {
		if (!isdigit(entry->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/task", entry->d_name);
		n += count_ids(path);
	}
	if (folder)
		closedir(folder);
	return n;
}

/*
 * How many objects of a cache are allocated; -1 when there is no such cache. What a CPU has of a slab that it allocates
 * from counts as allocated, so it gives that back in between, and nothing is opened then.
 */
static long long count_objects(const char *cache)
{
	char path[300], number[64] = "";
	int fd;

	snprintf(path, sizeof(path), "/sys/kernel/slab/%s/objects", cache);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	snprintf(path, sizeof(path), "/sys/kernel/slab/%s/shrink", cache);
	put(path, "1");
	if (read(fd, number, sizeof(number) - 1) < 0)
		number[0] = '\0';
	close(fd);
	return atoll(number);
}

static void add_slabs(struct state *state)
{
	long long there[] = { [FOR_ITSELF] = 0, [A_THREAD] = count_threads(), [A_PROCESS] = count_ids("/proc") };
	static const char *const less[] = { "", " less threads", " less processes" };
	char name[96];

	for (size_t i = 0; i < sizeof(caches) / sizeof(caches[0]); i++) {
		long long objects = count_objects(caches[i].name);
		enum whose whose = caches[i].whose;

		snprintf(name, sizeof(name), "objects of %s%s", caches[i].name, less[whose]);
		/* Some are made with their first object. */
		add(state, name, "%lld", (objects < 0 ? 0 : objects) - there[whose]);
	}
}

/* What has no cache of its own: the kernel's own come and go, a few. */
static void add_kmallocs(struct state *state)
{
	DIR *folder = opendir("/sys/kernel/slab");
	struct dirent *entry;
	char name[300];

	while (folder && (entry = readdir(folder))) {
		if (strncmp(entry->d_name, "kmalloc-", 8))
			continue;
		snprintf(name, sizeof(name), "objects of %s", entry->d_name);
		add_about(state, name, count_objects(entry->d_name),
			  strcmp(entry->d_name, "kmalloc-96") ? KMALLOC_SLACK : P9_SLACK);
	}
	if (folder)
		closedir(folder);
}

/* Folios on the LRU less those that somebody maps or that a file has: each other has a reference too many. */
static long long ownerless(void)
{
	return SUM("nr_inactive_anon", "nr_active_anon", "nr_inactive_file", "nr_active_file", "nr_unevictable") -
	       SUM("nr_anon_pages", "nr_file_pages");
}

static void add_pages(struct state *state)
{
	for (size_t i = 0; i < sizeof(vm_counters) / sizeof(vm_counters[0]); i++)
		add(state, vm_counters[i], "%lld", vm(vm_counters[i]));
	add(state, "pages on the LRU that nobody maps and no file has", "%lld", ownerless());
	if (!slurp("/proc/meminfo"))
		return;
	for (size_t i = 0; i < sizeof(huge_counters) / sizeof(huge_counters[0]); i++)
		add(state, huge_counters[i], "%lld", number(text, huge_counters[i]));
}

/* Free pages, those in the lists of CPUs, too. */
static long long free_kb(void)
{
	FILE *file = fopen("/proc/zoneinfo", "re");
	long long pages = 0, n;
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, " nr_free_pages %lld", &n) == 1 || sscanf(line, " count: %lld", &n) == 1)
			pages += n;
	if (file)
		fclose(file);
	return pages * (sysconf(_SC_PAGESIZE) >> 10);
}

/* An isolated CPU keeps the cgroup that it charged last until it charges another, also that of forget_cgroups(). */
static bool has_isolated_cpus(void)
{
	return slurp("/sys/devices/system/cpu/isolated") && text[0];
}

static void add_cgroups(struct state *state)
{
	bool isolated = has_isolated_cpus();

	if (!slurp(CGROUPS "cgroup.stat"))
		return;
	add(state, "cgroups", "%lld", number(text, "nr_descendants"));
	if (!isolated)
		add(state, "dying cgroups", "%lld", number(text, "nr_dying_descendants"));
}

/* ---- what the documentation promises (docs/reference/counters.md) ---- */

static void add_promises(struct state *state)
{
	if (vm("mtier_taken") >= 0)
		add(state, "mtier_taken less what ended", "%lld",
		    vm("mtier_taken") -
		    SUM("mtier_promoted_folios", "mtier_drop_gone", "mtier_drop_pinned", "mtier_drop_dirty", "mtier_drop_type",
			"mtier_drop_policy", "mtier_fail_isolate", "mtier_fail_nomem", "mtier_fail_busy"));
	if (vm("remote_charge_posted_ns") >= 0)
		add(state, "remote_charge_posted_ns less folded and dropped", "%lld",
		    vm("remote_charge_posted_ns") - SUM("remote_charge_folded_ns", "remote_charge_dropped_ns"));
}

/* What both /proc/vmstat and memory.stat of all cgroups count about pages that move: they agree. */
static void add_charges(struct state *state)
{
	static const char *const prefixes[] = { "numa_", "mtier_", "pgpromote_", "pgdemote_" };
	char *rest = slurp("/sys/fs/cgroup/memory.stat"), *line, name[96], label[128];
	long long value;

	while ((line = strsep(&rest, "\n"))) {
		if (sscanf(line, "%95s %lld", name, &value) != 2 || vm(name) < 0)
			continue;
		for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
			if (strncmp(name, prefixes[i], strlen(prefixes[i])))
				continue;
			snprintf(label, sizeof(label), "%s in vmstat less memory.stat", name);
			add(state, label, "%lld", vm(name) - value);
		}
	}
}

static void add_gauges(struct state *state)
{
	static const char *const files[] = {
		"/sys/kernel/mm/tlb_defer/held_kb", "/sys/kernel/debug/sched/numa_balancing/scan_requests",
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (slurp(files[i]))
			add(state, files[i], "%s", text);
}

/* ---- settings ---- */

/* What is mounted where, and what is swapped to; without options and how full, which the kernel changes by itself. */
static void add_table(struct state *state, const char *path, const char *format)
{
	char list[TEXT_SIZE] = "", line[1024], a[512], b[512];
	FILE *file = fopen(path, "re");
	size_t len = 0;

	while (file && len < sizeof(list) && fgets(line, sizeof(line), file))
		if (sscanf(line, format, a, b) == 2)
			len += snprintf(list + len, sizeof(list) - len, "%s%s %s", len ? "\n" : "", a, b);
	if (file)
		fclose(file);
	add(state, path, "%s", list);
}

static struct state *walked;

/* Files that hold no setting though they can be written to: what was last asked for, or took longest, or what memory there is. */
static bool no_setting(const char *path)
{
	static const char *const others[] = {
		"/drop_caches", "/compact_memory", "/stat_refresh", "/longest_us", "/user_reserve_kbytes",
	};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strlen(path) > strlen(others[i]) && !strcmp(path + strlen(path) - strlen(others[i]), others[i]))
			return true;
	return false;
}

static int add_setting(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)ftw;
	if (kind == FTW_F && (st->st_mode & 0200) && (st->st_mode & 0400) && !no_setting(path) && slurp(path))
		add(walked, path, "%s", text);
	return 0;
}

static void add_settings(struct state *state)
{
	static const char *const folders[] = {
		"/proc/sys/vm", "/sys/kernel/mm", "/sys/kernel/debug/mtier", "/sys/kernel/debug/mempolicy2",
		"/sys/kernel/debug/tlb_defer", "/sys/kernel/debug/numa_follow", "/sys/kernel/debug/sched/numa_balancing",
	};
	static const char *const files[] = {
		"/proc/sys/kernel/numa_balancing", "/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps",
		"/sys/devices/system/cpu/online", "/sys/devices/system/node/has_memory",
	};

	walked = state;
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		nftw(folders[i], add_setting, 8, FTW_PHYS);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (slurp(files[i]))
			add(state, files[i], "%s", text);
	add_table(state, "/proc/self/mounts", "%*s %511s %511s");
	add_table(state, "/proc/swaps", "%511s %511s");
}

static struct state *take(void)
{
	struct state *state = must(calloc(1, sizeof(*state)));

	state->notes = !access(KMEMLEAK, F_OK);
	add_slabs(state);
	if (!state->notes)
		add_kmallocs(state);
	add_pages(state);
	add_cgroups(state);
	add_promises(state);
	add_charges(state);
	add_gauges(state);
	add_settings(state);
	state->free_kb = free_kb();
	state->blocks = count_ids("/sys/devices/system/memory");
	return state;
}

/* ---- draining ---- */

/* An idle CPU keeps the address space that ran there last: ours, then. */
static void visit_cpus(void (*there)(void))
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	cpu_set_t all, one;

	if (sched_getaffinity(0, sizeof(all), &all))
		return;
	for (long cpu = 0; cpu < cpus; cpu++) {
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		if (there)
			there();
	}
	sched_setaffinity(0, sizeof(all), &all);
}

/* A page, which is charged to the cgroup that this is in. */
static void use_a_page(void)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	char *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return;
	*(volatile char *)page = 1;
	munmap(page, size);
}

static long long dying_cgroups(void)
{
	return slurp(CGROUPS "cgroup.stat") ? number(text, "nr_dying_descendants") : 0;
}

/*
 * A CPU charges in advance, and keeps a reference to the cgroup, which is taken back when the cgroup goes. But not if just
 * all of that was used up (drain_all_stock()): then the cgroup lives until the CPU charges another. So all charge one of
 * ours here, which leaves some of that over.
 */
static void forget_cgroups(void)
{
	long long before = dying_cgroups();

	if (!before || mkdir(OWN_CGROUP, 0755))
		return;
	put(OWN_CGROUP "/cgroup.procs", "0");
	visit_cpus(use_a_page);
	put(CGROUPS "cgroup.procs", "0");
	rmdir(OWN_CGROUP);
	for (int i = 0; i < ROUNDS && dying_cgroups() > before; i++)
		nanosleep(&nap, NULL);
}

/* Slabs keep what is freed, those of each CPU and those of each node. */
static void shrink_slabs(void)
{
	DIR *folder = opendir("/sys/kernel/slab");
	struct dirent *entry;
	char path[300];

	while (folder && (entry = readdir(folder))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/sys/kernel/slab/%s/shrink", entry->d_name);
		put(path, "1");
	}
	if (folder)
		closedir(folder);
}

static void drain(void)
{
	visit_cpus(NULL);
	forget_cgroups();
	syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
	put("/sys/module/rcutree/parameters/do_rcu_barrier", "1");
	shrink_slabs();
	put("/proc/sys/vm/drop_caches", "4");	/* without a line in the kernel log */
	put("/proc/sys/vm/drop_caches", "3");	/* drains the lists of the LRU, too */
	slurp("/proc/sys/vm/stat_refresh");
	slurp_into(vmstat, "/proc/vmstat");
}

/* ---- comparing ---- */

static bool has_less_free(const struct state *before, const struct state *after)
{
	long long slack_kb = before->notes ? NOTES_SLACK_KB : FREE_SLACK_KB;

	return before->blocks == after->blocks && after->free_kb < before->free_kb - slack_kb;
}

static bool differs(const struct item *was, const char *is)
{
	return was->slack == EXACT ? strcmp(was->value, is) : atoll(is) > atoll(was->value) + was->slack;
}

static bool same(const struct state *before, const struct state *after)
{
	if (before->n != after->n || has_less_free(before, after))
		return false;
	for (size_t i = 0; i < before->n; i++)
		if (differs(&before->items[i], value_of(after, before->items[i].name)))
			return false;
	return true;
}

static bool has_line(const char *value, const char *line, size_t len)
{
	for (const char *at = value; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
		if (strcspn(at, "\n") == len && !strncmp(at, line, len))
			return true;
	return false;
}

/* The lines of one value that the other has not. */
static void show_lines(const char *prefix, const char *name, const char *value, const char *other, const char *when)
{
	for (const char *at = value; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
		size_t len = strcspn(at, "\n");

		if (!has_line(other, at, len))
			printf("%s %s: only %s: %.*s\n", prefix, name, when, (int)len, at);
	}
}

static void show(const char *prefix, const char *name, const char *was, const char *is)
{
	if (!strchr(was, '\n') && !strchr(is, '\n')) {
		printf("%s %s: %s before, %s after\n", prefix, name, was, is);
		return;
	}
	show_lines(prefix, name, was, is, "before");
	show_lines(prefix, name, is, was, "after");
}

/* A line for each that is not as it was, `prefix` before it. */
void state_differences(const struct state *before, const struct state *after, const char *prefix)
{
	for (size_t i = 0; i < before->n; i++) {
		const struct item *was = &before->items[i];
		const char *is = value_of(after, was->name);

		if (differs(was, is))
			show(prefix, was->name, was->value, is);
	}
	for (size_t i = 0; i < after->n; i++) {
		if (!strcmp(value_of(before, after->items[i].name), "-"))
			show(prefix, after->items[i].name, "-", after->items[i].value);
	}
	if (has_less_free(before, after))
		printf("%s free memory: %lld kB before, %lld kB after\n", prefix, before->free_kb, after->free_kb);
	fflush(stdout);
}

/* Each page of ours is there from the start. */
static void touch_buffers(void)
{
	memset(text, '-', sizeof(text));
	memset(vmstat, '-', sizeof(vmstat));
}

static time_t seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/* The state once it is that of `before`, or does not become so; NULL: once it changes no more. */
struct state *state_settled(const struct state *before)
{
	struct state *last = NULL, *now;
	time_t until = seconds() + SETTLE_S;

	touch_buffers();
	for (int round = 1;; round++) {
		drain();
		now = take();
		if ((round >= ROUNDS && seconds() >= until) || (before ? same(before, now) : last && same(last, now)))
			break;
		state_free(last);
		last = now;
		nanosleep(&nap, NULL);
	}
	state_free(last);
	return now;
}
