// SPDX-License-Identifier: GPL-2.0
/*
 * Weights that hold for everybody: files, and weights from the bandwidth that
 * the machine's HMAT tells of.
 *
 * lab: topology=dram-cxl timeout=60s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mempolicy2_util.h"
#include "mtier_util.h"

#define AUTO	MP_DIR "auto"

static long long weight(int node)
{
	char file[128];

	snprintf(file, sizeof(file), MP_DIR "node%d", node);
	return mt_read_ll(file);
}

static void clean(void)
{
	mt_write(AUTO, "false");
	mt_write(MP_DIR "node0", "1");
	mt_write(MP_DIR "node1", "1");
}

static int files(void)
{
	static const char * const bad[] = {
		"0", "", "256", "-1", "x", "1 2", "\n",
	};
	size_t i;

	MT_ASSERT(weight(0) == 1 && weight(1) == 1, "after boot %lld %lld",
		  weight(0), weight(1));
	MT_ASSERT(!access(AUTO, W_OK) && access(MP_DIR "node2", F_OK),
		  "a file for each node with memory, and auto");
	for (i = 0; i < ARRAY_LEN(bad); i++)
		MT_ASSERT(!*bad[i] ||
			  mt_write(MP_DIR "node1", bad[i]) == -EINVAL,
			  "'%s' is taken", bad[i]);
	MT_ASSERT(!mt_write(MP_DIR "node1", "255\n") && weight(1) == 255,
		  "255");
	MT_ASSERT(mt_write(AUTO, "maybe") == -EINVAL, "auto: maybe");
	clean();
	return MT_PASS;
}

/*
 * 64 and 20 GB/s: no round below 9 pages reaches 31/32 of 84 GB/s, 3:1 reaches
 * 80, 7:2 reaches 82.
 */
static int automatic(void)
{
	MT_ASSERT(mt_reads(AUTO, "false"), "off until asked for");
	MT_ASSERT(!mt_write(AUTO, "true") && mt_reads(AUTO, "true"), "on");
	MT_ASSERT(weight(0) == 7 && weight(1) == 2, "auto gives %lld %lld",
		  weight(0), weight(1));
	MT_ASSERT(!mt_write(AUTO, "0") && weight(0) == 7,
		  "off keeps the weights");
	mt_write(AUTO, "1");
	MT_ASSERT(!mt_write(MP_DIR "node1", "9") && mt_reads(AUTO, "false"),
		  "setting a weight ends it");
	MT_ASSERT(weight(0) == 7 && weight(1) == 9, "other weights stay");
	clean();
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		{ "D20 files and what they take", files, 0 },
		{ "D20 weights from bandwidth", automatic, 0 },
	};

	return mp_main(checks, ARRAY_LEN(checks));
}
