/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Common to all workloads: options, the arena, threads, samples, results.
 *
 * A workload is a struct wl_workload and a main() that hands it to wl_main().  What happens then:
 * options are read; the arena is mapped, placed and touched (wl_arena.c); prepare() writes the
 * contents; threads run work() between two region markers while the main thread samples where the
 * pages lie (wl_run.c, wl_sample.c); verify() checks the workload's own results; everything is
 * printed as one JSON object (wl_json.c).  docs/reference/workloads.md has options and keys.
 *
 * The work is a number of operations that depends on nothing but the options, dealt out to the
 * threads as ranges of operation numbers.
 */
#ifndef TERRACE_WL_H
#define TERRACE_WL_H

#include <pthread.h>

#include "terrace_guest.h"

#define WL_PAGE		4096u
#define WL_ADDRESS	0x100000000000ull	/* of the arena in every run, so that profiles can be compared */
#define WL_MAX_THREADS	256u
#define WL_CHUNK	1024u			/* operations between two looks at the clock's flag */
#define WL_KIND_WORKER	1			/* what TG_MARK_TASK calls the threads that do the work */
#define WL_KIND_SAMPLER	2
#define WL_REGION_BEGIN	1
#define WL_REGION_END	2
/* With a burst, within region 1: before it (region 2), while it is (3), after it (4). */
#define WL_BEFORE_BEGIN	3
#define WL_BEFORE_END	4
#define WL_DURING_BEGIN	5
#define WL_DURING_END	6
#define WL_AFTER_BEGIN	7
#define WL_AFTER_END	8
#define WL_GOLDEN	0x9e3779b97f4a7c15ull

/* ---- options ---- */

enum wl_kind { WL_NUMBER, WL_NODE, WL_SIZE, WL_CHOICE, WL_FLAG, WL_TEXT, WL_SET };

/*
 * One option.  @where points to what it sets: uint64_t (NUMBER, SIZE), int (NODE), unsigned int
 * (CHOICE: an index of @words; FLAG: 0 or 1), const char * (TEXT).  @hidden: neither in --help nor in JSON.
 */
struct wl_option {
	const char *name;
	enum wl_kind kind;
	void *where;
	uint64_t low, high;
	const char * const *words;	/* ends with NULL */
	const char *help;
	bool hidden;
};

struct wl_common {
	uint64_t size, threads, seed, ops, iterations, seconds, sample_ms, probes;
	int start_node;			/* -1: wherever the first touch puts it */
	unsigned int thp, pin;
	const char *place, *weights, *sabotage, *cgroup, *burst, *burst_words;
	uint64_t burst_ms;
	unsigned int as_burst;
};

extern struct wl_common wl;

void wl_parse(const struct wl_option *own, const char *name, const char *purpose, int argc, char **argv);
void wl_print_options(void);
/* Kernel files named by --set-late are written now. */
void wl_set_late(void);
void wl_join_cgroup(void);

/* ---- random numbers ---- */

static inline uint64_t wl_mix(uint64_t x)
{
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
	return x ^ x >> 32;
}

/* The number that belongs to @index in stream @stream of this run's seed. */
static inline uint64_t wl_hash(uint64_t stream, uint64_t index)
{
	return wl_mix(wl_mix(wl.seed * WL_GOLDEN + stream) + index * WL_GOLDEN);
}

static inline uint64_t wl_next(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

/* Scale the high half of a random number to [0, limit), limit at most 2^32. */
static inline uint64_t wl_below(uint64_t random, uint64_t limit)
{
	return (random >> 32) * limit >> 32;
}

static inline uint64_t wl_common_divisor(uint64_t x, uint64_t y)
{
	return y ? wl_common_divisor(y, x % y) : x;
}

/* A step with which i * step mod @pages is a permutation of the pages. */
static inline uint64_t wl_stride(uint64_t pages)
{
	uint64_t stride = pages * 618 / 1000 | 1;

	while (wl_common_divisor(pages, stride) != 1)
		stride += 2;
	return stride;
}

/* ---- the arena ---- */

struct wl_placement {
	uint64_t pages, absent, by_node[TG_MAX_NODES];
};

extern char *wl_arena;
extern uint64_t wl_pages;
extern bool wl_arena_untouched;	/* set in check(): the threads touch it themselves */

/* Map, bind and touch; @fd: a file to share instead of anonymous memory, or -1. */
void wl_arena_make(int fd);
/* The next @bytes of the arena, at a multiple of 64; an error that names --size when it is full. */
void *wl_take(uint64_t bytes, const char *what);
uint64_t wl_left(void);
/* The sum of all bytes taken so far, as words: a read-only workload's proof that nothing changed. */
uint64_t wl_sum(const void *start, uint64_t bytes);
struct wl_placement wl_look(uint64_t first, uint64_t count, uint64_t stride);
void wl_print_placement(const char *name, const struct wl_placement *p);

/* ---- a copy on every node (wl_copies.c) ---- */

/* The node of the CPU that the caller runs on; one system call, so a forked child may ask. */
unsigned int wl_node_here(void);
/* Calls @make for every node that has memory, with the task's memory bound there; for node 0 where the kernel knows none. */
void wl_on_each_node(void (*make)(unsigned int node));

/* Pages with a tag in the first word and a counter for each thread: see wl_arena.c. */
#define WL_FIRST_COUNTER 8u

static inline volatile uint64_t *wl_page(uint64_t page)
{
	return (volatile uint64_t *)(wl_arena + page * WL_PAGE);
}

/* A page's tag is wl_mix(page + wl_tag_base()). */
static inline uint64_t wl_tag_base(void)
{
	return 1 + wl.seed * WL_GOLDEN;
}

static inline uint64_t wl_tag(uint64_t page)
{
	return wl_mix(page + wl_tag_base());
}

void wl_pages_fill(void);
void wl_pages_verify(void);
void wl_pages_sabotage(const char *kind);
#define WL_PAGES_SABOTAGE "flip, lose or swap"

/* ---- threads ---- */

struct wl_histogram;

struct wl_worker {
	pthread_t thread;
	unsigned int id;
	uint64_t next, last;		/* operation numbers that are left to this thread */
	uint64_t random;		/* a seeded state for wl_next() */
	uint64_t ops, writes, checksum, wrong;
	uint64_t checked;		/* sum of the results of every WL_CHECK_EVERY-th operation: wl_compute() */
	uint64_t cpu_ns, elapsed_ns;
	struct wl_histogram *latency;
} __attribute__((aligned(64)));

struct wl_workload {
	const char *name, *purpose;
	const struct wl_option *options;	/* its own, ends with a zero entry; or NULL */
	struct wl_common defaults;		/* zero: as all have it */
	void (*check)(void);			/* refuses options that do not go together */
	int (*file)(void);			/* opens the file that is the arena; NULL: anonymous */
	uint64_t (*unit)(void);			/* operations in one iteration; NULL: one a page */
	void (*prepare)(void);
	void (*touch)(struct wl_worker *w);	/* what each thread does before all start; or NULL */
	void (*work)(struct wl_worker *w);
	void (*sampled)(void);			/* after each sample, or NULL */
	void (*sabotage)(const char *kind);
	void (*verify)(void);
	uint64_t (*checksum)(void);		/* NULL: the workers' sum */
	void (*report)(void);			/* its own keys, a comma behind each */
	bool (*print)(void);			/* prints wl_result itself, or returns false; or NULL */
	bool shared_ops;			/* the threads work together on each operation */
};

extern struct wl_worker wl_workers[WL_MAX_THREADS];
extern uint64_t wl_start_ns, wl_ops;
extern bool wl_stop;

int wl_main(const struct wl_workload *workload, int argc, char **argv);
/* The burst is there and waits, then the threads are. */
void wl_start(const struct wl_workload *workload);
uint64_t wl_run(void);
void wl_print_burst(void);

/*
 * The next operations of this thread: their number, and in @first the number of the first; 0 at the end.
 */
static inline uint64_t wl_chunk(struct wl_worker *w, uint64_t *first)
{
	uint64_t count = w->last - w->next;

	if (count > WL_CHUNK)
		count = WL_CHUNK;
	if (__atomic_load_n(&wl_stop, __ATOMIC_RELAXED))
		count = 0;
	*first = w->next;
	w->next += count;
	w->ops += count;
	return count;
}

/* ---- results that are computed again after the run ---- */

#define WL_CHECK_EVERY	64u

/* Compute the result of operation @op. It depends on nothing but @op, the options and @data. */
typedef uint64_t wl_operation(const void *data, uint64_t op);

/*
 * Compute the results of all operations of thread @w. The checksum is their sum.
 * Always inline: the compiler then knows @operation, and the measured loop has no indirect call.
 */
static inline __attribute__((always_inline)) void wl_compute(struct wl_worker *w, wl_operation *operation,
							     const void *data)
{
	uint64_t first, n, sum = 0, checked = 0;

	while ((n = wl_chunk(w, &first))) {
		for (uint64_t i = first; i < first + n; i++) {
			uint64_t value = operation(data, i);

			sum += value;
			if (i % WL_CHECK_EVERY == 0)
				checked += value;
		}
	}
	w->checksum = sum;
	w->checked = checked;
}

/* Compute the checked results of each thread again; @wrong: what to report of a thread with another sum. */
void wl_compute_again(wl_operation *operation, const void *data, const char *wrong);

/* A barrier of all threads. */
void wl_meet(void);

/* The caller stays on the CPU that thread @id has with --pin. */
void wl_pin(unsigned int id);

/* Report that a result is wrong; the run fails, and goes on. The first few are said on stderr. */
void wl_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
extern uint64_t wl_nr_wrong;

static inline uint64_t wl_now(void)
{
	return tg_clock_ns(CLOCK_MONOTONIC);
}

/* ---- samples and the kernel's counters ---- */

#define WL_MAX_PROBES	65536u
#define WL_MAX_KTHREADS	64u

struct wl_sample {
	uint64_t ns;
	uint32_t fast, known;	/* of the probed pages: in a node with CPUs; found at all */
};

struct wl_kthread {
	int pid;
	char name[32];
	uint64_t cpu_ns;
};

struct wl_counters {
	char vmstat[24576];
	uint64_t shootdowns;
	struct wl_kthread kthreads[WL_MAX_KTHREADS];
	unsigned int nr_kthreads;
};

extern bool wl_node_is_fast[TG_MAX_NODES], wl_node_has_memory[TG_MAX_NODES], wl_knows_nodes;

void wl_read_nodes(void);
void wl_choose_probes(uint64_t first, uint64_t count, uint64_t stride, unsigned int set);
/* Sets: 0 is the whole arena, sampled by the framework; 1 and up are the workload's own. */
void wl_take_sample(unsigned int set);
const struct wl_sample *wl_samples(unsigned int set, unsigned int *count);
void wl_print_samples(const char *name, unsigned int set);
void wl_read_counters(struct wl_counters *c);
void wl_print_vmstat(const struct wl_counters *before, const struct wl_counters *after);
/* With each sample; then the result has when the first scan of pages was seen. */
void wl_watch_scan(void);
void wl_print_scan(void);
uint64_t wl_kthread_ns(const struct wl_counters *before, const struct wl_kthread *k);
void wl_go_first(void);

/* Printed by wl_main(). */
struct wl_result {
	struct wl_counters before, after;
	struct wl_placement first, last;
	uint64_t elapsed_ns;
};

extern struct wl_result wl_result;

/* ---- latency ---- */

#define WL_SUB_BITS	4u	/* buckets in each power of two: 2^4 */
#define WL_BUCKETS	(64u << WL_SUB_BITS)

struct wl_histogram {
	uint64_t count, max, sum, bucket[WL_BUCKETS];
};

static inline void wl_note(struct wl_histogram *h, uint64_t ns)
{
	unsigned int top = ns < 1u << WL_SUB_BITS ? 0 : 63u - (unsigned int)__builtin_clzll(ns) - WL_SUB_BITS;

	h->bucket[(top << WL_SUB_BITS) + (ns >> top)]++;
	h->count++;
	h->sum += ns;
	if (ns > h->max)
		h->max = ns;
}

struct wl_histogram *wl_histogram_new(void);
/* "name": {count, mean, p50, p99, p999, max} of all workers' histograms, with a comma. */
void wl_print_latency(const char *name);
/* "name": [[from, count], ...] in powers of two, with a comma. */
void wl_print_buckets(const char *name);

#endif /* TERRACE_WL_H */
