# SPDX-License-Identifier: GPL-2.0
"""Meanings of the kernel's state words and counters, with a next step for each."""

from __future__ import annotations

#: Results of a selected folio other than promotion: counter of /proc/vmstat -> (meaning, next
#: step).
LOSSES: dict[str, tuple[str, str]] = {
    "mtier_drop_gone": ("they were freed, unmapped or moved meanwhile, or their process exited", ""),
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
        "a memory policy or cpuset of somebody who maps them forbids the target",
        "`numactl --show`, /proc/PID/numa_maps and cpuset.mems tell whose; widen it if they should move",
    ),
    "mtier_fail_isolate": ("another user (reclaim, compaction) held them", ""),
    "mtier_fail_nomem": (
        "the target node had no free page of their size",
        "let it demote: `terrace set demotion_enabled 1`; for huge pages: `terrace set promote.thp split`, "
        "or compact: echo 1 > /proc/sys/vm/compact_memory",
    ),
    "mtier_fail_busy": (
        "they were in use (referenced or locked) at that moment",
        "they are tried again when a later burst finds them",
    ),
}

#: Values of place/why, the reason why the last burst moved no more pages -> (meaning, next step).
WHY: dict[str, tuple[str, str]] = {
    "rate": (
        "the limit of the rate is reached",
        "terrace set promote.rate VALUE, if the target node has bandwidth to spare",
    ),
    "nobody": (
        "none of the slow pages that may move is used",
        "nothing; if some should be: processes younger than scan.delay_ms or of scan scale 0 are not looked at, nor is "
        "what cpuset.mems or a memory policy keeps on slow nodes",
    ),
    "no_victim": ("no page above is used less than those below, and there is no free memory", ""),
    "alike": ("pages that would change places are used alike", ""),
    "cost": ("moving more pages would cost more than it brings", ""),
    "saturated": (
        "looks as close as they can be find even the least used page above: which are used more is not to be seen",
        "",
    ),
}

#: Counters that status prints if they are not 0: counter -> meaning.
ASIDE: dict[str, str] = {
    "mtier_throttle_rate": "waits for the rate limit (promote.rate_mbps)",
    "mtier_hint_faults": "hint faults that found a slow page hot (numa_balancing 2): they leave it to the engine",
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
