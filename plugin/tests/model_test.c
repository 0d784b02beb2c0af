// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the memory-timing model, in user space and under the sanitizers.  Prints TAP.
 * tests/unit/test_timing_model.py compiles and runs it.
 */
#include "common.h"

/* ---- caches and TLBs against a slower, obvious model ---- */

struct reference {
	uint64_t key[4096], used[4096], now;
	unsigned int sets, ways;
};

static bool reference_touch(struct reference *r, uint64_t line, uint64_t *victim)
{
	uint64_t *key = &r->key[line % r->sets * r->ways], *used = &r->used[line % r->sets * r->ways];
	unsigned int oldest = 0;

	*victim = 0;
	r->now++;
	for (unsigned int i = 0; i < r->ways; i++) {
		if (key[i] == line + 1) {
			used[i] = r->now;
			return true;
		}
		if (used[i] < used[oldest])
			oldest = i;
	}
	*victim = key[oldest];
	key[oldest] = line + 1;
	used[oldest] = r->now;
	return false;
}

static void caches_evict_the_least_recent_line(void)
{
	static const unsigned int shapes[][2] = { { 1, 1 }, { 1, 8 }, { 64, 1 }, { 16, 4 }, { 64, 8 }, { 128, 16 } };

	for (unsigned int shape = 0; shape < sizeof(shapes) / sizeof(shapes[0]); shape++) {
		static struct reference r;
		struct model_cache c;
		unsigned int sets = shapes[shape][0], ways = shapes[shape][1];

		memset(&r, 0, sizeof(r));
		r.sets = sets;
		r.ways = ways;
		CHECK(cache_init(&c, (uint64_t)sets * ways * MODEL_LINE, ways), "%u x %u", sets, ways);
		for (int i = 0; i < 20000; i++) {
			uint64_t line = rnd(sets * ways * 2), victim, fell = 0;
			bool hit = cache_touch(&c, key_of(line, 3), rnd(2));
			bool expected = reference_touch(&r, line, &victim);

			CHECK(hit == expected, "shape %u step %d", shape, i);
			if (!hit)
				fell = cache_fill(&c, key_of(line, 3));
			CHECK(!fell == !victim && (!fell || (fell & ~1ull) == key_of(victim - 1, 3)),
			      "shape %u step %d: wrong victim", shape, i);
		}
		free(c.word);
	}
}

static void a_line_stays_dirty_until_it_falls_out(void)
{
	struct model_cache c;

	cache_init(&c, 2 * MODEL_LINE, 2);
	cache_fill(&c, key_of(1, 0) | 1);
	cache_fill(&c, key_of(2, 0));
	CHECK(cache_touch(&c, key_of(1, 0), 0), "lost");
	CHECK(cache_fill(&c, key_of(3, 0)) == key_of(2, 0), "the clean one is older");
	CHECK(cache_fill(&c, key_of(4, 0)) == (key_of(1, 0) | 1), "dirt was lost");
	free(c.word);
}

static void tlbs_evict_the_least_recent_page_and_flushes_empty_them(void)
{
	struct model_config config = small_machine();
	struct model *m = make(&config);
	struct model_cpu *cpu = &m->cpu[0];
	static struct reference r;

	memset(&r, 0, sizeof(r));
	r.sets = 16;
	r.ways = 4;
	for (int i = 0; i < 50000; i++) {
		uint64_t page = rnd(120), victim;
		struct model_tlb_entry entry = { .tag = model_tag(cpu, page << 12) };
		bool hit = tlb_touch(&cpu->dtlb, entry.tag);

		CHECK(hit == reference_touch(&r, page, &victim), "step %d", i);
		if (!hit)
			tlb_fill(cpu, &cpu->dtlb, &entry);
		if (!rnd(500)) {
			model_flush_user(cpu);
			memset(r.key, 0, sizeof(r.key));
			memset(r.used, 0, sizeof(r.used));
		}
	}
	model_free(m);
}

static void a_flush_of_user_space_leaves_the_kernels_pages(void)
{
	struct model_config config = small_machine();
	struct model *m = make(&config);
	static struct model_counts n;
	uint64_t user = 0x1000, kernel = 0xffffc00000001000;

	memset(&n, 0, sizeof(n));
	for (int round = 0; round < 2; round++) {
		model_access(m, &m->cpu[0], &n, user, 0, 0);
		model_access(m, &m->cpu[0], &n, kernel, 0, 0);
		model_flush_user(&m->cpu[0]);
	}
	CHECK(n.stlb_miss == 3, "%llu", (unsigned long long)n.stlb_miss);
	model_flush_all(&m->cpu[0]);
	model_access(m, &m->cpu[0], &n, kernel, 0, 0);
	CHECK(n.stlb_miss == 4, "%llu", (unsigned long long)n.stlb_miss);
	model_free(m);
}

static void a_page_that_moved_is_found_where_it_is(void)
{
	struct model_config config = small_machine();
	struct model *m = make(&config);
	static struct model_counts n;

	memset(&n, 0, sizeof(n));
	model_access(m, &m->cpu[0], &n, 5 * GIB, 0, 0);
	moved_from[0] = 5 * GIB >> 12;
	moved_to[0] = 1 * GIB >> 12;
	nr_moved = 1;
	model_access(m, &m->cpu[0], &n, 5 * GIB, 0, 0);
	CHECK(n.tier[1].accesses[0] == 2, "a translation lasts until a flush");
	model_flush_one(&m->cpu[0]);
	model_access(m, &m->cpu[0], &n, 5 * GIB, 0, 0);
	CHECK(n.tier[0].misses[0] == 1 && n.stlb_miss == 2, "misses %llu walks %llu",
	      (unsigned long long)n.tier[0].misses[0], (unsigned long long)n.stlb_miss);
	model_flush_one(&m->cpu[0]);
	model_access(m, &m->cpu[0], &n, 5 * GIB, 0, 0);
	CHECK(n.stlb_miss == 2, "a flush of some other page costs nothing");
	model_free(m);
}

static void a_huge_page_is_one_entry_and_one_read(void)
{
	struct model_config config = small_machine();
	struct model *m = make(&config);
	static struct model_counts n;

	memset(&n, 0, sizeof(n));
	map_huge = true;
	for (unsigned int page = 0; page < 512; page++)
		model_access(m, &m->cpu[0], &n, 1 * GIB + page * 4096, 0, 0);
	CHECK(n.stlb_miss == 1 && n.dtlb_miss == 1 && n.walk_reads == 1, "%llu %llu %llu",
	      (unsigned long long)n.stlb_miss, (unsigned long long)n.dtlb_miss, (unsigned long long)n.walk_reads);
	CHECK(n.huge == 512 && n.llc_miss == 512, "%llu", (unsigned long long)n.huge);
	map_huge = false;
	for (unsigned int page = 0; page < 512; page++)
		model_access(m, &m->cpu[0], &n, 2 * GIB + page * 4096, 0, 0);
	CHECK(n.stlb_miss == 513 && n.walk_reads == 1 + 512 + 1, "%llu %llu", (unsigned long long)n.stlb_miss,
	      (unsigned long long)n.walk_reads);
	model_free(m);
}

/* ---- what is counted adds up ---- */

static void hits_and_misses_add_up(void)
{
	struct model_config config = small_machine();
	struct model *m = make(&config);
	static struct model_counts n;
	uint64_t accesses = 200000, seen = 0, missed = 0, insns = 0;
	int64_t waited = 0;

	memset(&n, 0, sizeof(n));
	for (uint64_t i = 0; i < accesses; i++) {
		uint64_t where = rnd(4) ? rnd(1 << 20) : 4 * GIB + rnd(64 << 20);

		model_insns(m, &m->cpu[0], 5);
		insns += 5;
		model_access(m, &m->cpu[0], &n, where, (unsigned int)rnd(4), 0);
		if (!rnd(2000))
			model_flush_one(&m->cpu[0]);
	}
	model_settle(m, &m->cpu[0], &n);
	for (unsigned int node = 0; node <= MODEL_MAX_NODES; node++) {
		seen += n.tier[node].accesses[0] + n.tier[node].accesses[1];
		missed += n.tier[node].misses[0] + n.tier[node].misses[1];
		waited += n.tier[node].stall_ps;
	}
	CHECK(seen == accesses, "%llu", (unsigned long long)seen);
	CHECK(missed == n.llc_miss, "%llu %llu", (unsigned long long)missed, (unsigned long long)n.llc_miss);
	CHECK(n.l1_miss >= n.l2_miss && n.l2_miss >= n.llc_miss && n.dtlb_miss >= n.stlb_miss, "levels");
	CHECK(n.l1_miss <= accesses && n.llc_miss > 0, "range");
	CHECK(waited <= n.stall_ps, "memory waits are a part of all");
	CHECK((int64_t)m->cpu[0].clock_ps == (int64_t)(insns * 500) + n.stall_ps, "the clock is work and waits");
	model_free(m);
}

static void every_written_line_goes_back_to_memory_once(void)
{
	struct model_config config = small_machine();
	struct model *m = make(&config);
	static struct model_counts n;
	uint64_t lines = 1 << 18;

	memset(&n, 0, sizeof(n));
	for (uint64_t i = 0; i < lines; i++)
		model_access(m, &m->cpu[0], &n, i * 64, MODEL_WRITE, 0);
	/* Push them out. */
	for (uint64_t i = 0; i < lines; i++)
		model_access(m, &m->cpu[0], &n, 4 * GIB + i * 64, 0, 0);
	CHECK(m->cpu[0].use[0].bytes[1] == lines * 64, "%llu", (unsigned long long)m->cpu[0].use[0].bytes[1]);
	CHECK(m->cpu[0].use[0].bytes[0] >= lines * 64, "and was read before");
	CHECK(m->cpu[0].use[1].bytes[1] == 0, "what was only read is not written");
	model_free(m);
}

static void device_memory_has_no_cache(void)
{
	struct model_config config = small_machine();
	struct model *m = make(&config);
	static struct model_counts n;

	memset(&n, 0, sizeof(n));
	for (int i = 0; i < 10; i++)
		model_access(m, &m->cpu[0], &n, 100 * GIB, 0, 0);
	CHECK(n.tier[MODEL_NO_NODE].accesses[0] == 10 && n.l1_miss == 0, "%llu", (unsigned long long)n.l1_miss);
	model_free(m);
}

static void the_last_level_is_shared_the_others_are_not(void)
{
	struct model_config config = small_machine();
	struct model *m = make(&config);
	static struct model_counts n[2];

	memset(n, 0, sizeof(n));
	model_access(m, &m->cpu[0], &n[0], 64, 0, 0);
	model_access(m, &m->cpu[1], &n[1], 64, 0, 0);
	CHECK(n[0].llc_miss == 1 && n[1].l2_miss == 1 && n[1].llc_miss == 0, "%llu", (unsigned long long)n[1].llc_miss);
	model_free(m);
}

/* ---- time ---- */

static void the_response_curve_is_flat_then_linear_then_steep(void)
{
	struct model_config c = small_machine();
	double last = 1, step = 1e-4, slope = (1.5 - 1) / .4;

	for (double u = 0; u < 1.5; u += step) {
		double f = model_curve(&c.curve, u);

		CHECK(f >= last, "falls at %g", u);
		if (last < BALANCE_MAX_FACTOR)
			CHECK(f - last < .05 + .01 * last, "jumps at %g: %g to %g", u, last, f);
		if (u <= .4)
			CHECK(f == 1, "not flat at %g", u);
		else if (u <= .8)
			CHECK(fabs(f - (1 + slope * (u - .4))) < 1e-9, "not linear at %g", u);
		last = f;
	}
	CHECK(fabs(model_curve(&c.curve, .8) - 1.5) < 1e-9 && fabs(model_curve(&c.curve, 1) - 3) < 1e-9, "ends");
	CHECK((model_curve(&c.curve, .95) - model_curve(&c.curve, .85)) / .1 > 2 * slope, "not steep after 80 %%");
}

static void chained_loads_wait_in_full_others_overlap(void)
{
	struct model_config config = small_machine();
	int64_t stall[3];

	for (unsigned int kind = 0; kind < 3; kind++) {
		struct model *m = make(&config);
		static struct model_counts n;

		memset(&n, 0, sizeof(n));
		map_huge = true;
		for (uint64_t i = 0; i < 10000; i++) {
			uint64_t line = kind == 2 ? i : i * 12345 % 65536;

			model_insns(m, &m->cpu[0], 400);
			model_access(m, &m->cpu[0], &n, line * 64, kind == 0 ? MODEL_CHAINED : 0, 0);
		}
		model_settle(m, &m->cpu[0], &n);
		stall[kind] = n.tier[0].stall_ps / (int64_t)n.llc_miss;
		model_free(m);
	}
	CHECK(llabs(stall[0] - 80000) < 800, "chained %lld", (long long)stall[0]);
	CHECK(llabs(stall[1] - 20000) < 200, "random %lld", (long long)stall[1]);
	CHECK(llabs(stall[2] - 5000) < 500, "stream %lld", (long long)stall[2]);
}

/* CPUs read lines of a node as fast as they can, in turns. Returns bytes per ns of all together. */
static double stream_rate(struct model *m, unsigned int cpus, const unsigned int *node, unsigned int flags)
{
	static struct model_counts n[2];
	uint64_t next[2] = { 0, 0 }, bytes = 0, limit = 500 * 1000000ull;

	memset(n, 0, sizeof(n));
	map_huge = true;
	for (unsigned int i = 0; i < cpus; i++)
		next[i] = node[i] * 4 * GIB + i * GIB;
	for (uint64_t slice = 50 * 1000000ull; slice <= 4 * limit; slice += 50 * 1000000ull) {
		for (unsigned int i = 0; i < cpus; i++) {
			while (m->cpu[i].clock_ps < slice) {
				model_insns(m, &m->cpu[i], 8);
				model_access(m, &m->cpu[i], &n[i], next[i] % (8 * GIB), flags, 0);
				next[i] += 64;
			}
		}
	}
	for (unsigned int i = 0; i < cpus; i++)
		for (unsigned int to = 0; to < 2; to++)
			bytes += m->cpu[i].use[to].bytes[0] + m->cpu[i].use[to].bytes[1];
	return (double)bytes * 1000 / (double)model_now_ps(m);
}

static void bandwidth_is_a_limit_that_all_cpus_share(void)
{
	static const unsigned int slow[] = { 1, 1 }, apart[] = { 0, 1 };
	struct model_config config = small_machine();
	double one, two, other;
	struct model *m;

	config.cores_per_cpu = 64;
	m = make(&config);
	one = stream_rate(m, 1, slow, 0) * 64;
	CHECK(one > 20 * .95 && one < 20 * 1.06, "one CPU: %g of 20 GB/s", one);
	model_free(m);
	m = make(&config);
	two = stream_rate(m, 2, slow, 0) * 64;
	CHECK(two > 20 * .95 && two < 20 * 1.06, "two CPUs: %g of 20 GB/s", two);
	CHECK(m->cpu[0].use[1].bytes[0] < m->cpu[1].use[1].bytes[0] * 1.2 &&
	      m->cpu[1].use[1].bytes[0] < m->cpu[0].use[1].bytes[0] * 1.2, "shared unfairly");
	model_free(m);
	m = make(&config);
	other = stream_rate(m, 2, apart, 0) * 64;
	CHECK(other > two * 1.5, "nodes do not disturb each other: %g", other);
	model_free(m);
}

static void demand_and_response_agree_wherever_the_search_begins(void)
{
	static const double begin[] = { 1, 1.01, 2, 30, 256 };
	struct model_config config = small_machine();
	struct model *m = make(&config);

	for (unsigned int load = 0; load < 12; load++) {
		double first = 0;

		for (unsigned int i = 0; i < 2; i++) {
			m->cpu[i].demand.active = 1;
			m->cpu[i].demand.other_ps = 1000000;
			for (unsigned int n = 0; n < 2; n++) {
				m->cpu[i].demand.stall_ps[n] = 4000000 * (n + i + 1);
				m->cpu[i].demand.load[n] = (1000000ull << load) / 4;
			}
		}
		m->cpu[1].window = m->cpu[1].demand;
		for (unsigned int at = 0; at < sizeof(begin) / sizeof(begin[0]); at++) {
			double factor[MODEL_MAX_NODES] = { begin[at], begin[at] }, used[MODEL_MAX_NODES], want;

			balance(m, &m->cpu[1], factor, used);
			first = at ? first : factor[1];
			want = model_curve(&config.curve, used[1]);
			CHECK(fabs(factor[1] / first - 1) < .005, "load %u from %g: %g, not %g", load, begin[at],
			      factor[1], first);
			CHECK(fabs(want / factor[1] - 1) < .005, "load %u: answers by %g at %g", load, want, factor[1]);
		}
	}
	model_free(m);
}

static void little_traffic_does_not_slow_memory_down(void)
{
	static const unsigned int fast[] = { 0, 0 };
	struct model_config config = small_machine();
	struct model *m;

	config.access[0][0].bandwidth = 1000;
	m = make(&config);
	stream_rate(m, 2, fast, 0);
	CHECK(m->cpu[0].factor[0] == FACTOR_ONE, "%llu", (unsigned long long)m->cpu[0].factor[0]);
	model_free(m);
}

static void writes_can_cost_a_node_more(void)
{
	static const unsigned int slow[] = { 1, 1 };
	struct model_config config = small_machine();
	double cheap, dear;
	struct model *m;

	config.cores_per_cpu = 64;
	config.cache[MODEL_L1].size = config.cache[MODEL_L2].size = config.cache[MODEL_LLC].size = 8 << 10;
	m = make(&config);
	cheap = stream_rate(m, 2, slow, MODEL_WRITE) * 64;
	model_free(m);
	config.node[1].write_cost = 2;
	m = make(&config);
	dear = stream_rate(m, 2, slow, MODEL_WRITE) * 64;
	model_free(m);
	/* A read and a write for each line: 1 + 1 against 1 + 2. */
	CHECK(dear / cheap > .63 && dear / cheap < .70, "%g", dear / cheap);
}

static void a_shootdown_costs_sender_and_receiver(void)
{
	struct model_config config = small_machine();
	struct model *m = make(&config);
	static struct model_counts n[2];

	memset(n, 0, sizeof(n));
	model_shootdown_sent(m, &m->cpu[0], &n[0]);
	model_shootdown_received(m, &m->cpu[1], &n[1]);
	CHECK(m->cpu[0].clock_ps == 2000000 && m->cpu[1].clock_ps == 1000000, "clocks");
	CHECK(n[0].shootdowns_sent == 1 && n[1].shootdowns_received == 1 && n[0].stall_ps == 2000000, "counts");
	model_free(m);
}

static void a_sender_waits_for_each_core_that_gets_its_request(void)
{
	struct model_config config = small_machine();
	static struct model_counts n[3];
	struct model *m;

	config.shootdown_each_ps = 100000;
	config.cores_per_cpu = 4;
	m = make(&config);
	memset(n, 0, sizeof(n));
	model_shootdown_received(m, &m->cpu[1], &n[1]);
	CHECK(!m->cpu[0].owed_ps && !m->cpu[1].owed_ps, "nobody has asked yet");
	model_shootdown_sent(m, &m->cpu[0], &n[0]);
	model_shootdown_received(m, &m->cpu[1], &n[1]);
	model_shootdown_received(m, &m->cpu[1], &n[1]);
	/* The sender's own flush is no answer of somebody else. */
	model_shootdown_received(m, &m->cpu[0], &n[0]);
	CHECK(m->cpu[0].clock_ps == 2000000 + 1000000 + 2 * 400000, "%llu", (unsigned long long)m->cpu[0].clock_ps);
	/* Its task has gone on: the wait is that of who sent. */
	model_shootdown_received(m, &m->cpu[1], &n[1]);
	model_settle(m, &m->cpu[0], &n[2]);
	CHECK(m->cpu[0].clock_ps == 2000000 + 1000000 + 3 * 400000, "%llu", (unsigned long long)m->cpu[0].clock_ps);
	CHECK(n[0].stall_ps == 2000000 + 1000000 + 3 * 400000 && !n[2].stall_ps, "whose time it is");
	CHECK(m->cpu[1].clock_ps == 4000000, "a receiver pays for itself only");
	model_free(m);
}

static void an_idle_cpu_goes_on_from_when_it_was_woken(void)
{
	struct model_config config = small_machine();
	struct model *m = make(&config);
	static struct model_counts n[2];

	memset(n, 0, sizeof(n));
	model_busy(m, &m->cpu[0]);
	model_busy(m, &m->cpu[1]);
	model_insns(m, &m->cpu[0], 1000);
	model_idle(m, &m->cpu[1], &n[1]);
	model_halt(&m->cpu[1]);
	model_wake(m, &m->cpu[0]);
	model_insns(m, &m->cpu[0], 9000);
	model_busy(m, &m->cpu[1]);
	CHECK(m->cpu[1].clock_ps == 500000 && m->cpu[1].idle_ps == 500000, "%llu",
	      (unsigned long long)m->cpu[1].clock_ps);
	model_idle(m, &m->cpu[1], &n[1]);
	model_halt(&m->cpu[1]);
	model_busy(m, &m->cpu[1]);
	CHECK(m->cpu[1].clock_ps == m->cpu[0].clock_ps, "by a timer: with the others' present");
	CHECK(model_now_ps(m) == 5000000, "nobody's waiting adds to the machine's time");
	model_free(m);
}

static void an_idle_cpu_wants_no_bandwidth(void)
{
	static const unsigned int slow[] = { 1, 1 };
	static struct model_counts n;
	struct model_config config = small_machine();
	struct model *m = make(&config);
	double factor[MODEL_MAX_NODES], used[MODEL_MAX_NODES], both;

	memset(&n, 0, sizeof(n));
	stream_rate(m, 2, slow, 0);
	m->cpu[1].window = m->cpu[1].demand;
	factor[0] = factor[1] = 1;
	balance(m, &m->cpu[1], factor, used);
	both = used[1];
	model_idle(m, &m->cpu[0], &n);
	m->cpu[1].clock_ps = m->cpu[0].clock_ps - 1;
	balance(m, &m->cpu[1], factor, used);
	CHECK(fabs(used[1] / both - 1) < .1, "it worked at that time: %g of %g", used[1], both);
	m->cpu[1].clock_ps = m->cpu[0].clock_ps;
	balance(m, &m->cpu[1], factor, used);
	CHECK(used[1] < both * .7 && used[1] > 0, "%g of %g", used[1], both);
	model_wake(m, &m->cpu[1]);
	balance(m, &m->cpu[1], factor, used);
	CHECK(fabs(used[1] / both - 1) < .1, "it is awake again: %g of %g", used[1], both);
	model_free(m);
}

static void two_runs_are_equal(void)
{
	struct model_config config = small_machine();
	uint64_t end[2];

	for (int run = 0; run < 2; run++) {
		struct model *m = make(&config);
		static struct model_counts n;

		random_state = 88172645463325252ull;
		memset(&n, 0, sizeof(n));
		for (int i = 0; i < 50000; i++)
			model_access(m, &m->cpu[rnd(2)], &n, rnd(8) * GIB + rnd(1 << 24), (unsigned int)rnd(4), 0);
		end[run] = model_now_ps(m);
		model_free(m);
	}
	CHECK(end[0] == end[1], "%llu %llu", (unsigned long long)end[0], (unsigned long long)end[1]);
}

static void *hammer(void *arg)
{
	static struct model_counts n[2];
	struct model *m = *(struct model **)arg;
	unsigned int i = *((unsigned int *)((struct model **)arg + 1));
	uint64_t x = 12345 + i;

	for (int step = 0; step < 100000; step++) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		model_insns(m, &m->cpu[i], 3);
		model_access(m, &m->cpu[i], &n[i], (x >> 33) % (8 * GIB), x >> 20 & 3, 0);
	}
	return NULL;
}

static void two_threads_do_no_harm(void)
{
	struct model_config config = small_machine();
	struct model *m = make(&config);
	struct { struct model *m; unsigned int i; } arg[2] = { { m, 0 }, { m, 1 } };
	pthread_t thread[2];

	for (unsigned int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, hammer, &arg[i]);
	for (unsigned int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	CHECK(model_now_ps(m) > 0, "no time");
	model_free(m);
}

static const struct test tests[] = {
	TEST(caches_evict_the_least_recent_line),
	TEST(a_line_stays_dirty_until_it_falls_out),
	TEST(tlbs_evict_the_least_recent_page_and_flushes_empty_them),
	TEST(a_flush_of_user_space_leaves_the_kernels_pages),
	TEST(a_page_that_moved_is_found_where_it_is),
	TEST(a_huge_page_is_one_entry_and_one_read),
	TEST(hits_and_misses_add_up),
	TEST(every_written_line_goes_back_to_memory_once),
	TEST(device_memory_has_no_cache),
	TEST(the_last_level_is_shared_the_others_are_not),
	TEST(the_response_curve_is_flat_then_linear_then_steep),
	TEST(chained_loads_wait_in_full_others_overlap),
	TEST(bandwidth_is_a_limit_that_all_cpus_share),
	TEST(demand_and_response_agree_wherever_the_search_begins),
	TEST(little_traffic_does_not_slow_memory_down),
	TEST(writes_can_cost_a_node_more),
	TEST(a_shootdown_costs_sender_and_receiver),
	TEST(a_sender_waits_for_each_core_that_gets_its_request),
	TEST(an_idle_cpu_goes_on_from_when_it_was_woken),
	TEST(an_idle_cpu_wants_no_bandwidth),
	TEST(two_runs_are_equal),
	TEST(two_threads_do_no_harm),
};

int main(void)
{
	return run_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
