# SPDX-License-Identifier: GPL-2.0
"""Meanings of the kernel's state words and counters, with a next step for each."""

from __future__ import annotations

#: Results of a selected folio other than promotion: counter of /proc/vmstat -> (meaning, next
#: step).
LOSSES: dict[str, tuple[str, str]] = {
    "mtier_drop_gone": ("they were freed, unmapped or moved, or their process exited", ""),
    "mtier_drop_pinned": (
        "they are pinned (RDMA, VFIO, io_uring buffers) and cannot move",
        "place such buffers with `numactl --membind` when the program starts",
    ),
    "mtier_drop_dirty": (
        "they are dirty file pages, which asynchronous migration skips",
        "wait for write-back (vm.dirty_writeback_centisecs); later bursts then promote them",
    ),
    "mtier_drop_type": (
        "they are of a kind that is not promoted (shared program text, KSM, device memory …)",
        "",
    ),
    "mtier_drop_policy": (
        "a memory policy or cpuset of a process that maps them forbids the target",
        "`numactl --show`, /proc/PID/numa_maps and cpuset.mems show which one; widen it if they should move",
    ),
    "mtier_fail_isolate": ("another user (reclaim, compaction) held them", ""),
    "mtier_fail_nomem": (
        "the target node had no free page of their size",
        "let it demote: `terrace set demotion_enabled 1`; for huge pages: `terrace set promote.thp split`, "
        "or compact: echo 1 > /proc/sys/vm/compact_memory",
    ),
    "mtier_fail_busy": (
        "they were in use (referenced or locked) at that moment",
        "a later burst tries them again",
    ),
}

#: Values of place/why, the reason why the last burst moved no more pages -> (meaning, next step).
WHY: dict[str, tuple[str, str]] = {
    "rate": (
        "the rate limit is reached",
        "terrace set promote.rate VALUE, if the target node has free bandwidth",
    ),
    "nobody": (
        "none of the slow pages that may migrate is accessed",
        "nothing; if some should be: processes younger than scan.delay_ms are not scanned, with scan scale 0 no page "
        "is promoted, nor is memory that cpuset.mems or a memory policy keeps on slow nodes",
    ),
    "no_victim": ("no fast page is accessed less often than the slow ones, and there is no free memory", ""),
    "alike": ("slow and fast pages are accessed equally often", ""),
    "cost": ("migrating more pages would cost more than it gains", ""),
    "saturated": (
        "scans at the shortest interval find even the coldest fast page accessed: hotter pages cannot be distinguished",
        "",
    ),
}

#: Counters that status prints if they are not 0: counter -> meaning.
ASIDE: dict[str, str] = {
    "mtier_throttle_rate": "waits for the rate limit (promote.rate_mbps)",
    "mtier_hint_faults": "hint faults that found a slow page hot (numa_balancing 2) and left it to mm/mtier",
}

#: Pages demoted, by the code that found them cold.
DEMOTED = ("pgdemote_kswapd", "pgdemote_direct", "pgdemote_khugepaged", "mtier_demoted")

#: Folios of one batch: this number may be counted as taken before their results are counted.
BATCH_FOLIOS = 512


def unaccounted(counts: dict[str, int]) -> int | None:
    """Get the number of selected folios without a result in ``counts``; None if the kernel does not
    count them.
    """
    if "mtier_taken" not in counts:
        return None
    ends = ("mtier_promoted_folios", *LOSSES)
    return counts["mtier_taken"] - sum(counts.get(name, 0) for name in ends)
