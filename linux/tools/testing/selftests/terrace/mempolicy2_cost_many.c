// SPDX-License-Identifier: GPL-2.0
/*
 * Weighted interleave: what a page fault costs with weights on 64 nodes, compared
 * with plain interleave in the same run.  Guest time counts instructions here.
 *
 * lab: topology=many-nodes icount=3 timeout=60s debug=no
 */
#include "mempolicy2_util.h"

static int faults(void)
{
	return mp_faults_cost(1.05);
}

int main(void)
{
	static const struct mt_check checks[] = {
		{ "G28 page faults on 64 nodes", faults, 0 },
	};

	return mp_main(checks, ARRAY_LEN(checks));
}
