/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The running QEMU, in one interface for all versions of qemu_plugin_abi.h.
 *
 * The vCPU of a callback.  QEMU passes the number of the vCPU to each callback.  Since 10.0 this number is
 * wrong for a block of a machine whose vCPUs take turns in one thread (-icount, thread=single): it is a
 * constant of the translated code, the vCPU that ran when the block was translated, and every vCPU runs
 * that code.  From interface version 4 on (9.2) the number is therefore looked up: QEMU keeps the running
 * vCPU in a variable of the thread, current_cpu, which a QEMU that is built with modules exports.
 */
#ifndef TERRACE_EMULATOR_H
#define TERRACE_EMULATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "qemu_plugin_abi.h"

#define EMULATOR_INSN_BYTES	15u	/* of the longest x86 instruction */
#define EMULATOR_LOOKS_UP	(TERRACE_PLUGIN_ABI >= 4)

/* NULL, or the name of what emulator_vcpu() needs and this QEMU does not export. */
const char *emulator_lacks(void);

/*
 * Check that this QEMU fits: the interface, an x86_64 machine, at most @most vCPUs.  Returns the number of
 * vCPUs, or -1 after a message that begins with @plugin.
 */
int emulator_require(const char *plugin, const qemu_info_t *info, unsigned int most);

/* Register what is called for each translated block, for each vCPU that is made, and when QEMU ends. */
void emulator_on_block(qemu_plugin_id_t id, void (*translated)(struct qemu_plugin_tb *tb));
void emulator_on_vcpu(qemu_plugin_id_t id, void (*made)(void));
void emulator_on_exit(qemu_plugin_id_t id, void (*ended)(void));

/* Copy an instruction's bytes to @bytes, which has EMULATOR_INSN_BYTES. Returns their number. */
size_t emulator_insn(const struct qemu_plugin_insn *insn, uint8_t *bytes);

/* The last answer of emulator_find_vcpu() in this thread. */
struct emulator_thread {
	void *const *running;	/* where QEMU keeps the running vCPU; NULL before the first call */
	const void *vcpu;
	unsigned int number;
};

extern __thread struct emulator_thread emulator_thread __attribute__((tls_model("initial-exec")));

/* Look up the number of the vCPU that runs in this thread. */
unsigned int emulator_find_vcpu(void);

/* The number of the vCPU that runs in this thread; @told is what QEMU passed to the callback. */
static inline unsigned int emulator_vcpu(unsigned int told)
{
	const struct emulator_thread *t = &emulator_thread;

	if (!EMULATOR_LOOKS_UP)
		return told;
	if (__builtin_expect(t->running && *t->running == t->vcpu, 1))
		return t->number;
	return emulator_find_vcpu();
}

#endif /* TERRACE_EMULATOR_H */
