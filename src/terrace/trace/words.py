# SPDX-License-Identifier: GPL-2.0
"""Meanings of the words in trace events; those of `terrace status` are in `terrace.ops.counters`."""

from __future__ import annotations

#: Results of a promotion batch that did not move all of its folios.
OUTCOMES = {
    "partly": "batches of which some folios were in use",
    "nomem": "batches that found no free memory on the target",
    "busy": "batches whose folios were all in use",
}

#: Reasons why a page of automatic NUMA migration stays.
FOLLOW = {
    "dirty": "file pages that need writeback first",
    "shared": "pages that other processes map",
    "rate": "vm.migrate_on_fault_mbps is reached",
    "nomem": "too little free memory on the target node",
    "busy": "pinned, merged by KSM, or isolated",
}

#: Reasons why the memory of a task that has moved stays.
TASKS = {
    "balancing": "NUMA balancing prefers another node for the task",
    "node": "the new node has no memory, or the task may not use it",
    "policy": "the task has a memory policy",
    "threads": "it uses the memory of its parent (vfork)",
}

#: Reasons why the flush of a page was not deferred.
REFUSALS = {
    "write": "a mapping is writable",
    "pending": "another flush of its address space is pending",
    "file": "not of a regular file on a local disk",
    "open": "its file is open for writing, or it needs writeback",
    "kind": "KSM, device and poisoned pages, huge mappings, pages moved alone",
    "full": "too many deferred frames",
    "pressure": "little memory is free on its node",
    "backoff": "its address space had too many forced flushes",
}

#: Reasons why a deferred flush was forced by an interrupt.
FLUSHES = {
    "late": "a CPU did not flush in time",
    "cap": "the limit of deferred frames is reached",
    "open": "a file was opened for writing",
    "pressure": "memory is short",
    "compact": "compaction",
    "stop": "the mode was switched off",
}
