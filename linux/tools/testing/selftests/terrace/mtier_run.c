// SPDX-License-Identifier: GPL-2.0
/* Checks of memory promotion: from default knobs and with the engine off. */
#define _GNU_SOURCE
#include <unistd.h>

#include "mtier_util.h"

static const char * const sabotages[] = {
	[MT_SAB_NONE] = "none",
	[MT_SAB_YOUNG] = "young",
	[MT_SAB_POLICY] = "policy",
	[MT_SAB_RECHECK] = "recheck",
	[MT_SAB_RATE] = "rate",
	[MT_SAB_SLOT] = "slot",
	[MT_SAB_COUNT] = "count",
	[MT_SAB_FLUSH] = "flush",
	[MT_SAB_RESUME] = "resume",
	[MT_SAB_PIN] = "pin",
	[MT_SAB_BOUND] = "bound",
	[MT_SAB_OWNER] = "owner",
	[MT_SAB_CHARGE] = "charge",
	[MT_SAB_COLD] = "cold",
	[MT_SAB_ASK] = "ask",
	[MT_SAB_VARIES] = "varies",
};

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
		.sabotage = MT_SABOTAGE,
		.sabotages = sabotages,
	};
	int ret;

	mt_knobs_save();
	ret = mt_run_suite(&suite, checks, n);
	mt_knobs_restore();
	return ret;
}
