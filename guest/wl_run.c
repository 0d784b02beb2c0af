// SPDX-License-Identifier: GPL-2.0
/*
 * The run: threads start together, do their ranges of operations, and the main thread samples until
 * the last one is done.  The measured region is from the moment that they start to the moment that
 * the last one ends.
 *
 * With --burst another workload runs in the middle of this run, in a separate process.  It stops itself (SIGSTOP)
 * when its data is prepared, and again when its work is done; a thread of this process continues it and waits for
 * it.  It checks its results and prints after the measured region of this process.  It marks neither regions nor
 * tasks.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "wl.h"

#define MAX_SAID	5u
#define BURST_WORDS	40u

struct wl_worker wl_workers[WL_MAX_THREADS];
uint64_t wl_start_ns, wl_ops, wl_nr_wrong;
bool wl_stop;
static pthread_barrier_t gate, meeting;
static unsigned int running;
static bool burst_is_over;
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

void wl_compute_again(wl_operation *operation, const void *data, const char *wrong)
{
	for (unsigned int t = 0; t < wl.threads; t++) {
		const struct wl_worker *w = &wl_workers[t];
		uint64_t first = w->next - w->ops, sum = 0;

		first += (WL_CHECK_EVERY - first % WL_CHECK_EVERY) % WL_CHECK_EVERY;
		for (uint64_t i = first; i < w->next; i += WL_CHECK_EVERY)
			sum += operation(data, i);
		if (sum != w->checked)
			wl_wrong("thread %u's %s", t, wrong);
	}
}

void wl_meet(void)
{
	pthread_barrier_wait(&meeting);
}

void wl_pin(unsigned int id)
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

	if (!wl.as_burst)
		TG_MARK(TG_MARK_TASK, WL_KIND_WORKER);
	if (wl.pin)
		wl_pin(w->id);
	if (job->touch)
		job->touch(w);
	pthread_barrier_wait(&gate);	/* all are there */
	pthread_barrier_wait(&gate);	/* all may go */
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
	wl_watch_scan();
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

/* ---- the other one ---- */

static struct {
	pid_t pid;
	int out;			/* what it prints */
	pthread_t keeper;
	uint64_t begin_ns, end_ns;	/* from wl_start_ns on */
	int exit_code;
} burst;

static void __attribute__((noreturn)) become_burst(void)
{
	char *words[BURST_WORDS + 3] = { (char *)wl.burst, "--as-burst" }, *rest = NULL;
	unsigned int count = 2;
	char *text = wl.burst_words ? strdup(wl.burst_words) : NULL;

	for (char *word = text ? strtok_r(text, " ", &rest) : NULL; word; word = strtok_r(NULL, " ", &rest)) {
		if (count == BURST_WORDS + 2)
			tg_die(TG_EXIT_USAGE, "--burst-words: at most %u", BURST_WORDS);
		words[count++] = word;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dup2(burst.out, STDOUT_FILENO) < 0)
		tg_die(TG_EXIT_FAILED, "--burst: its output: %s", strerror(errno));
	execv(wl.burst, words);
	tg_die(TG_EXIT_FAILED, "--burst: %s: %s", wl.burst, strerror(errno));
}

/* Wait until it stops itself; false when it ended instead. */
static bool burst_stopped(void)
{
	int status;

	return waitpid(burst.pid, &status, WUNTRACED) == burst.pid && WIFSTOPPED(status);
}

/* It has prepared everything and waits. */
static void start_burst(void)
{
	burst.out = memfd_create("burst", MFD_CLOEXEC);
	fflush(stdout);
	burst.pid = burst.out < 0 ? -1 : fork();
	if (burst.pid < 0)
		tg_die(TG_EXIT_FAILED, "--burst: %s", strerror(errno));
	if (!burst.pid)
		become_burst();
	if (!burst_stopped())
		tg_die(TG_EXIT_FAILED, "--burst: %s ended before it was ready", wl.burst);
}

/* The thread that lets it work. */
static void *keep_burst(void *arg)
{
	uint64_t at = wl_start_ns + wl.burst_ms * 1000000u;
	struct timespec until = { (time_t)(at / 1000000000u), (long)(at % 1000000000u) };

	TG_MARK(TG_MARK_TASK, WL_KIND_SAMPLER);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
	TG_MARK(TG_MARK_REGION, WL_BEFORE_END);
	TG_MARK(TG_MARK_REGION, WL_DURING_BEGIN);
	burst.begin_ns = wl_now() - wl_start_ns;
	kill(burst.pid, SIGCONT);
	if (!burst_stopped())
		tg_die(TG_EXIT_FAILED, "--burst: %s ended before its work was done", wl.burst);
	burst.end_ns = wl_now() - wl_start_ns;
	TG_MARK(TG_MARK_REGION, WL_DURING_END);
	TG_MARK(TG_MARK_REGION, WL_AFTER_BEGIN);
	__atomic_store_n(&burst_is_over, true, __ATOMIC_RELEASE);
	return arg;
}

static void begin_burst(void)
{
	TG_MARK(TG_MARK_REGION, WL_BEFORE_BEGIN);
	errno = pthread_create(&burst.keeper, NULL, keep_burst, NULL);
	if (errno)
		tg_die(TG_EXIT_FAILED, "--burst: its thread: %s", strerror(errno));
}

/* Its checks and its result are no part of the measured time. */
static void end_burst(void)
{
	int status;

	if (!__atomic_load_n(&burst_is_over, __ATOMIC_ACQUIRE))
		tg_die(TG_EXIT_FAILED, "--burst: it goes on when the run is over: more --iterations, or less for it to do");
	pthread_join(burst.keeper, NULL);
	kill(burst.pid, SIGCONT);
	while (waitpid(burst.pid, &status, 0) < 0 && errno == EINTR)
		;
	burst.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	if (burst.exit_code)
		wl_wrong("the burst ended with %d", burst.exit_code);
}

void wl_print_burst(void)
{
	char text[4096];
	ssize_t length;
	bool any = false;

	if (!wl.burst)
		return;
	printf("  \"burst\": {\"begin_ms\": %.3f, \"end_ms\": %.3f, \"exit_code\": %d, \"result\": ",
	       (double)burst.begin_ns / 1e6, (double)burst.end_ns / 1e6, burst.exit_code);
	lseek(burst.out, 0, SEEK_SET);
	for (; (length = read(burst.out, text, sizeof(text))) > 0; any = true)
		fwrite(text, 1, (size_t)length, stdout);
	printf(any ? "},\n" : "null},\n");
}

/* ---- from start to end ---- */

void wl_start(const struct wl_workload *workload)
{
	job = workload;
	if (wl.burst)
		start_burst();
	start_workers();
	pthread_barrier_wait(&gate);
}

/* Run the threads to their end; returns how long the slowest took. */
uint64_t wl_run(void)
{
	uint64_t elapsed = 0;

	wl_go_first();
	TG_MARK(TG_MARK_TASK, WL_KIND_SAMPLER);
	if (wl.as_burst)
		raise(SIGSTOP);
	wl_start_ns = wl_now();
	sample();
	if (!wl.as_burst)
		TG_MARK(TG_MARK_REGION, WL_REGION_BEGIN);
	if (wl.burst)
		begin_burst();
	pthread_barrier_wait(&gate);
	watch();
	if (wl.as_burst)
		raise(SIGSTOP);
	if (wl.burst)
		TG_MARK(TG_MARK_REGION, WL_AFTER_END);
	if (!wl.as_burst)
		TG_MARK(TG_MARK_REGION, WL_REGION_END);
	sample();
	if (wl.burst)
		end_burst();
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
