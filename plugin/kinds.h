/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whose instructions these are: what all of our QEMU plugins know about the guest's tasks.
 *
 * It is seen without help from the kernel: the one instruction of __switch_to_asm that loads the
 * next task's stack pointer reads a field of its task_struct, and the address of that read names
 * the task.  A task gets its kind from where it has been.  Options (each plugin passes them on):
 *
 *   switch=ADDR         __switch_to_asm; needed for any of the others
 *   newtask=ADDR        a task that runs this is a new one (ret_from_fork_asm): kind 0, "other"
 *   kind=NAME@ADDR      a task that runs the kernel code at ADDR is of kind NAME from then on
 *   kind=NAME@markN     ... that runs the marker no-op 0x5454 01 NN (guest/terrace_guest.h)
 *   path=NAME@ADDR      what a task does from ADDR on until it is back in user mode counts as NAME
 *
 * A region marker (0x5454 02 NN) is the plugin's to note.  Interrupts count for the task that they
 * interrupt.  A vCPU's state is its own; the table of tasks has a lock, taken when tasks switch or
 * change their kind, never where they only execute.
 */
#ifndef TERRACE_KINDS_H
#define TERRACE_KINDS_H

#include <stdbool.h>
#include <stdint.h>

#include "emulator.h"

#define MAX_VCPUS	64
#define MAX_KINDS	16

struct kinds_cpu {
	unsigned int kind;	/* of the task that runs now */
	unsigned int path;	/* that it is on; 0: none */
	unsigned int now;	/* what its instructions count as: path, else kind */
	uint64_t task;		/* its address; 0 until the first switch */
};

/* What a plugin wants to hear of. Any may be NULL. */
struct kinds_hooks {
	void (*changed)(unsigned int vcpu);	/* .now is another */
	void (*switched)(unsigned int vcpu);	/* another task runs, after .changed */
	void (*region)(unsigned int vcpu, unsigned int number);
	void (*marked)(unsigned int vcpu);	/* a marker of either sort, before it takes effect */
};

extern struct kinds_cpu kinds_cpu[MAX_VCPUS];

/* Kinds are numbers below kinds_count(); 0 is "other". */
unsigned int kinds_count(void);
const char *kinds_name(unsigned int kind);

/* The plugin's name for error messages, and its hooks. */
void kinds_setup(const char *plugin, const struct kinds_hooks *hooks);

/* Say what is wrong with an option. Returns -1, which ends QEMU. */
int kinds_bad_option(const char *option, const char *why);

/* True when the first @length characters of @option are @name. */
bool kinds_option_is(const char *option, size_t length, const char *name);

/* A kernel address in hexadecimal. */
bool kinds_parse_addr(const char *text, uint64_t *addr);

/* Take an option NAME=VALUE whose name has @length characters. Returns 0, -1 (said why), or 1: not one of ours. */
int kinds_option(const char *option, size_t length, const char *value);

/* After all options. Returns 0 or -1. */
int kinds_check(void);

/* Inspect an instruction of @size bytes while it is translated; @kernel: its block is in the upper half. */
void kinds_translate(struct qemu_plugin_insn *insn, const uint8_t *bytes, size_t size, bool kernel);

/* A task leaves the path that it is on; call it when a block of user code starts. */
void kinds_leave_path(unsigned int vcpu);

static inline void kinds_in_user(unsigned int vcpu)
{
	if (kinds_cpu[vcpu].path)
		kinds_leave_path(vcpu);
}

#endif /* TERRACE_KINDS_H */
