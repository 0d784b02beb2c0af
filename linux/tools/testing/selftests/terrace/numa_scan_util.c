// SPDX-License-Identifier: GPL-2.0
/* Selftest helpers: NUMA scanning. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <linux/futex.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "numa_scan_util.h"

/* Bytes that the task touches between two reads of its orders */
#define PIECE	(16 * MT_PAGE)

/* The state after boot */
static void reset(void)
{
	mt_write("/proc/sys/kernel/numa_balancing", "0");
	mt_write(NS_MODE, "sync");
	mt_write(NS_WINDOWS, "0");
	mt_write(NS_DEBUG "scan_slice_us", "200");
	mt_write(NS_DEBUG "scan_async_delay_ms", "100");
}

static const char *missing(void)
{
	return access(NS_MODE, W_OK) ? "no " NS_MODE " to write to" : NULL;
}

/* Run @n checks and print TAP; the return value is main()'s. */
int ns_main(const struct mt_check *checks, size_t n)
{
	static const struct mt_suite suite = {
		.missing = missing,
		.reset = reset,
	};

	return mt_run_suite(&suite, checks, n);
}

/* Scan in @mode, @size_mb at a time, at the highest allowed rate. */
int ns_fast(const char *mode, unsigned int size_mb)
{
	int ret = 0;

	ret |= mt_write(NS_DEBUG "scan_delay_ms", "1");
	ret |= mt_write(NS_DEBUG "scan_period_min_ms", "100");
	ret |= mt_write(NS_DEBUG "scan_period_max_ms", "100");
	ret |= mt_writef(NS_DEBUG "scan_size_mb", "%u", size_mb);
	ret |= mt_write(NS_MODE, mode);
	ret |= mt_write("/proc/sys/kernel/numa_balancing", "1");
	MT_ASSERT(!ret, "cannot set the knobs");
	return MT_PASS;
}

/* A second thread: pages on the task's own node get faults then. */
static void *idle_thread(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/* In the calling process; 0 or an error. */
int ns_second_thread(void)
{
	pthread_t thread;

	return pthread_create(&thread, NULL, idle_thread, NULL);
}

static void *mapping_thread(void *arg)
{
	const struct ns_task *t = arg;

	mt_run_on_cpu(!t->cpu);
	t->shared->mapper = syscall(SYS_gettid);
	for (;;) {
		char *p = mmap(NULL, MT_PAGE, PROT_READ,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p != MAP_FAILED)
			munmap(p, MT_PAGE);
		t->shared->mapped++;
		mt_nap(1);
	}
	return NULL;
}

/* Sleep if ordered; between two pieces, as a round can be longer than a scan. */
static void sleep_if_told(struct ns_shared *s)
{
	while (s->asleep) {
		s->sleeps = true;
		syscall(SYS_futex, &s->asleep, FUTEX_WAIT, 1, NULL);
	}
	s->sleeps = false;
}

static void touch_round(struct ns_shared *s, char *p, size_t length)
{
	size_t off, piece;

	for (off = 0; off < length; off += piece) {
		piece = length - off < PIECE ? length - off : PIECE;
		mt_touch(p + off, piece, false);
		sleep_if_told(s);
	}
	s->rounds++;
}

static void task_run(void *arg)
{
	struct ns_task *t = arg;
	struct ns_shared *s = t->shared;
	void *(*second)(void *) = t->maps ? mapping_thread : idle_thread;
	pthread_t thread;
	char *p;

	if (t->cg)
		mt_cgroup_enter(t->cg, 0);
	if (t->bind)
		mt_set_policy(MPOL_BIND, 1);
	p = mt_map_aligned(t->size);
	if (!p || mt_run_on_cpu(t->cpu) ||
	    (!t->single && pthread_create(&thread, NULL, second, t)))
		_exit(1);
	mt_touch(p, t->size, true);
	for (;;) {
		sleep_if_told(s);
		if (s->fresh) {
			mprotect(p, t->size, PROT_READ);
			mprotect(p, t->size, PROT_READ | PROT_WRITE);
			s->fresh = false;
		}
		touch_round(s, p + s->from, s->length);
	}
}

/* Start the task and wait until all its memory is mapped. */
int ns_task_start(struct ns_task *t)
{
	t->shared = mmap(NULL, MT_PAGE, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MT_ASSERT(t->shared != MAP_FAILED, "no memory");
	t->shared->length = t->size;
	t->pid = mt_spawn(task_run, t);
	MT_ASSERT(MT_WAIT(t->shared->rounds > 0, 60000), "it does not run");
	return MT_PASS;
}

void ns_task_stop(struct ns_task *t)
{
	mt_kill(t->pid);
}

/* Put it to sleep, after the present piece of memory. */
int ns_task_sleep(struct ns_task *t)
{
	t->shared->asleep = true;
	MT_ASSERT(MT_WAIT(t->shared->sleeps, 20000), "it does not sleep");
	return MT_PASS;
}

/* Wake it, to continue if @up, or to sleep again at once. */
void ns_task_poke(struct ns_task *t, bool up)
{
	t->shared->asleep = !up;
	syscall(SYS_futex, &t->shared->asleep, FUTEX_WAKE, 1);
}

static void hog(void *arg)
{
	mt_run_on_cpu((int)(long)arg);
	for (;;)
		__asm__ volatile("" ::: "memory");
}

/* A process that keeps a CPU busy */
pid_t ns_hog(int cpu)
{
	return mt_spawn(hog, (void *)(long)cpu);
}

/* Get an integer of /proc/PID/sched; times are in ns there or converted. */
long long ns_sched(pid_t pid, const char *name)
{
	char file[64], text[8192], *at, *end;
	long long whole;

	snprintf(file, sizeof(file), "/proc/%d/sched", pid);
	if (mt_read(file, text, sizeof(text)) < 0)
		return -1;
	at = strstr(text, name);
	at = at ? strchr(at, ':') : NULL;
	if (!at)
		return -1;
	whole = strtoll(at + 1, &end, 10);
	/* ms with six digits after the point */
	return *end == '.' ? whole * 1000000 + atoll(end + 1) : whole;
}

/* Get the pending charges of the threads of a process */
static long long pending_of(const char *pid)
{
	long long debt, sum = 0;
	struct dirent *entry;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%.16s/task", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		debt = atoi(entry->d_name) > 0 ?
		       ns_sched(atoi(entry->d_name), "remote_debt_ns") : 0;
		sum += debt > 0 ? debt : 0;
	}
	if (dir)
		closedir(dir);
	return sum;
}

/*
 * Get the pending charges of all tasks; this process and its parents may have been
 * scanned too.
 */
long long ns_pending(void)
{
	struct dirent *entry;
	long long sum = 0;
	DIR *dir = opendir("/proc");

	while (dir && (entry = readdir(dir)))
		if (atoi(entry->d_name) > 0)
			sum += pending_of(entry->d_name);
	if (dir)
		closedir(dir);
	return sum;
}

static long long ns_paid(const struct mt_snap *s)
{
	return mt_since(s, "remote_charge_folded_ns") +
	       mt_since(s, "remote_charge_dropped_ns");
}

/* Take a snapshot for ns_lost(), while nothing is posted; returns the pending charges. */
long long ns_snap(struct mt_snap *s)
{
	long long owed;

	/* No charge was applied while they were read. */
	do {
		mt_snap(s);
		owed = ns_pending();
	} while (ns_paid(s));
	return owed;
}

/*
 * Get the time posted since ns_snap(), which returned @owed, that is neither applied,
 * dropped nor pending. Call it while nothing is posted.
 */
long long ns_lost(const struct mt_snap *s, long long owed)
{
	long long paid, pending, posted = mt_since(s, "remote_charge_posted_ns");

	do {
		paid = ns_paid(s);
		pending = ns_pending();
	} while (paid != ns_paid(s));
	mt_note("posted %lld ns and owed %lld = folded %lld + dropped %lld + pending %lld",
		posted, owed, mt_since(s, "remote_charge_folded_ns"),
		mt_since(s, "remote_charge_dropped_ns"), pending);
	return posted + owed - paid - pending;
}

long long ns_requests(void)
{
	return mt_read_ll(NS_DEBUG "scan_requests");
}

/* Print the results of the scans of a process, for diagnosis */
void ns_note_scans(const struct mt_snap *s, pid_t pid)
{
	mt_note("%lld visits, %lld held; %lld/%lld/%lld slices sync/async/sliced",
		mt_since(s, "numa_scan_visits"), mt_since(s, "numa_scan_held"),
		mt_since(s, "numa_scan_slices_sync"),
		mt_since(s, "numa_scan_slices_async"),
		mt_since(s, "numa_scan_slices_sliced"));
	mt_note("%lld fallbacks, %lld under way", mt_since(s, "numa_scan_fallbacks"),
		ns_requests());
	mt_note("it ran for %lld ns, threads for it for %lld; it owes %lld",
		ns_sched(pid, "sum_exec_runtime"), ns_sched(pid, "numa_scan_remote_ns"),
		ns_sched(pid, "remote_debt_ns"));
}

/* Get the number of nodes with knumascand/N:M */
int ns_thread_count(void)
{
	char name[32];
	int nid, n = 0;

	for (nid = 0; nid < MT_NODES; nid++) {
		snprintf(name, sizeof(name), "knumascand/%d:0", nid);
		n += mt_kthread(name) > 0;
	}
	return n;
}
