// SPDX-License-Identifier: GPL-2.0
/*
 * Control: the scan scale of a process, by prctl and in /proc/PID/status.
 *
 * lab: topology=dram-cxl timeout=300s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

#define SIZE	MT_MB

/* Memory of another process with the usual scale */
static void canary(void *arg)
{
	char *p;

	(void)arg;
	set(5);
	p = mt_place(SIZE, mt_slow_node());
	_exit(p && mt_moves_to(p, SIZE, mt_fast_node(), MT_MOVE_MS) ? 0 : 1);
}

static int zero_promotes_nothing(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	struct mt_toucher t;
	int i, moved = 0;

	/* What a canary had a part in would stay for that. */
	MT_ASSERT(p && !madvise(p, SIZE, MADV_DONTFORK),
		  "no memory on the slow node");
	mt_fast();
	set(0);
	mt_on();
	mt_touch_start(&t, p, SIZE);
	for (i = 0; i < 3; i++)
		moved += !mt_reap(mt_spawn(canary, NULL));
	mt_touch_stop(&t);
	MT_ASSERT(moved == 3, "memory of others does not move");
	MT_ASSERT(mt_all_on(p, SIZE, mt_slow_node()),
		  "its pages moved though its scale is 0");
	/* From the next sweep on */
	set(10);
	MT_ASSERT(mt_moves_to(p, SIZE, mt_fast_node(), MT_MOVE_MS),
		  "they did not move at 10 either");
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
		MT_CHECK("C2 A7 with 0 no page is promoted, and a change holds while it runs",
			 zero_promotes_nothing),
	};

	if (argc > 1 || getenv("MTIER_CHILD"))
		return argv[0] ? get() : 99;
	return mt_main(checks, ARRAY_LEN(checks));
}
