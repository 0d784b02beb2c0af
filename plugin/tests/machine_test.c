// SPDX-License-Identifier: GPL-2.0
/* Tests of what is read as a machine, and of what the model takes as one.  Prints TAP. */
#include "common.h"

static int read_text(const char *text, struct model_config *c, char *error, size_t size)
{
	FILE *file = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
	int ret = machine_read(file, c, error, size);

	fclose(file);
	return ret;
}

static void a_bad_machine_is_refused_with_its_line(void)
{
	static const char * const bad[][2] = {
		{ "name x\nnode 1 0 1 0 1\n", "line 2: 'node'" }, { "cpu 0\n", "line 1: 'cpu'" },
		{ "gap 1\n", "line 1: 'gap'" },
		{ "cache l4 1 1 1\n", "line 1: 'cache'" }, { "insn_ps -3\n", "line 1: 'insn_ps'" },
		{ "insn_ps 5 5\n", "line 1: 'insn_ps'" }, { "speed 1\n", "line 1: 'speed'" },
		{ "insn_ps 5x\n", "line 1: 'insn_ps'" }, { "tlb dtlb_4k 64 4\n", "line 1: 'tlb'" },
		{ "curve_flat nan\n", "line 1: 'curve_flat'" }, { "name a\"b\n", "line 1: 'name'" },
		{ "\n# only words\n", "there is no line 'insn_ps'" },
	};

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		static struct model_config c;
		char error[256] = "";

		CHECK(read_text(bad[i][0], &c, error, sizeof(error)) == -1, "%s", bad[i][0]);
		CHECK(!strncmp(error, bad[i][1], strlen(bad[i][1])), "%s: %s", bad[i][0], error);
	}
}

static void memory_behind_the_gap_follows_the_memory_before_it(void)
{
	static struct model_config c;
	char error[256];

	read_text("gap 2147483648 2147483648\n", &c, error, sizeof(error));
	CHECK(c.gap_base == 2 * GIB && c.gap_size == 2 * GIB, "%llu", (unsigned long long)c.gap_size);
	CHECK(machine_without_gap(&c, 2 * GIB - 1) == 2 * GIB - 1, "before the gap");
	CHECK(machine_without_gap(&c, 4 * GIB) == 2 * GIB, "behind the gap");
	CHECK(machine_without_gap(&c, 4 * GIB - 1) == 4 * GIB - 1, "in the gap");
	read_text("name x\n", &c, error, sizeof(error));
	CHECK(machine_without_gap(&c, 0) == 0 && machine_without_gap(&c, 7 * GIB) == 7 * GIB, "no gap");
}

static void a_machine_that_cannot_be_is_refused(void)
{
	static struct model_config good, c;
	const char *error;

	good = small_machine();
#define BAD(change) do {								\
		c = good;								\
		change;									\
		CHECK(!model_new(&c, identity, &error) && error, "%s", #change);	\
	} while (0)
	BAD(c.cache[MODEL_L1].size = 33 << 10);
	BAD(c.cache[MODEL_LLC].ways = 0);
	BAD(c.tlb[MODEL_STLB].entries = 513);
	BAD(c.nr_cpus = 0);
	BAD(c.cpu_node[1] = 7);
	BAD(c.access[0][1].latency_ps = 0);
	BAD(c.curve.linear = .3);
	BAD(c.overlap_random = .5);
	BAD(c.insn_ps = 0);
	BAD(c.pde_entries = 0);
#undef BAD
}

static void a_machine_is_printed_as_it_was_read(void)
{
	static struct model_config c;
	char text[8192], error[256];
	FILE *out = fmemopen(text, sizeof(text), "w");

	CHECK(!read_text("name m\nnode 0 0 1024 0 1.5\ncpu 0 0\naccess 0 0 80000 64\ncache l1 512 8 0\n"
			 "cache l2 512 8 7\ncache llc 512 8 9\ntlb dtlb_4k 4 4 0\ntlb dtlb_2m 4 4 0\n"
			 "tlb stlb 4 4 1\npde 4\ninsn_ps 500\nwindow_ps 10\nshootdown_send_ps 1\n"
			 "shootdown_each_ps 3\nshootdown_receive_ps 2\noverlap_random 4\noverlap_stream 8\noverlap_store 2\n"
			 "cores_per_cpu 3\ncurve_flat .4\ncurve_linear .8\ncurve_at_linear 1.5\ncurve_at_full 3\n"
			 "curve_overload 40\n", &c, error, sizeof(error)), "%s", error);
	CHECK(c.node[0].write_cost == 1.5 && c.cores_per_cpu == 3 && c.curve.linear == .8, "values");
	machine_print(out, &c);
	fclose(out);
	CHECK(strstr(text, "\"insn_ps\": 500") && strstr(text, "\"write_cost\": 1.5"), "%s", text);
}

static const struct test tests[] = {
	TEST(a_bad_machine_is_refused_with_its_line),
	TEST(memory_behind_the_gap_follows_the_memory_before_it),
	TEST(a_machine_that_cannot_be_is_refused),
	TEST(a_machine_is_printed_as_it_was_read),
};

int main(void)
{
	return run_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
