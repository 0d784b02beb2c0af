/* SPDX-License-Identifier: GPL-2.0 */
/*
 * QEMU's TCG plugin interface, in the version that TERRACE_PLUGIN_ABI selects.
 *
 * Debian ships no header for the interface.  The part that Terrace's plugins call is declared here, from
 * the interface's documentation and the symbols of QEMU's binaries.  The versions that differ in it:
 *
 *	1  QEMU 7.2 to 8.2
 *	2  QEMU 9.0
 *	3  QEMU 9.1: qemu_plugin_insn_data() copies the bytes instead of returning a pointer
 *	7  QEMU 11.1: callbacks get the user data of their registration, and no plugin id
 *
 * emulator.h has one interface for all of them.
 */
#ifndef TERRACE_QEMU_PLUGIN_ABI_H
#define TERRACE_QEMU_PLUGIN_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if !defined(TERRACE_PLUGIN_ABI) || TERRACE_PLUGIN_ABI < 1 || TERRACE_PLUGIN_ABI > 7
#error "TERRACE_PLUGIN_ABI is the version of the plugin interface: -DTERRACE_PLUGIN_ABI=1 to 7"
#endif
/* The version that changes the function or the callback. */
#define TERRACE_ABI_COPIES	3
#define TERRACE_ABI_USER_DATA	7

#define PLUGIN_EXPORT		__attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;

typedef struct qemu_info_t {
	const char *target_name;
	struct {
		int min;
		int cur;
	} version;
	bool system_emulation;
	union {
		struct {
			int smp_vcpus;
			int max_vcpus;
		} system;
	};
} qemu_info_t;

/* One block of guest code while it is translated, and one instruction of it. */
struct qemu_plugin_tb;
struct qemu_plugin_insn;

/* What a callback may do with guest registers; ours do nothing. */
enum qemu_plugin_cb_flags {
	QEMU_PLUGIN_CB_NO_REGS,
	QEMU_PLUGIN_CB_R_REGS,
	QEMU_PLUGIN_CB_RW_REGS,
};

/* Which accesses a memory callback wants to see. QEMU 7.2.22 mixes R and W up: ask for RW. */
enum qemu_plugin_mem_rw {
	QEMU_PLUGIN_MEM_R = 1,
	QEMU_PLUGIN_MEM_W,
	QEMU_PLUGIN_MEM_RW,
};

typedef void (*qemu_plugin_vcpu_udata_cb_t)(unsigned int vcpu, void *data);
#if TERRACE_PLUGIN_ABI >= TERRACE_ABI_USER_DATA
typedef void (*qemu_plugin_udata_cb_t)(void *data);
typedef void (*qemu_plugin_vcpu_tb_trans_cb_t)(struct qemu_plugin_tb *tb, void *data);
#else
typedef void (*qemu_plugin_udata_cb_t)(qemu_plugin_id_t id, void *data);
typedef void (*qemu_plugin_vcpu_simple_cb_t)(qemu_plugin_id_t id, unsigned int vcpu);
typedef void (*qemu_plugin_vcpu_tb_trans_cb_t)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
#endif
typedef void (*qemu_plugin_vcpu_mem_cb_t)(unsigned int vcpu, qemu_plugin_meminfo_t info,
					  uint64_t vaddr, void *data);

#if TERRACE_PLUGIN_ABI >= TERRACE_ABI_USER_DATA
void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_udata_cb_t cb, void *data);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_tb_trans_cb_t cb, void *data);
#else
void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_simple_cb_t cb);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_tb_trans_cb_t cb);
#endif
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, qemu_plugin_vcpu_udata_cb_t cb,
					  enum qemu_plugin_cb_flags flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
					    qemu_plugin_vcpu_udata_cb_t cb,
					    enum qemu_plugin_cb_flags flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, qemu_plugin_vcpu_mem_cb_t cb,
				      enum qemu_plugin_cb_flags flags, enum qemu_plugin_mem_rw rw,
				      void *data);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, qemu_plugin_udata_cb_t cb, void *data);

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
#if TERRACE_PLUGIN_ABI >= TERRACE_ABI_COPIES
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to, size_t size);
#else
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
#endif
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);

/*
 * Where the access of a memory callback went; valid within the callback, NULL when QEMU no longer
 * has a translation.  Since QEMU 8.2 the address is the guest's physical one.  Before that, for RAM, QEMU
 * adds the offset of the memory block among all blocks, the offset of the block in the machine's memory
 * and the offset in the block.  src/terrace/lab/timing.py gives the model the nodes' places in either form.
 */
struct qemu_plugin_hwaddr;
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t vaddr);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *haddr);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *haddr);

/* Writes to QEMU's log (-d plugin), not to its standard output. */
void qemu_plugin_outs(const char *text);

/* QEMU looks both of these up by name in the plugin. */
PLUGIN_EXPORT extern int qemu_plugin_version;
PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
				      char **argv);

#endif /* TERRACE_QEMU_PLUGIN_ABI_H */
