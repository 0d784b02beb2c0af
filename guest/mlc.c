// SPDX-License-Identifier: GPL-2.0
/*
 * mlc: loaded latency, after the description of Intel's Memory Latency Checker.  Generator threads
 * stream through their parts of the arena, with an adjustable pause behind every line; one more
 * thread follows a chain of pointers through memory of its own and takes the time per step.
 *
 * The mixes are those of the traffic on the memory bus, with a cache that reads a line before it is written:
 * R only reads; W5 (reads to writes 1:1) adds to a word in every line; W2 (2:1) adds in every second
 * line and reads the others.
 *
 * An operation is one line of a generator.  Without generators (--threads 1) an operation is one step
 * of the chain.  Checks: every generator's lines carry as many additions as it passed over them;
 * the chain is one cycle, and the prober ends where so many steps must end.
 */
#define _GNU_SOURCE
#include "wl.h"

#define LINE		64u
#define MAX_PROBE	(8u << 20)

struct link {
	struct link *next;
	uint64_t ordinal, fill[6];
};

enum mix { R, W2, W5 };

static const char * const mixes[] = { "R", "W2", "W5", NULL };
static unsigned int mix = W2;
static uint64_t delay, probe_size;
static struct link *chain;
static uint64_t nr_links;
static uint64_t (*lines)[LINE / 8];
static uint64_t nr_lines;
static uint64_t generating;	/* threads that still generate */
static uint64_t probe_steps, probe_ns, traffic_ns;

static inline void wait_a_little(void)
{
	for (uint64_t i = delay; i; i--)
		asm volatile("" : : : "memory");
}

/* The lines of generator @g of all. */
static uint64_t from_line(uint64_t g)
{
	return nr_lines * g / (wl.threads - 1);
}

/* @n lines on from @line of [low, high), which is a circle; returns where that ends. */
static uint64_t pass(uint64_t line, uint64_t low, uint64_t high, uint64_t n, uint64_t *sum)
{
	uint64_t total = 0;

	for (; n; n--) {
		volatile uint64_t *word = lines[line];

		if (mix == W5 || (mix == W2 && (line & 1)))
			word[0]++;
		else
			total += word[1];
		if (++line == high)
			line = low;
		if (delay)
			wait_a_little();
	}
	*sum += total;
	return line;
}

static void generate(struct wl_worker *w, uint64_t g)
{
	uint64_t low = from_line(g), high = from_line(g + 1), line = low, sum = 0, first, n, left;

	w->next = wl_ops * g / (wl.threads - 1);
	w->last = wl.seconds ? UINT64_MAX : wl_ops * (g + 1) / (wl.threads - 1);
	while ((n = wl_chunk(w, &first)))
		line = pass(line, low, high, n, &sum);
	w->checksum = sum;
	left = __atomic_sub_fetch(&generating, 1, __ATOMIC_RELEASE);
	if (!left)
		traffic_ns = wl_now() - wl_start_ns;
}

/* Follow the chain: for as long as there are generators, or for all operations when there are none. */
static void probe(struct wl_worker *w)
{
	struct link *at = chain;
	uint64_t before = wl_now(), first, n;
	bool alone = wl.threads == 1;

	w->next = 0;
	w->last = alone && !wl.seconds ? wl_ops : UINT64_MAX;
	while (alone || __atomic_load_n(&generating, __ATOMIC_ACQUIRE)) {
		n = wl_chunk(w, &first);
		if (!n)
			break;
		for (uint64_t i = n; i; i--)
			at = at->next;
		probe_steps += n;
	}
	probe_ns = wl_now() - before;
	if (at->ordinal != probe_steps % nr_links)
		wl_wrong("%llu steps along the chain end at link %llu", (unsigned long long)probe_steps,
			 (unsigned long long)at->ordinal);
	if (!alone)
		w->ops = 0;	/* they depend on time, and the generators' do not */
}

static void work(struct wl_worker *w)
{
	if (w->id + 1 == wl.threads)
		probe(w);
	else
		generate(w, w->id);
}

/* One cycle through all links in random order (Sattolo's shuffle). */
static void make_chain(void)
{
	uint64_t state = wl_hash(2, 0) | 1;
	struct link *at = chain;

	for (uint64_t i = 0; i < nr_links; i++)
		chain[i].next = &chain[i];
	for (uint64_t i = nr_links - 1; i; i--) {
		uint64_t j = wl_below(wl_next(&state), i);
		struct link *next = chain[i].next;

		chain[i].next = chain[j].next;
		chain[j].next = next;
	}
	for (uint64_t i = 0; i < nr_links; i++, at = at->next)
		at->ordinal = i;
}

static void check(void)
{
	if (!probe_size)
		probe_size = wl.size / 8 < MAX_PROBE ? wl.size / 8 : MAX_PROBE;
	if (probe_size < LINE * 2 || probe_size % LINE || probe_size > wl.size / 2)
		tg_die(TG_EXIT_USAGE, "--probe-size: %llu is not a multiple of %u up to half of --size",
		       (unsigned long long)probe_size, LINE);
}

static void prepare(void)
{
	nr_links = (wl.threads == 1 ? wl.size : probe_size) / LINE;
	chain = wl_take(nr_links * LINE, "the prober's chain");
	make_chain();
	nr_lines = wl_left() / LINE;
	lines = wl_take(nr_lines * LINE, "the generators' lines");
	for (uint64_t i = 0; i < nr_lines; i++)
		lines[i][1] = wl_mix(i + wl.seed);
	generating = wl.threads - 1;
}

/* As many lines as the generators have, or links when there are none. */
static uint64_t unit(void)
{
	return wl.threads == 1 ? nr_links : nr_lines;
}

/* How often a generator of lines [low, high) passed over @line in @ops operations. */
static uint64_t passes(uint64_t line, uint64_t low, uint64_t high, uint64_t ops)
{
	return ops / (high - low) + (line - low < ops % (high - low));
}

static void verify_lines(uint64_t g)
{
	uint64_t low = from_line(g), high = from_line(g + 1);

	for (uint64_t i = low; i < high; i++) {
		bool written = mix == W5 || (mix == W2 && (i & 1));
		uint64_t wanted = written ? passes(i, low, high, wl_workers[g].ops) : 0;

		if (lines[i][0] != wanted)
			wl_wrong("line %llu was written %llu times instead of %llu", (unsigned long long)i,
				 (unsigned long long)lines[i][0], (unsigned long long)wanted);
		if (lines[i][1] != wl_mix(i + wl.seed))
			wl_wrong("line %llu holds another line's content", (unsigned long long)i);
	}
}

static void verify(void)
{
	struct link *at = chain;

	for (uint64_t i = 0; i < nr_links; i++, at = at->next) {
		if (at < chain || at >= chain + nr_links || at->ordinal != i) {
			wl_wrong("the chain is broken at link %llu", (unsigned long long)i);
			break;
		}
	}
	for (uint64_t g = 0; g + 1 < wl.threads; g++)
		verify_lines(g);
}

/* Of the contents, which the prober does not change. */
static uint64_t checksum(void)
{
	return wl_sum(lines, nr_lines * LINE) ^ nr_links;
}

static void sabotage(const char *kind)
{
	if (!strcmp(kind, "link"))
		chain[wl_below(wl_hash(99, 0), nr_links)].ordinal ^= 1;
	else
		lines[wl_below(wl_hash(99, 0), nr_lines)][!strcmp(kind, "content")] ^= 1;
}

static uint64_t lines_done(void)
{
	uint64_t ops = 0;

	for (uint64_t g = 0; g + 1 < wl.threads; g++)
		ops += wl_workers[g].ops;
	return ops;
}

static void report(void)
{
	uint64_t done = lines_done(), written = mix == W5 ? done : mix == W2 ? done / 2 : 0;

	printf("  \"probe\": {\"links\": %llu, \"steps\": %llu, \"elapsed_ns\": %llu, \"mean_ns\": %.2f},\n",
	       (unsigned long long)nr_links, (unsigned long long)probe_steps, (unsigned long long)probe_ns,
	       probe_steps ? (double)probe_ns / (double)probe_steps : 0.0);
	printf("  \"traffic\": {\"bytes_read\": %llu, \"bytes_written\": %llu, \"elapsed_ns\": %llu, "
	       "\"mb_s\": %.1f},\n", (unsigned long long)done * LINE, (unsigned long long)written * LINE,
	       (unsigned long long)traffic_ns,
	       traffic_ns ? (double)(done + written) * LINE * 1e3 / (double)traffic_ns : 0.0);
}

static const struct wl_option options[] = {
	{ "mix", WL_CHOICE, &mix, 0, 0, mixes, "the generators' traffic, W2: 2 reads to 1 write, W5: 1 to 1", false },
	{ "delay", WL_NUMBER, &delay, 0, 1000000, NULL, "turns of an empty loop behind every line", false },
	{ "probe-size", WL_SIZE, &probe_size, 2 * LINE, 1ull << 40, NULL,
	  "memory of the prober's chain, else an eighth, at most 8M", false },
	{ 0 },
};

static const struct wl_workload mlc = {
	.name = "mlc",
	.purpose = "Loaded latency: N-1 threads make traffic, one follows a chain of pointers.",
	.options = options,
	.defaults = { .iterations = 4, .threads = 2 },
	.check = check,
	.unit = unit,
	.prepare = prepare,
	.work = work,
	.sabotage = sabotage,
	.verify = verify,
	.checksum = checksum,
	.report = report,
};

int main(int argc, char **argv)
{
	return wl_main(&mlc, argc, argv);
}
