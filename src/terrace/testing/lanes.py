# SPDX-License-Identifier: GPL-2.0
"""Work beside other work: each lane a process of its own, as many as the host has cores and memory for.

Only for guests whose time is counted in instructions: they use one core each and do not notice what else runs.
"""

import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any, TypeVar

from terrace.errors import TerraceError
from terrace.host import cpu_count
from terrace.lab.qemu import HOST_RESERVE, die_with_parent, host_memory

Item = TypeVar("Item")
Result = TypeVar("Result")


def lanes_for(memory: int) -> int:
    """How many guests with so many bytes of memory this host can run at once, one core each; at least 1."""
    return max(1, min(cpu_count(), (host_memory() - HOST_RESERVE) // max(1, memory)))


def deal(items: Sequence[Item], lanes: int) -> list[list[Item]]:
    """The items dealt out in turn, in their order; no lane is empty unless there are fewer items than lanes."""
    return [list(items[lane::lanes]) for lane in range(min(lanes, len(items)))]


def run_lanes(work: Callable[[Item], Iterable[Result]], items: Sequence[Item]) -> Iterator[Result]:
    """What `work` gives for each item, a process for each; what it prints comes at once.

    Results come as they are given, and can be pickled. An exception in a lane ends the others and is raised
    here, and so does one here, also Ctrl-C. Raises TerraceError for a lane that died.
    """
    fork = get_context("fork")
    lanes: list[ForkProcess] = []
    waiting: list[Connection] = []
    try:
        for item in items:
            # Made one by one: a lane that had another's end of a pipe would hide that the other was killed.
            receiver, sender = fork.Pipe(duplex=False)
            lanes.append(fork.Process(target=_lane, args=(work, item, sender)))
            lanes[-1].start()
            sender.close()
            waiting.append(receiver)
        while waiting:
            for ready in wait(waiting):
                assert isinstance(ready, Connection)
                received = _receive(ready)
                if not received:
                    waiting.remove(ready)
                yield from received
    finally:
        for lane in lanes:
            if lane.pid is not None:
                lane.terminate()
                lane.join()


def _receive(receiver: Connection) -> Sequence[Any]:
    """The next result of a lane; none when it is through."""
    try:
        results, error = receiver.recv()
    except EOFError:
        raise TerraceError("a process that runs tests was killed: did the host run out of memory?") from None
    if error is not None:
        raise error
    found: Sequence[Any] = results
    return found


def _lane(work: Callable[[Item], Iterable[Result]], item: Item, sender: Connection) -> None:
    # Whoever ends us ends us: what a handler of the parent would do is the parent's business.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    die_with_parent(signal.SIGTERM)()
    try:
        for result in work(item):
            sender.send(([result], None))
        sender.send(([], None))
    except Exception as error:
        sender.send(([], error))
