// SPDX-License-Identifier: GPL-2.0
/*
 * Churn: all capabilities at once for a long time. Processes fork, exec, map, unmap,
 * swap, collapse and split huge pages on both tiers, while promotion is switched, knobs
 * change, cgroups change and a CPU goes offline and online. At the end nothing is left,
 * the counters add up, and (checked by the lab) the kernel has reported nothing.
 *
 * 30 s, times TERRACE_STRETCH.
 *
 * lab: topology=dram-cxl timeout=180s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/swap.h>
#include <unistd.h>

#include "churn_util.h"
#include "mtier_util.h"

#define SIZE	CHURN_SIZE
#define RUN_MS	30000

static struct mt_snap before;

/* One change that a process can make to its memory. */
static void disturb(char *p)
{
	size_t at = churn_roll(SIZE / MT_PAGE) * MT_PAGE;

	switch (churn_roll(8)) {
	case 0:
		madvise(p, SIZE, MADV_PAGEOUT);
		break;
	case 1:
		mprotect(p + at, MT_PAGE, PROT_READ);
		mt_nap(churn_roll(5));
		mprotect(p + at, MT_PAGE, PROT_READ | PROT_WRITE);
		break;
	case 2:
		madvise(p, SIZE, 25 /* MADV_COLLAPSE */);
		break;
	case 3:
		madvise(p, SIZE, MADV_COLD);
		break;
	case 4:
		if (!mlock(p + at / 2, MT_PAGE))
			munlock(p + at / 2, MT_PAGE);
		break;
	case 5:
		mt_mbind(p, SIZE, 2 /* MPOL_BIND */, 1UL << mt_slow_node());
		mt_mbind(p, SIZE, 0 /* MPOL_DEFAULT */, 0);
		break;
	case 6:
		madvise(p, SIZE, churn_roll(2) ? MADV_MERGEABLE : MADV_UNMERGEABLE);
		break;
	default:
		churn_spin(p, SIZE);
	}
}

/* The life of one process. */
static void life(void)
{
	unsigned int steps;
	char *p = churn_memory(mt_slow_node());

	for (steps = churn_roll(12); steps; steps--) {
		disturb(p);
		churn_verify(p, SIZE);
	}
	switch (churn_roll(5)) {
	case 0:
		if (!fork()) {
			churn_spin(p, SIZE);
			churn_verify(p, SIZE);
			_exit(0);
		}
		break;
	case 1:
		setenv("MTIER_CHURN_EXEC", "1", 1);
		execl("/proc/self/exe", "churn", NULL);
		break;
	case 2:
		p = mremap(p, SIZE, 2 * SIZE, MREMAP_MAYMOVE);
		if (p != MAP_FAILED)
			churn_verify(p, SIZE);
		break;
	case 3:
		munmap(p + SIZE / 2, SIZE / 2);
		break;
	default:
		raise(SIGKILL);
	}
}

/* Change one knob, or the switch. */
static void knob(void)
{
	static const char * const rates[] = { "1", "16", "1024", "100000" };
	static const char * const percents[] = { "1", "5", "20", "100" };

	switch (churn_roll(10)) {
	case 0:
	case 1:
		mt_write("enabled", churn_roll(3) ? "1" : "0");
		break;
	case 2:
		mt_write("promote/rate_mbps", rates[churn_roll(4)]);
		break;
	case 3:
		mt_write("scan/cpu_percent", percents[churn_roll(4)]);
		break;
	case 4:
		mt_writef("scan/delay_ms", "%u", churn_roll(200));
		break;
	case 5:
		mt_write("promote/thp", churn_roll(2) ? "whole" : "split");
		break;
	case 6:
		mt_writef("promote/move_fast", "%u", churn_roll(2));
		break;
	case 7:
		mt_writef("charge", "%u", churn_roll(2));
		break;
	case 8:
		mt_writef("promote/target_node", churn_roll(4) ? "auto" : "%d",
			  mt_fast_node());
		break;
	default:
		mt_writef("/proc/sys/kernel/numa_balancing", "%u", churn_roll(4));
	}
}

/* Events of the machine. */
static void weather(unsigned int n, bool swap, const pid_t *pid,
		    struct mt_cgroup *cg)
{
	const char *cpu = "/sys/devices/system/cpu/cpu1/online";

	if (n % 40 == 10)
		mt_write(cpu, "0");
	if (n % 40 == 14)
		mt_write(cpu, "1");
	if (swap && n % 50 == 30 && !swapoff("/dev/zram0"))
		swapon("/dev/zram0", 0);
	if (n % 16 == 8)
		mt_cgroup_enter(cg, pid[n / 16 % 3]);
	if (n % 16 == 0)
		mt_writef("/sys/fs/cgroup/cgroup.procs", "%d", pid[n / 16 % 3]);
	if (n % 60 == 45)
		mt_write("/proc/sys/vm/compact_memory", "1");
	if (n % 30 == 20)
		mt_write("/sys/kernel/mm/numa/demotion_enabled", n % 60 == 20 ?
			 "1" : "0");
}

static int all_gone(void)
{
	mt_off();
	MT_ASSERT(MT_WAIT(!mt_kthreads(), 1000), "%u threads are left",
		  mt_kthreads());
	MT_ASSERT(!mt_read_ll("mms"), "%lld slots are left", mt_read_ll("mms"));
	if (mt_ended_since(&before) == mt_since(&before, "mtier_taken"))
		return MT_PASS;
	mt_note_since(&before);
	mt_note("taken %lld, ended %lld", mt_since(&before, "mtier_taken"),
		mt_ended_since(&before));
	return MT_FAIL;
}

static int churn(void)
{
	long long start = mt_now_ms();
	long long until = start + (long long)RUN_MS * terrace_stretch();
	bool swap = mt_swap_on("192M");
	struct mt_cgroup cg;
	long long ran_ms;
	unsigned int n;
	pid_t pid[3], lasting;
	int i, ret;

	MT_NEED(!mt_cgroup_make(&cg, "churn", "+memory +cpuset"), "no cgroups");
	mt_write("/sys/kernel/mm/ksm/run", "1");
	mt_fast();
	mt_snap(&before);
	mt_on();
	for (i = 0; i < 3; i++)
		pid[i] = churn_start(i, life);
	/* A process that lives long enough to be found used. */
	lasting = mt_spawn(mt_load_slow, NULL);
	for (n = 0; mt_now_ms() < until; n++) {
		mt_hurry();
		knob();
		weather(n, swap, pid, &cg);
		MT_DATA(!churn_wrong(), "in %lu processes", churn_wrong());
		for (i = 0; i < 3; i++)
			MT_ASSERT(!kill(pid[i], 0) && !mt_zombie(pid[i]),
				  "worker %d ended", i);
		mt_nap(20 + churn_roll(60));
	}
	ran_ms = mt_now_ms() - start;
	mt_write("/sys/devices/system/cpu/cpu1/online", "1");
	mt_write("/sys/kernel/mm/numa/demotion_enabled", "0");
	mt_write("/proc/sys/kernel/numa_balancing", "0");
	for (i = 0; i < 3; i++)
		mt_kill(pid[i]);
	mt_kill(lasting);
	mt_write("/sys/kernel/mm/ksm/run", "2");
	mt_write("/sys/kernel/mm/ksm/run", "0");
	ret = all_gone();
	if (swap)
		mt_swap_off();
	mt_cgroup_remove(&cg);
	mt_note("%lld s: %u turns, %lld pages promoted, %lld bursts", ran_ms / 1000,
		n, mt_since(&before, "pgpromote_success"),
		mt_since(&before, "mtier_bursts"));
	MT_ASSERT(mt_since(&before, "pgpromote_success") > 0, "nothing moved");
	return ret;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("churn: fork, exec, exit, huge pages, swap, knobs, CPUs, cgroups",
			 churn),
	};

	if (getenv("MTIER_CHURN_EXEC"))
		return 0;
	mt_limit_ms = RUN_MS + 120000;
	return mt_main(checks, ARRAY_LEN(checks));
}
