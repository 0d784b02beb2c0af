// SPDX-License-Identifier: GPL-2.0
/*
 * Report what this QEMU offers to the other plugins, and refuse to load.
 *
 * One line to the standard error: "probe: vcpu=NAME clock=NAME", where NAME is the first function or
 * variable that QEMU does not export and emulator.c or drive.c needs; empty if all are there.
 * src/terrace/lab/emulator.py reads it.
 */
#include <stdio.h>

#include "drive.h"
#include "emulator.h"

int qemu_plugin_version = TERRACE_PLUGIN_ABI;

static const char *or_nothing(const char *name)
{
	return name ? name : "";
}

PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	(void)id;
	(void)info;
	(void)argc;
	(void)argv;
	fprintf(stderr, "probe: vcpu=%s clock=%s\n", or_nothing(emulator_lacks()), or_nothing(drive_setup(NULL)));
	return -1;
}
