// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of what is read of the running QEMU, for one version of the plugin interface.
 * tests/unit/test_timing_model.py compiles and runs it for each version.  Prints TAP.
 */
#define _GNU_SOURCE
#include "common.h"

#include "../emulator.c"

#define INSN	"\x48\x8b\xa6\x58\x1a"
#define SIZE	5u

/* ---- stand-ins for QEMU; dlsym() finds the first two, so they are not static ---- */

__thread void *current_cpu;
static char fake_vcpus[3];

void *qemu_get_cpu(int index) { return &fake_vcpus[index]; }

static unsigned int blocks, made_vcpus, exits;
static qemu_plugin_vcpu_tb_trans_cb_t block_cb;
static qemu_plugin_udata_cb_t exit_cb;

#if TERRACE_PLUGIN_ABI >= 7
static qemu_plugin_vcpu_udata_cb_t init_cb;

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_tb_trans_cb_t cb, void *data)
{
	(void)id;
	(void)data;
	block_cb = cb;
}

void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_udata_cb_t cb, void *data)
{
	(void)id;
	(void)data;
	init_cb = cb;
}

static void call_all(struct qemu_plugin_tb *tb)
{
	block_cb(tb, NULL);
	init_cb(2, NULL);
	exit_cb(NULL);
}
#else
static qemu_plugin_vcpu_simple_cb_t init_cb;

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_tb_trans_cb_t cb)
{
	(void)id;
	block_cb = cb;
}

void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_simple_cb_t cb)
{
	(void)id;
	init_cb = cb;
}

static void call_all(struct qemu_plugin_tb *tb)
{
	block_cb(9, tb);
	init_cb(9, 2);
	exit_cb(9, NULL);
}
#endif

void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, qemu_plugin_udata_cb_t cb, void *data)
{
	(void)id;
	(void)data;
	exit_cb = cb;
}

size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn)
{
	(void)insn;
	return SIZE;
}

#if TERRACE_PLUGIN_ABI >= 3
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to, size_t size)
{
	(void)insn;
	memcpy(to, INSN, size < SIZE ? size : SIZE);
	return size < SIZE ? size : SIZE;
}
#else
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn)
{
	(void)insn;
	return INSN;
}
#endif

/* ---- the tests ---- */

static const qemu_info_t good = {
	.target_name = "x86_64", .version = { TERRACE_PLUGIN_ABI, TERRACE_PLUGIN_ABI }, .system_emulation = true,
	.system = { 3, 3 },
};

static struct qemu_plugin_tb *seen;

static void on_a_block(struct qemu_plugin_tb *tb)
{
	blocks++;
	seen = tb;
}

static void on_a_vcpu(void) { made_vcpus++; }
static void on_the_exit(void) { exits++; }

static void callbacks_arrive_in_every_version(void)
{
	struct qemu_plugin_tb *tb = (struct qemu_plugin_tb *)fake_vcpus;

	emulator_on_block(9, on_a_block);
	emulator_on_vcpu(9, on_a_vcpu);
	emulator_on_exit(9, on_the_exit);
	call_all(tb);
	CHECK(blocks == 1 && seen == tb, "%u blocks", blocks);
	CHECK(made_vcpus == 1 && exits == 1, "%u vCPUs, %u exits", made_vcpus, exits);
}

static void an_instruction_is_copied(void)
{
	uint8_t bytes[EMULATOR_INSN_BYTES] = { 0 };

	CHECK(emulator_insn(NULL, bytes) == SIZE, "another size");
	CHECK(!memcmp(bytes, INSN, SIZE) && !bytes[SIZE], "other bytes");
}

/* QEMU 10 passes the vCPU that ran when the block was translated. */
static void the_vcpu_is_the_one_that_runs(void)
{
	CHECK(emulator_require("test", &good, 3) == 3, "refused");
	for (unsigned int round = 0; round < 2; round++) {
		for (unsigned int i = 0; i < 3; i++) {
			unsigned int want = TERRACE_PLUGIN_ABI < 4 ? 1 : i;

			current_cpu = &fake_vcpus[i];
			CHECK(emulator_vcpu(1) == want, "%u instead of %u", emulator_vcpu(1), want);
			CHECK(emulator_vcpu(1) == want, "and then %u", emulator_vcpu(1));
		}
	}
}

static void *in_another_thread(void *number)
{
	current_cpu = &fake_vcpus[(uintptr_t)number];
	return (void *)(uintptr_t)emulator_vcpu((unsigned int)(uintptr_t)number);
}

static void each_thread_has_a_vcpu_of_its_own(void)
{
	pthread_t thread[3];
	void *found;

	current_cpu = &fake_vcpus[0];
	for (uintptr_t i = 0; i < 3; i++)
		pthread_create(&thread[i], NULL, in_another_thread, (void *)i);
	for (uintptr_t i = 0; i < 3; i++) {
		pthread_join(thread[i], &found);
		CHECK((uintptr_t)found == i, "%u instead of %u", (unsigned int)(uintptr_t)found, (unsigned int)i);
	}
	CHECK(emulator_vcpu(0) == 0, "changed by another thread");
}

static void a_qemu_that_does_not_fit_is_refused(void)
{
	qemu_info_t info = good;

	info.version.min = info.version.cur = TERRACE_PLUGIN_ABI + 1;
	CHECK(emulator_require("test", &info, 3) == -1, "a later interface");
	info.version.min = info.version.cur = TERRACE_PLUGIN_ABI - 1;
	CHECK(emulator_require("test", &info, 3) == -1, "an earlier interface");
	info = good;
	info.target_name = "aarch64";
	CHECK(emulator_require("test", &info, 3) == -1, "another architecture");
	info = good;
	info.system_emulation = false;
	CHECK(emulator_require("test", &info, 3) == -1, "no system");
	CHECK(emulator_require("test", &good, 2) == -1, "too many vCPUs");
	CHECK(!emulator_lacks(), "lacks %s", emulator_lacks());
}

int main(void)
{
	static const struct test tests[] = {
		TEST(callbacks_arrive_in_every_version), TEST(an_instruction_is_copied),
		TEST(the_vcpu_is_the_one_that_runs), TEST(each_thread_has_a_vcpu_of_its_own),
		TEST(a_qemu_that_does_not_fit_is_refused),
	};

	return run_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
