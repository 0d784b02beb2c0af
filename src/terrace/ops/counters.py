# SPDX-License-Identifier: GPL-2.0
"""What the engine's reason counters mean, in words a person can act on."""

from __future__ import annotations

#: Ends of a queued folio other than promotion: counter of /proc/vmstat -> (meaning, next step).
LOSSES: dict[str, tuple[str, str]] = {
    "mtier_drop_full": (
        "too many pages waited, so that the oldest were dropped",
        "raise promote.queue_pages, or promote.rate if the target has bandwidth to spare",
    ),
    "mtier_drop_cold": (
        "they had cooled down before their turn came",
        "raise promote.rate to empty the queue sooner, or hot.window to count accesses longer",
    ),
    "mtier_drop_gone": ("they were freed, unmapped or moved before their turn came, or their process exited", ""),
    "mtier_drop_pinned": (
        "they are pinned (RDMA, VFIO, io_uring buffers) and cannot move",
        "place such buffers with `numactl --membind` when the program starts",
    ),
    "mtier_drop_dirty": (
        "they are dirty file pages, which asynchronous migration leaves alone",
        "wait for write-back (vm.dirty_writeback_centisecs), then they are taken",
    ),
    "mtier_drop_type": (
        "they are of a kind that is not promoted (shared program text, KSM, device memory …)",
        "",
    ),
    "mtier_drop_policy": (
        "a memory policy or cpuset of somebody who maps them forbids the target by now",
        "`numactl --show`, /proc/PID/numa_maps and cpuset.mems tell whose; widen it if they should move",
    ),
    "mtier_drop_off": ("the engine was switched off while they waited", ""),
    "mtier_fail_isolate": ("another user (reclaim, compaction) held them", ""),
    "mtier_fail_full": (
        "the target node was full",
        "let it demote: `terrace set demotion_enabled 1`; or free memory on it",
    ),
    "mtier_fail_nomem": (
        "the target node had no free page of their size",
        "for huge pages: `terrace set promote.thp split`, or compact: echo 1 > /proc/sys/vm/compact_memory",
    ),
    "mtier_fail_busy": (
        "they were in use (referenced or locked) at that moment",
        "they are tried again when next found hot",
    ),
}

#: Accessed slow pages that are not even recorded: counter -> meaning.
SKIPS: dict[str, str] = {
    "mtier_skip_pinned": "accessed pages are pinned (RDMA, VFIO, io_uring buffers) and cannot move",
    "mtier_skip_policy": "cpuset.mems or a memory policy keeps pages where they are, accessed or not: widen them",
    "mtier_skip_shared": "accessed pages are shared program text, or shared copy-on-write after fork: left alone",
}

#: Causes of a pause: counter -> meaning.
PAUSES: dict[str, str] = {
    "mtier_throttle_rate": "waits for the rate limit (promote.rate_mbps)",
    "mtier_throttle_cpu": "pauses of the scanner for its CPU cap (scan.cpu_percent)",
    "mtier_backpressure": "pauses of the scanner because a queue was filling up",
}

#: Pages demoted, by who found them cold.
DEMOTED = ("pgdemote_kswapd", "pgdemote_direct", "pgdemote_khugepaged", "mtier_demoted")
