// SPDX-License-Identifier: GPL-2.0
/*
 * Weights for everybody on a machine whose firmware does not describe the
 * bandwidth of any node.
 *
 * lab: topology=dram-cxl append="numa=nohmat" timeout=60s debug=yes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "mempolicy2_util.h"
#include "mtier_util.h"

#define AUTO	MP_DIR "auto"
#define NODE0	MP_DIR "node0"
#define NODE1	MP_DIR "node1"

static int nothing_changes(void)
{
	MT_ASSERT(access("/sys/devices/system/node/node0/access1/initiators/read_bandwidth",
			 F_OK), "this machine does describe bandwidth");
	MT_ASSERT(!mt_write(NODE0, "5") && !mt_write(NODE1, "2"), "set");
	MT_ASSERT(mt_write(AUTO, "true") == -ENODEV, "auto is no ENODEV");
	MT_ASSERT(mt_reads(AUTO, "false"), "auto is on");
	MT_ASSERT(mt_read_ll(NODE0) == 5 && mt_read_ll(NODE1) == 2,
		  "weights are %lld %lld", mt_read_ll(NODE0),
		  mt_read_ll(NODE1));
	MT_ASSERT(!mt_write(AUTO, "false"), "switching it off");
	mt_write(NODE0, "1");
	mt_write(NODE1, "1");
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		{ "D20 no bandwidth is known: ENODEV, nothing changes",
		  nothing_changes, 0 },
	};

	return mp_main(checks, ARRAY_LEN(checks));
}
