// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of what the model imposes on QEMU, against functions of the names that QEMU exports.
 * tests/unit/test_timing_model.py compiles and runs it.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "common.h"

#include "../drive.c"

#define SHIFT	2

/* ---- what stands for QEMU; found by dlsym(), so not static ---- */

int64_t fake_count, fake_skipped;
unsigned int fake_exits;
uint64_t fake_flushed;
static int64_t other_function(void) { return 0; }

int64_t icount_get_raw(void) { return fake_count; }
int64_t icount_to_ns(int64_t count) { return count << SHIFT; }
int64_t icount_get(void) { return fake_skipped + (fake_count << SHIFT); }
static uintptr_t fake_table[TABLE_WORDS];
void *cpus_get_accel(void) { return fake_table; }
void *qemu_get_cpu(int index) { return (char *)fake_table + index; }
void cpu_exit(void *cpu) { (void)cpu; fake_exits++; }
void tlb_flush_page(void *cpu, uint64_t vaddr) { (void)cpu; fake_flushed = vaddr; }

static struct model *begin(void)
{
	static struct model_config config;
	struct model *m;

	config = small_machine();
	m = make(&config);
	m->evicted = drive_evicted;
	state = OFF;
	last_ns = worst_skew_ps = all_idle_ns = 0;
	fake_count = 1000;
	fake_skipped = fake_exits = 0;
	memset(halted_at_ps, 0, sizeof(halted_at_ps));
	CHECK(!drive_setup(m), "a function was not found");
	return m;
}

static void both_clocks_are_taken_and_nothing_else(void)
{
	struct model *m = begin();

	for (unsigned int i = 0; i < TABLE_WORDS; i++)
		fake_table[i] = (uintptr_t)other_function;
	CHECK(!drive_take_clock(), "took what is not there");
	fake_table[5] = (uintptr_t)icount_get;
	CHECK(!drive_take_clock(), "one clock is not two");
	fake_table[6] = (uintptr_t)icount_get;
	CHECK(drive_take_clock() && drive_take_clock(), "not taken, or not twice");
	for (unsigned int i = 0; i < TABLE_WORDS; i++)
		CHECK(fake_table[i] == (uintptr_t)(i == 5 || i == 6 ? guest_ns : other_function), "word %u", i);
	model_free(m);
}

static void time_goes_on_from_where_instructions_left_it(void)
{
	struct model *m = begin();
	uint64_t idle;
	int64_t was;

	CHECK(guest_ns() == 4000, "not QEMU's own clock before the start");
	m->cpu[0].clock_ps = 777000;
	drive_start();
	was = guest_ns();
	CHECK(was >= 4000 && was <= 4001, "%lld", (long long)was);
	m->cpu[0].clock_ps += 5000000;
	fake_count += 99;
	CHECK(guest_ns() == 9000, "instructions moved it");
	fake_skipped += 123456;
	was = guest_ns();
	CHECK(was - 4000 >= 128456 && was - 4000 <= 128460, "idle time is missing: %lld", (long long)was);
	CHECK(drive_all_idle_ns(&idle) && idle == 123456, "%llu", (unsigned long long)idle);
	model_free(m);
}

static void no_reading_is_as_old_as_the_one_before(void)
{
	struct model *m = begin();
	int64_t was;

	drive_start();
	was = guest_ns();
	for (int i = 0; i < 10000; i++) {
		int64_t now;

		/* A window that closes may take time back. */
		m->cpu[rnd(2)].clock_ps += rnd(3) ? rnd(4000) : 0;
		if (!rnd(4) && m->cpu[0].clock_ps > 1000)
			m->cpu[0].clock_ps -= rnd(1000);
		fake_skipped += rnd(50) ? 0 : (int64_t)rnd(1000);
		now = guest_ns();
		CHECK(now > was, "step %d: %lld after %lld", i, (long long)now, (long long)was);
		was = now;
	}
	model_free(m);
}

/* Two that work, one with steps a hundred times as long: each runs until its turn is over. */
static void clocks_stay_within_two_windows(void)
{
	struct model *m = begin();
	uint64_t window = m->config.window_ps, turn[2] = { 0 }, steps[2] = { 0 }, worst = 0;

	m->cpu[0].demand.active = m->cpu[1].demand.active = 1;
	for (int round = 0; round < 20000; round++) {
		unsigned int i = round % 2;
		uint64_t apart;

		for (unsigned int exits = fake_exits; exits == fake_exits; steps[i]++) {
			m->cpu[i].clock_ps += i ? 500000 : 5000;
			if (m->cpu[i].clock_ps >= turn[i])
				turn[i] = drive_turn_over(&m->cpu[i]);
		}
		apart = m->cpu[0].clock_ps > m->cpu[1].clock_ps ? m->cpu[0].clock_ps - m->cpu[1].clock_ps :
			m->cpu[1].clock_ps - m->cpu[0].clock_ps;
		worst = apart > worst ? apart : worst;
	}
	CHECK(worst <= 2 * window + 500000, "%llu ps apart", (unsigned long long)worst);
	CHECK(steps[0] > 80 * steps[1], "%llu and %llu steps", (unsigned long long)steps[0],
	      (unsigned long long)steps[1]);
	CHECK(drive_take_skew_ps() <= 2 * window + 500000 && !drive_take_skew_ps(), "the worst is not told, or twice");
	model_free(m);
}

static void nobody_waits_for_one_that_idles_or_halted(void)
{
	struct model *m = begin();
	uint64_t far = 100 * m->config.window_ps;

	m->cpu[0].clock_ps = far;
	CHECK(drive_turn_over(&m->cpu[0]) == far + m->config.window_ps, "waits for an idle one");
	m->cpu[1].demand.active = 1;
	m->cpu[1].clock_ps = 1000;
	CHECK(!drive_turn_over(&m->cpu[0]), "does not wait for one that works");
	drive_halted(&m->cpu[1]);
	CHECK(drive_turn_over(&m->cpu[0]) == far + m->config.window_ps, "waits for one that halted");
	m->cpu[1].clock_ps = 2000;
	CHECK(!drive_turn_over(&m->cpu[0]), "does not wait for one that works again");
	model_free(m);
}

/* One set of the second level gets one page too many; then kernel pages, and a flush before the next. */
static void a_page_that_the_tlb_gives_up_is_told_once(void)
{
	struct model *m = begin();
	struct model_counts counts = { 0 };
	uint64_t sets = m->config.tlb[MODEL_STLB].entries / m->config.tlb[MODEL_STLB].ways;
	unsigned int ways = m->config.tlb[MODEL_STLB].ways;

	fake_flushed = 0;
	for (uint64_t i = 0; i < ways; i++)
		model_access(m, &m->cpu[0], &counts, (16 + i * sets) << 12, 0, 0);
	CHECK(!fake_flushed, "%llx is still there", (unsigned long long)fake_flushed);
	model_access(m, &m->cpu[0], &counts, (16 + ways * sets) << 12, 0, 0);
	CHECK(fake_flushed == 16 << 12, "%llx", (unsigned long long)fake_flushed);
	fake_flushed = 0;
	model_flush_user(&m->cpu[0]);
	for (uint64_t i = 0; i < ways; i++)
		model_access(m, &m->cpu[0], &counts, (16 + i * sets) << 12, 0, 0);
	CHECK(!fake_flushed, "%llx had been flushed", (unsigned long long)fake_flushed);
	for (uint64_t i = 0; i < ways; i++)
		model_access(m, &m->cpu[0], &counts, 0xffff888000000000u + ((16 + i * sets) << 12), 0, 0);
	fake_flushed = 0;
	model_access(m, &m->cpu[0], &counts, 0xffff888000000000u + ((16 + ways * sets) << 12), 0, 0);
	CHECK(!fake_flushed, "a kernel's page");
	model_free(m);
}

static const struct test tests[] = {
	TEST(both_clocks_are_taken_and_nothing_else),
	TEST(time_goes_on_from_where_instructions_left_it),
	TEST(no_reading_is_as_old_as_the_one_before),
	TEST(clocks_stay_within_two_windows),
	TEST(nobody_waits_for_one_that_idles_or_halted),
	TEST(a_page_that_the_tlb_gives_up_is_told_once),
};

int main(void)
{
	return run_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
