// SPDX-License-Identifier: GPL-2.0
/*
 * NUMA scanning: no MiB at a time is refused.  The number of scans that a task's memory
 * takes is a quotient by it: with 0 the kernel would divide by zero in the next scan.
 *
 * lab: topology=dram-cxl timeout=30s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "numa_scan_util.h"

#define SCAN_SIZE	NS_DEBUG "scan_size_mb"

/* With NUMA balancing off nobody divides, and what was there is put back at once. */
static int refused(const char *value)
{
	long long before = mt_read_ll(SCAN_SIZE), after;
	int ret = mt_write(SCAN_SIZE, value);

	after = mt_read_ll(SCAN_SIZE);
	MT_ASSERT(!mt_writef(SCAN_SIZE, "%lld", before), "cannot put it back");
	mt_note("writing %s returns %d, and %lld is read back", value, ret, after);
	MT_ASSERT(ret == -EINVAL || ret == -ERANGE, "%s is taken", value);
	MT_ASSERT(after == before, "it changed");
	return MT_PASS;
}

/* The last is as many pages as an unsigned int has numbers: 0 of them. */
static int no_pages(void)
{
	static const char * const values[] = { "0", "4294967296", "-1", "x", "16777216" };
	size_t i;

	MT_NEED(mt_read_ll(SCAN_SIZE) > 0, "no " SCAN_SIZE);
	MT_ASSERT(!mt_write("/proc/sys/kernel/numa_balancing", "0"), "it is on");
	for (i = 0; i < ARRAY_LEN(values); i++)
		if (refused(values[i]))
			return MT_FAIL;
	return MT_PASS;
}

static int taken(void)
{
	static const char * const values[] = { "1", "65536", "16777215" };
	long long before = mt_read_ll(SCAN_SIZE);
	size_t i;

	MT_NEED(before > 0, "no " SCAN_SIZE);
	for (i = 0; i < ARRAY_LEN(values); i++) {
		MT_ASSERT(!mt_write(SCAN_SIZE, values[i]), "%s is refused",
			  values[i]);
		MT_ASSERT(mt_read_ll(SCAN_SIZE) == atoll(values[i]),
			  "another number");
	}
	MT_ASSERT(!mt_writef(SCAN_SIZE, "%lld", before), "cannot put it back");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("scan_size_mb: 0 is refused, and what is 0 pages", no_pages),
		MT_CHECK("scan_size_mb: all else is taken", taken),
	};

	return ns_main(checks, ARRAY_LEN(checks));
}
