// SPDX-License-Identifier: GPL-2.0
/*
 * preset: write kernel files, then run a program.
 *
 *   preset PATH=VALUE... -- CMD [ARG...]
 *
 * Ends with CMD's exit code (128 plus the number of a signal).  Prints nothing on stdout.
 *
 * NUMA balancing copies its scan delay into a task when the task is forked, so a task that exists when the
 * delay is set keeps the old one.  CMD is forked after the files are written.
 */
#define _GNU_SOURCE
#include "terrace_guest.h"

int main(int argc, char **argv)
{
	int command = 1;

	while (command < argc && strcmp(argv[command], "--"))
		command++;
	if (command < 2 || command + 1 >= argc)
		tg_die(TG_EXIT_USAGE, "usage: preset PATH=VALUE... -- CMD [ARG...]");
	for (int i = 1; i < command; i++)
		if (!strchr(argv[i], '='))
			tg_die(TG_EXIT_USAGE, "'%s' is not PATH=VALUE", argv[i]);
	for (int i = 1; i < command; i++)
		tg_set_knob(argv[i], "setting");
	return tg_run(argv + command + 1, NULL);
}
