/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the promotion selftests: knobs, counters, memory on a chosen node, waits for
 * events, and checks that start with default knobs. The selftests of other capabilities
 * use it too.
 */
#ifndef MTIER_UTIL_H
#define MTIER_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "terrace_run.h"

#define MT_DIR		"/sys/kernel/mm/mtier/"

#define MT_PAGE		4096UL
#define MT_HUGE		(2UL << 20)
#define MT_MB		(1UL << 20)
#define MT_NODES	64

/* ---- mtier_run.c: checks ---- */

int mt_main(const struct mt_check *checks, size_t n);

/*
 * Longest time until used memory is promoted. With something to gain, bursts follow each
 * other; at rest they are seconds apart, and sample a part of memory.
 */
#define MT_MOVE_MS	60000

/* Check @cond every 10 ms until it holds or @ms have passed. */
#define MT_WAIT(cond, ms)						\
	({								\
		long long until_ = mt_now_ms() + (ms);			\
		bool ok_;						\
									\
		while (!(ok_ = (cond)) && mt_now_ms() < until_)		\
			mt_nap(10);					\
		ok_;							\
	})

/* ---- mtier_util.c: files, knobs, counters, threads, time ---- */

long long mt_now_ns(void);
long long mt_now_ms(void);
void mt_nap(unsigned int ms);

int mt_write(const char *file, const char *text);
int mt_writef(const char *file, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
int mt_read(const char *file, char *buf, size_t size);
long long mt_read_ll(const char *file);
bool mt_reads(const char *file, const char *text);
bool mt_why(const char *word);

/**
 * struct mt_knob - a writable file of MT_DIR
 * @file: its name
 * @initial: its value after boot
 * @min: smallest allowed number
 * @max: largest; 0 for a file with words
 */
struct mt_knob {
	const char *file;
	const char *initial;
	long long min;
	long long max;
};

extern const struct mt_knob mt_knobs[];
extern const size_t mt_nr_knobs;

void mt_knobs_save(void);
void mt_knobs_restore(void);
void mt_knobs_default(void);
void mt_set(const char *knob, long long value);
void mt_fast(void);
void mt_on(void);
void mt_off(void);

#define MT_SNAP_SIZE	(32 << 10)

/* /proc/vmstat at one moment */
struct mt_snap {
	char text[MT_SNAP_SIZE];
};

void mt_snap(struct mt_snap *snap);
long long mt_get(const struct mt_snap *snap, const char *name);
long long mt_since(const struct mt_snap *snap, const char *name);
long long mt_count(const char *name);
long long mt_file_stat(const char *file, const char *name);
long long mt_ended_since(const struct mt_snap *snap);
void mt_note_since(const struct mt_snap *snap);

bool mt_debug_kernel(void);

pid_t mt_kthread(const char *name);
unsigned int mt_kthreads(void);
long long mt_cpu_us(pid_t pid);

int mt_slow_node(void);
int mt_fast_node(void);
int mt_nodes(const char *what, int *nodes);
int mt_node_of_cpu(int cpu);
long long mt_node_free(int node);
long mt_node_room(int node);
long mt_node_listed(int node);
int mt_run_on_cpu(int cpu);
int mt_run_on_node(int node);

/* ---- mtier_mem.c: memory ---- */

int mt_bind_to(int node);
int mt_bind_default(void);
int mt_mbind(void *p, size_t size, int mode, unsigned long nodes);
int mt_mbind_flags(void *p, size_t size, int mode, unsigned long nodes,
		   unsigned int flags);
int mt_set_policy(int mode, unsigned long nodes);
void *mt_fill(size_t size, int node, bool huge);
int mt_filled(const char *p, size_t size);
bool mt_fork_once(void);
void *mt_place(size_t size, int node);
void *mt_place_thp(size_t size, int node);
void *mt_place_file(int fd, size_t size, int node, int prot);
size_t mt_use_free(char *p, size_t most, int node);
char *mt_hog(int node, size_t *size);
void *mt_map_aligned(size_t size);
long mt_pages_on(const void *p, size_t size, int node);
bool mt_all_on(const void *p, size_t size, int node);
void mt_settle(void);
bool mt_swap_on(const char *size);
void mt_swap_off(void);
void mt_note_where(const char *what, const void *p, size_t size);
uint64_t mt_pagemap(const void *p);
uint64_t mt_pfn(const void *p);
bool mt_is_thp(const void *p);
long mt_smaps_kb(const void *p, const char *field);
int mt_pin(void *p, size_t size);
int mt_scratch_file(const char *name);
const char *mt_ext4(void);

/**
 * struct mt_toucher - a thread that uses memory repeatedly
 * @p: start
 * @size: bytes
 * @step: bytes from one access to the next
 * @rest_ms: pause after each round
 * @write: write, not only read
 * @cpu: its CPU, -1 for any
 * @rounds: number of finished rounds
 */
struct mt_toucher {
	char *p;
	size_t size;
	size_t step;
	unsigned int rest_ms;
	bool write;
	int cpu;
	volatile unsigned long rounds;
	volatile bool stop;
	unsigned long thread;
};

void mt_touch(volatile char *p, size_t size, bool write);
void mt_touch_start(struct mt_toucher *t, void *p, size_t size);
void mt_toucher_run(struct mt_toucher *t);
void mt_touch_stop(struct mt_toucher *t);
bool mt_moves_to(void *p, size_t size, int node, unsigned int ms);
bool mt_stays(void *p, size_t size, int node);

/* ---- mtier_watch.c: Accessed bits, and their state in the idle bitmap ---- */

void mt_flush(void *p, size_t size);
int mt_idle_count(const char *p, size_t size);
int mt_idle_mark(const char *p, size_t size);

/* ---- mtier_hotplug.c: memory that is added and removed ---- */

int mt_blocks_of(int node, int *ids, int max);
int mt_block_state(unsigned long id, const char *state);
int mt_added_state(unsigned int nth, const char *state);
int mt_blocks_add(const char *probe, unsigned long base, unsigned int n);
int mt_blocks_online(unsigned int n);
int mt_blocks_offline(unsigned int n);

/* ---- mtier_sys.c: tracing, cgroups, load ---- */

/**
 * struct mt_trace - an instance of ftrace with the overlay's events enabled
 * @dir: its folder
 * @fd: its trace_pipe
 * @buf: data read and not yet returned
 * @len: bytes in @buf
 */
struct mt_trace {
	char dir[96];
	int fd;
	char buf[8192];
	size_t len;
};

int mt_trace_open(struct mt_trace *t, const char *event);
int mt_trace_open_of(struct mt_trace *t, const char *system, const char *event);
bool mt_trace_line(struct mt_trace *t, char *line, size_t size);
void mt_trace_close(struct mt_trace *t);
long long mt_field(const char *line, const char *name);
double mt_when(const char *line);
bool mt_field_is(const char *line, const char *name, const char *text);

/* A folder of cgroup v2 */
struct mt_cgroup {
	char dir[96];
};

int mt_cgroup_make(struct mt_cgroup *cg, const char *name,
		   const char *controllers);
int mt_cgroup_write(const struct mt_cgroup *cg, const char *file,
		    const char *text);
int mt_cgroup_enter(const struct mt_cgroup *cg, pid_t pid);
long long mt_cgroup_stat(const struct mt_cgroup *cg, const char *file,
			 const char *name);
void mt_cgroup_remove(struct mt_cgroup *cg);
bool mt_memcg_same(const char *prefix);

/* A time of promotion at full speed, with concurrent changes */
struct mt_race {
	struct mt_snap before;
	long long start_ms;
};

void mt_hurry(void);
void mt_race_begin(struct mt_race *r);
void mt_race_again(void);
bool mt_race_goes_on(const struct mt_race *r, unsigned int least_ms);
int mt_race_moved(const struct mt_race *r);
int mt_race_balanced(const struct mt_race *r);
int mt_race_end(const struct mt_race *r);
void mt_load_slow(void *arg);
void mt_load_stays(void *arg);

#define MT_BURST_DIR	"/sys/kernel/debug/mtier/"

#define MT_SCALE_SET	0x4d540001	/* PR_MTIER_SCAN_SCALE_SET */

pid_t mt_spawn(void (*fn)(void *), void *arg);
int mt_reap(pid_t pid);
void mt_kill(pid_t pid);
bool mt_zombie(pid_t pid);

#endif /* MTIER_UTIL_H */
