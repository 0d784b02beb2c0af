// SPDX-License-Identifier: GPL-2.0
/*
 * withpolicy: run a program under a memory policy of the stock kernel, which it inherits.
 *
 *   withpolicy bind|interleave|weighted NODES PROGRAM [ARGUMENT ...]
 *
 * NODES is a list such as 0,2-3.  weighted needs Linux 6.9; its weights are those of
 * /sys/kernel/mm/mempolicy/weighted_interleave.  It is what numactl does for static guests without it.
 */
#define _GNU_SOURCE
#include "terrace_guest.h"

static const struct {
	const char *name;
	int mode;
} modes[] = { { "bind", 2 }, { "interleave", 3 }, { "weighted", 6 } };

static void parse_nodes(const char *text, unsigned long *mask)
{
	const char *next = text;

	do {
		char *end;
		unsigned long low = strtoul(next, &end, 10), high = low;

		if (end != next && *end == '-')
			high = strtoul(next = end + 1, &end, 10);
		if (end == next || low > high || high >= TG_MAX_NODES || (*end && *end != ','))
			tg_die(TG_EXIT_USAGE, "'%s' is not a list of nodes such as 0,2-3", text);
		for (; low <= high; low++)
			mask[low / 64] |= 1ul << (low % 64);
		next = *end ? end + 1 : end;
	} while (*next);
}

int main(int argc, char **argv)
{
	unsigned long mask[TG_MAX_NODES / 64] = { 0 };
	int mode = -1;

	if (argc < 4)
		tg_die(TG_EXIT_USAGE, "usage: withpolicy bind|interleave|weighted NODES PROGRAM [ARGUMENT ...]");
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(argv[1], modes[i].name))
			mode = modes[i].mode;
	if (mode < 0)
		tg_die(TG_EXIT_USAGE, "'%s' is not one of bind, interleave, weighted", argv[1]);
	parse_nodes(argv[2], mask);
	if (syscall(SYS_set_mempolicy, mode, mask, TG_MAX_NODES + 1))
		tg_die(TG_EXIT_FAILED, "policy %s on nodes %s: %s", argv[1], argv[2], strerror(errno));
	execv(argv[3], argv + 3);
	tg_die(TG_EXIT_FAILED, "%s: %s", argv[3], strerror(errno));
}
