// SPDX-License-Identifier: GPL-2.0
/* Tasks of the guest and their kinds; kinds.h says how they are told apart. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kinds.h"

#define MAX_RULES	32
#define TASK_SLOTS	65536u	/* power of two; tasks that ever had a kind */
#define MARK_TASK	1
#define MARK_REGION	2

struct rule {
	uint64_t addr;		/* kernel code, or 0 */
	unsigned int marker;	/* or the marker's number */
	unsigned int kind;
	bool path;
};

struct task {
	uint64_t addr;
	unsigned int kind, path;
};

struct kinds_cpu kinds_cpu[MAX_VCPUS];

static const char *plugin_name = "plugin";
static struct kinds_hooks hooks;
static char *kind_names[MAX_KINDS] = { "other" };
static unsigned int nr_kinds = 1;
static struct rule rules[MAX_RULES];
static unsigned int nr_rules;
static uint64_t switch_addr, newtask_addr;

/* Task address -> kind. Open addressing; a task goes back to kind 0 but keeps its slot. */
static struct task tasks[TASK_SLOTS];
static unsigned int nr_tasks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* tasks[] */

unsigned int kinds_count(void)
{
	return nr_kinds;
}

const char *kinds_name(unsigned int kind)
{
	return kind_names[kind];
}

static struct task *find_task(uint64_t addr)
{
	unsigned int slot = (unsigned int)((addr >> 6) * 0x9e3779b97f4a7c15u >> 48) % TASK_SLOTS;

	while (tasks[slot].addr && tasks[slot].addr != addr)
		slot = (slot + 1) % TASK_SLOTS;
	return &tasks[slot];
}

static void tell(void (*hook)(unsigned int vcpu), unsigned int vcpu)
{
	if (hook)
		hook(vcpu);
}

/* The running task is of this kind, or on this path, from now on. */
static void set_now(unsigned int vcpu, unsigned int kind, unsigned int path)
{
	struct kinds_cpu *v = &kinds_cpu[vcpu];
	struct task *task;

	if (!v->task || (v->kind == kind && v->path == path))
		return;
	v->kind = kind;
	v->path = path;
	v->now = path ? path : kind;
	pthread_mutex_lock(&lock);
	task = find_task(v->task);
	if (!task->addr && nr_tasks < TASK_SLOTS / 2) {
		task->addr = v->task;
		nr_tasks++;
	}
	if (task->addr) {
		task->kind = kind;
		task->path = path;
	}
	pthread_mutex_unlock(&lock);
	tell(hooks.changed, vcpu);
}

void kinds_leave_path(unsigned int vcpu)
{
	set_now(vcpu, kinds_cpu[vcpu].kind, 0);
}

/* Callbacks while guest code executes. */

static void switched(unsigned int told, qemu_plugin_meminfo_t info, uint64_t vaddr, void *data)
{
	unsigned int vcpu = emulator_vcpu(told);
	struct kinds_cpu *v = &kinds_cpu[vcpu];
	const struct task *task;

	(void)info;
	v->task = vaddr - (uintptr_t)data;
	pthread_mutex_lock(&lock);
	task = find_task(v->task);
	v->kind = task->kind;
	v->path = task->path;
	pthread_mutex_unlock(&lock);
	v->now = v->path ? v->path : v->kind;
	tell(hooks.changed, vcpu);
	tell(hooks.switched, vcpu);
}

static void new_task(unsigned int told, void *data)
{
	(void)data;
	set_now(emulator_vcpu(told), 0, 0);
}

static void reached(unsigned int told, void *data)
{
	unsigned int vcpu = emulator_vcpu(told);
	const struct rule *rule = data;
	const struct kinds_cpu *v = &kinds_cpu[vcpu];

	if (rule->path)
		set_now(vcpu, v->kind, rule->kind);
	else
		set_now(vcpu, rule->kind, v->path);
}

static void marked_task(unsigned int told, void *data)
{
	unsigned int vcpu = emulator_vcpu(told);

	tell(hooks.marked, vcpu);
	for (unsigned int i = 0; i < nr_rules; i++)
		if (!rules[i].addr && rules[i].marker == (uintptr_t)data)
			set_now(vcpu, rules[i].kind, 0);
}

static void marked_region(unsigned int told, void *data)
{
	unsigned int vcpu = emulator_vcpu(told);

	tell(hooks.marked, vcpu);
	if (hooks.region)
		hooks.region(vcpu, (unsigned int)(uintptr_t)data);
}

/* Callbacks while guest code is translated. */

static uint32_t word_at(const uint8_t *bytes)
{
	return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/*
 * movq disp32(%rsi),%rsp, shortly after the start of __switch_to_asm.  It only loads, but is asked
 * for as RW: QEMU 7.2.22 was seen to give callbacks for R the stores, and no loads.
 */
static void look_for_switch(struct qemu_plugin_insn *insn, const uint8_t *bytes, size_t size)
{
	static const uint8_t load[] = { 0x48, 0x8b, 0xa6 };

	if (size == 7 && !memcmp(bytes, load, sizeof(load)))
		qemu_plugin_register_vcpu_mem_cb(insn, switched, QEMU_PLUGIN_CB_NO_REGS,
						 QEMU_PLUGIN_MEM_RW,
						 (void *)(uintptr_t)word_at(bytes + 3));
}

static void look_at_kernel(struct qemu_plugin_insn *insn, const uint8_t *bytes, size_t size)
{
	uint64_t addr = qemu_plugin_insn_vaddr(insn);

	if (switch_addr && addr - switch_addr < 64)
		look_for_switch(insn, bytes, size);
	if (newtask_addr && addr == newtask_addr)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, new_task, QEMU_PLUGIN_CB_NO_REGS, NULL);
	for (unsigned int i = 0; i < nr_rules; i++)
		if (rules[i].addr == addr)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, reached, QEMU_PLUGIN_CB_NO_REGS,
							       &rules[i]);
}

static void look_at_user(struct qemu_plugin_insn *insn, const uint8_t *bytes, size_t size)
{
	static const uint8_t nop[] = { 0x0f, 0x1f, 0x84, 0x00 };
	uint32_t message;

	if (size != 8 || memcmp(bytes, nop, sizeof(nop)))
		return;
	message = word_at(bytes + 4);
	if (message >> 16 != 0x5454)
		return;
	if ((message >> 8 & 0xff) == MARK_TASK)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, marked_task, QEMU_PLUGIN_CB_NO_REGS,
						       (void *)(uintptr_t)(message & 0xff));
	else if ((message >> 8 & 0xff) == MARK_REGION)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, marked_region, QEMU_PLUGIN_CB_NO_REGS,
						       (void *)(uintptr_t)(message & 0xff));
}

void kinds_translate(struct qemu_plugin_insn *insn, const uint8_t *bytes, size_t size, bool kernel)
{
	if (kernel)
		look_at_kernel(insn, bytes, size);
	else
		look_at_user(insn, bytes, size);
}

/* Options: every mistake is an error and the plugin does not load. */

void kinds_setup(const char *plugin, const struct kinds_hooks *wanted)
{
	plugin_name = plugin;
	hooks = *wanted;
}

int kinds_bad_option(const char *option, const char *why)
{
	fprintf(stderr, "%s: option '%s': %s\n", plugin_name, option, why);
	return -1;
}

bool kinds_option_is(const char *option, size_t length, const char *name)
{
	return strlen(name) == length && !strncmp(option, name, length);
}

bool kinds_parse_addr(const char *text, uint64_t *addr)
{
	char *end;

	errno = 0;
	*addr = strtoull(text, &end, 16);
	return !errno && end != text && !*end && *addr >> 63;
}

/* The number of that name, a new one where there is none yet; MAX_KINDS when they are used up. */
static unsigned int kind_of(const char *name, size_t length)
{
	unsigned int kind;

	for (kind = 0; kind < nr_kinds; kind++)
		if (kinds_option_is(name, length, kind_names[kind]))
			return kind;
	if (kind < MAX_KINDS) {
		kind_names[kind] = strndup(name, length);
		nr_kinds++;
	}
	return kind;
}

/* NAME@ADDR, or for a kind of task also NAME@markN. */
static int parse_rule(const char *option, const char *value, bool path)
{
	const char *at = strchr(value, '@');
	struct rule *rule = &rules[nr_rules];

	if (!at || at == value || strcspn(value, "\"\\") < (size_t)(at - value))
		return kinds_bad_option(option, "want NAME@ADDR, or NAME@markN for a kind");
	if (nr_rules == MAX_RULES)
		return kinds_bad_option(option, "too many rules");
	rule->kind = kind_of(value, (size_t)(at - value));
	rule->path = path;
	if (rule->kind == MAX_KINDS)
		return kinds_bad_option(option, "too many names");
	if (!path && !strncmp(at + 1, "mark", 4)) {
		char *end;
		unsigned long number = strtoul(at + 5, &end, 10);

		if (end == at + 5 || *end || number > 255)
			return kinds_bad_option(option, "a marker's number is 0 to 255");
		rule->marker = (unsigned int)number;
	} else if (!kinds_parse_addr(at + 1, &rule->addr)) {
		return kinds_bad_option(option, "want a kernel address in hexadecimal after '@'");
	}
	nr_rules++;
	return 0;
}

int kinds_option(const char *option, size_t length, const char *value)
{
	uint64_t *addr = NULL;

	if (kinds_option_is(option, length, "kind"))
		return parse_rule(option, value, false);
	if (kinds_option_is(option, length, "path"))
		return parse_rule(option, value, true);
	if (kinds_option_is(option, length, "switch"))
		addr = &switch_addr;
	else if (kinds_option_is(option, length, "newtask"))
		addr = &newtask_addr;
	else
		return 1;
	return kinds_parse_addr(value, addr) ? 0 : kinds_bad_option(option, "want a kernel address");
}

int kinds_check(void)
{
	if (nr_rules && !switch_addr)
		return kinds_bad_option("switch", "missing: kinds of tasks need it");
	return 0;
}
