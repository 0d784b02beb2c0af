// SPDX-License-Identifier: GPL-2.0
/*
 * pyheap: a program that nobody here wrote has the memory.  Each of --threads is an interpreter of Python, a
 * process of its own, that builds a cache of records in a dict and looks up keys in it with zipf's weights.
 * What it runs is pyheap.py, which has the lines that the two speak in.
 *
 * This program starts them, has them begin at once, and watches from outside.  There is no arena: their
 * memory is what their allocators make of it, and is asked about by process.  So it is bound for as long as the
 * interpreters live, or not at all: --start-node is for the bounds, all of it fast and all of it slow.
 *
 * Checks: each record that is looked up, all of them at the end, and their versions against the writes.  A child
 * that ends or says what it should not ends the run; children do not outlive it.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "wl.h"

#define NAME		"pyheap"
#define LEAST_SIZE	65536u	/* of one child's heap */
#define BATCH		4096u
#define MAX_SAMPLES	20000u
#define END_MS		1000u	/* in which a child that closed its output has ended */

struct child {
	unsigned int id;
	pid_t pid;
	int to, from;				/* its input and output */
	char said[256];				/* since its last line */
	size_t used;
	clockid_t clock;			/* of its CPU time */
	uint64_t cpu_begin_ns;
	unsigned long long objects, heap_bytes, ops, writes, wrong, checksum, bad, versions;
	unsigned int first_probe, nr_probes;
};

/* What is waited for: the word that an answer begins with, and what a child does until it comes. */
struct stage {
	const char *word, *meanwhile;
	bool (*take)(struct child *c);		/* false: the answer is not one */
	bool sampled;
};

static const char *script, *python = "/usr/bin/python3", *python_version;
static uint64_t theta_milli = 990, write_percent = 5;
static struct child children[WL_MAX_THREADS];
static char version[32];
static void *probe[WL_MAX_PROBES];
static int answer[WL_MAX_PROBES];
static struct wl_sample samples[MAX_SAMPLES];
static unsigned int nr_samples;

/* ---- what a child did that it should not ---- */

static void __attribute__((noreturn)) ended(const struct child *c, const struct stage *s)
{
	const struct timespec pause = { 0, 1000000 };
	int status = 0;
	pid_t done = 0;

	/* Its files are closed before it has ended; one that lives on has only closed them. */
	for (unsigned int ms = 0; !done && ms < END_MS; ms++) {
		done = waitpid(c->pid, &status, WNOHANG);
		if (!done)
			nanosleep(&pause, NULL);
	}
	if (done != c->pid)
		tg_die(TG_EXIT_FAILED, "child %u (process %d) closed its output while it %s", c->id, c->pid,
		       s->meanwhile);
	if (WIFSIGNALED(status))
		tg_die(TG_EXIT_FAILED, "child %u (process %d) was killed by signal %d while it %s", c->id, c->pid,
		       WTERMSIG(status), s->meanwhile);
	tg_die(TG_EXIT_FAILED, "child %u (process %d) ended with exit code %d while it %s", c->id, c->pid,
	       WEXITSTATUS(status), s->meanwhile);
}

static void __attribute__((noreturn)) nonsense(struct child *c, const struct stage *s)
{
	for (size_t i = 0; i < c->used; i++)
		if (!isprint((unsigned char)c->said[i]))
			c->said[i] = i + 1 < c->used ? '?' : 0;
	tg_die(TG_EXIT_FAILED, "child %u (process %d) said '%.100s' while it %s, which is not a line '%s ...'", c->id,
	       c->pid, c->said, s->meanwhile, s->word);
}

/* ---- lines ---- */

static void __attribute__((format(printf, 2, 3))) tell(const struct child *c, const char *format, ...)
{
	char line[64];
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	/* One that has ended cannot be told; that it has is found when it is to answer. */
	if (write(c->to, line, (size_t)length) != length && errno != EPIPE)
		tg_die(TG_EXIT_FAILED, "writing to child %u (process %d): %s", c->id, c->pid, strerror(errno));
}

/* Take what a child has written; true when it is a whole line, which then ends in NUL. */
static bool receive(struct child *c, const struct stage *s)
{
	ssize_t got = read(c->from, c->said + c->used, sizeof(c->said) - 1 - c->used);
	const char *end;

	if (got <= 0)
		ended(c, s);
	c->used += (size_t)got;
	c->said[c->used] = 0;
	end = memchr(c->said, '\n', c->used);
	if (!end && c->used < sizeof(c->said) - 1)
		return false;
	if (!end || end != c->said + c->used - 1)
		nonsense(c, s);
	return true;
}

static void sample(void);

/* Wait until each child has said its line. */
static void await(const struct stage *s)
{
	struct pollfd fds[WL_MAX_THREADS];
	unsigned int left = (unsigned int)wl.threads;

	for (unsigned int i = 0; i < wl.threads; i++)
		fds[i] = (struct pollfd){ .fd = children[i].from, .events = POLLIN };
	while (left) {
		int ready = poll(fds, wl.threads, s->sampled ? (int)wl.sample_ms : -1);

		if (ready < 0 && errno != EINTR)
			tg_die(TG_EXIT_FAILED, "waiting for children: %s", strerror(errno));
		if (!ready)
			sample();
		for (unsigned int i = 0; ready > 0 && i < wl.threads; i++) {
			struct child *c = &children[i];

			if (!fds[i].revents || !receive(c, s))
				continue;
			if (!s->take(c))
				nonsense(c, s);
			c->used = 0;
			fds[i].fd = -1;
			left--;
		}
	}
}

static bool take_ready(struct child *c)
{
	char rest;

	if (sscanf(c->said, "ready %llu %llu %31s %c", &c->objects, &c->heap_bytes, version, &rest) != 3)
		return false;
	if (python_version && strcmp(version, python_version))
		tg_die(TG_EXIT_FAILED, "--python-version: %s is Python %s, not %s", python, version, python_version);
	return c->objects;
}

static bool take_done(struct child *c)
{
	struct wl_worker *w = &wl_workers[c->id];
	unsigned long long ops;
	char rest;

	w->elapsed_ns = wl_now() - wl_start_ns;
	w->cpu_ns = tg_clock_ns(c->clock) - c->cpu_begin_ns;
	return sscanf(c->said, "done %llu %llu %llu %llx %c", &ops, &c->writes, &c->wrong, &c->checksum,
		      &rest) == 4 && ops == c->ops && c->writes <= ops;
}

static bool take_checked(struct child *c)
{
	char rest;

	return sscanf(c->said, "checked %llu %llu %c", &c->bad, &c->versions, &rest) == 2;
}

static const struct stage building = { "ready", "built its heap", take_ready, false };
static const struct stage working = { "done", "looked up", take_done, true };
static const struct stage checking = { "checked", "checked its heap", take_checked, false };

/* ---- start ---- */

/* Child i to the i-th CPU that we may use, around, as wl_run.c has it for threads. */
static void pin(unsigned int id)
{
	cpu_set_t allowed, one;
	int cpu = -1;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return;
	for (int left = (int)id % CPU_COUNT(&allowed); left >= 0; left--)
		do
			cpu++;
		while (!CPU_ISSET(cpu, &allowed));
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

/* All that becomes the interpreter's: whose work it is, where, and with which memory. */
static void prepare_child(unsigned int id, pid_t parent)
{
	int err;

	TG_MARK(TG_MARK_TASK, WL_KIND_WORKER);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(TG_EXIT_FAILED);
	signal(SIGPIPE, SIG_DFL);
	if (wl.pin)
		pin(id);
	err = wl.start_node < 0 ? 0 : tg_bind_task_memory(wl.start_node);
	if (err)
		tg_die(TG_EXIT_FAILED, "binding child %u to node %d: %s", id, wl.start_node, strerror(-err));
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	/* The same addresses in each run, where that is allowed. */
	personality(ADDR_NO_RANDOMIZE);
}

static void __attribute__((noreturn)) become_python(unsigned int id)
{
	/* -I would be shorter, and would have strings hashed with another seed in each run. */
	char *env[] = { "LANG=C", "PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1", "PYTHONSAFEPATH=1", NULL };
	char number[5][24];
	char *words[] = { (char *)python, "-s", "-S", (char *)script, number[0], number[1], number[2], number[3],
			  number[4], NULL };
	const uint64_t value[] = { wl.size / wl.threads, wl.seed, id, theta_milli, write_percent };

	for (unsigned int i = 0; i < 5; i++)
		snprintf(number[i], sizeof(number[i]), "%llu", (unsigned long long)value[i]);
	execve(python, words, env);
	tg_die(TG_EXIT_FAILED, "%s: %s", python, strerror(errno));
}

static void start_child(unsigned int id)
{
	struct child *c = &children[id];
	int in[2], out[2];
	pid_t parent = getpid();

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		tg_die(TG_EXIT_FAILED, "pipes for child %u: %s", id, strerror(errno));
	c->id = id;
	c->pid = fork();
	if (c->pid < 0)
		tg_die(TG_EXIT_FAILED, "starting child %u of %llu: %s", id, (unsigned long long)wl.threads,
		       strerror(errno));
	if (!c->pid) {
		prepare_child(id, parent);
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		become_python(id);
	}
	close(in[0]);
	close(out[1]);
	c->to = in[1];
	c->from = out[0];
	errno = clock_getcpuclockid(c->pid, &c->clock);
	if (errno)
		tg_die(TG_EXIT_FAILED, "the CPU clock of child %u: %s", id, strerror(errno));
}

/* ---- where their memory lies ---- */

static FILE *open_proc(const struct child *c, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", c->pid, name);
	return fopen(path, "re");
}

/* Pages in memory: all of them, and those that it shares with files. */
static void read_statm(const struct child *c, unsigned long long *resident, unsigned long long *shared)
{
	FILE *file = open_proc(c, "statm");

	*resident = *shared = 0;
	if (file && fscanf(file, "%*u %llu %llu", resident, shared) != 2)
		*resident = *shared = 0;
	if (file)
		fclose(file);
}

/* The "N0=12 N1=3" of a line of numa_maps. */
static void add_nodes(const char *line, struct wl_placement *p)
{
	for (const char *at = strstr(line, " N"); at; at = strstr(at + 1, " N")) {
		unsigned long long pages;
		unsigned int node;

		if (sscanf(at, " N%u=%llu", &node, &pages) != 2 || node >= TG_MAX_NODES)
			continue;
		p->by_node[node] += pages;
		p->pages += pages;
	}
}

/* Pages of no file, of all children, by node. */
static struct wl_placement look(void)
{
	struct wl_placement p = { 0 };
	unsigned long long resident, shared;
	size_t size = 0;
	char *line = NULL;

	for (unsigned int i = 0; i < wl.threads; i++) {
		FILE *file = open_proc(&children[i], "numa_maps");

		if (!file) {
			/* The kernel knows no nodes. */
			read_statm(&children[i], &resident, &shared);
			p.pages += resident - shared;
			p.absent += resident - shared;
			continue;
		}
		while (getline(&line, &size, file) > 0)
			if (!strstr(line, " file="))
				add_nodes(line, &p);
		fclose(file);
	}
	free(line);
	return p;
}

static uint64_t resident_bytes(void)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < wl.threads; i++) {
		unsigned long long resident, shared;

		read_statm(&children[i], &resident, &shared);
		sum += resident * WL_PAGE;
	}
	return sum;
}

/* tg_query_nodes() for another process. */
static bool query(const struct child *c, unsigned long count, void **pages, int *nodes)
{
	return !syscall(SYS_move_pages, c->pid, count, pages, NULL, nodes, 0);
}

/* Pages that are in memory now, those of one child after those of another. */
struct found {
	uint64_t count, room;
	void **page;
	uint64_t end[WL_MAX_THREADS];		/* of each child's */
};

static void keep(struct found *f, void *page)
{
	if (f->count == f->room) {
		f->room = 2 * f->room + BATCH;
		f->page = realloc(f->page, f->room * sizeof(*f->page));
		if (!f->page)
			tg_die(TG_EXIT_FAILED, "no memory for a list of %llu pages", (unsigned long long)f->room);
	}
	f->page[f->count++] = page;
}

static void find_in_range(struct found *f, const struct child *c, unsigned long from, unsigned long to)
{
	static void *page[BATCH];
	static int node[BATCH];

	while (from < to) {
		unsigned long count = 0;

		for (; from < to && count < BATCH; from += WL_PAGE)
			page[count++] = (void *)from;
		if (!query(c, count, page, node))
			return;
		for (unsigned long i = 0; i < count; i++)
			if (node[i] >= 0)
				keep(f, page[i]);
	}
}

/* A line of maps: private, writable, and neither of a file nor the stack. */
static bool is_heap(const char *line, unsigned long *from, unsigned long *to)
{
	char mode[5], name[16] = "";
	unsigned long inode;

	if (sscanf(line, "%lx-%lx %4s %*s %*s %lu %15s", from, to, mode, &inode, name) < 4)
		return false;
	return !strcmp(mode, "rw-p") && !inode && (!name[0] || !strcmp(name, "[heap]") || !strncmp(name, "[anon", 5));
}

static void find_pages(struct found *f, const struct child *c)
{
	FILE *file = open_proc(c, "maps");
	unsigned long from, to;
	size_t size = 0;
	char *line = NULL;

	while (file && getline(&line, &size, file) > 0)
		if (is_heap(line, &from, &to))
			find_in_range(f, c, from, to);
	if (file)
		fclose(file);
	free(line);
	f->end[c->id] = f->count;
}

/* One page at a seeded place in each of --probes equal stretches of what is in memory; as wl_choose_probes(). */
static void choose_probes(void)
{
	struct found f = { 0 };
	unsigned int nr_probes, owner = 0;

	for (unsigned int i = 0; i < wl.threads; i++)
		find_pages(&f, &children[i]);
	nr_probes = (unsigned int)(wl.probes < f.count ? wl.probes : f.count);
	for (unsigned int i = 0; i < nr_probes; i++) {
		uint64_t from = f.count * i / nr_probes, to = f.count * (i + 1) / nr_probes;
		uint64_t at = from + wl_mix(wl.seed + i) % (to - from);

		while (at >= f.end[owner])
			children[++owner].first_probe = i;
		probe[i] = f.page[at];
		children[owner].nr_probes++;
	}
	free(f.page);
}

static void sample(void)
{
	struct wl_sample *now = &samples[nr_samples];

	if (nr_samples == MAX_SAMPLES)
		return;
	now->ns = wl_now() - wl_start_ns;
	for (unsigned int i = 0; i < wl.threads; i++) {
		const struct child *c = &children[i];

		if (!c->nr_probes || !query(c, c->nr_probes, probe + c->first_probe, answer))
			continue;
		for (unsigned int p = 0; p < c->nr_probes; p++) {
			now->known += answer[p] >= 0;
			now->fast += answer[p] >= 0 && wl_node_is_fast[answer[p]];
		}
	}
	nr_samples++;
	wl_watch_scan();
}

/* ---- the run ---- */

static void deal_operations(void)
{
	uint64_t objects = 0;

	for (unsigned int i = 0; i < wl.threads; i++)
		objects += children[i].objects;
	wl_ops = wl.ops ? wl.ops : wl.iterations * objects;
	for (unsigned int i = 0; i < wl.threads; i++)
		children[i].ops = wl_ops * (i + 1) / wl.threads - wl_ops * i / wl.threads;
}

/* --sabotage early-KIND: before the region; child: in it; value: between it and the check. */
static void sabotage(const char *kind)
{
	if (!wl.sabotage || strcmp(wl.sabotage, kind))
		return;
	if (strstr(kind, "child"))
		kill(children[0].pid, SIGKILL);
	else
		tell(&children[0], "spoil\n");
}

/* Returns how long the slowest took. Markers, samples and clock in the order of wl_run(). */
static uint64_t run(void)
{
	uint64_t elapsed = 0;

	wl_go_first();
	TG_MARK(TG_MARK_TASK, WL_KIND_SAMPLER);
	for (unsigned int i = 0; i < wl.threads; i++)
		children[i].cpu_begin_ns = tg_clock_ns(children[i].clock);
	wl_start_ns = wl_now();
	sample();
	TG_MARK(TG_MARK_REGION, WL_REGION_BEGIN);
	for (unsigned int i = 0; i < wl.threads; i++)
		tell(&children[i], "go %llu\n", children[i].ops);
	sabotage("child");
	await(&working);
	TG_MARK(TG_MARK_REGION, WL_REGION_END);
	sample();
	for (unsigned int i = 0; i < wl.threads; i++)
		if (wl_workers[i].elapsed_ns > elapsed)
			elapsed = wl_workers[i].elapsed_ns;
	return elapsed;
}

static void verify(void)
{
	for (unsigned int i = 0; i < wl.threads; i++)
		tell(&children[i], "check\n");
	await(&checking);
	for (unsigned int i = 0; i < wl.threads; i++) {
		const struct child *c = &children[i];

		if (c->wrong)
			wl_wrong("child %u met %llu wrong records", i, c->wrong);
		if (c->bad)
			wl_wrong("child %u has %llu records that are not what was written", i, c->bad);
		if (c->versions != c->writes)
			wl_wrong("child %u wrote %llu times and its records have %llu of it", i, c->writes,
				 c->versions);
	}
}

/* ---- the result, as wl_json.c prints that of others ---- */

static void print_threads(void)
{
	printf("  \"threads\": [");
	for (unsigned int i = 0; i < wl.threads; i++)
		printf("%s\n    {\"ops\": %llu, \"writes\": %llu, \"cpu_ns\": %llu, \"elapsed_ns\": %llu}",
		       i ? "," : "", children[i].ops, children[i].writes,
		       (unsigned long long)wl_workers[i].cpu_ns, (unsigned long long)wl_workers[i].elapsed_ns);
	printf("],\n");
}

static void print_samples(void)
{
	printf("  \"samples\": [");
	for (unsigned int i = 0; i < nr_samples; i++)
		printf("%s[%.3f, %u, %u]", i ? ", " : "", (double)samples[i].ns / 1e6, samples[i].fast,
		       samples[i].known);
	printf("],\n");
}

static void print_kthreads(const struct wl_counters *before, const struct wl_counters *after)
{
	printf("  \"kthreads\": [");
	for (unsigned int i = 0; i < after->nr_kthreads; i++)
		printf("%s{\"name\": \"%s\", \"cpu_ns\": %llu}", i ? ", " : "", after->kthreads[i].name,
		       (unsigned long long)wl_kthread_ns(before, &after->kthreads[i]));
	printf("],\n");
}

static void print(const struct wl_result *r, uint64_t rss)
{
	unsigned long long objects = 0, heap = 0, checksum = 0;

	for (unsigned int i = 0; i < wl.threads; i++) {
		objects += children[i].objects;
		heap += children[i].heap_bytes;
		checksum += children[i].checksum;
	}
	printf("{\n  \"schema\": \"terrace.workload\",\n  \"version\": 1,\n  \"workload\": \"" NAME "\",\n");
	wl_print_options();
	printf("  \"elapsed_ns\": %llu,\n  \"ops\": %llu,\n", (unsigned long long)r->elapsed_ns,
	       (unsigned long long)wl_ops);
	printf("  \"python\": \"%s\",\n  \"objects\": %llu,\n  \"heap_bytes\": %llu,\n  \"rss_bytes\": %llu,\n",
	       version, objects, heap, (unsigned long long)rss);
	wl_print_placement("placed_first", &r->first);
	wl_print_placement("placed_last", &r->last);
	print_samples();
	wl_print_scan();
	print_threads();
	wl_print_vmstat(&r->before, &r->after);
	print_kthreads(&r->before, &r->after);
	printf("  \"shootdowns\": %llu,\n", (unsigned long long)(r->after.shootdowns - r->before.shootdowns));
	printf("  \"checksum\": \"%016llx\",\n  \"wrong\": %llu,\n  \"ok\": %s\n}\n", checksum,
	       (unsigned long long)wl_nr_wrong, wl_nr_wrong ? "false" : "true");
}

/* ---- options ---- */

static void refuse(bool given, const char *name, const char *why)
{
	if (given)
		tg_die(TG_EXIT_USAGE, "--%s: not with " NAME ": %s", name, why);
}

static void check(void)
{
	static const char * const kinds[] = { "value", "early-value", "child", "early-child", NULL };
	unsigned int kind = 0;

	refuse(wl.seconds, "seconds", "an interpreter is told a number of look-ups; give --ops or --iterations");
	refuse(wl.place, "place", "its memory has no page numbers that another run has too");
	refuse(wl.weights, "weights", "its memory is no range that is known before");
	refuse(wl.burst, "burst", "nobody works beside it");
	refuse(wl.thp, "thp", "who allocates is the interpreter, and it asks for none");
	if (!script)
		tg_die(TG_EXIT_USAGE, "--script FILE is needed: what the interpreters run, guest/pyheap.py");
	if (access(script, R_OK))
		tg_die(TG_EXIT_USAGE, "--script: %s: %s", script, strerror(errno));
	if (access(python, X_OK))
		tg_die(TG_EXIT_USAGE, "--python: %s: %s", python, strerror(errno));
	if (wl.size / wl.threads < LEAST_SIZE)
		tg_die(TG_EXIT_USAGE, "--size: %llu bytes are too few for %llu interpreters; at least %u each",
		       (unsigned long long)wl.size, (unsigned long long)wl.threads, LEAST_SIZE);
	if (wl.start_node >= 0 && !wl_node_has_memory[wl.start_node])
		tg_die(TG_EXIT_USAGE, "--start-node: node %d has no memory", wl.start_node);
	while (wl.sabotage && kinds[kind] && strcmp(kinds[kind], wl.sabotage))
		kind++;
	if (!kinds[kind])
		tg_die(TG_EXIT_USAGE, "--sabotage: '%s' is not value, child or early- and one of these", wl.sabotage);
}

static const struct wl_option options[] = {
	{ "script", WL_TEXT, &script, 0, 0, NULL, "what the interpreters run: guest/pyheap.py", false },
	{ "python", WL_TEXT, &python, 0, 0, NULL, "the interpreter, else /usr/bin/python3", false },
	{ "python-version", WL_TEXT, &python_version, 0, 0, NULL, "refuse an interpreter of another version", false },
	{ "theta", WL_NUMBER, &theta_milli, 0, 2000, NULL, "1000 times the exponent of zipf's law; 0: all alike",
	  false },
	{ "write-percent", WL_NUMBER, &write_percent, 0, 100, NULL, "share of the look-ups that also write", false },
	{ "threads", WL_NUMBER, &wl.threads, 1, WL_MAX_THREADS, NULL, "interpreters, each with its share of --size",
	  false },
	{ "start-node", WL_NODE, &wl.start_node, 0, TG_MAX_NODES - 1, NULL,
	  "bind the interpreters' memory there for life; -1: not", false },
	{ 0 },
};

int main(int argc, char **argv)
{
	struct wl_result *r = &wl_result;
	uint64_t rss;

	wl.iterations = 8;
	wl_parse(options, NAME,
		 "Look-ups in dicts of Python; an operation is a look-up, an iteration as many as there are objects.",
		 argc, argv);
	wl_read_nodes();
	check();
	signal(SIGPIPE, SIG_IGN);
	for (unsigned int i = 0; i < wl.threads; i++)
		start_child(i);
	sabotage("early-child");
	await(&building);
	deal_operations();
	sabotage("early-value");
	rss = resident_bytes();
	r->first = look();
	choose_probes();
	wl_read_counters(&r->before);
	wl_set_late();
	r->elapsed_ns = run();
	wl_read_counters(&r->after);
	r->last = look();
	sabotage("value");
	verify();
	print(r, rss);
	return wl_nr_wrong ? TG_EXIT_FAILED : 0;
}
