// SPDX-License-Identifier: GPL-2.0
/* The running QEMU; emulator.h. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator.h"

static void (*on_block)(struct qemu_plugin_tb *tb);
static void (*on_vcpu)(void);
static void (*on_exit_of_qemu)(void);

__thread struct emulator_thread emulator_thread;

static unsigned int nr_vcpus;
static void *(*get_cpu)(int index);

static void *exported(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

const char *emulator_lacks(void)
{
	void *found = exported("qemu_get_cpu");

	if (!EMULATOR_LOOKS_UP)
		return NULL;
	if (!found)
		return "qemu_get_cpu";
	memcpy(&get_cpu, &found, sizeof(get_cpu));
	return exported("current_cpu") ? NULL : "current_cpu";
}

int emulator_require(const char *plugin, const qemu_info_t *info, unsigned int most)
{
	const char *lacks;

	if (info->version.min > TERRACE_PLUGIN_ABI || info->version.cur < TERRACE_PLUGIN_ABI) {
		fprintf(stderr, "%s: QEMU speaks plugin ABI %d to %d, this is %d\n", plugin, info->version.min,
			info->version.cur, TERRACE_PLUGIN_ABI);
		return -1;
	}
	if (!info->system_emulation || strcmp(info->target_name, "x86_64")) {
		fprintf(stderr, "%s: is for x86_64 system guests only\n", plugin);
		return -1;
	}
	if (info->system.max_vcpus > (int)most) {
		fprintf(stderr, "%s: at most %u vCPUs, not %d\n", plugin, most, info->system.max_vcpus);
		return -1;
	}
	nr_vcpus = (unsigned int)info->system.max_vcpus;
	lacks = emulator_lacks();
	if (lacks) {
		fprintf(stderr, "%s: this QEMU does not export %s; one that is built with modules, as Debian's is, does\n",
			plugin, lacks);
		return -1;
	}
	return info->system.max_vcpus;
}

unsigned int emulator_find_vcpu(void)
{
	struct emulator_thread *t = &emulator_thread;

	if (!t->running)
		t->running = exported("current_cpu");
	t->vcpu = *t->running;
	for (t->number = 0; t->number < nr_vcpus; t->number++)
		if (get_cpu((int)t->number) == t->vcpu)
			return t->number;
	fputs("terrace: a callback of QEMU came without a vCPU\n", stderr);
	abort();
}

/* ---- callbacks ---- */

#if TERRACE_PLUGIN_ABI >= TERRACE_ABI_USER_DATA

static void translated(struct qemu_plugin_tb *tb, void *data)
{
	(void)data;
	on_block(tb);
}

static void made(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	on_vcpu();
}

static void ended(void *data)
{
	(void)data;
	on_exit_of_qemu();
}

#else

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	on_block(tb);
}

static void made(qemu_plugin_id_t id, unsigned int vcpu)
{
	(void)id;
	(void)vcpu;
	on_vcpu();
}

static void ended(qemu_plugin_id_t id, void *data)
{
	(void)id;
	(void)data;
	on_exit_of_qemu();
}

#endif

void emulator_on_block(qemu_plugin_id_t id, void (*callback)(struct qemu_plugin_tb *tb))
{
	on_block = callback;
#if TERRACE_PLUGIN_ABI >= TERRACE_ABI_USER_DATA
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated, NULL);
#else
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
#endif
}

void emulator_on_vcpu(qemu_plugin_id_t id, void (*callback)(void))
{
	on_vcpu = callback;
#if TERRACE_PLUGIN_ABI >= TERRACE_ABI_USER_DATA
	qemu_plugin_register_vcpu_init_cb(id, made, NULL);
#else
	qemu_plugin_register_vcpu_init_cb(id, made);
#endif
}

void emulator_on_exit(qemu_plugin_id_t id, void (*callback)(void))
{
	on_exit_of_qemu = callback;
	qemu_plugin_register_atexit_cb(id, ended, NULL);
}

/* ---- instructions ---- */

size_t emulator_insn(const struct qemu_plugin_insn *insn, uint8_t *bytes)
{
	size_t size = qemu_plugin_insn_size(insn);

	if (size > EMULATOR_INSN_BYTES)
		size = EMULATOR_INSN_BYTES;
#if TERRACE_PLUGIN_ABI >= TERRACE_ABI_COPIES
	return qemu_plugin_insn_data(insn, bytes, size);
#else
	memcpy(bytes, qemu_plugin_insn_data(insn), size);
	return size;
#endif
}
