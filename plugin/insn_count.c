// SPDX-License-Identifier: GPL-2.0
/*
 * Count the guest's instructions: kernel and user apart, for each kind of task.
 *
 * A block's instructions are added when the block starts, to the kernel's count if the block lies
 * in the upper half of the address space.  A block that a page fault leaves half way is counted
 * whole and its rest again, so the counts are a few instructions a fault too high.
 *
 * Options: those of kinds.h, which say what kinds of tasks there are, and
 *
 *   out=FILE            where the JSON goes when QEMU ends; needed
 *   blocks=FILE         where a line ADDRESS KIND COUNT goes for each block of kernel code that ran
 *                       between the markers of region 1 and region 2: what a profile is made of
 *
 * A region marker (0x5454 02 NN) makes a note of all counts at that moment.  Each vCPU has counters
 * of its own: no lock where code executes.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kinds.h"

#define MAX_NOTES	256
#define REGION_BEGIN	1
#define REGION_END	2

int qemu_plugin_version = TERRACE_PLUGIN_ABI;

struct counts {
	uint64_t user, kernel, switches;
};

struct vcpu {
	struct counts of[MAX_KINDS];
} __attribute__((aligned(64)));

struct note {
	unsigned int number;
	struct counts of[MAX_KINDS];
};

static struct vcpu vcpus[MAX_VCPUS];
static unsigned int nr_vcpus;
static struct note notes[MAX_NOTES];
static unsigned int nr_notes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* notes[] */
static char *out_path;
static char *blocks_path;

/* A block of kernel code, as translated once; never freed, so that callbacks may keep it. */
struct block {
	struct block *next;
	uint64_t address;
	uint64_t insns;
	uint64_t count[MAX_KINDS];	/* instructions since region 1 began */
	uint64_t end[MAX_KINDS];	/* that when region 2 did */
};

static struct block *blocks;		/* under lock; only ever grows at its head */

static struct counts sum_of(unsigned int kind)
{
	struct counts sum = { 0 };

	for (unsigned int i = 0; i < nr_vcpus; i++) {
		sum.user += vcpus[i].of[kind].user;
		sum.kernel += vcpus[i].of[kind].kernel;
		sum.switches += vcpus[i].of[kind].switches;
	}
	return sum;
}

static void note_blocks(unsigned int number)
{
	for (struct block *block = blocks; block; block = block->next) {
		if (number == REGION_BEGIN)
			memset(block->count, 0, sizeof(block->count));
		else if (number == REGION_END)
			memcpy(block->end, block->count, sizeof(block->end));
	}
}

static void make_note(unsigned int vcpu, unsigned int number)
{
	(void)vcpu;
	pthread_mutex_lock(&lock);
	note_blocks(number);
	if (nr_notes < MAX_NOTES) {
		struct note *note = &notes[nr_notes++];

		note->number = number;
		for (unsigned int kind = 0; kind < kinds_count(); kind++)
			note->of[kind] = sum_of(kind);
	}
	pthread_mutex_unlock(&lock);
}

/* Callbacks while guest code executes. */

static void ran_user(unsigned int told, void *data)
{
	unsigned int vcpu = emulator_vcpu(told);

	kinds_in_user(vcpu);
	vcpus[vcpu].of[kinds_cpu[vcpu].now].user += (uintptr_t)data;
}

static void ran_kernel(unsigned int told, void *data)
{
	unsigned int vcpu = emulator_vcpu(told);

	vcpus[vcpu].of[kinds_cpu[vcpu].now].kernel += (uintptr_t)data;
}

static void ran_block(unsigned int told, void *data)
{
	unsigned int vcpu = emulator_vcpu(told);
	struct block *block = data;

	vcpus[vcpu].of[kinds_cpu[vcpu].now].kernel += block->insns;
	__atomic_fetch_add(&block->count[kinds_cpu[vcpu].now], block->insns, __ATOMIC_RELAXED);
}

/* What is told of a block of kernel code when it runs. */
static void register_kernel(struct qemu_plugin_tb *tb, size_t n)
{
	struct block *block = blocks_path ? calloc(1, sizeof(*block)) : NULL;

	if (!block) {
		qemu_plugin_register_vcpu_tb_exec_cb(tb, ran_kernel, QEMU_PLUGIN_CB_NO_REGS,
						     (void *)(uintptr_t)n);
		return;
	}
	block->address = qemu_plugin_tb_vaddr(tb);
	block->insns = n;
	pthread_mutex_lock(&lock);
	block->next = blocks;
	blocks = block;
	pthread_mutex_unlock(&lock);
	qemu_plugin_register_vcpu_tb_exec_cb(tb, ran_block, QEMU_PLUGIN_CB_NO_REGS, block);
}

static void switched(unsigned int vcpu)
{
	vcpus[vcpu].of[kinds_cpu[vcpu].now].switches++;
}

static void translated(struct qemu_plugin_tb *tb)
{
	bool kernel = qemu_plugin_tb_vaddr(tb) >> 63;
	size_t n = qemu_plugin_tb_n_insns(tb);

	if (kernel)
		register_kernel(tb, n);
	else
		qemu_plugin_register_vcpu_tb_exec_cb(tb, ran_user, QEMU_PLUGIN_CB_NO_REGS,
						     (void *)(uintptr_t)n);
	for (size_t i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint8_t bytes[EMULATOR_INSN_BYTES];
		size_t size = emulator_insn(insn, bytes);

		kinds_translate(insn, bytes, size, kernel);
	}
}

/* The report. */

static void print_counts(FILE *out, const char *name, const struct counts *c, bool last)
{
	fprintf(out, "    \"%s\": {\"user\": %" PRIu64 ", \"kernel\": %" PRIu64
		", \"switches\": %" PRIu64 "}%s\n", name, c->user, c->kernel, c->switches,
		last ? "" : ",");
}

static void print_note(FILE *out, const struct note *note)
{
	fprintf(out, "  {\"region\": %u, \"kinds\": {\n", note->number);
	for (unsigned int kind = 0; kind < kinds_count(); kind++)
		print_counts(out, kinds_name(kind), &note->of[kind], kind + 1 == kinds_count());
	fputs("  }}", out);
}

static void report_blocks(void)
{
	FILE *out = blocks_path ? fopen(blocks_path, "w") : NULL;

	if (!out) {
		if (blocks_path)
			fprintf(stderr, "insn_count: %s: %s\n", blocks_path, strerror(errno));
		return;
	}
	for (const struct block *block = blocks; block; block = block->next)
		for (unsigned int kind = 0; kind < kinds_count(); kind++)
			if (block->end[kind])
				fprintf(out, "%" PRIx64 " %s %" PRIu64 "\n", block->address,
					kinds_name(kind), block->end[kind]);
	if (fclose(out))
		fprintf(stderr, "insn_count: %s: %s\n", blocks_path, strerror(errno));
}

static void report(void)
{
	FILE *out = fopen(out_path, "w");
	struct note end = { 0 };

	if (!out) {
		fprintf(stderr, "insn_count: %s: %s\n", out_path, strerror(errno));
		return;
	}
	for (unsigned int kind = 0; kind < kinds_count(); kind++)
		end.of[kind] = sum_of(kind);
	fputs("{\n\"schema\": \"terrace.insn_count/1\",\n\"notes\": [\n", out);
	for (unsigned int i = 0; i < nr_notes; i++) {
		print_note(out, &notes[i]);
		fputs(i + 1 < nr_notes ? ",\n" : "\n", out);
	}
	fputs("],\n\"end\":\n", out);
	print_note(out, &end);
	fputs("\n}\n", out);
	if (fclose(out))
		fprintf(stderr, "insn_count: %s: %s\n", out_path, strerror(errno));
	report_blocks();
}

/* Options: every mistake is an error and the plugin does not load. */

static int parse_option(const char *option)
{
	const char *value = strchr(option, '=');
	size_t length = value ? (size_t)(value - option) : strlen(option);
	int ret;

	if (!value || !value[1])
		return kinds_bad_option(option, "want NAME=VALUE");
	value++;
	if (kinds_option_is(option, length, "out")) {
		out_path = strdup(value);
		return 0;
	}
	if (kinds_option_is(option, length, "blocks")) {
		blocks_path = strdup(value);
		return 0;
	}
	ret = kinds_option(option, length, value);
	if (ret > 0)
		return kinds_bad_option(option, "unknown; known are out, blocks, switch, newtask, kind, path");
	return ret;
}

PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
				      char **argv)
{
	static const struct kinds_hooks hooks = { .switched = switched, .region = make_note };
	int cpus;

	kinds_setup("insn_count", &hooks);
	cpus = emulator_require("insn_count", info, MAX_VCPUS);
	if (cpus < 0)
		return -1;
	nr_vcpus = (unsigned int)cpus;
	for (int i = 0; i < argc; i++)
		if (parse_option(argv[i]))
			return -1;
	if (!out_path)
		return kinds_bad_option("out", "missing: say where the report goes");
	if (kinds_check())
		return -1;
	emulator_on_block(id, translated);
	emulator_on_exit(id, report);
	return 0;
}
