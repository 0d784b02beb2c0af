// SPDX-License-Identifier: GPL-2.0
/*
 * The run: threads start together, do their ranges of operations, and the main thread samples until
 * the last one is done.  The measured region is from the moment that they start to the moment that
 * the last one ends.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sched.h>

#include "wl.h"

#define MAX_SAID	5u

struct wl_worker wl_workers[WL_MAX_THREADS];
uint64_t wl_start_ns, wl_ops, wl_nr_wrong;
bool wl_stop;
static pthread_barrier_t gate, meeting;
static unsigned int running;
static const struct wl_workload *job;

void wl_wrong(const char *format, ...)
{
	va_list args;

	if (__atomic_fetch_add(&wl_nr_wrong, 1, __ATOMIC_RELAXED) >= MAX_SAID)
		return;
	flockfile(stderr);
	fprintf(stderr, "%s: wrong result: ", program_invocation_short_name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	funlockfile(stderr);
}

void wl_meet(void)
{
	pthread_barrier_wait(&meeting);
}

static void pin(unsigned int id)
{
	cpu_set_t allowed, one;
	int count, cpu = -1;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return;
	count = CPU_COUNT(&allowed);
	for (int left = (int)id % count; left >= 0; left--)
		do
			cpu++;
		while (!CPU_ISSET(cpu, &allowed));
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
}

static void *begin(void *arg)
{
	struct wl_worker *w = arg;

	TG_MARK(TG_MARK_TASK, WL_KIND_WORKER);
	if (wl.pin)
		pin(w->id);
	pthread_barrier_wait(&gate);
	job->work(w);
	w->elapsed_ns = wl_now() - wl_start_ns;
	w->cpu_ns = tg_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	if (!__atomic_sub_fetch(&running, 1, __ATOMIC_RELEASE))
		syscall(SYS_futex, &running, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	return NULL;
}

static void start_workers(void)
{
	pthread_barrier_init(&gate, NULL, (unsigned int)wl.threads + 1);
	pthread_barrier_init(&meeting, NULL, (unsigned int)wl.threads);
	running = (unsigned int)wl.threads;
	for (unsigned int i = 0; i < wl.threads; i++) {
		struct wl_worker *w = &wl_workers[i];

		w->id = i;
		w->random = wl_hash(1, i) | 1;
		w->next = job->shared_ops ? 0 : wl_ops * i / wl.threads;
		w->last = job->shared_ops ? wl_ops : wl_ops * (i + 1) / wl.threads;
		if (wl.seconds)
			w->last = UINT64_MAX;
		errno = pthread_create(&w->thread, NULL, begin, w);
		if (errno)
			tg_die(TG_EXIT_FAILED, "starting thread %u of %llu: %s", i, (unsigned long long)wl.threads,
			       strerror(errno));
	}
}

static void sample(void)
{
	wl_take_sample(0);
	if (job->sampled)
		job->sampled();
}

/* Sample until the last thread is done. */
static void watch(void)
{
	struct timespec pause = { (time_t)(wl.sample_ms / 1000), (long)(wl.sample_ms % 1000) * 1000000 };
	uint64_t end = wl.seconds ? wl_start_ns + wl.seconds * 1000000000u : UINT64_MAX;
	unsigned int left;

	while ((left = __atomic_load_n(&running, __ATOMIC_ACQUIRE))) {
		if (syscall(SYS_futex, &running, FUTEX_WAIT_PRIVATE, left, &pause, NULL, 0) && errno == EAGAIN)
			continue;
		if (wl_now() >= end)
			__atomic_store_n(&wl_stop, true, __ATOMIC_RELAXED);
		if (__atomic_load_n(&running, __ATOMIC_ACQUIRE))
			sample();
	}
}

/* Run the threads to their end; returns how long the slowest took. */
uint64_t wl_run(const struct wl_workload *workload)
{
	uint64_t elapsed = 0;

	job = workload;
	start_workers();
	wl_go_first();
	TG_MARK(TG_MARK_TASK, WL_KIND_SAMPLER);
	wl_start_ns = wl_now();
	sample();
	TG_MARK(TG_MARK_REGION, WL_REGION_BEGIN);
	pthread_barrier_wait(&gate);
	watch();
	TG_MARK(TG_MARK_REGION, WL_REGION_END);
	sample();
	for (unsigned int i = 0; i < wl.threads; i++) {
		pthread_join(wl_workers[i].thread, NULL);
		if (wl_workers[i].elapsed_ns > elapsed)
			elapsed = wl_workers[i].elapsed_ns;
	}
	return elapsed;
}

struct wl_histogram *wl_histogram_new(void)
{
	struct wl_histogram *h = calloc(1, sizeof(*h));

	if (!h)
		tg_die(TG_EXIT_FAILED, "no memory for a histogram");
	return h;
}
