// SPDX-License-Identifier: GPL-2.0
/*
 * Churn of all capabilities: processes set policies, mark, move and read their memory and
 * a file mapped by all, and change nodes, while promotion, NUMA scanning, automatic
 * migration, migration on faults, policies of files and deferred flushes are all on, and
 * are switched all the time. At the end each has had an effect, no wrong word was read,
 * and (checked by the lab) the machine is as before and all counters agree.
 *
 * 30 s, times TERRACE_STRETCH.
 *
 * lab: topology=two-socket-cxl timeout=240s debug=yes
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "churn_util.h"
#include "follow_util.h"
#include "numa_scan_util.h"
#include "tlb_defer_util.h"

#define RUN_MS	30000
#define WORKERS	4
#define GROUPS	2
/* Of two-socket-cxl; the first two have a CPU each. */
#define NODES	3
#define SIZE	CHURN_SIZE
#define FILE_SIZE	(4 * MT_MB)

static int file;
/* Calls of mbind() that have marked misplaced pages */
static volatile long *lazy_binds;

/* ---- actions of a process ---- */

static unsigned long some_node(void)
{
	return 1UL << churn_roll(NODES);
}

/* Weights, some of which exclude nodes */
static const char *some_weights(void)
{
	static const char * const all[] = {
		"0:3,1:1", "0:1,2:1", "0:2,1:2,2:1", "1:5,2:1",
	};

	return all[churn_roll(ARRAY_LEN(all))];
}

/* Memory allocated under a policy of the task */
static void with_policy(void)
{
	char *p;

	if (churn_roll(2))
		mp_set(some_weights());
	else
		mp_old_set(MPOL_BIND, some_node());
	p = mp_map(SIZE / 2);
	churn_fill(p, SIZE / 2);
	if (churn_roll(2))
		mt_bind_default();
	churn_verify(p, SIZE / 2);
	munmap(p, SIZE / 2);
	mt_bind_default();
}

/* Read the file through a separate mapping, which may have a policy. */
static void read_file(void)
{
	int kind = churn_roll(2) ? MAP_SHARED : MAP_PRIVATE;
	char *p = mmap(NULL, FILE_SIZE, PROT_READ, kind, file, 0);

	if (churn_roll(2))
		mp_old_bind(p, FILE_SIZE / 2, MPOL_BIND, some_node(),
			    churn_roll(2) ? MPOL_MF_MOVE : 0);
	churn_verify(p, FILE_SIZE);
	td_move(p, FILE_SIZE / MT_PAGE, churn_roll(NODES));
	churn_verify(p, FILE_SIZE);
	munmap(p, FILE_SIZE);
}

/* A child that shares the memory for a time */
static void share(const char *p)
{
	if (fork())
		return;
	mt_run_on_cpu(churn_roll(2));
	churn_verify(p, SIZE);
	_exit(0);
}

/* One change that a process can make to its memory, or to itself */
static void disturb(char *p)
{
	static const int old[] = { MPOL_BIND, MPOL_PREFERRED, MPOL_INTERLEAVE };
	size_t at = churn_roll(SIZE / MT_PAGE) * MT_PAGE;

	switch (churn_roll(11)) {
	case 0:
	case 1:
		mt_run_on_cpu(churn_roll(2));
		break;
	case 2:
		mp_bind(p, SIZE / 2, some_weights(),
			churn_roll(2) ? MPOL_MF_MOVE : MP_MF_REBALANCE);
		break;
	case 3:
		*lazy_binds += !mp_old_bind(p, SIZE,
					    old[churn_roll(ARRAY_LEN(old))],
					    some_node(), FO_MOVE);
		break;
	case 4:
		mp_old_bind(p, SIZE, MPOL_DEFAULT, 0, 0);
		break;
	case 5:
		with_policy();
		break;
	case 6:
		read_file();
		break;
	case 7:
		td_move(p, SIZE / MT_PAGE, churn_roll(NODES));
		break;
	case 8:
		share(p);
		break;
	case 9:
		mprotect(p + at, SIZE - at, PROT_READ);
		madvise(p, SIZE / 2, MADV_PAGEOUT);
		mprotect(p + at, SIZE - at, PROT_READ | PROT_WRITE);
		break;
	default:
		churn_spin(p, SIZE);
	}
}

/* A thread that reads the file, so that two CPUs have translations. */
static void start_reader(struct mt_toucher *t)
{
	*t = (struct mt_toucher) {
		.p = mmap(NULL, FILE_SIZE, PROT_READ, MAP_SHARED, file, 0),
		.size = FILE_SIZE,
		.step = MT_PAGE,
		.rest_ms = 5,
		.cpu = churn_roll(2),
	};
	mt_toucher_run(t);
}

static void life(void)
{
	char *p = churn_memory(churn_roll(NODES));
	struct mt_toucher t;
	unsigned int steps;

	start_reader(&t);
	for (steps = 2 + churn_roll(12); steps; steps--) {
		disturb(p);
		churn_spin(p, SIZE);
		churn_verify(p, SIZE);
	}
	if (churn_roll(4) == 0)
		raise(SIGKILL);
}

/* ---- concurrent changes ---- */

#define VALUES	5

/**
 * struct turned - a setting that is changed
 * @file: its file; of promotion if it is no full path
 * @values: its values, ending with the last one repeated
 * @was: the initial value
 */
static struct turned {
	const char *file;
	const char *values[VALUES];
	char was[64];
} settings[] = {
	{ "enabled", { "0", "1", "1", "1", "1" }, "" },
	{ "charge", { "0", "1", "1", "1", "1" }, "" },
	{ "promote/rate_mbps", { "16", "1024", "100000", "100000", "100000" }, "" },
	{ "promote/thp", { "whole", "split", "split", "whole", "whole" }, "" },
	{ TD_DIR "mode", { "off", "quarantine", "quarantine", "quarantine",
			   "quarantine" }, "" },
	{ TD_DIR "limit_ticks", { "1", "3", "20", "3", "3" }, "" },
	{ FO_BALANCING, { "0", "1", "2", "3", "1" }, "" },
	{ NS_MODE, { "sync", "async", "sliced", "async", "async" }, "" },
	{ NS_WINDOWS, { "0", "1", "0", "1", "1" }, "" },
	{ NS_DEBUG "scan_delay_ms", { "1", "1", "1", "1", "1" }, "" },
	{ NS_DEBUG "scan_period_min_ms", { "100", "200", "100", "100", "100" }, "" },
	{ NS_DEBUG "scan_period_max_ms", { "300", "500", "300", "300", "300" }, "" },
	{ "/proc/sys/vm/mapped_file_policy", { "0", "1", "1", "1", "1" }, "" },
	{ "/proc/sys/vm/migrate_on_fault_mbps", { "16", "256", "100000", "256",
						  "100000" }, "" },
	{ "/sys/kernel/mm/numa/demotion_enabled", { "0", "1", "0", "1", "0" }, "" },
	{ MP_DIR "node1", { "1", "2", "9", "1", "1" }, "" },
};

static void save_settings(void)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(settings); i++) {
		mt_read(settings[i].file, settings[i].was,
			sizeof(settings[i].was));
		mt_write(settings[i].file, settings[i].values[VALUES - 1]);
	}
}

/* From the last to the first: promotion is switched off at the end. */
static void put_settings_back(void)
{
	size_t i;

	for (i = ARRAY_LEN(settings); i--;)
		mt_write(settings[i].file, settings[i].was);
}

static void turn_setting(void)
{
	const struct turned *s = &settings[churn_roll(ARRAY_LEN(settings))];

	mt_write(s->file, s->values[churn_roll(VALUES)]);
}

static void turn_group(const struct mt_cgroup *cg)
{
	switch (churn_roll(4)) {
	case 0:
		am_set(cg, "auto_migration", churn_roll(4) > 0);
		break;
	case 1:
		am_set(cg, "auto_migrate_lazy", churn_roll(2));
		break;
	case 2:
		am_set(cg, "auto_migrate_interval", 1 + churn_roll(3));
		break;
	default:
		am_set(cg, "migrate_on_fault", churn_roll(4));
	}
}

static void weather(unsigned int n, const pid_t *pid, const struct mt_cgroup *cg)
{
	if (n % 8 == 3)
		mt_cgroup_enter(&cg[churn_roll(GROUPS)],
				pid[churn_roll(WORKERS)]);
	if (n % 40 == 10)
		mt_write("/sys/devices/system/cpu/cpu1/online", "0");
	if (n % 40 == 14)
		mt_write("/sys/devices/system/cpu/cpu1/online", "1");
	if (n % 24 == 11)
		mt_cgroup_write(&cg[1], "cpuset.mems",
				churn_roll(2) ? "0-2" : "0,2");
	if (n % 60 == 45)
		mt_write("/proc/sys/vm/compact_memory", "1");
	if (n % 30 == 20)
		mt_write("/proc/sys/vm/drop_caches", "1");
	if (n % 16 == 5)
		mt_write(MT_BURST_DIR "burst", "1");
}

/* ---- the check ---- */

/* Each capability has had an effect; otherwise this test proves nothing about it. */
static bool all_at_work(const struct mt_snap *before)
{
	static const char * const done[] = {
		"mtier_promoted_folios", "remote_charge_folded_ns",
		"tlb_defer_pages", "numa_scan_slices_async",
		"numa_scan_slices_sync", "numa_follow_tasks",
		"numa_follow_moved", "numa_follow_marked",
		"numa_follow_pulled",
	};
	long long faulted = fo_faulted(before, NULL);
	bool all = faulted > 0 && *lazy_binds;
	size_t i;

	/* Marks of both are in one counter: of mbind() here, and of walks in the tick. */
	mt_note("%lld pages moved in faults, %ld lazy binds", faulted, *lazy_binds);
	for (i = 0; i < ARRAY_LEN(done); i++) {
		long long n = mt_since(before, done[i]);

		mt_note("%s: %lld", done[i], n);
		all = all && n > 0;
	}
	return all;
}

/* It has no writer: the flush of its pages can be deferred. */
static int make_file(void)
{
	int fd = fo_disk_file();
	char *p;

	MT_NEED(fd >= 0 && !ftruncate(fd, FILE_SIZE), "no file on a disk");
	p = mmap(NULL, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	churn_fill(p, FILE_SIZE);
	munmap(p, FILE_SIZE);
	file = td_reopen(fd, O_RDONLY);
	MT_ASSERT(file >= 0 && !fsync(fd), "cannot fill a file");
	close(fd);
	return MT_PASS;
}

static int make_groups(struct mt_cgroup *cg)
{
	int i;

	for (i = 0; i < GROUPS; i++) {
		if (am_cgroup_on(&cg[i], i ? "churn1" : "churn0", i))
			return MT_FAIL;
		MT_ASSERT(!am_set(&cg[i], "auto_migrate_interval", 1) &&
			  !am_set(&cg[i], "migrate_on_fault", 3), "no levels");
	}
	return MT_PASS;
}

static int churn(void)
{
	long long until = mt_now_ms() + (long long)RUN_MS * terrace_stretch();
	struct mt_cgroup cg[GROUPS];
	struct mt_snap before;
	unsigned int i, n;
	pid_t pid[WORKERS];
	int alive = WORKERS;
	bool swap, worked;
	int ret = make_file();

	if (ret || make_groups(cg))
		return ret ? ret : MT_FAIL;
	lazy_binds = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MT_ASSERT(lazy_binds != MAP_FAILED, "mmap");
	swap = mt_swap_on("192M");
	mt_fast();
	mt_snap(&before);
	save_settings();
	for (i = 0; i < WORKERS; i++) {
		pid[i] = churn_start(i, life);
		mt_cgroup_enter(&cg[i % GROUPS], pid[i]);
	}
	for (n = 0; alive == WORKERS && mt_now_ms() < until; n++) {
		turn_setting();
		if (n % 8 == 0)
			turn_group(&cg[churn_roll(GROUPS)]);
		weather(n, pid, cg);
		for (i = 0; i < WORKERS; i++)
			alive -= kill(pid[i], 0) || mt_zombie(pid[i]);
		mt_nap(20 + churn_roll(60));
	}
	mt_write("/sys/devices/system/cpu/cpu1/online", "1");
	for (i = 0; i < WORKERS; i++)
		mt_kill(pid[i]);
	put_settings_back();
	if (swap)
		mt_swap_off();
	am_remove_cgroups();
	mt_note("%u turns", n);
	worked = all_at_work(&before);
	MT_DATA(!churn_wrong(), "in %lu processes", churn_wrong());
	MT_ASSERT(alive == WORKERS, "a worker ended");
	MT_ASSERT(worked, "not all of them did something");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("churn: policies, marks, moves, nodes, all switches",
			 churn),
	};

	mt_limit_ms = RUN_MS + 120000;
	return mt_main(checks, ARRAY_LEN(checks));
}
