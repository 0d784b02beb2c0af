# SPDX-License-Identifier: GPL-2.0
"""Memory policies of this task and of ranges, by libterrace: by the older calls where a kernel lacks the newer."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

from terrace.policy import library

MODES = ("default", "preferred", "bind", "interleave", "local", "preferred-many", "weighted-interleave")
PREFERRED, BIND, INTERLEAVE, LOCAL, PREFERRED_MANY, WEIGHTED = 1, 2, 3, 4, 5, 6

# Flags of <terrace/policy.h>
_FALLBACK = 1 << 3
_READ_FALLBACK = 1 << 1


@dataclass(frozen=True)
class Policy:
    """A policy; ``weights`` has the nodes whose weight is not the one that holds for everybody."""

    mode: int
    nodes: tuple[int, ...] = ()
    weights: dict[int, int] = field(default_factory=dict)


class PolicyCalls:
    """Policies of the running kernel; tests put another object in its place."""

    @cached_property
    def _library(self) -> ctypes.CDLL:
        return library.load()

    def has_weights(self) -> bool:
        """Whether the kernel knows weights of a task or a range."""
        return bool(self._library.terrace_supported() == 0)

    def set_task(self, policy: Policy, fallback: bool = False) -> None:
        """Make it the policy of this task, kept over exec; with ``fallback`` as far as this kernel can. Raises OSError.

        Without weights every kernel can.
        """
        with self._made(policy) as made:
            how = ctypes.c_int()
            flags = _FALLBACK if fallback or not policy.weights else 0
            _check(self._library.terrace_policy_apply_thread(made, flags, ctypes.byref(how)))

    def set_range(self, address: int, size: int, policy: Policy, fallback: bool = False) -> None:
        """Make it the policy of a range of this process, and of the shared object behind it. Raises OSError."""
        with self._made(policy) as made:
            how = ctypes.c_int()
            flags = _FALLBACK if fallback or not policy.weights else 0
            _check(self._library.terrace_policy_apply_range(made, address, size, flags, ctypes.byref(how)))

    def get_task(self) -> Policy:
        """The policy of this task, by the older call where there is no newer one. Raises OSError."""
        lib = self._library
        made = ctypes.c_void_p()
        _check(lib.terrace_policy_read_thread(ctypes.byref(made), _READ_FALLBACK))
        try:
            known = range(lib.terrace_policy_nodes(made))
            nodes = tuple(node for node in known if lib.terrace_policy_has_node(made, node))
            own = {node: weight for node in nodes if (weight := lib.terrace_policy_weight(made, node))}
            return Policy(lib.terrace_policy_mode(made), nodes, own)
        finally:
            lib.terrace_policy_free(made)

    @contextmanager
    def _made(self, policy: Policy) -> Iterator[ctypes.c_void_p]:
        """The policy as an object of the library."""
        lib = self._library
        made = ctypes.c_void_p()
        _check(lib.terrace_policy_new(ctypes.byref(made), policy.mode))
        try:
            for node in policy.nodes:
                _check(lib.terrace_policy_set_node(made, node, policy.weights.get(node, 0)))
            yield made
        finally:
            lib.terrace_policy_free(made)


def _check(ret: int) -> None:
    if ret < 0:
        raise OSError(-ret, os.strerror(-ret))
