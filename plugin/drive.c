// SPDX-License-Identifier: GPL-2.0
/*
 * The model drives QEMU; drive.h.
 *
 * The clock.  Under -icount QEMU asks two functions of its accelerator for the time: both are
 * icount_get(), which gives executed instructions, shifted, plus a bias by which it skips the times
 * when all CPUs idle.  The table of the accelerator's functions is searched for that address and gets
 * guest_ns() instead: the furthest of the modelled clocks, plus that bias.  All of the guest's
 * time comes from there: its TSC, its local APICs' timers, QEMU's own timers.  -icount still
 * limits how long a vCPU runs until the next timer is looked at; a turn ends before that limit
 * when an instruction takes longer than it counts.
 *
 * Turns.  QEMU lets one vCPU after the other run until a timer is due, milliseconds.  One that waits for
 * memory at every step and one that computes then execute as many instructions as each other, and
 * their modelled clocks drift apart.  Here a turn ends after a window of the model, and one that is
 * further than a window ahead of the last vCPU that works gets turns of one block.
 *
 * TLBs.  QEMU's own TLB holds more than a processor's, so that a page that is used all the time
 * gets its Accessed bit set again much later than on a machine, or never.  A page that falls out
 * of the modelled second level is dropped from QEMU's, too.
 *
 * Threads: vCPUs take turns in one (-icount needs thread=single); QEMU's main loop asks for the time
 * from another one.  The lock orders the two, and is taken for every reading of the clock.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "drive.h"

/* Of an accelerator's table of functions: how many words are searched for the clock's. */
#define TABLE_WORDS	64u

static struct {
	void (*cpu_exit)(void *cpu);
	void *(*get_cpu)(int index);
	void (*flush_page)(void *cpu, uint64_t vaddr);
	void *(*get_accel)(void);
	int64_t (*icount_get)(void);
	int64_t (*icount_get_raw)(void);
	int64_t (*icount_to_ns)(int64_t count);
} qemu;

static const struct {
	const char *name;
	void *at;
} wanted[] = {
	{ "cpu_exit", &qemu.cpu_exit }, { "qemu_get_cpu", &qemu.get_cpu }, { "tlb_flush_page", &qemu.flush_page },
	{ "cpus_get_accel", &qemu.get_accel }, { "icount_get", &qemu.icount_get },
	{ "icount_get_raw", &qemu.icount_get_raw }, { "icount_to_ns", &qemu.icount_to_ns },
};

enum state { OFF, STARTING, ON };

static const struct model *model;
static void *qemu_cpus[MODEL_MAX_CPUS];
static uint64_t halted_at_ps[MODEL_MAX_CPUS];
static uint64_t worst_skew_ps;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* the clock: all that follows */
static enum state state;
static int64_t base_ns, base_skipped_ns, last_ns;
static uint64_t base_ps, all_idle_ns;

/* ---- the clock ---- */

/* By how much -icount's clock is ahead of its instructions: it skips the times when all CPUs idle. */
static int64_t skipped_ns(void)
{
	int64_t count, now;

	do {
		count = qemu.icount_get_raw();
		now = qemu.icount_get();
	} while (count != qemu.icount_get_raw());
	return now - qemu.icount_to_ns(count);
}

/*
 * The guest's time.  Every reading is later than the one before, even where no modelled time goes by:
 * the idle task's instructions cost nothing, and it may wait for the clock to go on.
 */
static int64_t guest_ns(void)
{
	int64_t now;

	pthread_mutex_lock(&lock);
	if (state == OFF) {
		now = qemu.icount_get();
	} else {
		if (state == STARTING) {
			base_ns = qemu.icount_get();
			base_ps = model_now_ps(model);
			base_skipped_ns = skipped_ns();
			state = ON;
		}
		all_idle_ns = (uint64_t)(skipped_ns() - base_skipped_ns);
		now = base_ns + (int64_t)((model_now_ps(model) - base_ps) / 1000 + all_idle_ns);
		if (now <= last_ns)
			now = last_ns + 1;
	}
	last_ns = now;
	pthread_mutex_unlock(&lock);
	return now;
}

bool drive_take_clock(void)
{
	uintptr_t *table = qemu.get_accel(), ours = (uintptr_t)guest_ns, theirs = (uintptr_t)qemu.icount_get;
	unsigned int found = 0;

	for (unsigned int i = 0; i < TABLE_WORDS; i++) {
		if (table[i] == theirs)
			table[i] = ours;
		found += table[i] == ours;
	}
	return found == 2;
}

const char *drive_setup(const struct model *m)
{
	for (unsigned int i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		void *found = dlsym(RTLD_DEFAULT, wanted[i].name);

		if (!found)
			return wanted[i].name;
		memcpy(wanted[i].at, &found, sizeof(found));
	}
	model = m;
	return NULL;
}

void drive_start(void)
{
	pthread_mutex_lock(&lock);
	if (model && state == OFF)
		state = STARTING;
	pthread_mutex_unlock(&lock);
}

bool drive_all_idle_ns(uint64_t *ns)
{
	pthread_mutex_lock(&lock);
	*ns = all_idle_ns;
	pthread_mutex_unlock(&lock);
	return model;
}

/* ---- turns ---- */

static void *qemu_cpu(const struct model_cpu *cpu)
{
	if (!qemu_cpus[cpu->number])
		qemu_cpus[cpu->number] = qemu.get_cpu((int)cpu->number);
	return qemu_cpus[cpu->number];
}

/* The clock of the vCPU that is behind all others that work. */
static uint64_t last_working_ps(const struct model_cpu *mine)
{
	uint64_t last = mine->clock_ps;

	for (unsigned int i = 0; i < model->config.nr_cpus; i++) {
		const struct model_cpu *cpu = &model->cpu[i];

		if (cpu->demand.active && cpu->clock_ps != halted_at_ps[i] && cpu->clock_ps < last)
			last = cpu->clock_ps;
	}
	return last;
}

uint64_t drive_turn_over(const struct model_cpu *cpu)
{
	uint64_t last = last_working_ps(cpu), ahead = cpu->clock_ps - last;

	if (ahead > worst_skew_ps)
		worst_skew_ps = ahead;
	qemu.cpu_exit(qemu_cpu(cpu));
	return ahead < model->config.window_ps ? cpu->clock_ps + model->config.window_ps : 0;
}

void drive_halted(const struct model_cpu *cpu)
{
	halted_at_ps[cpu->number] = cpu->clock_ps;
}

uint64_t drive_take_skew_ps(void)
{
	uint64_t worst = worst_skew_ps;

	worst_skew_ps = 0;
	return worst;
}

/* ---- TLBs ---- */

void drive_evicted(const struct model_cpu *cpu, uint64_t vaddr)
{
	qemu.flush_page(qemu_cpu(cpu), vaddr);
}
