// SPDX-License-Identifier: GPL-2.0
/* Reading and printing the modelled machine; machine.h. */
#include <inttypes.h>
#include <string.h>

#include "machine.h"

#define MAX_WORDS	8

static const char * const cache_names[MODEL_LEVELS] = { "l1", "l2", "llc" };
static const char * const tlb_names[MODEL_TLBS] = { "dtlb_4k", "dtlb_2m", "stlb" };

/* A single number that every machine has: its name in the file and where it goes. */
struct number {
	const char *name;
	size_t offset;
	bool whole;
};

#define WHOLE(field)	{ #field, offsetof(struct model_config, field), true }
#define REAL(field)	{ #field, offsetof(struct model_config, field), false }
#define CURVE(field)	{ "curve_" #field, offsetof(struct model_config, curve.field), false }

static const struct number numbers[] = {
	WHOLE(insn_ps), WHOLE(window_ps), WHOLE(shootdown_send_ps), WHOLE(shootdown_each_ps),
	WHOLE(shootdown_receive_ps),
	REAL(overlap_random), REAL(overlap_stream), REAL(overlap_store), REAL(cores_per_cpu),
	CURVE(flat), CURVE(linear), CURVE(at_linear), CURVE(at_full), CURVE(overload),
};

#define NR_NUMBERS	(sizeof(numbers) / sizeof(numbers[0]))

static bool whole(const char *word, uint64_t limit, uint64_t *value)
{
	char end;

	return word[0] != '-' && sscanf(word, "%" SCNu64 "%c", value, &end) == 1 && *value < limit;
}

static bool real(const char *word, double *value)
{
	char end;

	return sscanf(word, "%lf%c", value, &end) == 1 && *value >= 0 && *value < 1e15;
}

static int place(const char *word, const char * const *names, int count)
{
	while (count-- && strcmp(word, names[count]))
		continue;
	return count;
}

static bool read_node(char **word, struct model_config *c)
{
	uint64_t n;

	if (!whole(word[1], MODEL_MAX_NODES, &n) || n != c->nr_nodes)
		return false;
	c->nr_nodes++;
	return whole(word[2], UINT64_MAX, &c->node[n].base) && whole(word[3], UINT64_MAX, &c->node[n].size) &&
	       whole(word[4], 1 << 21, &c->node[n].skew) && real(word[5], &c->node[n].write_cost);
}

static bool read_gap(char **word, struct model_config *c)
{
	return whole(word[1], 1ull << 52, &c->gap_base) && whole(word[2], 1ull << 52, &c->gap_size);
}

static bool read_cpu(char **word, struct model_config *c)
{
	uint64_t cpu, node;

	if (!whole(word[1], MODEL_MAX_CPUS, &cpu) || cpu != c->nr_cpus || !whole(word[2], MODEL_MAX_NODES, &node))
		return false;
	c->nr_cpus++;
	c->cpu_node[cpu] = (unsigned int)node;
	return true;
}

static bool read_access(char **word, struct model_config *c)
{
	uint64_t from, to;

	return whole(word[1], MODEL_MAX_NODES, &from) && whole(word[2], MODEL_MAX_NODES, &to) &&
	       whole(word[3], UINT32_MAX, &c->access[from][to].latency_ps) &&
	       real(word[4], &c->access[from][to].bandwidth);
}

static bool read_cache(char **word, struct model_config *c)
{
	int level = place(word[1], cache_names, MODEL_LEVELS);
	uint64_t ways;

	if (level < 0 || !whole(word[2], 1ull << 40, &c->cache[level].size) || !whole(word[3], 1024, &ways))
		return false;
	c->cache[level].ways = (unsigned int)ways;
	return whole(word[4], UINT32_MAX, &c->cache[level].latency_ps);
}

static bool read_tlb(char **word, struct model_config *c)
{
	int level = place(word[1], tlb_names, MODEL_TLBS);
	uint64_t entries, ways;

	if (level < 0 || !whole(word[2], 1 << 24, &entries) || !whole(word[3], 1024, &ways))
		return false;
	c->tlb[level].entries = (unsigned int)entries;
	c->tlb[level].ways = (unsigned int)ways;
	return whole(word[4], UINT32_MAX, &c->tlb[level].latency_ps);
}

static bool read_pde(char **word, struct model_config *c)
{
	uint64_t entries;

	if (!whole(word[1], 1 << 16, &entries))
		return false;
	c->pde_entries = (unsigned int)entries;
	return true;
}

static bool read_name(char **word, struct model_config *c)
{
	return strcspn(word[1], "\"\\") == strlen(word[1]) &&
	       (size_t)snprintf(c->name, sizeof(c->name), "%s", word[1]) < sizeof(c->name);
}

static bool read_number(const struct number *number, const char *word, struct model_config *c)
{
	char *field = (char *)c + number->offset;
	uint64_t value;
	double fraction;

	if (number->whole) {
		if (!whole(word, UINT64_MAX, &value))
			return false;
		memcpy(field, &value, sizeof(value));
		return true;
	}
	if (!real(word, &fraction))
		return false;
	memcpy(field, &fraction, sizeof(fraction));
	return true;
}

struct line_kind {
	const char *name;
	int words;
	bool (*read)(char **word, struct model_config *c);
	const char *wants;
};

static const struct line_kind line_kinds[] = {
	{ "name", 2, read_name, "name TEXT" },
	{ "gap", 3, read_gap, "gap BASE SIZE" },
	{ "node", 6, read_node, "node N BASE SIZE SKEW WRITE_COST, in order" },
	{ "cpu", 3, read_cpu, "cpu N NODE, in order" },
	{ "access", 5, read_access, "access FROM TO LATENCY_PS BYTES_PER_NS" },
	{ "cache", 5, read_cache, "cache l1|l2|llc SIZE WAYS LATENCY_PS" },
	{ "tlb", 5, read_tlb, "tlb dtlb_4k|dtlb_2m|stlb ENTRIES WAYS LATENCY_PS" },
	{ "pde", 2, read_pde, "pde ENTRIES" },
};

#define NR_LINE_KINDS	(sizeof(line_kinds) / sizeof(line_kinds[0]))

/* NULL when the line is good, else what it should be. */
static const char *read_line(char **word, int words, struct model_config *c, uint64_t *seen)
{
	for (size_t i = 0; i < NR_LINE_KINDS; i++)
		if (!strcmp(word[0], line_kinds[i].name))
			return words == line_kinds[i].words && line_kinds[i].read(word, c) ? NULL :
			       line_kinds[i].wants;
	for (size_t i = 0; i < NR_NUMBERS; i++) {
		if (strcmp(word[0], numbers[i].name))
			continue;
		*seen |= 1ull << i;
		return words == 2 && read_number(&numbers[i], word[1], c) ? NULL : "one number of at least 0";
	}
	return "one of name, gap, node, cpu, access, cache, tlb, pde, or a parameter of the model";
}

int machine_read(FILE *file, struct model_config *config, char *error, size_t size)
{
	char line[512], *word[MAX_WORDS], *rest;
	unsigned int number = 0;
	uint64_t seen = 0;

	memset(config, 0, sizeof(*config));
	while (fgets(line, sizeof(line), file)) {
		int words = 0;
		const char *wants;

		number++;
		for (char *next = strtok_r(line, " \t\n", &rest); next && words < MAX_WORDS;
		     next = strtok_r(NULL, " \t\n", &rest))
			word[words++] = next;
		if (!words || word[0][0] == '#')
			continue;
		wants = read_line(word, words, config, &seen);
		if (wants) {
			snprintf(error, size, "line %u: '%s': want %s", number, word[0], wants);
			return -1;
		}
	}
	for (size_t i = 0; i < NR_NUMBERS; i++) {
		if (!(seen >> i & 1)) {
			snprintf(error, size, "there is no line '%s'", numbers[i].name);
			return -1;
		}
	}
	return 0;
}

uint64_t machine_without_gap(const struct model_config *c, uint64_t paddr)
{
	return paddr < c->gap_base + c->gap_size ? paddr : paddr - c->gap_size;
}

void machine_print(FILE *out, const struct model_config *c)
{
	fprintf(out, "\"name\": \"%s\"", c->name);
	for (size_t i = 0; i < NR_NUMBERS; i++) {
		const char *field = (const char *)c + numbers[i].offset;
		uint64_t value;
		double fraction;

		memcpy(&value, field, sizeof(value));
		memcpy(&fraction, field, sizeof(fraction));
		if (numbers[i].whole)
			fprintf(out, ", \"%s\": %" PRIu64, numbers[i].name, value);
		else
			fprintf(out, ", \"%s\": %.6g", numbers[i].name, fraction);
	}
	fputs(",\n  \"nodes\": [", out);
	for (unsigned int n = 0; n < c->nr_nodes; n++)
		fprintf(out, "%s{\"base\": %" PRIu64 ", \"size\": %" PRIu64 ", \"write_cost\": %.6g}", n ? ", " : "",
			c->node[n].base, c->node[n].size, c->node[n].write_cost);
	fputs("],\n  \"cpu_nodes\": [", out);
	for (unsigned int i = 0; i < c->nr_cpus; i++)
		fprintf(out, "%s%u", i ? ", " : "", c->cpu_node[i]);
	fputs("],\n  \"accesses\": [", out);
	for (unsigned int i = 0, printed = 0; i < c->nr_nodes * c->nr_nodes; i++) {
		unsigned int from = i / c->nr_nodes, to = i % c->nr_nodes;

		if (c->access[from][to].latency_ps)
			fprintf(out, "%s{\"from\": %u, \"to\": %u, \"latency_ps\": %" PRIu64
				", \"bytes_per_ns\": %.6g}", printed++ ? ", " : "", from, to,
				c->access[from][to].latency_ps, c->access[from][to].bandwidth);
	}
	fputs("],\n  \"caches\": {", out);
	for (int i = 0; i < MODEL_LEVELS; i++)
		fprintf(out, "%s\"%s\": {\"size\": %" PRIu64 ", \"ways\": %u, \"latency_ps\": %" PRIu64 "}",
			i ? ", " : "", cache_names[i], c->cache[i].size, c->cache[i].ways, c->cache[i].latency_ps);
	fputs("},\n  \"tlbs\": {", out);
	for (int i = 0; i < MODEL_TLBS; i++)
		fprintf(out, "%s\"%s\": {\"entries\": %u, \"ways\": %u, \"latency_ps\": %" PRIu64 "}",
			i ? ", " : "", tlb_names[i], c->tlb[i].entries, c->tlb[i].ways, c->tlb[i].latency_ps);
	fprintf(out, "}, \"pde_entries\": %u", c->pde_entries);
}
