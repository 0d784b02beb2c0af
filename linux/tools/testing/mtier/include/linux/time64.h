/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in: unit of time. */
#ifndef _MTIER_SHIM_TIME64_H
#define _MTIER_SHIM_TIME64_H

#define NSEC_PER_SEC	1000000000L

#endif
