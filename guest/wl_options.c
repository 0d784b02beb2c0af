// SPDX-License-Identifier: GPL-2.0
/*
 * The workloads' options: those that all have and a workload's own, from tables; --help and the
 * "options" of the JSON come from the same tables.  A bad value ends the program with exit code 2
 * and one line that names the option, the value and what is allowed.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <sys/stat.h>

#include "wl.h"

#define MAX_OPTIONS	48u
#define MAX_KNOBS	64u

struct wl_common wl = {
	.size = 64u << 20, .threads = 2, .seed = 1, .sample_ms = 20, .probes = 512, .start_node = -1,
};

static char *early[MAX_KNOBS], *late[MAX_KNOBS];
static unsigned int nr_early, nr_late;
static const struct wl_option *all[MAX_OPTIONS];
static unsigned int nr_all;

static const struct wl_option common[] = {
	{ "size", WL_SIZE, &wl.size, 1u << 16, 1ull << 43, NULL, "memory in all, such as 64M or 1G", false },
	{ "threads", WL_NUMBER, &wl.threads, 1, WL_MAX_THREADS, NULL, "threads that do the work", false },
	{ "seed", WL_NUMBER, &wl.seed, 0, UINT32_MAX, NULL, "seed of contents and order", false },
	{ "ops", WL_NUMBER, &wl.ops, 0, 1ull << 40, NULL, "operations in all; 0: as --iterations says", false },
	{ "iterations", WL_NUMBER, &wl.iterations, 1, UINT32_MAX, NULL, "how often over the data", false },
	{ "seconds", WL_NUMBER, &wl.seconds, 0, 86400, NULL,
	  "end after so long instead; 0: after the operations", false },
	{ "start-node", WL_NODE, &wl.start_node, 0, TG_MAX_NODES - 1, NULL,
	  "where the memory lies at first; -1: wherever the kernel puts it", false },
	{ "place", WL_TEXT, &wl.place, 0, 0, NULL,
	  "file of lines 'PAGE COUNT NODE': put these pages of the arena there", false },
	{ "weights", WL_TEXT, &wl.weights, 0, 0, NULL,
	  "interleave the arena alone by weights of its own, those of nodes 0, 1, ...: 9,1", false },
	{ "thp", WL_FLAG, &wl.thp, 0, 0, NULL, "ask for huge pages; otherwise they are refused", false },
	{ "pin", WL_FLAG, &wl.pin, 0, 0, NULL, "each thread to one CPU", false },
	{ "sample-ms", WL_NUMBER, &wl.sample_ms, 1, 3600000, NULL, "interval of the placement samples", false },
	{ "probes", WL_NUMBER, &wl.probes, 1, WL_MAX_PROBES, NULL, "pages in one placement sample", false },
	{ "cgroup", WL_TEXT, &wl.cgroup, 0, 0, NULL,
	  "run in this group below /sys/fs/cgroup, with the controller cpuset; it is made", false },
	{ "burst", WL_TEXT, &wl.burst, 0, 0, NULL, "another workload, by its path, that works for a while beside", false },
	{ "burst-words", WL_TEXT, &wl.burst_words, 0, 0, NULL, "its options, with a space between them", false },
	{ "burst-ms", WL_NUMBER, &wl.burst_ms, 0, 3600000, NULL, "it begins so long after the measured part", false },
	{ "as-burst", WL_FLAG, &wl.as_burst, 0, 0, NULL, "be such a one: stop when ready, and when done", true },
	{ "set", WL_SET, &nr_early, 0, 0, NULL, "PATH=VALUE: write a kernel file before all; repeatable", false },
	{ "set-late", WL_SET, &nr_late, 0, 0, NULL,
	  "the same, when the memory has its contents, right before the measured part", false },
	{ "sabotage", WL_TEXT, &wl.sabotage, 0, 0, NULL, "damage the data, so that the check must fail", true },
	{ 0 },
};

/* One letter for some, in every workload that has the option. */
static const struct {
	char letter;
	const char *name;
} brief[] = {
	{ 's', "size" }, { 't', "threads" }, { 'i', "iterations" }, { 'd', "delay" }, { 'w', "write-percent" },
	{ 'n', "node" },
};

#define NR_BRIEF (sizeof(brief) / sizeof(brief[0]))

void wl_set_late(void)
{
	for (unsigned int i = 0; i < nr_late; i++)
		tg_set_knob(late[i], "--set-late");
}

/* Create the cgroup unless it exists, and join it; children inherit it. */
void wl_join_cgroup(void)
{
	static char control[] = "/sys/fs/cgroup/cgroup.subtree_control=+cpuset";
	char folder[256], procs[300];

	if (!wl.cgroup)
		return;
	tg_set_knob(control, "--cgroup");
	snprintf(folder, sizeof(folder), "/sys/fs/cgroup/%s", wl.cgroup);
	if (mkdir(folder, 0755) && errno != EEXIST)
		tg_die(TG_EXIT_FAILED, "--cgroup: %s: %s", folder, strerror(errno));
	snprintf(procs, sizeof(procs), "%s/cgroup.procs=0", folder);
	tg_set_knob(procs, "--cgroup");
}

/* Kept, not done: a wrong option further on must be found before anything is changed. */
static void keep_knob(const struct wl_option *o, char *text)
{
	bool is_late = o->where == &nr_late;
	unsigned int *count = o->where;

	if (!strchr(text, '='))
		tg_die(TG_EXIT_USAGE, "--%s: '%s' is not PATH=VALUE", o->name, text);
	if (*count == MAX_KNOBS)
		tg_die(TG_EXIT_USAGE, "--%s: at most %u of them", o->name, MAX_KNOBS);
	(is_late ? late : early)[(*count)++] = text;
}

static void set_choice(const struct wl_option *o, const char *text)
{
	char allowed[256] = "";

	for (unsigned int i = 0; o->words[i]; i++) {
		if (!strcmp(o->words[i], text)) {
			*(unsigned int *)o->where = i;
			return;
		}
		if (i)
			strcat(allowed, ", ");
		strcat(allowed, o->words[i]);
	}
	tg_die(TG_EXIT_USAGE, "--%s: '%s' is not one of %s", o->name, text, allowed);
}

static void set_option(const struct wl_option *o, char *text)
{
	char name[64];
	uint64_t value;

	snprintf(name, sizeof(name), "--%s", o->name);
	switch (o->kind) {
	case WL_NUMBER:
		*(uint64_t *)o->where = tg_number(name, text, o->low, o->high);
		break;
	case WL_NODE:
		*(int *)o->where = strcmp(text, "-1") ? (int)tg_number(name, text, o->low, o->high) : -1;
		break;
	case WL_SIZE:
		value = tg_size(name, text);
		if (value < o->low || value > o->high)
			tg_die(TG_EXIT_USAGE, "%s: '%s' is not from %llu to %llu bytes", name, text,
			       (unsigned long long)o->low, (unsigned long long)o->high);
		*(uint64_t *)o->where = value;
		break;
	case WL_CHOICE:
		set_choice(o, text);
		break;
	case WL_FLAG:
		*(unsigned int *)o->where = 1;
		break;
	case WL_TEXT:
		*(const char **)o->where = text;
		break;
	case WL_SET:
		keep_knob(o, text);
		break;
	}
}

/* A default outside of the allowed range stands for "not given". */
static bool is_given(const struct wl_option *o)
{
	if (o->kind == WL_NUMBER)
		return *(uint64_t *)o->where <= o->high;
	if (o->kind == WL_SIZE)
		return *(uint64_t *)o->where >= o->low;
	return o->kind != WL_NODE || *(int *)o->where <= (int)o->high;
}

/* The present value as text. */
static const char *value_of(const struct wl_option *o, char *text, size_t size)
{
	if (!is_given(o))
		return "";
	switch (o->kind) {
	case WL_NUMBER:
	case WL_SIZE:
		snprintf(text, size, "%llu", (unsigned long long)*(uint64_t *)o->where);
		return text;
	case WL_NODE:
		snprintf(text, size, "%d", *(int *)o->where);
		return text;
	case WL_CHOICE:
		return o->words[*(unsigned int *)o->where];
	default:
		return "";
	}
}

static void help(const char *name, const char *purpose)
{
	printf("usage: %s [OPTION]...\n%s\nPrints one JSON object. Options (default):\n", name, purpose);
	for (unsigned int i = 0; i < nr_all; i++) {
		const struct wl_option *o = all[i];
		char left[64], text[32];
		const char *value = value_of(o, text, sizeof(text));

		if (o->hidden)
			continue;
		snprintf(left, sizeof(left), "--%s%s", o->name,
			 o->kind == WL_FLAG ? "" : o->kind == WL_SIZE ? " SIZE" :
			 o->kind == WL_TEXT || o->kind == WL_SET || o->kind == WL_CHOICE ? " TEXT" : " N");
		printf("  %-22s %s", left, o->help);
		for (unsigned int w = 0; o->kind == WL_CHOICE && o->words[w]; w++)
			printf("%s%s", w ? ", " : ": ", o->words[w]);
		printf(*value ? " (%s)\n" : "\n", value);
	}
	printf("Exit: 0 results right, 1 results wrong or the system refused, 2 usage.\n");
	exit(0);
}

static int find_option(const char *name)
{
	for (unsigned int i = 0; i < nr_all; i++)
		if (!strcmp(all[i]->name, name))
			return (int)i;
	return -1;
}

/* A workload's own option takes the place of a common one of the same name. */
static void collect(const struct wl_option *own)
{
	for (const struct wl_option *o = own; o && o->name; o++)
		all[nr_all++] = o;
	for (const struct wl_option *o = common; o->name; o++) {
		if (find_option(o->name) < 0 && nr_all < MAX_OPTIONS)
			all[nr_all++] = o;
	}
}

void wl_parse(const struct wl_option *own, const char *name, const char *purpose, int argc, char **argv)
{
	struct option options[MAX_OPTIONS + 2] = { 0 };
	char letters[2 * NR_BRIEF + 2] = "h";
	size_t used = 1;
	int c, index = 0;

	collect(own);
	for (size_t i = 0; i < NR_BRIEF; i++) {
		if (find_option(brief[i].name) < 0)
			continue;
		letters[used++] = brief[i].letter;
		letters[used++] = ':';
	}
	for (unsigned int i = 0; i < nr_all; i++)
		options[i] = (struct option){ all[i]->name,
			all[i]->kind == WL_FLAG ? no_argument : required_argument, NULL, 1 };
	options[nr_all] = (struct option){ "help", no_argument, NULL, 'h' };
	while ((c = getopt_long(argc, argv, letters, options, &index)) != -1) {
		if (c == 'h')
			help(name, purpose);
		for (size_t i = 0; c != 1 && i < NR_BRIEF; i++)
			if (c == brief[i].letter)
				index = find_option(brief[i].name);
		if (c == '?')
			tg_die(TG_EXIT_USAGE, "try --help");
		set_option(all[index], optarg);
	}
	if (optind < argc)
		tg_die(TG_EXIT_USAGE, "unexpected argument '%s'; try --help", argv[optind]);
	if (wl.size % WL_PAGE)
		tg_die(TG_EXIT_USAGE, "--size: %llu is not a multiple of %u bytes", (unsigned long long)wl.size,
		       WL_PAGE);
	if (!wl.burst && (wl.burst_words || wl.burst_ms))
		tg_die(TG_EXIT_USAGE, "--%s: of which --burst?", wl.burst_words ? "burst-words" : "burst-ms");
	if (wl.place && (wl.thp || wl.weights))
		tg_die(TG_EXIT_USAGE, "--place: goes page by page, so without --%s", wl.thp ? "thp" : "weights");
	wl_join_cgroup();
	for (unsigned int i = 0; i < nr_early; i++)
		tg_set_knob(early[i], "--set");
}

void wl_print_options(void)
{
	const char *comma = "";

	printf("  \"options\": {");
	for (unsigned int i = 0; i < nr_all; i++) {
		const struct wl_option *o = all[i];
		char text[32];
		const char *value = value_of(o, text, sizeof(text));

		if (o->hidden || o->kind == WL_SET)
			continue;
		printf("%s\"", comma);
		for (const char *p = o->name; *p; p++)
			putchar(*p == '-' ? '_' : *p);
		if (o->kind == WL_FLAG)
			printf("\": %s", *(unsigned int *)o->where ? "true" : "false");
		else if (o->kind == WL_CHOICE)
			printf("\": \"%s\"", value);
		else if (o->kind == WL_TEXT)
			printf("\": %s", *(const char **)o->where ? "true" : "false");
		else
			printf("\": %s", *value ? value : "null");
		comma = ", ";
	}
	printf("},\n");
}
