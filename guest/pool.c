// SPDX-License-Identifier: GPL-2.0
/*
 * pool: a buffer pool that many processes map, as a database with a process for each connection has it.
 *
 * The arena is shared memory.  Each of --backends processes maps all of it and has --own bytes of private memory.
 * Each thread gives its operations, a chunk at a time, to one of its backends, drawn at random, and waits for it.
 * As many backends work at a time as there are threads.  An operation is a visit of a page of the pool, drawn by zipf's
 * law, and a write to private memory.  With --active below --backends the others do nothing.
 *
 * The tags and counters of wl_arena.c are the check; a page has a counter for each thread, and one backend of a thread works
 * at a time.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "node_fill.h"
#include "wl_zipf.h"

#define MOST_BACKENDS	4000u
#define CHECK_S		10

/* Shared by a thread and its backend. */
struct desk {
	uint32_t turn;		/* 0: the thread's, 1: the backend's */
	uint64_t count, random, writes, wrong, checksum, own;
} __attribute__((aligned(64)));

static uint64_t nr_backends = 200, nr_active, theta_milli = 990, write_percent = 25, own_size = 64 << 10, leave;
static uint64_t stride;
static struct wl_zipf ranks;
static struct desk *desks;
static pid_t backend[MOST_BACKENDS];

/* Give the turn to the other side. */
static void pass(struct desk *d, uint32_t turn)
{
	__atomic_store_n(&d->turn, turn, __ATOMIC_RELEASE);
	syscall(SYS_futex, &d->turn, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Wait for the turn, however long; false if @other, a child, has ended instead. 0: no child. */
static bool await(struct desk *d, uint32_t turn, pid_t other)
{
	struct timespec most = { CHECK_S, 0 };

	while (__atomic_load_n(&d->turn, __ATOMIC_ACQUIRE) != turn)
		if (syscall(SYS_futex, &d->turn, FUTEX_WAIT, !turn, &most, NULL, 0) && errno == ETIMEDOUT &&
		    other && waitpid(other, NULL, WNOHANG))
			return false;
	return true;
}

/* The visits of one chunk. */
static void serve(struct desk *d, unsigned int thread, volatile uint64_t *own)
{
	const uint64_t pages = wl_pages, base = wl_tag_base(), writing = write_percent * 256 / 100;
	const uint64_t own_pages = own_size / WL_PAGE;
	uint64_t state = d->random;

	for (uint64_t n = d->count; n; n--) {
		uint64_t page = wl_zipf_draw(&ranks, &state) * stride % pages;
		volatile uint64_t *word = wl_page(page);

		if (word[0] != wl_mix(page + base))
			d->wrong++;
		if ((state >> 16 & 0xff) < writing) {
			word[WL_FIRST_COUNTER + thread]++;
			d->writes++;
		}
		own[wl_below(state, own_pages) * (WL_PAGE / 8)]++;
		d->own++;
		d->checksum += page;
	}
	d->random = state;
}

static void __attribute__((noreturn)) be_backend(unsigned int number)
{
	struct desk *d = &desks[number];
	unsigned int thread = number % (unsigned int)wl.threads;
	volatile uint64_t *own = mmap(NULL, own_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t sum;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (own == MAP_FAILED)
		tg_die(TG_EXIT_FAILED, "backend %u: %s", number, strerror(errno));
	if (!wl.as_burst)
		TG_MARK(TG_MARK_TASK, WL_KIND_WORKER);
	if (wl.pin)
		wl_pin(thread);
	/* Every page of the pool is mapped before the measured part: minor faults are none of its work. */
	for (uint64_t page = 0; page < wl_pages; page++)
		d->wrong += *wl_page(page) != wl_tag(page);
	for (uint64_t i = 0; i < own_size; i += WL_PAGE)
		own[i / 8] = 0;
	for (;;) {
		pass(d, 0);
		await(d, 1, 0);
		serve(d, thread, own);
		sum = 0;
		for (uint64_t i = 0; i < own_size; i += WL_PAGE)
			sum += own[i / 8];
		if (sum != d->own)
			d->wrong++;
	}
}

static void check(void)
{
	if (!nr_active)
		nr_active = nr_backends;
	if (nr_active > nr_backends)
		tg_die(TG_EXIT_USAGE, "--active: %llu is more than --backends %llu", (unsigned long long)nr_active,
		       (unsigned long long)nr_backends);
	if (nr_active < wl.threads)
		tg_die(TG_EXIT_USAGE, "--active: %llu is less than --threads %llu", (unsigned long long)nr_active,
		       (unsigned long long)wl.threads);
	if (own_size % WL_PAGE)
		tg_die(TG_EXIT_USAGE, "--own: %llu is not a number of pages", (unsigned long long)own_size);
}

static int make_file(void)
{
	int fd = memfd_create("pool", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, (off_t)wl.size))
		tg_die(TG_EXIT_FAILED, "shared memory: %s", strerror(errno));
	return fd;
}

static void start_backends(void)
{
	desks = mmap(NULL, nr_backends * sizeof(*desks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (desks == MAP_FAILED)
		tg_die(TG_EXIT_FAILED, "memory of the backends: %s", strerror(errno));
	fflush(stdout);
	for (unsigned int i = 0; i < nr_backends; i++) {
		desks[i].turn = 1;
		desks[i].random = wl_hash(2, i) | 1;
		backend[i] = fork();
		if (backend[i] < 0)
			tg_die(TG_EXIT_FAILED, "backend %u: %s", i, strerror(errno));
		if (!backend[i])
			be_backend(i);
		/* Started one by one: page faults of all backends at once would contend for locks. */
		if (!await(&desks[i], 0, backend[i]))
			tg_die(TG_EXIT_FAILED, "backend %u did not start", i);
	}
}

static void prepare(void)
{
	stride = wl_stride(wl_pages);
	wl_zipf_make(&ranks, wl_pages, theta_milli);
	wl_pages_fill();
	start_backends();
	if (leave)
		tg_node_fill(0, leave);
}

static void work(struct wl_worker *w)
{
	const uint64_t mine = (nr_active - w->id + wl.threads - 1) / wl.threads;
	uint64_t state = w->random, first, n;

	while ((n = wl_chunk(w, &first))) {
		unsigned int number = w->id + (unsigned int)(wl_below(wl_next(&state), mine) * wl.threads);
		struct desk *d = &desks[number];

		d->count = n;
		pass(d, 1);
		if (!await(d, 0, backend[number]))
			tg_die(TG_EXIT_FAILED, "backend %u has ended", number);
	}
}

/* The backends' sums belong to their threads. */
static void verify(void)
{
	uint64_t worked = 0;

	for (unsigned int i = 0; i < nr_backends; i++) {
		struct wl_worker *w = &wl_workers[i % wl.threads];

		worked += !!desks[i].own;
		w->writes += desks[i].writes;
		w->wrong += desks[i].wrong;
		w->checksum += desks[i].checksum;
		kill(backend[i], SIGKILL);
		waitpid(backend[i], NULL, 0);
	}
	if (worked > nr_active)
		wl_wrong("%llu backends worked, and %llu are active", (unsigned long long)worked,
			 (unsigned long long)nr_active);
	wl_pages_verify();
}

static uint64_t unit(void)
{
	return wl_pages;
}

static void report(void)
{
	uint64_t worked = 0;

	for (unsigned int i = 0; i < nr_backends; i++)
		worked += !!desks[i].own;
	printf("  \"backends_that_worked\": %llu,\n", (unsigned long long)worked);
}

static const struct wl_option options[] = {
	{ "backends", WL_NUMBER, &nr_backends, 1, MOST_BACKENDS, NULL, "processes that map the pool", false },
	{ "active", WL_NUMBER, &nr_active, 0, MOST_BACKENDS, NULL, "of these, how many work (0: all)", false },
	{ "own", WL_SIZE, &own_size, WL_PAGE, 1ull << 30, NULL, "private memory of each backend", false },
	{ "theta", WL_NUMBER, &theta_milli, 0, 2000, NULL, "1000 times the exponent of the pages' weights", false },
	{ "write-percent", WL_NUMBER, &write_percent, 0, 100, NULL, "share of visits that also write", false },
	{ "leave", WL_SIZE, &leave, 1, UINT64_MAX, NULL, "so much of node 0 is left when all backends are there", false },
	{ 0 },
};

static const struct wl_workload workload = {
	.name = "pool",
	.purpose = "A buffer pool that many processes map; an operation is a visit of one of its pages.",
	.options = options,
	.defaults = { .iterations = 64 },
	.check = check,
	.file = make_file,
	.unit = unit,
	.prepare = prepare,
	.work = work,
	.sabotage = wl_pages_sabotage,
	.verify = verify,
	.report = report,
};

int main(int argc, char **argv)
{
	return wl_main(&workload, argc, argv);
}
