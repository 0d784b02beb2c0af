// SPDX-License-Identifier: GPL-2.0
/* Checks of memory promotion: from default knobs and with the engine off. */
#define _GNU_SOURCE
#include <unistd.h>

#include "mtier_util.h"

static const char *missing(void)
{
	return access(MT_DIR "enabled", W_OK) ?
	       "no " MT_DIR "enabled to write to" : NULL;
}

static void reset(void)
{
	mt_off();
	mt_knobs_default();
	mt_write("/proc/sys/kernel/numa_balancing", "0");
}

/* Run @n checks and print TAP; the return value is main()'s. */
int mt_main(const struct mt_check *checks, size_t n)
{
	static const struct mt_suite suite = {
		.missing = missing,
		.reset = reset,
	};
	int ret;

	mt_knobs_save();
	ret = mt_run_suite(&suite, checks, n);
	mt_knobs_restore();
	return ret;
}
