// SPDX-License-Identifier: GPL-2.0
/*
 * Control: the scan scale of a process, by prctl and in /proc/PID/status.
 *
 * lab: topology=dram-cxl timeout=60s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mtier_util.h"

#define SET	0x4d540001UL
#define GET	0x4d540002UL

static long scale(unsigned long op, unsigned long a2, unsigned long a3,
		  unsigned long a4, unsigned long a5)
{
	long ret = syscall(SYS_prctl, op, a2, a3, a4, a5);

	return ret < 0 ? -errno : ret;
}

static long get(void)
{
	return scale(GET, 0, 0, 0, 0);
}

static long set(unsigned long to)
{
	return scale(SET, to, 0, 0, 0);
}

static long status(pid_t pid)
{
	char file[64];

	snprintf(file, sizeof(file), "/proc/%d/status", pid);
	return mt_file_stat(file, "MtierScanScale:");
}

static int values(void)
{
	long i;

	MT_ASSERT(get() == 5, "default is %ld", get());
	for (i = 0; i <= 10; i++) {
		MT_ASSERT(!set(i), "%ld is refused", i);
		MT_ASSERT(get() == i, "%ld became %ld", i, get());
		MT_ASSERT(status(getpid()) == i, "status says %ld, not %ld",
			  status(getpid()), i);
	}
	return MT_PASS;
}

static int nonsense(void)
{
	static const unsigned long bad[] = {
		11, 12, 256, 261, 1UL << 32, (1UL << 32) + 5, ~0UL, ~0UL - 4,
		1UL << 63,
	};
	size_t i;

	set(7);
	for (i = 0; i < ARRAY_LEN(bad); i++)
		MT_ASSERT(set(bad[i]) == -EINVAL, "%lx gave %ld", bad[i],
			  set(bad[i]));
	MT_ASSERT(scale(SET, 5, 1, 0, 0) == -EINVAL, "arg3");
	MT_ASSERT(scale(SET, 5, 0, 1, 0) == -EINVAL, "arg4");
	MT_ASSERT(scale(SET, 5, 0, 0, 1UL << 40) == -EINVAL, "arg5");
	MT_ASSERT(scale(GET, 1, 0, 0, 0) == -EINVAL, "get arg2");
	MT_ASSERT(scale(GET, 0, 1, 0, 0) == -EINVAL, "get arg3");
	MT_ASSERT(scale(GET, 0, 0, 1, 0) == -EINVAL, "get arg4");
	MT_ASSERT(scale(GET, 0, 0, 0, 1) == -EINVAL, "get arg5");
	MT_ASSERT(scale(GET + 1, 0, 0, 0, 0) == -EINVAL, "an op too many");
	MT_ASSERT(scale(SET - 1, 0, 0, 0, 0) == -EINVAL, "an op too few");
	MT_ASSERT(get() == 7, "7 became %ld", get());
	return MT_PASS;
}

static int inherited(void)
{
	pid_t pid;
	int ret;

	set(3);
	pid = fork();
	if (!pid) {
		if (get() != 3)
			_exit(1);
		set(8);
		_exit(0);
	}
	ret = mt_reap(pid);
	MT_ASSERT(!ret, "the child's is not its parent's");
	MT_ASSERT(get() == 3, "the child changed its parent's to %ld", get());
	return MT_PASS;
}

/* MTIER_CHILD tells the program that it is here only to say its scale. */
static int over_exec(void)
{
	pid_t pid;
	int ret;

	set(9);
	pid = fork();
	if (!pid) {
		setenv("MTIER_CHILD", "1", 1);
		execl("/proc/self/exe", "control_prctl", NULL);
		_exit(99);
	}
	ret = mt_reap(pid);
	MT_ASSERT(ret == 9, "after exec it is %d", ret);
	pid = vfork();
	if (!pid) {
		execl("/proc/self/exe", "control_prctl", "child", NULL);
		_exit(99);
	}
	ret = mt_reap(pid);
	MT_ASSERT(ret == 9, "after vfork and exec it is %d", ret);
	return MT_PASS;
}

static void *set_in_thread(void *arg)
{
	(void)arg;
	set(2);
	return NULL;
}

static int shared(void)
{
	pthread_t t;

	pthread_create(&t, NULL, set_in_thread, NULL);
	pthread_join(t, NULL);
	MT_ASSERT(get() == 2, "a thread's set left %ld", get());
	return MT_PASS;
}

static int unprivileged(void)
{
	MT_ASSERT(!setuid(1000), "setuid: %s", strerror(errno));
	MT_ASSERT(!set(0) && !get(), "as a user: %ld", get());
	MT_ASSERT(!set(10) && get() == 10, "as a user: %ld", get());
	return MT_PASS;
}

static int kernel_threads(void)
{
	MT_ASSERT(status(2) == -1, "kthreadd has a scale: %ld", status(2));
	MT_ASSERT(status(1) == 5, "init's is %ld", status(1));
	return MT_PASS;
}

static volatile char *area;
static size_t area_size;

static int moved_within(unsigned int ms)
{
	int slow = mt_slow_node();
	struct mt_toucher t;
	bool moved;

	mt_touch_start(&t, (void *)area, area_size);
	moved = MT_WAIT(!mt_pages_on((void *)area, area_size, slow), ms);
	mt_touch_stop(&t);
	return moved;
}

static int zero_is_never(void)
{
	mt_fast();
	set(0);
	area_size = 1 * MT_MB;
	area = mt_place(area_size, mt_slow_node());
	MT_ASSERT(area, "no memory on the slow node");
	mt_on();
	moved_within(1500);
	MT_ASSERT(mt_all_on((void *)area, area_size, mt_slow_node()),
		  "its pages moved though its scale is 0");
	set(10);
	MT_ASSERT(moved_within(10000), "they did not move at 10 either");
	return MT_PASS;
}

/* Time between visits of this process, ms; 0 if there were none. */
static long long period_at(long to)
{
	char line[512];
	struct mt_trace t;
	long long period = 0;

	set(to);
	if (mt_trace_open(&t, "mtier_scan_end"))
		return -1;
	(void)MT_WAIT(({
		while (mt_trace_line(&t, line, sizeof(line)))
			if (mt_field(line, "pid") == getpid())
				period = mt_field(line, "next_ms");
		period;
	}), 8000);
	mt_trace_close(&t);
	return period;
}

/* Visits need memory on the slow node, and that it is not promoted meanwhile. */
static void hold_slow(void)
{
	mt_bind_to(mt_slow_node());
	mt_touch(mt_map_aligned(MT_MB), MT_MB, true);
}

static int tunes(void)
{
	long long five, ten, one;

	mt_set("scan/delay_ms", 0);
	mt_set3("period", "ms", 200, 200, 200);
	hold_slow();
	mt_on();
	five = period_at(5);
	ten = period_at(10);
	one = period_at(1);
	MT_ASSERT(five == 200 && ten == 100 && one == 1000,
		  "periods at 5, 10, 1: %lld %lld %lld ms", five, ten, one);
	return MT_PASS;
}

static bool visited(struct mt_trace *t)
{
	bool seen = false;
	char line[512];

	while (mt_trace_line(t, line, sizeof(line)))
		seen |= mt_field(line, "pid") == getpid();
	return seen;
}

/* Its next visit would be a minute away, or an eighth of that. */
static int raised(void)
{
	struct mt_trace t;

	mt_set("scan/delay_ms", 0);
	mt_set3("period", "ms", 100, 60000, 60000);
	hold_slow();
	MT_ASSERT(!mt_trace_open(&t, "mtier_scan_end"), "no trace event");
	mt_on();
	MT_ASSERT(MT_WAIT(visited(&t), 8000), "never visited");
	set(0);
	set(5);
	MT_ASSERT(MT_WAIT(visited(&t), 5000), "not visited after 0, 5");
	mt_trace_close(&t);
	return MT_PASS;
}

int main(int argc, char **argv)
{
	static const struct mt_check checks[] = {
		MT_CHECK("C2 0 to 10 can be set and are shown in status", values),
		MT_CHECK("C2 everything else is EINVAL and changes nothing", nonsense),
		MT_CHECK("C2 fork inherits it", inherited),
		MT_CHECK("C2 exec keeps it", over_exec),
		MT_CHECK("C2 the threads of a process share it", shared),
		MT_CHECK("C2 it needs no privilege", unprivileged),
		MT_CHECK("C2 kernel threads have none", kernel_threads),
		MT_CHECK("C2 A7 0 is never scanned", zero_is_never),
		MT_CHECK("C2 10 is twice, 1 a fifth as often as 5", tunes),
		MT_CHECK("C2 a higher scale is felt at once", raised),
	};

	if (argc > 1 || getenv("MTIER_CHILD"))
		return argv[0] ? get() : 99;
	return mt_main(checks, ARRAY_LEN(checks));
}
