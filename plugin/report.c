// SPDX-License-Identifier: GPL-2.0
/* Snapshots and the ledger; report.h. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "drive.h"
#include "machine.h"
#include "report.h"

#define MAX_NOTES	256
#define MAX_STEPS	20000

struct cpu_note {
	uint64_t clock_ps, idle_ps, use_ps, untranslated;
	struct model_node_use use[MODEL_MAX_NODES];
	struct cpu_counts counts;
};

struct note {
	unsigned int number;
	uint64_t now_ps, host_ns, all_idle_ns;
	uint64_t skew_ps;	/* the worst since the note before */
	struct cpu_note cpu[];
};

static const struct model *model;
static const struct cpu_counts *live;
static struct note *notes[MAX_NOTES], *start_note;
static unsigned int nr_notes;
static bool in_region;
static struct step *steps, region_step;
static unsigned int nr_steps;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* all of the above */

static unsigned int nr_cpus(void)
{
	return model->config.nr_cpus;
}

static uint64_t host_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct note *take_note(unsigned int number)
{
	struct note *note = calloc(1, sizeof(*note) + nr_cpus() * sizeof(note->cpu[0]));

	if (!note)
		return NULL;
	note->number = number;
	note->now_ps = model_now_ps(model);
	note->host_ns = host_ns();
	drive_all_idle_ns(&note->all_idle_ns);
	note->skew_ps = drive_take_skew_ps();
	for (unsigned int i = 0; i < nr_cpus(); i++) {
		const struct model_cpu *cpu = &model->cpu[i];

		note->cpu[i].clock_ps = cpu->clock_ps;
		note->cpu[i].idle_ps = cpu->idle_ps;
		note->cpu[i].use_ps = cpu->use_ps;
		note->cpu[i].untranslated = cpu->untranslated;
		memcpy(note->cpu[i].use, cpu->use, sizeof(cpu->use));
		note->cpu[i].counts = live[i];
	}
	return note;
}

static struct step sum_step(void)
{
	struct step s = { .t_ps = model_now_ps(model) };

	for (unsigned int i = 0; i < nr_cpus(); i++) {
		for (unsigned int kind = 0; kind < kinds_count(); kind++) {
			const struct model_counts *of = live[i].of[kind];
			bool app = !strcmp(kinds_name(kind), "app");

			s.insns += of[0].insns + of[1].insns;
			s.kernel_insns += strcmp(kinds_name(kind), "idle") ? of[1].insns : 0;
			s.app_insns += app ? of[0].insns : 0;
			s.shootdowns += of[0].shootdowns_sent + of[1].shootdowns_sent;
			for (unsigned int n = 0; app && n < model->config.nr_nodes; n++)
				s.app_misses[n] += of[0].tier[n].misses[0] + of[0].tier[n].misses[1];
		}
		for (unsigned int n = 0; n < model->config.nr_nodes; n++)
			s.bytes[n] += model->cpu[i].use[n].bytes[0] + model->cpu[i].use[n].bytes[1];
	}
	return s;
}

void report_setup(const struct model *m, const struct cpu_counts *counts)
{
	model = m;
	live = counts;
}

void report_start(void)
{
	pthread_mutex_lock(&lock);
	if (!start_note)
		start_note = take_note(0);
	pthread_mutex_unlock(&lock);
}

void report_region(unsigned int number)
{
	pthread_mutex_lock(&lock);
	if (nr_notes < MAX_NOTES - 1) {
		notes[nr_notes] = take_note(number);
		nr_notes += notes[nr_notes] != NULL;
	}
	__atomic_store_n(&in_region, number % 2 == 1, __ATOMIC_RELAXED);
	if (number % 2 == 1)
		region_step = sum_step();
	pthread_mutex_unlock(&lock);
}

bool report_in_region(void)
{
	return __atomic_load_n(&in_region, __ATOMIC_RELAXED);
}

void report_step(void)
{
	struct step *s;

	pthread_mutex_lock(&lock);
	if (!steps)
		steps = calloc(MAX_STEPS, sizeof(*steps));
	if (steps && in_region && nr_steps < MAX_STEPS) {
		s = &steps[nr_steps++];
		*s = sum_step();
		s->t_ps -= region_step.t_ps;
		s->insns -= region_step.insns;
		s->app_insns -= region_step.app_insns;
		s->kernel_insns -= region_step.kernel_insns;
		s->shootdowns -= region_step.shootdowns;
		for (unsigned int n = 0; n < MODEL_MAX_NODES; n++) {
			s->app_misses[n] -= region_step.app_misses[n];
			s->bytes[n] -= region_step.bytes[n];
		}
	}
	pthread_mutex_unlock(&lock);
}

/* ---- JSON ---- */

static double ns(int64_t ps)
{
	return (double)ps / 1000;
}

static void print_tiers(FILE *out, const struct model_counts *a, const struct model_counts *b)
{
	const char *comma = "";

	fputs(", \"tier\": {", out);
	for (unsigned int n = 0; n < model->config.nr_nodes; n++) {
		const struct model_tier *x = &a->tier[n], *y = &b->tier[n];

		if (!(y->accesses[0] - x->accesses[0] + y->accesses[1] - x->accesses[1]) && y->stall_ps == x->stall_ps)
			continue;
		fprintf(out, "%s\"%u\": {\"reads\": %" PRIu64 ", \"writes\": %" PRIu64 ", \"read_misses\": %" PRIu64
			", \"write_misses\": %" PRIu64 ", \"stall_ns\": %.0f}", comma, n,
			y->accesses[0] - x->accesses[0], y->accesses[1] - x->accesses[1],
			y->misses[0] - x->misses[0], y->misses[1] - x->misses[1], ns(y->stall_ps - x->stall_ps));
		comma = ", ";
	}
	fputs("}", out);
}

static void print_mode(FILE *out, const char *mode, bool idle, const struct model_counts *a,
		       const struct model_counts *b)
{
	uint64_t accesses[2] = { 0 }, insns = b->insns - a->insns;

	for (unsigned int n = 0; n <= MODEL_MAX_NODES; n++)
		for (unsigned int w = 0; w < 2; w++)
			accesses[w] += b->tier[n].accesses[w] - a->tier[n].accesses[w];
	fprintf(out, "\"%s\": {\"insns\": %" PRIu64 ", \"reads\": %" PRIu64 ", \"writes\": %" PRIu64, mode, insns,
		accesses[0], accesses[1]);
#define COUNT(field) fprintf(out, ", \"" #field "\": %" PRIu64, b->field - a->field)
	COUNT(l1_miss);
	COUNT(l2_miss);
	COUNT(llc_miss);
	COUNT(dtlb_miss);
	COUNT(stlb_miss);
	COUNT(walk_reads);
	COUNT(huge);
	COUNT(shootdowns_sent);
	COUNT(shootdowns_received);
#undef COUNT
	fprintf(out, ", \"busy_ns\": %.0f, \"stall_ns\": %.0f", idle ? 0 : ns((int64_t)(insns * model->config.insn_ps)),
		ns(b->stall_ps - a->stall_ps));
	print_tiers(out, a, b);
	fputs("}", out);
}

static void print_cpu(FILE *out, const struct cpu_note *a, const struct cpu_note *b)
{
	const char *comma = "";

	fprintf(out, "    {\"clock_ns\": %.0f, \"idle_ns\": %.0f, \"untranslated\": %" PRIu64 ", \"kinds\": {",
		ns((int64_t)(b->clock_ps - a->clock_ps)), ns((int64_t)(b->idle_ps - a->idle_ps)),
		b->untranslated - a->untranslated);
	for (unsigned int kind = 0; kind < kinds_count(); kind++) {
		const struct model_counts *x = a->counts.of[kind], *y = b->counts.of[kind];
		bool idle = !strcmp(kinds_name(kind), "idle");

		if (x[0].insns == y[0].insns && x[1].insns == y[1].insns)
			continue;
		fprintf(out, "%s\n     \"%s\": {", comma, kinds_name(kind));
		print_mode(out, "user", idle, &x[0], &y[0]);
		fputs(",\n      ", out);
		print_mode(out, "kernel", idle, &x[1], &y[1]);
		fputs("}", out);
		comma = ",";
	}
	fputs("}}", out);
}

static void print_nodes(FILE *out, const struct note *a, const struct note *b)
{
	fputs("   \"nodes\": {", out);
	for (unsigned int n = 0; n < model->config.nr_nodes; n++) {
		double busy = 0, factor = 0;
		uint64_t bytes[2] = { 0 }, time = 0;

		for (unsigned int i = 0; i < nr_cpus(); i++) {
			const struct cpu_note *x = &a->cpu[i], *y = &b->cpu[i];

			busy += y->use[n].busy_ps - x->use[n].busy_ps;
			factor += y->use[n].factor_ps - x->use[n].factor_ps;
			time += y->use_ps - x->use_ps;
			bytes[0] += y->use[n].bytes[0] - x->use[n].bytes[0];
			bytes[1] += y->use[n].bytes[1] - x->use[n].bytes[1];
		}
		fprintf(out, "%s\"%u\": {\"bytes_read\": %" PRIu64 ", \"bytes_written\": %" PRIu64
			", \"utilisation_mean\": %.4f, \"latency_factor_mean\": %.4f}", n ? ", " : "", n, bytes[0],
			bytes[1], time ? busy / (double)time : 0, time ? factor / (double)time : 1);
	}
	fputs("}", out);
}

static void print_region(FILE *out, unsigned int number, const struct note *a, const struct note *b, uint64_t skew_ps)
{
	uint64_t insns = 0, sent = 0, received = 0;

	for (unsigned int i = 0; i < nr_cpus(); i++) {
		for (unsigned int kind = 0; kind < kinds_count(); kind++) {
			for (unsigned int mode = 0; mode < 2; mode++) {
				const struct model_counts *x = &a->cpu[i].counts.of[kind][mode];
				const struct model_counts *y = &b->cpu[i].counts.of[kind][mode];

				insns += y->insns - x->insns;
				sent += y->shootdowns_sent - x->shootdowns_sent;
				received += y->shootdowns_received - x->shootdowns_received;
			}
		}
	}
	fprintf(out, "  {\"number\": %u, \"modelled_ns\": %.0f, \"guest_insns\": %" PRIu64 ", \"host_ns\": %" PRIu64
		", \"all_idle_ns\": %" PRIu64 ", \"skew_ns\": %.0f,\n   \"shootdowns\": %" PRIu64 ", \"shootdowns_received\": %" PRIu64 ", \"shootdown_ns\": %.0f,\n",
		number, ns((int64_t)(b->now_ps - a->now_ps)), insns, b->host_ns - a->host_ns,
		b->all_idle_ns - a->all_idle_ns, ns((int64_t)skew_ps), sent, received,
		ns((int64_t)(sent * model->config.shootdown_send_ps +
			     received * (model->config.shootdown_receive_ps + model_each_ps(&model->config)))));
	print_nodes(out, a, b);
	fputs(",\n   \"vcpus\": [\n", out);
	for (unsigned int i = 0; i < nr_cpus(); i++) {
		print_cpu(out, &a->cpu[i], &b->cpu[i]);
		fputs(i + 1 < nr_cpus() ? ",\n" : "\n", out);
	}
	fputs("   ]}", out);
}

/* Region K is from marker 2K-1 to the next marker 2K; region 0 is all from where the model began. */
static void print_regions(FILE *out, const struct note *end)
{
	uint64_t skew_ps = end->skew_ps;

	for (unsigned int i = 0; i < nr_notes; i++)
		skew_ps = notes[i]->skew_ps > skew_ps ? notes[i]->skew_ps : skew_ps;
	print_region(out, 0, start_note, end, skew_ps);
	for (unsigned int i = 0; i < nr_notes; i++) {
		if (notes[i]->number % 2 == 0)
			continue;
		skew_ps = 0;
		for (unsigned int j = i + 1; j < nr_notes; j++) {
			skew_ps = notes[j]->skew_ps > skew_ps ? notes[j]->skew_ps : skew_ps;
			if (notes[j]->number != notes[i]->number + 1)
				continue;
			fputs(",\n", out);
			print_region(out, notes[j]->number / 2, notes[i], notes[j], skew_ps);
			break;
		}
	}
}

static void print_per_node(FILE *out, const char *name, const uint64_t *values)
{
	fprintf(out, ", \"%s\": [", name);
	for (unsigned int n = 0; n < model->config.nr_nodes; n++)
		fprintf(out, "%s%" PRIu64, n ? ", " : "", values[n]);
	fputs("]", out);
}

static void print_series(FILE *out)
{
	fputs("\"series\": [", out);
	for (unsigned int i = 0; i < nr_steps; i++) {
		const struct step *s = &steps[i];

		fprintf(out, "%s\n {\"t_ms\": %.4f, \"insns\": %" PRIu64 ", \"app_insns\": %" PRIu64
			", \"kernel_insns\": %" PRIu64 ", \"shootdowns\": %" PRIu64, i ? "," : "",
			(double)s->t_ps / 1e9, s->insns, s->app_insns, s->kernel_insns, s->shootdowns);
		print_per_node(out, "app_misses", s->app_misses);
		print_per_node(out, "bytes", s->bytes);
		fputs("}", out);
	}
	fputs("]\n", out);
}

int report_write(const char *path)
{
	FILE *out = fopen(path, "w");
	struct note *end;

	if (!out)
		return -errno;
	pthread_mutex_lock(&lock);
	if (!start_note)
		start_note = take_note(0);
	end = take_note(0);
	if (!start_note || !end) {
		pthread_mutex_unlock(&lock);
		fclose(out);
		return -ENOMEM;
	}
	fprintf(out, "{\"schema\": \"terrace.ledger\", \"version\": 2, \"abi\": %d, \"clock\": \"%s\",\n "
		"\"machine\": {", TERRACE_PLUGIN_ABI, drive_all_idle_ns(&(uint64_t){ 0 }) ? "model" : "count");
	machine_print(out, &model->config);
	fputs("},\n \"regions\": [\n", out);
	print_regions(out, end);
	fputs("\n ],\n", out);
	print_series(out);
	fputs("}\n", out);
	free(end);
	pthread_mutex_unlock(&lock);
	return fclose(out) ? -errno : 0;
}
