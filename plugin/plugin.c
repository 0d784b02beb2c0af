// SPDX-License-Identifier: GPL-2.0
/*
 * The timing plugin: the guest's instructions and accesses, given to the memory-timing model.
 *
 * Glue only.  What time is, is in model.c; whose work it is, in kinds.c; what is written, in
 * report.c.  Options: those of kinds.h, and
 *
 *   out=FILE            where the ledger goes when QEMU ends; needed
 *   machine=FILE        the modelled machine (machine.h); needed
 *   start=boot|ADDR@N   when the model begins: at once, or when a CPU executes the kernel's code at
 *                       ADDR for the Nth time, or at the first marker, whichever comes first
 *   series=MS           a point of the time series every MS of modelled time within a region; 0: none
 *   pages=FILE          misses to memory of the app's user code within a region, by virtual page
 *   sent=ADDR           the kernel asks other CPUs to flush (native_flush_tlb_multi)
 *   ipi=ADDR            a CPU begins to serve such a call; may be repeated (sysvec_call_function…)
 *   local=ADDR          it begins a flush of its own (flush_tlb_mm_range…); may be repeated
 *   flush=ADDR          it flushes (flush_tlb_func): for another CPU if after "ipi"
 *   wake=ADDR           it sends an interrupt that wakes (native_smp_send_reschedule…); may be repeated
 *   huge=ADDR           it maps a huge page (pgtable_trans_huge_deposit)
 *   clock=count|model   the guest's clock counts instructions (the default), or is the model's; the
 *                       latter also bounds how far vCPUs' clocks drift apart, and has QEMU's TLBs
 *                       forget what the modelled ones do (drive.h)
 *
 * Every flush that the guest executes (mov to CR0, CR3 and CR4, invlpg, invpcid) is seen as the
 * instruction, so that the modelled TLBs never hold what the guest's CPU would not.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drive.h"
#include "kinds.h"
#include "machine.h"
#include "pages.h"
#include "report.h"

#define MAX_EVENTS	16
#define HUGE_SLOTS	65536u	/* power of two */
#define DEVICE_BIT	(1ull << 51)
#define INSN_KERNEL	1u	/* next to MODEL_CHAINED in what a memory callback is told */

int qemu_plugin_version = TERRACE_PLUGIN_ABI;

struct vcpu {
	struct model_counts *counts[2];	/* of the kind that runs now: user, kernel */
	struct model_cpu *cpu;
	bool live;			/* the model is on and the vCPU is not idle */
	bool idle, serving, huge_due;
	bool app;
	uint64_t turn_ps;		/* the clock at which its turn ends */
} __attribute__((aligned(64)));

enum event { EVENT_SENT, EVENT_IPI, EVENT_LOCAL, EVENT_FLUSH, EVENT_WAKE, EVENT_HUGE, EVENT_START, NR_EVENTS };

static const char * const event_names[NR_EVENTS] = { "sent", "ipi", "local", "flush", "wake", "huge", "start" };

static struct vcpu vcpus[MAX_VCPUS];
static unsigned int nr_vcpus;
static struct cpu_counts *counts;
static struct model *model;
static bool model_on, driven;
static struct {
	uint64_t addr;
	enum event event;
} events[MAX_EVENTS];
static unsigned int nr_events, start_runs;
static uint64_t series_ps, next_step_ps = UINT64_MAX;
static uint64_t huge_regions[HUGE_SLOTS];
static const char *out_path, *machine_path, *pages_path;

/* ---- 2M pages of user space ---- */

/*
 * The regions of 2M, by number, in which a fault was seen to map a huge page.  An access counts as
 * one through a 2M entry when its region is here and virtual and physical address agree in their
 * low 21 bits, as they must.  Regions are never removed: a page that was split into small ones
 * fails the second test as soon as the small ones move.
 */
static uint64_t *huge_slot(uint64_t region)
{
	uint64_t slot = region * 0x9e3779b97f4a7c15u >> 48;

	for (unsigned int tries = 0; tries < HUGE_SLOTS; tries++, slot++) {
		uint64_t *at = &huge_regions[slot % HUGE_SLOTS];
		uint64_t found = __atomic_load_n(at, __ATOMIC_RELAXED);

		if (!found || found == region)
			return at;
	}
	return NULL;
}

static bool is_huge(unsigned int vcpu, uint64_t vaddr, uint64_t paddr)
{
	unsigned int node = model_node_of(&model->config, paddr);
	uint64_t *slot;

	if (node == MODEL_NO_NODE || (vaddr ^ (paddr - model->config.node[node].skew)) & 0x1ff000)
		return false;
	if (vaddr >> 63)
		return true;
	slot = huge_slot(vaddr >> 21);
	if (slot && !*slot && vcpus[vcpu].huge_due)
		__atomic_store_n(slot, vaddr >> 21, __ATOMIC_RELAXED);
	return slot && *slot;
}

static bool where(uintptr_t context, uint64_t vaddr, uint64_t *paddr, bool *huge)
{
	unsigned int vcpu = (unsigned int)(context >> 32);
	const struct qemu_plugin_hwaddr *at = qemu_plugin_get_hwaddr((qemu_plugin_meminfo_t)context, vaddr);

	if (!at)
		return false;
	*paddr = qemu_plugin_hwaddr_phys_addr(at);
	*huge = false;
	if (qemu_plugin_hwaddr_is_io(at)) {
		*paddr |= DEVICE_BIT;
		return true;
	}
	*paddr = machine_without_gap(&model->config, *paddr);
	*huge = is_huge(vcpu, vaddr, *paddr);
	if (!(vaddr >> 63))
		vcpus[vcpu].huge_due = false;
	return true;
}

/* ---- callbacks while guest code executes ---- */

static void update(struct vcpu *v)
{
	v->live = model_on && !v->idle;
}

static void turn_on(void)
{
	if (model_on)
		return;
	model_on = true;
	report_start();
	for (unsigned int i = 0; i < nr_vcpus; i++)
		update(&vcpus[i]);
	if (driven)
		drive_start();
}

static void changed(unsigned int vcpu)
{
	struct vcpu *v = &vcpus[vcpu];
	const char *kind = kinds_name(kinds_cpu[vcpu].now);
	bool idle = !strcmp(kind, "idle");

	if (model_on && idle && !v->idle)
		model_idle(model, v->cpu, v->counts[1]);
	if (model_on && !idle && v->idle)
		model_busy(model, v->cpu);
	v->idle = idle;
	v->app = !strcmp(kind, "app");
	for (unsigned int mode = 0; mode < 2; mode++)
		v->counts[mode] = &counts[vcpu].of[kinds_cpu[vcpu].now][mode];
	update(v);
}

static void switched(unsigned int vcpu)
{
	vcpus[vcpu].serving = false;
	vcpus[vcpu].huge_due = false;
}

static void region(unsigned int vcpu, unsigned int number)
{
	model_settle(model, vcpus[vcpu].cpu, vcpus[vcpu].counts[0]);
	if (series_ps && report_in_region())
		report_step();	/* the series ends where the region does */
	report_region(number);
	next_step_ps = series_ps && report_in_region() ? model_now_ps(model) : UINT64_MAX;
}

static void marked(unsigned int vcpu)
{
	(void)vcpu;
	turn_on();
}

static void missed(struct model_cpu *cpu, struct model_counts *of, uint64_t vaddr)
{
	const struct vcpu *v = &vcpus[cpu->number];

	if (pages_path && v->app && of == v->counts[0] && report_in_region())
		pages_add(cpu->number, vaddr >> 12);
}

static void advance(struct vcpu *v, unsigned int mode, uint64_t insns)
{
	v->counts[mode]->insns += insns;
	if (!v->live)
		return;
	model_insns(model, v->cpu, insns);
	if (v->cpu->clock_ps >= v->turn_ps)
		v->turn_ps = drive_turn_over(v->cpu);
	if (v->cpu->clock_ps < next_step_ps)
		return;
	report_step();
	next_step_ps += series_ps;
}

static void ran_user(unsigned int told, void *data)
{
	unsigned int vcpu = emulator_vcpu(told);

	kinds_in_user(vcpu);
	vcpus[vcpu].serving = false;
	advance(&vcpus[vcpu], 0, (uintptr_t)data);
}

static void ran_kernel(unsigned int told, void *data)
{
	advance(&vcpus[emulator_vcpu(told)], 1, (uintptr_t)data);
}

static void accessed(unsigned int told, qemu_plugin_meminfo_t info, uint64_t vaddr, void *data)
{
	unsigned int vcpu = emulator_vcpu(told);
	const struct vcpu *v = &vcpus[vcpu];
	unsigned int flags = (unsigned int)(uintptr_t)data;

	if (!v->live)
		return;
	model_access(model, v->cpu, v->counts[flags & INSN_KERNEL], vaddr,
		     (flags & MODEL_CHAINED) | qemu_plugin_mem_is_store(info), info | (uintptr_t)vcpu << 32);
}

static void flushed_all(unsigned int told, void *data)
{
	(void)data;
	model_flush_all(vcpus[emulator_vcpu(told)].cpu);
}

static void flushed_user(unsigned int told, void *data)
{
	(void)data;
	model_flush_user(vcpus[emulator_vcpu(told)].cpu);
}

static void flushed_one(unsigned int told, void *data)
{
	(void)data;
	model_flush_one(vcpus[emulator_vcpu(told)].cpu);
}

static void halted(unsigned int told, void *data)
{
	const struct vcpu *v = &vcpus[emulator_vcpu(told)];

	(void)data;
	model_halt(v->cpu);
	drive_halted(v->cpu);
}

static void happened(unsigned int told, void *data)
{
	struct vcpu *v = &vcpus[emulator_vcpu(told)];

	switch ((enum event)(uintptr_t)data) {
	case EVENT_SENT:
		if (v->live)
			model_shootdown_sent(model, v->cpu, v->counts[1]);
		break;
	case EVENT_IPI:
		v->serving = true;
		break;
	case EVENT_LOCAL:
		v->serving = false;
		break;
	case EVENT_FLUSH:
		if (v->serving && v->live)
			model_shootdown_received(model, v->cpu, v->counts[1]);
		v->serving = false;
		break;
	case EVENT_WAKE:
		if (v->live)
			model_wake(model, v->cpu);
		break;
	case EVENT_HUGE:
		v->huge_due = true;
		break;
	case EVENT_START:
		if (start_runs && !--start_runs)
			turn_on();
		break;
	case NR_EVENTS:
		break;
	}
}

/* ---- callbacks while guest code is translated ---- */

/* Skip prefixes. Returns the opcode's place, or @size. */
static size_t opcode_at(const uint8_t *bytes, size_t size, uint8_t *rex)
{
	size_t i = 0;

	*rex = 0;
	while (i < size && (bytes[i] == 0x66 || bytes[i] == 0xf2 || bytes[i] == 0xf3 || bytes[i] == 0x2e ||
			    bytes[i] == 0x3e))
		i++;
	if (i < size && (bytes[i] & 0xf0) == 0x40)
		*rex = bytes[i++];
	return i;
}

/* mov (…rax…),%rax: a load whose address needs what the load before it gave, when it runs in a loop. */
static bool is_chained(const uint8_t *bytes, size_t size)
{
	unsigned int target, base, index = 16;
	uint8_t rex;
	size_t i = opcode_at(bytes, size, &rex);

	if (i + 1 >= size || bytes[i] != 0x8b || bytes[i + 1] >> 6 == 3)
		return false;
	target = (bytes[i + 1] >> 3 & 7) | (rex & 4) << 1;
	base = (bytes[i + 1] & 7) | (rex & 1) << 3;
	if ((bytes[i + 1] & 7) == 4 && i + 2 < size) {
		base = (bytes[i + 2] & 7) | (rex & 1) << 3;
		index = (bytes[i + 2] >> 3 & 7) | (rex & 2) << 2;
		if (index == 4)
			index = 16;
	} else if ((bytes[i + 1] & 0xc7) == 5) {
		return false;	/* relative to %rip */
	}
	return target == base || target == index;
}

static void look_for_flush(struct qemu_plugin_insn *insn, const uint8_t *bytes, size_t size)
{
	qemu_plugin_vcpu_udata_cb_t callback = NULL;
	uint8_t rex, modrm;
	size_t i = opcode_at(bytes, size, &rex);

	if (i + 2 >= size || bytes[i] != 0x0f)
		return;
	modrm = bytes[i + 2];
	if (bytes[i + 1] == 0x22 && !(rex & 4))
		callback = (modrm >> 3 & 7) == 3 ? flushed_user : flushed_all;
	else if (bytes[i + 1] == 0x01 && (modrm >> 3 & 7) == 7 && modrm >> 6 != 3)
		callback = flushed_one;
	else if (bytes[i + 1] == 0x38 && modrm == 0x82)
		callback = flushed_all;
	if (callback)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, callback, QEMU_PLUGIN_CB_NO_REGS, NULL);
}

static void look_at_kernel(struct qemu_plugin_insn *insn, const uint8_t *bytes, size_t size)
{
	uint64_t addr = qemu_plugin_insn_vaddr(insn);

	look_for_flush(insn, bytes, size);
	if (size && bytes[0] == 0xf4)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, halted, QEMU_PLUGIN_CB_NO_REGS, NULL);
	for (unsigned int i = 0; i < nr_events; i++)
		if (events[i].addr == addr)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, happened, QEMU_PLUGIN_CB_NO_REGS,
							       (void *)(uintptr_t)events[i].event);
}

static void translated(struct qemu_plugin_tb *tb)
{
	bool kernel = qemu_plugin_tb_vaddr(tb) >> 63;
	size_t n = qemu_plugin_tb_n_insns(tb);

	qemu_plugin_register_vcpu_tb_exec_cb(tb, kernel ? ran_kernel : ran_user, QEMU_PLUGIN_CB_NO_REGS,
					     (void *)(uintptr_t)n);
	for (size_t i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint8_t bytes[EMULATOR_INSN_BYTES];
		size_t size = emulator_insn(insn, bytes);
		uintptr_t flags = (kernel ? INSN_KERNEL : 0) | (is_chained(bytes, size) ? MODEL_CHAINED : 0);

		qemu_plugin_register_vcpu_mem_cb(insn, accessed, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
						 (void *)flags);
		kinds_translate(insn, bytes, size, kernel);
		if (kernel)
			look_at_kernel(insn, bytes, size);
	}
}

static void finish(void)
{
	int err = report_write(out_path);

	if (err)
		fprintf(stderr, "timing: %s: %s\n", out_path, strerror(-err));
	if (pages_path) {
		err = pages_write(pages_path, nr_vcpus);
		if (err)
			fprintf(stderr, "timing: %s: %s\n", pages_path, strerror(-err));
	}
}

/* ---- options: every mistake is an error and the plugin does not load ---- */

static int add_event(const char *option, const char *value, enum event event)
{
	char *text, *at, *end = NULL;
	int ret = 0;

	if (event == EVENT_START && !strcmp(value, "boot")) {
		model_on = true;
		return 0;
	}
	if (nr_events == MAX_EVENTS)
		return kinds_bad_option(option, "too many addresses");
	text = strdup(value);
	at = strchr(text, '@');
	if (event == EVENT_START) {
		start_runs = at ? (unsigned int)strtoul(at + 1, &end, 10) : 0;
		if (!start_runs || *end)
			ret = kinds_bad_option(option, "want boot, or ADDR@N with N of at least 1");
		else
			*at = 0;
	}
	if (!ret && !kinds_parse_addr(text, &events[nr_events].addr))
		ret = kinds_bad_option(option, "want a kernel address in hexadecimal");
	events[nr_events++].event = event;
	free(text);
	return ret;
}

static int parse_series(const char *option, const char *value)
{
	char *end;
	double ms = strtod(value, &end);

	if (*end || !(ms >= 0 && ms <= 1e6))
		return kinds_bad_option(option, "want milliseconds of modelled time, 0 for none");
	series_ps = (uint64_t)(ms * 1e9);
	return 0;
}

static int parse_clock(const char *option, const char *value)
{
	driven = !strcmp(value, "model");
	if (!driven && strcmp(value, "count"))
		return kinds_bad_option(option, "want count or model");
	return 0;
}

static int parse_option(const char *option)
{
	const char *value = strchr(option, '=');
	size_t length = value ? (size_t)(value - option) : strlen(option);
	int ret;

	if (!value || !value[1])
		return kinds_bad_option(option, "want NAME=VALUE");
	value++;
	if (kinds_option_is(option, length, "out"))
		return (out_path = strdup(value)) ? 0 : -1;
	if (kinds_option_is(option, length, "machine"))
		return (machine_path = strdup(value)) ? 0 : -1;
	if (kinds_option_is(option, length, "pages"))
		return (pages_path = strdup(value)) ? 0 : -1;
	if (kinds_option_is(option, length, "series"))
		return parse_series(option, value);
	if (kinds_option_is(option, length, "clock"))
		return parse_clock(option, value);
	for (enum event event = 0; event < NR_EVENTS; event++)
		if (kinds_option_is(option, length, event_names[event]))
			return add_event(option, value, event);
	ret = kinds_option(option, length, value);
	if (ret > 0)
		return kinds_bad_option(option, "unknown; known are out, machine, start, series, pages, clock, sent, "
					"ipi, local, flush, wake, huge, switch, newtask, kind, path");
	return ret;
}

static int load_machine(void)
{
	static struct model_config config;
	FILE *file = fopen(machine_path, "r");
	char error[256];
	const char *why;
	int ret;

	if (!file)
		return kinds_bad_option("machine", "the file cannot be read");
	ret = machine_read(file, &config, error, sizeof(error));
	fclose(file);
	if (ret)
		return kinds_bad_option("machine", error);
	if (config.nr_cpus != nr_vcpus)
		return kinds_bad_option("machine", "QEMU has another number of vCPUs");
	model = model_new(&config, where, &why);
	if (!model)
		return kinds_bad_option("machine", why);
	model->missed = missed;
	return 0;
}

static void cpu_made(void)
{
	if (drive_take_clock())
		return;
	fprintf(stderr, "timing: clock=model: QEMU's clock does not count instructions; start it with -icount\n");
	exit(EXIT_FAILURE);
}

/* Before anything runs: a model that begins with the machine drives it from there. */
static int take_over(qemu_plugin_id_t id)
{
	static char why[128];
	const char *lacks;

	for (unsigned int i = 0; i < nr_vcpus; i++)
		vcpus[i].turn_ps = driven ? 0 : UINT64_MAX;
	if (!driven)
		return 0;
	lacks = drive_setup(model);
	if (lacks) {
		snprintf(why, sizeof(why), "this QEMU does not export %s; one that is built with modules, as Debian's "
			 "is, does", lacks);
		return kinds_bad_option("clock=model", why);
	}
	model->evicted = drive_evicted;
	emulator_on_vcpu(id, cpu_made);
	if (model_on)
		drive_start();
	return 0;
}

PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	static const struct kinds_hooks hooks = {
		.changed = changed, .switched = switched, .region = region, .marked = marked,
	};
	int cpus;

	kinds_setup("timing", &hooks);
	cpus = emulator_require("timing", info, MAX_VCPUS);
	if (cpus < 0)
		return -1;
	nr_vcpus = (unsigned int)cpus;
	for (int i = 0; i < argc; i++)
		if (parse_option(argv[i]))
			return -1;
	if (!out_path)
		return kinds_bad_option("out", "missing: say where the ledger goes");
	if (!machine_path)
		return kinds_bad_option("machine", "missing: say what machine to model");
	if (kinds_check() || load_machine() || take_over(id))
		return -1;
	counts = calloc(nr_vcpus, sizeof(*counts));
	report_setup(model, counts);
	for (unsigned int i = 0; i < nr_vcpus; i++) {
		vcpus[i].cpu = &model->cpu[i];
		changed(i);
	}
	emulator_on_block(id, translated);
	emulator_on_exit(id, finish);
	return 0;
}
