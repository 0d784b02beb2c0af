// SPDX-License-Identifier: GPL-2.0
/*
 * Control: switching on and off, many times and under load, leaves no
 * thread, no memory and no reference behind.
 *
 * lab: topology=dram-cxl timeout=600s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mtier_util.h"

#define SIZE	(4 * MT_MB)

/* Nothing of the engine is left. */
static int all_gone(void)
{
	char path[64];

	/* A thread that was waited for may be seen for a moment longer. */
	MT_ASSERT(MT_WAIT(!mt_kthreads(), 1000), "%u threads are left",
		  mt_kthreads());
	MT_ASSERT(mt_reads("state", "off"), "its state is not off");
	MT_ASSERT(!mt_read_ll("mms"), "%lld slots are left", mt_read_ll("mms"));
	snprintf(path, sizeof(path), MT_DIR "node%d", mt_slow_node());
	MT_ASSERT(access(path, F_OK), "%s is left", path);
	return MT_PASS;
}

static int on_and_off(void)
{
	char path[64];

	mt_on();
	mt_on();
	MT_ASSERT(mt_kthreads() == 1, "%u threads", mt_kthreads());
	MT_ASSERT(mt_reads("enabled", "1"), "enabled does not say so");
	MT_ASSERT(!mt_reads("state", "off"), "its state is off");
	snprintf(path, sizeof(path), MT_DIR "node%d", mt_slow_node());
	MT_ASSERT(!access(path, F_OK), "no %s", path);
	mt_off();
	mt_off();
	return all_gone();
}

/* Processes that come, go, and use slow memory of several kinds. */
static void load(void *arg)
{
	long n = (long)arg;

	if (nice(19) < 0)
		_exit(1);
	for (;; n++) {
		char *p = mt_fill(SIZE, mt_slow_node(), n % 3);
		pid_t pid = fork();

		if (!pid) {
			mt_touch(p, SIZE, true);
			_exit(0);
		}
		mt_touch(p, SIZE, false);
		munmap(p, SIZE);
		mt_reap(pid);
	}
}

static long long unevictable_kb(const char *what)
{
	char text[4096], *at;

	if (mt_read("/proc/meminfo", text, sizeof(text)) < 0)
		return -1;
	at = strstr(text, what);
	return at ? atoll(at + strlen(what)) : -1;
}

/* Each takes ten times as long on a kernel for debugging. */
static int times(void)
{
	return mt_debug_kernel() ? 100 : 1000;
}

static int many_times(void)
{
	int want = times();
	long long until = mt_now_ms() + 240000, slab;
	struct mt_snap *before = malloc(sizeof(*before));
	pid_t pid[3];
	bool moved;
	int i, n;

	mt_fast();
	mt_on();
	mt_off();
	slab = unevictable_kb("SUnreclaim:");
	mt_snap(before);
	for (i = 0; i < 2; i++)
		pid[i] = mt_spawn(load, (void *)(long)i);
	pid[2] = mt_spawn(mt_load_slow, NULL);
	for (n = 0; n < want && mt_now_ms() < until; n++) {
		if (mt_write("enabled", "1"))
			break;
		if (n % 16 == 0)
			mt_nap(60);
		if (mt_write("enabled", "0"))
			break;
	}
	/* It still works, for as long as it takes to find something. */
	mt_on();
	moved = MT_WAIT(mt_since(before, "pgpromote_success") > 0, MT_MOVE_MS);
	mt_off();
	for (i = 0; i < 3; i++)
		mt_kill(pid[i]);
	mt_note("%d times, %lld pages promoted", n,
		mt_since(before, "pgpromote_success"));
	MT_ASSERT(n == want, "it ended after %d times", n);
	MT_ASSERT(moved, "nothing moves");
	MT_ASSERT(mt_ended_since(before) == mt_since(before, "mtier_taken"),
		  "taken %lld, ended %lld", mt_since(before, "mtier_taken"),
		  mt_ended_since(before));
	/* KASAN keeps freed objects for a while; there kmemleak looks at them. */
	MT_ASSERT(mt_debug_kernel() ||
		  MT_WAIT(unevictable_kb("SUnreclaim:") < slab + 4096, 10000),
		  "slab: %lld KiB before, %lld after", slab,
		  unevictable_kb("SUnreclaim:"));
	return all_gone();
}

/* While pages wait for the limit of the rate: those that were taken have an end. */
static int while_throttled(void)
{
	char *p = mt_place(16 * MT_MB, mt_slow_node());
	struct mt_snap before;
	struct mt_toucher t;
	long long start;
	bool wait;

	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	mt_set("promote/rate_mbps", 1);
	mt_snap(&before);
	mt_on();
	mt_touch_start(&t, p, 16 * MT_MB);
	wait = MT_WAIT(mt_reads("state", "throttled"), MT_MOVE_MS);
	start = mt_now_ms();
	mt_off();
	start = mt_now_ms() - start;
	mt_touch_stop(&t);
	MT_ASSERT(wait, "it is never throttled");
	MT_ASSERT(start < 2000, "switching off took %lld ms", start);
	MT_ASSERT(mt_ended_since(&before) == mt_since(&before, "mtier_taken"),
		  "taken %lld, ended %lld", mt_since(&before, "mtier_taken"),
		  mt_ended_since(&before));
	return all_gone();
}

/* Off means off: nothing is seen or moved, and on again it all works. */
static int and_on_again(void)
{
	char *p = mt_place(SIZE, mt_slow_node());
	int i;

	MT_ASSERT(p, "no memory on the slow node");
	mt_fast();
	for (i = 0; i < 5; i++) {
		mt_on();
		mt_off();
	}
	mt_on();
	MT_ASSERT(mt_moves_to(p, SIZE, mt_fast_node(), MT_MOVE_MS),
		  "not promoted");
	return MT_PASS;
}

static void switcher(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < 100; i++)
		mt_write("enabled", i & 1 ? "1" : "0");
}

static void reader(void *arg)
{
	char text[256], file[64];
	int i;

	(void)arg;
	for (i = 0; i < 300; i++) {
		snprintf(file, sizeof(file), "node%d/%s", mt_slow_node(),
			 i % 3 ? i % 2 ? "promoted" : "dropped" : "target");
		mt_read(file, text, sizeof(text));
		mt_read("state", text, sizeof(text));
		mt_read("mms", text, sizeof(text));
		mt_read(i % 2 ? "place/why" : "place/share_ppm", text,
			sizeof(text));
		mt_writef("promote/rate_mbps", "%d", 1 << i % 12);
		mt_writef("scan/cpu_percent", "%d", 1 + i % 100);
	}
}

/* Several people at the switch, others at the files that come and go. */
static int contended(void)
{
	pid_t pid[6];
	int i;

	mt_fast();
	for (i = 0; i < 6; i++)
		pid[i] = mt_spawn(i < 3 ? switcher : reader, NULL);
	for (i = 0; i < 6; i++)
		MT_ASSERT(!mt_reap(pid[i]), "one of them failed");
	mt_off();
	return all_gone();
}

/* A reader holds a file of a node open while that goes away. */
static int open_file(void)
{
	char path[96];
	FILE *f;
	int c;

	mt_on();
	snprintf(path, sizeof(path), MT_DIR "node%d/target", mt_slow_node());
	f = fopen(path, "re");
	MT_ASSERT(f, "cannot open %s", path);
	mt_off();
	c = fgetc(f);
	fclose(f);
	MT_ASSERT(c == EOF, "read '%c' of a node that is gone", c);
	mt_on();
	mt_off();
	return all_gone();
}

int main(void)
{
	static char many_name[64];
	const struct mt_check checks[] = {
		MT_CHECK("A2 C4 on starts a thread, off leaves nothing",
			 on_and_off),
		MT_CHECK(many_name, many_times),
		MT_CHECK("C4 M4 off while pages wait for the rate is quick",
			 while_throttled),
		MT_CHECK("C4 on, off, and on again works", and_on_again),
		MT_CHECK("C4 several writers and readers at once", contended),
		MT_CHECK("C4 a file held open while its node goes", open_file),
	};

	snprintf(many_name, sizeof(many_name),
		 "A2 C4 %d times on and off under load", times());
	return mt_main(checks, ARRAY_LEN(checks));
}
