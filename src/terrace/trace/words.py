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
    "dirty": "pages of files that have to be written back first",
    "shared": "pages that others map, who were not asked",
    "rate": "vm.migrate_on_fault_mbps is reached",
    "nomem": "too little memory is free where they should be",
    "busy": "pinned, merged by KSM, or held by somebody else",
}

#: Reasons why the memory of a task that has moved stays.
TASKS = {
    "balancing": "NUMA balancing prefers another node for the task",
    "node": "the task may have no memory on the new node, or there is none",
    "policy": "the task has a memory policy",
    "threads": "its memory is that of others, who run elsewhere",
}

#: Reasons why the flush of a page was not deferred.
REFUSALS = {
    "write": "a mapping is writable",
    "pending": "its address space is being flushed by somebody else",
    "file": "not of a regular file on a local disk",
    "open": "its file is open for writing, or it is not written back",
    "kind": "KSM, device and poisoned pages, huge mappings, pages moved alone",
    "full": "too many frames wait",
    "pressure": "little memory is free on its node",
    "backoff": "memory was short a moment ago",
}

#: Reasons why a deferred flush was forced by an interrupt.
FLUSHES = {
    "late": "waited for as long as it may",
    "cap": "as much as may waits",
    "open": "a file was opened for writing",
    "pressure": "memory is short",
    "compact": "compaction",
    "stop": "deferring was switched off",
}
